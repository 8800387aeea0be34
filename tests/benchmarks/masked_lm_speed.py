"""What does training the small encoder cost, beside its bare steps and beside BERT as transformers computes it?

Run `python tests/benchmarks/masked_lm_speed.py [--steps 100] [--repeats 5] [--only loop lanes peers]` on a quiet
machine. Three questions, three parts:

`loop`   `train` against its steps alone: the same network, one batch that was made beforehand, forward, backward, norms
         and both optimisers. Wanted: at most 1.15 of the time.
`lanes`  two processes with a thread each against one process with two threads, in models per second. Wanted: at least
         1.1 times as many.
`peers`  BertForMaskedLM of transformers against ours of the same architecture, from the same weights, on the same
         batches and with the same optimiser (AdamW for all), so that both have the same losses. Wanted: at least 1.4
         steps in the time of one. Then ours as it is used, with its front end and Muon: the time until it loses as
         little as the other at its end.

Times are medians over repeats that take turns. Batches of `peers` are cut from --text, 32 windows a step.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
TEXT = ROOT.parent / "shared" / "data" / "multilingual" / "en.txt"
PARTS = ("loop", "lanes", "peers")
MASK, VOCABULARY, BATCH = 256, 257, 32
SMALL = {"width": 64, "layers": 2, "heads": 4, "length": 64, "front": 9}
SMOOTH = 20
"""Steps over which a loss is averaged before it is compared."""


def windows(path: Path, length: int) -> Any:
    """Return the sentences of a file as windows of bytes."""
    import numpy as np

    from probes.token_windows import cut

    lines = path.read_bytes().splitlines()[:20_000]
    encoded = [np.frombuffer(line, dtype=np.uint8).astype(np.int32) for line in lines]
    return cut(encoded, [len(line) for line in lines], separator=10, length=length)


def batches(text: Any, steps: int) -> list[Any]:
    """Return for each step ids, hidden positions and answers."""
    import torch

    from probes.token_windows import hidden, masked_positions

    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(steps):
        chosen = text.ids[torch.randint(0, len(text), (BATCH,), generator=generator)]
        positions = masked_positions(BATCH, text.ids.shape[1], 0.15, generator)[0]
        ids, answers = hidden(chosen, positions, MASK)
        found.append((ids, positions, answers))
    return found


def encoder(seed: int = 0, **sizes: int) -> Any:
    """Return ours."""
    from probes.masked_lm import MaskedLM

    return MaskedLM(vocabulary=VOCABULARY, seed=seed, **sizes)


def bare(network: Any, recipe: Any, loss_of: Callable[[Any], Any]) -> Callable[[int, Any], float]:
    """Return a function that does one step on a batch and returns its loss."""
    from torch import nn

    from probes.masked_training import _optimisers, _set_rates

    optimisers = _optimisers(network, recipe)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    network.train()

    def step(number: int, batch: Any) -> float:
        _set_rates(optimisers, number, recipe)
        loss = loss_of(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def ours_loss(network: Any) -> Callable[[Any], Any]:
    """Return the loss of ours on a batch."""
    from torch.nn import functional

    def loss(batch: Any) -> Any:
        ids, positions, answers = batch
        return functional.cross_entropy(network(ids, positions).flatten(0, 1), answers.flatten())

    return loss


def theirs_loss(network: Any) -> Callable[[Any], Any]:
    """Return the loss of a model of transformers on a batch, in the way that its documents show."""
    import torch

    def loss(batch: Any) -> Any:
        ids, positions, answers = batch
        return network(input_ids=ids, labels=torch.full_like(ids, -100).scatter(1, positions, answers)).loss

    return loss


def loop(given: argparse.Namespace) -> None:
    """Compare `train` with its bare steps."""
    from probes.masked_training import Recipe, train

    text = windows(given.text, SMALL["length"])
    recipe = Recipe(steps=given.steps, batch=BATCH, budget="same-data")
    one = batches(text, 1)[0]
    spent: dict[str, list[float]] = {"train": [], "bare": []}
    for repeat in range(given.repeats + 1):
        network = encoder(**SMALL)
        begun = time.perf_counter()
        train(network, {"en": text}, recipe, mask=MASK, seed=0)
        spent["train"].append(time.perf_counter() - begun)
        network = encoder(**SMALL)
        step = bare(network, recipe, ours_loss(network))
        begun = time.perf_counter()
        for number in range(given.steps):
            step(number, one)
        spent["bare"].append(time.perf_counter() - begun)
        if not repeat:
            spent = {"train": [], "bare": []}
    whole, steps = (1000 * statistics.median(spent[name]) / given.steps for name in ("train", "bare"))
    ratio = statistics.median(a / b for a, b in zip(spent["train"], spent["bare"], strict=True))
    print(f"loop: train {whole:.2f} ms a step, bare {steps:.2f}; ratio {ratio:.3f} (wanted: at most 1.15)", flush=True)


def lane(given: argparse.Namespace) -> None:
    """Train models in this process, once it is told to, and print how many seconds they took."""
    import torch

    from probes.masked_training import Recipe, train

    torch.set_num_threads(given.threads)
    text = windows(given.text, SMALL["length"])
    train(encoder(**SMALL), {"en": text}, Recipe(steps=10, batch=BATCH, budget="same-data"), mask=MASK, seed=0)
    print("ready", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        for seed in range(int(line)):
            recipe = Recipe(steps=given.steps, batch=BATCH, budget="same-data")
            train(encoder(seed, **SMALL), {"en": text}, recipe, mask=MASK, seed=seed)
        print(time.perf_counter() - begun, flush=True)


def opened(given: argparse.Namespace, threads: int) -> Any:
    """Start a process that trains with so many threads, and wait until it could."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    words = [sys.executable, __file__, "--lane", "--threads", threads, "--steps", given.steps, "--text", given.text]
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **limits},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def rate(processes: list[Any], models: int) -> float:
    """Return models per second where each process trains so many at once with the others."""
    for process in processes:
        process.stdin.write(f"{models}\n")
        process.stdin.flush()
    slowest = max(float(process.stdout.readline()) for process in processes)
    return models * len(processes) / slowest


