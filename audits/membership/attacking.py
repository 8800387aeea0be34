"""The attacks that a release allows, run at every point."""

from collections.abc import Sequence

import numpy as np

from audits.core.context import Context
from audits.membership import Options
from audits.membership.reading import Inputs
from audits.membership.releases import Release
from audits.membership.scoring import Scored, Variants, settle_on
from audits.membership.settings import ATTACKS, DENOISER, LIRA, NEED_REFERENCE
from audits.membership.text_attacking import attack_texts, share_texts
from audits.membership.utility import share_loss
from audits.statistics.roc import Floats, area
from probes.core.spreading import as_a_job
from probes.generators.attacks.copies import find_copies
from probes.generators.attacks.denoiser import Request, check_requests, default_requests, score_denoiser
from probes.generators.attacks.denoiser_jobs import Asked, compute_scores
from probes.generators.attacks.densities import density_ratio
from probes.generators.attacks.discriminators import shadow_discriminator
from probes.generators.attacks.generator import discriminator_scores, latent_search
from probes.generators.attacks.likelihood_ratios import Mode, lira
from probes.generators.attacks.samples import calibrated, monte_carlo, nearest
from probes.generators.diffusion import Denoiser
from probes.generators.point_sets import PointSet
from probes.generators.shadows import Recipe, Shadows, train_and_score

BANDWIDTHS = (0.25, 0.5, 1.0)
"""Of the kernels, in root mean squares of the distance from a point to the nearest of the attacker's own."""
LIRA_ON = "loss"
FEW_SHADOWS = 8
UNLIKE = 1.645
"""Standard deviations of shadow models by which the middle non-member may lie elsewhere under the audited one."""


def attack_all(found: Scored, inputs: Inputs, options: Options, context: Context) -> None:
    """Run all attacks that the access allows, or those requested."""
    for release in inputs.releases:
        if release.language is not None:
            attack_texts(found, release.language, inputs.pool, options, context)
            continue
        for variants in _variants(found, release, inputs, options, context):
            found.attacks.append(settle_on(variants, inputs.pool, release.where))


def _variants(
    found: Scored, release: Release, inputs: Inputs, options: Options, context: Context
) -> Sequence[Variants]:
    wanted = _wanted(options)
    made: list[Variants] = []
    if release.samples is not None:
        # Whatever was asked for: who repeats a member needs no attack.
        near = nearest(_points(inputs), release.samples, progress=context.progress)
        found.copies[release.name] = find_copies(
            _points(inputs), inputs.pool.member, release.samples, -near, progress=context.progress
        )
        made += _from_samples(release.samples, near, wanted, inputs, context)
    if release.generator is not None and "latent-search" in wanted:
        scores = latent_search(
            release.generator.module,
            _points(inputs),
            latent=release.generator.latent,
            batch=options.batch,
            seed=context.seed,
            device=context.device,
            progress=context.progress,
        )
        made.append(_one("latent-search", "generator", scores))
    if release.denoiser is not None:
        made += _from_denoiser(found, release.denoiser, wanted, inputs, options, context)
    if release.discriminator is not None and "discriminator" in wanted:
        scores = discriminator_scores(
            release.discriminator.module, _points(inputs), batch=options.batch, device=context.device
        )
        made.append(_one("discriminator", "full", scores))
    return made


def _wanted(options: Options) -> set[str]:
    # Names are checked beforehand: a name that this release does not allow is passed over, as in a suite.
    return set(options.attack) or {name for names in ATTACKS.values() for name in names}


def _points(inputs: Inputs) -> PointSet:
    assert inputs.pool.points is not None
    return inputs.pool.points


def _one(name: str, tier: str, scores: Floats, setting: str = "") -> Variants:
    return Variants(name=name, tier=tier, settings=(setting,), scores=scores[None])


