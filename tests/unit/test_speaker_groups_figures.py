"""The charts of the groups audit: what is drawn, in which order, what is greyed, and what is left out and said so."""

import math
import re
import unicodedata
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import vl_convert
from counted_clips import counted, inputs_of
from given_results import given

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.report.charts.theme import CONFIG
from audits.report.pages.figures import sized
from audits.speaker_groups import AUDIT, Options, figures
from audits.speaker_groups import figure_parts as chart_labels
from audits.speaker_groups.adjusting import AdjustedTerm, Adjustment, Rung
from audits.speaker_groups.designs import design_of
from audits.speaker_groups.estimates import examine
from audits.speaker_groups.figures import ADJUSTED, MARGINAL
from audits.speaker_groups.gaps import compare
from audits.speaker_groups.measure import Counts, counts_of

LEVELS = {"accent": ("east", "north", "rare"), "age": ("old", "young"), "gender": ("f", "m")}
OPTIONS = Options(manifest=Path("clips.csv"), by=tuple(LEVELS), min_speakers=1, permutations=1)


class World:
    """A report in the making with numbers by hand: one speaker with one clip for each crossing of all levels."""

    def __init__(self, levels=LEVELS, systems=("base",), order=2, small=(), missing=()) -> None:
        rows = [dict(zip(levels, row, strict=True)) for row in product(*levels.values())]
        rows = [row for row in rows if not any(set(lack) <= set(row.items()) for lack in missing)]
        self.rates, self.gaps, self.rungs, self.more = {}, {}, [], []
        self.small = dict.fromkeys(small, 3)
        errors = np.arange(len(rows) * len(systems)).reshape(len(rows), -1)
        self.data = counted(rows, errors, 1000.0, by=levels, max_order=order, systems=systems)
        names = [name for groups in self.data.sets for name in groups.names]
        for at, name in enumerate(["all", *names]):
            self.rate(name, 0.1 + 0.001 * at, half=0.02, n=self.small.get(name, 50))

    def rate(self, group, value, half=0.02, n=50) -> None:
        self.rates[group] = (value, half, n)

    def gap(self, by, value, half=0.02, floor=0.01) -> None:
        self.gaps[by] = (value, half, floor)

    def add(self, name, value, half=0.02, n=50, **where) -> None:
        self.more.append((name, (value, half, n), where))

    def rung(self, level, reference, marginal, adjusted=0.1, attribute="accent", half=0.1, faded=0.1, **more) -> None:
        ends = [(value, value - half, value + half) for value in (marginal, adjusted, faded)]
        more = {"system": 0, "strata": {"age=old": ends[0]}, **more}
        self.rungs.append(
            Rung(attribute=attribute, level=level, reference=reference, marginal=ends[0], adjusted=ends[1],
                 faded=ends[2] if faded else (0.0, 0.0, 0.0), **more)
        )  # fmt: skip

    def counts(self, used, lost) -> Counts:
        """Return the counts, whose comparisons are those by the attributes with a gap."""
        words = self.data.of("wer")
        counts = counts_of(self.data, inputs_of(self.data, used, lost), OPTIONS, seed=0, level=0.95)
        sets = {groups.by: groups for groups in self.data.sets}
        term = AdjustedTerm(name="accent", rungs=tuple(self.rungs))
        design = design_of(self.data, words, 0, OPTIONS)
        return given(
            counts,
            small=self.small,
            comparisons=tuple(compare(self.data, words, sets[by], OPTIONS, seed=0, level=0.95) for by in self.gaps),
            adjustments=(Adjustment(system=0, design=design, terms=(term,)),),
            verdicts=(),
        )

    def table(self, where) -> Draft:
        """Return the report in the making."""
        draft = Draft(measures=AUDIT.by_name)

        def add(name, value, half, n=50, **where) -> None:
            ends = {"low": value - half, "high": value + half} if half is not None else {}
            method = "bootstrap" if ends else "none"
            draft.add(name, Interval(value=value, **ends, method=method, n=n, unit="speakers"), **where)

        for group, rate in self.rates.items():
            add("rate", *rate, **where(0, group=group))
        for by, (value, half, floor) in self.gaps.items():
            for system in range(len(self.data.systems)):
                add("gap", value, half, **where(system, by=by, kind="absolute", adjusted="no"))
                add("noise_floor", floor, 0.005, **where(system, by=by))
        for name, numbers, coordinates in self.more:
            add(name, *numbers, **coordinates)
        return draft

    def drawn(self, used=(), lost=()) -> dict:
        counts = self.counts(used, lost)
        found = list(figures.figures(self.table(counts.where), counts))
        assert [figure.file for figure in found] == [figure.id for figure in found]
        return {figure.id: figure for figure in found}


