"""Everything that can be checked before an attack runs: the plan of the audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Plan
from audits.membership import Options
from audits.membership.claims import Claim, claim_of_options
from audits.membership.outlook import coordinates_of, cost_of, names_of, notes_of, possible
from audits.membership.pool import Pool, check_alike, pool_of_labels, pool_of_points, without
from audits.membership.settings import ATTACKS, Settings, settle
from audits.records import Source, Subject
from probes.errors import InputError
from probes.loading.hashing import sha256_json
from probes.loading.membership_scores import ScoreSet, ShadowScores, read_scores
from probes.loading.score_folders import read_score_folder

if TYPE_CHECKING:
    from audits.membership.releases import Release
    from probes.loading.point_sets import PointSet


Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What an audit works on.

    Parameters
    ----------
    given
        A file of scores; None where attacks run here.
    pool
        The points audited.
    blind
        Points on which members and non-members are compared without the model: those of the pool, or given beside a
        file of scores; None where there are none.
    reference
        The attacker's own points, none of them audited.
    releases
        What is attacked; none for a file of scores.
    claim
        What is claimed of a file of scores; a release brings its own.
    """

    settings: Settings
    given: ScoreSet | ShadowScores | None
    pool: Pool
    blind: Pool | None
    reference: "PointSet | None"
    releases: tuple["Release", ...]
    claim: Claim | None
    notes: tuple[str, ...]

    @property
    def claims(self) -> dict[str, Claim]:
        """Return what is claimed by model, under an empty name where there is one."""
        if not self.releases:
            return {} if self.claim is None else {"": self.claim}
        return {one.name: one.claim for one in self.releases if one.claim is not None}


def plan(options: Options, context: Context) -> Plan:
    """Read and check everything that an audit needs.

    Raises
    ------
    InputError
        Where an option or a file is wrong, or they do not go together.
    """
    settings = settle(options)
    inputs, sources = (
        _from_scores(options, settings, context)
        if options.scores is not None
        else _from_points(options, settings, context)
    )
    _check_attacks(inputs, options)
    return Plan(
        inputs=inputs,
        subject=_subject(inputs, options),
        data=sources,
        cost=cost_of(inputs, options, context.level),
        notes=notes_of(inputs, options),
        coordinates=coordinates_of(inputs, options),
        settings=_settled(inputs),
    )


_NEEDS = {
    "samples": "--samples",
    "generator": "a generator's weights: --model with --arch mlp-generator, or --latent",
    "denoiser": "a diffusion model: --model",
    "full": "--discriminator",
}


def _check_attacks(inputs: Inputs, options: Options) -> None:
    """Refuse attacks, and shadows, that what was given does not allow."""
    there = possible(inputs, options)
    for name in options.attack:
        if name in there:
            continue
        if inputs.given is not None:
            hint = f"It has: {', '.join(there)}."
            raise InputError(f"The file gives no attack {name!r}.", where=f"--attack {name}", hint=hint)
        tier = next(tier for tier, names in ATTACKS.items() if name in names)
        raise InputError(
            f"{name} needs more than was given.", where=f"--attack {name}", hint=f"It needs {_NEEDS[tier]}."
        )
    made = len(names_of(inputs, options)) * max(1, len(inputs.releases))
    if options.selection == "fixed" and options.coin_flip is None and made > 1:
        raise InputError(
            f"One threshold cannot serve {made} attacks.", where="--threshold", hint="Name one attack by --attack."
        )
    if options.shadows and not any(one.denoiser is not None for one in inputs.releases):
        raise InputError(
            "Shadow models are those of a diffusion model.", where="--shadows", hint="Leave it out for a generator."
        )


