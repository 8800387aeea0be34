"""Are tokens those of the file, and nothing else: no marks, no cuts, no chance, no text left out in silence?"""

import base64
import copy
import json
import os
import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, processors

from probes.contained import Limits
from probes.core.errors import InputError
from probes.language_models import tokenizer_files
from probes.language_models.text_tokenizers import BYTES, read_tokenizer, train_bpe
from probes.language_models.tokenizer_files import LARGEST_FILE, MOST_LISTS

LINES = {
    "en": [b"the cat sat on the mat", b"the dog sat on the cat", b"a cat and a dog"] * 8,
    "hi": ["हिन्दी में बिल्ली बैठी थी".encode(), "हिन्दी में कुत्ता बैठा था".encode()] * 8,
}


def words(**changes: Any) -> dict[str, Any]:
    """Return the content of a tokenizer of seven whole words, as the library writes it."""
    rules = Library(models.WordLevel({"the": 0, "cat": 1, "[UNK]": 2, "sat": 3, "[SEP]": 4, "[MASK]": 5, "[CLS]": 6}))
    rules.model.unk_token = "[UNK]"
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.add_special_tokens(["[UNK]", "[SEP]", "[MASK]", "[CLS]"])
    rules.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 6), ("[SEP]", 4)]
    )
    return {**json.loads(rules.to_str()), **changes}


def written(folder: Path, content: object, name: str = "tokenizer.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def spelt(alphabet: list[str], **options: Any) -> dict[str, Any]:
    """Return the content of a byte-level BPE tokenizer without merges."""
    rules = Library(models.BPE({letter: place for place, letter in enumerate(alphabet)}, [], **options))
    rules.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return json.loads(rules.to_str())


def test_bytes_are_the_bytes() -> None:
    lines = ["naïve".encode(), b"", bytes(range(256))]
    assert [bytes(ids.tolist()) for ids in BYTES.encode(lines)] == lines
    assert {ids.dtype for ids in BYTES.encode(lines)} == {np.dtype(np.int32)}
    assert (BYTES.size, BYTES.mask, BYTES.separator, BYTES.unknown, BYTES.added) == (257, 256, 10, None, ())


def test_tokens_come_without_marks_cuts_and_padding(tmp_path: Path) -> None:
    content = words()
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "the"}  # fmt: skip
    found = read_tokenizer(written(tmp_path, content))
    ids = found.encode([b"the cat sat the cat sat", b"", b"a cat"])
    assert [row.tolist() for row in ids] == [[0, 1, 3, 0, 1, 3], [], [2, 1]]
    assert {row.dtype for row in ids} == {np.dtype(np.int32)}
    assert (found.size, found.mask, found.separator, found.unknown, found.added) == (7, 5, 4, 2, ())
    assert (found.before, found.after) == ((6,), (4,))
    assert found.unknown_share(ids) == pytest.approx(1 / 8) and found.unknown_share([]) == 0


def test_the_first_id_may_be_the_unknown_one(tmp_path: Path) -> None:
    content = words()
    content["model"]["vocab"] |= {"[UNK]": 0, "the": 2}
    content["added_tokens"] = []
    found = read_tokenizer(written(tmp_path, content))
    assert found.unknown == 0 and found.unknown_share(found.encode([b"the dog", b"cat dog"])) == 0.5


