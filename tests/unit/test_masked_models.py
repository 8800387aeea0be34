"""Is a model of the Hugging Face format asked as it was trained, and refused where its answers would be chance?"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor

from probes.core import library_imports as libraries
from probes.core.errors import InputError
from probes.language_models.masked_models import AtPositions, find_model_sets, logits_at, read_masked_model

SMALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 32}),
    "roberta": ("Roberta", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 34, "pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 34, "pad_token_id": 1}),
    "distilbert": ("DistilBert", {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24,
                                  "max_position_embeddings": 32}),
    "modernbert": ("ModernBert", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 32, "pad_token_id": 0,
                                  "bos_token_id": 3, "eos_token_id": 4, "cls_token_id": 3, "sep_token_id": 4}),
    "electra": ("Electra", {**SMALL, "intermediate_size": 24, "embedding_size": 8, "max_position_embeddings": 32}),
    "deberta-v2": ("DebertaV2", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 32,
                                 "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}),
    "albert": ("Albert", {**SMALL, "intermediate_size": 24, "embedding_size": 8, "max_position_embeddings": 32}),
}  # fmt: skip


def built(family: str, **changes: Any) -> Any:
    name, settings = FAMILIES[family]
    hub = libraries.transformers()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        model = getattr(hub, f"{name}ForMaskedLM")(getattr(hub, f"{name}Config")(**{**settings, **changes}))
        # As drawn, biases are 0 and logits hardly differ from position to position.
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn_like(weight)
    return model.eval()


def save_tokenizer(folder: Path, *, template: bool = True, tokens: int = 40, mask: str = "[MASK]") -> None:
    names = ["[PAD]", "[UNK]", "</s>", "[CLS]", "[SEP]", mask]
    vocabulary = {name: place for place, name in enumerate([*names, *(f"w{n}" for n in range(tokens - len(names)))])}
    rules = Library(models.WordLevel(vocabulary, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    if template:
        rules.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 4)]
        )
    rules.save(str(folder / "tokenizer.json"))


def saved(folder: Path, family: str = "bert", **changes: Any) -> Path:
    built(family, **changes).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def batch(rows: int = 3, length: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(6, 40, (rows, length), generator=generator)
    return ids, torch.rand(rows, length, generator=generator).argsort(1)[:, :4]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_whole_text_at_the_positions(tmp_path: Path, family: str) -> None:
    found = read_masked_model(saved(tmp_path, family))
    ids, positions = batch()
    marks = torch.ones(3, 1, dtype=torch.int64)
    with torch.inference_mode():
        logits = found.module(ids, positions)
        whole = built(family)(input_ids=torch.cat([3 * marks, ids, 4 * marks], 1)).logits[:, 1:-1]
    expected = torch.stack([row[chosen] for row, chosen in zip(whole, positions, strict=True)])
    assert found.module.early and torch.allclose(logits, expected, atol=1e-5)
    assert logits.std(dim=1).mean() > 0.01
    assert found.family == family and found.longest == 30 and found.tokenizer.mask == 5
    assert found.parameters == sum(weight.numel() for weight in built(family).parameters())
    assert not found.module.training


@pytest.mark.parametrize("family", FAMILIES)
def test_the_longest_window_runs(tmp_path: Path, family: str) -> None:
    found = read_masked_model(saved(tmp_path, family))
    ids, positions = batch(length=found.longest)
    assert found.module(ids, positions).isfinite().all()
    if "modern" not in family:
        # Learnt positions end there; those of ModernBERT are angles, and do not.
        with pytest.raises((IndexError, RuntimeError)):
            found.module(*batch(length=found.longest + 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_training_drops_nothing_at_random_and_reaches_every_weight(tmp_path: Path, family: str) -> None:
    module = read_masked_model(saved(tmp_path, family)).module.train()
    state = torch.random.get_rng_state()
    ids, positions = batch()
    first, second = module(ids, positions), module(ids, positions)
    assert torch.equal(first, second) and torch.equal(torch.random.get_rng_state(), state)
    first.logsumexp(2).sum().backward()
    still = [name for name, weight in module.named_parameters() if weight.grad is None]
    assert not still


def test_windows_are_left_bare_where_the_tokenizer_has_no_template(tmp_path: Path) -> None:
    saved(tmp_path)
    save_tokenizer(tmp_path, template=False)
    found = read_masked_model(tmp_path)
    ids, positions = batch()
    with torch.inference_mode():
        expected = built("bert")(input_ids=ids).logits.gather(1, positions[..., None].expand(-1, -1, 40))
        assert torch.allclose(found.module(ids, positions), expected, atol=1e-5)
    assert found.longest == 32


class Mixing(torch.nn.Module):
    """A model whose head mixes positions, so that it needs all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.base_model = built("bert").bert
        self.head = torch.nn.Conv1d(16, 40, 3, padding=1)

    def forward(self, **inputs: Any) -> Any:
        states = self.base_model(**{**inputs, "return_dict": True}).last_hidden_state
        from transformers.modeling_outputs import MaskedLMOutput

        return MaskedLMOutput(logits=self.head(states.transpose(1, 2)).transpose(1, 2))


