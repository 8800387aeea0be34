"""Rates, gaps and findings of audit-fairness from counts that were written by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from recorded_clips import inputs_of

from audits.asr_fairness import Options
from audits.asr_fairness.cohort import Cohort
from audits.asr_fairness.comparisons import Comparison, compare
from audits.asr_fairness.contrasts import Contrast, find_not_shown, gap_headline, missed
from audits.asr_fairness.counts import HEAD, TEST, Layer, TaskCounts, named, sums_of
from audits.asr_fairness.data_warnings import warn_about_attributes
from audits.asr_fairness.estimates import (
    add_best_layer,
    add_corrected,
    add_gaps,
    add_rates,
    add_spreads,
    warn_differing,
)
from audits.asr_fairness.findings import find_crossings, findings, pattern_words, worth_a_finding
from audits.asr_fairness.inputs import check
from audits.asr_fairness.measure import Counts
from audits.core.context import Cache, Context, Draft
from audits.core.groups import ALL, GroupSet, group_sets
from audits.core.numbers import ends, point
from audits.core.records import Estimate
from audits.core.wording import HEADLINE_WORDS, span

SPEAKERS, CLIPS = 40, 3
OPTIONS = Options(
    model="m", manifest=Path("f"), by=("accent", "gender"), permutations=200, min_speakers=5, bootstrap=600, repeats=1
)


def _attributes() -> list[dict[str, str]]:
    rows = []
    for speaker in range(SPEAKERS):
        accent = "unknown" if speaker == 0 else ("x", "y")[speaker % 2]
        rows += [{"accent": accent, "gender": ("f", "m")[speaker // 2 % 2]}] * CLIPS
    return rows


def _audited(sets: list, attributes: list[dict[str, str]], *tasks: TaskCounts) -> Counts:
    speakers = [f"{speaker:02d}" for speaker in range(SPEAKERS) for _ in range(CLIPS)]
    return Counts(inputs=inputs_of(speakers, attributes, sets), options=OPTIONS, tasks=tasks)


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
def scene() -> tuple[list[GroupSet], Cohort]:
    attributes = _attributes()
    sets = group_sets(attributes, ["accent", "gender"], max_order=2)
    return sets, _audited(sets, attributes).cohort


def _gaps(draft: Draft, groups: GroupSet, task: TaskCounts, cohort: Cohort) -> Comparison:
    comparison = compare(groups, task, cohort)
    add_gaps(draft, comparison)
    return comparison


def _gap(draft: Draft, comparison: Comparison, layer: Layer, kind: str = "absolute") -> Estimate | None:
    return draft.get(named("gap", layer), **comparison.at(layer, kind=kind))


def test_a_rate_is_errors_over_trials_of_the_whole_group(scene) -> None:
    _, cohort = scene
    counts, draft = _counts(), Draft()
    add_rates(draft, counts, cohort)
    in_x = np.array([row["accent"] == "x" for row in _attributes()])
    (row,) = draft.select("error_rate", group="accent=x", layer=2)
    assert row.value == pytest.approx(counts.errors[in_x, 3].sum() / counts.sizes[in_x].sum())
    assert row.n == 19
    assert row.unit == "speakers"
    assert row.low < row.value < row.high


def test_unknown_is_shown_and_never_compared(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    add_rates(draft, counts, cohort)
    assert len(draft.select("error_rate", group="accent=unknown")) == len(counts.layers) - 1
    assert len(draft.select("head_error_rate", group="accent=unknown")) == 1
    (row,) = draft.select("error_rate", group="accent=unknown", layer=0)
    assert (row.low, row.high, row.method) == (None, None, "none")
    assert any(warning.id == "small-group" and "one speaker" in warning.message for warning in draft.warnings)
    comparison = compare(sets[0], counts, cohort)
    assert comparison.names == ("accent=x", "accent=y")


def test_the_three_gaps_by_hand(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    comparison = _gaps(draft, sets[0], counts, cohort)
    column, layer = 1, 0
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
        gap = _gap(draft, comparison, layer, kind)
        assert gap.value == pytest.approx(value)
        assert 0 < gap.low < gap.value < gap.high
    others = draft.row("gap_to_others", **comparison.at(layer, group=comparison.names[worst]))
    # With two groups, the others are the other.
    assert others.value == pytest.approx(expected["absolute"])


def test_a_gap_relative_to_no_errors_is_absent_and_says_why(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    in_y = np.array([row["accent"] == "y" for row in _attributes()])
    counts.errors[np.ix_(~in_y, [2])] = 0.0
    counts.hits[np.ix_(~in_y, [2])] = 10.0
    rows = _gaps(draft, sets[0], counts, cohort)
    assert _gap(draft, rows, 1, "relative") is None
    assert any(warning.id == "undefined-gap" and warning.where["layer"] == 1 for warning in draft.warnings)
    # No errors in any bootstrap sample, and yet the interval of the absolute gap has room for some.
    gap = _gap(draft, rows, 1)
    assert gap.high > gap.value


def test_few_speakers_are_not_compared(scene) -> None:
    sets, cohort = scene
    assert compare(sets[0], _counts(), replace(cohort, min_speakers=21)) is None


def test_few_words_are_not_compared(scene) -> None:
    sets, cohort = scene
    counts = _counts()
    few = TaskCounts(
        task="asr", metric="wer", layers=counts.layers, clips=counts.clips, errors=counts.errors / 10,
        hits=counts.hits / 10, sizes=counts.sizes / 10,
    )  # fmt: skip
    assert compare(sets[0], few, cohort) is None


def test_a_word_error_rate_above_one_has_no_odds_and_says_so(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    counts.errors[:] += 12
    counts.hits[:] = 0
    rows = _gaps(draft, sets[0], counts, cohort)
    assert _gap(draft, rows, 0, "log_odds") is None
    assert any(warning.where.get("kind") == "log_odds" for warning in draft.warnings if warning.id == "undefined-gap")
    relative, absolute = (_gap(draft, rows, 0, kind) for kind in ("relative", "absolute"))
    assert absolute.low > 0
    # Nobody was right in any word, and still the relative gap is as sure as the absolute one.
    assert 0 < relative.low < relative.value < relative.high < 1
    add_rates(draft, counts, cohort)
    assert all(row.value > 1 for row in draft.select("error_rate", group="all"))


def test_it_is_said_where_those_who_say_more_err_otherwise(scene) -> None:
    _, cohort = scene
    alike, parted = _counts(layers=(-1, 0, 1, HEAD)), _counts(layers=(-1, 0, 1, HEAD))
    drafts = [Draft(), Draft()]
    # One speaker in four, of both accents, says ten times as much and gets half of it wrong.
    more = np.repeat(np.arange(SPEAKERS) % 8 < 2, CLIPS)
    parted.sizes[more] = 100.0
    parted.errors[more, 1:3] = 50.0
    parted.errors[more, 3] = alike.errors[more, 3] * 10
    for counts, draft in zip((alike, parted), drafts, strict=True):
        warn_differing(draft, counts, cohort)
    assert drafts[0].warnings == []
    (told,) = drafts[1].warnings
    # On the best layer alone; the head's rates do not hang on who says how much.
    assert (told.id, told.where) == (
        "rates-part",
        {"task": "asr", "metric": "wer", "layer": parted.best},
    )
    rates = parted.errors.reshape(SPEAKERS, CLIPS, -1).sum(1) / parted.sizes.reshape(SPEAKERS, CLIPS).sum(1)[:, None]
    column = parted.layers.index(parted.best)
    pooled = parted.errors[:, column].sum() / parted.sizes.sum()
    assert f"in all ({rates[:, column].mean():.3f} each, {pooled:.3f} pooled), accent=x" in told.message


def test_best_layer_is_neither_baseline_nor_head(scene) -> None:
    _, cohort = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 0] = 0.0
    counts.errors[:, -1] = 0.0
    add_best_layer(draft, counts, cohort)
    (row,) = draft.select("best_layer")
    assert row.value == 4.0
    assert row.low <= 4.0 <= row.high


def test_layer_pattern_needs_four_layers(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(layers=(0, 1, 2)), Draft()
    rows = _gaps(draft, sets[0], counts, cohort)
    assert not draft.select("layer_correlation", **rows.at())
    missing = [warning for warning in draft.warnings if warning.id == "no-layer-pattern"]
    assert [warning.where for warning in missing] == [{**counts.where, "by": "accent"}]
    assert "at least 4 layers" in missing[0].message


def test_a_pattern_that_only_odds_lack_is_warned_of_for_odds_alone(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 2], counts.hits[:, 2] = 10.0, 0.0
    rows = _gaps(draft, sets[0], counts, cohort)
    assert [row.where["kind"] for row in draft.select("layer_correlation", **rows.at())] == ["absolute", "relative"]
    (warning,) = [warning for warning in draft.warnings if warning.id == "no-layer-pattern"]
    assert warning.where == {**counts.where, "by": "accent", "kind": "log_odds"}
    assert "log-odds gaps" in warning.message


@pytest.mark.parametrize("errors", [0.0, 4.0, 10.0, 12.0])
def test_the_best_of_equal_layers_reaches_over_all_of_them_and_says_so(scene, errors: float) -> None:
    _, cohort = scene
    counts, draft = _counts(), Draft()
    counts.errors[:, 2:] = errors
    counts.errors[:, 1] = errors + 1
    counts.errors[:, 0] = 0
    add_best_layer(draft, counts, cohort)
    (row,) = draft.select("best_layer")
    assert (row.low, row.value, row.high) == (1.0, 1.0, 4.0)
    (warning,) = [warning for warning in draft.warnings if warning.id == "tied-layers"]
    assert warning.where == {**counts.where, "layer": 1}
    assert warning.message.startswith("Layers 1, 2, 3, 4 have the same least word error rate in transcription: layer 1")


def test_layers_that_tie_in_some_samples_only_are_within_reach(scene) -> None:
    _, cohort = scene
    counts, draft = _counts(layers=(0, 3, 5, 9)), Draft()
    counts.errors[:, :] = 5.0
    # One speaker of forty tells layers 3 and 5 apart, and is in two of three samples.
    counts.errors[:, [0, 3]] += 1
    counts.errors[:CLIPS, 1] -= 1
    add_best_layer(draft, counts, cohort)
    (row,) = draft.select("best_layer")
    assert (row.low, row.value, row.high) == (3.0, 3.0, 5.0)
    assert not any(warning.id == "tied-layers" for warning in draft.warnings)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_ends_of_a_chosen_layer_are_layers_that_there_are(scene, level: float) -> None:
    sets, cohort = scene
    counts, draft, cohort = _counts(layers=(-1, 0, 2, 5, 9, 14)), Draft(level=level), replace(cohort, level=level)
    rng = np.random.default_rng(3)
    counts.errors[:] = rng.binomial(10, 0.4, counts.errors.shape)
    counts.hits[:] = 10 - counts.errors
    add_best_layer(draft, counts, cohort)
    _gaps(draft, sets[0], counts, cohort)
    chosen = draft.select("best_layer") + draft.select("fairest_layer")
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
    assert words in pattern_words(signs, "accent")


def test_a_crossing_is_told_only_where_it_shows_more_than_its_parts(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    shown = []
    for groups in sets:
        comparison = _gaps(draft, groups, counts, cohort)
        shown.append(Contrast(comparison=comparison, layer=4, gap=_gap(draft, comparison, 4), p=0.001))
    kept = {contrast.by for contrast in worth_a_finding(shown)}
    assert kept == {"accent", "gender"}


def _judged(
    counts: TaskCounts, sets: list, by: str = "accent", attributes: list[dict[str, str]] | None = None
) -> tuple[Draft, Comparison]:
    found = _audited([groups for groups in sets if groups.by == by], attributes or _attributes(), counts)
    draft = Draft()
    add_rates(draft, counts, found.cohort)
    (comparison,) = found.comparisons
    add_spreads(draft, counts, found.cohort)
    add_gaps(draft, comparison)
    add_corrected(draft, found.comparisons)
    findings(draft, found)
    return draft, comparison


def _p(draft: Draft, comparison: Comparison, layer: Layer, correction: str) -> float:
    return draft.row(named("p_value", layer), **comparison.at(layer, test=TEST, correction=correction)).value


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
    assert counts.best == 0 and len(set(counts.overall([0, 1]).tolist())) == 1


def test_deals_that_all_gave_the_same_are_told_as_that(scene) -> None:
    def headline(deals: NDArray[np.bool_]) -> str:
        draft, _ = _judged(replace(_constant(0.0, "error"), task="sid", deals=deals), scene[0])
        (finding,) = (one for one in draft.findings if one.id == "fairness.deals")
        return finding.headline

    deals = np.zeros((3, SPEAKERS * CLIPS, 1), dtype=bool)
    assert headline(deals) == "All 3 deals of the clips gave the same error rate over all speakers."
    deals[0, :9] = True
    assert headline(deals).startswith("Another deal of the clips would move the error rate of all by about ")


def test_equal_rates_are_compared_between_two_groups(scene) -> None:
    draft, rows = _judged(_constant(0.0), scene[0])
    assert rows.worst(0) != rows.best(0)
    assert _gap(draft, rows, 0, "log_odds") is None
    assert any("Neither" in warning.message for warning in draft.warnings if warning.id == "undefined-gap")
    gap = _gap(draft, rows, 0)
    assert gap.low < gap.value == 0 < gap.high


@pytest.mark.parametrize("errors", [0.0, 5.0, 10.0, 15.0])
def test_speakers_who_are_all_alike_leave_room_and_nothing_is_said_to_be_missed(scene, errors: float) -> None:
    draft, rows = _judged(_constant(errors), scene[0])
    for kind in ("absolute", "relative"):
        gap = _gap(draft, rows, 0, kind)
        if gap is not None:
            assert gap.low < -0.02 < 0.02 < gap.high
    assert all(row.low <= row.value <= row.high for row in draft.estimates if row.name == "error_rate" and row.n > 1)
    (silence,) = [finding for finding in draft.findings if finding.id == "fairness.no-gap-shown"]
    assert "less than about" not in silence.statement
    assert "fare alike" in silence.statement


def test_every_attribute_with_a_gap_is_told_and_only_crossings_are_capped(scene) -> None:
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    single, crossed = (_gaps(draft, groups, counts, cohort) for groups in (sets[0], sets[2]))
    gap, layers = _gap(draft, single, 4), (-1, 0, 1, 2, 3, 4, HEAD)
    # Of the same comparison on several layers, each counts on its own.
    shown = [Contrast(comparison=single, layer=layer, gap=replace(gap, low=0.1), p=0.001) for layer in layers]
    assert worth_a_finding(shown) == shown
    low = [
        Contrast(comparison=crossed, layer=layer, gap=replace(gap, low=gap.value - 0.01), p=0.001) for layer in (-1, 0)
    ]
    high = [
        Contrast(comparison=crossed, layer=layer, gap=replace(gap, low=gap.value + 0.01 * at, high=1.0), p=0.001)
        for at, layer in enumerate(layers)
        if at > 1
    ]
    kept = worth_a_finding([*shown, *low, *high])
    assert [contrast.layer for contrast in kept if contrast.crossed] == [HEAD, 4, 3, 2]
    find_crossings(draft, counts, [*shown, *low, *high])
    (finding,) = draft.findings
    assert "accent&gender on layer 1 differ too, and by more than" in finding.statement
    assert "on layer -1, accent&gender on layer 0 differ beyond chance too; whether by more" in finding.statement
    assert "not by more" not in finding.statement
    assert len(finding.evidence) == 3


def test_the_gap_that_may_be_missed_grows_with_the_number_of_tests(scene) -> None:
    draft, comparison = _judged(_counts(), scene[0])
    gap = replace(_gap(draft, comparison, 4), low=-0.1, high=0.1)
    silent = [Contrast(comparison=comparison, layer=4, gap=gap, p=1.0)]
    assert missed(silent, 1) == pytest.approx(0.1 * (1.95996 + 0.84) / 1.95996, abs=1e-4)
    # Six tests: one of them has to pass 0.05 / 6.
    assert missed(silent, 6) == pytest.approx(0.1 * (2.63826 + 0.84) / 1.95996, abs=1e-4)
    draft, comparison = _judged(_constant(5.0), scene[0])
    assert missed([Contrast(comparison=comparison, layer=0, gap=gap, p=1.0)], 6) is None


def test_a_gap_above_zero_is_beyond_shuffled_labels(scene) -> None:
    _, cohort = scene
    rng, above = np.random.default_rng(5), 0
    for seed in range(40):
        # Six speakers against thirty, few of whom make many errors.
        few = rng.permutation(SPEAKERS) < 6
        attributes = [{"accent": "x" if few[place // CLIPS] else "y"} for place in range(SPEAKERS * CLIPS)]
        own = rng.beta(0.15, 1.35, SPEAKERS)
        counts = _counts(layers=(0,))
        counts.errors[:] = rng.binomial(10, np.repeat(own, CLIPS))[:, None]
        (groups,), draft = group_sets(attributes, ["accent"], max_order=1), Draft()
        comparison = _gaps(draft, groups, counts, replace(cohort, seed=seed, permutations=300))
        if _gap(draft, comparison, 0).low > 0:
            above += 1
            assert _p(draft, comparison, 0, "none") <= 0.051
    assert above <= 6


def test_no_pattern_is_told_without_a_gap(scene, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, comparison = _judged(_counts(), scene[0], "gender")
    assert _p(draft, comparison, 4, "holm") >= 0.05
    assert len(draft.select("layer_correlation", **comparison.at())) == 3
    # Nor where the layers' own p-values are small, and only the corrected one of the best layer is not.
    monkeypatch.setattr("audits.asr_fairness.findings.sure_layers", lambda *_: [0, 1, 2, 3, 4])
    monkeypatch.setattr(Comparison, "relation", lambda *_: 1)
    draft, _ = _judged(_counts(), scene[0], "gender")
    assert not any(finding.id == "fairness.layer-pattern" for finding in draft.findings)
    monkeypatch.undo()
    draft, comparison = _judged(_counts(), scene[0])
    assert _p(draft, comparison, 4, "holm") < 0.05 and _gap(draft, comparison, 4).low > 0
    (finding,) = [finding for finding in draft.findings if finding.id == "fairness.layer-pattern"]
    assert "beyond chance on 5 of 5 layers" in finding.statement


def test_no_pattern_is_told_of_layers_whose_gap_may_be_chance(scene) -> None:
    counts = _counts()
    rng = np.random.default_rng(9)
    # A gap on the best layer and on two more; elsewhere all are alike.
    for column in (1, 2):
        counts.errors[:, column] = rng.binomial(10, 0.6, len(counts.errors))
        counts.hits[:, column] = 10 - counts.errors[:, column]
    draft, comparison = _judged(counts, scene[0])
    assert _p(draft, comparison, 4, "holm") < 0.05 and _gap(draft, comparison, 4).low > 0
    assert [layer for layer in range(5) if _p(draft, comparison, layer, "none") <= 0.05] == [2, 3, 4]
    assert not any(finding.id == "fairness.layer-pattern" for finding in draft.findings)


def test_an_attribute_that_varies_within_speakers_is_warned_of(scene) -> None:
    _, cohort = scene
    attributes = [{"room": ("a", "b")[place % 2], "coin": ("h", "t")[place // CLIPS % 2]} for place in range(120)]
    sets = group_sets(attributes, ["room", "coin"], max_order=2)
    draft = Draft()
    warn_about_attributes(draft, inputs_of([str(number) for number in cohort.speakers], attributes, sets))
    assert [(warning.id, warning.where) for warning in draft.warnings] == [("varies-within-speaker", {"by": "room"})]
    assert "40 speakers are" in draft.warnings[0].message
    counts = _counts()
    counts.errors[::2] = 9
    counts.hits[::2] = 1
    draft, _ = _judged(counts, sets, "room", attributes)
    assert all("pooled" in finding.how_sure for finding in draft.findings if finding.id == "fairness.gap")
    assert any(finding.id == "fairness.gap" for finding in draft.findings)


def _silent(scene: tuple, *rows: tuple[str, Layer, float]) -> Draft:
    """Return what is said where none of these, attribute and layer, was found; each with its gap's lower end."""
    sets, cohort = scene
    counts, draft = _counts(), Draft()
    made = {groups.by: _gaps(draft, groups, counts, cohort) for groups in sets}
    silent = [
        Contrast(
            comparison=made[by], layer=layer, gap=replace(_gap(draft, made[by], layer), value=0.2, low=low), p=0.08
        )
        for by, layer, low in rows
    ]
    find_not_shown(draft, counts, silent, len(silent))
    return draft


