"""Does the example's language model train repeatably into a folder that any tool can load?"""

import json
import math
from pathlib import Path

import pytest
import torch

from probes.core import library_imports as libraries
from probes.core.progress import Silent
from probes.models.checkpoints import find_model
from probes.texts.causal_lm import CONTEXT, END, deal_batches, train_causal_lm
from probes.texts.synthetic_sentences import make_sentences

TEXTS = make_sentences(400, seed=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train_causal_lm(TEXTS, folder, seed=5, progress=Silent(), steps=4, layers=1)
    return folder


def loss(folder: Path, texts: list[str]) -> float:
    transformers = libraries.transformers()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    losses = []
    for text in texts:
        ids = torch.tensor([[0, *tokeniser(text).input_ids, 0]])
        with torch.inference_mode():
            losses.append(model(input_ids=ids, labels=ids).loss.item())
    return sum(losses) / len(losses)


def test_the_folder_is_an_ordinary_one(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["GPT2LMHeadModel"] and config["n_positions"] == CONTEXT
    assert find_model(str(folder)).family == "gpt2"


def test_the_tokeniser_spells_and_reads_back(folder: Path) -> None:
    tokeniser = libraries.transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert tokeniser.convert_tokens_to_ids(END) == tokeniser.eos_token_id == tokeniser.bos_token_id == 0
    for text in [*TEXTS[:20], "Words it never saw: xylophone, 42% of Q&A!"]:
        assert tokeniser.decode(tokeniser(text).input_ids) == text
    assert sum(len(tokeniser(text).input_ids) for text in TEXTS) < 1.5 * sum(len(text.split()) for text in TEXTS)


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    torch.rand(3)
    for name, seed in (("same", 5), ("other", 6)):
        train_causal_lm(TEXTS, tmp_path / name, seed=seed, progress=Silent(), steps=4, layers=1)
    torch.random.set_rng_state(before)
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "same" / file).read_bytes() == (folder / file).read_bytes()
    weights = (folder / "model.safetensors").read_bytes()
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != weights


def test_training_leaves_the_global_random_state_alone(tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    train_causal_lm(TEXTS[:40], tmp_path, seed=5, progress=Silent(), steps=1, layers=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_training_teaches_sentences_that_it_never_saw(folder: Path, tmp_path: Path) -> None:
    train_causal_lm(TEXTS, tmp_path, seed=5, progress=Silent(), steps=80, layers=1)
    held = make_sentences(40, seed=9)
    assert loss(tmp_path, held) < loss(folder, held) - 1.5
    assert loss(tmp_path, held) < 0.6 * math.log(1_500)


def test_a_pass_deals_every_text_once_among_texts_of_its_length() -> None:
    examples = [torch.full((5 + at % 20,), at) for at in range(320)]
    dealt = deal_batches(examples, torch.Generator().manual_seed(0))
    batches = [next(dealt) for _ in range(10)]
    assert sorted(int(one[0]) for batch in batches for one in batch) == list(range(320))
    assert max(max(map(len, batch)) - min(map(len, batch)) for batch in batches) <= 4
    assert [len(one) for one in batches[0]] != [len(one) for one in next(dealt)]


def test_a_long_text_is_cut_to_the_context(tmp_path: Path) -> None:
    train_causal_lm([" ".join(TEXTS), *TEXTS[:40]], tmp_path, seed=0, progress=Silent(), steps=2, layers=1)
    assert (tmp_path / "model.safetensors").is_file()
