"""A small operator of multipole attention on plane grids, as MANO (Colagrande et al. 2025, arXiv 2507.02748) has it.

Attention within windows looks at the near field. The same attention on a grid of half as many cells, and again on
its half, looks at the far field from ever further away; maps between the levels are shared by all of them. Each level
costs a quarter of the one before, so that the whole is linear in the number of nodes. A window is a number of nodes,
not a length: on another grid it is another share of the domain.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.operators.fno.layers import GridKind, coordinates

WIDTH, HEADS, BLOCKS, WINDOW, LEVELS = 32, 4, 3, 4, 4
"""Of `multipole_operator`: four levels of windows of 4 x 4 reach over the whole of a grid of 32 x 32."""


class MultipoleAttention(nn.Module):
    """Attention within square windows of a grid and of its coarser grids, summed.

    Parameters
    ----------
    width, heads
        Channels, and parts of them that attend alone.
    window
        Nodes along a side of a window, on every level.
    levels
        Grids, each of half as many nodes along a side as the one before.
    """

    def __init__(self, width: int, heads: int, window: int, levels: int) -> None:
        super().__init__()
        self.heads, self.window, self.levels = heads, window, levels
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.down = nn.Conv2d(width, width, 2, stride=2)
        self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
        reach = 2 * window - 1
        # A weight for every step between two nodes of a window.
        self.steps = nn.Parameter(torch.zeros(heads, reach * reach))
        nodes = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = nodes[:, :, None] - nodes[:, None, :] + window - 1
        self.register_buffer("places", apart[0] * reach + apart[1], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, width, *grid) to the same shape."""
        return self._level(x, self.levels)

    def _level(self, x: Tensor, left: int) -> Tensor:
        near = self._near(x)
        if left == 1:
            return near
        height, width = x.shape[2:]
        # An odd side repeats its last node.
        even = functional.pad(x, (0, width % 2, 0, height % 2), mode="replicate")
        far: Tensor = self.up(self._level(self.down(even), left - 1))
        return near + far[..., :height, :width]

    def _near(self, x: Tensor) -> Tensor:
        side, (height, width) = self.window, x.shape[2:]
        rows, columns = -(-height // side), -(-width // side)
        padded = functional.pad(x, (0, columns * side - width, 0, rows * side - height))
        there = functional.pad(x.new_ones(1, 1, height, width), (0, columns * side - width, 0, rows * side - height))
        tokens, real = (self._windows(one, rows, columns) for one in (padded, there))
        query, key, value = (self._split(one) for one in self.project(tokens).chunk(3, -1))
        # (n, windows, heads, side^2, side^2); nodes beyond the grid are seen by none.
        scores = query @ key.mT / math.sqrt(key.shape[-1]) + self.steps[:, self._places]
        scores = scores.masked_fill(real[:, :, None, None, :, 0] == 0, -math.inf)
        mixed = (torch.softmax(scores, -1) @ value).transpose(2, 3).flatten(3)
        y = self.merge(mixed).unflatten(1, (rows, columns)).unflatten(3, (side, side))
        whole: Tensor = y.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
        return whole[..., :height, :width]

    @property
    def _places(self) -> Tensor:
        places = self.places
        assert isinstance(places, Tensor)
        return places

    def _windows(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """Return (n, windows, side^2, channels) of (n, channels, *grid)."""
        cut = x.unflatten(3, (columns, self.window)).unflatten(2, (rows, self.window))
        windows: Tensor = cut.permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(1, 2)
        return windows

    def _split(self, tokens: Tensor) -> Tensor:
        parts: Tensor = tokens.unflatten(-1, (self.heads, -1)).transpose(2, 3)
        return parts


class MultipoleBlock(nn.Module):
    """Multipole attention and a perceptron at every node, each added to its input."""

    def __init__(self, width: int, heads: int, window: int, levels: int) -> None:
        super().__init__()
        self.before = nn.GroupNorm(1, width)
        self.attention = MultipoleAttention(width, heads, window, levels)
        self.between = nn.GroupNorm(1, width)
        self.widen, self.act, self.narrow = nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, width, *grid) to the same shape."""
        x = x + self.attention(self.before(x))
        y: Tensor = x + self.narrow(self.act(self.widen(self.between(x))))
        return y


class MultipoleOperator(nn.Module):
    """Lift field and coordinates, pass blocks of multipole attention, and project.

    Parameters
    ----------
    width, heads, blocks, window, levels
        As of `MultipoleAttention`; as many blocks.
    """

    def __init__(self, width: int, heads: int, blocks: int, window: int, levels: int) -> None:
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.blocks = nn.ModuleList([MultipoleBlock(width, heads, window, levels) for _ in range(blocks)])
        self.hidden, self.act, self.last = nn.Conv2d(width, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1)

    def forward(self, fields: Tensor, grid: GridKind = "closed") -> Tensor:
        """Map one field (n, 1, *grid) on a closed grid to another."""
        nodes = coordinates(grid, fields.shape[2:]).to(fields)
        x = self.lift(torch.cat([fields, nodes.expand(len(fields), *nodes.shape)], dim=1))
        for block in self.blocks:
            x = block(x)
        output: Tensor = self.last(self.act(self.hidden(x)))
        return output


def multipole_operator() -> MultipoleOperator:
    """Return the operator without training, for `--factory`: 3 blocks of 32 channels."""
    return MultipoleOperator(WIDTH, HEADS, BLOCKS, WINDOW, LEVELS)


def fresh_multipole_operator(seed: int) -> MultipoleOperator:
    """Return the operator with weights drawn by a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return multipole_operator()
