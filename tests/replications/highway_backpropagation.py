"""Highway backpropagation (arXiv 2501.17086) against what miles finds: error by iterations, accuracy, span and seconds.

Errors, span and seconds are those of `miles audit-gradients`; networks are trained by the audit's estimator.
"""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import torch
from foton import TRAIN, VALIDATION, digits
from replicating import Claim, Found, Given, Paper, main, mean_of
from torch import Tensor

PAPER = Paper(
    "Accelerated training through iterative gradient propagation along the residual path",
    "Fagnou, Caillon, Delattre, Allauzen (ICLR 2025)",
    "2501.17086",
)
NET = "16 residual tanh blocks of width 64 at their start"
TRAINED = "16 residual tanh blocks of width 64, sklearn's digits, 200 steps of 64 at a rate of 0.1"
CLAIMS = {
    "exact": Claim(
        says="The gradient is the sum over paths through at most as many blocks as there are, so that enough "
        "iterations are backpropagation.",
        source="abstract and figure 1",
        measured=f"Relative error in all layers after 15 iterations, {NET}; border of the audit's equality",
        below=1e-10,
    ),
    "each_nearer": Claim(
        says="Each further iteration brings the estimate nearer to the gradient.",
        source="abstract, which calls it an iterative approximation; that each must help is our reading",
        measured=f"Largest change of the relative error from 0 to 1, 2, 4 and 8 iterations, {NET}",
        below=0,
    ),
    "little_lost": Claim(
        says="Few iterations train with minimal loss of performance.",
        source="abstract; that two of 15 are few and an accuracy of 0.02 little is our border",
        measured=f"Test accuracy of two iterations less that of backpropagation, {TRAINED}",
        above=-0.02,
    ),
    "iterations_matter": Claim(
        says="It is the iterations that train so well, not the residual path alone.",
        source="our control of the claim above",
        measured=f"Test accuracy of two iterations less that of none, {TRAINED}",
        above=0,
    ),
    "shorter_span": Claim(
        says="It shortens what must be computed one after the other.",
        source="abstract: all layers in parallel",
        measured="Layers in sequence of a gradient by backpropagation by those of two iterations, 16 blocks, as the "
        "audit counts them for hardware that works on all blocks at once",
        above=1,
    ),
    "faster": Claim(
        says="It speeds up training, on one processor too.",
        source="abstract: major speedups, on hardware that we do not have",
        measured=f"Seconds of a gradient by backpropagation by those of two iterations, one processor, {NET}",
        above=1,
    ),
    "others": Claim(
        says="It serves Transformers and recurrent networks too.",
        source="abstract",
        untried="The audit has highway backpropagation for residual blocks in a row alone.",
    ),
}
RATE, BLOCKS, WIDTH, ROWS, EXACT = 0.1, 16, 64, 64, 15
ITERATIONS = 0, 1, 2, 4, 8


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    # Others than those by which the rate and the number of seeds were chosen.
    numbers = range(100, 100 + given.size(10, 2))
    rows = [audited(given, seed) for seed in numbers[:5]]
    of = partial(mean_of, level=given.level, unit="seeds")
    two, none, exact = (accuracies(given, numbers, name) for name in ("highway-2", "highway-0", "bp"))
    return {
        "exact": of([row[f"error highway-{EXACT}"] for row in rows]),
        "each_nearer": of([steepest(row) for row in rows]),
        "little_lost": of((two - exact).tolist()),
        "iterations_matter": of((two - none).tolist()),
        "shorter_span": Found.exact(rows[0]["span"], 1, "networks", "counted"),
        "faster": of([row["speedup"] for row in rows]),
    }


def audited(given: Given, seed: int) -> dict[str, float]:
    """Return what the audit says of one network: errors by method, and of two iterations span and speed."""
    from miles_cli import run

    methods = [f"highway-{k}" for k in (*ITERATIONS, EXACT)]
    widths = [str(WIDTH)] * (BLOCKS + 1) + ["10"]
    asked = {"net": "resmlp", "act": "tanh", "init": "normal", "widths": widths, "methods": methods, "batches": 2}
    out = given.work / f"audit-{seed}"
    asked["force"] = True
    table = run("audit-gradients", seed=seed, level=given.level, out=out, **asked).frame()
    errors = table[(table["name"] == "relative_error") & (table["layer"] == "all")]
    found = {f"error {row['where.method']}": row["value"] for _, row in errors.iterrows()}
    spans = table[(table["name"] == "cost") & (table["kind"] == "span")].set_index("where.method")["value"]
    speeds = table[table["name"] == "speedup"].set_index("where.method")["value"]
    return {**found, "span": float(spans["bp"] / spans["highway-2"]), "speedup": float(speeds["highway-2"])}


def steepest(row: Mapping[str, float]) -> float:
    """Return the largest change of the error from one number of iterations to the next."""
    return max(row[f"error highway-{more}"] - row[f"error highway-{few}"] for few, more in pairwise(ITERATIONS))


def accuracies(given: Given, numbers: range, method: str) -> Tensor:
    """Return the test accuracy of each seed."""
    return torch.tensor([trained(given, method, seed) for seed in numbers])


def trained(given: Given, method: str, seed: int) -> float:
    """Return the test accuracy after training, kept for a later run."""
    kept = given.work / f"{method}-{seed}.pt"
    if not kept.exists():
        torch.save(train(given, method, seed), kept)
    return float(torch.load(kept))


def train(given: Given, method: str, seed: int) -> float:
    """Train one network by the gradients of a method: weights, split and order hang on the seed."""
    from probes.core.random_streams import stream
    from probes.gradients.estimators import Batch
    from probes.gradients.methods import named_estimators
    from probes.gradients.networks import ResMlp, cross_entropy, initialise

    inputs, targets = digits(seed)
    model = ResMlp(WIDTH, BLOCKS, 10)
    initialise(model, "normal", stream(seed, "weights"))
    (estimator,) = named_estimators([method], seed)
    order, unused = stream(seed, "order"), stream(seed, "unused")
    for _ in range(given.size(200, 2)):
        rows = torch.randint(TRAIN, (ROWS,), generator=order)
        found = estimator.gradients(model, Batch(inputs[rows], targets[rows]), cross_entropy, rng=unused)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.sub_(RATE * found[name])
    with torch.no_grad():
        right = (model(inputs).argmax(1) == targets).double()
    return float(right[TRAIN + VALIDATION :].mean())


if __name__ == "__main__":
    main("highway_backpropagation", PAPER, CLAIMS, measured)
