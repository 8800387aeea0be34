"""Does `miles audit-groups` leave what the contract says, and read every form of its inputs as the same data?"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_rows import write
from headlines import faults, long_statements
from run_folders import estimates, files, read, records, stripped

from audits.core.records import Report

# Runs in processes of their own make their pages.
pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
Row = dict[str, Any]
WORDS = ("today", "green", "farmers", "found", "letters", "behind", "every", "narrow", "bridge", "again")
SPEAKERS, TAKES, LENGTH = 24, 4, 8
QUICK = ("--by", "gender", "accent", "--bootstrap", "200", "--permutations", "100", "--min-speakers", "6")
FIXED = ["path", "line", "speaker", "status", "words"]


@dataclass(frozen=True)
class Corpus:
    """Clips with references, what two systems wrote of them and how often each was wrong, and files of all that."""

    folder: Path
    rows: tuple[Row, ...]

    @property
    def manifest(self) -> Path:
        return self.folder / "clips.csv"

    def heard(self, system: str, suffix: str = "wav") -> dict[str, str]:
        """Return what a system wrote, by path."""
        return {row["path"].replace(".wav", f".{suffix}"): row[f"heard_{system}"] for row in self.rows}

    def command(self, *more: object, systems: str = "ab", manifest: object = None) -> list[str]:
        files = [word for name in systems for word in ("--predictions", f"{name}={self.folder / name}.tsv")]
        return ["audit-groups", str(manifest or self.manifest), *QUICK, *files, *(str(word) for word in more)]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return a corpus in which the first system errs three times as often on the south, and the second does not."""
    rng = np.random.default_rng(0)
    rows = []
    for speaker in range(SPEAKERS):
        for take in range(TAKES):
            accent = ("north", "south")[speaker // 2 % 2]
            row: Row = {"path": f"clips/s{speaker:02d}-{take}.wav", "speaker": f"s{speaker:02d}"}
            row |= {"gender": "fm"[speaker % 2], "accent": accent, "duration": f"{2 + 0.25 * (take + speaker % 3)}"}
            text = rng.choice(WORDS, LENGTH).tolist()
            row["text"] = f"{' '.join(text).capitalize()}."
            for name, rate in (("a", 0.3 if accent == "south" else 0.1), ("b", 0.12)):
                wrong = rng.random(LENGTH) < rate
                heard = ["uh" if missed else word for word, missed in zip(text, wrong, strict=True)]
                row |= {f"heard_{name}": " ".join(heard), f"wrong_{name}": int(wrong.sum())}
            rows.append(row)
    made = Corpus(folder=tmp_path_factory.mktemp("corpus"), rows=tuple(rows))
    write(made.manifest, (references(row) for row in rows))
    for name in "ab":
        pairs = ({"path": path, "prediction": text} for path, text in made.heard(name, "flac").items())
        write(made.folder / f"{name}.tsv", pairs, "\t")
    return made


def references(row: Row) -> Row:
    return {key: value for key, value in row.items() if not key.startswith(("heard_", "wrong_"))}


@pytest.fixture(scope="session")
def done(corpus: Corpus, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run of both systems that nobody may change."""
    folder: Path = finish_run(*corpus.command("--control", "duration"), out=tmp_path_factory.mktemp("groups") / "run")
    return folder


# What a run leaves.
def test_a_report_says_what_was_compared(corpus: Corpus, done: Path) -> None:
    report = read(done)
    assert len(report["figures"]) >= 3 and report["subject"] is None
    clips = SPEAKERS * TAKES
    assert [(source["role"], source["path"], source["items"]) for source in report["data"]] == [
        ("manifest", str(corpus.manifest), clips),
        ("transcripts of a", str(corpus.folder / "a.tsv"), clips),
        ("transcripts of b", str(corpus.folder / "b.tsv"), clips),
    ]
    groups = {row["group"]: row["counts"] for row in report["coverage"].pop("groups")}
    assert report["coverage"] == {"given": clips, "used": clips, "skipped": []}
    assert groups["all"]["clips"] == clips and set(groups["all"]) == {"speakers", "clips", "words"}
    assert report["settings"]["hypothesis"] == "parity" and report["settings"]["control"] == ["duration"]
    assert report["settings"]["permutations"] == 100


def test_records_hold_every_clip_and_add_up_to_every_rate(corpus: Corpus, done: Path) -> None:
    rows = records(done)
    errors = [f"{unit}_errors_{name}" for unit in ("word", "character") for name in "ab"]
    assert list(rows[0])[:5] == FIXED and set(rows[0]) == {*FIXED, "accent", "gender", "characters", *errors}
    assert [row["path"] for row in rows] == [row["path"] for row in corpus.rows]
    assert [int(row["line"]) for row in rows] == list(range(2, 2 + len(corpus.rows)))
    for row, truth in zip(rows, corpus.rows, strict=True):
        assert (row["status"], row["words"]) == ("used", str(LENGTH))
        assert [int(row[f"word_errors_{name}"]) for name in "ab"] == [truth[f"wrong_{name}"] for name in "ab"]
    rates = estimates(done, "rate")
    assert len(rates) == 2 * 2 * (1 + 2 + 2 + 4)
    for rate in rates:
        where = rate["where"]
        pairs = [part.split("=") for part in where["group"].split("&")] if where["group"] != "all" else []
        own = [row for row in rows if all(row[name] == level for name, level in pairs)]
        unit = {"wer": "word", "cer": "character"}[where["metric"]]
        wrong = sum(int(row[f"{unit}_errors_{where['system']}"]) for row in own)
        assert rate["value"] == pytest.approx(wrong / sum(int(row[f"{unit}s"]) for row in own)), where
        assert rate["n"] == len({row["speaker"] for row in own}) and rate["unit"] == "speakers"


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("rate", "system metric group"), ("substitution_rate", "system metric group"),
        ("deletion_rate", "system metric group"), ("insertion_rate", "system metric group"),
        ("gap", "system metric by kind adjusted"), ("rate_ratio", "system metric attribute level reference adjusted"),
        ("differential_fairness", "system metric by"), ("entropy_index", "system metric by index part"),
        ("shrunken_rate", "system metric group"), ("system_difference", "system metric against group"),
        ("attenuation", "system metric attribute level reference"), ("noise_floor", "system metric by"),
    ],
)  # fmt: skip
def test_estimates_have_the_coordinates_of_the_contract(done: Path, name: str, keys: str) -> None:
    rows = estimates(done, name)
    assert rows and {frozenset(row["where"]) for row in rows} == {frozenset(keys.split())}


def test_p_values_are_by_attribute_or_by_group(done: Path) -> None:
    keys = {frozenset(row["where"]) for row in estimates(done, "p_value")}
    assert keys <= {frozenset(f"system metric test correction {by}".split()) for by in ("by", "group")} and keys
    assert {row["where"]["correction"] for row in estimates(done, "p_value", by="accent")} == {"none", "holm"}
    assert {row["where"]["part"] for row in estimates(done, "entropy_index")} == {"total", "between", "within"}


def test_the_planted_gap_is_found_in_the_system_that_has_it(done: Path) -> None:
    gaps = [finding for finding in read(done)["findings"] if finding["id"] == "groups.gap"]
    assert [(gap["where"]["system"], gap["where"]["by"], gap["where"]["group"]) for gap in gaps] == [
        ("a", "accent", "accent=south")
    ]
    (told,) = [finding for finding in read(done)["findings"] if finding["id"] == "groups.system"]
    assert "Between south and north speakers (accent) its rates differ by" in told["statement"]
    assert "b makes fewer errors than a, by" in told["headline"]


def test_headlines_and_statements_are_short_and_in_words(done: Path) -> None:
    report = Report.from_json(read(done))
    assert faults(report) == [] and long_statements(report) == []


def test_another_seed_moves_shuffles_and_no_rate_or_its_interval(corpus: Corpus, done: Path, quick: Any) -> None:
    folder = quick(*corpus.command("--control", "duration", "--seed", "1"))
    for name in ("rate", "speaker_rate", "system_difference"):
        one, other = (estimates(run, name) for run in (done, folder))
        assert one == other and one
    one, other = (estimates(run, "noise_floor") for run in (done, folder))
    assert [row["low"] for row in one] != [row["low"] for row in other]


def test_a_run_that_could_not_be_completed_leaves_no_report_and_is_finished_later(
    corpus: Corpus, quick: Any, call_miles: Call, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audits.speaker_groups.findings.findings", fail)
        outcome = call_miles(*corpus.command(systems="a"), "--out", tmp_path / "run", "--quiet")
    assert outcome.code == 3 and not (tmp_path / "run" / "report.json").exists()
    folder = quick(*corpus.command(systems="a"))
    assert stripped(folder) == stripped(quick(*corpus.command(systems="a"), name="whole"))
    assert files(folder) == {"report.json", "records.csv"}


@pytest.mark.parametrize(
    ("gate", "mend"),
    [
        ("gap[by=accnt].low > 0", "by can be: accent"),
        ("rate[system=c] > 0", "system can be: a, b"),
        ("rate[group=accent=west] > 0", "group can be: "),
        ("gap[kind=squared] > 0", "kind can be: "),
        ("loss[by=accent] > 0", "There are: rate, "),
    ],
)
def test_a_gate_that_nothing_can_meet_is_refused_before_anything_runs(
    corpus: Corpus, call_miles: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gate: str, mend: str
) -> None:
    from audits.core import runner

    def refuse(*_: Any) -> None:
        raise AssertionError("the audit was run")

    monkeypatch.setattr(runner, "carry_out", refuse)
    outcome = call_miles(*corpus.command("--fail-if", gate, "--out", tmp_path / "run"))
    assert outcome.code == 2 and mend in " ".join(outcome.err.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


# Every form of the same data.
@pytest.fixture(scope="session")
def plain(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Return the estimates of the first system, under the name that a column of the manifest has."""
    from audits.core.context import Cache, Context
    from audits.core.testing import drafted
    from audits.speaker_groups import AUDIT, Options

    options = Options(
        manifest=corpus.manifest, by=("gender", "accent"), predictions=(f"prediction={corpus.folder / 'a.tsv'}",),
        bootstrap=200, permutations=100, min_speakers=6,
    )  # fmt: skip
    context = Context(cache=Cache(tmp_path_factory.mktemp("unused")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audits.speaker_groups.figures.figures", lambda *_: ())
        rows = [asdict(row) for row in drafted(AUDIT, options, context).estimates]
    return [{key: value for key, value in row.items() if key != "measure"} for row in rows]


def test_the_numbers_that_all_forms_are_held_against_are_true(corpus: Corpus, plain: list[Row]) -> None:
    rates = {row["where"]["group"]: row["value"] for row in words_only(plain) if row["name"] == "rate"}
    for level in ("north", "south"):
        wrong = [row["wrong_a"] for row in corpus.rows if row["accent"] == level]
        assert rates[f"accent={level}"] == pytest.approx(sum(wrong) / (LENGTH * len(wrong)))


def kaldi(pairs: dict[str, str]) -> str:
    return "".join(f"{Path(path).stem} {text}\n" for path, text in pairs.items())


def lines(pairs: dict[str, str]) -> str:
    rows = [{"audio_filepath": path, "pred_text": text, "duration": 1.5} for path, text in pairs.items()]
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(delimiter: str, header: str) -> Callable[[dict[str, str]], str]:
    return lambda pairs: "".join(f"{path}{delimiter}{text}\n" for path, text in [tuple(header.split()), *pairs.items()])


FORMS: dict[str, tuple[str, str, Callable[[dict[str, str]], str]]] = {
    "TSV": ("p.tsv", "mp3", table("\t", "path prediction")),
    "CSV": ("p.csv", "flac", table(",", "utt_id hyp")),
    "JSON lines": ("p.jsonl", "wav", lines),
    "JSON map": ("p.json", "ogg", json.dumps),
    "JSON list": (
        "p.json",
        "wav",
        lambda pairs: json.dumps([{"path": key, "text": own} for key, own in pairs.items()]),
    ),
    "Kaldi text": ("text", "wav", kaldi),
    "SCTK trn": ("p.trn", "wav", lambda pairs: "".join(f"{text} ({Path(key).stem})\n" for key, text in pairs.items())),
    "TSV backwards": ("p.tsv", "mp3", lambda pairs: table("\t", "path prediction")(dict(reversed(pairs.items())))),
}


def alone(manifest: Path, *more: object) -> list[str]:
    """Return a run of one system."""
    return ["audit-groups", str(manifest), *QUICK, *(str(word) for word in more)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_transcripts_gives_the_same_numbers(
    corpus: Corpus, plain: list[Row], quick: Any, tmp_path: Path, form: str
) -> None:
    name, suffix, make = FORMS[form]
    (tmp_path / name).write_text(make(corpus.heard("a", suffix)), encoding="utf-8")
    folder = quick(*alone(corpus.manifest, "--predictions", f"prediction={tmp_path / name}"))
    assert read(folder)["estimates"] == plain


MANIFESTS: dict[str, Callable[[Path, list[Row]], Path]] = {
    "CSV": lambda folder, rows: write(folder / "m.csv", rows),
    "TSV": lambda folder, rows: write(folder / "m.tsv", rows, "\t"),
    "JSON lines": lambda folder, rows: as_lines(folder / "m.jsonl", rows),
}


def as_lines(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", MANIFESTS)
@pytest.mark.parametrize("column", ["prediction", "hyp"])
def test_transcripts_may_stand_in_the_manifest(
    corpus: Corpus, plain: list[Row], quick: Any, tmp_path: Path, form: str, column: str
) -> None:
    rows = [{**references(row), column: row["heard_a"]} for row in corpus.rows]
    assert read(quick(*alone(MANIFESTS[form](tmp_path, rows))))["estimates"] == plain


def test_a_column_of_transcripts_can_be_named(corpus: Corpus, plain: list[Row], quick: Any, tmp_path: Path) -> None:
    rows = [{**references(row), "hyp": "", "ours": row["heard_a"]} for row in corpus.rows]
    folder = quick(*alone(write(tmp_path / "m.csv", rows), "--prediction-col", "ours"))
    assert read(folder)["estimates"] == plain


def test_an_edited_value_map_is_another_input(corpus: Corpus, quick: Any, call_miles: Call, tmp_path: Path) -> None:
    names = tmp_path / "map.csv"
    names.write_text("column,from,to\ngender,f,woman\n", encoding="utf-8")
    words = corpus.command("--values", names, systems="b")
    folder = quick(*words)
    assert [(one["role"], one["items"]) for one in read(folder)["data"]][-1] == ("value map", 1)
    groups = {row["where"].get("group") for row in estimates(folder, "rate")}
    assert {"gender=m", "gender=woman"} <= groups and "gender=f" not in groups
    names.write_text("column,from,to\ngender,f,female\n", encoding="utf-8")
    assert call_miles(*words, "--out", folder).code == 2


def words_only(rows: list[Row], *without: str) -> list[Row]:
    return [row for row in rows if row["where"]["metric"] == "wer" and row["name"] not in without]


UNTOLD = ("substitution_rate", "deletion_rate", "insertion_rate")


def test_counts_give_the_numbers_of_the_transcripts(
    corpus: Corpus, plain: list[Row], quick: Any, tmp_path: Path
) -> None:
    rows = [{**references(row), "errors": row["wrong_a"], "words": LENGTH} for row in corpus.rows]
    for row in rows:
        del row["text"]
    folder = quick(*alone(write(tmp_path / "m.csv", rows)), name="sums")
    assert read(folder)["estimates"] == words_only(plain, *UNTOLD)
    assert "kinds-unknown" in {warning["id"] for warning in read(folder)["warnings"]}
    assert "characters" not in records(folder)[0]
    kinds = [{**row, "substitutions": row["errors"], "deletions": 0, "insertions": 0} for row in rows]
    folder = quick(*alone(write(tmp_path / "kinds.csv", kinds)), name="kinds")
    assert read(folder)["estimates"] == words_only(plain)


def test_counts_of_several_systems_are_compared_as_their_transcripts_are(
    corpus: Corpus, quick: Any, tmp_path: Path
) -> None:
    rows = [
        {**references(row), "words": LENGTH, "errors_a": row["wrong_a"], "errors_b": row["wrong_b"]}
        for row in corpus.rows
    ]
    for row in rows:
        del row["text"]
    counts = quick(*alone(write(tmp_path / "m.csv", rows)), name="counts")
    texts = quick(*corpus.command(), name="texts")
    assert read(counts)["estimates"] == words_only(read(texts)["estimates"], *UNTOLD)
    assert estimates(counts, "system_difference", system="b", against="a", group="all")


def test_the_order_of_the_manifest_changes_no_number(
    corpus: Corpus, plain: list[Row], quick: Any, tmp_path: Path
) -> None:
    rows = [{**references(row), "prediction": row["heard_a"]} for row in reversed(corpus.rows)]
    found = read(quick(*alone(write(tmp_path / "m.csv", rows))))["estimates"]
    assert [(row["name"], row["where"], row["n"]) for row in found] == [
        (row["name"], row["where"], row["n"]) for row in plain
    ]
    for one, other in zip(found, plain, strict=True):
        for end in ("value", "low", "high"):
            assert (one[end] is None) == (other[end] is None)
            assert one[end] is None or one[end] == pytest.approx(other[end], rel=1e-6, abs=1e-9), one


def test_a_corpus_in_its_own_layout_whose_people_are_not_named(corpus: Corpus, quick: Any, tmp_path: Path) -> None:
    levels = ("age", "gender", "first_language", "socioeconomic_bkgd", "ethnicity")
    people = [f"{a} {b} {c}" for a in range(2) for b in range(3) for c in range(4)]
    rows = []
    for place, row in enumerate(corpus.rows):
        age, language, ethnicity = people[place // TAKES].split()
        values = (f"age {age}", row["gender"], f"language {language}", "low", f"ethnicity {ethnicity}")
        rows.append({"hash_name": f"h{place}", "transcription": row["text"], **dict(zip(levels, values, strict=True))})
    (tmp_path / "p.json").write_text(
        json.dumps({f"h{place}": row["heard_a"] for place, row in enumerate(corpus.rows)}), encoding="utf-8"
    )
    manifest = write(tmp_path / "fair.tsv", rows, "\t")
    words = ["audit-groups", manifest, "--preset", "fair-speech", *QUICK[3:], "--by", "gender,age"]
    folder = quick(*words, "--predictions", f"a={tmp_path / 'p.json'}")
    report = read(folder)
    profiles = len({tuple(row[name] for name in levels) for row in rows})
    assert estimates(folder, "rate", group="all", metric="wer")[0]["n"] == profiles == SPEAKERS
    (warning,) = [warning for warning in report["warnings"] if warning["id"] == "corpus.no-speakers"]
    assert f"the {profiles} combinations" in warning["message"]
    assert {row["unit"] for row in estimates(folder, "rate")} == {"speaker profiles"}
    assert report["coverage"]["used"] == len(rows)


# Transcripts that are missing, or too many.
@pytest.fixture
def gaps(corpus: Corpus, tmp_path: Path) -> list[str]:
    """Return a run in which the second system lacks five clips and has two that nobody knows."""
    pairs = dict(list(corpus.heard("b").items())[5:]) | {"clips/x.wav": "today", "clips/y.wav": "again"}
    (tmp_path / "b.json").write_text(json.dumps(pairs), encoding="utf-8")
    return corpus.command("--predictions", f"b={tmp_path / 'b.json'}", systems="a")


def test_clips_without_a_transcript_are_left_out_for_all(corpus: Corpus, gaps: list[str], quick: Any) -> None:
    folder = quick(*gaps)
    report = read(folder)
    report["coverage"].pop("groups")
    assert report["coverage"] == {
        "given": 96, "used": 91, "skipped": [{"reason": "no transcript by b", "count": 5}]
    }  # fmt: skip
    told = [warning["message"] for warning in report["warnings"] if warning["id"] == "unused-transcripts"]
    assert len(told) == 1 and "b: 2 transcripts met no clip" in told[0] and "clips/x.wav" in told[0]
    rows = records(folder)
    assert len(rows) == 96
    skipped = [row for row in rows if row["status"] != "used"]
    assert {row["path"] for row in skipped} == {row["path"] for row in corpus.rows[:5]}
    assert {(row["status"], row["words"], row["word_errors_a"]) for row in skipped} == {("no transcript by b", "", "")}
    assert all(row["gender"] and row["accent"] and row["speaker"] for row in skipped)
    (rate,) = estimates(folder, "rate", system="a", metric="wer", group="all")
    assert rate["value"] == pytest.approx(sum(row["wrong_a"] for row in corpus.rows[5:]) / (91 * LENGTH))
    (finding,) = [finding for finding in report["findings"] if finding["id"] == "groups.skipped"]
    assert finding["headline"] == "5 of 96 clips were left out."


def test_missing_transcripts_can_count_as_empty(corpus: Corpus, gaps: list[str], quick: Any) -> None:
    folder = quick(*gaps, "--on-missing", "empty")
    report = read(folder)
    report["coverage"].pop("groups")
    assert report["coverage"] == {"given": 96, "used": 96, "skipped": []}
    (told,) = [warning for warning in report["warnings"] if warning["id"] == "missing-as-empty"]
    assert told["where"] == {"system": "b"} and "5 clips" in told["message"]
    (rate,) = estimates(folder, "rate", system="b", metric="wer", group="all")
    wrong = sum(row["wrong_b"] for row in corpus.rows[5:]) + 5 * LENGTH
    assert rate["value"] == pytest.approx(wrong / (96 * LENGTH))
    assert estimates(folder, "deletion_rate", system="b", group="all")[0]["value"] == pytest.approx(5 / 96)


def test_a_missing_transcript_can_stop_the_run(
    corpus: Corpus, gaps: list[str], call_miles: Call, tmp_path: Path
) -> None:
    outcome = call_miles(*gaps, "--on-missing", "stop", "--out", tmp_path / "run")
    assert outcome.code == 2 and not (tmp_path / "run").exists()
    said = " ".join(outcome.err.replace("│", " ").split())
    assert "5 of 96 clips cannot be used" in said and str(corpus.manifest) in said and "--on-missing skip" in said
    for line, row in enumerate(corpus.rows[:5], start=2):
        assert f"line {line} ({row['path']}): b has no transcript of the clip." in said


def test_a_dry_run_names_the_clips_that_are_left_out(corpus: Corpus, gaps: list[str], call_miles: Call) -> None:
    outcome = call_miles(*gaps, "--dry-run")
    notes = [line.split(maxsplit=1)[1] for line in outcome.out.splitlines() if line.startswith("  note ")]
    at = notes.index("5 of 96 clips are left out (5 no transcript by b):")
    assert notes[at + 1 : at + 6] == [
        f"line {line} ({row['path']}): no transcript by b" for line, row in enumerate(corpus.rows[:5], start=2)
    ]
    assert "a: Columns of a.tsv are read as: path: the recording; prediction: the prediction." in notes
    assert "b: b.json is read as a JSON map: names and predictions." in notes


def test_predictions_in_parquet_give_the_figures_of_the_same_csv_file(
    corpus: Corpus, quick: Any, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    runs = []
    pairs = [{"path": path, "prediction": text} for path, text in corpus.heard("b").items()]
    parquet.write_table(pa.Table.from_pylist(pairs), tmp_path / "b.parquet")
    for file in (tmp_path / "b.parquet", write(tmp_path / "b.csv", pairs)):
        folder = quick(*corpus.command("--predictions", f"b={file}", systems="a"), name=file.suffix)
        runs.append((read(folder), records(folder)))
    for part in ("estimates", "warnings", "coverage"):
        assert runs[0][0][part] == runs[1][0][part]
    # What was read from which file is told, and so the files' names.
    one, other = ([item for item in run["findings"] if item["id"] != "groups.columns"] for run, _ in runs)
    assert one == other
    assert runs[0][1] == runs[1][1] and runs[0][0]["estimates"]


def test_a_null_in_json_is_a_missing_transcript_only_in_the_manifest(
    corpus: Corpus, quick: Any, tmp_path: Path
) -> None:
    rows = [{**references(row), "prediction": row["heard_a"]} for row in corpus.rows]
    rows[7]["prediction"], rows[8]["prediction"] = None, ""
    report = read(quick(*alone(as_lines(tmp_path / "m.jsonl", rows))))
    assert report["coverage"]["skipped"] == [{"reason": "no transcript by prediction", "count": 1}]
    assert "wrote nothing for 1 of 95 clips" in " ".join(warning["message"] for warning in report["warnings"])


def test_the_named_decimal_mark_reads_counts_and_is_a_setting(call_miles: Call, corpus: Corpus, tmp_path: Path) -> None:
    rows = [
        {"path": row["path"], "speaker": row["speaker"], "gender": row["gender"], "words": LENGTH, "errors": at % 3}
        for at, row in enumerate(corpus.rows)
    ]
    short = ("--by", "gender", "--bootstrap", "200", "--permutations", "100", "--min-speakers", "6")
    reports = {}
    for mark in ("", ".", ","):
        cells = [row | {name: f"{row[name]}{mark}{'000' * bool(mark)}" for name in ("words", "errors")} for row in rows]
        path = write(tmp_path / f"t{len(mark)}.csv", cells)
        more = ("--decimal", mark) if mark else ()
        done = call_miles("audit-groups", str(path), *short, *more, "--out", "run", "--force", cwd=tmp_path)
        assert done.code == 0, done.err
        reports[mark] = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
        settings = reports[mark]["settings"]
        assert settings["decimal"] == (mark or None)
        # A report of a version without this option.
        del settings["decimal"]
        (tmp_path / "run" / "report.json").write_text(json.dumps(reports[mark]), encoding="utf-8")
        again = call_miles("audit-groups", str(path), *short, *more, "--out", "run", cwd=tmp_path)
        assert (again.code, "was finished earlier" in again.out) == ((2, False) if mark else (0, True))
        if mark:
            refused = call_miles("audit-groups", str(path), *short, "--out", "other", cwd=tmp_path)
            said = {".": "'1.000' may be 1000 or 1", ",": "'0,000' is no count"}[mark]
            assert refused.code == 2 and said in refused.err and not (tmp_path / "other").exists()
    assert reports["."]["estimates"] == reports[","]["estimates"] == reports[""]["estimates"]
    refused = call_miles("audit-groups", str(path), *short, "--decimal", ";", cwd=tmp_path)
    assert refused.code == 2 and "is not a choice of --decimal" in refused.err
    refused = call_miles("audit-groups", str(path), *short, "--decimal", ",", "--preset", "kaldi", cwd=tmp_path)
    assert refused.code == 2 and "--decimal and --preset exclude each other" in refused.err
