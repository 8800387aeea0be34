"""Chain and causal attention (arXiv 2410.05565) against what miles finds: depth by layers, one solving layer, its cost.

Networks are the reference curves of `miles audit-tracking --train`, forms of the operator those of `--operator`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from replicating import Claim, Found, Given, Paper, main, mean_of

PAPER = Paper(
    "Chain and causal attention for efficient entity tracking",
    "Fagnou, Caillon, Delattre, Allauzen (EMNLP 2024)",
    "2410.05565",
)
NET = "width 64, two heads, chains of copied values among four, one token a change"
CLAIMS = {
    "bound_of_one": Claim(
        says="A network of L layers follows at most 2^L - 1 chained changes: one layer follows one, and not two.",
        source="abstract, log2(n + 1) layers for n changes; that more than half is lost is our border",
        measured=f"Accuracy of one softmax layer at depth 1 less that at depth 2, {NET}, trained on depths to 4",
        above=0.5,
    ),
    "bound_of_two": Claim(
        says="By the same law two layers follow three, and not four.",
        source="as above",
        measured=f"Accuracy of two softmax layers at depth 3 less that at depth 4, {NET}, trained on depths to 4",
        above=0.5,
    ),
    "one_layer_solves": Claim(
        says="Attention that solves for chains tracks states with a single layer.",
        source="abstract",
        measured=f"Accuracy of one solving layer, the least of depths 0 to 4 and of all seeds, {NET}, trained on these",
        above=0.9,
    ),
    "fewer_layers": Claim(
        says="It does with fewer layers what softmax attention needs more of.",
        source="abstract; accuracy at the depth beyond the reach of the larger network",
        measured="Accuracy of one solving layer at depth 4 less that of two softmax layers, seed by seed",
        above=0,
    ),
    "frugal": Claim(
        says="The change is efficient: one solving layer costs less than the softmax layers that it replaces.",
        source="abstract, 'efficient and frugal'; the comparison is ours",
        measured="Seconds of a forward pass of four softmax layers, what depth 8 needs, by those of one solving layer, "
        "64 sequences of 36 tokens, one processor",
        above=1,
    ),
    "language_models": Claim(
        says="It stays competitive in language modelling, and improves on the Boxes data.",
        source="abstract",
        untried="No language model of a useful size is trained here in minutes, and Boxes may not be kept in a "
        "repository.",
    ),
}


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    seeds = given.size(3, 2)
    deep = curves(given, "deep", ["1"], seeds=seeds, steps=given.size(250, 2))
    two = curves(given, "two", ["2"], seeds=seeds, steps=given.size(700, 2))
    solving = by_depth(deep, "resolvent-1", seeds)
    softmax, pair = by_depth(deep, "softmax-1", seeds), by_depth(two, "softmax-2", seeds)
    return {
        "bound_of_one": mean(given, [row[1] - row[2] for row in softmax]),
        "bound_of_two": mean(given, [row[3] - row[4] for row in pair]),
        "one_layer_solves": least(deep, "resolvent-1"),
        "fewer_layers": mean(given, [one[4] - other[4] for one, other in zip(solving, pair, strict=True)]),
        "frugal": mean_of(pass_ratios(given), given.level, "turns"),
    }


def mean(given: Given, values: Sequence[float]) -> Found:
    """Return the mean over seeds."""
    return mean_of(values, given.level, "seeds")


def curves(given: Given, name: str, layers: list[str], *, seeds: int, steps: int) -> Any:
    """Return the accuracies of the audit's reference curves, of networks with these layers and of one that solves."""
    from miles_cli import run

    report = run(
        "audit-tracking",
        train=True,
        layers=layers,
        resolvent=name == "deep",
        n=["0", "1", "2", "3", "4"],
        seeds=seeds,
        steps=steps,
        workers=1,
        force=True,
        level=given.level,
        out=given.work / name,
    )
    return report.frame("accuracy")


def by_depth(table: Any, kind: str, seeds: int) -> list[list[float]]:
    """Return the accuracies of one kind of network: by seed, then by depth."""
    rows = [table[table["system"] == f"{kind} seed {seed}"].sort_values("depth") for seed in range(seeds)]
    return [[float(value) for value in row["value"]] for row in rows]


def least(table: Any, kind: str) -> Found:
    """Return the least accuracy of all depths and seeds, with its own interval over sequences of the test."""
    row = table[table["system"].str.startswith(kind)].sort_values("value").iloc[0]
    return Found(*map(float, row[["value", "low", "high"]]), int(row["n"]), str(row["unit"]), str(row["method"]))


def pass_ratios(given: Given) -> tuple[float, ...]:
    """Return the seconds of four softmax layers by those of one solving layer, turn by turn."""
    from probes.core.random_streams import stream
    from probes.core.timing import in_turns, ratios
    from probes.language_models.tracking_networks import Design, Network, draw

    designs = Design(layers=4, depth=8), Design(layers=1, resolvent=True, depth=8)
    batch = draw(designs[0], 64, stream(0, "timed"))
    four, solving = (Network(design) for design in designs)
    with torch.inference_mode():
        taken = in_turns({"four": lambda: four(batch), "solving": lambda: solving(batch)}, given.size(15, 3))
    return ratios(taken["four"], taken["solving"])


if __name__ == "__main__":
    main("chain_causal_attention", PAPER, CLAIMS, measured)
