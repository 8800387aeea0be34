"""Does `miles precision-recall` leave what the contract says, whoever else is judged?"""

import csv
import json
import math
import random
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults, says
from run_folders import estimates, found, read, records, stripped, value, warned

# Runs in processes of their own make their pages.
pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
METRICS = {"precision", "recall", "density", "coverage", "f1", "clipped_density", "clipped_coverage"}
CURVES = {"mauve", "frontier_integral", "prd_precision", "prd_recall"}
FEW = ("--splits", "10", "--repeats", "2")
PLAIN = (*FEW, "--no-curves")
COLUMNS = (
    "candidate side place verdict draws draws_apart draws_empty distance radii nearest_place copies text nearest_text"
)
REFERENCE, HALF = 120, 60
GENERATE = ("--max-new-tokens", "16", "--samples", "50")


@dataclass(frozen=True)
class Small:
    """A reference and three candidates: `a` of the same kind, `b` that repeats itself, `c` that is nonsense."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def texts(self, name: str) -> list[str]:
        return [json.loads(line)["text"] for line in self[name].read_text(encoding="utf-8").splitlines()]

    def command(self, *more: object, names: str = "ab", reference: object = None, how: Sequence[str] = PLAIN) -> Any:
        """Return a run on texts."""
        told = [word for name in names for word in ("--candidate", f"{name}={self[name]}")]
        words = ["precision-recall", "--reference", reference or self["ref"], *told, "--encoder", "tfidf", *how, *more]
        return [str(word) for word in words]

    def embedded(self, *files: object, how: Sequence[str] = PLAIN) -> list[str]:
        """Return a run on embeddings, the reference first; the others are a, b and so on."""
        told = [
            word for name, file in zip("abc", files[1:], strict=False) for word in ("--candidate", f"{name}={file}")
        ]
        return ["precision-recall", "--reference", str(files[0]), *told, *how]


def sentences(count: int, seed: int) -> list[str]:
    from probes.texts.synthetic_sentences import make_sentences

    return make_sentences(count, seed=seed)


def nonsense(count: int) -> list[str]:
    draw = random.Random(0)
    return [" ".join("".join(draw.choices("bdfgklmnprst", k=6)) for _ in range(9)) for _ in range(count)]


def written(path: Path, texts: Iterable[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    made = Small(tmp_path_factory.mktemp("texts"))
    written(made["ref"], sentences(REFERENCE, 1))
    written(made["a"], sentences(HALF, 2))
    written(made["b"], (sentences(20, 3) * 4)[:70])
    written(made["c"], nonsense(HALF))
    return made


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a language model that has hardly been trained."""
    from probes.core.progress import Silent
    from probes.texts.causal_lm import train_causal_lm

    folder = tmp_path_factory.mktemp("models") / "lm"
    train_causal_lm(sentences(REFERENCE, 1), folder, seed=0, progress=Silent(), steps=5, layers=1)
    return folder


