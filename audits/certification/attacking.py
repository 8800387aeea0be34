"""Attack certified images, and count the votes around what an attack made of them, one attack a job."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from audits.certification import Options
from audits.certification.attack_outcomes import MULTIPLES, AttackCounts, Attacks, AttackSetting
from audits.certification.certificates import ABSTAIN, Verdict, judge
from audits.certification.image_jobs import ImageJob, bench_of, hold
from audits.certification.model_and_images import CHECKS, Work
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn, votes_of
from audits.core.context import Context
from audits.statistics import generator
from probes.classifiers.noise import Noise
from probes.classifiers.smoothed_attacks import PASSES, attack, check_gradient
from probes.classifiers.smoothing import ImageCounts, Sampler
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import one_thread
from probes.core.holding import release
from probes.core.spreading import spread

KIND = "smoothed-attacks"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackJob:
    """An attack on one image, and the votes around the image that it makes.

    Parameters
    ----------
    top
        The certified class.
    multiple, length
        How many certified radii the image may be moved, and that as an l2 distance.
    """

    image: ImageJob
    top: int
    multiple: int
    length: float
    steps: int
    draws: int

    @property
    def seed(self) -> int:
        """Seed of the attack's noise and of the draws that judge it: none of the certificate's, nor another's."""
        text = f"{self.image.setting.seed} attack {self.multiple} {self.steps} {self.draws}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1

    @property
    def key(self) -> list[Any]:
        """Key of the changed image in the cache."""
        return [_VERSION, self.image.key, self.top, self.multiple, self.length, self.steps, self.draws]

    def stored(self) -> AttackCounts | None:
        """Return the outcome where the cache has all that the rule asks for, else None; nothing is computed."""
        found = self.image.cache.read(KIND, self.key)
        try:
            return None if found is None else self.counted(found, _refuse)
        except (KeyError, _MissingError):
            return None

    def counted(self, found: "dict[str, Tensor]", sampler: Callable[[], Sampler]) -> AttackCounts:
        """Count the votes around the changed image, those that the cache lacks by drawing them."""
        rule, pixels = self.image.rule, found["pixels"]
        counts = ImageCounts(
            sampler=sampler,
            cache=self.image.cache,
            # By what the attack made: where it is made again, on another card, counts of the two are not mixed.
            key=[self.key, hashlib.sha256(pixels.numpy().tobytes()).hexdigest()],
            index=self.image.index,
            pixels=pixels,
        )
        selection = counts.until("selection", rule.n0)
        fresh = counts.until("estimation", rule.n)
        counts.save()
        return AttackCounts(
            index=self.image.index,
            multiple=self.multiple,
            top=self.top,
            selection=votes_of(selection),
            votes=votes_of(fresh),
            blind=int(found["blind"]) == self.steps,
        )


class _MissingError(Exception):
    """Draws are missing."""


def _refuse() -> Sampler:
    raise _MissingError


def attack_image(job: AttackJob) -> None:
    """Attack one image and count the votes around the outcome, as far as the cache lacks it.

    Raises
    ------
    InputError
        Where model or image are others than those that were checked, or the network has no gradient.
    """
    bench = bench_of(job.image.setting)

    @cache
    def sampler() -> Sampler:
        shared = bench.sampler()
        # The size of a batch is found once, for the samplers of all seeds.
        shared.prepare(torch.from_numpy(bench.pixels(job.image)))
        return shared.reseeded(job.seed)

    def attacked() -> dict[str, Tensor]:
        pixels = torch.from_numpy(bench.pixels(job.image))
        found = attack(sampler(), pixels, job.image.index, job.top, length=job.length, steps=job.steps, draws=job.draws)
        return {"pixels": found.pixels.contiguous(), "blind": torch.tensor(found.blind)}

    job.counted(job.image.cache.memo(KIND, job.key, attacked), sampler)


def taken(images: int, options: Options, context: Context) -> tuple[int, ...]:
    """Return the places of the images that are attacked if they are certified, chosen before anything is drawn."""
    order = generator(context.seed, "certify", "attack").permutation(images)
    return tuple(sorted(order[: options.attack_images].tolist()))


