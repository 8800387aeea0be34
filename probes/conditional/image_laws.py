"""Views of stored outcomes that are scored: all values, the pixels under a mask, or principal components."""

import math
from dataclasses import dataclass, replace

import numpy as np

from probes.conditional.laws import Bools, Floats, Ints
from probes.core.errors import InputError

Shape = tuple[int, ...]
FITTED = 2048
"""Rows on which principal components are fitted at the most, evenly spaced: their Gram matrix is to stay small."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """How values as in a file become the d that are scored.

    Parameters
    ----------
    n
        Rows.
    shape
        Of an outcome in the file: (values,) or (H, W, C).
    key
        Array of a candidate's features, which takes the place of its samples.
    kept
        Positions of what is scored in a flat image, shape (kept,); None: all.
    mask
        Where each row has a mask of its own, what of `kept` it scores, shape (n, kept); the rest becomes 0.
    centre, directions
        Of principal components, shapes (2, values) and (2, values, components): of even rows, fitted on odd ones, and
        of odd rows. Outcomes spread more along directions that were fitted on them than draws do.
    """

    n: int
    shape: Shape
    key: str | None = None
    kept: Ints | None = None
    mask: Bools | None = None
    centre: Floats | None = None
    directions: Floats | None = None

    @property
    def d(self) -> int:
        """How many values of an outcome are scored."""
        if self.directions is not None:
            return int(self.directions.shape[2])
        return math.prod(self.shape) if self.kept is None else len(self.kept)

    @property
    def linear(self) -> bool:
        """Whether each scored value is one of the file, so that its mean and standard deviation can be taken over."""
        return self.mask is None and self.directions is None

    def scored(self, values: Floats, start: int = 0) -> Floats:
        """Return what is scored of some outcomes of each row, from row `start` on.

        Parameters
        ----------
        values
            Shape (rows, outcomes, *shape).

        Returns
        -------
        Shape (rows, outcomes, d).

        Examples
        --------
        >>> View(n=1, shape=(2, 1, 1), kept=np.array([1])).scored(np.array([[[[[3.0]], [[4.0]]]]])).tolist()
        [[[4.0]]]
        """
        flat = values.reshape(*values.shape[:2], -1)
        if self.kept is not None:
            flat = flat[..., self.kept]
        if self.mask is not None:
            flat = flat * self.mask[start : start + len(flat), None]
        if self.centre is None or self.directions is None:
            return flat
        found = np.empty((*flat.shape[:2], self.d))
        for odd in (0, 1):
            here = slice((start + odd) % 2, None, 2)
            # One product of matrices instead of one for each row.
            parts = (flat[here] - self.centre[odd]).reshape(-1, flat.shape[2]) @ self.directions[odd]
            found[here] = parts.reshape(-1, flat.shape[1], self.d)
        return found

    def masked(self, mask: Bools, where: str) -> "View":
        """Return the view in which pixels are scored where a mask is true.

        Parameters
        ----------
        mask
            Shape (H, W), or (n, H, W) with one for each row.

        Raises
        ------
        InputError
            Where outcomes are no images, the mask has another shape, or it leaves a row nothing.
        """
        if len(self.shape) != 3:
            hint = "Leave out --mask, or save y as images (n, H, W, C)."
            raise InputError("A mask is for images, and outcomes are none here.", where=where, hint=hint)
        height, width, channels = self.shape
        if mask.shape not in ((height, width), (self.n, height, width)):
            message = f"The mask has the shape {mask.shape}; it takes {(height, width)} or {(self.n, height, width)}."
            raise InputError(message, where=where, hint="Save one mask for all rows, or one for each.")
        rows = np.repeat(mask.reshape(-1, height * width), channels, axis=1)
        empty = np.flatnonzero(~rows.any(axis=1))
        if len(empty):
            of_row = f" of row {empty[0]}" if mask.ndim == 3 else ""
            hint = "Let it be true where pixels are scored, as where they were painted in."
            raise InputError(f"The mask{of_row} is false everywhere: nothing is scored.", where=where, hint=hint)
        kept = np.flatnonzero(rows.any(axis=0))
        single = bool((rows == rows[:1]).all())
        return replace(self, kept=kept, mask=None if single else rows[:, kept])

    def projected(self, y: Floats, count: int, where: str) -> tuple["View", float]:
        """Return the view of the leading principal components of outcomes, and their share of the variance.

        Parameters
        ----------
        y
            Shape (n, d), as this view scores them.

        Raises
        ------
        InputError
            Where outcomes vary in fewer directions.
        """
        centres, directions, share = np.empty((2, y.shape[1])), [], 0.0
        for odd in (0, 1):
            others = y[1 - odd :: 2]
            rows = others[np.unique(np.linspace(0, len(others) - 1, min(len(others), FITTED)).astype(np.int64))]
            centres[odd] = rows.mean(axis=0)
            # Squares of large values would overflow.
            parts = (rows - centres[odd]) / (np.abs(rows - centres[odd]).max() or 1.0)
            squares, found = principal_directions(parts, count)
            if count > len(squares):
                message = f"Half of the outcomes vary in {len(squares)} directions, fewer than {count}."
                hint = f"Give --features pca:{len(squares)} or fewer." if len(squares) else "Leave out --features."
                raise InputError(message, where=where, hint=hint)
            share += float(squares.sum() / (parts**2).sum()) / 2
            directions.append(found)
        # The two halves give the same components, up to their sign.
        same = np.where(np.einsum("dk,dk->k", *directions) < 0, -1.0, 1.0)
        return replace(self, centre=centres, directions=np.stack([directions[0], directions[1] * same])), share


def principal_directions(parts: Floats, count: int) -> tuple[Floats, Floats]:
    """Return sums of squares along the directions in which centred rows vary most, and these as unit vectors.

    Parameters
    ----------
    parts
        Shape (rows, d), centred.
    count
        How many are wanted; there are fewer where rows vary in fewer.

    Returns
    -------
    Shapes (k,) and (d, k), the largest first; the largest entry of a vector is positive.

    Examples
    --------
    >>> squares, vectors = principal_directions(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 2)
    >>> squares.round(9).tolist(), np.abs(vectors).round(9).tolist()
    ([18.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    # scipy finds the leading ones alone.
    from scipy.linalg import eigh

    rows, d = parts.shape
    gram = parts @ parts.T if rows <= d else parts.T @ parts
    least = max(0, len(gram) - count)
    squares, vectors = (found[..., ::-1] for found in eigh(gram, subset_by_index=[least, len(gram) - 1]))
    varying = squares > 1e-10 * max(np.trace(gram), 1e-300)
    squares, vectors = squares[varying], vectors[:, varying]
    if rows <= d:
        vectors = parts.T @ vectors / np.sqrt(squares)
    largest = np.abs(vectors).argmax(axis=0)
    return squares, vectors * np.where(vectors[largest, range(len(squares))] < 0, -1.0, 1.0)
