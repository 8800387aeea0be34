"""What is said of candidates and of a sweep: severities, corrections, names, evidence."""

from dataclasses import replace

import numpy as np
import pytest
from headlines import faults, says
from scored_texts import (
    FAIR,
    GAP,
    MINILM,
    SIGNS,
    SIZE,
    compared,
    counted,
    described,
    estimated,
    fair,
    found_in,
    judged,
    told,
)

from audits.core.context import Claim, Draft
from audits.core.wording import size_words, span
from audits.precision_recall.counts import Texts
from audits.precision_recall.findings import findings
from audits.precision_recall.relabelling import Relabelled
from audits.precision_recall.sequences import Sequences
from audits.precision_recall.sweep import front_of, path_of
from audits.statistics.halves import Halved

METRICS = tuple(FAIR)
CEILING = {"ceiling": FAIR}


def scores(*values: float) -> dict[str, float]:
    return dict(zip(METRICS, values, strict=True))


@pytest.mark.parametrize(
    ("gap", "severity"), [(-0.24, "high"), (-0.22, "medium"), (-0.09, "medium"), (-0.07, "low"), (-0.045, "low")]
)
def test_how_severe_a_shortfall_is_follows_from_the_near_end_of_its_interval(gap: float, severity: str) -> None:
    (short,) = told(counted({"one": fair(recall=gap)}, CEILING))["below-ceiling"]
    assert short.severity == severity and "in diversity: recall lower by" in short.headline
    rows = short.evidence
    assert [row.name for row in rows] == ["difference", "recall"] and rows[0].value == pytest.approx(gap)


@pytest.mark.parametrize(
    ("gap", "ceiling", "severity"),
    [(-0.6, 1.0, "high"), (-0.22, 1.0, "medium"), (-0.07, 1.0, "low"), (-0.22, 0.9, "high"), (-0.22, 4.0, "low")],
)
def test_a_fall_of_density_is_as_severe_as_the_share_of_texts_in_no_ball_that_would_make_it(
    gap: float, ceiling: float, severity: str
) -> None:
    density = {"density": ceiling}
    (short,) = told(counted({"one": {"density": ceiling + gap}}, {"ceiling": density}))["below-ceiling"]
    assert short.severity == severity and "in quality: density lower by" in short.headline
    assert "In precision, recall and coverage no difference could be shown." in says(short)


def test_what_is_higher_is_said_beside_what_falls_short() -> None:
    (short,) = told(counted({"one": fair(precision=-0.1, recall=0.05)}, CEILING))["below-ceiling"]
    assert "Its recall is higher, as of texts whose balls are wide" in says(short)
    assert "In density and coverage no" in says(short)


def test_nothing_is_shown_that_the_correction_takes_away() -> None:
    draft = judged(counted({"one": fair(recall=-0.035)}, CEILING))
    assert draft.row("difference", candidate="one", against="ceiling", metric="recall", k=5).below(0.0)
    found = found_in(draft)
    assert "below-ceiling" not in found and "one" in says(found["no-shortfall"][0])
    assert draft.answer is not None
    told_of = {draft.estimates[one.row].where["metric"]: (one.shown, one.words) for one in draft.answer.verdicts}
    assert told_of["recall"] == (False, "not after correction") and told_of["precision"] == (False, "")


def test_the_matrix_on_top_says_which_way_a_score_differs() -> None:
    draft = judged(counted({"one": fair(precision=-0.1, recall=0.05)}, CEILING))
    assert draft.answer is not None
    told_of = {draft.estimates[one.row].where["metric"]: (one.shown, one.words) for one in draft.answer.verdicts}
    assert told_of["precision"] == (True, "lower") and told_of["recall"] == (True, "higher")
    assert told_of["density"] == (False, "") == told_of["coverage"]


def test_without_a_control_nothing_is_said_of_shortfalls() -> None:
    assert not {"below-ceiling", "no-shortfall"} & set(told(counted({"one": fair(recall=-0.5)})))


def copies(name: str, share: float, first: int = 0) -> Texts:
    """Return a set of which this share are second copies, its kinds numbered from `first`."""
    kinds, twice = np.arange(SIZE) + first, round(share * SIZE)
    kinds[:twice] = kinds[twice : 2 * twice]
    return described(name, kinds)


