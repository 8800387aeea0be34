"""The charts of the texts audit: which there are, what they show, and the texts that travel in them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import vl_convert
from audits.precision_recall.estimating import At, Found

from audits.context import Draft
from audits.precision_recall import figures
from audits.precision_recall.figures import LONGEST, METRICS, MOST_DOTS, MOST_LISTED, draw
from audits.precision_recall.inputs import CEILING, FLOOR, REFERENCE
from audits.precision_recall.listing import Listed
from audits.records import Estimate
from audits.rendering.content import listing
from audits.rendering.figures import CONFIG, sized

EVIL = "</script><script>alert(1)</script> | `a` & <img src=x onerror=alert(1)> {{ 7*7 }}"
SWEEP = {"cold": 0.3, "warm": 1.0, "hot": 1.7}


class World:
    """Results by hand: the further down a candidate stands, the lower its precision and the higher its recall."""

    def __init__(self, monkeypatch, names, *, heat=None, curves=False, controls=True, texts=3, say="text {}") -> None:
        self.draft, self.found = Draft(), Found()
        heat = heat or {}
        for place, name in enumerate(names):
            for metric in METRICS:
                up = metric in ("recall", "coverage")
                self.add(At(metric, name, 5), 0.5 + 0.03 * place if up else 0.9 - 0.03 * place, candidate=name)
                if controls:
                    shown = self.add(At(metric, name, 5, CEILING), -0.03 * place, candidate=name, against=CEILING)
                    self.found.adjusted[shown] = 0.001 if place else 0.5
            for slope in (0.5, 1.0, 2.0) if curves else ():
                for side, value in (("precision", 0.4 * slope), ("recall", 0.4 / slope)):
                    where = {"candidate": name, "lambda": slope, "side": side}
                    self.draft.add(self.estimate("curve", value, **where))
        for control, value in ((CEILING, 0.95), (FLOOR, 0.3)) if controls else ():
            for metric in METRICS:
                self.add(At(metric, control, 5), value, metric=metric)
        lines = SimpleNamespace(where="line", places=np.arange(1, 100))
        candidates = tuple(SimpleNamespace(name=name, texts=lines, temperature=heat.get(name)) for name in names)
        far = {
            name: SimpleNamespace(
                # Over all draws the last is nearest.
                reference=SimpleNamespace(distance=np.full(99, 1.0 - 0.01 * at)),
                first=(None, SimpleNamespace(distance=np.full(99, 2.0 + at))),
                grouped={5: (0.0, 0.0)},
            )
            for at, name in enumerate(names)
        }
        self.results = SimpleNamespace(
            inputs=SimpleNamespace(
                candidates=candidates, settings=SimpleNamespace(k=(5,)), reference=lines, size=100, control=100
            ),
            found=self.found,
            measured=SimpleNamespace(main=far),
        )
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

    def estimate(self, name, value, half=0.02, **where) -> Estimate:
        ends = {"low": value - half, "high": value + half}
        return Estimate(name=name, value=value, **ends, method="t", n=100, unit="texts", where=where)

    def add(self, at, value, **where) -> At:
        self.found.places[at] = self.draft.add(self.estimate(at.name, value, k=5, **where))
        return at

    def figures(self) -> dict:
        return {figure.id: figure for figure in draw(self.draft, self.results)}


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
    row = world.draft.estimates[world.found.places[At("recall", "hot", 5)]]
    world.draft.estimates[world.found.places[At("recall", "hot", 5)]] = world.estimate("recall", 0.45, **row.where)
    shown = {row["name_of"]: row for row in rows(world.figures()["plane"])}
    assert set(shown) == {*SWEEP, CEILING, FLOOR}
    for name in SWEEP:
        for metric in ("precision", "recall"):
            row = world.draft.estimates[world.found.places[At(metric, name, 5)]]
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
    world.results.inputs.control = 50
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
    world.results.measured.main["cold"].first[1].distance[:] = 1.0
    world.results.measured.main["hot"].first[1].distance[:] = 2.0
    assert [row[5] for row in table(world.figures()["uncovered"])["rows"]] == ["hot"] * 3


def test_embeddings_without_texts_are_known_by_their_place(monkeypatch) -> None:
    world = World(monkeypatch, ["one"], say="")
    world.results.inputs.reference.where = "row"
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
    shown = [row["name_of"] for row in rows(World(monkeypatch, [long + "a", long + "b"]).figures()["plane"])]
    assert len(set(shown)) == 4 and max(map(len, shown)) <= LONGEST + 4


def test_a_score_that_could_not_be_told_leaves_its_point_out(monkeypatch) -> None:
    world = World(monkeypatch, list(SWEEP), heat=SWEEP)
    for key in [key for key in world.found.places if key.candidate == "warm" and key.name == "recall"]:
        del world.found.places[key]
    found = world.figures()
    assert {row["name_of"] for row in rows(found["plane"])} == {"cold", "hot", CEILING, FLOOR}
    assert REFERENCE not in found
    assert draw(Draft(), world.results) == []
