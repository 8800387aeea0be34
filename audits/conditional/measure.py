"""The measurement: one pass over the laws of every candidate, in blocks of rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.conditional import CLIMATOLOGY, Options
from audits.conditional.counts import Counts, Rows
from audits.conditional.inputs import Inputs
from audits.conditional.row_laws import NORMAL_DRAWS, Block, Shared, measured
from audits.core.context import Context
from audits.statistics import generator
from probes.conditional.law_arrays import MOST
from probes.conditional.laws import Candidate, Floats, Ints
from probes.conditional.quantisers import ENOUGH, group_reference, oracle_reference
from probes.conditional.ranks import projections
from probes.conditional.scores import coordinate_pairs
from probes.conditional.wasserstein import sliced, swapped_floor
from probes.core.errors import InputError
from probes.core.progress import Advance

CLIMATE_DRAWS = 50
"""Draws that stand for other rows' outcomes."""
SWAPS = 16
"""Random exchanges of inputs over which the loss of score is averaged."""
FITTED_ROWS, REFERENCE_ROWS, DISTANCE_ROWS = 1000, 4000, 10_000
"""Rows, at most, on whose draws points are fitted, that references are fitted on, and whose distances are taken."""
DIRECTIONS, FLOORS, PAIRS = 32, 40, 200
REPEATED = 10
"""Outcomes of one input, and such inputs, from which laws are compared given x."""
BLOCK = 2**22
"""Numbers of a block of rows."""


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Measure every candidate on every row, the references, and the distances of whole laws."""
    truth, n = inputs.truth, len(inputs.truth.y)
    y, clusters = truth.y / inputs.scale, truth.clusters
    rng = generator(context.seed, "conditional")
    swaps = np.stack([_cycle(n, rng) for _ in range(SWAPS)])
    chosen = np.sort(rng.permutation(n)[:FITTED_ROWS])
    directions = rng.normal(size=(DIRECTIONS, y.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    shared = Shared(
        y=y,
        scale=inputs.scale,
        swaps=swaps,
        projected=projections(y, options.projections, rng),
        pairs=coordinate_pairs(y.shape[1], PAIRS, rng),
        levels=inputs.levels,
        # The least of several, so that the order of the candidates does not matter.
        score_level=min((one.level for one in inputs.candidates if one.level is not None), default=None),
        score_levels=min((one.levels for one in inputs.candidates if one.levels is not None), key=list, default=None),
        points=inputs.points,
        chosen=chosen,
        modes=truth.modes,
        radius=options.mode_radius or 0.0,
        directions=directions,
        clusters=clusters,
        truth=truth,
    )
    everyone = np.zeros(n, dtype=np.int64)
    climate = _climatology(y, everyone, inputs, context.seed, CLIMATOLOGY)
    rows: dict[str, Rows] = {}
    candidates = (*inputs.candidates, climate)
    with context.progress.phase("Scoring laws", n * len(candidates), "rows") as advance:
        for one in candidates:
            full = one is not climate
            blocks = _blocks(one, shared, context.seed, advance)
            rows[one.name] = measured(one, shared, blocks, generator(context.seed, "ranks", one.name), full=full)
    rows = _with_groups_known(rows, shared, inputs, context.seed)
    if truth.oracle is None:
        rows = {name: _with_repeated(one, shared, context.seed) for name, one in rows.items()}
    counts = Counts(
        groups=inputs.groups,
        clusters=clusters,
        rows=rows,
        against=options.against or CLIMATOLOGY,
        levels=inputs.levels,
        dimensions=y.shape[1],
        in_mode=shared.in_mode(),
    )
    references, refused = _references(shared, inputs, counts, options, context)
    with context.progress.phase("Distances of laws", len(inputs.candidates), "candidates") as advance:
        distances: dict[tuple[str, int, str, str], tuple[float, Floats, int]] = {}
        for found in counts.candidates:
            distances |= _distances(found, shared, inputs, context.seed)
            advance(1)
    return replace(
        counts,
        references=references,
        refused=refused,
        oracle=truth.oracle is not None,
        distances=distances,
        pictures=_pictures(inputs, rows),
    )


def _cycle(n: int, rng: np.random.Generator) -> Ints:
    """Return a random exchange of rows that leaves none where it is."""
    order = rng.permutation(n)
    found = np.empty(n, dtype=np.int64)
    found[order] = np.roll(order, 1)
    return found


def _blocks(candidate: Candidate, shared: Shared, seed: int, advance: Advance) -> Iterator[Block]:
    """Yield the laws of consecutive rows, in the scale of distances; draws of a normal law where it is one."""
    n, d = shared.y.shape
    wide = candidate.draws or NORMAL_DRAWS
    step = BLOCK // max(wide * max(d, wide), shared.truth.oracle_draws * max(d, DIRECTIONS if d > 1 else 1))
    step = max(1, min(n, step))
    rng = generator(seed, "normal", candidate.name)
    for start in range(0, n, step):
        stop = min(start + step, n)
        arrays = dict(candidate.block(start, stop))
        for key in ("samples", "points", "mean", "std"):
            if key in arrays:
                arrays[key] = arrays[key] / shared.scale
        if any(not (np.abs(values) <= MOST).all() for values in arrays.values()):
            raise InputError(
                f"{candidate.name} holds numbers beyond {MOST:g} standard deviations.",
                where=f"rows {start} to {stop - 1} of {candidate.name}",
                hint="Divide outcomes and laws by one number: their squares must be numbers too.",
            )
        if candidate.kind == "normal":
            noise = rng.standard_normal((stop - start, NORMAL_DRAWS, d))
            arrays["samples"] = arrays["mean"][:, None] + arrays["std"][:, None] * noise
        yield Block(start, stop, arrays)
        advance(stop - start)


def _climatology(y: Floats, member: Ints, inputs: Inputs, seed: int, name: str) -> Candidate:
    """Return other rows' outcomes as draws: of rows of the same group."""
    rng, n = generator(seed, "other rows", name), len(y)
    others = np.empty((n, CLIMATE_DRAWS), dtype=np.int64)
    for group in np.unique(member):
        rows = np.flatnonzero(member == group)
        # Among all rows of the group but the own one; a row alone in its group has only itself.
        steps = rng.integers(1, max(len(rows), 2), size=(len(rows), CLIMATE_DRAWS))
        others[rows] = rows[(np.arange(len(rows))[:, None] + steps) % len(rows)]
    raw = inputs.truth.y
    return Candidate(
        name=name,
        kind="samples",
        n=n,
        d=y.shape[1],
        draws=CLIMATE_DRAWS,
        block=lambda start, stop: {"samples": raw[others[start:stop]]},
    )


