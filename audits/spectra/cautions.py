"""What in a checkpoint, or in how it meets its data, makes its answers depend on the grid? Told before a run."""

from collections.abc import Iterator

from audits.spectra.measuring import Setup

FEW = 20
"""Samples under which the report says that they are few."""


def cautions_of(setup: Setup, *, asked: str) -> Iterator[tuple[str, str]]:
    """Yield warnings as (id, message); `asked` is the way of upsampling that was asked for."""
    layout = setup.loaded.operator.layout
    if setup.samples < FEW:
        yield (
            "few-samples",
            f"Samples: {setup.samples}, fewer than {FEW}. Intervals hold as often as they say where samples are no "
            "more skewed than exponential numbers; of so few, nobody can know. Of log-normal ones of sigma 1.5 "
            "about 87 % of intervals of 95 % hold.",
        )
    if layout.padding.fixed:
        cells = ", ".join(str(int(amount)) for amount in layout.padding.amounts)
        yield (
            "fixed-padding",
            f"The network pads by a fixed number of cells ({cells}): on each grid that is another share of the domain, "
            "so that it computes another function on each. Padding by a share of the grid stays nearly the same.",
        )
    if setup.loaded.operator.shifted_at_odd and any(size % 2 for size in _padded(setup)):
        yield (
            "odd-grid",
            "On grids of odd size this release writes every frequency one place too low (it undoes fftshift by "
            "fftshift); that is reproduced here. Grids of odd and of even size are different operators.",
        )
    own = layout.coordinates
    if own not in ("none", "grid", setup.kind):
        yield (
            "coordinate-grid",
            f"The network appends the coordinates of a grid that is {own}, the data lie on one that is {setup.kind}: "
            "every coordinate is off by up to one cell, by another amount on each grid.",
        )
    # Axes of the first grid come first, that of training: no other grid is meant.
    if any(2 * mode >= size for mode, size in zip(setup.loaded.operator.modes, _padded(setup), strict=False)):
        yield (
            "highest-mode",
            "The network keeps the highest frequency that the grid of training can hold, where a transform drops the "
            "imaginary part; on finer grids it does not. What that changes is counted as nonlinear.",
        )
    if asked == "fourier" and setup.kind == "closed":
        yield (
            "misaligned",
            "Zero-padding of the transform of all nodes of a closed grid takes N nodes for a period, and misplaces "
            "them: a baseline that loses by its own fault.",
        )


def _padded(setup: Setup) -> list[int]:
    """Return the sizes of all axes of all grids, with the network's padding."""
    padding = setup.loaded.operator.layout.padding
    return [
        size + sum(ends)
        for grid in setup.grids
        for size, ends in zip(grid.sizes, padding.cells(grid.sizes), strict=True)
    ]
