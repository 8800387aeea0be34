"""The counts of the audit: errors in words and characters of each system, and the comparisons from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.core.groups import GroupSet
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups import METRICS, Options
from audits.speaker_groups.adjusting import Adjustment, Rung, adjust_gaps
from audits.speaker_groups.clips import Inputs, levels_of
from audits.speaker_groups.columns import WORDS
from audits.speaker_groups.confusions import MOST_KEPT, Confusion, most_frequent
from audits.speaker_groups.counts import PARTS, Cohort, Floats, MetricCounts, Utterances, cohort_of
from audits.speaker_groups.discovery import Search, search
from audits.speaker_groups.gaps import Comparison, compare
from audits.speaker_groups.hypotheses import Verdict, verdicts_of
from audits.speaker_groups.rates import small_groups
from audits.statistics import enough_permutations, generator
from probes.core.progress import Progress
from probes.files.cells import BLOCK
from probes.speech.word_edits import WordAligner, WordEdits
from probes.speech.word_errors import EditTotals, count_edits, joined_totals

MANY_GROUPS = 400
"""Groups of one crossing from which on those of too few speakers are not listed."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts, and the comparisons, models and tests from them, each computed once on demand.

    Parameters
    ----------
    options
        With as many permutations as the declared tests need.
    dropped
        How many groups of too few speakers are not listed, by crossing.
    confusions
        The words that are most often taken for others, by system; empty where there are only counts.
    """

    options: Options
    inputs: Inputs
    data: Utterances
    seed: int
    level: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    confusions: tuple[tuple[Confusion, ...], ...] = ()

    @property
    def tested(self) -> MetricCounts:
        """The counts of the tested rate."""
        return self.data.of(self.options.metric)

    def where(self, system: int, **more: str) -> dict[str, str]:
        """Return the coordinates of a number of one system in the tested rate."""
        return self.data.where(self.tested, system, **more)

    @cached_property
    def cohort(self) -> Cohort:
        """The bootstrap samples and the groups that get a rate."""
        return cohort_of(self.data, self.options.bootstrap, generator(self.seed, "bootstrap"))

    @cached_property
    def small(self) -> Mapping[str, int]:
        """Groups of too few speakers or words, with their speakers."""
        return small_groups(self.data, self.cohort)

    @cached_property
    def considered(self) -> tuple[Comparison, ...]:
        """Every attribute and crossing in the tested rate, also those with nothing to compare."""
        return tuple(
            compare(self.data, counts, groups, self.options, seed=self.seed, level=self.level)
            for counts in self.data.counts
            for groups in self.data.sets
            if "&" not in groups.by or counts is self.tested
        )

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons in the tested rate."""
        return tuple(item for item in self.considered if item.compared and item.counts is self.tested)

    @cached_property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """The adjusted models, by system."""
        return adjust_gaps(self.data, self.tested, self.comparisons, self.options, self.level)

    @property
    def rungs(self) -> list[Rung]:
        """Every pair of levels compared before and after adjusting, of all systems."""
        return [rung for adjustment in self.adjustments for term in adjustment.terms for rung in term.rungs]

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The tests of the declared hypothesis, by attribute and system."""
        return verdicts_of(self.data, self.comparisons, self.adjustments, self.options.hypothesis, self.level)

    @cached_property
    def searches(self) -> tuple[Search, ...]:
        """The search for groups, by system."""
        return search(self.data, self.tested, self.options, seed=self.seed, level=self.level)


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Align every transcript with its reference, or take the counts of the manifest."""
    inputs, dropped = useful(inputs)
    counts, confusions = (given(inputs), ()) if inputs.counted else _aligned(inputs, context.progress)
    controls = dict(inputs.controls)
    if WORDS in controls and not controls[WORDS]:
        controls[WORDS] = tuple(counts[0].sizes.tolist())
    data = Utterances(
        systems=inputs.systems,
        counts=tuple(counts),
        speakers=inputs.speakers,
        attributes=levels_of(inputs.clips),
        controls=controls,
        sets=inputs.sets,
        unit=inputs.unit,
    )
    found = counts_of(data, inputs, options, seed=context.seed, level=context.level, dropped=dropped)
    return replace(found, confusions=tuple(confusions))


def counts_of(
    data: Utterances,
    inputs: Inputs,
    options: Options,
    *,
    seed: int,
    level: float,
    dropped: Mapping[str, int] | None = None,
) -> Counts:
    """Return the counts of clips, with enough permutations for the declared tests."""
    tests = len(data.singles()) * len(data.systems)
    options = replace(options, permutations=enough_permutations(options.permutations, tests, level))
    return Counts(options=options, inputs=inputs, data=data, seed=seed, level=level, dropped=dropped or {})


