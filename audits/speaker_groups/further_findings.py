"""Further findings: explained differences, confirmed groups of the search, systems, and columns as read."""

import math
from collections.abc import Sequence

from audits.core.context import Draft
from audits.core.groups import ALL
from audits.core.numbers import decimals, written
from audits.core.records import Estimate
from audits.core.wording import capitalised, first_of, fitting, listed, many, p_words, size_words, span
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
MOST_RATIOS, MOST_GROUPS, MOST_CHANGES = 3, 3, 2
"""Ratios, groups and changes of gaps that a statement names; the evidence and the tables have more."""


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
                f"{rung.level} {span(before)} as measured and {span(after)} adjusted"
                for rung, (before, after) in zip(alike[:MOST_RATIOS], ratios, strict=False)
            )
            more = f"; and {len(alike) - MOST_RATIOS} more" if len(alike) > MOST_RATIOS else ""
            whom = f" for {name}" if len(data.systems) > 1 else ""
            explained = dict.fromkeys(other for rung in alike for other in rung.explained_by)
            shares = [f"of {rung.level} {left_words(rung.share)}" for rung in alike[:MOST_RATIOS] if rung.share]
            sure = f"{capitalised('; '.join(shares))}. " if shares else ""
            draft.find(
                "groups.spurious",
                "info",
                f"Ratio of the rates to that of {reference} ({attribute}): {named}{more}. Held fixed: "
                f"{listed(rungs[0].held_words)}.",
                [row for both in ratios for row in both],
                headline=f"Most of what differs by {attribute}{whom} goes with {listed(tuple(explained))}.",
                how_sure=f"{sure}Each level is looked at on its own.",
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
        text = ""
        shown: list[Discovery] = []
        for against, introduced in (
            (PARTS, "Against what their parts lead to expect"),
            (OTHERS, "Against all others"),
        ):
            # What errs less than its parts lead to expect is the other side of what errs more.
            items = [item for item in confirmed if item.against == against and (item.more or against == OTHERS)]
            items = items or [item for item in confirmed if item.against == against]
            items.sort(key=lambda item: -_distance(sizes[item]))
            if items:
                # The headline has the first of all.
                rest = items if shown else items[1:]
                named = "; ".join(_stands_out(item, sizes[item], data.unit) for item in rest[:MOST_GROUPS])
                more = f"; and {len(rest) - MOST_GROUPS} more" if len(rest) > MOST_GROUPS else ""
                text += f"{introduced}: {named}{more}. " if rest else ""
                shown += items
        if any(item.against == OTHERS and "&" in item.group for item in shown):
            text += "A crossing may stand out through one of its parts alone."
        draft.find(
            "groups.confirmed",
            "low",
            text.strip() or f"Seen on {data.unit} who took no part in the search.",
            [sizes[item] for item in shown],
            headline=_search_headline(shown[0], sizes[shown[0]], len(confirmed), whom, data.unit),
            how_sure=f"{lead} and {len(confirmed)} held on the others, after Holm's correction.",
            system=name,
        )


def _search_headline(item: Discovery, size: Estimate, confirmed: int, whom: str, unit: str) -> str:
    """Return the answer of the search: how many groups held, and the one that stands out most."""
    group = spoken(item.group, unit)
    if item.against == PARTS:
        return fitting(
            f"{group} get {span(size)} times the errors that their parts lead to expect{whom}.",
            f"{group} get {span(size)} times the errors expected of their parts{whom}.",
            f"{item.group.count('&') + 1} attributes crossed give {span(size)} times the errors expected{whom}.",
        )
    rest = f"; {confirmed - 1} more found" if confirmed > 1 else ""
    get = f"{group} get {'more' if item.more else 'fewer'} errors than"
    lead = f"{get} others{whom}, by {size_words(size)}"
    together = f"{get} all others together{whom}, by {size_words(size)}"
    return fitting(
        f"{together}{rest}.",
        f"{lead}{rest}.",
        f"{lead}.",
        f"A group differs from others{whom}, by {size_words(size)}{rest}.",
    )


def _distance(estimate: Estimate) -> float:
    return abs(math.log(estimate.value)) if estimate.name == "intersection_ratio" else abs(estimate.value)


def _stands_out(item: Discovery, size: Estimate, unit: str) -> str:
    if item.against == PARTS:
        return f"{spoken(item.group, unit)} {span(size)} times the errors"
    return f"{spoken(item.group, unit)} {'more' if item.more else 'fewer'}, by {size_words(size)}"


def find_systems(draft: Draft, counts: Counts) -> None:
    """Add findings on differences of other systems to the first in rates and gaps, as one family of tests."""
    systems, alpha = counts.data.systems, 1 - counts.level
    for system in range(1, len(systems)):
        where = counts.where(system)
        rate = draft.get("system_difference", **where, against=systems[0], group=ALL)
        p = p_of_change(draft, where, group=ALL)
        if rate is None or p is None:
            continue
        evidence, tests = [rate, p], [f"errors of all, p {p_words(p.value)}"]
        changed: list[Estimate] = []
        unclear: list[str] = []
        for by in [comparison.by for comparison in counts.comparisons]:
            p = p_of_change(draft, where, by=by)
            if p is None:
                continue
            (change,) = draft.select("gap_difference", **where, by=by)
            evidence += [change, p]
            tests.append(f"gap by {by}, p {p_words(p.value)}")
            if p.value < alpha:
                changed.append(change)
            else:
                unclear.append(by)
        differs = evidence[1].value < alpha
        draft.find(
            "groups.system",
            "info",
            " ".join(_changes(draft, counts, system, changed, unclear)),
            evidence,
            headline=_system_headline(systems[system], systems[0], rate, differs),
            how_sure=f"On the same clips, Student's t paired over {counts.data.unit}; Holm over all that is compared "
            f"between systems: {'; '.join(tests)}.",
            system=systems[system],
        )


def _system_headline(name: str, first: str, rate: Estimate, differs: bool) -> str:
    if differs:
        return f"{name} makes {'more' if rate.value > 0 else 'fewer'} errors than {first}, by {size_words(rate)}."
    if rate.above(0) or rate.below(0):
        return f"A difference in errors between {name} and {first}, {span(rate)}, may be chance."
    return f"No difference in errors is shown between {name} and {first}: {span(rate)}."


def _changes(
    draft: Draft, counts: Counts, system: int, changed: Sequence[Estimate], unclear: Sequence[str]
) -> list[str]:
    """Return the sentences on gaps that differ from those of the first system, and on those of which it is open."""
    sentences = []
    largest = sorted(changed, key=lambda change: -abs(change.value))
    for change in largest[:MOST_CHANGES]:
        group, reference = (str(change.where[key]) for key in ("group", "reference"))
        pair = f"{levels_of(group)} and {spoken(reference, counts.data.unit)}"
        here, there = (_between(draft, counts, at, change) for at in (system, 0))
        sentences.append(f"Between {pair} its rates differ by {here} and not by {there}: a change of {span(change)}.")
    if len(largest) > MOST_CHANGES:
        sentences.append(f"So do gaps by {first_of([str(one.where['by']) for one in largest[MOST_CHANGES:]], 3)}.")
    if unclear:
        sentences.append(f"Whether its gap by {' or '.join(unclear[:3])} is another could not be told.")
    return sentences or ["No gap could be compared."]


def _between(draft: Draft, counts: Counts, system: int, change: Estimate) -> str:
    """Return the difference of the rates of the two groups of a change, for one system."""
    worst, best = (
        draft.row("rate", **counts.where(system, group=str(change.where[key]))) for key in ("group", "reference")
    )
    return written(worst.value - best.value, decimals(change))


def find_columns(draft: Draft, inputs: Inputs, options: Options) -> None:
    """Add the finding on how each column was read, so that a misread one is not blamed on a model."""
    read = columns_of(inputs, options)
    mapped = [*inputs.manifest.preview(without=(*options.by, *options.control))[:1], *inputs.read_as]
    text = f"{' '.join(mapped)} Compared: {'; '.join(read['by'])}."
    if read["control"]:
        text += f" Controls: {'; '.join(read['control'])}."
    draft.find("groups.columns", "info", text, headline="Each column was read as follows.")
