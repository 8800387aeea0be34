"""The plan of the audit: rows, laws and groups, checked before anything is measured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audits.conditional import ALL, CLIMATOLOGY, METRICS, OUTCOMES, OWN_MEAN, Options
from audits.conditional.counts import FEW_INPUTS, Groups
from audits.conditional.rank_tests import COVERAGE, FOLDED
from audits.conditional.row_groups import grouped
from audits.core.context import Context, Plan
from audits.core.records import Coordinate, Source, Warning
from audits.statistics import generator
from probes.conditional.law_arrays import MOST
from probes.conditional.law_files import law_keys, read_candidate, read_truth
from probes.conditional.laws import Candidate, Floats, Truth
from probes.conditional.ranks import projections
from probes.core.errors import InputError
from probes.files.table_sources import reported_path, sha256_table

FEWEST_ROWS, MOST_CANDIDATES, MOST_DRAWS = 20, 40, 1000
READ = 2**22
"""Numbers of laws that are read at a time while they are checked."""
TAKEN = (CLIMATOLOGY, OUTCOMES, ALL, OWN_MEAN)
_NAME = re.compile(r"[^\W_](?:[\w .+@:()/-]{0,58}[\w.+@:()/-])?")
_PLAIN = "A name has at most 60 letters, digits, spaces and . _ + - @ : ( ) /, and no other signs."
DEFAULT = "model"
"""Name of a candidate that stands in the file of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    scale
        What distances of each column are measured in, shape (d,).
    """

    truth: Truth
    candidates: tuple[Candidate, ...]
    groups: Groups
    scale: Floats
    levels: tuple[float, ...]
    points: tuple[int, ...]


def check(options: Options, context: Context) -> Plan:
    """Check options, rows, laws and groups; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    levels = _numbers("--levels", "level", options.levels)
    points = tuple(int(one) for one in _numbers("--points", "number of points", options.points, 1000))
    truth = read_truth(
        options.data,
        target=options.target,
        inputs=options.inputs,
        mask=options.mask,
        features=options.features,
        modes=options.modes,
        decimal=options.decimal,
    )
    n, d = truth.y.shape
    if n < FEWEST_ROWS:
        hint = f"Give {FEWEST_ROWS} rows or more; hundreds for groups."
        raise InputError(f"There are {n} rows.", where=str(options.data), hint=hint)
    reach = np.ptp(truth.y, axis=0)
    if ((reach > 0) & (reach < 1 / MOST)).any():
        hint = "Multiply outcomes and laws by one number: their squares must be numbers too."
        raise InputError(f"A column of y varies by less than {1 / MOST:g}.", where=str(options.data), hint=hint)
    files = _files(options)
    candidates = tuple(
        _some_draws(read_candidate(name, path, truth, decimal=options.decimal), context.seed)
        for name, path in files.items()
    )
    if options.against is not None and options.against not in (*files, CLIMATOLOGY):
        hint = f"There are: {', '.join((*files, CLIMATOLOGY))}."
        raise InputError(f"There is no candidate {options.against[:60]!r}.", where="--against", hint=hint)
    groups, by = grouped(truth, options.by, context.seed)
    spread = truth.y.std(0)
    scaled = options.scale == "columns" and d > 1 and truth.image is None
    scale = np.where(spread > 0, spread, 1.0) if scaled else np.ones(d)
    inputs = Inputs(truth=truth, candidates=candidates, groups=groups, scale=scale, levels=levels, points=points)
    for one in candidates:
        _read_through(one)
    paths = dict.fromkeys((options.data, *files.values()))
    roles = {options.data: "rows"}
    return Plan(
        inputs=inputs,
        subject=None,
        data=tuple(
            Source(role=roles.get(path, "laws"), path=reported_path(path), sha256=sha256_table(path), items=n)
            for path in paths
        ),
        cost=_cost(inputs),
        notes=(*truth.notes, *dict.fromkeys(note for one in candidates for note in one.notes), *_notes(inputs, by)),
        warnings=tuple(_warnings(inputs)),
        coordinates=_coordinates(inputs, options),
        settings={"by": by or None},
    )


