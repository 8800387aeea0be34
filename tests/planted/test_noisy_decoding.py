"""Do texts lose their contexts as often as the coin says, each by coins of its own?"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.core.progress import Silent
from probes.language_models.slot_model import SlotWorld
from probes.models.checkpoints import find_model
from probes.texts import noisy_decoding
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.grounded_prompts import Template
from probes.texts.noisy_decoding import SAMPLING, write
from probes.texts.token_draws import Sampling
from probes.texts.token_information import Information

WORLD = SlotWorld(5, 10, 0.1)
ROWS = WORLD.make_rows(120, 0.0, seed=8)
PAIRS = [Grounded(read_evidence(row.context, "row"), "") for row in ROWS]
PLAIN = Sampling(max_new_tokens=20)
"""Draws from the model's own probabilities."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slots")
    WORLD.write_model(folder)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


def written(folder: Path, cache: Cache, alpha: float, pairs: list[Grounded] = PAIRS, **call: Any) -> list[str]:
    call = {"seed": 0, "batch": 40, "sampling": PLAIN} | call
    where = {"template": Template(), "device": "cpu", "dtype": "float32"}
    found = write(find_model(str(folder)), pairs, alpha, cache=cache, progress=Silent(), **where, **call)  # type: ignore[arg-type]
    return found.read()


def wrong(texts: list[str]) -> np.ndarray:
    """Return, (texts, slots), which values are not those of the context."""
    words = [[value not in text.split() for _, value in pair.evidence.cells] for text, pair in zip(texts, PAIRS)]  # noqa: B905
    return np.array(words)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_wrong_values_is_that_of_the_coin(folder: Path, kept: Cache, alpha: float) -> None:
    texts = written(folder, kept, alpha)
    assert all(len(text.split()) == 14 and text.endswith(".") for text in texts)
    found = wrong(texts)
    # With context 1 in 10 values is wrong, without 9 in 10.
    expected = 0.1 + 0.8 * alpha
    assert abs(found.mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / found.size)


def test_each_text_has_coins_of_its_own(folder: Path, kept: Cache) -> None:
    found = wrong(written(folder, kept, 0.5)).astype(float)
    # One coin for a batch would make the share at a slot of a batch lean to .1 or .9: a deviation of .4, not of .08.
    shares = found.reshape(3, 40, WORLD.slots).mean(axis=1)
    assert shares.std() < 0.16
    # A text's coins do not hang together either: the number of errors varies as that of independent ones.
    assert found.sum(axis=1).var() == pytest.approx(WORLD.slots / 4, rel=0.5)


def auc(noisy: np.ndarray, faithful: np.ndarray) -> float:
    return float((faithful[:, None] > noisy).mean() + (faithful[:, None] == noisy).mean() / 2)


def test_information_falls_as_the_noise_grows(folder: Path, kept: Cache) -> None:
    call = {"seed": 0, "batch": 64, "device": "cpu", "dtype": "float64", "cache": kept, "progress": Silent()}
    probe = Information(find_model(str(folder)), Template(), "blank", **call)  # type: ignore[arg-type]

    def sums(alpha: float, seed: int = 0) -> np.ndarray:
        texts = written(folder, kept, alpha, seed=seed)
        pairs = [Grounded(pair.evidence, text) for pair, text in zip(PAIRS, texts, strict=True)]
        return probe.score(pairs)["cxmi_output"].round(6)

    faithful = sums(0.0)
    other = sums(0.0, seed=1)
    assert (other != faithful).any()
    # The deviation of the AUC of two equal samples is at most sqrt((n + m + 1) / (12 n m)), Mann and Whitney 1947.
    bound = 3 * math.sqrt(241 / (12 * 120 * 120))
    assert abs(auc(other, faithful) - 0.5) < bound
    curve = [auc(sums(alpha), faithful) for alpha in (0.1, 0.5, 1.0)]
    assert 0.5 + bound / 3 < curve[0] < curve[1] < curve[2] and curve[2] > 0.99