def _from_samples(
    samples: PointSet, near: Floats, wanted: set[str], inputs: Inputs, context: Context
) -> list[Variants]:
    points, reference, progress = _points(inputs), inputs.reference, context.progress
    if reference is None:
        wanted = wanted - set(NEED_REFERENCE)
    made = []
    if "nearest" in wanted:
        made.append(_one("nearest", "samples", near))
    if "monte-carlo" in wanted:
        made.append(_one("monte-carlo", "samples", monte_carlo(points, samples, progress=progress)))
    if reference is None:
        return made
    if "calibrated" in wanted:
        made.append(_one("calibrated", "samples", calibrated(points, samples, reference, progress=progress)))
    if "domias" in wanted:
        # From points that are not audited, so that members have no say in the width.
        scale = float(np.sqrt(np.mean(-nearest(reference, samples))))
        widths = [float(f"{share * scale:.6g}") for share in BANDWIDTHS] if scale > 0 else [1.0]
        scores = density_ratio(points, samples, reference, widths, progress=progress)
        names = tuple(f"bandwidth {width:.3g}" for width in widths)
        made.append(Variants(name="domias", tier="samples", settings=names, scores=scores))
    if "shadow-discriminator" in wanted:
        scores = shadow_discriminator(points, samples, reference, seed=context.seed, progress=progress)
        made.append(_one("shadow-discriminator", "samples", scores))
    return made


def _from_denoiser(
    found: Scored, denoiser: Denoiser, wanted: set[str], inputs: Inputs, options: Options, context: Context
) -> list[Variants]:
    names = [name for name in DENOISER if name in wanted]
    lira_wanted = [name for name in LIRA if name in wanted] if options.shadows else []
    asked = _asked(denoiser, wanted, inputs, options, context)
    shadows = _computed(denoiser, asked, inputs, options, context)
    # A chunk that was damaged since is scored again, to the same bits.
    with as_a_job():
        own = score_denoiser(
            denoiser,
            _points(inputs),
            **asked.call,
            cache=context.cache,
            progress=context.progress,
            label="Reading scores of the denoiser",
        )
    requests = asked.requests
    total = len(denoiser.alphas_bar)
    made = [_at_steps(name, requests, own, shadows, total) for name in names]
    if shadows is not None and made:
        _check_shadows(found, made, shadows)
    if shadows is not None and lira_wanted:
        _check_likeness(found, requests, own, shadows, inputs)
    return made + _lira(lira_wanted, requests, own, shadows, total)


def _asked(denoiser: Denoiser, wanted: set[str], inputs: Inputs, options: Options, context: Context) -> Asked:
    """Return what is asked of the denoiser: LiRA needs the loss, whether or not that is an attack of its own here."""
    needs_loss = options.shadows and any(name in wanted for name in LIRA)
    names = [*(name for name in DENOISER if name in wanted), *([LIRA_ON] if needs_loss else [])]
    return Asked(
        requests=requests_of(list(dict.fromkeys(names)), denoiser, inputs.timesteps),
        seed=context.seed,
        draws=options.draws,
        batch=options.batch,
        device=context.device,
        dtype=context.dtype,
    )


def _computed(denoiser: Denoiser, asked: Asked, inputs: Inputs, options: Options, context: Context) -> Shadows | None:
    """Compute the scores by the denoiser, and by shadow models where these are asked for, which are returned."""
    compute_scores(
        denoiser,
        _points(inputs),
        asked,
        cache=context.cache,
        progress=context.progress,
        label="Attacking the denoiser",
        machines=context.machines,
    )
    if not options.shadows:
        return None
    return train_and_score(
        denoiser,
        _points(inputs),
        asked.requests,
        count=options.shadows,
        recipe=Recipe(steps=options.shadow_steps, batch=options.shadow_batch, rate=options.shadow_rate),
        machines=context.machines,
        seed=context.seed,
        draws=options.draws,
        batch=options.batch,
        device=context.device,
        cache=context.cache,
        progress=context.progress,
    )


def share(inputs: Inputs, options: Options, context: Context) -> None:
    """Do a part of what the models have to do: the attacks on denoisers and on language models, shadow models.

    Raises
    ------
    PartEnded
        In any case.
    """
    # In the order of a whole run, which then knows whose part is missing.
    for release in inputs.releases:
        if release.language is not None:
            share_texts(release.language, options, context)
        elif release.denoiser is not None:
            asked = _asked(release.denoiser, _wanted(options), inputs, options, context)
            _computed(release.denoiser, asked, inputs, options, context)
    for release in inputs.releases:
        if release.denoiser is not None:
            share_loss(release, inputs, options, context)
    context.machines.join(last=True)


def requests_of(names: Sequence[str], denoiser: Denoiser, timesteps: Sequence[int]) -> tuple[Request, ...]:
    """Return the timesteps of each attack.

    Raises
    ------
    InputError
        Where an attack cannot be made at a timestep.
    """
    if not timesteps:
        return default_requests(names, denoiser.steps)
    requests = tuple(Request(name, step) for name in names for step in timesteps)
    check_requests(requests, denoiser.steps)
    return requests


