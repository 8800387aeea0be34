"""Groups of rows, by a column, by quantiles of a column of x, or by clusters of x: fixed before scores are seen."""

import re
from collections.abc import Sequence

import numpy as np

from audits.conditional.counts import Groups
from audits.statistics import generator
from probes.conditional.laws import Floats, Truth
from probes.core.errors import InputError

MOST = 50
"""Groups, at most."""
_QUANTILES, _CLUSTERS = re.compile(r"x(\d{1,5}):(\d{1,3})", re.ASCII), re.compile(r"cluster:(\d{1,3})", re.ASCII)


def grouped(truth: Truth, by: str | None, seed: int) -> tuple[Groups, str]:
    """Return the groups of the rows and what they were made by; none where there is nothing to make them of.

    Raises
    ------
    InputError
        Where there is no such column, or it has one value or too many.
    """
    if by is None:
        if truth.x is None:
            return Groups(member=np.zeros(len(truth.y), dtype=np.int64)), ""
        by = "x0:4" if truth.x.shape[1] == 1 else "cluster:4"
    if by in truth.columns:
        return _by_column(truth.columns[by], by), by
    if found := _QUANTILES.fullmatch(by):
        return _by_quantiles(truth, int(found[1]), int(found[2]), by), by
    if found := _CLUSTERS.fullmatch(by):
        return _by_clusters(truth, int(found[1]), by, seed), by
    known = ", ".join((*truth.columns, *(("x0:4", "cluster:4") if truth.x is not None else ()))) or "none"
    raise InputError(f"There are no groups by {by[:60]!r}.", where="--by", hint=f"There are: {known}.")


def _by_column(values: Sequence[str], by: str) -> Groups:
    texts = [str(value).strip() or "unknown" for value in values]
    names = tuple(sorted(set(texts)))
    if not 1 < len(names) <= MOST:
        hint = f"Give a column of 2 to {MOST} values, or quantiles of a column of x (x0:4)."
        raise InputError(f"The column {by!r} has {len(names)} values.", where="--by", hint=hint)
    index = {name: at for at, name in enumerate(names)}
    return Groups(names=tuple(f"{by}={name}" for name in names), member=np.array([index[one] for one in texts]))


def _x(truth: Truth, count: int, by: str) -> Floats:
    if truth.x is None:
        raise InputError("The rows have no x.", where="--by", hint="Give x in --data, or a column of groups.")
    if not 2 <= count <= MOST:
        raise InputError(f"{by!r} asks for {count} groups.", where="--by", hint=f"Give 2 to {MOST}, such as x0:4.")
    return truth.x


def _by_quantiles(truth: Truth, column: int, count: int, by: str) -> Groups:
    x = _x(truth, count, by)
    if column >= x.shape[1]:
        hint = f"x has the columns x0 to x{x.shape[1] - 1}."
        raise InputError(f"There is no column {column} of x.", where="--by", hint=hint)
    values = x[:, column]
    ends = np.unique(np.quantile(values, np.arange(1, count) / count))
    member = np.searchsorted(ends, values, side="right")
    # Values that repeat may leave a part empty.
    there, member = np.unique(member, return_inverse=True)
    if len(there) < 2:
        raise InputError(f"Column {column} of x is nearly constant.", where="--by", hint="Group by another column.")
    spans = [(values[member == at].min(), values[member == at].max()) for at in range(len(there))]
    return Groups(
        names=tuple(f"x{column}={at + 1}/{len(there)}" for at in range(len(there))),
        member=np.asarray(member, dtype=np.int64),
        words=tuple(f"x{column} from {low:.4g} to {high:.4g}" for low, high in spans),
    )


def _by_clusters(truth: Truth, count: int, by: str, seed: int) -> Groups:
    from sklearn.cluster import KMeans

    x = _x(truth, count, by)
    spread = x.std(0)
    kept = x[:, spread > 0] / spread[spread > 0]
    if len(np.unique(kept, axis=0)) < count:
        raise InputError(f"x has fewer than {count} distinct rows.", where="--by", hint="Ask for fewer clusters.")
    start = int(generator(seed, "clusters of x").integers(2**31))
    member = KMeans(count, n_init=4, random_state=start).fit_predict(kept)
    order = np.argsort(np.argsort([np.flatnonzero(member == at)[0] for at in range(count)]))
    return Groups(
        names=tuple(f"cluster={at + 1}" for at in range(count)), member=np.asarray(order[member], dtype=np.int64)
    )
