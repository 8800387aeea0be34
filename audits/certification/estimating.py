"""From certificates to numbers with intervals: for all images, for each class, for each group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audits.certification.bounds import Floats
from audits.certification.judging import ABSTAIN, Verdict
from audits.certification.rules import Rule
from audits.context import Context, Draft
from audits.records import Coordinate, Estimate
from audits.statistics import (
    RateIntervals,
    clopper_pearson,
    cluster_weights,
    generator,
    percentile_interval,
    rate_intervals,
)

EXACT = "Clopper-Pearson"
PERCENTILE = "bootstrap over images, percentile"
SAMPLES = 2000
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
    _add_bound(draft, len(verdicts), rule)


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
    """Return a mean over images of numbers from 0 on, none above the ceiling of the rule."""
    numbers = np.array(values)
    low, high, method = mean_interval(numbers, context, name, str(sorted(part.where.items())))
    top = max(float(numbers.max()), rule.ceiling)
    positive, below = int((numbers > 0).sum()), int((numbers < numbers.max()).sum())
    if min(positive, below) < FEW:
        # So few images differ from the rest that resampling cannot know how others would.
        high = max(high, top * clopper_pearson(positive, len(numbers), level=context.level)[1])
        low = min(
            low, float(numbers.max()) * clopper_pearson(len(numbers) - below, len(numbers), level=context.level)[0]
        )
        method = f"{method}, or ceiling x Clopper-Pearson where wider"
    return Estimate(
        name=name,
        value=float(numbers.mean()),
        low=low,
        high=high,
        level=context.level,
        method=method,
        n=len(numbers),
        unit="images",
        where=part.where,
    )


def mean_interval(numbers: Floats, context: Context, *purpose: str) -> tuple[float, float, str]:
    """Return the interval of a mean over images."""
    rng = generator(context.seed, "certify", *purpose)
    means = np.empty(SAMPLES)
    for start in range(0, SAMPLES, 200):
        # Block by block: a weight per image and sample would not fit for large sets.
        weights = cluster_weights(len(numbers), 200, rng)
        means[start : start + 200] = weights @ numbers / len(numbers)
    value = float(numbers.mean())
    ends = percentile_interval(means, len(numbers), level=context.level)
    if ends is None:
        return min(value, 0.0), float(numbers.max()), "range"
    return min(ends[0], value), max(ends[1], value), PERCENTILE


def _add_noisy(draft: Draft, part: Part, context: Context) -> None:
    hits = np.array([[row.noisy[0] if row.noisy else 0] for row in part.verdicts], dtype=np.float64)
    draws = np.array([[row.noisy[1] if row.noisy else 0] for row in part.verdicts], dtype=np.float64)
    rng = generator(context.seed, "certify", "noisy", str(sorted(part.where.items())))
    rates: RateIntervals = rate_intervals(hits, draws, cluster_weights(len(hits), SAMPLES, rng), level=context.level)
    low, high = float(rates.low[0]), float(rates.high[0])
    if not np.isfinite([low, high]).all():
        return
    draft.add(
        Estimate(
            name="noisy_accuracy",
            value=float(rates.value[0]),
            low=low,
            high=min(high, 1.0),
            level=context.level,
            method=rates.method[0],
            n=len(hits),
            unit="images",
            where=part.where,
        )
    )


def _add_draws(draft: Draft, part: Part, rule: Rule, context: Context) -> None:
    numbers = np.array([row.draws or 0 for row in part.verdicts], dtype=np.float64)
    common = {"name": "draws_per_item", "value": float(numbers.mean()), "n": len(numbers), "unit": "images"}
    if rule.mode == "fixed":
        draft.add(Estimate(**common, method="exact"))  # type: ignore[arg-type]
        return
    low, high, method = mean_interval(numbers, context, "draws")
    draft.add(Estimate(**common, low=low, high=high, level=context.level, method=method))  # type: ignore[arg-type]


def _add_bound(draft: Draft, images: int, rule: Rule) -> None:
    # 1 - (1 - a)^m without cancellation.
    bound = -float(np.expm1(images * np.log1p(-rule.alpha)))
    draft.add(Estimate(name="false_certificate_bound", value=bound, method="exact", n=images, unit="images"))
