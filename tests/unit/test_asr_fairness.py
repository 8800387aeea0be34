"""Rates, gaps and findings of audit-fairness from counts that were written by hand."""

from pathlib import Path

import numpy as np
import pytest

from audits.asr_fairness import Options
from audits.asr_fairness.counts import HEAD, TaskCounts, sum_by_speaker
from audits.asr_fairness.estimating import Cohort, add_best_layer, add_error_rates
from audits.asr_fairness.gaps import Comparison, GapRows, add_gaps, compare_groups
from audits.asr_fairness.groups import group_sets, reported_groups
from audits.asr_fairness.judging import _pattern_words, _worth_telling
from audits.context import Cache, Context, Draft
from audits.statistics import cluster_weights

SPEAKERS, CLIPS = 40, 3


def _attributes() -> list[dict[str, str]]:
    rows = []
    for speaker in range(SPEAKERS):
        accent = "unknown" if speaker == 0 else ("x", "y")[speaker % 2]
        rows += [{"accent": accent, "gender": ("f", "m")[speaker // 2 % 2]}] * CLIPS
    return rows


def _cohort(sets: list, attributes: list[dict[str, str]]) -> Cohort:
    names, member = reported_groups(attributes, sets)
    return Cohort(
        speakers=np.repeat(np.arange(SPEAKERS), CLIPS),
        weights=cluster_weights(SPEAKERS, 600, np.random.default_rng(0)),
        names=names,
        member=member,
    )


def _counts(
    task: str = "asr", metric: str = "wer", layers: tuple[int | str, ...] = (-1, 0, 1, 2, 3, 4, HEAD)
) -> TaskCounts:
    rng = np.random.default_rng(1)
    rows = SPEAKERS * CLIPS
    bad = np.repeat(np.arange(SPEAKERS) % 2 == 1, CLIPS)
    sizes = np.full(rows, 10.0)
    rate = np.where(bad, 0.5, 0.2)[:, None] * np.linspace(1, 0.5, len(layers))
    errors = rng.binomial(10, rate).astype(float)
    return TaskCounts(
        task="asr",
        metric="wer",
        layers=layers,
        clips=np.arange(rows),
        errors=errors,
        hits=sizes[:, None] - errors,
        sizes=sizes,
    )


@pytest.fixture
def scene(tmp_path: Path) -> tuple:
    attributes = _attributes()
    sets = group_sets(attributes, ["accent", "gender"], max_order=2)
    context = Context(cache=Cache(tmp_path))
    options = Options(model="m", manifest=Path("f"), by=("accent", "gender"), permutations=200, min_speakers=5)
    return sets, _cohort(sets, attributes), options, context


def _gaps(draft: Draft, comparison: Comparison, cohort: Cohort, options: Options, context: Context) -> GapRows:
    return add_gaps(draft, comparison, {}, cohort, options, context)


def _find(draft: Draft, name: str, **where: object) -> list:
    return [
        row
        for row in draft.estimates
        if row.name == name and all(row.where.get(key) == value for key, value in where.items())
    ]


def test_a_rate_is_errors_over_trials_of_the_whole_group(scene) -> None:
    _, cohort, _, context = scene
    counts, draft = _counts(), Draft()
    add_error_rates(draft, counts, cohort, context)
    in_x = np.array([row["accent"] == "x" for row in _attributes()])
    (row,) = _find(draft, "error_rate", group="accent=x", layer=2)
    assert row.value == pytest.approx(counts.errors[in_x, 3].sum() / counts.sizes[in_x].sum())
    assert row.n == 19
    assert row.unit == "speakers"
    assert row.low < row.value < row.high


def test_unknown_is_shown_and_never_compared(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    add_error_rates(draft, counts, cohort, context)
    assert len(_find(draft, "error_rate", group="accent=unknown")) == len(counts.layers) - 1
    assert len(_find(draft, "head_error_rate", group="accent=unknown")) == 1
    (row,) = _find(draft, "error_rate", group="accent=unknown", layer=0)
    assert (row.low, row.high, row.method) == (None, None, "none")
    assert any(warning.id == "small-group" and "one speaker" in warning.message for warning in draft.warnings)
    comparison = compare_groups(sets[0], counts, cohort, options)
    assert comparison.names == ("accent=x", "accent=y")


def test_the_three_gaps_by_hand(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    comparison = compare_groups(sets[0], counts, cohort, options)
    rows = _gaps(draft, comparison, cohort, options, context)
    column = 1
    errors, hits, sizes = (
        part.sum(0)[..., column] if part.ndim == 3 else part.sum(0)
        for part in (comparison.sums.errors, comparison.sums.hits, comparison.sums.sizes)
    )
    best, worst = np.argmin(errors / sizes), np.argmax(errors / sizes)
    rates = errors / sizes
    expected = {
        "absolute": rates[worst] - rates[best],
        "relative": rates[worst] / rates[best] - 1,
        "log_odds": np.log((errors[worst] + 0.5) / (hits[worst] + 0.5) / ((errors[best] + 0.5) / (hits[best] + 0.5))),
    }
    for kind, value in expected.items():
        gap = draft.estimates[rows.gap[column, kind]]
        assert gap.value == pytest.approx(value)
        assert 0 < gap.low < gap.value < gap.high
    others = draft.estimates[rows.others[column, comparison.names[worst]]]
    # With two groups, the others are the other.
    assert others.value == pytest.approx(expected["absolute"])


def test_a_gap_relative_to_no_errors_is_absent_and_says_why(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    in_y = np.array([row["accent"] == "y" for row in _attributes()])
    counts.errors[np.ix_(~in_y, [2])] = 0.0
    counts.hits[np.ix_(~in_y, [2])] = 10.0
    rows = _gaps(draft, compare_groups(sets[0], counts, cohort, options), cohort, options, context)
    assert (2, "relative") not in rows.gap
    assert any(warning.id == "undefined-gap" and warning.where["layer"] == 1 for warning in draft.warnings)
    # No errors in any bootstrap sample, and yet the interval of the absolute gap has room for some.
    gap = draft.estimates[rows.gap[2, "absolute"]]
    assert gap.high > gap.value


def test_few_speakers_are_not_compared(scene) -> None:
    sets, cohort, _, _ = scene
    strict = Options(model="m", manifest=Path("f"), by=("accent",), min_speakers=21)
    assert compare_groups(sets[0], _counts(), cohort, strict) is None


def test_few_words_are_not_compared(scene) -> None:
    sets, cohort, options, _ = scene
    counts = _counts()
    few = TaskCounts(
        task="asr", metric="wer", layers=counts.layers, clips=counts.clips, errors=counts.errors / 10,
        hits=counts.hits / 10, sizes=counts.sizes / 10,
    )  # fmt: skip
    assert compare_groups(sets[0], few, cohort, options) is None


def test_a_word_error_rate_above_one_has_no_odds_and_says_so(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    counts.errors[:] += 12
    counts.hits[:] = 0
    rows = _gaps(draft, compare_groups(sets[0], counts, cohort, options), cohort, options, context)
    assert (1, "log_odds") not in rows.gap
    assert any(warning.where.get("kind") == "log_odds" for warning in draft.warnings if warning.id == "undefined-gap")
    relative, absolute = (draft.estimates[rows.gap[1, kind]] for kind in ("relative", "absolute"))
    assert absolute.low > 0
    # Nobody was right in any word, and still the relative gap is as sure as the absolute one.
    assert 0 < relative.low < relative.value < relative.high < 1
    add_error_rates(draft, counts, cohort, context)
    assert all(row.value > 1 for row in _find(draft, "error_rate", group="all"))


def test_best_layer_is_neither_baseline_nor_head(scene) -> None:
    _, cohort, _, context = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 0] = 0.0
    counts.errors[:, -1] = 0.0
    add_best_layer(draft, counts, cohort, context)
    (row,) = _find(draft, "best_layer")
    assert row.value == 4.0
    assert row.low <= 4.0 <= row.high


def test_layer_pattern_needs_four_layers(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(layers=(0, 1, 2)), Draft()
    rows = _gaps(draft, compare_groups(sets[0], counts, cohort, options), cohort, options, context)
    assert not rows.correlation
    assert [warning.where for warning in draft.warnings if warning.id == "no-layer-pattern"] == [counts.where]


def test_sums_by_speaker_add_up() -> None:
    counts = _counts()
    member = np.stack([np.arange(SPEAKERS * CLIPS) % 2 == 0, np.arange(SPEAKERS * CLIPS) % 2 == 1])
    sums = sum_by_speaker(counts, np.repeat(np.arange(SPEAKERS), CLIPS), member)
    assert np.allclose(sums.errors.sum((0, 1)), counts.errors.sum(0))
    assert sums.sizes.sum() == counts.sizes.sum()


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        ({"absolute": 0, "relative": 0, "log_odds": 0}, "no relation"),
        ({"absolute": 1, "relative": 1, "log_odds": 1}, "smaller absolute and relative and log-odds gaps"),
        ({"absolute": -1, "relative": 1, "log_odds": 0}, "disagree"),
        ({"absolute": 0, "relative": -1, "log_odds": -1}, "The absolute gap shows no relation"),
    ],
)
def test_the_pattern_is_told_as_the_measures_have_it(signs: dict[str, int], words: str) -> None:
    assert words in _pattern_words(signs, "accent")


def test_a_crossing_is_told_only_where_it_shows_more_than_its_parts(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    told = []
    for groups in sets:
        row = _gaps(draft, compare_groups(groups, counts, cohort, options), cohort, options, context)
        told.append((row, 5, 0.001, draft.estimates[row.gap[5, "absolute"]]))
    kept = {row.comparison.groups.by for row, *_ in _worth_telling(told)}
    assert kept == {"accent", "gender"}
