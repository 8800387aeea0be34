"""What else is found: levels whose difference is explained, what the search confirmed, systems, who was left out."""

import math
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import decimals, written
from audits.records import Estimate
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import Rung
from audits.speaker_groups.counts import Utterances, place
from audits.speaker_groups.discovery import PARTS, Discovery
from audits.speaker_groups.gaps import OTHERS
from audits.speaker_groups.inputs import Inputs
from audits.speaker_groups.outlook import columns_of
from audits.speaker_groups.wording import left_words
from audits.wording import listed, many, p_words, size_words, span

if TYPE_CHECKING:
    from audits.speaker_groups.report import Results

MOST_NAMED = 6


def tell_explained(draft: Draft, data: Utterances, results: "Results") -> None:
    """Name the other levels whose difference to the reference is explained by what else differs."""
    told = {
        (finding.where.get("system"), finding.where.get("by"))
        for finding in draft.findings
        if finding.id == "groups.spurious"
    }
    for system, name in enumerate(data.systems):
        by: dict[str, list[Rung]] = {}
        for rung in results.adjusted.rungs:
            if rung.system == system and rung.spurious and (name, rung.attribute) not in told:
                by.setdefault(rung.attribute, []).append(rung)
        for attribute, rungs in by.items():
            reference = rungs[0].reference
            alike = [rung for rung in rungs if rung.reference == reference]
            named = "; ".join(
                f"{rung.level}, {span(draft.estimates[rung.places[0]])} before and "
                f"{span(draft.estimates[rung.places[1]])} after" + (f", {left_words(rung.share)}" if rung.share else "")
                for rung in alike[:MOST_NAMED]
            )
            who = name if len(data.systems) > 1 else "the system"
            held = f"{listed(rungs[0].held_words)} {'is' if len(rungs[0].held) == 1 else 'are'}"
            explained = dict.fromkeys(other for rung in alike for other in rung.explained_by)
            draft.find(
                "groups.spurious",
                "info",
                f"Spurious: {who} seems to err at another rate on some levels of {attribute} than on {reference} "
                f"(each looked at on its own), but most of that goes with {listed(tuple(explained))}. Ratio of the "
                f"rates before and after {held} held fixed: {named}.",
                [at for rung in alike for at in rung.places],
                **place(data, results.rows[0].counts, system, by=attribute),
            )


def tell_search(draft: Draft, data: Utterances, results: "Results") -> None:
    """Say which groups the search named and the other half of the speakers confirmed."""
    for system, name in enumerate(data.systems):
        mine = [item for item in results.search.found if item.system == system]
        looked = results.search.tested[system]
        if not looked:
            continue
        whom = f"For {name}, " if len(data.systems) > 1 else ""
        searched = many(looked, "comparison was", "comparisons were")
        lead = f"{whom}{searched} searched on half of the {data.unit}; {len(mine)} stood out"
        lead = lead[0].upper() + lead[1:]
        confirmed = [item for item in mine if item.confirmed and item.size is not None]
        if not confirmed:
            end = ", and none was confirmed on the other half." if mine else ", so there was nothing to confirm."
            draft.find("groups.nothing-found", "info", lead + end, system=name)
            continue
        text = f"{lead} and {many(len(confirmed), 'was', 'were')} confirmed on the others (Holm)."
        shown = []
        for against, introduced in (
            (PARTS, "If attributes acted by multiplying alone, these err more than their parts lead to expect"),
            (OTHERS, "Against all others of their kind"),
        ):
            # What errs less than its parts lead to expect is the other side of what errs more.
            items = [item for item in confirmed if item.against == against and (item.more or against == OTHERS)]
            items = items or [item for item in confirmed if item.against == against]
            items.sort(key=lambda item: -_distance(draft.estimates[item.size or 0]))
            if items:
                named = "; ".join(_stands_out(draft, item) for item in items[:MOST_NAMED])
                more = f"; and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
                text += f" {introduced}: {named}{more}."
                shown += items
        if any(item.against == OTHERS and "&" in item.group for item in shown):
            text += " A crossing may stand out against others through one of its parts alone."
        draft.find("groups.confirmed", "low", text, [item.size or 0 for item in shown], system=name)


def _distance(estimate: Estimate) -> float:
    return abs(math.log(estimate.value)) if estimate.name == "intersection_ratio" else abs(estimate.value)


