"""The closing paragraph: what may and what may not be concluded, in plain words."""

from audits.core.context import Draft
from audits.core.numbers import percent
from audits.core.wording import many
from audits.group_rates import METRIC_WORDS
from audits.speaker_groups.columns import PROFILES
from audits.speaker_groups.measure import Counts

MOST_NAMED = 6
HYPOTHESIS_WORDS = {
    "parity": "the groups of an attribute err alike",
    "worst-group": "no group of an attribute errs more than what it is compared with",
    "conditional": "the groups of an attribute err alike once everything else is held fixed",
}


def conclude(draft: Draft, counts: Counts) -> None:
    """Add the closing paragraph: the hypothesis, its basis, and what may and may not be concluded."""
    data, options, verdicts = counts.data, counts.options, counts.verdicts
    if not verdicts:
        return
    rejected = sum(verdict.rejected for verdict in verdicts)
    located = sum(verdict.found for verdict in verdicts)
    some = f" ({located} of them with a difference that can be told)" if located < rejected else ""
    # A pair and its mirror image are one difference.
    pairs = {
        (rung.system, rung.attribute, frozenset((rung.level, rung.reference))): rung
        for rung in reversed(counts.rungs)
        if rung.spurious
    }
    spurious = [
        f"{rung.attribute}={rung.level} against {rung.reference}"
        + (f" ({data.systems[rung.system]})" if len(data.systems) > 1 else "")
        for rung in reversed(pairs.values())
    ]
    may = [
        f"Declared was that {HYPOTHESIS_WORDS[options.hypothesis]}, in {METRIC_WORDS[options.metric]}: rejected in "
        f"{rejected} of {len(verdicts)} tests{some}, with a chance of about {percent(1 - counts.level)} at most of "
        "any false one among them."
    ]
    confirmed = [item for search in counts.searches for item in search.found if item.confirmed]
    if confirmed:
        different = many(len({item.group for item in confirmed}), "group", "different groups")
        may.append(
            f"The search found {different}, where a group may be part of another, and confirmed it on other "
            f"{data.unit}: that may be said, as may the size seen there."
        )
    may_not = ["What is only in the tables was not tested: it may be looked at, and not reported as found."]
    if spurious:
        named = "; ".join(spurious[:MOST_NAMED]) + ("; and others" if len(spurious) > MOST_NAMED else "")
        may_not.append(
            f"Differences called spurious ({named}) are there for the people concerned, but go with what else differs "
            "between them: it must not be said that these levels themselves make them."
        )
    may_not.append(
        "No gap shown does not mean none: see how large a gap could have been missed. No comparison here shows a "
        "cause, and none speaks of recordings of another kind."
    )
    if data.unit == PROFILES:
        may_not.append("Without speakers, how far these people stand for others rests on their profiles alone.")
    draft.find(
        "groups.conclusion",
        "info",
        f"What may be concluded: {' '.join(may)} What may not: {' '.join(may_not)}",
        [row for verdict in verdicts for row in (verdict.row(draft), verdict.p_row(draft))],
    )
