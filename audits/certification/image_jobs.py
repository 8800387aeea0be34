"""Draw under noise, one image a job: wherever a worker is, and as far as counts are missing in the shared cache."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import torch

from audits.certification import ARCHITECTURES
from audits.certification.model_and_images import ModelSource, Work, elsewhere
from audits.certification.randomised_limits import uniform_of
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn, draw
from audits.core.context import Cache, Context
from probes.classifiers.classifier_files import Classifier, check_classifier
from probes.classifiers.folding import fold_batchnorm
from probes.classifiers.image_readers import ImageReader, ImageSource, check_same
from probes.classifiers.images import Pixels
from probes.classifiers.noise import Noise
from probes.classifiers.smoothing import ImageCounts, Sampler
from probes.core.errors import InputError
from probes.core.executor import one_thread
from probes.core.holding import held

ANSWERS = 16
"""Outputs of a network for a made-up image that tell whether a worker has loaded the same one."""
_TOLERANCE = 1e-3
"""Largest difference between these, as a share of their range: processors round differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that a worker needs to draw as the run was asked to, but for the images themselves.

    Parameters
    ----------
    sha256
        Of the classifier that was checked.
    answers
        What it answers to a made-up image, where its code is not ours, so that its hash does not cover all of it.
    device, dtype
        Where a worker runs it: "cuda" is the GPU that a worker has to itself.
    tried
        Whether the classifier was tried on that device.
    """

    model: ModelSource
    sha256: str
    answers: tuple[float, ...]
    classes: int
    images: ImageSource
    noise: Noise
    seed: int
    device: str
    dtype: str
    batch: int
    tried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageJob:
    """The draws of one image.

    Parameters
    ----------
    key
        Key of its counts in the cache.
    index, name
        Its number among all images, and what tells it in a folder.
    digest
        Hash of its pixels.
    """

    setting: Setting
    rule: Rule
    cache: Cache
    key: list[Any]
    index: int
    name: str
    label: int
    digest: str

    @property
    def u(self) -> float | None:
        """The random number of its limits, where they are randomised."""
        return uniform_of(self.setting.seed, self.index) if self.rule.randomised else None

    def stored(self) -> Drawn | None:
        """Return the counts where the cache has all that the rule asks for, else None; nothing is drawn."""
        counts = ImageCounts(sampler=_refuse, cache=self.cache, key=self.key, index=self.index, pixels=torch.empty(0))
        try:
            return draw(counts, self.label, self.rule, self.u)
        except _MissingError:
            return None


class _MissingError(Exception):
    """Draws are missing."""


def _refuse() -> Sampler:
    raise _MissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The network and the images, loaded, and what is called with the draws of an image, by its number."""

    sampler: Callable[[], Sampler]
    pixels: Callable[[ImageJob], Pixels]
    advance: Callable[[int, int], None]


def count_image(job: ImageJob) -> None:
    """Draw what is missing around one image, and write its counts to the cache.

    Raises
    ------
    InputError
        Where model or image are others than those that were checked, or the outputs are not finite under noise.
    """
    bench = bench_of(job.setting)
    pixels = bench.pixels(job)
    counts = ImageCounts(
        sampler=bench.sampler,
        cache=job.cache,
        key=job.key,
        index=job.index,
        pixels=torch.from_numpy(pixels),
        advance=partial(bench.advance, job.index),
    )
    draw(counts, job.label, job.rule, job.u)


def bench_of(setting: Setting) -> Bench:
    """Return the network and the images that this process holds, loaded where it does not.

    Raises
    ------
    InputError
        Where it is not the model that was checked.
    """
    return held(_held_key(setting), lambda: _loaded(setting))


def hold(setting: Setting, work: Work, advance: Callable[[int, int], None]) -> None:
    """Give this process the network and the images that it has loaded already."""

    def pixels(job: ImageJob) -> Pixels:
        found = work.images.pixels(job.index)
        check_same(found, job.digest, f"{work.images.path}, image {job.name}")
        return found

    held(
        _held_key(setting),
        lambda: Bench(sampler=cache(lambda: sampler_of(setting, work.classifier)), pixels=pixels, advance=advance),
    )


def _held_key(setting: Setting) -> object:
    return ["certify", asdict(setting)]


def sampler_of(setting: Setting, classifier: Classifier) -> Sampler:
    """Return the classifier under noise."""
    # Only networks of our own are rewritten: what is certified must be the function that was given.
    own = classifier.family in ARCHITECTURES
    return Sampler(
        fold_batchnorm(classifier.module) if own else classifier.module,
        classes=setting.classes,
        noise=setting.noise,
        seed=setting.seed,
        device=setting.device,
        dtype=setting.dtype,
        batch=setting.batch,
    )


def answers_of(classifier: Classifier, shape: tuple[int, int, int]) -> tuple[float, ...]:
    """Return the first outputs for a made-up image, of a network whose code is not ours; () for one of ours."""
    if classifier.family in ARCHITECTURES:
        return ()
    pixels = torch.rand((1, *shape), generator=torch.Generator().manual_seed(0))
    with one_thread(), torch.inference_mode():
        return tuple(classifier.module(pixels)[0, :ANSWERS].float().tolist())


def _loaded(setting: Setting) -> Bench:
    """Load in a worker what the run has checked.

    Raises
    ------
    InputError
        Where it is not the same here.
    """
    classifier = setting.model.load()
    answers = answers_of(classifier, setting.images.shape)
    if classifier.sha256 != setting.sha256 or not _alike(answers, setting.answers):
        raise InputError(
            "This is another model than the one that was checked when the run began.",
            where=setting.model.path,
            hint="Was it changed meanwhile, or are it or its packages others on this machine? Then run the command "
            "again.",
        )
    reader = ImageReader(setting.images)

    def pixels(job: ImageJob) -> Pixels:
        return reader.pixels(job.index, job.name, job.digest)

    return Bench(sampler=cache(lambda: _tried(setting, classifier)), pixels=pixels, advance=_ignored)


def _alike(answers: tuple[float, ...], others: tuple[float, ...]) -> bool:
    if len(answers) != len(others):
        return False
    span = max(others, default=0.0) - min(others, default=0.0)
    limit = _TOLERANCE * max(span, *map(abs, others), 0.0) if others else 0.0
    return all(abs(one - other) <= limit for one, other in zip(answers, others, strict=True))


def _tried(setting: Setting, classifier: Classifier) -> Sampler:
    if not setting.tried:
        few = torch.rand((1, *setting.images.shape), generator=torch.Generator().manual_seed(0))
        check_classifier(classifier, few, device=setting.device, dtype=setting.dtype)
    return sampler_of(setting, classifier)


def _ignored(index: int, draws: int) -> None:
    pass


def setting_of(work: Work, noise: Noise, *, batch: int, context: Context) -> Setting:
    """Return what workers need to draw from this model and these images."""
    workers = context.machines.workers
    # A worker that has a GPU to itself sees no other, whatever its number is here.
    own = context.device != "cpu" and workers.gpus > 0 and not workers.here
    return Setting(
        model=work.model.elsewhere(),
        sha256=work.classifier.sha256,
        answers=answers_of(work.classifier, work.images.shape),
        classes=work.classes,
        images=work.source,
        noise=noise,
        seed=context.seed,
        device="cuda" if own else context.device,
        dtype=context.dtype,
        batch=batch,
        tried=not elsewhere(context),
    )