def attack_jobs(
    jobs: Sequence[ImageJob], verdicts: Sequence[Verdict | None], options: Options, context: Context
) -> list[AttackJob]:
    """Return the attacks on those images among the chosen ones whose certificate is known and has a radius."""
    found = []
    for number in taken(len(jobs), options, context):
        verdict = verdicts[number]
        if verdict is None or verdict.predict == ABSTAIN or not verdict.radius > 0:
            continue
        found += [
            AttackJob(
                image=jobs[number],
                top=verdict.predict,
                multiple=multiple,
                length=multiple * verdict.radius,
                steps=options.attack_steps,
                draws=options.attack_draws,
            )
            for multiple in MULTIPLES
        ]
    return found


def attacked(
    work: Work, images: Sequence[ImageJob], verdicts: Sequence[Verdict], options: Options, context: Context
) -> Attacks:
    """Attack what is not attacked yet, and return the votes around what became of each image.

    Raises
    ------
    InputError
        Where the network has no gradient.
    IncompleteError
        Where an outcome cannot be read back.
    """
    if not context.cache.has(CHECKS, _check_key(work)):
        context.cache.write(CHECKS, _check_key(work), {"gradient": torch.tensor(1)})
    jobs = attack_jobs(images, verdicts, options, context)
    found: list[AttackCounts | None] = [None] * len(jobs)
    with context.progress.phase("Attacking certified images", len(jobs), "attacks") as advance:

        def made(number: int) -> bool:
            found[number] = found[number] or jobs[number].stored()
            return found[number] is not None

        release()
        hold(images[0].setting, work, _ignored)
        spread(
            attack_image, jobs, made=made, machines=context.machines, things="attacks", done=lambda number: advance(1)
        )
    context.machines.join(last=True)
    return Attacks(
        setting=setting_of(options, len(images)),
        outcomes=tuple(_read(job, one) for job, one in zip(jobs, found, strict=True)),
    )


def _ignored(index: int, draws: int) -> None:
    pass


def _read(job: AttackJob, found: AttackCounts | None) -> AttackCounts:
    counts = found or job.stored()
    if counts is None:
        raise IncompleteError(
            f"The attack on image {job.image.index} was written and cannot be read.",
            where=str(job.image.cache.folder),
            hint="Look at the disk; the same command goes on from what is there.",
        )
    return counts


def setting_of(options: Options, images: int) -> AttackSetting:
    """Return how images are attacked and judged, out of so many that are certified."""
    chosen = min(options.attack_images, images)
    return AttackSetting(
        steps=options.attack_steps, draws=options.attack_draws, images=chosen, alpha=options.alpha / chosen
    )


def check_attack(work: Work, rule: Rule, context: Context) -> None:
    """Try on one image whether the network has gradients, before anything is drawn, unless that is known.

    Raises
    ------
    InputError
        Where it has none, or the distance is none that is attacked.
    """
    if rule.geometry.norm != "l2":
        raise InputError(
            "Attacks move an image within an l2 distance; these certificates are for l1.",
            where="--attack-steps, --norm l1",
            hint="Leave one of the two out.",
        )
    if context.cache.has(CHECKS, _check_key(work)):
        return
    # Of a copy: a sampler changes how the weights lie in memory.
    module, noise = deepcopy(work.classifier.module), Noise("gaussian", rule.geometry.sigma)
    sampler = Sampler(module, classes=work.classes, noise=noise, seed=0, device="cpu", dtype="float32")
    with one_thread():
        check_gradient(sampler, torch.from_numpy(work.images.pixels(work.chosen[0])))


def _check_key(work: Work) -> list[Any]:
    return ["gradient", work.check]


def passes_left(
    jobs: Sequence[ImageJob], found: Mapping[int, Drawn | None], options: Options, context: Context
) -> tuple[int, int]:
    """Return how many attacks are left, at the most, and what they cost in forward passes.

    A step costs a forward pass for each of its draws, and a backward pass, which takes about two more.

    Parameters
    ----------
    found
        What is counted of the images that are this run's, by their places among all.
    """
    verdicts = [None if (own := found.get(number)) is None else judge(own, job.rule) for number, job in enumerate(jobs)]
    known = attack_jobs(jobs, verdicts, options, context)
    chosen = taken(len(jobs), options, context)
    unknown = sum(number in found and found[number] is None for number in chosen)
    left = sum(job.stored() is None for job in known) + len(MULTIPLES) * unknown
    rule = jobs[0].rule
    return left, left * (PASSES * options.attack_steps * options.attack_draws + rule.n0 + rule.n)
