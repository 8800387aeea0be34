"""Margins of images, and the radius within which no change of the pixels alters the answer.

A difference of two logits is sqrt(2) L-Lipschitz where the logits are L-Lipschitz, since |e_i - e_j| is
sqrt(2). So the best of them stays the best within margin / (sqrt(2) L) (Tsuzuku and others 2018).
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from audits.core.intervals import Interval
from audits.statistics.order_statistics import enclosing
from probes.classifiers.classifier_files import Classifier
from probes.classifiers.images import Images
from probes.core.errors import IncompleteError
from probes.core.progress import Progress

BATCH = 64
_HAIR = 1e-5
_ROUNDING = 1e-9
"""Share of the largest logit by which a margin is lowered; rounding in float64 stays far below."""
DIGITS = 6
MEDIAN = "order statistics of the binomial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One image: class as labelled and as predicted, best logit less the second, radius in l2 of pixels, slope.

    `radius` is 0 where the prediction is wrong. `slope` is |gradient of the margin| / sqrt(2) a hair from the image:
    the constant of the logits cannot be smaller.
    """

    label: int
    predict: int
    margin: float
    radius: float
    slope: float

    @property
    def correct(self) -> bool:
        """Whether the prediction is the label."""
        return self.label == self.predict


def measure_margins(
    classifier: Classifier, images: Images, product: float, *, device: str, progress: Progress, batch: int = BATCH
) -> list[Answer]:
    """Return the answer to each image, computed in float64 on `batch` images at a time.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    # A copy, since a module is moved in place: the classifier itself stays as it was loaded.
    module = deepcopy(classifier.module).to(device=device, dtype=torch.float64)
    source = torch.Generator().manual_seed(0)
    found: list[Answer] = []
    with progress.phase("Margins", len(images), "images") as advance:
        for begin in range(0, len(images), batch):
            indices = range(begin, min(begin + batch, len(images)))
            pixels = torch.stack([torch.from_numpy(images.pixels(index)) for index in indices]).double()
            beside = pixels + _HAIR * torch.randn(pixels.shape, generator=source, dtype=torch.float64)
            try:
                with torch.no_grad():
                    logits = module(pixels.to(device)).cpu()
                slopes = _slopes(module, beside.to(device))
            except torch.OutOfMemoryError as error:
                raise IncompleteError(
                    f"{device} ran out of memory on {batch} images in float64.",
                    where="--device",
                    hint="Give --device cpu, or free the memory of the device.",
                ) from error
            labels = [int(images.labels[index]) for index in indices]
            found += [_answer(*row, product) for row in zip(labels, logits, slopes, strict=True)]
            advance(len(indices))
    return found


def _slopes(module: torch.nn.Module, pixels: Tensor) -> list[float]:
    # At the image itself equal pixels tie in a pool, where a gradient need not be one of the function.
    with torch.enable_grad():
        pixels.requires_grad_()
        best = module(pixels).topk(2, dim=1).values
        (gradient,) = torch.autograd.grad((best[:, 0] - best[:, 1]).sum(), pixels)
    lengths: list[float] = (gradient.flatten(1).norm(dim=1) / math.sqrt(2)).tolist()
    return lengths


def _answer(label: int, logits: Tensor, slope: float, product: float) -> Answer:
    best, second = (float(value) for value in logits.topk(2).values)
    margin = max(best - second - _ROUNDING * float(logits.abs().max()), 0.0)
    predict = int(logits.argmax())
    radius = margin / (math.sqrt(2) * product) if predict == label and product > 0 else 0.0
    return Answer(label=label, predict=predict, margin=rounded(margin), radius=rounded(radius), slope=rounded(slope))


def rounded(number: float, digits: int = DIGITS, *, up: bool = False) -> float:
    """Return a positive number rounded down, or with `up` rounded up, to this many significant digits.

    Examples
    --------
    >>> rounded(0.0284999, 3), rounded(239.621, 4, up=True), rounded(0.0)
    (0.0284, 239.7, 0.0)
    """
    if number <= 0 or not math.isfinite(number):
        return number
    decimals = digits - 1 - math.floor(math.log10(number))
    shift = 10.0 ** abs(decimals)
    scaled = number * shift if decimals >= 0 else number / shift
    whole = math.ceil(scaled) if up else math.floor(scaled)
    return whole / shift if decimals >= 0 else whole * shift


def median_interval(values: Sequence[float], level: float, *, unit: str) -> Interval:
    """Return the median with the exact interval between two order statistics, or none for too few values.

    Without an interval the value is the lower of the two in the middle, and the method "none".

    Examples
    --------
    >>> found = median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9], 0.95, unit="images")
    >>> found.value, found.low, found.high
    (5.0, 2.0, 8.0)
    """
    ordered = sorted(float(value) for value in values)
    count = len(ordered)
    ends = enclosing(count, 0.5, level)
    lower = ordered[(count - 1) // 2]
    if ends is None:
        return Interval(value=lower, method="none", n=count, unit=unit, level=level)
    low, high = (ordered[end] for end in ends)
    middle = (lower + ordered[count // 2]) / 2
    return Interval(value=middle, low=low, high=high, method=MEDIAN, n=count, unit=unit, level=level)
