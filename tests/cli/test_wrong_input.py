"""Does every wrong input end in one panel that says what is wrong, and in nothing else?"""

import json
import os
import pickle
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import HTML, POINTER, Table, Words, nothing_runs, one_panel

CASES = Table()
case = CASES.case


def simple(name: str, says: str, *words: Any) -> None:
    """Register a wrong value of an option."""
    CASES.add(name, says, lambda world, _: world.command(*words))


def with_rows(world: Any, folder: Path, change: Callable[[list[dict[str, str]]], Any], *more: Any) -> Words:
    """Return a run whose manifest was changed."""
    rows = world.rows()
    rows = change(rows) or rows
    words = world.command(*more)
    words[words.index("--manifest") + 1] = str(world.write(folder / "wrong.csv", rows))
    return words


def with_text(world: Any, folder: Path, content: str | bytes, name: str = "wrong.csv") -> Words:
    """Return a run whose manifest has this content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    words = world.command()
    words[words.index("--manifest") + 1] = str(path)
    return words


def with_clip(world: Any, folder: Path, content: bytes) -> Words:
    """Return a run of which one clip has this content."""
    clip = folder / "bad.wav"
    clip.write_bytes(content)

    def change(rows: list[dict[str, str]]) -> None:
        rows[7]["path"] = str(clip)

    words = with_rows(world, folder, change)
    return [*words, "--audio-root", folder]


def with_model(world: Any, folder: Path, change: Callable[[Path], Any]) -> Words:
    """Return a run whose model folder was changed."""
    model = Path(shutil.copytree(world.model, folder / "model"))
    change(model)
    words = world.command()
    words[1] = str(model)
    return words


def with_config(world: Any, folder: Path, content: str) -> Words:
    path = folder / "audit.toml"
    path.write_text(content, encoding="utf-8")
    return world.command("--config", path)


def without(world: Any, flag: str, values: int) -> Words:
    words = world.command()
    at = words.index(flag)
    return words[:at] + words[at + 1 + values :]


# The manifest.
@case("--by")
def missing_column(world: Any, folder: Path) -> Words:
    words = world.command()
    words[words.index("accent")] = "acent"
    return words


@case("no such file")
def missing_manifest(world: Any, folder: Path) -> Words:
    words = world.command()
    words[words.index("--manifest") + 1] = str(folder / "nowhere.csv")
    return words


@case("is a folder")
def manifest_is_a_folder(world: Any, folder: Path) -> Words:
    words = world.command()
    words[words.index("--manifest") + 1] = str(folder)
    return words


@case("--manifest is missing")
def no_manifest(world: Any, folder: Path) -> Words:
    return without(world, "--manifest", 1)


@case("--by is missing")
def no_by(world: Any, folder: Path) -> Words:
    return without(world, "--by", 2)


@case("MODEL is missing")
def no_model(world: Any, folder: Path) -> Words:
    # After a list the last word is taken for the model, so the list is written with a comma here.
    return ["audit-fairness", "--manifest", world.manifest, "--by", "gender,accent"]


@case("empty")
def empty_manifest(world: Any, folder: Path) -> Words:
    return with_text(world, folder, "")


@case("no rows")
def header_only(world: Any, folder: Path) -> Words:
    return with_text(world, folder, "path,speaker,text,gender,accent\n")


@case("NUL")
def nul_bytes(world: Any, folder: Path) -> Words:
    return with_text(world, folder, b"path,speaker,text,gender,accent\na.wav,s\0,up,f,n\n")


@case("UTF-8")
def latin_1(world: Any, folder: Path) -> Words:
    return with_text(world, folder, "path,speaker,text,gender,accent\na.wav,sé,up,f,n\n".encode("latin-1"))


@case("fields")
def ragged_row(world: Any, folder: Path) -> Words:
    return with_text(world, folder, "path,speaker,text,gender,accent\na.wav,s\n")


@case("JSON")
def broken_json_lines(world: Any, folder: Path) -> Words:
    return with_text(world, folder, '{"path": "a.wav",\n', "wrong.jsonl")


@case("twice")
def duplicate_path(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: [*rows, rows[0]])


@case("out of its folder")
def path_escape(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: rows[3].update(path="../../etc/passwd"))


def _bad_rows(rows: list[dict[str, str]]) -> None:
    rows[2]["path"], rows[3]["path"], rows[5]["path"], rows[7]["path"] = "", "../x.wav", "clips/nobody.wav", ""


@case(
    "4 of 60 clips cannot be used",
    "line 4: The row names no recording",
    "line 5 (../x.wav): The path leads out",
    "nobody.wav): There is no such file",
    "line 9: The row names no",
    "not: left out with",
)
def rows_that_name_nothing_to_open(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, _bad_rows)


@case(
    "4 of 60 clips cannot be used",
    "line 4: The row names no",
    "The path of line 5 (../x.wav) leads out",
    "never left out",
)
def path_escape_where_bad_clips_are_skipped(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, _bad_rows, "--on-bad-clip", "skip")


@case("empty")
def empty_text(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: rows[4].update(text="?!"))


@case("one level")
def one_group_only(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: [row.update(gender="female") for row in rows] and None)


@case("no known level")
def unknown_group_only(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: [row.update(gender="NA") for row in rows] and None)


@case("speaker")
def one_speaker_only(world: Any, folder: Path) -> Words:
    def change(rows: list[dict[str, str]]) -> None:
        for place, row in enumerate(rows):
            row.update(speaker="s00", gender=("f", "m")[place % 2])

    return with_rows(world, folder, change)


@case("speaker")
def no_speaker_named(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: [row.update(speaker="") for row in rows] and None)


@case("folds")
def fewer_speakers_than_folds(world: Any, folder: Path) -> Words:
    words = with_rows(world, folder, lambda rows: rows[:12])
    words[words.index("--folds") + 1] = "5"
    return words


# The recordings.
@case("no such file")
def missing_clip(world: Any, folder: Path) -> Words:
    return with_rows(world, folder, lambda rows: rows[5].update(path="clips/nobody.wav"))


@case(
    "3 of 60 clips cannot be used",
    "line 4 ",
    "empty after",
    "line 7 (",
    "nobody.wav): There is no such file",
    "line 9",
    "--on-bad-clip skip",
)
def several_bad_clips(world: Any, folder: Path) -> Words:
    def change(rows: list[dict[str, str]]) -> None:
        rows[2]["text"], rows[5]["path"], rows[7]["speaker"] = "?!", "clips/nobody.wav", ""

    return with_rows(world, folder, change)


@case("empty")
def zero_byte_clip(world: Any, folder: Path) -> Words:
    return with_clip(world, folder, b"")


@case("cannot be read as sound")
def unreadable_clip(world: Any, folder: Path) -> Words:
    return with_clip(world, folder, bytes(range(256)) * 8)


@case("web page")
def page_as_clip(world: Any, folder: Path) -> Words:
    return with_clip(world, folder, HTML.encode())


@case("LFS")
def pointer_as_clip(world: Any, folder: Path) -> Words:
    return with_clip(world, folder, POINTER.encode())


@case("cut off")
def clip_cut_off(world: Any, folder: Path) -> Words:
    whole = (world.folder / "clips" / "s00-0.wav").read_bytes()
    return with_clip(world, folder, whole[: len(whole) // 2])


@case("no samples")
def clip_without_samples(world: Any, folder: Path) -> Words:
    import numpy as np
    import soundfile

    soundfile.write(folder / "none.wav", np.zeros(0, dtype=np.float32), 16000)
    return with_clip(world, folder, (folder / "none.wav").read_bytes())


# The model.
@case("pickle")
def pickle_as_model(world: Any, folder: Path) -> Words:
    (folder / "model.pkl").write_bytes(pickle.dumps({"weights": [1.0]}))
    words = world.command()
    words[1] = str(folder / "model.pkl")
    return words


class Trap:
    """An object that leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


