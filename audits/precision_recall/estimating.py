"""From counts to estimates: scores and what bounds them, each with the interval of its halves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.context import Context, Draft
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.comparing import Comparison
from audits.precision_recall.inputs import ASKED, CEILING, FLOOR, RELABELLED, Inputs
from audits.precision_recall.relabelling import Relabelled
from audits.records import Coordinate, Estimate
from audits.statistics import clopper_pearson
from audits.statistics.halves import Halved, halved
from probes.support_metrics import METRICS, coverage_ceiling

Floats = NDArray[np.float64]
HALVES = "complementary halves"
HALVES_SHARE = "complementary halves, Wilson"
EXACT = "Clopper-Pearson"
DEALT = "labels dealt anew"
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
    """Places of the estimates in the draft, the values behind them, and what was asked of differences.

    `adjusted` holds p-values, corrected for the questions of their family; `questions` says how many these are.
    """

    places: dict[At, int] = field(default_factory=dict)
    values: dict[At, Halved] = field(default_factory=dict)
    adjusted: dict[At, float] = field(default_factory=dict)
    questions: dict[At, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured: against the reference, and at the size at which the reference stands against itself.

    `controls` holds the candidates and the controls at that size; it is `main` where both sizes are one. `relabelled`
    holds what stands in for the ceiling where the reference has too few texts for one, by candidate; None where too
    few of its texts differ.
    """

    main: Mapping[str, Comparison]
    controls: Mapping[str, Comparison]
    clusters: Mapping[str, Clustered]
    relabelled: Mapping[str, Relabelled | None] = field(default_factory=dict)


def estimate(draft: Draft, measured: Measured, inputs: Inputs, context: Context) -> Found:
    """Add all estimates of scores, controls and differences."""
    found = Found()
    names = [one.name for one in inputs.candidates]
    for name in names:
        _add_scores(draft, found, measured.main[name], name, inputs, context)
        if name in measured.clusters:
            _add_curves(draft, found, measured.clusters[name], inputs, context)
    _add_controls(draft, found, measured, inputs, context)
    for name, one in measured.relabelled.items():
        if one is None:
            text = f"Too few texts of {name} differ for labels to be dealt anew: it has no verdict."
            draft.warn("too-few-distinct", text, candidate=name, k=inputs.settings.k[0])
        else:
            _add_relabelled(draft, found, one, name, inputs.settings.k[0], context)
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
            if not defined(value):
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
                if defined(value):
                    where: dict[str, Coordinate] = {"metric": metric, "k": k}
                    found.values[at] = value
                    seen, size = compared.seen(metric), compared.size
                    found.places[at] = add(draft, control, value, size, where, context, metric=metric, seen=seen)
        if control in measured.clusters:
            _add_cluster_controls(draft, found, measured.clusters[control], inputs, context)


def _add_relabelled(draft: Draft, found: Found, one: Relabelled, name: str, k: int, context: Context) -> None:
    for metric in ASKED:
        low, high = one.ends(metric, context.level)
        mean = one.mean(metric)
        found.places[At(metric, RELABELLED, k, name)] = draft.add(
            Estimate(
                name=RELABELLED,
                value=mean,
                low=min(low, mean),
                high=max(high, mean),
                level=context.level,
                method=DEALT,
                n=one.size,
                unit=UNIT,
                where={"candidate": name, "metric": metric, "k": k},
            )
        )


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


def defined(value: Halved) -> bool:
    """Tell whether a score and its halves could be computed."""
    return bool(np.isfinite(value.value) and np.isfinite(value.gaps).all())
