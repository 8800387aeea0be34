"""Permutation of group labels over the speakers: noise floors, p-values and least interval widths of gaps.

One set of shuffles answers for all columns (layers or systems): how large a gap noise makes, how seldom one as large
as the observed, and how wide the interval of a gap has to be at least.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audits.statistics.bootstrap import ratio
from audits.statistics.group_sums import Floats, SpeakerSums
from audits.statistics.permutation import permuted_group_sums

Contrast = Literal["pairs", "others", "above", "reference", "above_reference"]
"""Largest difference of any two groups, of a group and all others (either way, or only above them), and of a group
and one group of reference (likewise); each over its standard error."""


@dataclass(frozen=True, slots=True)
class Chance:
    """The observed gaps and those under shuffled labels, in every column.

    `observed`, (columns,), and `shuffled`, (permutations, columns), hold the largest difference over its standard
    error by what is compared; `gaps`, (permutations, columns), the largest gap. The variances are those observed,
    (groups, columns), of a group's rate and of its difference to the others'.
    """

    observed: Mapping[Contrast, Floats]
    shuffled: Mapping[Contrast, Floats]
    gaps: Floats
    variance: Floats
    variance_others: Floats
    level: float

    def reach(
        self, column: int, one: int, other: int | None = None, *, fixed: bool = False, one_sided: bool = False
    ) -> float:
        """Return the critical difference of two groups, or of a group and the others, under shuffled labels.

        Where `fixed`, the other group is the one of reference, whatever the rates are. Where `one_sided`, only
        differences upwards count, from the others or from that group. Within as much of the observed
        difference lie the differences that the permutation test does not reject, as far as shifting the rates of a
        group leaves their spread alone.
        """
        if other is None:
            above: Contrast = "above" if one_sided else "others"
            largest = np.quantile(self.shuffled[above][:, column], self.level)
            return float(largest * np.sqrt(self.variance_others[one, column]))
        spread = np.sqrt(self.variance[one, column] + self.variance[other, column])
        compared: Contrast = ("above_reference" if one_sided else "reference") if fixed else "pairs"
        return float(np.quantile(self.shuffled[compared][:, column], self.level) * spread)


def shuffle_labels(
    sums: SpeakerSums, repeats: int, rng: np.random.Generator, *, level: float, reference: int | None = None
) -> Chance:
    """Shuffle the labels over the speakers and recompute the gaps, in all columns at once.

    `reference` is the number of a group with which all others are compared.
    """
    sizes = sums.sizes[..., None]
    # Sums of errors, sizes and their products: from them any group's rate and its error follow.
    there = sums.present[..., None].astype(np.float64)
    parts = [sums.errors, sums.errors**2, sums.errors * sizes, sizes, sizes**2, there]
    joined = np.concatenate(parts, axis=2)
    columns = sums.errors.shape[2]
    real = joined.sum(0)[None]
    blocks = permuted_group_sums(joined, sums.present, repeats, rng)
    found = [_statistics(block, columns, reference) for block in blocks]
    alone, rest = _rates(real, columns), _rates(real.sum(1, keepdims=True) - real, columns)
    observed = _statistics(real, columns, reference)[1]
    return Chance(
        observed={name: rows[0] for name, rows in observed.items()},
        shuffled={name: np.concatenate([block[1][name] for block in found]) for name in observed},
        gaps=np.concatenate([block[0] for block in found]),
        variance=alone[1][0],
        variance_others=(alone[1] + rest[1])[0],
        level=level,
    )


def _rates(joined: Floats, columns: int) -> tuple[Floats, Floats]:
    """Return the rates and their cluster variances, each (samples, groups, columns)."""
    errors, squares, products = (joined[..., block * columns : (block + 1) * columns] for block in range(3))
    sizes, sizes2, speakers = (joined[..., 3 * columns + block, None] for block in range(3))
    rates = ratio(errors, sizes)
    # Half an error among one speaker more: groups of speakers all alike lie infinitely many errors apart.
    share = 0.5 / (speakers + 1.0)
    least = share * (1 - share) / np.maximum(speakers, 1.0)
    spread = np.maximum(squares - 2 * rates * products + rates**2 * sizes2, 0.0)
    none = spread <= 1e-12 * np.maximum(squares, 1.0)
    return rates, ratio(spread * speakers, sizes**2 * np.maximum(speakers - 1, 1.0)) + least * none


def _statistics(joined: Floats, columns: int, reference: int | None) -> tuple[Floats, dict[Contrast, Floats]]:
    """Return the largest gap, and the largest differences over their standard errors, each (samples, columns).

    Divided, groups of unequal size or spread do not make each other's noise look like a gap (Chung and Romano 2013);
    the standard errors are those of clusters, computed anew in every sample.
    """
    rates, variance = _rates(joined, columns)
    pairs = np.zeros((len(joined), columns))
    for one in range(rates.shape[1] - 1):
        scale = np.sqrt(variance[:, [one]] + variance[:, one + 1 :])
        np.maximum(pairs, (np.abs(rates[:, [one]] - rates[:, one + 1 :]) / scale).max(axis=1), out=pairs)
    rest, spread = _rates(joined.sum(1, keepdims=True) - joined, columns)
    apart = (rates - rest) / np.sqrt(variance + spread)
    found: dict[Contrast, Floats] = {"pairs": pairs, "others": np.abs(apart).max(axis=1), "above": apart.max(axis=1)}
    if reference is not None:
        scale = np.sqrt(variance + variance[:, [reference]])
        apart = np.delete((rates - rates[:, [reference]]) / scale, reference, axis=1)
        found |= {"reference": np.abs(apart).max(axis=1), "above_reference": apart.max(axis=1)}
    return rates.max(1) - rates.min(1), found
