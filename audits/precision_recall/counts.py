"""The counts of the audit, and differences of scores with p-values corrected over their family.

One family holds everything by which a candidate may be said to fall short of the reference: its four scores against
the ceiling (or relabelled texts, where there is none) and the likeness of its texts in words, for all candidates. Of
equal texts a run says so in at most 1 less the level, however many scores and candidates it has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Coordinate, Subject, Warning
from audits.precision_recall.clustering import CURVES, Clustered
from audits.precision_recall.intervals import CLIPPED, defined
from audits.precision_recall.pools import Pool
from audits.precision_recall.relabelling import Relabelled
from audits.precision_recall.sequences import Sequences
from audits.precision_recall.sides import ASKED, CEILING, FLOOR, FLOORED, REFERENCE, RELABELLED, Inputs
from audits.precision_recall.tallies import Comparison
from audits.statistics import adjust
from audits.statistics.halves import Halved, halved
from probes.vectors.support_metrics import METRICS

COMPARED = (*METRICS, "mauve")
"""Scores of which differences are taken."""
WORDS = "self_bleu"
"""The score of words: it knows no neighbours, and is compared with the reference alone."""
SHORTFALL = "shortfall"
POWER = 0.8
"""Share of runs in which a difference said to be detectable is shown."""
GROUPED = 0.01
"""Share of points whose balls jump in width in halves of a draw, from which no difference is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A set of texts with what describes it.

    Parameters
    ----------
    texts
        None where only their embeddings are known.
    places, words
        Where in its file each text stands, and how many words it has.
    shortened
        How many texts were cut.
    """

    name: str
    pool: Pool
    texts: tuple[str, ...] | None
    places: NDArray[np.int64]
    words: NDArray[np.int64]
    shortened: int
    sequences: Sequences | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The score of a candidate less that of another, or less a bound.

    Parameters
    ----------
    k
        None where the score knows no neighbours.
    p, adjusted, questions
        The p-value, the same corrected for the questions of its family, and how many these are.
    """

    metric: str
    candidate: str
    against: str
    k: int | None
    value: Halved
    size: int
    p: float
    adjusted: float = 1.0
    questions: int = 1

    @property
    def family(self) -> str:
        """The family in which p-values are corrected together."""
        if self.metric == WORDS or (self.metric in ASKED and self.against in (CEILING, RELABELLED)):
            return SHORTFALL
        return f"{self.against if self.against in (CEILING, FLOOR) else 'pairs'} {self.metric}"

    @property
    def where(self) -> dict[str, Coordinate]:
        """Its keys in the table."""
        return {"candidate": self.candidate, "against": self.against, "metric": self.metric} | (
            {} if self.k is None else {"k": self.k}
        )

    def detectable(self, alpha: float) -> float:
        """Return the difference detected with probability `POWER` if its p-value is the smallest of its family."""
        from scipy.stats import t

        freedom = len(self.value.gaps)
        # One quantile to be shown at Holm's first step, and one to be so with this power.
        wide = float(t.isf(alpha / (2 * self.questions), freedom) + t.isf(1 - POWER, freedom))
        return wide * self.value.error()


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts against the reference, and at the size at which the reference is compared with itself.

    Parameters
    ----------
    sets
        Every set as it is described, the reference first and the floor last.
    controls
        The candidates and the controls at that size; it is `main` where both sizes are one.
    relabelled
        What stands in for the ceiling where the reference has too few texts for one, by candidate; None where too few
        of its texts differ.
    subject, warnings
        Where texts were sampled: the model with its parameters, and what is to be said of the inputs since.
    """

    inputs: Inputs
    sets: Mapping[str, Texts]
    main: Mapping[str, Comparison]
    controls: Mapping[str, Comparison]
    clusters: Mapping[str, Clustered]
    relabelled: Mapping[str, Relabelled | None] = field(default_factory=dict)
    subject: Subject | None = None
    warnings: tuple[Warning, ...] = ()

    @property
    def k(self) -> int:
        """The leading k."""
        return self.inputs.settings.k[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates in their order."""
        return self.inputs.names

    @property
    def benchmark(self) -> str:
        """The benchmark of shortfalls: the ceiling, or relabelled texts where there is none."""
        return CEILING if self.inputs.control else RELABELLED

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The sets whose texts form groups hardly larger than k, for which no difference is reported."""
        shares = {name: one.grouped[self.k] for name, one in self.main.items()}
        found = {name for name, (_, own) in shares.items() if own > GROUPED}
        return frozenset(found | ({REFERENCE} if any(theirs > GROUPED for theirs, _ in shares.values()) else set()))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """All differences at the leading k, each with its p-value, corrected over its family."""
        rows = [*(row for metric in COMPARED for row in _of_metric(metric, self)), *_of_words(self)]
        families: dict[str, list[float]] = {}
        for row in rows:
            families.setdefault(row.family, []).append(row.p)
        adjusted = {family: iter(adjust(ps, "holm")) for family, ps in families.items()}
        return tuple(
            replace(row, adjusted=next(adjusted[row.family]), questions=len(families[row.family])) for row in rows
        )

    def score(self, metric: str, name: str) -> Halved | None:
        """Return a score of a candidate as reported, at the leading k; None where it is not defined."""
        if metric in CURVES:
            return self.clusters[name].score(metric) if name in self.clusters else None
        value = capped(self.main[name].scores[metric, self.k], metric)
        return value if defined(value) else None


def capped(parts: NDArray[np.float64], metric: str) -> Halved:
    """Return a score as reported, clipped to at most 1 where it is a share, so that differences match the table."""
    # The mean over draws first: capped draw by draw, chance above 1 would be cut off and chance below not.
    return halved(np.minimum(parts.mean(1, keepdims=True), 1.0) if metric in CLIPPED else parts)


def _of_metric(metric: str, counts: Counts) -> Iterator[Difference]:
    """Yield the differences of one score: of all pairs of candidates, and of each to its bounds."""
    for number, name in enumerate(counts.names):
        own = counts.score(metric, name)
        for other in counts.names[number + 1 :]:
            value = counts.score(metric, other)
            if own is not None and value is not None:
                size = counts.clusters[name].size if metric == "mauve" else counts.inputs.size
                yield _tested(metric, name, other, counts.k, own - value, size)
        if metric in METRICS:
            yield from _to_controls(metric, name, counts)
        dealt = counts.relabelled.get(name)
        if dealt is not None and metric in ASKED and own is not None:
            yield Difference(
                metric=metric,
                candidate=name,
                against=RELABELLED,
                k=counts.k,
                value=_less_relabelled(own, dealt.mean(metric), dealt.size),
                size=dealt.size,
                p=dealt.p(metric),
            )
    if metric in FLOORED:
        # Whether the encoder tells people's texts from their own words shuffled, before candidates are held to it.
        yield from _to_controls(metric, CEILING, counts)


def _less_relabelled(own: Halved, mean: float, size: int) -> Halved:
    """Return a score less the mean score of sets of one source.

    >>> _less_relabelled(Halved(0.0, np.zeros(2)), 0.9, 88).error() > 0
    True
    """
    if own.error() > 0:
        return Halved(own.value - mean, own.gaps, own.chance)
    # Halves agree where no text, or each, is inside. A mean of relabellings has no halves that could differ, so the
    # error is that of a share which one text more is inside of and one more is not.
    share = (min(own.value, 1.0) * size + 1) / (size + 2)
    return Halved(own.value - mean, own.gaps, share * (1 - share) / size)


def _to_controls(metric: str, name: str, counts: Counts) -> Iterator[Difference]:
    for control in (CEILING, FLOOR):
        if {name, control} <= counts.controls.keys() and name != control:
            own, other = (capped(counts.controls[one].scores[metric, counts.k], metric) for one in (name, control))
            if defined(own) and defined(other):
                yield _tested(metric, name, control, counts.k, own - other, counts.controls[name].size)


def _of_words(counts: Counts) -> Iterator[Difference]:
    """Yield the differences in Self-BLEU of each candidate to the reference."""
    reference = counts.sets[REFERENCE].sequences
    for name in counts.names:
        own = counts.sets[name].sequences
        if own is not None and reference is not None:
            yield _tested(WORDS, name, REFERENCE, None, own.self_bleu - reference.self_bleu, own.size)


def _tested(metric: str, name: str, against: str, k: int | None, value: Halved, size: int) -> Difference:
    return Difference(metric=metric, candidate=name, against=against, k=k, value=value, size=size, p=value.p())