def test_a_text_that_spells_a_mark_is_text_also_in_another_process(tmp_path: Path) -> None:
    found = read_tokenizer(written(tmp_path, words()))
    for one in (found, pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert not {4, 5, 6} & set(one.encode([b"cat [SEP] [MASK] [CLS]"])[0].tolist())
        assert one.sha256 == found.sha256 and one.mask == 5


def test_the_mask_itself_in_a_text_is_refused(tmp_path: Path) -> None:
    # Split at white space alone, the word is found in the vocabulary although it is no mark there.
    content = words(pre_tokenizer={"type": "WhitespaceSplit"}, added_tokens=[])
    found = read_tokenizer(written(tmp_path, content))
    with pytest.raises(InputError, match=r"\[MASK\] cat"):
        found.encode([b"the", b"[MASK] cat"])
    with pytest.raises(InputError, match=r"Sentence 2 is not UTF-8.*0xff"):
        found.encode([b"the", b"\xff"])


MARKS = [
    ({}, (), ("mask", "separator"), (4, 5)),
    ({"<mask>": 4, "</s>": 5}, (), (), (4, 5)),
    ({"<|endoftext|>": 4}, (), ("mask",), (5, 4)),
    ({"\n": 4}, (), ("mask",), (5, 4)),
    ({"odd": 4, "<mask>": 5}, {"mask_token": "odd", "sep_token": {"content": "cat"}}, (), (4, 1)),
    ({"odd": 4, "[SEP]": 5}, {"mask_token": "not there", "eos_token": "odd"}, ("mask",), (6, 4)),
    ({"[SEP]": 4, "</s>": 5}, {"mask_token": "[SEP]"}, (), (4, 5)),
]


@pytest.mark.parametrize(("more", "settings", "added", "marks"), MARKS)
def test_marks_are_those_of_the_file_or_stand_behind_it(tmp_path, more, settings, added, marks) -> None:
    content = words(added_tokens=[], post_processor=None)
    content["model"]["vocab"] = {"the": 0, "cat": 1, "[UNK]": 2, "sat": 3, **more}
    if "\n" in more:
        content["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}
    written(tmp_path, settings or {}, "tokenizer_config.json")
    path = written(tmp_path, content)
    found = read_tokenizer(tmp_path if settings else path)
    assert (found.mask, found.separator) == marks and found.added == added
    assert found.size == 4 + len(more) + len(added)


def test_the_hash_follows_file_and_marks(tmp_path: Path) -> None:
    path = written(tmp_path, words())
    first = read_tokenizer(path)
    written(tmp_path, {"mask_token": "cat"}, "tokenizer_config.json")
    assert read_tokenizer(path).sha256 == first.sha256
    assert read_tokenizer(tmp_path).mask == 1 and read_tokenizer(tmp_path).sha256 != first.sha256
    written(tmp_path, words(pre_tokenizer={"type": "WhitespaceSplit"}))
    assert read_tokenizer(path).sha256 != first.sha256


def test_merges_that_are_dropped_at_random_are_not(tmp_path: Path) -> None:
    content = json.loads(train_bpe(LINES, 320))
    content["model"]["dropout"] = 0.9
    found = read_tokenizer(written(tmp_path, content))
    tokens = [found.encode(LINES["en"])[0].tolist() for _ in range(20)]
    assert tokens == tokens[:1] * 20 and len(tokens[0]) < len(LINES["en"][0])


def test_what_is_lost_of_a_text_is_said(tmp_path: Path) -> None:
    cases = [
        (None, 0, ""),
        (normalizers.NFD(), 0, ""),
        (normalizers.Lowercase(), 1, "capitals"),
        (normalizers.BertNormalizer(), 2, "accents"),
        (normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]), 1, "accents"),
    ]
    for rule, count, named in cases:
        rules = Library.from_str(json.dumps(words()))
        rules.normalizer = rule
        found = read_tokenizer(written(tmp_path, json.loads(rules.to_str())))
        assert len(found.notes) == count and named in "".join(found.notes)


