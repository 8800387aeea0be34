"""Phone vectors: the frames of each phone token pooled, one vector a layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class PhoneInterval:
    """A phone of an alignment, from `start` up to `end`, in seconds from the start of the clip."""

    phone: str
    start: float
    end: float


def pool_phones(states: Tensor, centres: Tensor, intervals: Sequence[PhoneInterval]) -> Tensor:
    """Return the mean state of every phone over the frames whose centre lies inside it.

    A phone shorter than the distance of two frames may hold no centre; it takes the frame that is nearest to its
    middle.

    Parameters
    ----------
    states
        Hidden states, shape (layers, frames, width).
    centres
        Centre of each frame's receptive field, seconds, shape (frames,).

    Returns
    -------
    float32, shape (layers, phones, width)

    Examples
    --------
    >>> states = torch.tensor([[[1.0], [3.0], [8.0]]])
    >>> phones = [PhoneInterval("a", 0.0, 0.04), PhoneInterval("b", 0.042, 0.046)]
    >>> pool_phones(states, torch.tensor([0.01, 0.03, 0.05]), phones).tolist()
    [[[2.0], [8.0]]]
    """
    if not intervals:
        return states.new_zeros((len(states), 0, states.shape[2]), dtype=torch.float32)
    starts, ends = (torch.tensor([getattr(one, name) for one in intervals])[:, None] for name in ("start", "end"))
    inside = (centres >= starts) & (centres < ends)
    empty = ~inside.any(dim=1)
    if bool(empty.any()):
        nearest = (centres - (starts + ends)[empty] / 2).abs().argmin(dim=1)
        inside[empty, nearest] = True
    shares = inside.float() / inside.sum(dim=1, keepdim=True)
    return torch.einsum("pf,lfw->lpw", shares, states.float())