@case("refused")
def pickle_with_code_as_weights(world: Any, folder: Path) -> Words:
    def change(model: Path) -> None:
        (model / "model.safetensors").unlink()
        (model / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(folder / "trace"), protocol=2))

    return with_model(world, folder, change)


@case("config.json")
def model_without_config(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "config.json").unlink())


@case("weights")
def model_without_weights(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "model.safetensors").unlink())


@case("JSON")
def config_is_not_json(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "config.json").write_text("{model_type: wav2vec2"))


@case("vocab.json")
def vocabulary_is_not_json(world: Any, folder: Path) -> Words:
    def change(model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "architectures": ["Wav2Vec2ForCTC"]}))
        (model / "vocab.json").write_text("{bad")

    return with_model(world, folder, change)


@case("speech encoder")
def unknown_family(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "config.json").write_text('{"model_type": "bert"}'))


def with_key(world: Any, folder: Path, key: str, value: object) -> Words:
    """Return a run whose encoder has a configuration with this value."""

    def change(model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, key: value}))

    return with_model(world, folder, change)


@case(
    "num_attention_heads = -2 is not a whole number",
    "config.json, key num_attention_heads",
    "not: clips",
    "not: line 2",
)
def config_with_a_negative_number(world: Any, folder: Path) -> Words:
    return with_key(world, folder, "num_attention_heads", -2)


