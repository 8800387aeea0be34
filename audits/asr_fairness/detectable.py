"""The gaps that a run could show with these speakers, by task and attribute, before an encoder runs.

Nothing has erred yet: rates and their spread between speakers are those of the worlds in which the intervals of this
audit are calibrated.
"""

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import METRICS, TASK_WORDS
from audits.asr_fairness.data_warnings import enrolled_speakers
from audits.asr_fairness.frame_sample import trials_of
from audits.asr_fairness.recordings import Inputs
from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.groups import MIN_WORDS, GroupSet
from audits.group_rates.detectable_gaps import Design, corrected_words, least_gaps, left_out
from audits.statistics.group_sums import Floats
from audits.statistics.rate_power import Law
from probes.speech.vocabularies import Vocabulary

RATE, SPREAD = 0.25, 0.14
"""Error rate that is taken as given, and the standard deviation of the speakers' own: those of a beta(2, 6)."""
_WORDS = {"error": "error", "wer": "WER"}


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return for each task the least gaps of the hardest and the easiest pair of groups of every attribute."""
    found: list[Detectable] = []
    for task in options.tasks:
        found += _of_task(plan.inputs, options, task, context.level)
    return tuple(found)


def _of_task(inputs: Inputs, options: Options, task: str, level: float) -> list[Detectable]:
    metric = METRICS[task][0]
    sizes, speakers = _trials(inputs, options, metric)
    tables = {groups.by: _by_speaker(groups, sizes, speakers) for groups in inputs.sets}
    compared = {by: _enough(table, options, metric) for by, table in tables.items()}
    judged = 2 if task == "asr" and isinstance(inputs.vocabulary, Vocabulary) else 1
    tests = max(judged * sum(int(enough.sum() > 1) for enough in compared.values()), 1)
    found = []
    for groups in inputs.sets:
        if "&" not in groups.by and len(groups.names) > 1:
            what = f"gap in {_WORDS[metric]} of {TASK_WORDS[task]} by {groups.by}"
            found += _of_attribute(what, groups, tables[groups.by], compared[groups.by], options, tests, level)
    return found


def _trials(inputs: Inputs, options: Options, metric: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return the trials of each clip, 0 where it takes no part, and the number of its speaker."""
    enrolled = enrolled_speakers(inputs.recordings, options)
    number = {name: at for at, name in enumerate(sorted({item.speaker for item in inputs.recordings}))}
    if metric == "error":
        trials = np.array([float(item.speaker in enrolled) for item in inputs.recordings])
    else:
        trials = trials_of(inputs, metric)
    return trials, np.array([number[item.speaker] for item in inputs.recordings], dtype=np.int64)


def _by_speaker(groups: GroupSet, trials: Floats, speakers: NDArray[np.int64]) -> Floats:
    table = np.zeros((int(speakers.max(initial=-1)) + 1, len(groups.names)))
    inside = groups.member >= 0
    np.add.at(table, (speakers[inside], groups.member[inside]), trials[inside])
    return table


def _enough(table: Floats, options: Options, metric: str) -> NDArray[np.bool_]:
    words = table.sum(axis=0) >= (0 if metric == "error" else MIN_WORDS)
    enough: NDArray[np.bool_] = words & ((table > 0).sum(axis=0) >= options.min_speakers)
    return enough


def _of_attribute(
    what: str,
    groups: GroupSet,
    table: Floats,
    enough: NDArray[np.bool_],
    options: Options,
    tests: int,
    level: float,
) -> list[Detectable]:
    found = []
    if enough.sum() > 1:
        design = Design(
            what=what,
            names=[groups.names[at] for at in np.flatnonzero(enough)],
            sizes=table[:, enough],
            chance=(1 - level) / tests,
            fewest=options.min_speakers,
            assuming=f"an error rate of {RATE:g} that varies by {SPREAD:g} between speakers{corrected_words(tests)}",
        )
        found = least_gaps(design, Law(rate=RATE, between=SPREAD**2))
    left = np.flatnonzero(~enough).tolist()
    if left:
        people = (table > 0).sum(axis=0)
        why = f"compared are groups of {options.min_speakers} speakers or more"
        names = [groups.names[at] for at in left]
        found.append(left_out(what, names, [int(people[at]) for at in left], why, "speakers", options.min_speakers))
    return found
