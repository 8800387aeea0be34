"""Conditional quantisation (arXiv 2502.07151) against what miles finds: scores, distances, modes, coverage, inpainting.

n functions are trained by the squared distance to the nearest of them, and a classifier on which one that is.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from replicating import Claim, Found, Given, Paper, estimate, main, mean_of
from scipy.stats import norm
from torch import Tensor

from audits.conditional.planted_laws import NOISE, field_law, mixture
from miles_cli import run
from probes.conditional.laws import Floats
from probes.conditional.quantisers import fitted_points, nearest
from probes.conditional.wasserstein import wasserstein_1d
from probes.core.random_streams import stream

PAPER = Paper(
    "Conditional distribution quantization in machine learning",
    "Delattre, Delattre, Vérine, Allauzen (2025)",
    "2502.07151",
)
LAW = "Y is 1 + x or -(1 + x) with equal odds, and noise of 0.3"
CLAIMS = {
    "beats_mean": Claim(
        says="Several points describe a law with several modes better than the conditional mean does.",
        source="abstract; the score is ours",
        measured=f"CRPS of 5 weighted points less that of a network trained as the mean; {LAW}",
        below=0,
    ),
    "both_modes": Claim(
        says="Where the law is two masses and the mean lies between them, the points show both.",
        source="example of the introduction; noise of 0.3 and the border are ours",
        measured=f"Least share over both modes of inputs with one of 2 points within 0.3 of the mode; {LAW}",
        above=0.95,
    ),
    "near_two": Claim(
        says="Points that are learned by gradient descent are nearly as near to the outcomes as the best ones.",
        source="abstract for learning by gradient descent; a tenth is the border of the audit's claim c2",
        measured=f"Distortion of 2 points by the least that 2 points have, over 64 inputs; {LAW}",
        below=1.1,
    ),
    "near_ten": Claim(
        says="The same holds of many points.",
        source="as above, which promises it of no number of points",
        measured=f"The same of 10 points; {LAW}",
        below=1.1,
    ),
    "near_law": Claim(
        says="Weighted points approximate the law given the input in the Wasserstein distance.",
        source="abstract; the comparison is ours",
        measured="Squared distance of order 2 between 10 weighted points and the law, mean of 64 inputs, less that "
        f"of the normal law with the right mean and variance; {LAW}",
        below=0,
    ),
    "covers": Claim(
        says="It serves to tell how uncertain the outcome is.",
        source="abstract; that a coverage within 0.025 of the nominal one serves is our border",
        measured=f"Coverage of the range of 20 draws from 10 weighted points, nominal 0.905; {LAW}",
        above=0.88,
        below=0.93,
    ),
    "inpainting": Claim(
        says="Of a masked image, several restorations describe what may be there better than one.",
        source="abstract for several restorations; the score is ours",
        measured="Energy score of 5 weighted restorations less that of one trained as the mean; 4 by 4 pixels masked "
        "of 8 by 8, a Gaussian field with correlation exp(-distance / 3)",
        below=0,
    ),
    "generators": Claim(
        says="It makes the samples of GANs and of normalizing flows more diverse.",
        source="a public summary of the full text",
        untried="No GAN or flow of a useful size is trained here in minutes, twice a seed.",
    ),
}
ROWS, BATCH, QUANTILES, DRAWS = 4000, 256, 2000, 20


def measured(given: Given) -> Mapping[str, Found]:
    seeds, steps = given.size(8, 2), given.size(2000, 10)
    of = partial(mean_of, level=given.level, unit="seeds")
    data = [mixture(ROWS, np.random.default_rng([seed, 0])) for seed in range(seeds)]
    x, y = (single(np.stack(one)[..., None]) for one in zip(*data, strict=True))
    points = {m: Points(x, y, m, steps) for m in (1, 2, 5, 10)}
    found = [exact(given, points, seed) | audited(given, points, seed) for seed in range(seeds)]
    return {name: of([one[name] for one in found]) for name in found[0]} | {
        "inpainting": of(inpainting(given, seeds, steps))
    }


def single(values: Floats) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


class Network:
    """A network for each seed, all run at once: what one learns does not touch another."""

    def __init__(self, sizes: tuple[int, ...], seeds: int, purpose: str) -> None:
        self.layers = []
        for at, (into, out) in enumerate(pairwise(sizes)):
            drawn = [torch.randn(into, out, generator=stream(seed, f"{purpose} {at}")) for seed in range(seeds)]
            self.layers += [torch.stack(drawn) * (2 / into) ** 0.5, torch.zeros(seeds, 1, out)]
        for one in self.layers:
            one.requires_grad_()

    def __call__(self, x: Tensor) -> Tensor:
        for at in range(0, len(self.layers), 2):
            x = torch.baddbmm(self.layers[at + 1], torch.relu(x) if at else x, self.layers[at])
        return x


class Points:
    """m points of y given x (seeds, n, p) and their weights, trained on the rows of each seed.

    Points first, by the distance to the nearest; then weights, by the cross-entropy of which is nearest.
    """

    def __init__(self, x: Tensor, y: Tensor, m: int, steps: int) -> None:
        self.shape, self.m, self.seeds = (m, y.shape[2]), m, len(x)
        self.centre, self.spread = x.mean((0, 1)), x.std((0, 1))
        hidden = (64, 64) if y.shape[2] == 1 else (128,)
        self.places = Network((x.shape[2], *hidden, m * y.shape[2]), len(x), f"{m} points")
        self.shares = Network((x.shape[2], *hidden, m), len(x), f"{m} weights")
        self.fit(self.places, lambda x, y: self.distances(x, y).amin(2).mean(1), x, y, steps)
        if m > 1:
            self.fit(self.shares, self.surprise, x, y, steps)

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        placed = self.places((x - self.centre) / self.spread).unflatten(2, self.shape)
        return ((placed - y[:, :, None]) ** 2).sum(3)

    def surprise(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            cell = self.distances(x, y).argmin(2)
        logs = self.shares((x - self.centre) / self.spread).log_softmax(2)
        return -logs.gather(2, cell[..., None]).mean((1, 2))

    def fit(self, network: Network, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, steps: int) -> None:
        optimiser = torch.optim.Adam(network.layers, lr=3e-3)
        falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        draws, every = stream(0, f"{self.m} batches"), torch.arange(len(x))[:, None]
        for _ in range(steps):
            rows = torch.randint(x.shape[1], (len(x), BATCH), generator=draws)
            optimiser.zero_grad()
            loss(x[every, rows], y[every, rows]).sum().backward()
            optimiser.step()
            falling.step()

    @torch.no_grad()
    def of(self, x: Floats, seed: int) -> dict[str, Floats]:
        """Return points (n, m, d) and weights (n, m) at inputs (n, p), by the networks of a seed."""
        asked = ((single(x) - self.centre) / self.spread).expand(self.seeds, -1, -1)
        placed, weights = self.places(asked)[seed].double(), self.shares(asked)[seed].double().softmax(1)
        return {"points": placed.unflatten(1, self.shape).numpy(), "weights": weights.numpy()}


def exact(given: Given, points: Mapping[int, Points], seed: int) -> dict[str, float]:
    """Hold points against so many quantiles of the law that nothing is left to chance but the training."""
    x, levels = ((np.arange(size) + 0.5) / size for size in (given.size(64, 8), QUANTILES))
    values = np.linspace(-4, 4, 20001)
    below = [(norm.cdf(values, -1 - one, NOISE) + norm.cdf(values, 1 + one, NOISE)) / 2 for one in x]
    law = np.stack([np.interp(levels, one, values) for one in below])
    ours = {m: points[m].of(x[:, None], seed) for m in (2, 10)}
    ratios = []
    for m, one in ours.items():
        least = fitted_points(law[..., None], m, np.random.default_rng(0))[0]
        ratios.append(float(np.divide(*(nearest(law[..., None], some)[1].mean() for some in (one["points"], least)))))
    normal = law.std(1, keepdims=True) * norm.ppf(levels)
    far = wasserstein_1d(ours[10]["points"][..., 0], law, 2, ours[10]["weights"]) ** 2
    nearer = float((far - wasserstein_1d(normal, law, 2) ** 2).mean())
    return {"near_two": ratios[0], "near_ten": ratios[1], "near_law": nearer}


def audited(given: Given, points: Mapping[int, Points], seed: int) -> dict[str, float]:
    """Return what the audit finds on new rows of the mixture."""
    rng = np.random.default_rng([seed, 1])
    x, y = mixture(given.size(2000, 200), rng)
    laws = {f"points{m}": points[m].of(x[:, None], seed) for m in (1, 2, 5)}
    ten = points[10].of(x[:, None], seed)
    cell = (ten["weights"].cumsum(1)[:, None] < rng.random((len(x), DRAWS, 1))).sum(2).clip(max=9)
    laws["draws"] = {"samples": np.take_along_axis(ten["points"], cell[..., None], 1)}
    rows = {"x": x[:, None], "y": y[:, None], "modes": np.stack([-1 - x, 1 + x], 1)[..., None]}
    of = audit(given, f"mixture-{seed}", rows, laws, modes="modes", mode_radius=NOISE)
    return {
        "beats_mean": of("difference", candidate="points5", metric="crps", against="points1"),
        "both_modes": min(of("mode_coverage", candidate="points2", mode=mode) for mode in (0, 1)),
        "covers": of("coverage", candidate="draws", level=0.9),
    }


def inpainting(given: Given, seeds: int, steps: int) -> list[float]:
    """Return by seed the energy score of 5 restorations beyond that of one."""
    whole, _, hole = field_law()
    inside, root = hole.reshape(-1), np.linalg.cholesky(whole)

    def fields(seed: int, part: int, n: int) -> tuple[Floats, Floats]:
        pixels = np.random.default_rng([seed, part]).standard_normal((n, len(whole))) @ root.T
        return pixels[:, ~inside], pixels[:, inside]

    rows = [fields(seed, 2, ROWS) for seed in range(seeds)]
    x, y = (single(np.stack(one)) for one in zip(*rows, strict=True))
    points, found = {m: Points(x, y, m, steps) for m in (1, 5)}, []
    for seed in range(seeds):
        seen, hidden = fields(seed, 3, given.size(2000, 200))
        laws = {f"points{m}": one.of(seen, seed) for m, one in points.items()}
        of = audit(given, f"inpainting-{seed}", {"x": seen, "y": hidden}, laws, scale="none")
        found.append(of("difference", candidate="points5", metric="energy", against="points1"))
    return found


def audit(given: Given, name: str, rows: Any, laws: Mapping[str, Any], **options: Any) -> Callable[..., float]:
    """Hold laws of new rows against one point, and return how estimates of all rows are found."""
    folder = given.work / f"{name}-files"
    folder.mkdir(exist_ok=True)
    for file, arrays in {"rows": rows, **laws}.items():
        np.savez(folder / f"{file}.npz", **arrays)
    options |= {"data": folder / "rows.npz", "candidate": {law: folder / f"{law}.npz" for law in laws}}
    options |= {"against": "points1", "points": ["2"], "projections": 5, "level": given.level}
    report = run("audit-conditional", out=given.work / name, force=True, **options)
    return lambda *of, **where: estimate(report, *of, group="all", **where).value


if __name__ == "__main__":
    main("conditional_quantisation", PAPER, CLAIMS, measured)
