"""The charts of the texts audit: which there are, what they show, and the texts that travel in them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import vl_convert
from scored_texts import FAIR, SIZE, compared, counted, described, estimated, parts, tally

from audits.core.records import Figure
from audits.precision_recall import figures
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.counts import Counts
from audits.precision_recall.figures import LONGEST, METRICS, MOST_DOTS, MOST_LISTED
from audits.precision_recall.sides import CEILING, FLOOR, REFERENCE
from audits.report.charts.theme import CONFIG
from audits.report.pages.content import listing
from audits.report.pages.figures import sized

EVIL = "</script><script>alert(1)</script> | `a` & <img src=x onerror=alert(1)> {{ 7*7 }}"
SAY_EVIL = EVIL.replace("{", "{{").replace("}", "}}") + "{}"
SWEEP = {"cold": 0.3, "warm": 1.0, "hot": 1.7}
COLD_TO_HOT = list(SWEEP)
MANY = [f"model {n}" for n in range(26)]
CONTROLS = {CEILING: dict.fromkeys(FAIR, 0.95), FLOOR: dict.fromkeys(FAIR, 0.3)}
TEXTS = np.arange(SIZE)
DRAWN = 90
"""Texts of the first draw."""


def traded(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return scores: the further down a candidate stands, the lower its precision and the higher its recall."""
    steps = {name: 0.03 * at for at, name in enumerate(names)}
    return {
        name: dict.fromkeys(("precision", "density"), 0.9 - step)
        | dict.fromkeys(("recall", "coverage"), min(0.5 + step, 0.95))
        for name, step in steps.items()
    }


def measured(
    names: Sequence[str] | Mapping[str, Mapping[str, float]],
    *,
    curves: bool = False,
    controls: bool = True,
    texts: int = 3,
    say: str = "text {}",
    nearest: str = "",
    radii: float | None = None,
    **more: Any,
) -> Counts:
    """Return counts of candidates, of the last of which this many texts lie outside, and as many are not reached.

    The farther off a text is, the earlier it stands; `nearest` is the candidate that comes nearest in the first draw.
    """
    scores = names if isinstance(names, Mapping) else traded(names)
    nearest, last = nearest or next(iter(scores)), list(scores)[-1]
    far = 2.0 - 0.01 * TEXTS if radii is None else radii
    drawn, apart = TEXTS < DRAWN, texts > TEXTS
    found = {
        name: compared(
            name,
            own,
            number=at,
            # Over all draws the last is nearest.
            reference=tally(1, apart, far, distance=1.0 - 0.01 * at),
            first=(
                tally(drawn, apart if name == last else 0, far, nearest=6, distance=2.0),
                tally(drawn, apart, far + (name != nearest), nearest=6, distance=2.0 + (name != nearest)),
            ),
        )
        for at, (name, own) in enumerate(scores.items())
    }
    slopes = np.array([0.5, 1.0, 2.0])
    alpha = parts(1.0)[:, :, None] * np.array([0.2, 0.4, 0.6])
    clusters = {name: Clustered(name, SIZE, False, dict.fromkeys(CURVES, parts(0.5)), slopes, alpha) for name in scores}
    written = [say.format(text) for text in TEXTS] if say else None
    sets = [described(name, TEXTS, texts=written) for name in (REFERENCE, *scores)]
    more = {"clusters": clusters if curves else {}, "sets": sets, **more}
    return counted(found, CONTROLS if controls else None, **more)


def drawn(counts: Counts) -> dict[str, Figure]:
    """Return the figures by their ids."""
    return {figure.id: figure for figure in figures.figures(estimated(counts), counts)}


@cache
def of_many() -> dict[str, Figure]:
    """Return the figures of more candidates than are drawn: all pairs of these are compared, which takes its time."""
    return drawn(measured(MANY, curves=True))


def table(figure) -> dict:
    return figure.spec["usermeta"]["miles"]["table"]


def rows(figure) -> list[dict]:
    return figure.spec["data"]["values"]


