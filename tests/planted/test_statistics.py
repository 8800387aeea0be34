"""Do the intervals cover and the tests keep their level, on speakers whose true rates are known?

Every speaker has an error rate of his own (beta), and speakers bring unequal numbers of clips: the situation in
which an interval over clips claims far too much.
"""

from typing import Any

import numpy as np
import pytest
from chance import at_most
from numpy.typing import NDArray
from recorded_clips import inputs_of

from audits.asr_fairness import Options
from audits.asr_fairness.cohort import Cohort
from audits.asr_fairness.comparisons import compare
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.estimates import add_corrected, add_gaps, add_rates
from audits.asr_fairness.findings import findings
from audits.asr_fairness.measure import Counts
from audits.core.context import Draft
from audits.core.groups import group_sets, reported_groups
from audits.statistics import (
    cluster_weights,
    independent_difference,
    linearised_differences,
    monte_carlo_p,
    permuted_group_sums,
    rate_intervals,
    ratio,
    resampled_sums,
    simultaneous_contrasts,
    wilson,
)

Floats = NDArray[np.float64]


def speakers(
    count: int, rate: float, rng: np.random.Generator, *, spread: float = 0.15, most: int = 60
) -> tuple[Floats, Floats]:
    """Draw errors and clips of speakers whose rates have this mean and this intra-speaker correlation."""
    concentration = 1 / spread - 1
    own = rng.beta(rate * concentration, (1 - rate) * concentration, count)
    clips = np.clip(np.round(rng.lognormal(2.5, 0.7, count)), 2, most)
    return rng.binomial(clips.astype(int), own).astype(float), clips


@pytest.mark.parametrize(("count", "rate"), [(25, 0.3), (40, 0.15), (60, 0.1)])
def test_intervals_over_speakers_cover_and_those_over_clips_do_not(count: int, rate: float) -> None:
    rng = np.random.default_rng(20)
    replications = 800
    covered = naive = 0
    for _ in range(replications):
        errors, clips = speakers(count, rate, rng)
        found = rate_intervals(errors[:, None], clips[:, None])
        covered += bool(found.low[0] <= rate <= found.high[0])
        low, high = wilson(int(errors.sum()), int(clips.sum()))
        naive += low <= rate <= high
    assert 0.93 <= covered / replications <= 0.99, covered / replications
    assert naive / replications < 0.75


def test_groups_without_an_error_keep_room_for_one() -> None:
    rng = np.random.default_rng(4)
    covered = empty = 0
    for _ in range(400):
        # One bad speaker in fifty: about half of the samples of 30 speakers hold none.
        own = np.where(rng.random(30) < 0.02, 0.9, 0.0)
        errors = rng.binomial(8, own).astype(float)[:, None]
        found = rate_intervals(errors, np.full((30, 1), 8.0))
        if errors.sum() == 0:
            empty += 1
            covered += bool(found.low[0] <= 0.018 <= found.high[0])
            assert found.method == ("Clopper-Pearson over clusters",)
    assert empty > 100
    assert covered == empty


def test_independent_differences_cover() -> None:
    rng = np.random.default_rng(8)
    replications, independent = 400, 0
    for _ in range(replications):
        other, sizes = speakers(40, 0.2, rng)
        one, one_sizes = speakers(40, 0.3, rng)
        intervals = [rate_intervals(e[:, None], n[:, None]) for e, n in ((other, sizes), (one, one_sizes))]
        ends = [(float(i.value[0]), float(i.low[0]), float(i.high[0])) for i in intervals]
        low, high = independent_difference(ends[0], ends[1])[1:]
        independent += low <= 0.1 <= high
    assert 0.92 <= independent / replications <= 0.985, independent / replications


