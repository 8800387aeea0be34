"""Does `miles audit-phonemes` leave what the contract says, and read every form of its inputs as the same data?"""

import csv
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_rows import write
from run_folders import estimates, files, read, records, stripped, value, warned
from stand_in_ffmpeg import as_m4a, stand_in

# Runs in processes of their own make their pages.
pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
Row = dict[str, Any]
FEW = ("--bootstrap", "200", "--permutations", "100", "--folds", "3", "--repeats", "1")
SWIFT = (*FEW[:-4], "--folds", "2", "--repeats", "1", "--probe", "discriminant")
PEOPLE, PHONES, WIDTH = 12, 5, 4
FEATURES = [f"x{number}" for number in range(WIDTH)]
LEVELS = ("north", "south", "west")
SOUNDS = ("a", "e", "k", "s", "t")
TRAININGS = {"all", "all_matched", "in", "out"}
LAYERS = {0, 1, 2, 3}


# Two corpora: tokens with planted errors, and clips with made-up phones.
@dataclass(frozen=True)
class Planted:
    """Tokens: the phones of the south lie elsewhere, those of the west are noisy; sex and age mean nothing."""

    folder: Path
    rows: tuple[Row, ...]

    @property
    def file(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def vectors(self) -> np.ndarray:
        return np.array([[row[name] for name in FEATURES] for row in self.rows], dtype=np.float32)

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {name: np.array([row[name] for row in self.rows]) for name in ("phone", "speaker", "dialect", "sex")}

    def command(self, *more: object, file: object = None, by: Sequence[str] = ("dialect", "sex")) -> list[str]:
        return ["audit-phonemes", str(file or self.file), "--by", *by, *FEW, *(str(word) for word in more)]

    def changed(self, path: Path, change: Callable[[list[Row]], Any]) -> Path:
        """Write the tokens again, changed."""
        rows = [dict(row) for row in self.rows]
        return write(path, change(rows) or rows)


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    from phone_tokens import Planted as Errors
    from phone_tokens import draw_tokens

    errors = (Errors(speakers=PEOPLE), Errors(speakers=PEOPLE, shift=1.8), Errors(speakers=PEOPLE, inflation=3.0))
    drawn = draw_tokens(
        np.random.default_rng(0), groups=dict(zip(LEVELS, errors, strict=True)), phones=PHONES, width=WIDTH
    )
    rows = []
    for phone, speaker, dialect, vector in zip(drawn.phones, drawn.speakers, drawn.group, drawn.vectors, strict=True):
        number = int(speaker[-3:])
        row: Row = {"phone": phone, "speaker": speaker, "dialect": dialect, "sex": "fm"[number % 2]}
        rows.append(row | {"age": (15, 35, 50)[number % 3], **dict(zip(FEATURES, vector.tolist(), strict=True))})
    made = Planted(tmp_path_factory.mktemp("planted"), tuple(rows))
    write(made.file, made.rows)
    return made


@dataclass(frozen=True)
class Spoken:
    """The clips of the world with made-up phones, [start, end, phone] in milliseconds, and a head that can place some.

    `aligned` has an alignment of each clip.
    """

    world: Any
    folder: Path
    marks: dict[str, list[tuple[int, int, str]]]

    @property
    def aligned(self) -> Path:
        return self.folder / "aligned"

    @property
    def head(self) -> Path:
        return self.folder / "head"

    def command(self, *more: object, model: object = None, manifest: object = None, by: str = "gender") -> list[str]:
        words = ["audit-phonemes", model or self.world.model, "--manifest", manifest or self.world.manifest, "--by", by]
        return [str(word) for word in (*words, *SWIFT, *more)]

    def listening(self, *more: object, **asked: Any) -> list[str]:
        """Return a run on the alignments."""
        return self.command("--alignments", self.aligned, *more, **asked)

    def placing(self, *more: object, **asked: Any) -> list[str]:
        """Return a run whose phones the head places."""
        return self.command("--align-with", self.head, *more, **asked)

    def said(self, path: Path) -> Path:
        """Write a manifest with the phones that were said."""
        rows = [
            {**row, "phones": " ".join(phone for *_, phone in self.marks[row["path"]] if phone != "sil")}
            for row in self.world.rows()
        ]
        written: Path = self.world.write(path, rows)
        return written


@pytest.fixture(scope="session")
def spoken(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    rng = np.random.default_rng(1)
    marks = {}
    for place, row in enumerate(world.rows()):
        lengths = 5 * rng.integers(6, 10, 6 + 2 * (place % 3))
        ends = (np.cumsum(lengths) + 5 * int(rng.integers(1, 5))).tolist()
        starts = [ends[0] - int(lengths[0]), *ends[:-1]]
        phones = rng.choice(SOUNDS, len(ends)).tolist()
        marks[row["path"]] = [(0, starts[0], "sil"), *zip(starts, ends, phones, strict=True)]
    made = Spoken(world, tmp_path_factory.mktemp("spoken"), marks)
    as_tables(made, made.aligned)
    save_head(world.model, made.head)
    return made


def save_model(model: Path, folder: Path, seed: int, *, head: int = 0) -> Path:
    """Save an encoder of the same shape with other weights; with a CTC head over so many symbols if there are any."""
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    config = hub.AutoConfig.from_pretrained(model, **({"vocab_size": head, "pad_token_id": 0} if head else {}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        (hub.Wav2Vec2ForCTC if head else hub.Wav2Vec2Model)(config).save_pretrained(folder)
    shutil.copy(model / "preprocessor_config.json", folder)
    return folder


def save_head(model: Path, folder: Path) -> None:
    vocabulary = {symbol: number for number, symbol in enumerate(("<pad>", "<unk>", "|", *"adegknopstuw"))}
    save_model(model, folder, 1, head=len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")


# Runs.
@pytest.fixture(scope="module")
def done(planted: Planted, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run on tokens, without pages and pictures, that nobody may change."""
    from audits.phoneme_errors import figures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "figures", lambda *_: [])
        folder: Path = finish_run(*planted.command(), out=tmp_path_factory.mktemp("phonemes") / "run")
    return folder


@pytest.fixture(scope="session")
def heard(spoken: Spoken, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run on recordings that nobody may change."""
    folder: Path = finish_run(*spoken.listening(), out=tmp_path_factory.mktemp("phonemes") / "run")
    return folder


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Return how many clips each forward pass takes, those for states and those for the symbols of a head."""
    from probes.speech.activations import SpeechEncoder

    counts: dict[str, list[int]] = {"encode": [], "log_probs": []}
    for name, passes in counts.items():
        plain = getattr(SpeechEncoder, name)

        def counted(self: Any, waves: Any, plain: Any = plain, passes: list[int] = passes) -> Any:
            passes.append(len(waves))
            return plain(self, waves)

        monkeypatch.setattr(SpeechEncoder, name, counted)
    return counts


def matching(rows: Iterable[Row], name: str, **where: object) -> list[Row]:
    return [
        row
        for row in rows
        if row["name"] == name and all(row["where"].get(key) == value for key, value in where.items())
    ]  # fmt: skip


def flat(text: str) -> str:
    """Return what a terminal shows, in one line without boxes."""
    return " ".join(text.replace("│", " ").split())


# What a run leaves.
def test_a_report_says_what_was_heard(spoken: Spoken, heard: Path) -> None:
    report = read(heard)
    assert len(report["figures"]) >= 3 and report["settings"]["repeats"] == 1
    assert report["settings"]["by"] == ["gender"] and report["settings"]["alignments"] == str(spoken.aligned)
    subject = report["subject"]
    assert (subject["path"], subject["family"]) == (str(spoken.world.model), "wav2vec2") and subject["parameters"] > 0
    assert [(source["role"], source["path"], source["items"]) for source in report["data"]] == [
        ("manifest", str(spoken.world.manifest), 60),
        ("recordings", str(spoken.world.folder), 60),
        ("alignments", str(spoken.aligned), 60),
    ]
    tokens = sum(len(marks) - 1 for marks in spoken.marks.values())
    assert report["coverage"] == {"given": tokens, "used": tokens, "skipped": []}


def test_a_run_on_tokens_names_its_file_and_no_model(planted: Planted, done: Path) -> None:
    report = read(done)
    assert report["subject"] is None and report["data"][0]["path"] == str(planted.file)
    assert [(source["role"], source["items"]) for source in report["data"]] == [("tokens", len(planted.rows))]
    assert report["coverage"] == {"given": len(planted.rows), "used": len(planted.rows), "skipped": []}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("accuracy", "layer group training"), ("systematic_error", "layer group"), ("random_error", "layer group"),
        ("variance_accuracy_correlation", "layer unit partial"), ("own_data_gain", "layer group"),
        ("accuracy_gap", "layer group"), ("remaining_gap", "layer group"),
        ("systematic_minus_remaining", "layer group"), ("random_error_within_speakers", "layer group"),
        ("random_error_cosine", "layer group"), ("variance_ratio", "layer group"),
    ],
)  # fmt: skip
def test_estimates_have_the_coordinates_of_the_contract(heard: Path, name: str, keys: str) -> None:
    rows = estimates(heard, name)
    assert rows and {frozenset(row["where"]) for row in rows} == {frozenset(keys.split())}
    assert {row["where"]["layer"] for row in rows} == LAYERS
    groups = {row["where"].get("group") for row in rows} - {None}
    assert groups <= {"gender=female", "gender=male", "all"} and ("all" in groups) == (name == "accuracy")


def test_accuracies_are_of_everyone_and_of_four_probes_for_each_group(done: Path) -> None:
    rows = estimates(done, "accuracy")
    cells = {(row["where"]["group"], row["where"]["training"]) for row in rows}
    groups = {*(f"dialect={level}" for level in LEVELS), "sex=f", "sex=m"}
    assert cells == {("all", "all")} | {(group, training) for group in groups for training in TRAININGS}
    assert len(rows) == len(cells) and {row["unit"] for row in rows} == {"speakers"}
    for row in rows:
        assert 0 <= row["low"] < row["value"] < row["high"] <= 1 and row["level"] == 0.95 and row["method"]
        assert row["n"] == {"all": 36, "sex=f": 18, "sex=m": 18}.get(row["where"]["group"], PEOPLE)


def test_errors_are_the_differences_that_they_are_said_to_be(done: Path) -> None:
    for error in estimates(done, "systematic_error"):
        group = error["where"]["group"]
        own, matched, common = (
            value(done, "accuracy", group=group, training=training) for training in ("in", "all_matched", "all")
        )
        assert error["value"] == pytest.approx(own - matched)
        assert value(done, "own_data_gain", group=group) == pytest.approx(own - common)
        gap, left = (value(done, name, group=group) for name in ("accuracy_gap", "remaining_gap"))
        assert gap - left == pytest.approx(error["value"])


def test_p_values_are_by_group_or_by_unit(done: Path) -> None:
    rows = estimates(done, "p_value")
    assert {frozenset(row["where"]) for row in rows} == {
        frozenset(("layer", "group", "test", "correction")),
        frozenset(("layer", "unit", "partial", "test", "correction")),
    }  # fmt: skip
    assert {row["where"]["test"] for row in rows} >= {"systematic", "random", "permutation"}
    assert {row["where"]["correction"] for row in rows} == {"none", "holm"}


def test_the_planted_errors_are_found_where_they_are(done: Path) -> None:
    found = {(finding["id"], finding["where"].get("group")) for finding in read(done)["findings"]}
    assert {("phonemes.systematic", "dialect=south"), ("phonemes.random", "dialect=west")} <= found
    shown = {group for id, group in found if id in ("phonemes.systematic", "phonemes.random", "phonemes.both")}
    assert shown == {"dialect=south", "dialect=west"}
    (shift,) = estimates(done, "centroid_shift", group="dialect=south")
    assert set(shift["where"]) == {"layer", "group"} and shift["low"] > 0.5
    for finding in read(done)["findings"]:
        assert all(0 <= place < len(read(done)["estimates"]) for place in finding["evidence"])


def test_a_narrow_terminal_without_colour_names_the_findings(
    planted: Planted,
    done: Path,
    environment: dict[str, str],
    call_miles: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(environment, "COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    outcome = call_miles(*planted.command("--out", tmp_path / "run"))
    assert outcome.code == 0 and "\x1b" not in outcome.out + outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    said = flat(outcome.out)
    for finding in read(done)["findings"]:
        assert flat(finding["headline"]) in said
    assert "Phones of south speakers (dialect) lie elsewhere" in said
    assert str(tmp_path / "run" / "report.html") in said.replace(" ", "")


def test_records_hold_every_speaker_and_add_up_to_the_accuracy(planted: Planted, done: Path) -> None:
    rows = records(done)
    measured = ("accuracy_0", "own_variance_0", "distance_0")
    assert set(rows[0]) == {"speaker", "tokens", "phones", "dialect", "sex", *measured}
    assert [row["speaker"] for row in rows] == sorted({row["speaker"] for row in planted.rows})
    for row in rows:
        own = [token for token in planted.rows if token["speaker"] == row["speaker"]]
        assert (int(row["tokens"]), int(row["phones"])) == (len(own), len({token["phone"] for token in own}))
        assert (row["dialect"], row["sex"]) == (own[0]["dialect"], own[0]["sex"])
    for group, key, level in (("all", "", ""), ("dialect=south", "dialect", "south"), ("sex=f", "sex", "f")):
        inside = [row for row in rows if not key or row[key] == level]
        right = sum(float(row["accuracy_0"]) * int(row["tokens"]) for row in inside)
        truth = value(done, "accuracy", group=group, training="all")
        assert right / sum(int(row["tokens"]) for row in inside) == pytest.approx(truth, abs=1e-5)
    noise = [np.mean([float(row["own_variance_0"]) for row in rows if row["dialect"] == level]) for level in LEVELS]
    assert noise[2] > 1.5 * max(noise[:2])


def test_records_of_recordings_have_columns_of_every_layer(spoken: Spoken, heard: Path) -> None:
    rows = records(heard)
    assert len(rows) == 20
    assert {f"{name}_{layer}" for name in ("accuracy", "own_variance", "distance") for layer in LAYERS} <= set(rows[0])
    assert sum(int(row["tokens"]) for row in rows) == read(heard)["coverage"]["used"]


def test_another_seed_deals_other_folds_and_moves_no_variance(planted: Planted, done: Path, quick: Any) -> None:
    folder = quick(*planted.command("--seed", "1"))
    for name, same in (("random_error", True), ("centroid_shift", True), ("accuracy", False)):
        one, other = ([row["value"] for row in estimates(run, name)] for run in (done, folder))
        assert (one == other) is same, name


def test_a_run_that_could_not_be_completed_leaves_no_report_and_is_finished_later(
    planted: Planted, quick: Any, call_miles: Call, tmp_path: Path
) -> None:
    from audits.phoneme_errors import findings

    def fail(*_: Any) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "findings", fail)
        outcome = call_miles(*planted.command(), "--out", tmp_path / "run", "--quiet")
    assert outcome.code == 3 and not (tmp_path / "run" / "report.json").exists()
    folder = quick(*planted.command())
    assert stripped(folder) == stripped(quick(*planted.command(), name="whole"))
    assert files(folder) == {"report.json", "records.csv"}


# Before a run.
def test_a_dry_run_shows_the_plan_and_writes_nothing(
    planted: Planted, spoken: Spoken, call_miles: Call, forwards: dict[str, list[int]], tmp_path: Path
) -> None:
    tokens = f"{len(planted.rows)} of {PHONES} phones by 36 speakers, in 1 layer of up to {WIDTH} numbers"
    heard = sum(len(marks) - 1 for marks in spoken.marks.values())
    for words, says in (
        (planted.command(), (tokens, "5 compared, 0 too small", str(planted.file))),
        (planted.command("--min-speakers", "15"), (tokens, "2 compared, 3 too small", "dialect=west has 12 speakers")),
        (spoken.listening(), (f"{heard} of 5 phones by 20 speakers, in 4 layers of up to 32 numbers", "60 clips")),
        (spoken.listening("--layers", "0,2", "--against", spoken.world.model), ("in 2 layers", "120 clips")),
        (spoken.placing(), ("120 clips", "known once the phones are placed", "not by people", "letters of the text")),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0 and list(tmp_path.iterdir()) == [], outcome.err
        said = flat(outcome.out)
        assert "every input is in order. Nothing was run." in said
        for part in says:
            assert part in said or part.replace(" ", "") in said.replace(" ", ""), outcome.out
        for row in ("groups", "time") if "known once" not in said else ("forwards",):
            assert row in said.split()
    assert forwards == {"encode": [], "log_probs": []}


@pytest.mark.parametrize(
    ("gate", "mend"),
    [
        ("systematic_error[group=dialect=nort].low > 0", "group can be: dialect=north"),
        ("systematic_error[layer=1].low > 0", "layer can be: 0"),
        ("accuracy[training=inn] > 0", "training can be: in"),
        ("variance_accuracy_correlation[unit=people] > 0", "unit can be: "),
        ("systematic[layer=0] > 0", "There are: accuracy, systematic_error"),
    ],
)
def test_a_gate_that_nothing_can_meet_is_refused_before_anything_runs(
    planted: Planted, call_miles: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gate: str, mend: str
) -> None:
    from audits.core import runner

    def refuse(*_: Any) -> None:
        raise AssertionError("the audit was run")

    monkeypatch.setattr(runner, "carry_out", refuse)
    outcome = call_miles(*planted.command("--fail-if", gate, "--out", tmp_path / "run"))
    assert outcome.code == 2 and mend in flat(outcome.err), outcome.err
    assert not (tmp_path / "run").exists()


# Every form of the same data.
@pytest.fixture(scope="session")
def plain(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Return the estimates of the tokens, computed without the command line and without what it keeps."""
    from audits.core.context import Cache, Context
    from audits.core.testing import drafted
    from audits.phoneme_errors import AUDIT, Options, figures

    options = Options(
        tokens=str(planted.file), by=("dialect", "sex"), bootstrap=200, permutations=100, folds=3, repeats=1
    )
    context = Context(cache=Cache(tmp_path_factory.mktemp("unused")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "figures", lambda *_: [])
        rows = (asdict(row) for row in drafted(AUDIT, options, context).estimates)
        return [{key: item for key, item in row.items() if key != "measure"} for row in rows]


def test_a_run_without_the_command_line_gives_the_same(done: Path, plain: list[Row]) -> None:
    assert read(done)["estimates"] == plain


Form = Callable[[Path, Planted], list[str]]


def table(name: str, delimiter: str) -> Form:
    return lambda folder, planted: [str(write(folder / name, planted.rows, delimiter))]


def lines(folder: Path, planted: Planted) -> list[str]:
    text = "".join(json.dumps(row) + "\n" for row in planted.rows)
    (folder / "tokens.jsonl").write_text(text, encoding="utf-8")
    return [str(folder / "tokens.jsonl")]


def renamed(folder: Path, planted: Planted) -> list[str]:
    names = {"phone": "sound", "speaker": "who", **{name: f"f{number}" for number, name in enumerate(FEATURES)}}
    rows = [{names.get(key, key): item for key, item in row.items()} for row in planted.rows]
    told = ["--phone-col", "sound", "--speaker-col", "who", "--features", "f0..f2,f3"]
    return [str(write(folder / "tokens.csv", rows)), *told]


def archive(pack: Callable[[np.ndarray], dict[str, np.ndarray]], save: Any = np.savez) -> Form:
    def make(folder: Path, planted: Planted) -> list[str]:
        save(folder / "tokens.npz", **planted.labels, **pack(planted.vectors))
        return [str(folder / "tokens.npz")]

    return make


FORMS: dict[str, Form] = {
    "TSV": table("tokens.tsv", "\t"),
    "JSON lines": lines,
    "other names": renamed,
    "features": archive(lambda x: {"features": x}),
    "features in double precision": archive(lambda x: {"features": x.astype(np.float64)}),
    "features, compressed": archive(lambda x: {"features": x}, np.savez_compressed),
    "features of one layer": archive(lambda x: {"features": x[None]}),
    "layer_0": archive(lambda x: {"layer_0": x}),
    "an array a feature": archive(lambda x: {name: x[:, place] for place, name in enumerate(FEATURES)}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_tokens_gives_the_same_numbers(
    planted: Planted, plain: list[Row], quick: Any, tmp_path: Path, form: str
) -> None:
    file, *told = FORMS[form](tmp_path, planted)
    folder = quick(*planted.command(*told, file=file))
    assert read(folder)["estimates"] == plain
    assert read(folder)["data"][0]["path"] == file


@pytest.fixture
def two_layers(planted: Planted, tmp_path: Path) -> Path:
    """Return the tokens in two layers, the second one turned and noisy."""
    second = planted.vectors[:, ::-1] + np.random.default_rng(2).normal(size=planted.vectors.shape)
    np.savez(tmp_path / "two.npz", **planted.labels, features=np.stack([planted.vectors, second.astype(np.float32)]))
    return tmp_path / "two.npz"


def test_layers_are_the_same_in_one_array_and_in_many(
    planted: Planted, plain: list[Row], two_layers: Path, quick: Any, tmp_path: Path
) -> None:
    one = quick(*planted.command(file=two_layers), name="one")
    with np.load(two_layers) as arrays:
        first, second = arrays["features"]
    np.savez(tmp_path / "many.npz", layer_1=second, **planted.labels, layer_0=first)
    assert read(quick(*planted.command(file=tmp_path / "many.npz"), name="many"))["estimates"] == read(one)["estimates"]
    np.savez(tmp_path / "numbered.npz", **planted.labels, features=np.stack([second, first]), layers=np.array([1, 0]))
    numbered = read(quick(*planted.command(file=tmp_path / "numbered.npz"), name="numbered"))["estimates"]
    for name in ("accuracy", "random_error", "systematic_error"):
        for layer in (0, 1):
            assert matching(numbered, name, layer=layer) == estimates(one, name, layer=layer) != []
        assert estimates(one, name, layer=0) == matching(plain, name)
    assert value(one, "accuracy", layer=1, group="all") < value(one, "accuracy", layer=0, group="all")


def test_layers_can_be_chosen(planted: Planted, two_layers: Path, quick: Any) -> None:
    both = quick(*planted.command(file=two_layers), name="both")
    alone = quick(*planted.command("--layers", "1", file=two_layers), name="alone")
    assert {row["where"]["layer"] for row in read(alone)["estimates"]} == {1}
    for name in ("accuracy", "random_error", "systematic_error", "variance_accuracy_correlation"):
        assert estimates(alone, name) == estimates(both, name, layer=1) != []


def seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g}"


def per_clip(spoken: Spoken, folder: Path, suffix: str, text: Callable[[list[tuple[int, int, str]]], str]) -> Path:
    for name, marks in spoken.marks.items():
        path = folder / Path(name).with_suffix(suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(marks), encoding="utf-8")
    return folder


def as_tables(spoken: Spoken, folder: Path) -> Path:
    def text(marks: list[tuple[int, int, str]]) -> str:
        return "start,end,phone\n" + "".join(f"{seconds(a)},{seconds(b)},{phone}\n" for a, b, phone in marks)

    return per_clip(spoken, folder, ".csv", text)


def as_grids(spoken: Spoken, folder: Path) -> Path:
    def text(marks: list[tuple[int, int, str]]) -> str:
        head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 9\ntiers? <exists>\nsize = 2\n'
        tiers = ""
        for name, content in (("words", [(0, marks[-1][1], "a k")]), ("phones", marks)):
            tiers += f'item []:\nitem [1]:\nclass = "IntervalTier"\nname = "{name}"\nxmin = 0\nxmax = 9\n'
            tiers += f"intervals: size = {len(content)}\n"
            for a, b, phone in content:
                tiers += f'intervals [1]:\nxmin = {seconds(a)}\nxmax = {seconds(b)}\ntext = "{phone}"\n'
        return head + tiers

    return per_clip(spoken, folder, ".TextGrid", text)


def as_samples(spoken: Spoken, folder: Path) -> Path:
    def text(marks: list[tuple[int, int, str]]) -> str:
        return "".join(f"{16 * a} {16 * b} {'h#' if phone == 'sil' else phone}\n" for a, b, phone in marks)

    return per_clip(spoken, folder, ".PHN", text)


def as_ctm(spoken: Spoken, folder: Path) -> Path:
    text = "".join(
        f"{Path(name).stem} 1 {seconds(a)} {seconds(b - a)} {phone} 0.9\n"
        for name, marks in spoken.marks.items() for a, b, phone in marks
    )  # fmt: skip
    folder.mkdir()
    (folder / "all.ctm").write_text(f";; of all clips\n{text}", encoding="utf-8")
    return folder / "all.ctm"


def as_one_table(spoken: Spoken, folder: Path) -> Path:
    folder.mkdir()
    rows = [
        {"path": name, "start": seconds(a), "end": seconds(b), "phone": phone}
        for name, marks in spoken.marks.items() for a, b, phone in marks
    ]  # fmt: skip
    return write(folder / "all.csv", rows)


ALIGNMENTS = {"TextGrid": as_grids, "PHN": as_samples, "CTM": as_ctm, "one table": as_one_table}


@pytest.mark.parametrize("form", ALIGNMENTS)
def test_every_form_of_alignments_gives_the_same_numbers(
    spoken: Spoken, heard: Path, quick: Any, tmp_path: Path, form: str
) -> None:
    made = ALIGNMENTS[form](spoken, tmp_path / "other")
    folder = quick(*spoken.command("--alignments", made))
    assert read(folder)["estimates"] == read(heard)["estimates"]
    assert records(folder) == records(heard)
    assert read(folder)["data"][2]["items"] == (1 if made.is_file() else 60)


def test_other_times_give_other_numbers(spoken: Spoken, heard: Path, quick: Any, tmp_path: Path) -> None:
    """Else the equality of the forms would say nothing."""
    later = {name: [(a + 5, b + 5, phone) for a, b, phone in marks] for name, marks in spoken.marks.items()}
    made = as_tables(Spoken(spoken.world, spoken.folder, later), tmp_path / "later")
    folder = quick(*spoken.command("--alignments", made))
    one, other = ([row["value"] for row in estimates(run, "random_error")] for run in (folder, heard))
    assert all(abs(a - b) > 1e-6 for a, b in zip(one, other, strict=True))


def test_phones_can_be_joined_and_left_out(spoken: Spoken, quick: Any, tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text("from,to\ne,a\nt,\n", encoding="utf-8")
    folder = quick(*spoken.listening("--phone-map", tmp_path / "map.csv"))
    said = [phone for marks in spoken.marks.values() for *_, phone in marks]
    assert read(folder)["coverage"]["used"] == sum(phone not in ("sil", "t") for phone in said)
    assert {int(row["phones"]) for row in records(folder)} == {3}


# Phones that a checkpoint places.
def test_a_checkpoint_places_the_phones_that_were_said(
    spoken: Spoken, quick: Any, forwards: dict[str, list[int]], tmp_path: Path
) -> None:
    model = save_model(spoken.world.model, tmp_path / "model", 21)
    folder = quick(*spoken.placing(model=model, manifest=spoken.said(tmp_path / "said.csv")))
    report = read(folder)
    assert {"phonemes.own-alignment", "phonemes.letters"} & set(warned(folder)) == {"phonemes.own-alignment"}
    assert "not by people" in warned(folder)["phonemes.own-alignment"]
    tokens = sum(len(marks) - 1 for marks in spoken.marks.values())
    assert report["coverage"] == {"given": tokens, "used": tokens, "skipped": []}
    assert [source["role"] for source in report["data"]] == ["manifest", "recordings", "aligner"]
    assert {row["where"]["layer"] for row in estimates(folder, "accuracy")} == LAYERS
    assert (sum(forwards["encode"]), sum(forwards["log_probs"])) == (60, 60)


def test_the_phones_that_were_placed_can_be_read_again(spoken: Spoken, quick: Any, tmp_path: Path) -> None:
    manifest = spoken.said(tmp_path / "said.csv")
    folder = quick(*spoken.placing(manifest=manifest), name="placed")
    assert files(folder) == {"report.json", "records.csv", "alignments.csv"}
    with (folder / "alignments.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    phones = [phone for marks in spoken.marks.values() for *_, phone in marks if phone != "sil"]
    assert sorted(row["phone"] for row in rows) == sorted(phones)
    again = quick(*spoken.command("--alignments", folder / "alignments.csv", manifest=manifest), name="again")
    assert "phonemes.own-alignment" not in warned(again)
    for name in ("accuracy", "random_error"):
        for one, other in zip(estimates(again, name), estimates(folder, name), strict=True):
            assert one["where"] == other["where"] and one["value"] == pytest.approx(other["value"], abs=0.01)


def test_letters_are_placed_where_no_phones_are_told_and_the_report_says_so(spoken: Spoken, quick: Any) -> None:
    folder = quick(*spoken.placing())
    told = warned(folder)
    assert {"phonemes.own-alignment", "phonemes.letters"} <= set(told) and "--phones-col" in told["phonemes.letters"]
    letters = sum(len(row["text"].replace(" ", "")) for row in spoken.world.rows())
    assert read(folder)["coverage"]["given"] == letters


def test_letters_that_the_head_lacks_are_counted(spoken: Spoken, quick: Any, tmp_path: Path) -> None:
    rows = [{**row, "text": f"{row['text']} zz"} for row in spoken.world.rows()]
    folder = quick(*spoken.placing(manifest=spoken.world.write(tmp_path / "more.csv", rows)))
    assert "120 letters" in warned(folder)["phonemes.unknown-letters"]


def test_transcripts_without_room_are_counted(spoken: Spoken, quick: Any, tmp_path: Path) -> None:
    rows = spoken.world.rows()
    rows[7]["text"] *= 20
    folder = quick(*spoken.placing(manifest=spoken.world.write(tmp_path / "long.csv", rows)))
    coverage = read(folder)["coverage"]
    assert coverage["skipped"] == [{"reason": "clip: the transcript has no room in the sound", "count": 1}]
    assert coverage["given"] == coverage["used"] + 1


# What is dear is done once.
def test_each_clip_is_heard_once_whatever_is_asked_later(
    spoken: Spoken, quick: Any, forwards: dict[str, list[int]], tmp_path: Path
) -> None:
    model = save_model(spoken.world.model, tmp_path / "model", 22)
    first = quick(*spoken.listening("--layers", "0", model=model), name="first")
    assert sum(forwards["encode"]) == 60 and not forwards["log_probs"]
    forwards["encode"].clear()
    for place, words in enumerate(
        (
            spoken.listening("--layers", "0", "--seed", "1", model=model),
            spoken.listening("--layers", "0", model=model, by="accent"),
            spoken.listening("--layers", "0,3", "--probe", "discriminant", model=model),
            spoken.listening("--layers", "0", "--level", "0.9", model=model),
        )
    ):
        other = quick(*words, name=f"other{place}")
        assert estimates(other, "accuracy") != estimates(first, "accuracy")
    assert forwards["encode"] == []


def test_a_run_with_other_statistics_reads_no_layer_again(
    planted: Planted, quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audits.phoneme_errors import layers

    first = quick(*planted.command("--seed", "5"), name="first")

    def refuse(*_: Any, **named: Any) -> None:
        raise AssertionError("a layer was read")

    monkeypatch.setattr(layers, "fit_and_count", refuse)
    more = ("--seed", "5", "--level", "0.8", "--bootstrap", "300", "--permutations", "150")
    assert estimates(quick(*planted.command(*more), name="other"), "accuracy") != estimates(first, "accuracy")
    with pytest.raises(AssertionError, match="a layer was read"):
        quick(*planted.command("--seed", "6"), name="third")


def test_a_run_cut_short_while_it_listens_goes_on_where_it_was(
    spoken: Spoken, quick: Any, call_miles: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from probes.speech.activations import SpeechEncoder

    class Killed(BaseException):
        """Stands for a kill: nothing that tidies up after errors may notice it."""

    model = save_model(spoken.world.model, tmp_path / "model", 23)
    words = spoken.listening("--layers", "2", model=model)
    heard: list[int] = []
    encode, left = SpeechEncoder.encode, [4]

    def counted(self: Any, waves: Any) -> Any:
        if len(heard) == left[0]:
            raise Killed
        heard.append(len(waves))
        return encode(self, waves)

    monkeypatch.setattr(SpeechEncoder, "encode", counted)
    with pytest.raises(Killed):
        call_miles(*words, "--out", tmp_path / "run", "--quiet")
    assert not (tmp_path / "run" / "report.json").exists() and 0 < sum(heard) < 60
    left[0] = -1
    folder = quick(*words)
    assert sum(heard) == 60
    assert stripped(folder) == stripped(quick(*words, name="whole")) and sum(heard) == 60


# Two encoders.
DIFFERENCES = ("accuracy_difference", "systematic_error_difference", "random_error_difference")


def test_the_same_tokens_twice_differ_in_nothing(planted: Planted, plain: list[Row], quick: Any) -> None:
    folder = quick(*planted.command("--against", planted.file))
    for name in DIFFERENCES:
        assert all(row["value"] == 0 for row in estimates(folder, name))
        assert estimates(folder, name) or name in " ".join(w["message"] for w in read(folder)["warnings"])
    for name in ("accuracy", "systematic_error", "random_error"):
        rows = estimates(folder, f"against_{name}")
        assert [{**row, "name": name} for row in rows] == matching(plain, name) == estimates(folder, name) != []
    assert "phonemes.moved" not in {finding["id"] for finding in read(folder)["findings"]}


def test_a_second_file_is_compared_token_by_token(
    planted: Planted, plain: list[Row], quick: Any, tmp_path: Path
) -> None:
    def mended(rows: list[Row]) -> None:
        # After the change the phones of the south are where those of the north are.
        north = [row for row in rows if row["dialect"] == "north"]
        for row, model in zip((row for row in rows if row["dialect"] == "south"), north, strict=True):
            row.update({name: model[name] + 0.01 * len(row["speaker"]) for name in FEATURES})

    after = planted.changed(tmp_path / "after.csv", mended)
    folder = quick(*planted.command("--against", after))
    alone = quick(*planted.command(file=after), name="alone")
    for name in ("accuracy", "systematic_error", "random_error"):
        first, second = estimates(folder, name), estimates(folder, f"against_{name}")
        assert [{**row, "name": name} for row in second] == estimates(alone, name)
        assert first == matching(plain, name)
        for one, other in zip(first, second, strict=True):
            rows = estimates(folder, f"{name}_difference", **one["where"])
            assert len(rows) <= 1 and all(
                row["value"] == pytest.approx(other["value"] - one["value"]) and row["low"] < row["high"]
                and "paired" in row["method"] for row in rows
            )  # fmt: skip
    (south,) = estimates(folder, "systematic_error_difference", group="dialect=south")
    assert south["high"] < 0
    moved = [finding["where"]["group"] for finding in read(folder)["findings"] if finding["id"] == "phonemes.moved"]
    assert "dialect=south" in moved
    assert [source["role"] for source in read(folder)["data"]] == ["tokens", "tokens compared"]


def test_a_second_encoder_is_compared_on_the_same_phones(
    spoken: Spoken, heard: Path, quick: Any, forwards: dict[str, list[int]], tmp_path: Path
) -> None:
    other = save_model(spoken.world.model, tmp_path / "other", 24)
    folder = quick(*spoken.listening("--against", other))
    assert sum(forwards["encode"]) in (60, 120)
    alone = quick(*spoken.listening(model=other), name="alone")
    for name in ("accuracy", "systematic_error", "random_error"):
        assert estimates(folder, name) == estimates(heard, name)
        rows = estimates(folder, f"against_{name}")
        assert [{**row, "name": name} for row in rows] == estimates(alone, name) != estimates(folder, name)
        assert {row["where"]["layer"] for row in estimates(folder, f"{name}_difference")} == LAYERS
    same = quick(*spoken.listening("--against", spoken.world.model), name="same")
    assert all(row["value"] == 0 for name in DIFFERENCES for row in estimates(same, name))


def test_another_order_of_tokens_is_refused(planted: Planted, call_miles: Call, tmp_path: Path) -> None:
    other = planted.changed(tmp_path / "other.csv", lambda rows: rows[::-1])
    outcome = call_miles(*planted.command("--against", other, "--out", tmp_path / "run"))
    assert outcome.code == 2 and not (tmp_path / "run").exists()
    assert "Both files need the same tokens in the same order" in flat(outcome.err)


# What was left out.
def test_tokens_that_cannot_be_used_are_counted(planted: Planted, quick: Any, call_miles: Call, tmp_path: Path) -> None:
    def spoil(rows: list[Row]) -> None:
        rows[3]["phone"], rows[4]["phone"], rows[5]["speaker"] = "", "NA", "unknown"
        for place, wrong in zip((10, 11, 12), ("", "nan", "inf"), strict=True):
            rows[place]["x1"] = wrong
        for row in rows[20:27]:
            row["phone"] = "rare"

    file = planted.changed(tmp_path / "spoilt.csv", spoil)
    refused = call_miles(*planted.command("--out", tmp_path / "no", file=file))
    assert refused.code == 2 and f"{file}:5, column phone".replace(" ", "") in flat(refused.err).replace(" ", "")
    folder = quick(*planted.command("--on-bad", "skip", file=file))
    coverage = read(folder)["coverage"]
    assert {skip["reason"]: skip["count"] for skip in coverage["skipped"]} == {
        "no phone": 2, "no speaker": 1, "a feature is missing or no finite number": 3,
        "phone not shared by all compared groups": 7,
    }  # fmt: skip
    assert coverage["given"] == len(planted.rows) and coverage["used"] == len(planted.rows) - 13
    assert sum(int(row["tokens"]) for row in records(folder)) == coverage["used"]
    assert "rare" in warned(folder)["phones-not-shared"]


def test_tokens_in_parquet_give_the_figures_of_the_same_csv_file(
    planted: Planted, quick: Any, call_miles: Call, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(list(planted.rows)), tmp_path / "tokens.parquet")
    runs = [
        read(quick(*planted.command(file=file), name=name))
        for name, file in (("parquet", tmp_path / "tokens.parquet"), ("csv", planted.file))
    ]
    for part in ("estimates", "findings", "warnings", "coverage"):
        assert runs[0][part] == runs[1][part]
    plan = call_miles(*planted.command("--bin", "age=0,30", file=tmp_path / "tokens.parquet", by=("sex", "age")),
                      "--dry-run").out  # fmt: skip
    people = len({row["speaker"] for row in planted.rows})
    assert f"Columns are read as: phone: the phone, {PHONES} of them; speaker: the speaker, {people} of them; " in plan
    assert "sex: 2 levels; age: a number in bins, 2 levels; x0" in plan and "numbers." in plan


def test_clips_that_cannot_be_used_are_counted(spoken: Spoken, quick: Any, call_miles: Call, tmp_path: Path) -> None:
    aligned = Path(shutil.copytree(spoken.aligned, tmp_path / "aligned"))
    (aligned / "clips" / "s01-0.csv").unlink()
    (aligned / "clips" / "s01-1.csv").unlink()
    (aligned / "clips" / "s02-0.csv").write_text("start,end,phone\n0,0.2,sil\n", encoding="utf-8")
    rows = spoken.world.rows()
    (tmp_path / "noise.wav").write_bytes(b"RIFF no sound at all")
    rows[9]["path"] = str(tmp_path / "noise.wav")
    rows[12]["speaker"] = ""
    words = spoken.command("--alignments", aligned, manifest=spoken.world.write(tmp_path / "spoilt.csv", rows))
    assert call_miles(*words, "--out", tmp_path / "no").code == 2
    planned = call_miles(*words, "--on-bad", "skip", "--dry-run").out
    assert (
        f"5 of {len(rows)} clips are left out (2 no alignment, 1 no phone is left of the alignment, 1 no speaker, "
        "1 unreadable recording):" in planned
    )
    assert f"line 11 ({tmp_path / 'noise.wav'}): The file cannot be read as sound" in planned
    assert "clips/s01-0.wav): no alignment" in planned
    folder = quick(*words, "--on-bad", "skip")
    coverage = read(folder)["coverage"]
    assert {skip["reason"]: skip["count"] for skip in coverage["skipped"]} == {
        "clip: no alignment": 2, "clip: no phone is left of the alignment": 1, "clip: unreadable recording": 1,
        "clip: no speaker": 1,
    }  # fmt: skip
    lost = ("clips/s01-0.wav", "clips/s01-1.wav", "clips/s02-0.wav", "clips/s03-0.wav", "clips/s04-0.wav")
    used = sum(len(marks) - 1 for name, marks in spoken.marks.items() if name not in lost)
    assert (coverage["given"], coverage["used"]) == (used + 5, used)
    assert sum(int(row["tokens"]) for row in records(folder)) == used


# What the options do.
def test_a_rare_phone_counts_as_much_as_a_common_one_if_it_shall(planted: Planted, quick: Any, tmp_path: Path) -> None:
    """One phone is said four times as often and always read; the other two are the same noise."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(24):
        for phone, place, times in (("often", 50.0, 8), ("one", 0.0, 2), ("other", 0.0, 2)):
            row: Row = {"phone": phone, "speaker": f"s{number}", "dialect": LEVELS[number % 2], "sex": "f"}
            rows += [{**row, "x0": place + rng.normal(), "x1": rng.normal()} for _ in range(times)]
    file = write(tmp_path / "unequal.csv", rows)
    for place, (words, truth) in enumerate(
        (((), (8 + 2) / 12), (("--weights", "phones"), (1 + 0.5 + 0.5) / 3)),
    ):
        folder = quick(*planted.command(*words, file=file, by=("dialect",)), name=f"run{place}")
        assert value(folder, "accuracy", group="all") == pytest.approx(truth, abs=0.06)


def test_probes_differ_and_the_report_names_the_one_that_read(planted: Planted, quick: Any) -> None:
    runs = {
        probe: quick(*planted.command("--probe", probe), name=probe) for probe in ("auto", "logistic", "discriminant")
    }
    assert estimates(runs["auto"], "accuracy") == estimates(runs["logistic"], "accuracy")
    assert estimates(runs["discriminant"], "accuracy") != estimates(runs["logistic"], "accuracy")
    for probe in ("logistic", "discriminant"):
        assert estimates(runs[probe], "random_error") == estimates(runs["auto"], "random_error")
        assert value(runs[probe], "systematic_error", group="dialect=south") > 0.1
    # With auto, nobody could tell from the settings.
    said = {key: part for key, part in read(runs["auto"]).items() if key not in ("settings", "provenance")}
    assert "logistic" in json.dumps(said) or "softmax" in json.dumps(said)


def test_layers_of_an_encoder_can_be_chosen(spoken: Spoken, heard: Path, quick: Any) -> None:
    folder = quick(*spoken.listening("--layers", "0,2"))
    assert {row["where"]["layer"] for row in read(folder)["estimates"]} == {0, 2}
    for name in ("accuracy", "systematic_error", "random_error"):
        for layer in (0, 2):
            assert estimates(folder, name, layer=layer) == estimates(heard, name, layer=layer) != []


def test_logarithms_undo_exponentials(planted: Planted, plain: list[Row], quick: Any, tmp_path: Path) -> None:
    def raise_(rows: list[Row]) -> None:
        for row in rows:
            row.update({name: math.exp(row[name]) for name in FEATURES})

    raised = planted.changed(tmp_path / "raised.csv", raise_)
    folder = quick(*planted.command("--transform", "log", file=raised))
    found = read(folder)["estimates"]
    assert [(row["name"], row["where"]) for row in found] == [(row["name"], row["where"]) for row in plain]
    for name in ("accuracy", "random_error"):
        for one, other in zip(matching(found, name), matching(plain, name), strict=True):
            assert one["value"] == pytest.approx(other["value"], rel=1e-5)
    bare = quick(*planted.command(file=raised), name="bare")
    assert estimates(bare, "random_error") != matching(found, "random_error")


def test_bins_and_values_make_the_groups(planted: Planted, quick: Any, tmp_path: Path) -> None:
    text = "column,from,to\nsex,f,female\nsex,m,male\ndialect,west,rest\ndialect,north,rest\n"
    (tmp_path / "map.csv").write_text(text, encoding="utf-8")
    words = ("--bin", "age=0,30,40", "--values", tmp_path / "map.csv")
    folder = quick(*planted.command(*words, by=("age", "sex", "dialect")))
    assert ("value map", 4) in [(one["role"], one["items"]) for one in read(folder)["data"]]
    groups = {row["where"]["group"]: row["n"] for row in estimates(folder, "systematic_error")}
    assert groups == {
        "age=0-29": 12, "age=30-39": 12, "age=40+": 12, "sex=female": 18, "sex=male": 18, "dialect=rest": 24,
        "dialect=south": 12,
    }  # fmt: skip


def test_attributes_are_crossed_and_small_groups_told_of(planted: Planted, quick: Any) -> None:
    crossed = quick(*planted.command("--max-order", "2", "--min-speakers", "6"), name="crossed")
    groups = {row["where"]["group"] for row in estimates(crossed, "systematic_error")}
    assert {"dialect=south&sex=f", "dialect=south", "sex=f"} <= groups and len(groups) == 3 + 2 + 6
    small = quick(*planted.command("--min-speakers", "13"), name="small")
    assert {row["where"]["group"] for row in estimates(small, "systematic_error")} == {"sex=f", "sex=m"}
    told = [warning for warning in read(small)["warnings"] if warning["id"] == "small-group"]
    assert [warning["where"]["group"] for warning in told] == [f"dialect={level}" for level in LEVELS]


def test_one_level_leaves_the_accuracy_of_everyone(planted: Planted, quick: Any, tmp_path: Path) -> None:
    alone = planted.changed(tmp_path / "alone.csv", lambda rows: [row for row in rows if row["dialect"] == "north"])
    folder = quick(*planted.command(file=alone, by=("dialect",)))
    rows = read(folder)["estimates"]
    assert {"accuracy", "variance_accuracy_correlation"} <= {row["name"] for row in rows}
    assert [(row["name"], row["where"]["group"]) for row in rows if "group" in row["where"]] == [("accuracy", "all")]
    assert "phonemes.nothing-compared" in {finding["id"] for finding in read(folder)["findings"]}


# Commands around a run.
def test_show_compare_render_and_list(planted: Planted, done: Path, quick: Any, call_miles: Call) -> None:
    shown = call_miles("show", done)
    assert shown.code == 0 and "Phones of south speakers (dialect) lie elsewhere" in flat(shown.out)
    other = quick(*planted.command("--seed", "1"), name="other")
    compared = call_miles("compare", done, other, "--all")
    assert compared.code == 0 and "south" in compared.out and "accuracy" in compared.out
    assert call_miles("compare", done, done).code == 0
    assert "audit-phonemes" in call_miles("list").out


def test_a_regression_fails_only_when_asked(done: Path, call_miles: Call, tmp_path: Path) -> None:
    worse = Path(shutil.copytree(done, tmp_path / "worse"))
    report = read(worse)
    for row in report["estimates"]:
        if row["name"] == "systematic_error" and row["where"]["group"] == "sex=f":
            row.update({end: row[end] + 5 for end in ("value", "low", "high")})
    (worse / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert call_miles("compare", done, worse).code == 0
    assert call_miles("compare", done, worse, "--fail-on-regression").code == 1
    assert call_miles("compare", worse, done, "--fail-on-regression").code == 0


def test_recordings_that_ffmpeg_decodes_are_counted_with_its_version(
    spoken: Spoken, call_miles: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(stand_in(tmp_path / "bin").parent), prepend=os.pathsep)
    rows = spoken.world.rows()
    for row in rows[:2]:
        name = Path(row["path"]).with_suffix(".m4a").name
        row["path"] = str(as_m4a(spoken.world.folder / row["path"], tmp_path / name))
    manifest = spoken.world.write(tmp_path / "clips.csv", rows)
    outcome = call_miles(*spoken.placing(manifest=manifest), "--dry-run")
    assert outcome.code == 0 and "2 clips were decoded by ffmpeg 9.9" in flat(outcome.out), outcome.err
