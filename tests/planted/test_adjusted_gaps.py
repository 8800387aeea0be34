"""Do tests and intervals with other things held fixed hold where groups are many, small, uneven or unlike?"""

import numpy as np
import pytest
from calibration.adjusted_designs import WORLDS, alike, found
from scipy.stats import binom

from audits.statistics import fit_poisson_gee, wald_test
from audits.statistics.poisson_tests import freedom

KNOWN = {
    "10 of rates log-normal(1.2) against 60 all alike": 0.10,
    "10, one in five says 20 times as much and errs 5 times as often, against 60 alike": 0.13,
}
"""Where speakers who were never drawn decide: what is documented."""


@pytest.mark.parametrize("name", ["2 of 12", "4 of 10", "8 of 5", "10 against 60", *KNOWN])
def test_no_gap_is_shown_more_often_than_documented_where_there_is_none(name: str) -> None:
    share, _, trials = found(WORLDS[name], 60)
    assert trials >= 57
    assert share <= binom.ppf(0.999, trials, KNOWN.get(name, 0.05)) / trials


def test_a_real_gap_is_shown() -> None:
    assert found(WORLDS["25 against 25, a real gap of 0.12"], 30)[0] >= 0.9


def test_the_joint_test_alone_keeps_its_level_with_many_levels_of_few_speakers() -> None:
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng((4, seed))
        group, rates, words = alike(8, 5)(rng)
        design = (group[:, None] == np.arange(8)).astype(float)
        design[:, 0] = 1.0
        fit = fit_poisson_gee(rng.poisson(words * rates).astype(float), words, design, np.arange(40))
        rejected += wald_test(fit, range(1, 8)) < 0.05
        assert freedom(fit, np.eye(8)[1:]) < 25, "more degrees of freedom than eight levels of five have"
    assert rejected <= binom.ppf(0.999, 100, 0.05)
