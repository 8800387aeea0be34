"""Positions beyond a table are found without values, and those within are not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from probes.scaling.counting import count
from probes.scaling.reference_modules import factory_target
from probes.scaling.workloads import Case, LengthError

Positions = Callable[[int], Tensor]
WAYS: dict[str, tuple[Positions, int]] = {
    "arange": (lambda n: torch.arange(n)[None], 0),
    "int32": (lambda n: torch.arange(n, dtype=torch.int32).expand(1, n), 0),
    "offset": (lambda n: torch.arange(n).view(1, -1) + 2, 2),
    "from": (lambda n: torch.arange(3, n + 3)[:n].unsqueeze(0), 3),
    "mask": (lambda n: (torch.ones(1, n, dtype=torch.long).cumsum(1) * torch.ones(1, n).ne(0)) - 1 + 2, 2),
    "subtracted": (lambda n: (torch.arange(n + 1) - 1)[None, 1:].clone(), 0),
    "backwards": (lambda n: torch.arange(n - 1, -1, -1), 0),
}


def looked_up(way: str, rows: int, n: int, *, real: bool = False) -> None:
    class Learned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(rows, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table(WAYS[way][0](x.shape[1]))

    count(factory_target("learned", lambda batch, n, width, device: Learned()), Case(n=n, width=4), real=real)


@pytest.mark.parametrize("way", WAYS)
def test_the_first_length_beyond_the_table_is_told(way: str) -> None:
    longest = 20 - WAYS[way][1]
    looked_up(way, 20, longest)
    looked_up(way, 20, longest, real=True)
    for real in (False, True):
        with pytest.raises(LengthError, match="Position 20 is beyond a table of 20 rows"):
            looked_up(way, 20, longest + 1, real=real)


def call(f: Callable[[Tensor], object], n: int) -> None:
    count(factory_target("f", lambda batch, n, width, device: f), Case(n=n, width=4))


def test_tables_that_are_indexed_otherwise() -> None:
    table = torch.zeros(20, 4)
    for f in (
        lambda x: table[torch.arange(x.shape[1])],
        lambda x: table.index_select(0, torch.arange(x.shape[1])),
        lambda x: table.T.index_select(1, torch.arange(x.shape[1])),
    ):
        call(f, 20)
        with pytest.raises(LengthError, match="20 rows"):
            call(f, 21)


def test_what_is_not_known_raises_nothing() -> None:
    table = torch.zeros(20, 4)
    call(lambda x: table[x.argmax(-1)], 50)
    call(lambda x: table[torch.arange(x.shape[1]) % 20], 50)
    call(lambda x: table[torch.arange(x.shape[1]).clamp(max=19)], 50)
    call(lambda x: table[torch.arange(x.shape[1]).remainder_(20)], 50)


def test_what_is_written_through_a_view_is_known_no_more() -> None:
    def call(x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        places[64:].fill_(0)
        return F.embedding(places, torch.zeros(64, 4))

    for real in (False, True):
        assert count(factory_target("f", lambda *_: call), Case(n=128, width=4), real=real).calls > 0
