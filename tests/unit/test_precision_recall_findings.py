"""What is said of candidates and of a sweep, with estimates by hand: severities, corrections, names, evidence."""

from types import SimpleNamespace

import numpy as np
import pytest

from audits.core.context import Claim, Draft
from audits.core.intervals import Interval
from audits.precision_recall.comparing import Tally
from audits.precision_recall.counts import Counts, Difference
from audits.precision_recall.findings import findings
from audits.precision_recall.sweep import front_of, path_of
from audits.statistics.halves import Halved

K = 5
METRICS = ("precision", "recall", "density", "coverage")
OF_WORDS = ("duplicates", "copied", "self_bleu")


class World:
    """A report in the making with numbers by hand; whatever is not said is of no difference."""

    def __init__(
        self, scores, *, heat=None, control=500, against=None, hubs=0.5, copies=None, grouped=None, sight=None
    ) -> None:
        self.rows: dict[tuple[str, ...], tuple[Interval, float | None]] = {}
        names = tuple(scores)
        for name, own in scores.items():
            values = dict(zip(METRICS, own, strict=True))
            for metric, value in values.items():
                self.add(metric, name, value)
            self.add("hubness", name, hubs)
        for name, rate in {"reference": 0.0, **dict.fromkeys(scores, 0.0), **(copies or {})}.items():
            self.add("duplicates", name, rate)
        for place, first in enumerate(names):
            for second in (*names[place + 1 :], *(("ceiling",) if control else ())):
                for metric in METRICS:
                    gap = 0.0
                    if second != "ceiling":
                        row = dict(zip(METRICS, scores[first], strict=True))
                        gap = row[metric] - dict(zip(METRICS, scores[second], strict=True))[metric]
                    self.differ(metric, first, second, gap)
        for metric, value in dict(zip(METRICS, FAIR, strict=True)).items() if control else ():
            self.add(metric, "ceiling", value)
        for metric, gap in (sight or {}).items():
            self.differ(metric, "ceiling", "floor", gap)
        for (metric, first, second), gap in (against or {}).items():
            self.differ(metric, first, second, gap)
        heat, grouped = heat or {}, grouped or {}
        none = Tally(*(np.zeros(1, dtype=np.int64) for _ in range(4)), np.full(1, np.inf), np.full(1, np.inf))
        reference = grouped.get("reference", 0.0)
        pool = SimpleNamespace(kinds=np.zeros(1, dtype=np.int64))
        self.counts = Counts(
            inputs=SimpleNamespace(
                settings=SimpleNamespace(k=(K,)),
                control=control,
                encoder=SimpleNamespace(reference="minilm") if sight else None,
                candidates=[SimpleNamespace(name=name, temperature=heat.get(name)) for name in scores],
                names=names,
            ),
            sets={name: SimpleNamespace(pool=pool, texts=None) for name in ("reference", *scores)},
            main={
                name: SimpleNamespace(
                    first=(none, none), grouped={K: (reference, grouped.get(name, 0.0))}, hubs={K: (np.zeros(1), 26)}
                )
                for name in scores
            },
            controls={"ceiling": SimpleNamespace(size=500)},
            clusters={},
        )

    def add(self, metric, name, value, half=0.02) -> None:
        self.rows[metric, name] = interval(value, half), None

    def differ(self, metric, first, second, gap, half=0.03, p=None) -> None:
        self.rows[metric, first, second] = interval(gap, half), (0.001 if abs(gap) > half else 0.5) if p is None else p

    @property
    def draft(self) -> Draft:
        """The table of these numbers."""
        made = Draft()
        for (metric, name, *against), (found, p) in self.rows.items():
            k = {} if metric in OF_WORDS else {"k": K}
            if metric == "relabelled":
                made.add("relabelled", found, candidate=name, metric=against[0], **k)
            elif against:
                where = {"candidate": name, "against": against[0], "metric": metric, **k}
                made.add("difference", found, **where)
                made.add("p_value", Interval(value=p, method="none", n=500, unit="texts"), **where, correction="holm")
            elif name == "ceiling":
                made.add("ceiling", found, metric=metric, **k)
            else:
                made.add(metric, found, candidate=name, **k)
        return made

    def judged(self) -> dict[str, list[Claim]]:
        # Halves that agree: whatever is not shown would have been, however small.
        agreeing = Halved(0.0, np.zeros(20))
        self.counts.__dict__["differences"] = tuple(
            Difference(metric=metric, candidate=name, against=against[0], k=K, value=agreeing, size=500, p=p)
            for (metric, name, *against), (_, p) in self.rows.items()
            if against and p is not None
        )
        self.told = self.draft
        findings(self.told, self.counts)
        found: dict[str, list[Claim]] = {}
        for one in self.told.findings:
            found.setdefault(one.id.removeprefix("texts."), []).append(one)
        return found


