"""Does another seed leave every interval where it was, finite and around its value?"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.speaker_groups import Options
from audits.speaker_groups.estimates import examine
from audits.speaker_groups.measure import counts_of
from calibration import asr_fairness_simulated, speaker_groups_simulated
from calibration.checks import Case

SEEDS = range(20)
SPLIT = {"confirmed_difference", "intersection_ratio"}
"""On the half of the speakers that took no part in a search: another seed asks other people."""
WHOLE = "_layer"
"""Layers are whole numbers: a range of them may begin or end at its value."""
NOTHING: Any = None
"""The inputs, where only counts are looked at."""
Kept = dict[tuple[object, ...], list[Estimate]]


def groups(case: Case) -> Kept:
    data = speaker_groups_simulated.draw(case, np.random.default_rng(3)).data
    options = Options(manifest=Path("manifest.csv"), by=("group", "side"), min_speakers=5)
    found: Kept = defaultdict(list)
    for seed in SEEDS:
        draft = Draft(level=case.level, seed=seed)
        examine(draft, counts_of(data, NOTHING, options, seed=seed, level=case.level))
        _keep(draft, found)
    return found


def fairness(case: Case) -> Kept:
    drawn = asr_fairness_simulated.draw(case, np.random.default_rng(3))
    found: Kept = defaultdict(list)
    for seed in SEEDS:
        _keep(asr_fairness_simulated.examine(drawn, case, seed)[0], found)
    return found


def _keep(draft: Draft, found: Kept) -> None:
    for row in draft.estimates:
        if row.low is not None and row.name not in SPLIT:
            found[row.name, *sorted((key, str(value)) for key, value in row.where.items())].append(row)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("audit", "world", "units"),
    [(groups, "rare-events", 10), (fairness, "informative-size", 8)],
)
def test_intervals_are_finite_hold_their_value_and_stay_where_they_are(
    audit: Callable[[Case], Kept], world: str, units: int
) -> None:
    found = audit(Case(world=world, units=units, level=0.95))
    assert len({key[0] for key in found}) > 8
    loose = {}
    for key, rows in found.items():
        ends = np.array([(row.low, row.value, row.high) for row in rows], dtype=float)
        width = float((ends[:, 2] - ends[:, 0]).mean())
        assert np.isfinite(ends).all() and (np.diff(ends, axis=1) >= 0).all(), key
        if str(key[0]).endswith("rate"):
            assert ends.min() >= 0 and ends.max() < 3, key
        # The interval of a p-value is its error of simulation, and moves with the draws.
        if key[0] == "p_value":
            continue
        touching = (ends[:, 0] == ends[:, 1]) | (ends[:, 2] == ends[:, 1])
        at_an_end = all(row.value in (0, 1) for row in rows)
        assert str(key[0]).endswith(WHOLE) or at_an_end or not touching.any(), (key, ends[touching][:1])
        if float(ends[:, [0, 2]].std(axis=0).max()) > 0.15 * width:
            loose[key] = (width, ends[:, [0, 2]].std(axis=0))
    assert loose == {}