@case("hidden_size = 16 is not a whole number", "config.json, key hidden_size", "not: no clip")
def config_with_a_number_as_text(world: Any, folder: Path) -> Words:
    return [*with_key(world, folder, "hidden_size", "16"), "--on-bad-clip", "skip"]


@case("web page")
def page_as_weights(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "model.safetensors").write_text(HTML))


@case("LFS")
def pointer_as_weights(world: Any, folder: Path) -> Words:
    return with_model(world, folder, lambda model: (model / "model.safetensors").write_text(POINTER))


@case("damaged")
def weights_cut_off(world: Any, folder: Path) -> Words:
    def change(model: Path) -> None:
        whole = (model / "model.safetensors").read_bytes()
        (model / "model.safetensors").write_bytes(whole[:-1000])

    return with_model(world, folder, change)


@case("hub gave no model")
def hub_id_without_a_network(world: Any, folder: Path) -> Words:
    words = world.command()
    words[1] = "nobody-at-all/no-such-encoder"
    return words


@case("no such folder")
def model_path_misspelt(world: Any, folder: Path) -> Words:
    words = world.command()
    words[1] = str(world.model) + "s/"
    return words


# Options.
simple("level_of_one", "--level", "--level", "1")
simple("level_in_percent", "--level", "--level", "95")
simple("level_word", "--level", "--level", "high")
simple("seed_too_large", "--seed", "--seed", str(2**63))
simple("device_number", "--device", "--device", "cuda:²")
simple("device_colon", "--device", "--device", "cuda:")
simple("device_absent", "--device", "--device", "cuda:99")
simple("layers_beyond", "layers 0 to 3", "--layers", "0,9")
simple("layers_word", "--layers", "--layers", "top")
simple("layers_twice", "--layers", "--layers", "1,1")
simple("layers_negative", "--layers", "--layers", "-1")
simple("layers_empty", "--layers", "--layers", "")
simple("layers_superscript", "--layers", "--layers", "²")
simple("folds_one", "--folds", "--folds", "1")
simple("tasks_unknown", "--tasks", "--tasks", "sid,tts")
simple("tasks_empty", "--tasks", "--tasks", ",")
simple("tasks_twice", "twice", "--tasks", "sid,sid")
simple("bins_word", "--bin", "--bin", "gender=a,b")
simple("bins_falling", "--bin", "--bin", "gender=9,3")
simple("bins_of_another", "age", "--bin", "age=0,3")
simple("bins_of_words", "--bin", "--bin", "gender=0,3")
simple("preset_unknown", "preset", "--preset", "nothing-of-the-kind")
simple("gate_no_number", "--fail-if", "--fail-if", "gap[by=accent].low > much")
simple("gate_field", "--fail-if", "--fail-if", "gap[by=accent].middle > 0.1")
simple("gate_no_key", "--fail-if", "--fail-if", "gap[accent] > 0.1")
simple("values_missing", "no such file", "--values", "/nowhere/map.csv")
simple("audio_root_missing", "--audio-root", "--audio-root", "/nowhere/at/all")
simple("column_missing", "--path-col", "--path-col", "sound")
simple("name_not_utf8", "UTF-8", "--audio-root", os.fsdecode(b"caf\xe9"))


@case("not TOML")
def config_broken(world: Any, folder: Path) -> Words:
    return with_config(world, folder, "seed = \n")


@case("not TOML")
def config_nested_beyond_reason(world: Any, folder: Path) -> Words:
    return with_config(world, folder, "seed = " + "[" * 5000 + "]" * 5000)


