"""What do precision, recall, density and coverage cost here, beside prdc, torch-fidelity and bare products?

`prdc` calls the package, version 0.2 (Naeem et al. 2020): all distances at once, 12 bytes for each of n x n, which is
5 GB at 20,000 points, and eight threads whatever it is told. `bare products` multiplies the blocks of all distances
three times, as often as prdc does, and keeps nothing. For more points than prdc can hold:
`--sides miles "bare products" --points 100000 --width 256`.

`torch-fidelity` calls `prc_features_to_metric` of version 0.4.0 with its defaults but for the neighbours: precision and
recall alone, from all distances at once. `torch-fidelity, parts` is the same with `save_cpu_ram`, which makes them in
blocks, one table more often. Its package needs torchvision, whatever is asked of it: the file with the metric is loaded
alone, and what it imports to make features is not.
"""

import argparse
import importlib.util
import sys
import types
from functools import cache
from pathlib import Path
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


@cache
def metric() -> Any:
    """Load the one file of torch-fidelity that makes precision and recall of features."""
    found = importlib.util.find_spec("torch_fidelity")
    if found is None or not found.submodule_search_locations:
        raise race.LeftOutError("torch-fidelity is not installed")
    # Its other files import torchvision. Of them this one needs how an option is read, and what tells its result.
    helpers, utils = types.ModuleType("torch_fidelity.helpers"), types.ModuleType("torch_fidelity.utils")
    helpers.get_kwarg = lambda name, given: given[name]  # type: ignore[attr-defined]
    helpers.vprint = lambda verbose, text: None  # type: ignore[attr-defined]
    makers = ("create_feature_extractor", "extract_featuresdict_from_input_id_cached")
    makers += ("resolve_feature_extractor", "resolve_feature_layer_for_metric")
    for name in makers:
        setattr(utils, name, None)
    package = types.ModuleType("torch_fidelity")
    sys.modules.update({one.__name__: one for one in (package, helpers, utils)})
    place = Path(found.submodule_search_locations[0]) / "metric_prc.py"
    spec = importlib.util.spec_from_file_location("torch_fidelity.metric_prc", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fidelity(saving: bool) -> race.Side:
    """Call the function that makes the metric of features."""

    def side(given: argparse.Namespace) -> race.Job:
        import torch

        call = metric().prc_features_to_metric
        x, y = map(torch.from_numpy, drawn(given))
        options = {"prc_neighborhood": given.k, "prc_batch_size": 10_000, "save_cpu_ram": saving, "verbose": False}

        def job() -> race.Result:
            # What is generated comes first since this version.
            found = call(y, x, **options)
            return {name: found[name] for name in NAMES[:2]}

        return job

    return side


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
        sides={
            "miles": miles,
            "prdc": prdc,
            "torch-fidelity": fidelity(False),
            "torch-fidelity, parts": fidelity(True),
            "bare products": products,
        },
        packages=("prdc", "scikit-learn", "torch-fidelity"),
    )
