"""How long does it take to count the draws of a certificate, against the loop that certificates are usually made with?

`loop` is written after the description of Cohen, Rosenfeld and Kolter (2019): for each image and batch it repeats the
image, adds a tensor of noise, takes the argmax, and counts labels one by one, in batches of 400, its default, and of
1,000. It draws noise of its own, so that counts, and certified radii (their binomial bound at 0.001), differ as two
runs do; on the same draws the two modules are asked too, and `other labels` says how many they answer differently.
`bare passes` runs nothing but forward passes, on one batch again and again. Choosing the batch is not timed.
"""

import argparse
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import race

DATA = Path(os.environ.get("MILES_TEST_DATA") or race.ROOT.parent / "shared" / "data") / "classifiers"
MODELS = {
    "lenet": ("mnist_lenet", "mnist_lenet5_clntrained.pt", "mnist_test_100.csv", 0.25),
    "resnet20": ("cifar_resnet20", "resnet20-12fca82f.th", "cifar10_test_100.csv", 0.12),
}
SAME = 256
"""Draws of each image on which the modules are compared."""
OPTIONS = {
    "model": race.Option("lenet", "lenet", " or ".join(MODELS)),
    "images": race.Option(4, 1, "the first of the test set"),
    "draws": race.Option(2_000, 160, "of each image"),
}


def opened(given: argparse.Namespace) -> tuple[Any, list[Any], float]:
    """Return the classifier as it was trained, the images and sigma."""
    import torch

    from probes.classifiers.classifier_files import load_classifier
    from probes.classifiers.images import load_images

    if not DATA.is_dir():
        raise race.LeftOutError(f"no {DATA}, which MILES_TEST_DATA may name")
    arch, weights, data, sigma = MODELS[given.model]
    classifier = load_classifier(str(DATA / weights), arch=arch)
    loaded = load_images(DATA / data, shape=classifier.shape)
    return classifier.module.eval(), [torch.from_numpy(loaded.pixels(place)) for place in range(given.images)], sigma


def certified(counts: list[list[int]], sigma: float) -> race.Result:
    """Return counts of the top class, and the mean radius that they certify."""
    from scipy.stats import beta, norm

    tops = [(max(row), sum(row)) for row in counts]
    low = [float(beta.ppf(0.001, top, total - top + 1)) for top, total in tops]
    radii = [sigma * max(float(norm.ppf(share)), 0.0) for share in low]
    return {"mean radius": statistics.fmean(radii), "votes of the top class": sum(top for top, _ in tops)}


def loop(batch: int) -> race.Side:
    """Count as the usual loop does."""

    def side(given: argparse.Namespace) -> race.Job:
        import numpy as np
        import torch

        module, images, sigma = opened(given)

        def count(image: Any) -> list[int]:
            counts, left = np.zeros(10, dtype=int), given.draws
            with torch.no_grad():
                while left > 0:
                    size = min(batch, left)
                    left -= size
                    repeated = image.repeat((size, 1, 1, 1))
                    noise = torch.randn_like(repeated) * sigma
                    for label in module(repeated + noise).argmax(1).cpu().numpy():
                        counts[label] += 1
            return list(counts.tolist())

        def job() -> race.Job:
            counts = [count(image) for image in images]
            return lambda: certified(counts, sigma)

        return job

    return side


def sampler(given: argparse.Namespace) -> tuple[Any, list[Any], int]:
    """Return our engine with its batch chosen, the images, and how often it answers otherwise on the same draws."""
    from copy import deepcopy

    import torch

    from probes.classifiers.folding import fold_batchnorm
    from probes.classifiers.noise import Noise
    from probes.classifiers.smoothing import Sampler

    module, images, sigma = opened(given)
    # A copy, since the engine changes the order of its module's memory.
    folded, noise = fold_batchnorm(deepcopy(module)), Noise("gaussian", sigma)
    made = Sampler(folded, classes=10, noise=noise, seed=0, device="cpu", dtype="float32")
    made.prepare(images[0])
    other = 0
    with torch.inference_mode():
        for place, image in enumerate(images):
            for first in range(0, SAME, 64):
                noisy = made._noisy(image, place, "estimation", first, first + 64)
                other += int((module(noisy.contiguous()).argmax(1) != made.module(noisy).argmax(1)).sum())
    return made, images, other


def miles(given: argparse.Namespace) -> race.Job:
    """Count with our engine."""
    made, images, other = sampler(given)

    def job() -> race.Job:
        counts = [
            made.count_votes(image, place, "estimation", 0, given.draws).votes for place, image in enumerate(images)
        ]
        return lambda: {
            **certified([row.tolist() for row in counts], made.noise.scale),
            "other labels": other,
            "batch": made.batch,
        }

    return job


def bare(given: argparse.Namespace) -> race.Job:
    """Run nothing but forward passes."""
    import torch

    made, images, _ = sampler(given)
    with torch.inference_mode():
        noisy = made._noisy(images[0], 0, "pilot", 0, made.batch).clone(memory_format=torch.channels_last)

    def job() -> race.Result:
        with torch.inference_mode():
            for _ in images:
                for start in range(0, given.draws, len(noisy)):
                    made.module(noisy[: given.draws - start])
        return {"passes of": made.batch}

    return job


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say what counting costs above the passes, and on how many draws labels were compared."""
    if {"miles", "bare passes"} <= found.keys():
        over = [100 * (ratio - 1) for ratio in race.ratios(found, "miles", "bare passes")]
        yield f"overhead of miles over bare passes, %: {race.spread(over)}"
    yield f"other labels are counted among {given.images * SAME:,} draws"


if __name__ == "__main__":
    loops = {f"loop of {batch:,}": loop(batch) for batch in (400, 1_000)}
    race.main(__doc__, options=OPTIONS, sides={"miles": miles, **loops, "bare passes": bare}, remarks=remarks)
