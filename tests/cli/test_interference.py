"""Does `miles interference` leave what the contract says, and find what was planted in losses and in texts?"""

import csv
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults, says
from run_folders import estimate, estimates, read, records, stripped
from scipy.stats import spearmanr
from scipy.stats import t as student
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

Call = Callable[..., Any]
Run = Callable[..., Path]
Row = dict[str, Any]
Cells = Mapping[tuple[str, str], float]
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = [
    "target", "source", "verdict", "interference", "low", "high", "p", "p_adjusted", "seed_sd", "losses_alone",
    "losses_together", "why",
]  # fmt: skip
ALONE, SPREAD = 2.0, 0.01
SEEDS = (-1.0, 0.0, 1.0)
"""By how many spreads every cell of a seed is off: of three seeds the mean is exact and the deviation is one."""
TURNED = {-1.0: 0.0, 0.0: 1.0, 1.0: -1.0}
"""The same of a target that comes after its source, so that no difference of two cells is without spread."""
LENGTHS = (10.0, 20.0, 30.0, 40.0)
TINY = ("--layers", "1", "--hidden", "8", "--heads", "1", "--window", "8", "--batch", "4", "--seeds", "2",
        "--held-out", "1000", "--workers", "1")  # fmt: skip


# Losses with known cells.
def flat(languages: str, cells: Callable[[str, str], float]) -> dict[tuple[str, str], float]:
    """Return the cells of all pairs by (target, source)."""
    return {(a, b): cells(a, b) for a, b in itertools.permutations(languages, 2)}


def losses(
    path: Path,
    cells: Cells,
    *,
    seeds: Sequence[float] = SEEDS,
    spread: float = SPREAD,
    triples: Sequence[str] = (),
    extra: float = 0.0,
    sentences: bool = False,
) -> Path:
    """Write losses under models of every language and pair, and of mixtures that are off by `extra`."""
    languages = sorted({code for pair in cells for code in pair})
    rise = {(code, code): 0.0 for code in languages} | dict(cells)
    for three in triples:
        for target in three:
            others = [code for code in three if code != target]
            rise[target, "+".join(others)] = sum(cells[target, code] for code in others) + extra
    rows = []
    for seed, off in enumerate(seeds):
        for (target, source), value in rise.items():
            by = 0.0 if target == source else off if target < source else TURNED.get(off, off)
            mean = float(ALONE + value + spread * by)
            if not sentences:
                rows.append({"lang": target, "with": source, "seed": seed, "loss": repr(mean)})
                continue
            for place, size in enumerate(LENGTHS):
                # Sentences differ, by nothing on the whole, in what they lose and in how much more with another.
                tilt = (place - 2) * (0.1 if target == source else 0.1 + 0.001)
                rows.append({"lang": target, "with": source, "seed": seed, "sentence": f"s{place}", "bytes": size,
                             "loss": repr(mean + tilt)})  # fmt: skip
    return written(path, rows)


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def attributes(folder: Path, **columns: str) -> None:
    """Write langs.csv: a letter for each language and column."""
    codes = "abcdefghijklm"[: len(next(iter(columns.values())))]
    written(
        folder / "langs.csv",
        [{"code": code, **{name: f"{name}-{values[place]}" for name, values in columns.items() if values[place] != "?"}}
         for place, code in enumerate(codes)],
    )  # fmt: skip


HAND = {("a", "b"): 0.30, ("b", "a"): 0.10, ("a", "c"): 0.20, ("c", "a"): -0.10, ("b", "c"): 0.05, ("c", "b"): -0.20}


# Runs.
@pytest.fixture
def quick(quick: Run) -> Run:
    """Return a function that carries a run out without figures and pages, and returns its folder."""

    def run(*words: object, name: str = "run", code: int = 0) -> Path:
        folder = quick("interference", *words, name=name, code=code)
        sound(folder)
        return folder

    return run


def sound(folder: Path) -> None:
    """Check what holds of every report: no number is none, and without an interval there is a reason."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    places = [(row["name"], tuple(sorted(row["where"].items()))) for row in report["estimates"]]
    assert len(set(places)) == len(places), "two estimates stand at one place"
    for row in report["estimates"]:
        bare = row["method"] in ("exact", "none")
        assert (row["low"] is None) == (row["high"] is None) == bare, row
        assert bare or row["low"] <= row["value"] <= row["high"], row
        assert row["n"] > 0 and row["unit"], row
        if row["method"] == "none":
            assert any(one["where"].items() <= row["where"].items() for one in report["warnings"]), row
    for finding in report["findings"]:
        assert all(0 <= place < len(report["estimates"]) for place in finding["evidence"])
        assert "nan" not in says(finding).lower().split()
    assert not {"nan", "inf", "-inf"} & {cell for row in records(folder) for cell in row.values()}


def said(folder: Path, id: str) -> str:
    """Return all that findings of one kind say, one behind the other."""
    return " ".join(says(one) for one in read(folder)["findings"] if one["id"] == f"interference.{id}")


def warned(folder: Path, id: str) -> list[Row]:
    return [one for one in read(folder)["warnings"] if one["id"] == id]


# The contract.
@pytest.fixture(scope="module")
def whole(finish_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run that nobody may change."""
    place = tmp_path_factory.mktemp("interference-run")
    cells = flat("abcdef", lambda a, b: 0.1 + 0.01 * ("abcdef".index(a) - 2 * "abcdef".index(b)))
    losses(place / "losses.csv", cells, triples=("abc", "bde"), sentences=True)
    attributes(place, script="xxyyzz", family="xyxyzz", branch="xxxyyy")
    written(place / "near.csv", [{"a": a, "b": b, "near": round(abs(cells[a, b] ** 2 + cells[b, a]), 3)}
                                 for a, b in itertools.combinations("abcdef", 2)])  # fmt: skip
    written(
        place / "f1.csv",
        [{"code": code, "f1": value} for code, value in zip("abcdef", (5, 3, 6, 2, 1, 4), strict=True)],
    )
    tables = ("--similarity", place / "near.csv", "--downstream", place / "f1.csv")
    folder: Path = finish_run("interference", "--losses", place / "losses.csv", *tables, out=place / "run")
    return folder


