"""How much does a cell of the interference matrix scatter from one training to another, and what makes it quieter?

Run `python tests/benchmarks/seed_spread.py CORPUS_DIR [--langs en,fr,ar] [--steps 300] [--plain-steps 600] [--seeds 3]
[--hidden 64] [--batch 32]`. Every language and pair is trained by two recipes: plain (no front end, AdamW for all, as
many steps as it needs to leave the unigram plateau, which it does late) and the defaults. For both the table shows the
standard deviation of the cells over seeds, pooled; once as it is, where a pair and a language alone share weights at
the start, order and hidden tokens, and once with the language alone taken from the next seed, so that they share none.
A cell counts as settled where its models have converged, by the same rule as in the audit.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from audits.core.context import Cache, Context
from audits.interference import Options
from audits.interference.convergence import failures
from audits.interference.inputs import Inputs, check
from audits.interference.losses import Losses, from_models
from audits.interference.measure import baselines_of
from probes.language_models.mixture_models import fit

RECIPES: Mapping[str, Mapping[str, float]] = {"plain": {"front": 0, "matrix_rate": 0.0}, "defaults": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What the cells of one recipe are like: their scatter over trainings and largest size in nats per byte."""

    shared: float
    apart: float
    largest: float
    settled: int
    cells: int


def main() -> None:
    """Train by both recipes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--langs", default="en,fr,ar")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--plain-steps", type=int, default=600)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", default="same-data")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'recipe':10} {'steps':>6} {'seed sd':>8} {'not shared':>11} {'largest':>8} {'settled':>8} {'seconds':>8}")
    found = {}
    for name, recipe in RECIPES.items():
        steps = given.plain_steps if name == "plain" else given.steps
        begun = time.perf_counter()
        options = Options(
            corpus=given.corpus,
            langs=tuple(given.langs.split(",")),
            steps=steps,
            hidden=given.hidden,
            batch=given.batch,
            seeds=given.seeds,
            budget=given.budget,
            **recipe,
        )
        spread = found[name] = _spread(options)
        print(
            f"{name:10} {steps:6} {spread.shared:8.4f} {spread.apart:11.4f} {spread.largest:8.3f} "
            f"{spread.settled:4} of {spread.cells} {time.perf_counter() - begun:8.0f}",
            flush=True,
        )
    plain, usual = found["plain"], found["defaults"]
    if plain.settled < plain.cells or usual.settled < usual.cells:
        print("No factor: a model on the unigram plateau has not begun to scatter. Give more steps.")
    else:
        print(f"The defaults, with shared randomness, scatter by a factor of {plain.apart / usual.shared:.1f} less.")


def _spread(options: Options) -> Spread:
    with tempfile.TemporaryDirectory() as place:
        context = Context(cache=Cache(Path(place)))
        inputs = check(options, context).inputs
        assert isinstance(inputs, Inputs)
        kept = []
        for job, (chosen, number) in zip(inputs.jobs, inputs.trainings, strict=True):
            fit(job)
            value = job.results.read(job.key)
            assert value is not None
            kept.append((chosen, number, value))
        losses = from_models(inputs.languages, kept)
        failed = failures(losses, baselines_of(inputs, context), options.margin)
    pairs = [chosen for chosen in inputs.sets if len(chosen) == 2]
    wanted = [(pair, target) for pair in pairs for target in pair]
    alone = {(pair, target): _values(losses, (target,), target, options.seeds) for pair, target in wanted}
    together = {(pair, target): _values(losses, pair, target, options.seeds) for pair, target in wanted}
    return Spread(
        shared=_pooled([together[where] - alone[where] for where in wanted]),
        apart=_pooled([together[where] - np.roll(alone[where], 1) for where in wanted]),
        largest=max(abs(float((together[where] - alone[where]).mean())) for where in wanted),
        settled=sum(not {(pair, target), ((target,), target)} & failed.keys() for pair, target in wanted),
        cells=len(wanted),
    )


def _values(
    losses: Losses, chosen: tuple[str, ...], code: str, seeds: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([losses.cells[chosen, seed, code].loss for seed in range(seeds)])


def _pooled(cells: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> float:
    return math.sqrt(float(np.mean([cell.var(ddof=1) for cell in cells])))


if __name__ == "__main__":
    main()