def test_a_text_depends_on_seed_row_and_alpha_alone(folder: Path, kept: Cache, tmp_path: Path) -> None:
    first = written(folder, kept, 0.5)
    assert written(folder, Cache(tmp_path), 0.5, PAIRS[:30], batch=7) == first[:30]
    assert written(folder, kept, 0.5, seed=1) != first
    assert written(folder, kept, 0.1) != written(folder, kept, 0.1, seed=1)


def test_a_second_run_needs_no_model(folder: Path, kept: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(folder, kept, 0.5)
    monkeypatch.setattr(noisy_decoding, "CausalLM", lambda *call, **named: pytest.fail("loaded again"))
    assert written(folder, kept, 0.5) == first


def test_the_papers_settings_write_the_likeliest(folder: Path, tmp_path: Path) -> None:
    assert (SAMPLING.temperature, SAMPLING.top_p, SAMPLING.max_new_tokens) == (0.6, 0.9, 90)
    # At this temperature the right value has more than 90 % of the probability, and top-p leaves it alone.
    assert not wrong(written(folder, Cache(tmp_path), 0.0, sampling=SAMPLING)).any()
    assert wrong(written(folder, Cache(tmp_path), 1.0, sampling=SAMPLING)).mean() > 0.8


def test_the_second_model_writes_what_the_coin_gives_it(folder: Path, tmp_path: Path) -> None:
    """A model that knows but one name writes it wherever the coin falls, and nothing else changes."""
    model = transformers().AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokeniser = transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with torch.no_grad():
        # The first features of the head are the words behind a line break, all names; others get a bad logit there.
        token = tokeniser.convert_tokens_to_ids("Jorvik")
        state = int(model.transformer.wte.weight[tokeniser.convert_tokens_to_ids("\n")].argmax())
        best = model.lm_head.weight[:, state] * 0 - 60.0
        best[token] = 60.0
        model.lm_head.weight[:, state] = best
    model.save_pretrained(tmp_path / "second")
    tokeniser.save_pretrained(tmp_path / "second")
    texts = written(folder, Cache(tmp_path / "c"), 1.0, context_free=find_model(str(tmp_path / "second")))
    assert {text.split()[0] for text in texts} == {"Jorvik"} and len({text.split()[2] for text in texts}) == 10
    half = written(folder, Cache(tmp_path / "c"), 0.5, context_free=find_model(str(tmp_path / "second")))
    assert 40 < sum(text.split()[0] == "Jorvik" for text in half) < 90


def test_a_second_model_with_other_tokens_is_refused(folder: Path, tmp_path: Path) -> None:
    SlotWorld(5, 11, 0.1).write_model(tmp_path / "second")
    with pytest.raises(InputError, match="cannot be mixed") as caught:
        written(folder, Cache(tmp_path), 0.5, context_free=find_model(str(tmp_path / "second")))
    assert caught.value.where == str(tmp_path / "second")


@pytest.mark.parametrize("cached", [True, False])
def test_a_model_that_keeps_nothing_writes_the_same(
    folder: Path, kept: Cache, tmp_path: Path, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(folder, kept, 0.5)
    taken: list[int] = []
    original = noisy_decoding._Mixture.__call__

    def spied(self: Any, tokens: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        self._name = self._name if cached else None
        found = original(self, tokens, logits)
        taken.append(self._kept is not None)
        return found

    monkeypatch.setattr(noisy_decoding._Mixture, "__call__", spied)
    assert written(folder, Cache(tmp_path), 0.5) == expected
    assert taken and set(taken) == {cached}


def test_prompts_that_leave_no_room_are_refused(folder: Path, tmp_path: Path) -> None:
    pair = Grounded(Evidence("food: Thai\n" * 300), "")
    assert written(folder, Cache(tmp_path), 0.5, [pair])
    with pytest.raises(InputError, match="do not fit"):
        written(folder, Cache(tmp_path), 0.5, [pair], sampling=Sampling(max_new_tokens=255))
