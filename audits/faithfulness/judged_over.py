"""On how many contexts, and training runs, a verdict on two systems rests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Estimate
from audits.faithfulness.measure import Counts
from audits.faithfulness.metrics import LABEL

Bools = NDArray[np.bool_]
Pair = tuple[str, str]


def basis(counts: Counts, rows: Sequence[Estimate], pair: Pair) -> str:
    """Return in one sentence what differences of two systems rest on, of all contexts there are."""
    every = f"{len({sample.context_id for sample in counts.samples}):,} contexts"
    if not rows:
        written = np.ones(len(counts.samples), dtype=bool)
        return f"Both systems have an output in {int(_shared(counts, written, pair).sum()):,} of {every}."
    judged = [_judged(counts, str(row.where["metric"])) for row in rows]
    sizes = [int(_shared(counts, mask, pair).sum()) for mask in judged]
    size = " to ".join(f"{one:,}" for one in sorted({min(sizes), max(sizes)}))
    over = f"{_runs_words(counts, judged, pair)}, in " if all(row.unit == "runs" for row in rows) else ""
    what = "label" if rows[0].where["metric"] == LABEL else "score"
    return f"Judged over {over}{size} of {every}: those in which both systems have a {what}."


def _judged(counts: Counts, metric: str) -> Bools:
    """Return which outputs have a label, or a score of a metric."""
    if metric == LABEL:
        return np.array([sample.label is not None for sample in counts.samples])
    return np.asarray(np.isfinite(counts.scores[metric]))


def _of(counts: Counts, system: str) -> Bools:
    return np.array([sample.system == system for sample in counts.samples])


def _shared(counts: Counts, judged: Bools, pair: Pair) -> Bools:
    """Return by context whether both systems have an output in it that was judged."""
    count = int(counts.contexts.max()) + 1
    first, second = (np.bincount(counts.contexts[judged & _of(counts, one)], minlength=count) > 0 for one in pair)
    return np.asarray(first & second)


def _runs_words(counts: Counts, judged: Sequence[Bools], pair: Pair) -> str:
    """Return of how many training runs the outputs are that were compared; metrics may differ in that."""
    found = set()
    for mask in judged:
        used = mask & _shared(counts, mask, pair)[counts.contexts]
        runs = ({counts.samples[at].run for at in np.flatnonzero(used & _of(counts, one))} - {""} for one in pair)
        found.add(tuple(len(one) for one in runs))
    (first, second), *others = sorted(found)
    if others:
        return f"at least {min(map(min, found))} runs of each system"
    return f"{first} runs of each system" if first == second else f"{first} runs of {pair[0]} and {second} of {pair[1]}"
