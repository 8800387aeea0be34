"""Estimates of a layer from its counts, with influences: accuracies, gaps, variances and shifts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import ALL
from audits.core.intervals import Interval, Undefined
from audits.core.records import Coordinate
from audits.phoneme_errors.corpus import Corpus
from audits.statistics.influences import Moved, left_out, rate
from probes.speech.phone_probes import Hits
from probes.speech.phone_scatter import Scatter

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Row = tuple[str, Interval | Undefined, dict[str, Coordinate]]
"""Name, number and coordinates of an estimate."""
TRAININGS = ("all", "all_matched", "in", "out")
UNIT = "speakers"
TESTS = SYSTEMATIC, RANDOM = "systematic", "random"
CORRELATION, SPLIT = "variance_accuracy_correlation", "split_correlation"
STUDENT = "Student t over speakers"
JACKKNIFE = "Student t, jackknife over speakers"
ALIKE = "every speaker shows exactly the same, which leaves nothing to make an interval of"
BELOW = "its square lies below 0, further than chance explains: speakers of the two sides are alike by design"
FLAT = "the tokens do not vary at all"
MOST_IN_PART = 0.5
"""Share of the speakers who must have said some phone twice for the variance within speakers to be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCounts:
    """The counts of one layer: scatter of the phones, raw and by direction alone, and correctly read tokens.

    Parameters
    ----------
    draws
        Tokens read right in each repetition, by phone, shape (repetitions, 1 + 5 groups, phones): all by the probe of
        everyone; then for each group its own tokens by everyone's, the matched one, its own and everyone else's probe,
        and last the others' tokens by the matched one.
    """

    layer: int
    scatter: Scatter
    cosine: Scatter
    hits: Hits
    draws: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """One layer's estimates, with the influence of each speaker.

    Parameters
    ----------
    mix
        Shares of the phones that accuracies are stated for, shape (phones,): a group that says hard phones more often
        is not read worse for that.
    """

    counts: LayerCounts
    corpus: Corpus
    mix: Floats
    probe: str = ""
    """What read the phones, in words."""

    def strata(self, group: str, *, against: bool = False) -> Bools:
        """Return the group's speakers, and those of the others of its kind where it is compared, (strata, speakers)."""
        spoke = self.sizes > 0
        rows = [self.corpus.inside(group) & spoke]
        return np.stack([*rows, self.corpus.rest[self.row(group)] & spoke] if against else rows)

    @property
    def layer(self) -> int:
        """Number of the layer."""
        return self.counts.layer

    @property
    def cells(self) -> list[tuple[str, str]]:
        """Every group with each training of which there is an accuracy, and first everyone."""
        return [(ALL, "all"), *((group, training) for group in self.corpus.groups for training in TRAININGS)]

    @property
    def within(self) -> bool:
        """Whether enough speakers repeat a phone for the within-speaker variance to be used."""
        twice = self.counts.scatter.own_phones[0] >= 1
        return float(twice[self.tokens(ALL, "all")[1] > 0].mean()) >= MOST_IN_PART

    @property
    def spreads(self) -> Floats:
        """Variance of each speaker's phones: of all, and of one half of them and the other, shape (3, speakers)."""
        return self.counts.scatter.own if self.within else self.counts.scatter.around

    @property
    def scale(self) -> str:
        """Name of the variance in `spreads`, in words."""
        return "within speakers" if self.within else "around the centroids of their group"

    @property
    def sizes(self) -> Floats:
        """Tokens of each speaker, shape (speakers,)."""
        sizes: Floats = self.counts.hits.trials.sum(1)
        return sizes

    def kinds(self, group: str) -> Bools:
        """Return the group's speakers, those of each other group of its kind, and all others, (strata, speakers).

        Differences between groups are no chance: they must not widen an interval of something over all speakers.
        """
        spoke = self.sizes > 0
        here = self.row(group)
        same = [row for row, by in enumerate(self.corpus.by) if by == self.corpus.by[here] and row != here]
        rows = [self.corpus.member[row] & spoke for row in (here, *same)]
        left = spoke & ~np.any(rows, axis=0)
        if left.sum() == 1:
            # One speaker alone shows no spread.
            rows[-1] = rows[-1] | left
        return np.stack(rows if left.sum() < 2 else [*rows, left])

    def row(self, group: str) -> int:
        """Return the index of a compared group."""
        return self.corpus.groups.index(group)

    def tokens(self, group: str, training: str, *, rest: bool = False) -> tuple[Floats, Floats]:
        """Return the correctly read and all tokens of each speaker, shapes (speakers,).

        Tokens of a phone are weighed so that the phones of the group come in the common mix.

        Parameters
        ----------
        rest
            Of the others of the group's kind, read by the probe that is matched to the group.
        """
        hits = self.counts.hits
        right = hits.everyone
        if training != "all":
            named = {"all_matched": hits.matched, "in": hits.inside, "out": hits.outside}
            right = named[training][self.row(group)]
        inside = self.corpus.rest[self.row(group)] if rest else self.corpus.inside(group)
        trials = hits.trials * inside[:, None]
        weights = self._weights(inside)
        return (right * inside[:, None]) @ weights, trials @ weights

    def accuracy(self, group: str, training: str, *, rest: bool = False) -> Moved:
        """Return the share of correctly read tokens."""
        right, trials = self.tokens(group, training, rest=rest)
        found = rate(right, trials)
        # As `LayerCounts.draws` lists them: everyone, then five rows a group, of which the last is of the others.
        row = 0 if group == ALL else 1 + 5 * self.row(group) + (4 if rest else TRAININGS.index(training))
        inside = self.corpus.rest[self.row(group)] if rest else self.corpus.inside(group)
        draws = self.counts.draws[:, row] @ self._weights(inside) / trials.sum()
        return Moved(found.value, found.moves, draws)

    def _weights(self, inside: Bools) -> Floats:
        """Return the weight of a token of each phone that brings these speakers to the common mix of phones."""
        spoken = self.counts.hits.trials[inside].sum(0)
        return np.where(spoken > 0, self.mix * spoken.sum() / np.maximum(spoken, 1), 0.0)

    def systematic(self, group: str) -> Moved:
        """Return the gain by the group's own data: accuracy of its own probe less that of the matched one."""
        return self.accuracy(group, "in") - self.accuracy(group, "all_matched")

    def gap(self, group: str) -> Moved:
        """Return the accuracy of the others less the group's, by the probe matched to the group."""
        return self.accuracy(group, "all_matched", rest=True) - self.accuracy(group, "all_matched")

    def remaining(self, group: str) -> Moved:
        """Return the remaining gap when the group is read by its own probe."""
        return self.accuracy(group, "all_matched", rest=True) - self.accuracy(group, "in")

    def variance(self, group: str, kind: str = "variance") -> Moved | None:
        """Return the logarithm of a variance over that of the whole layer; None where there is none.

        Parameters
        ----------
        kind
            "variance" of the group, "within" its speakers, or "cosine": of the group, by direction alone.
        """
        scatter = self.counts.cosine if kind == "cosine" else self.counts.scatter
        field = "within" if kind == "within" else "variance"
        found = self._log(scatter, field, self.row(group))
        total = scatter.total
        if found is None or not total > 0:
            return None
        everyone = np.ones((1, len(self.corpus.names)), dtype=bool)
        return found - left_out(float(np.log(total)), _log(scatter.total_without, total), everyone)

    def _log(self, scatter: Scatter, field: str, row: int) -> Moved | None:
        value = float(getattr(scatter, field)[row])
        if not (np.isfinite(value) and value > 0):
            return None
        inside = self.corpus.member[row][None]
        return left_out(float(np.log(value)), _log(getattr(scatter, f"{field}_without")[row], value), inside)

    def excess(self, group: str, field: str = "variance") -> Moved | None:
        """Return the log ratio of the group's variance, or of its within-speaker variance, to the others'."""
        own, others = self._log(self.counts.scatter, field, self.row(group)), self._others(group, field)
        return None if own is None or others is None else own - others.log()

    def scatter_less_shift(self, group: str) -> Moved | None:
        """Return by how much more the group scatters than the others, less its squared shift, over the total variance.

        Tokens of the group lie further from where the others' lie by the sum of the two.
        """
        scatter, row = self.counts.scatter, self.row(group)
        own, others = self._log(scatter, "variance", row), self._others(group, "variance")
        if own is None or others is None or not scatter.total > 0:
            return None
        moved = left_out(float(scatter.moved[row]), scatter.moved_without[row], self.strata(group, against=True))
        lead = Moved(float(np.exp(own.value)), np.exp(own.value) * own.moves) - others - moved
        return Moved(lead.value / scatter.total, lead.moves / scatter.total)

    def _others(self, group: str, field: str) -> Moved | None:
        """Return the mean variance of the other groups of its kind, by their speakers."""
        here = self.row(group)
        parts = [row for row, by in enumerate(self.corpus.by) if by == self.corpus.by[here] and row != here]
        logs = [self._log(self.counts.scatter, field, row) for row in parts]
        people = [float(self.corpus.member[row].sum()) for row in parts]
        value, moves = 0.0, np.zeros(len(self.corpus.names))
        for log, count in zip(logs, people, strict=True):
            if log is None:
                return None
            share = np.exp(log.value) * count / sum(people)
            value, moves = value + share, moves + share * log.moves
        return Moved(value, moves)

    def shift(self, group: str) -> Moved | None:
        """Return the squared shift of the group's centroids against those of the others; None where nothing varies."""
        scatter, row = self.counts.scatter, self.row(group)
        if not (np.isfinite(scatter.shift[row]) and np.isfinite(scatter.shift_without[row]).all()):
            return None
        return left_out(float(scatter.shift[row]), scatter.shift_without[row], self.strata(group, against=True))

    def interval(
        self,
        moved: Moved | None,
        strata: Bools,
        level: float,
        *,
        scale: str = "plain",
        method: str = STUDENT,
        why: str = FLAT,
    ) -> Interval | Undefined:
        """Return an estimate of this layer with Student's interval, or the reason why there is none.

        Parameters
        ----------
        scale
            "log": the estimate is a logarithm and is reported as a ratio; "root": it is a square, of which the root is
            reported, and 0 below.
        why
            There may be no estimate at all.
        """
        if moved is None:
            return Undefined(why)
        ends = moved.interval(strata, level, self.sizes)
        if scale == "root" and ends is not None and ends[1] <= 0:
            return Undefined(BELOW)
        if ends is None or ends[0] == ends[1]:
            return Undefined(ALIKE)
        value, low, high = moved.value, *ends
        if scale == "log":
            value, low, high = (float(np.exp(end)) for end in (value, low, high))
        if scale == "root":
            value, low, high = (float(np.sqrt(max(end, 0.0))) for end in (value, low, high))
        how = method if method.startswith(JACKKNIFE) else f"{method}; {self.probe}"
        # The group itself; the strata after it are whom it is compared with.
        return Interval(value=value, low=low, high=high, method=how, n=int(strata[0].sum()), unit=UNIT)


def _log(without: Floats, value: float) -> Floats:
    # A speaker without whom nothing could be said moves the estimate by nothing that can be told.
    return np.log(np.where(np.isfinite(without) & (without > 0), without, value))
