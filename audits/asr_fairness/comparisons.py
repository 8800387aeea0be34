"""The comparison of groups: gaps, their tests, and how they change with the layer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audits.asr_fairness.cohort import (
    Cohort,
    deal_covariance,
    deal_rates,
    deal_spread,
    layer_choice,
    replicate_rates,
    with_deals,
)
from audits.asr_fairness.counts import TEST, Floats, Layer, TaskCounts, named, sums_of
from audits.core.groups import MIN_WORDS, GroupSet
from audits.core.intervals import Interval, Undefined
from audits.core.records import Coordinate
from audits.group_rates import comparing
from audits.group_rates.comparing import KINDS, p_method
from audits.statistics import Kind, on_scale, percentile_interval
from audits.statistics.rank_correlation import spearman_rows

FEWEST_LAYERS = 4
"""Layers under which no pattern over layers is estimated."""
UNWIDENED = 10**6
"""Clusters of an interval of plain percentiles: what widens it for few is made for means, not for correlations."""


def compare(groups: GroupSet, task: TaskCounts, cohort: Cohort) -> "Comparison | None":
    """Return the comparison of a set's groups, or None where fewer than two have enough speakers."""
    sums = sums_of(task, cohort.speakers, groups.masks)
    enough = sums.speakers >= cohort.min_speakers
    if task.task == "asr":
        enough &= sums.sizes.sum(0) >= MIN_WORDS
    chosen = np.flatnonzero(enough)
    if len(chosen) < 2:
        return None
    return Comparison(
        groups=groups,
        names=tuple(groups.names[group] for group in chosen),
        sums=sums.of(chosen),
        rate=(task.task, task.metric),
        bounded=task.metric == "error",
        permutations=cohort.permutations,
        seed=cohort.seed,
        level=cohort.level,
        task=task,
        cohort=cohort,
        dealt=deal_rates(task, groups.masks[chosen]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(comparing.Comparison):
    """The groups of one set that have enough speakers to be compared, in one metric, on every layer.

    Parameters
    ----------
    dealt
        Rates of the groups in every deal of the clips, shape (deals, groups, layers); None where none are compared.
    """

    task: TaskCounts
    cohort: Cohort
    dealt: Floats | None = None

    def at(self, layer: Layer | None = None, **more: Coordinate) -> dict[str, Coordinate]:
        """Return the coordinates of an estimate of the comparison, on a layer or over all of them."""
        return {**(self.task.where if layer is None else self.task.at(layer)), "by": self.by, **more}

    def noise(self, column: int) -> Floats | None:
        """Return the covariance of the rates that the deals of the clips add."""
        return deal_covariance(self.dealt, column, self.level)

    def worst(self, layer: Layer) -> str:
        """Return the group with the highest rate on a layer."""
        return self.extremes[self._column(layer)][0]

    def best(self, layer: Layer) -> str:
        """Return the group with the lowest rate on a layer; never the worst one, even where all are equal."""
        return self.extremes[self._column(layer)][1]

    def _column(self, layer: Layer) -> int:
        return self.task.layers.index(layer)

    def alike(self, layer: Layer) -> bool:
        """Tell whether on a layer the speakers of each group all have one rate."""
        column = self._column(layer)
        rates = on_scale(self.sums.totals(), column, "absolute")[0]
        apart = np.abs(self.sums.errors[..., column] - rates * self.sums.sizes)
        return bool((apart <= 1e-9 * np.maximum(self.sums.sizes, 1.0)).all())

    def numbers(self) -> Iterator[tuple[str, dict[str, Coordinate], Interval | Undefined]]:
        """Yield names, coordinates and values of all estimates: of every layer, then of the pattern over layers."""
        gaps: dict[Kind, dict[Layer, float]] = {kind: {} for kind in KINDS}
        for column, layer in enumerate(self.task.layers):
            for kind in KINDS:
                gap = self.gap(column, kind)
                if isinstance(gap, Interval):
                    gaps[kind][layer] = gap.value
                yield named("gap", layer), self.at(layer, kind=kind), gap
            for name, gap in self.gaps_to_others(column).items():
                yield named("gap_to_others", layer), self.at(layer, group=name), gap
            p = self.p_value(column)
            tested = {"test": TEST, "correction": "none"}
            yield named("p_value", layer), {**tested, **self.at(layer)}, self.interval(p, p_method(p))
            yield named("noise_floor", layer), self.at(layer), self.noise_floor(column)
            if self.dealt is not None:
                yield "gap_deal_spread", self.at(layer), self._spread(layer, self.dealt[:, :, column])
        for kind in KINDS:
            correlation = self._correlation(kind, gaps[kind])
            yield "layer_correlation", self.at(kind=kind), correlation
            if isinstance(correlation, Interval):
                yield "fairest_layer", self.at(kind=kind), self._fairest(kind, gaps[kind])

    def _spread(self, layer: Layer, rates: Floats) -> Interval | Undefined:
        """Return the spread of the gap between deals of the clips."""
        worst, best = self._pair(layer)
        return deal_spread(rates[:, worst] - rates[:, best], self.level)

    def _pair(self, layer: Layer) -> tuple[int, int]:
        return self.names.index(self.worst(layer)), self.names.index(self.best(layer))

    @cached_property
    def _replicates(self) -> Floats:
        return replicate_rates(self.task, self.cohort)

    @cached_property
    def _gaps_drawn(self) -> Mapping[str, tuple[Floats, Floats]]:
        """Gaps in every bootstrap sample by kind, each (repeats, layers): of its own extremes, and of a fixed pair."""
        drawn = with_deals(self.sums.drawn(self.cohort.weights), self.dealt, self.cohort.shifts)
        # The same two groups on all layers, those of the layer with the least error: see `relation`.
        worst, best = self._pair(self.task.best)
        found: dict[str, tuple[Floats, Floats]] = {}
        for kind in KINDS:
            scaled = [on_scale(drawn, column, kind) for column in range(len(self.task.layers))]
            widest = np.stack([values.max(axis=1) - values.min(axis=1) for values in scaled], axis=1)
            found[kind] = widest, np.stack([values[:, worst] - values[:, best] for values in scaled], axis=1)
        return found

    def _correlation(self, kind: str, gaps: Mapping[Layer, float]) -> Interval | Undefined:
        """Return the rank correlation of error and gap over the encoder's layers with a defined gap."""
        layers = self.task.encoder_layers
        if len(layers) < FEWEST_LAYERS:
            return self._no_pattern(f"at least {FEWEST_LAYERS} layers")
        if not gaps.keys() >= set(layers):
            return self._no_pattern("one on every layer", kind)
        columns, points = self.task.columns(layers), np.array([gaps[layer] for layer in layers])
        overall = self.task.errors.sum(0)[columns] / self.task.sizes.sum()
        replicates = spearman_rows(self._replicates[:, columns], self._gaps_drawn[kind][0][:, columns])
        value = float(spearman_rows(overall[None], points[None])[0])
        interval = percentile_interval(replicates, UNWIDENED, level=self.level)
        if interval is None or not np.isfinite(value):
            return self._no_pattern("errors and gaps that differ", kind)
        ends = (value, min(interval[0], value), max(interval[1], value))
        return self.interval(ends, "percentile cluster bootstrap of Spearman's correlation")

    def _no_pattern(self, needs: str, kind: str = "") -> Undefined:
        gaps = f"{kind.replace('_', '-')} gaps".strip()
        message = f"By {self.by}, no pattern of {gaps} over layers: it needs {needs}."
        return Undefined(message, id="no-layer-pattern", where=self.at(kind=kind) if kind else self.at())

    def _fairest(self, kind: str, gaps: Mapping[Layer, float]) -> Interval:
        """Return the encoder's layer with the least gap."""
        layers = self.task.encoder_layers
        drawn = self._gaps_drawn[kind][0][:, self.task.columns(layers)]
        return layer_choice(self.task, self.cohort, np.array([gaps[layer] for layer in layers]), drawn)

    def relation(self, kind: str, correlation: tuple[float, float], sure: Sequence[int]) -> int:
        """Return the sign of the correlation of error and gap over the layers; 0 where it is not shown.

        The largest gap of noise is the larger the more is erred, so the correlation over all layers has a sign even
        where no group differs. A sign needs that correlation, and one that noise alone cannot make: over the layers
        whose gap is beyond chance, and of the same two groups everywhere, those of the layer with the least error.

        Parameters
        ----------
        correlation
            The ends of its interval.
        sure
            The layers whose gap is beyond chance.
        """
        columns = self.task.columns(sure)
        held = self._gaps_drawn[kind][1][:, columns]
        replicates = spearman_rows(self._replicates[:, columns], held)
        interval = percentile_interval(replicates, UNWIDENED, level=self.level)
        ends = [correlation, interval or (0.0, 0.0)]
        return next((sign for sign in (1, -1) if all(min(sign * low, sign * high) > 0 for low, high in ends)), 0)
