"""How many noisy draws a second does the engine count, against the loop that certificates are usually made with?

Run `python tests/benchmarks/smoothing_speed.py [--model lenet|resnet20] [--images 7] [--n 2000]` on a quiet machine.
Same process, checkpoint, images, draws and threads, float32; the sides take turns, one image a round, and the table
shows medians over the rounds; a side's speed-up is how many times as fast as it miles is. With one thread processor
time is taken, which other processes disturb less. The loop is written here for the CPU after its description: per
image and batch it repeats the image, adds a tensor of noise, takes the argmax, and counts labels one by one. The
published code runs on GPUs alone.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("MILES_TEST_DATA") or ROOT.parent / "shared" / "data") / "classifiers"
MODELS = {
    "lenet": ("mnist_lenet", "mnist_lenet5_clntrained.pt", "mnist_test_100.csv", 0.25),
    "resnet20": ("cifar_resnet20", "resnet20-12fca82f.th", "cifar10_test_100.csv", 0.12),
}
LOOP_BATCHES = (400, 1000)


def loop(module: Any, image: Any, sigma: float, draws: int, batch: int) -> list[int]:
    """Count as the usual loop does."""
    import torch

    counts = [0] * 10
    with torch.no_grad():
        while draws > 0:
            size = min(batch, draws)
            draws -= size
            repeated = image.repeat((size, 1, 1, 1))
            noise = torch.randn_like(repeated) * sigma
            for label in module(repeated + noise).argmax(1).cpu().numpy():
                counts[label] += 1
    return counts


def bare(module: Any, noisy: Any, draws: int) -> None:
    """Run nothing but forward passes, on one batch again and again."""
    import torch

    with torch.inference_mode():
        for start in range(0, draws, len(noisy)):
            module(noisy[: draws - start])


def seconds_of(job: Callable[[], object]) -> float:
    """Return how long a job takes."""
    import torch

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    job()
    return clock() - start


def disagreement(plain: Any, sampler: Any, images: list[Any]) -> tuple[int, int]:
    """Return on how many of the same noisy images the two modules answer differently, and of how many."""
    import torch

    different = total = 0
    with torch.inference_mode():
        for index, image in enumerate(images):
            for first in range(0, 512, 64):
                noisy = sampler._noisy(image, index, "estimation", first, first + 64)
                theirs = plain(noisy.contiguous()).argmax(1)
                different += int((theirs != sampler.module(noisy).argmax(1)).sum())
                total += 64
    return different, total


def compare(model: str, images: int, draws: int) -> None:
    """Print the table."""
    from copy import deepcopy

    import torch

    from probes.folding import fold_batchnorm
    from probes.loading.classifiers import load_classifier
    from probes.loading.images import load_images
    from probes.noise import Noise
    from probes.smoothing import Sampler

    arch, weights, data, sigma = MODELS[model]
    classifier = load_classifier(str(DATA / weights), arch=arch)
    loaded = load_images(DATA / data, shape=classifier.shape)
    pixels = [torch.from_numpy(loaded.pixels(index)) for index in range(images)]
    noise = Noise("gaussian", sigma)
    # Copies, since the engine changes the order of its module's memory.
    plain = deepcopy(classifier.module).eval()
    sampler = Sampler(
        fold_batchnorm(deepcopy(classifier.module)), classes=10, noise=noise, seed=0, device="cpu", dtype="float32"
    )
    tuning = seconds_of(lambda: sampler.prepare(pixels[0]))
    with torch.inference_mode():
        noisy = sampler._noisy(pixels[0], 0, "pilot", 0, sampler.batch).clone(memory_format=torch.channels_last)
    sides = {
        f"loop, batch {batch}": (lambda image, _, batch=batch: loop(plain, image, sigma, draws, batch))
        for batch in LOOP_BATCHES
    }
    sides["miles"] = lambda image, index: sampler.tally(image, index, "estimation", 0, draws)
    sides["bare passes"] = lambda image, index: bare(sampler.module, noisy, draws)
    for job in sides.values():
        seconds_of(lambda job=job: job(pixels[0], 0))
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for index, image in enumerate(pixels):
        for name, job in sides.items():
            taken[name].append(seconds_of(lambda job=job, image=image, index=index: job(image, index)))
    print(f"{model}, sigma {sigma}, {images} rounds of {draws} draws, {torch.get_num_threads()} threads, float32")
    print(f"batch {sampler.batch}, found in {tuning:.2f} s")
    print(f"{'side':<18}{'draws/s':>9}{'speed-up':>10}{'lowest':>8}{'highest':>9}")
    for name in sides:
        ratios = [other / own for other, own in zip(taken[name], taken["miles"], strict=True)]
        rate = draws / statistics.median(taken[name])
        print(f"{name:<18}{rate:>9.0f}{statistics.median(ratios):>10.2f}{min(ratios):>8.2f}{max(ratios):>9.2f}")
    over = [own / passes - 1 for own, passes in zip(taken["miles"], taken["bare passes"], strict=True)]
    print(f"overhead over bare passes: median {statistics.median(over):.1%}, {min(over):.1%} to {max(over):.1%}")
    different, total = disagreement(plain, sampler, pixels)
    print(f"labels that differ on the same draws: {different} of {total}")


def main() -> None:
    """Read the options."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=tuple(MODELS), default="lenet")
    parser.add_argument("--images", type=int, default=7, help="rounds; the first images of the test set")
    parser.add_argument("--n", type=int, default=2000, help="draws an image")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    compare(given.model, given.images, given.n)


if __name__ == "__main__":
    main()