def _with_groups_known(rows: Mapping[str, Rows], shared: Shared, inputs: Inputs, seed: int) -> dict[str, Rows]:
    """Return the rows with what a law that knows the group alone would lose, in the terms of the same score."""
    law = _climatology(shared.y, inputs.groups.member, inputs, seed, "groups")
    known: dict[tuple[str, tuple[float, ...]], Floats] = {}
    found = dict(rows)
    for name, one in rows.items():
        if inputs.groups.names and one.used is not None and name != CLIMATOLOGY:
            score = {"quantiles": "quantile", "intervals": "interval"}.get(one.kind, "energy")
            key = score, tuple(one.scored_at.get(score, ()))
            if key not in known:
                known[key] = shared.exchange(*key, _blocks(law, shared, seed, lambda _: None))
            found[name] = replace(one, knows=known[key])
    return found


def _with_repeated(rows: Rows, shared: Shared, seed: int) -> Rows:
    """Return the rows with distances given x, where enough inputs have several outcomes: one number an input."""
    counts = np.bincount(shared.clusters)
    inputs = np.flatnonzero(counts >= REPEATED)
    if rows.drawn is None or len(inputs) < REPEATED or rows.name == CLIMATOLOGY:
        return rows
    rng = generator(seed, "repeated inputs", rows.name)
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for one in inputs:
        here = shared.clusters == one
        for order, pairs in found.items():
            value = sliced(shared.y[here], rows.drawn[here], shared.directions, order)
            floor = swapped_floor(shared.y[here], rows.drawn[here], shared.directions, order, FLOORS, rng)
            pairs.append((value, float(floor.mean())))
    return replace(rows, conditional={order: np.array(pairs).T for order, pairs in found.items()})


def _references(
    shared: Shared, inputs: Inputs, counts: Counts, options: Options, context: Context
) -> tuple[Mapping[int, tuple[Ints, Floats, Floats]], Mapping[int, str]]:
    """Return by number of points a reference fitted on rows and held out, and why there is none."""
    found: dict[int, tuple[Ints, Floats, Floats]] = {}
    refused: dict[int, str] = {}
    wanted = sorted({points for one in counts.candidates for points in one.distortion})
    if inputs.truth.oracle is not None:
        return _row_references(shared, wanted, context)
    n = len(shared.y)
    rng = generator(context.seed, "references")
    rows = np.sort(rng.permutation(n)[:REFERENCE_ROWS])
    with context.progress.phase("Fitting references", len(wanted), "numbers of points") as advance:
        for points in wanted:
            if not inputs.groups.names:
                refused[points] = "there are neither draws of the true law nor groups of rows"
            else:
                fit, held_out, there = group_reference(
                    shared.y[rows], inputs.groups.member[rows], points, options.folds, rng, counts.units[rows]
                )
                if not there.any():
                    refused[points] = f"no group has {ENOUGH * points} rows"
                else:
                    found[points] = rows[there], fit[there], held_out[there]
            advance(1)
    return found, refused