def test_a_report_says_what_was_compared(whole: Path) -> None:
    sound(whole)
    report = read(whole)
    assert report["figures"] and report["subject"] is None
    rows = (6 + 30 + 6) * len(SEEDS) * len(LENGTHS)
    assert report["coverage"] == {"given": rows, "used": rows, "skipped": []}
    assert [source["role"] for source in report["data"]] == ["losses", "languages", "downstream", "similarity"]
    assert report["settings"]["langs"] == list("abcdef") and report["settings"]["correction"] == "holm"


@pytest.mark.parametrize(
    ("name", "keys", "unit", "count"),
    [
        ("loss", "lang with", "held-out sentences", 6 + 30 + 6),
        ("interference", "source target", "held-out sentences", 30),
        ("interference_relative", "source target", "held-out sentences", 30),
        ("asymmetry", "a b", "held-out sentences", 15),
        ("received", "target", "held-out sentences", 6),
        ("caused", "source", "held-out sentences", 6),
        ("seed_deviation", "", "cells", 1),
        ("script_effect", "adjusted", "held-out sentences", 2),
        ("family_effect", "adjusted", "held-out sentences", 2),
        ("similarity_correlation", "attribute", "languages", 2),
        ("predicted_interference", "mixture", "held-out sentences", 6),
        ("downstream_correlation", "score side", "languages", 1),
    ],
)
def test_estimates_have_their_coordinates(whole: Path, name: str, keys: str, unit: str, count: int) -> None:
    rows = estimates(whole, name)
    assert len(rows) == count
    assert all(" ".join(sorted(row["where"])) == keys and row["unit"] == unit for row in rows), rows[0]
    assert all(math.isfinite(row["value"]) for row in rows)


def test_errors_of_prediction_and_p_values_say_of_what(whole: Path) -> None:
    errors = {tuple(sorted(row["where"])) for row in estimates(whole, "prediction_error")}
    assert errors == {("mixture", "target", "with"), ("of",), ("of", "predictor", "score")}
    tests = {row["where"]["test"] for row in estimates(whole, "p_value")}
    assert tests == {"script", "family", "branch", "near", "f1"}
    assert all(0 < row["value"] <= 1 for row in estimates(whole, "p_value"))


def test_every_estimate_is_one_that_the_audit_names(whole: Path) -> None:
    from audits.interference import AUDIT

    found = {row["name"] for row in read(whole)["estimates"]}
    # Losses from elsewhere have no texts to count tokens in.
    assert found == {*AUDIT.estimates} - {"baseline"}


def test_equal_runs_leave_equal_bytes(quick: Run, tmp_path: Path) -> None:
    losses(tmp_path / "losses.csv", flat("abcdefghi", lambda a, b: (ord(a) * ord(b)) % 17 / 50), triples=("abc", "cde"))
    attributes(tmp_path, script="xxxyyyzzz")
    words = ("--losses", tmp_path / "losses.csv", "--permutations", "500")
    one, two, other = quick(*words, name="one"), quick(*words, name="two"), quick(*words, "--seed", "1", name="other")
    assert stripped(one) == stripped(two)
    assert (one / "records.csv").read_bytes() == (two / "records.csv").read_bytes()
    # Another seed draws other relabellings, and touches nothing that is not drawn.
    assert stripped(one, "settings", "estimates", "findings") == stripped(other, "settings", "estimates", "findings")
    assert estimates(one, "interference") == estimates(other, "interference")


# Numbers by hand.
@pytest.mark.parametrize("sentences", [False, True])
def test_cells_asymmetries_rows_and_columns_are_those_planted(quick: Run, tmp_path: Path, sentences: bool) -> None:
    folder = quick("--losses", losses(tmp_path / "losses.csv", HAND, sentences=sentences))
    # Sentences weighted by their bytes tilt the loss by (-2 * 10 - 20 + 40) / 100 = 0.
    for (target, source), value in HAND.items():
        row = estimate(folder, "interference", target=target, source=source)
        assert row["value"] == pytest.approx(value, abs=1e-9)
        assert row["n"] == (len(LENGTHS) if sentences else len(SEEDS))
        share = estimate(folder, "interference_relative", target=target, source=source)
        assert share["value"] == pytest.approx(value / ALONE, abs=1e-9)
        assert estimate(folder, "loss", lang=target, **{"with": source})["value"] == pytest.approx(ALONE + value)
    for code in "abc":
        assert estimate(folder, "loss", lang=code, **{"with": code})["value"] == pytest.approx(ALONE)
    for (a, b), value in {("a", "b"): 0.2, ("a", "c"): 0.3, ("b", "c"): 0.25}.items():
        assert estimate(folder, "asymmetry", a=a, b=b)["value"] == pytest.approx(value)
    for name, key, values in (
        ("received", "target", {"a": 0.25, "b": 0.075, "c": -0.15}),
        ("caused", "source", {"a": 0.0, "b": 0.05, "c": 0.125}),
    ):
        for code, value in values.items():
            assert estimate(folder, name, **{key: code})["value"] == pytest.approx(value, abs=1e-9)
    assert estimate(folder, "seed_deviation")["value"] == pytest.approx(SPREAD)


def test_records_hold_every_cell(quick: Run, tmp_path: Path) -> None:
    folder = quick("--losses", losses(tmp_path / "losses.csv", HAND))
    rows = records(folder)
    assert list(rows[0]) == COLUMNS and [(row["target"], row["source"]) for row in rows] == sorted(HAND)
    for row in rows:
        value = HAND[row["target"], row["source"]]
        made = estimate(folder, "interference", target=row["target"], source=row["source"])
        for name, key in (("interference", "value"), ("low", "low"), ("high", "high")):
            assert float(row[name]) == pytest.approx(made[key], rel=1e-5, abs=1e-9)
        assert float(row["seed_sd"]) == pytest.approx(SPREAD, rel=1e-4)
        assert row["losses_alone"] == " ".join([f"{ALONE:.4f}"] * 3) and row["why"] == ""
        offs = SEEDS if row["target"] < row["source"] else TURNED.values()
        assert row["losses_together"] == " ".join(f"{ALONE + value + SPREAD * off:.4f}" for off in offs)
        assert row["verdict"] == ("interference" if value > 0 else "synergy")