def clips(**levels) -> list:
    return [dict(zip(levels, row, strict=True)) for row in zip(*levels.values(), strict=True)]


def panels(figure) -> dict:
    """Return the rows of a figure by the title of their panel."""
    views = figure.spec.get("vconcat") or [{"title": {"text": [""]}, **figure.spec}]
    return {
        view["title"]["text"] if isinstance(view["title"]["text"], str) else " | ".join(view["title"]["text"]):
        view["data"]["values"]
        for view in views
    }  # fmt: skip


def labels(figure, panel) -> list:
    return list(dict.fromkeys(row["label"] for row in panels(figure)[panel]))


def full() -> dict:
    world = World(systems=("base", "other"), small=("accent=rare", "accent=rare&age=old"))
    for by, value in (("accent", 0.05), ("age", 0.09), ("accent&age", 0.2), ("age&gender", 0.1)):
        world.gap(by, value)
    world.rung("north", "east", 0.5)
    for group in ("all", "accent=east"):
        world.add("system_difference", 0.03, system="other", metric="wer", group=group)
    used = clips(accent=["east", "rare"], age=["old", "old"], gender=["f", "m"])
    return world.drawn(used, used[1:])


def test_every_figure_asks_a_question_and_can_be_drawn_without_a_warning(capfd) -> None:
    found = full()
    assert list(found) == ["groups", "pairs", "ladder", "gaps", "systems", "coverage"]
    for figure in found.values():
        assert figure.title.endswith("?")
        assert figure.caption.endswith(".")
        svg = vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, show_warnings=True)
        assert not [word for word in ("NaN", "undefined", "null", "…") if word in svg]
    assert capfd.readouterr().err == ""


def test_where_there_is_nothing_to_draw_there_is_no_figure() -> None:
    assert list(World().drawn()) == ["groups"]
    empty = World()
    empty.rates.clear()
    assert empty.drawn() == {}
    alone = World()
    alone.gap("age", 0.1)
    alone.rung("north", "east", 0.5, strata={}, faded=0)
    alone.rung("rare", "east", 0.05)
    assert list(alone.drawn()) == ["groups", "gaps"]


def test_all_groups_stand_in_panels_by_attribute_the_highest_on_top() -> None:
    world = World(small=("accent=rare",))
    world.rate("age=unknown", 0.5)
    world.gap("accent&age", 0.1)
    world.gap("age&gender", 0.3)
    figure = world.drawn()["groups"]
    found = panels(figure)
    assert list(found) == ["accent", "age", "gender", "age & gender", "accent & age", "accent & gender"]
    assert labels(figure, "age") == ["unknown", "young", "old"]
    assert labels(figure, "accent") == ["rare (n = 3)", "north", "east"]
    assert labels(figure, "accent & age")[-1] == "east & old"
    assert sum(map(len, found.values())) == len(world.rates) - 1
    assert {row["group"] for rows in found.values() for row in rows if row["small"]} == {"accent=rare"}
    assert {row["reference"] for rows in found.values() for row in rows} == {0.1}
    assert "on all clips, 0.100 (0.080 to 0.120)." in figure.caption
    assert "Grey" in figure.caption and "wider" not in figure.caption and "tables" not in figure.caption


