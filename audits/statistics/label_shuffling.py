"""What do labels shuffled over the speakers make of the gaps?

One set of shuffles answers for all layers: how large a gap noise makes, how seldom one as large as the observed, and
how wide the interval of a gap has to be at least.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from audits.statistics.bootstrap import ratio
from audits.statistics.group_sums import Floats, SpeakerSums
from audits.statistics.permutation import permuted_group_sums


@dataclass(frozen=True, slots=True)
class Chance:
    """What the observed labels and shuffled ones make of the gaps on every layer.

    `observed`, (layers,), and `pairs`, (permutations, layers), are the largest difference of two groups over its
    standard error; `others` is that of a group and all others, `gaps` the largest gap. The variances are those
    observed, (groups, layers), of a group's rate and of its difference to the others'.
    """

    observed: Floats
    gaps: Floats
    pairs: Floats
    others: Floats
    variance: Floats
    variance_others: Floats
    level: float

    def reach(self, column: int, one: int, other: int | None = None) -> float:
        """Return the difference of two groups, or of a group and the others, that shuffled labels seldom exceed.

        Within as much of the observed difference lie the differences that the permutation test does not reject, as
        far as shifting the rates of a group leaves their spread alone.
        """
        if other is None:
            return float(np.quantile(self.others[:, column], self.level) * np.sqrt(self.variance_others[one, column]))
        spread = np.sqrt(self.variance[one, column] + self.variance[other, column])
        return float(np.quantile(self.pairs[:, column], self.level) * spread)


def shuffle_labels(sums: SpeakerSums, repeats: int, rng: np.random.Generator, *, level: float) -> Chance:
    """Shuffle the labels over the speakers and compare again, on all layers at once."""
    sizes = sums.sizes[..., None]
    # Sums of errors, sizes and their products: from them any group's rate and its error follow.
    parts = [sums.errors, sums.errors**2, sums.errors * sizes, sizes, sizes**2, (sizes > 0).astype(np.float64)]
    joined = np.concatenate(parts, axis=2)
    layers = sums.errors.shape[2]
    real = joined.sum(0)[None]
    blocks = permuted_group_sums(joined, sums.sizes > 0, repeats, rng)
    shuffled = [_statistics(block, layers) for block in blocks]
    gaps, pairs, others = (np.concatenate([block[place] for block in shuffled]) for place in range(3))
    alone, rest = _rates(real, layers), _rates(real.sum(1, keepdims=True) - real, layers)
    return Chance(
        observed=_statistics(real, layers)[1][0],
        gaps=gaps,
        pairs=pairs,
        others=others,
        variance=alone[1][0],
        variance_others=(alone[1] + rest[1])[0],
        level=level,
    )


def _rates(joined: Floats, layers: int) -> tuple[Floats, Floats]:
    """Return the rates and their cluster variances, each (samples, groups, layers)."""
    errors, squares, products = (joined[..., place * layers : (place + 1) * layers] for place in range(3))
    sizes, sizes2, speakers = (joined[..., 3 * layers + place, None] for place in range(3))
    rates = ratio(errors, sizes)
    share = 0.5 / (speakers + 1.0)
    least = share * (1 - share) / np.maximum(speakers, 1.0)
    spread = np.maximum(squares - 2 * rates * products + rates**2 * sizes2, 0.0)
    none = spread <= 1e-12 * np.maximum(squares, 1.0)
    return rates, ratio(spread * speakers, sizes**2 * np.maximum(speakers - 1, 1.0)) + least * none


def _statistics(joined: Floats, layers: int) -> tuple[Floats, Floats, Floats]:
    """Return the largest gap, and the largest difference over its standard error of two groups and to the others.

    Each of shape (samples, layers). Divided, groups of unequal size or spread do not make each other's noise look
    like a gap (Chung and Romano 2013); the standard errors are those of clusters, computed anew in every sample.
    """
    rates, variance = _rates(joined, layers)
    pairs = np.zeros((len(joined), layers))
    for one, other in combinations(range(rates.shape[1]), 2):
        scale = np.sqrt(variance[:, one] + variance[:, other])
        np.maximum(pairs, np.abs(rates[:, one] - rates[:, other]) / scale, out=pairs)
    rest, spread = _rates(joined.sum(1, keepdims=True) - joined, layers)
    others = (np.abs(rates - rest) / np.sqrt(variance + spread)).max(axis=1)
    return rates.max(1) - rates.min(1), pairs, others
