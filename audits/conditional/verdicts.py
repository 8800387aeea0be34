"""The verdict on a candidate in each group, and on the claims that are made of conditional quantisers.

A verdict names the largest effect among the tests that rejected; that a mode is missing, or an input ignored, is told
by numbers of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audits.conditional.counts import Counts, Rows
from audits.conditional.estimates import SMALL, loss_row, ratios_to_references, weight_error
from audits.conditional.mean_rows import mean_row, surely_below
from audits.conditional.rank_tests import LOOSE, Tested
from audits.core.intervals import Interval
from probes.conditional.laws import Floats

MISSING, COLLAPSED = 0.5, 0.01
"""Share of the outcomes at a mode below which draws miss it, and share of the error that draws hardly spread by."""
NEARLY = 0.8
"""Share of the largest effect from which a shift is the name of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said of a candidate in a group.

    Parameters
    ----------
    test
        The test that it rests on; of `covers` the one with the least p-value.
    mode
        The mode that is missing.
    detectable
        The deviation of ranks that this many rows could have shown.
    within
        Of everyone, the group whose verdict this is where ranks of all rows together show nothing.
    """

    group: str
    word: str
    test: Tested | None = None
    mode: int | None = None
    detectable: float = 1.0
    within: str = ""


def verdicts(rows: Rows, counts: Counts, tests: Sequence[Tested], level: float) -> tuple[Verdict, ...]:
    """Return the verdict of everyone, then of each group; none where nothing was tested and no reason is known."""
    if rows.kind == "points":
        return ()
    by_group: dict[str, list[Tested]] = {}
    for one in tests:
        by_group.setdefault(one.group, []).append(one)
    missing = missing_modes(rows, counts, level)
    groups = [name for name, inside in counts.groups.rows().items() if inside.sum() >= SMALL]
    found = {name: _of_group(name, by_group.get(name, []), missing.get(name), level) for name in groups}
    if "all" in found:
        found["all"] = _of_everyone(rows, counts, found, level)
    return tuple(found.values())


def _of_group(group: str, tests: Sequence[Tested], mode: int | None, level: float) -> Verdict:
    if not tests:
        return Verdict(group=group, word="undecided" if mode is None else "mode-missing", mode=mode)
    detectable = tests[0].detectable
    rejected = [one for one in tests if one.adjusted <= 1 - level]
    least = min(tests, key=lambda one: (one.adjusted, one.p))
    if mode is not None:
        return Verdict(group=group, word="mode-missing", test=least, mode=mode, detectable=detectable)
    if rejected:
        lead = _lead(rejected)
        return Verdict(group=group, word=lead.meaning[1], test=lead, detectable=detectable)
    return Verdict(
        group=group, word="covers" if detectable <= LOOSE else "undecided", test=least, detectable=detectable
    )


def _lead(rejected: Sequence[Tested]) -> Tested:
    """Return the largest effect; a shift that is nearly as large, for it moves distances from the draws' mean too."""
    lead = max(rejected, key=lambda one: one.meaning[0])
    shifts = [one for one in rejected if one.meaning[1] == "shifted" and one.meaning[0] >= NEARLY * lead.meaning[0]]
    return max(shifts, key=lambda one: one.meaning[0]) if shifts else lead


def _of_everyone(rows: Rows, counts: Counts, found: Mapping[str, Verdict], level: float) -> Verdict:
    own = found["all"]
    wrong = [one for name, one in found.items() if name != "all" and one.word not in ("covers", "undecided")]
    # Draws that have collapsed, or miss a mode, fail in a way that says more.
    plain = own.mode is None and not _collapsed(rows)
    if plain and (wrong or own.word not in ("covers", "undecided")) and ignores_input(rows, counts, level):
        return Verdict(group="all", word="ignores-input", test=own.test, detectable=own.detectable)
    if own.word not in ("covers", "undecided") or not wrong:
        return own
    worst = max(wrong, key=lambda one: (one.mode is not None, one.test.meaning[0] if one.test else 0.0))
    return Verdict(
        group="all", word=worst.word, test=worst.test, mode=worst.mode, detectable=own.detectable, within=worst.group
    )


def _collapsed(rows: Rows) -> bool:
    return rows.spread is not None and rows.error is not None and rows.spread.mean() < COLLAPSED * rows.error.mean()


