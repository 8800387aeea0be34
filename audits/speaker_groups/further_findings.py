"""Further findings: explained differences, confirmed groups of the search, systems, and columns as read."""

import math

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import decimals, written
from audits.core.records import Estimate
from audits.core.wording import listed, many, p_words, size_words, span
from audits.group_rates.wording import levels_of, spoken
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import Rung
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.discovery import PARTS, Discovery
from audits.speaker_groups.gaps import OTHERS
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.preflight import columns_of
from audits.speaker_groups.systems import p_of_change
from audits.speaker_groups.wording import left_words, ratio_rows

MOST_NAMED = 6


def find_explained(draft: Draft, counts: Counts) -> None:
    """Add findings on further levels whose difference to the reference is explained by other columns."""
    data = counts.data
    reported = {
        (finding.where.get("system"), finding.where.get("by"))
        for finding in draft.findings
        if finding.id == "groups.spurious"
    }
    for system, name in enumerate(data.systems):
        by: dict[str, list[Rung]] = {}
        for rung in counts.rungs:
            if rung.system == system and rung.spurious and (name, rung.attribute) not in reported:
                by.setdefault(rung.attribute, []).append(rung)
        for attribute, rungs in by.items():
            reference = rungs[0].reference
            alike = [rung for rung in rungs if rung.reference == reference]
            ratios = [ratio_rows(draft, counts, rung) for rung in alike]
            named = "; ".join(
                f"{rung.level}, {span(before)} before and {span(after)} after"
                + (f", {left_words(rung.share)}" if rung.share else "")
                for rung, (before, after) in zip(alike[:MOST_NAMED], ratios, strict=False)
            )
            whom = f" for {name}" if len(data.systems) > 1 else ""
            held = f"{listed(rungs[0].held_words)} {'is' if len(rungs[0].held) == 1 else 'are'}"
            explained = dict.fromkeys(other for rung in alike for other in rung.explained_by)
            draft.find(
                "groups.spurious",
                "info",
                f"Levels of {attribute} against {reference}, each looked at on its own; ratio of the rates before and "
                f"after {held} held fixed: {named}.",
                [row for both in ratios for row in both],
                headline=f"Most of what differs by {attribute}{whom} goes with {listed(tuple(explained))}.",
                **counts.where(system, by=attribute),
            )


def find_searched(draft: Draft, counts: Counts) -> None:
    """Add findings on the groups that the search found and the other half of the speakers confirmed."""
    data = counts.data
    for system, (name, search) in enumerate(zip(data.systems, counts.searches, strict=True)):
        mine, looked = search.found, len(search.tests)
        if not looked:
            continue
        whom = f" for {name}" if len(data.systems) > 1 else ""
        searched = many(looked, "comparison was", "comparisons were")
        lead = f"{searched} searched on half of the {data.unit}; {len(mine)} stood out"
        sizes = {item: item.row(draft, **counts.where(system)) for item in mine if item.confirmed and item.size}
        confirmed = list(sizes)
        if not confirmed:
            end = ", and none was confirmed on the other half." if mine else ", so there was nothing to confirm."
            headline = f"The search for further groups confirmed none{whom}."
            draft.find("groups.nothing-found", "info", lead + end, headline=headline, system=name)
            continue
        text, shown = "", []
        for against, introduced in (
            (PARTS, "If attributes acted by multiplying alone, these err more than their parts lead to expect"),
            (OTHERS, "Against all others of their kind"),
        ):
            # What errs less than its parts lead to expect is the other side of what errs more.
            items = [item for item in confirmed if item.against == against and (item.more or against == OTHERS)]
            items = items or [item for item in confirmed if item.against == against]
            items.sort(key=lambda item: -_distance(sizes[item]))
            if items:
                named = "; ".join(_stands_out(item, sizes[item]) for item in items[:MOST_NAMED])
                more = f"; and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
                text += f"{introduced}: {named}{more}. "
                shown += items
        if any(item.against == OTHERS and "&" in item.group for item in shown):
            text += "A crossing may stand out against others through one of its parts alone."
        draft.find(
            "groups.confirmed",
            "low",
            text.strip(),
            [sizes[item] for item in shown],
            headline=_search_headline(shown[0], sizes[shown[0]], len(confirmed), whom, data.unit),
            how_sure=f"{lead} and {len(confirmed)} held on the others, after Holm's correction.",
            system=name,
        )


