"""The charts of the phonemes audit: which there are, what they show and in which order, and what they leave out."""

import json
import re
from functools import cache

import numpy as np
import pytest
import vl_convert
from given_results import given

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.intervals import Interval
from audits.phoneme_errors import AUDIT, Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.figures import MOST_GROUPS, MOST_PANELS, MOST_POINTS, figures
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import CORRELATION, SPLIT, TESTS, TRAININGS, LayerCounts, Values
from audits.report.charts.theme import CONFIG
from audits.report.pages.figures import sized
from probes.speech.phone_probes import Hits
from probes.speech.phone_scatter import Scatter

OPTIONS = Options(tokens="tokens.csv", by=("accent",))
GROUPS = {"accent=east": "accent", "accent=west": "accent", "gender=f": "gender", "gender=m": "gender"}
ERRORS = (("systematic_error", 0.1, 0.03), ("accuracy_gap", 0.15, 0.03), ("remaining_gap", 0.05, 0.07))


def counted(layers, groups, speakers, *, against, options, within) -> Counts:
    """Return counts of speakers who each say two phones five times, the later ones read worse and scattered more."""
    numbers, by = np.arange(speakers), tuple(groups.values())
    each = [by[:row].count(name) for row, name in enumerate(by)]
    member = np.array([numbers % by.count(name) == place for name, place in zip(by, each, strict=True)], bool)
    member = member.reshape(len(by), speakers)
    corpus = Corpus(
        phones=np.tile([0, 1], 5 * speakers), speakers=np.repeat(numbers, 10), phone_names=("a", "b"),
        names=tuple(f"s{number}" for number in numbers), attributes=({},) * speakers, groups=tuple(groups), by=by,
        member=member, rest=~member, small={}, dropped={}, several=0, people=numbers,
    )  # fmt: skip
    none, trials = np.zeros(member.shape), np.full((speakers, 2), 5.0)
    of_groups = ("variance", "within", "shift", "moved")
    scatter = Scatter(
        **{name: none.sum(1) for name in of_groups}, **{f"{name}_without": none for name in of_groups},
        total=1.0, total_without=np.ones(speakers), phones=2, own_phones=np.full((3, speakers), 2.0 * within),
        own=np.tile(1.0 + numbers, (3, 1)), around=np.tile(100.0 + numbers, (3, 1)),
    )  # fmt: skip
    read = np.zeros((*member.shape, 2))
    everyone = trials * (0.9 - 0.5 * numbers / speakers)[:, None]
    hits = Hits(trials=trials, everyone=everyone, matched=read, inside=read, outside=read)
    draws = np.zeros((1, 1 + 5 * len(by), 2))
    first = tuple(
        Values(
            LayerCounts(layer=layer, scatter=scatter, cosine=scatter, hits=hits, draws=draws), corpus, np.full(2, 0.5)
        )
        for layer in layers
    )
    return Counts(options=options, corpus=corpus, first=first, second=first if against else ())


class World:
    """A report in the making with numbers by hand: `told` groups have errors beyond chance, the others none.

    `within`: whether speakers said phones twice; `half`: half the width of the intervals of ratios; `without`: name and
    group of an estimate that is not there.
    """

    def __init__(
        self, layers=(0,), groups=GROUPS, told=("accent=east",), speakers=12, against=False, options=OPTIONS,
        within=True, half=0.2, without=(),
    ) -> None:  # fmt: skip
        self.draft, self.without = Draft(measures=AUDIT.by_name), without
        for layer in layers:
            self.add("accuracy", 0.6 + 0.01 * layer, 0.02, layer=layer, group=ALL, training="all")
            for group in groups:
                own = group in told
                for training in TRAININGS:
                    lift = 0.1 * own * (training == "in")
                    self.add("accuracy", 0.55 + lift, 0.03, layer=layer, group=group, training=training)
                for name, value, wide in ERRORS:
                    self.add(name, value * own, wide, layer=layer, group=group)
                self.add("variance_ratio", 1.5 if own else 1.0, half, layer=layer, group=group)
                for test in TESTS:
                    p = Interval(value=0.001 if own else 0.5, method="none", n=12, unit="speakers")
                    self.draft.add("p_value", p, layer=layer, group=group, test=test, correction="holm")
                if against:
                    self.add("systematic_error_difference", -0.2, 0.03, layer=layer, group=group)
            for partial in ("no", "yes"):
                for name in (CORRELATION, SPLIT):
                    self.add(name, -0.5, 0.1, layer=layer, unit="speaker", partial=partial)
        self.counts = counted(layers, groups, speakers, against=against, options=options, within=within)
        changes = {
            ("systematic_error_difference", layer, group): 0.001 if group in told else 0.5
            for layer in layers
            for group in groups
        }
        given(self.counts, change_p=changes)

    def add(self, name, value, half, **where) -> None:
        if self.without != (name, where.get("group")):
            ends = {"low": value - half, "high": value + half}
            self.draft.add(name, Interval(value=value, **ends, method="t", n=12, unit="speakers"), **where)

    def figures(self) -> dict:
        return {figure.id: figure for figure in figures(self.draft, self.counts)}


