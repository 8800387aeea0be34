"""Rates, gaps and findings of audit-fairness from counts that were written by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from audits.asr_fairness import Options
from audits.asr_fairness.counts import HEAD, TaskCounts, sums_of
from audits.asr_fairness.estimating import Cohort, add_best_layer, add_error_rates, warn_parted
from audits.asr_fairness.gaps import Comparison, GapRows, add_gaps, compare_groups
from audits.asr_fairness.inputs import Inputs, plan
from audits.asr_fairness.judging import (
    Told,
    _missed,
    _pattern_words,
    _tell_crossings,
    _tell_silence,
    _worth_telling,
    judge,
)
from audits.asr_fairness.report import _warn_about_attributes
from audits.context import Cache, Context, Draft
from audits.groups import group_sets, reported_groups
from audits.numbers import point
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


def test_it_is_said_where_those_who_say_more_err_otherwise(scene) -> None:
    _, cohort, _, context = scene
    alike, parted = _counts(layers=(-1, 0, 1, HEAD)), _counts(layers=(-1, 0, 1, HEAD))
    drafts = [Draft(), Draft()]
    # One speaker in four, of both accents, says ten times as much and gets half of it wrong.
    more = np.repeat(np.arange(SPEAKERS) % 8 < 2, CLIPS)
    parted.sizes[more] = 100.0
    parted.errors[more, 1:3] = 50.0
    parted.errors[more, 3] = alike.errors[more, 3] * 10
    for counts, draft in zip((alike, parted), drafts, strict=True):
        warn_parted(draft, counts, cohort, context)
    assert drafts[0].warnings == []
    (told,) = drafts[1].warnings
    # On the best layer alone; the head's rates do not hang on who says how much.
    assert (told.id, told.where) == (
        "rates-part",
        {"task": "asr", "metric": "wer", "layer": parted.layers[parted.best()]},
    )
    rates = parted.errors.reshape(SPEAKERS, CLIPS, -1).sum(1) / parted.sizes.reshape(SPEAKERS, CLIPS).sum(1)[:, None]
    column = parted.best()
    pooled = parted.errors[:, column].sum() / parted.sizes.sum()
    assert f"in all ({rates[:, column].mean():.3f} each, {pooled:.3f} pooled), accent=x" in told.message


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
    missing = [warning for warning in draft.warnings if warning.id == "no-layer-pattern"]
    assert [warning.where for warning in missing] == [{**counts.where, "by": "accent"}]
    assert "at least 4 layers" in missing[0].message


def test_a_pattern_that_only_odds_lack_is_warned_of_for_odds_alone(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 2], counts.hits[:, 2] = 10.0, 0.0
    rows = _gaps(draft, compare_groups(sets[0], counts, cohort, options), cohort, options, context)
    assert set(rows.correlation) == {"absolute", "relative"}
    (warning,) = [warning for warning in draft.warnings if warning.id == "no-layer-pattern"]
    assert warning.where == {**counts.where, "by": "accent", "kind": "log_odds"}
    assert "log-odds gaps" in warning.message


@pytest.mark.parametrize("errors", [0.0, 4.0, 10.0, 12.0])
def test_the_best_of_equal_layers_reaches_over_all_of_them_and_says_so(scene, errors: float) -> None:
    _, cohort, _, context = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 2:] = errors
    counts.errors[:, 1] = errors + 1
    counts.errors[:, 0] = 0
    add_best_layer(draft, counts, cohort, context)
    (row,) = _find(draft, "best_layer")
    assert (row.low, row.value, row.high) == (1.0, 1.0, 4.0)
    (warning,) = [warning for warning in draft.warnings if warning.id == "tied-layers"]
    assert warning.where == {**counts.where, "layer": 1}
    assert warning.message.startswith("Layers 1, 2, 3, 4 have the same least word error rate in transcription: layer 1")


def test_layers_that_tie_in_some_samples_only_are_within_reach(scene) -> None:
    _, cohort, _, context = scene
    counts, draft = _counts(layers=(0, 3, 5, 9)), Draft()
    counts.errors[:, :] = 5.0
    # One speaker of forty tells layers 3 and 5 apart, and is in two of three samples.
    counts.errors[:, [0, 3]] += 1
    counts.errors[:CLIPS, 1] -= 1
    add_best_layer(draft, counts, cohort, context)
    (row,) = _find(draft, "best_layer")
    assert (row.low, row.value, row.high) == (3.0, 3.0, 5.0)
    assert not any(warning.id == "tied-layers" for warning in draft.warnings)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_ends_of_a_chosen_layer_are_layers_that_there_are(scene, level: float) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(layers=(-1, 0, 2, 5, 9, 14)), Draft()
    rng = np.random.default_rng(3)
    counts.errors[:] = rng.binomial(10, 0.4, counts.errors.shape)
    counts.hits[:] = 10 - counts.errors
    context = replace(context, level=level)
    add_best_layer(draft, counts, cohort, context)
    _gaps(draft, compare_groups(sets[0], counts, cohort, options), cohort, options, context)
    chosen = _find(draft, "best_layer") + _find(draft, "fairest_layer")
    assert len(chosen) == 4
    assert {end for row in chosen for end in (row.low, row.value, row.high)} <= {0.0, 2.0, 5.0, 9.0, 14.0}


def test_sums_by_speaker_add_up() -> None:
    counts = _counts()
    member = np.stack([np.arange(SPEAKERS * CLIPS) % 2 == 0, np.arange(SPEAKERS * CLIPS) % 2 == 1])
    sums = sums_of(counts, np.repeat(np.arange(SPEAKERS), CLIPS), member)
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


def _judged(counts: TaskCounts, scene: tuple, by: str = "accent") -> tuple[Draft, list[GapRows]]:
    sets, cohort, options, context = scene
    draft = Draft()
    rates = add_error_rates(draft, counts, cohort, context)
    chosen = [groups for groups in sets if groups.by == by]
    rows = [
        add_gaps(draft, compare_groups(groups, counts, cohort, options), rates, cohort, options, context)
        for groups in chosen
    ]
    judge(draft, [counts], rows, SimpleNamespace(skipped=(), recordings=()), context)
    return draft, rows


def _constant(errors: float, metric: str = "wer") -> TaskCounts:
    counts = _counts(layers=(0,))
    counts.errors[:] = errors
    counts.hits[:] = max(10 - errors, 0)
    return replace(counts, metric=metric)


def test_layers_with_as_many_errors_in_all_deals_tie() -> None:
    """Thirds, fifths and the like do not add up to the same float in every order."""
    counts = _counts(layers=(0, 1))
    rows = len(counts.errors)
    counts.errors[:] = 0.0
    counts.errors[: rows // 2] = np.array([0.1, 0.3])
    counts.errors[rows // 2 :] = np.array([0.3, 0.1])
    assert counts.errors[:, 0].sum() != counts.errors[:, 1].sum()
    assert counts.best() == 0 and len(set(counts.overall([0, 1]).tolist())) == 1


def test_equal_rates_are_compared_between_two_groups(scene) -> None:
    draft, (rows,) = _judged(_constant(0.0), scene)
    assert rows.worst[0] != rows.best[0]
    assert (0, "log_odds") not in rows.gap
    assert any("Neither" in warning.message for warning in draft.warnings if warning.id == "undefined-gap")
    gap = draft.estimates[rows.gap[0, "absolute"]]
    assert gap.low < gap.value == 0 < gap.high


@pytest.mark.parametrize("errors", [0.0, 5.0, 10.0, 15.0])
def test_speakers_who_are_all_alike_leave_room_and_nothing_is_said_to_be_missed(scene, errors: float) -> None:
    draft, (rows,) = _judged(_constant(errors), scene)
    for kind in ("absolute", "relative"):
        if (0, kind) in rows.gap:
            gap = draft.estimates[rows.gap[0, kind]]
            assert gap.low < -0.02 < 0.02 < gap.high
    assert all(row.low <= row.value <= row.high for row in draft.estimates if row.name == "error_rate" and row.n > 1)
    (silence,) = [finding for finding in draft.findings if finding.id == "fairness.no-gap-shown"]
    assert "less than about" not in silence.statement
    assert "fare alike" in silence.statement


def test_every_attribute_with_a_gap_is_told_and_only_crossings_are_capped(scene) -> None:
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    single, crossed = (
        _gaps(draft, compare_groups(groups, counts, cohort, options), cohort, options, context)
        for groups in (sets[0], sets[2])
    )
    gap = draft.estimates[single.gap[5, "absolute"]]
    # Of the same rows on several columns, each counts on its own.
    told: list[Told] = [(single, column, 0.001, replace(gap, low=0.1)) for column in range(7)]
    assert [(id(row), column) for row, column, *_ in _worth_telling(told)] == [(id(single), c) for c in range(7)]
    low = [(crossed, column, 0.001, replace(gap, low=gap.value - 0.01)) for column in (0, 1)]
    high = [(crossed, column, 0.001, replace(gap, low=gap.value + 0.01 * column, high=1.0)) for column in range(2, 7)]
    kept = _worth_telling([*told, *low, *high])
    assert [column for row, column, *_ in kept if row is crossed] == [6, 5, 4, 3]
    _tell_crossings(draft, counts, [*told, *low, *high])
    (finding,) = draft.findings
    assert "accent&gender on layer 1 differ too, and by more than" in finding.statement
    assert "on layer -1, accent&gender on layer 0 differ beyond chance too; whether by more" in finding.statement
    assert "not by more" not in finding.statement
    assert len(finding.evidence) == 3


def test_the_gap_that_may_be_missed_grows_with_the_number_of_tests(scene) -> None:
    draft, (rows,) = _judged(_counts(), scene)
    silent = [(rows, 5, 1.0, replace(draft.estimates[rows.gap[5, "absolute"]], low=-0.1, high=0.1))]
    assert _missed(silent, 5, 1) == pytest.approx(0.1 * (1.95996 + 0.84) / 1.95996, abs=1e-4)
    # Six tests: one of them has to pass 0.05 / 6.
    assert _missed(silent, 5, 6) == pytest.approx(0.1 * (2.63826 + 0.84) / 1.95996, abs=1e-4)
    rows.alike.add(5)
    assert _missed(silent, 5, 6) is None


def test_a_gap_above_zero_is_beyond_shuffled_labels(scene) -> None:
    _, cohort, _, context = scene
    rng, above = np.random.default_rng(5), 0
    for seed in range(40):
        # Six speakers against thirty, few of whom make many errors.
        few = rng.permutation(SPEAKERS) < 6
        attributes = [{"accent": "x" if few[place // CLIPS] else "y"} for place in range(SPEAKERS * CLIPS)]
        own = rng.beta(0.15, 1.35, SPEAKERS)
        counts = _counts(layers=(0,))
        counts.errors[:] = rng.binomial(10, np.repeat(own, CLIPS))[:, None]
        options = Options(model="m", manifest=Path("f"), by=("accent",), permutations=300, min_speakers=5)
        comparison = compare_groups(group_sets(attributes, ["accent"], max_order=1)[0], counts, cohort, options)
        draft = Draft()
        rows = _gaps(draft, comparison, cohort, options, replace(context, seed=seed))
        if draft.estimates[rows.gap[0, "absolute"]].low > 0:
            above += 1
            assert draft.estimates[rows.p[0]].value <= 0.051
    assert above <= 6


def test_no_pattern_is_told_without_a_gap(scene) -> None:
    draft, (rows,) = _judged(_counts(), scene, "gender")
    assert not rows.found[5]
    # Nor where the layers' own p-values are small, and only the corrected one of the best layer is not.
    rows.signs = dict.fromkeys(rows.correlation, 1)
    assert len(rows.signs) == 3
    judge(draft, [rows.comparison.counts], [rows], SimpleNamespace(skipped=(), recordings=()), scene[3])
    assert not any(finding.id == "fairness.layer-pattern" for finding in draft.findings)
    draft, (rows,) = _judged(_counts(), scene)
    assert rows.found[5]
    (finding,) = [finding for finding in draft.findings if finding.id == "fairness.layer-pattern"]
    assert "beyond chance on 5 of 5 layers" in finding.statement


def test_no_pattern_is_told_of_layers_whose_gap_may_be_chance(scene) -> None:
    counts = _counts()
    rng = np.random.default_rng(9)
    # A gap on the best layer and on two more; elsewhere all are alike.
    for column in (1, 2):
        counts.errors[:, column] = rng.binomial(10, 0.6, len(counts.errors))
        counts.hits[:, column] = 10 - counts.errors[:, column]
    draft, (rows,) = _judged(counts, scene)
    assert rows.found[5]
    assert rows.sure == [3, 4, 5]
    assert not any(finding.id == "fairness.layer-pattern" for finding in draft.findings)


def test_an_attribute_that_varies_within_speakers_is_warned_of(scene) -> None:
    _, cohort, options, context = scene
    attributes = [{"room": ("a", "b")[place % 2], "coin": ("h", "t")[place // CLIPS % 2]} for place in range(120)]
    sets = group_sets(attributes, ["room", "coin"], max_order=2)
    recordings = tuple(SimpleNamespace(speaker=str(number)) for number in cohort.speakers)
    inputs = Inputs(folder=None, manifest=None, recordings=recordings, skipped=(), sets=tuple(sets), layers=None)  # type: ignore[arg-type]
    draft = Draft()
    _warn_about_attributes(draft, inputs)
    assert [(warning.id, warning.where) for warning in draft.warnings] == [("varies-within-speaker", {"by": "room"})]
    assert "40 speakers are" in draft.warnings[0].message
    counts = _counts()
    counts.errors[::2] = 9
    counts.hits[::2] = 1
    draft, _ = _judged(counts, (sets, _cohort(sets, attributes), options, context), "room")
    assert all("pooled" in finding.statement for finding in draft.findings if finding.id == "fairness.gap")
    assert any(finding.id == "fairness.gap" for finding in draft.findings)


def _silent(scene: tuple, *rows: tuple[str, int, float]) -> tuple[Draft, dict[str, GapRows]]:
    """Return what is said where none of these, attribute and column, was found; each with its gap's lower end."""
    sets, cohort, options, context = scene
    counts, draft = _counts(), Draft()
    made = {
        groups.by: _gaps(draft, compare_groups(groups, counts, cohort, options), cohort, options, context)
        for groups in sets
    }
    told: list[Told] = [
        (made[by], column, 0.08, replace(draft.estimates[made[by].gap[column, "absolute"]], value=0.2, low=low))
        for by, column, low in rows
    ]
    _tell_silence(draft, counts, told, len(told))
    return draft, made


