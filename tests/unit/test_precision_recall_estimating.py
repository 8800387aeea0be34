"""Do counts become estimates with intervals, differences and corrected p-values, and is what is unknown left out?"""

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from audits.context import Cache, Context, Draft
from audits.precision_recall.clustering import Clustered
from audits.precision_recall.comparing import Comparison, Tally
from audits.precision_recall.differences import add_differences
from audits.precision_recall.estimating import CURVES, At, Found, Measured, add, estimate
from audits.records import Estimate
from audits.statistics.halves import Halved
from probes.support_metrics import METRICS, coverage_ceiling

SIZE, SPLITS = 200, 20


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """Keep what is loaded out of the garbage collections that statsmodels asks for at every correction."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path))


def parts(value: float, gap: float, draws: int = 2) -> np.ndarray:
    """Return a value and halves that lie `gap` apart, by turns above and below."""
    rows = np.full((1 + 2 * SPLITS, draws), value)
    signs = np.where(np.arange(SPLITS) % 2, 1.0, -1.0)[:, None]
    rows[1::2] += signs * gap / 2
    rows[2::2] -= signs * gap / 2
    return rows


def compared(name: str, values, ks: Sequence[int] = (5,), gap: float = 0.1) -> Comparison:
    seen = Tally(*(np.ones(SIZE, dtype=np.int64) for _ in range(4)), np.ones(SIZE), np.ones(SIZE))
    scores = {(metric, k): parts(values.get(metric, 0.8), gap) for metric in METRICS for k in ks}
    return Comparison(name, SIZE, scores, {}, {}, seen, seen, (seen, seen))


def world(candidates, controls=None, ks: Sequence[int] = (5,), clusters=None) -> tuple[Measured, SimpleNamespace]:
    """Return what was measured, and inputs, of candidates with given scores."""
    main = {name: one if isinstance(one, Comparison) else compared(name, one, ks) for name, one in candidates.items()}
    both = {} if controls is None else {**main, **{name: compared(name, one, ks) for name, one in controls.items()}}
    inputs = SimpleNamespace(
        settings=SimpleNamespace(k=tuple(ks)), size=SIZE, candidates=[SimpleNamespace(name=name) for name in candidates]
    )
    return Measured(main=main, controls=both, clusters=clusters or {}), inputs


def estimated(context: Context, *how, **more) -> tuple[Draft, Found]:
    draft, (measured, inputs) = Draft(), world(*how, **more)
    found = estimate(draft, measured, inputs, context)
    add_differences(draft, found, measured, inputs, context)
    return draft, found


def rows(draft: Draft, name: str, **where: str | int) -> list[Estimate]:
    return [one for one in draft.estimates if one.name == name and where.items() <= one.where.items()]


def test_every_score_has_its_value_interval_and_number_of_texts(context: Context) -> None:
    draft, found = estimated(context, {"one": {"recall": 0.6, "density": 1.2}}, ks=(5, 10))
    for metric in METRICS:
        for k in (5, 10):
            (row,) = rows(draft, metric, candidate="one", k=k)
            assert row.n == SIZE and row.unit == "texts" and row.low < row.value < row.high
            assert found.places[At(metric, "one", k)] == draft.estimates.index(row)
    assert rows(draft, "recall", k=5)[0].value == pytest.approx(0.6)
    density = rows(draft, "density", k=5)[0]
    # Student's t with 20 degrees of freedom; the error is half the gap.
    assert (density.low, density.high) == pytest.approx((1.2 - 2.086 * 0.05, 1.2 + 2.086 * 0.05), abs=1e-3)
    assert [one.value for one in rows(draft, "expected_coverage")] == pytest.approx(
        [coverage_ceiling(SIZE, SIZE, 5), coverage_ceiling(SIZE, SIZE, 10)]
    )


def test_shares_stay_within_0_and_1(context: Context) -> None:
    draft, _ = estimated(context, {"one": {"recall": 0.99, "precision": 0.01, "clipped_density": 1.3}})
    for metric in ("recall", "precision", "clipped_density"):
        (row,) = rows(draft, metric)
        assert 0 <= row.low <= row.value <= row.high <= 1


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_none_or_all_has_the_exact_interval(context: Context, value: float) -> None:
    draft = Draft()
    add(draft, "recall", Halved(value, np.zeros(SPLITS)), SIZE, {"candidate": "one"}, context)
    (row,) = draft.estimates
    # The end for none of n: 1 - (0.025) ** (1 / n).
    far = 1 - 0.025 ** (1 / SIZE)
    assert row.method == "Clopper-Pearson"
    assert (row.low, row.high) == pytest.approx((0, far) if value == 0 else (1 - far, 1), abs=1e-9)


def test_a_share_whose_halves_agree_by_chance_is_no_surer_than_independent_texts_would_make_it(
    context: Context,
) -> None:
    draft = Draft()
    add(draft, "recall", Halved(0.5, np.full(SPLITS, 1e-9)), SIZE, {"candidate": "one"}, context, seen=SIZE)
    (row,) = draft.estimates
    assert row.high - row.low > 2 * 1.9 * np.sqrt(0.25 / SIZE)


def test_what_has_no_spread_has_no_interval_and_a_warning_says_so(context: Context) -> None:
    draft = Draft()
    add(draft, "density", Halved(1.1, np.zeros(SPLITS)), SIZE, {"candidate": "one"}, context)
    (row,) = draft.estimates
    assert row.method == "none" and row.low is None
    assert [one.id for one in draft.warnings] == ["no-spread"]


def test_what_is_undefined_is_left_out_with_its_differences_and_a_warning_says_so(context: Context) -> None:
    broken = compared("poor", {})
    broken.scores["recall", 5][3, 0] = np.nan
    draft, found = estimated(context, {"poor": broken, "good": {}}, {"ceiling": {}})
    assert At("recall", "poor", 5) not in found.places
    assert not rows(draft, "recall", candidate="poor") and rows(draft, "precision", candidate="poor")
    pairs = {(one.where["candidate"], one.where["against"]) for one in rows(draft, "difference", metric="recall")}
    assert pairs == {("good", "ceiling")}
    assert "too-few-distinct" in {one.id for one in draft.warnings}
    assert all(np.isfinite(one.value) for one in draft.estimates)


def test_all_pairs_and_controls_are_compared_once(context: Context) -> None:
    scores = {"a": {"recall": 0.9}, "b": {"recall": 0.7}, "c": {"recall": 0.5}}
    draft, found = estimated(context, scores, {"ceiling": {"recall": 0.95}, "floor": {"recall": 0.1}})
    met = {
        (one.where["candidate"], one.where["against"]): one.value for one in rows(draft, "difference", metric="recall")
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
    sight = rows(draft, "difference", candidate="ceiling")
    assert {(one.where["against"], one.where["metric"]) for one in sight} == {
        ("floor", metric) for metric in ("precision", "density", "coverage")
    }
    assert {one.where["metric"] for one in rows(draft, "ceiling")} == set(METRICS)
    assert found.places[At("recall", "a", 5, "b")] is not None


def test_without_controls_only_candidates_are_compared(context: Context) -> None:
    draft, _ = estimated(context, {"a": {}, "b": {}})
    assert {one.where["against"] for one in rows(draft, "difference")} == {"b"}
    assert not rows(draft, "ceiling") and not rows(draft, "floor")


def test_differences_are_taken_at_the_first_k_alone(context: Context) -> None:
    draft, _ = estimated(context, {"a": {}, "b": {}}, ks=(7, 3))
    assert {one.where["k"] for one in rows(draft, "difference")} == {7}


def test_noise_that_two_candidates_share_is_no_noise_of_their_difference(context: Context) -> None:
    wide = {"a": compared("a", {"density": 1.0}, gap=0.5), "b": compared("b", {"density": 0.9}, gap=0.49)}
    draft, _ = estimated(context, wide)
    (row,) = rows(draft, "difference", metric="density")
    assert row.high - row.low < 0.03 and row.low > 0


def test_p_values_are_corrected_within_each_metric(context: Context) -> None:
    draft, found = estimated(
        context, {"a": compared("a", {"recall": 0.9}, gap=0.02), "b": {"recall": 0.8}, "c": {"recall": 0.7}}
    )
    (raw_ab, raw_ac, raw_bc) = (
        found.values[At("recall", first, 5, second)].p() for first, second in (("a", "b"), ("a", "c"), ("b", "c"))
    )
    raw = sorted([raw_ab, raw_ac, raw_bc])
    held = [min(1.0, 3 * raw[0]), min(1.0, 2 * raw[1]), raw[2]]
    held = np.maximum.accumulate(held).tolist()
    met = sorted(one.value for one in rows(draft, "p_value", metric="recall"))
    assert met == pytest.approx(held)
    assert {one.where["correction"] for one in rows(draft, "p_value")} == {"holm"}
    assert "p-without-interval" in {one.id for one in draft.warnings}


def test_all_by_which_a_candidate_may_fall_short_is_one_family(context: Context) -> None:
    scores = {"a": compared("a", {"recall": 0.75}, gap=0.09), "b": compared("b", {"density": 0.76}, gap=0.07)}
    draft, (measured, inputs) = Draft(), world(scores, {"ceiling": {}, "floor": {}})
    found = estimate(draft, measured, inputs, context)
    for name, value, gap in (("reference", 0.5, 0.01), ("a", 0.53, 0.03), ("b", 0.5, 0.02)):
        at = At("self_bleu", name)
        found.values[at] = Halved(value, np.tile([gap, -gap], SPLITS // 2))
        found.places[at] = add(draft, "self_bleu", found.values[at], SIZE, {"candidate": name}, context)
    add_differences(draft, found, measured, inputs, context)
    asked = [
        At(metric, name, 5, "ceiling") for name in "ab" for metric in ("precision", "density", "recall", "coverage")
    ]
    asked += [At("self_bleu", name, 0, "reference") for name in "ab"]
    assert {found.questions[at] for at in asked} == {10}
    raw = {at: found.values[at].p() for at in asked}
    least = min(raw, key=lambda at: raw[at])
    assert found.adjusted[least] == pytest.approx(10 * raw[least]) and 0 < raw[least] < 0.01
    # Others are of other promises: pairs of candidates, and the floor, each within its score.
    assert found.questions[At("recall", "a", 5, "b")] == 1 and found.questions[At("precision", "a", 5, "floor")] == 3
    assert found.questions[At("f1", "a", 5, "ceiling")] == 2


def clusters(name: str, *, same: bool, starts: Sequence[float]) -> Clustered:
    scores = {}
    for metric in CURVES:
        whole = parts(0.5, 0.02, len(starts))
        whole[0] = starts
        scores[metric] = whole
    slopes = np.array([0.5, 1.0, 2.0])
    alpha = np.repeat(parts(0.4, 0.02, len(starts))[:, :, None], 3, axis=2)
    return Clustered(name, SIZE, same, scores, slopes, alpha)


def test_starts_of_the_clustering_widen_the_interval_only_where_all_are_of_the_same_texts(context: Context) -> None:
    starts = (0.4, 0.5, 0.6)
    widths = {}
    for same in (False, True):
        draft, _ = estimated(context, {"one": {}}, clusters={"one": clusters("one", same=same, starts=starts)})
        (row,) = rows(draft, "frontier_integral")
        widths[same] = (row.high - row.low) / 2
    # Between starts the variance is 0.01, of the mean of three 0.01 / 3; the halves bring 0.01 ** 2.
    assert widths[False] == pytest.approx(2.086 * 0.01, rel=1e-3)
    assert widths[True] == pytest.approx(2.086 * np.sqrt(0.0001 + 0.01 / 3), rel=1e-3)


def test_the_curve_has_a_precision_and_a_recall_at_every_slope(context: Context) -> None:
    draft, _ = estimated(context, {"one": {}}, clusters={"one": clusters("one", same=False, starts=(0.5, 0.5))})
    met = {(one.where["side"], one.where["lambda"]): one.value for one in rows(draft, "curve")}
    assert met == pytest.approx(
        {
            (side, slope): 0.4 / (slope if side == "recall" else 1)
            for side in ("precision", "recall")
            for slope in (0.5, 1.0, 2.0)
        }
    )


def test_mauve_is_compared_between_candidates_but_not_with_controls(context: Context) -> None:
    found = {name: clusters(name, same=False, starts=(0.5, 0.5)) for name in ("a", "b", "ceiling")}
    draft, _ = estimated(context, {"a": {}, "b": {}}, {"ceiling": {}}, clusters=found)
    assert [one.where["against"] for one in rows(draft, "difference", metric="mauve")] == ["b"]


def test_scores_of_clusters_have_their_ceiling_and_floor(context: Context) -> None:
    starts = {"a": (0.3, 0.3), "ceiling": (0.9, 0.9), "floor": (0.1, 0.1)}
    found = {name: clusters(name, same=False, starts=own) for name, own in starts.items()}
    draft, places = estimated(context, {"a": {}}, {"ceiling": {}, "floor": {}}, clusters=found)
    for control in ("ceiling", "floor"):
        for metric in CURVES:
            (row,) = rows(draft, control, metric=metric, k=5)
            assert row.value == pytest.approx(starts[control][0]) and row.low < row.value < row.high
            assert draft.estimates[places.places[At(metric, control, 5)]] is row


def test_differences_of_clipped_scores_are_of_what_is_reported(context: Context) -> None:
    scores = {"high": {"clipped_density": 1.3}, "higher": {"clipped_density": 1.6}, "low": {"clipped_density": 0.8}}
    across = compared("across", {})
    across.scores["clipped_density", 5][:] = 0.9, 1.2
    draft, _ = estimated(context, {**scores, "across": across}, {"ceiling": {"clipped_density": 1.1}})
    reported = {one.where["candidate"]: one.value for one in rows(draft, "clipped_density")} | {"ceiling": 1.0}
    assert reported == pytest.approx({"high": 1.0, "higher": 1.0, "low": 0.8, "across": 1.0, "ceiling": 1.0})
    met = rows(draft, "difference", metric="clipped_density")
    assert len(met) == 10
    for one in met:
        gap = reported[one.where["candidate"]] - reported[one.where["against"]]
        assert one.value == pytest.approx(gap), one.where


def test_no_interval_leaves_the_range_of_its_score(context: Context) -> None:
    # Halves that lie far apart: Student's interval would reach beyond.
    wide = compared("one", {"density": 0.1, "clipped_coverage": 0.95}, gap=0.5)
    draft, _ = estimated(context, {"one": wide})
    (density,), (clipped,) = rows(draft, "density"), rows(draft, "clipped_coverage")
    assert density.low == 0 and density.high > 0.5
    assert clipped.high == 1 and clipped.low < 0.6