SHARES = [(0.5, 0.0, "high"), (0.1, 0.0, "medium"), (0.06, 0.0, None), (0.1, 0.09, None), (0.3, 0.1, "high")]


@pytest.mark.parametrize(("own", "reference", "severity"), SHARES)
def test_copies_are_told_beyond_a_least_share_and_beyond_those_of_the_reference(
    own: float, reference: float, severity: str | None
) -> None:
    sets = [copies("one", own, SIZE), copies("reference", reference)]
    found = told(counted({"one": FAIR}, CEILING, sets=sets)).get("mode-collapse", [])
    assert [one.severity for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(("copied", "duplicates", "severity"), SHARES)
def test_texts_of_the_reference_itself_are_told_beyond_its_own_copies(
    copied: float, duplicates: float, severity: str | None
) -> None:
    sets = [copies("one", 0.0, round((1 - copied) * SIZE)), copies("reference", duplicates)]
    found = told(counted({"one": FAIR}, CEILING, sets=sets)).get("copied", [])
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert not found or found[0].evidence[0].value == pytest.approx(copied)


def test_of_sets_in_groups_no_difference_is_told() -> None:
    worse = scores(0.5, 0.5, 0.5, 0.5)
    for share in (0.011, 0.009):
        of_worse = compared("worse", worse, number=0, grouped=(0.0, share))
        found = told(counted({"worse": of_worse, "better": FAIR, "third": FAIR}, CEILING))
        assert ("below-ceiling" in found) == ("dominates" in found) == (share < 0.01)
        if share > 0.01:
            (grouped,) = found["grouped"]
            assert grouped.severity == "medium"
            assert grouped.headline.startswith("Too few texts in each group to judge worse:")
            assert found["no-shortfall"][0].headline == (
                "No shortfall of better, third is shown: precision of better differs by 0.000 (-0.030 to 0.030)."
            )


def test_a_reference_in_groups_lets_no_difference_be_told_and_a_warning_says_so() -> None:
    sides = {name: compared(name, fair(recall=-0.3), grouped=(0.5, 0.0)) for name in "ab"}
    draft = judged(counted(sides, CEILING))
    found = found_in(draft)
    assert "Texts of reference stand" in says(found["grouped"][0])
    assert not {"below-ceiling", "no-shortfall", "dominates"} & set(found)
    assert "grouped" in [one.id for one in draft.warnings]


@pytest.mark.parametrize(
    ("gap", "wide", "shown"), [(0.1, 1, True), (0.02, 1, False), (-0.1, 1, False), (0.1, 3, False)]
)
def test_texts_that_share_more_word_sequences_are_told(gap: float, wide: float, shown: bool) -> None:
    sets = [
        described(name, np.arange(SIZE), sequences=Sequences(SIZE, Halved(value, wide * GAP * SIGNS[number]), {}))
        for number, (name, value) in enumerate({"reference": 0.5, "one": 0.5 + gap}.items())
    ]
    counts = counted({"one": FAIR}, CEILING, sets=sets)
    draft = judged(counts)
    found = found_in(draft).get("more-alike", [])
    assert [(one.severity, one.evidence[0].value) for one in found] == ([("low", pytest.approx(gap))] if shown else [])
    # Only the correction takes the last away.
    assert draft.row("difference", metric="self_bleu", candidate="one", against="reference").above(0.0) == (gap == 0.1)


FLOOR = scores(0.6, 0.98, 0.5, 0.65)


def test_scores_that_are_not_above_the_floor_are_named() -> None:
    poor = fair(precision=-0.29, density=-0.6)
    # Recall is generous to word salad: that of the floor is above that of both.
    (one,) = told(counted({"good": FAIR, "poor": poor}, {**CEILING, "floor": FLOOR}))["not-above-floor"]
    assert one.where == {"candidate": "poor"} and one.severity == "medium"
    assert one.headline.startswith("Precision of poor is not shown to be above shuffled words: 0.0")
    assert "Nor is density, -0.1" in says(one)
    assert [row.value for row in one.evidence] == pytest.approx([0.01, -0.1])


def test_what_falls_short_of_nothing_is_not_held_against_the_floor() -> None:
    # Halfway between a ceiling and a floor that are told apart, and shown to be off neither.
    near = fair(precision=-0.29, density=-0.0225)
    (one,) = told(counted({"one": near}, {**CEILING, "floor": {**FLOOR, "density": 0.955}}))["not-above-floor"]
    assert one.headline.startswith("Precision of one is not shown")


@pytest.mark.parametrize(
    ("floor", "words", "accused"),
    [
        (
            {"precision": 0.89},
            (
                "In precision the encoder is not shown to see word order: real less shuffled is 0.010 (",
                "in precision the ceiling is not shown to be above it; in density and coverage the ceiling is above",
                "against that floor in precision.",
            ),
            "Density of",
        ),
        (
            {"precision": 0.89, "density": 0.99, "coverage": 0.94},
            (
                "The encoder is not shown to see word order: ",
                "With 500 texts a side and minilm, in precision, density and coverage the ceiling is not shown",
                "that floor.",
            ),
            None,
        ),
        (
            {"density": 1.2},
            (
                "In density shuffled words look better to the encoder: real texts are lower by 0.200 (0.170 to 0.230).",
                "minilm, in density the ceiling is below it; in precision and coverage the ceiling is above it. So",
            ),
            "Precision of",
        ),
        ({}, (), "Precision and density of"),
    ],
)
def test_what_the_encoder_does_not_see_is_said_once_and_of_no_candidate(floor, words, accused) -> None:
    poor = fair(precision=-0.3, density=-0.5)
    controls = {**CEILING, "floor": {**FLOOR, **floor}}
    found = told(counted({"one": poor, "two": poor}, controls, encoder=MINILM))
    assert [one.severity for one in found.get("order-unseen", [])] == (["info"] if words else [])
    for part in words:
        assert part in says(found["order-unseen"][0])
    assert len(found.get("not-above-floor", [])) == (2 if accused else 0)
    first, *others = accused.removesuffix(" of").split(" and ") if accused else [""]
    for one in found.get("not-above-floor", []):
        assert one.headline.startswith(f"{first} of") and all(f"Nor is {other}, " in one.statement for other in others)


@pytest.mark.parametrize(
    ("floor", "headline"),
    [
        (
            {"precision": 0.95, "density": 1.3, "coverage": 1.0},
            "To the encoder shuffled words look better: density of real texts is lower by 0.300 (0.270 to 0.330).",
        ),
        (
            {"precision": 0.885, "density": 0.99, "coverage": 0.97},
            "The encoder is not shown to see word order: coverage less that of shuffled words is -0.020 (-0.050 to",
        ),
    ],
)
def test_blindness_to_order_is_headed_by_the_score_that_speaks_most_plainly(
    floor: dict[str, float], headline: str
) -> None:
    controls = {**CEILING, "floor": {**FLOOR, **floor}}
    (one,) = told(counted({"one": FAIR}, controls, encoder=MINILM))["order-unseen"]
    assert one.headline.startswith(headline)
    assert one.evidence[0].value == min(row.value for row in one.evidence)
    told_below = "in precision, density and coverage the ceiling is below it." in one.statement
    assert told_below == headline.startswith("To the encoder") != ("not shown to be above" in one.statement)


def test_blindness_of_some_scores_is_told_of_these_alone_and_of_each_once() -> None:
    floor = {"precision": 0.95, "density": 0.99, "coverage": 0.6}
    draft = judged(counted({"one": FAIR}, {**CEILING, "floor": {**FLOOR, **floor}}, encoder=MINILM))
    (one,) = found_in(draft)["order-unseen"]
    assert one.headline == (
        "In precision shuffled words look better to the encoder: real texts are lower by 0.050 (0.020 to 0.080)."
    )
    assert one.statement == (
        "The floor is reference texts with their words shuffled. With 500 texts a side and minilm, in density the "
        "ceiling is not shown to be above it; in precision the ceiling is below it; in coverage the ceiling is above "
        "it. So no candidate is judged against that floor in precision and density."
    )
    assert faults(draft) == []


def test_a_score_without_an_interval_does_not_speak_most_plainly() -> None:
    floor = {"precision": 0.885, "density": 0.99, "coverage": 0.97}
    counts = counted({"one": FAIR}, {**CEILING, "floor": {**FLOOR, **floor}}, encoder=MINILM)
    draft = estimated(counts)
    where = {"candidate": "ceiling", "against": "floor", "k": 5}
    bare = replace(draft.row("difference", metric="precision", **where), low=None, high=None, method="none")
    other = Draft(
        measures=draft.measures,
        estimates=[bare if row.where == bare.where and row.name == bare.name else row for row in draft.estimates],
    )
    findings(other, counts)
    (one,) = found_in(other)["order-unseen"]
    assert one.headline.startswith("The encoder is not shown to see word order: coverage less that of shuffled words")


def relabelled(own: dict[str, float], *, would_be: float = 0.95) -> dict[str, list[Claim]]:
    """Return the findings on a candidate without a ceiling, which is set against labels dealt anew."""
    dealt = would_be + np.linspace(-0.02, 0.02, 1000)
    found = Relabelled(88, {metric: np.append(own.get(metric, would_be), dealt) for metric in METRICS})
    return told(counted({"one": {**dict.fromkeys(METRICS, would_be), **own}}, relabelled={"one": found}))


def test_without_a_ceiling_what_is_precise_but_less_diverse_is_told_beside_sets_of_one_source() -> None:
    found = relabelled({"recall": 0.614})
    (short,) = found["below-relabelled"]
    assert short.severity == "high"
    rows = short.evidence
    own = {row.name: row for row in rows[1:5]}
    assert short.headline == f"one falls short of reference texts in diversity: recall lower by {size_words(rows[0])}."
    assert short.statement == (
        "That is against a set of the reference's own source. In "
        "precision, density and coverage no difference could be shown. Its precision is "
        f"{span(own['precision'])} and its recall is {span(own['recall'])}; sets of one source "
        "would have 0.950 and 0.950. So one is less diverse, not shown to be less precise."
    )
    assert [row.name for row in rows[:1] + rows[5:]] == ["difference", *["relabelled"] * 4]
    assert own.keys() == set(METRICS) and rows[0].value == pytest.approx(-0.336)
    assert "no-shortfall" not in found


def test_without_a_ceiling_both_may_fall_short_or_none() -> None:
    (short,) = relabelled({"recall": 0.65, "precision": 0.85})["below-relabelled"]
    assert "in quality and diversity: recall lower by" in short.headline and "less diverse" not in says(short)
    found = relabelled({})
    assert "below-relabelled" not in found
    assert found["no-shortfall"][0].statement.startswith("That is of one against a set of the reference's own")


def test_without_a_ceiling_density_is_held_against_what_it_would_be() -> None:
    for would_be, severity in ((1.0, "medium"), (0.5, "high")):
        (short,) = relabelled({"density": would_be - 0.2}, would_be=would_be)["below-relabelled"]
        assert short.severity == severity


def test_findings_stand_worst_first() -> None:
    sides = {"mild": fair(recall=-0.1), "bad": fair(recall=-0.5)}
    found = judged(counted(sides, CEILING, heat={"mild": 1.0, "bad": 2.0})).numbered()
    order = [one.severity for one in found]
    assert order == sorted(order, key=["high", "medium", "low", "info"].index)
    assert found[0].where == {"candidate": "bad"}


def test_who_is_higher_in_both_dominates_whichever_was_named_first() -> None:
    sides = {"low": (0.5, 0.5), "high": (0.9, 0.9), "mixed": (0.95, 0.4)}
    (one,) = told(counted({name: scores(*pair, 1.0, 0.9) for name, pair in sides.items()}))["dominates"]
    assert one.headline.startswith("high exceeds low in recall and in precision, there by ")
    assert one.where == {"candidate": "high"}
    assert len(one.evidence) == 2


def test_one_score_is_not_enough_to_dominate() -> None:
    assert "dominates" not in told(counted({"low": scores(0.5, 0.9, 1.0, 0.9), "high": FAIR}))


def test_the_front_has_whom_none_exceeds_in_both() -> None:
    pairs = {"a": (0.9, 0.5), "b": (0.5, 0.9), "c": (0.5, 0.5), "d": (0.9, 0.4), "e": (0.9, 0.5)}
    counts = counted({name: scores(*pair, 1, 1) for name, pair in pairs.items()})
    assert front_of(estimated(counts), counts) == ["a", "b", "e"]


def swept(**sides: dict[str, float]) -> dict[str, list[Claim]]:
    """Return the findings on a sweep of 0.5, 1, 1.5 and 2."""
    return told(counted(sides, heat=dict(zip(sides, (0.5, 1.0, 1.5, 2.0), strict=False))))


def test_the_path_is_sorted_by_temperature_and_leaves_others_out() -> None:
    counts = counted({"hot": FAIR, "people": FAIR, "cold": FAIR}, heat={"hot": 2.0, "cold": 0.0})
    assert path_of(counts) == [(0.0, "cold"), (2.0, "hot")]


def test_recall_above_its_value_at_1_is_told_with_where_coverage_pays_for_it() -> None:
    (one,) = swept(
        cold=scores(0.9, 0.6, 1, 0.9),
        natural=scores(0.9, 0.7, 1, 0.9),
        hot=scores(0.8, 0.8, 1, 0.9),
        hotter=scores(0.6, 0.9, 1, 0.5),
    )["recall-by-temperature"]
    assert "Recall is above its value at T = 1, 0.700" in says(one)
    assert one.headline.startswith("Recall is higher at T = 2 than at T = 1, by 0.200")
    assert "at T = 1.5 by 0.100 (0.070 to 0.130) and T = 2 by 0.200 (0.170 to 0.230)." in says(one)
    assert one.statement.endswith(
        "Coverage is lower at T = 2: that recall is of wide balls, not of more kinds of text."
    )


def test_recall_that_is_nowhere_above_is_told_with_where_it_is_below() -> None:
    (one,) = swept(cold=scores(0.9, 0.6, 1, 0.9), natural=FAIR, hot=FAIR)["recall-by-temperature"]
    assert one.headline.startswith("Recall is at no other temperature shown to be above")
    assert one.statement.endswith("Recall is below that at T = 0.5.")


def test_a_sweep_without_1_has_nothing_to_compare_recall_with() -> None:
    draft = judged(counted({"a": FAIR, "b": FAIR}, heat={"a": 0.5, "b": 2.0}))
    assert "recall-by-temperature" not in found_in(draft)
    assert "no-natural-temperature" in [one.id for one in draft.warnings]


def test_one_temperature_is_no_sweep() -> None:
    assert not {"recall-by-temperature", "density-falls"} & set(told(counted({"a": FAIR}, heat={"a": 1.0})))


@pytest.mark.parametrize(
    ("densities", "severity", "words"),
    [
        ((1.0, 1.2, 0.9, 0.5), "low", ("at T = 1, 1.200", "lower at T = 1.5: 0.300", "(0.479 to 0.521) at T = 2.")),
        ((1.2, 1.19, 1.18, 0.5), "low", ("largest value at T = 0.5", "is lower at T = 2: 0.700")),
        ((0.5, 0.9, 1.0, 1.2), "info", ("largest value at T = 2", "the hottest of the sweep.")),
        ((1.02, 1.01, 1.0, 1.0), "info", ("largest value at T = 0.5", "not shown to be lower at any hotter one.")),
    ],
)  # fmt: skip
def test_density_is_told_from_where_on_it_falls(densities, severity, words) -> None:
    names = ("cold", "natural", "hot", "hotter")
    (one,) = swept(**{name: {"density": value} for name, value in zip(names, densities, strict=True)})["density-falls"]
    assert one.severity == severity
    for part in words:
        assert part in says(one), says(one)


@pytest.mark.parametrize(("skewness", "warned"), [(2.9, False), (3.1, True)])
def test_hubs_are_warned_of(skewness: float, warned: bool) -> None:
    found = judged(counted({"one": compared("one", FAIR, hubs=skewness)})).warnings
    messages = [one.message for one in found if one.id == "hubs"]
    assert bool(messages) == warned and all("one of 26" in message for message in messages)
