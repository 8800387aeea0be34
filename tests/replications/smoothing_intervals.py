"""Intervals, maps and Lipschitz constants in randomised smoothing (arXiv 2309.16883, 2504.02412), on small networks."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from replicating import Claim, Found, Given, Paper, main, mean_of
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from audits.certification.bounds import Interval, clopper_pearson_upper, soft_limits, vote_limits
from audits.certification.radii import gaussian_radius, lipschitz_radius
from audits.statistics.binomial import lower_limit
from audits.statistics.seeds import generator

SIGMA, ALPHA, FIRST, DRAWS = 0.25, 0.001, 100, 2000
MAPS = [(name, scale) for name in ("softmax", "sparsemax") for scale in (0.1, 0.3, 1.0, 3.0, 10.0, 1000.0)]
SLOPE = math.sqrt(2) / 4
"""The steepest of a softmax output."""
PAPER = Paper(
    "The Lipschitz-variance-margin tradeoff for enhanced randomized smoothing",
    "Delattre, Araujo, Barthélemy, Allauzen (ICLR 2024), with Bridging the theoretical gap in randomized smoothing "
    "(Delattre, Caillon, Barthélemy, Fagnou, Allauzen, AISTATS 2025, 2504.02412)",
    "2309.16883",
)
RADIUS = "Average certified radius, relative change"
CLAIMS = {
    "partition": Claim(
        "Intervals by partition of the classes are less conservative.",
        "abstract of 2504.02412; the method by the authors' code",
        f"{RADIUS} from one limit for each class at alpha / K; digits, 10 classes",
        above=0,
    ),
    "partition_many": Claim(
        "The same with many classes.",
        "abstract of 2504.02412, shown on ImageNet",
        f"{RADIUS}, the same; pairs of digits, 100 classes",
        above=0,
    ),
    "partition_two": Claim(
        "They are less conservative than two limits at alpha / 2 as well.",
        "as above; this baseline, which miles uses, is ours",
        f"{RADIUS} from the two-class limits of miles; digits",
        above=0,
    ),
    "maps": Claim(
        "Turning logits into probabilities by a map with a temperature, with Bernstein limits, certifies more.",
        "abstract of 2309.16883: significant improvement",
        f"{RADIUS} from votes with one-sided exact limits, same networks and draws, map chosen on other draws; digits",
        above=0,
    ),
    "maps_many": Claim(
        "The same with more draws.",
        "as above",
        f"{RADIUS} from votes, as above, with 50,000 draws for each of 20 images",
        above=0,
    ),
    "variance": Claim(
        "A smaller Lipschitz constant of the network lowers the variance that sampling brings.",
        "abstract of 2309.16883",
        "log ratio of the variance of the top softmax output under noise, trained with a penalty over without; digits",
        below=0,
    ),
    "constant": Claim(
        "A smaller Lipschitz constant raises the certified radius.",
        "abstract of 2309.16883: dual impact, trade-off",
        f"{RADIUS} from training without the penalty; votes, two-class limits; digits",
        above=0,
    ),
    "aware": Claim(
        "Knowing the Lipschitz constant tightens certificates of a network.",
        "abstract of 2504.02412; that 0.01 counts is our border",
        f"{RADIUS} of soft outputs by their computed constant, by the exact bound of miles; trained without penalty",
        above=0.01,
    ),
    "aware_votes": Claim(
        "It certifies more than votes do, where the constant is small.",
        "as above; the baseline is ours",
        f"{RADIUS} of soft outputs with their computed constant, from votes; trained with the penalty",
        above=0,
    ),
    "images": Claim("Both improve certified accuracy on ImageNet.", "abstract, figures", untried="needs its networks"),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Logits of one image under noise: those that choose, those that prove, and its label."""

    first: Tensor
    fresh: Tensor
    label: int

    def votes(self, chooses: bool = False) -> Tensor:
        drawn = self.first if chooses else self.fresh
        return drawn.argmax(1).bincount(minlength=drawn.shape[1])

    @property
    def order(self) -> list[int]:
        """Classes by their votes among the draws that choose, the fullest first."""
        return self.votes(chooses=True).argsort(descending=True, stable=True).tolist()

    def by_votes(self, kind: str = "two-class") -> float:
        return self.certified(*vote_limits(self.votes().numpy(), Interval(kind, self.order[0]), ALPHA))

    def by_buckets(self, buckets: list[list[int]]) -> float:
        """Return the radius by limits of groups of classes, the first of them the top class."""
        counts, share = [int(self.votes()[bucket].sum()) for bucket in buckets], ALPHA / len(buckets)
        low = float(lower_limit(counts[0], len(self.fresh), share))
        return self.certified(low, float(clopper_pearson_upper(max(counts[1:]), len(self.fresh), share)))

    def by_classes(self) -> float:
        return self.by_buckets([[one] for one in self.order])

    def by_partition(self) -> float:
        """Return the radius where classes are pooled until the pool would exceed the second class."""
        counts = self.votes(chooses=True)
        order, alone = self.order, 2
        while counts[order[alone:]].sum() > counts[order[1]]:
            alone += 1
        return self.by_buckets([*([one] for one in order[:alone]), *([order[alone:]] if order[alone:] else [])])

    def by_map(self) -> float:
        """Return the radius by the map that promises most on the draws that choose."""
        top, many = self.order[0], len(self.fresh)
        promised = [gaussian_radius(*limits(mapped(self.first, *one), top, many), SIGMA) for one in MAPS]
        return self.certified(*limits(mapped(self.fresh, *MAPS[int(np.argmax(promised))]), top, many))

    @property
    def soft(self) -> Tensor:
        return mapped(self.fresh, "softmax", 1.0)

    def by_constant(self, lipschitz: float | None = None) -> float:
        """Return the radius of the softmax, with or without its Lipschitz constant."""
        return self.certified(*limits(self.soft, self.order[0], len(self.fresh)), lipschitz)

    def certified(self, low: float, high: float, lipschitz: float | None = None) -> float:
        if self.order[0] != self.label or low <= high:
            return 0.0
        return gaussian_radius(low, high, SIGMA) if lipschitz is None else lipschitz_radius(low, high, SIGMA, lipschitz)


