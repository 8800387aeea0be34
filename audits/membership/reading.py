"""The inputs of an audit, read and checked file by file: scores, points, samples and models."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audits.core.context import Context
from audits.core.records import Source
from audits.membership import Options
from audits.membership.claims import Claim, claim_of_options
from audits.membership.membership_scores import ScoreSet, ShadowScores, read_scores
from audits.membership.pool import Bools, Pool, check_alike, pool_of_labels, pool_of_points, without
from audits.membership.settings import rates_of, timesteps_of
from probes.core.errors import InputError
from probes.files.table_sources import reported_path

if TYPE_CHECKING:
    from audits.membership.releases import Release
    from probes.generators.point_sets import PointSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    fprs
        The rates of false alarms at which hits are reported, descending.
    timesteps
        Of the attacks on a denoiser; empty where each has its own.
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

    fprs: tuple[float, ...]
    timesteps: tuple[int, ...]
    given: ScoreSet | ShadowScores | None
    pool: Pool
    blind: Pool | None
    reference: "PointSet | None"
    releases: tuple["Release", ...]
    claim: Claim | None
    notes: tuple[str, ...]

    @property
    def claims(self) -> dict[str, Claim]:
        """Return the claims by model, under an empty name where there is one."""
        if not self.releases:
            return {} if self.claim is None else {"": self.claim}
        return {one.name: one.claim for one in self.releases if one.claim is not None}

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models; an empty one where there is one."""
        return tuple(one.name for one in self.releases) or ("",)


def read(options: Options, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
    """Read and check all files, and return them with their sources.

    Raises
    ------
    InputError
        Where a file is wrong, or files do not go together.
    """
    if options.scores is not None:
        return _from_scores(options, context)
    # With torch behind it, which scores do not need.
    from audits.membership.language_models import is_text_run

    if is_text_run(options):
        return _from_texts(options, context)
    return _from_points(options, context)


def _from_scores(options: Options, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
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
    sources = [Source(role="scores", path=reported_path(options.scores), sha256=given.sha256, items=given.given)]
    blind = None
    if options.members is not None and options.nonmembers is not None:
        members, others = _points(options.members, "--members"), _points(options.nonmembers, "--nonmembers")
        blind = pool_of_points(members, others, context.seed)
        sources += [_source("members", members), _source("nonmembers", others)]
    inputs = Inputs(
        fprs=rates_of(options),
        timesteps=timesteps_of(options),
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
    """Refuse a statement of the user that the file contradicts."""
    if options.independent and isinstance(given, ShadowScores):
        raise InputError(
            "The scores of one of these models are of one training run.", where="--independent", hint="Leave it out."
        )
    if options.coin_flip is None:
        return
    stated = given.include_prob if isinstance(given, ScoreSet) else None
    if stated is not None and bool((np.abs(stated - options.coin_flip) > 1e-6).any()):
        other = float(stated[np.abs(stated - options.coin_flip) > 1e-6][0])
        raise InputError(
            f"The file says that points were included with probability {other:.4g}, not {options.coin_flip:g}.",
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
    return read_scores(path, higher_is=options.higher_is, target=options.target, decimal=options.decimal)


def _from_points(options: Options, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
    from audits.membership.releases import releases_of
    from probes.generators.point_sets import read_points

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
        fprs=rates_of(options),
        timesteps=timesteps_of(options),
        given=None,
        pool=pool,
        blind=pool,
        reference=reference,
        releases=releases,
        claim=None,
        notes=tuple(dict.fromkeys(notes)),
    )
    return inputs, tuple(sources)


def _from_texts(options: Options, context: Context) -> tuple[Inputs, tuple[Source, ...]]:
    from audits.membership.language_models import read_language
    from audits.membership.releases import Release

    pool, language, sources = read_language(options, context)
    if options.coin_flip is not None:
        check_coins(pool.member)
    inputs = Inputs(
        fprs=rates_of(options),
        timesteps=(),
        given=None,
        pool=pool,
        blind=pool,
        reference=None,
        releases=(Release(name="", language=language, claim=claim_of_options(options)),),
        claim=None,
        notes=(),
    )
    return inputs, sources


def _points(path: Path, role: str) -> "PointSet":
    # With torch behind it, which scores do not need.
    from probes.generators.point_sets import read_points

    return read_points(path, role=role)


def _source(role: str, points: "PointSet") -> Source:
    return Source(role=role, path=points.path, sha256=points.sha256, items=len(points))