def interval(value: float, half: float) -> Interval:
    return Interval(value=value, low=value - half, high=value + half, method="t", n=500, unit="texts")


FAIR = (0.9, 0.9, 1.0, 0.95)


@pytest.mark.parametrize(
    ("gap", "severity"), [(-0.24, "high"), (-0.22, "medium"), (-0.09, "medium"), (-0.07, "low"), (-0.031, "low")]
)
def test_how_severe_a_shortfall_is_follows_from_the_near_end_of_its_interval(gap: float, severity: str) -> None:
    world = World({"one": FAIR}, against={("recall", "one", "ceiling"): gap})
    (short,) = world.judged()["below-ceiling"]
    assert short.severity == severity and "in diversity: recall by" in short.statement
    rows = short.evidence
    assert [row.name for row in rows] == ["difference", "recall"] and rows[0].value == gap


@pytest.mark.parametrize(
    ("gap", "ceiling", "severity"),
    [(-0.6, 1.0, "high"), (-0.22, 1.0, "medium"), (-0.07, 1.0, "low"), (-0.22, 0.9, "high"), (-0.22, 4.0, "low")],
)
def test_a_fall_of_density_is_as_severe_as_the_share_of_texts_in_no_ball_that_would_make_it(
    gap: float, ceiling: float, severity: str
) -> None:
    world = World({"one": FAIR}, against={("density", "one", "ceiling"): gap})
    world.add("density", "ceiling", ceiling)
    (short,) = world.judged()["below-ceiling"]
    assert short.severity == severity and "in quality: density by" in short.statement
    assert "In precision, recall and coverage no difference could be shown." in short.statement


def test_what_is_higher_is_said_beside_what_falls_short() -> None:
    gaps = {("precision", "one", "ceiling"): -0.1, ("recall", "one", "ceiling"): 0.05}
    (short,) = World({"one": FAIR}, against=gaps).judged()["below-ceiling"]
    assert "Its recall is higher, as of texts whose balls are wide" in short.statement
    assert "In density and coverage no" in short.statement


def test_nothing_is_shown_that_the_correction_takes_away() -> None:
    world = World({"one": FAIR})
    world.differ("recall", "one", "ceiling", -0.1, p=0.06)
    found = world.judged()
    assert "below-ceiling" not in found and "one" in found["no-shortfall"][0].statement


def test_without_a_control_nothing_is_said_of_shortfalls() -> None:
    found = World({"one": FAIR}, control=0).judged()
    assert not {"below-ceiling", "no-shortfall"} & set(found)


@pytest.mark.parametrize(
    ("own", "reference", "severity"),
    [(0.5, 0.0, "high"), (0.1, 0.0, "medium"), (0.06, 0.0, None), (0.1, 0.09, None), (0.3, 0.1, "high")],
)
def test_copies_are_told_beyond_a_least_share_and_beyond_those_of_the_reference(
    own: float, reference: float, severity: str | None
) -> None:
    found = World({"one": FAIR}, copies={"one": own, "reference": reference}).judged().get("mode-collapse", [])
    assert [one.severity for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("copied", "duplicates", "severity"),
    [(0.5, 0.0, "high"), (0.1, 0.0, "medium"), (0.06, 0.0, None), (0.1, 0.09, None), (0.3, 0.1, "high")],
)
def test_texts_of_the_reference_itself_are_told_beyond_its_own_copies(
    copied: float, duplicates: float, severity: str | None
) -> None:
    world = World({"one": FAIR}, copies={"reference": duplicates})
    world.add("copied", "one", copied)
    found = world.judged().get("copied", [])
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert not found or found[0].evidence[0].value == copied


