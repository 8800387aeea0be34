"""From counts to estimates: scores, what bounds them, and their differences, each with the interval of its halves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.comparing import Comparison
from audits.precision_recall.inputs import CEILING, FLOOR, Inputs
from audits.records import Coordinate, Estimate
from audits.statistics import adjust, clopper_pearson
from audits.statistics.halves import Halved, halved
from probes.support_metrics import METRICS, coverage_ceiling

Floats = NDArray[np.float64]
HALVES = "complementary halves"
HALVES_SHARE = "complementary halves, Wilson"
EXACT = "Clopper-Pearson"
SHARES = ("precision", "recall", "coverage", "f1", "mauve", "prd_precision", "prd_recall")
PLAIN = ("precision", "recall", "coverage")
"""Shares of texts, each of which counts or does not."""
RANGES = {
    "difference": (-np.inf, np.inf),
    "hubness": (-np.inf, np.inf),
    **dict.fromkeys((*SHARES, "clipped_density", "clipped_coverage", "frontier_integral"), (0.0, 1.0)),
}
"""Least and largest values; of all others nought and none."""
CLIPPED = ("clipped_density", "clipped_coverage")
COMPARED = (*METRICS, "mauve")
"""Scores of which differences are taken."""
UNIT = "texts"


@dataclass(frozen=True, slots=True)
class At:
    """Where an estimate stands: what it is of, against what, and at which k."""

    name: str
    candidate: str
    k: int = 0
    against: str = ""


@dataclass(slots=True, kw_only=True)
class Found:
    """Places of the estimates in the draft, the values behind them, and p-values adjusted for all comparisons."""

    places: dict[At, int] = field(default_factory=dict)
    values: dict[At, Halved] = field(default_factory=dict)
    adjusted: dict[At, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured: against the reference, and at the size at which the reference stands against itself.

    `controls` holds the candidates and the controls at that size; it is `main` where both sizes are one.
    """

    main: Mapping[str, Comparison]
    controls: Mapping[str, Comparison]
    clusters: Mapping[str, Clustered]


def estimate(draft: Draft, measured: Measured, inputs: Inputs, context: Context) -> Found:
    """Add all estimates of scores, controls and differences."""
    found = Found()
    names = [one.name for one in inputs.candidates]
    for name in names:
        _add_scores(draft, found, measured.main[name], name, inputs, context)
        if name in measured.clusters:
            _add_curves(draft, found, measured.clusters[name], inputs, context)
    _add_controls(draft, found, measured, inputs, context)
    _add_differences(draft, found, measured, names, inputs, context)
    for k in inputs.settings.k:
        draft.add(
            Estimate(
                name="expected_coverage",
                value=coverage_ceiling(inputs.size, inputs.size, k),
                method="exact",
                n=inputs.size,
                unit=UNIT,
                where={"k": k},
            )
        )
    return found


def _add_scores(draft: Draft, found: Found, compared: Comparison, name: str, inputs: Inputs, context: Context) -> None:
    for k in inputs.settings.k:
        for metric in METRICS:
            at = At(metric, name, k)
            value = halved(compared.scores[metric, k])
            if not _defined(value):
                _say_undefined(draft, at)
                continue
            found.values[at] = value
            where: dict[str, Coordinate] = {"candidate": name, "k": k}
            seen = compared.seen(metric)
            found.places[at] = add(draft, metric, value, compared.size, where, context, seen=seen)


def _say_undefined(draft: Draft, at: At) -> None:
    draft.warn(
        "too-few-distinct",
        f"Too few texts of {at.candidate} differ for balls of k = {at.k}: its {at.name} cannot be told.",
        candidate=at.candidate,
        k=at.k,
    )


def _add_curves(draft: Draft, found: Found, clusters: Clustered, inputs: Inputs, context: Context) -> None:
    name, k = clusters.name, inputs.settings.k[0]
    for metric in CURVES:
        value = _clustered(clusters, metric)
        at = At(metric, name, k)
        found.values[at] = value
        found.places[at] = add(draft, metric, value, clusters.size, {"candidate": name, "k": k}, context)
    for place, slope in enumerate(clusters.slopes):
        for side, values in (("precision", clusters.alpha), ("recall", clusters.alpha / clusters.slopes)):
            where: dict[str, Coordinate] = {"candidate": name, "lambda": round(float(slope), 4), "side": side}
            add(draft, "curve", halved(values[:, :, place]), clusters.size, where, context, share=True)


def _add_controls(draft: Draft, found: Found, measured: Measured, inputs: Inputs, context: Context) -> None:
    for control in (CEILING, FLOOR):
        compared = measured.controls.get(control)
        if compared is None:
            continue
        for k in inputs.settings.k:
            for metric in METRICS:
                at, value = At(metric, control, k), halved(compared.scores[metric, k])
                if _defined(value):
                    where: dict[str, Coordinate] = {"metric": metric, "k": k}
                    found.values[at] = value
                    seen, size = compared.seen(metric), compared.size
                    found.places[at] = add(draft, control, value, size, where, context, metric=metric, seen=seen)
        if control in measured.clusters:
            _add_cluster_controls(draft, found, measured.clusters[control], inputs, context)


def _add_cluster_controls(draft: Draft, found: Found, clusters: Clustered, inputs: Inputs, context: Context) -> None:
    for metric in CURVES:
        at, value = At(metric, clusters.name, inputs.settings.k[0]), _clustered(clusters, metric)
        where: dict[str, Coordinate] = {"metric": metric, "k": inputs.settings.k[0]}
        found.values[at] = value
        found.places[at] = add(draft, clusters.name, value, clusters.size, where, context, metric=metric)


