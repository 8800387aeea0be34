"""One forward-backward pass of CTC for many probes over the same clips."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import ctc_loss, log_softmax

from probes.speech.ctc.alphabet import BLANK
from probes.speech.ctc.utterances import Utterances


@dataclass(frozen=True, slots=True)
class Pass:
    """Result of a forward-backward pass: losses, shape (folds, layers, clips), and gradients at every frame's scores.

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


def forward_backward(batch: Utterances, found: Tensor, chosen: Tensor) -> Pass:
    """Run CTC over the scores of a batch, shape (folds, layers, frames, symbols).

    Parameters
    ----------
    chosen
        Whether a fold needs a clip, shape (folds, clips); where it does not, loss and gradient are 0.
    """
    folds, layers, frames, symbols = found.shape
    fold, clip = chosen.nonzero(as_tuple=True)
    logs = log_softmax(found, dim=-1)
    loss = torch.zeros((folds, len(batch.counts), layers))
    gradient = torch.zeros((folds, frames, layers, symbols))
    if len(clip):
        counts = torch.tensor(batch.counts)
        inside = torch.arange(int(counts.max()))[None] < counts[clip][:, None]
        starts = (torch.cumsum(counts, 0) - counts)[clip]
        # Padding beyond a clip's end may be any frame: CTC reads no further than the given length.
        source = torch.where(inside, starts[:, None] + torch.arange(inside.shape[1])[None], 0)
        # Sequences are pairs of fold and clip, layer by layer within each.
        padded = logs.transpose(1, 2)[fold[:, None], source].transpose(0, 1).reshape(-1, len(clip) * layers, symbols)
        losses, slope = _ctc(padded, [batch.targets[index] for index in clip.tolist()], counts[clip], layers)
        loss[fold, clip] = losses.reshape(-1, layers)
        slope = slope.reshape(-1, len(clip), layers, symbols).transpose(0, 1)
        gradient[fold[:, None].expand_as(source)[inside], source[inside]] = slope[inside]
    return Pass(loss.transpose(1, 2), gradient.transpose(1, 2), logs.exp())


def _ctc(logs: Tensor, targets: list[Tensor], counts: Tensor, layers: int) -> tuple[Tensor, Tensor]:
    """Return the CTC losses of sequences, `layers` of them for each target, and the gradients at the scores."""
    leaf = logs.contiguous().requires_grad_()
    lengths = torch.tensor([len(target) for target in targets])
    loss = ctc_loss(
        leaf,
        torch.cat([target.repeat(layers) for target in targets]),
        counts.repeat_interleave(layers),
        lengths.repeat_interleave(layers),
        blank=BLANK,
        reduction="none",
        zero_infinity=True,
    )
    # The kernel's gradient at log-probabilities is already that at the scores: probability minus posterior.
    (slope,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), slope


def even_alignment(batch: Utterances, folds: int, layers: int, symbols: int) -> Tensor:
    """Return each clip's symbols spread evenly over its frames, with blank at both ends.

    Shape (folds, layers, frames, symbols), as a view: it is the same for all probes.
    """
    rows = []
    for count, target in zip(batch.counts, batch.targets, strict=True):
        path = torch.cat([torch.tensor([BLANK]), target, torch.tensor([BLANK])])
        rows.append(path[(torch.arange(count) * len(path)) // count])
    return torch.nn.functional.one_hot(torch.cat(rows), symbols).float().expand(folds, layers, -1, -1)