def _at_steps(
    name: str, requests: Sequence[Request], own: dict[Request, Floats], shadows: Shadows | None, total: int
) -> Variants:
    mine = [request for request in requests if request.attack == name]
    merits = None if shadows is None else np.array([_merit(shadows.scores[one], shadows) for one in mine])
    return Variants(
        name=name,
        tier="denoiser",
        settings=tuple(f"t = {one.timestep} of {total}" for one in mine),
        scores=np.stack([own[one] for one in mine]),
        merits=merits,
    )


def _check_shadows(found: Scored, made: Sequence[Variants], shadows: Shadows) -> None:
    """Warn where no attack finds the members of the shadow models, which then choose settings by chance."""
    best = max(float(one.merits.max()) for one in made if one.merits is not None)
    models, points = shadows.keep.shape
    # Models on a half and on its complement are asked about the same points: they count as one.
    # Mann and Whitney's variance of the AUC of scores that tell nothing, half of the points being members.
    chance = 3 * np.sqrt((points + 1) / (3 * points**2)) / np.sqrt(models / 2)
    if best < 0.5 + chance:
        text = (
            f"On the shadow models no attack reaches an AUC above {best:.3f}: they leak nothing that could choose a "
            "timestep. Train them as long as the audited model: --shadow-steps, --shadow-batch, --shadow-rate."
        )
        found.warn("weak-shadows", text)


def _check_likeness(
    found: Scored, requests: Sequence[Request], own: dict[Request, Floats], shadows: Shadows, inputs: Inputs
) -> None:
    """Warn where the losses of the audited model lie outside those of its shadows on unseen points."""
    if len(shadows.keep) < FEW_SHADOWS:
        text = f"{len(shadows.keep)} shadow models are few: {len(shadows.keep) // 2} with each point. Take 16."
        found.warn("few-shadows", text)
    member = inputs.pool.member
    half = len(member) // 2
    if not 0.5 <= half / int(member.sum()) <= 2:
        text = f"Shadow models are trained on {half:,} points, the audited one on {int(member.sum()):,} of those given."
        found.warn("other-shadows", text)
    for request in (one for one in requests if one.attack == LIRA_ON):
        rivals = np.where(shadows.keep, np.nan, _log(shadows.scores[request]))
        # Of the shadows that have not seen the point: the audited model has not seen its non-members either.
        centre = np.nanmedian(rivals, axis=0)
        spread = float(np.sqrt(np.nanmean((rivals - centre) ** 2)))
        # Of the middle non-member: members must lie elsewhere, and a few odd points may.
        apart = float(np.median((_log(own[request]) - centre)[~member]))
        if abs(apart) > UNLIKE * spread:
            text = (
                f"At t = {request.timestep} the audited model takes non-members otherwise than its shadows take points "
                f"that they have not seen: by {abs(apart) / spread if spread else np.inf:.1f} standard deviations. "
                "Likelihood ratios rest on their being alike: train them as it was trained."
            )
            found.warn("other-shadows", text, attack=LIRA_ON)
            return


def _merit(scores: Floats, shadows: Shadows) -> float:
    """Return the mean success of an attack on the shadow models, whose members are known."""
    return float(np.mean([area(row, kept).value for row, kept in zip(scores, shadows.keep, strict=True)]))


def _lira(
    names: Sequence[str], requests: Sequence[Request], own: dict[Request, Floats], shadows: Shadows | None, total: int
) -> list[Variants]:
    """Return likelihood-ratio attacks on the logarithm of the loss, over all its timesteps together."""
    if shadows is None or not names:
        return []
    steps = [request for request in requests if request.attack == LIRA_ON]
    target = np.stack([_log(own[one]) for one in steps], axis=1)
    rivals = np.stack([_log(shadows.scores[one]) for one in steps], axis=2)
    modes: dict[str, Mode] = {
        "lira-online": "online",
        "lira-offline": "offline",
        "lira-offline-two-sided": "offline-two-sided",
    }
    where = f"-log loss at t = {', '.join(str(one.timestep) for one in steps)} of {total}"
    made = []
    for name in names:
        # Every point is in half of the models: all have a score.
        ratios = lira(target, rivals, shadows.keep, mode=modes[name], variance="pooled")
        made.append(_one(name, "denoiser", ratios.scores, where))
    return made


def _log(scores: Floats) -> Floats:
    """Return minus the logarithm of the loss, which is nearly normal, from minus the loss."""
    return np.asarray(-np.log(np.maximum(-scores, 1e-45)))
