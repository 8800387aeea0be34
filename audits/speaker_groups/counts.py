"""The counts of every clip: the sufficient statistics of every number of the audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import GroupSet, LevelRows, column_of, reported_groups
from audits.core.intervals import Interval
from audits.statistics import MaybeEnds, SpeakerSums, cluster_counts, sum_by_speaker

Floats = NDArray[np.float64]
PARTS = ("substitution", "deletion", "insertion")
MANY_LEVELS = 30
"""Levels of a column from which on little can be said of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCounts:
    """Counts of one metric; arrays of shape (clips, systems), sizes of (clips,).

    Parameters
    ----------
    hits
        Units of the reference that were transcribed right.
    parts
        Substitutions, deletions and insertions by name; empty where only their sum is known.
    sizes
        Words or characters of the reference.
    """

    metric: str
    errors: Floats
    hits: Floats
    sizes: Floats
    parts: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterances:
    """The clips as statistics see them: speakers, groups and counts.

    Parameters
    ----------
    systems
        Names of the recognisers, in the order given.
    speakers
        Speaker number of each clip, shape (clips,).
    attributes
        Level of every attribute by clip.
    controls
        Values of every control column by clip: numbers, or words for levels; None where there is none.
    sets
        The groups of every attribute and crossing.
    unit
        What a cluster is: "speakers", or "speaker profiles" where nobody's name is known.
    """

    systems: tuple[str, ...]
    counts: tuple[MetricCounts, ...]
    speakers: NDArray[np.int64]
    attributes: Sequence[Mapping[str, str]]
    controls: Mapping[str, Sequence[float | str | None]]
    sets: tuple[GroupSet, ...]
    unit: str = "speakers"

    def labels(self, attribute: str) -> NDArray[np.str_]:
        """Return the level of an attribute by clip, shape (clips,)."""
        found = column_of(self.attributes, attribute)
        return np.array(found.levels, dtype=np.str_)[found.codes]

    def ranks(self, attribute: str) -> NDArray[np.int64]:
        """Return the place of each clip's level in the order of the alphabet, shape (clips,)."""
        found = column_of(self.attributes, attribute)
        order = np.argsort(np.array(found.levels, dtype=np.str_), kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[found.codes]

    def interval(self, ends: MaybeEnds, method: str, n: int) -> Interval:
        """Return an interval record over so many speakers from value, low and high, and its method."""
        value, low, high = ends
        return Interval(value=value, low=low, high=high, method=method, n=n, unit=self.unit)

    def where(self, counts: MetricCounts, system: int, **more: str) -> dict[str, str]:
        """Return the coordinates of a number of one system and metric."""
        return {"system": self.systems[system], "metric": counts.metric, **more}

    @property
    def people(self) -> int:
        """Number of speakers."""
        return int(self.speakers.max(initial=-1)) + 1

    def of(self, metric: str) -> MetricCounts:
        """Return the counts of a metric."""
        return next(counts for counts in self.counts if counts.metric == metric)

    def only(self, speakers: NDArray[np.bool_]) -> "Utterances":
        """Return the clips of some speakers, with speaker numbers unchanged."""
        kept = speakers[self.speakers]
        chosen = np.flatnonzero(kept)
        rows = self.attributes
        attributes = rows.take(chosen) if isinstance(rows, LevelRows) else [rows[at] for at in chosen.tolist()]
        counts = tuple(
            replace(
                counts,
                errors=counts.errors[kept],
                hits=counts.hits[kept],
                sizes=counts.sizes[kept],
                parts={name: part[kept] for name, part in counts.parts.items()},
            )
            for counts in self.counts
        )
        return replace(
            self,
            counts=counts,
            speakers=self.speakers[kept],
            attributes=attributes,
            controls={name: [values[at] for at in chosen.tolist()] for name, values in self.controls.items()},
            sets=tuple(replace(groups, member=groups.member[kept]) for groups in self.sets),
        )

    def singles(self) -> list[GroupSet]:
        """Return the groups of single attributes."""
        return [groups for groups in self.sets if "&" not in groups.by]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The bootstrap samples of speakers, and the membership of groups.

    `weights`, (repeats, speakers), are the same for all systems and groups, so that differences stay paired;
    `member` has the shape (groups, clips).
    """

    weights: NDArray[np.unsignedinteger[Any]]
    names: list[str]
    member: NDArray[np.bool_]


def cohort_of(data: Utterances, repeats: int, rng: np.random.Generator) -> Cohort:
    """Draw the bootstrap samples and list the groups."""
    names, member = reported_groups(data.attributes, data.sets)
    return Cohort(weights=cluster_counts(data.people, repeats, rng), names=names, member=member)


def sums_of(data: Utterances, counts: MetricCounts, member: NDArray[np.bool_]) -> SpeakerSums:
    """Sum a metric over the clips of every speaker in every group."""
    return sum_by_speaker(counts.errors, counts.hits, counts.sizes, data.speakers, member)
