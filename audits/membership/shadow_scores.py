"""Scores of the same points under several models, checked for attacks with shadow models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from audits.membership.score_arrays import Flags, Floats
from probes.core.errors import InputError

Scale = Literal["probability", "logit", "unknown"]
MAX_POINTS = 10**7
NOT_FINITE = "score missing, NaN or infinite"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShadowScores:
    """Scores of the same points under several models, higher for members.

    Parameters
    ----------
    scores
        (models, n, queries).
    keep
        Which model was trained on which point, (models, n).
    target
        Index of the audited model.
    reference
        Scores of points that no model was trained on, (models, z).
    scale
        What a score is: the probability of the right class, its logit, or not known.
    names
        Places of the points in the file, from 0.
    given
        Points in the file, of which n are here and the others were `skipped`, by reason.
    """

    path: str
    sha256: str
    layout: str
    scores: Floats
    keep: Flags
    target: int
    reference: Floats | None
    scale: Scale
    models: tuple[str, ...]
    names: tuple[str, ...]
    given: int
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


def check_left(member: Flags, good: Flags, used: Flags, where: str) -> None:
    """Refuse a file with few finite scores (`good`), or without any `used` member or non-member."""
    if 2 * good.sum() < len(good) or not good.any():
        message = f"{int((~good).sum())} of {len(good)} points have a score that is missing, NaN or infinite."
        raise InputError(message, where=where, hint="Mend the scores: so many cannot be left out.")
    for side, name in ((member, "member"), (~member, "non-member")):
        if not (side & used).any():
            hint = "An audit needs both: points that were trained on, and points that were not."
            raise InputError(f"There is no {name} that can be used.", where=where, hint=hint)


def shadow_scores(
    path: Path,
    *,
    sha256: str,
    layout: str,
    scores: Floats,
    keep: Flags,
    target: int | None,
    reference: Floats | None,
    scale: Scale,
    models: Sequence[str],
    notes: Sequence[str],
) -> ShadowScores:
    """Return scores (models, n[, queries]) after a check of shapes, without points that have no finite ones.

    Raises
    ------
    InputError
        Where shapes differ, there is no such target, or no member or no non-member of it is left.
    """
    where = str(path)
    if scores.shape[:2] != keep.shape:
        message = f"The scores are {scores.shape[:2]} (models, points), keep is {keep.shape}."
        raise InputError(message, where=f"{where}, keep", hint="Save one truth value for each model and point.")
    count, given = keep.shape
    if count < 2 or given > MAX_POINTS:
        message = f"There are {count} models and {given} points; 2 models or more, {MAX_POINTS} points can be read."
        raise InputError(message, where=where, hint="A target needs other models beside it.")
    if target is not None and not 0 <= target < count:
        message = f"There is no model {target}: there are {count}, counted from 0."
        raise InputError(message, where=f"{where}, target", hint=f"Name one of 0 to {count - 1}.")
    if reference is not None:
        reference, more = _finite_reference(reference, count, f"{where}, ref_scores")
        notes = [*notes, *more]
    scores = scores.reshape(count, given, -1)
    # Attacks compare models that saw a point with those that did not: it needs its score under all of them.
    good = np.logical_and.reduce(np.isfinite(scores), axis=(0, 2))
    chosen = count - 1 if target is None else target
    check_left(keep[chosen], good, good, where)
    return ShadowScores(
        path=where,
        sha256=sha256,
        layout=layout,
        scores=scores[:, good],
        keep=keep[:, good],
        target=chosen,
        reference=reference,
        scale=scale,
        models=tuple(models),
        names=tuple(map(str, np.flatnonzero(good).tolist())),
        given=given,
        skipped={} if good.all() else {NOT_FINITE: int((~good).sum())},
        notes=tuple(notes),
    )


def _finite_reference(reference: Floats, count: int, where: str) -> tuple[Floats, list[str]]:
    if len(reference) != count:
        message = f"The reference scores have the shape {reference.shape}, for {count} models."
        raise InputError(message, where=where, hint="Save (models, reference points).")
    sound = np.logical_and.reduce(np.isfinite(reference), axis=0)
    if not sound.any():
        raise InputError("No reference point has finite scores.", where=where, hint="Mend or remove them.")
    left_out = int((~sound).sum())
    notes = [f"{left_out} of {len(sound)} reference points left out: {NOT_FINITE}."] if left_out else []
    return reference[:, sound], notes
