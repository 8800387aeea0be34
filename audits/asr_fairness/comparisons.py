"""The comparison of groups: how far they are apart, whether it could be chance, and how it changes with the layer."""

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
from audits.asr_fairness.counts import KINDS, TEST, Floats, Layer, TaskCounts, named, sums_of
from audits.groups import MIN_WORDS, GroupSet
from audits.intervals import Interval, Undefined
from audits.records import Coordinate
from audits.statistics import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Chance,
    Kind,
    MaybeEnds,
    SpeakerSums,
    clearest,
    extremes,
    gap_between,
    gaps_to_others,
    generator,
    monte_carlo_p,
    on_scale,
    percentile_interval,
    shuffle_labels,
    undefined,
    unscaled,
)
from audits.statistics.rank_correlation import spearman_rows

FEWEST_LAYERS = 4
"""Layers under which no pattern over layers is estimated."""
PERMUTED = "permutation of labels over speakers"
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
        task=task,
        cohort=cohort,
        names=tuple(groups.names[group] for group in chosen),
        sums=sums.of(chosen),
        dealt=deal_rates(task, groups.masks[chosen]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The groups of one set that have enough speakers to be compared, in one metric.

    Parameters
    ----------
    names
        The groups.
    sums
        Sums per speaker and group.
    dealt
        Rates of the groups in every deal of the clips, shape (deals, groups, layers); None where none are compared.
    """

    groups: GroupSet
    task: TaskCounts
    cohort: Cohort
    names: tuple[str, ...]
    sums: SpeakerSums
    dealt: Floats | None = None

    @property
    def by(self) -> str:
        """The attribute, or several crossed."""
        return self.groups.by

    @property
    def crossed(self) -> bool:
        """Whether several attributes are crossed."""
        return "&" in self.by

    def at(self, layer: Layer | None = None, **more: Coordinate) -> dict[str, Coordinate]:
        """Return the coordinates of an estimate of the comparison, of a layer or over all of them."""
        return {**(self.task.where if layer is None else self.task.at(layer)), "by": self.by, **more}

    def _column(self, layer: Layer) -> int:
        return self.task.layers.index(layer)

    def _pair(self, layer: Layer) -> tuple[int, int]:
        return self._pairs[self._column(layer)]

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(extremes(self.sums, column) for column in range(len(self.task.layers)))

    def worst(self, layer: Layer) -> str:
        """Return the group with the highest rate on a layer."""
        return self.names[self._pair(layer)[0]]

    def best(self, layer: Layer) -> str:
        """Return the group with the lowest rate on a layer; another one than the worst also where all are equal."""
        return self.names[self._pair(layer)[1]]

    def alike(self, layer: Layer) -> bool:
        """Tell whether on a layer all speakers of a group fare alike, in every group."""
        column = self._column(layer)
        rates = on_scale(self.sums.totals(), column, "absolute")[0]
        apart = np.abs(self.sums.errors[..., column] - rates * self.sums.sizes)
        return bool((apart <= 1e-9 * np.maximum(self.sums.sizes, 1.0)).all())

    def numbers(self) -> Iterator[tuple[str, dict[str, Coordinate], Interval | Undefined]]:
        """Yield names, coordinates and values of all estimates: of every layer, then of the pattern over layers."""
        rng = generator(self.cohort.seed, "permutation", self.task.task, self.task.metric, self.by)
        chance = shuffle_labels(self.sums, self.cohort.permutations, rng, level=self.cohort.level)
        gaps: dict[Kind, dict[Layer, float]] = {kind: {} for kind in KINDS}
        for layer in self.task.layers:
            for kind in KINDS:
                gap = self._gap(layer, kind, chance)
                if isinstance(gap, Interval):
                    gaps[kind][layer] = gap.value
                yield named("gap", layer), self.at(layer, kind=kind), gap
            for name, gap in self._gaps_to_others(layer, chance).items():
                yield named("gap_to_others", layer), self.at(layer, group=name), gap
            tested = {"test": TEST, "correction": "none"}
            yield named("p_value", layer), {**tested, **self.at(layer)}, self._p_value(layer, chance)
            yield named("noise_floor", layer), self.at(layer), self._noise_floor(layer, chance)
            if self.dealt is not None:
                yield "gap_deal_spread", self.at(layer), self._spread(layer, self.dealt)
        for kind in KINDS:
            correlation = self._correlation(kind, gaps[kind])
            yield "layer_correlation", self.at(kind=kind), correlation
            if isinstance(correlation, Interval):
                yield "fairest_layer", self.at(kind=kind), self._fairest(kind, gaps[kind])

    def _noise(self, layer: Layer) -> Floats | None:
        return deal_covariance(self.dealt, self._column(layer), self.cohort.level)

    def _interval(self, ends: MaybeEnds, method: str) -> Interval:
        value, low, high = ends
        level = self.cohort.level
        return Interval(
            value=value, low=low, high=high, method=method, n=self.sums.people, unit="speakers", level=level
        )

    def _gap(self, layer: Layer, kind: Kind, chance: Chance) -> Interval | Undefined:
        """Return the gap of the worst to the best group on a layer."""
        column, pair = self._column(layer), self._pair(layer)
        rates = on_scale(self.sums.totals(), column, "absolute")[0]
        missing = undefined(kind, (self.worst(layer), self.best(layer)), (rates[pair[0]], rates[pair[1]]))
        if missing:
            return Undefined(missing, id="undefined-gap")
        level, noise = self.cohort.level, self._noise(layer)
        ends = unscaled(kind, gap_between(self.sums, column, kind, pair, level=level, chance=chance, noise=noise))
        found = self._interval(ends, GAP_METHOD if kind == "absolute" else RATIO_METHOD)
        return found.clipped(-1.0, 1.0) if kind == "absolute" and self.task.metric == "error" else found

    def _gaps_to_others(self, layer: Layer, chance: Chance) -> dict[str, Interval]:
        """Return the gap of each group to all other groups together, by its name."""
        level, noise = self.cohort.level, self._noise(layer)
        found = gaps_to_others(self.sums, chance, self._column(layer), level=level, noise=noise)
        return {name: self._interval(ends, OTHERS_METHOD) for name, ends in zip(self.names, found, strict=True)}

    def _p_value(self, layer: Layer, chance: Chance) -> Interval:
        """Return the p-value of the gap: of shuffled labels or of the joint intervals, the larger."""
        column = self._column(layer)
        observed, shuffled = float(chance.observed["pairs"][column]), chance.shuffled["pairs"][:, column]
        found = monte_carlo_p(observed, shuffled, level=self.cohort.level)
        # Shuffled labels are exact for groups drawn from one population; joint intervals hold where spreads differ.
        least = clearest(self.sums, column, "pairs", noise=self._noise(layer))[0]
        return self._interval((least, None, None), "none") if least > found[0] else self._interval(found, PERMUTED)

    def _noise_floor(self, layer: Layer, chance: Chance) -> Interval:
        """Return the gap that chance alone makes."""
        gaps, tail = chance.gaps[:, self._column(layer)], (1 - self.cohort.level) / 2
        low, high = np.quantile(gaps, [tail, 1 - tail]).tolist()
        mean = float(gaps.mean())
        return self._interval((mean, min(low, mean), max(high, mean)), PERMUTED)

    def _spread(self, layer: Layer, dealt: Floats) -> Interval | Undefined:
        """Return by how much the gap differs from one deal of the clips to the next."""
        (worst, best), rates = self._pair(layer), dealt[:, :, self._column(layer)]
        return deal_spread(rates[:, worst] - rates[:, best], self.cohort.level)

    @cached_property
    def _replicates(self) -> Floats:
        return replicate_rates(self.task, self.cohort)

    @cached_property
    def _gaps_drawn(self) -> Mapping[str, tuple[Floats, Floats]]:
        """Gaps in every bootstrap sample by kind, each (repeats, layers): of the extremes there, and of one pair."""
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
        """Return the rank correlation of error and gap over the encoder's layers; of the gaps that there are."""
        layers = self.task.encoder_layers
        if len(layers) < FEWEST_LAYERS:
            return self._no_pattern(f"at least {FEWEST_LAYERS} layers")
        if not gaps.keys() >= set(layers):
            return self._no_pattern("one on every layer", kind)
        columns, points = self.task.columns(layers), np.array([gaps[layer] for layer in layers])
        overall = self.task.errors.sum(0)[columns] / self.task.sizes.sum()
        replicates = spearman_rows(self._replicates[:, columns], self._gaps_drawn[kind][0][:, columns])
        value = float(spearman_rows(overall[None], points[None])[0])
        interval = percentile_interval(replicates, UNWIDENED, level=self.cohort.level)
        if interval is None or not np.isfinite(value):
            return self._no_pattern("errors and gaps that differ", kind)
        ends = (value, min(interval[0], value), max(interval[1], value))
        return self._interval(ends, "percentile cluster bootstrap of Spearman's correlation")

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
        """Return which way error and gap go together over the layers, 0 where that cannot be told.

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
        level = self.cohort.level
        interval = percentile_interval(spearman_rows(self._replicates[:, columns], held), UNWIDENED, level=level)
        ends = [correlation, interval or (0.0, 0.0)]
        return next((sign for sign in (1, -1) if all(min(sign * low, sign * high) > 0 for low, high in ends)), 0)