def test_the_interval_of_a_small_group_that_would_leave_no_room_is_not_drawn() -> None:
    world = World(small=("accent=rare", "age=old", "gender=f"))
    world.rate("accent=rare", 0.4, half=3.0, n=2)
    world.rate("gender=f", 0.2, half=None, n=1)
    world.rate("accent=east", 0.2, half=0.1)
    figure = world.drawn()["groups"]
    ends = {row["group"]: row["high"] for rows in panels(figure).values() for row in rows}
    assert ends["accent=rare"] is None and ends["gender=f"] is None
    assert ends["age=old"] is not None and ends["accent=east"] == 0.3
    assert "1 of them, one wider than the chart" in figure.caption


def test_a_panel_has_forty_rows_and_those_on_the_fewest_go_first() -> None:
    names = [f"a{number:02d}" for number in range(60)]
    world = World({"accent": names}, small=[f"accent={name}" for name in names[45:]])
    figure = world.drawn()["groups"]
    assert len(panels(figure)["accent"]) == figures.MOST_ROWS == 40
    assert labels(figure, "accent") == names[44:4:-1]
    assert "In the tables only: 20 of 60 by accent: those on the fewest speakers, then the lowest." in figure.caption
    few = World({"accent": names}, small=[f"accent={name}" for name in names[10:]])
    few.rate("accent=a55", 0.0, n=4)
    drawn = labels(few.drawn()["groups"], "accent")
    assert len(drawn) == 40 and "a55 (n = 4)" in drawn and "a00" in drawn


def test_many_groups_have_a_figure_for_the_crossings_and_that_has_a_few_panels_only() -> None:
    levels = {f"x{place}": [f"l{number}" for number in range(6)] for place in range(4)}
    world = World(levels, order=3)
    world.gap("x2&x3", 0.4)
    found = world.drawn()
    assert list(found) == ["groups", "crossings", "pairs", "gaps"]
    assert list(panels(found["groups"])) == list(levels)
    assert list(panels(found["crossings"]))[:2] == ["x2 & x3", "x0 & x1"]
    assert len(panels(found["crossings"])) == figures.MOST_CROSSINGS
    assert "4 more crossings, with less clear gaps, are in the tables only." in found["crossings"].caption
    assert "more crossings" not in found["groups"].caption


def test_the_pair_with_the_clearest_gap_is_crossed() -> None:
    ages = ("10", "20", "30", "40")
    lack = (("accent", "east"), ("age", "20"))
    world = World({**LEVELS, "age": ages}, order=3, missing=[lack], small=("accent=rare&age=10",))
    world.gap("accent&gender", 0.50, half=0.49)
    world.gap("accent&age", 0.30, half=0.1)
    world.gap("accent&age&gender", 0.9)
    figure = world.drawn()["pairs"]
    cells = figure.spec["data"]["values"]
    assert len(cells) == 3 * 4 - 1
    assert [cell["group"] for cell in cells if cell["small"]] == ["accent=rare&age=10"]
    sorts = {side: figure.spec["layer"][0]["encoding"][side]["sort"] for side in "xy"}
    assert sorts == {"x": ["east", "north", "rare"], "y": list(ages)}
    assert all(layer["encoding"]["x"]["sort"] == sorts["x"] for layer in figure.spec["layer"])
    assert {(cell["a"], cell["b"], cell["value"]) for cell in cells if cell["n"] == 50} >= {
        ("north", "30", world.rates["accent=north&age=30"][0])
    }
    assert "Empty" in figure.caption and "Faded" in figure.caption
    assert "accent and age" in figure.title


def test_a_heat_map_of_many_levels_keeps_those_with_most_speakers() -> None:
    names = [f"a{number:02d}" for number in range(30)]
    world = World({"accent": names, "age": ("old", "young")})
    for number, name in enumerate(names):
        world.rate(f"accent={name}", 0.1, n=10 + number)
    world.gap("accent&age", 0.3)
    figure = world.drawn()["pairs"]
    assert figure.spec["layer"][0]["encoding"]["y"]["sort"] == names[6:]
    assert len(figure.spec["data"]["values"]) == 24 * 2
    assert "6 more levels, on the fewest speakers, are in the tables only." in figure.caption
    assert "Empty" not in figure.caption