@case("audit-fairnes")
def config_unknown_table(world: Any, folder: Path) -> Words:
    return with_config(world, folder, "[audit-fairnes]\nseed = 1\n")


@case("audit-fairness")
def config_command_is_no_table(world: Any, folder: Path) -> Words:
    return with_config(world, folder, "audit-fairness = 3\n")


@case("baseline")
def config_truth_as_text(world: Any, folder: Path) -> Words:
    return with_config(world, folder, 'baseline = "no"\n')


@case("This is a folder, not a file")
def config_is_a_folder(world: Any, folder: Path) -> Words:
    return world.command("--config", folder)


# The run folder.


@case("cannot be made")
def out_below_a_file(world: Any, folder: Path) -> Words:
    (folder / "file").write_text("mine", encoding="utf-8")
    return world.command("--out", folder / "file" / "run")


@case("cannot be made")
def out_on_a_system_of_no_files(world: Any, folder: Path) -> Words:
    return world.command("--out", "/proc/miles-run")


# The other commands.
simple_words: dict[str, tuple[Words, str]] = {
    "command_unknown": (["audit-fairnes"], "audit-fairnes"),
    "demo_unknown": (["demo", "tarot"], "tarot"),
    "show_nothing": (["show", "/nowhere/run"], "no finished report"),
    "render_nothing": (["render", "/nowhere/run"], "no finished report"),
    "compare_nothing": (["compare", "/nowhere/run", "/nowhere/other"], "no finished report"),
    "compare_pattern": (["compare", "a", "b", "--only", "gap["], "'gap[' cannot be read. where: --only"),
    "compare_one": (["compare", "/nowhere/run"], "at least two"),
    "cache_unknown": (["cache", "--empty"], "--empty"),
}
for _name, (_words, _says) in simple_words.items():
    CASES.add(_name, _says, lambda world, folder, words=_words: list(words))


@pytest.fixture(scope="module")
def quick_world(world: Any) -> Iterator[Any]:
    """Let a case that wrongly passes its checks end at once instead of running the whole audit."""
    with nothing_runs(), pytest.MonkeyPatch.context() as patch:
        # The variable itself is read when the package is imported, which another test may have done.
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield world


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 70


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(quick_world: Any, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], quick_world)


@pytest.mark.parametrize("verb", ["show", "render", "compare"])
@pytest.mark.parametrize("kind", ["missing key", "no JSON"])
def test_a_report_that_no_run_wrote_is_refused(
    finished_run: tuple[Path, Any], call_miles: Any, tmp_path: Path, kind: str, verb: str
) -> None:
    """What else may be wrong with a report, tests/unit/test_report_file.py has."""
    report = json.loads((finished_run[0] / "report.json").read_bytes())
    del report["estimates"]
    text = json.dumps(report) if kind == "missing key" else "{"
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    words = [verb, tmp_path] if verb != "compare" else [verb, finished_run[0], tmp_path]
    one_panel(call_miles(*words))
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_spoilt_report_is_not_taken_for_a_finished_run(copied_run: Path, world: Any, call_miles: Any) -> None:
    (copied_run / "report.json").write_text("{}", encoding="utf-8")
    one_panel(call_miles(*world.command("--out", copied_run)))


def small_files() -> None:
    """Let every file end at 30 kB: what a full disk does, without a disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


@pytest.mark.parametrize(
    "cache", ["warm", *(pytest.param(cache, marks=pytest.mark.slow) for cache in ("cold", "below a file"))]
)
def test_a_full_disk_is_exit_3_and_leaves_no_report(
    world: Any, run_miles: Any, finished_run: Any, environment: dict[str, str], tmp_path: Path, cache: str
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    places = {"cold": tmp_path / "cache", "warm": environment["MILES_CACHE"], "below a file": tmp_path / "file" / "c"}
    out = tmp_path / "run"
    preparation = {} if cache == "below a file" else {"preexec_fn": small_files}
    words = world.command("--out", out, "--tasks", "sid", "--no-baseline")
    outcome = run_miles(*words, variables={"MILES_CACHE": str(places[cache])}, **preparation)
    # Where the cache has all that is needed, it is the run folder that has no room.
    one_panel(outcome, *(["Make room", f"where: {out}"] if cache == "warm" else []), code=3)
    assert not (out / "report.json").exists()
    assert not list(tmp_path.rglob(".part-*"))
