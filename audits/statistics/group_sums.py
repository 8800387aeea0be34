"""Sums of errors, hits and trials by speaker and group, from which all comparisons of groups are made."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.statistics.bootstrap import Counts, resampled_sums

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerSums:
    """Sums per speaker and group, for several layers or systems at once.

    Parameters
    ----------
    errors, hits
        Shape (speakers, groups, columns).
    sizes
        Trials, the same for every column: shape (speakers, groups). A speaker with neither trials nor errors is not in
        the group; one with errors alone, of words heard in silence, is.
    """

    errors: Floats
    hits: Floats
    sizes: Floats
    spreads: dict[tuple[int, bytes], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `spread_between` has found of them, by column: each kind of gap, and the test, asks for it anew."""

    @property
    def present(self) -> NDArray[np.bool_]:
        """Membership of speakers in groups, shape (speakers, groups)."""
        present: NDArray[np.bool_] = (self.sizes > 0) | (self.errors > 0).any(axis=2)
        return present

    @property
    def speakers(self) -> NDArray[np.int64]:
        """Number of speakers of each group, shape (groups,)."""
        count: NDArray[np.int64] = np.sum(self.present, axis=0, dtype=np.int64)
        return count

    @property
    def people(self) -> int:
        """Number of speakers in any of the groups, each counted once."""
        return int(self.present.any(axis=1).sum())

    def of(self, groups: NDArray[np.int64]) -> "SpeakerSums":
        """Return the sums of some of the groups."""
        return SpeakerSums(errors=self.errors[:, groups], hits=self.hits[:, groups], sizes=self.sizes[:, groups])

    def totals(self) -> "SpeakerSums":
        """Return the sums over all speakers as one sample, shapes (1, groups, columns) and (1, groups)."""
        return SpeakerSums(errors=self.errors.sum(0)[None], hits=self.hits.sum(0)[None], sizes=self.sizes.sum(0)[None])

    def drawn(self, weights: "Floats | Counts") -> "SpeakerSums":
        """Return the sums of every bootstrap sample, shapes (repeats, groups, columns) and (repeats, groups)."""
        return SpeakerSums(
            errors=resampled_sums(weights, self.errors),
            hits=resampled_sums(weights, self.hits),
            sizes=resampled_sums(weights, self.sizes),
        )


def sum_by_speaker(
    errors: Floats, hits: Floats, sizes: Floats, speakers: NDArray[np.int64], member: NDArray[np.bool_]
) -> SpeakerSums:
    """Sum over the clips of every speaker in every group.

    Parameters
    ----------
    errors, hits, sizes
        Of every clip, shapes (clips, columns), (clips, columns) and (clips,).
    speakers
        Speaker number of each clip.
    member
        Who is in which group, shape (groups, clips).

    Examples
    --------
    >>> one = np.ones((3, 1))
    >>> member = np.array([[True, True, False]])
    >>> sums = sum_by_speaker(one, 0 * one, np.array([4.0, 5.0, 6.0]), np.array([0, 0, 1]), member)
    >>> sums.sizes.tolist(), sums.errors[:, 0, 0].tolist()
    ([[9.0], [0.0]], [2.0, 0.0])
    """
    columns = errors.shape[1]
    people = int(speakers.max(initial=-1)) + 1
    sums = np.zeros((people, len(member), 2 * columns + 1))
    values = [*errors.T, *hits.T, sizes]
    for group, chosen in enumerate(member):
        inside = speakers[chosen]
        for column, part in enumerate(values):
            sums[:, group, column] = np.bincount(inside, part[chosen], minlength=people)
    return SpeakerSums(errors=sums[..., :columns], hits=sums[..., columns : 2 * columns], sizes=sums[..., -1])