@cache
def drawn(layers=(0,), against=False) -> dict:
    """The figures of a world as it is, for tests that change nothing in it."""
    return World(layers, against=against).figures()


def views(figure) -> dict[str, list[dict]]:
    """The rows of each panel of a forest by its title, one line or several."""
    titles = [view["title"]["text"] for view in figure.spec["vconcat"]]
    lines = ["".join(title) if isinstance(title, list) else title for title in titles]
    return dict(zip(lines, (view["data"]["values"] for view in figure.spec["vconcat"]), strict=True))


def rows(figure) -> list[dict]:
    return figure.spec["data"]["values"]


ONE = ["errors", "scatter", "gap", "accuracy", "speakers"]
SEVERAL = ["errors", "scatter-by-layer", "gap", "accuracy", "accuracy-by-layer", "correlation", "speakers"]


@pytest.mark.parametrize(("layers", "names"), [((0,), ONE), ((0, 4), SEVERAL)])
def test_which_figures_there_are_and_that_they_can_be_drawn(layers, names) -> None:
    shown = drawn(layers, against=True)
    assert list(shown) == [*names, "moved"]
    for figure in shown.values():
        assert figure.title.endswith("?")
        assert re.fullmatch("[a-z0-9-]+", figure.file)
        assert "<svg" in vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, allowed_base_urls=[])


def test_a_plain_table_has_no_layer_to_speak_of_and_an_encoder_names_its_best() -> None:
    for figure in drawn((0,), against=True).values():
        assert "layer" not in f"{figure.title} {figure.caption}".lower()
        assert not re.search("Layer|layer [0-9]", json.dumps(figure.spec))
    assert "For each group in layer 6:" in World((6,), dict(list(GROUPS.items())[:2])).figures()["gap"].caption
    assert "in layer 4, where phones are read best" in drawn((0, 4), against=True)["gap"].caption


@pytest.mark.parametrize(("id", "reference"), [("errors", 0.0), ("scatter", 1.0), ("moved", 0.0)])
def test_what_is_not_shown_of_a_group_is_grey(id, reference) -> None:
    panels = views(drawn((0,), against=True)[id])
    assert set(panels) == {"by accent", "by gender"}
    grey = {row["label"]: row["undecided"] for panel in panels.values() for row in panel}
    assert grey == {group: group != "accent=east" for group in GROUPS}
    assert {row["reference"] for panel in panels.values() for row in panel} == {reference}


@pytest.mark.parametrize("id", ["errors", "moved"])
def test_which_estimate_a_line_shows(id) -> None:
    shown = rows(drawn((0, 4), against=True)[id])
    value = 0.1 if id == "errors" else -0.2
    assert [(row["layer"], row["value"]) for row in shown if row["series"] == "accent=east"] == [(0, value), (4, value)]


def test_the_gap_is_the_sum_of_what_is_mended_and_what_is_left_and_the_widest_is_on_top() -> None:
    panels = views(World(told=("gender=m",)).figures()["gap"])
    assert next(iter(panels)) == "gender=m"
    gap, mended, left = (row["value"] for row in panels["gender=m"])
    assert gap == pytest.approx(mended + left)
    assert [row["undecided"] for row in panels["gender=m"]] == [False, False, True]


def test_the_four_probes_stand_beside_the_accuracy_over_all_speakers_on_one_scale() -> None:
    figure = drawn((0, 4), against=True)["accuracy"]
    panels = views(figure)
    assert [row["label"] for row in panels["accent=east"]] == [
        "everyone",
        "as many of everyone",
        "the group alone",
        "everyone else",
    ]
    assert panels["accent=east"][2]["value"] == 0.65
    assert {row["reference"] for panel in panels.values() for row in panel} == {0.64}
    assert figure.spec["resolve"]["scale"]["x"] == "shared"
    titles = [view["layer"][1]["encoding"]["x"]["axis"]["title"] for view in figure.spec["vconcat"]]
    assert titles == [None] * 3 + ["Accuracy (share of tokens, common mix)"]


def test_phones_that_count_alike_are_said_to() -> None:
    options = Options(tokens="tokens.csv", by=("accent",), weights="phones")
    assert "mean share over phones" in World(groups={}, options=options).figures()["speakers"].caption
    assert "share of tokens" in drawn((0,), against=True)["speakers"].caption


