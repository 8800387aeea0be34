"""The numbers of the matrix: losses, cells, asymmetries, and what a language receives and causes on average."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from audits.context import Draft
from audits.interference.convergence import Baseline
from audits.interference.matrix import Judged, Matrix, Weights, combined
from audits.interference.settings import Languages
from audits.records import Coordinate, Estimate
from audits.statistics.crossed import Contrast, Crossed, Part, crossed_intervals

Key = TypeVar("Key", bound=Hashable)
UNIT = "held-out sentences"
BASELINES = ("unigram", "bigram")
FEW_SENTENCES = 10
"""Held-out sentences of equal length below which those of a language are warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contrast that was judged, and where its estimate stands in the draft."""

    judged: Judged
    place: int


@dataclass(slots=True, kw_only=True)
class Found:
    """The contrasts of the matrix by what they are of.

    Parameters
    ----------
    cells
        By (target, source).
    asymmetries
        By (a, b), a before b.
    received, caused
        Means of a row and of a column, by language.
    seed_sd
        Standard deviation of a cell over trainings, drawn from all cells; None with one seed.
    """

    cells: dict[tuple[str, str], Entry] = field(default_factory=dict)
    asymmetries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    received: dict[str, Entry] = field(default_factory=dict)
    caused: dict[str, Entry] = field(default_factory=dict)
    seed_sd: float | None = None

    def array(self, languages: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Return the cells as an array (target, source), NaN where there is none."""
        made = np.full((len(languages), len(languages)), np.nan)
        for (target, source), entry in self.cells.items():
            made[languages.index(target), languages.index(source)] = entry.judged.crossed.value
        return made


def with_of(chosen: Languages, code: str) -> str:
    """Return how a training set is named beside one of its languages.

    >>> with_of(("en",), "en"), with_of(("en", "fr"), "en"), with_of(("de", "en", "fr"), "en")
    ('en', 'fr', 'de+fr')
    """
    return "+".join(other for other in chosen if other != code) or code


def estimate(
    draft: Draft, matrix: Matrix, baselines: Mapping[str, Baseline], sets: Sequence[Languages], *, whole: bool = True
) -> Found:
    """Add the estimates of the matrix, and warnings for the cells that have none; of a part of it, its losses only."""
    found = Found()
    pairs = [chosen for chosen in sets if len(chosen) == 2]
    _add_baselines(draft, baselines, matrix.level)
    _add_losses(draft, matrix, sets)
    _say_few(draft, matrix)
    if not whole:
        return found
    wanted = [where for a, b in pairs for where in ((a, b), (b, a))]
    cells = {where: matrix.cell(*where) for where in wanted}
    made = {where: weights for where, weights in cells.items() if weights is not None}
    found.cells = _add_family(
        draft, matrix, "interference", made, lambda where: {"target": where[0], "source": where[1]}
    )
    _add_relative(draft, matrix, found)
    _say_missing(draft, matrix, sets, found)
    _add_sums(draft, matrix, found, made)
    _add_seed_deviation(draft, found, matrix.level)
    return found


def row(name: str, crossed: Crossed, level: float, where: Mapping[str, Coordinate], family: int) -> Estimate:
    """Return a contrast as an estimate; without spread over anything it has no interval."""
    known = crossed.low is not None and crossed.high is not None
    units = crossed.n if crossed.sentences_known else crossed.seeds
    return Estimate(
        name=name,
        value=crossed.value,
        low=crossed.low,
        high=crossed.high,
        level=level,
        method=_method(crossed, family) if known else "none",
        n=units,
        unit=UNIT if crossed.sentences_known else "seeds",
        where=where,
    )


def _method(crossed: Crossed, family: int) -> str:
    # Fewer than three have nothing to lend each other.
    shared = ", variances over seeds drawn together from others of its kind" if family > 2 else ""
    if not crossed.seeds_known:
        return "Student's t over held-out sentences, with one seed"
    over = f"over {crossed.seeds} seeds"
    return (
        f"Student's t {over} and held-out sentences{shared}"
        if crossed.sentences_known
        else f"Student's t {over}{shared}"
    )


