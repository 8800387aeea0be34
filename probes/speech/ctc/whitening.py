"""Whitening of the training frames of every fold and layer.

A linear probe finds the same map in any coordinates; in these it takes few gradient steps to find it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from probes.speech.ctc.utterances import Source, chunks

LEAST = 1e-8
"""A dimension with a smaller share of the mean variance is constant but for rounding."""


@dataclass(frozen=True, slots=True)
class Whitening:
    """Mean of the training frames, shape (folds, layers, width), and the map that whitens them."""

    mean: Tensor
    root: Tensor


def whiten(source: Source, *, shrink: float = 1e-3) -> Whitening:
    """Return the whitening of each fold's training frames from one pass, summed in float64.

    `shrink` is the share of its variance that is added to every dimension, so that a direction without
    variance does not become infinite. It is a share of each dimension's own: encoders have dimensions of a
    thousand times the variance of others, beside which a common share would drown the rest.
    """
    sums = _Sums(source.folds)
    for clips in chunks(source):
        part = source.read(clips)
        sums.add(part.frames, part.over_frames(part.fold))
    # Every fold trains on what it does not test: the whole less its own share.
    kept = (sums.count.sum() - sums.count).clamp_min(1.0)
    mean = (sums.total.sum(0) - sums.total) / kept[:, None, None]
    whole = sums.square.sum(0)
    root = torch.empty_like(sums.square, dtype=torch.float32)
    eye = torch.eye(whole.shape[-1], dtype=torch.float64)
    for fold in range(source.folds):
        covariance = (whole - sums.square[fold]) / kept[fold] - mean[fold][:, :, None] * mean[fold][:, None, :]
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        scale = torch.maximum(variance, variance.mean(-1, keepdim=True).clamp_min(1e-12) * LEAST)
        lower = torch.linalg.cholesky(covariance + torch.diag_embed(shrink * scale))
        # With the covariance C = L L', frames times L'^-1 have the covariance L^-1 C L'^-1, the identity.
        root[fold] = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False).transpose(1, 2).float()
    return Whitening((mean + sums.shift).float(), root)


class _Sums:
    """Counts, sums and products of each fold's test frames, taken around a common shift."""

    def __init__(self, folds: int) -> None:
        self.folds = folds
        self.count = torch.zeros(folds, dtype=torch.float64)
        self.total = self.square = self.shift = torch.zeros(0)

    def add(self, frames: Tensor, owner: Tensor) -> None:
        layers, _, width = frames.shape
        if not self.shift.numel():
            self.shift = frames.mean(1).double()
            self.total = torch.zeros((self.folds, layers, width), dtype=torch.float64)
            self.square = torch.zeros((self.folds, layers, width, width), dtype=torch.float64)
        for fold in owner.unique().tolist():
            mine = frames[:, owner == fold]
            count, centre = mine.shape[1], mine.mean(1)
            # Large common means would eat the digits of the variance: products are taken around the part's own.
            mine = mine - centre[:, None]
            away = centre.double() - self.shift
            self.count[fold] += count
            self.total[fold] += count * away
            self.square[fold] += mine.transpose(1, 2) @ mine
            self.square[fold] += count * away[:, :, None] * away[:, None, :]