def compared(groups: int, rates: Floats, rng: np.random.Generator) -> tuple[bool, bool]:
    """Return whether any pair of groups excludes zero, and whether the permutation test rejects."""
    sizes = rng.integers(10, 30, groups)
    parts = [speakers(int(size), rate, rng) for size, rate in zip(sizes, rates, strict=True)]
    labels = np.repeat(np.arange(groups), sizes)
    errors, clips = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    member = (labels[:, None] == np.arange(groups)).astype(float)
    weights = cluster_weights(len(labels), 500, rng)
    drawn = ratio(resampled_sums(weights, errors[:, None] * member), resampled_sums(weights, clips[:, None] * member))
    points = ratio((errors[:, None] * member).sum(0), (clips[:, None] * member).sum(0))
    pairs = np.array([np.eye(groups)[a] - np.eye(groups)[b] for a in range(groups) for b in range(a)])
    found = simultaneous_contrasts(points, drawn, pairs, sizes)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    sums = np.stack([errors, clips], axis=1)[:, None] * member[:, :, None]
    shuffled = np.concatenate(list(permuted_group_sums(sums, member > 0, 250, rng)))
    share = shuffled[..., 0] / shuffled[..., 1]
    p, low, high = monte_carlo_p(float(np.ptp(points)), np.ptp(share, axis=1))
    assert low <= p <= high
    return bool(((found.low > 0) | (found.high < 0)).any()), p <= 0.05


@pytest.mark.parametrize("groups", [2, 6])
def test_bounds_of_one_side_fail_as_often_as_stated_and_reach_further(groups: int) -> None:
    rng = np.random.default_rng(50 + groups)
    against = np.array([np.eye(groups)[place] - np.eye(groups)[0] for place in range(1, groups)])
    outcomes = []
    for _ in range(200):
        parts = [speakers(25, 0.2, rng) for _ in range(groups)]
        member = (np.repeat(np.arange(groups), 25)[:, None] == np.arange(groups)).astype(float)
        errors, clips = (np.concatenate([part[place] for part in parts])[:, None] * member for place in (0, 1))
        weights = cluster_weights(len(member), 500, rng)
        drawn = ratio(resampled_sums(weights, errors), resampled_sums(weights, clips))
        points, people = ratio(errors.sum(0), clips.sum(0)), np.full(groups, 25)
        one, both = (
            simultaneous_contrasts(points, drawn, against, people, one_sided=one_sided) for one_sided in (True, False)
        )
        assert (one.low > both.low).all() and (one.high < both.high).all()
        outcomes.append(((one.low > 0).any(), (one.high < 0).any()))
    for wrong in np.array(outcomes).sum(0):
        assert 0.015 * 200 <= wrong <= at_most(0.05, 200), wrong


@pytest.mark.parametrize("groups", [2, 6])
def test_gaps_that_are_not_there_are_found_no_more_often_than_stated(groups: int) -> None:
    rng = np.random.default_rng(30 + groups)
    outcomes = np.array([compared(groups, np.full(groups, 0.2), rng) for _ in range(200)])
    assert outcomes[:, 0].sum() <= at_most(0.05, 200), outcomes.mean(0)
    assert outcomes[:, 1].sum() <= at_most(0.05, 200), outcomes.mean(0)
    # A test that never rejects would pass, too.
    assert outcomes[:, 1].sum() >= 2


@pytest.mark.parametrize("groups", [2, 6])
def test_a_planted_gap_is_found(groups: int) -> None:
    rng = np.random.default_rng(50 + groups)
    rates = np.full(groups, 0.1)
    rates[-1] = 0.5
    outcomes = np.array([compared(groups, rates, rng) for _ in range(30)])
    assert (outcomes.sum(0) >= 28).all(), outcomes.mean(0)


