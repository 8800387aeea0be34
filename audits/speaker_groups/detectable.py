"""The gaps that a run could show with these speakers, by attribute, before the groups are compared.

How much speakers vary is taken from all of them together, whichever group they are of, so that nothing is told of the
gap itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from audits.core.context import Context, Plan
from audits.core.detectable import Detectable
from audits.core.groups import MIN_WORDS
from audits.group_rates.detectable_gaps import Design, corrected_words, least_gaps, left_out
from audits.speaker_groups import Options
from audits.speaker_groups.clips import Inputs, levels_of
from audits.speaker_groups.counts import MetricCounts, Utterances
from audits.speaker_groups.gaps import Comparison, compare
from audits.speaker_groups.measure import given, useful
from audits.statistics import Contrast, Family, enough_permutations, generator
from audits.statistics.group_sums import Floats
from audits.statistics.rate_power import Law, law_of
from probes.speech.word_errors import count_edits

MOST_TEXTS = 200_000
"""Transcripts that are scored for it: about three seconds; of more, those of some speakers, drawn at random."""
SHUFFLES = 400
"""Shuffled labels from which the gap that they ask for is estimated."""
MOST_SHUFFLED = 4e7
"""Speakers times groups times shuffles from which on labels are not shuffled: then joint intervals decide."""


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least gaps of the hardest and the easiest pair of groups of every attribute."""
    inputs, _ = useful(plan.inputs)
    scored = _utterances(_some(inputs, context.seed), options.metric)
    whole = len(scored.speakers) == len(inputs.clips)
    data = scored if whole else _sizes_alone(inputs, options.metric)
    tests = len(data.singles()) * len(data.systems)
    shuffles = enough_permutations(min(options.permutations, SHUFFLES), tests, context.level)
    laws, found = _laws(scored), list[Detectable]()
    for groups in data.singles():
        if len(groups.names) > 1:
            fewer = replace(options, permutations=shuffles)
            comparison = compare(data, data.counts[0], groups, fewer, seed=context.seed, level=context.level)
            asked = _Asked(
                comparison=comparison,
                options=options,
                chance=(1 - context.level) / max(tests, 1),
                tests=tests,
                shuffle=whole,
            )
            found += asked.gaps(data, laws, len(np.unique(scored.speakers)))
    return tuple(found)


def _some(inputs: Inputs, seed: int) -> Inputs:
    """Return the inputs of as many speakers, drawn at random, as can be scored quickly."""
    texts = len(inputs.clips) * len(inputs.systems)
    if inputs.counted or texts <= MOST_TEXTS:
        return inputs
    order = generator(seed, "speakers of a dry run").permutation(int(inputs.speakers.max()) + 1)
    reached = np.cumsum(np.bincount(inputs.speakers, minlength=len(order))[order]) * len(inputs.systems)
    kept = np.isin(inputs.speakers, order[: max(int(np.searchsorted(reached, MOST_TEXTS)), 2)])
    chosen = np.flatnonzero(kept)
    return replace(
        inputs,
        clips=inputs.clips.take(chosen),
        texts={name: [rows[at] for at in chosen.tolist()] for name, rows in inputs.texts.items()},
        references=[inputs.references[at] for at in chosen.tolist()],
        speakers=inputs.speakers[kept],
        sets=tuple(replace(groups, member=groups.member[kept]) for groups in inputs.sets),
    )


def _utterances(inputs: Inputs, metric: str) -> Utterances:
    """Return the clips with the counts of the tested rate."""
    if inputs.counted:
        return _clips(inputs, given(inputs)[0])
    normaliser = inputs.normaliser
    unit: Literal["word", "character"] = "word" if metric == "wer" else "character"
    references = [text or "" for text in inputs.references]
    edits = [
        count_edits(
            references,
            normaliser.all([text or "" for text in inputs.texts[system]]),
            unit,
            compounds=normaliser.compounds,
        )
        for system in inputs.systems
    ]
    errors, hits = (
        np.stack([getattr(one, name) for one in edits], axis=1).astype(np.float64) for name in ("errors", "hits")
    )
    return _clips(inputs, _counted(metric, errors, hits, edits[0].lengths.astype(np.float64)))


def _sizes_alone(inputs: Inputs, metric: str) -> Utterances:
    """Return the clips with the sizes of their references, and no error."""
    references = (text or "" for text in inputs.references)
    sizes = np.array([len(text.split()) if metric == "wer" else len(text) for text in references], dtype=np.float64)
    none = np.zeros((len(sizes), len(inputs.systems)))
    return _clips(inputs, _counted(metric, none, none, sizes))


