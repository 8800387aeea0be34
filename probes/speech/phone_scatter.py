"""Scatter of each group's phone tokens in an encoder's space, and the shift of their centroids from all others'.

Two errors are told apart. Random: tokens of one phone scatter around their own group's centroid. Systematic: that
centroid lies elsewhere than that of everyone else. Both are measured without bias by the number of speakers or
tokens, and each with what it would be without any one of the speakers, from which its interval comes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probes.speech.token_moments import Floats, PhoneMoments

MIN_SPEAKERS = 3
"""Speakers of a phone that a group needs: with one left out, two are left to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Mean scatter and shift over phones, each also with every speaker left out in turn.

    Parameters
    ----------
    variance
        Half the mean squared distance of two tokens of one phone from two speakers of the group, shape (groups,).
    within
        The same of two tokens of one speaker, over the phones with two tokens of three speakers of every group;
        NaN without such phones.
    shift
        Squared distance of the group's centroid to that of all others, less what chance adds, over the variance of a
        dimension within the phone; it may be negative.
    moved
        The same squared distance as it is, not over anything.
    variance_without, within_without, shift_without, moved_without
        Shape (groups, speakers).
    total
        Half the mean squared distance of any two tokens of different speakers, whatever their phone.
    total_without
        Shape (speakers,).
    own
        Of each speaker: variance of the tokens of one phone, in units of that phone's over all speakers, mean over
        the phones with two tokens of the speaker, whose number is `own_phones`; shape (3, speakers): over all phones,
        over those of even and over those of odd number.
    around
        Of each speaker: mean squared distance of a token to the centroid of the speaker's home group, less what the
        speaker's own part in it hides; shape (3, speakers), NaN without a home group.
    phones
        How many phones the means are over.
    """

    variance: Floats
    variance_without: Floats
    within: Floats
    within_without: Floats
    shift: Floats
    shift_without: Floats
    moved: Floats
    moved_without: Floats
    total: float
    total_without: Floats
    own: Floats
    own_phones: Floats
    around: Floats
    phones: int


def pair_variance(counts: Floats, scatter: Floats, distances: Floats) -> tuple[Floats, Floats]:
    """Return half the mean squared distance between tokens of different speakers, and that without each speaker.

    With n_u tokens of speaker u, S_u their scatter around their own mean, d_u^2 the squared distance of that mean
    to the centroid of all, N = sum n_u and Q = sum (S_u + n_u d_u^2), it is (N Q - sum n_u S_u) / (N^2 - sum n_u^2):
    the unbiased variance, within speakers and between them, of a token of a random speaker. With one token a
    speaker it is the trace of the usual covariance, Q / (N - 1).

    Parameters
    ----------
    counts, scatter, distances
        n_u, S_u and d_u^2, shape (..., speakers); all are 0 for who is not in the group.

    Returns
    -------
    shapes (...) and (..., speakers); NaN where fewer than two speakers are left

    Examples
    --------
    >>> alone, without = pair_variance(np.ones(3), np.zeros(3), np.array([1.0, 0.0, 1.0]))
    >>> float(alone), without.tolist()
    (1.0, [0.5, 2.0, 0.5])
    """
    n = counts.sum(-1)
    q = (scatter + counts * distances).sum(-1)
    own, squares = (counts * scatter).sum(-1), (counts**2).sum(-1)
    left = n[..., None] - counts
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (n * q - own) / (n**2 - squares)
        # Taking a speaker out moves the centroid too (Chan's merge, backwards).
        moved = q[..., None] - scatter - counts * distances * np.where(left > 0, n[..., None] / left, 0.0)
        without = (left * moved - own[..., None] + counts * scatter) / (left**2 - squares[..., None] + counts**2)
    enough = (counts > 0).sum(-1)
    value = np.where(enough > 1, value, np.nan)
    return value, np.where(enough[..., None] - (counts > 0) > 1, without, np.nan)


def measure_scatter(
    moments: Iterable[PhoneMoments], member: NDArray[np.bool_], rest: NDArray[np.bool_], home: NDArray[np.int64]
) -> Scatter:
    """Return the mean scatter and shift of every group over phones, each phone counting alike.

    Parameters
    ----------
    moments
        Of the phones that every group has; others would not be compared like with like.
    member, rest
        Members of each group, and the speakers it is compared with, shape (groups, speakers).
    home
        Row of the group to whose centroid a speaker's own tokens are compared, -1 for none, shape (speakers,).
    """
    groups, people = member.shape
    masks = np.concatenate([member, rest]).astype(np.float64)
    sums = _Sums(groups, people)
    for moment in moments:
        n = masks * moment.counts
        centre = n @ moment.means / np.maximum(n.sum(1), 1)[:, None]
        # Squared distances of every speaker's centroid to every group's.
        lengths = (moment.means**2).sum(1) + (centre**2).sum(1)[:, None]
        distances = np.maximum(lengths - 2 * centre @ moment.means.T, 0.0) * (n > 0)
        inside = (n > 0) * moment.scatter
        variance, without = pair_variance(n[:groups], inside[:groups], distances[:groups])
        sums.add(variance, without, *_within(n[:groups], inside[:groups]))
        sums.shift(*_shift(n, inside, distances, moment.means, centre, groups))
        sums.overall(moment)
        sums.by_speaker(moment, n[:groups], distances[:groups], home)
    return sums.means()


def _within(n: Floats, scatter: Floats) -> tuple[Floats, Floats]:
    """Return the pooled variance of one speaker's tokens, and that without each speaker; NaN of too few speakers."""
    freedom = np.maximum(n - 1, 0)
    freedom = freedom * ((freedom > 0).sum(1) >= MIN_SPEAKERS)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = scatter.sum(1) / freedom.sum(1)
        without = (scatter.sum(1)[:, None] - scatter) / (freedom.sum(1)[:, None] - freedom)
    return np.where(freedom.sum(1) > 0, value, np.nan), np.where(freedom.sum(1)[:, None] - freedom > 0, without, np.nan)


