"""The demo: a network whose Lipschitz constant is known by construction, on pictures with one bright quarter.

Each layer stretches all changes that reach it alike, and every ReLU is held open by a bias, so that the constant is the
product of what the layers do: 6. The bound must be 6, and a slope of 6 must be met. Where it is balanced the biases are
missing: ReLUs cut, the bound is the same, and the network moves less.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audits.core.context import Context
from audits.core.planted import Planted, row
from audits.core.records import Report
from audits.lipschitz import Options
from audits.statistics import generator
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the network or the pictures change, so that no old demo is taken for a new one."""
FIRST, SECOND, LAST, POOL = 3.0, 4.0, 2.0, 0.5
"""Stretch of both convolutions, of the last layer, and of a mean over 2 x 2 pixels, which comes twice."""
CONSTANT = FIRST * POOL * SECOND * POOL * LAST
OPEN = (3.0, 100.0)
"""Biases that keep what enters either ReLU above zero: it is above -3 and -96 for pixels from 0 to 1."""
PICTURES, SIDE = 200, 8
CLOSE = 1e-4
"""Share by which a number may differ from the constant: weights are rounded to float32."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Make network and pictures, or take them from the cache, and return the audit's options."""
    folder = context.cache.examples(f"lipschitz-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as part:
            _make(part, context.seed, balanced)
    return Options(model=str(folder / "quarters.safetensors"), arch="small_cnn", data=folder / "quarters.npz")


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield the constant that is known, with the bound and the slope of the report."""
    bound, slope = row(report, "product_bound"), row(report, "constant_lower")
    numbers = f"{bound.value:.4f}, and the steepest slope met {slope.value:.4f}" if bound and slope else "missing"
    seen = f"The proved bound is {numbers}."
    reached = slope is not None and abs(slope.value / CONSTANT - 1) < CLOSE
    if balanced:
        what = f"ReLUs that cut: no slope reaches {CONSTANT:g}, the product of the layers."
        yield Planted(what=what, found=reached, seen=seen, real=False)
        return
    proved = bound is not None and abs(bound.value / CONSTANT - 1) < CLOSE
    yield Planted(what=f"The Lipschitz constant is {CONSTANT:g} by construction.", found=proved and reached, seen=seen)


def _make(folder: Path, seed: int, balanced: bool) -> None:
    """Write a network that adds up each quarter of a picture, and pictures by their brightest quarter."""
    import numpy as np
    from safetensors.torch import save_file

    stream = generator(seed, "lipschitz", "demo")
    labels = np.arange(PICTURES) % 4
    pixels = stream.uniform(0.2, 0.5, (PICTURES, 1, SIDE, SIDE))
    half = SIDE // 2
    for picture, label in zip(pixels[:, 0], labels, strict=True):
        down, right = divmod(int(label), 2)
        picture[half * down : half * (down + 1), half * right : half * (right + 1)] += stream.uniform(0.05, 0.4)
    np.savez(folder / "quarters.npz", x=pixels.astype(np.float32), y=labels)
    save_file(_network(stream, balanced).state_dict(), folder / "quarters.safetensors")


def _network(stream: Any, balanced: bool) -> Any:
    """Return a network of known constant: directions of channels are random, and turned without being stretched."""
    import numpy as np
    import torch

    from probes.classifiers.classifier_networks import small_cnn

    net = small_cnn((1, SIDE, SIDE), 4).eval()
    first, second = net.conv1.out_channels, net.conv2.out_channels
    turned, _ = np.linalg.qr(stream.standard_normal((second, first)))
    direction = stream.standard_normal(first)
    direction /= np.linalg.norm(direction)
    read = turned @ direction
    with torch.no_grad():
        for weight in (net.conv1.weight, net.conv2.weight, net.linear.weight, net.linear.bias):
            weight.zero_()
        # At the middle of its window alone a convolution mixes channels, and no pixels.
        net.conv1.weight[:, 0, 1, 1] = torch.from_numpy(FIRST * direction)
        net.conv2.weight[:, :, 1, 1] = torch.from_numpy(SECOND * turned)
        for quarter in range(4):
            net.linear.weight.view(4, second, 4)[quarter, :, quarter] = torch.from_numpy(LAST * read)
        for norm, bias in zip((net.bn1, net.bn2), OPEN, strict=True):
            norm.running_var = torch.full_like(norm.bias, 1 - norm.eps)
            norm.bias.fill_(0.0 if balanced else bias)
    return net
