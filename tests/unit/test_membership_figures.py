"""The charts of the membership audit: which there are, what they show, and that no scores can break them."""

import json
import math
from typing import Any

import numpy as np
import pytest
import vl_convert
from audited_points import FPRS, GivenCounts, attack_of, inputs_of, labelled

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.core.wording import span
from audits.membership.attack_figures import ALL_POINTS, CHANCE, LEAST_POINTS, MOST_BINS, MOST_POINTS, claim_name, rates
from audits.membership.attack_figures import scores as all_scores
from audits.membership.bound_figures import STANDING, proofs
from audits.membership.bounding import (
    ASSUMES_GDP,
    ASSUMES_INDEPENDENT,
    ASSUMES_INDEPENDENT_GDP,
    CERTIFIED,
    CLOPPER_PEARSON,
    GDP,
    HEURISTIC,
    INDEPENDENT,
    INDEPENDENT_GDP,
    ONE_RUN,
    Bounds,
    Proved,
)
from audits.membership.claims import Claim
from audits.membership.estimates import estimates
from audits.membership.figure_parts import LONGEST, MOST_PANELS, MOST_ROWS, names_of
from audits.membership.figures import areas, figures
from audits.membership.leak_figures import leakage, utility
from audits.membership.leaks import leaks_of
from audits.membership.rates import judged_of
from audits.membership.releases import Release
from audits.report.charts.text import distinct
from audits.report.charts.theme import CONFIG
from audits.report.pages.content import listing
from audits.report.pages.figures import sized
from audits.statistics import clopper_pearson, generator
from audits.statistics.epsilon_bounds import most_hits
from audits.statistics.roc import Floats, area, call_at

EVIL = "</script><script>alert(1)</script> | `a` & <img src=x> {{ 7*7 }}"
KINDS = {"roc": rates, "auc": areas, "epsilon": proofs, "leakage": leakage, "utility": utility, "scores": all_scores}
ALL = list(KINDS)
ONE = ["roc", "auc", "epsilon", "scores"]


