"""The design of the model of adjusted rates: columns of attributes and controls, and the clips in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import MIN_WORDS, UNKNOWN
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups import Options
from audits.speaker_groups.controls import MOST_POOLED, Pooling, pooling_of
from audits.speaker_groups.counts import Floats, MetricCounts, Utterances
from audits.speaker_groups.gaps import reference_of
from audits.statistics import NotFitted, PoissonFit, Summed, fit_poisson_gee

MANY_CLIPS = 100_000
"""Clips from which on those of a speaker with the same levels and controls are added up."""
FEW = "few or unknown"
"""The level that holds what is unknown and all levels with too few speakers, words or errors: held fixed, not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """An attribute or control in the model.

    Parameters
    ----------
    values
        Its columns, shape (clips in the model, columns).
    levels
        Level of each column; empty for a number.
    reference
        The level without a column.
    words
        How it is held fixed, as a sentence carries it: never more than is true of a column of many levels.
    pooling
        How many levels of an attribute are in the rest; None of a control.
    """

    name: str
    values: Floats
    words: str
    levels: tuple[str, ...] = ()
    reference: str = ""
    pooling: Pooling | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that are compared, without the pooled rest."""
        return tuple(level for level in self.levels if level != FEW)


class Model(NamedTuple):
    """A fitted model, its column of every (attribute, level), and all columns, shape (clips, p)."""

    fit: PoissonFit
    columns: dict[tuple[str, str], int]
    matrix: Floats


@dataclass(slots=True, kw_only=True)
class Design:
    """The terms of one system's models, over the clips of `rows`; fits are kept by the terms that are in them.

    Of very many clips those of a speaker with the same levels and controls are added up: a row is then the first of
    them, and `summed` says of how many clips the rows are.

    `small` are the columns with levels too small to be held fixed: what attributes have of them counts as one level,
    clips in those of controls are not in the models, and a control that has little else is `left_out`.
    """

    errors: Floats
    sizes: Floats
    clusters: NDArray[np.int64]
    rows: NDArray[np.int64]
    attributes: tuple[Term, ...]
    controls: tuple[Term, ...]
    left_out: tuple[str, ...]
    small: Mapping[str, Pooling]
    summed: Summed | None = None
    kept: dict[tuple[str, ...], "Model"] = field(default_factory=dict)

    @property
    def clips(self) -> int:
        """Number of the clips in the models."""
        return self.summed.clips if self.summed else len(self.rows)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms."""
        return (*self.attributes, *self.controls)

    def fit(self, names: Sequence[str]) -> "Model":
        """Return the model with these terms.

        Raises
        ------
        NotFitted
            Where there is none; columns of the rest that others already explain are left out first.
        """
        key = tuple(sorted(names))
        if key not in self.kept:
            self.kept[key] = self._fit([term for term in self.terms if term.name in names])
        return self.kept[key]

    def fit_with(self, extra: Floats) -> "Model":
        """Return the model with all terms and one more column, which is the last."""
        whole = self.fit([term.name for term in self.terms])
        matrix = np.concatenate([whole.matrix, extra[:, None]], axis=1)
        fit = fit_poisson_gee(self.errors, self.sizes, matrix, self.clusters, summed=self.summed)
        return Model(fit, {**whole.columns, ("", "extra"): matrix.shape[1] - 1}, matrix)

    def _fit(self, terms: Sequence[Term]) -> "Model":
        labels = [(term.name, level) for term in terms for level in (term.levels or ("",))]
        values = np.concatenate([np.ones((len(self.rows), 1)), *(term.values for term in terms)], axis=1)
        labels.insert(0, ("", ""))
        # The rest comes last, so that where it says nothing new it is the one found to depend on the others.
        order = sorted(range(len(labels)), key=lambda at: labels[at][1] == FEW)
        while True:
            try:
                fit = fit_poisson_gee(self.errors, self.sizes, values[:, order], self.clusters, summed=self.summed)
            except NotFitted as reason:
                if reason.column is None or labels[order[reason.column]][1] != FEW:
                    raise NotFitted(self._named(str(reason), reason.column, order, labels)) from None
                del order[reason.column]
                continue
            return Model(fit, {labels[at]: column for column, at in enumerate(order)}, values[:, order])

    @staticmethod
    def _named(reason: str, column: int | None, order: Sequence[int], labels: Sequence[tuple[str, str]]) -> str:
        if column is None:
            return reason
        name, level = labels[order[column]]
        what = f"{name}={level}" if level else name or "the rate of the levels of reference"
        if "depends on" in reason:
            others = ", ".join(dict.fromkeys(labels[at][0] for at in order[1:column] if labels[at][0] != name))
            return f"{what} cannot be told apart from {others or 'the rest'}"
        return f"{reason} (the column of {what})"


