"""Structured-sparse attention (arXiv 2605.22476) against what miles finds: blocks, accuracy, seconds and heads.

Networks and the reduced form are those of `miles audit-tracking`; that form is miles' own reading of the abstract.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from replicating import Claim, Found, Given, Paper, main, mean_of
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, one_hot

from audits.tracking.estimates import mean_of_pairs
from probes.core.random_streams import stream
from probes.language_models import chain_attention
from probes.language_models.tracking_networks import GAMMA, Batch, Design, Network, draw

PAPER = Paper(
    "Structured-sparse attention for entity tracking with subquadratic sequence complexity",
    "Zhao, Caillon, Fagnou, Allauzen (2026)",
    "2605.22476",
)
NET = "one solving layer, two heads, trained on four chains of 4 copies in random order, 20 tokens"
CLAIMS = {
    "mass_in_blocks": Claim(
        says="Learned attention puts most of its mass into local blocks on the diagonal.",
        source="abstract; 'most' is more than half",
        measured=f"Share of attention within blocks of four tokens, mean over both heads, {NET}",
        above=0.5,
    ),
    "more_than_needed": Claim(
        says="That concentration is learned: it is above what following the chains takes anyway.",
        source="our control of the claim above",
        measured="The same share less that of attention on the token that the value comes from, and on nothing else",
        above=0,
    ),
    "same_accuracy": Claim(
        says="Exact blocks, with one representative a block for the rest, match the accuracy of the dense operator.",
        source="abstract, a reduced system; one representative is our reading, a loss of 0.01 our border",
        measured=f"Accuracy at depth 4 with the reduced form, blocks of four, less that with the dense one, {NET}",
        above=-0.01,
    ),
    "faster": Claim(
        says="It takes less time than the dense operator.",
        source="abstract, 12 to 29 % less from end to end; here the operator alone",
        measured="Seconds of the reduced form by those of the triangular solution, 512 tokens, median of seven pairs "
        "for each of several random matrices",
        below=1,
    ),
    "subquadratic": Claim(
        says="Its cost grows less than the square of length n, here that of the small system alone.",
        source="abstract, which has n^(4/3); that any power below 2 counts is our border",
        measured="Slope of log processor seconds on log length, 512 to 4,096 tokens, of solving the reduced system, "
        "given its parts",
        below=2,
    ),
    "heads": Claim(
        says="Accuracy collapses where more properties change at once than there are heads.",
        source="abstract; that a collapse loses more than a quarter is our border",
        measured="Sequences with both of two properties right, one head less two heads, solving layer, chains of 3",
        below=-0.25,
    ),
    "transformer": Claim(
        says="It is up to 2.4 times as fast as a compact dense Transformer of the same accuracy.",
        source="abstract",
        untried="The Transformer and the protocol are not in the abstract, and this time is one of graphics cards.",
    ),
}
SIZE, LENGTHS = 4, (512, 1024, 2048, 4096)


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    seeds = range(given.size(3, 2))
    of = partial(mean_of, level=given.level, unit="seeds")
    seen = [looked_at(given, seed) for seed in seeds]
    share, needed = torch.tensor([shares for shares, _ in seen]).T
    pairs = mean_of_pairs([pair for _, found in seen for pair in found], given.level)
    return {
        "mass_in_blocks": of(share.tolist()),
        "more_than_needed": of((share - needed).tolist()),
        "same_accuracy": Found(pairs.value, pairs.low, pairs.high, pairs.n, "sequences", pairs.method),
        "faster": mean_of([operator_ratio(given, seed) for seed in seeds], given.level, "matrices"),
        "subquadratic": mean_of(slopes(given), given.level, "turns"),
        "heads": of(twins(given, len(seeds))),
    }


def looked_at(given: Given, seed: int) -> tuple[list[float], list[int]]:
    """Return of one trained network the shares within blocks, its own and of its chains, and what the form changes.

    That is -1 of a sequence whose deepest token the reduced form gets wrong and the dense one right, and so on.
    """
    design = Design(layers=1, resolvent=True, depth=given.size(4, 3), steps=given.size(250, 2), seed=seed)
    network = fitted(given, design)
    batch = draw(design, given.size(256, 4), stream(seed, "looked at"))
    (layer,) = network.layers
    with torch.inference_mode():
        before = network.streams(batch)[0]
        attention, values = layer.attention(before)
        graph = one_hot(batch.parents[..., 0], design.tokens).float()
        blocks = [chain_attention.block_shares(maps, SIZE, of) for maps, of in zip(attention, graph, strict=True)]
        both = zip(attention.flatten(0, 1).double(), values.flatten(0, 1).double(), strict=True)
        mixed = torch.stack([chain_attention.reduced(*one, GAMMA, SIZE) for one in both]).view_as(values)
        told = right(network, behind(layer, before, mixed.float()), batch)
        dense = right(network, layer(before), batch)
    means = [float(np.mean([block[kind] for block in blocks])) for kind in ("measured", "graph")]
    return means, (told.int() - dense.int()).tolist()


def behind(layer: Any, before: Tensor, mixed: Tensor) -> Tensor:
    """Return the residual stream behind a layer, given what its heads have mixed."""
    x = before + layer.out(mixed.transpose(1, 2).flatten(2))
    return x + layer.down(gelu(layer.up(layer.second(x))))


def right(network: Network, after: Tensor, batch: Batch) -> Tensor:
    """Return of each sequence whether the value of the first of its deepest tokens is told."""
    told = network.heads[0](network.norm(after)).argmax(-1)
    deepest = (batch.depths == batch.depths.max()).int().argmax(1, keepdim=True)
    return (told == batch.answers[..., 0]).gather(1, deepest)[:, 0]


def fitted(given: Given, design: Design) -> Network:
    """Return a network trained as the reference curves are, kept for a later run."""
    with torch.random.fork_rng():
        torch.manual_seed(design.seed)
        network = Network(design)
    kept = given.work / f"network-{design.seed}.pt"
    if not kept.exists():
        generator, optimiser = stream(design.seed, "training"), torch.optim.AdamW(network.parameters(), lr=2e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, design.steps)
        for _ in range(design.steps):
            batch = draw(design, 64, generator)
            optimiser.zero_grad()
            cross_entropy(network(batch).flatten(0, 2), batch.answers.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
        torch.save(network.state_dict(), kept)
    network.load_state_dict(torch.load(kept))
    return network


def operator_ratio(given: Given, seed: int) -> float:
    """Return the audit's ratio of the seconds of the reduced form to those of the triangular solution."""
    from miles_cli import run

    asked = {"operator": True, "gamma": ["0.9"], "length": given.size(512, 64), "level": given.level, "seed": seed}
    asked["force"] = True
    rows = run("audit-tracking", out=given.work / f"operator-{seed}", **asked).frame("seconds_ratio")
    return float(rows[rows["form"].str.startswith("reduced")]["value"].iloc[0])


