"""Pairs of runs with a known change: how often is one seen that is not there, and how often does the interval hold?"""

from typing import Any

import numpy as np
import pytest
from pairings import RATIO, table

from audits.core.records import Estimate, Report
from audits.report.comparison.pairing import Matching, Paired, matched
from audits.report.comparison.tables import Table
from audits.statistics.differences import independent_difference

RUNS = 400
SPEAKERS, CLIPS = 40, 5


def change(sample: Report, first: Table, second: Table) -> Paired:
    found = matched((sample, sample), (first, second), RATIO)
    assert isinstance(found, Matching)
    estimates = [
        Estimate(
            name="rate", value=float(one.numbers["errors"].sum() / one.numbers["size"].sum()), low=0, high=99,
            method="x", n=1, unit="x",
        )
        for one in (first, second)
    ]  # fmt: skip
    made = found.change(*estimates)
    assert isinstance(made, Paired), made
    return made


def alone(one: Table) -> tuple[float, float, float]:
    """Return the interval of one run by itself, as the same linearisation gives it."""
    errors, size, who = (one.numbers[name] for name in ("errors", "size", "who"))
    value = errors.sum() / size.sum()
    parts = np.bincount(who.astype(int), weights=(errors - value * size) / size.sum())
    half = 2.0227 * np.sqrt(len(parts) / (len(parts) - 1) * (parts**2).sum())
    return value, value - half, value + half


def drawn(rng: np.random.Generator, change: float) -> tuple[Table, Table]:
    """Draw word errors of the same clips under two systems: hard speakers and hard clips are hard for both."""
    who = np.repeat(np.arange(SPEAKERS), CLIPS)
    size = rng.integers(4, 15, len(who))
    level = (0.15 + 0.6 * rng.beta(4, 12, SPEAKERS))[who] * rng.uniform(0.6, 1.4, len(who))
    both = rng.normal(0, 0.04, (2, SPEAKERS))[:, who]
    names = {"id": range(len(who)), "who": who, "size": size}
    first, second = (
        table(errors=rng.binomial(size, np.clip(level + shift + own, 0.01, 0.99)), **names)
        for shift, own in ((0.0, both[0]), (change, both[1]))
    )
    return first, second


@pytest.fixture(scope="module")
def unchanged(sample_report: Report) -> list[tuple[Paired, tuple[float, float, float]]]:
    rng = np.random.default_rng(1)
    pairs = [drawn(rng, 0.0) for _ in range(RUNS)]
    return [(change(sample_report, *pair), independent_difference(alone(pair[0]), alone(pair[1]))) for pair in pairs]


def within_noise(share: float, expected: float) -> bool:
    return abs(share - expected) < 3 * np.sqrt(expected * (1 - expected) / RUNS)


def test_no_change_is_seen_in_one_pair_of_twenty(unchanged: list[tuple[Paired, Any]]) -> None:
    assert within_noise(np.mean([found.p < 0.05 for found, _ in unchanged]), 0.05)
    # The p-value and the interval are one statement.
    assert all((found.p < 0.05) == (not found.difference[1] <= 0 <= found.difference[2]) for found, _ in unchanged)


def test_paired_intervals_are_shorter_than_independent_ones(unchanged: list[tuple[Paired, Any]]) -> None:
    widths = [(found.difference[2] - found.difference[1], apart[2] - apart[1]) for found, apart in unchanged]
    assert np.mean([paired < independent for paired, independent in widths]) > 0.99
    assert np.mean([paired / independent for paired, independent in widths]) < 0.75


def test_a_planted_change_is_found_and_its_interval_holds_it(sample_report: Report) -> None:
    """Hardly any rate is clipped here, so that the change of the rate is the one that was planted."""
    rng = np.random.default_rng(2)
    found = [
        (change(sample_report, *pair), independent_difference(*map(alone, pair)))
        for pair in (drawn(rng, 0.05) for _ in range(RUNS))
    ]
    covered = np.mean([one.difference[1] <= 0.05 <= one.difference[2] for one, _ in found])
    assert within_noise(covered, 0.95)
    # Taken as independent, the same pairs show it far less often.
    paired, apart = (np.mean(shown) for shown in ([one.p < 0.05 for one, _ in found], [two[1] > 0 for _, two in found]))
    assert paired > 0.7 and paired > apart + 0.2


def test_shares_of_images_keep_their_level(sample_report: Report) -> None:
    """Each image is its own unit; most come out alike in both runs."""
    rng = np.random.default_rng(3)
    names = range(200)
    rejected = []
    for _ in range(RUNS):
        hard = rng.random(200)
        ends = [(hard + rng.normal(0, 0.15, 200) > 0.4) * 1.0 for _ in range(2)]
        made = change(sample_report, *(table(id=names, who=names, errors=errors, size=[1] * 200) for errors in ends))
        rejected.append(made.p < 0.05)
    assert within_noise(float(np.mean(rejected)), 0.05)
