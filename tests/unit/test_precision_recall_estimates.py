"""Do counts become estimates with intervals, differences and corrected p-values, and is what is unknown left out?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import t
from scored_texts import GAP, SIGNS, SIZE, SPLITS, compared, counted, described, fair, parts
from scored_texts import estimated as table_of

from audits.core.context import Draft
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.counts import Counts, Difference
from audits.precision_recall.intervals import add
from audits.precision_recall.sequences import Sequences
from audits.statistics.halves import Halved
from probes.vectors.support_metrics import METRICS, coverage_ceiling


def estimated(*scores: Any, **more: Any) -> Draft:
    """Return the table of candidates, and of controls, with given scores."""
    return table_of(counted(*scores, **more))


def asked(counts: Counts, metric: str, candidate: str, against: str) -> Difference:
    """Return a difference."""
    found = [(one.metric, one.candidate, one.against) for one in counts.differences]
    return counts.differences[found.index((metric, candidate, against))]


def test_every_score_has_its_value_interval_and_number_of_texts() -> None:
    draft = estimated({"one": {"recall": 0.6, "density": 1.2}}, ks=(5, 10))
    for metric in METRICS:
        for k in (5, 10):
            (row,) = draft.select(metric, candidate="one", k=k)
            assert row.n == SIZE and row.unit == "texts" and row.low < row.value < row.high
            assert draft.row(metric, candidate="one", k=k) is row
    assert draft.select("recall", k=5)[0].value == pytest.approx(0.6)
    density = draft.select("density", k=5)[0]
    # Student's t with a degree of freedom for each split; the error is half the gap.
    half = t.isf(0.025, SPLITS) * GAP / 2
    assert (density.low, density.high) == pytest.approx((1.2 - half, 1.2 + half))
    assert [one.value for one in draft.select("expected_coverage")] == pytest.approx(
        [coverage_ceiling(SIZE, SIZE, 5), coverage_ceiling(SIZE, SIZE, 10)]
    )


def test_shares_stay_within_0_and_1() -> None:
    edges = {"recall": 0.99, "precision": 0.01, "clipped_density": 1.3}
    draft = estimated({"one": compared("one", edges, gap=0.1)})
    for metric in ("recall", "precision", "clipped_density"):
        (row,) = draft.select(metric)
        assert 0 <= row.low <= row.value <= row.high <= 1


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_none_or_all_has_the_exact_interval(value: float) -> None:
    draft = Draft()
    add(draft, "recall", Halved(value, np.zeros(SPLITS)), SIZE, {"candidate": "one"})
    (row,) = draft.estimates
    # The end for none of n: 1 - (0.025) ** (1 / n).
    far = 1 - 0.025 ** (1 / SIZE)
    assert row.method == "Clopper-Pearson"
    assert (row.low, row.high) == pytest.approx((0, far) if value == 0 else (1 - far, 1), abs=1e-9)


def test_a_share_whose_halves_agree_by_chance_is_no_surer_than_independent_texts_would_make_it() -> None:
    draft = Draft()
    add(draft, "recall", Halved(0.5, np.full(SPLITS, 1e-9)), SIZE, {"candidate": "one"}, seen=SIZE)
    (row,) = draft.estimates
    assert row.high - row.low > 2 * 1.9 * np.sqrt(0.25 / SIZE)


def test_what_has_no_spread_has_no_interval_and_a_warning_says_so() -> None:
    draft = Draft()
    add(draft, "density", Halved(1.1, np.zeros(SPLITS)), SIZE, {"candidate": "one"})
    (row,) = draft.estimates
    assert row.method == "none" and row.low is None
    assert [one.id for one in draft.warnings] == ["no-spread"]


def test_what_is_undefined_is_left_out_with_its_differences_and_a_warning_says_so() -> None:
    broken = compared("poor", {})
    broken.scores["recall", 5][3, 0] = np.nan
    draft = estimated({"poor": broken, "good": {}}, {"ceiling": {}})
    assert not draft.select("recall", candidate="poor") and draft.select("precision", candidate="poor")
    pairs = {(one.where["candidate"], one.where["against"]) for one in draft.select("difference", metric="recall")}
    assert pairs == {("good", "ceiling")}
    assert "too-few-distinct" in {one.id for one in draft.warnings}
    assert all(np.isfinite(one.value) for one in draft.estimates)


def test_all_pairs_and_controls_are_compared_once() -> None:
    scores = {"a": {"recall": 0.9}, "b": {"recall": 0.7}, "c": {"recall": 0.5}}
    draft = estimated(scores, {"ceiling": {"recall": 0.95}, "floor": {"recall": 0.1}})
    met = {
        (one.where["candidate"], one.where["against"]): one.value for one in draft.select("difference", metric="recall")
    }
    assert met == pytest.approx(
        {
            ("a", "b"): 0.2,
            ("a", "c"): 0.4,
            ("b", "c"): 0.2,
            ("a", "ceiling"): -0.05,
            ("b", "ceiling"): -0.25,
            ("c", "ceiling"): -0.45,
            ("a", "floor"): 0.8,
            ("b", "floor"): 0.6,
            ("c", "floor"): 0.4,
        }
    )
    # Whether the encoder tells people's texts from their words dealt anew; of recall nobody asks.
    sight = draft.select("difference", candidate="ceiling")
    assert {(one.where["against"], one.where["metric"]) for one in sight} == {
        ("floor", metric) for metric in ("precision", "density", "coverage")
    }
    assert {one.where["metric"] for one in draft.select("ceiling")} == set(METRICS)


def test_without_controls_only_candidates_are_compared() -> None:
    draft = estimated({"a": {}, "b": {}})
    assert {one.where["against"] for one in draft.select("difference")} == {"b"}
    assert not draft.select("ceiling") and not draft.select("floor")


def test_differences_are_taken_at_the_first_k_alone() -> None:
    draft = estimated({"a": {}, "b": {}}, ks=(7, 3))
    assert {one.where["k"] for one in draft.select("difference")} == {7}


def test_noise_that_two_candidates_share_is_no_noise_of_their_difference() -> None:
    wide = {"a": compared("a", {"density": 1.0}, gap=0.5), "b": compared("b", {"density": 0.9}, gap=0.49)}
    draft = estimated(wide)
    (row,) = draft.select("difference", metric="density")
    assert row.high - row.low < 0.03 and row.low > 0


def test_p_values_are_corrected_within_each_metric() -> None:
    scores = {"a": compared("a", {"recall": 0.9}, gap=0.02), "b": {"recall": 0.8}, "c": {"recall": 0.7}}
    counts = counted(scores)
    draft = table_of(counts)
    raw = sorted(asked(counts, "recall", *pair).value.p() for pair in (("a", "b"), ("a", "c"), ("b", "c")))
    held = [min(1.0, 3 * raw[0]), min(1.0, 2 * raw[1]), raw[2]]
    held = np.maximum.accumulate(held).tolist()
    met = sorted(one.value for one in draft.select("p_value", metric="recall"))
    assert met == pytest.approx(held)
    assert {one.where["correction"] for one in draft.select("p_value")} == {"holm"}
    assert "p-without-interval" in {one.id for one in draft.warnings}


def test_all_by_which_a_candidate_may_fall_short_is_one_family() -> None:
    sets = [
        described(name, np.arange(SIZE), sequences=Sequences(SIZE, Halved(value, GAP * SIGNS[number]), {}))
        for number, (name, value) in enumerate({"reference": 0.5, "a": 0.53, "b": 0.5}.items())
    ]
    counts = counted({"a": fair(recall=-0.05), "b": fair(density=-0.04)}, {"ceiling": {}, "floor": {}}, sets=sets)
    short = [
        asked(counts, metric, name, "ceiling")
        for name in "ab"
        for metric in ("precision", "density", "recall", "coverage")
    ]
    short += [asked(counts, "self_bleu", name, "reference") for name in "ab"]
    assert {one.questions for one in short} == {10} and {one.k for one in short[-2:]} == {None}
    least = min(short, key=lambda one: one.p)
    assert least.p == least.value.p()
    assert least.adjusted == pytest.approx(10 * least.p) and 0 < least.p < 0.01
    # Others are of other promises: pairs of candidates, and the floor, each within its score.
    assert asked(counts, "recall", "a", "b").questions == 1
    assert asked(counts, "precision", "a", "floor").questions == 3
    assert asked(counts, "f1", "a", "ceiling").questions == 2


def clusters(name: str, *, same: bool = False, starts: Sequence[float] = (0.5, 0.5)) -> Clustered:
    """Return the scores of a set from one clustering for each start."""
    scores = {metric: parts(0.5, draws=len(starts)) for metric in CURVES}
    for whole in scores.values():
        whole[0] = starts
    alpha = np.repeat(parts(0.4, draws=len(starts))[:, :, None], 3, axis=2)
    return Clustered(name, SIZE, same, scores, np.array([0.5, 1.0, 2.0]), alpha)


def test_starts_of_the_clustering_widen_the_interval_only_where_all_are_of_the_same_texts() -> None:
    for same in (False, True):
        found = clusters("one", same=same, starts=(0.4, 0.5, 0.6))
        (row,) = estimated({"one": {}}, clusters={"one": found}).select("frontier_integral")
        # Between starts the variance is 0.01, of the mean of three 0.01 / 3.
        error = np.sqrt((GAP / 2) ** 2 + same * 0.01 / 3)
        assert (row.high - row.low) / 2 == pytest.approx(t.isf(0.025, SPLITS) * error)


def test_the_curve_has_a_precision_and_a_recall_at_every_slope() -> None:
    draft = estimated({"one": {}}, clusters={"one": clusters("one")})
    met = {(one.where["side"], one.where["lambda"]): one.value for one in draft.select("curve")}
    assert met == pytest.approx(
        {
            (side, slope): 0.4 / (slope if side == "recall" else 1)
            for side in ("precision", "recall")
            for slope in (0.5, 1.0, 2.0)
        }
    )


def test_mauve_is_compared_between_candidates_but_not_with_controls() -> None:
    found = {name: clusters(name) for name in ("a", "b", "ceiling")}
    draft = estimated({"a": {}, "b": {}}, {"ceiling": {}}, clusters=found)
    assert [one.where["against"] for one in draft.select("difference", metric="mauve")] == ["b"]


def test_scores_of_clusters_have_their_ceiling_and_floor() -> None:
    starts = {"a": (0.3, 0.3), "ceiling": (0.9, 0.9), "floor": (0.1, 0.1)}
    found = {name: clusters(name, starts=own) for name, own in starts.items()}
    draft = estimated({"a": {}}, {"ceiling": {}, "floor": {}}, clusters=found)
    for control in ("ceiling", "floor"):
        for metric in CURVES:
            (row,) = draft.select(control, metric=metric, k=5)
            assert row.value == pytest.approx(starts[control][0]) and row.low < row.value < row.high
            assert draft.row(control, metric=metric, k=5) is row


def test_differences_of_clipped_scores_are_of_what_is_reported() -> None:
    scores = {"high": {"clipped_density": 1.3}, "higher": {"clipped_density": 1.6}, "low": {"clipped_density": 0.8}}
    across = compared("across", {})
    across.scores["clipped_density", 5][:] = 0.9, 1.2
    draft = estimated({**scores, "across": across}, {"ceiling": {"clipped_density": 1.1}})
    reported = {one.where["candidate"]: one.value for one in draft.select("clipped_density")} | {"ceiling": 1.0}
    assert reported == pytest.approx({"high": 1.0, "higher": 1.0, "low": 0.8, "across": 1.0, "ceiling": 1.0})
    met = draft.select("difference", metric="clipped_density")
    assert len(met) == 10
    for one in met:
        gap = reported[one.where["candidate"]] - reported[one.where["against"]]
        assert one.value == pytest.approx(gap), one.where


def test_no_interval_leaves_the_range_of_its_score() -> None:
    # Halves that lie far apart: Student's interval would reach beyond.
    wide = compared("one", {"density": 0.1, "clipped_coverage": 0.95}, gap=0.5)
    draft = estimated({"one": wide})
    (density,), (clipped,) = draft.select("density"), draft.select("clipped_coverage")
    assert density.low == 0 and density.high > 0.5
    assert clipped.high == 1 and clipped.low < 0.6