def _counted(metric: str, errors: Floats, hits: Floats, sizes: Floats) -> MetricCounts:
    return MetricCounts(metric=metric, errors=errors, hits=hits, sizes=sizes, parts={})


def _clips(inputs: Inputs, counts: MetricCounts) -> Utterances:
    return Utterances(
        systems=inputs.systems,
        counts=(counts,),
        speakers=inputs.speakers,
        attributes=levels_of(inputs.clips),
        controls={},
        sets=inputs.sets,
        unit=inputs.unit,
    )


def _laws(data: Utterances) -> list[Law]:
    """Return what a speaker's errors vary by, of each system."""
    counts = data.counts[0]

    def total(values: Floats) -> Floats:
        return np.bincount(data.speakers, values).astype(np.float64)

    sizes = total(counts.sizes)
    return [law_of(total(errors), sizes) for errors in counts.errors.T]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked of an attribute: its comparison, and the chance of an error that correction leaves to each test."""

    comparison: Comparison
    options: Options
    chance: float
    tests: int
    shuffle: bool

    @property
    def what(self) -> str:
        rate = "WER" if self.comparison.counts.metric == "wer" else "CER"
        return f"gap in {rate} by {self.comparison.by}"

    def gaps(self, data: Utterances, laws: Sequence[Law], scored: int) -> list[Detectable]:
        """Return the gaps of the system with which they are hardest to show, and the groups that are not compared."""
        found = list[Detectable]()
        if self.comparison.compared:
            each = []
            for system, law in enumerate(laws):
                of_system = f" by {data.systems[system]}" if len(laws) > 1 else ""
                each.append(least_gaps(self._design(system, law, f"{scored:,} {data.unit}{of_system}"), law))
            hardest = max(each, key=_hardest)
            found += hardest
        return found + self._left_out(data)

    def _design(self, system: int, law: Law, seen: str) -> Design:
        """Return what the declared test compares, as `Comparison.p_of` does."""
        comparison, worst = self.comparison, self.options.hypothesis == "worst-group"
        named = "=" in comparison.reference
        others = worst and comparison.reference == "overall"
        family: Family = "reference" if named else "others" if others else "pairs"
        assuming = f"the spread of all {seen} together, alike in both groups, at a rate of {law.rate:.2g}"
        if self.options.hypothesis == "conditional":
            assuming += ", before anything else is held fixed"
        if comparison.overlapping:
            assuming += f", as if no {comparison.unit} were in both"
        return Design(
            what=self.what,
            names=comparison.names,
            sizes=comparison.sums.sizes,
            family=family,
            reference=comparison.names.index(comparison.reference) if named else None,
            one_sided=worst and family != "pairs",
            chance=self.chance,
            least=self._asked_by_shuffles(system, family, worst=worst),
            unit=comparison.unit,
            fewest=self.options.min_speakers,
            assuming=assuming + corrected_words(self.tests),
        )

    def _asked_by_shuffles(self, system: int, family: Family, *, worst: bool) -> float:
        """Return the standard errors that shuffled labels ask of a gap; they tell nothing of the real ones."""
        comparison, conditional = self.comparison, self.options.hypothesis == "conditional"
        work = comparison.sums.sizes.size * comparison.permutations
        if not self.shuffle or conditional or work > MOST_SHUFFLED:
            return 0.0
        contrast: Contrast = family
        if worst and family != "pairs":
            contrast = "above_reference" if family == "reference" else "above"
        return float(np.quantile(comparison.chance.shuffled[contrast][:, system], 1 - self.chance))

    def _left_out(self, data: Utterances) -> list[Detectable]:
        comparison, groups = self.comparison, self.comparison.groups
        left = [at for at, name in enumerate(groups.names) if name not in comparison.names]
        if not left:
            return []
        people = [len(np.unique(data.speakers[groups.member == at])) for at in left]
        why = f"compared are groups of {self.options.min_speakers} {data.unit} and {MIN_WORDS} words or more"
        names = [groups.names[at] for at in left]
        return [left_out(self.what, names, people, why, data.unit, self.options.min_speakers)]


def _hardest(gaps: Sequence[Detectable]) -> float:
    effect = gaps[0].effect
    return math.inf if effect is None else effect
