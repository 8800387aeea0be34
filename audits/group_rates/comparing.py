"""Comparison of the groups of one attribute or crossing in every column: gaps, and tests against chance."""

from dataclasses import dataclass
from functools import cached_property

from audits.core.groups import GroupSet
from audits.core.intervals import Interval, Undefined
from audits.group_rates import PERMUTED
from audits.statistics import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Chance,
    Contrast,
    Family,
    Floats,
    Kind,
    MaybeEnds,
    SpeakerSums,
    clearest,
    extremes,
    gap_between,
    gaps_to_others,
    generator,
    mean_and_quantiles,
    monte_carlo_p,
    on_scale,
    shuffle_labels,
    undefined,
    unscaled,
)

KINDS: tuple[Kind, ...] = ("absolute", "relative", "log_odds")
"""Kinds of gap; each is 0 where two groups are alike."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The groups of one set that have enough speakers, in one rate.

    Parameters
    ----------
    groups
        All groups of the attribute or crossing.
    names, sums
        Those that are compared, and their sums per speaker; under two there is nothing to compare.
    rate
        Words that name the rate; the shuffles of each rate are its own.
    reference
        A group that all others are compared with, by its name; any other word stands for none.
    unit
        What a speaker is called.
    bounded
        Whether no rate can be above one.
    """

    groups: GroupSet
    names: tuple[str, ...]
    sums: SpeakerSums
    rate: tuple[str, ...]
    reference: str = "overall"
    unit: str = "speakers"
    bounded: bool = False
    permutations: int
    seed: int
    level: float

    @property
    def by(self) -> str:
        """The attribute, or several joined by `&`."""
        return self.groups.by

    @property
    def crossed(self) -> bool:
        """Whether several attributes are crossed."""
        return "&" in self.by

    @property
    def overlapping(self) -> bool:
        """Whether a speaker is in several of the groups."""
        return bool(self.sums.present.sum(1).max() > 1)

    @cached_property
    def chance(self) -> Chance:
        """Gaps and statistics under shuffled labels."""
        rng = generator(self.seed, "permutation", *self.rate, self.by)
        reference = self.names.index(self.reference) if "=" in self.reference else None
        return shuffle_labels(self.sums, self.permutations, rng, level=self.level, reference=reference)

    @cached_property
    def extremes(self) -> tuple[tuple[str, str], ...]:
        """The groups with the highest and the lowest rate, by column; two different ones also where all are equal."""
        pairs = (extremes(self.sums, column) for column in range(self.sums.errors.shape[2]))
        return tuple((self.names[worst], self.names[best]) for worst, best in pairs)

    def noise(self, column: int) -> Floats | None:
        """Return a covariance of the groups' rates that speakers do not show, such as that of a random split."""
        return None

    def interval(self, ends: MaybeEnds, method: str) -> Interval:
        """Return an interval record over the speakers of all compared groups."""
        value, low, high = ends
        return Interval(
            value=value, low=low, high=high, method=method, n=self.sums.people, unit=self.unit, level=self.level
        )

    def gap(self, column: int, kind: Kind, pair: tuple[str, str] | None = None) -> Interval | Undefined:
        """Return the gap of two groups, by default the worst and the best.

        Its interval holds whichever two were picked.
        """
        pair = pair or self.extremes[column]
        at = self.names.index(pair[0]), self.names.index(pair[1])
        rates = on_scale(self.sums.totals(), column, "absolute")[0]
        if why := undefined(kind, pair, (rates[at[0]], rates[at[1]])):
            return Undefined(why, id="undefined-gap")
        ends = gap_between(self.sums, column, kind, at, level=self.level, chance=self.chance, noise=self.noise(column))
        if kind != "absolute":
            return self.interval(unscaled(kind, ends), RATIO_METHOD)
        gap = self.interval(ends, GAP_METHOD)
        return gap.clipped(-1.0, 1.0) if self.bounded else gap

    def gaps_to_others(self, column: int) -> dict[str, Interval]:
        """Return each group's rate less that of all other groups together, by name."""
        found = gaps_to_others(self.sums, self.chance, column, level=self.level, noise=self.noise(column))
        return {name: self.interval(ends, OTHERS_METHOD) for name, ends in zip(self.names, found, strict=True)}

    def noise_floor(self, column: int) -> Interval:
        """Return the noise floor: the gap under shuffled labels."""
        return self.interval(mean_and_quantiles(self.chance.gaps[:, column], self.level), PERMUTED)

    def clearest(
        self, column: int, family: Family = "pairs", *, one_sided: bool = False
    ) -> tuple[float, str, str | None]:
        """Return the joint p-value of the difference with the clearest interval, and its groups.

        It is what the test looks at: the largest difference may be that of a group too small to be sure of. The second
        group is None where the first is compared with all others together.
        """
        reference = self.names.index(self.reference) if family == "reference" else None
        noise = self.noise(column)
        p, group, against = clearest(self.sums, column, family, reference=reference, one_sided=one_sided, noise=noise)
        return p, self.names[group], None if against is None else self.names[against]

    def p_value(self, column: int, family: Family = "pairs", *, one_sided: bool = False) -> MaybeEnds:
        """Return the p-value, with its Monte Carlo interval, of all groups having one rate.

        It is the larger of two: that of shuffled labels, which is exact where the groups' speakers are drawn from one
        population, and that of the joint intervals, which holds where groups of equal rates differ in spread or size.
        The latter is computed, not sampled, and has no interval.
        """
        compared: Contrast = family
        if one_sided:
            compared = "above_reference" if family == "reference" else "above"
        observed, shuffled = (values[compared] for values in (self.chance.observed, self.chance.shuffled))
        sampled = monte_carlo_p(float(observed[column]), shuffled[:, column], level=self.level)
        computed = self.clearest(column, family, one_sided=one_sided)[0]
        return (computed, None, None) if computed > sampled[0] else sampled


def p_method(ends: MaybeEnds, corrected: str = "") -> str:
    """Return the method text of `Comparison.p_value`; `corrected` is appended, such as ", Holm over all"."""
    return "none" if ends[1] is None else PERMUTED + corrected