def _evidence(draft: Draft) -> list[object]:
    return [draft.estimates[index].where["by"] for index in draft.findings[-1].evidence]


def test_a_crossing_above_zero_before_correction_is_told_with_its_numbers(scene) -> None:
    draft, _ = _silent(scene, ("accent", 5, 0.02), ("gender", 5, -0.1), ("accent&gender", 5, 0.007))
    said = draft.findings[-1].statement
    assert "no difference could be shown by gender on layer 4" in said
    assert "What was seen by accent on layer 4, 0.2" in said
    assert "; accent&gender on layer 4, 0.2" in said
    assert said.count("p = 0.080") == 2
    assert "nothing beyond chance" not in said
    assert _evidence(draft) == ["gender", "accent", "accent&gender"]


def test_evidence_of_silence_stands_in_the_order_of_what_is_said(scene) -> None:
    draft, _ = _silent(scene, ("accent&gender", 5, -0.1), ("accent", 5, 0.02), ("gender", 5, -0.1))
    said = draft.findings[-1].statement
    assert "Accent&gender showed nothing beyond chance either." in said
    assert _evidence(draft) == ["gender", "accent", "accent&gender"]
    draft, _ = _silent(scene, ("accent&gender", 5, -0.1))
    assert "no difference could be shown by accent&gender on layer 4" in draft.findings[-1].statement
    assert "either" not in draft.findings[-1].statement