def test_of_sets_in_groups_no_difference_is_told() -> None:
    scores = {"worse": (0.5, 0.5, 0.5, 0.5), "better": FAIR, "third": FAIR}
    gaps = {(metric, "worse", other): -0.3 for metric in METRICS for other in ("ceiling", "better")}
    found = World(scores, against=gaps, grouped={"worse": 0.011}).judged()
    (told,) = found["grouped"]
    assert told.severity == "medium" and told.statement.startswith("Texts of worse stand in groups")
    assert "below-ceiling" not in found and "dominates better" not in str(found)
    assert found["no-shortfall"][0].statement.startswith("No shortfall of better and third ")
    assert "below-ceiling" in World(scores, against=gaps, grouped={"worse": 0.009}).judged()


def test_a_reference_in_groups_lets_no_difference_be_told_and_a_warning_says_so() -> None:
    world = World({"a": FAIR, "b": FAIR}, against={("recall", "a", "ceiling"): -0.3}, grouped={"reference": 0.5})
    found = world.judged()
    assert "Texts of reference stand" in found["grouped"][0].statement
    assert not {"below-ceiling", "no-shortfall", "dominates"} & set(found)
    assert [one.id for one in world.told.warnings] == ["grouped"]


@pytest.mark.parametrize(("gap", "told"), [(0.1, True), (0.02, False), (-0.1, False)])
def test_texts_that_share_more_word_sequences_are_told(gap: float, told: bool) -> None:
    world = World({"one": FAIR})
    world.add("self_bleu", "one", 0.5 + gap)
    world.add("self_bleu", "reference", 0.5)
    world.differ("self_bleu", "one", "reference", gap)
    found = world.judged()
    assert ("more-alike" in found) == told
    if told:
        (one,) = found["more-alike"]
        assert one.severity == "low" and one.evidence[0].value == gap
    world.differ("self_bleu", "one", "reference", gap, p=0.06)
    assert "more-alike" not in world.judged()


SIGHT = {"precision": 0.3, "density": 0.5, "coverage": 0.3}


def test_scores_that_are_not_above_the_floor_are_named() -> None:
    short = {(metric, "poor", "ceiling"): -0.2 for metric in ("precision", "density")}
    world = World({"good": FAIR, "poor": FAIR}, sight=SIGHT, against=short)
    for name, gaps in (("good", (0.3, 0.3, 0.3)), ("poor", (0.01, -0.1, 0.3))):
        for metric, gap in zip(("precision", "density", "coverage"), gaps, strict=True):
            world.differ(metric, name, "floor", gap)
    # Recall is generous to word salad.
    world.differ("recall", "good", "floor", -0.2)
    (told,) = world.judged()["not-above-floor"]
    assert told.where == {"candidate": "poor"} and told.severity == "medium"
    assert told.statement.startswith("Precision and density of poor are not shown to be above the floor")
    assert [row.value for row in told.evidence] == [0.01, -0.1]


def test_what_falls_short_of_nothing_is_not_held_against_the_floor() -> None:
    world = World({"one": FAIR}, sight=SIGHT, against={("precision", "one", "ceiling"): -0.2})
    for metric in SIGHT:
        world.differ(metric, "one", "floor", 0.01)
    (told,) = world.judged()["not-above-floor"]
    assert told.statement.startswith("Precision of one is not shown")


