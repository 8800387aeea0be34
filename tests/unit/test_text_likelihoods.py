"""Are likelihoods of texts, and the attacks made of them, those of a plain loop over whole texts?"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from memorised_texts import CONTEXT, background, train_lm

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.core.progress import Advance, Silent
from probes.models.checkpoints import find_model
from probes.texts import text_likelihoods
from probes.texts.membership_attacks import against_reference, scores_of
from probes.texts.text_generation import Speller
from probes.texts.text_likelihoods import Likelihood, Passage, likelihoods_of, read_passages

TEXTS = [*background(6), "ba !", "bako pu", " ".join(background(8))]
TOLERANCE = 5e-5
"""Rounding of single precision over a layer, at log-likelihoods of about 10 and standard deviations of about 1."""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "start"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model whose tokenizer opens texts with a token of its own, and one whose does not."""
    texts = background(100)
    return train_lm(tmp_path_factory.mktemp("lm"), texts[:40], known=texts, steps=8, width=32, start=request.param)


def measured(folder: Path, cache: Path, batch: int = 4, *, start: bool = True) -> tuple[Any, Any]:
    model = find_model(str(folder))
    passages = read_passages(Speller(model), TEXTS, start=start)
    assert all(passages)
    call = {"device": "cpu", "dtype": "float32", "cache": Cache(cache), "progress": Silent()}
    return passages, likelihoods_of(model, passages, batch=batch, **call)


def plain(folder: Path, text: str, *, start: bool) -> dict[str, float]:
    """Score a text by transformers alone, as the published code of the attacks does: labels are the inputs."""
    model = transformers().AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    tokeniser = transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ids = tokeniser(text).input_ids
    if start and ids[0] != tokeniser.bos_token_id:
        ids = [tokeniser.bos_token_id, *ids]
    ids = ids[:CONTEXT]
    seen = tokeniser.decode(ids, skip_special_tokens=True)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1].double()
    own, standard = [], []
    for row, token in zip(logits, ids[1:], strict=True):
        chances = [float(one) for one in row.softmax(0)]
        mean = sum(one * np.log(one) for one in chances)
        spread = sum(one * np.log(one) ** 2 for one in chances) - mean**2
        own.append(np.log(chances[token]))
        standard.append((own[-1] - mean) / np.sqrt(spread))
    count = max(1, int(len(own) * 0.2 + 1e-9))
    loss = float(np.mean(own))
    return {
        "loss": loss,
        "zlib": loss / (8 * len(zlib.compress(seen.encode()))),
        "min-k": float(np.mean(sorted(own)[:count])),
        "min-k++": float(np.mean(sorted(standard)[:count])),
    }


@pytest.mark.parametrize("start", [True, False])
def test_all_attacks_are_those_of_a_plain_loop(folder: Path, tmp_path: Path, start: bool) -> None:
    found = scores_of(*measured(folder, tmp_path, start=start))
    wanted = [plain(folder, text, start=start) for text in TEXTS]
    assert set(found) == set(wanted[0])
    for name, scores in found.items():
        np.testing.assert_allclose(scores, [one[name] for one in wanted], rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def test_the_batch_decides_nothing(folder: Path, tmp_path: Path) -> None:
    one, other = (scores_of(*measured(folder, tmp_path / str(batch), batch)) for batch in (1, 9))
    for name, scores in one.items():
        np.testing.assert_allclose(scores, other[name], rtol=TOLERANCE, atol=TOLERANCE)


def test_of_a_long_text_the_beginning_is_read(folder: Path, tmp_path: Path) -> None:
    passages, found = measured(folder, tmp_path)
    whole = Speller(find_model(str(folder))).whole(TEXTS[-1])
    assert passages[-1].left == len(whole) + passages[-1].opened - CONTEXT > 0 and found[-1].tokens == CONTEXT - 1
    assert TEXTS[-1].startswith(passages[-1].text) and 20 < len(passages[-1].text) < len(TEXTS[-1])
    assert all(one.left == 0 and one.text == text for one, text in zip(passages[:-1], TEXTS, strict=False))


def test_fewer_than_two_tokens_are_no_text(folder: Path) -> None:
    speller = Speller(find_model(str(folder)))
    # One token with a start token before it has a likelihood; alone it has none.
    (found,) = read_passages(speller, ["!"], start=False)
    opened = len(speller.whole("!")) > 1
    assert (found is not None) == opened
    (found, nothing) = read_passages(speller, ["!", ""])
    assert found is not None and found.ids[0] == speller.begin[0] and found.opened == (not opened) and nothing is None


class Phases(Silent):
    """Progress that counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    @contextmanager
    def phase(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        """Count."""

        def advance(count: int) -> None:
            self.steps += count

        yield advance


def test_what_is_in_the_cache_needs_no_weights(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = measured(folder, tmp_path)
    monkeypatch.setattr(text_likelihoods, "CausalLM", lambda *_, **__: pytest.fail("weights were loaded"))
    progress, model = Phases(), find_model(str(folder))
    passages = read_passages(Speller(model), TEXTS)
    call = {"device": "cpu", "dtype": "float32", "cache": Cache(tmp_path), "progress": progress}
    assert likelihoods_of(model, [*passages, passages[0]], batch=4, **call) == [*first, first[0]]
    assert progress.steps == len(TEXTS)


def test_a_large_vocabulary_makes_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [tuple(range(size)) for size in (2, 2, 3, 5, 5)]
    monkeypatch.setattr(text_likelihoods, "_MOST_LOGITS", 100)
    assert [len(part) for part in text_likelihoods._batches(rows, 10, 10)] == [3, 2]
    assert [len(part) for part in text_likelihoods._batches(rows, 2, 1)] == [2, 2, 1]


def test_a_certain_model_gives_finite_numbers() -> None:
    law = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]).double()
    own, standard = text_likelihoods._standardised(law, torch.tensor([0, 1]))
    assert own.tolist() == [0.0, 0.0] and standard.tolist() == [0.0, 0.0]


def test_a_model_that_is_broken_is_refused(folder: Path, tmp_path: Path) -> None:
    model = transformers().AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    with torch.no_grad():
        model.transformer.wte.weight[:] = torch.nan
    model.save_pretrained(tmp_path / "broken")
    for file in folder.glob("tokenizer*"):
        (tmp_path / "broken" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match="not finite"):
        measured(tmp_path / "broken", tmp_path / "cache")


def test_a_reference_is_compared_by_token_or_by_byte() -> None:
    passages = [Passage((1, 2, 3), "abcd"), Passage((1, 2), "é")]
    own = [Likelihood(2, -4.0, 0, 0), Likelihood(1, -1.0, 0, 0)]
    other = [Likelihood(2, -8.0, 0, 0), Likelihood(1, -0.5, 0, 0)]
    pair = (passages, own), (passages, other)
    assert against_reference(*pair, same_tokens=True).tolist() == [2.0, -0.5]
    assert against_reference(*pair, same_tokens=False).tolist() == [1.0, -0.25]