def _clustered(clusters: Clustered, metric: str) -> Halved:
    parts = clusters.scores[metric]
    value = halved(parts)
    if not clusters.same_texts or parts.shape[1] < 2:
        return value
    # All clusterings are of the same texts: what differs is the start of k-means.
    return Halved(value.value, value.gaps, float(parts[0].var(ddof=1)) / parts.shape[1])


def _add_differences(
    draft: Draft, found: Found, measured: Measured, names: Sequence[str], inputs: Inputs, context: Context
) -> None:
    """Add the differences of all pairs of candidates, and of every candidate to the controls, at the first k."""
    rows: list[tuple[At, Halved, int]] = []
    for metric in COMPARED:
        k = inputs.settings.k[0]
        for place, name in enumerate(names):
            for other in names[place + 1 :]:
                pair = [_told(measured, found, At(metric, one, k)) for one in (name, other)]
                if pair[0] is not None and pair[1] is not None:
                    size = measured.clusters[name].size if metric == "mauve" else inputs.size
                    rows.append((At(metric, name, k, other), pair[0] - pair[1], size))
            for control in (CEILING, FLOOR):
                if metric in METRICS and control in measured.controls:
                    sides = [capped(measured.controls[one].scores[metric, k], metric) for one in (name, control)]
                    if all(_defined(side) for side in sides):
                        rows.append((At(metric, name, k, control), sides[0] - sides[1], measured.controls[name].size))
    p_values = [value.p() for _, value, _ in rows]
    for metric in COMPARED:
        # One family for each metric: whoever looks for the best candidate looks at all pairs.
        family = [place for place, (at, _, _) in enumerate(rows) if at.name == metric]
        for place, p in zip(family, adjust([p_values[place] for place in family], "holm"), strict=True):
            found.adjusted[rows[place][0]] = p
    for at, value, size in rows:
        where: dict[str, Coordinate] = {"candidate": at.candidate, "against": at.against, "metric": at.name, "k": at.k}
        found.values[at] = value
        found.places[at] = add(draft, "difference", value, size, where, context)
        add_p(draft, found.adjusted[at], size, where, context)
    if rows:
        draft.warn("p-without-interval", "p-values of t tests are computed, not sampled: they have no interval.")


def capped(parts: Floats, metric: str) -> Halved:
    """Return a score as it is reported, at most 1 where it is clipped, so that differences are of what is read."""
    # The mean over draws first: capped draw by draw, chance above 1 would be cut off and chance below not.
    return halved(np.minimum(parts.mean(1, keepdims=True), 1.0) if metric in CLIPPED else parts)


def _told(measured: Measured, found: Found, at: At) -> Halved | None:
    if at.name in CLIPPED:
        return capped(measured.main[at.candidate].scores[at.name, at.k], at.name)
    return found.values.get(at)


def add_p(draft: Draft, p: float, size: int, where: Mapping[str, Coordinate], context: Context) -> None:
    """Add the p-value of a difference, adjusted for all others of its score."""
    draft.add(
        Estimate(
            name="p_value",
            value=p,
            method="none",
            level=context.level,
            n=size,
            unit=UNIT,
            where={**where, "correction": "holm"},
        )
    )


def add(
    draft: Draft,
    name: str,
    value: Halved,
    size: int,
    where: Mapping[str, Coordinate],
    context: Context,
    *,
    share: bool | None = None,
    metric: str = "",
    seen: int = 0,
    method: str = "",
    unit: str = UNIT,
) -> int:
    """Add one estimate with its interval; where halves do not differ at all, with the widest that fits a share.

    Parameters
    ----------
    metric
        What it is, where its name does not say so.
    seen
        Texts that a share is of, over all draws.
    method
        How the error was made, where not from halves.
    """
    kind = metric or name
    share = kind in SHARES if share is None else share
    point = min(1.0, value.value) if share or kind in CLIPPED else value.value
    # Halves of a few texts may all agree: no interval may be shorter than that of as many independent texts.
    least = float(np.sqrt(max(point * (1 - point), 0.0) / seen)) if seen and kind in PLAIN else 0.0
    ends = value.interval(context.level, share=share, least=least)
    method = method or (HALVES_SHARE if share else HALVES)
    # MAUVE is a share of nothing that could be counted.
    if ends is None and share and kind != "mauve":
        ends, method = clopper_pearson(round(point * size), size, level=context.level), EXACT
    least_value, most_value = RANGES.get(name if name == "difference" else kind, (0.0, np.inf))
    if ends is not None:
        within = [float(np.clip(end, least_value, most_value)) for end in ends]
        ends = min(within[0], point), max(within[1], point)
    low, high = ends if ends is not None else (None, None)
    if ends is None:
        method = "none"
        draft.warn("no-spread", f"All halves agree on the {kind} of {_who(where)}: it has no interval.", **where)
    return draft.add(
        Estimate(
            name=name,
            value=point,
            low=low,
            high=high,
            level=context.level,
            method=method,
            n=size,
            unit=unit,
            where=where,
        )
    )


def _who(where: Mapping[str, Coordinate]) -> str:
    return str(where.get("candidate", "the reference"))


def _defined(value: Halved) -> bool:
    return bool(np.isfinite(value.value) and np.isfinite(value.gaps).all())