def people(count: int, rng: np.random.Generator) -> list[dict[str, str]]:
    """Give every speaker a coin and a region, whatever he says and hears."""
    regions = rng.permutation(np.repeat(["north", "south", "west"], [count // 2, count // 4, count - 3 * (count // 4)]))
    coins = np.where(rng.random(count) < 0.5, "head", "tail")
    return [{"coin": str(coin), "region": str(region)} for coin, region in zip(coins, regions, strict=True)]


def audited(attributes: list[dict[str, str]], own: Floats, rng: np.random.Generator, tmp: Any) -> Draft:
    """Judge synthetic counts as the audit does; `own` is every speaker's error rate on every layer."""
    each = rng.integers(4, 13, len(attributes))
    speaker = np.repeat(np.arange(len(attributes)), each)
    wrong = (rng.random((len(speaker), own.shape[1])) < own[speaker]).astype(float)
    counts = TaskCounts(
        task="sid", metric="error", layers=tuple(range(own.shape[1])), clips=np.arange(len(speaker)), errors=wrong,
        hits=1 - wrong, sizes=np.ones(len(speaker)),
    )  # fmt: skip
    clips = [attributes[place] for place in speaker]
    sets = group_sets(clips, ["coin", "region"], max_order=2)
    found = Counts(
        inputs=inputs_of([f"{number:04d}" for number in speaker], clips, sets),
        options=Options(
            model="m", manifest=tmp, by=("coin", "region"), min_speakers=5, bootstrap=400, permutations=400
        ),
        tasks=(counts,),
        seed=int(rng.integers(2**31)),
    )
    draft = Draft()
    add_rates(draft, counts, found.cohort)
    assert len(found.comparisons) == 3
    for comparison in found.comparisons:
        add_gaps(draft, comparison)
    add_corrected(draft, found.comparisons)
    findings(draft, found)
    return draft


def gaps(draft: Draft) -> list[Any]:
    return [finding for finding in draft.findings if finding.id == "fairness.gap"]


LAYERS = 4


def own_rates(base: Floats, rng: np.random.Generator) -> Floats:
    """Draw speakers' rates around a mean, much alike on all layers, the third layer the best."""
    depth = np.array([0.1, 0.05, 0.0, 0.08])
    shift = rng.normal(0, 0.10, len(base))[:, None] + rng.normal(0, 0.03, (len(base), LAYERS))
    return np.clip(base[:, None] + depth + shift, 0.0, 1.0)


@pytest.mark.slow
def test_the_audit_raises_no_more_false_alarms_than_its_level(tmp_path: Any) -> None:
    rng = np.random.default_rng(70)
    replications = 110
    alarms = [
        len(gaps(audited(people(48, rng), own_rates(np.full(48, 0.2), rng), rng, tmp_path))) > 0
        for _ in range(replications)
    ]
    assert sum(alarms) <= at_most(0.05, replications), sum(alarms)


def gap_of(groups: tuple[int, ...], rates: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Return the ends of the gap of the second group over the first, whichever of the two is the worse."""
    member = np.repeat(np.arange(len(groups)), groups)
    errors, clips = rates(member, rng)
    counts = TaskCounts(
        task="asr", metric="wer", layers=(0,), clips=np.arange(len(member)), errors=errors[:, None],
        hits=clips[:, None] - errors[:, None], sizes=clips,
    )  # fmt: skip
    labels = [{"by": str(label)} for label in member]
    sets = group_sets(labels, ["by"], max_order=1)
    names, inside = reported_groups(labels, sets)
    weights = cluster_weights(len(member), 400, rng)
    cohort = Cohort(
        speakers=np.arange(len(member)), weights=weights, names=names, member=inside, min_speakers=5, permutations=20,
        seed=int(rng.integers(2**31)),
    )  # fmt: skip
    comparison, draft = compare(sets[0], counts, cohort), Draft()
    assert comparison is not None
    add_gaps(draft, comparison)
    gap = draft.row("gap", **comparison.at(0, kind="absolute"))
    assert gap.low is not None and gap.high is not None
    return (gap.low, gap.high) if comparison.worst(0) == "by=1" else (-gap.high, -gap.low)


def uneven(member: NDArray[np.int64], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Most speakers make no errors, and a few make many."""
    clips = np.full(len(member), 40)
    return rng.binomial(clips, rng.beta(0.15, 1.35, len(member))).astype(float), clips.astype(float)


def even(member: NDArray[np.int64], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Speakers much like each other, those of the second group a little worse."""
    clips = np.full(len(member), 40)
    own = np.where(member == 1, rng.beta(3.5, 6.5, len(member)), rng.beta(2, 8, len(member)))
    return rng.binomial(clips, own).astype(float), clips.astype(float)


@pytest.mark.parametrize(("groups", "rates", "truth"), [((10, 60), uneven, 0.0), ((20, 20), even, 0.15)])
def test_gaps_of_small_and_uneven_groups_are_covered(groups: tuple[int, int], rates: Any, truth: float) -> None:
    rng = np.random.default_rng(90)
    ends = np.array([gap_of(groups, rates, rng) for _ in range(300)])
    covered = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum()
    # By resampling alone 0.87 of the uneven are.
    assert covered >= 300 - at_most(0.05, 300), covered / 300
    assert truth == 0 or (ends[:, 0] > 0).mean() > 0.75


@pytest.mark.slow
def test_no_pattern_over_layers_is_told_where_groups_do_not_differ(tmp_path: Any) -> None:
    rng = np.random.default_rng(100)
    depth = np.concatenate([np.linspace(0.45, 0.1, 7), np.linspace(0.12, 0.4, 6)])
    told = related = 0
    for _ in range(12):
        regions = [{"coin": "head", "region": f"r{place % 6}"} for place in rng.permutation(90)]
        for person, toss in zip(regions, rng.random(90), strict=True):
            person["coin"] = "head" if toss < 0.5 else "tail"
        shift = rng.normal(0, 0.05, 90)[:, None] + rng.normal(0, 0.02, (90, 13))
        draft = audited(regions, np.clip(depth + shift, 0.0, 1.0), rng, tmp_path)
        told += any(finding.id == "fairness.layer-pattern" for finding in draft.findings)
        found = [row for row in draft.estimates if row.name == "layer_correlation" and row.where["by"] == "region"]
        related += any(row.low > 0 or row.high < 0 for row in found if row.low is not None and row.high is not None)
    # Noise alone makes the estimate differ from zero; a finding needs a gap.
    assert related >= 6
    assert told <= at_most(0.05, 12)


@pytest.mark.slow
def test_the_audit_finds_a_planted_gap_and_names_its_attribute(tmp_path: Any) -> None:
    rng = np.random.default_rng(80)
    found = blamed = 0
    for _ in range(20):
        attributes = people(48, rng)
        south = np.array([person["region"] == "south" for person in attributes])
        findings = gaps(audited(attributes, own_rates(np.where(south, 0.5, 0.15), rng), rng, tmp_path))
        found += any(item.where["by"] == "region" and item.where["group"] == "region=south" for item in findings)
        blamed += any(item.where["by"] == "coin" for item in findings)
    assert found >= 18
    assert blamed <= at_most(0.05, 20)


def two_groups(world: str, counts: tuple[int, int], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw errors and words of speakers of two groups of one rate, each (speakers, 2)."""
    first = np.arange(sum(counts)) < counts[0]
    words = np.full(len(first), 60.0)
    if world == "one dominant":
        words[0], words[counts[0]] = 60.0 * (counts[0] - 1), 60.0 * (counts[1] - 1)
    elif world == "unequal amounts":
        words = np.round(60 * np.exp(rng.normal(0, 1.2, len(first)))) + 1
    own = 0.1 * np.exp(rng.normal(0, 0.5, len(first)) - 0.125)
    member = np.stack([first, ~first], axis=1)
    return rng.poisson(own * words)[:, None] * member, words[:, None] * member


@pytest.mark.parametrize("counts", [(5, 5), (10, 60), (30, 30)])
@pytest.mark.parametrize("world", ["alike", "one dominant", "unequal amounts"])
def test_linearised_differences_allow_for_clusters_of_unequal_weight(world: str, counts: tuple[int, int]) -> None:
    rng, inside = np.random.default_rng(3), 0
    for _ in range(400):
        errors, words = two_groups(world, counts, rng)
        found = linearised_differences((errors[:, [0]], errors[:, [1]]), (words[:, [0]], words[:, [1]]))
        low, high = found.ends(0.95)
        inside += bool(low[0] <= 0 <= high[0])
    # Without degrees of freedom for unequal weights it is 0.72 to 0.93 with one dominant speaker.
    assert inside >= 400 * 0.9