GROWING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}
DOUBLING = [{"type": "Replace", "pattern": one, "content": "a"} for one in ({"Regex": "(?=.)"}, {"String": ""})]
LONG_MAP = base64.b64encode(struct.pack("<I", 8) + bytes(8) + b"fi\0" + b"b" * 20_000 + b"\0").decode()
HOSTILE = [
    ({"model": {"type": "WordLevel", "vocab": {}, "unk_token": "x"}}, "cannot be used|0 tokens"),
    ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "x"}}, "Missing"),
    ({"model": {"type": "WordLevel", "vocab": {"a": 2**31, "[UNK]": 1}, "unk_token": "[UNK]"}}, "2147483649 tokens"),
    ({"model": {"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"}}, "cannot be used"),
    ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}, "out of vocabulary"),
    ({"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None}}, "unk_id"),
    ({"model": {"type": "Of another kind", "vocab": {"a": 0}}}, "cannot be used"),
    ({"model": {"type": "BPE"}}, "no model with a vocabulary"),
    ({"model": None}, "no model with a vocabulary"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False}}, "used"),
    ({"normalizer": {"type": "Sequence", "normalizers": [GROWING] * 5}}, "fill the memory"),
    *(({"normalizer": {"type": "Sequence", "normalizers": [one] * 14}}, "fill the memory") for one in DOUBLING),
    ({"normalizer": {"type": "Prepend", "prepend": "a" * 20_000}}, "fill the memory"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "A" * 2**21}}, "fill the memory"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG_MAP}}, "fill the memory"),
]


@pytest.mark.parametrize(("changes", "said"), HOSTILE)
def test_a_strange_file_is_refused(tmp_path: Path, changes, said) -> None:
    changes = {"added_tokens": [], "post_processor": None, **changes}
    with pytest.raises(InputError, match=said) as caught:
        read_tokenizer(written(tmp_path, words(**changes)))
    assert "tokenizer.json" in caught.value.where and caught.value.hint