def _stands_out(draft: Draft, item: Discovery) -> str:
    size = draft.estimates[item.size or 0]
    if item.against == PARTS:
        return f"{item.group}, {span(size)} times as often"
    return f"{item.group}, {'more' if item.more else 'fewer'} errors by {size_words(size)}"


def tell_systems(draft: Draft, data: Utterances, results: "Results", context: Context) -> None:
    """Say on whom another system errs less than the first, and whether its gaps are others: one family over all."""
    compared, alpha = results.compared, 1 - context.level
    metric = compared.metric
    for system in range(1, len(data.systems)):
        at = compared.rate.get((system, f"{metric}:all"))
        if at is None:
            continue
        words = _compared(draft.estimates[at], compared.told[system, ""], alpha)
        text = f"{data.systems[system]} against {data.systems[0]} on the same clips: {words}."
        evidence = [at, compared.evidence[system, ""]]
        for by in [row.by for row in results.rows if (system, row.by) in compared.told]:
            place_of, p = compared.gap[system, f"{metric}:{by}"], compared.told[system, by]
            change = draft.estimates[place_of]
            pair = f"{change.where['group']} and {change.where['reference']}"
            here, there = (_between(draft, results, name, change) for name in (data.systems[system], data.systems[0]))
            text += (
                f" Between {pair} its rates differ by {here} and not by {there}, a change of {span(change)}, "
                f"p {p_words(p)}."
                if p < alpha
                else f" Whether its gap between {pair} is another could not be told ({here} and {there}, a change of "
                f"{span(change)}{_given_all(change, p)})."
            )
            evidence += [place_of, compared.evidence[system, by]]
        draft.find("groups.system", "info", text, evidence, system=data.systems[system])


def _between(draft: Draft, results: "Results", system: str, change: Estimate) -> str:
    """Return the difference of the rates of the two groups of a change, for one system."""
    rows = {
        str(row.where["group"]): row
        for row in draft.estimates
        if row.name == "rate" and row.where["system"] == system and row.where["metric"] == change.where["metric"]
    }
    worst, best = (rows[str(change.where[key])] for key in ("group", "reference"))
    return written(worst.value - best.value, decimals(change))


def _compared(estimate: Estimate, p: float, alpha: float) -> str:
    if p < alpha:
        return f"it errs {'more' if estimate.value > 0 else 'less'}, by {size_words(estimate)}, p {p_words(p)}"
    return f"no difference could be shown, {span(estimate)}{_given_all(estimate, p)}"


def _given_all(estimate: Estimate, p: float) -> str:
    """Say why nothing is told where an interval made for this difference alone leaves out nought."""
    beyond = (estimate.low or 0) > 0 or (estimate.high or 0) < 0
    return f", p {p_words(p)} given all that is compared between systems (Holm)" if beyond else ""


def tell_columns(draft: Draft, inputs: Inputs, options: Options) -> None:
    """Say how each column was read: a number that became levels, or the other way round, is no mistake of a model."""
    read = columns_of(inputs, options)
    text = f"Columns as they were read. Compared: {'; '.join(read['by'])}."
    if read["control"]:
        text += f" Controls: {'; '.join(read['control'])}."
    draft.find("groups.columns", "info", text)


def tell_skipped(draft: Draft, inputs: Inputs) -> None:
    """Say which clips were left out, why and of whom."""
    if not inputs.skipped:
        return
    total = len(inputs.clips) + len(inputs.skipped)
    reasons = ", ".join(f"{item.count} {item.reason}" for item in inputs.reasons)
    whom = []
    for groups in inputs.sets:
        if "&" in groups.by:
            continue
        lost: dict[str, int] = {}
        given: dict[str, int] = {}
        for clip in [*inputs.clips, *(clip for clip, _ in inputs.skipped)]:
            given[clip.attributes[groups.by]] = given.get(clip.attributes[groups.by], 0) + 1
        for clip, _ in inputs.skipped:
            lost[clip.attributes[groups.by]] = lost.get(clip.attributes[groups.by], 0) + 1
        worst = sorted(lost, key=lambda name: (-lost[name] / given[name], name))[:MOST_NAMED]
        whom.append(f"by {groups.by}, " + ", ".join(f"{lost[name]} of {given[name]} {name}" for name in worst))
    draft.find(
        "groups.skipped",
        "info",
        f"{len(inputs.skipped)} of {total} clips were left out ({reasons}): {'; '.join(whom)}.",
    )
