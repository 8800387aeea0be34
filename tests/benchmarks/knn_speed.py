"""What do precision, recall, density and coverage cost here, beside prdc and the bare products of matrices?

`prdc` calls the package, version 0.2 (Naeem et al. 2020): all distances at once, 12 bytes for each of n x n, which is
5 GB at 20,000 points, and eight threads whatever it is told. `bare products` multiplies the blocks of all distances
three times, as often as prdc does, and keeps nothing. For more points than prdc can hold:
`--sides miles "bare products" --points 100000 --width 256`.
"""

import argparse
from typing import Any

import race

NAMES = ("precision", "recall", "density", "coverage")
OPTIONS = {
    "points": race.Option(20_000, 600, "points a side, Gaussian"),
    "width": race.Option(768, 32, "coordinates of a point"),
    "k": race.Option(5, 5, "neighbours"),
}


def drawn(given: argparse.Namespace) -> tuple[Any, Any]:
    """Return two sets of points."""
    import numpy as np

    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((given.points, given.width), dtype=np.float32) for _ in range(2))


def prdc(given: argparse.Namespace) -> race.Job:
    """Call the package."""
    from prdc import compute_prdc

    x, y = drawn(given)
    return lambda: compute_prdc(x, y, nearest_k=given.k)


def products(given: argparse.Namespace) -> race.Job:
    """Multiply all blocks of three tables of distances."""
    import torch

    from probes.vectors.knn import COLUMNS, ROWS

    one, two = map(torch.from_numpy, drawn(given))
    room = torch.empty(ROWS, COLUMNS)

    def job() -> race.Result:
        for left, right in ((one, one), (two, two), (one, two)):
            for rows in left.split(ROWS):
                for columns in right.split(COLUMNS):
                    torch.mm(rows, columns.T, out=room[: len(rows), : len(columns)])
        return {}

    return job


def miles(given: argparse.Namespace) -> race.Job:
    """Find neighbours and pairs, and evaluate the whole."""
    import numpy as np

    from probes.vectors import knn
    from probes.vectors.support_metrics import Side, balls, evaluate, prepare_reference, reach

    x, y = drawn(given)

    def job() -> race.Result:
        centre = x.mean(0, dtype=np.float64)
        one, two = knn.points(x, centre), knn.points(y, centre)
        own, theirs = (
            balls(Side(knn.neighbours(rows, given.k), np.ones((1, len(rows)), dtype=np.int32)), [given.k])[0]
            for rows in (one, two)
        )
        found = evaluate(prepare_reference(own), theirs, knn.pairs(one, two, reach([own]), reach([theirs])))
        return {name: float(found[name][0]) for name in NAMES}

    return job


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles, "prdc": prdc, "bare products": products},
        packages=("prdc", "scikit-learn"),
    )
