"""One forward-backward pass of CTC for many probes over the same clips."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import ctc_loss, log_softmax

from probes.ctc.alphabet import BLANK
from probes.ctc.utterances import Utterances


@dataclass(frozen=True, slots=True)
class Pass:
    """Loss of every probe and clip, (folds, layers, clips), and its gradient at every frame's scores.

    `gradient` has shape (folds, layers, frames, symbols); `probability` minus `gradient` is the
    posterior of the symbols given the transcript. A clip whose text cannot fit its frames has loss 0
    and gradient 0.
    """

    loss: Tensor
    gradient: Tensor
    probability: Tensor


def scores(frames: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """Return the scores of all probes, shape (folds, layers, frames, symbols), by one product a layer."""
    folds, layers, width, symbols = weights.shape
    joined = weights.permute(1, 2, 0, 3).reshape(layers, width, folds * symbols)
    found = torch.bmm(frames, joined).reshape(layers, -1, folds, symbols)
    return found.permute(2, 0, 1, 3) + biases[:, :, None]


def forward_backward(batch: Utterances, found: Tensor) -> Pass:
    """Run CTC over the scores of a batch, shape (folds, layers, frames, symbols)."""
    folds, layers, _, symbols = found.shape
    clips, longest = len(batch.counts), max(batch.counts)
    counts = torch.tensor(batch.counts)
    starts = torch.cumsum(counts, 0) - counts
    inside = torch.arange(longest)[None] < counts[:, None]
    place = torch.where(inside, starts[:, None] + torch.arange(longest)[None], 0)
    logs = log_softmax(found, dim=-1)
    padded = logs[:, :, place].reshape(folds * layers * clips, longest, symbols).transpose(0, 1)
    leaf = padded.contiguous().requires_grad_()
    lengths = torch.tensor([len(target) for target in batch.targets])
    loss = ctc_loss(
        leaf,
        torch.cat(batch.targets * (folds * layers)),
        counts.repeat(folds * layers),
        lengths.repeat(folds * layers),
        blank=BLANK,
        reduction="none",
        zero_infinity=True,
    )
    # The kernel's gradient at log-probabilities is already that at the scores: probability minus posterior.
    (slope,) = torch.autograd.grad(loss.sum(), leaf)
    slope = slope.transpose(0, 1).reshape(folds, layers, clips, longest, symbols)
    return Pass(loss.detach().reshape(folds, layers, clips), slope[:, :, inside], logs.exp())


def even_alignment(batch: Utterances, folds: int, layers: int, symbols: int) -> Tensor:
    """Return each clip's symbols spread evenly over its frames, with blank at both ends.

    Shape (folds, layers, frames, symbols), as a view: it is the same for all probes.
    """
    rows = []
    for count, target in zip(batch.counts, batch.targets, strict=True):
        path = torch.cat([torch.tensor([BLANK]), target, torch.tensor([BLANK])])
        rows.append(path[(torch.arange(count) * len(path)) // count])
    return torch.nn.functional.one_hot(torch.cat(rows), symbols).float().expand(folds, layers, -1, -1)
