"""The counts of the audit: votes under noise of every image, and the certificates that follow from them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from audits.certification import Options
from audits.certification.certificates import Verdict, judge
from audits.certification.inputs import Inputs
from audits.certification.log_comparison import LogCounts
from audits.certification.log_fit import Reading, read_settings
from audits.certification.named_logs import Logs
from audits.certification.parts import Part, parts
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn
from audits.core.context import Context
from probes.core.errors import IncompleteError
from probes.core.holding import release
from probes.core.spreading import spread

if TYPE_CHECKING:
    from audits.certification.attack_outcomes import Attacks
    from audits.certification.image_jobs import ImageJob
    from audits.certification.model_and_images import Work


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of all images, and the certificate of each.

    Parameters
    ----------
    drawn
        The counts of each image; empty for a log.
    settings
        With which seed, dtype and device the run was asked for; counts.safetensors says it.
    attacks
        What attacks on certified images came to; None where none was asked for.
    """

    inputs: Inputs
    verdicts: tuple[Verdict, ...]
    drawn: tuple[Drawn, ...] = ()
    settings: Mapping[str, str | int] = field(default_factory=dict)
    attacks: "Attacks | None" = None

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
    jobs, drawn = ([], inputs.stored) if inputs.stored else _drawn(inputs, options, context)
    verdicts = tuple(judge(item, inputs.rule) for item in drawn)
    return Counts(
        inputs=inputs,
        verdicts=verdicts,
        drawn=drawn,
        settings={"seed": context.seed, "dtype": context.dtype, "device": context.device},
        attacks=_attacked(inputs, jobs, verdicts, options, context) if options.attack_steps else None,
    )


def _attacked(
    inputs: Inputs, jobs: "list[ImageJob]", verdicts: tuple[Verdict, ...], options: Options, context: Context
) -> "Attacks":
    from audits.certification.attacking import attacked

    assert inputs.work is not None
    return attacked(inputs.work, jobs, verdicts, options, context)


def _drawn(inputs: Inputs, options: Options, context: Context) -> "tuple[list[ImageJob], tuple[Drawn, ...]]":
    from audits.certification.image_jobs import count_image, hold
    from audits.certification.job_list import jobs_of, stored

    work, rule = inputs.work, inputs.rule
    assert work is not None
    _keep_check(work, context)
    jobs = jobs_of(work, rule, options, context)
    found = stored(jobs, context)
    # In the other modes images are counted, not draws.
    each = rule.n0 + rule.n + 1 if rule.mode == "fixed" else 1
    with context.progress.phase(
        "Drawing under noise", len(jobs) * each, "draws" if rule.mode == "fixed" else "images"
    ) as advance:
        drawn: Counter[int] = Counter()

        def drew(index: int, draws: int) -> None:
            if rule.mode == "fixed":
                drawn[index] += draws
                advance(draws)

        def made(number: int) -> bool:
            found[number] = found[number] or jobs[number].stored()
            return found[number] is not None

        # Set up at the first draw that is missing: where the cache has all counts, the network never runs.
        release()
        hold(jobs[0].setting, work, drew)
        spread(
            count_image,
            jobs,
            made=made,
            machines=context.machines,
            things="images",
            # What a worker drew counts now.
            done=lambda number: advance(each - drawn[jobs[number].index]),
        )
    # Attacks come after it, which need the certificates of all images.
    context.machines.join(last=not options.attack_steps)
    return jobs, tuple(_read(job, one) for job, one in zip(jobs, found, strict=True))


def _read(job: "ImageJob", found: Drawn | None) -> Drawn:
    # Read back even where just drawn: what counts is what lies in the cache.
    drawn = found or job.stored()
    if drawn is None:
        raise IncompleteError(
            f"The counts of image {job.index} were written and cannot be read.",
            where=str(job.cache.folder),
            hint="Look at the disk; the same command goes on from what is drawn.",
        )
    return drawn


def _keep_check(work: "Work", context: Context) -> None:
    import torch

    from audits.certification.model_and_images import CHECKS

    if not context.cache.has(CHECKS, work.check):
        seen = {"classes": torch.tensor(work.classes), "seconds": torch.tensor(work.seconds)}
        context.cache.write(CHECKS, work.check, seen)
