"""From certificates to numbers with intervals: for all images, for each class, for each group."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audits.certification.bounds import Floats
from audits.certification.judging import ABSTAIN, Verdict
from audits.certification.log_fit import Reading
from audits.certification.rules import Rule
from audits.context import Context, Draft
from audits.numbers import UPPER_BOUND
from audits.records import Coordinate, Estimate
from audits.statistics import clopper_pearson
from audits.statistics.mean_intervals import STUDENT_SKEW, mean_interval

EXACT = "Clopper-Pearson"
OVER_IMAGES = f"{STUDENT_SKEW}, over images"
FEW = 10
"""Images with a positive value under which the interval of a mean is widened."""
LEAST = 5
"""Images that a class or group needs for numbers of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """Images that are told of together: all, a class, or a group."""

    where: dict[str, Coordinate]
    verdicts: tuple[Verdict, ...]


def parts(verdicts: Sequence[Verdict], names: Sequence[str], attributes: dict[str, tuple[str, ...]]) -> Iterator[Part]:
    """Yield all images, then each class, then each group, those with few images too."""
    yield Part({}, tuple(verdicts))
    labels = sorted({row.label for row in verdicts})
    if len(labels) > 1:
        for label in labels:
            mine = tuple(row for row in verdicts if row.label == label)
            yield Part({"label": class_name(label, names)}, mine)
    for column, levels in sorted(attributes.items()):
        for level in sorted(set(levels)):
            mine = tuple(row for row, own in zip(verdicts, levels, strict=True) if own == level)
            yield Part({"group": f"{column}={level}"}, mine)


def class_name(label: int, names: Sequence[str]) -> Coordinate:
    """Return the name of a class where it has one, its number otherwise."""
    return names[label] if 0 <= label < len(names) else label


def add_estimates(
    draft: Draft,
    verdicts: Sequence[Verdict],
    rule: Rule,
    names: Sequence[str],
    attributes: dict[str, tuple[str, ...]],
    context: Context,
) -> None:
    """Append every estimate of the report."""
    small = 0
    for part in parts(verdicts, names, attributes):
        if part.where and len(part.verdicts) < LEAST:
            small += 1
            continue
        _add_part(draft, part, rule, context)
    if small:
        draft.warn(
            "few-images",
            f"{small} classes or groups have fewer than {LEAST} images and get no numbers of their own.",
        )
    if rule.geometry.lipschitz is not None:
        _add_constant(draft, rule.geometry.lipschitz, asserted=rule.asserted)


def _add_constant(draft: Draft, constant: float, *, asserted: bool) -> None:
    """Append the Lipschitz constant: what was given, or a bound of the network's own from above."""
    common: dict[str, Any] = {"name": "lipschitz_constant", "value": constant, "n": 1, "unit": "networks"}
    if asserted:
        draft.add(Estimate(**common, method="exact", where={"origin": "asserted"}))
        return
    method = f"{UPPER_BOUND} proved from the bounds of all layers"
    draft.add(Estimate(**common, low=0.0, high=constant, method=method, where={"origin": "computed"}))


def _add_part(draft: Draft, part: Part, rule: Rule, context: Context) -> None:
    rows = part.verdicts
    for radius in rule.radii:
        hits = sum(row.correct and row.radius >= radius for row in rows)
        draft.add(_share("certified_accuracy", hits, part, context, radius=radius))
    draft.add(_share("abstention_rate", sum(row.predict == ABSTAIN for row in rows), part, context))
    draft.add(_mean("average_certified_radius", [row.radius * row.correct for row in rows], part, rule, context))
    if rows[0].published is not None:
        for name in ("published", "gaussian"):
            values = [float(getattr(row, name) or 0.0) * row.correct for row in rows]
            draft.add(_mean(f"average_certified_radius_{name}", values, part, rule, context))
    if rows[0].clean is not None:
        draft.add(_share("clean_accuracy", sum(row.clean == row.label for row in rows), part, context))
    if rows[0].noisy is not None:
        _add_noisy(draft, part, context)
    if rows[0].draws is not None and not part.where:
        _add_draws(draft, part, rule, context)


def _share(name: str, hits: int, part: Part, context: Context, **where: Coordinate) -> Estimate:
    count = len(part.verdicts)
    low, high = clopper_pearson(hits, count, level=context.level)
    return Estimate(
        name=name,
        value=hits / count,
        low=low,
        high=high,
        level=context.level,
        method=EXACT,
        n=count,
        unit="images",
        where={**part.where, **where},
    )


