"""Does every number of an attack, and both ends of its interval, lie where such a number can lie?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from audited_points import attack_of, inputs_of, labelled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audits.core.context import Draft
from audits.core.measures import by_name
from audits.membership import MEASURES, Options
from audits.membership.estimates import estimates
from audits.membership.measure import Counts
from audits.membership.pool import LEAST
from audits.membership.rates import advantage_of
from audits.membership.releases import Release
from audits.statistics import joint_beta
from audits.statistics.roc import Call

RANGES = {
    **dict.fromkeys(("auc", "balanced_accuracy", "balanced_accuracy_held_out", "advantage", "tpr", "leakage"), (0, 1)),
    **dict.fromkeys(("advantage_held_out", "leakage_difference"), (-1, 1)),
    **dict.fromkeys(("epsilon_lower", "epsilon_ceiling", "epsilon_credible", "hit_ratio"), (0, np.inf)),
}
"""Names of estimates and where they lie."""


@pytest.fixture(scope="module", autouse=True)
def few_nodes() -> Iterator[None]:
    """Take the mass of rates at fewer places: a credible interval keeps to its range at any number of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_beta, "NODES", 500)
        yield


def told(rows: list[np.ndarray], member: np.ndarray, **options: Any) -> Draft:
    """Return the numbers of an attack on each of several models."""
    draft = Draft(measures=by_name(MEASURES))
    models = [f"m{number}" for number in range(len(rows))]
    attacks = [attack_of("x", row, member, model=model) for model, row in zip(models, rows, strict=True)]
    inputs = inputs_of(labelled(member), releases=tuple(Release(name=model) for model in models))
    estimates(draft, Counts(inputs=inputs, options=Options(**options), level=0.95, seed=0, attacks=tuple(attacks)))
    return draft


@st.composite
def scored(draw: st.DrawFn) -> tuple[list[np.ndarray], np.ndarray]:
    """Draw scores of two models: with ties, equal, perfect, the wrong way round, on sides of any size."""
    sides = [draw(st.integers(LEAST, 45)) for _ in range(2)]
    member = np.arange(sum(sides)) < sides[0]
    rows = []
    for _ in range(2):
        kind = draw(st.sampled_from(("ties", "equal", "perfect", "flipped", "one apart")))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        noise = rng.integers(0, draw(st.sampled_from((2, 3, 50))), len(member)).astype(float)
        rows.append(
            {
                "ties": noise,
                "equal": np.full(len(member), 0.3),
                "perfect": noise + 100 * member,
                "flipped": noise - 100 * member,
                "one apart": (np.arange(len(member)) == 0).astype(float),
            }[kind]
        )
    return rows, member


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scored(), st.sampled_from(({}, {"coin_flip": 0.5}, {"selection": "bonferroni"})))
def test_every_number_and_its_interval_lie_in_their_range(
    world: tuple[list[np.ndarray], np.ndarray], options: dict[str, Any]
) -> None:
    for row in told(*world, **options).estimates:
        low, high = RANGES[row.name]
        ends = [end for end in (row.low, row.value, row.high) if end is not None]
        assert low <= min(ends) and max(ends) <= high, row
        assert ends == sorted(ends), row


@pytest.mark.parametrize("side", [*range(10, 60), 200, 300, 400, 500, 1000])
def test_the_advantage_of_right_and_wrong_calls_stays_in_its_range(side: int) -> None:
    for hits, alarms in ((side, 0), (0, side), (0, 0)):
        found = advantage_of(Call(0.0, hits, side, alarms, side), 0.95)
        assert found.low is not None and found.high is not None
        assert -1 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("options", [{}, {"coin_flip": 0.5}])
def test_equal_scores_have_the_numbers_of_a_coin_and_no_interval(options: dict[str, Any]) -> None:
    member = np.arange(400) < 200
    draft = told([np.ones(400)], member, **options)
    numbers = {row.name: row for row in draft.estimates if not row.name.startswith("epsilon")}
    assert set(numbers) == {
        name for name in RANGES if not name.startswith(("epsilon", "hit_ratio", "leakage_difference"))
    }
    for name, row in numbers.items():
        coin = {"advantage": 0.0, "advantage_held_out": 0.0, "tpr": 0.0}.get(name, 0.5)
        assert (row.value, row.low, row.high, row.method) == (coin, None, None, "none"), name
    # What is proved is nothing; a credible epsilon would be that of the prior.
    bounds = [row.value for row in draft.estimates if row.name == "epsilon_lower"]
    assert bounds and not any(bounds) and "epsilon_credible" not in {row.name for row in draft.estimates}
    assert [row.id for row in draft.warnings if row.id == "constant-scores"] == ["constant-scores"]


def test_equal_scores_on_the_judging_half_alone_are_said() -> None:
    member = np.arange(400) < 200
    scores = np.where(labelled(member).chooses, np.random.default_rng(0).normal(size=400), 0.5)
    draft = told([scores, scores], member)
    rows = [row for row in draft.estimates if row.name == "leakage"]
    assert {(row.value, row.method) for row in rows} == {(0.5, "none")}
    assert sum(row.id == "constant-scores" for row in draft.warnings) == 2