def design_of(data: Utterances, counts: MetricCounts, system: int, options: Options) -> Design:
    """Return the design of one system's models, without clips that lack words or a control."""
    usable = counts.sizes > 0
    for values in data.controls.values():
        if all(value is None or isinstance(value, float) for value in values):
            usable &= np.array([value is not None for value in values])
    held, small, given_up = _holdable(data, counts, system, np.flatnonzero(usable))
    chosen = _ordered(data, counts, system, held)
    attributes = []
    for groups in data.singles():
        term = _levels(data, counts, system, chosen, groups.by, options)
        if term is not None:
            attributes.append(term)
    errors = counts.errors[chosen, system]
    # Without an error, the rest's own rate runs away: its clips say nothing of the others. No level of a control loses
    # an error by that.
    kept = np.ones(len(chosen), dtype=bool)
    for term in attributes:
        if FEW in term.levels and errors[(rest := term.values[:, -1] > 0)].sum() == 0:
            kept &= ~rest
    rows = chosen[kept]
    attributes = [_within(term, kept) for term in attributes]
    controls = [
        _control(name, [values[row] for row in rows.tolist()], small)
        for name, values in data.controls.items()
        if name not in given_up
    ]
    pooled = {term.name: term.pooling for term in attributes if term.pooling and term.pooling.pooled > 1}
    wanted = [*(groups.by for groups in data.singles() if len(groups.names) > 1), *data.controls]
    there = {term.name for term in (*attributes, *controls) if term.values.shape[1]}
    design = Design(
        errors=errors[kept],
        sizes=counts.sizes[chosen][kept],
        clusters=data.speakers[rows],
        rows=rows,
        attributes=tuple(term for term in attributes if term.shown),
        controls=tuple(term for term in controls if term.values.shape[1]),
        left_out=tuple(name for name in wanted if name not in there),
        small={name: found for name, found in small.items() if found.pooled} | pooled,
    )
    return added_up(data, design) if len(rows) > MANY_CLIPS else design


def added_up(data: Utterances, design: Design) -> Design:
    """Return the design with one row for all clips of a speaker that have the same levels and controls.

    The estimates are the same but for rounding: a model of rates expects of their words together what it expects of
    them one by one, and its variances are those of whole speakers.
    """
    rows = design.rows
    keys = [design.clusters, *(data.ranks(groups.by)[rows] for groups in data.singles())]
    keys += [column for term in design.controls for column in term.values.T]
    cell = np.zeros(len(rows), dtype=np.int64)
    for key in keys:
        number = np.unique(key, return_inverse=True)[1]
        # One by one, so that the numbers stay as small as there are rows.
        cell = np.unique(cell * (int(number.max(initial=0)) + 1) + number, return_inverse=True)[1]
    first = np.unique(cell, return_index=True)[1]

    def total(values: Floats) -> Floats:
        return np.bincount(cell, values).astype(np.float64)

    return replace(
        design,
        errors=total(design.errors),
        sizes=total(design.sizes),
        clusters=design.clusters[first],
        rows=rows[first],
        attributes=tuple(replace(term, values=term.values[first]) for term in design.attributes),
        controls=tuple(replace(term, values=term.values[first]) for term in design.controls),
        summed=Summed(clips=len(rows), squares=total(design.errors**2 / design.sizes)),
    )