def _aligned(inputs: Inputs, progress: Progress) -> tuple[list[MetricCounts], Sequence[tuple[Confusion, ...]]]:
    """Return the counts of both metrics, and the most frequent confusions of each system."""
    found: dict[str, list[EditTotals]] = {metric: [] for metric in METRICS}
    confusions = []
    most = max(1, MOST_KEPT // len(inputs.systems))
    with progress.phase("Aligning transcripts", len(inputs.systems), "systems") as advance:
        for system in inputs.systems:
            words, characters, edits = _aligned_system(inputs, system)
            found["wer"].append(words)
            found["cer"].append(characters)
            confusions.append(most_frequent(edits, inputs.references, most))
            advance(1)
    return [_joined(metric, totals) for metric, totals in found.items()], confusions


def _aligned_system(inputs: Inputs, system: str) -> tuple[EditTotals, EditTotals, WordEdits]:
    """Return the counts of a system's edits in words and in characters, and those in words one by one."""
    normaliser = inputs.normaliser
    aligner = WordAligner(compounds=normaliser.compounds)
    words, characters = [], []
    pairs = zip(inputs.references, inputs.texts[system], strict=True)
    # Some at a time: of a million clips neither transcripts nor their alignments are held.
    while block := list(islice(pairs, BLOCK)):
        references = [reference or "" for reference, _ in block]
        transcripts = normaliser.all([text or "" for _, text in block])
        words.append(aligner.add(references, transcripts))
        characters.append(count_edits(references, transcripts, "character", compounds=normaliser.compounds))
    return joined_totals(words), joined_totals(characters), aligner.edits()


def _joined(metric: str, totals: Sequence[EditTotals]) -> MetricCounts:
    def stacked(name: str) -> Floats:
        return np.stack([getattr(total, name) for total in totals], axis=1).astype(np.float64)

    return MetricCounts(
        metric=metric,
        errors=stacked("errors"),
        hits=stacked("hits"),
        sizes=totals[0].lengths.astype(np.float64),
        parts={part: stacked(f"{part}s") for part in PARTS},
    )


def given(inputs: Inputs) -> list[MetricCounts]:
    """Return the counts of a manifest that holds counts of errors and words."""
    rows = list(inputs.counted.values())
    errors, sizes = np.stack([row["errors"] for row in rows], axis=1), rows[0]["words"]
    parts = {}
    if all(part in row for row in rows for part in PARTS):
        parts = {part: np.stack([row[part] for row in rows], axis=1) for part in PARTS}
    # Of a mere sum of errors it is not known which are insertions: as many words went wrong as can have.
    wrong = parts["substitution"] + parts["deletion"] if parts else np.minimum(errors, sizes[:, None])
    return [MetricCounts(metric="wer", errors=errors, hits=sizes[:, None] - wrong, sizes=sizes, parts=parts)]


def useful(inputs: Inputs) -> tuple[Inputs, dict[str, int]]:
    """Return the inputs without uninformative crossings, and the number of dropped groups of crossings.

    Crossings with an attribute of one known level show nothing new. Of a crossing with very many groups, those of too
    few speakers to be reported are only counted.
    """
    constant = {groups.by for groups in inputs.sets if "&" not in groups.by and len(groups.names) < 2}
    kept, dropped = [], {}
    for groups in inputs.sets:
        if "&" in groups.by and constant & set(groups.by.split("&")):
            continue
        if "&" in groups.by and len(groups.names) > MANY_GROUPS:
            found = _of_enough(groups, inputs.speakers)
            dropped[groups.by] = len(groups.names) - len(found.names)
            groups = found
        kept.append(groups)
    return replace(inputs, sets=tuple(kept)), dropped


def _of_enough(groups: GroupSet, speakers: NDArray[np.int64]) -> GroupSet:
    pairs = np.unique(np.stack([groups.member, speakers], axis=1)[groups.member >= 0], axis=0)
    people = np.bincount(pairs[:, 0], minlength=len(groups.names))
    chosen = np.flatnonzero(people >= MIN_REPORTED)
    number = np.full(len(groups.names) + 1, -1)
    number[chosen] = np.arange(len(chosen))
    # The last place of `number` serves those outside all groups.
    return GroupSet(by=groups.by, names=tuple(groups.names[at] for at in chosen), member=number[groups.member])