@pytest.mark.parametrize("id", ["errors", "scatter-by-layer", "accuracy-by-layer", "correlation"])
def test_lines_have_a_rule_where_there_is_a_value_to_compare_with(id) -> None:
    figure = drawn((0, 4), against=True)[id]
    held = {row.get("reference") for row in rows(figure)}
    assert held == {{"scatter-by-layer": 1.0, "accuracy-by-layer": None}.get(id, 0.0)}
    marks = [layer["mark"]["type"] for layer in figure.spec.get("spec", figure.spec)["layer"]]
    assert ("rule" in marks) is (id != "accuracy-by-layer")


@pytest.mark.parametrize(("count", "facet"), [(4, None), (5, "series")])
def test_more_than_four_groups_have_a_panel_each(count, facet) -> None:
    groups = {f"accent={number}": "accent" for number in range(count)}
    spec = World((0, 1), groups).figures()["errors"].spec
    assert spec.get("facet", {}).get("field") == facet


def test_two_attributes_of_few_groups_have_a_panel_each() -> None:
    assert drawn((0, 4), against=True)["errors"].spec["facet"]["field"] == "by"


def test_of_many_groups_those_with_the_largest_errors_are_drawn_and_the_rest_is_counted() -> None:
    groups = {f"accent={number:02d}": "accent" for number in range(20)}
    shown = World((0, 1), groups, told=("accent=19",)).figures()
    assert len({row["series"] for row in rows(shown["errors"])}) == MOST_PANELS
    assert "accent=19" in {row["series"] for row in rows(shown["errors"])}
    assert f"{20 - MOST_PANELS} more groups are in the tables only." in shown["errors"].caption
    assert len(views(shown["gap"])) == MOST_GROUPS
    assert f"{20 - MOST_GROUPS} more groups are in the tables only." in shown["gap"].caption


def test_crossings_give_way_to_attributes() -> None:
    crossed = {f"accent={number}&gender=m": "accent&gender" for number in range(MOST_GROUPS)}
    panels = views(World(groups={**crossed, **GROUPS}, told=tuple(crossed)).figures()["gap"])
    assert set(GROUPS) < set(panels)


def test_long_names_are_cut_in_the_middle_and_stay_apart() -> None:
    stem = "accent=somewhere very far to the"
    groups = {f"{stem} north-{number}, all of it": "accent" for number in range(2)}
    labels = [row["label"] for row in views(World(groups=groups).figures()["errors"])["by accent"]]
    assert len(set(labels)) == 2
    assert all(len(label) <= 30 and "…" in label for label in labels)


def test_the_variance_of_a_speaker_is_the_one_that_was_correlated() -> None:
    figure = World(groups={}, within=False).figures()["speakers"]
    assert min(row["spread"] for row in rows(figure)) == 100.0
    assert "around the centroids of their group" in figure.caption


def test_speakers_are_points_by_group_without_names_on_them() -> None:
    figure = drawn((0,), against=True)["speakers"]
    assert min(row["spread"] for row in rows(figure)) == 1.0
    assert {row["home"] for row in rows(figure)} == {"accent=east", "accent=west"}
    assert [row["accuracy"] for row in rows(figure) if row["speaker"] == "s0"] == [0.9]
    assert "text" not in {layer["mark"]["type"] for layer in figure.spec["spec"]["layer"]}


def test_a_speaker_without_a_variance_is_no_point() -> None:
    world = World(groups={})
    world.counts.first[0].counts.scatter.own[0, 3] = np.nan
    assert {row["speaker"] for row in rows(world.figures()["speakers"])} == {f"s{n}" for n in range(12)} - {"s3"}


def test_too_many_speakers_are_not_drawn_one_by_one() -> None:
    assert "speakers" in World(groups={}, speakers=MOST_POINTS).figures()
    assert "speakers" not in World(groups={}, speakers=MOST_POINTS + 1).figures()


@pytest.mark.parametrize("half", [0.05, 0.4, 0.95])
def test_a_scale_of_ratios_has_ticks_on_both_sides_of_one(half) -> None:
    figure = World((0, 1), {"accent=east": "accent"}, told=(), half=half).figures()["scatter-by-layer"]
    encoded = [layer["encoding"]["y"] for layer in figure.spec["layer"]]
    values = next(place["axis"]["values"] for place in encoded if "scale" in place)
    reached = [tick for tick in values if 1 - half <= tick <= 1 + half]
    assert 1.0 in values
    assert len(reached) >= (1 if half == 0.05 else 3)


def test_without_groups_only_what_is_about_all_speakers_is_drawn() -> None:
    assert list(World((0, 1), groups={}).figures()) == ["correlation", "speakers"]
    assert not list(figures(Draft(), World().counts))


def test_an_estimate_that_is_missing_leaves_the_others() -> None:
    shown = World(without=("systematic_error", "accent=west")).figures()
    assert [row["label"] for row in views(shown["errors"])["by accent"]] == ["accent=east"]
    assert len(views(shown["gap"])["accent=west"]) == 2
