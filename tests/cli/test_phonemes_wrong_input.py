"""Does every wrong input of `miles audit-phonemes` end in one panel that says what is wrong, before anything runs?"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_rows import drop, every, put, write
from refusals import HTML, POINTER, Table, Words, nothing_runs

Row = dict[str, Any]
Rows = list[Row]
CASES = Table()
case = CASES.case
PEOPLE, PHONES = 12, ("a", "k", "s")
TABLE = "start,end,phone\n"
MARKS = ((0.0, 0.1, "a"), (0.1, 0.2, "k"), (0.2, 0.3, "s"))
ALIGNMENT = TABLE + "".join(f"{start},{end},{phone}\n" for start, end, phone in MARKS)


@dataclass(frozen=True)
class Small:
    """Tokens of twelve speakers, a clip of each with an alignment, an encoder and a head; nothing in it is wrong."""

    folder: Path
    model: Path

    @property
    def people(self) -> Rows:
        return [
            {"speaker": f"s{place:02d}", "gender": "fm"[place % 2], "accent": ("north", "south")[place // 2 % 2],
             "age": str(20 + place)} for place in range(PEOPLE)
        ]  # fmt: skip

    @property
    def rows(self) -> Rows:
        """Two tokens of each phone and speaker."""
        return [
            {"phone": phone, **person, **{f"x{at}": f"{1 + number + at}.{who}{take}" for at in range(3)}}
            for who, person in enumerate(self.people)
            for number, phone in enumerate(PHONES)
            for take in range(2)
        ]

    @property
    def arrays(self) -> dict[str, Any]:
        """The same as arrays."""
        rows = self.rows
        labels = {name: np.array([row[name] for row in rows]) for name in ("phone", "speaker", "gender", "accent")}
        return {**labels, "features": np.array([[float(row[f"x{at}"]) for at in range(3)] for row in rows])}

    @property
    def clips(self) -> Rows:
        return [{"path": f"clips/{person['speaker']}-0.wav", "text": "no go", **person} for person in self.people]

    def tokens(self, *more: Any, file: Any = None, by: Any = "gender") -> Words:
        """Return a run on tokens."""
        told = [] if by is None else ["--by", by]
        return ["audit-phonemes", file or self.folder / "tokens.csv", *told, "--min-speakers", "6", *more]

    def speech(self, *more: Any, manifest: Any = None, model: Any = None, alignments: Any = "") -> Words:
        """Return a run on recordings; None leaves the alignments out."""
        told = [] if alignments is None else ["--alignments", alignments or self.folder / "aligned"]
        given = ["--manifest", manifest or self.folder / "clips.csv", *told]
        return self.tokens(*given, *more, file=model or self.model)

    def placed(self, *more: Any, head: Any = None, **asked: Any) -> Words:
        """Return a run on recordings whose phones a checkpoint places."""
        return self.speech("--align-with", head or self.folder / "head", *more, alignments=None, **asked)

    def manifest(self, folder: Path, rows: Rows) -> Path:
        """Write another manifest of the same clips."""
        shutil.copytree(self.folder / "clips", folder / "clips")
        return write(folder / "wrong.csv", rows)


def tokens(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command for tokens."""
    CASES.add(name, says, lambda small, _: small.tokens(*words, **more))