def test_a_ladder_goes_from_the_marginal_ratio_down_to_the_adjusted_one() -> None:
    world = World()
    strata = {"age=old": (0.0, -0.2, 0.2), "age=young": (0.1, 0.05, 0.15)}
    world.rung("north", "east", 0.4, adjusted=0.02, strata=strata, explained_by=("age", "gender"))
    figure = world.drawn()["ladder"]
    ((title, rows),) = panels(figure).items()
    assert title == "accent: north against east | goes with age | and gender"
    assert [row["label"] for row in rows] == [MARGINAL, "among age=old", "among age=young", ADJUSTED]
    assert [row["undecided"] for row in rows] == [False, True, False, True]
    assert rows[0]["value"] == pytest.approx(math.exp(0.4), rel=1e-5)
    assert rows[-1]["low"] == pytest.approx(math.exp(-0.08), rel=1e-5)
    assert {row["reference"] for row in rows} == {1.0}
    scales = [layer["encoding"]["x"].get("scale", {}) for layer in figure.spec["vconcat"][0]["layer"]]
    assert "log" in [scale.get("type") for scale in scales]
    assert "a title that says so" in figure.caption


def test_a_ladder_shows_the_six_clearest_differences_and_no_mirror_images() -> None:
    world = World({"accent": [f"a{number}" for number in range(9)], "age": LEVELS["age"]}, systems=("base", "other"))
    world.rung("a0", "a1", -0.9)
    world.rung("a1", "a0", 0.9)
    world.rung("a8", "a0", 2.0, half=1.95)
    for number in range(2, 8):
        world.rung(f"a{number}", "a0", 0.1 * number + 0.1, system=1)
    world.rung("a2", "a0", 0.05)
    figure = world.drawn()["ladder"]
    titles = list(panels(figure))
    assert titles[0] == "accent: a1 against a0 (base)"
    assert titles[1:] == [f"accent: a{number} against a0 (other)" for number in (7, 6, 5, 4, 3)]
    assert "2 more differences, less clear, are in the tables only." in figure.caption
    assert "title" not in figure.caption


def test_many_strata_leave_the_explaining_and_the_surest() -> None:
    world = World()
    wide = {f"age={number}": (0.0, -1.0 - number, 1.0 + number) for number in range(3)}
    sure = {f"gender={number}": (0.2, 0.1 - 0.01 * number, 0.3) for number in range(12)}
    world.rung("north", "east", 0.5, strata={**sure, **wide}, explained_by=("age",))
    figure = world.drawn()["ladder"]
    rows = next(iter(panels(figure).values()))
    assert [row["among"] for row in rows[1:-1]] == [*(f"gender={n}" for n in range(5)), *wide]
    assert "At most 8 levels" in figure.caption


def test_no_ratio_is_too_large_to_draw() -> None:
    world = World()
    world.rung("north", "east", 900.0, half=800.0)
    rows = next(iter(panels(world.drawn()["ladder"]).values()))
    assert all(math.isfinite(row[key]) for row in rows for key in ("value", "low", "high"))


def test_each_gap_stands_above_the_one_that_chance_makes() -> None:
    world = World(systems=("base", "other"))
    for by, value in (("accent", 0.05), ("age", 0.09), ("accent&age", 0.2)):
        world.gap(by, value)
    figure = world.drawn()["gaps"]
    assert list(panels(figure)) == ["base", "other"]
    rows = panels(figure)["base"]
    assert [row["label"].partition(":")[0] for row in rows] == [
        "accent & age", "accent & age, chance", "age", "age, chance", "accent", "accent, chance"
    ]  # fmt: skip
    worst, best = (rows[2][side].partition("=")[2] for side in ("worst", "best"))
    assert rows[2]["label"] == f"age: {worst} against {best}"
    assert [row["chance"] for row in rows] == [False, True] * 3
    assert [row["value"] for row in rows[:2]] == [0.2, 0.01]
    assert "tables" not in figure.caption
    one = World()
    one.gap("age", 0.09)
    assert "vconcat" not in one.drawn()["gaps"].spec