def limits(soft: Tensor, top: int, draws: int) -> tuple[float, float]:
    """Return limits of mean soft outputs, as so many draws of this mean and variance would give them."""
    mean, variance = soft.mean(0).double().numpy(), soft.var(0).double().numpy()
    squares = variance * (draws - 1) + draws * mean**2
    return soft_limits(mean * draws, squares, draws, Interval("two-class", top), ALPHA, 0.0)


def mapped(logits: Tensor, name: str, scale: float) -> Tensor:
    """Return probabilities: softmax or sparsemax of scaled logits."""
    if name == "softmax":
        return (scale * logits).softmax(1)
    ordered, _ = (scale * logits).sort(1, descending=True)
    above = ordered.cumsum(1) - 1
    kept = (ordered * torch.arange(1, logits.shape[1] + 1) > above).sum(1, keepdim=True)
    return (scale * logits - above.gather(1, kept - 1) / kept).clamp_min(0)


def measured(given: Given) -> dict[str, Found]:
    seeds = [of_seed(given, seed) for seed in range(given.size(8, 2))]
    return {name: mean_of([one[name] for one in seeds], given.level, "seeds") for name in seeds[0]}


def of_seed(given: Given, seed: int) -> dict[str, float]:
    """Return what is found with networks and images of one seed."""
    x, y = load_digits(return_X_y=True)
    x, y = (torch.tensor(part[generator(seed, "replications").permutation(len(y))]) for part in (x / 16, y))
    steps, images = given.size(500, 50), given.size(60, 6)
    learned, kept = (x[200:].float(), y[200:]), (x[:images].float(), y[:images])
    plain, small = (trained(seed, *learned, weight, steps) for weight in (0.0, 0.1))
    pairs = [pair(seed, name, *part) for name, part in (("learned", learned), ("kept", kept))]
    many = noisy(trained(seed, *pairs[0], 0.0, 2 * steps), seed, *(part[:images] for part in pairs[1]))
    ten, ten_small = noisy(plain, seed, *kept), noisy(small, seed, *kept)

    def gain(way: str, base: str, drawn: list[Drawn] = ten, **more: float) -> float:
        return sum(getattr(one, way)(**more) for one in drawn) / sum(getattr(one, base)() for one in drawn) - 1

    def by_map(drawn: list[Drawn]) -> float:
        return sum(one.by_map() for one in drawn) / sum(one.by_votes("one-sided") for one in drawn) - 1

    spread = [sum(float(one.soft[:, one.order[0]].var()) for one in drawn) for drawn in (ten_small, ten)]
    return {
        "partition": gain("by_partition", "by_classes"),
        "partition_many": gain("by_partition", "by_classes", many),
        "partition_two": gain("by_partition", "by_votes"),
        "maps": by_map(ten),
        "maps_many": by_map(noisy(plain, seed, *(part[:20] for part in kept), given.size(50_000, 2000))),
        "variance": math.log(spread[0] / spread[1]),
        "constant": sum(one.by_votes() for one in ten_small) / sum(one.by_votes() for one in ten) - 1,
        "aware": gain("by_constant", "by_constant", lipschitz=SLOPE * math.prod(norms(plain)).item()),
        "aware_votes": gain("by_constant", "by_votes", ten_small, lipschitz=SLOPE * math.prod(norms(small)).item()),
    }


def pair(seed: int, name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return digits side by side with a digit at random, and the number that both make."""
    other = torch.tensor(generator(seed, "replications", name).integers(len(y), size=4 * len(y)))
    mine = torch.arange(4 * len(y)) % len(y)
    return (torch.cat([x[mine], x[other]], 1), 10 * y[mine] + y[other])


def trained(seed: int, x: Tensor, y: Tensor, penalty: float, steps: int) -> nn.Sequential:
    """Return a network trained under noise, with a penalty on the norms of its layers."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, int(y.max()) + 1))
    optimiser, chance = torch.optim.Adam(net.parameters(), 0.003), generator(seed, "replications", "batches")
    for _ in range(steps):
        batch = torch.tensor(chance.integers(len(x), size=256))
        loss = cross_entropy(net(x[batch] + SIGMA * torch.randn(256, x.shape[1])), y[batch])
        loss = loss + penalty * sum(norms(net)) if penalty else loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net


def norms(net: nn.Sequential) -> list[Tensor]:
    return [torch.linalg.matrix_norm(layer.weight, 2) for layer in (net[0], net[2])]


def noisy(net: nn.Sequential, seed: int, x: Tensor, y: Tensor, draws: int = DRAWS) -> list[Drawn]:
    """Return the logits of images under noise."""
    chance, drawn = generator(seed, "replications", "noise"), []
    for image, label in zip(x, y, strict=True):
        noise = torch.tensor(chance.standard_normal((FIRST + draws, len(image)), np.float32))
        logits = net(image + SIGMA * noise).detach()
        drawn.append(Drawn(logits[:FIRST], logits[FIRST:], int(label)))
    return drawn


if __name__ == "__main__":
    main("smoothing_intervals", PAPER, CLAIMS, measured)
