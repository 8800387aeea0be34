"""Diagonal state feedback (arXiv 2503.23104) against what miles finds: gradient, loss, memory and seconds."""

from collections.abc import Mapping
from functools import cache, partial
from statistics import median
from typing import Any

import torch
from replicating import DATA, Claim, Found, Given, Paper, main, mean_of
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, one_hot

from probes.core.random_streams import stream
from probes.core.timing import in_turns, ratios
from probes.gradients.estimators import Batch
from probes.gradients.methods import named_estimators
from probes.gradients.networks import Gru, Recurrent

PAPER = Paper(
    "Fast training of recurrent neural networks with stationary state feedbacks",
    "Caillon, Fagnou, Allauzen (2025)",
    "2503.23104",
)
MODEL = "GRU of width 64 on characters of English sentences, windows of 32"
TRAINED = f"{MODEL}, 300 steps of AdamW on 16 windows at a rate of 0.01"
RECALL = "4 symbols, GRU of width 64, 200 steps of AdamW on 32 sequences"
CLAIMS = {
    "exact": Claim(
        says="A fixed feedback gives the exact gradient where the recurrence is stationary.",
        source="abstract, which names stationarity over time as the assumption",
        measured="Relative error, linear recurrence, diagonal from 0 to 1, 32 steps; border of the audit's equality",
        below=1e-10,
    ),
    "nearer_at_start": Claim(
        says="The fixed diagonal approximates the gradient: it is nearer than no feedback through time.",
        source="abstract for the approximation; that no feedback must be worse is our reading",
        measured=f"Cosine with the gradient less that of truncated-1, cell of a {MODEL}, before training",
        above=0,
    ),
    "nearer_when_trained": Claim(
        says="The same holds in a trained network.",
        source="as above",
        measured="The same after 300 steps of backpropagation through time at a rate of 0.01",
        above=0,
    ),
    "beats_truncated": Claim(
        says="Training with it reaches a lower perplexity than fully truncated backpropagation.",
        source="caption of figure 1, as quoted in a public overview",
        measured=f"Held-out cross-entropy in nats less that of truncated-1; {TRAINED}",
        below=0,
    ),
    "competitive": Claim(
        says="Its perplexity is competitive with that of backpropagation through time.",
        source="abstract; that 0.05 nats, 5 % of perplexity, is competitive is our border",
        measured=f"Held-out cross-entropy in nats less that of backpropagation through time; {TRAINED}",
        below=0.05,
    ),
    "long_memory": Claim(
        says="It keeps the ability to learn long dependencies, which truncation loses.",
        source="abstract for the ability; the comparison is ours",
        measured=f"Accuracy less that of truncated-1 in telling the first of 15 symbols at the end; {RECALL}",
        above=0,
    ),
    "faster": Claim(
        says="It reduces the cost of training.",
        source="abstract",
        measured=f"Seconds of backpropagation through time by its own, {MODEL}, 16 windows, median of 9 turns a seed",
        above=1,
    ),
}
RATE, ROWS, TIME, LAG, SYMBOLS, WIDTH = 1e-2, 16, 32, 15, 4, 64
BP, DSF, NONE = METHODS = "bp", "dsf:linspace", "truncated-1"
ESTIMATORS = {one.name: one for one in named_estimators(METHODS, seed=0)}
LETTERS = " abcdefghijklmnopqrstuvwxyz.,'"


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim."""
    numbers = range(100, 100 + given.size(5, 2))  # Others than those by which the rate was chosen.
    of = partial(mean_of, level=given.level, unit="seeds")
    start, end = zip(*[nearness(given, seed) for seed in numbers], strict=True)
    text = {name: outcomes(given, "text", name, numbers) for name in METHODS}
    recall = {name: outcomes(given, "recall", name, numbers) for name in (DSF, NONE)}
    return {
        "exact": of([stationary_error(seed) for seed in numbers]),
        "nearer_at_start": of(start),
        "nearer_when_trained": of(end),
        "beats_truncated": of((text[DSF] - text[NONE]).tolist()),
        "competitive": of((text[DSF] - text[BP]).tolist()),
        "long_memory": of((recall[DSF] - recall[NONE]).tolist()),
        "faster": of([speedup(given, seed) for seed in numbers]),
    }


@cache
def texts() -> tuple[Tensor, ...]:
    """Return the letters of the sentences as numbers: for training, validation and test; others are one more."""
    text = (DATA / "multilingual" / "en.txt").read_text(encoding="utf-8").lower().replace("\n", " ")
    numbers = torch.tensor([LETTERS.find(letter) % (len(LETTERS) + 1) for letter in text])
    return numbers.split([len(numbers) - 100_000, 50_000, 50_000])


def draw(task: str, part: int, count: int, generator: torch.Generator) -> Batch:
    """Draw windows of one part of the text, each letter to tell the next; or symbols, to tell the first at the end."""
    if task == "recall":
        drawn = torch.randint(SYMBOLS, (count, LAG), generator=generator)
        return Batch(one_hot(drawn, SYMBOLS).float(), drawn[:, 0])
    at = torch.randint(len(texts()[part]) - TIME, (count, 1), generator=generator) + torch.arange(TIME + 1)
    drawn = texts()[part][at]
    return Batch(one_hot(drawn[:, :-1], len(LETTERS) + 1).float(), drawn[:, 1:])


def loss(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy in nats; where there is one target a sequence, of what is told at its end."""
    return cross_entropy(output[:, -1] if targets.ndim == 1 else output.flatten(0, 1), targets.flatten())


