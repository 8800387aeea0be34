"""Which law describes numbers best."""

import numpy as np
import pytest

from audits.scaling.growth_claims import Law
from audits.scaling.growth_laws import LAWS, law_weights

SIZES = 64 * 2.0 ** np.arange(9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rounds", [0, 9])
def test_the_true_law_has_the_largest_weight(law: Law, rounds: int) -> None:
    exact = 3 * law.values(SIZES) + 2 * law.values(SIZES[0])
    noise = np.exp(0.03 * np.random.default_rng(2).normal(size=(rounds, SIZES.size)))
    found = law_weights(SIZES, exact * noise if rounds else exact)
    assert max(found, key=lambda one: found[one]) == law
    assert sum(found.values()) == pytest.approx(1) and list(found) == list(LAWS)


def test_three_sizes_choose_no_law_and_far_smaller_sizes_have_no_say() -> None:
    assert law_weights(SIZES[:3], SIZES[:3]) == {}
    sizes = 2.0 ** np.arange(1, 16)
    bent = np.where(sizes < 128, sizes**3 / 128**2, sizes)
    found = law_weights(sizes, bent)
    assert max(found, key=lambda one: found[one]) == Law(1)