def test_where_the_library_panics_an_error_is_told(tmp_path: Path, capfd) -> None:
    content = words(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
    with pytest.raises(InputError, match="Precompiled"):
        read_tokenizer(written(tmp_path, content))
    # The library's own trace of it.
    assert "panicked" in capfd.readouterr().err


def test_files_that_are_no_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    nested = "[" * 100_000 + "]" * 100_000
    for content, said in (("{", "no JSON"), ("", "empty"), ("[1]", "no tokenizer"), ("5", "no tokenizer"),
                          (nested, "no JSON"), ("<!doctype html>", "web page")):  # fmt: skip
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=said) as caught:
            read_tokenizer(path)
        assert caught.value.hint and "table" not in caught.value.hint
    for letter in "[{":
        # In a text they are none, but who counts before reading cannot know.
        path.write_text(json.dumps({**words(), "beside": letter * (MOST_LISTS + 1)}), encoding="utf-8")
        with pytest.raises(InputError, match="too many lists"):
            read_tokenizer(path)
    os.truncate(path, LARGEST_FILE + 1)
    with pytest.raises(InputError, match=f"more than {LARGEST_FILE} bytes"):
        read_tokenizer(path)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no tokenizer.json; it has vocab.txt") as caught:
        read_tokenizer(tmp_path)
    assert "save_pretrained" in caught.value.hint
    with pytest.raises(InputError, match="no such file"):
        read_tokenizer(tmp_path / "other.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="not an ordinary file"):
        read_tokenizer(tmp_path / "pipe.json")


def test_bpe_must_not_leave_letters_out(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    plain = {**spelt(["a", "b"]), "pre_tokenizer": None}
    fallback = {**spelt([*names, "a"], byte_fallback=True), "pre_tokenizer": None}
    for content in (spelt(alphabet), spelt(["a", "?"], unk_token="?"), fallback):
        found = read_tokenizer(written(tmp_path, content))
        assert found.encode(["ж".encode()])[0].size
    for content in (spelt(alphabet[1:]), plain, {**spelt(names[1:], byte_fallback=True), "pre_tokenizer": None}):
        with pytest.raises(InputError, match="leaves out letters"):
            read_tokenizer(written(tmp_path, content))


def test_trained_tokens_spell_every_text_back(tmp_path: Path) -> None:
    content = train_bpe(LINES, 320)
    (tmp_path / "tokenizer.json").write_bytes(content)
    found = read_tokenizer(tmp_path)
    assert (found.added, found.unknown, found.notes, found.before) == ((), None, (), ())
    assert 300 < found.size <= 320 and found.mask != found.separator
    rules = Library.from_str(content.decode())
    draw = random.Random(3)
    texts = ["".join(chr(draw.choice([*range(32, 600), *range(0x900, 0x980), 0x1F600])) for _ in range(40))
             for _ in range(30)]  # fmt: skip
    for text, ids in zip(texts, found.encode([text.encode() for text in texts]), strict=True):
        assert rules.decode(ids.tolist(), skip_special_tokens=False) == text
    assert not {found.mask, found.separator} & set(np.concatenate(found.encode([b"[MASK] [SEP]"])).tolist())


def test_words_with_vowel_signs_become_one_token(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(train_bpe(LINES, 600))
    found = read_tokenizer(tmp_path)
    assert [len(ids) for ids in found.encode(["हिन्दी".encode(), " बिल्ली".encode(), b"the"])] == [1, 1, 1]


def test_every_language_brings_equally_many_bytes() -> None:
    # The long one repeats a pair of letters far more often, but not within as many bytes as the short one has.
    short, long = [b"xyxyxyxyxy" * 4], [b"ab cd ef gh ij kl mn op qr st"] + [b"zwzwzwzwzwzw"] * 100
    kept = json.loads(train_bpe({"s": short, "l": long}, 300))["model"]["vocab"]
    assert "xy" in kept and "zw" not in kept
    assert "zw" in json.loads(train_bpe({"l": long}, 300))["model"]["vocab"]


def test_training_is_repeatable_and_leaves_the_environment(monkeypatch) -> None:
    first = train_bpe(LINES, 350)
    assert train_bpe(dict(reversed(LINES.items())), 350) == first
    code = "import sys, pickle; from probes.language_models.text_tokenizers import train_bpe as t; " \
           "sys.stdout.buffer.write(t(pickle.loads(sys.stdin.buffer.read()), 350))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(LINES), capture_output=True, check=True)
    assert done.stdout == first and not done.stderr
    for before in (None, "true"):
        if before is None:
            monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
        else:
            monkeypatch.setenv("TOKENIZERS_PARALLELISM", before)
        train_bpe(LINES, 300)
        assert os.environ.get("TOKENIZERS_PARALLELISM") == before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted where Linux lists them")
def test_no_threads_are_started(tmp_path: Path) -> None:
    code = (
        "import os, sys, pickle; from pathlib import Path; from probes.language_models import text_tokenizers as t\n"
        "lines = pickle.loads(sys.stdin.buffer.read()); path = Path(sys.argv[1])\n"
        "import tokenizers; path.write_bytes(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str().encode())\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "path.write_bytes(t.train_bpe(lines, 350)); t.read_tokenizer(path).encode(lines['en'] * 20)\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    command = [sys.executable, "-c", code, str(tmp_path / "made.json")]
    done = subprocess.run(command, input=pickle.dumps(LINES), capture_output=True, check=True, env=environment)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_what_cannot_be_trained_on_is_refused() -> None:
    for size in (299, 65_537):
        with pytest.raises(InputError, match=f"{size} tokens"):
            train_bpe(LINES, size)
    for texts, said in (({}, "no text"), ({"en": [b"a"], "fr": [b""]}, "'fr'"), ({"xx": [b"\xff\xfe"]}, "not UTF-8")):
        with pytest.raises(InputError, match=said):
            train_bpe(texts, 300)


def test_rules_that_the_library_cannot_read_within_limits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenizers import Tokenizer, models

    vocabulary = {f"token{place}": place for place in range(50_000)} | {"[UNK]": 50_000}
    Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path / "tokenizer.json").size >= 50_001
    monkeypatch.setattr(tokenizer_files, "Limits", lambda **given: Limits(memory=2**20, seconds=5))
    with pytest.raises(InputError, match="The tokenizer cannot be used: it") as caught:
        read_tokenizer(tmp_path / "tokenizer.json")
    assert caught.value.where == str(tmp_path / "tokenizer.json") and caught.value.hint