def test_many_gaps_leave_the_clearest_after_those_by_one_attribute() -> None:
    world = World(
        {f"x{place}": ("a", "b") for place in range(5)}, systems=[f"s{number}" for number in range(6)], order=3
    )
    singles = [groups.by for groups in world.data.singles()]
    for place, groups in enumerate(world.data.sets):
        world.gap(groups.by, 0.01 * place if "&" in groups.by else 0.0)
    figure = world.drawn()["gaps"]
    assert list(panels(figure)) == ["s0", "s1", "s2", "s3"]
    drawn = [label.partition(":")[0] for label in labels(figure, "s0") if "chance" not in label]
    assert len(drawn) == figures.MOST_GAPS and set(singles) <= set(drawn)
    assert drawn[0] == " & ".join(world.data.sets[-1].by.split("&"))
    assert "10 more gaps" in figure.caption and "2 more systems are" in figure.caption


def test_systems_differ_on_all_first_and_then_by_group() -> None:
    world = World(systems=("base", "other", "third"))
    for group, value in (("accent=east", -0.05), ("all", 0.01), ("age=old", 0.05), ("accent=east&age=old", 0.3)):
        world.add("system_difference", value, system="other", metric="wer", group=group)
    world.add("system_difference", 0.3, system="other", metric="cer", group="age=young")
    world.add("system_difference", 0.3, None, system="third", metric="wer", group="all")
    figure = world.drawn()["systems"]
    rows = panels(figure)["other"]
    assert [(row["label"], row["undecided"]) for row in rows] == [
        ("all", True), ("age=old", False), ("accent=east", False)
    ]  # fmt: skip
    assert {row["reference"] for row in rows} == {0.0}
    assert [row["undecided"] for row in panels(figure)["third"]] == [True]
    assert "base" in figure.title


def test_many_groups_and_systems_leave_those_on_most_speakers() -> None:
    names = [f"a{number:02d}" for number in range(50)]
    world = World({"accent": names}, systems=[f"s{number}" for number in range(7)])
    for system in world.data.systems[1:]:
        for number, group in enumerate(["all", *(f"accent={name}" for name in names)]):
            world.add("system_difference", 0.001 * number, n=100 - number, system=system, metric="wer", group=group)
    figure = world.drawn()["systems"]
    assert list(panels(figure)) == ["s1", "s2", "s3", "s4"]
    assert set(labels(figure, "s1")) == {"all", *(f"accent={name}" for name in names[:39])}
    assert "11 more groups, on the fewest speakers, are" in figure.caption and "2 more systems are" in figure.caption


def test_coverage_counts_used_and_left_out_by_level() -> None:
    world = World()
    used = clips(accent=["east", "east", "north"], age=["old", "old", "unknown"], gender=["f", "f", "f"])
    lost = clips(accent=["rare", "rare", "north"], age=["old", "old", "old"], gender=["f", "f", "m"])
    figure = world.drawn(used, lost)["coverage"]
    rows = [(row["label"], row["status"], row["clips"]) for row in panels(figure)["accent"]]
    assert rows == [
        ("rare", "used", 0), ("rare", "left out", 2), ("north", "used", 1), ("north", "left out", 1),
        ("east", "used", 2), ("east", "left out", 0),
    ]  # fmt: skip
    assert labels(figure, "age") == ["old", "unknown"]
    assert "more" not in figure.caption
    many = clips(accent=[f"a{number}" for number in range(45)], age=["old"] * 45, gender=["f"] * 45)
    capped = world.drawn(many, many[7:8])["coverage"]
    assert labels(capped, "accent")[0] == "a7" and len(labels(capped, "accent")) == 40
    assert "5 more levels are not drawn." in capped.caption


ODD = ("x" * 199 + "y" + "x" * 20, "x" * 199 + "z" + "x" * 20, "😀" * 60, "漢字" * 60, "\u202eturned\u2066 round", "a",
       "</svg><b>", "עברית וגם ארוך מאוד מאוד מאוד", "']+datum[\"y", "n\u0300" * 90)  # fmt: skip