def _ordered(data: Utterances, counts: MetricCounts, system: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the clips in a canonical order, so that sums do not depend on that of the manifest."""
    keys = [data.ranks(groups.by)[rows] for groups in data.singles()]
    controls = [[str(values[row]) for row in rows.tolist()] for values in data.controls.values()]
    keys += [np.unique(values, return_inverse=True)[1] for values in controls]
    return rows[np.lexsort((*keys, counts.errors[rows, system], counts.sizes[rows], data.speakers[rows]))]


def _levels(
    data: Utterances,
    counts: MetricCounts,
    system: int,
    rows: NDArray[np.int64],
    name: str,
    options: Options,
) -> Term | None:
    labels = data.labels(name)[rows]
    people: dict[str, int] = {}
    for level in sorted(set(labels.tolist()) - {UNKNOWN}):
        inside = rows[labels == level]
        people[level] = len(np.unique(data.speakers[inside]))
        few = people[level] < options.min_speakers or counts.sizes[inside].sum() < MIN_WORDS
        if few or counts.errors[inside, system].sum() == 0:
            del people[level]
    if len(people) < 2:
        return None
    named = reference_of(name, options).partition("=")[2]
    reference = named if named in people else max(people, key=lambda level: (people[level], level))
    shown = [level for level in people if level != reference]
    columns = [labels == level for level in shown]
    rest = ~np.isin(labels, list(people))
    if rest.any():
        shown.append(FEW)
        columns.append(rest)
    found = pooling_of(labels, people)
    return Term(
        name=name,
        values=np.stack(columns, axis=1).astype(np.float64),
        levels=tuple(shown),
        reference=reference,
        words=name if found.pooled < 2 else f"{name} ({len(people)} of {found.levels} levels, the others as one)",
        pooling=found,
    )


def _control(name: str, values: Sequence[float | str | None], held: Mapping[str, Pooling]) -> Term:
    if all(isinstance(value, float) for value in values):
        numbers = np.array(values, dtype=np.float64)
        apart = numbers - numbers.mean()
        spread = float(apart.std())
        # A control that does not vary here has no column.
        columns = (apart / spread)[:, None] if spread > 0 else np.empty((len(values), 0))
        return Term(name=name, values=columns, words=f"{name} (a number, linear)")
    known, labels, counted = np.unique(_words(values), return_inverse=True, return_counts=True)
    shown = [at for at in range(len(known)) if at != counted.argmax()]
    found = held[name]
    how = f"{found.levels - found.pooled} of {found.levels}" if found.pooled else f"{found.levels}"
    return Term(
        name=name,
        values=(labels[:, None] == np.array(shown)[None]).astype(np.float64),
        levels=tuple(str(known[at]) for at in shown),
        reference=str(known[counted.argmax()]),
        words=f"{name} ({how} levels)",
    )


def _words(values: Sequence[float | str | None]) -> NDArray[np.str_]:
    return np.array([UNKNOWN if value is None else str(value) for value in values])


def _holdable(
    data: Utterances, counts: MetricCounts, system: int, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], dict[str, Pooling], frozenset[str]]:
    """Return the clips for which every categorical control can be held fixed, and the controls that cannot be.

    A level with too few speakers, or without an error, has no rate of its own to hold fixed: its clips are left out.
    A control that would so cost most clips is given up instead, of several the one that costs most.
    """
    labels = {
        name: _words(values)
        for name, values in data.controls.items()
        if not all(value is None or isinstance(value, float) for value in values)
    }
    given_up: set[str] = set()
    while True:
        kept, crowded = rows, ""
        while not crowded:
            inside, most = np.ones(len(kept), dtype=bool), MOST_POOLED * len(kept)
            # In one order, whichever the options were given in: of two that cost as much, the first is given up.
            for name in sorted(labels.keys() - given_up):
                few = _in_few(labels[name][kept], data.speakers[kept], counts.errors[kept, system])
                if few.sum() > most:
                    crowded, most = name, few.sum()
                inside &= ~few
            if inside.all():
                break
            kept = kept if crowded else kept[inside]
        if not crowded:
            break
        given_up.add(crowded)
    found = {}
    for name, every in labels.items():
        few = _in_few(every[rows], data.speakers[rows], counts.errors[rows, system])
        left = every[rows][~few] if name in given_up else every[kept]
        found[name] = pooling_of(every[rows], set(left.tolist()))
    return kept, found, frozenset(given_up)


def _in_few(labels: NDArray[np.str_], speakers: NDArray[np.int64], errors: Floats) -> NDArray[np.bool_]:
    """Return a mask of the clips in levels with too few speakers or without an error."""
    known, number = np.unique(labels, return_inverse=True)
    pairs = np.unique(np.stack([number, speakers], axis=1), axis=0)
    people = np.bincount(pairs[:, 0], minlength=len(known))
    few = (people < MIN_REPORTED) | (np.bincount(number, weights=errors, minlength=len(known)) == 0)
    inside: NDArray[np.bool_] = few[number]
    return inside


def _within(term: Term, kept: NDArray[np.bool_]) -> Term:
    """Return the term restricted to some clips, without columns that are empty there."""
    values = term.values[kept]
    if not term.levels:
        return replace(term, values=values)
    there = np.flatnonzero(values.any(axis=0))
    levels = tuple(term.levels[at] for at in there)
    return replace(term, values=values[:, there], levels=levels)