def speech(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command for recordings."""
    CASES.add(name, says, lambda small, _: small.speech(*words, **more))


def placed(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right command with --align-with."""
    CASES.add(name, says, lambda small, _: small.placed(*words, **more))


def changed(name: str, says: Any, change: Callable[[Rows], Any], *more: Any, **asked: Any) -> None:
    """Register a file of tokens that was changed."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.rows
        return small.tokens(*more, file=write(folder / "wrong.csv", change(rows) or rows), **asked)

    CASES.add(name, says, make)


def holding(name: str, says: Any, content: Any, file: str = "wrong.csv") -> None:
    """Register a file of tokens with this content."""

    def make(small: Any, folder: Path) -> Words:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.tokens(file=folder / file)

    CASES.add(name, says, make)


def arrays(name: str, says: Any, change: Callable[[dict[str, Any]], Any], *more: Any, **asked: Any) -> None:
    """Register an NPZ of tokens that was changed."""

    def make(small: Any, folder: Path) -> Words:
        found = small.arrays
        np.savez(folder / "wrong.npz", **(change(found) or found))
        return small.tokens(*more, file=folder / "wrong.npz", **asked)

    CASES.add(name, says, make)


def listed(name: str, says: Any, change: Callable[[Rows], Any], *more: Any, **asked: Any) -> None:
    """Register a manifest that was changed."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.clips
        return small.speech(*more, manifest=small.manifest(folder, change(rows) or rows), **asked)

    CASES.add(name, says, make)


def aligned(name: str, says: Any, content: Any, *more: Any, file: str = "s03-0.csv") -> None:
    """Register alignments of which one holds this content, in a file of this name."""

    def make(small: Any, folder: Path) -> Words:
        shutil.copytree(small.folder / "aligned", folder / "wrong")
        (folder / "wrong" / "s03-0.csv").unlink()
        (folder / "wrong" / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.speech(*more, alignments=folder / "wrong")

    CASES.add(name, says, make)


# What is asked for.
tokens("no_by", "--by", by=None)
tokens("by_of_no_column", ("There is no column 'gendre'", "--by", "Did you mean 'gender'", "tokens.csv"), by="gendre")
tokens("by_twice", ("gender, gender names one thing twice", "--by"), by="gender,gender")
changed("by_holds_signs", ("holds & or =", "--by"), every(**{"a=b": "x"}), by="gender,a=b")
# One of each kind: tests/unit/test_options.py has the bounds and the choices of all options.
tokens("folds_1", ("1 is too small", "--folds", "Give 2"), "--folds", "1")
tokens("repeats_word", "--repeats", "--repeats", "many")
tokens("folds_above_speakers", ("7 folds need as many speakers", "--min-speakers is 6", "--folds", "fewer folds"),
       "--folds", "7")  # fmt: skip
tokens("probe_unknown", "--probe", "--probe", "perhaps")
tokens("level_in_percent", "--level", "--level", "95")
tokens("layers_beyond", ("There is no layer 99", "--layers", "0"), "--layers", "99")
tokens("layers_negative", ("There is no layer -1", "--layers"), "--layers", "-1")
tokens("layers_word", ("abc", "no layer", "--layers", "0,3,6"), "--layers", "abc")
tokens("layers_half", ("1.5", "--layers"), "--layers", "1.5")
tokens("layers_twice", ("twice", "--layers"), "--layers", "0,0")
tokens("layers_and_all", "--layers", "--layers", "all,0")
speech("layers_beyond_the_encoder", ("There is no layer 99", "--layers", "0, 1, 2, 3"), "--layers", "99")
placed("layers_beyond_before_phones_are_placed", ("There is no layer 4", "--layers", "0, 1, 2, 3"), "--layers", "4")
tokens("bins_unreadable", ("cannot be read", "--bin"), "--bin", "age=a,b", by="gender,age")
tokens("bins_falling", ("do not rise", "--bin"), "--bin", "age=30,20", by="gender,age")
tokens("bins_of_another", ("has bins but is not audited", "--bin"), "--bin", "age=0,30")
tokens("bins_of_words", ("No value of accent is a number", "--bin"), "--bin", "accent=0,3", by="accent")
tokens("values_missing", ("There is no such file", "map.csv"), "--values", "/nowhere/map.csv")
tokens("gate_of_no_estimate", ("names no estimate", "systematic_error"), "--fail-if", "loss > 1")
tokens("gate_of_no_group", ("group can be:", "gender=f"), "--fail-if", "systematic_error[group=gender=x].low > 0")
tokens("gate_of_no_layer", ("layer can be: 0",), "--fail-if", "systematic_error[layer=3].low > 0")
tokens("gate_of_no_training", ("training can be:", "all_matched"), "--fail-if", "accuracy[training=own] > 0")
speech("gate_of_no_layer_of_the_encoder", ("layer can be: 0, 1, 2, 3",), "--fail-if", "random_error[layer=9] > 0")

# Tokens or recordings?
for _flag, _text in {
    "--alignments": "aligned", "--align-with": "head", "--preset": "vctk", "--path-col": "path", "--text-col": "text",
    "--audio-root": "/", "--phones-col": "phones", "--tier": "phones", "--phone-map": "map.csv",
}.items():  # fmt: skip
    tokens(f"{_flag[2:]}_of_tokens", (f"{_flag} is only for --manifest", _flag, "leave it out"),
           _flag, _text)  # fmt: skip
tokens("keep_stress_of_tokens", ("--keep-stress is only for --manifest", "leave it out"), "--keep-stress")
for _flag, _text in {"--features": "x0", "--phone-col": "phone"}.items():
    speech(f"{_flag[2:]}_of_recordings", (f"{_flag} and --manifest exclude each other", "Leave one"), _flag,
           _text)  # fmt: skip
speech("transform_of_recordings", ("--transform and --manifest exclude each other", "Leave one"), "--transform", "log")
speech(
    "phones_col_beside_alignments",
    ("--phones-col and --alignments exclude each other", "Leave one"),
    "--phones-col",
    "phones",
)
placed("tier_beside_align_with", ("--tier and --align-with exclude each other", "Leave one"), "--tier", "phones")


@case("an encoder needs recordings", "--manifest", "--alignments")
def model_without_manifest(small: Any, folder: Path) -> Words:
    return small.tokens(file=small.model)


@case("tokens.csv", "--manifest", "not: Weights alone")
def tokens_with_manifest(small: Any, folder: Path) -> Words:
    return small.speech(model=small.folder / "tokens.csv")


@case("There is no such file", "tokens.cvs", "Did you mean tokens.csv")
def tokens_misspelt(small: Any, folder: Path) -> Words:
    return small.tokens(file=small.folder / "tokens.cvs")


# A file of tokens.
tokens("tokens_missing", ("There is no such file", "nowhere.csv"), file="/nowhere/nowhere.csv")
tokens("tokens_are_a_device", "not an ordinary file", file="/dev/zero")
tokens("tokens_name_not_utf8", "UTF-8", file=os.fsdecode(b"caf\xe9.csv"))
tokens("tokens_name_beyond_reason", "cannot be read", file="x" * 5000 + ".csv")
holding("tokens_empty", ("is empty", "wrong.csv"), b"")
holding("tokens_of_a_header", ("header but no rows", "wrong.csv", "not: recording"), "phone,speaker,gender,x0\n")
holding("tokens_are_a_page", ("web page", "wrong.csv"), HTML)
holding("tokens_are_a_pointer", ("LFS", "git lfs pull", "wrong.csv"), POINTER)
holding("tokens_binary", "wrong.csv", bytes(range(256)) * 4)
holding("tokens_utf16", ("UTF-16", "Save it as UTF-8"), "phone,speaker,gender,x0\na,s,f,1\n".encode("utf-16"))
holding("tokens_latin_1", ("UTF-8", "wrong.csv:2"), "phone,speaker,gender,x0\né,s,f,1\n".encode("latin-1"))
holding("tokens_with_nul", ("NUL", "wrong.csv:2"), b"phone,speaker,gender,x0\na\0,s,f,1\n")
holding("tokens_ragged", ("The row has 3 fields, the header 4", "wrong.csv:2"), "phone,speaker,gender,x0\na,s,f\n")
holding("tokens_not_json", ("not JSON", "wrong.jsonl"), '{"phone": "a",\n', "wrong.jsonl")
changed("no_phone", ("There is no column for the phone", "--phone-col", "wrong.csv"), drop("phone"))
changed("two_phones", ("Several columns may hold the phone: vowel, segment", "--phone-col"),
        lambda rows: drop("phone")([{"vowel": row["phone"], "segment": "x", **row} for row in rows]))  # fmt: skip
changed("no_speaker", ("There is no column for the speaker", "--speaker-col", "wrong.csv"), drop("speaker"))
tokens("phone_col_missing", ("There is no column 'sound'", "--phone-col"), "--phone-col", "sound")
tokens("speaker_col_missing", ("There is no column 'who'", "--speaker-col"), "--speaker-col", "who")
changed("phone_empty", ("no phone", "wrong.csv:5", "column phone", "--on-bad skip"), put(3, phone=""))
changed("speaker_unknown", ("no speaker", "wrong.csv:9", "column speaker", "--on-bad skip"), put(7, speaker="NA"))
changed("nobody_left", ("No token is left", "no speaker", "wrong.csv"), every(speaker=""), "--on-bad", "skip")
changed(
    "no_number",
    ("'1,5' is not a number", "wrong.csv:4", "column x1", "write 1.5, or say --decimal ,"),
    put(2, x1="1,5"),
)
changed(
    "no_number_but_a_word",
    ("'high' is not a number", "wrong.csv:2", "column x0", "full stop", "or name columns of numbers"),
    put(0, x0="high"),
)
changed("nothing_finite", ("No token is left", "feature"), every(x1="nan"))
changed("no_features", ("There are no features x0, x1", "--features"), drop("x0", "x1", "x2"))
changed("gap_in_features", ("There is no column 'x1' before 'x2'", "--features"), drop("x1"))
changed("no_first_feature", ("There is no column 'x0' before 'x1'", "--features"), drop("x0"))
tokens("features_missing", ("There is no column 'F1'", "--features"), "--features", "F1,F2")
tokens("features_twice", ("'x0' is named twice", "--features"), "--features", "x0,x1,x0")
tokens("features_overlap", ("'x1' is named twice", "--features"), "--features", "x0..x1,x1..x2")
tokens("feature_is_the_phone", ("'phone' is a label", "--features"), "--features", "x0,phone")
tokens("feature_is_compared", ("'age' is a label", "--features"), "--features", "x0,age", by="age")
tokens("range_with_a_gap", ("There is no column 'x3'", "--features"), "--features", "x0..x3")
tokens("range_falling", ("'x2..x0' cannot be read", "--features", "rising"), "--features", "x2..x0")
changed("log_of_zero", ("0 has no logarithm", "wrong.csv:6", "column x2", "--transform none"), put(4, x2="0"),
        "--transform", "log")  # fmt: skip
changed("log_of_a_negative", ("-1.5 has no logarithm", "wrong.csv:2", "column x0"), put(0, x0="-1.5"), "--transform",
        "log")  # fmt: skip
tokens("too_few_shared", ("share 0 phones", "--min-tokens", "Lower --min-tokens", "not: --phone-map"), "--min-tokens",
       "13")  # fmt: skip
changed("one_phone", ("share 1 phone", "--min-tokens", "not: 1 phones"), every(phone="a"))
changed("by_is_the_phone", ("'phone'", "--by"), lambda rows: None, by="phone")
changed("levels_become_one", ("would become one level", "wrong.csv:8", "--values"), lambda rows: [
    row.update(accent=("a&b", "a+b")[place // 6 % 2]) for place, row in enumerate(rows)
] and None, by="accent")  # fmt: skip
changed("column_twice", ("'x0' stands twice in the header", "wrong.csv:1"),
        lambda rows: [{**drop("x1")([row])[0], "x0 ": "1"} for row in rows])  # fmt: skip


@case("'f' of gender becomes both", "map.csv:3")
def values_of_two_minds(small: Any, folder: Path) -> Words:
    (folder / "map.csv").write_text("column,from,to\ngender,f,x\ngender,f,y\n", encoding="utf-8")
    return small.tokens("--values", folder / "map.csv")


# An NPZ.
arrays("objects", ("'phone'", "Python objects", "wrong.npz"), lambda found: {
    **found, "phone": np.array([*found["phone"][:-1], None], dtype=object)
})  # fmt: skip
arrays("object_features", ("'features'", "Python objects", "wrong.npz"), lambda found: {
    **found, "features": found["features"].astype(object)
})  # fmt: skip
arrays("labels_shorter", ("'speaker'", "(71,)", "'phone' holds 72 tokens", "wrong.npz"), lambda found: {
    **found, "speaker": found["speaker"][1:]
})  # fmt: skip
arrays("features_shorter", ("'features'", "(70, 3)", "'phone' holds 72 tokens"), lambda found: {
    **found, "features": found["features"][2:]
})  # fmt: skip
arrays("layers_last", ("'features'", "72 tokens", "layers first"), lambda found: {
    **found, "features": np.stack([found["features"]] * 2, axis=1)
})  # fmt: skip
arrays("four_axes", ("'features'", "(1, 1, 72, 3)"), lambda found: {
    **found, "features": found["features"][None, None]
})  # fmt: skip
arrays("features_of_texts", ("'features'", "plain numbers"), lambda found: {
    **found, "features": found["features"].astype(str)
})  # fmt: skip
arrays("features_complex", ("'features'", "numbers"), lambda found: {**found, "features": found["features"] * 1j})
arrays("features_fortran", ("'features'", "Fortran", "ascontiguousarray"), lambda found: {
    **found, "features": np.asfortranarray(found["features"])
})  # fmt: skip
arrays("features_and_layers", ("The features may be features or layer_0", "--features"), lambda found: {
    **found, "layer_0": found["features"]
})  # fmt: skip
arrays("array_without_phone", ("There is no column for the phone", "wrong.npz"), lambda found: {
    name: array for name, array in found.items() if name != "phone"
})  # fmt: skip
arrays("array_without_features", ("no features", "--features", "wrong.npz"), lambda found: {
    name: array for name, array in found.items() if name != "features"
})  # fmt: skip
arrays("layer_of_no_archive", ("There is no layer 2", "0, 1", "--layers"), lambda found: {
    **found, "features": np.stack([found["features"]] * 2)
}, "--layers", "0,2")  # fmt: skip
arrays("layers_numbered_twice", ("'layers'", "one integer for each layer"), lambda found: {
    **found, "features": np.stack([found["features"]] * 2), "layers": np.array([3, 3])
})  # fmt: skip
arrays("log_of_zero_in_an_archive", ("0 has no logarithm", "wrong.npz", "token 5"), lambda found: (
    found["features"].__setitem__((5, 1), 0.0)
), "--transform", "log")  # fmt: skip


@case("cannot be read", "wrong.npz")
def archive_truncated(small: Any, folder: Path) -> Words:
    np.savez(folder / "wrong.npz", **small.arrays)
    whole = (folder / "wrong.npz").read_bytes()
    (folder / "wrong.npz").write_bytes(whole[: len(whole) // 2])
    return small.tokens(file=folder / "wrong.npz")


@case("cannot be read", "wrong.npz")
def archive_damaged(small: Any, folder: Path) -> Words:
    np.savez(folder / "wrong.npz", **small.arrays)
    whole = bytearray((folder / "wrong.npz").read_bytes())
    place = whole.index(small.arrays["features"].tobytes()[:64]) + 100
    whole[place : place + 4] = b"\xff\x13\xff\x13"
    (folder / "wrong.npz").write_bytes(whole)
    return small.tokens(file=folder / "wrong.npz")


@case("wrong.npz", "times its size")
def archive_bomb(small: Any, folder: Path) -> Words:
    count = len(small.rows)
    np.savez_compressed(folder / "wrong.npz", **{**small.arrays, "features": np.zeros((count, 2**19))})
    return small.tokens(file=folder / "wrong.npz")


@case("NPY", "numpy.savez", "wrong.npy")
def one_array_alone(small: Any, folder: Path) -> Words:
    np.save(folder / "wrong.npy", small.arrays["features"])
    return small.tokens(file=folder / "wrong.npy")


# A second file of tokens.
def against(name: str, says: Any, change: Callable[[Rows], Any]) -> None:
    """Register a second file of tokens that was changed."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.rows
        return small.tokens("--against", write(folder / "wrong.csv", change(rows) or rows))

    CASES.add(name, says, make)


against("against_shorter", ("has 71 usable tokens", "tokens.csv has 72", "--against", "same tokens"),
        lambda rows: rows[1:])  # fmt: skip
against("against_other_order", ("has the phone s", "tokens.csv a", "--against", "wrong.csv:2", "same order"),
        lambda rows: rows[::-1])  # fmt: skip
against("against_other_speakers", ("has the speaker s02", "tokens.csv s01", "--against", "wrong.csv:8", "same order"),
        put(6, speaker="s02"))  # fmt: skip
against("against_a_missing_number", ("has 71 usable tokens", "--against"), put(3, x0=""))
tokens("against_missing", ("There is no such file", "after.csv"), "--against", "/nowhere/after.csv")


@case("no layer in common", "--against")
def against_other_layers(small: Any, folder: Path) -> Words:
    found = small.arrays
    features = found.pop("features")
    np.savez(folder / "one.npz", **found, layer_1=features)
    return small.tokens("--against", folder / "one.npz")


@case("'bert' is no speech encoder", "config.json, key model_type")
def against_no_encoder(small: Any, folder: Path) -> Words:
    return small.speech("--against", model_of(small, folder, model_type="bert"))


# An encoder and a manifest.
def model_of(small: Any, folder: Path, **changes: Any) -> Path:
    copy = Path(shutil.copytree(small.model, folder / "model"))
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
    return copy


@case("'bert' is no speech encoder", "config.json, key model_type", "wav2vec2")
def no_encoder(small: Any, folder: Path) -> Words:
    return small.speech(model=model_of(small, folder, model_type="bert"))


@case("hidden_size = 16 is not a whole number", "config.json, key hidden_size", "not: clips")
def model_with_a_number_as_text(small: Any, folder: Path) -> Words:
    return small.speech(model=model_of(small, folder, hidden_size="16"))


@case("conv_kernel = [] and conv_kernel have 0 and 0 entries", "config.json, key conv_kernel", "not: no clip")
def model_to_compare_with_without_kernels(small: Any, folder: Path) -> Words:
    model = model_of(small, folder, conv_kernel=[], conv_stride=[])
    return small.speech("--against", model, "--on-bad", "skip")


@case("num_attention_heads = -2 is not a whole number", "config.json, key num_attention_heads", "not: clips")
def head_with_a_negative_number(small: Any, folder: Path) -> Words:
    config = json.loads((small.folder / "head" / "config.json").read_text(encoding="utf-8"))
    head = Path(shutil.copytree(small.folder / "head", folder / "head"))
    (head / "config.json").write_text(json.dumps({**config, "num_attention_heads": -2}), encoding="utf-8")
    return small.placed(head=head)


@case("no config.json", "save_pretrained")
def model_of_nothing(small: Any, folder: Path) -> Words:
    (folder / "model").mkdir()
    return small.speech(model=folder / "model")


@case("no weights", "model")
def model_without_weights(small: Any, folder: Path) -> Words:
    (model_of(small, folder) / "model.safetensors").unlink()
    return small.speech(model=folder / "model")


@case("LFS", "model.safetensors")
def weights_are_a_pointer(small: Any, folder: Path) -> Words:
    (model_of(small, folder) / "model.safetensors").write_text(POINTER, encoding="utf-8")
    return small.speech(model=folder / "model")


speech("against_model_missing", ("There is no such folder", "/nowhere/model"), "--against", "/nowhere/model")
speech("model_missing", ("There is no such folder", "/nowhere/model"), model="/nowhere/model")
speech("manifest_missing", ("There is no such file", "nowhere.csv"), manifest="/nowhere/nowhere.csv")
listed("manifest_without_speaker", ("There is no column for the speaker", "--speaker-col", "wrong.csv"),
       drop("speaker"))  # fmt: skip
listed("manifest_without_speakers", ("No row names its speaker", "--speaker-col"), every(speaker=""))
listed("manifest_without_a_speaker", ("no speaker", "wrong.csv:4", "--on-bad skip"), put(2, speaker=""))
listed("manifest_without_path", ("There is no column for the path", "--path-col"), drop("path"))
listed("manifest_without_by", ("There is no column 'gender'", "--by"), drop("gender"))
listed("clip_missing", ("clips/nobody.wav", "wrong.csv:3"), put(1, path="clips/nobody.wav"))


def _three_bad(rows: Rows) -> None:
    rows[1]["path"], rows[2]["speaker"], rows[4]["path"] = "clips/nobody.wav", "", "wrong.csv"


listed("clips_bad_together", ("3 of 12 clips cannot be used", "line 3 (clips/nobody.wav): There is no such file",
       "line 4", "no speaker", "line 6 (wrong.csv)", "read as sound", "--on-bad skip"), _three_bad)  # fmt: skip


def _two_bad(rows: Rows) -> None:
    rows[1]["path"], rows[2]["path"] = "https://example.org/a.wav", "clips/nobody.wav"


@case("3 of 12 clips cannot be used", "line 3 (https://example.org/a.wav)", "an address", "line 4", "no such file",
      "line 6 (clips/s04-0.wav)", "no alignment")  # fmt: skip
def clips_and_alignments_bad_together(small: Any, folder: Path) -> Words:
    rows = small.clips
    _two_bad(rows)
    shutil.copytree(small.folder / "aligned", folder / "wrong")
    (folder / "wrong" / "s04-0.csv").unlink()
    return small.speech(manifest=small.manifest(folder, rows), alignments=folder / "wrong")


@case("2 of 12 clips cannot be used", "no such file")
def bad_clips_come_before_bad_alignments(small: Any, folder: Path) -> Words:
    rows = small.clips
    _two_bad(rows)
    (folder / "wrong").mkdir()
    (folder / "wrong" / "other.csv").write_text(ALIGNMENT, encoding="utf-8")
    return small.speech(manifest=small.manifest(folder, rows), alignments=folder / "wrong")


listed("clip_is_no_sound", ("wrong.csv:3",), put(1, path="wrong.csv"))
listed("clip_twice", ("listed twice: before on line 2", "wrong.csv:3"), put(1, path="clips/s00-0.wav"))
listed("clip_outside", ("leads out of its folder", "wrong.csv:5", "--audio-root"), put(3, path="../../etc/passwd"))
speech("preset_unknown", "preset", "--preset", "nothing-of-the-kind")


def _unopened(rows: Rows) -> None:
    rows[1]["path"], rows[2]["path"], rows[3]["path"] = "", "", "../x.wav"


listed("clips_without_a_path", ("3 of 12 clips cannot be used", "line 3: The row names no recording",
       "line 5 (../x.wav)", "not: left out with"), _unopened)  # fmt: skip
listed("clip_outside_among_skipped", ("3 of 12 clips", "line 5 (../x.wav) leads out", "never left out"), _unopened,
       "--on-bad", "skip")  # fmt: skip


@case("leads out of its folder", "wrong.csv:5")
def clip_is_a_link_outside(small: Any, folder: Path) -> Words:
    (folder / "s03-0.wav").symlink_to("/etc/passwd")
    rows = small.clips
    rows[3]["path"] = "s03-0.wav"
    return small.speech(manifest=small.manifest(folder, rows))


# Alignments.
speech("nothing_says_where", ("Nothing says where the phones lie", "--alignments DIR", "--align-with MODEL"),
       alignments=None)  # fmt: skip
speech("two_say_where", ("Two options say where the phones lie", "--alignments", "--align-with"), "--align-with",
       "head")  # fmt: skip
speech("alignments_missing", ("There is no such file or folder", "nowhere"), alignments="/nowhere/nowhere")
aligned("alignment_missing", ("no alignment", "clips.csv:5 (clips/s03-0.wav)", "inputs/wrong", "--on-bad skip"), "",
        file="notes.txt")  # fmt: skip
aligned("alignment_empty", ("is empty", "s03-0.csv"), "")
aligned("alignment_of_a_header", ("no rows", "s03-0.csv", "not: for each recording"), TABLE)
aligned("alignment_of_pauses", ("no phone is left", "clips.csv:5 (clips/s03-0.wav)", "wrong/s03-0.csv"),
        TABLE + "0,0.1,sil\n")  # fmt: skip
aligned("alignment_overlaps", ("overlaps the one that ends at 0.1 s", "s03-0.csv:3"), TABLE + "0,0.1,a\n0.05,0.2,k\n")
aligned("alignment_unsorted", ("stands after one that starts at 0.1 s", "s03-0.csv:3", "Sort"),
        TABLE + "0.1,0.2,a\n0,0.1,k\n")  # fmt: skip
aligned("alignment_backwards", ("from 0.2 s to 0.1 s ends before it starts", "s03-0.csv:2"), TABLE + "0.2,0.1,a\n")
aligned("alignment_negative", ("negative", "s03-0.csv:2"), TABLE + "-0.1,0.1,a\n")
aligned("alignment_beyond", ("from 0.1 s to 0.4 s ends after the recording, which has 0.3 s", "s03-0.csv:3"),
        TABLE + "0,0.1,a\n0.1,0.4,k\n")  # fmt: skip
aligned("alignment_of_words", ("'x' and end '0.1' are not both seconds", "s03-0.csv:2", "0.25"), TABLE + "x,0.1,a\n")
aligned("alignment_without_phone", ("There is no column for the phone", "s03-0.csv"), "start,end\n0,0.1\n")
aligned("alignment_of_milliseconds", ("ends after the recording", "s03-0.csv:2"), TABLE + "0,100,a\n")
aligned("alignment_is_a_page", ("web page", "s03-0.TextGrid"), HTML, file="s03-0.TextGrid")
aligned("alignment_is_a_pointer", ("LFS", "s03-0.csv"), POINTER)
aligned("alignment_of_a_long_label", ("too long for a phone", "s03-0.csv:2"), TABLE + f"0,0.1,{'a' * 99}\n")
aligned("phn_of_seconds", ("cannot be read", "s03-0.phn:1", "samples"), "0.0 0.1 a\n", file="s03-0.phn")
aligned("ctm_short", ("cannot be read", "s03-0.ctm:1", "start, duration, phone"), "s03-0 1 0.0\n", file="s03-0.ctm")


def grid(*tiers: str, says: int | None = None) -> str:
    head = '"ooTextFile"\n"TextGrid"\n\n0\n0.3\n<exists>\n'
    return f"{head}{len(tiers) if says is None else says}\n" + "\n".join(tiers) + "\n"


def tier(name: str, *marks: tuple[float, float, str], says: int | None = None) -> str:
    body = "\n".join(f'{start}\n{end}\n"{label}"' for start, end, label in marks)
    return f'"IntervalTier"\n"{name}"\n0\n0.3\n{len(marks) if says is None else says}\n{body}'


WORDS, SOUNDS = tier("words", (0.0, 0.3, "aks")), tier("phones", *MARKS)
aligned("grid_broken", ("no TextGrid", "s03-0.TextGrid", "not: begins with ''"), "all is well\n", file="s03-0.TextGrid")
aligned("grid_cut", ("but the file ends", "s03-0.TextGrid:"), grid(SOUNDS)[:-12], file="s03-0.TextGrid")
aligned("grid_of_lies", ("but the file ends", "counts (size) is wrong"), grid(tier("phones", *MARKS, says=10**9)),
        file="s03-0.TextGrid")  # fmt: skip
aligned("grid_binary", ("s03-0.TextGrid", "TextGrid"), b"ooBinaryFile\x08TextGrid\0\0", file="s03-0.TextGrid")
aligned("grid_of_other_tiers", ("No tier is called like one of phones", "--tier", "words, sounds"),
        grid(WORDS, tier("sounds", *MARKS)), file="s03-0.TextGrid")  # fmt: skip
aligned("two_tiers", ("Several tiers may hold the phones", "--tier"), grid(SOUNDS, tier("Phones", *MARKS)),
        file="s03-0.TextGrid")  # fmt: skip
speech("tier_of_a_table", ("has no tiers", "Leave out --tier"), "--tier", "phones")


@case("There is no tier 'phons'", "Did you mean 'phones'", "s00-0.TextGrid", "--tier")
def tier_missing(small: Any, folder: Path) -> Words:
    (folder / "wrong").mkdir()
    for person in small.people:
        (folder / "wrong" / f"{person['speaker']}-0.TextGrid").write_text(grid(WORDS, SOUNDS), encoding="utf-8")
    return small.speech("--tier", "phons", alignments=folder / "wrong")


@case("holds no alignment", "inputs/wrong", ".textgrid")
def alignments_of_nothing(small: Any, folder: Path) -> Words:
    (folder / "wrong").mkdir()
    return small.speech(alignments=folder / "wrong")


listed("clips_all_without_a_recording",
       ("No clip can be used: unreadable recording", "wrong.csv", "not: alignment here"),
       lambda rows: [{**row, "path": f"clips/nobody{index}.wav"} for index, row in enumerate(rows)],
       "--on-bad", "skip")  # fmt: skip
listed("clips_that_fake_a_fix", ("There is no such file", "(clips/no fix: leave it.wav)"),
       lambda rows: [{**rows[0], "path": "clips/no\nfix:   leave it.wav"}, *rows[1:]])  # fmt: skip


@case("no names agree", "inputs/wrong", "A clip is called 'clips/s00-0.wav', an alignment 'other.csv'")
def alignments_of_others(small: Any, folder: Path) -> Words:
    (folder / "wrong").mkdir()
    (folder / "wrong" / "other.csv").write_text(ALIGNMENT, encoding="utf-8")
    return small.speech(alignments=folder / "wrong")


@case("Several alignments may belong to this clip: s03-0.TextGrid, s03-0.csv", "clips.csv:5", "Keep one of them")
def two_alignments(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "aligned", folder / "wrong")
    (folder / "wrong" / "s03-0.TextGrid").write_text(grid(SOUNDS), encoding="utf-8")
    return small.speech(alignments=folder / "wrong")


@case("no alignment", "clips.csv:5", "link", "s03-0.csv")
def alignment_is_a_link_outside(small: Any, folder: Path) -> Words:
    shutil.copytree(small.folder / "aligned", folder / "wrong")
    (folder / "elsewhere.csv").write_text(ALIGNMENT, encoding="utf-8")
    (folder / "wrong" / "s03-0.csv").unlink()
    (folder / "wrong" / "s03-0.csv").symlink_to(folder / "elsewhere.csv")
    return small.speech(alignments=folder / "wrong")


@case("suffix '.zip'", "wrong.zip", ".textgrid")
def alignments_packed(small: Any, folder: Path) -> Words:
    (folder / "wrong.zip").write_bytes(b"PK")
    return small.speech(alignments=folder / "wrong.zip")


def mapped(name: str, says: Any, content: str, *more: Any) -> None:
    """Register a phone map with this content."""

    def make(small: Any, folder: Path) -> Words:
        (folder / "map.csv").write_text(content, encoding="utf-8")
        return small.speech("--phone-map", folder / "map.csv", *more)

    CASES.add(name, says, make)


mapped("phone_map_of_two_minds", ("'a' becomes both 'k' and 's'", "map.csv:3", "Keep one"), "from,to\na,k\na,s\n")
mapped("phone_map_without_to", ("no column 'to'", "map.csv", "from and to"), "from,too\na,k\n")
mapped("phone_map_empty", ("is empty", "map.csv"), "")
mapped("phone_map_joins_all", ("share 1 phone",), "from,to\na,k\ns,k\n")
mapped(
    "phone_map_drops_all",
    (
        "12 of 12 clips cannot be used",
        "no phone is left",
        "line 2 (clips/s00-0.wav)",
        "line 11",
        "and 2 more",
        "clips.csv",
    ),
    "from,to\na,\nk,\ns,sil\n",
)
mapped("phone_map_drops_all_of_all", ("No clip can be used", "no phone is left", "clips.csv"),
       "from,to\na,\nk,\ns,sil\n", "--on-bad", "skip")  # fmt: skip
speech("phone_map_missing", ("There is no such file", "map.csv"), "--phone-map", "/nowhere/map.csv")

# Phones that a checkpoint places.
placed("head_missing", ("There is no such folder", "/nowhere/head"), head="/nowhere/head")
placed("phones_col_missing", ("There is no column 'said'", "--phones-col", "clips.csv"), "--phones-col", "said")


@case("cannot place phones", "no CTC head", "--align-with")
def aligner_without_head(small: Any, folder: Path) -> Words:
    return small.placed(head=small.model)


def head_of(small: Any, folder: Path, vocabulary: str | None) -> Path:
    copy = Path(shutil.copytree(small.folder / "head", folder / "head"))
    (copy / "vocab.json").unlink()
    if vocabulary is not None:
        (copy / "vocab.json").write_text(vocabulary, encoding="utf-8")
    return copy


@case("no vocab.json", "--align-with")
def aligner_without_vocabulary(small: Any, folder: Path) -> Words:
    return small.placed(head=head_of(small, folder, None))


@case("vocab.json", "not JSON")
def vocabulary_broken(small: Any, folder: Path) -> Words:
    return small.placed(head=head_of(small, folder, "{"))


@case("vocab.json", "--align-with")
def vocabulary_beyond_the_head(small: Any, folder: Path) -> Words:
    return small.placed(head=head_of(small, folder, json.dumps({"<pad>": 0, "n": 1, "o": 2, "g": 99})))


def phones_of(name: str, says: Any, *more: Any, **columns: Any) -> None:
    """Register a manifest with other transcripts for --align-with."""

    def make(small: Any, folder: Path) -> Words:
        rows = small.clips
        rows[3].update(columns)
        rows = [{**dict.fromkeys(columns, "n o g"), **row} for row in rows]
        return small.placed(*more, manifest=small.manifest(folder, rows))

    CASES.add(name, says, make)


phones_of(
    "phone_unknown_to_the_head", ("does not know", "zz", "vocab.json", "wrong.csv:5 (clips/s03-0.wav)"), phones="n zz o"
)
phones_of("phones_empty", ("wrong.csv:5 (clips/s03-0.wav)", "--on-bad skip"), phones="")
phones_of("letters_unknown_to_the_head", ("wrong.csv:5 (clips/s03-0.wav)", "nothing in its transcript"), text="!?")


@case("neither phones nor text", "--phones-col", "wrong.csv")
def nothing_to_place(small: Any, folder: Path) -> Words:
    return small.placed(manifest=small.manifest(folder, drop("text")(small.clips)))


# The run folder.


@pytest.fixture(scope="module")
def small(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    made = Small(tmp_path_factory.mktemp("small"), world.model)
    write(made.folder / "tokens.csv", made.rows)
    write(made.folder / "clips.csv", made.clips)
    for folder in ("clips", "aligned"):
        (made.folder / folder).mkdir()
    for clip in made.clips:
        shutil.copy(world.folder / clip["path"], made.folder / clip["path"])
        (made.folder / "aligned" / f"{clip['speaker']}-0.csv").write_text(ALIGNMENT, encoding="utf-8")
    save_head(world.model, made.folder / "head")
    with nothing_runs():
        yield made


def save_head(model: Path, folder: Path) -> None:
    """Save an untrained CTC head over the encoder's configuration, which writes letters."""
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    vocabulary = {symbol: number for number, symbol in enumerate(("<pad>", "<unk>", "|", *"adegnopstuwk"))}
    config = hub.AutoConfig.from_pretrained(model, vocab_size=len(vocabulary), pad_token_id=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        hub.Wav2Vec2ForCTC(config).save_pretrained(folder)
    shutil.copy(model / "preprocessor_config.json", folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "tokens.npz", **small.arrays)
    for words in (
        small.tokens(),
        small.tokens("--features", "x0..x1,x2", "--transform", "log", "--against", small.folder / "tokens.csv"),
        small.tokens(file=tmp_path / "tokens.npz", by="gender,accent"),
        small.tokens("--bin", "age=0,26", by="age"),
        small.speech("--layers", "0,3", "--against", small.model),
        small.placed(),
    ):
        outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
        assert outcome.code == 0, outcome.err
        assert "every input is in order" in outcome.out


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 120
