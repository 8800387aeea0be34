"""Fitting of CTC probes: first by alignment, then by gradient with early stopping.

Left to itself a linear CTC probe spends most of its time on the plateau where every frame is blank. Here
it starts beyond: shared-covariance Gaussians of the letters (a linear map, in closed form) are re-aligned
a few times by the forward-backward pass of CTC itself, as speech recognisers were once started flat, and
the gradient steps then work in white coordinates. A pass over the frames serves all folds and layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.core.progress import Advance
from probes.speech.ctc.forward_backward import even_alignment, forward_backward, scores
from probes.speech.ctc.utterances import Source, Utterances, chunks
from probes.speech.ctc.whitening import Whitening, whiten

DECAY = (0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcProbes:
    """Fitted probes, with the loss and the epoch at which each stopped.

    Parameters
    ----------
    weights, biases
        Shapes (folds, layers, width, symbols) and (folds, layers, symbols), for frames as they are.
    loss
        Least CTC loss a symbol on the clips kept for early stopping, shape (folds, layers).
    epochs
        The gradient pass that had it, shape (folds, layers); 0 is the alignment alone.
    """

    weights: Tensor
    biases: Tensor
    loss: Tensor
    epochs: Tensor

    def best_paths(self, batch: Utterances) -> list[Tensor]:
        """Return the best symbol of every frame by the fold that tests the clip, (layers, frames) a clip."""
        paths, offset = [], 0
        for fold, count in zip(batch.fold.tolist(), batch.counts, strict=True):
            frames = batch.frames[:, offset : offset + count]
            paths.append((frames @ self.weights[fold] + self.biases[fold][:, None]).argmax(-1))
            offset += count
        return paths


def fit_ctc(
    source: Source,
    *,
    generator: torch.Generator,
    alignments: int = 4,
    epochs: int = 8,
    patience: int = 2,
    rate: float = 0.01,
    advance: Advance = lambda steps: None,
) -> CtcProbes:
    """Fit one CTC probe for each fold and layer.

    Parameters
    ----------
    alignments
        Passes of re-alignment before the gradient steps, at least 1.
    epochs, patience
        Most gradient passes, and after how many without a gain of any probe they end.
    rate
        Step length of Adam in white coordinates; it falls linearly.
    advance
        Called with 1 after each pass over the frames: at most 1 + `alignments` + `epochs` times.
    """
    whitening = whiten(source)
    advance(1)
    point = _Point(torch.zeros(0), torch.zeros(0))
    for number in range(alignments):
        point = _align(source, whitening, point if number else None)
        advance(1)
    return _Descent(source, whitening, point, generator, epochs, rate).run(patience, advance)


@dataclass(slots=True)
class _Point:
    """Probe parameters in white coordinates."""

    slopes: Tensor
    offsets: Tensor

    def raw(self, whitening: Whitening) -> tuple[Tensor, Tensor]:
        """Return weights and biases for frames that are not whitened."""
        weights = whitening.root @ self.slopes
        return weights, self.offsets - torch.einsum("flw,flwv->flv", whitening.mean, weights)


def _align(source: Source, whitening: Whitening, point: _Point | None) -> _Point:
    """Fit Gaussian classifiers to frames aligned by the previous ones, or evenly in the first round."""
    folds, layers, width = whitening.mean.shape
    sums = torch.zeros((folds, layers, width, source.symbols))
    mass = torch.zeros((folds, layers, source.symbols))
    parameters = None if point is None else point.raw(whitening)
    for clips in chunks(source):
        part = source.read(clips)
        if parameters is None:
            share = even_alignment(part, folds, layers, source.symbols)
        else:
            found = forward_backward(part, scores(part.frames, *parameters), part.train)
            share = found.probability - found.gradient
        share = share * part.over_frames(part.train)[:, None, :, None]
        sums += _outer(part.frames, share)
        mass += share.sum(2)
    centre = sums / mass.clamp_min(1e-3)[:, :, None] - whitening.mean[..., None]
    # The mean of a letter with few frames is arbitrary: it is shrunk to the common mean.
    slopes = whitening.root.transpose(-1, -2) @ centre * (mass / (mass + 5.0))[:, :, None]
    prior = torch.log((mass + 0.5) / (mass + 0.5).sum(-1, keepdim=True))
    # Where the shared covariance is the identity, as here, weights are means, and offsets log p - |mean|^2 / 2.
    return _Point(slopes, prior - 0.5 * (slopes**2).sum(2))


def _outer(frames: Tensor, share: Tensor) -> Tensor:
    """Return the sum of frame times share over frames, shape (folds, layers, width, symbols)."""
    folds, layers, count, symbols = share.shape
    joined = share.permute(1, 2, 0, 3).reshape(layers, count, folds * symbols)
    found = torch.bmm(frames.transpose(1, 2), joined)
    return found.reshape(layers, -1, folds, symbols).permute(2, 0, 1, 3)


class _Descent:
    """Adam on all probes together; each keeps the parameters of its own best pass."""

    def __init__(
        self,
        source: Source,
        whitening: Whitening,
        point: _Point,
        generator: torch.Generator,
        epochs: int,
        rate: float,
    ) -> None:
        self._source, self._whitening, self._generator = source, whitening, generator
        self._epochs, self._rate, self._steps = epochs, rate, 0
        self._point = [point.slopes, point.offsets]
        self._mean = [torch.zeros_like(part) for part in self._point]
        self._square = [torch.zeros_like(part) for part in self._point]
        self._length = max(1, sum(1 for _ in chunks(source)) * epochs)

    def run(self, patience: int, advance: Advance) -> CtcProbes:
        best_loss = self._dev_loss()
        best = [part.clone() for part in self._point]
        epoch_of = torch.zeros_like(best_loss, dtype=torch.long)
        # Without clips to judge by, no pass could be kept.
        for epoch in range(1, self._epochs + 1 if bool(self._source.dev.any()) else 1):
            order = torch.randperm(len(self._source.order), generator=self._generator).tolist()
            for clips in chunks(self._source, order):
                self._step(self._source.read(clips))
            advance(1)
            loss = self._dev_loss()
            better = loss < best_loss * (1 - 1e-3)
            best_loss = torch.where(better, loss, best_loss)
            epoch_of[better] = epoch
            for kept, part in zip(best, self._point, strict=True):
                kept[better] = part[better]
            # Probes share each pass over the frames: it costs the same while any of them still gains.
            if epoch - int(epoch_of.max()) >= patience:
                break
        weights, biases = _Point(*best).raw(self._whitening)
        return CtcProbes(weights=weights, biases=biases, loss=best_loss, epochs=epoch_of)

    def _step(self, batch: Utterances) -> None:
        train = batch.train
        found = forward_backward(batch, scores(batch.frames, *_Point(*self._point).raw(self._whitening)), train)
        letters = torch.tensor([len(target) for target in batch.targets]) * train
        slope = found.gradient / letters.sum(1).clamp_min(1)[:, None, None, None]
        offsets = slope.sum(2)
        raw = _outer(batch.frames, slope) - self._whitening.mean[..., None] * offsets[:, :, None]
        self._adam([self._whitening.root.transpose(-1, -2) @ raw, offsets])

    def _adam(self, gradients: Sequence[Tensor]) -> None:
        self._steps += 1
        # One step more than there are, so that the last one still moves.
        rate = self._rate * max(0.0, 1.0 - self._steps / (self._length + 1))
        for part, mean, square, gradient in zip(self._point, self._mean, self._square, gradients, strict=True):
            mean.mul_(DECAY[0]).add_(gradient, alpha=1 - DECAY[0])
            square.mul_(DECAY[1]).addcmul_(gradient, gradient, value=1 - DECAY[1])
            unbiased = (square / (1 - DECAY[1] ** self._steps)).sqrt_().add_(1e-8)
            part.addcdiv_(mean / (1 - DECAY[0] ** self._steps), unbiased, value=-rate)

    def _dev_loss(self) -> Tensor:
        parameters = _Point(*self._point).raw(self._whitening)
        loss, letters = torch.zeros(parameters[1].shape[:2]), torch.zeros(self._source.folds)
        for clips in chunks(self._source, only=self._source.dev.any(0)):
            part = self._source.read(clips)
            loss += forward_backward(part, scores(part.frames, *parameters), part.dev).loss.sum(-1)
            letters += (torch.tensor([len(target) for target in part.targets]) * part.dev).sum(1)
        return loss / letters.clamp_min(1)[:, None]
