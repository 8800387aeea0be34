"""Does every wrong input of `miles audit-groups` end in one panel that says what is wrong, before anything runs?"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from changed_rows import drop, every, put, write
from refusals import HTML, POINTER, Table, Words, nothing_runs

Row = dict[str, Any]
CASES = Table()
case = CASES.case
TEXT = "letters behind the narrow bridge"


@dataclass(frozen=True)
class Small:
    """Eight clips of four speakers, with a file of transcripts; nothing in it is wrong."""

    folder: Path

    @property
    def rows(self) -> list[Row]:
        return [
            {
                "path": f"clips/{place}.wav", "speaker": f"s{place // 2}", "text": TEXT, "gender": "fm"[place % 2],
                "accent": ("north", "south")[place // 4], "duration": f"{place}.5",
            }
            for place in range(8)
        ]  # fmt: skip

    @property
    def counts(self) -> list[Row]:
        return [
            {key: value for key, value in row.items() if key != "text"} | {"errors": place % 3, "words": 5}
            for place, row in enumerate(self.rows)
        ]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(str(row["path"]), TEXT) for row in self.rows]

    def command(self, *more: Any, manifest: Any = None, by: str = "gender,accent", predictions: Any = "") -> Words:
        """Return a run; `predictions` is NAME=FILE, None leaves the option out."""
        given = f"a={self.folder / 'a.tsv'}" if predictions == "" else predictions
        told = [] if given is None else ["--predictions", given]
        return ["audit-groups", manifest or self.folder / "clips.csv", "--by", by, *told, *more]


def simple(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command."""
    CASES.add(name, says, lambda small, _: small.command(*words, **more))


def changed(name: str, says: Any, change: Callable[[list[Row]], Any], *more: Any, **asked: Any) -> None:
    """Register a manifest of texts that was changed."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.rows
        return small.command(*more, manifest=write(folder / "wrong.csv", change(rows) or rows), **asked)

    CASES.add(name, says, make)


def miscounted(name: str, says: Any, change: Callable[[list[Row]], Any], *more: Any, **asked: Any) -> None:
    """Register a manifest of counts that was changed."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.counts
        manifest = write(folder / "wrong.csv", change(rows) or rows)
        return small.command(*more, manifest=manifest, predictions=None, **asked)

    CASES.add(name, says, make)


def misheard(name: str, says: Any, content: Any, file: str = "wrong.tsv") -> None:
    """Register a file of transcripts with this content, or of what a function makes of the right pairs."""

    def make(small: Any, folder: Path) -> Words:
        text = content(small.pairs) if callable(content) else content
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        return small.command(predictions=f"b={folder / file}")

    CASES.add(name, says, make)


def lines(pairs: Any) -> str:
    return "path\tprediction\n" + "".join(f"{name}\t{text}\n" for name, text in pairs)


# The manifest.
simple("manifest_missing", ("nowhere.csv", "There is no such file"), manifest="/nowhere/nowhere.csv")
simple("manifest_is_a_folder", "This is a folder", manifest="/")
simple("by_of_no_column", ("There is no column 'acent'", "--by", "Did you mean 'accent'"), by="gender,acent")
simple("by_twice", ("gender, gender names one thing twice", "--by"), by="gender,gender")
simple("by_holds_signs", ("There is no column 'gender&accent'", "--by"), by="gender&accent")
changed("no_path", ("There is no column for the path", "--path-col", "wrong.csv"), drop("path"))
changed("no_text", ("There is no column for the text", "--text-col", "wrong.csv"), drop("text"))
changed("two_texts", ("Several columns may hold the text: text, sentence", "--text-col"), every(sentence=TEXT))
changed("path_empty", ("names no recording", "wrong.csv:5"), put(3, path=""))
changed("path_twice", ("listed twice: before on line 2", "wrong.csv:9"), put(7, path="clips/0.wav"))
changed("name_of_signs", ("holds & or =", "--by"), every(**{"a=b": "x"}), by="gender,a=b")
changed("levels_become_one", ("would become one level", "--values"), lambda rows: [
    row.update(accent=("a&b", "a+b")[place % 2]) for place, row in enumerate(rows)
] and None)  # fmt: skip
changed("one_level_each", ("no column has two known levels (gender has 1; accent has 1)", "--by"),
        every(gender="f", accent="north"))  # fmt: skip
