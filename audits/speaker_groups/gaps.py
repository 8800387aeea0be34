"""How far apart are the groups of an attribute or crossing, and could it be chance?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from audits.context import Context, Draft
from audits.groups import MIN_WORDS, GroupSet
from audits.speaker_groups import Options
from audits.speaker_groups.counts import METRIC_WORDS, Cohort, Counts, Utterances, place, sums_of
from audits.statistics import (
    GAP_METHOD,
    OTHERS_METHOD,
    RATIO_METHOD,
    Chance,
    Contrast,
    Ends,
    Family,
    Kind,
    MaybeEnds,
    SpeakerSums,
    extremes,
    gap_between,
    gaps_to_one,
    gaps_to_others,
    generator,
    monte_carlo_p,
    on_scale,
    shuffle_labels,
    undefined,
    unscaled,
)
from audits.statistics import clearest as clearest_of
from audits.wording import many

KINDS: tuple[Kind, ...] = ("absolute", "relative", "log_odds")
"""Kinds of gap, nought where two groups are alike."""
RATIOS: tuple[Kind, ...] = ("ratio", "four_fifths")
"""Kinds that are 1 where two groups are alike."""
MOST_COMPARED = 100
"""Groups of one set that are compared at most: what all their pairs cost grows with the square."""
OTHERS = "others"
"""What a group is compared with where no group is named: all others of its set together."""
PERMUTED = "permutation of labels over speakers"
EXCESS_METHOD = (
    "square-and-add of Student intervals over speakers, each end on its own and simultaneous over all groups, or "
    "permutation where wider"
)
TO_ONE_METHOD = (
    "square-and-add of Student intervals over speakers, simultaneous over all groups against the reference, or "
    "permutation where wider"
)


@dataclass(slots=True, kw_only=True)
class GapRow:
    """The groups of one set that have enough speakers, and where their estimates stand, by system.

    `reference` is what each group is compared with: overall, best, or the name of a group.
    """

    counts: Counts
    groups: GroupSet
    names: tuple[str, ...]
    sums: SpeakerSums
    drawn: SpeakerSums
    chance: Chance
    reference: str
    worst: dict[int, str] = field(default_factory=dict)
    best: dict[int, str] = field(default_factory=dict)
    gap: dict[tuple[int, Kind], int] = field(default_factory=dict)
    to_reference: dict[tuple[int, str], int] = field(default_factory=dict)
    floor: dict[int, int] = field(default_factory=dict)

    @property
    def by(self) -> str:
        """The attribute, or several joined by `&`."""
        return self.groups.by

    @property
    def crossed(self) -> bool:
        """Whether these are intersections."""
        return "&" in self.groups.by


def compare(
    draft: Draft, data: Utterances, counts: Counts, cohort: Cohort, options: Options, context: Context
) -> list[GapRow]:
    """Add the gaps of every attribute, and of every crossing in the rate that is tested."""
    rows = []
    for groups in data.sets:
        crossed = "&" in groups.by
        if crossed and counts.metric != options.metric:
            continue
        row = _row(draft, data, counts, groups, cohort, options, context)
        if row is not None:
            rows.append(row)
            for system in range(len(data.systems)):
                _add_gaps(draft, data, row, system, context)
    return rows


def _row(
    draft: Draft,
    data: Utterances,
    counts: Counts,
    groups: GroupSet,
    cohort: Cohort,
    options: Options,
    context: Context,
) -> GapRow | None:
    sums = sums_of(data, counts, groups.masks)
    chosen = np.flatnonzero((sums.speakers >= options.min_speakers) & (sums.sizes.sum(0) >= MIN_WORDS))
    if len(chosen) > MOST_COMPARED:
        draft.warn(
            "too-many-groups",
            f"By {groups.by}, {len(chosen)} groups have enough {data.unit} and words; the {MOST_COMPARED} with the "
            f"most {data.unit} are compared. --values or --bin can unite some.",
            by=groups.by,
        )
        chosen = np.sort(chosen[np.argsort(-sums.speakers[chosen], kind="stable")[:MOST_COMPARED]])
    names = tuple(groups.names[at] for at in chosen)
    if counts.metric == options.metric:
        _warn_left_out(draft, data, groups, names, options)
    if len(chosen) < 2:
        return None
    reference = reference_of(groups.by, options)
    if "=" in reference and reference not in names:
        draft.warn(
            "reference-too-small",
            f"{reference} has too few {data.unit} or words to compare others with: by {groups.by}, all others stand "
            "in its place.",
            by=groups.by,
        )
        reference = "overall"
    kept = sums.of(chosen)
    chance = shuffle_labels(
        kept,
        options.permutations,
        generator(context.seed, "permutation", counts.metric, groups.by),
        level=context.level,
        reference=names.index(reference) if "=" in reference else None,
    )
    drawn = kept.drawn(cohort.weights)
    return GapRow(counts=counts, groups=groups, names=names, sums=kept, drawn=drawn, chance=chance, reference=reference)


def reference_of(by: str, options: Options) -> str:
    """Return what the groups of a set are compared with: a named group only where the set is that attribute."""
    named = next((text for text in options.reference if text.partition("=")[0] == by and "=" in text), None)
    return named or ("best" if "best" in options.reference else "overall")


def _warn_left_out(draft: Draft, data: Utterances, groups: GroupSet, names: Sequence[str], options: Options) -> None:
    if len(groups.names) < 2:
        if "&" not in groups.by:
            level = groups.names[0] if groups.names else "no known level"
            draft.warn(
                "constant-attribute",
                f"The column {groups.by} has one level only ({level}): it has a rate, and nothing to compare.",
                by=groups.by,
            )
        return
    if len(names) < 2:
        draft.warn(
            "too-few-speakers",
            f"By {groups.by}, fewer than two groups have enough {data.unit} ({options.min_speakers}) and words "
            f"({MIN_WORDS}): no gap is estimated.",
            by=groups.by,
        )
        return
    left_out = sorted(set(groups.names) - set(names))
    if left_out:
        draft.warn(
            "not-compared",
            f"By {groups.by}, {many(len(left_out), 'group is', 'groups are')} shown but not compared: too few "
            f"{data.unit} (under {options.min_speakers}) or words (under {MIN_WORDS}). "
            f"{', '.join(left_out[:8])}{' and others' if len(left_out) > 8 else ''}.",
        )


def add(
    draft: Draft,
    data: Utterances,
    row: GapRow,
    name: str,
    ends: Ends,
    method: str,
    context: Context,
    system: int,
    **where: str,
) -> int:
    """Add an estimate of a comparison and return its index."""
    return draft.add(
        data.estimate(
            name, ends, method, row.sums.people, place(data, row.counts, system, by=row.by, **where), context.level
        )
    )


def _add_gaps(draft: Draft, data: Utterances, row: GapRow, system: int, context: Context) -> None:
    worst, best = extremes(row.sums, system)
    row.worst[system], row.best[system] = row.names[worst], row.names[best]
    rates = on_scale(row.sums.totals(), system, "absolute")[0]
    for kind in (*KINDS, *RATIOS):
        missing = undefined(kind, (row.names[worst], row.names[best]), (float(rates[worst]), float(rates[best])))
        if missing:
            where = place(data, row.counts, system, by=row.by, kind=kind)
            draft.warn("undefined-gap", missing, **where)
            continue
        ends = gap_between(row.sums, system, kind, (worst, best), level=context.level, chance=row.chance)
        method = GAP_METHOD if kind == "absolute" else RATIO_METHOD
        row.gap[system, kind] = add(
            draft, data, row, name_of(kind), unscaled(kind, ends), method, context, system, kind=kind, adjusted="no"
        )
    _add_chance(draft, data, row, system, context)
    if not row.crossed:
        _add_to_reference(draft, data, row, system, best, context)


def _add_to_reference(draft: Draft, data: Utterances, row: GapRow, system: int, best: int, context: Context) -> None:
    if row.reference == "overall":
        found, method = gaps_to_others(row.sums, row.chance, system, level=context.level), OTHERS_METHOD
        reference, own = OTHERS, -1
    else:
        fixed = row.reference != "best"
        own = row.names.index(row.reference) if fixed else best
        found = gaps_to_one(row.sums, row.chance, system, own, fixed=fixed, level=context.level)
        method, reference = TO_ONE_METHOD if fixed else GAP_METHOD, row.names[own]
    for at, name in enumerate(row.names):
        if at != own:
            where = {"group": name, "reference": reference}
            row.to_reference[system, name] = add(
                draft, data, row, "gap_to_reference", found[at], method, context, system, **where
            )


def clearest(row: GapRow, system: int, hypothesis: str) -> tuple[str, str]:
    """Return the group, and what it is compared with, that differ most clearly: what the test looks at.

    The largest difference may be that of a group too small to be sure of.
    """
    _, group, against = _clearest(row, system, hypothesis)
    return row.names[group], OTHERS if against is None else row.names[against]


def _clearest(row: GapRow, system: int, hypothesis: str) -> tuple[float, int, int | None]:
    """Return the chance of the clearest difference by its joint interval, and the places of its two groups."""
    family, reference, one_sided = _looked_at(row, hypothesis)
    return clearest_of(row.sums, system, family, reference=reference, one_sided=one_sided)


def _looked_at(row: GapRow, hypothesis: str) -> tuple[Family, int | None, bool]:
    """Return which differences a hypothesis is about, the place of the reference, and whether only excesses count."""
    worst = hypothesis == "worst-group"
    if "=" in row.reference:
        return "reference", row.names.index(row.reference), worst
    return ("others", None, True) if worst and row.reference == "overall" else ("pairs", None, False)


def difference_of(
    draft: Draft, data: Utterances, row: GapRow, system: int, pair: tuple[str, str], context: Context
) -> int:
    """Return where the difference of a group and what it is compared with stands, and add it if it does not yet."""
    group, against = pair
    if (group, against) == (row.worst[system], row.best[system]):
        return row.gap[system, "absolute"]
    told = row.to_reference.get((system, group))
    if told is not None and draft.estimates[told].where["reference"] == against:
        return told
    places = (row.names.index(group), row.names.index(against))
    ends = gap_between(row.sums, system, "absolute", places, level=context.level, chance=row.chance)
    where = {"group": group, "reference": against}
    return add(draft, data, row, "gap_to_reference", ends, GAP_METHOD, context, system, **where)


def excess_of(draft: Draft, data: Utterances, row: GapRow, system: int, pair: tuple[str, str], context: Context) -> int:
    """Add by how much a group errs more than what all are compared with, as the one-sided test sees it; return where.

    The low end is the bound of that test, by joint intervals or shuffled labels, whichever is further: it lies above
    nought where the test rejects.
    """
    group, against = pair
    if against == OTHERS:
        found = gaps_to_others(row.sums, row.chance, system, level=context.level, one_sided=True)
    else:
        own = row.names.index(against)
        found = gaps_to_one(row.sums, row.chance, system, own, fixed=True, level=context.level, one_sided=True)
    where = {"group": group, "reference": against}
    return add(draft, data, row, "excess", found[row.names.index(group)], EXCESS_METHOD, context, system, **where)


def name_of(kind: Kind) -> str:
    """Return the name of the estimate of a gap of this kind: ratios have their own, since 1 is none for them."""
    return "gap_ratio" if kind in RATIOS else "gap"


def _add_chance(draft: Draft, data: Utterances, row: GapRow, system: int, context: Context) -> None:
    """Add the gap that shuffled labels make."""
    tail = (1 - context.level) / 2
    permuted = row.chance.gaps[:, system]
    low, high = np.quantile(permuted, [tail, 1 - tail]).tolist()
    floor = float(permuted.mean())
    ends = (floor, min(low, floor), max(high, floor))
    row.floor[system] = add(draft, data, row, "noise_floor", ends, PERMUTED, context, system)


def tested(row: GapRow, system: int, hypothesis: str, context: Context) -> MaybeEnds:
    """Return the p-value, and its Monte Carlo interval, of parity or of there being no worst group.

    It is the larger of two: that of shuffled labels, which is exact where the groups' speakers are drawn from one
    population, and that of the joint intervals, which holds where groups of equal rates differ in spread or size. The
    latter is computed, not sampled, and has no interval.
    """
    family, _, one_sided = _looked_at(row, hypothesis)
    compared: Contrast = family
    if one_sided:
        compared = "above_reference" if family == "reference" else "above"
    observed = float(row.chance.observed[compared][system])
    shuffled = monte_carlo_p(observed, row.chance.shuffled[compared][:, system], level=context.level)
    p = _clearest(row, system, hypothesis)[0]
    return (p, None, None) if p > shuffled[0] else shuffled


def rate_words(counts: Counts) -> str:
    """Return what the rate is called."""
    return METRIC_WORDS[counts.metric]