class World:
    """Results of attacks, which are (model, name, tier, scores), the first half of the scores of members.

    Bounds alone are by hand.
    """

    def __init__(
        self, attacks, *, claims=None, utilities=None, blind=False, bounds=True, validity=HEURISTIC, assumed=()
    ) -> None:
        self.draft, self.assumed, count = Draft(), dict(assumed), len(attacks[0][-1])
        pool, claims = labelled(np.arange(count) < count // 2), claims or {}
        self.judged = [
            judged_of(attack_of(name, given, pool.member, model=model, tier=tier), 0.95, FPRS)
            for model, name, tier, given in attacks
        ]
        models = list(dict.fromkeys(model for model, *_ in attacks))
        claimed = {model: Claim(epsilon=value, delta=1e-5, source="") for model, value in claims.items()}
        releases = tuple(Release(name=model, claim=claimed.get(model)) for model in models)
        self.counts = GivenCounts(
            inputs=inputs_of(pool, releases=releases),
            judged=tuple(self.judged),
            bounds=[self.bound(one, validity) for one in self.judged] if bounds else [],
            leaks=leaks_of(self.judged, pool, models),
            blind={name: area(scores(0.0), np.arange(200) < 100) for name in ("linear", "trees")} if blind else {},
            utilities={
                (model, measure): Interval(value=value, low=value - 0.05, high=value + 0.05, method="t", n=9, unit="p")
                for measure, values in (utilities or {}).items()
                for model, value in values.items()
            },
        )
        estimates(self.draft, self.counts)

    def bound(self, one, validity) -> Bounds:
        methods = {CLOPPER_PEARSON: validity, GDP: ASSUMES_GDP}
        methods |= {ONE_RUN: CERTIFIED} if validity == HEURISTIC else {}
        methods |= self.assumed
        low, most = 4 * one.area.value, {GDP: 30.0, INDEPENDENT_GDP: 40.0}
        return Bounds(
            judged=one,
            proved={
                method: Proved(
                    method=method,
                    validity=how,
                    bound=Interval(value=low, low=low, high=most.get(method, 5.0), method="t", n=9, unit="points"),
                )
                for method, how in methods.items()
            },
            rivals=1,
        )

    def figures(self) -> dict:
        return {figure.id: figure for figure in figures(self.draft, self.counts)}

    def figure(self, id) -> Any:
        """Draw one figure only: each of the others takes its time."""
        attacks, models = (names_of([getattr(one.attack, key) for one in self.judged]) for key in ("name", "model"))
        names = (models,) if id in ("leakage", "utility") else (attacks, models)
        return KINDS[id](self.draft, self.counts, *names)


def scores(shift, n=200, seed=0) -> Floats:
    noise = generator(seed, "test", "figures").normal(size=n)
    return noise + shift * (np.arange(n) < n // 2)


def rows(figure) -> list[dict]:
    return figure.spec["data"]["values"]


def panels(figure) -> dict:
    views = figure.spec.get("vconcat", [figure.spec])
    return {view.get("title", {"text": ""})["text"]: view["data"]["values"] for view in views}


def table(figure) -> dict:
    return figure.spec["usermeta"]["miles"]["table"]


def curve(figure, **where) -> list[dict]:
    return [row for row in rows(figure) if "low" in row and where.items() <= row.items()]


SUITE = [
    ("a", "near", "samples", scores(0.2, seed=1)),
    ("a", "loss", "denoiser", scores(1.5, seed=2)),
    ("b", "near", "samples", scores(0.1, seed=3)),
    ("b", "loss", "denoiser", scores(0.5, seed=4)),
]
BOTH = {(model, name) for model in "ab" for name in ("near", "loss")}
LONG = "x" * 59
ODD = {
    "plain": scores(1.0),
    "perfect": np.arange(200.0)[::-1],
    "reversed": np.arange(200.0),
    "equal": np.zeros(200),
    "one value but one": np.eye(1, 200, 150)[0],
    "huge": np.where(np.arange(200) % 3, 1.7e308, -1.7e308),
    "tiny": scores(1.0) * 1e-300,
    "narrow": 1e6 + scores(1.0) * 1e-4,
    "subnormal": np.arange(200) * 5e-324,
    "few": np.arange(20.0) % 7,
    "many": scores(0.5, n=20_000),
}
CASES = [
    *(
        ([("", name, "full", ODD[name])], {"claims": {"": 1.0}}, ["roc", "auc", "epsilon"])
        for name in ("equal", "reversed", "huge", "few")
    ),
    ([("", name, "full", values) for name, values in ODD.items() if len(values) == 200], {"blind": True}, ONE),
    ([("", f"{LONG}{n:02}"[-60:], "denoiser", scores(0.1 * n, seed=n)) for n in range(30)], {"claims": {"": 1e4}}, ONE),
    ([("", EVIL + n, "samples", scores(1.0)) for n in "ab"], {"blind": True, "claims": {"": 0.0}}, ONE),
    (SUITE, {"claims": {"a": 8.0}, "blind": True, "utilities": {"recall": {"a": 0.5, "b": 0.7}}}, ALL),
    (SUITE, {"utilities": {"recall": {"a": 0.5}}, "bounds": False}, ["roc", "auc", "leakage", "scores"]),
    ([(f"{EVIL} {n}"[-60:], "near", "samples", scores(0.1 * n)) for n in range(5)], {"validity": CERTIFIED},
     ["roc", "auc", "epsilon", "leakage", "scores"]),
]  # fmt: skip


@pytest.mark.parametrize(("attacks", "more", "names"), CASES)
def test_which_figures_there_are_and_that_they_can_be_drawn(attacks, more, names) -> None:
    found = World(attacks, **more).figures()
    assert [name for name in found if name in names] == names and set(found) - set(names) <= {"scores"}
    size = 0
    for figure in found.values():
        assert figure.title.endswith("?") and figure.caption.endswith(".")
        size += len(json.dumps(figure.spec, allow_nan=False))
        svg = vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, allowed_base_urls=[])
        assert "<svg" in svg and "<script" not in svg and "NaN" not in svg
        if "usermeta" in figure.spec:
            assert listing(figure) is not None
    assert size < 190_000


def test_nothing_was_judged() -> None:
    assert not list(figures(Draft(), GivenCounts(inputs=inputs_of(labelled(np.arange(20) < 10)))))


def test_a_curve_never_shows_more_hits_than_there_are() -> None:
    world = World([("", "many", "full", ODD["many"])], claims={"": 1.0})
    figure, one = world.figure("roc"), world.judged[0].curve
    drawn = curve(figure)
    assert (
        len(drawn) <= MOST_POINTS + len(FPRS) and drawn[0]["fpr"] == 1e-4 and drawn[-1]["tpr"] == drawn[-1]["fpr"] == 1
    )
    for row in drawn:
        hits = call_at(one, round(row["fpr"] * one.others) / one.others).hits
        assert row["tpr"] == pytest.approx(hits / one.members, rel=1e-3)
        assert [row["low"], row["high"]] == pytest.approx(clopper_pearson(hits, one.members, level=0.95), rel=1e-3)
    # The rates that are told lie on the line.
    for row in (row for row in rows(figure) if "at" in row):
        assert next(own["tpr"] for own in reversed(drawn) if own["fpr"] <= row["at"]) == pytest.approx(row["tpr"], 1e-3)
        assert row["from"] < row["tpr"] < row["to"]


def test_where_nobody_is_found_there_is_the_band_alone() -> None:
    figure = World([("", "reversed", "full", ODD["reversed"])]).figure("roc")
    first = curve(figure)[0]
    assert "tpr" not in first and first["low"] == 0.01 and first["high"] == pytest.approx(1 - 0.025**0.01, rel=1e-3)
    assert not [row for row in rows(figure) if "at" in row]


@pytest.mark.parametrize(("epsilon", "free"), [(1.0, False), (20.0, True)])
def test_the_line_of_a_claim(epsilon, free) -> None:
    figure = World([("", "plain", "full", ODD["plain"])], claims={"": epsilon}).figure("roc")
    name = f"most that epsilon = {epsilon:g} allows"
    allowed = [row for row in rows(figure) if row["series"] == name]
    rates = [row["fpr"] for row in allowed]
    assert rates[0] == 0.01 and rates[-1] == 1
    assert min(abs(rate - 1 / (1 + math.exp(epsilon))) for rate in rates) < 1e-4 or free
    assert [row["most"] for row in allowed] == pytest.approx(most_hits(rates, epsilon, 1e-5).tolist(), rel=1e-3)
    assert name in figure.caption and ("It allows everything" in figure.caption) == free


def test_claims_of_several_models_stand_in_their_own_panels() -> None:
    figure = World(SUITE, claims={"a": 30.0, "b": 0.5}).figure("roc")
    name = claim_name([Claim(epsilon=value, delta=0.0, source="") for value in (30.0, 0.5)])
    few = [row for row in rows(figure) if row["series"] == name and row["fpr"] < 0.1]
    most = {panel: max(row["most"] for row in few if row["panel"] == panel) for panel in "ab"}
    assert most["a"] == 1.0 and most["b"] < 0.2 and "That of a allows everything" in figure.caption
    lone = World(SUITE, claims={"b": 0.5}).figure("roc")
    assert {row["panel"] for row in rows(lone) if row["series"].startswith("most")} == {"b"}
    assert {row["panel"] for row in rows(lone) if row["series"] == CHANCE} == {"a", "b"}


@pytest.mark.parametrize(("count", "apart"), [(4, False), (5, True), (30, True)])
def test_many_attacks_have_a_panel_each(count, apart) -> None:
    attacks = [("", f"attack {n}", "full", scores(0.1 * n, n=2000, seed=n)) for n in range(count)]
    world = World(attacks)
    figure = world.figure("roc")
    best = [f"attack {n}" for n in np.argsort([-one.area.value for one in world.judged])]
    key = "panel" if apart else "series"
    assert distinct([row for row in rows(figure) if row["series"] != CHANCE], key) == best[:MOST_PANELS]
    assert ("facet" in figure.spec) == apart
    assert ("18 more attacks are in the tables only." in figure.caption) == (count == 30)
    if apart:
        most = max(LEAST_POINTS, ALL_POINTS // min(count, MOST_PANELS)) + len(FPRS)
        assert 40 < len(curve(figure, panel=best[0])) <= most
    assert [row[0] for row in table(figure)["rows"]] == best[:MOST_PANELS]
    assert table(figure)["rows"][0][2] == span(world.draft.row("auc", attack=best[0], tier="full"))


def test_of_several_models_the_best_of_each_tier_is_drawn() -> None:
    figure = World([*SUITE, ("a", "weak", "denoiser", scores(0.0, seed=9))]).figure("roc")
    assert {(row[0], row[1]) for row in table(figure)["rows"]} == BOTH
    assert {(row["panel"], row["attack"]) for row in rows(figure) if "attack" in row} <= BOTH
    assert "highest AUC of each kind of access" in figure.caption


def test_areas_stand_by_tier_beside_the_points_alone_on_one_axis() -> None:
    three = (("strong", "denoiser", 2.0), ("weak", "denoiser", 1.0), ("none", "samples", 0.0))
    attacks = [("", name, tier, scores(shift)) for name, tier, shift in three]
    world = World(attacks, blind=True)
    figure = world.figure("auc")
    found = panels(figure)
    assert {title: [row.get("name", row.get("classifier")) for row in own] for title, own in found.items()} == {
        "From samples": ["none"],
        "With the denoiser": ["strong", "weak"],
        "Without the model": ["linear", "trees"],
    }
    strong = found["With the denoiser"][0]
    row = world.draft.row("auc", attack="strong", tier="denoiser")
    assert [strong[key] for key in ("value", "low", "high")] == pytest.approx([row.value, row.low, row.high], rel=1e-5)
    assert not strong["as chance"] and found["From samples"][0]["as chance"]
    layers = [layer for view in figure.spec["vconcat"] for layer in view["layer"]]
    ends = {tuple(layer["encoding"]["x"]["scale"]["domain"]) for layer in layers}
    assert len(ends) == 1
    low, high = ends.pop()
    every = [row[key] for own in found.values() for row in own for key in ("low", "high", "reference")]
    assert low <= min(every) and high >= max(every)


def test_equal_scores_have_a_point_at_chance_and_no_interval() -> None:
    (row,) = panels(World([("", "equal", "full", ODD["equal"])]).figure("auc"))[""]
    assert row["value"] == 0.5 and row["low"] is row["high"] is None and row["as chance"]


def test_the_bounds_of_the_attacks_that_prove_most() -> None:
    attacks = [("", f"attack {n}", "full", scores(0.5 * n)) for n in range(5)]
    figure = World(attacks, claims={"": 3.0}).figure("epsilon")
    assert list(panels(figure)) == ["attack 4", "attack 3", "attack 2"] and "2 more attacks are" in figure.caption
    drawn = {row["method"]: row for row in panels(figure)["attack 4"]}
    assert {name: row["words"].split(", ")[1] for name, row in drawn.items()} == {
        CLOPPER_PEARSON: "heuristic", GDP: "if Gaussian", ONE_RUN: "certified",
    }  # fmt: skip
    assert figure.caption.split(". ")[-2].endswith("the verdict is by one-run")
    # What a perfect attack proves under an assumption does not squeeze the rest.
    assert drawn[GDP]["beyond"] and drawn[GDP]["ceiling"] == 30 and drawn[GDP]["until"] < 10
    assert not drawn[ONE_RUN]["beyond"] and drawn[ONE_RUN]["until"] == 5
    assert [row[-1] for row in table(figure)["rows"]] == ["3"] * 9


def test_bounds_of_canaries_that_do_not_interfere_have_shapes_and_words_of_their_own() -> None:
    attack = [("", "plain", "full", ODD["plain"])]
    without = World(attack).figure("epsilon")
    assumed = {INDEPENDENT: ASSUMES_INDEPENDENT, INDEPENDENT_GDP: ASSUMES_INDEPENDENT_GDP}
    figure = World(attack, assumed=assumed).figure("epsilon")
    drawn = {row["method"]: row for row in panels(figure)[""]}
    words = {name: drawn[name]["words"].split(", ")[1] for name in assumed}
    assert words == {INDEPENDENT: "if independent", INDEPENDENT_GDP: "if both"}
    assert (
        "Square: holds if canaries do not interfere (independent); triangle that points down: if both."
        in figure.caption
    )
    assert "Square" not in without.caption
    shapes = [STANDING[validity][0] for validity in (*assumed.values(), ASSUMES_GDP)]
    assert shapes == ["square", "triangle-down", "triangle-up"]
    assert drawn[INDEPENDENT_GDP]["until"] < 10 and drawn[INDEPENDENT_GDP]["beyond"]


@pytest.mark.parametrize(("claimed", "on"), [(3.0, True), (8.0, True), (1e4, False), (None, False)])
def test_a_claim_far_off_is_told_and_not_drawn(claimed, on) -> None:
    claims = {} if claimed is None else {"": claimed}
    figure = World([("", "plain", "full", ODD["plain"])], claims=claims).figure("epsilon")
    own = [layer["data"]["values"] for layer in figure.spec["layer"] if "data" in layer]
    assert own == ([[{"claimed": claimed}]] if on else [])
    axis = figure.spec["layer"][-1]["encoding"]["x"]
    assert axis["axis"]["title"] == {
        None: "Epsilon", 1e4: "Epsilon (claimed: 10000, off the chart)",
    }.get(claimed, f"Epsilon (claimed: {claimed or 0:g})")  # fmt: skip
    assert axis["scale"]["domain"][1] < 20


def test_leaks_are_compared_within_an_access() -> None:
    figure = World(SUITE).figure("leakage")
    found = {title: [row["model"] for row in own] for title, own in panels(figure).items()}
    assert found["With the weights"] == ["a", "b"] and set(found["From samples alone"]) == {"a", "b"}
    assert {row["attack"] for row in panels(figure)["With the weights"]} == {"loss"}


@pytest.mark.parametrize(
    ("utilities", "claims", "measure"),
    [
        ({"held_out_loss": {"a": 0.1, "b": 0.2}, "recall": {"a": 0.5, "b": 0.6}}, {"a": 1.0}, "held_out_loss"),
        ({"held_out_loss": {"a": 0.1}, "recall": {"a": 0.5, "b": 0.6}}, {}, "recall"),
    ],
)
def test_leaks_against_what_was_learnt(utilities, claims, measure) -> None:
    world = World(SUITE, utilities=utilities, claims=claims)
    figure = world.figure("utility")
    drawn = {row["model"]: row for row in rows(figure)}
    assert len(rows(figure)) == 2
    assert {model: row[measure] for model, row in drawn.items()} == utilities[measure]
    leaks = {row.where["model"]: row.value for row in world.draft.select("leakage", access="weights")}
    assert {model: row["leakage"] for model, row in drawn.items()} == pytest.approx(leaks)
    assert [row["kind"] == "claims privacy" for row in drawn.values()] == ["a" in claims, False]
    assert ("private" in figure.title) == bool(claims)
    assert ("further to the left learnt more" in figure.caption) == (measure == "held_out_loss")


def test_models_without_weights_are_compared_by_their_samples() -> None:
    figure = World(SUITE[:-1], utilities={"recall": {"a": 0.5, "b": 0.6}}).figure("utility")
    assert len(rows(figure)) == 2 and "from samples alone" in figure.caption


@pytest.mark.parametrize("name", ["plain", "huge", "narrow", "tiny", "many", "one value but one"])
def test_scores_are_counted_in_bins_that_can_be_told_apart(name) -> None:
    world = World([("", name, "full", ODD[name])])
    drawn = rows(world.figure("scores"))
    each = {side: [row for row in drawn if row["points"] == side] for side in ("members", "non-members")}
    for own in each.values():
        assert len(own) <= MOST_BINS and math.fsum(row["share"] for row in own) == pytest.approx(1, abs=1e-4)
        assert all(row["low"] <= row["share"] <= row["high"] for row in own)
        middles = [row["score"] for row in own]
        assert all(np.diff(middles) > 0) and max(map(abs, middles)) < 1e9


def test_the_threshold_of_the_fewest_false_alarms_with_a_hit() -> None:
    world = World([("", "plain", "full", scores(2.0, n=400))])
    drawn, threshold = rows(world.figure("scores")), call_at(world.judged[0].curve, 0.01).threshold
    assert all(row["rule"] == pytest.approx(threshold, rel=1e-5) for row in drawn)
    beyond = sum(row["share"] for row in drawn if row["points"] == "members" and row["score"] > threshold)
    assert beyond == pytest.approx(call_at(world.judged[0].curve, 0.01).hits / 200, abs=0.1)
    assert "1 % of the non-members" in world.figure("scores").caption


def test_equal_scores_have_no_spread() -> None:
    assert World([("", "equal", "full", ODD["equal"])]).figure("scores") is None


def test_long_names_are_cut_told_apart_and_whole_in_the_tables() -> None:
    long = [LONG + "a", LONG + "xa", "x" * 11 + "…" + "x" * 11 + "a", "begins alike, and then ends otherwise 7"]
    world = World([("", name, "full", scores(1.0, seed=n)) for n, name in enumerate(long)])
    (drawn,) = panels(world.figure("auc")).values()
    assert "begins alik…otherwise 7" in {row["attack"] for row in drawn}
    assert len({row["attack"] for row in drawn}) == 4 and max(len(row["attack"]) for row in drawn) <= LONGEST + 4
    assert {row["name"] for row in drawn} == {row[0] for row in table(world.figure("roc"))["rows"]} == set(long)


def test_a_forest_of_many_models_stays_of_a_size() -> None:
    attacks = [(f"m{m}", f"attack {n}", "samples", scores(0.1 * n, seed=m)) for m in range(6) for n in range(12)]
    figure = World(attacks).figure("auc")
    assert sum(map(len, panels(figure).values())) == MOST_ROWS and "42 more attacks" in figure.caption