def test_a_crossing_seen_in_one_place_is_quiet_only_in_the_other(scene) -> None:
    draft, _ = _silent(scene, ("accent", 5, -0.1), ("accent&gender", 5, -0.1), ("accent&gender", 6, 0.02))
    said = draft.findings[-1].statement
    assert "accent&gender on the own head, 0.2" in said
    assert "Accent&gender on layer 4 showed nothing beyond chance either." in said


def test_more_crossings_than_four_are_named_without_numbers(scene) -> None:
    rows = [("accent&gender", column, 0.01 * (column + 1)) for column in range(7)]
    draft, _ = _silent(scene, *rows)
    said = draft.findings[-1].statement
    assert said.count("p = 0.080") == 4
    assert said.index("on the own head, ") < said.index("on layer 4, ") < said.index("on layer 2, ")
    assert "; accent&gender on layer 1; accent&gender on layer 0; accent&gender on layer -1 may be chance" in said
    assert len(draft.findings[-1].evidence) == 7


@pytest.mark.parametrize(("errors", "word"), [(0.0, "next to no errors"), (10.0, "next to nothing"), (5.0, "")])
def test_limits_are_told_where_no_groups_could_be_compared(scene, errors: float, word: str) -> None:
    draft = Draft()
    judge(draft, [_constant(errors)], [], SimpleNamespace(skipped=(), recordings=()), scene[3])
    (finding,) = draft.findings
    assert finding.id == "fairness.too-few-speakers"
    assert [warning.where for warning in draft.warnings] == [{"task": "asr", "metric": "wer", "layer": 0}] * bool(word)
    assert ("Mind that the probe on layer 0" in finding.statement) == bool(word)
    assert word in finding.statement


