"""Headlines of the findings, and the answer: what may be reported, and what may not."""

from collections.abc import Sequence

from audits.core.context import Claim, Draft
from audits.core.numbers import decimals, written
from audits.core.records import KEY_NUMBERS, SEVERITIES, Estimate
from audits.core.wording import fitting, listed, many, size_words, span
from audits.group_rates.wording import attributes_of, levels_of, spoken
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.values import RANDOM, SYSTEMATIC

MOST_NAMED = 6
ERRORS = ("phonemes.both", f"phonemes.{SYSTEMATIC}", f"phonemes.{RANDOM}")


def error_headline(kind: str, group: str, where: str, row: Estimate, *, elsewhere: bool) -> str:
    """Return the answer on a shown error; `where` names the layer, with a space before, or is empty."""
    who = f"Phones of {spoken(group)}"
    if kind == RANDOM:
        size = f"variance {span(row)} times as large"
        return fitting(f"{who} scatter more{where}: {size}.", f"Phones of a group scatter more: {size}.")
    size = f"systematic error {span(row)}"
    lie = f"lie {'elsewhere' if elsewhere else 'otherwise'}{' and scatter more' if kind == 'both' else ''}"
    return fitting(f"{who} {lie}{where}: {size}.", f"{who} {lie}: {size}.", f"Phones of a group {lie}: {size}.")


def neither_headline(by: str, groups: Sequence[str]) -> str:
    """Return the answer where neither error of some groups is shown."""
    lead, names = "Neither a systematic nor a random error is shown of", [levels_of(group) for group in groups]
    by = attributes_of(groups[0]) or by
    whole = f"{lead} {listed(names)} speakers ({by})."
    some = [
        f"{lead} {', '.join(names[:most])} and {many(len(names) - most, 'more group', 'more groups')} ({by})."
        for most in (3, 2, 1)
        if most < len(names)
    ]
    return fitting(whole, *some, f"{lead} {many(len(groups), 'group', 'groups')}.")


def correlation_headline(row: Estimate, *, shown: bool) -> str:
    """Return the answer on scatter and accuracy over speakers."""
    if not shown:
        return f"No relation of scatter and accuracy over speakers is shown: rank correlation {span(row)}."
    way = "worse" if row.value < 0 else "better"
    return f"Speakers whose phones scatter more are read {way}: rank correlation {span(row)}."


def change_headline(words: str, group: str, change: Estimate) -> str:
    """Return the answer on an error that another encoder changed."""
    way, size = "rose" if change.value > 0 else "fell", size_words(change)
    return fitting(
        f"The {words} of {spoken(group)} {way} in the second encoder, by {size}.",
        f"The {words} of a group {way} in the second encoder, by {size}.",
    )


def conclude(draft: Draft, counts: Counts, best: int) -> None:
    """Set the answer."""
    shown = sorted(
        (claim for claim in draft.findings if claim.id in ERRORS), key=lambda claim: -SEVERITIES.index(claim.severity)
    )
    moved = [claim for claim in draft.findings if claim.id == "phonemes.moved"]
    draft.conclude(
        _title(counts, [*shown, *moved]),
        numbers=[(claim.evidence[0], _words(claim.evidence[0])) for claim in [*shown, *moved][:KEY_NUMBERS]],
        may=_may(counts, shown, moved),
        may_not=_may_not(draft, counts, shown, best),
    )


def _title(counts: Counts, shown: Sequence[Claim]) -> str:
    if shown:
        return shown[0].headline
    if not counts.corpus.groups:
        return "No groups could be compared."
    return f"Neither a systematic nor a random error is shown of {many(len(counts.corpus.groups), 'group', 'groups')}."


def _words(row: Estimate) -> str:
    layer = f", layer {row.where['layer']}" if "layer" in row.where else ""
    return f"{row.measure.label}: {spoken(str(row.where.get('group', 'all')))}{layer}"


def _may(counts: Counts, shown: Sequence[Claim], moved: Sequence[Claim]) -> list[str]:
    options = counts.options
    lines = [claim.headline for claim in [*shown, *moved][:MOST_NAMED]]
    lines.append(
        f"These numbers as those of linear probes, with speakers dealt into {options.folds} parts "
        f"{many(options.repeats, 'time', 'times')}."
    )
    return lines


def _may_not(draft: Draft, counts: Counts, shown: Sequence[Claim], best: int) -> list[str]:
    lines = []
    named = {str(claim.where.get("group")) for claim in shown if claim.id != ERRORS[2]}
    quiet = [group for group in counts.corpus.groups if group not in named]
    rows = [(group, draft.get("systematic_error", layer=best, group=group)) for group in quiet]
    fits = [
        f"{written(row.high, decimals(row))} for {levels_of(group)}"
        for group, row in rows
        if row is not None and row.high is not None and row.high > 0
    ]
    if fits:
        what = "a systematic error of" if len(fits) == 1 else "systematic errors of"
        still = "fits" if len(fits) == 1 else "fit"
        who = "the others" if named else "the groups"
        lines.append(f"That {who} have no systematic error: {what} {listed(fits[:MOST_NAMED])} still {still}.")
    lines += [
        f"Which of the two errors is larger for {spoken(str(claim.where['group']))}."
        for claim in shown[:MOST_NAMED]
        if "could not be told" in claim.statement
    ]
    lines.append("What of a scatter the encoder makes: contexts, rates of speech and recordings are part of it.")
    lines.append("Sizes against groups of other shares of the corpus, or other corpora: they depend on that share.")
    return lines
