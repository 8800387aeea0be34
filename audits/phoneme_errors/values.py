"""From counts to estimates that can be added and subtracted: accuracies, gaps, variances and shifts of a layer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.groups import ALL
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.measuring import LayerCounts
from audits.statistics.influences import Moved, left_out, rate
from probes.phone_scatter import Scatter

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
TRAININGS = ("all", "all_matched", "in", "out")


@dataclass(frozen=True, slots=True)
class Values:
    """One layer's estimates, and how far each speaker moves them.

    Parameters
    ----------
    balanced
        Whether every phone counts alike in an accuracy, and not every token.
    """

    counts: LayerCounts
    corpus: Corpus
    balanced: bool

    def strata(self, group: str, *, against: bool = False) -> Bools:
        """Return the group's speakers, and those of the others of its kind where it is compared, (strata, speakers)."""
        rows = [self.corpus.inside(group)]
        return np.stack([*rows, self.corpus.rest[self.row(group)]] if against else rows)

    def row(self, group: str) -> int:
        """Return the number of a compared group."""
        return self.corpus.groups.index(group)

    def tokens(self, group: str, training: str, *, rest: bool = False) -> tuple[Floats, Floats]:
        """Return how many tokens were read right and how many there were, by speaker, shapes (speakers,).

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
        weights = np.ones(trials.shape[1])
        if self.balanced:
            total = trials.sum(0)
            weights = np.where(total > 0, trials.sum() / np.maximum(total, 1) / max((total > 0).sum(), 1), 0.0)
        return (right * inside[:, None]) @ weights, trials @ weights

    def accuracy(self, group: str, training: str, *, rest: bool = False) -> Moved:
        """Return the share of tokens that are read right."""
        return rate(*self.tokens(group, training, rest=rest))

    def systematic(self, group: str) -> Moved:
        """Return what the group's own data add: accuracy of its own probe less that of the matched one."""
        return self.accuracy(group, "in") - self.accuracy(group, "all_matched")

    def gap(self, group: str) -> Moved:
        """Return by how much the others are read better than the group, by the probe matched to it."""
        return self.accuracy(group, "all_matched", rest=True) - self.accuracy(group, "all_matched")

    def remaining(self, group: str) -> Moved:
        """Return what is left of the gap when the group is read by its own probe."""
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

    def excess(self, group: str) -> Moved | None:
        """Return the logarithm of the group's variance over the mean of the other groups', by their speakers."""
        here = self.row(group)
        parts = [row for row, by in enumerate(self.corpus.by) if by == self.corpus.by[here] and row != here]
        scatter, own = self.counts.scatter, self._log(self.counts.scatter, "variance", here)
        logs = [self._log(scatter, "variance", row) for row in parts]
        if own is None or any(log is None for log in logs):
            return None
        people = [float(self.corpus.member[row].sum()) for row in parts]
        value, moves = 0.0, np.zeros(len(self.corpus.names))
        for log, count in zip(logs, people, strict=True):
            if log is not None:
                share = np.exp(log.value) * count / sum(people)
                value, moves = value + share, moves + share * log.moves
        return own - Moved(value, moves).log()

    def shift(self, group: str) -> Moved | None:
        """Return the squared shift of the group's centroids against those of the others; None where nothing varies."""
        scatter, row = self.counts.scatter, self.row(group)
        if not (np.isfinite(scatter.shift[row]) and np.isfinite(scatter.shift_without[row]).all()):
            return None
        return left_out(float(scatter.shift[row]), scatter.shift_without[row], self.strata(group, against=True))

    def everyone(self) -> Moved:
        """Return the accuracy over all speakers."""
        return self.accuracy(ALL, "all")


def _log(without: Floats, value: float) -> Floats:
    # A speaker without whom nothing could be said moves the estimate by nothing that can be told.
    return np.log(np.where(np.isfinite(without) & (without > 0), without, value))
