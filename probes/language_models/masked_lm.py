"""The small encoder of the interference matrix: BERT's blocks, computed only where tokens are hidden.

With `front=0` it is BERT as Devlin et al. 2019 describe it (arXiv 1810.04805), to the bit of a weight's name and place.
The front end is a convolution over the embeddings. Without it such a model predicts letters by their frequency alone
for hundreds of steps, until its attention has learnt to look at neighbours; some pairs of languages never get there.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Network = Callable[[Tensor, Tensor], Tensor]
"""(ids (b, t), positions (b, m)) -> logits (b, m, vocabulary), all ids and positions int64."""
EPSILON = 1e-12
_STD = 0.02


class Block(nn.Module):
    """One layer: self-attention, then a network of two layers; each is added to its input and normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attend = nn.Linear(width, 3 * width)
        self.gathered = nn.Linear(width, width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.norm_attention = nn.LayerNorm(width, eps=EPSILON)
        self.norm_output = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, states: Tensor, asked: Tensor | None = None) -> Tensor:
        """Map states (b, t, width) to the next ones of the same shape; given `asked` (b, m, width), to those alone."""
        width = states.shape[2]
        if asked is None:
            asked = states
            query, key, value = self.attend(states).split(width, dim=2)
        else:
            query = functional.linear(asked, self.attend.weight[:width], self.attend.bias[:width])
            rest = functional.linear(states, self.attend.weight[width:], self.attend.bias[width:])
            key, value = rest.split(width, dim=2)
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (query, key, value))
        seen = functional.scaled_dot_product_attention(query, key, value)
        asked = self.norm_attention(asked + self.gathered(seen.transpose(1, 2).reshape(asked.shape)))
        out: Tensor = self.norm_output(asked + self.narrow(functional.gelu(self.widen(asked))))
        return out


class MaskedLM(nn.Module):
    """A masked language model of a few layers.

    Parameters
    ----------
    vocabulary, width, layers, heads, length
        Ids; size of a state; blocks; attention heads in each; tokens of a window.
    front
        Tokens that the convolution over the embeddings spans, an odd number; 0: none.
    seed
        Of the initial weights; the same seed gives the same weights wherever the sizes are the same.

    Raises
    ------
    ValueError
        Where the width is no multiple of the heads, or the front end spans an even number of tokens.
    """

    def __init__(
        self, *, vocabulary: int, width: int, layers: int, heads: int, length: int, front: int, seed: int
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} cannot be split among {heads} heads")
        if front and front % 2 == 0:
            raise ValueError("a front end that looks as far to the left as to the right spans an odd number of tokens")
        # Layers draw weights of their own from the state that the process shares.
        with torch.random.fork_rng(devices=[]):
            self.token = nn.Embedding(vocabulary, width)
            self.position = nn.Parameter(torch.empty(length, width))
            self.front = nn.Conv1d(width, width, front, padding="same") if front else None
            self.norm_input = nn.LayerNorm(width, eps=EPSILON)
            self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
            self.transform = nn.Linear(width, width)
            self.norm_head = nn.LayerNorm(width, eps=EPSILON)
            self.bias = nn.Parameter(torch.empty(vocabulary))
        self._draw(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _draw(self, generator: torch.Generator) -> None:
        for name, weight in self.named_parameters():
            if name.startswith("front.weight"):
                # Of the scale of the embeddings it is added to: at .02 it would have no effect for hundreds of steps.
                weight.normal_(0, 1 / math.sqrt(weight[0].numel()), generator=generator)
            elif weight.ndim > 1:
                weight.normal_(0, _STD, generator=generator)
            elif "norm" in name and name.endswith("weight"):
                weight.fill_(1.0)
            else:
                weight.zero_()

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return logits at the positions only, (b, m, vocabulary)."""
        states = self.token(ids) + self.position[: ids.shape[1]]
        if self.front is not None:
            states = states + self.front(states.transpose(1, 2)).transpose(1, 2)
        states = self.norm_input(states)
        for block in self.blocks[:-1]:
            states = block(states)
        asked = states.gather(1, positions.unsqueeze(2).expand(-1, -1, states.shape[2]))
        # The last block's output at other positions is not used.
        asked = self.blocks[-1](states, asked)
        asked = self.norm_head(functional.gelu(self.transform(asked)))
        return functional.linear(asked, self.token.weight, self.bias)