def lanes(given: argparse.Namespace) -> None:
    """Compare two processes with one process of two threads."""
    split, joint = [opened(given, 1), opened(given, 1)], [opened(given, 2)]
    found = [(rate(split, 1), rate(joint, 2)) for _ in range(given.repeats)]
    for process in (*split, *joint):
        process.stdin.close()
        process.wait()
    two, one = (statistics.median(rates) for rates in zip(*found, strict=True))
    ratio = statistics.median(a / b for a, b in found)
    print(f"lanes: 2 processes {two:.3f} models/s, 2 threads {one:.3f}; ratio {ratio:.2f} (wanted: 1.1)", flush=True)


def copied(width: int, length: int) -> tuple[Any, Any]:
    """Return ours without a front end, and a BERT of transformers of the same weights, none of which ours lacks."""
    import torch

    from probes.loading import guarded
    from tests.oracle.test_masked_lm_oracle import paired

    own = encoder(width=width, layers=2, heads=4, length=length, front=0)
    hub = guarded.transformers()
    theirs = hub.BertForMaskedLM(
        hub.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=4 * width,
            max_position_embeddings=length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    with torch.no_grad():
        for mine, parts in paired(own, theirs):
            for part, piece in zip(parts, mine.split([len(part) for part in parts]), strict=True):
                part.copy_(piece)
        # Ours has no kinds of segments.
        theirs.bert.embeddings.token_type_embeddings.weight.zero_().requires_grad_(False)
    return own, theirs


def timed(step: Callable[[int, Any], float], number: int, batch: Any) -> tuple[float, float]:
    """Return the loss of a step and its seconds."""
    begun = time.perf_counter()
    loss = step(number, batch)
    return loss, time.perf_counter() - begun


def smoothed(losses: list[float]) -> Iterator[float]:
    """Yield the mean of the last losses at each step, once there are as many."""
    for end in range(SMOOTH, len(losses) + 1):
        yield statistics.fmean(losses[end - SMOOTH : end])


def peers(given: argparse.Namespace) -> None:
    """Compare ours with transformers, on windows of either length."""
    from probes.masked_training import Recipe

    for length in (128, 64):
        drawn = batches(windows(given.text, length), given.steps)
        plain = Recipe(steps=given.steps, batch=BATCH, budget="same-data", rate=1e-3, matrix_rate=0.0)
        used = Recipe(steps=given.steps, batch=BATCH, budget="same-data")
        own, theirs = copied(128, length)
        fronted = encoder(width=128, layers=2, heads=4, length=length, front=9)
        steps = [
            bare(theirs, plain, theirs_loss(theirs)),
            bare(own, plain, ours_loss(own)),
            bare(fronted, used, ours_loss(fronted)),
        ]
        found = [[timed(step, number, batch) for step in steps] for number, batch in enumerate(drawn)]
        losses, seconds = ([[row[place][kind] for row in found] for place in range(3)] for kind in range(2))
        apart = max(abs(a - b) for a, b in zip(losses[0], losses[1], strict=True))
        medians = [1000 * statistics.median(one) for one in seconds]
        ratio = statistics.median(a / b for a, b in zip(seconds[0], seconds[1], strict=True))
        print(
            f"peers, {BATCH} x {length} bytes: transformers {medians[0]:.1f} ms a step, ours {medians[1]:.1f}, with "
            f"front end {medians[2]:.1f}; ratio {ratio:.2f} (wanted: 1.4); largest difference of a loss {apart:.1e}"
        )
        goal = list(smoothed(losses[0]))[-1]
        reached = next((place + SMOOTH for place, loss in enumerate(smoothed(losses[2])) if loss <= goal), None)
        spent = sum(seconds[0])
        print(f"    transformers ends at {goal:.3f} nats a byte after {spent:.1f} s; ours with front end ", end="")
        if reached is None:
            print("does not get there", flush=True)
        else:
            own_spent = sum(seconds[2][:reached])
            print(f"after {own_spent:.1f} s, in {reached} steps: {spent / own_spent:.1f} times as fast", flush=True)


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--lane", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.steps < SMOOTH:
        parser.error(f"--steps: {SMOOTH} or more")
    if given.lane:
        lane(given)
        return
    import torch

    torch.set_num_threads(given.threads)
    print(f"{given.steps} steps, {given.threads} threads, load of the last minute {os.getloadavg()[0]:.1f}", flush=True)
    parts = {"loop": loop, "lanes": lanes, "peers": peers}
    for name in given.only:
        parts[name](given)


if __name__ == "__main__":
    main()