@pytest.mark.parametrize(
    ("p", "correction", "verdicts"),
    [
        # Of two cells Holm doubles the smaller p; Benjamini and Hochberg spare both where the larger one passes.
        ((0.03, 0.04), "holm", ("indistinguishable", "indistinguishable")),
        ((0.03, 0.04), "bh", ("interference", "synergy")),
        ((0.02, 0.04), "holm", ("interference", "synergy")),
        ((0.02, 0.06), "holm", ("interference", "indistinguishable")),
        ((0.02, 0.06), "bh", ("interference", "indistinguishable")),
        ((0.04, 0.06), "bh", ("indistinguishable", "indistinguishable")),
    ],
)
def test_verdicts_are_those_by_hand(
    quick: Run, tmp_path: Path, p: tuple[float, float], correction: str, verdicts: tuple[str, str]
) -> None:
    first, second = (student.isf(one / 2, df=2) * SPREAD / math.sqrt(3) for one in p)
    path = losses(tmp_path / "losses.csv", {("a", "b"): first, ("b", "a"): -second})
    folder = quick("--losses", path, "--correction", correction)
    rows = records(folder)
    assert tuple(row["verdict"] for row in rows) == verdicts
    assert [float(row["p"]) for row in rows] == pytest.approx(p, rel=1e-4)
    raised = (min(1, 2 * p[0]), max(2 * p[0], p[1])) if correction == "holm" else (min(2 * p[0], p[1]), p[1])
    assert [float(row["p_adjusted"]) for row in rows] == pytest.approx(raised, rel=1e-4)
    half = float(student.isf(0.025, df=2)) * SPREAD / math.sqrt(3)
    row = estimate(folder, "interference", target="a")
    assert (row["low"], row["high"]) == pytest.approx((first - half, first + half))
    counts = [verdicts.count(one) for one in ("interference", "synergy", "indistinguishable")]
    text = said(folder, "matrix")
    assert f"{counts[0]} show interference, {counts[1]} synergy and {counts[2]} neither" in text
    assert ("After Holm's correction" in text) == (correction == "holm")


def test_corrections_of_a_larger_matrix_are_those_by_hand(quick: Run, tmp_path: Path) -> None:
    cells = {where: value / 40 for where, value in HAND.items()}
    path = losses(tmp_path / "losses.csv", cells)
    for correction in ("holm", "bh"):
        rows = records(quick("--losses", path, "--correction", correction, name=correction))
        p = np.array([float(row["p"]) for row in rows])
        order, ranks = np.argsort(p), np.arange(1, 7)
        if correction == "holm":
            raised = np.minimum(1, np.maximum.accumulate(p[order] * (7 - ranks)))
        else:
            raised = np.minimum.accumulate((p[order] * 6 / ranks)[::-1])[::-1].clip(max=1)
        assert [float(rows[place]["p_adjusted"]) for place in order] == pytest.approx(raised, rel=1e-4)
        assert {row["verdict"] for row in rows} >= {"indistinguishable"}


def test_what_is_said_is_as_grave_as_the_share_is(quick: Run, tmp_path: Path) -> None:
    # Of a loss of 2: 0.2 is a tenth, 0.06 three in a hundred.
    for value, severity in ((0.202, "high"), (0.198, "medium"), (0.062, "medium"), (0.058, "low")):
        path = losses(tmp_path / "losses.csv", {("a", "b"): value, ("b", "a"): -0.5}, spread=1e-4)
        folder = quick("--losses", path, name=f"run-{value}")
        (told,) = [one for one in read(folder)["findings"] if one["id"] == "interference.interference"]
        assert told["severity"] == severity and told["where"] == {"target": "a", "source": "b"}
        assert f"Adding b raises the held-out loss of a by {value:.3f}" in says(told)
        assert f"{50 * value:.1f} % of the loss of a alone" in says(told)
        assert "Adding a lowers the held-out loss of b by 0.500" in said(folder, "synergy")
        assert "Trained together, a suffers more than b" in said(folder, "asymmetry")


def test_noise_alone_shows_nothing(quick: Run, tmp_path: Path) -> None:
    folder = quick("--losses", losses(tmp_path / "losses.csv", flat("abc", lambda a, b: 0.001)))
    assert {row["verdict"] for row in records(folder)} == {"indistinguishable"}
    assert "0 show interference, 0 synergy and 6 neither" in said(folder, "matrix")
    assert "To be shown in any cell it fell on" in said(folder, "matrix")
    assert not said(folder, "interference") and not said(folder, "synergy") and not said(folder, "asymmetry")


# Gates.
@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("interference[target=a,source=b].low > 0.1", 1),
        ("interference[target=a,source=b].low > 0.35", 0),
        ("interference[target=c].high > 0", 0),
        ("interference[source=a] > 0", 1),
        ("interference_relative[target=a].high > 0.1", 1),
        ("asymmetry[a=a,b=c].low > 0.2", 1),
        ("received[target=b].low > 0.08", 0),
        ("caused[source=c] > 0.1", 1),
        ("loss[lang=a,with=b] > 2.2", 1),
    ],
)
def test_gates_decide_the_exit_status(quick: Run, tmp_path: Path, gate: str, code: int) -> None:
    path = losses(tmp_path / "losses.csv", HAND, spread=1e-3)
    folder = quick("--losses", path, "--fail-if", gate, code=code)
    (judged,) = read(folder)["gates"]
    assert judged["outcome"] == ("fail" if code else "pass") and judged["rows"]