def test_the_answer_is_the_largest_gap_and_says_what_the_rest_leaves_open(scene) -> None:
    draft, comparison = _judged(_counts(), scene[0])
    told = [finding for finding in draft.findings if finding.id == "fairness.gap"]
    largest = max(told, key=lambda finding: finding.evidence[0].low)
    assert draft.answer is not None and draft.answer.title == largest.headline
    assert span(largest.evidence[0]) in largest.headline and " (accent): by " in largest.headline
    layers = {finding.where.get("layer", HEAD) for finding in told}
    assert layers == {4, HEAD} and len(draft.answer.numbers) == len(told) == 2
    assert f"The gap by accent in transcription from layer 4: {span(_gap(draft, comparison, 4))}." in draft.answer.may
    assert all("p < 0.001" in finding.how_sure or "p = 0.0" in finding.how_sure for finding in told)
    draft, comparison = _judged(_counts(), scene[0], "gender")
    assert draft.answer is not None and draft.answer.title == "No gap between groups is shown in 2 comparisons."
    far = ends(_gap(draft, comparison, 4))[1]
    where = "in transcription from layer 4"
    assert f"That groups by gender fare alike {where}: a gap of {far} still fits the data." in draft.answer.may_not
    assert not any(line.startswith("The gap by") for line in draft.answer.may)