def _row_references(
    shared: Shared, wanted: Sequence[int], context: Context
) -> tuple[Mapping[int, tuple[Ints, Floats, Floats]], Mapping[int, str]]:
    """Return references of each row's own law, fitted to its draws; blocks of rows are read once for all of them."""
    truth, rows = shared.truth, shared.chosen
    assert truth.oracle is not None
    enough = [points for points in wanted if truth.oracle_draws >= ENOUGH * points]
    refused = {
        points: f"{truth.oracle_draws} draws of the true law are fewer than {ENOUGH * points}"
        for points in wanted
        if points not in enough
    }
    parts: dict[int, list[tuple[Floats, Floats]]] = {points: [] for points in enough}
    rng = generator(context.seed, "references")
    step = max(1, BLOCK // (truth.oracle_draws * shared.y.shape[1]))
    with context.progress.phase("Fitting references", len(rows), "rows") as advance:
        for start in range(0, len(rows) if enough else 0, step):
            some = rows[start : start + step]
            draws = np.concatenate([truth.oracle(row, row + 1) for row in some]) / shared.scale
            for points, pairs in parts.items():
                pairs.append(oracle_reference(draws, points, rng))
            advance(len(some))
    found = {}
    for points, pairs in parts.items():
        fit, held_out = (np.concatenate(one) for one in zip(*pairs, strict=True))
        found[points] = (rows, fit, held_out)
    return found, refused


def _distances(
    rows: Rows, shared: Shared, inputs: Inputs, seed: int
) -> dict[tuple[str, int, str, str], tuple[float, Floats, int]]:
    """Return distances of one draw a row from the outcomes, alone and with x, beside those of swapped rows."""
    if rows.drawn is None:
        return {}
    rng = generator(seed, "distances", rows.name)
    chosen = np.zeros(len(shared.y), dtype=bool)
    chosen[generator(seed, "rows of distances").permutation(len(shared.y))[:DISTANCE_ROWS]] = True
    pairs = {"marginal": (shared.y, rows.drawn)}
    x = inputs.truth.x
    if x is not None:
        spread = np.where(x.std(0) > 0, x.std(0), 1.0)
        own = np.where(shared.y.std(0) > 0, shared.y.std(0), 1.0)
        pairs["joint"] = (
            np.concatenate([x / spread, shared.y / own], 1),
            np.concatenate([x / spread, rows.drawn / own], 1),
        )
    found = {}
    for kind, (ours, theirs) in pairs.items():
        directions = rng.normal(size=(DIRECTIONS, ours.shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        for group, member in inputs.groups.rows().items():
            inside = member & chosen
            if (kind == "joint" and group != "all") or inside.sum() < 2:
                continue
            for order in (1, 2):
                value = sliced(ours[inside], theirs[inside], directions, order)
                floor = swapped_floor(ours[inside], theirs[inside], directions, order, FLOORS, rng)
                found[rows.name, order, kind, group] = float(value), floor, int(inside.sum())
    return found


def _pictures(inputs: Inputs, rows: Mapping[str, Rows]) -> dict[str, tuple[tuple[str, Floats], ...]]:
    """Return by candidate the row that is covered best and the one worst, as grey fields: outcome and some draws."""
    found = {}
    for one in inputs.candidates:
        scores = rows[one.name].scores.get("energy")
        if inputs.truth.pictures is None or one.pictures is None or scores is None:
            continue
        shown: list[tuple[str, Floats]] = []
        for words, row in (("Best", int(scores.argmin())), ("Worst", int(scores.argmax()))):
            shown.append((f"{words}: outcome of row {row}", inputs.truth.pictures(row).mean(-1)))
            if inputs.truth.masked is not None:
                shown.append((f"{words}: what was known", _known(inputs, row)))
            shown += [(f"{words}: draw {at + 1}", draw.mean(-1)) for at, draw in enumerate(one.pictures(row, 2))]
        found[one.name] = tuple(shown)
    return found


def _known(inputs: Inputs, row: int) -> Floats:
    assert inputs.truth.pictures is not None and inputs.truth.masked is not None
    picture = inputs.truth.pictures(row)
    hidden = np.zeros(picture.size, dtype=bool)
    hidden[inputs.truth.masked] = True
    middle = float(picture.reshape(-1)[~hidden].mean()) if not hidden.all() else 0.0
    return np.asarray(np.where(hidden.reshape(picture.shape), middle, picture).mean(-1))
