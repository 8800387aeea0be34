"""The counts of the audit: votes under noise of every image, and the certificates that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from audits.certification import ARCHITECTURES, Options
from audits.certification.certificates import Verdict, judge
from audits.certification.inputs import Inputs
from audits.certification.log_comparison import LogCounts
from audits.certification.log_fit import Reading, read_settings
from audits.certification.named_logs import Logs
from audits.certification.parts import Part, parts
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn, draw
from audits.core.context import Context

if TYPE_CHECKING:
    from audits.certification.model_and_images import Work

_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of all images, and the certificate of each.

    Parameters
    ----------
    drawn
        The counts of each image; empty for a log.
    settings
        With which seed, dtype and device the run was asked for; counts.safetensors says it.
    """

    inputs: Inputs
    verdicts: tuple[Verdict, ...]
    drawn: tuple[Drawn, ...] = ()
    settings: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        """The rule of the certificates."""
        return self.inputs.rule

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All images, then each class, then each group, those with few images too."""
        return tuple(parts(self.verdicts, self.inputs.names, self.inputs.attributes))

    @cached_property
    def reading(self) -> Reading | None:
        """The test of the settings that were named for a log, by its radii."""
        return read_settings(self.inputs.log, self.rule) if self.inputs.log else None

    @property
    def alpha(self) -> float | None:
        """The error probability of a certificate; of a log, what its radii allow, None where that is unknown."""
        return self.reading.alpha if self.reading else self.rule.alpha


def measure(options: Options, inputs: Inputs | Logs, context: Context) -> Counts | LogCounts:
    """Draw what is not counted yet, and judge the counts; certificates of logs are taken as they are."""
    if isinstance(inputs, Logs):
        return LogCounts(logs=inputs)
    if inputs.log:
        return Counts(inputs=inputs, verdicts=inputs.log.verdicts)
    drawn = inputs.stored or tuple(_drawn(inputs, options, context))
    return Counts(
        inputs=inputs,
        verdicts=tuple(judge(item, inputs.rule) for item in drawn),
        drawn=drawn,
        settings={"seed": context.seed, "dtype": context.dtype, "device": context.device},
    )


def _drawn(inputs: Inputs, options: Options, context: Context) -> list[Drawn]:
    import torch

    from audits.certification.model_and_images import CHECKS, batch_of
    from probes.classifiers.folding import fold_batchnorm
    from probes.classifiers.noise import Noise
    from probes.classifiers.smoothing import ImageCounts, Sampler

    work, rule = inputs.work, inputs.rule
    assert work is not None
    if not context.cache.has(CHECKS, work.check):
        seen = {"classes": torch.tensor(work.classes), "seconds": torch.tensor(work.seconds)}
        context.cache.write(CHECKS, work.check, seen)
    noise = Noise("uniform" if rule.geometry.norm == "l1" else "gaussian", rule.geometry.sigma)

    # Set up at the first draw that is missing: where the cache has all counts, the network never runs.
    @cache
    def sampler() -> Sampler:
        # Only networks of our own are rewritten: what is certified must be the function that was given.
        own = work.classifier.family in ARCHITECTURES
        return Sampler(
            fold_batchnorm(work.classifier.module) if own else work.classifier.module,
            classes=work.classes,
            noise=noise,
            seed=context.seed,
            device=context.device,
            dtype=context.dtype,
            batch=batch_of(options),
        )

    found = []
    fixed = rule.mode == "fixed"
    total = len(work.chosen) * (rule.n0 + rule.n + 1 if fixed else 1)
    with context.progress.phase("Drawing under noise", total, "draws" if fixed else "images") as advance:
        for index in work.chosen:
            pixels = torch.from_numpy(work.images.pixels(index))
            counts = ImageCounts(
                sampler=sampler,
                cache=context.cache,
                key=_key(work, rule, noise.kind, index, context),
                index=index,
                pixels=pixels,
                # In the other modes images are counted, not draws.
                advance=advance if fixed else lambda draws: None,
            )
            found.append(draw(counts, int(work.images.labels[index]), rule))
            if not fixed:
                advance(1)
    return found


def _key(work: "Work", rule: Rule, noise: str, index: int, context: Context) -> list[Any]:
    """Return the cache key of an image's counts: all that decides them but the number of draws."""
    import torch

    # Which of several cards it is decides nothing.
    device = context.device.partition(":")[0]
    version, model = [_VERSION, torch.__version__], [work.classifier.sha256, work.classes, work.fingerprint]
    image, noisy = [work.images.digest(index), index], [noise, rule.geometry.sigma]
    return [version, model, *image, *noisy, context.seed, device, context.dtype]
