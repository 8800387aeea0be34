"""What tests of ranks and of coverage could show with so many rows in each group, before a rank is counted."""

from collections.abc import Callable

import numpy as np

from audits.conditional import Options
from audits.conditional.inputs import Inputs
from audits.conditional.rank_tests import FOLDED
from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.numbers import counted
from audits.core.wording import listed
from audits.statistics.power import needed_units
from audits.statistics.power_exact import rank_deviation, shortfall
from probes.conditional.laws import Candidate
from probes.conditional.ranks import projections

MOST_NAMED, MOST_ROWS = 4, 200_000
"""Candidates that are named, of which the rest are counted; and rows beyond which none are looked for."""


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least deviation that would be shown, in all rows and in the smallest group, by kind of candidate."""
    inputs: Inputs = plan.inputs
    made = len(projections(inputs.truth.y, options.projections, np.random.default_rng(0)).items)
    groups = {name: int(inside.sum()) for name, inside in inputs.groups.rows().items() if inside.sum() > 1}
    alike: dict[tuple[object, ...], list[Candidate]] = {}
    for one in inputs.candidates:
        # Points are no law: their ranks are not tested.
        if one.kind != "points":
            alike.setdefault((one.kind, _grain(one), one.level, one.calibration), []).append(one)
    smallest = min(groups, key=lambda name: groups[name])
    found = []
    for same in alike.values():
        tests = len(groups) * {"intervals": 1, "quantiles": len(FOLDED)}.get(same[0].kind, made)
        found += [_of(same, name, groups[name], tests, context.level) for name in dict.fromkeys(("all", smallest))]
    return tuple(found)


def _grain(one: Candidate) -> float:
    """Return the widest step between levels that draws or quantiles tell apart."""
    if one.levels is not None:
        return float(np.diff(one.levels, prepend=0.0, append=1.0).max())
    return 1 / (one.draws + 1) if one.kind == "samples" else 0.0


def _of(same: list[Candidate], group: str, rows: int, tests: int, level: float) -> Detectable:
    one, corrected = same[0], 1 - (1 - level) / tests
    names = listed([each.name for each in same[:MOST_NAMED]]) + (
        f" and {len(same) - MOST_NAMED} more" if len(same) > MOST_NAMED else ""
    )
    holm = f"Holm over {tests:,} tests of a candidate" if tests > 1 else "one test"
    size: Callable[[int], float | None]
    if one.kind == "intervals" and one.level is not None:
        held, calibration = one.level, one.calibration

        def size(count: int) -> float | None:
            return shortfall(held, count, corrected, calibration=calibration)

        what, given = f"shortfall of the coverage of {names} from {held:g}", "exact binomial"
        if calibration:
            given = f"exact beta-binomial, {counted(calibration, 'rows')} of calibration"
    else:
        grain = _grain(one)

        def size(count: int) -> float | None:
            least = rank_deviation(count, corrected)
            return None if least is None else max(least, grain)

        what, given = f"deviation of the ranks of {names} from uniform", "in the shape that is hardest to see"
        if grain:
            given += f", not below the step of {grain:.2g}"
        if one.kind == "samples":
            given += "; draws of its own in every row"

    return Detectable(
        what=f"{what}, {'in all rows' if group == 'all' else f'in group {group}'}",
        effect=size(rows),
        units=counted(rows, "rows"),
        assuming=f"{given}; {holm}",
        needed=needed_units(size, "rows", MOST_ROWS),
        possible=(0.0, 1.0),
    )