changed("nothing_known", "no column has two known levels (gender has 0; accent has 0)", every(gender="", accent="NA"))
changed("nobody_but_unknown", "no column has two known levels", lambda rows: [
    row.update(speaker="" if place else "s0") for place, row in enumerate(rows)
] and None)  # fmt: skip


@case("is empty", "wrong.csv")
def manifest_empty(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_bytes(b"")
    return small.command(manifest=folder / "wrong.csv")


@case("header but no rows", "wrong.csv")
def manifest_of_a_header(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_text("path,speaker,text,gender,accent\n", encoding="utf-8")
    return small.command(manifest=folder / "wrong.csv")


@case("NUL", "wrong.csv:2")
def manifest_with_nul(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_bytes(b"path,speaker,text,gender,accent\na.wav,s\0,up,f,n\n")
    return small.command(manifest=folder / "wrong.csv")


@case("fields", "wrong.csv:2")
def manifest_ragged(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_text("path,speaker,text,gender,accent\na.wav,s\n", encoding="utf-8")
    return small.command(manifest=folder / "wrong.csv")


@case("LFS")
def manifest_is_a_pointer(small: Any, folder: Path) -> Words:
    (folder / "wrong.csv").write_text(POINTER, encoding="utf-8")
    return small.command(manifest=folder / "wrong.csv")


# What was heard.
simple("nothing_heard", ("nothing to compare with the references", "--predictions NAME=FILE", "clips.csv"),
       predictions=None)  # fmt: skip
for _name, _text in {"no_name": "=a.tsv", "no_file": "a=", "no_sign": "a.tsv", "blank": " = ", "nothing": ""}.items():
    simple(f"prediction_of_{_name}", ("is not NAME=FILE", "--predictions"), "--predictions", _text)
simple("system_twice", ("The system 'a' is named twice", "--predictions"), "--predictions", "a=other.tsv")
simple("prediction_missing", ("nowhere.tsv", "There is no such file"), predictions="a=/nowhere/nowhere.tsv")
simple("prediction_is_a_folder", "This is a folder", predictions="a=/")
simple("prediction_col_missing", ("There is no column 'ours'", "--prediction-col"), "--prediction-col", "ours",
       predictions=None)  # fmt: skip
changed("two_columns_heard", ("Several columns may hold the transcript: prediction, hyp", "--prediction-col"),
        every(prediction="x", hyp="y"), predictions=None)  # fmt: skip
misheard("prediction_empty", ("is empty", "wrong.tsv"), b"")
misheard("prediction_of_a_header", ("no rows", "wrong.tsv"), "path\tprediction\n")
misheard("prediction_binary", "wrong.tsv", bytes(range(256)) * 4)
misheard("prediction_with_nul", ("NUL", "wrong.tsv:2"), b"path\tprediction\nclips/0.wav\tup\0\n")
misheard("prediction_latin_1", ("UTF-8", "wrong.tsv:2"), "path\tprediction\nclips/0.wav\té\n".encode("latin-1"))
misheard("prediction_is_a_page", "web page", HTML, "wrong.json")
misheard("prediction_is_a_pointer", "LFS", POINTER, "wrong.txt")
misheard("prediction_of_no_form", ("no known form of predictions", ".srt"), "1\n00:00 --> 00:01\nup\n", "wrong.srt")
misheard("prediction_without_names", ("No column names the recording", "wrong.tsv"), "clip\tprediction\na\tup\n")
misheard("prediction_without_texts", ("No column holds the prediction", "wrong.tsv"), "path\twer\nclips/0.wav\t1\n")
misheard("prediction_with_two_texts", ("Several columns may hold the prediction: hyp, pred", "wrong.tsv"),
         "path\thyp\tpred\nclips/0.wav\tup\tno\n")  # fmt: skip
misheard("prediction_twice", ("stands twice with different texts: before in line 2", "wrong.tsv:10"),
         lambda pairs: lines([*pairs, (pairs[0][0], "otherwise")]))  # fmt: skip
misheard("prediction_twice_by_extension", ("one recording by their names", "wrong.tsv"),
         lambda pairs: lines([*pairs, ("clips/0.mp3", "otherwise")]))  # fmt: skip
misheard("prediction_of_others", ("no prediction for any of the 8 recordings", "wrong.tsv", "last part of the path"),
         lambda pairs: lines([(f"x{name}x", text) for name, text in pairs]))  # fmt: skip
misheard("prediction_of_numbers", ("is 3, not a text", "wrong.json"), '{"clips/0.wav": 3}', "wrong.json")
misheard("prediction_broken", ("not JSON", "wrong.jsonl"), '{"path": "clips/0.wav",\n', "wrong.jsonl")
misheard("prediction_deep", ("wrong.json",), "[" * 100_000, "wrong.json")
misheard("trn_without_names", ("brackets", "wrong.trn:1"), "letters behind\n", "wrong.trn")

# Counts.
miscounted("count_negative", ("'-1' is no count", "wrong.csv:4", "column errors", "whole numbers"), put(2, errors=-1))
miscounted("count_missing", ("The count is missing", "wrong.csv:9", "column errors"), put(7, errors=""))
miscounted("kinds_do_not_add_up", ("do not add up to errors", "wrong.csv:2"),
           every(substitutions=1, deletions=1, insertions=1))  # fmt: skip
miscounted("kinds_beyond_words", ("More words are wrong or missing than there are", "wrong.csv:2"),
           every(errors=6, substitutions=6, deletions=0, insertions=0))  # fmt: skip
miscounted("kinds_not_all", ("not all of substitutions, deletions, insertions", "Give all three or none"),
           every(substitutions=1, deletions=1))  # fmt: skip
miscounted("system_counted_twice", ("errors and errors_prediction would count", "errors_NAME"), lambda rows: [
    row.update(errors_prediction=row["errors"]) for row in rows
] and None)  # fmt: skip
miscounted("errors_alone", ("no column words", "wrong.csv"), drop("words"))
miscounted("words_alone", ("no column errors", "wrong.csv"), drop("errors"))
miscounted("counts_of_characters", ("say nothing about characters", "--metric"), lambda rows: None, "--metric", "cer")

# References, controls, clusters, bins.
simple("reference_of_no_group", ("'accent=west' is no group", "--reference", "accent=north"), "--reference",
       "accent=west")  # fmt: skip
simple("reference_of_no_attribute", ("'age=old' is no group", "--reference"), "--reference", "age=old")
simple("reference_of_a_word", ("'worst' is no group", "--reference"), "--reference", "worst")
simple("reference_of_a_crossing", "is no group", "--reference", "accent=north&gender=f")
simple("reference_twice", ("give one attribute two references", "--reference"), "--reference", "accent=north",
       "--reference", "accent=south")  # fmt: skip
simple("references_at_odds", "give one attribute two references", "--reference", "best", "--reference", "overall")
changed("reference_unknown", "'accent=unknown' is no group", put(0, accent="NA"), "--reference", "accent=unknown")
simple("control_of_no_column", ("There is no column 'durations'", "--control", "Did you mean 'duration'"), "--control",
       "durations")  # fmt: skip
simple("control_is_compared", ("'gender' is compared and held fixed at once", "--control"), "--control", "gender")
simple("control_twice", ("names one thing twice", "--control"), "--control", "duration,duration")
changed("control_constant", ("'duration' has no two different values", "--control"), every(duration="3.5"),
        "--control", "duration")  # fmt: skip
changed("control_of_numbers_but_one", ("'n.v.' is no number", "wrong.csv:5", "column duration"),
        put(3, duration="n.v."), "--control", "duration")  # fmt: skip
changed("control_spelt_in_two_ways", "'duration' has no two different values", lambda rows: [
    row.update(duration=("1", "1.0")[place % 2]) for place, row in enumerate(rows)
] and None, "--control", "duration")  # fmt: skip
simple("prediction_col_taken", ("'text' is empty, or taken already", "--prediction-col"), "--prediction-col", "text",
       predictions=None)  # fmt: skip
miscounted("count_is_compared", ("words", "taken already"), lambda rows: [
    row.update(words=5 + place % 2) for place, row in enumerate(rows)
] and None, by="gender,words")  # fmt: skip
simple("cluster_beside_speakers", ("names speakers", "--cluster-by"), "--cluster-by", "gender")
changed("cluster_of_no_column", ("There is no column 'house'", "--cluster-by"), drop("speaker"), "--cluster-by",
        "house")  # fmt: skip
changed("faas_without_speakers", ("The FAAS needs speakers", "--faas"), drop("speaker"), "--faas")
simple("bins_falling", ("do not rise", "--bin"), "--bin", "duration=9,3", by="gender,duration")
simple("bins_of_words", ("No value of accent is a number", "--bin"), "--bin", "accent=0,3")
simple("bins_of_another", ("has bins but is not audited", "--bin"), "--bin", "duration=0,3")
simple("bins_unreadable", ("cannot be read", "--bin"), "--bin", "duration=a,b", by="gender,duration")
simple("bins_nan", ("cannot be read", "--bin"), "--bin", "duration=nan", by="gender,duration")
simple("values_missing", "There is no such file", "--values", "/nowhere/map.csv")
simple("speaker_col_missing", ("There is no column 'who'", "--speaker-col"), "--speaker-col", "who")
simple("text_col_missing", ("There is no column 'said'", "--text-col"), "--text-col", "said")
simple("path_col_missing", ("There is no column 'file'", "--path-col"), "--path-col", "file")
simple("preset_unknown", "preset", "--preset", "nothing-of-the-kind")
simple("preset_of_another", "clips.csv", "--preset", "fair-speech")

# Options.
# One of each kind: tests/unit/test_options.py has the bounds and the choices of all options.
simple("min_speakers_4", ("4 is too small", "--min-speakers", "Give 5 to"), "--min-speakers", "4")
simple("permutations_word", "--permutations", "--permutations", "many")
simple("metric_unknown", "--metric", "--metric", "perhaps")
simple("level_in_percent", "--level", "--level", "95")
simple("by_missing", "--by", by="")
simple("gate_of_no_estimate", ("names no estimate", "rate"), "--fail-if", "loss > 1")
simple("name_not_utf8", "UTF-8", "--predictions", "b=" + os.fsdecode(b"caf\xe9.tsv"))
simple("name_with_newline", "There is no such file", predictions="a=x\ny.tsv")
simple("name_beyond_reason", "name too long", predictions="a=" + "x" * 5000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    made = Small(tmp_path_factory.mktemp("small"))
    write(made.folder / "clips.csv", made.rows)
    (made.folder / "a.tsv").write_text(lines(made.pairs), encoding="utf-8")
    with nothing_runs():
        yield made


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    for words in (
        small.command(),
        small.command(manifest=write(tmp_path / "counts.csv", small.counts), predictions=None),
        small.command("--reference", "best", "--control", "duration"),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0, outcome.err


HOSTILE = ("../../etc/passwd", "/etc/passwd", "C:\\x.wav", "a\u202eb.wav", "=cmd()", "x" * 3000, "${HOME}", "<script>")


def test_paths_are_names_and_lead_nowhere(
    small: Small, call_miles: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = small.rows
    for row, name in zip(rows, HOSTILE, strict=True):
        row["path"] = name
    opened: list[str] = []
    whole = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *more, **asked: opened.append(str(path)) or whole(path, *more, **asked)
    )
    pairs = tmp_path / "p.json"
    pairs.write_text(json.dumps(dict.fromkeys(HOSTILE, TEXT)), encoding="utf-8")
    manifest = write(tmp_path / "hostile.csv", rows)
    outcome = call_miles(*small.command("--dry-run", manifest=manifest, predictions=f"a={pairs}"), cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert "8 of 8" in outcome.out
    assert not [name for name in opened if "passwd" in name]


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 70