def _mean(name: str, values: list[float], part: Part, rule: Rule, context: Context) -> Estimate:
    """Return a mean over images of radii, none above the ceiling of the rule."""
    # A log may have radii above the ceiling of the n that it names: the range must hold them.
    return _bounded(name, np.array(values), max(*values, rule.ceiling), part, context)


def _bounded(name: str, numbers: Floats, top: float, part: Part, context: Context) -> Estimate:
    """Return a mean over images of numbers in [0, top]."""
    value = float(numbers.mean())
    low, high = _ends(numbers, context)
    method = OVER_IMAGES
    above, below = int((numbers > top / 2).sum()), int((numbers < top / 2).sum())
    if min(above, below) < FEW:
        # So few images lie on one side that their spread cannot tell how many others would.
        low = min(low, top - _most(top - numbers, top, context))
        high = max(high, _most(numbers, top, context))
        method = f"{method}, with Clopper-Pearson for the rare half where wider"
    return Estimate(
        name=name,
        value=value,
        # Rounding may carry the mean of numbers that are all the highest past it.
        low=max(min(low, value), 0.0),
        high=max(min(high, top), value),
        level=context.level,
        method=method,
        n=len(numbers),
        unit="images",
        where=part.where,
    )


def _ends(numbers: Floats, context: Context) -> tuple[float, float]:
    """Return the ends for a mean of numbers that are never negative, both the mean where nothing varied."""
    value = float(numbers.mean())
    found = mean_interval(numbers, level=context.level, positive=True)
    return found[1] if found else (value, value)


def _most(numbers: Floats, top: float, context: Context) -> float:
    """Return an upper end for a mean of numbers in [0, top] that fears more large ones than were met.

    Up to top / 2 they are taken as they are; the share beyond gets its exact upper limit, as if each were top. The two
    ends are joined as those of independent parts.
    """
    far = numbers > top / 2
    near = np.where(far, 0.0, numbers)
    rise = _ends(near, context)[1] - float(near.mean())
    most = top * clopper_pearson(int(far.sum()), len(numbers), level=context.level)[1]
    return min(float(numbers.mean()) + math.hypot(rise, most - float((numbers - near).mean())), top)


def _add_noisy(draft: Draft, part: Part, context: Context) -> None:
    shares = np.array([row.noisy[0] / row.noisy[1] for row in part.verdicts if row.noisy])
    draft.add(_bounded("noisy_accuracy", shares, 1.0, part, context))


def _add_draws(draft: Draft, part: Part, rule: Rule, context: Context) -> None:
    numbers = np.array([row.draws or 0 for row in part.verdicts], dtype=np.float64)
    common = {"name": "draws_per_item", "value": float(numbers.mean()), "n": len(numbers), "unit": "images"}
    # The number is the same for every image: there is nothing to resample.
    if rule.mode == "fixed":
        draft.add(Estimate(**common, method="exact"))  # type: ignore[arg-type]
        return
    found = mean_interval(numbers, level=context.level, positive=True)
    if found is None:
        draft.warn("no-interval", f"draws_per_item has no interval: {len(numbers)} images, all with as many draws.")
        draft.add(Estimate(**common, level=context.level, method="none"))  # type: ignore[arg-type]
        return
    low, high = found[1]
    draft.add(Estimate(**common, low=low, high=high, level=context.level, method=OVER_IMAGES))  # type: ignore[arg-type]


def add_bound(draft: Draft, images: int, rule: Rule, reading: Reading | None = None) -> None:
    """Append how probable at least one false certificate is at the most: 1 - (1 - alpha)^m.

    A log is held to the alpha that its radii allow, which need not be the one that was named.
    """
    alpha = reading.alpha if reading else rule.alpha
    if alpha is None:
        draft.warn(
            "alpha-unknown",
            "There is no false_certificate_bound: with which error probability the log's certificates were made, its "
            "radii do not tell.",
        )
        return
    # Without cancellation.
    bound = -float(np.expm1(images * np.log1p(-alpha)))
    draft.add(
        Estimate(
            name="false_certificate_bound",
            value=bound,
            low=0.0,
            high=bound,
            method=f"{UPPER_BOUND} 1 - (1 - alpha)^m for m images",
            n=images,
            unit="images",
        )
    )