PLAIN = ["plane", "shortfall", "outside", "uncovered"]
CASES = [
    ({"names": ["one"]}, PLAIN),
    ({"names": COLD_TO_HOT, "heat": SWEEP, "curves": True}, ["plane", "temperature", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": COLD_TO_HOT, "heat": {"cold": 0.3}}, PLAIN),
    ({"names": COLD_TO_HOT, "controls": False}, ["plane", "outside", "uncovered"]),
    ({"names": COLD_TO_HOT, "heat": SWEEP, "controls": False, "texts": 0}, ["plane", "temperature"]),
    ({"names": [f"model {n}" for n in range(12)], "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": MANY, "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
    ({"names": [EVIL, EVIL + "2"], "say": SAY_EVIL, "curves": True}, ["plane", "shortfall", "curve", *PLAIN[2:]]),
]


@pytest.mark.parametrize(("case", "ids"), CASES)
def test_which_figures_there_are_and_that_they_can_be_drawn(case, ids) -> None:
    found = of_many() if case["names"] is MANY else drawn(measured(**case))
    assert list(found) == ids
    for figure in found.values():
        assert figure.title.endswith("?") and figure.caption.endswith(".")
        json.dumps(figure.spec, allow_nan=False)
        svg = vl_convert.vegalite_to_svg(sized(figure.spec), config=CONFIG, allowed_base_urls=[])
        assert "<svg" in svg and "<script" not in svg


def test_the_plane_shows_the_estimates_and_the_front() -> None:
    scores = traded(SWEEP)
    counts = measured({**scores, "hot": {**scores["hot"], "recall": 0.45}}, heat=SWEEP)
    draft = estimated(counts)
    shown = {row["set"]: row for row in rows(drawn(counts)["plane"])}
    assert set(shown) == {*SWEEP, CEILING, FLOOR}
    for name in SWEEP:
        for metric in ("precision", "recall"):
            row = draft.row(metric, candidate=name, k=5)
            ends = [shown[name][key] for key in (metric, f"{metric}_low", f"{metric}_high")]
            assert ends == pytest.approx([row.value, row.low, row.high])
    assert [name for name in shown if shown[name]["hollow"]] == ["hot"]
    assert [shown[name]["order"] for name in (*SWEEP, CEILING)] == [0.3, 1.0, 1.7, None]


def test_many_candidates_are_named_in_tooltips_only_but_controls_always() -> None:
    found = of_many()
    shown = rows(found["plane"])
    assert sum(row["named"] for row in shown) == 14 and {CEILING, FLOOR} <= {row.get("name") for row in shown}
    assert "2 more candidates are in the tables only." in found["shortfall"].caption


def test_a_ceiling_of_fewer_texts_says_so() -> None:
    assert "compare with care" not in drawn(measured(["one"]))["plane"].caption
    assert "of 50 texts a side, the candidates of 500" in drawn(measured(["one"], control=50))["plane"].caption


@pytest.mark.parametrize("controls", [True, False])
def test_scores_by_temperature_and_the_ceiling(controls) -> None:
    figure = drawn(measured(COLD_TO_HOT, heat=SWEEP, controls=controls))["temperature"]
    found = {(row["metric"], row["temperature"]): row for row in rows(figure)}
    assert set(found) == {(metric, heat) for metric in METRICS for heat in SWEEP.values()}
    assert found["recall", 1.7]["value"] == pytest.approx(0.56)
    assert all(("ceiling" in row) == controls for row in found.values())
    assert ("Dashed" in figure.caption) == controls
    assert len(figure.spec["spec"]["layer"]) == (5 if controls else 3)


def test_differences_that_are_not_shown_are_hollow() -> None:
    steps = {"cold": 0.0, "warm": -0.06, "hot": -0.12}
    less = {name: {metric: value + step for metric, value in CONTROLS[CEILING].items()} for name, step in steps.items()}
    figure = drawn(measured(less))["shortfall"]
    titles = [view["title"]["text"] for view in figure.spec["vconcat"]]
    assert titles == ["precision: quality", "density: quality", "recall: diversity", "coverage: diversity"]
    for view in figure.spec["vconcat"]:
        shown = {row["candidate"]: (row["value"], row["undecided"]) for row in view["data"]["values"]}
        assert list(shown) == list(steps)
        assert [value for value, _ in shown.values()] == pytest.approx(list(steps.values()))
        assert [undecided for _, undecided in shown.values()] == [True, False, False]


def test_curves_pair_both_sides_at_each_slope() -> None:
    shown = rows(drawn(measured(["one"], curves=True))["curve"])
    assert [(row["slope"], row["recall"], row["precision"]) for row in shown] == [
        (0.5, 0.4, 0.2),
        (1.0, 0.4, 0.4),
        (2.0, 0.3, 0.6),
    ]


def test_texts_are_drawn_in_part_and_listed_in_full() -> None:
    say = "a text that is much too long to stand in a chart of any width, and then goes on: {}"
    figure = drawn(measured(COLD_TO_HOT, texts=50, say=say))["outside"]
    assert [row["radii"] for row in rows(figure)] == pytest.approx([2.0 - 0.01 * n for n in range(MOST_DOTS)])
    assert all(len(row["text"]) <= 60 for row in rows(figure))
    listed = table(figure)
    assert [row[1] for row in listed["rows"]] == [say.format(n) for n in range(MOST_LISTED)]
    assert [key for key, _ in listed["columns"]] == [
        "place", "text", "copies", "radii", "nearest_text", "nearest_place",
    ]  # fmt: skip
    assert "50 of the 90 different texts of hot in the first draw lie" in figure.caption
    assert "The farthest 12 are drawn, the farthest 20 listed" in figure.caption
    assert listing(figure).titles[0] == "line"


@pytest.mark.parametrize("nearest", ["cold", "hot"])
def test_whose_the_nearest_text_is(nearest) -> None:
    listed = table(drawn(measured(COLD_TO_HOT, nearest=nearest))["uncovered"])
    assert [row[5] for row in listed["rows"]] == [nearest] * 3


def test_embeddings_without_texts_are_known_by_their_place() -> None:
    found = drawn(measured(["one"], say="", where="row"))["outside"]
    assert [row["text"] for row in rows(found)] == ["row 1", "row 2", "row 3"]
    assert [key for key, _ in table(found)["columns"]] == ["place", "copies", "radii", "nearest_place"]
    assert listing(found).titles == ("row", "copies", "distance in radii", "row")


def test_a_ball_without_a_radius_leaves_the_distance() -> None:
    figure = drawn(measured(["one"], texts=1, radii=np.inf))["outside"]
    assert rows(figure)[0]["distance"] == 2.0 and "radii" not in json.dumps(figure.spec) + figure.caption


def test_long_names_are_cut_and_told_apart() -> None:
    long = "x" * 80
    shown = [row["set"] for row in rows(drawn(measured([long + "a", long + "b"]))["plane"])]
    assert len(set(shown)) == 4 and max(map(len, shown)) <= LONGEST + 4


def test_a_score_that_could_not_be_told_leaves_its_point_out() -> None:
    counts = measured(COLD_TO_HOT, heat=SWEEP)
    counts.main["warm"].scores["recall", 5][3, 0] = np.nan
    found = drawn(counts)
    assert {row["set"] for row in rows(found["plane"])} == {"cold", "hot", CEILING, FLOOR}
    assert REFERENCE not in found
