"""Bytes of decode states, by hand; caches of Hugging Face by their formulas."""

from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from probes.core.library_imports import transformers
from probes.scaling.decode_state import StateBytes, state_bytes


@dataclass
class Kept:
    keys: Tensor
    name: str = "kept"


class Slotted:
    __slots__ = ("missing", "values")

    def __init__(self, values: Tensor) -> None:
        self.values = values


def test_each_storage_counts_once_wherever_it_stands() -> None:
    one, other = torch.zeros(10), torch.zeros(6, dtype=torch.float64)
    state = OrderedDict(
        a=(one, [one]), b=Kept(one), c=SimpleNamespace(deep={1: Slotted(other)}), d=nn.Linear(9, 9), e=3
    )
    assert state_bytes(state) == StateBytes(40 + 48, 40 + 48)
    assert state_bytes(one[:3]) == StateBytes(12, 40)
    assert state_bytes(one.view(2, 5).chunk(5, 1)) == StateBytes(40, 40)
    assert state_bytes(None) == StateBytes(0, 0)


def test_a_cycle_ends_and_weights_are_no_state() -> None:
    loop: list[object] = [torch.zeros(3)]
    loop.append({"again": loop, "module": torch})
    assert state_bytes(loop) == StateBytes(12, 12)
    model = nn.Linear(4, 4)
    assert state_bytes(model) == StateBytes(0, 0)
    model.state = torch.zeros(5)  # type: ignore[assignment]
    assert state_bytes(model) == StateBytes(20, 20)


@pytest.mark.parametrize("n", [3, 20])
def test_caches_of_hugging_face(n: int) -> None:
    hf = transformers()
    config = hf.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, sliding_window=None
    )
    pairs = 2 * 2 * n * 8 * 4
    for cache, room in ((hf.DynamicCache(config=config), n), (hf.StaticCache(config=config, max_cache_len=40), 40)):
        for layer in range(2):
            cache.update(torch.zeros(1, 2, n, 8), torch.zeros(1, 2, n, 8), layer)
        found = state_bytes(cache)
        # A layer with room made before has a counter of eight bytes.
        counters = 2 * 8 if room == 40 else 0
        assert found == StateBytes(2 * pairs + counters, 2 * pairs * room // n + counters)
