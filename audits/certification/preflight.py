"""What of a run is still to be drawn, and what that costs on its machines; nothing is kept of what is timed."""

import time
from pathlib import Path

import torch

from audits.certification import Options
from audits.certification.image_jobs import ImageJob, sampler_of
from audits.certification.job_list import jobs_of, stored
from audits.certification.model_and_images import Work, decode, elsewhere
from audits.certification.rules import Rule, most_draws
from audits.core.context import Context
from audits.core.wording import many
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
    mine = [job for place, job in enumerate(jobs) if part is None or part.has(place)]
    left = [job for job, found in zip(mine, stored(mine, context), strict=True) if found is None]
    lines += (("drawn", f"{len(mine) - len(left):,} of {many(len(mine), 'image', 'images')}, in the cache"),)
    if not left:
        return (*lines, ("time", "nothing is left to draw"))
    if elsewhere(context):
        return (*lines, ("time", f"of {many(len(left), 'image', 'images')}; the GPUs are left to the workers"))
    return lines + _cost(left, work, context)


def _cost(left: list[ImageJob], work: Work, context: Context) -> tuple[tuple[str, str], ...]:
    rule, workers = left[0].rule, context.machines.workers
    seconds, batch = _seconds(left[0], work)
    lanes = workers.lanes(len(left))
    bound = "" if rule.mode == "fixed" else "at most "
    total = seconds * len(left) * most_draws(rule)
    unit = "core" if context.device == "cpu" else "GPU"
    at_once = f"{lanes} at once ({workers.backend})"
    peak = peak_memory()
    memory = f"{lanes * peak / 2**30:.1f} GiB, {peak / 2**30:.1f} GiB a worker" if peak else "not told by this system"
    return (
        ("draws", f"{1 / seconds:,.0f} a second on one {unit}, {batch} at a time (measured)"),
        (
            "time",
            f"{bound}{_duration(total / lanes)} for {many(len(left), 'image', 'images')}, {at_once}; "
            f"{total / 3600:.2f} {unit}-hours",
        ),
        ("memory", memory),
    )


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


def _duration(seconds: float) -> str:
    """Return a length of time in words.

    >>> _duration(50), _duration(600), _duration(9000)
    ('50 s', '10 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
