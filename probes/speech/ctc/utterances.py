"""The clips of a corpus as CTC probes take them: frames, letters, and the folds that train on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterances:
    """A batch of clips.

    Parameters
    ----------
    frames
        All clips end to end, shape (layers, frames, width), float32.
    counts
        Frames of each clip.
    targets
        Symbol numbers of each clip.
    fold
        The fold that tests each clip, shape (clips,).
    dev
        Whether each fold keeps the clip for early stopping, shape (folds, clips).
    """

    frames: Tensor
    counts: list[int]
    targets: list[Tensor]
    fold: Tensor
    dev: Tensor

    @property
    def train(self) -> Tensor:
        """Whether each fold trains on each clip, shape (folds, clips)."""
        return (torch.arange(len(self.dev))[:, None] != self.fold[None]) & ~self.dev & self._fits

    @property
    def _fits(self) -> Tensor:
        """Whether each clip has enough frames: one a letter, and one more between two equal letters."""
        needed = [len(target) + int((target[1:] == target[:-1]).sum()) for target in self.targets]
        return torch.tensor(self.counts) >= torch.tensor(needed)

    def over_frames(self, clips: Tensor) -> Tensor:
        """Repeat values of the clips, shape (..., clips), over their frames, shape (..., frames)."""
        return torch.repeat_interleave(clips, torch.tensor(self.counts), dim=-1)


class Source(Protocol):
    """Interface of clips that are read again by number, so that memory does not grow with the corpus."""

    @property
    def folds(self) -> int:
        """Number of folds."""

    @property
    def symbols(self) -> int:
        """Size of the alphabet with blank."""

    @property
    def step(self) -> int:
        """Number of clips in one step: enough for one large product, few enough for memory."""

    @property
    def fold(self) -> Tensor:
        """The fold that tests each clip, shape (clips,)."""

    @property
    def dev(self) -> Tensor:
        """Whether each fold keeps the clip for early stopping, shape (folds, clips)."""

    @property
    def order(self) -> Sequence[Sequence[int]]:
        """Numbers of clips that are stored together, batch by batch."""

    def read(self, clips: Sequence[int]) -> Utterances:
        """Return these clips as one batch."""


def chunks(source: Source, order: Sequence[int] | None = None, only: Tensor | None = None) -> Iterator[list[int]]:
    """Yield the numbers of clips to read together, in storage order or as `order` says.

    Parameters
    ----------
    order
        Positions in `source.order`.
    only
        Whether to take each clip, shape (clips,).
    """
    waiting: list[int] = []
    for position in range(len(source.order)) if order is None else order:
        waiting += [clip for clip in source.order[position] if only is None or bool(only[clip])]
        if len(waiting) >= source.step:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