@pytest.mark.parametrize(
    ("sight", "words", "accused"),
    [
        ({**SIGHT, "precision": 0.01}, ("in precision the ceiling is not", "against that floor in it."), "Density of"),
        (
            dict.fromkeys(SIGHT, 0.01),
            ("With 500 texts a side, minilm does not tell", "in precision, density and coverage", "that floor."),
            None,
        ),
        ({**SIGHT, "density": -0.2}, ("in density the ceiling is not",), "Precision of"),
        (SIGHT, (), "Precision and density of"),
    ],
)
def test_what_the_encoder_does_not_see_is_said_once_and_of_no_candidate(sight, words, accused) -> None:
    names = ("one", "two")
    gaps = {(metric, name, "ceiling"): -0.2 for metric in ("precision", "density") for name in names}
    world = World(dict.fromkeys(names, FAIR), sight=sight, against=gaps)
    for name in names:
        for metric in SIGHT:
            world.differ(metric, name, "floor", 0.01)
    found = world.judged()
    assert [one.severity for one in found.get("order-unseen", [])] == (["info"] if words else [])
    for part in words:
        assert part in found["order-unseen"][0].statement
    assert len(found.get("not-above-floor", [])) == (2 if accused else 0)
    assert not accused or all(one.statement.startswith(accused) for one in found["not-above-floor"])


def relabelled(gaps, *, would_be=0.95) -> World:
    """Return a report without a ceiling, whose candidate is set against labels dealt anew."""
    world = World({"one": (0.966, 0.614, 1.0, 0.9)}, control=0)
    for metric in METRICS:
        found = Interval(value=would_be, low=0.9, high=1.0, method="m", n=88, unit="texts")
        world.rows["relabelled", "one", metric] = found, None
        world.differ(metric, "one", "relabelled", gaps.get(metric, 0.0))
    return world


def test_without_a_ceiling_what_is_precise_but_less_diverse_is_told_beside_sets_of_one_source() -> None:
    world = relabelled({"recall": -0.336})
    found = world.judged()
    (short,) = found["below-relabelled"]
    assert short.severity == "high"
    assert short.statement == (
        "one falls short of a set of the reference's own source in diversity: recall by 0.336 (0.306 to 0.366). In "
        "precision, density and coverage no difference could be shown. Its precision is 0.966 (0.946 to 0.986) and "
        "its recall is 0.614 (0.594 to 0.634); sets of independent texts of one source would have 0.95 and 0.95. "
        "So one is less diverse, and not shown to be less precise."
    )
    rows = short.evidence
    assert [row.name for row in rows[:1] + rows[5:]] == ["difference", *["relabelled"] * 4] and rows[0].value == -0.336
    assert {row.name for row in rows[1:5]} == set(METRICS)
    assert "no-shortfall" not in found


def test_without_a_ceiling_both_may_fall_short_or_none() -> None:
    (short,) = relabelled({"recall": -0.3, "precision": -0.1}).judged()["below-relabelled"]
    assert "in quality and diversity: precision by" in short.statement and "less diverse" not in short.statement
    found = relabelled({}).judged()
    assert "below-relabelled" not in found
    assert found["no-shortfall"][0].statement.startswith("No shortfall of one against a set of the reference's own")


def test_without_a_ceiling_density_is_held_against_what_it_would_be() -> None:
    for would_be, severity in ((1.0, "medium"), (0.5, "high")):
        (short,) = relabelled({"density": -0.2}, would_be=would_be).judged()["below-relabelled"]
        assert short.severity == severity


def test_findings_stand_worst_first() -> None:
    gaps = {("recall", "mild", "ceiling"): -0.1, ("recall", "bad", "ceiling"): -0.5}
    world = World({"mild": FAIR, "bad": FAIR}, against=gaps, heat={"mild": 1.0, "bad": 2.0})
    world.judged()
    order = [one.severity for one in world.told.numbered()]
    assert order == sorted(order, key=["high", "medium", "low", "info"].index)
    assert world.told.numbered()[0].where == {"candidate": "bad"}


def test_who_is_higher_in_both_dominates_whichever_was_named_first() -> None:
    low, high, mixed = (0.5, 0.5, 1.0, 0.9), (0.9, 0.9, 1.0, 0.9), (0.95, 0.4, 1.0, 0.9)
    (one,) = World({"low": low, "high": high, "mixed": mixed}).judged()["dominates"]
    assert one.statement.startswith("high dominates low:") and one.where == {"candidate": "high"}
    assert len(one.evidence) == 2


def test_one_score_is_not_enough_to_dominate() -> None:
    assert "dominates" not in World({"low": (0.5, 0.9, 1.0, 0.9), "high": FAIR}).judged()


