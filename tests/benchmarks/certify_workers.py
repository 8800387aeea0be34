"""How much more do two worker processes draw than one, in the draw loop of `miles certify`?

Run `python tests/benchmarks/certify_workers.py [--blocks 3] [--draws 2000] [--images 6] [--rounds 3]`, on a machine
with nothing else to do and at least as many cores as workers. Random images of 3 x 32 x 32 and a residual network with
random weights (three blocks in each of three stages: a ResNet-20) are certified as jobs of the audit, in processes of
the pool that it uses, one thread each. The workers are started, and have loaded the network and found their batch size,
before the clock starts. One worker and several take turns, another one first in each round. The rates that are printed
are draws a second of the clock. Those by the seconds of the processors are what there would be with a core for each
worker: where the two ratios are far apart, the machine was not idle.
"""

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from audits.certification import Options
from audits.certification.image_jobs import ImageJob, count_image
from audits.certification.inputs import check
from audits.certification.job_list import jobs_of
from audits.core.context import Cache, Context
from probes.classifiers.classifier_networks import ResNet, Stage
from probes.core.worker_processes import Pool, loky_pool

CHOOSING = 16
"""Draws that choose the class of each image."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Draws a second, by the clock and by the processors of the workers."""

    wall: float
    processor: float


def main() -> None:
    """Measure and print a line for each round, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=3, choices=(3, 5, 7, 9), help="in each of three stages")
    parser.add_argument("--draws", type=int, default=2000, help="of each image")
    parser.add_argument("--images", type=int, default=6, help="for each worker and round")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        found = raced(given, planned(given, Path(place)))
    wall, processor = (
        [getattr(several, kind) / getattr(one, kind) for one, several in found] for kind in ("wall", "processor")
    )
    print(f"\n{given.workers} workers draw {statistics.median(wall):.2f} times as much as one ({shown(wall)})")
    print(f"by the seconds of their processors {statistics.median(processor):.2f} times ({shown(processor)})")
    sizes = f"{given.blocks} blocks, {given.draws:,} draws of each of {given.images} images a worker"
    loads = f"load of the last minute {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(f"{sizes}; {loads}; {os.cpu_count()} cores; torch {torch.__version__}")


def planned(given: argparse.Namespace, place: Path) -> list[ImageJob]:
    """Write network and images, and return enough jobs that none is done twice."""
    torch.manual_seed(0)
    stages = [Stage(given.blocks, 0, width, 1 + (width > 16)) for width in (16, 32, 64)]
    net = ResNet(3, 16, stages, 10, large=False, shortcut="padded", head="linear")
    save_file(net.state_dict(), place / "net.safetensors")
    count = (1 + given.workers) * (1 + given.rounds * given.images)
    np.savez(place / "images.npz", x=np.random.default_rng(0).random((count, 3, 32, 32), dtype=np.float32),
             y=np.arange(count) % 10)  # fmt: skip
    options = Options(
        model=str(place / "net.safetensors"),
        arch=f"cifar_resnet{6 * given.blocks + 2}",
        data=place / "images.npz",
        sigma=0.25,
        n0=CHOOSING,
        n=given.draws,
    )
    context = Context(cache=Cache(place / "cache"))
    inputs = check(options, context).inputs
    return jobs_of(inputs.work, inputs.rule, options, context)


def raced(given: argparse.Namespace, jobs: Sequence[ImageJob]) -> list[tuple[Rate, Rate]]:
    """Return the rates of one worker and of several, for each round."""
    left = iter(jobs)
    pools = {lanes: loky_pool(lanes) for lanes in (1, given.workers)}
    try:
        for lanes, pool in pools.items():
            drawn(pool, [short(job) for job in itertools.islice(left, lanes)], lanes)
        found = []
        for number in range(given.rounds):
            turn = [1, given.workers] if number % 2 == 0 else [given.workers, 1]
            rates = {
                lanes: drawn(pools[lanes], list(itertools.islice(left, lanes * given.images)), lanes) for lanes in turn
            }
            one, several = rates[1], rates[given.workers]
            print(f"one worker: {one.wall:,.0f} draws a second; {given.workers}: {several.wall:,.0f}", flush=True)
            found.append((one, several))
        return found
    finally:
        for pool in pools.values():
            pool.close(at_once=True)


def short(job: ImageJob) -> ImageJob:
    """Return a job of few draws, with the network and batch size of the others."""
    return replace(job, rule=replace(job.rule, n=64, looks=(64,)))


def drawn(pool: Pool, jobs: Sequence[ImageJob], lanes: int) -> Rate:
    """Do jobs with all workers of a pool, and return their rate."""
    waiting, flying, processor = list(jobs), list[object](), 0.0
    begun = time.perf_counter()
    while waiting or flying:
        while waiting and pool.room(len(flying)) > 0:
            flying.append(pool.submit(timed, waiting.pop()))
        for ticket in pool.wait(flying):
            flying.remove(ticket)
            outcome = pool.outcome(ticket)
            if outcome.fault is not None:
                raise outcome.fault.error()
            processor += outcome.result
    draws = sum(job.rule.n0 + job.rule.n + 1 for job in jobs)
    return Rate(wall=draws / (time.perf_counter() - begun), processor=draws / processor * lanes)


def timed(job: ImageJob) -> float:
    """Do a job, and return the seconds of the processor that it took."""
    begun = time.process_time()
    count_image(job)
    return time.process_time() - begun


def shown(values: Sequence[float]) -> str:
    """Return numbers for a sentence."""
    return ", ".join(f"{value:.2f}" for value in values)


if __name__ == "__main__":
    main()