def _from_scores(options: Options, settings: Settings, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
    assert options.scores is not None
    given = _read(options.scores, options)
    member = given.member if isinstance(given, ScoreSet) else given.keep[given.target]
    where = f"--scores {options.scores}"
    _check_words(given, member, options, where)
    pool = pool_of_labels(
        member,
        given.names,
        context.seed,
        given=given.given,
        skipped=given.skipped,
        where=where,
        coins=options.coin_flip is not None,
        losses=isinstance(given, ScoreSet),
    )
    sources = [Source(role="scores", path=str(options.scores), sha256=given.sha256, items=given.given)]
    blind = None
    if options.members is not None and options.nonmembers is not None:
        members, others = _points(options.members, "--members"), _points(options.nonmembers, "--nonmembers")
        blind = pool_of_points(members, others, context.seed)
        sources += [_source("members", members), _source("nonmembers", others)]
    inputs = Inputs(
        settings=settings,
        given=given,
        pool=pool,
        blind=blind,
        reference=None,
        releases=(),
        claim=claim_of_options(options),
        notes=given.notes,
    )
    return inputs, tuple(sources)


def _check_words(given: ScoreSet | ShadowScores, member: Bools, options: Options, where: str) -> None:
    """Refuse a user's word that the file itself contradicts."""
    if options.independent and isinstance(given, ShadowScores):
        raise InputError(
            "The scores of one of these models are of one training run.", where="--independent", hint="Leave it out."
        )
    if options.coin_flip is None:
        return
    stated = given.include_prob if isinstance(given, ScoreSet) else None
    if stated is not None and bool((np.abs(stated - options.coin_flip) > 1e-6).any()):
        odd = float(stated[np.abs(stated - options.coin_flip) > 1e-6][0])
        raise InputError(
            f"The file says that points were included with probability {odd:.4g}, not {options.coin_flip:g}.",
            where=f"{where}, include_prob; --coin-flip",
            hint="The one-run bounds hold for fair coins only: leave --coin-flip out.",
        )
    check_coins(member)


def check_coins(member: Bools) -> None:
    """Refuse numbers of members that fair coins do not give.

    Raises
    ------
    InputError
        Where so uneven a split has a probability below one in a million.
    """
    from scipy.stats import binom

    inside = int(member.sum())
    if 2 * float(binom.cdf(min(inside, len(member) - inside), len(member), 0.5)) < 1e-6:
        raise InputError(
            f"{inside:,} of {len(member):,} points are members, which fair coins do not give.",
            where="--coin-flip",
            hint="Leave it out where inclusion was not drawn by coins: bounds are heuristic then.",
        )


def _read(path: Path, options: Options) -> ScoreSet | ShadowScores:
    if not path.exists():
        raise InputError("There is no such file or folder.", where=f"--scores {path}", hint="Check the path.")
    if path.is_dir():
        return read_score_folder(path, higher_is=options.higher_is, target=options.target)
    return read_scores(path, higher_is=options.higher_is, target=options.target)


def _from_points(options: Options, settings: Settings, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
    from audits.membership.releases import releases_of
    from probes.loading.point_sets import read_points

    assert options.members is not None and options.nonmembers is not None
    members, others = _points(options.members, "--members"), _points(options.nonmembers, "--nonmembers")
    pool = pool_of_points(members, others, context.seed, coins=options.coin_flip is not None)
    if options.coin_flip is not None:
        check_coins(pool.member)
    notes = [*members.notes, *others.notes]
    sources = [_source("members", members), _source("nonmembers", others)]
    reference = None
    if options.reference is not None:
        whole = read_points(options.reference, role="--reference", shape=members.shape)
        sources.append(_source("reference", whole))
        check_alike(members, "--members", whole, "--reference")
        reference, taken = without(whole, (members, others))
        if taken:
            notes.append(f"{taken:,} points of the reference are members or non-members too, and were not used.")
    releases = releases_of(options, members.shape)
    for one in releases:
        if one.samples is not None:
            check_alike(members, "--members", one.samples, f"samples {one.name}".strip())
    sources += [_source(f"samples {one.name}".strip(), one.samples) for one in releases if one.samples is not None]
    inputs = Inputs(
        settings=settings,
        given=None,
        pool=pool,
        blind=pool,
        reference=reference,
        releases=releases,
        claim=None,
        notes=tuple(dict.fromkeys(notes)),
    )
    return inputs, tuple(sources)


def _points(path: Path, role: str) -> "PointSet":
    # With torch behind it, which scores do not need.
    from probes.loading.point_sets import read_points

    return read_points(path, role=role)


def _source(role: str, points: "PointSet") -> Source:
    return Source(role=role, path=points.path, sha256=points.sha256, items=len(points))


def _subject(inputs: Inputs, options: Options) -> Subject | None:
    """Return the model, or all models of a suite as one subject."""
    models = [
        part for one in inputs.releases for part in (one.denoiser, one.generator, one.discriminator) if part is not None
    ]
    if not models:
        return None
    families = sorted({part.family for part in models})
    return Subject(
        path=models[0].path if options.suite is None else str(options.suite),
        family=", ".join(families),
        sha256=models[0].sha256 if len(models) == 1 else sha256_json([part.sha256 for part in models]),
        parameters=sum(part.parameters for part in models),
    )


def _settled(inputs: Inputs) -> Mapping[str, Any]:
    return {"fpr": [f"{rate:g}" for rate in inputs.settings.fprs]}
