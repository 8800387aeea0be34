"""The charts of the interference audit: which there are, that every cell is on them once, and what is never said."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import vl_convert
from judged_matrices import counts_of, inputs_of, judged

from audits.core import testing
from audits.core.context import Context, Draft
from audits.core.intervals import Interval
from audits.core.records import Figure
from audits.interference import AUDIT, Options
from audits.interference.effect_figures import MOST_DOTS, MOST_SEEDED
from audits.interference.effects import Association
from audits.interference.figure_parts import FIRST_POINTS, LETTERS, MOST_LABELS, MOST_POINTS, STATES
from audits.interference.figures import figures
from audits.interference.matrix import Judged
from audits.interference.measure import Counts
from audits.report.charts import Tile, effect_matrix
from audits.report.charts.matrix import CROSS, HATCH
from audits.report.charts.theme import CONFIG
from audits.report.pages.content import chart, listing
from audits.report.pages.drawing import compiled
from audits.report.pages.figures import sized
from audits.report.pages.live import SPECIFICATIONS
from audits.statistics.qap import QapTest
from probes.core.cache import Cache

CODES = ("ar", "en", "fr", "hi", "ru")
SCRIPTS = {"ar": "Arab", "en": "Latn", "fr": "Latn", "hi": "Deva", "ru": "Cyrl"}
EVIL = "'];</script><script>alert(1)</script> | `a` {{ 7*7 }}"
HARM = {("en", "ru"): 0.3, ("fr", "ru"): 0.2, ("en", "fr"): -0.2, ("ar", "hi"): 0.1}
MISSING = ("hi", "ru")
ALL = ["matrix", "asymmetry", "likeness", "mixtures", "downstream", "seeds"]


def planted(folder, *, seeds=3, noise=0.004, langs=True, triples=True, names=EVIL) -> Options:
    """Write losses with known effects, and what is known of the languages; return the options of a run."""
    rng = np.random.default_rng(0)
    rows = [("lang", "with", "seed", "loss")]
    for seed in range(seeds):
        for place, target in enumerate(CODES):
            alone = 2 + 0.1 * place
            rows.append((target, target, seed, alone + noise * rng.normal()))
            others = [source for source in CODES if source not in (target, MISSING[1] if target == MISSING[0] else "")]
            rows += [
                (target, source, seed, alone + HARM.get((target, source), 0) + noise * rng.normal())
                for source in others
            ]
        if triples:
            # What ru and fr do to en adds up; in fr a further 0.5 comes from nowhere.
            rows.append(("en", "fr+ru", seed, 2.1 + 0.1 + noise * rng.normal()))
            rows.append(("fr", "en+ru", seed, 2.2 + 0.7 + noise * rng.normal()))
            rows.append(("ru", "en+fr", seed, 2.4 + noise * rng.normal()))
    write(folder / "losses.csv", rows)
    if langs:
        table = [(code, f"{names} {code}", SCRIPTS[code], "F" if code in "enfr" else "G") for code in CODES]
        write(folder / "langs.csv", [("code", "name", "script", "family"), *table])
    scores = [(code, 0.5 + 0.01 * place, 0.9 - 0.1 * place) for place, code in enumerate(CODES)]
    write(folder / "down.csv", [("code", "f1", "accuracy"), *scores])
    return Options(
        corpus=folder if langs else None, losses=folder / "losses.csv", downstream=folder / "down.csv", permutations=100
    )


def write(path, rows) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def drafted(options, folder) -> Draft:
    return testing.drafted(AUDIT, options, Context(cache=Cache(folder / "cache")))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> dict[str, Figure]:
    folder = tmp_path_factory.mktemp("planted")
    return {figure.id: figure for figure in drafted(planted(folder), folder).figures}


def svg_of(spec) -> str:
    return vl_convert.vegalite_to_svg(sized(spec), config=CONFIG, allowed_base_urls=[])


def lines_in(svg, fewest=1) -> list[int]:
    """Return how many lines each group of rules holds."""
    return [n for part in svg.split("<g ")[1:] if "mark-rule" in part[:200] and (n := part.count("<line ")) >= fewest]


def matrix_of(codes, tiles) -> dict:
    words = {"titles": ("added", "held-out"), "legend": ("change",), "hints": ("row", "column", "change", "seeds")}
    return effect_matrix(codes, codes, tiles, states=STATES, **words)


def cells_of(spec, codes) -> dict[tuple[str, str], tuple]:
    """Return letter and value of each cell of a matrix by target and source, as the chart unfolds them."""
    rows = spec["data"]["values"]
    scale = next(step["calculate"] for step in spec["transform"] if step.get("as") == "value")
    unit = float(re.search(r"/ (\d+)", scale)[1])
    return {
        (codes[row["t"]], codes[place]): (letter, None if row["v"][place] is None else row["v"][place] / unit)
        for row in rows
        for place, letter in enumerate(row["c"])
    }


def order_of(spec) -> list[str]:
    return json.loads(spec["encoding"]["x"]["axis"]["labelExpr"].partition("]")[0] + "]")


def test_all_figures_stand_in_their_order_and_can_be_drawn(drawn) -> None:
    assert list(drawn) == ALL
    for figure in drawn.values():
        assert figure.title.endswith("?") and len(figure.caption) > 60
        text = json.dumps(figure.spec, allow_nan=False)
        assert "NaN" not in text and "http" not in text.replace("https://vega.github.io/schema", "")
        svg = svg_of(figure.spec)
        assert "NaN" not in svg and "undefined" not in svg and "<script>" not in svg


def test_every_cell_is_in_the_matrix_once_with_its_verdict(drawn) -> None:
    spec = drawn["matrix"].spec
    order = order_of(spec)
    assert sorted(order) == sorted(CODES) and order == order_of({"encoding": {"x": spec["encoding"]["y"]}})
    cells = cells_of(spec, order)
    assert len(cells) == len(CODES) ** 2 == sum(len(row["v"]) for row in spec["data"]["values"])
    for (target, source), (letter, value) in cells.items():
        harm = HARM.get((target, source), 0)
        wanted = (
            "d" if target == source else "m" if (target, source) == MISSING else "h" if harm > 0 else "s" * (harm < 0)
        )
        assert letter == (wanted or "i")
        assert (value is None) == (letter in "dm")
        assert value is None or value == pytest.approx(harm, abs=0.02)


def test_exactly_the_undecided_cells_are_hatched_and_the_failed_ones_crossed() -> None:
    codes = ["a", "b", "c"]
    rows = ["dih", "xdu", "smd"]
    spots = [[Tile(letter=at, value=None if at in "dxm" else 0.1 * (at != "s") - 0.1, half=0.01) for at in row]
             for row in rows]  # fmt: skip
    svg = svg_of(matrix_of(codes, spots))
    assert sorted(lines_in(svg)) == sorted([2 * len(HATCH), len(CROSS)])
    assert cells_of(matrix_of(codes, spots), codes)["b", "a"] == ("x", None)
    # Colour is for decided cells alone: one of harm and one of synergy.
    assert svg.count('fill="rgb(') == 2
    for letter in "iuxm":
        faint = [[Tile(letter="d"), Tile(letter=letter, value=None if letter in "xm" else 0.5)]] * 2
        assert "rgb(" not in svg_of(matrix_of(["a", "b"], faint)).replace("rgba(", "")


def test_the_small_matrix_is_a_table_too(drawn) -> None:
    found = listing(drawn["matrix"])
    assert found is not None and found.titles[1:] == tuple(f"+ {code}" for code in order_of(drawn["matrix"].spec))
    words = {row[0]: dict(zip(found.titles[1:], row[1:], strict=True)) for row in found.rows}
    assert words[MISSING[0]][f"+ {MISSING[1]}"] == "not measured" and words["en"]["+ en"] == "–"
    assert re.fullmatch(r"0\.\d+ \(0\.\d+ to 0\.\d+\)", words["en"]["+ ru"])


def test_pairs_that_differ_come_first_and_at_most_four_are_named(drawn) -> None:
    rows = drawn["asymmetry"].spec["data"]["values"]
    pairs = len(CODES) * (len(CODES) - 1) // 2 - 1
    assert len({row["pair"] for row in rows}) == len(rows) == pairs
    assert {row["pair"] for row in rows if not row["open"]} == {"en, ru", "fr, ru", "en, fr", "ar, hi"}
    assert [row["open"] for row in rows] == sorted(row["open"] for row in rows)
    assert sum(row["named"] for row in rows) == MOST_LABELS
    assert rows[0]["pair"] == "en, ru" and rows[0]["x"] == pytest.approx(0.3, abs=0.02)
    assert f"({MOST_LABELS} of {pairs} pairs" in drawn["asymmetry"].caption


def test_each_cell_is_a_dot_of_its_script_and_of_its_family(drawn) -> None:
    figure = drawn["likeness"]
    rows = figure.spec["data"]["values"]
    cells = len(CODES) * (len(CODES) - 1) - 1
    count = {name: sum(row["group"].partition(",")[0] == name for row in rows) for name in
             ("same script", "other script", "same family", "other family")}  # fmt: skip
    assert count == {"same script": 2, "other script": cells - 2, "same family": 7, "other family": cells - 7}
    assert "could not show that script is the reason" in figure.caption


def test_a_mixture_beyond_the_sum_of_its_pairs_is_filled(drawn) -> None:
    rows = {row["cell"]: row for row in drawn["mixtures"].spec["data"]["values"]}
    off = rows["fr in en+fr+ru"]
    assert len(rows) == 3 and not off["open"] and rows["en in en+fr+ru"]["open"]
    assert off["y"] - off["x"] == pytest.approx(0.5, abs=0.03) and off["y_low"] < off["y"] < off["y_high"]
    assert "1 of 3 cases" in drawn["mixtures"].caption


def test_scores_stand_in_a_panel_each(drawn) -> None:
    views = drawn["downstream"].spec["vconcat"]
    assert [view["title"]["text"] for view in views] == ["f1", "accuracy"]
    assert [{row["code"] for row in view["data"]["values"]} for view in views] == [set(CODES)] * 2


def test_each_training_is_a_dot_in_the_order_of_the_cells(drawn) -> None:
    rows = drawn["seeds"].spec["data"]["values"]
    assert len(rows) == len(CODES) * (len(CODES) - 1) - 1
    assert [row["value"] for row in rows] == sorted(row["value"] for row in rows)
    for row in rows:
        assert len(row["seeds"]) == 3 and np.mean(row["seeds"]) == pytest.approx(row["value"], abs=1e-5)
        assert row["low"] < row["value"] < row["high"]


def test_one_seed_colours_nothing_and_shows_no_trainings(tmp_path) -> None:
    made = {figure.id: figure for figure in drafted(planted(tmp_path, seeds=1), tmp_path).figures}
    assert "seeds" not in made
    assert {letter for letter, _ in cells_of(made["matrix"].spec, order_of(made["matrix"].spec)).values()} == set("dum")
    assert "one seed, so not tested" in made["matrix"].caption
    assert "For none of" in made["asymmetry"].caption
    for figure in made.values():
        svg_of(figure.spec)


def test_without_a_table_of_languages_nothing_is_said_of_scripts(tmp_path) -> None:
    options = replace(planted(tmp_path, langs=False, triples=False), downstream=None)
    assert [figure.id for figure in drafted(options, tmp_path).figures] == ["matrix", "asymmetry", "seeds"]


def test_a_part_of_a_run_and_an_empty_matrix_have_no_figures() -> None:
    # Of a part of the models there are no cells, as where no model converged.
    assert not list(figures(Draft(), counts_of(inputs_of(CODES))))


def many_languages(count, tested=True) -> tuple[Draft, Counts]:
    """Return counts of so many languages, of which those of one script hurt each other less."""
    rng, draft = np.random.default_rng(0), Draft()
    codes = tuple(f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij")[:count]
    script = {code: f"S{place % 4}" for place, code in enumerate(codes)}

    def added(name, value, **where) -> Judged:
        shown = "interference" if value > 0 else "synergy"
        one = judged(value, shown if abs(value) > 0.05 else "indistinguishable", 0.02, sentences=True)
        draft.add(name, one.interval, **where)
        return one

    pairs = [(a, b) for a in codes for b in codes if a != b]
    cells = {
        (a, b): added("interference", 0.08 * rng.normal() - 0.1 * (script[a] == script[b]), target=a, source=b)
        for a, b in pairs
    }
    asymmetries = {
        (a, b): added("asymmetry", cells[a, b].value - cells[b, a].value, a=a, b=b) for a, b in pairs[1:] if a < b
    }
    # Its model did not converge.
    del cells[pairs[0]]
    columns = {"name": {code: f"Language {code}" for code in codes}, "script": script}
    test = QapTest(value=-0.1, p=0.002, arrangements=999, exact=False, smallest_p=0.001, cells=9, languages=len(codes))
    effect = Interval(value=-0.1, low=-0.12, high=-0.08, method="t", n=9, unit="x")
    draft.add("script_effect", effect, adjusted="no")
    association = Association(
        name="script", kind="class", effect=effect, p=effect, test=test, adjusted=0.004, contrast=0.01
    )
    failed = {((pairs[0][0],), pairs[0][0]): "it did not learn"}
    effects = (association,) if tested else ()
    inputs = inputs_of(codes, columns=columns)
    return draft, counts_of(inputs, cells=cells, asymmetries=asymmetries, failed=failed, effects=effects)


@pytest.mark.parametrize("count", [17, 83])
def test_many_languages_fit_the_page_and_none_is_left_out(count) -> None:
    draft, counts = many_languages(count)
    made = {figure.id: figure for figure in figures(draft, counts)}
    assert list(made) == ["matrix", "asymmetry", "likeness"] and count > MOST_SEEDED
    live = [compiled(sized(chart(figure)), {}) for figure in made.values()]
    assert sum(len(json.dumps(one, separators=(",", ":"))) for one in live) < SPECIFICATIONS
    spec = made["matrix"].spec
    cells = cells_of(spec, order_of(spec))
    assert len(cells) == count**2 and [letter for letter, _ in cells.values()].count("x") == 1
    for where, one in counts.matrix.cells.items():
        assert cells[where][0] == LETTERS[one.verdict(0.95)]
        assert cells[where][1] == pytest.approx(one.value, abs=6e-4)
    pairs = count * (count - 1) // 2
    rows = made["asymmetry"].spec["data"]["values"]
    clouds = [layer["data"]["values"][0] for layer in made["asymmetry"].spec["layer"] if "flatten" in str(layer)]
    whole = len(counts.matrix.asymmetries)
    assert pairs - 1 <= whole <= pairs
    assert len(rows) == (whole if whole <= MOST_POINTS else FIRST_POINTS)
    assert len(rows) + sum(len(cloud["a"]) for cloud in clouds) == whole
    dots = [row["group"] for row in made["likeness"].spec["data"]["values"]]
    assert all(dots.count(group) <= MOST_DOTS for group in set(dots))
    assert "Same script less other" in made["likeness"].caption
    for figure in made.values():
        vl_convert.vegalite_to_vega(sized(figure.spec))


def test_a_likeness_that_was_not_tested_is_not_drawn() -> None:
    draft, counts = many_languages(17, tested=False)
    assert "likeness" not in {figure.id for figure in figures(draft, counts)}


def test_every_verdict_has_a_letter() -> None:
    assert sorted(LETTERS) == sorted(words for words, _ in STATES.values()) and len(LETTERS) == len(STATES)
