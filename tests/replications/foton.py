"""FOTON (arXiv 2512.20668) against what miles finds: is it the gradient, and how deep a network does it train?

Equality is that of `miles audit-gradients`. Trainings take the audit's estimators of FOTON and PEPITA, and add what the
authors' code does behind each step: all weights are made orthogonal again.
"""

from collections.abc import Mapping
from functools import partial

import torch
from replicating import Claim, Found, Given, Paper, main, mean_of
from torch import Tensor

PAPER = Paper(
    "Forward only learning for orthogonal neural networks of any depth",
    "Caillon, Colagrande, Fagnou, Delattre, Allauzen (ECAI 2025)",
    "2512.20668",
)
DIGITS = "sklearn's 1,797 digits, width 64, 300 steps of 64"
CLAIMS = {
    "equal": Claim(
        says="FOTON is backpropagation where the network is linear and its matrices are orthogonal.",
        source="abstract",
        measured="Relative error to the gradient in the hidden layers of a linear network, eight of width 64 and 10 "
        "classes; the border is that at which the audit calls two signals equal",
        below=1e-10,
    ),
    "equal_wider": Claim(
        says="Orthogonal matrices suffice for that also where widths grow, so that only columns are orthonormal.",
        source="our reading of the abstract, which names no condition on widths",
        measured="The same of a linear network of widths 64, 128, 128, 128 and 10",
        below=1e-10,
    ),
    "beats_pepita": Claim(
        says="FOTON outperforms PEPITA.",
        source="abstract",
        measured=f"Test accuracy less that of PEPITA, two hidden ReLU layers, {DIGITS}, better of two rates",
        above=0,
    ),
    "beats_pepita_deeper": Claim(
        says="PEPITA does not scale to a handful of hidden layers, which FOTON does.",
        source="abstract; that a handful is five is our reading",
        measured=f"Test accuracy less that of PEPITA, which has two lower rates, five hidden ReLU layers, {DIGITS}",
        above=0,
    ),
    "bridges_gap": Claim(
        says="FOTON closes the gap to backpropagation without linearity.",
        source="abstract; that a gap below 0.05 is closed is our border",
        measured=f"Test accuracy less that of backpropagation, five hidden ReLU layers, {DIGITS}, better of two rates",
        above=-0.05,
    ),
    "any_depth_relu": Claim(
        says="FOTON trains networks of any depth.",
        source="title and abstract; the activation is that of the authors' standard settings, the border is ours",
        measured=f"Test accuracy with 20 hidden ReLU layers less that with two, {DIGITS} at a rate of 0.1",
        above=-0.05,
    ),
    "any_depth_tanh": Claim(
        says="FOTON trains networks of any depth, where the activation keeps the size of a signal.",
        source="title and abstract; the activation and the border are ours",
        measured=f"Test accuracy with 20 hidden tanh layers less that with two, {DIGITS} at a rate of 0.1",
        above=-0.05,
    ),
    "convolutions": Claim(
        says="FOTON works on convolutional networks too.",
        source="abstract",
        untried="miles has FOTON for layers in a row alone, and no convolutional network is trained here in minutes.",
    ),
}
RATES, LOWER = (0.1, 0.5), (0.02, 0.004)
WIDTH, CLASSES, ROWS = 64, 10, 64
TRAIN, VALIDATION = 1200, 250


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    # Others than those by which rates and numbers of seeds were chosen.
    numbers = range(100, 100 + given.size(6, 2))
    square = [relative_error(given, ["64"] * 9 + ["10"], seed) for seed in numbers[:4]]
    wider = [relative_error(given, ["64", "128", "128", "128", "10"], seed) for seed in numbers[:4]]
    of = partial(accuracies, given, numbers)
    two, five = of("foton", 2, "relu", RATES), of("foton", 5, "relu", RATES)
    few, one = partial(accuracies, given, numbers[:5], "foton"), RATES[:1]
    compared = {
        "beats_pepita": (two, of("pepita", 2, "relu", RATES)),
        "beats_pepita_deeper": (five, of("pepita", 5, "relu", (*RATES, *LOWER))),
        "bridges_gap": (five, of("bp", 5, "relu", RATES)),
        "any_depth_relu": (few(20, "relu", one), few(2, "relu", one)),
        "any_depth_tanh": (few(20, "tanh", one), few(2, "tanh", one)),
    }
    differences = {
        name: mean_of([a - b for a, b in zip(*pair, strict=True)], given.level, "seeds")
        for name, pair in compared.items()
    }
    return {
        "equal": mean_of(square, given.level, "seeds"),
        "equal_wider": mean_of(wider, given.level, "seeds"),
        **differences,
    }


