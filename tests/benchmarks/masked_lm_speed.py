"""What does training the small encoder cost, beside BERT as transformers computes it and beside its bare steps?

Three questions, one table; every side does --steps steps on batches of 32 windows of bytes.

Peers: `miles, as BERT` and transformers' `BertForMaskedLM` have one architecture, one set of weights, the same batches
and the same optimiser (AdamW for all), so that they have the same losses. `miles, as used` has its front end and Muon;
a line says when it loses as little as the other does at its end.

Loop: `train` is the function that the interference audit trains with, which draws its batches, sets its rates and keeps
its curves; `miles, as used` is its bare steps, on batches made beforehand.

Lanes: two models, by two processes of a thread each (`two processes`) or by one of two threads after the other
(`two threads`). Processes stand ready before the clock starts.
"""

import argparse
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import race

TEXT = Path(os.environ.get("MILES_TEST_DATA") or race.ROOT.parent / "shared" / "data") / "multilingual" / "en.txt"
MASK, VOCABULARY, BATCH = 256, 257, 32
SMOOTH = 20
"""Steps over which a loss is averaged before it is compared."""
OPTIONS = {
    "steps": race.Option(100, 20, f"{SMOOTH} or more"),
    "length": race.Option(128, 32, "bytes of a window"),
    "width": race.Option(128, 32, "of a state; two layers of four heads"),
    "text": race.Option(str(TEXT), str(TEXT), "a file of sentences"),
}


def windows(given: argparse.Namespace) -> Any:
    """Return the sentences of the file as windows of bytes."""
    import numpy as np

    from probes.language_models.token_windows import cut_windows

    if not Path(given.text).is_file():
        raise race.LeftOutError(f"no {given.text}: give --text")
    lines = Path(given.text).read_bytes().splitlines()[:20_000]
    encoded = [np.frombuffer(line, dtype=np.uint8).astype(np.int32) for line in lines]
    return cut_windows(encoded, [len(line) for line in lines], separator=10, length=given.length)


def batches(given: argparse.Namespace) -> list[Any]:
    """Return for each step ids, hidden positions and answers."""
    import torch

    from probes.language_models.token_windows import hide_tokens, masked_positions

    text, generator, found = windows(given), torch.Generator().manual_seed(0), []
    for _ in range(given.steps):
        chosen = text.ids[torch.randint(0, len(text), (BATCH,), generator=generator)]
        positions = masked_positions(BATCH, given.length, 0.15, generator)[0]
        ids, answers = hide_tokens(chosen, positions, MASK)
        found.append((ids, positions, answers))
    return found


def encoder(given: argparse.Namespace, *, front: int = 9, seed: int = 0) -> Any:
    """Return ours."""
    from probes.language_models.masked_lm import MaskedLM

    sizes = {"width": given.width, "layers": 2, "heads": 4, "length": given.length}
    return MaskedLM(vocabulary=VOCABULARY, seed=seed, front=front, **sizes)


def recipe(given: argparse.Namespace, **rates: float) -> Any:
    """Return how all are trained."""
    from probes.language_models.masked_training import Recipe

    return Recipe(steps=given.steps, batch=BATCH, budget="same-data", **rates)


def stepping(given: argparse.Namespace, network: Any, plan: Any, loss_of: Callable[[Any], Any]) -> race.Job:
    """Return the job that takes all steps and returns their losses."""
    from torch import nn

    from probes.language_models.masked_training import _optimisers, _set_rates

    drawn, optimisers = batches(given), _optimisers(network, plan)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    network.train()

    def job() -> race.Result:
        losses = []
        for number, batch in enumerate(drawn):
            _set_rates(optimisers, number, plan)
            loss = loss_of(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1.0)
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
            losses.append(float(loss.detach()))
        return {"last loss": losses[-1], "losses": losses}

    return job


def of_ours(network: Any) -> Callable[[Any], Any]:
    """Return the loss of ours on a batch."""
    from torch.nn import functional

    def loss(batch: Any) -> Any:
        ids, positions, answers = batch
        return functional.cross_entropy(network(ids, positions).flatten(0, 1), answers.flatten())

    return loss