# Runs.
@pytest.fixture(scope="session")
def whole(small: Small, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run that nobody may change."""
    heat = [word for pair in ("a=1", "b=0.5", "c=2") for word in ("--temperature", pair)]
    words = small.command(*heat, names="abc", how=FEW)
    folder: Path = finish_run(*words, out=tmp_path_factory.mktemp("precision-recall") / "run")
    return folder


def of(folder: Path, name: str) -> list[Row]:
    """Return what the report tells of one candidate alone."""
    return [row for row in read(folder)["estimates"] if row["where"].get("candidate") == name and row["name"] not in
            ("difference", "p_value")]  # fmt: skip


# What a run leaves.
def test_a_report_says_what_was_judged(small: Small, whole: Path) -> None:
    report = read(whole)
    assert report["figures"] and report["subject"] is None
    assert [(source["role"], source["path"], source["items"]) for source in report["data"]] == [
        ("reference", str(small["ref"]), REFERENCE),
        ("candidate a", str(small["a"]), 60),
        ("candidate b", str(small["b"]), 70),
        ("candidate c", str(small["c"]), 60),
    ]
    assert report["coverage"] == {"given": REFERENCE + 190, "used": REFERENCE + 190, "skipped": []}
    settings = report["settings"]
    assert (settings["encoder"], settings["k"], settings["samples"], settings["splits"]) == ("tfidf", ["5"], HALF, 10)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        *((metric, "candidate k") for metric in sorted(METRICS | CURVES)),
        ("curve", "candidate lambda side"), ("difference", "against candidate k metric"),
        ("p_value", "against candidate correction k metric"), ("ceiling", "k metric"), ("floor", "k metric"),
        ("expected_coverage", "k"), ("duplicates", "candidate"), ("copied", "candidate"), ("self_bleu", "candidate"),
        ("distinct", "candidate n"), ("length", "candidate statistic"), ("shortened", "candidate"),
        ("hubness", "candidate k"),
    ],
)  # fmt: skip
def test_estimates_have_their_coordinates(whole: Path, name: str, keys: str) -> None:
    rows = estimates(whole, name)
    # Among themselves texts are alike in their words whatever k is.
    ours = [row for row in rows if row["where"].get("metric") != "self_bleu"]
    assert ours and all(" ".join(sorted(row["where"])) == keys for row in ours)
    assert all(" ".join(sorted(row["where"])) == keys.replace("k ", "") for row in rows if row not in ours)
    for row in rows:
        assert row["unit"] == ("word sequences" if name == "distinct" else "texts")


def test_every_candidate_has_every_score(whole: Path) -> None:
    from audits.precision_recall import AUDIT

    names = {row["name"] for row in read(whole)["estimates"]}
    # Which stands in for a ceiling where there is none.
    assert names == set(AUDIT.estimates) - {"relabelled"}
    for name in METRICS | CURVES:
        assert [row["where"]["candidate"] for row in estimates(whole, name)] == ["a", "b", "c"]
    for control in ("ceiling", "floor"):
        assert {row["where"]["metric"] for row in estimates(whole, control)} == METRICS | CURVES
    assert {row["where"]["side"] for row in estimates(whole, "curve", candidate="a")} == {"precision", "recall"}
    pairs = {(row["where"]["candidate"], row["where"]["against"]) for row in estimates(whole, "difference")}
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) == 9 + 3 + 1
    sight = {
        row["where"]["metric"]: row["where"]["against"] for row in estimates(whole, "difference", candidate="ceiling")
    }
    assert sight == dict.fromkeys(("precision", "density", "coverage"), "floor")
    alike = {row["where"]["candidate"]: row["where"]["against"] for row in estimates(whole, "difference")
             if row["where"]["metric"] == "self_bleu"}  # fmt: skip
    assert alike == dict.fromkeys("abc", "reference")


@pytest.fixture(scope="session")
def tiny(small: Small, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run whose reference is too small for a ceiling."""
    place = tmp_path_factory.mktemp("tiny")
    reference = written(place / "ref.jsonl", sentences(88, 11))
    narrow = written(
        place / "narrow.jsonl", (f"{text[:-1]} in the old kitchen of the house." for text in sentences(88, 12))
    )
    words = small.command("--candidate", f"narrow={narrow}", names="a", reference=reference)
    folder: Path = finish_run(*words, out=place / "run")
    return folder


def test_without_a_ceiling_candidates_are_held_against_labels_dealt_anew(tiny: Path) -> None:
    rows = estimates(tiny, "relabelled")
    assert [(row["where"]["candidate"], row["where"]["metric"], row["where"]["k"]) for row in rows] == [
        (name, metric, 5) for name in ("a", "narrow") for metric in ("precision", "density", "recall", "coverage")
    ]
    assert all(row["low"] <= row["value"] <= row["high"] and row["n"] == HALF for row in rows)
    for row in estimates(tiny, "difference"):
        where = row["where"]
        if where["against"] == "relabelled":
            gap = value(tiny, where["metric"], candidate=where["candidate"]) - value(
                tiny, "relabelled", metric=where["metric"], candidate=where["candidate"]
            )
            assert row["value"] == pytest.approx(gap, abs=1e-12) and row["low"] < row["value"] < row["high"]
            (p,) = (one for one in estimates(tiny, "p_value") if one["where"].items() >= where.items())
            assert p["method"] == "none" and 0 < p["value"] <= 1
    assert "no-controls" in warned(tiny) and not {"texts.below-ceiling", "texts.order-unseen"} & set(found(tiny))
    (short,) = found(tiny)["texts.below-relabelled"]
    assert short["where"] == {"candidate": "narrow"} and "sets of one source would have" in says(short)
    assert "No shortfall of a is shown" in says(found(tiny)["texts.no-shortfall"][0])


def test_a_sentence_and_its_evidence_print_one_number_in_one_way(whole: Path, tiny: Path) -> None:
    from audits.core.numbers import interval, point
    from audits.core.wording import size_words
    from audits.report.report_file import read_report

    for folder in (whole, tiny):
        report = read_report(folder)
        for finding in report.findings:
            rows = [report.estimates[place] for place in finding.evidence]
            known = {text for row in rows for text in (point(row), interval(row), size_words(row))}
            # A bracket is an interval; a point before it is its value.
            for size, ends in re.findall(r"(\d+\.\d+) \((\d+\.\d+ to \d+\.\d+)\)", says(finding)):
                assert f"{size} ({ends})" in known | {f"{point(row)} ({interval(row)})" for row in rows}, finding
            if finding.id == "texts.more-alike":
                for size in re.findall(r"Self-BLEU of (\d+\.\d+), reference texts one of (\d+\.\d+)", says(finding))[0]:
                    assert size in known, finding


def test_two_halves_of_one_source_without_spaces_do_not_differ_in_words(
    small: Small, quick: Any, tmp_path: Path
) -> None:
    draw = random.Random(5)
    syllables = ["".join(draw.choices("我們決定工作職掌他去學校天氣很好單純閱讀訊息風險", k=2)) for _ in range(60)]
    texts = ["".join(draw.choices(syllables, k=draw.randint(3, 7))) for _ in range(220)]
    one, other = written(tmp_path / "ref.jsonl", texts[:120]), written(tmp_path / "x.jsonl", texts[120:])
    folder = quick(*small.command("--candidate", f"x={other}", names="", reference=one))
    assert not {"texts.more-alike", "texts.below-ceiling", "texts.not-above-floor"} & set(found(folder))
    assert "unspaced-script" in warned(folder)
    assert value(folder, "length", candidate="x", statistic="median") >= 6
    assert value(folder, "distinct", candidate="x", n=1) < 0.3
    # The floor is letters dealt anew, no sentences: fewer of its texts lie where others do.
    assert value(folder, "floor", metric="density") < value(folder, "ceiling", metric="density") - 0.1


def test_the_number_of_texts_is_one_for_all_scores(whole: Path) -> None:
    rows = [row for row in read(whole)["estimates"] if row["name"] in METRICS | CURVES | {"floor", "ceiling"}]
    assert {row["n"] for row in rows} == {HALF}
    assert {row["n"] for row in estimates(whole, "difference")} == {HALF}


def test_good_texts_score_above_nonsense(whole: Path) -> None:
    folder = whole
    for metric in ("precision", "density", "coverage", "recall"):
        assert value(folder, metric, candidate="a", k=5) > value(folder, metric, candidate="c", k=5) + 0.3
        ceiling, floor = (value(folder, control, metric=metric, k=5) for control in ("ceiling", "floor"))
        # Shuffled words are still the words, which is nearly all that tfidf sees.
        assert metric != "coverage" or floor < ceiling
        assert abs(value(folder, metric, candidate="a", k=5) - ceiling) < 0.3
    short = {row["where"]["candidate"]: row for row in found(folder)["texts.below-ceiling"]}
    assert "c" in short and "a" not in short and short["c"]["severity"] == "high"


def test_records_have_a_row_for_each_text_that_was_judged(small: Small, whole: Path) -> None:
    rows = records(whole)
    assert list(rows[0]) == COLUMNS.split()
    texts = {name: small.texts(name) for name in ("ref", "a", "b", "c")}
    for name in "abc":
        mine = [row for row in rows if row["candidate"] == name]
        sides = {side: [row for row in mine if row["side"] == side] for side in ("generated", "reference")}
        assert len(mine) == sum(map(len, sides.values()))
        for side, source in (("generated", name), ("reference", "ref")):
            places = [int(row["place"]) for row in sides[side]]
            assert places == sorted(set(places)) and len(places) >= HALF
            assert sum(int(row["draws"]) for row in sides[side]) == 2 * HALF
            for row in sides[side]:
                assert row["text"] == texts[source][int(row["place"]) - 1]
                assert int(row["copies"]) == texts[source].count(row["text"])
        outside = [int(row["draws_apart"]) for row in sides["generated"]]
        assert value(whole, "precision", candidate=name) == pytest.approx(1 - sum(outside) / (2 * HALF))
        assert {row["verdict"] for row in sides["generated"]} <= {"inside", "outside", "undecided"}
        assert {row["verdict"] for row in sides["reference"]} <= {"reached", "unreached", "undecided"}


def test_temperatures_are_a_sweep(whole: Path, small: Small, quick: Any) -> None:
    sweep = {"texts.recall-by-temperature", "texts.density-falls"}
    assert sweep <= set(found(whole))
    (recall,) = found(whole)["texts.recall-by-temperature"]
    assert "T = 1" in says(recall) and len(recall["evidence"]) == 3
    one = quick(*small.command("--temperature", "a=1"), name="one")
    assert not sweep & set(found(one))
    cold = quick(*small.command("--temperature", "a=0.9", "--temperature", "b=0.5"), name="cold")
    assert "no-natural-temperature" in warned(cold)


def test_a_candidate_that_repeats_itself_is_told(whole: Path) -> None:
    (copies,) = found(whole)["texts.mode-collapse"]
    assert copies["where"] == {"candidate": "b"}
    assert value(whole, "duplicates", candidate="b") > 0.5 > value(whole, "duplicates", candidate="a")


# The same again, and otherwise.
def test_the_same_seed_gives_the_same_bytes(small: Small, quick: Any, environment: dict[str, str]) -> None:
    from audits.precision_recall.comparing import COMPARED

    first = quick(*small.command(), name="first")
    # From the first comparison on, not from the cache.
    shutil.rmtree(Path(environment["MILES_CACHE"]) / COMPARED)
    again = quick(*small.command(), name="again")
    assert stripped(first) == stripped(again)
    assert (first / "records.csv").read_bytes() == (again / "records.csv").read_bytes()
    other = quick(*small.command("--seed", "1"), name="other")
    assert value(first, "density", candidate="a") != value(other, "density", candidate="a")
    assert (first / "records.csv").read_bytes() != (other / "records.csv").read_bytes()


def test_who_else_is_judged_changes_no_number(small: Small, whole: Path, quick: Any) -> None:
    both, three = quick(*small.command(), name="both"), quick(*small.command(names="cba"), name="three")
    for name in ("a", "b", "reference"):
        assert len(of(both, name)) >= 6 and of(both, name) == of(three, name)
    for name in ("floor", "ceiling"):
        assert len(estimates(both, name)) == 7 and estimates(both, name) == estimates(three, name)

    def apart(folder: Path, first: str, second: str) -> list[tuple[float, ...]]:
        # A difference changes its sign with the order of its candidates.
        rows = [(1.0, row) for row in estimates(folder, "difference", candidate=first, against=second)]
        rows += [(-1.0, row) for row in estimates(folder, "difference", candidate=second, against=first)]
        return [
            (sign * row["value"], *sorted((sign * row["low"], sign * row["high"])))
            for sign, row in sorted(rows, key=lambda pair: pair[1]["where"]["metric"])
        ]

    for pair in (("a", "b"), ("a", "ceiling"), ("b", "ceiling")):
        assert len(apart(both, *pair)) >= 7
        assert np.allclose(apart(both, *pair), apart(three, *pair), rtol=0, atol=1e-12)
    for name in "abc":
        # Nor do the curves, or the temperatures.
        plain = [row for row in of(whole, name) if row["name"] not in {*CURVES, "curve"}]
        assert plain == of(three, name)


def test_the_name_of_a_candidate_is_only_its_seed(small: Small, quick: Any) -> None:
    """Two names of one file: draws of their own, but the same texts."""
    folder = quick(*small.command("--candidate", f"twin={small['a']}", names="a"))
    one, two = (next(row for row in estimates(folder, "precision", candidate=name)) for name in ("a", "twin"))
    assert one["low"] <= two["value"] <= one["high"]
    (row,) = estimates(folder, "difference", metric="precision", candidate="a", against="twin")
    assert row["low"] <= 0 <= row["high"]


def test_several_k_are_told_side_by_side(small: Small, quick: Any) -> None:
    folder = quick(*small.command("--k", "3,5", names="a"))
    for metric in METRICS:
        assert [row["where"]["k"] for row in estimates(folder, metric)] == [3, 5]
    assert value(folder, "precision", k=3) <= value(folder, "precision", k=5)
    alone = quick(*small.command("--k", "5", names="a"), name="alone")
    assert estimates(alone, "precision") == estimates(folder, "precision", k=5)
    assert read(folder)["settings"]["k"] == ["3", "5"]


def test_the_preset_settles_what_no_option_says(small: Small, quick: Any) -> None:
    told = read(quick(*small.command("--preset", "pr4llm", names="a")))["settings"]
    assert (told["preset"], told["encoder"]) == ("pr4llm", "tfidf")
    assert (told["k"], told["pca"], told["normalisation"], told["duplicates"]) == (["4"], 0.9, "unit", "keep")
    assert (told["max_words"], told["samples"]) == (370, HALF)
    more = ("--k", "3", "--pca", "0", "--duplicates", "distinct", "--samples", "50")
    told = read(quick(*small.command("--preset", "pr4llm", *more, names="a"), name="more"))["settings"]
    assert (told["k"], told["pca"], told["normalisation"], told["duplicates"]) == (["3"], 0.0, "unit", "distinct")
    assert told["samples"] == 50


# Gates, and runs that run nothing.
def test_gates_are_judged(small: Small, quick: Any) -> None:
    bad = "recall[candidate=c,k=5].low < 0.5"
    good = "recall[candidate=a,k=5].low < 0.2"
    folder = quick(*small.command("--fail-if", good, "--fail-if", bad, names="ac"), code=1)
    assert [(gate["expression"], gate["outcome"]) for gate in read(folder)["gates"]] == [(good, "pass"), (bad, "fail")]
    quick(*small.command("--fail-if", good, names="ac"), name="good")
    quick(*small.command("--fail-if", "difference[candidate=c,against=ceiling,metric=recall].high < 0", names="c"),
          name="against", code=1)  # fmt: skip


def test_a_dry_run_writes_nothing(small: Small, call_miles: Call, environment: dict[str, str], tmp_path: Path) -> None:
    def everything(folder: Path) -> list[Path]:
        return sorted(folder.rglob("*"))

    cache = Path(environment["MILES_CACHE"])
    before = everything(cache)
    outcome = call_miles(*small.command("--dry-run", "--seed", "99"), cwd=tmp_path)
    assert outcome.code == 0 and everything(tmp_path) == [] and everything(cache) == before
    for part in ("every input is in order", str(small["b"]), "60 of every side", "tfidf", "forwards", "time", "weak"):
        assert part in outcome.out


# Forms of the inputs.
def test_all_forms_of_texts_are_the_same_data(small: Small, quick: Any, tmp_path: Path) -> None:
    texts = small.texts("a")
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("story", "n"), *((text, place) for place, text in enumerate(texts))])
    with (tmp_path / "ref.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "story"), *(("nothing", text) for text in small.texts("ref"))])
    plain = read(quick(*small.command(names="a")))
    lines = ("--candidate", f"a={tmp_path / 'a.txt'}")
    table = ("--candidate", f"a={tmp_path / 'a.csv'}", "--text-col", "story")
    for name, words in (
        ("txt", small.command(*lines, names="")),
        ("csv", small.command(*table, names="", reference=tmp_path / "ref.csv")),
    ):
        made = read(quick(*words, name=name))
        assert made["estimates"] == plain["estimates"] and made["findings"] == plain["findings"]


def test_embeddings_are_judged_without_texts(small: Small, quick: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sides = {"ref": rng.normal(size=(130, 5)), "a": rng.normal(size=(65, 5)), "b": 0.3 * rng.normal(size=(65, 5))}
    for name, rows in sides.items():
        np.save(tmp_path / f"{name}.npy", rows)
        np.savez(tmp_path / f"{name}.npz", embeddings=rows)
    packed, bare = (
        quick(*small.embedded(*(tmp_path / f"{name}.{kind}" for name in sides)), name=kind) for kind in ("npz", "npy")
    )
    assert read(packed)["estimates"] == read(bare)["estimates"] and read(packed)["settings"]["encoder"] is None
    assert value(packed, "recall", candidate="a") > value(packed, "recall", candidate="b") + 0.2
    assert value(packed, "precision", candidate="b") >= value(packed, "precision", candidate="a")
    names = {row["name"] for row in read(packed)["estimates"]}
    assert not names & {"floor", "self_bleu", "distinct", "length", "shortened"} and "ceiling" in names
    assert "no-floor" in warned(packed)
    assert {row["text"] for row in records(packed)} == {""}


def test_texts_beside_embeddings_are_shown_but_not_encoded(small: Small, quick: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, seed in (("ref", 1), ("a", 2)):
        np.savez(tmp_path / f"{name}.npz", embeddings=rng.normal(size=(60, 5)), text=np.array(sentences(60, seed)))
    folder = quick(*small.embedded(tmp_path / "ref.npz", tmp_path / "a.npz"))
    assert {row["text"] for row in records(folder) if row["side"] == "generated"} <= set(sentences(60, 2))
    assert "self_bleu" in {row["name"] for row in read(folder)["estimates"]}


# What is unusual, but not wrong.
def test_a_candidate_of_one_text_has_a_precision_and_no_recall(small: Small, quick: Any, tmp_path: Path) -> None:
    written(tmp_path / "same.jsonl", ["The cook tasted the warm soup in the kitchen."] * 60)
    folder = quick(*small.command("--candidate", f"same={tmp_path / 'same.jsonl'}", names="a"))
    assert value(folder, "precision", candidate="same") in (0.0, 1.0)
    assert estimates(folder, "recall", candidate="same") == []
    messages = [
        warning["message"]
        for warning in read(folder)["warnings"]
        if warning["id"] == "too-few-distinct" and warning["where"]["candidate"] == "same"
    ]
    assert any("recall" in message for message in messages) and not any("precision" in text for text in messages)
    assert value(folder, "duplicates", candidate="same") == pytest.approx(59 / 60)
    assert [row["where"]["candidate"] for row in found(folder)["texts.mode-collapse"]] == ["same"]
    (short,) = (row for row in found(folder)["texts.below-ceiling"] if row["where"]["candidate"] == "same")
    # Nothing is said of what could not be compared.
    assert "coverage" in says(short) and "recall" not in says(short)
    assert of(folder, "a") == of(quick(*small.command(names="a"), name="alone"), "a")
    assert not {"nan", "inf", "-inf"} & {cell for row in records(folder) for cell in row.values()}


@pytest.mark.parametrize("more", [("--duplicates", "keep"), ("--pca", "0.9", "--normalisation", "unit")])
def test_a_candidate_of_one_text_does_no_harm(small: Small, quick: Any, tmp_path: Path, more: tuple[str, ...]) -> None:
    written(tmp_path / "same.jsonl", ["The cook tasted the warm soup in the kitchen."] * 60)
    folder = quick(*small.command("--candidate", f"same={tmp_path / 'same.jsonl'}", *more, names="a", how=FEW))
    assert all(math.isfinite(row["value"]) for row in read(folder)["estimates"])
    assert value(folder, "mauve", candidate="same") < value(folder, "mauve", candidate="a")
    assert not {"nan", "inf", "-inf"} & {cell for row in records(folder) for cell in row.values()}


def test_the_same_file_may_be_judged_twice_and_against_itself(small: Small, quick: Any) -> None:
    folder = quick(*small.command("--candidate", f"same={small['ref']}", "--candidate", f"twin={small['ref']}"))
    for name in ("same", "twin"):
        assert value(folder, "precision", candidate=name) > 0.8


def test_a_long_text_is_cut_and_counted(small: Small, quick: Any, tmp_path: Path) -> None:
    long = written(tmp_path / "long.jsonl", [*sentences(60, 2), "so it goes on " * 80_000])
    words = ("--candidate", f"long={long}", "--max-words", "30")
    folder = quick(*small.command(*words, names="a"))
    assert value(folder, "shortened", candidate="long") == pytest.approx(1 / 61)
    assert value(folder, "shortened", candidate="a") == 0 and "1 of 61 texts of long" in warned(folder)["shortened"]
    uncut = quick(*small.command(*words[:2], names="a"), name="uncut")
    for made in (folder, uncut):
        assert max(len(row["text"]) for row in records(made)) < 400
        assert (made / "report.json").stat().st_size < 200_000


def test_a_text_that_is_cut_twice_counts_once(small: Small, model: Path, quick: Any, tmp_path: Path) -> None:
    long = written(tmp_path / "long.jsonl", [*sentences(60, 2), "so it goes on " * 500])
    words = ("--candidate", f"long={long}", "--encoder", model, "--max-words", "150", "--max-tokens", "100")
    folder = quick(*small.command(*words, names=""))
    assert value(folder, "shortened", candidate="long") == pytest.approx(1 / 61)


def test_a_heading_of_one_side_and_few_clusters_are_warned_of(small: Small, quick: Any, tmp_path: Path) -> None:
    headed = written(tmp_path / "headed.jsonl", [f"ABSTRACT {text}" for text in small.texts("a")])
    folder = quick(*small.command("--candidate", f"headed={headed}", names="a", how=FEW))
    others = [one for one in read(folder)["warnings"] if one["id"] == "other-beginnings"]
    assert [one["where"] for one in others] == [{"candidate": "headed"}]
    assert "100% of the texts of headed begin with 'ABSTRACT', 0% on the other side" in others[0]["message"]
    assert "60 texts a side" in warned(folder)["few-clusters"]
    assert "few-clusters" not in warned(quick(*small.command(names="a"), name="plain"))


def test_empty_texts_are_left_out_and_counted(small: Small, quick: Any, tmp_path: Path) -> None:
    holed = written(tmp_path / "holed.jsonl", ["", *sentences(60, 2), " \t"])
    folder = quick(*small.command("--candidate", f"holed={holed}", names="a"))
    report = read(folder)
    assert report["coverage"]["skipped"] == [{"reason": "empty text", "count": 2}]
    assert report["coverage"]["given"] == report["coverage"]["used"] + 2
    places = [int(row["place"]) for row in records(folder) if row["candidate"] == "holed"
              and row["side"] == "generated"]  # fmt: skip
    assert places[0] == 2 and len(places) == 60


def test_strange_texts_and_names_stay_text(
    small: Small, quick: Any, call_miles: Call, no_pages: Call, tmp_path: Path
) -> None:
    from audits.report.report_file import read_report

    strange = [
        "<script>alert(1)</script> & so on",
        "| a | b |",
        "\x1b[2J \x00 c d",
        "\u202eright to left",
        "\U0001f600",
    ]
    hostile = written(tmp_path / "hostile.jsonl", [*strange, *sentences(60, 2)])
    name = "<b>../x & co</b>"
    words = small.command("--candidate", f"{name}={hostile}", names="")
    folder = quick(*words)
    outcome = call_miles(*words, "--out", folder)
    assert outcome.code == 0 and name in outcome.out and "\x1b[2J" not in outcome.out + outcome.err
    no_pages(read_report(folder), folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<b>../x" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.jsonl", "run"]
    assert of(folder, name) and set(strange[:2]) <= {row["text"] for row in records(folder)}


def test_a_file_that_changes_during_the_run_changes_nothing(
    small: Small, quick: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audits.core import runner

    given = written(tmp_path / "given.jsonl", sentences(60, 2))
    words = small.command("--candidate", f"a={given}", names="")
    plain, carry_out = quick(*words), runner.carry_out

    def changed(*more: Any) -> Any:
        given.write_bytes(b"\x00")
        return carry_out(*more)

    monkeypatch.setattr(runner, "carry_out", changed)
    assert stripped(quick(*words, name="changed")) == stripped(plain)


# Texts that are sampled for the audit.
def test_texts_are_sampled_at_each_temperature(small: Small, model: Path, quick: Any) -> None:
    words = ("--generate", model, "--temperatures", "0.5,1", *GENERATE)
    folder = quick(*small.command(*words, names="a"))
    report = read(folder)
    assert report["subject"]["path"] == str(model) and report["subject"]["family"] == "gpt2"
    assert report["subject"]["parameters"] > 1000
    assert {row["where"]["candidate"] for row in estimates(folder, "precision")} == {"a", "T=0.5", "T=1"}
    assert {"texts.recall-by-temperature", "texts.density-falls"} <= set(found(folder))
    lines = [json.loads(line) for line in (folder / "generated.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["candidate"] for line in lines} == {"T=0.5", "T=1"}
    told = {(line["candidate"], str(line["prompt"])): " ".join(line["text"].split()) for line in lines}
    mine = [row for row in records(folder) if row["side"] == "generated" and row["candidate"] != "a"]
    assert mine and len(told) == len(lines) >= 100
    assert all(told[row["candidate"], row["place"]] == row["text"].removeprefix("'") for row in mine)
    assert stripped(folder) == stripped(quick(*small.command(*words, names="a"), name="again"))
    alone = quick(*small.command("--generate", model, *GENERATE, names=""), name="alone")
    assert of(alone, "T=1") == of(folder, "T=1")


def test_prompts_are_gone_on_from(small: Small, model: Path, quick: Any, tmp_path: Path) -> None:
    texts = sentences(60, 7)
    prompts = written(tmp_path / "prompts.jsonl", (" ".join(text.split()[:4]) for text in texts))
    words = small.command("--generate", model, "--prompts", prompts, *GENERATE, names="")
    kept = quick(*words)
    rows = [row for row in records(kept) if row["side"] == "generated"]
    for row in rows:
        assert row["text"].startswith(" ".join(texts[int(row["place"]) - 1].split()[:4]))
    assert ("prompts", str(prompts), 60) in [(one["role"], one["path"], one["items"]) for one in read(kept)["data"]]
    bare = [row for row in records(quick(*words, "--no-keep-prompt", name="bare")) if row["side"] == "generated"]
    longer = {row["place"]: row["text"] for row in rows}
    shared = [row for row in bare if row["place"] in longer]
    assert len(shared) > 30 and all(longer[row["place"]].endswith(row["text"].strip()) for row in shared)


def test_a_language_model_can_be_the_encoder(small: Small, model: Path, quick: Any) -> None:
    folder = quick(*small.command("--encoder", model, "--layer", "0.5", names="ac"))
    assert read(folder)["settings"]["encoder"] == str(model) and "weak-encoder" not in warned(folder)
    assert ("encoder", str(model)) in [(one["role"], one["path"]) for one in read(folder)["data"]]
    assert value(folder, "density", candidate="a") > value(folder, "density", candidate="c")


def test_headlines_are_short_and_their_numbers_stand_in_the_evidence(prepared: Path) -> None:
    from audits.report.report_file import read_report

    for name in ("texts",):
        report = read_report(prepared / "work" / "runs" / name)
        assert report.answer is not None and faults(report) == []
