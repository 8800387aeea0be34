"""What of a run is still to be drawn, and what that costs on its machines; nothing is kept of what is timed."""

import time
from pathlib import Path

import torch

from audits.certification import Options
from audits.certification.attacking import passes_left
from audits.certification.image_jobs import ImageJob, sampler_of
from audits.certification.job_list import jobs_of, stored
from audits.certification.model_and_images import Work, decode, elsewhere
from audits.certification.rules import Rule, most_draws
from audits.core.context import Context
from audits.core.numbers import duration
from audits.core.wording import many
from probes.classifiers.smoothed_attacks import TOGETHER, check_gradient
from probes.core.executor import one_thread
from probes.core.systems import peak_memory

_TIMED = 3
"""Batches of which the quickest is taken: the first ones pay for what is set up once."""


def measured_cost(work: Work, rule: Rule, options: Options, context: Context) -> tuple[tuple[str, str], ...]:
    """Read all images, time a few draws of one, and return in words what this run, or this part of it, will cost.

    Raises
    ------
    InputError
        Where images cannot be decoded, with the first of these.
    """
    images = work.images
    # Arrays are held, and were looked at whole.
    lines = decode(images, work.chosen, context.progress) if Path(images.path).is_dir() else ()
    jobs, part = jobs_of(work, rule, options, context), context.machines.part
    mine = [number for number in range(len(jobs)) if part is None or part.has(number)]
    counts = dict(zip(mine, stored([jobs[number] for number in mine], context), strict=True))
    left = sum(found is None for found in counts.values())
    attacks, passes = passes_left(jobs, counts, options, context) if options.attack_steps else (0, 0)
    lines += (("drawn", f"{len(mine) - left:,} of {many(len(mine), 'image', 'images')}, in the cache"),)
    if options.attack_steps:
        lines += (("attacked", f"at most {many(attacks, 'attack is', 'attacks are')} left"),)
    if not left and not attacks:
        return (*lines, ("time", "nothing is left to draw"))
    if elsewhere(context):
        return (*lines, ("time", f"of {many(left, 'image', 'images')}; the GPUs are left to the workers"))
    if attacks:
        # A step of an attack holds what all layers keep for the way back: the stated memory has to hold it too.
        with one_thread():
            _hold_gradient(jobs[mine[0]], work, options.attack_draws)
    return lines + _cost(jobs[mine[0]], left, attacks, passes, work, context)


def _cost(
    job: ImageJob, left: int, attacks: int, passes: int, work: Work, context: Context
) -> tuple[tuple[str, str], ...]:
    """Return what the images that are left cost, and attacks that come to so many forward passes."""
    rule, workers = job.rule, context.machines.workers
    seconds, batch = _seconds(job, work)
    lanes = workers.lanes(max(left, attacks))
    bound = "" if rule.mode == "fixed" and not attacks else "at most "
    total = seconds * (left * most_draws(rule) + passes)
    what = many(left, "image", "images") + (f" and {many(attacks, 'attack', 'attacks')}" if attacks else "")
    unit = "core" if context.device == "cpu" else "GPU"
    at_once = f"{lanes} at once ({workers.backend})"
    peak = peak_memory()
    memory = f"{lanes * peak / 2**30:.1f} GiB, {peak / 2**30:.1f} GiB a worker" if peak else "not told by this system"
    return (
        ("draws", f"{1 / seconds:,.0f} a second on one {unit}, {batch} at a time (measured)"),
        (
            "time",
            f"{bound}{duration(total / lanes)} for {what}, {at_once}; {total / 3600:.2f} {unit}-hours",
        ),
        ("memory", memory),
    )


def _hold_gradient(job: ImageJob, work: Work, draws: int) -> None:
    """Take the gradient of as many noisy copies as a step of an attack holds at once."""
    pixels = torch.from_numpy(work.images.pixels(job.index))
    check_gradient(sampler_of(job.setting, work.classifier), pixels, min(draws, TOGETHER))


def _seconds(job: ImageJob, work: Work) -> tuple[float, int]:
    """Return the seconds of a draw, with one thread, and how many are made at a time."""
    # Of the processor: a clock would count whatever else the machine does. A GPU works beside the processor.
    clock = time.process_time if job.setting.device == "cpu" else time.perf_counter
    pixels = torch.from_numpy(work.images.pixels(job.index))
    taken = []
    with one_thread():
        sampler = sampler_of(job.setting, work.classifier)
        sampler.prepare(pixels)
        for _ in range(_TIMED):
            begun = clock()
            sampler.count_votes(pixels, job.index, "selection", 0, sampler.batch)
            taken.append(clock() - begun)
    return max(min(taken), 1e-9) / sampler.batch, sampler.batch