def copied(given: argparse.Namespace) -> tuple[Any, Any]:
    """Return ours without a front end, and a BERT of transformers of the same weights, none of which ours lacks."""
    import torch

    from probes.core import library_imports as libraries
    from tests.oracle.test_masked_lm_oracle import paired

    own, hub = encoder(given, front=0), libraries.transformers()
    config = hub.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=given.width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=4 * given.width,
        max_position_embeddings=given.length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = hub.BertForMaskedLM(config)
    with torch.no_grad():
        for mine, parts in paired(own, theirs):
            for part, piece in zip(parts, mine.split([len(part) for part in parts]), strict=True):
                part.copy_(piece)
        # Ours has no kinds of segments.
        theirs.bert.embeddings.token_type_embeddings.weight.zero_().requires_grad_(False)
    return own, theirs


def as_bert(given: argparse.Namespace) -> race.Job:
    """Train ours without its front end and Muon."""
    own = copied(given)[0]
    return stepping(given, own, recipe(given, rate=1e-3, matrix_rate=0.0), of_ours(own))


def bert(given: argparse.Namespace) -> race.Job:
    """Train the model of transformers, in the way that its documents show."""
    import torch

    theirs = copied(given)[1]

    def loss(batch: Any) -> Any:
        ids, positions, answers = batch
        return theirs(input_ids=ids, labels=torch.full_like(ids, -100).scatter(1, positions, answers)).loss

    return stepping(given, theirs, recipe(given, rate=1e-3, matrix_rate=0.0), loss)


def as_used(given: argparse.Namespace) -> race.Job:
    """Take the bare steps of ours as the audit has it."""
    network = encoder(given)
    job: Any = stepping(given, network, recipe(given), of_ours(network))
    # Under names of their own: these losses are meant to be lower than the others.
    return lambda: {f"own {name}": value for name, value in job().items()}


def train(given: argparse.Namespace, seed: int = 0) -> race.Job:
    """Train ours as the audit does."""
    from probes.language_models.masked_training import train

    text = windows(given)

    def job() -> race.Result:
        train(encoder(given, seed=seed), {"en": text}, recipe(given), mask=MASK, seed=seed)
        return {}

    return job


def lanes(processes: int, threads: int) -> race.Side:
    """Return the side that trains two models in so many processes."""

    def side(given: argparse.Namespace) -> race.Job:
        pool = _pool(processes, threads)
        small = argparse.Namespace(**vars(given) | {"steps": SMOOTH})
        pool.map(_lane, [(small, seed) for seed in range(2 * processes)], chunksize=1)
        jobs = [(given, seed) for seed in range(2)]
        return lambda: {"models": len(pool.map(_lane, jobs, chunksize=1))}

    return side


@cache
def _pool(processes: int, threads: int) -> Any:
    return multiprocessing.get_context("spawn").Pool(processes, _ready, (str(race.ROOT), threads))


def _ready(root: str, threads: int) -> None:
    import sys

    import torch

    sys.path.insert(0, root)
    torch.set_num_threads(threads)


def _lane(told: tuple[argparse.Namespace, int]) -> int:
    train(*told)()
    return told[1]


def smoothed(losses: Any) -> list[float]:
    """Return the mean of the last losses at each step, once there are as many."""
    return [statistics.fmean(losses[end - SMOOTH : end]) for end in range(SMOOTH, len(losses) + 1)]


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say what was asked: when ours as used is as good, what the loop costs, and which lanes are faster."""
    if {"BertForMaskedLM", "miles, as used"} <= found.keys():
        goal = smoothed(found["BertForMaskedLM"][0].result["losses"])[-1]
        own = smoothed(found["miles, as used"][0].result["own losses"])
        reached = next((place + SMOOTH for place, loss in enumerate(own) if loss <= goal), None)
        yield f"BertForMaskedLM ends at {goal:.3f} nats a byte; miles, as used, is there " + (
            f"after {reached} of {given.steps} steps" if reached else "not at all"
        )
        if reached:
            share = [ratio * given.steps / reached for ratio in race.ratios(found, "BertForMaskedLM", "miles, as used")]
            yield f"time to there, BertForMaskedLM / miles, as used, CPU: {race.spread(share)}"
    if {"train", "miles, as used"} <= found.keys():
        yield f"train / its bare steps, CPU: {race.spread(race.ratios(found, 'train', 'miles, as used'))}"
    if {"two processes", "two threads"} <= found.keys():
        apart = race.ratios(found, "two threads", "two processes", "wall")
        yield f"two threads / two processes, wall: {race.spread(apart)}"


SIDES = {
    "miles, as BERT": as_bert,
    "BertForMaskedLM": bert,
    "miles, as used": as_used,
    "train": train,
    "two processes": lanes(2, 1),
    "two threads": lanes(1, 2),
}

if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides=SIDES,
        remarks=remarks,
        base="miles, as BERT",
        packages=("transformers",),
    )