def test_a_head_that_needs_the_whole_text_gets_it() -> None:
    model, (ids, positions) = Mixing(), batch()
    module = AtPositions(model).eval()
    with torch.inference_mode():
        expected = model(input_ids=ids).logits.gather(1, positions[..., None].expand(-1, -1, 40))
        assert not module.early and torch.equal(module(ids, positions), expected)
        assert not torch.allclose(logits_at(model, ids, positions), expected, atol=1e-3)


def test_the_body_is_left_as_it_was(tmp_path: Path) -> None:
    model, (ids, positions) = built("bert"), batch()
    before = model(input_ids=ids).logits
    logits_at(model, ids, positions)
    with pytest.raises(IndexError):
        logits_at(model, ids + 999, positions)
    assert torch.equal(model(input_ids=ids).logits, before)


def test_a_bare_encoder_is_refused_since_its_head_would_be_chance(tmp_path: Path) -> None:
    built("bert").bert.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(InputError, match=r"drawn at random: cls\.predictions") as caught:
        read_masked_model(tmp_path)
    assert "ForMaskedLM" in caught.value.hint


def test_a_model_saved_with_more_heads_is_taken(tmp_path: Path) -> None:
    hub = libraries.transformers()
    hub.BertForPreTraining(hub.BertConfig(**FAMILIES["bert"][1])).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    assert read_masked_model(tmp_path).family == "bert"


def test_models_that_continue_texts_are_refused(tmp_path: Path) -> None:
    hub = libraries.transformers()
    sizes = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    hub.GPT2LMHeadModel(hub.GPT2Config(**sizes)).save_pretrained(tmp_path / "gpt2")
    saved(tmp_path / "decoder", is_decoder=True)
    saved(tmp_path / "causal")
    config = json.loads((tmp_path / "causal" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "causal" / "config.json").write_text(json.dumps({**config, "architectures": ["BertLMHeadModel"]}))
    save_tokenizer(tmp_path / "gpt2")
    for name in ("gpt2", "decoder", "causal"):
        with pytest.raises(InputError, match="continues texts"):
            read_masked_model(tmp_path / name)


def test_other_models_are_refused(tmp_path: Path) -> None:
    hub = libraries.transformers()
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    hub.T5ForConditionalGeneration(hub.T5Config(**sizes)).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(InputError, match="no head that fills in"):
        read_masked_model(tmp_path)
    with pytest.raises(InputError, match="no language model"):
        read_masked_model("tfidf")


def test_tokenizers_that_do_not_belong_to_the_model_are_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    save_tokenizer(tmp_path, mask="other")
    with pytest.raises(InputError, match="tokenizer has no mask"):
        read_masked_model(tmp_path)
    save_tokenizer(tmp_path, tokens=41)
    with pytest.raises(InputError, match="41 tokens, the model 40"):
        read_masked_model(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no tokenizer\.json; it has vocab\.txt"):
        read_masked_model(tmp_path)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    model = built("bert")
    model.bert.embeddings.word_embeddings.weight.data[7] = float("nan")
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(InputError, match="finite"):
        read_masked_model(tmp_path)
    config = tmp_path / "config.json"
    changed = {**json.loads(config.read_text(encoding="utf-8")), "intermediate_size": 99}
    config.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json asks for"):
        read_masked_model(tmp_path)


def test_loading_leaves_the_random_state_and_gives_the_same_twice(tmp_path: Path) -> None:
    saved(tmp_path)
    state = torch.random.get_rng_state()
    one, two = read_masked_model(tmp_path), read_masked_model(str(tmp_path))
    assert torch.equal(torch.random.get_rng_state(), state) and one.sha256 == two.sha256
    ids, positions = batch()
    assert torch.equal(one.module(ids, positions), two.module(ids, positions))
    save_tokenizer(tmp_path, template=False)
    assert read_masked_model(tmp_path).sha256 != one.sha256


def sets(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text("{}", encoding="utf-8")
    return folder


def test_models_are_found_by_their_languages(tmp_path: Path) -> None:
    sets(tmp_path, "en", "fr+en", "de+en+fr")
    (tmp_path / "logs").mkdir()
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    found = find_model_sets(tmp_path)
    assert {codes: path.name for codes, path in found.items()} == {
        ("en",): "en", ("en", "fr"): "fr+en", ("de", "en", "fr"): "de+en+fr",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("en", "en+fr", "fr+en"), "same languages"),
        (("en+en",), "no set of languages"),
        (("en+",), "no set of languages"),
        ((), "No subfolder"),
        ((".",), "a model itself"),
    ],
)
def test_folders_of_models_that_are_unclear_are_refused(tmp_path: Path, names, said) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        sets(folder, name)
    with pytest.raises(InputError, match=said) as caught:
        find_model_sets(folder)
    assert caught.value.hint
    with pytest.raises(InputError, match="no such folder"):
        find_model_sets(tmp_path / "absent")