def test_the_front_has_whom_none_exceeds_in_both() -> None:
    world = World(
        {
            "a": (0.9, 0.5, 1, 1),
            "b": (0.5, 0.9, 1, 1),
            "c": (0.5, 0.5, 1, 1),
            "d": (0.9, 0.4, 1, 1),
            "e": (0.9, 0.5, 1, 1),
        }
    )
    assert front_of(world.draft, world.counts) == ["a", "b", "e"]


def swept(**scores) -> World:
    heats = (0.5, 1.0, 1.5, 2.0)
    return World(scores, heat=dict(zip(scores, heats, strict=False)))


def test_the_path_is_sorted_by_temperature_and_leaves_others_out() -> None:
    world = World({"hot": FAIR, "people": FAIR, "cold": FAIR}, heat={"hot": 2.0, "cold": 0.0})
    assert path_of(world.counts) == [(0.0, "cold"), (2.0, "hot")]


def test_recall_above_its_value_at_1_is_told_with_where_coverage_pays_for_it() -> None:
    world = swept(
        cold=(0.9, 0.6, 1, 0.9), natural=(0.9, 0.7, 1, 0.9), hot=(0.8, 0.8, 1, 0.9), hotter=(0.6, 0.9, 1, 0.5)
    )
    (one,) = world.judged()["recall-by-temperature"]
    assert "Recall is above its value at T = 1, 0.700" in one.statement
    assert "at T = 1.5 by 0.100 (0.070 to 0.130) and T = 2 by 0.200 (0.170 to 0.230)." in one.statement
    assert one.statement.endswith(
        "Coverage is lower at T = 2: that recall is of wide balls, not of more kinds of text."
    )


def test_recall_that_is_nowhere_above_is_told_with_where_it_is_below() -> None:
    (one,) = swept(cold=(0.9, 0.6, 1, 0.9), natural=FAIR, hot=FAIR).judged()["recall-by-temperature"]
    assert one.statement.startswith("At no temperature of the sweep is recall shown to be above")
    assert one.statement.endswith("It is below it at T = 0.5.")


def test_a_sweep_without_1_has_nothing_to_compare_recall_with() -> None:
    world = World({"a": FAIR, "b": FAIR}, heat={"a": 0.5, "b": 2.0})
    assert "recall-by-temperature" not in world.judged()
    assert [one.id for one in world.told.warnings] == ["no-natural-temperature"]


def test_one_temperature_is_no_sweep() -> None:
    assert not {"recall-by-temperature", "density-falls"} & set(World({"a": FAIR}, heat={"a": 1.0}).judged())


@pytest.mark.parametrize(
    ("densities", "severity", "words"),
    [
        ((1.0, 1.2, 0.9, 0.5), "low", ("at T = 1, 1.200", "lower at T = 1.5: 0.300", "(0.480 to 0.520) at T = 2.")),
        ((1.2, 1.19, 1.18, 0.5), "low", ("largest value at T = 0.5", "is lower at T = 2: 0.700")),
        ((0.5, 0.9, 1.0, 1.2), "info", ("largest value at T = 2", "the hottest of the sweep.")),
        ((1.02, 1.01, 1.0, 1.0), "info", ("largest value at T = 0.5", "not shown to be lower at any hotter one.")),
    ],
)  # fmt: skip
def test_density_is_told_from_where_on_it_falls(densities, severity, words) -> None:
    names = ("cold", "natural", "hot", "hotter")
    world = swept(**{name: (0.9, 0.9, density, 0.9) for name, density in zip(names, densities, strict=True)})
    (one,) = world.judged()["density-falls"]
    assert one.severity == severity
    for part in words:
        assert part in one.statement, one.statement


@pytest.mark.parametrize(("skewness", "warned"), [(2.9, False), (3.1, True)])
def test_hubs_are_warned_of(skewness: float, warned: bool) -> None:
    world = World({"one": FAIR}, hubs=skewness)
    world.judged()
    told = [one.message for one in world.told.warnings if one.id == "hubs"]
    assert bool(told) == warned and all("one of 26" in message for message in told)
