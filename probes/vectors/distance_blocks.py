"""What blocks of distances share, whatever computes them: their order, and how many near pairs are held."""

from collections.abc import Iterator, Sequence

from probes.core.errors import IncompleteError

Blocks = Sequence[tuple[slice, slice]]
HINT = "Give --device cpu, or fewer points with --samples."


def blocks_of(rows: int, columns: int, largest: tuple[int, int], *, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of the blocks of a table of distances; of a symmetric one the upper triangle.

    >>> [(rows.start, columns.start) for rows, columns in blocks_of(4, 4, (2, 2), symmetric=True)]
    [(0, 0), (0, 2), (2, 2)]
    """
    down, across = largest
    for start in range(0, rows, down):
        stop = min(start + down, rows)
        for first in range(start if symmetric else 0, columns, across):
            yield slice(start, stop), slice(first, min(first + across, columns))


def check_pairs(count: int, most: int) -> None:
    """Refuse more near pairs than can be held.

    Raises
    ------
    IncompleteError
        Where there are more.
    """
    if count > most:
        raise IncompleteError(f"More than {most:,} pairs are near: one side lies in a heap.", hint=HINT)