def _read_through(one: Candidate) -> None:
    """Read all laws once, so that a value that is none is refused before anything is measured."""
    step = max(1, READ // max(1, one.draws * one.d))
    for start in range(0, one.n, step):
        one.block(start, min(start + step, one.n))


def _coordinates(inputs: Inputs, options: Options) -> dict[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values."""
    names = tuple(one.name for one in inputs.candidates)
    made = projections(inputs.truth.y, options.projections, np.random.default_rng(0)).items
    given = {one.draws for one in inputs.candidates if one.kind == "points"}
    stated = {one.level for one in inputs.candidates if one.level is not None}
    modes = inputs.truth.modes
    return {
        "candidate": (*names, CLIMATOLOGY, OUTCOMES),
        "against": (*names, CLIMATOLOGY, OWN_MEAN),
        "group": (ALL, *inputs.groups.names),
        "metric": METRICS,
        "projection": (*(one.name for one in made), FOLDED[1].name, COVERAGE),
        "test": ("pit", "coverage"),
        "correction": ("none", "holm"),
        "level": tuple(sorted({*inputs.levels, *stated})),
        "points": tuple(sorted({*inputs.points, *given})),
        "reference": ("lower", "upper", "closed"),
        "order": (1, 2),
        "kind": ("marginal", "joint", "conditional"),
    } | ({} if modes is None else {"mode": tuple(range(modes.shape[1]))})


def _some_draws(one: Candidate, seed: int) -> Candidate:
    """Return a candidate with no more draws than can be compared with one another."""
    if one.kind == "points" and one.draws > MOST_DRAWS:
        hint = f"Give {MOST_DRAWS:,} points at most."
        raise InputError(f"{one.name} has {one.draws:,} points a row.", where="--candidate", hint=hint)
    if one.kind != "samples" or one.draws <= MOST_DRAWS:
        return one
    # Not the first ones, which may be the least.
    chosen = np.sort(generator(seed, "draws", one.name).permutation(one.draws)[:MOST_DRAWS])
    note = f"Of {one.draws:,} draws a row of {one.name}, {MOST_DRAWS:,} at random are judged."
    return replace(
        one,
        draws=MOST_DRAWS,
        block=lambda start, stop: {"samples": one.block(start, stop)["samples"][:, chosen]},
        notes=(*one.notes, note),
    )


def _numbers(flag: str, kind: str, texts: Sequence[str], most: int | None = None) -> tuple[float, ...]:
    """Return whole numbers from 1 to `most`; without it, numbers between 0 and 1."""
    found = []
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        right = 0 < number < 1 if most is None else 1 <= number <= most and number == int(number)
        if not right:
            what = "numbers above 0 and below 1" if most is None else f"whole numbers from 1 to {most}"
            raise InputError(f"{text[:40]!r} is no {kind}.", where=flag, hint=f"Give {what}, separated by commas.")
        found.append(number)
    return tuple(sorted(set(found)))


def _files(options: Options) -> dict[str, Path]:
    """Return the files of the candidates by name; the file of the rows where it holds laws and none is named."""
    found: dict[str, Path] = {}
    for entry in options.candidate:
        name, _, path = entry.partition("=")
        if not path or not _NAME.fullmatch(name):
            hint = f"Such as --candidate flow=flow.npz. {_PLAIN}"
            raise InputError(f"{entry[:80]!r} is not NAME=FILE.", where="--candidate", hint=hint)
        if name in (*found, *TAKEN):
            what = "names a candidate twice" if name in found else "is a name that this audit takes itself"
            hint = f"Call it otherwise, such as {name}-1={path}. Taken are {', '.join(TAKEN)}."
            raise InputError(f"{name!r} {what}.", where="--candidate", hint=hint)
        found[name] = Path(path)
    if not found and law_keys(options.data, options.target):
        found[DEFAULT] = options.data
    if not found or len(found) > MOST_CANDIDATES:
        hint = f"Give 1 to {MOST_CANDIDATES}, such as --candidate flow=flow.npz with samples of shape (n, K, d)."
        raise InputError(f"There are {len(found)} candidates.", where="--candidate", hint=hint)
    return found


def _notes(inputs: Inputs, by: str) -> list[str]:
    groups = inputs.groups
    found = []
    if groups.words:
        named = "; ".join(f"{name}: {words}" for name, words in zip(groups.names, groups.words, strict=True))
        found.append(f"Groups by {by}: {named}.")
    draws = {one.draws for one in inputs.candidates if one.kind == "samples"}
    if len(draws) > 1:
        sizes = ", ".join(f"{count}" for count in sorted(draws))
        found.append(f"Candidates have {sizes} draws a row; fair scores do not depend on that.")
    if (inputs.scale != 1).any():
        found.append("Distances of several columns are in standard deviations of y by column (--scale).")
    return found


def _warnings(inputs: Inputs) -> list[Warning]:
    found = []
    if not inputs.groups.names:
        text = "There are no groups: pooled tests pass a law that ignores its input. Give x in --data, or --by."
        found.append(Warning(id="no-groups", message=text))
    clusters = inputs.truth.clusters
    distinct = int(clusters.max()) + 1
    if distinct < min(FEW_INPUTS, len(inputs.truth.y)):
        text = f"There are {distinct} distinct inputs: rows are the units, and intervals hold for these inputs alone."
        found.append(Warning(id="few-inputs", message=text))
    if inputs.truth.oracle is None and not np.bincount(clusters).max() > 1:
        text = "There are no draws of the true law (oracle): with one outcome an input no distance given x exists."
        found.append(Warning(id="no-oracle", message=text))
    found += [
        Warning(
            id="points",
            message=f"{one.name} gives points, not draws: its ranks are not tested. See distortion and weights.",
            where={"candidate": one.name},
        )
        for one in inputs.candidates
        if one.kind == "points"
    ]
    return found


def _cost(inputs: Inputs) -> tuple[tuple[str, str], ...]:
    n, d = inputs.truth.y.shape
    # Pairs of draws, and what is done with each draw: projections, exchanges, points.
    work = sum(n * d * (one.draws or 100) * ((one.draws or 100) + 150) for one in inputs.candidates)
    seconds = 3 + work / 1.5e8 + n * 2e-4 * len(inputs.candidates)
    kinds = ", ".join(f"{one.name} ({one.kind})" for one in inputs.candidates[:8])
    return (
        ("rows", f"{n:,} of {d:,} columns"),
        ("candidates", kinds + (" and others" if len(inputs.candidates) > 8 else "")),
        ("groups", ", ".join(inputs.groups.names[:8]) or "none"),
        ("disk", "nothing beside the run folder"),
        ("time", f"about {seconds:,.0f} seconds"),
    )