def test_a_gap_of_the_head_is_told_as_one_of_the_models_own(scene) -> None:
    sets, _ = scene
    draft, comparison = _judged(_counts(), sets)
    shown = Contrast(comparison=comparison, layer=HEAD, gap=_gap(draft, comparison, HEAD), p=0.001)
    headline = gap_headline(shown)
    assert headline == f"The model's own CTC head errs more on y than on x speakers (accent): by {span(shown.gap)}."
    assert headline in [finding.headline for finding in draft.findings] and len(headline.split()) <= HEADLINE_WORDS
    assert draft.answer is not None
    assert f"The gap by accent with the model's own CTC head: {span(shown.gap)}." in draft.answer.may
    rate = draft.row(named("error_rate", HEAD), **comparison.task.at(HEAD), group=ALL)
    assert f"The word error rate of the model's own CTC head: {span(rate)}." in draft.answer.may


def test_long_names_of_groups_leave_a_headline_short(scene) -> None:
    sets, cohort = scene
    draft = Draft()
    comparison = _gaps(draft, sets[2], _counts(), cohort)
    long = {
        name: "&".join(f"{part} of the far north and its isles" for part in name.split("&"))
        for name in comparison.names
    }
    shown = Contrast(
        comparison=replace(comparison, names=tuple(long.values())), layer=4, gap=_gap(draft, comparison, 4), p=0.001
    )
    size = span(shown.gap)
    assert gap_headline(shown) == f"Transcription from layer 4 errs unevenly by accent and gender crossed: {size}."


