"""Are the visible GPUs those that CUDA would show this process, without CUDA being started?"""

import pytest
import torch

from probes.core import graphics_cards
from probes.core.graphics_cards import VISIBLE, cards, listed_cards


@pytest.mark.parametrize(
    ("variable", "count", "seen"),
    [
        (None, 0, ()),
        (None, 3, ("0", "1", "2")),
        ("2,3", 2, ("2", "3")),
        # The machine has fewer, or torch has no CUDA.
        ("0,7", 1, ("0",)),
        ("0,1", 0, ()),
        ("", 0, ()),
        ("GPU-8932f937,GPU-77a1", 2, ("GPU-8932f937", "GPU-77a1")),
        # One process counts one part of a divided GPU.
        ("MIG-4b1d,MIG-5c2e", 1, ("MIG-4b1d", "MIG-5c2e")),
        ("MIG-4b1d,MIG-5c2e", 0, ()),
    ],
)
def test_visible_gpus_are_those_that_are_left(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, count: int, seen: tuple[str, ...]
) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VISIBLE, variable)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert cards() == seen


def test_nothing_is_asked_where_there_is_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    monkeypatch.setattr(graphics_cards, "is_installed", lambda package: False)
    assert cards() == ()


@pytest.mark.parametrize("variable", ["0,0", "-1", "none", ",0"])
def test_a_list_that_cuda_would_not_take_shows_none(variable: str) -> None:
    assert listed_cards(variable) == ()


def test_a_list_ends_at_what_is_no_gpu() -> None:
    assert listed_cards("3, 1,-1,2") == ("3", "1")