def missing_modes(rows: Rows, counts: Counts, level: float) -> dict[str, int]:
    """Return by group the mode that has surely less than half as many draws as outcomes, the worst one."""
    if rows.hits is None or counts.in_mode is None:
        return {}
    modes, groups = rows.hits.shape[2], counts.groups.rows()
    found: dict[str, tuple[float, int]] = {}
    for name, inside in groups.items():
        if inside.sum() < SMALL:
            continue
        for mode in range(modes):
            short = rows.hits[0][inside, mode] - MISSING * counts.in_mode[inside, mode]
            if surely_below(short, counts.units[inside], level, modes * len(groups)):
                found[name] = min(found.get(name, (0.0, mode)), (float(short.mean()), mode))
    return {name: mode for name, (_, mode) in found.items()}


def ignores_input(rows: Rows, counts: Counts, level: float) -> bool:
    """Tell whether nothing shows that a law follows its input, where one that knew the group alone would show it."""
    if rows.used is None or rows.knows is None:
        return False
    used = loss_row(rows.used, counts, level)
    if not isinstance(used, Interval) or used.excludes(0.0):
        return False
    # Row by row: the two have outcomes in common, so that their difference is surer than either.
    return surely_below(rows.used - rows.knows, counts.units, level, 1)


def claims(rows: Rows, counts: Counts, verdict: Verdict | None, level: float) -> dict[str, str]:
    """Return the verdicts of the claims that can be made of such a law: confirmed, refuted or undecided.

    c1: several points beat their mean, by a proper score. c2: the distortion is within a tenth of the least. c3:
    weights are those of the points' cells. c4: draws are diverse and cover.
    """
    found = {}
    score = rows.scores.get("energy", rows.scores.get("crps"))
    if rows.kind in ("points", "samples") and score is not None and rows.single is not None:
        found["c1"] = _beats_mean(rows, score - rows.single, counts, level)
    # Points that are fitted to a few draws are worse than the law is.
    if rows.distortion and rows.kind != "samples":
        found["c2"] = _near_optimum(rows, counts, level)
    if rows.cells is not None:
        found["c3"] = _weights_right(rows, counts, level)
    if rows.kind in ("samples", "normal") and verdict is not None:
        words = {"covers": "confirmed", "undecided": "undecided"}
        found["c4"] = words.get(verdict.word, "refuted")
    return found


def _beats_mean(rows: Rows, beyond: Floats, counts: Counts, level: float) -> str:
    # The mean of a few draws is farther from y than the law's: by no more than the two are apart.
    apart = 0.0 if rows.spread is None else np.sqrt(rows.spread / (rows.draws + 1))
    surely = _signed(mean_row(beyond + apart, counts.units, level), 0.0)
    refuted = _signed(mean_row(beyond, counts.units, level), 0.0) == "refuted"
    return "confirmed" if surely == "confirmed" else "refuted" if refuted else "undecided"


def _signed(row: object, limit: float) -> str:
    if not isinstance(row, Interval):
        return "undecided"
    return "confirmed" if row.below(limit) else "refuted" if row.above(limit) else "undecided"


NEAR = 1.1
"""Ratio to the least distortion within which a law is near it."""


def _near_optimum(rows: Rows, counts: Counts, level: float) -> str:
    words = []
    for points in rows.distortion:
        found = ratios_to_references(rows, counts, points, 1 - (1 - level) / len(rows.distortion))
        if found:
            high, low = found["lower"], found["upper"]
            if isinstance(low, Interval) and low.above(NEAR):
                words.append("refuted")
            # Against a reference that knows the group alone a law may win and still be far from its own optimum.
            elif counts.oracle and isinstance(high, Interval) and high.below(NEAR):
                words.append("confirmed")
            else:
                words.append("undecided")
    if "refuted" in words:
        return "refuted"
    return "confirmed" if words and set(words) == {"confirmed"} else "undecided"


NEAR_WEIGHTS = 0.05
"""Total variation between weights and frequencies of cells within which weights are right."""


def _weights_right(rows: Rows, counts: Counts, level: float) -> str:
    assert rows.cells is not None and rows.weights is not None
    return _signed(weight_error(rows.cells, rows.weights, counts, level), NEAR_WEIGHTS)
