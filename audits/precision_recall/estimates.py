"""The estimates: scores and what bounds them, what each set shows by itself, and differences."""

from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined, exact
from audits.core.records import Coordinate
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.counts import Counts, Difference
from audits.precision_recall.diversity import describe
from audits.precision_recall.intervals import UNIT, add, defined
from audits.precision_recall.sides import ASKED, CEILING, FLOOR, RELABELLED
from audits.statistics.halves import halved
from probes.vectors.support_metrics import METRICS, coverage_ceiling


def estimates(draft: Draft, counts: Counts) -> None:
    """Add all estimates."""
    inputs = counts.inputs
    if inputs.generation is not None:
        # The plan knew neither how many texts would be sampled nor what they would be like.
        draft.subject, draft.warnings = counts.subject, list(counts.warnings)
    for one in counts.sets.values():
        if one.shortened:
            text = f"{one.shortened:,} of {len(one.pool):,} texts of {one.name} were longer than is read, and were cut."
            draft.warn("shortened", text, candidate=one.name)
    for name in counts.names:
        _add_scores(draft, counts, name)
        if name in counts.clusters:
            _add_curves(draft, counts.clusters[name], counts.k)
    for control in (CEILING, FLOOR):
        if control in counts.controls:
            _add_control(draft, counts, control)
    for name in counts.relabelled:
        _add_relabelled(draft, counts, name)
    for k in inputs.settings.k:
        # At the usual level whatever that of the run is, as reports have it: an exact number has none.
        ceiling = exact(coverage_ceiling(inputs.size, inputs.size, k), n=inputs.size, unit=UNIT, level=0.95)
        draft.add("expected_coverage", ceiling, k=k)
    describe(draft, counts)
    for difference in counts.differences:
        _add_difference(draft, difference)
    if counts.differences:
        draft.warn("p-without-interval", "p-values, of t tests or of labels dealt anew, have no interval.")


def _add_scores(draft: Draft, counts: Counts, name: str) -> None:
    compared = counts.main[name]
    for k in counts.inputs.settings.k:
        for metric in METRICS:
            value = halved(compared.scores[metric, k])
            if defined(value):
                add(draft, metric, value, compared.size, {"candidate": name, "k": k}, seen=compared.seen(metric))
            else:
                why = f"Too few texts of {name} differ for balls of k = {k}: its {metric} cannot be told."
                draft.add(metric, Undefined(why, id="too-few-distinct"), candidate=name, k=k)


def _add_curves(draft: Draft, clusters: Clustered, k: int) -> None:
    for metric in CURVES:
        add(draft, metric, clusters.score(metric), clusters.size, {"candidate": clusters.name, "k": k})
    for at, slope in enumerate(clusters.slopes):
        for side, values in (("precision", clusters.alpha), ("recall", clusters.alpha / clusters.slopes)):
            where: dict[str, Coordinate] = {"candidate": clusters.name, "lambda": round(float(slope), 4), "side": side}
            add(draft, "curve", halved(values[:, :, at]), clusters.size, where, share=True)


def _add_control(draft: Draft, counts: Counts, control: str) -> None:
    compared = counts.controls[control]
    for k in counts.inputs.settings.k:
        for metric in METRICS:
            value = halved(compared.scores[metric, k])
            if defined(value):
                where: dict[str, Coordinate] = {"metric": metric, "k": k}
                add(draft, control, value, compared.size, where, seen=compared.seen(metric))
    if control in counts.clusters:
        clusters = counts.clusters[control]
        for metric in CURVES:
            add(draft, control, clusters.score(metric), clusters.size, {"metric": metric, "k": counts.k})


def _add_relabelled(draft: Draft, counts: Counts, name: str) -> None:
    dealt = counts.relabelled[name]
    if dealt is None:
        why = f"Too few texts of {name} differ for labels to be dealt anew: it has no verdict."
        draft.add(RELABELLED, Undefined(why, id="too-few-distinct"), candidate=name, k=counts.k)
        return
    for metric in ASKED:
        draft.add(RELABELLED, dealt.interval(metric, draft.level), candidate=name, metric=metric, k=counts.k)


def _add_difference(draft: Draft, difference: Difference) -> None:
    add(draft, "difference", difference.value, difference.size, difference.where)
    p = Interval(value=difference.adjusted, method="none", n=difference.size, unit=UNIT)
    draft.add("p_value", p, **difference.where, correction="holm")
