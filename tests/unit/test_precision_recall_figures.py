"""The charts of the texts audit: which there are, what they show, and the texts that travel in them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import vl_convert

from audits.core.context import Draft
from audits.core.intervals import Interval
from audits.precision_recall import figures
from audits.precision_recall.counts import Counts
from audits.precision_recall.figures import LONGEST, METRICS, MOST_DOTS, MOST_LISTED
from audits.precision_recall.listing import Listed
from audits.precision_recall.sides import CEILING, FLOOR, REFERENCE
from audits.report.charts.theme import CONFIG
from audits.report.pages.content import listing
from audits.report.pages.figures import sized

EVIL = "</script><script>alert(1)</script> | `a` & <img src=x onerror=alert(1)> {{ 7*7 }}"
SWEEP = {"cold": 0.3, "warm": 1.0, "hot": 1.7}


class World:
    """Results by hand: the further down a candidate stands, the lower its precision and the higher its recall."""

    def __init__(self, monkeypatch, names, *, heat=None, curves=False, controls=True, texts=3, say="text {}") -> None:
        self.draft, heat = Draft(), heat or {}
        for place, name in enumerate(names):
            for metric in METRICS:
                up = metric in ("recall", "coverage")
                self.add(metric, 0.5 + 0.03 * place if up else 0.9 - 0.03 * place, candidate=name, k=5)
                if controls:
                    where = {"candidate": name, "against": CEILING, "metric": metric, "k": 5}
                    self.add("difference", -0.03 * place, **where)
                    p = Interval(value=0.001 if place else 0.5, method="none", n=100, unit="texts")
                    self.draft.add("p_value", p, **where, correction="holm")
            for slope in (0.5, 1.0, 2.0) if curves else ():
                for side, value in (("precision", 0.4 * slope), ("recall", 0.4 / slope)):
                    self.add("curve", value, **{"candidate": name, "lambda": slope, "side": side})
        for control, value in ((CEILING, 0.95), (FLOOR, 0.3)) if controls else ():
            for metric in METRICS:
                self.add(control, value, metric=metric, k=5)
        lines = SimpleNamespace(where="line", places=np.arange(1, 100))
        far = {
            name: SimpleNamespace(
                # Over all draws the last is nearest.
                reference=SimpleNamespace(distance=np.full(99, 1.0 - 0.01 * at)),
                first=(None, SimpleNamespace(distance=np.full(99, 2.0 + at))),
                grouped={5: (0.0, 0.0)},
            )
            for at, name in enumerate(names)
        }
        inputs = SimpleNamespace(
            candidates=tuple(SimpleNamespace(name=name, temperature=heat.get(name)) for name in names),
            names=tuple(names),
            settings=SimpleNamespace(k=(5,)),
            sets=dict.fromkeys((REFERENCE, *names), lines),
            reference=lines,
            size=100,
            control=100,
        )
        self.counts = Counts(inputs=inputs, sets={}, main=far, controls={}, clusters={})
        rows = [
            Listed(place=n + 1, text=say.format(n), copies=1, nearest_place=7, nearest_text=say.format("near"),
                   distance=2.0, share=2.0 - 0.01 * n)
            for n in range(texts)
        ]  # fmt: skip
        last = names[-1]
        monkeypatch.setattr(figures, "outside", lambda _, name, most: (rows[:most], texts) if name == last else ([], 0))
        monkeypatch.setattr(figures, "uncovered", lambda _, most: (rows[:most], texts))
        monkeypatch.setattr(figures, "different", lambda _, name: 90)
        self.rows = rows

    def add(self, name, value, half=0.02, **where) -> None:
        found = Interval(value=value, low=value - half, high=value + half, method="t", n=100, unit="texts")
        self.draft.add(name, found, **where)

    def without(self, name, **where) -> None:
        """Take a row out of the table."""
        gone = self.draft.row(name, **where)
        self.draft = Draft(estimates=[row for row in self.draft.estimates if row is not gone])

    def figures(self) -> dict:
        return {figure.id: figure for figure in figures.figures(self.draft, self.counts)}


def table(figure) -> dict:
    return figure.spec["usermeta"]["miles"]["table"]


def rows(figure) -> list[dict]:
    return figure.spec["data"]["values"]


PLAIN = ["plane", "shortfall", "outside", "uncovered"]
CASES = [
    ({"names": ["one"]}, PLAIN),
    ({"names": list(SWEEP), "heat": SWEEP, "curves": True}, ["plane", "temperature", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": list(SWEEP), "heat": {"cold": 0.3}}, PLAIN),
    ({"names": list(SWEEP), "controls": False}, ["plane", "outside", "uncovered"]),
    ({"names": list(SWEEP), "heat": SWEEP, "controls": False, "texts": 0}, ["plane", "temperature"]),
    ({"names": [f"model {n}" for n in range(12)], "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": [f"model {n}" for n in range(40)], "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": [EVIL, EVIL + "2"], "say": EVIL + "{}", "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
]


@pytest.mark.parametrize(("case", "names"), CASES)
def test_which_figures_there_are_and_that_they_can_be_drawn(monkeypatch, case, names) -> None:
    if "{{" in case.get("say", ""):
        case = {**case, "say": EVIL.replace("{", "{{").replace("}", "}}") + "{}"}
    found = World(monkeypatch, **case).figures()
    assert list(found) == names
    for figure in found.values():
        assert figure.title.endswith("?") and figure.caption.endswith(".")
        json.dumps(figure.spec, allow_nan=False)
        svg = vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, allowed_base_urls=[])
        assert "<svg" in svg and "<script" not in svg


def test_the_plane_shows_the_estimates_and_the_front(monkeypatch) -> None:
    world = World(monkeypatch, list(SWEEP), heat=SWEEP)
    world.without("recall", candidate="hot", k=5)
    world.add("recall", 0.45, candidate="hot", k=5)
    shown = {row["set"]: row for row in rows(world.figures()["plane"])}
    assert set(shown) == {*SWEEP, CEILING, FLOOR}
    for name in SWEEP:
        for metric in ("precision", "recall"):
            row = world.draft.row(metric, candidate=name, k=5)
            ends = [shown[name][key] for key in (metric, f"{metric}_low", f"{metric}_high")]
            assert ends == pytest.approx([row.value, row.low, row.high])
    assert [name for name in shown if shown[name]["hollow"]] == ["hot"]
    assert [shown[name]["order"] for name in (*SWEEP, CEILING)] == [0.3, 1.0, 1.7, None]


def test_many_candidates_are_named_in_tooltips_only_but_controls_always(monkeypatch) -> None:
    world = World(monkeypatch, [f"model {n}" for n in range(40)])
    shown = rows(world.figures()["plane"])
    assert sum(row["named"] for row in shown) == 14 and {CEILING, FLOOR} <= {row.get("name") for row in shown}
    assert "16 more candidates are in the tables only." in world.figures()["shortfall"].caption


def test_a_ceiling_of_fewer_texts_says_so(monkeypatch) -> None:
    world = World(monkeypatch, ["one"])
    assert "compare with care" not in world.figures()["plane"].caption
    world.counts.inputs.control = 50
    assert "of 50 texts a side, the candidates of 100" in world.figures()["plane"].caption


@pytest.mark.parametrize("controls", [True, False])
def test_scores_by_temperature_and_the_ceiling(monkeypatch, controls) -> None:
    world = World(monkeypatch, list(SWEEP), heat=SWEEP, controls=controls)
    figure = world.figures()["temperature"]
    found = {(row["metric"], row["temperature"]): row for row in rows(figure)}
    assert set(found) == {(metric, heat) for metric in METRICS for heat in SWEEP.values()}
    assert found["recall", 1.7]["value"] == pytest.approx(0.56)
    assert all(("ceiling" in row) == controls for row in found.values())
    assert ("Dashed" in figure.caption) == controls
    assert len(figure.spec["spec"]["layer"]) == (5 if controls else 3)


def test_differences_that_are_not_shown_are_hollow(monkeypatch) -> None:
    figure = World(monkeypatch, list(SWEEP)).figures()["shortfall"]
    titles = [view["title"]["text"] for view in figure.spec["vconcat"]]
    assert titles == ["precision: quality", "density: quality", "recall: diversity", "coverage: diversity"]
    for view in figure.spec["vconcat"]:
        assert [(row["candidate"], row["value"], row["undecided"]) for row in view["data"]["values"]] == [
            ("cold", 0.0, True),
            ("warm", -0.03, False),
            ("hot", -0.06, False),
        ]


def test_curves_pair_both_sides_at_each_slope(monkeypatch) -> None:
    shown = rows(World(monkeypatch, ["one"], curves=True).figures()["curve"])
    assert [(row["slope"], row["recall"], row["precision"]) for row in shown] == [
        (0.5, 0.8, 0.2),
        (1.0, 0.4, 0.4),
        (2.0, 0.2, 0.8),
    ]


def test_texts_are_drawn_in_part_and_listed_in_full(monkeypatch) -> None:
    say = "a text that is much too long to stand in a chart of any width, and then goes on: {}"
    world = World(monkeypatch, list(SWEEP), texts=50, say=say)
    figure = world.figures()["outside"]
    assert [row["radii"] for row in rows(figure)] == pytest.approx([row.share for row in world.rows[:MOST_DOTS]])
    assert all(len(row["text"]) <= 60 for row in rows(figure))
    listed = table(figure)
    assert [row[1] for row in listed["rows"]] == [row.text for row in world.rows[:MOST_LISTED]]
    assert [key for key, _ in listed["columns"]] == [
        "place", "text", "copies", "radii", "nearest_text", "nearest_place",
    ]  # fmt: skip
    assert "50 of the 90 different texts of hot in the first draw lie" in figure.caption
    assert "The farthest 12 are drawn, the farthest 20 listed" in figure.caption
    assert listing(figure).titles[0] == "line"


def test_whose_the_nearest_text_is(monkeypatch) -> None:
    world = World(monkeypatch, list(SWEEP))
    listed = table(world.figures()["uncovered"])
    assert [row[5] for row in listed["rows"]] == ["cold"] * 3
    world.counts.main["cold"].first[1].distance[:] = 1.0
    world.counts.main["hot"].first[1].distance[:] = 2.0
    assert [row[5] for row in table(world.figures()["uncovered"])["rows"]] == ["hot"] * 3


def test_embeddings_without_texts_are_known_by_their_place(monkeypatch) -> None:
    world = World(monkeypatch, ["one"], say="")
    world.counts.inputs.reference.where = "row"
    found = world.figures()["outside"]
    assert [row["text"] for row in rows(found)] == ["row 1", "row 2", "row 3"]
    assert [key for key, _ in table(found)["columns"]] == ["place", "copies", "radii", "nearest_place"]
    assert listing(found).titles == ("row", "copies", "distance in radii", "row")


def test_a_ball_without_a_radius_leaves_the_distance(monkeypatch) -> None:
    world = World(monkeypatch, ["one"], texts=1)
    world.rows[0] = Listed(**{**{key: getattr(world.rows[0], key) for key in Listed.__slots__}, "share": np.inf})
    figure = world.figures()["outside"]
    assert rows(figure)[0]["distance"] == 2.0 and "radii" not in json.dumps(figure.spec) + figure.caption


def test_long_names_are_cut_and_told_apart(monkeypatch) -> None:
    long = "x" * 80
    shown = [row["set"] for row in rows(World(monkeypatch, [long + "a", long + "b"]).figures()["plane"])]
    assert len(set(shown)) == 4 and max(map(len, shown)) <= LONGEST + 4


def test_a_score_that_could_not_be_told_leaves_its_point_out(monkeypatch) -> None:
    world = World(monkeypatch, list(SWEEP), heat=SWEEP)
    world.without("recall", candidate="warm", k=5)
    found = world.figures()
    assert {row["set"] for row in rows(found["plane"])} == {"cold", "hot", CEILING, FLOOR}
    assert REFERENCE not in found