def relative_error(given: Given, widths: list[str], seed: int) -> float:
    """Return the audit's relative error of FOTON in the hidden layers of a linear network."""
    from miles_cli import run

    asked = {"net": "mlp", "act": "linear", "init": "orthogonal", "methods": ["foton"], "batches": 2, "force": True}
    out = given.work / f"linear-{len(widths)}-{seed}"
    rows = run("audit-gradients", widths=widths, seed=seed, level=given.level, out=out, **asked).frame("relative_error")
    return float(rows[(rows["where.method"] == "foton") & (rows["layer"] == "hidden")]["value"].iloc[0])


def accuracies(
    given: Given, numbers: range, method: str, hidden: int, act: str, rates: tuple[float, ...]
) -> list[float]:
    """Return the test accuracy of each seed, at the rate that is best on the validation part by the mean over seeds."""
    table = [[trained(given, method, hidden, act, rate, seed) for seed in numbers] for rate in rates]
    best = max(table, key=lambda row: sum(validation for validation, _ in row))
    return [test for _, test in best]


def trained(given: Given, method: str, hidden: int, act: str, rate: float, seed: int) -> tuple[float, float]:
    """Return the accuracies on the validation and test parts after training, kept for a later run."""
    kept = given.work / f"{method}-{hidden}-{act}-{rate}-{seed}.pt"
    if not kept.exists():
        torch.save(torch.tensor(train(given, method, hidden, act, rate, seed)), kept)
    validation, test = torch.load(kept).tolist()
    return validation, test


def train(given: Given, method: str, hidden: int, act: str, rate: float, seed: int) -> tuple[float, float]:
    """Train one network: weights, split and order hang on the seed, and of PEPITA the feedback."""
    from probes.core.random_streams import stream
    from probes.gradients.estimators import Batch
    from probes.gradients.feedback_methods import Foton, Pepita
    from probes.gradients.networks import Mlp, cross_entropy, initialise
    from probes.gradients.simple_methods import Bp

    inputs, targets = digits(seed)
    model = Mlp([WIDTH] * (hidden + 1) + [CLASSES], act, bias=False)
    initialise(model, "normal" if method == "pepita" else "orthogonal", stream(seed, "weights"))
    if method == "pepita":
        with torch.no_grad():
            # He's variance of 2 / inputs, with which PEPITA's rule was published.
            for weight in model.parameters():
                weight.mul_(2**0.5)
    estimator = {"foton": Foton, "pepita": partial(Pepita, seed), "bp": Bp}[method]()
    order, unused = stream(seed, "order"), stream(seed, "unused")
    *hidden_weights, head = model.parameters()
    for _ in range(given.size(300, 3)):
        rows = torch.randint(TRAIN, (ROWS,), generator=order)
        found = estimator.gradients(model, Batch(inputs[rows], targets[rows]), cross_entropy, rng=unused)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.sub_(rate * found[name])
            if method == "foton":
                head.copy_(orthogonal(head[None])[0])
                for weight, new in zip(hidden_weights, orthogonal(torch.stack(hidden_weights)), strict=True):
                    weight.copy_(new)
    with torch.no_grad():
        right = (model(inputs).argmax(1) == targets).double()
    return float(right[TRAIN : TRAIN + VALIDATION].mean()), float(right[TRAIN + VALIDATION :].mean())


def digits(seed: int) -> tuple[Tensor, Tensor]:
    """Return the digits in an order of the seed, of mean 0 and variance 1 over all pixels of the training part."""
    from sklearn.datasets import load_digits

    from probes.core.random_streams import stream

    loaded = load_digits()
    order = torch.randperm(len(loaded.target), generator=stream(seed, "split"))
    inputs = torch.tensor(loaded.data, dtype=torch.float32)[order]
    part = inputs[:TRAIN]
    return (inputs - part.mean()) / part.std(), torch.tensor(loaded.target)[order]


def orthogonal(weights: Tensor) -> Tensor:
    """Return the nearest matrices of orthonormal rows by rounds of Bjorck, which the authors' code takes behind a step.

    Far from orthogonality, where the rounds need not converge, by singular values.
    """
    eye = torch.eye(weights.shape[1])
    for _ in range(20):
        gap = eye - weights @ weights.mT
        largest = float(gap.flatten(1).norm(dim=1).max())
        if largest < 1e-5 or largest != largest:
            return weights
        if largest > 0.5:
            left, _, right = torch.linalg.svd(weights, full_matrices=False)
            return left @ right
        weights = weights + 0.5 * gap @ weights
    return weights


if __name__ == "__main__":
    main("foton", PAPER, CLAIMS, measured)