def _search_headline(item: Discovery, size: Estimate, confirmed: int, whom: str, unit: str) -> str:
    """Return the answer of the search: how many groups held, and the one that stands out most."""
    group = spoken(item.group, unit)
    if item.against == PARTS:
        return f"{group} get {span(size)} times the errors that their parts lead to expect{whom}."
    rest = f"; {confirmed - 1} more found" if confirmed > 1 else ""
    return f"{group} get {'more' if item.more else 'fewer'} errors than others{whom}, by {size_words(size)}{rest}."


def _distance(estimate: Estimate) -> float:
    return abs(math.log(estimate.value)) if estimate.name == "intersection_ratio" else abs(estimate.value)


def _stands_out(item: Discovery, size: Estimate) -> str:
    if item.against == PARTS:
        return f"{item.group}, {span(size)} times as often"
    return f"{item.group}, {'more' if item.more else 'fewer'} errors by {size_words(size)}"


def find_systems(draft: Draft, counts: Counts) -> None:
    """Add findings on differences of other systems to the first in rates and gaps, as one family of tests."""
    systems, alpha = counts.data.systems, 1 - counts.level
    for system in range(1, len(systems)):
        where = counts.where(system)
        rate = draft.get("system_difference", **where, against=systems[0], group=ALL)
        p = p_of_change(draft, where, group=ALL)
        if rate is None or p is None:
            continue
        text = f"On the same clips: {_compared(rate, p.value, alpha)}."
        evidence = [rate, p]
        for by in [comparison.by for comparison in counts.comparisons]:
            p = p_of_change(draft, where, by=by)
            if p is None:
                continue
            (change,) = draft.select("gap_difference", **where, by=by)
            group, reference = (str(change.where[key]) for key in ("group", "reference"))
            pair = f"{levels_of(group)} and {spoken(reference, counts.data.unit)}"
            here, there = (_between(draft, counts, at, change) for at in (system, 0))
            text += (
                f" Between {pair} its rates differ by {here} and not by {there}, a change of {span(change)}, "
                f"p {p_words(p.value)}."
                if p.value < alpha
                else f" Whether its gap between {pair} is another could not be told ({here} and {there}, a change of "
                f"{span(change)}{_given_all(change, p.value)})."
            )
            evidence += [change, p]
        headline = _system_headline(systems[system], systems[0], rate, evidence[1].value < alpha)
        draft.find("groups.system", "info", text, evidence, headline=headline, system=systems[system])


def _system_headline(name: str, first: str, rate: Estimate, differs: bool) -> str:
    if differs:
        return f"{name} makes {'more' if rate.value > 0 else 'fewer'} errors than {first}, by {size_words(rate)}."
    return f"No difference in errors is shown between {name} and {first}: {span(rate)}."


def _between(draft: Draft, counts: Counts, system: int, change: Estimate) -> str:
    """Return the difference of the rates of the two groups of a change, for one system."""
    worst, best = (
        draft.row("rate", **counts.where(system, group=str(change.where[key]))) for key in ("group", "reference")
    )
    return written(worst.value - best.value, decimals(change))


def _compared(estimate: Estimate, p: float, alpha: float) -> str:
    if p < alpha:
        return f"it errs {'more' if estimate.value > 0 else 'less'}, by {size_words(estimate)}, p {p_words(p)}"
    return f"no difference could be shown, {span(estimate)}{_given_all(estimate, p)}"


def _given_all(estimate: Estimate, p: float) -> str:
    """Return the words on why a difference is not shown although its own interval excludes 0."""
    beyond = (estimate.low or 0) > 0 or (estimate.high or 0) < 0
    return f", p {p_words(p)} given all that is compared between systems (Holm)" if beyond else ""


def find_columns(draft: Draft, inputs: Inputs, options: Options) -> None:
    """Add the finding on how each column was read, so that a misread one is not blamed on a model."""
    read = columns_of(inputs, options)
    text = f"Compared: {'; '.join(read['by'])}."
    if read["control"]:
        text += f" Controls: {'; '.join(read['control'])}."
    draft.find("groups.columns", "info", text, headline="Each column was read as follows.")