def _shift(
    n: Floats, scatter: Floats, distances: Floats, means: Floats, centre: Floats, groups: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the squared shift of each group against all others, and without each speaker.

    Returns
    -------
    in variances of a dimension, without each speaker, and both as they are
    """
    sides = tuple(_Side(n[rows], scatter[rows], distances[rows], centre[rows]) for rows in _halves(groups))
    here, there = sides
    delta = here.centre - there.centre
    size, width = (delta**2).sum(1), means.shape[1]
    spread = (here.q + there.q) / np.maximum(here.total + there.total - 2, 1) / width
    # Where nothing varies there is no scale, and the shift is not a number.
    raw = size - here.noise - there.noise
    value = raw / np.where(spread > 0, spread, np.nan)
    without, raw_without = (np.broadcast_to(one[:, None], here.n.shape).copy() for one in (value, raw))
    along = [(delta * side.centre).sum(1)[:, None] - delta @ means.T for side in sides]
    for side, other, away in ((here, there, along[0]), (there, here, -along[1])):
        # Leaving speaker u out of a group moves its centroid by c (centroid - m_u), c = n_u / (N - n_u).
        moved = size[:, None] + 2 * side.c * away + side.c**2 * side.distances
        scale = (side.q_without + other.q[:, None]) / np.maximum(side.left + other.total[:, None] - 2, 1) / width
        less = moved - side.noise_without - other.noise[:, None]
        without = np.where(side.n > 0, less / np.where(scale > 0, scale, np.nan), without)
        raw_without = np.where(side.n > 0, less, raw_without)
    return value, without, raw, raw_without


def _halves(groups: int) -> tuple[slice, slice]:
    """Return the rows of the groups, and the rows of their complements."""
    return slice(None, groups), slice(groups, None)


class _Side:
    """One phone's centroids by group, and the variance that chance gives them; rows are groups."""

    def __init__(self, n: Floats, scatter: Floats, distances: Floats, centre: Floats) -> None:
        self.n, self.distances, self.centre = n, distances, centre
        self.total = n.sum(1)
        self.left = self.total[:, None] - n
        self.c = n / np.maximum(self.left, 1)
        self.q = (scatter + n * distances).sum(1)
        self.q_without = self.q[:, None] - scatter - n * distances * (1 + self.c)
        # Tokens are closer to their sample centroid than to the true one by its squared error, on average.
        variance, without = pair_variance(n, scatter, distances)
        self.noise = variance - self.q / np.maximum(self.total, 1)
        self.noise_without = without - self.q_without / np.maximum(self.left, 1)


def _mean(sums: Floats, counts: Floats) -> Floats:
    """Return sums over counts, NaN where the count is 0."""
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


class _Sums:
    """Running sums over phones, from which the means of `Scatter` are made."""

    def __init__(self, groups: int, people: int) -> None:
        self._phones, self._twice = 0, 0
        self._variance, self._variance_without = np.zeros(groups), np.zeros((groups, people))
        self._shift, self._shift_without = np.zeros(groups), np.zeros((groups, people))
        self._moved, self._moved_without = np.zeros(groups), np.zeros((groups, people))
        self._within, self._within_without = np.zeros(groups), np.zeros((groups, people))
        self._counts, self._squares = np.zeros(people), np.zeros(people)
        self._vectors: Floats | None = None
        self._own, self._own_phones = np.zeros((3, people)), np.zeros((3, people))
        self._around, self._around_tokens = np.zeros((3, people)), np.zeros((3, people))

    def add(self, variance: Floats, without: Floats, within: Floats, apart: Floats) -> None:
        self._phones += 1
        self._variance += variance
        self._variance_without += without
        if np.isfinite(within).all():
            self._twice += 1
            self._within += within
            # Where the one speaker who said a phone twice is left out, the phone keeps its variance.
            self._within_without += np.where(np.isfinite(apart), apart, within[:, None])

    def shift(self, shift: Floats, without: Floats, moved: Floats, moved_without: Floats) -> None:
        self._shift += shift
        self._shift_without += without
        self._moved += moved
        self._moved_without += moved_without

    def overall(self, moment: PhoneMoments) -> None:
        weighted = moment.counts[:, None] * moment.means
        self._vectors = weighted if self._vectors is None else self._vectors + weighted
        self._counts += moment.counts
        self._squares += moment.scatter + moment.counts * (moment.means**2).sum(1)

    def by_speaker(self, moment: PhoneMoments, n: Floats, distances: Floats, home: NDArray[np.int64]) -> None:
        freedom = np.maximum(moment.counts - 1, 0)
        pooled = moment.scatter.sum() / max(freedom.sum(), 1)
        twice = (freedom > 0) & (pooled > 0)
        halves = [0, 1 + moment.phone % 2]
        self._own[np.ix_(halves, twice)] += moment.scatter[twice] / freedom[twice] / pooled
        self._own_phones[np.ix_(halves, twice)] += 1
        here = np.flatnonzero((home >= 0) & (moment.counts > 0))
        left = n.sum(1)[home[here]] - moment.counts[here]
        here, left = here[left > 0], left[left > 0]
        away = moment.counts[here] * distances[home[here], here]
        # A speaker's own tokens pull the centroid towards them.
        spread = moment.scatter[here] + away * (1 + moment.counts[here] / left)
        self._around[np.ix_(halves, here)] += spread
        self._around_tokens[np.ix_(halves, here)] += moment.counts[here]

    def means(self) -> Scatter:
        count = self._phones
        vectors = np.zeros((len(self._counts), 1)) if self._vectors is None else self._vectors
        means = vectors / np.maximum(self._counts, 1)[:, None]
        scatter = np.maximum(self._squares - self._counts * (means**2).sum(1), 0.0)
        centre = vectors.sum(0) / max(self._counts.sum(), 1)
        distances = ((means - centre) ** 2).sum(1) * (self._counts > 0)
        total, total_without = pair_variance(self._counts, scatter, distances)
        return Scatter(
            variance=self._variance / count,
            variance_without=self._variance_without / count,
            within=_mean(self._within, np.full(len(self._within), self._twice)),
            within_without=_mean(self._within_without, np.full(self._within_without.shape, self._twice)),
            shift=self._shift / count,
            shift_without=self._shift_without / count,
            moved=self._moved / count,
            moved_without=self._moved_without / count,
            total=float(total),
            total_without=total_without,
            own=_mean(self._own, self._own_phones),
            own_phones=self._own_phones,
            around=_mean(self._around, self._around_tokens),
            phones=count,
        )