def slopes(given: Given) -> list[float]:
    """Return for each turn the slope of log seconds on log length of solving the reduced system."""
    calls = {}
    for length in LENGTHS[: given.size(4, 2)]:
        generator = stream(length, "slopes")
        scores = torch.randn(length, length, generator=generator)
        attention = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf).softmax(-1)
        parts = chain_attention.reduce(attention, chain_attention.automatic_block(length))
        values = torch.randn(length, 64, generator=generator)
        calls[str(length)] = partial(chain_attention.solve_reduced, parts, values, GAMMA)
    table = np.log([[processor_seconds(call) for call in calls.values()] for _ in range(given.size(12, 3))])
    return [float(one) for one in np.polyfit(np.log([float(length) for length in calls]), table.T, 1)[0]]


def processor_seconds(call: Callable[[], object]) -> float:
    """Return the processor's own seconds of a call, which other work on the machine lengthens little."""
    call()
    begun = time.process_time()
    for _ in range(5):
        call()
    return time.process_time() - begun


def twins(given: Given, seeds: int) -> list[float]:
    """Return by seed the exact matches of one head less those of two, for two properties."""
    from miles_cli import run

    asked = {"train": True, "properties": 2, "heads": 2, "layers": ["1"], "workers": 1, "level": given.level}
    asked["force"] = True
    depths = [str(one) for one in range(4)]
    out = given.work / "twins"
    table = run("audit-tracking", n=depths, seeds=seeds, steps=given.size(400, 2), out=out, **asked)
    rows = table.frame("exact_match").sort_values("system")
    one, two = (rows[rows["heads"].astype(str) == str(heads)]["value"].tolist() for heads in (1, 2))
    return [a - b for a, b in zip(one, two, strict=True)]


if __name__ == "__main__":
    main("structured_sparse_tracking", PAPER, CLAIMS, measured)