def _evidence(draft: Draft) -> list[object]:
    return [row.where["by"] for row in draft.findings[-1].evidence]


def test_a_crossing_above_zero_before_correction_is_told_with_its_numbers(scene) -> None:
    draft = _silent(scene, ("accent", 4, 0.02), ("gender", 4, -0.1), ("accent&gender", 4, 0.007))
    said = draft.findings[-1].statement
    assert "By gender on layer 4, 0.20 (-0.10 to " in said and "may have been missed" in said
    assert "What was seen by accent on layer 4; accent&gender on layer 4 may be chance" in said
    sure = draft.findings[-1].how_sure
    assert "accent on layer 4, 0.2" in sure and "; accent&gender on layer 4, 0.2" in sure
    assert sure.count("p = 0.080") == 2
    assert "nothing beyond chance" not in said
    assert _evidence(draft) == ["gender", "accent", "accent&gender"]


def test_evidence_of_silence_stands_in_the_order_of_what_is_said(scene) -> None:
    draft = _silent(scene, ("accent&gender", 4, -0.1), ("accent", 4, 0.02), ("gender", 4, -0.1))
    said = draft.findings[-1].statement
    assert "Accent&gender showed nothing beyond chance either." in said
    assert _evidence(draft) == ["gender", "accent", "accent&gender"]
    draft = _silent(scene, ("accent&gender", 4, -0.1))
    assert "No gap by accent and gender crossed" in draft.findings[-1].headline
    assert draft.findings[-1].statement.startswith("A gap of less than about")
    assert "either" not in draft.findings[-1].statement