def test_the_rate_at_a_limit_is_written_alike_wherever_it_stands(scene) -> None:
    _, cohort, _, context = scene
    counts, draft = _constant(9.44), Draft()
    add_error_rates(draft, counts, cohort, context)
    (row,) = _find(draft, "error_rate", group="all", layer=0)
    judge(draft, [counts], [], SimpleNamespace(skipped=(), recordings=()), context)
    (finding,), (warning,) = draft.findings, [one for one in draft.warnings if one.id == "at-the-limit"]
    said = f"(word error rate {point(row)})"
    assert said in finding.statement and said in warning.message


def test_recordings_are_the_same_whatever_is_asked_of_them(prepared: Path, tmp_path: Path) -> None:
    """What else is read of the clips stands in the settings, the manifest and the value map."""
    values = tmp_path / "values.csv"

    def heard(by: tuple[str, ...], **more: object) -> dict[str, str]:
        folder = prepared / "work"
        options = Options(model=str(folder / "encoder"), manifest=folder / "clips.csv", by=by, **more)
        return {source.role: source.sha256 for source in plan(options, Context(cache=Cache(tmp_path))).data}

    first = heard(("gender", "accent"))
    assert heard(("gender",), tasks=("sid",)) == first and "value map" not in first
    maps = []
    for word in ("f", "woman"):
        values.write_text(f"column,from,to\ngender,female,{word}\n", encoding="utf-8")
        maps.append(heard(("gender",), values=values))
        assert maps[-1]["recordings"] == first["recordings"]
    assert maps[0]["value map"] != maps[1]["value map"]
