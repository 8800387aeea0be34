"""What may be concluded from all of this in plain words, and what may not?"""

from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import percent
from audits.speaker_groups import Options
from audits.speaker_groups.columns import PROFILES
from audits.speaker_groups.counts import METRIC_WORDS, Utterances
from audits.speaker_groups.wording import many

if TYPE_CHECKING:
    from audits.speaker_groups.report import Results

HYPOTHESIS_WORDS = {
    "parity": "the groups of an attribute err alike",
    "worst-group": "no group of an attribute errs more than what it is compared with",
    "conditional": "the groups of an attribute err alike once everything else is held fixed",
}


def conclude(draft: Draft, data: Utterances, results: "Results", options: Options, context: Context) -> None:
    """Add the closing paragraph: what was declared, what it rests on, what may and what may not be said."""
    verdicts = results.verdicts
    if not verdicts:
        return
    rejected = [verdict for verdict in verdicts if verdict.found]
    spurious = sorted({rung.attribute for rung in results.adjusted.rungs if rung.spurious})
    may = [
        f"Declared was that {HYPOTHESIS_WORDS[options.hypothesis]}, in {METRIC_WORDS[options.metric]}: rejected in "
        f"{len(rejected)} of {len(verdicts)} tests, with at most a {percent(1 - context.level)} chance of any false "
        "one among them."
    ]
    confirmed = [item for item in results.search.found if item.confirmed]
    if confirmed:
        may.append(
            f"{many(len(confirmed), 'group was', 'groups were')} found by search and confirmed on other {data.unit}: "
            "that may be said, as may the size seen on those who confirmed."
        )
    may_not = ["What is only in the tables was not tested: it may be looked at, and not reported as found."]
    if spurious:
        named = ", ".join(spurious)
        may_not.append(
            f"A difference by {named} marked as spurious is there for the people concerned, but goes with what else "
            f"differs between them; that {named} itself makes it must not be said."
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
        f"What may be concluded. {' '.join(may)} What may not. {' '.join(may_not)}",
        [at for verdict in verdicts for at in verdict.evidence],
    )
