"""The demo: a small network that reads handwritten digits, trained under noise, and its certificates.

The digits come with scikit-learn, so nothing is fetched. With `--balanced` the same network is trained without
noise: then the noise of the certificate costs it far more, and some digits more than others.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audits.certification import Options
from audits.core.context import Context
from audits.core.numbers import point
from audits.core.planted import Planted, row
from audits.core.records import Report
from audits.core.wording import span
from audits.statistics import generator
from probes.core.hashing import sha256_json

VERSION = 1
SIGMA = 0.25
EPOCHS = 40
TEST = 300
COSTLY = 0.05
"""Accuracy that noise must cost for the demo to say that it does."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Train the network, or take it from the cache, and return the audit's options."""
    folder = context.cache.examples(f"certify-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as part:
            _make(part, context, balanced)
    return Options(
        model=str(folder / "digits.safetensors"),
        arch="small_cnn",
        data=folder / "digits.npz",
        sigma=SIGMA,
        n=2000,
        radii=("0.1", "0.25", "0.5"),
        interval="auto",
    )


def _make(folder: Path, context: Context, balanced: bool) -> None:
    import numpy as np
    from safetensors.torch import save_file
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = (digits.images / 16.0).astype(np.float32)[:, None]
    order = generator(context.seed, "certify", "demo").permutation(len(pixels))
    test, train = order[:TEST], order[TEST:]
    net = _trained(pixels[train], digits.target[train], context, 0.0 if balanced else SIGMA)
    save_file(net.state_dict(), folder / "digits.safetensors")
    np.savez(folder / "digits.npz", x=pixels[test], y=digits.target[test])


def _trained(pixels: Any, labels: Any, context: Context, sigma: float) -> Any:
    """Train on images under fresh noise in every pass (Cohen et al. 2019, section 3.3)."""
    import torch

    from probes.classifiers.classifier_networks import small_cnn
    from probes.core.executor import one_thread

    stream = torch.Generator().manual_seed(context.seed)
    # Layers draw their weights from the global generator, which is put back afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(context.seed)
        net = small_cnn((1, 8, 8), 10)
    x, y = torch.from_numpy(pixels), torch.from_numpy(labels)
    steps = EPOCHS * -(-len(x) // 128)
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-3, total_steps=steps)
    net.train()
    with one_thread(), context.progress.phase("Training the digit reader", steps, "steps") as advance:
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(x), generator=stream).split(128):
                noisy = x[batch] + sigma * torch.randn(len(batch), 1, 8, 8, generator=stream)
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(noisy), y[batch]).backward()
                optimiser.step()
                schedule.step()
                advance(1)
    return net.eval()


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what the training was, with what the report shows of it."""
    clean, noisy = row(report, "clean_accuracy"), row(report, "noisy_accuracy")
    proved = row(report, "certified_accuracy", radius=SIGMA)
    if balanced:
        costs = clean is not None and noisy is not None and noisy.value < clean.value - COSTLY
        seen = f"Accuracy is {span(clean)} without noise, and {point(noisy)} under it." if clean and noisy else ""
        what = f"No noise in training: noise of {SIGMA} costs this network its accuracy."
        yield Planted(what=what, found=costs, seen=seen)
        return
    seen = f"Right, and proved within a radius of {SIGMA}, are {span(proved)} of the digits." if proved else ""
    what = f"Training under noise of {SIGMA}: most answers can be proved within a radius of {SIGMA}."
    yield Planted(what=what, found=proved is not None and proved.above(0.5), seen=seen)