def _add_family(
    draft: Draft,
    matrix: Matrix,
    name: str,
    family: Mapping[Key, Weights],
    where: Callable[[Key], Mapping[str, Coordinate]],
) -> dict[Key, Entry]:
    """Judge contrasts of one kind together and add those that can be made."""
    # Together: cells of one kind lend each other their variances over seeds, of which each has few.
    judged = matrix.judge(list(family.values()))
    found: dict[Key, Entry] = {}
    for key, one in zip(family, judged, strict=True):
        if one is None:
            draft.warn(
                "other-seeds",
                "The losses of this number have no seed in common, so that it cannot be made.",
                **where(key),
            )
            continue
        estimate = row(name, one.crossed, matrix.level, where(key), len(family))
        found[key] = Entry(judged=one, place=draft.add(estimate))
        if estimate.low is None:
            text = "Nothing varies over seeds or sentences, or there is one of each: this number has no interval."
            draft.warn("no-interval", text, **where(key))
    return found


def _add_baselines(draft: Draft, baselines: Mapping[str, Baseline], level: float) -> None:
    cells = [(code, order, getattr(one, order)) for code, one in sorted(baselines.items()) for order in BASELINES]
    family = [Contrast((Part(cell.sums[None], cell.weights, cell.factor),)) for _, _, cell in cells]
    for (code, order, _), crossed in zip(cells, crossed_intervals(family, level=level) if family else [], strict=True):
        made = row("baseline", crossed, level, {"lang": code, "order": order}, 1)
        draft.add(replace(made, method="Student's t over held-out sentences" if made.low is not None else "none"))
        if made.low is None:
            draft.warn("no-interval", "One held-out sentence: this number has no interval.", lang=code, order=order)


def _add_losses(draft: Draft, matrix: Matrix, sets: Sequence[Languages]) -> None:
    family: dict[tuple[Languages, str], Weights] = {
        (chosen, code): {(chosen, code): 1.0} for chosen in sets for code in chosen if matrix.known(chosen, code)
    }
    _add_family(draft, matrix, "loss", family, lambda key: {"lang": key[1], "with": with_of(key[0], key[1])})


def _say_few(draft: Draft, matrix: Matrix) -> None:
    """Warn of languages of which few sentences were held out, or of which a few long ones are most."""
    weights = {code: cell.weights for (_, _, code), cell in matrix.losses.cells.items()}
    for code, sizes in sorted(weights.items()):
        # As many of equal length as would be as precise (Kish 1965); of one sentence there is no interval at all.
        alike = float(sizes.sum() ** 2 / (sizes**2).sum())
        if len(sizes) > 1 and alike < FEW_SENTENCES:
            text = f"{len(sizes)} held-out sentences of {code} count as {alike:.1f} of equal length: with so few, "
            text += "intervals are too narrow, and verdicts too many, where a kind of sentence is missing among them."
            draft.warn("few-sentences", text, lang=code)


def _add_relative(draft: Draft, matrix: Matrix, found: Found) -> None:
    """Add cells as shares of the loss of the language alone, linearised: d(p/m) = dp/m - p dm/m^2."""
    shares: dict[tuple[str, str], float] = {}
    family: dict[tuple[str, str], Weights] = {}
    for target, source in found.cells:
        weights = matrix.cell(target, source)
        assert weights is not None
        alone = _value(matrix, {((target,), target): 1.0}, like=weights)
        pair = _value(matrix, {(tuple(sorted((target, source))), target): 1.0}, like=weights)
        # A loss that was measured elsewhere may be 0.
        if alone <= 0:
            draft.warn(
                "no-share", f"{target} alone loses nothing: there is no share of it.", target=target, source=source
            )
            continue
        shares[target, source] = pair / alone - 1
        family[target, source] = {key: 1 / alone if weight > 0 else -pair / alone**2 for key, weight in weights.items()}
    for (target, source), one in zip(family, matrix.judge(list(family.values())), strict=True):
        assert one is not None
        share = shares[target, source]
        low, high = one.crossed.low, one.crossed.high
        # The linearised contrast is 0 at these losses: its interval is moved to where the share is.
        moved = replace(
            one.crossed,
            value=share,
            low=None if low is None else low + share,
            high=None if high is None else high + share,
        )
        where = {"target": target, "source": source}
        draft.add(row("interference_relative", moved, matrix.level, where, len(family)))