def test_a_crossing_seen_in_one_place_is_quiet_only_in_the_other(scene) -> None:
    draft = _silent(scene, ("accent", 4, -0.1), ("accent&gender", 4, -0.1), ("accent&gender", HEAD, 0.02))
    said = draft.findings[-1].words
    assert "accent&gender on the own head, 0.2" in said
    assert "Accent&gender on layer 4 showed nothing beyond chance either." in said


def test_more_crossings_than_four_are_named_without_numbers(scene) -> None:
    layers = (-1, 0, 1, 2, 3, 4, HEAD)
    rows = [("accent&gender", layer, 0.01 * (at + 1)) for at, layer in enumerate(layers)]
    draft = _silent(scene, *rows)
    said, sure = draft.findings[-1].statement, draft.findings[-1].how_sure
    assert sure.count("p = 0.080") == 4
    assert sure.index("on the own head, ") < sure.index("on layer 4, ") < sure.index("on layer 2, ")
    assert "; accent&gender on layer 1; accent&gender on layer 0; accent&gender on layer -1 may be chance" in said
    assert len(draft.findings[-1].evidence) == 7


@pytest.mark.parametrize(("errors", "word"), [(0.0, "next to no errors"), (10.0, "next to nothing"), (5.0, "")])
def test_limits_are_told_where_no_groups_could_be_compared(scene, errors: float, word: str) -> None:
    draft = Draft()
    findings(draft, _audited([], _attributes(), _constant(errors)))
    (finding,) = draft.findings
    assert finding.id == "fairness.too-few-speakers"
    assert [warning.where for warning in draft.warnings] == [{"task": "asr", "metric": "wer", "layer": 0}] * bool(word)
    assert ("Mind that the probe on layer 0" in finding.statement) == bool(word)
    assert word in finding.statement