def test_odd_names_are_short_differ_and_turn_nothing_round(capfd) -> None:
    column = "accent" * 30
    world = World({column: ODD, column + "s": ("a", "b")}, systems=("s" * 150, "s" * 149 + "t"), order=2)
    for groups in world.data.sets:
        world.gap(groups.by, 0.1)
    for level in (0, 1, 2, 4, 7):
        world.rung(ODD[level], "a", 0.5, attribute=column, strata={f"{column}={ODD[3]}": (0.1, 0.0, 0.2)})
    for groups in world.data.singles():
        for name in groups.names:
            world.add("system_difference", 0.1, system=world.data.systems[1], metric="wer", group=name)
    used = clips(**{column: ODD, column + "s": ("a",) * len(ODD)})
    found = world.drawn(used, used[:1])
    assert list(found) == ["groups", "pairs", "ladder", "gaps", "systems", "coverage"]
    assert len(panels(found["ladder"])) == 5
    assert len(labels(found["coverage"], next(iter(panels(found["coverage"]))))) == len(ODD)
    assert sorted(map(len, panels(found["groups"]).values())) == [2, len(ODD), 2 * len(ODD)]
    for figure in found.values():
        for title, rows in panels(figure).items():
            assert all(chart_labels.width(line) <= 2 * chart_labels.LONGEST + 10 for line in title.split(" | "))
            steps = [row.get("label") for row in rows if "label" in row]
            each = 2 if figure.id == "coverage" else 1
            assert len(set(steps)) * each == len(steps)
            for label in [*steps, title]:
                assert max(map(chart_labels.width, re.split("[&|]", label))) <= 60
                assert not {unicodedata.bidirectional(letter) for letter in label} & chart_labels.OVERRIDES
        svg = vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, show_warnings=True)
        assert "<b>" not in svg
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("accent=us", "accent=us"),
        ("x" * 22, "x" * 22),
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmn…tuvwxyz"),
        ("漢" * 11, "漢" * 11),
        ("漢" * 12, "漢" * 7 + "…" + "漢" * 3),
        ("\u202eab\u202c", "ab"),
    ],
)
def test_a_short_name_keeps_both_ends(name, short) -> None:
    assert chart_labels.short(name) == short
    assert chart_labels.width(short) <= chart_labels.LONGEST


def test_the_estimates_of_an_audit_are_what_is_drawn() -> None:
    rng = np.random.default_rng(4)
    people = [{"accent": str(rng.choice(["east", "west"])), "gender": str(rng.choice(["f", "m"]))} for _ in range(60)]
    rows = [person for person in people for _ in range(4)]
    sizes = np.full(len(rows), 12.0)
    rate = np.array([0.1 + 0.2 * (row["accent"] == "west") for row in rows])
    errors = np.minimum(rng.poisson((rate * sizes)[:, None], (len(rows), 2)), 12).astype(float)
    who, by = np.repeat(np.arange(60), 4), ("accent", "gender")
    data = counted(rows, errors, sizes, by=by, speakers=who, systems=("base", "other"))
    options = Options(manifest=Path("x"), by=by, bootstrap=200, permutations=100)
    draft = Draft(level=0.8, measures=AUDIT.by_name)
    counts = counts_of(data, inputs_of(data), options, seed=0, level=0.8)
    examine(draft, counts)
    found = {figure.id: figure for figure in figures.figures(draft, counts)}
    assert list(found) == ["groups", "pairs", "pairs-2", "ladder", "gaps", "systems"]
    assert "other" in found["pairs-2"].title and "of other on each" in found["pairs-2"].caption
    assert labels(found["groups"], "accent") == ["west", "east"]
    assert [row["system"] for row in panels(found["groups"])["accent"]] == ["base", "other"] * 2
    assert "on all clips it is 0." in found["groups"].caption and "(base), 0." in found["groups"].caption
    assert "dashed" not in found["groups"].caption
    west = errors[:, 0][rate > 0.2].sum() / (12 * (rate > 0.2).sum())
    assert panels(found["groups"])["accent"][0]["value"] == pytest.approx(west, rel=1e-5)
    assert len(panels(found["systems"])["other"]) == 1 + 2 + 2
    assert len(panels(found["gaps"])["other"]) == 3 * 2