def _value(matrix: Matrix, weights: Weights, *, like: Weights) -> float:
    """Return the value of a contrast over the seeds that another one has."""
    seeds = frozenset.intersection(*(matrix.losses.seeds(chosen, code) for chosen, code in like))
    return float(
        np.mean(
            [
                sum(weight * matrix.losses.cells[chosen, seed, code].loss for (chosen, code), weight in weights.items())
                for seed in sorted(seeds)
            ]
        )
    )


def _say_missing(draft: Draft, matrix: Matrix, sets: Sequence[Languages], found: Found) -> None:
    """Warn of every loss and cell that has no number because a model did not converge."""
    for (chosen, code), why in sorted(matrix.failed.items()):
        if len(chosen) != 2:
            draft.warn(
                "interference.not-converged",
                f"The model of {' and '.join(chosen)} has not converged on {code}: {why}.",
                **{"lang": code, "with": with_of(chosen, code)},
            )
    for chosen in sets:
        for target, source in ((chosen[0], chosen[-1]), (chosen[-1], chosen[0])) if len(chosen) == 2 else ():
            if (target, source) in found.cells:
                continue
            reasons = [
                f"the model of {' and '.join(one)}: {matrix.failed[one, target]}"
                for one in ((target,), chosen)
                if (one, target) in matrix.failed
            ]
            if reasons:
                draft.warn(
                    "interference.not-converged",
                    f"No number for {target} with {source}: {'; '.join(reasons)}.",
                    target=target,
                    source=source,
                )
            else:
                draft.warn(
                    "not-measured",
                    f"No loss of {target} under a model of {target} and {source}.",
                    target=target,
                    source=source,
                )


def _add_sums(draft: Draft, matrix: Matrix, found: Found, cells: Mapping[tuple[str, str], Weights]) -> None:
    """Add asymmetries, and the means of rows and columns."""
    both = [(a, b) for a, b in cells if a < b and (b, a) in cells and {(a, b), (b, a)} <= found.cells.keys()]
    found.asymmetries = _add_family(
        draft,
        matrix,
        "asymmetry",
        {(a, b): combined([(1.0, cells[a, b]), (-1.0, cells[b, a])]) for a, b in both},
        lambda key: {"a": key[0], "b": key[1]},
    )
    for side, (name, label) in enumerate((("received", "target"), ("caused", "source"))):
        lines: dict[str, Weights] = {}
        for code in matrix.losses.languages:
            mine = [weights for where, weights in cells.items() if where[side] == code and where in found.cells]
            if mine:
                lines[code] = combined([(1 / len(mine), weights) for weights in mine])
        made = _add_family(draft, matrix, name, lines, _line(label))
        _say_partial(draft, name, label, found)
        if side == 0:
            found.received = made
        else:
            found.caused = made


def _say_partial(draft: Draft, name: str, label: str, found: Found) -> None:
    """Warn of means over fewer cells than others have: they are of other partners."""
    side = 0 if label == "target" else 1
    counts = Counter(where[side] for where in found.cells)
    most = max(counts.values(), default=0)
    for code, count in sorted(counts.items()):
        if count < most:
            text = f"The mean of {code} ({name}) is over {count} partners, others' over {most}: they do not compare."
            draft.warn("partial-mean", text, **{label: code})


def _add_seed_deviation(draft: Draft, found: Found, level: float) -> None:
    """Add how much a cell scatters over trainings: the root of the mean variance of all cells."""
    from scipy.stats import chi2

    spreads = [(one.judged.crossed.seed_sd, one.judged.crossed.seeds) for one in found.cells.values()]
    known = [(sd, seeds) for sd, seeds in spreads if sd is not None]
    if not known:
        return
    variances = np.array([sd**2 for sd, _ in known])
    value = math.sqrt(variances.mean())
    found.seed_sd = value
    # Cells of a row share the model of their language alone: only so many are independent.
    rows = len({target for target, _ in found.cells})
    freedom = rows * (min(seeds for _, seeds in known) - 1)
    low, high = (value * math.sqrt(freedom / chi2.ppf(q, freedom)) for q in ((1 + level) / 2, (1 - level) / 2))
    draft.add(
        Estimate(
            name="seed_deviation",
            value=value,
            low=low,
            high=high,
            level=level,
            method=f"root mean square over cells, chi-square with {freedom} degrees of freedom (rows x (seeds - 1))",
            n=len(known),
            unit="cells",
        )
    )


def _line(label: str) -> Callable[[str], Mapping[str, Coordinate]]:
    return lambda code: {label: code}
