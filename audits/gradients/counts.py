"""The counts of the audit: sums over entries of every estimate, and what was measured beside. No model runs again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from probes.gradients.agreement import Agreement, Floats

HIDDEN, ALL = "hidden", "all"
COUNTED_CEILING = 3.0
"""1 + (b + w) / f of dense layers: what is gained at most by whoever speeds up only the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was measured; numbers that there are not are NaN.

    Parameters
    ----------
    layers
        Parameters, and behind them `hidden` (all but the last layer's) and `all`.
    agreements
        By method, arrays of shape (draws, layers, steps, batches).
    progress
        By kind (curvature, line_search) and method, shape (steps, batches): means over draws.
    costs
        By method and kind: one exact number, or seconds by round, of which those of all methods are paired.
    ceilings
        By method, the most that a step can be faster, from counts (one number) or from seconds by round.
    losses
        By budget in words and by method, after training, one a seed; seeds of all methods are paired.
    gaps
        Assumption gaps by method, layer and kind: one exact number of the weights, or one a batch.
    against
        The method that losses and seconds are compared to.
    skipped, absent, not_finite
        By method, the reason why it was not used, how often it gave no gradient of a parameter, and how often one that
        is not finite.
    no_file
        Places (of a step and of a batch, from 0) without a file of gradients.
    claims
        Speed-ups that are claimed, by method.
    """

    layers: tuple[str, ...]
    steps: tuple[int, ...]
    agreements: Mapping[str, Agreement]
    progress: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    costs: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    ceilings: Mapping[str, Floats] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    gaps: Mapping[tuple[str, str, str], Floats] = field(default_factory=dict)
    against: str = "bp"
    skipped: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, int] = field(default_factory=dict)
    claims: Mapping[str, float] = field(default_factory=dict)
    not_finite: Mapping[str, int] = field(default_factory=dict)
    no_file: frozenset[tuple[int, int]] = frozenset()

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods, in their order."""
        return tuple(self.agreements)

    def whole(self, method: str) -> bool:
        """Tell whether a method has numbers of every parameter, step and batch that there is."""
        gone = np.isnan(self.agreements[method].dot[0, :-2])
        for step, batch in self.no_file:
            gone[:, step, batch] = False
        return not gone.any()

    @property
    def sizes(self) -> Floats:
        """Entries of each layer; 0 of one that no method gave a gradient of."""
        return np.asarray(np.max([np.nan_to_num(one.size).max((0, 2, 3)) for one in self.agreements.values()], axis=0))

    @property
    def dead(self) -> tuple[tuple[str, int], ...]:
        """Layers and steps at which the reference is zero in every batch."""
        known = np.stack([one.reference[0] for one in self.agreements.values()], -1)
        # Unlike max, fmax passes over NaN, and is NaN of nothing else without a warning.
        found = np.fmax.reduce(np.fmax.reduce(known, -1), -1) == 0
        return tuple((self.layers[layer], self.steps[step]) for layer, step in np.argwhere(found).tolist())