def network(task: str, seed: int) -> Gru:
    """Return a recurrent network with torch's own start by the seed."""
    size = len(LETTERS) + 1 if task == "text" else SYMBOLS
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Gru(size, WIDTH, size)


def outcomes(given: Given, task: str, method: str, numbers: range) -> Tensor:
    """Return by seed the test loss, or the accuracy of recall."""
    return torch.tensor([fitted(given, task, method, seed)[1] for seed in numbers])


def fitted(given: Given, task: str, method: str, seed: int) -> tuple[Any, float]:
    """Return the weights after training and the test outcome; kept for a later run."""
    kept = given.work / f"{task}-{method}-{seed}.pt"
    if not kept.exists():
        torch.save(fit(given, task, method, seed), kept)
    weights, outcome = torch.load(kept)
    return weights, outcome


def fit(given: Given, task: str, method: str, seed: int) -> tuple[Any, float]:
    """Train one network by the gradients of a method."""
    model, generator, rows = network(task, seed), stream(seed, task), ROWS if task == "text" else 2 * ROWS
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    for _ in range(given.size(300 if task == "text" else 200, 2)):
        found = ESTIMATORS[method].gradients(model, draw(task, 0, rows, generator), loss, rng=generator)
        for name, weight in model.named_parameters():
            weight.grad = found[name]
        optimiser.step()
    test = draw(task, 2, given.size(512, 32), stream(seed, "test"))
    with torch.no_grad():
        output = model(test.inputs)
    right = (output[:, -1].argmax(1) == test.targets).double() if task == "recall" else None
    return model.state_dict(), loss(output, test.targets).item() if right is None else right.mean().item()


def nearness(given: Given, seed: int) -> tuple[float, float]:
    """Return by how much the diagonal's cosine is above that of no feedback, before and after training."""
    model, found = network("text", seed), []
    for weights in (model.state_dict(), fitted(given, "text", BP, seed)[0]):
        model.load_state_dict(weights)
        batch, unused = draw("text", 1, given.size(128, 8), stream(seed, "nearness")), stream(seed, "unused")
        by_method = [ESTIMATORS[name].gradients(model, batch, loss, rng=unused) for name in METHODS]
        exact, *others = [torch.cat([one[name].flatten() for name in one if "cell" in name]) for one in by_method]
        diagonal, none = (cosine_similarity(exact, other, dim=0) for other in others)
        found.append(float(diagonal - none))
    return found[0], found[1]


def stationary_error(seed: int) -> float:
    """Return the relative error where every step has the same diagonal Jacobian."""
    generator = stream(seed, "stationary")

    class Linear(Recurrent):
        def __init__(self) -> None:
            super().__init__(32)
            self.kept = torch.nn.Parameter(torch.linspace(0, 1, 32, dtype=torch.float64))
            self.read, self.head = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

        def step(self, inputs: Tensor, state: Tensor) -> Tensor:
            return self.kept * state + self.read(inputs)

    model = Linear().double()
    for weight in (*model.read.parameters(), *model.head.parameters()):
        torch.nn.init.normal_(weight, 0, 0.3, generator)
    inputs = torch.randn(16, TIME, 8, generator=generator, dtype=torch.float64)
    batch = Batch(inputs, torch.randint(8, (16, TIME), generator=generator))
    exact, found = (ESTIMATORS[name].gradients(model, batch, loss, rng=generator) for name in (BP, DSF))
    one, other = (torch.cat([part.flatten() for part in parts.values()]) for parts in (exact, found))
    return float((one - other).norm() / one.norm())


def speedup(given: Given, seed: int) -> float:
    """Return how many times faster a gradient is than by backpropagation, the median of turns side by side."""
    model, batch, unused = network("text", seed), draw("text", 0, ROWS, stream(seed, "timed")), stream(seed, "unused")
    calls = {name: partial(ESTIMATORS[name].gradients, model, batch, loss, rng=unused) for name in (BP, DSF)}
    return median(ratios(*in_turns(calls, given.size(9, 3)).values()))


if __name__ == "__main__":
    main("diagonal_state_feedback", PAPER, CLAIMS, measured)
