"""What the checkpoint's own CTC head is said to have heard, and when it cannot be asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from probes.core.errors import InputError
from probes.models.checkpoints import ModelFolder
from probes.speech.vocabularies import Vocabulary, read_vocabulary

CTC = {"architectures": ["Wav2Vec2ForCTC"]}


def folder(place: Path, vocabulary: object, *, tokenizer: object = None, **config: Any) -> ModelFolder:
    for name, content in (("vocab.json", vocabulary), ("tokenizer_config.json", tokenizer)):
        if isinstance(content, bytes):
            (place / name).write_bytes(content)
        elif content is not None:
            (place / name).write_text(json.dumps(content), encoding="utf-8")
    return ModelFolder(
        reference="m", path=place, family="wav2vec2", config={**CTC, **config}, weights=(), sha256="0" * 64
    )


@pytest.mark.parametrize(
    ("vocabulary", "tokenizer", "config", "text"),
    [
        ({"<pad>": 0, "a": 1, "|": 2, "b": 3}, None, {"pad_token_id": 0}, "aa b"),
        ({"[blank]": 0, "a": 1, "|": 2, "b": 3}, None, {"pad_token_id": None}, "aa b"),
        ({"a": 1, "_": 2, "b": 3, "~": 0}, {"pad_token": {"content": "~"}, "word_delimiter_token": "_"}, {}, "aa b"),
        # Not padding at 3 but what the tokenizer names; other marks are no text, nor the name of the unknown.
        ({"P": 0, "a": 1, "<s>": 2, "u": 3}, {"pad_token": "P", "unk_token": "u"}, {"pad_token_id": 3}, "aa"),
    ],
)
def test_blank_delimiter_and_marks_are_those_of_the_tokenizer(
    tmp_path: Path, vocabulary: dict[str, int], tokenizer: object, config: dict[str, Any], text: str
) -> None:
    found = read_vocabulary(folder(tmp_path, vocabulary, tokenizer=tokenizer, **config))
    assert isinstance(found, Vocabulary)
    assert found.decode([1, 0, 1, 2, 3, 0]) == text


@pytest.mark.parametrize("content", [b"{bad", b"\xff\xfe{}", b"[" * 100_000, b""])
@pytest.mark.parametrize("name", ["vocab.json", "tokenizer_config.json"])
def test_files_that_cannot_be_read_are_wrong_input(tmp_path: Path, name: str, content: bytes) -> None:
    model = folder(tmp_path, {"<pad>": 0, "a": 1})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_vocabulary(model)
    assert name in error.value.where
    assert "not used" in error.value.hint


@pytest.mark.parametrize("vocabulary", [{"eng": {"<pad>": 0, "a": 1}}, {"a": True}, {"a": 1.5}, [], {}, {"<pad>": 0}])
def test_a_vocabulary_that_says_no_symbols_is_a_reason_not_to_use_the_head(tmp_path: Path, vocabulary: object) -> None:
    found = read_vocabulary(folder(tmp_path, vocabulary))
    assert isinstance(found, str)
    assert "vocab.json" in found


def test_without_a_head_nothing_is_read_and_with_one_a_missing_vocabulary_is_told(tmp_path: Path) -> None:
    assert read_vocabulary(folder(tmp_path, b"{bad", architectures=["Wav2Vec2Model"])) == ""
    (tmp_path / "vocab.json").unlink()
    assert "no vocab.json" in str(read_vocabulary(folder(tmp_path, None)))


def test_a_symbol_of_several_characters_has_its_number(tmp_path: Path) -> None:
    found = read_vocabulary(folder(tmp_path, {"<pad>": 0, "|": 1, "tʃ": 2, "aɪ": 3, "AH0": 4, "t": 5, " ": 6}))
    assert isinstance(found, Vocabulary)
    assert found.numbers == {" ": 1, "tʃ": 2, "aɪ": 3, "AH0": 4, "t": 5}
