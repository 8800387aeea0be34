"""The jobs of a run: every image that is certified, the key of its counts, and what the cache has of them."""

from collections.abc import Sequence
from typing import Any

import torch

from audits.certification import Options
from audits.certification.image_jobs import ImageJob, setting_of
from audits.certification.model_and_images import Work, batch_of
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn
from audits.core.context import Cache, Context
from probes.classifiers.noise import Noise

_VERSION = 2


def jobs_of(work: Work, rule: Rule, options: Options, context: Context) -> list[ImageJob]:
    """Return the draws of each image that is certified, as jobs that a worker can do anywhere.

    Raises
    ------
    InputError
        Where an image cannot be read.
    """
    setting = setting_of(
        work,
        Noise("uniform" if rule.geometry.norm == "l1" else "gaussian", rule.geometry.sigma),
        batch=batch_of(options),
        context=context,
    )
    cache = Cache(context.cache.folder.absolute())
    jobs = []
    with context.progress.phase("Reading images", len(work.chosen), "images") as advance:
        for index in work.chosen:
            digest = work.images.digest(index)
            jobs.append(
                ImageJob(
                    setting=setting,
                    rule=rule,
                    cache=cache,
                    key=_key(work, rule, setting.noise.kind, index, digest, context),
                    index=index,
                    name=work.images.names[index],
                    label=int(work.images.labels[index]),
                    digest=digest,
                )
            )
            advance(1)
    return jobs


def stored(jobs: Sequence[ImageJob], context: Context) -> list[Drawn | None]:
    """Return the counts of each image of which the cache has all that are asked for."""
    found = []
    with context.progress.phase("Looking for counts", len(jobs), "images") as advance:
        for job in jobs:
            found.append(job.stored())
            advance(1)
    return found


def _key(work: Work, rule: Rule, noise: str, index: int, digest: str, context: Context) -> list[Any]:
    """Return the cache key of an image's counts: all that decides them but the number of draws."""
    # Which of several cards it is decides nothing.
    device = context.device.partition(":")[0]
    version, model = [_VERSION, torch.__version__], [work.classifier.sha256, work.classes, work.fingerprint]
    return [version, model, digest, index, noise, rule.geometry.sigma, context.seed, device, context.dtype]