# What is missing.
@pytest.mark.parametrize("sentences", [False, True])
def test_one_seed_gives_no_verdict(quick: Run, tmp_path: Path, sentences: bool) -> None:
    folder = quick("--losses", losses(tmp_path / "losses.csv", HAND, seeds=(0.0,), sentences=sentences))
    assert {row["verdict"] for row in records(folder)} == {"untested"}
    assert {row["p"] + row["p_adjusted"] for row in records(folder)} == {""}
    assert "another training might have given anything" in said(folder, "untested")
    assert not said(folder, "matrix") and not said(folder, "interference") and not estimates(folder, "seed_deviation")
    methods = {row["method"] for row in estimates(folder, "interference")}
    assert methods == ({"Student's t over held-out sentences, with one seed"} if sentences else {"none"})
    assert estimate(folder, "interference", target="a", source="b")["value"] == pytest.approx(0.3)


def test_losses_that_never_vary_have_no_interval(quick: Run, tmp_path: Path) -> None:
    folder = quick("--losses", losses(tmp_path / "losses.csv", HAND, spread=0.0))
    assert {row["method"] for row in estimates(folder, "interference")} == {"none"}
    assert not said(folder, "interference")


def edited(path: Path, keep: Callable[[Row], bool]) -> Path:
    """Leave rows out of a file of losses."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if keep(row)]
    return written(path, rows)


def test_a_target_without_a_loss_alone_is_skipped_and_told(quick: Run, tmp_path: Path) -> None:
    path = edited(losses(tmp_path / "losses.csv", HAND), lambda row: row["lang"] + row["with"] != "aa")
    folder = quick("--losses", path)
    assert not estimates(folder, "interference", target="a") and not estimates(folder, "loss", lang="a")
    assert {row["where"]["source"] for row in estimates(folder, "interference", target="b")} == {"a", "c"}
    (skipped,) = read(folder)["coverage"]["skipped"]
    assert skipped == {"reason": "no monolingual loss of the language", "count": 6}
    missing = [one["where"] for one in warned(folder, "not-measured")]
    assert [(where["target"], where["source"]) for where in missing] == [("a", "b"), ("a", "c")]
    assert {row["verdict"] for row in records(folder) if row["target"] == "a"} == {"not measured"}
    assert {(row["where"]["a"], row["where"]["b"]) for row in estimates(folder, "asymmetry")} == {("b", "c")}
    assert "did not converge" not in said(folder, "matrix")


def test_a_pair_measured_in_one_direction_has_one_cell(quick: Run, tmp_path: Path) -> None:
    path = edited(losses(tmp_path / "losses.csv", {("a", "b"): 0.2, ("b", "a"): 0.1}), lambda row: row["lang"] != "b")
    folder = quick("--losses", path)
    assert [row["where"] for row in estimates(folder, "interference")] == [{"target": "a", "source": "b"}]
    assert not estimates(folder, "asymmetry")


def test_seeds_that_disagree_are_left_out_and_counted(quick: Run, tmp_path: Path) -> None:
    path = edited(losses(tmp_path / "losses.csv", HAND, seeds=(*SEEDS, 50.0)),
                  lambda row: row["seed"] != "3" or row["lang"] != row["with"])  # fmt: skip
    folder = quick("--losses", path)
    (skipped,) = read(folder)["coverage"]["skipped"]
    assert skipped["count"] == 6 and "from the same seed" in skipped["reason"]
    assert estimate(folder, "interference", target="a", source="b")["value"] == pytest.approx(0.3)


def test_cells_are_compared_over_the_seeds_that_both_models_have(quick: Run, tmp_path: Path) -> None:
    # Of a with b one seed is missing: that of the lowest value; the others stay as they are.
    path = edited(
        losses(tmp_path / "losses.csv", HAND), lambda row: (row["lang"], row["with"], row["seed"]) != ("a", "b", "0")
    )
    folder = quick("--losses", path)
    row = estimate(folder, "interference", target="a", source="b")
    assert row["value"] == pytest.approx(0.3 + SPREAD / 2) and "2 seeds" in row["method"]
    assert estimate(folder, "interference", target="a", source="c")["value"] == pytest.approx(0.2)
    assert estimate(folder, "asymmetry", a="a", b="b")["value"] == pytest.approx(0.2 + SPREAD / 2)


def test_one_whole_mixture_of_three_is_no_ranking(quick: Run, tmp_path: Path) -> None:
    gone = ({"a", "d"}, {"b", "d"})
    path = edited(losses(tmp_path / "losses.csv", flat("abcd", lambda a, b: 0.1)),
                  lambda row: {row["lang"], row["with"]} not in gone)  # fmt: skip
    folder = quick("--losses", path)
    assert len(estimates(folder, "predicted_interference")) <= 1 and not said(folder, "recommended")


def test_codes_and_pairs_can_be_chosen(quick: Run, tmp_path: Path) -> None:
    path = losses(tmp_path / "losses.csv", HAND)
    folder = quick("--losses", path, "--langs", "b,a", name="langs")
    assert {row["where"]["target"] for row in estimates(folder, "interference")} == {"a", "b"}
    assert read(folder)["coverage"]["skipped"] == [{"reason": "language not asked for", "count": 15}]
    folder = quick("--losses", path, "--pairs", "c-b", name="pairs")
    assert {tuple(row["where"].values()) for row in estimates(folder, "interference")} == {("b", "c"), ("c", "b")}


# Script and family.
def effect(folder: Path, cells: Cells, kinds: Mapping[str, str]) -> float:
    """Return the mean cell of languages of one kind less that of languages of two."""
    same = [value for (a, b), value in cells.items() if kinds[a] == kinds[b]]
    other = [value for (a, b), value in cells.items() if kinds[a] != kinds[b]]
    return sum(same) / len(same) - sum(other) / len(other)


def scripted(codes: str, kinds: str, gap: float) -> dict[tuple[str, str], float]:
    """Return cells that are larger by a gap within a kind, and otherwise uneven."""
    kind = dict(zip(codes, kinds, strict=True))
    return flat(codes, lambda a, b: gap * (kind[a] == kind[b]) + 0.001 * ((3 * ord(a) + 7 * ord(b)) % 11))


def test_of_six_languages_in_three_scripts_nothing_can_be_shown(quick: Run, tmp_path: Path) -> None:
    kinds = "xxyyzz"
    cells = scripted("abcdef", kinds, 0.3)
    attributes(tmp_path, script=kinds)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells))
    expected = effect(folder, cells, dict(zip("abcdef", kinds, strict=True)))
    assert estimate(folder, "script_effect", adjusted="no")["value"] == pytest.approx(expected)
    # Six languages fall into three pairs in 15 ways.
    raw = estimate(folder, "p_value", test="script", correction="none")
    assert raw["value"] == pytest.approx(1 / 15) and raw["n"] == 15 and raw["method"] == "exact"
    assert "cannot be shown with these languages" in said(folder, "script")
    assert "15 ways" in said(folder, "script") and "0.067" in said(folder, "script")


def test_of_eight_languages_in_two_scripts_an_effect_is_shown(quick: Run, tmp_path: Path) -> None:
    kinds = "xxxxyyyy"
    cells = scripted("abcdefgh", kinds, 0.3)
    attributes(tmp_path, script=kinds)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells))
    raw = estimate(folder, "p_value", test="script", correction="none")
    # Eight languages fall into two fours in 35 ways.
    assert raw["value"] == pytest.approx(1 / 35) and raw["n"] == 35
    text = said(folder, "script")
    assert "more than chance would do" in text and "hurt each other more, by" in text
    row = estimate(folder, "script_effect", adjusted="no")
    assert row["value"] == pytest.approx(effect(folder, cells, dict(zip("abcdefgh", kinds, strict=True))))
    assert 0.25 < row["low"] < row["value"] < row["high"] < 0.35


def test_scripts_dealt_at_random_are_not_shown(quick: Run, tmp_path: Path) -> None:
    cells = scripted("abcdefghi", "xyzxyzxyz", 0.0)
    attributes(tmp_path, script="xxxyyyzzz")
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--permutations", "2000")
    assert "is not shown" in said(folder, "script") and "cannot be shown" not in said(folder, "script")
    assert estimate(folder, "p_value", test="script", correction="none")["value"] > 0.05


def test_of_nine_languages_a_drawn_test_shows_a_planted_effect(quick: Run, tmp_path: Path) -> None:
    attributes(tmp_path, script="xxxyyyzzz")
    path = losses(tmp_path / "losses.csv", scripted("abcdefghi", "xxxyyyzzz", -0.2))
    folder = quick("--losses", path, "--permutations", "2000")
    raw = estimate(folder, "p_value", test="script", correction="none")
    # One in 280 ways; the interval holds the draws.
    assert raw["low"] <= 1 / 280 <= raw["high"] and raw["value"] < 0.02 and raw["method"] != "exact"
    text = said(folder, "script")
    assert "more than chance would do" in text and "hurt each other less, by" in text


def test_a_family_that_is_the_script_by_another_name_is_told(quick: Run, tmp_path: Path) -> None:
    attributes(tmp_path, script="xxxxyyyy", family="vvvvwwww")
    folder = quick("--losses", losses(tmp_path / "losses.csv", scripted("abcdefgh", "xxxxyyyy", 0.3)))
    assert not estimates(folder, "script_effect", adjusted="yes")
    messages = " ".join(one["message"] for one in warned(folder, "no-test"))
    assert "script given family" in messages and "family given script" in messages
    one, two = (estimate(folder, f"{name}_effect", adjusted="no") for name in ("script", "family"))
    assert one["value"] == pytest.approx(two["value"])
    # Two tests of which each has p 1/35 alone.
    for name in ("script", "family"):
        held = estimate(folder, "p_value", test=name, correction="holm")
        assert held["value"] == pytest.approx(2 / 35) and "is not shown" in said(folder, name)


def test_script_is_told_from_family_where_the_two_cross(quick: Run, tmp_path: Path) -> None:
    attributes(tmp_path, script="xxxxyyyy", family="vvwwvvww")
    folder = quick("--losses", losses(tmp_path / "losses.csv", scripted("abcdefgh", "xxxxyyyy", 0.3)))
    script, family = (estimate(folder, f"{name}_effect", adjusted="yes") for name in ("script", "family"))
    assert script["value"] == pytest.approx(0.3, abs=0.02) and family["value"] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("kinds", ["xxxxxxxx", "abcdefgh"])
def test_scripts_that_all_share_or_nobody_shares_are_told(quick: Run, tmp_path: Path, kinds: str) -> None:
    attributes(tmp_path, script=kinds)
    folder = quick("--losses", losses(tmp_path / "losses.csv", scripted("abcdefgh", "xxxxyyyy", 0.3)))
    assert not estimates(folder, "script_effect") and not said(folder, "script")
    assert any("script" in one["message"] for one in warned(folder, "no-test"))


def test_a_language_without_a_script_takes_no_part_in_that(quick: Run, tmp_path: Path) -> None:
    attributes(tmp_path, script="xxxxyyyy?")
    cells = scripted("abcdefghi", "xxxxyyyyz", 0.3)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells))
    known = {where: value for where, value in cells.items() if "i" not in where}
    row = estimate(folder, "script_effect", adjusted="no")
    assert row["value"] == pytest.approx(effect(folder, known, dict(zip("abcdefgh", "xxxxyyyy", strict=True))))
    assert len(estimates(folder, "interference", target="i")) == 8


def test_a_language_that_is_not_in_the_table_is_told(quick: Run, tmp_path: Path) -> None:
    attributes(tmp_path, script="xxxxyyyy")
    folder = quick("--losses", losses(tmp_path / "losses.csv", scripted("abcdefghi", "xxxxyyyyz", 0.3)))
    assert [one["where"] for one in warned(folder, "no-attributes")] == [{"lang": "i"}]
    assert estimate(folder, "script_effect", adjusted="no")["value"] == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("kinds", ["11223344", "11112222"])
def test_scripts_that_are_numbered_are_classes_all_the_same(quick: Run, tmp_path: Path, kinds: str) -> None:
    written(
        tmp_path / "langs.csv", [{"code": code, "script": one} for code, one in zip("abcdefgh", kinds, strict=True)]
    )
    cells = scripted("abcdefgh", kinds, 0.3)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells))
    row = estimate(folder, "script_effect", adjusted="no")
    assert row["value"] == pytest.approx(effect(folder, cells, dict(zip("abcdefgh", kinds, strict=True))))


# Similarities, scores, mixtures.
def test_a_similarity_is_ranked_against_the_cells(quick: Run, tmp_path: Path) -> None:
    codes = "abcdefg"
    cells = flat(codes, lambda a, b: 0.01 * ((5 * ord(a) + 3 * ord(b)) % 13))
    near = {(a, b): -cells[a, b] - cells[b, a] + 0.01 * (ord(a) % 3) for a, b in itertools.combinations(codes, 2)}
    written(tmp_path / "near.csv", [{"a": a, "b": b, "near": value} for (a, b), value in near.items()])
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--similarity", tmp_path / "near.csv")
    row = estimate(folder, "similarity_correlation", attribute="near")
    both = [(cells[a, b], near[min(a, b), max(a, b)]) for a, b in cells]
    assert row["value"] == pytest.approx(spearmanr(both).statistic, abs=1e-9)
    assert -1 <= row["low"] <= row["value"] <= row["high"] <= 1 and row["n"] == 7
    assert {one["where"]["correction"] for one in estimates(folder, "p_value", test="near")} == {"none", "holm"}


def test_a_similarity_that_is_the_matrix_itself_is_shown(quick: Run, tmp_path: Path) -> None:
    codes = "abcdefg"
    cells = flat(codes, lambda a, b: 0.01 * (ord(a) * ord(b) % 101))
    square = [{"code": a, **{b: cells.get((a, b), 0) for b in codes}} for a in codes]
    written(tmp_path / "alike.csv", square)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--similarity", tmp_path / "alike.csv")
    row = estimate(folder, "similarity_correlation", attribute="alike")
    assert row["value"] == pytest.approx(1) and row["method"] == "none"
    assert "The more alike languages are by alike, the more they hurt each other" in said(folder, "similarity")


def test_scores_that_fall_with_what_is_received_are_foretold(quick: Run, tmp_path: Path) -> None:
    cells = flat("abcdef", lambda a, b: 0.05 * "abcdef".index(a) + 0.001 * "abcdef".index(b))
    received = {code: np.mean([value for (target, _), value in cells.items() if target == code]) for code in "abcdef"}
    written(tmp_path / "f1.csv", [{"code": code, "f1": 0.9 - 2 * value} for code, value in received.items()])
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--downstream", tmp_path / "f1.csv")
    row = estimate(folder, "downstream_correlation", score="f1", side="received")
    assert row["value"] == pytest.approx(-1) and row["low"] == pytest.approx(-1) and row["n"] == 6
    # Both ends of 720 orders are as far.
    for correction in ("none", "holm"):
        row = estimate(folder, "p_value", test="f1", correction=correction)
        assert row["value"] == pytest.approx(2 / 720)
    ours, mean = (
        estimate(folder, "prediction_error", of="downstream", predictor=one) for one in ("interference", "mean")
    )
    assert ours["value"] == pytest.approx(0, abs=1e-9) and mean["value"] > 0.05
    assert "f1 falls with the interference that a language receives" in said(folder, "downstream")


def test_scores_without_relation_are_called_so(quick: Run, tmp_path: Path) -> None:
    cells = flat("abcdef", lambda a, b: 0.05 * "abcdef".index(a) + 0.001 * "abcdef".index(b))
    scores = zip("abcdef", (3, 5, 1, 6, 2, 4), strict=True)
    written(tmp_path / "f1.csv", [{"code": code, "f1": value} for code, value in scores])
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--downstream", tmp_path / "f1.csv")
    assert "No relation of f1" in said(folder, "downstream")
    assert estimate(folder, "downstream_correlation")["value"] == pytest.approx(
        spearmanr(range(6), (3, 5, 1, 6, 2, 4)).statistic
    )


def test_one_score_of_many_is_not_shown_by_its_luck(quick: Run, tmp_path: Path) -> None:
    cells = flat("abcdef", lambda a, b: 0.05 * "abcdef".index(a) + 0.001 * "abcdef".index(b))
    # Of 720 orders 12 are as far as one that is a single neighbours' swap away: much alone, and little as one of six.
    lucky, dull = (1, 2, 3, 4, 6, 5), (3, 5, 1, 6, 2, 4)
    rows = [
        {"code": code, "lucky": lucky[place], **{f"dull{column}": dull[(place + column) % 6] for column in range(5)}}
        for place, code in enumerate("abcdef")
    ]
    written(tmp_path / "scores.csv", rows)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--downstream", tmp_path / "scores.csv")
    raw, corrected = (estimate(folder, "p_value", test="lucky", correction=one)["value"] for one in ("none", "holm"))
    assert raw == pytest.approx(12 / 720) and corrected == pytest.approx(6 * raw)
    assert "No relation of lucky" in said(folder, "downstream") and "after Holm" in said(folder, "downstream")


def test_scores_of_few_languages_are_told(quick: Run, tmp_path: Path) -> None:
    written(tmp_path / "f1.csv", [{"code": code, "f1": ord(code)} for code in "abcd"])
    path = losses(tmp_path / "losses.csv", flat("abcdef", lambda a, b: 0.01 * ord(a)))
    folder = quick("--losses", path, "--downstream", tmp_path / "f1.csv")
    assert not estimates(folder, "downstream_correlation")
    assert any("f1" in one["message"] and "4 languages" in one["message"] for one in warned(folder, "no-test"))


def test_scores_of_pairs_are_set_against_the_cells(quick: Run, tmp_path: Path) -> None:
    cells = flat("abcdef", lambda a, b: 0.01 * ((5 * ord(a) + 3 * ord(b)) % 13) + 0.0001 * ord(a))
    rows = [{"target": a, "source": b, "drop": 3 * value + 0.1 * (ord(b) % 2)} for (a, b), value in cells.items()]
    written(tmp_path / "drop.csv", rows)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells), "--downstream", tmp_path / "drop.csv")
    row = estimate(folder, "downstream_correlation", score="drop", side="cell")
    expected = spearmanr([(cells[one["target"], one["source"]], one["drop"]) for one in rows]).statistic
    assert row["value"] == pytest.approx(expected) and row["unit"] == "languages"
    assert estimate(folder, "p_value", test="drop", correction="holm")["value"] <= 0.05
    assert "drop rises with the cells of the matrix" in said(folder, "downstream")


@pytest.mark.parametrize("extra", [0.0, 0.2])
def test_mixtures_that_do_not_add_up_are_found(quick: Run, tmp_path: Path, extra: float) -> None:
    # The seeds' scatter cancels in part: off of the mixture less twice that of its pairs.
    path = losses(tmp_path / "losses.csv", HAND, triples=("abc",), extra=extra)
    folder = quick("--losses", path)
    rows = [row for row in estimates(folder, "prediction_error") if "target" in row["where"]]
    assert {row["where"]["target"]: row["where"]["with"] for row in rows} == {"a": "b+c", "b": "a+c", "c": "a+b"}
    assert all(row["value"] == pytest.approx(extra, abs=1e-9) for row in rows)
    assert estimate(folder, "prediction_error", of="triples")["value"] == pytest.approx(extra, abs=1e-9)
    assert all((row["low"] <= 0) == (extra == 0) for row in rows)
    assert f"off beyond the noise in {0 if extra == 0 else 3} of 3 cases" in said(folder, "mixtures")


def test_the_best_and_the_worst_mixture_are_told(quick: Run, tmp_path: Path) -> None:
    cells = flat("abcd", lambda a, b: 0.3 if "d" in (a, b) else -0.1)
    folder = quick("--losses", losses(tmp_path / "losses.csv", cells))
    # Mean rise of the three losses: six cells over three.
    assert estimate(folder, "predicted_interference", mixture="a+b+c")["value"] == pytest.approx(-0.2)
    assert estimate(folder, "predicted_interference", mixture="a+b+d")["value"] == pytest.approx((4 * 0.3 - 0.2) / 3)
    told = said(folder, "recommended")
    assert "a, b and c go together best" in told and "b, c and d go together worst" in told


# Texts.
def texts(folder: Path, codes: str = "abc", lines: int = 120) -> Path:
    """Write languages of a few made-up words each."""
    rng = np.random.default_rng(5)
    place = folder / "my texts"
    place.mkdir()
    for code in codes:
        words = ["".join(rng.choice([*"nopqrs", code], 3)) for _ in range(12)]
        text = "".join(" ".join(rng.choice(words, 6)) + "\n" for _ in range(lines))
        (place / f"{code}.txt").write_text(text, encoding="utf-8")
    return place


@pytest.mark.parametrize(
    ("budget", "says"), [("same-data", "sees as much of each"), ("same-total", "sees half as much of each")]
)
def test_models_that_learnt_nothing_have_a_warning_instead_of_a_number(
    quick: Run, tmp_path: Path, budget: str, says: str
) -> None:
    folder = quick(texts(tmp_path), *TINY, "--steps", "3", "--budget", budget, "--results", tmp_path / "results")
    assert budget in read(folder)["title"] and says in read(folder)["title"]
    assert read(folder)["settings"]["budget"] == budget
    for name in ("interference", "interference_relative", "asymmetry", "received", "caused", "seed_deviation"):
        assert not estimates(folder, name)
    cells = [one["where"] for one in warned(folder, "interference.not-converged") if "target" in one["where"]]
    assert sorted((where["target"], where["source"]) for where in cells) == sorted(itertools.permutations("abc", 2))
    assert all(set(where) == {"target", "source"} for where in cells)
    assert {row["verdict"] for row in records(folder)} == {"not converged"}
    assert all("unigram" in row["why"] or "bigram" in row["why"] for row in records(folder))
    assert len(estimates(folder, "baseline")) == 6 and not estimates(folder, "loss")
    assert "train longer" in said(folder, "none")
    assert read(folder)["coverage"]["given"] == 360
    assert [source["role"] for source in read(folder)["data"]] == ["corpus"] * 3


def test_models_that_learnt_something_have_numbers(quick: Run, tmp_path: Path) -> None:
    place = tmp_path / "texts"
    place.mkdir()
    rng = np.random.default_rng(0)
    # A letter that is drawn, and one that follows from it: who sees both sides beats all counts of pairs.
    for code, second in (("x", "ABCDEFGH"), ("y", "12345678")):
        drawn = rng.integers(8, size=(300, 12))
        lines = ("".join("abcdefgh"[one] + second[one] for one in row) + "\n" for row in drawn)
        (place / f"{code}.txt").write_text("".join(lines), encoding="utf-8")
    words = ("--layers", "1", "--hidden", "32", "--heads", "1", "--window", "24", "--batch", "8", "--seeds", "2",
             "--held-out", "1000", "--workers", "1", "--steps", "120", "--rate", "0.01",
             "--matrix-rate", "0.05")  # fmt: skip
    folder = quick(place, *words, "--results", tmp_path / "results")
    assert not warned(folder, "interference.not-converged")
    for target, source in (("x", "y"), ("y", "x")):
        alone, pair = (estimate(folder, "loss", lang=target, **{"with": one}) for one in (target, source))
        counted = estimate(folder, "baseline", lang=target, order="bigram")
        assert max(alone["value"], pair["value"]) < counted["value"] and alone["n"] > 10
        row = estimate(folder, "interference", target=target, source=source)
        assert row["value"] == pytest.approx(pair["value"] - alone["value"]) and row["unit"] == "held-out sentences"
    assert {row["verdict"] for row in records(folder)} <= {"interference", "synergy", "indistinguishable"}


def part(call_miles: Call, *words: object) -> Row:
    """Carry out one part and return what it printed."""
    outcome = call_miles("interference", *words, "--json")
    assert outcome.code == 0, outcome.err
    done: Row = json.loads(outcome.out)
    return done


def test_parts_make_the_same_report_as_one_run(quick: Run, call_miles: Call, tmp_path: Path) -> None:
    place = texts(tmp_path, "ab")
    words = (place, *TINY, "--steps", "2")
    straight = quick(*words, "--results", tmp_path / "own", name="straight")
    for number in range(1, 5):
        shared = tmp_path / ("far" if number == 4 else "near")
        folder = tmp_path / f"part-{number}"
        done = part(call_miles, *words, "--array", f"{number}/4", "--results", shared, "--out", folder)
        assert (done["part"], done["of"], done["state"]) == (number, 4, "done") and not folder.exists()
    assert len([*(tmp_path / "near").rglob("*.json")]) == 5 and len([*(tmp_path / "far").rglob("*.json")]) == 1
    from probes.language_models import mixture_models

    def refuse(*_: object) -> None:
        raise AssertionError("a finished model is trained anew")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixture_models, "fit", refuse)
        joined = quick(*words, "--results", tmp_path / "near", "--merge", tmp_path / "far", name="joined")
    assert stripped(joined, "settings") == stripped(straight, "settings")
    assert (joined / "records.csv").read_bytes() == (straight / "records.csv").read_bytes()


def test_a_part_beyond_all_models_is_done_at_once(call_miles: Call, tmp_path: Path) -> None:
    words = (texts(tmp_path, "ab"), *TINY, "--steps", "1", "--array", "99/99", "--results", tmp_path / "results")
    done = part(call_miles, *words)
    assert done["state"] == "done" and (done["stages"][0]["jobs"], done["stages"][0]["computed"]) == (6, 0)
    assert not (tmp_path / "results").exists()


def spelling(path: Path, letters: str) -> Path:
    """Write a tokenizer that knows these letters, and no other."""
    tokens = ["[UNK]", "[SEP]", "[MASK]", *letters]
    rules = Tokenizer(WordLevel({token: place for place, token in enumerate(tokens)}, unk_token="[UNK]"))
    rules.pre_tokenizer = Split("", "isolated")
    rules.add_special_tokens(tokens[:3])
    rules.save(str(path))
    return path


def test_tokens_that_a_tokenizer_does_not_know_are_told_or_refused(
    quick: Run, call_miles: Call, tmp_path: Path
) -> None:
    place = texts(tmp_path, "ab")
    with (place / "b.txt").open("a", encoding="utf-8") as file:
        file.write("nop zz rsq nos zz psr\n" * 3 + "".join(f"nn zz q{one * 'r'}s pqr sno noo\n" for one in range(6)))
    words = (place, *TINY, "--steps", "1", "--held-out", "4000", "--results", tmp_path / "results", "--tokenizer")
    for letters, told in (("abnopqrsz ", set()), ("abnopqrs ", {"b"})):
        folder = quick(*words, spelling(tmp_path / "tokenizer.json", letters), name=f"run-{len(letters)}")
        assert {one["where"]["lang"] for one in warned(folder, "unknown-tokens")} == told
    wrong = spelling(tmp_path / "tokenizer.json", "no ")
    outcome = call_miles("interference", *words, wrong, "--out", tmp_path / "refused")
    text = " ".join(outcome.err.replace("│", " ").split())
    assert outcome.code == 2 and "The tokenizer does not know" in text and "of the tokens of a" in text


# Before a run.
def test_a_dry_run_tells_the_cost_and_writes_nothing(
    call_miles: Call, tmp_path: Path, environment: dict[str, str]
) -> None:
    place = texts(tmp_path)
    before = sorted(Path(environment["MILES_CACHE"]).rglob("*"))
    for more in ((), ("--tokenizer", "bpe", "--vocabulary", "300")):
        words = (place, *TINY, "--steps", "4", *more, "--check-triples", "1", "--results", tmp_path / "results")
        outcome = call_miles("interference", *words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0 and outcome.err == "", outcome.err
        out = outcome.out
        assert "14 (3 languages, 3 pairs, 1 triple; 2 seeds)" in out and "0 of these, in " in out
        for what in ("a model", "time", "memory", "disk", "core-hours", "14 models, 1 at once (loky)"):
            assert what in out, out
        assert "3 languages" in out and "GiB a worker" in out and "MiB of results" in out
    assert [path.name for path in tmp_path.iterdir()] == [place.name]
    assert sorted(Path(environment["MILES_CACHE"]).rglob("*")) == before


def test_a_dry_run_on_losses_trains_nothing(call_miles: Call, tmp_path: Path) -> None:
    path = losses(tmp_path / "losses.csv", HAND)
    outcome = call_miles("interference", "--losses", path, "--dry-run", cwd=tmp_path)
    assert outcome.code == 0 and "27 losses of 3 languages; nothing is trained" in outcome.out
    assert list(tmp_path.iterdir()) == [path]


def test_a_language_in_no_pair_is_told(call_miles: Call, tmp_path: Path) -> None:
    words = (texts(tmp_path), *TINY, "--pairs", "a-b", "--steps", "1", "--dry-run")
    outcome = call_miles("interference", *words, cwd=tmp_path)
    assert outcome.code == 0
    assert any(" c " in f" {line} " and "pair" in line for line in outcome.out.splitlines() if "note" in line), (
        outcome.out
    )


def test_headlines_are_short_and_their_numbers_stand_in_the_evidence(prepared: Path) -> None:
    from audits.report.report_file import read_report

    for name in ("matrix", "short"):
        report = read_report(prepared / "work" / "runs" / name)
        assert report.answer is not None and faults(report) == []
