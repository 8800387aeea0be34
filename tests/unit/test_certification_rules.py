"""Rules, early stopping, pilots, verdicts, and the reading of other tools' logs: the parts, one by one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audits.certification import AUDIT, Options, measure
from audits.certification.bounds import (
    Counts,
    Interval,
    choose_interval,
    fullest_rival,
    vote_limits,
)
from audits.certification.certificates import ABSTAIN, Verdict, judge
from audits.certification.estimates import estimates
from audits.certification.findings import findings
from audits.certification.inputs import Inputs, check
from audits.certification.log_fit import implied_alpha, reachable
from audits.certification.logs import Log, read_log
from audits.certification.parts import distinct
from audits.certification.radii import Geometry, ceiling, least_draws, rounded_down
from audits.certification.records import log as log_bytes
from audits.certification.rules import Rule, geometric_looks, grid, parse_radii, rule_of, too_few
from audits.certification.sampling import Drawn, decided, interval_of, limits_of, pilot_draws
from audits.core.context import Cache, Context, Draft
from audits.core.options import check_record, later_defaults
from audits.statistics.binomial import lower_limit
from probes.classifiers.smoothing import MOST, ONE, VoteCounts
from probes.core.errors import InputError


def ruled(*, images: int = 1, **options: Any) -> Rule:
    return rule_of(Options(**{"sigma": 0.5, **options}), images=images)


def estimated(verdicts: Sequence[Verdict], rule: Rule, log: Log | None = None, *, judged: bool = False) -> Draft:
    """Return the draft of these certificates: estimates, and where asked findings and warnings."""
    inputs = Inputs(rule=rule, given=len(verdicts), log=log)
    counts, draft = measure.Counts(inputs=inputs, verdicts=tuple(verdicts)), Draft(measures=AUDIT.by_name)
    estimates(draft, counts)
    if judged:
        findings(draft, counts)
    return draft


def tally(*votes: int) -> VoteCounts:
    counts = torch.tensor(votes)
    return VoteCounts(int(counts.sum()), counts, counts * 0, counts * 0)


def soft_tally(outputs: Any) -> VoteCounts:
    """Count soft outputs of shape (draws, classes) as the sampler does."""
    whole = (torch.as_tensor(outputs) * ONE).long()
    votes = whole.argmax(1).bincount(minlength=whole.shape[1])
    return VoteCounts(len(whole), votes, whole.sum(0), (whole**2).sum(0))


def drawn(selection: VoteCounts, *looks: VoteCounts, label: int = 0) -> Drawn:
    return Drawn(index=4, label=label, clean=0, selection=selection, looks=looks, seconds=1.25)


@settings(max_examples=400)
@given(radius=st.floats(1e-9, 1e6))
def test_a_radius_is_never_rounded_up(radius: float) -> None:
    found = rounded_down(radius)
    assert found <= radius
    # Below one step of the print, and of float64 where numbers are large.
    assert Decimal(radius) - Decimal(found) < Decimal("1e-6") + Decimal(math.ulp(radius))
    assert rounded_down(found) == found
    assert float(f"{found:.6f}") == found


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (0.4999999, 0.499999),
        (0.5, 0.5),
        (0.1 + 0.2, 0.3),
        (0.3, 0.3),
        (math.nextafter(0.25, 0), 0.249999),
        (1e-7, 0.0),
        (0.0, 0.0),
        (-0.2, 0.0),
        (-math.inf, 0.0),
        (math.nan, 0.0),
        (1.9999995, 1.999999),
    ],
)
def test_edges_of_rounding(radius: float, expected: float) -> None:
    assert rounded_down(radius) == expected


def test_an_infinite_radius_is_no_certificate() -> None:
    with pytest.raises(ValueError, match="finite"):
        rounded_down(math.inf)


def test_fewer_digits_can_be_asked_for() -> None:
    assert [rounded_down(0.4996, digits) for digits in (3, 2, 1, 0)] == [0.499, 0.49, 0.4, 0.0]


@settings(max_examples=200)
@given(n=st.integers(1, 10**9))
def test_looks_rise_to_the_last_draw(n: int) -> None:
    looks = geometric_looks(n)
    assert looks[-1] == n
    assert list(looks) == sorted(set(looks))
    assert 1 <= len(looks) <= 12
    assert looks[0] == min(n, 100)
    if n > 10_000:
        assert len(looks) == 12
        assert np.allclose(np.diff(np.log(looks)), math.log(n / 100) / 11, atol=0.01)


@settings(max_examples=200)
@given(top=st.floats(1e-6, 1e6))
def test_the_grid_has_about_eight_round_radii_up_to_the_ceiling(top: float) -> None:
    radii = grid(top)
    assert radii[0] == 0.0
    assert 4 <= len(radii) <= 10
    assert list(radii) == sorted(set(radii))
    assert radii[-1] <= top * (1 + 1e-6)
    assert radii[-1] + radii[1] >= top * (1 - 1e-6)
    digits = f"{radii[1]:e}".partition("e")[0].rstrip("0").rstrip(".")
    assert digits in {"1", "2", "2.5", "5"}


@pytest.mark.parametrize("top", [0.0, -1.0, math.inf, math.nan])
def test_without_a_ceiling_only_zero_is_reported(top: float) -> None:
    assert grid(top) == (0.0,)


def test_without_radii_the_grid_reaches_to_the_ceiling() -> None:
    assert ruled(n=2000, sigma=0.25).radii == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    assert ruled(radii=("0.5", "0.25", "0.5")).radii == (0.25, 0.5)
    # No radius stands twice in the table, however small the ceiling.
    assert grid(1e-14) == (0.0,)


def test_radii_are_sorted_and_each_told_once() -> None:
    assert parse_radii(("1", "0.25", "1.0", "0")) == (0.0, 0.25, 1.0)
    assert parse_radii(()) == ()


@pytest.mark.parametrize("text", ["-0.1", "x", "", "nan", "inf", "1e999", "0,5"])
def test_what_is_no_radius_is_named(text: str) -> None:
    with pytest.raises(InputError, match="is no radius") as raised:
        parse_radii(("0.25", text))
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize("alpha", [0.4, 0.05, 0.01, 0.001, 1e-6, 2.0**-10, 2.0**-20])
def test_the_least_draws_are_just_enough(alpha: float) -> None:
    needed, unit = least_draws(alpha), Geometry("l2", 1.0)
    assert ceiling(unit, needed, alpha) >= -1e-12
    assert needed == 1 or ceiling(unit, needed - 1, alpha) < 0


def test_options_that_older_reports_lack_do_not_make_theirs_another_run() -> None:
    assert {"randomised", "attack_steps", "attack_draws", "attack_images"} <= set(later_defaults(Options))


def test_too_few_draws_are_told() -> None:
    assert too_few(ruled(n=9)) == 10
    assert too_few(ruled(n=10)) == 0
    assert too_few(ruled(n=10, family_wise=True, images=1)) == 0
    assert too_few(ruled(n=16, family_wise=True, images=100)) == 17
    assert too_few(ruled(n=17, family_wise=True, images=100)) == 0


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("--sigma", {"sigma": None}),
        ("--sigma", {"sigma": 0.0}),
        ("--sigma", {"sigma": -1.0}),
        ("--sigma", {"sigma": math.nan}),
        ("--sigma", {"sigma": math.inf}),
        ("--alpha", {"alpha": 0.0}),
        ("--alpha", {"alpha": 0.5}),
        ("--alpha", {"alpha": math.nan}),
        ("--target-loss", {"target_loss": 0.0}),
        ("--target-loss", {"target_loss": 1.0}),
        ("--n0", {"n0": 0}),
        ("--n", {"n": 0}),
        ("--n", {"n": MOST + 1}),
        ("--pilot", {"pilot": 9}),
        ("--skip", {"skip": 0}),
        ("--max", {"max": 0}),
        ("--mode decide", {"mode": "decide"}),
        ("--lipschitz, --norm l1", {"norm": "l1", "lipschitz": "1"}),
    ],
)
def test_options_out_of_range_are_named(flag: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        check_record(Options(**{"sigma": 0.5, **options}))
        ruled(**options)
    assert raised.value.where == flag


def test_a_family_of_images_shares_alpha() -> None:
    rule = rule_of(Options(sigma=0.5, alpha=0.01, family_wise=True), images=50)
    assert rule.alpha == pytest.approx(0.0002)
    assert rule_of(Options(sigma=0.5, alpha=0.01), images=50).alpha == 0.01
    looks = rule_of(Options(sigma=0.5, mode="decide", radii=("0.5",)), images=1)
    assert looks.share == pytest.approx(0.001 / 12)
    assert rule_of(Options(sigma=0.5, mode="pilot"), images=1).share == 0.001


def bound(images: int, **options: Any) -> float:
    rule = rule_of(Options(sigma=0.5, radii=("0.5",), **options), images=images)
    row = Verdict(index=0, label=0, predict=0, radius=0.7, seconds=0.0, correct=True)
    return estimated([row] * images, rule).row("false_certificate_bound").value


@pytest.mark.parametrize(("images", "expected"), [(1, 0.001), (100, 0.0952), (500, 0.3936), (2000, 0.8648)])
def test_false_certificates_add_up_over_images(images: int, expected: float) -> None:
    assert bound(images) == pytest.approx(expected, abs=5e-5)
    assert bound(images, family_wise=True) <= 0.001 + 1e-15
    assert bound(images, family_wise=True) > 0.0009


def test_an_image_is_certified_at_its_own_radius_and_not_beyond() -> None:
    right = Verdict(index=0, label=0, predict=0, radius=0.5, seconds=0.0, correct=True)
    at_zero = Verdict(index=1, label=0, predict=0, radius=0.0, seconds=0.0, correct=True)
    wrong = Verdict(index=2, label=0, predict=1, radius=0.5, seconds=0.0, correct=False)
    none = Verdict(index=3, label=0, predict=ABSTAIN, radius=0.0, seconds=0.0, correct=False)
    draft = estimated([right, at_zero, wrong, none], ruled(radii=("0", "0.5", "0.500001")))
    curve = {row.where["radius"]: row.value for row in draft.estimates if row.name == "certified_accuracy"}
    assert curve == {0.0: 0.5, 0.5: 0.25, 0.500001: 0.0}
    assert draft.row("abstention_rate").value == 0.25
    assert draft.row("average_certified_radius").value == 0.125


def test_the_fullest_rival_is_any_class_but_the_top_one() -> None:
    votes = np.array([40, 10, 60, 9])
    assert [fullest_rival(votes, top) for top in range(4)] == [60, 60, 40, 60]
    assert fullest_rival(np.array([0, 7]), 1) == 0
    # The strongest rival of the fresh draws counts, whoever it was in those that chose.
    other = np.array([[600, 300, 100], [600, 100, 300]])
    limits = [vote_limits(row, Interval("two-class", 0), 0.001) for row in other]
    assert limits[0] == limits[1]


@settings(max_examples=100, deadline=None)
@given(
    votes=st.lists(st.integers(0, 60), min_size=2, max_size=12).filter(lambda row: sum(row) > 0),
    zeros=st.integers(0, 11),
)
def test_the_interval_is_the_one_asked_for_or_the_better_of_the_two(votes: list[int], zeros: int) -> None:
    # Few rivals with votes favour the one-sided limits, many the others.
    votes[1:] = [0] * min(zeros, len(votes) - 1) + votes[1 + zeros :]
    votes[0] += 1
    selection: Counts = np.array(votes)
    radius = Geometry("l2", 1.0).radius
    # As many fresh draws as make every share a whole number of votes.
    fresh = 20 * selection
    gains = {}
    kinds: tuple[Any, ...] = ("one-sided", "two-class")
    for kind in kinds:
        interval = choose_interval(selection, int(fresh.sum()), 0.001, kind, radius)
        assert interval == Interval(kind, int(selection.argmax()))
        gains[kind] = radius(*vote_limits(fresh, interval, 0.001))
    chosen = choose_interval(selection, int(fresh.sum()), 0.001, "auto", radius)
    assert chosen.top == interval.top
    assert gains[chosen.kind] == max(gains.values())


def test_the_selection_draws_choose_the_interval() -> None:
    radius = Geometry("l2", 1.0).radius
    chosen = {
        votes: choose_interval(np.array(votes), 10_000, 0.001, "auto", radius)
        for votes in ((100, 0, 0), (80, 20, 0), (80, 10, 10), (20, 45, 35))
    }
    # Where one rival has all the rest, its own limit tells nothing more.
    assert [interval.kind for interval in chosen.values()] == ["one-sided", "one-sided", "two-class", "two-class"]
    assert [interval.top for interval in chosen.values()] == [0, 0, 0, 1]


def test_limits_never_let_a_rival_have_more_than_the_rest() -> None:
    low, high = vote_limits(np.array([990, 10]), Interval("two-class", 0), 0.001)
    assert high <= 1 - low


def deciding(*radii: str, n: int = 100_000, **options: Any) -> Rule:
    return ruled(mode="decide", n=n, radii=radii, **options)


def test_drawing_stops_where_all_radii_are_proved() -> None:
    rule = deciding("0.25", "0.5")
    assert decided(tally(100, 0), [tally(187, 0)], rule)
    # The first look proves .25 alone, and .5 is still within reach.
    assert not decided(tally(90, 10), [tally(80, 20)], rule)


def test_drawing_stops_where_the_smallest_open_radius_is_out_of_reach() -> None:
    assert decided(tally(70, 30), [tally(600, 400)], deciding("0.5"))
    assert not decided(tally(70, 30), [tally(600, 400)], deciding("0.1"))
    # What is proved already does not count.
    assert decided(tally(70, 30), [tally(840, 160)], deciding("0.25", "2.5"))
    assert not decided(tally(70, 30), [tally(840, 160)], deciding("0.25", "0.5"))


def test_unanimous_votes_may_reach_any_radius() -> None:
    assert not decided(tally(100, 0), [tally(100, 0)], deciding("3"))


def test_an_earlier_look_keeps_what_it_proved() -> None:
    rule = deciding("0.25")
    assert decided(tally(100, 0), [tally(100, 0), tally(120, 67)], rule)
    row = judge(drawn(tally(100, 0), tally(100, 0), tally(120, 67)), rule)
    assert row.radius == judge(drawn(tally(100, 0), tally(100, 0)), rule).radius > 0.25


@pytest.mark.parametrize("method", ["one-sided", "two-class", "auto"])
def test_two_class_decisions_look_at_the_rival(method: str) -> None:
    rule = deciding("0.1", interval=method)
    few = tally(45, 28, 27)
    assert decided(few, [tally(4500, 2800, 2700)], rule) is (method == "one-sided")
    assert decided(few, [tally(4500, 4200, 1300)], rule)
    assert decided(few, [tally(6000, 2800, 1200)], rule)
    assert not decided(few, [few], rule)


def test_soft_decisions() -> None:
    rule = rule_of(Options(sigma=0.5, mode="decide", radii=("0.1",), lipschitz="1"), images=1, lipschitz=1.0)
    rng = np.random.default_rng(0)
    top = np.clip(rng.normal(0.9, 0.05, 1000), 0, 1)
    sure = soft_tally(np.stack([top, 1 - top], 1))
    assert decided(sure, [sure], rule)
    torn = soft_tally(np.stack([top - 0.4, 1.4 - top], 1))
    assert decided(torn, [torn], rule)
    few = soft_tally(np.stack([top - 0.3, 1.3 - top], 1)[:30])
    assert not decided(few, [few], rule)


@pytest.mark.parametrize("method", ["one-sided", "two-class"])
def test_a_pilot_asks_for_draws_where_they_pay(method: str) -> None:
    rule = ruled(mode="pilot", interval=method)
    asked = {top: pilot_draws(tally(top, 1000 - top), rule) for top in (800, 990, 1000)}
    assert all(1000 < asked[top] < 50_000 for top in (800, 990))
    assert 50_000 < asked[1000] <= 100_000
    if method == "one-sided":
        assert pilot_draws(tally(400, 300, 300), rule) == 100
    assert pilot_draws(tally(500, 500), rule) == 100
    loose = ruled(mode="pilot", interval=method, target_loss=0.2)
    assert pilot_draws(tally(800, 200), loose) < asked[800]
    assert pilot_draws(tally(40, 0), ruled(mode="pilot", n=50)) <= 50


def test_a_pilot_gives_up_no_more_than_it_was_allowed() -> None:
    for share in (0.7, 0.9, 0.99):
        rule = ruled(mode="pilot", target_loss=0.05)
        n = pilot_draws(tally(round(1000 * share), 1000 - round(1000 * share)), rule)
        radii = [norm.ppf(float(lower_limit(share * size, size, 0.001))) / 2 for size in (n, 100_000)]
        assert radii[0] >= radii[1] - 0.05 * max(radii[1], 0.25) - 1e-9


def test_soft_pilots_ask_for_fewer_draws_where_outputs_vary_less() -> None:
    rule = rule_of(Options(sigma=0.5, mode="pilot", lipschitz="1"), images=1, lipschitz=1.0)
    rng = np.random.default_rng(0)
    steady, shaky = (np.clip(rng.normal(0.8, spread, 1000), 0, 1) for spread in (0.01, 0.4))
    asked = [pilot_draws(soft_tally(np.stack([top, 1 - top], 1)), rule) for top in (steady, shaky)]
    assert asked[0] < asked[1]


def test_sums_of_squares_fit_as_many_draws_as_may_be_asked() -> None:
    sure = torch.tensor([MOST, 0])
    most = VoteCounts(MOST, sure, sure * ONE, sure * ONE * ONE)
    assert int(most.squares[0]) == MOST * ONE**2
    rule = rule_of(Options(sigma=0.5, n=MOST, lipschitz="1"), images=1, lipschitz=1.0)
    half = torch.tensor([MOST // 2 + 1, MOST // 2])
    torn = VoteCounts(MOST, half, half * ONE, half * ONE * ONE)
    low, _ = limits_of(torn, interval_of(most, rule), rule)
    assert low == pytest.approx(0.5 - math.sqrt(0.5 * math.log(2000) / MOST), abs=1e-5)


def test_soft_intervals_follow_the_method() -> None:
    outputs = np.tile([0.15, 0.5, 0.2, 0.15], (400, 1))
    kinds = {}
    for method in ("one-sided", "two-class", "auto"):
        options = Options(sigma=0.5, lipschitz="1", interval=method)
        kinds[method] = interval_of(soft_tally(outputs), rule_of(options, images=1, lipschitz=1.0))
    assert {name: interval.kind for name, interval in kinds.items()} == {
        "one-sided": "one-sided",
        "two-class": "two-class",
        "auto": "two-class",
    }
    assert {interval.top for interval in kinds.values()} == {1}


def test_a_limit_of_exactly_one_half_certifies_the_radius_zero() -> None:
    # Ten agreeing votes at alpha = 2^-10: the limit is alpha^(1/10) = 1/2 to the last bit.
    rule = ruled(alpha=2.0**-10, n=10)
    assert float(lower_limit(10, 10, 2.0**-10)) == 0.5
    row = judge(drawn(tally(10, 0), tally(10, 0)), rule)
    assert (row.predict, row.radius, row.correct) == (0, 0.0, True)
    below = judge(drawn(tally(10, 0), tally(10, 0)), ruled(alpha=2.0**-10 * (1 - 1e-9), n=10))
    assert below.p_lower is not None and 0.5 - 1e-9 < below.p_lower < 0.5
    assert (below.predict, below.radius, below.correct) == (ABSTAIN, 0.0, False)


def test_an_abstention_is_wrong_even_where_the_label_would_be_met() -> None:
    row = judge(drawn(tally(60, 40), tally(52, 48)), ruled(n=100))
    assert (row.predict, row.correct, row.radius) == (ABSTAIN, False, 0.0)


def test_the_class_is_the_one_that_the_selection_draws_chose() -> None:
    row = judge(drawn(tally(0, 40, 60), tally(0, 990, 10)), ruled(n=1000))
    assert row.predict == ABSTAIN
    row = judge(drawn(tally(40, 60), tally(10, 990), label=1), ruled(n=1000))
    assert (row.predict, row.correct) == (1, True)
    low = float(lower_limit(990, 1000, 0.001))
    assert row.p_lower == low and row.p_upper == 1 - low
    assert row.radius == rounded_down(0.5 * float(norm.ppf(low)))
    assert (row.index, row.seconds, row.draws, row.noisy) == (4, 1.25, 1100, (990, 1000))


def test_a_verdict_is_rounded_down() -> None:
    row = judge(drawn(tally(100, 0), tally(940, 60)), ruled(n=1000))
    low = float(lower_limit(940, 1000, 0.001))
    exact = 0.5 * float(norm.ppf(low))
    assert 0 <= exact - row.radius < 1e-6
    assert row.radius < exact


def test_the_share_of_draws_that_met_the_label_does_not_depend_on_when_they_stopped() -> None:
    row = judge(drawn(tally(70, 30), tally(187, 0)), deciding("0.25"))
    assert row.noisy == (70, 100)
    stopped = judge(drawn(tally(70, 30), tally(128, 0)), ruled(mode="anytime", radii=("0.25",)))
    assert stopped.noisy == (70, 100)
    piloted = judge(drawn(tally(700, 300), tally(500, 100)), ruled(mode="pilot"))
    assert piloted.noisy == (700, 1000)


def test_votes_have_no_lipschitz_radius_and_soft_outputs_three() -> None:
    assert judge(drawn(tally(10, 0), tally(100, 0)), ruled(n=100)).gaussian is None
    rule = rule_of(Options(sigma=0.5, n=1000, lipschitz="1"), images=1, lipschitz=1.0)
    soft = soft_tally(np.tile([0.9, 0.1], (1000, 1)))
    row = judge(drawn(soft, soft), rule)
    assert row.published is not None and row.gaussian is not None
    assert 0 < row.gaussian < row.published < row.radius
    assert rule.soft


def test_soft_outputs_and_not_votes_choose_the_soft_class() -> None:
    rule = rule_of(Options(sigma=0.5, n=1000, lipschitz="1"), images=1, lipschitz=1.0)
    # Class 1 wins more draws, class 0 has the larger mean.
    soft = soft_tally(np.array([[1.0, 0.0, 0.0]] * 450 + [[0.3, 0.4, 0.3]] * 550))
    row = judge(drawn(soft, soft), rule)
    assert int(soft.votes.argmax()) == 1
    assert row.predict == 0 and row.radius > 0
    assert row.p_lower is not None and 0.5 < row.p_lower < 0.615


def test_two_classes_of_one_name_have_rows_of_their_own() -> None:
    rows = tuple(
        Verdict(index=index, label=index % 2, predict=0, radius=0.5, seconds=0.0, correct=index % 2 == 0)
        for index in range(10)
    )
    inputs = Inputs(rule=ruled(radii=("0.5",)), given=10, names=distinct(("crane", "crane")))
    draft = Draft(measures=AUDIT.by_name)
    estimates(draft, measure.Counts(inputs=inputs, verdicts=rows))
    shares = {row.where.get("label"): row.value for row in draft.select("certified_accuracy")}
    assert shares == {None: 0.5, "crane (0)": 1.0, "crane (1)": 0.0}


@pytest.mark.parametrize(("asked", "method", "low"), [("1", "exact", None), ("computed", "Upper bound:", 0.0)])
def test_a_computed_constant_is_a_bound_and_an_asserted_one_is_as_given(
    asked: str, method: str, low: float | None
) -> None:
    rule = rule_of(Options(sigma=0.5, n=1000, lipschitz=asked), images=1, lipschitz=2.5)
    soft = soft_tally(np.tile([0.9, 0.1], (1000, 1)))
    draft = estimated([judge(drawn(soft, soft), rule)], rule)
    row = draft.row("lipschitz_constant", origin="asserted" if asked == "1" else "computed")
    assert row.method.startswith(method) and (row.value, row.low) == (2.5, low)


HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"


def log_of(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "log.tsv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_log_is_read_with_either_clock(tmp_path: Path) -> None:
    path = log_of(
        tmp_path, "0\t3\t3\t0.378\t1\t15.4", "20\t7\t-1\t0.0\t0\t0:00:13.736080", "", "40\t1\t2\t1.22\t0\t1:02:03",
        "60\t1\t1\t0.0123\t1\t1 day, 0:00:01.5",
    )  # fmt: skip
    log = read_log(path)
    assert [row.index for row in log.verdicts] == [0, 20, 40, 60]
    assert [row.predict for row in log.verdicts] == [3, -1, 2, 1]
    assert [row.correct for row in log.verdicts] == [True, False, False, True]
    assert [row.seconds for row in log.verdicts] == pytest.approx([15.4, 13.73608, 3723.0, 86401.5])
    assert log.digits == 3 and log.contradictions == ()
    assert log.radii.tolist() == [0.378, 1.22, 0.0123]


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    path = log_of(tmp_path, "1.5\tx\t0\t5\t5\t1\t0.25", header="time\tnote\tidx\tlabel\tpredict\tcorrect\tradius")
    row = read_log(path).verdicts[0]
    assert (row.index, row.label, row.predict, row.radius, row.seconds) == (0, 5, 5, 0.25, 1.5)


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        (["0\t3\t-1\t0.3\t0\t1.0"], ":2, column radius"),
        (["0\t-3\t3\t0.3\t0\t1.0"], ":2, column label"),
        (["0\t3\t3\t0.3\t1\t1.0", "", "20\t3\t3\t0.3\t1"], ":4"),
        (["0\t3\t3\t0.3\t1\t1.0\t9"], ":2"),
    ],
)
def test_what_cannot_be_read_is_named_by_line_and_column(tmp_path: Path, rows: list[str], place: str) -> None:
    path = log_of(tmp_path, *rows)
    with pytest.raises(InputError) as raised:
        read_log(path)
    assert raised.value.where == f"{path}{place}"


@pytest.mark.parametrize("header", ["idx\tlabel\tpredict\ttime", "idx label predict radius correct time", ""])
def test_a_log_without_its_columns_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(InputError, match="no column") as raised:
        read_log(log_of(tmp_path, "0\t3\t3\t1\t1.0", header=header))
    assert "radius" in str(raised.value.hint)
    assert str(raised.value.where).endswith("log.tsv:1" if header else "log.tsv:2")


@pytest.mark.parametrize(
    ("name", "separator"), [("log", "\t"), ("log.csv", ","), ("log.txt", ","), ("log.csv", "\t"), ("log.txt", ";")]
)
def test_a_log_is_read_whatever_separates_its_cells(tmp_path: Path, name: str, separator: str) -> None:
    plain = read_log(log_of(tmp_path, "0\t3\t3\t0.378\t1\t15.4", "20\t7\t-1\t0.0\t0\t0:00:13"))
    path = tmp_path / name
    path.write_text((tmp_path / "log.tsv").read_text().replace("\t", separator).replace("\n", "\r\n"))
    assert read_log(path).verdicts == plain.verdicts


def test_a_log_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'idx' stands twice"):
        read_log(log_of(tmp_path, "0\t3\t3\t0.3\t1\t1.0\t5", header=f"{HEADER}\tidx"))


def test_a_log_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        read_log(log_of(tmp_path))


def test_rows_that_contradict_themselves_are_told(tmp_path: Path) -> None:
    path = log_of(tmp_path, "0\t3\t3\t0.3\t0\t1.0", "1\t3\t4\t0.3\t1\t1.0", "2\t3\t3\t0.3\t1\t1.0")
    log = read_log(path)
    assert log.contradictions == (2, 3)
    assert [row.correct for row in log.verdicts] == [True, False, True]
    draft = estimated(log.verdicts, ruled(), log)
    warning = next(row for row in draft.warnings if row.id == "contradictory-rows")
    assert "2 lines" in warning.message and "2, 3" in warning.message


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("CHECKPOINT", {"model": "net.pt"}),
        ("--data", {"data": Path("x.npz")}),
        ("--lipschitz", {"lipschitz": "1"}),
        ("--by", {"by": ("age",)}),
    ],
)
def test_options_that_draw_do_not_go_with_a_log(tmp_path: Path, flag: str, options: dict[str, Any]) -> None:
    path = log_of(tmp_path, "0\t3\t3\t0.3\t1\t1.0")
    with pytest.raises(InputError) as raised:
        check_record(Options(from_log=(str(path),), sigma=0.25, **options))
    assert raised.value.where == flag


def written(tmp: Path, rule: Rule, n: int, alpha: float, *, digits: int = 0, unanimous: int = 0) -> Log:
    """Write certificates of whole votes, in our format or rounded to nearest as others do, and read them again."""
    rng = np.random.default_rng(2)
    rows = []
    for index, top in enumerate([*rng.uniform(0.87, 0.98, 120), *np.ones(unanimous)]):
        low = float(lower_limit(rng.binomial(n, top), n, alpha))
        radius = rule.geometry.radius(low, 1 - low)
        radius = float(f"{radius:.{digits}}") if digits else rounded_down(radius)
        rows.append(Verdict(index=index, label=0, predict=0, radius=radius, seconds=0.5, correct=True))
    path = tmp / "certify.tsv"
    path.write_bytes(log_bytes(rows))
    if digits:
        lines = [f"{row.index}\t0\t0\t{row.radius}\t1\t0.5" for row in rows]
        path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="ascii")
    log = read_log(path)
    assert [(row.index, row.radius) for row in log.verdicts] == [(row.index, row.radius) for row in rows]
    return log


def told(log: Log, rule: Rule) -> Draft:
    return estimated(log.verdicts, rule, log, judged=True)


@pytest.mark.parametrize("alpha", [0.01, 0.001])
@pytest.mark.parametrize("n", [100, 1000])
def test_our_own_log_raises_no_doubt(tmp_path: Path, n: int, alpha: float) -> None:
    rule = ruled(n=n, alpha=alpha, sigma=0.3)
    log = written(tmp_path, rule, n, alpha, unanimous=2)
    assert log.contradictions == () and log.digits == 6
    # Ours are rounded down, and six decimals tell that from rounding to nearest.
    assert reachable(log, rule, alpha, "down") == (122, 122)
    assert reachable(log, rule, alpha, "nearest")[0] < 100
    found = told(log, rule).findings
    assert {row.id for row in found} == {"certify.consistent-log", "certify.accuracy"}
    assert found[0].statement.endswith("; the radii fit as cut off when printed.")
    assert found[0].headline == "All 122 radii that can tell fit the settings named."
    assert {row.severity for row in found} == {"info"}


@pytest.mark.parametrize(("sigma", "n"), [(0.25, 100), (0.25, 1000), (0.5, 100_000), (2.0, 1000), (6.0, 1000)])
def test_our_own_log_raises_no_doubt_where_radii_span_decades(tmp_path: Path, sigma: float, n: int) -> None:
    rule, rng, rows = ruled(n=n, sigma=sigma), np.random.default_rng(0), []
    for index, top in enumerate(rng.beta(4, 1.5, 200)):
        votes = int(rng.binomial(n, top))
        rows.append(replace(judge(drawn(tally(9, 1), tally(votes, n - votes)), rule), index=index))
        assert rows[index].interval == "one-sided"
    path = tmp_path / "certify.tsv"
    path.write_bytes(log_bytes(rows))
    log = read_log(path)
    assert [row.radius for row in log.verdicts] == [row.radius for row in rows]
    assert log.radii.max() > 10 * log.radii.min()
    met, own = reachable(log, rule, rule.alpha, "down")
    # With so many votes neighbouring radii lie too close for six decimals to tell.
    assert met == own > (100 if n <= 1000 else 20)
    found = told(log, rule).findings
    assert {row.severity for row in found} == {"info"}
    met, own = reachable(log, rule, 0.01, "down")
    assert met < 0.2 * own


def test_early_decisions_are_not_held_against_a_log(tmp_path: Path) -> None:
    rule, rng = deciding("0.25", n=1000), np.random.default_rng(0)
    found = [judge(drawn(tally(9, 1), tally(hits, 187 - hits)), rule) for hits in rng.integers(150, 188, 50).tolist()]
    rows = [replace(row, index=index) for index, row in enumerate(found)]
    path = tmp_path / "certify.tsv"
    path.write_bytes(log_bytes(rows))
    draft = told(read_log(path), rule)
    assert {row.severity for row in draft.findings} == {"info"}
    assert "radii-not-checked" in {row.id for row in draft.warnings}


@pytest.mark.parametrize("digits", [3, 4])
@pytest.mark.parametrize(("unanimous", "id"), [(0, "unreachable-radii"), (1, "implied-alpha")])
def test_a_log_made_with_another_alpha_is_found_out(tmp_path: Path, digits: int, unanimous: int, id: str) -> None:
    rule = ruled(n=1000, alpha=0.001)
    log = written(tmp_path, rule, 1000, 0.01, digits=digits, unanimous=unanimous)
    draft = told(log, rule)
    doubt = next(row for row in draft.findings if row.id == f"certify.{id}")
    assert doubt.severity == "high"
    if unanimous:
        assert "at least 0.00" in doubt.statement
    assert "fit alpha 0.01 if rounded to nearest." in doubt.statement
    # What follows carries the alpha that the log has, not the one that was named.
    accuracy = next(row.how_sure for row in draft.findings if row.id == "certify.accuracy")
    assert "Each certificate is false with probability 0.01 at most" in accuracy
    assert draft.row("false_certificate_bound").value == pytest.approx(1 - 0.99 ** len(log.verdicts))
    shares = {
        (row.where["alpha"], row.where["rounding"]): row.value
        for row in draft.estimates
        if row.name == "reachable_share"
    }
    assert shares[0.01, "nearest"] == 1.0
    assert max(shares[0.01, "down"], shares[0.001, "nearest"], shares[0.001, "down"]) < 0.6
    quiet = told(log, ruled(n=1000, alpha=0.01))
    assert "certify.consistent-log" in {row.id for row in quiet.findings}


@pytest.mark.parametrize(("alpha", "n"), [(0.001, 1000), (0.01, 100_000), (0.05, 500)])
def test_the_largest_radius_gives_the_alpha_away(tmp_path: Path, alpha: float, n: int) -> None:
    rule = ruled(n=n)
    radius = ceiling(rule.geometry, n, alpha)
    log = read_log(log_of(tmp_path, f"0\t1\t1\t{radius:.3}\t1\t1.0", "1\t1\t1\t0.1\t1\t1.0"))
    found = implied_alpha(log, rule)
    assert found is not None
    value, low, high = found
    assert low <= alpha <= high
    assert low <= value <= high


def test_a_log_of_abstentions_implies_nothing(tmp_path: Path) -> None:
    log = read_log(log_of(tmp_path, "0\t1\t-1\t0.0\t0\t1.0"))
    assert implied_alpha(log, ruled()) is None
    assert reachable(log, ruled(), 0.001, "nearest") == (0, 0)
    draft = told(log, ruled())
    assert [row.id for row in draft.findings] == ["certify.nothing"]


def test_the_plan_of_a_log_tells_its_rows(tmp_path: Path) -> None:
    path = log_of(tmp_path, "0\t3\t3\t0.378\t1\t15.4")
    plan = check(Options(from_log=(str(path),), sigma=0.25), Context(cache=Cache(tmp_path)))
    assert plan.data[0].items == 1 and plan.inputs.log.digits == 3
    assert "1 certificates" in plan.notes[0]