def test_the_rate_at_a_limit_is_written_alike_wherever_it_stands(scene) -> None:
    _, cohort = scene
    counts, draft = _constant(9.44), Draft()
    add_rates(draft, counts, cohort)
    (row,) = draft.select("error_rate", group="all", layer=0)
    findings(draft, _audited([], _attributes(), counts))
    (finding,), (warning,) = draft.findings, [one for one in draft.warnings if one.id == "at-the-limit"]
    said = f"(word error rate {point(row)})"
    assert said in finding.statement and said in warning.message


def test_recordings_are_the_same_whatever_is_asked_of_them(prepared: Path, tmp_path: Path) -> None:
    """What else is read of the clips stands in the settings, the manifest and the value map."""
    values = tmp_path / "values.csv"

    def heard(by: tuple[str, ...], **more: object) -> dict[str, str]:
        folder = prepared / "work"
        options = Options(model=str(folder / "encoder"), manifest=folder / "clips.csv", by=by, **more)
        return {source.role: source.sha256 for source in check(options, Context(cache=Cache(tmp_path))).data}

    first = heard(("gender", "accent"))
    assert heard(("gender",), tasks=("sid",)) == first and "value map" not in first
    maps = []
    for word in ("f", "woman"):
        values.write_text(f"column,from,to\ngender,female,{word}\n", encoding="utf-8")
        maps.append(heard(("gender",), values=values))
        assert maps[-1]["recordings"] == first["recordings"]
    assert maps[0]["value map"] != maps[1]["value map"]
