"""What do precision, recall, density and coverage cost here, beside prdc and the bare products of matrices?

Run `python tests/benchmarks/knn_speed.py [--points 20000] [--width 768] [--k 5] [--threads 1]` on a quiet machine, and
`--ours-only --points 100000 --width 256` for more points than prdc can hold. Each job is a process of its own, on the
same Gaussian points; the table shows processor seconds, wall seconds, and how far the peak of resident memory rose
above what there was before the job began (the points stand in memory by then; the libraries are loaded and have
multiplied once). `products` multiplies the blocks of all distances three times, as often as prdc does, and keeps
nothing. prdc starts eight threads whatever it is told, takes all n x n distances at once, 12 bytes for each of them,
and needs 5 GB at 20,000 points.
"""

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JOBS = ("prdc", "products", "ours")
NAMES = ("precision", "recall", "density", "coverage")


def prdc(x: Any, y: Any, k: int) -> dict[str, float]:
    """Do as the package does."""
    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):
        return {name: float(value) for name, value in compute_prdc(x, y, nearest_k=k).items()}


def products(x: Any, y: Any, k: int) -> dict[str, float]:
    """Multiply all blocks of three tables of distances."""
    import torch

    from probes.knn import COLUMNS, ROWS

    one, two = torch.from_numpy(x), torch.from_numpy(y)
    room = torch.empty(ROWS, COLUMNS)
    for left, right in ((one, one), (two, two), (one, two)):
        for start in range(0, len(left), ROWS):
            for first in range(0, len(right), COLUMNS):
                rows, columns = left[start : start + ROWS], right[first : first + COLUMNS]
                torch.mm(rows, columns.T, out=room[: len(rows), : len(columns)])
    return {}


def ours(x: Any, y: Any, k: int) -> dict[str, float]:
    """Find neighbours and pairs, and evaluate the whole."""
    import numpy as np

    from probes import knn
    from probes.support_metrics import Side, balls, evaluate, ground, reach

    centre = x.mean(0, dtype=np.float64)
    one, two = knn.points(x, centre), knn.points(y, centre)
    own, theirs = (
        balls(Side(knn.neighbours(rows, k), np.ones((1, len(rows)), dtype=np.int32)), [k])[0] for rows in (one, two)
    )
    found = evaluate(ground(own), theirs, knn.pairs(one, two, reach([own]), reach([theirs])))
    return {name: float(found[name][0]) for name in NAMES}


def run_job(job: str, points: int, width: int, k: int, threads: int) -> None:
    """Do one job and print what it took as JSON."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((points, width), dtype=np.float32) for _ in range(2))
    jobs: dict[str, Callable[[Any, Any, int], dict[str, float]]] = {"prdc": prdc, "products": products, "ours": ours}
    jobs[job](x[: 4 * k], y[: 4 * k], k)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, processor = time.perf_counter(), time.process_time()
    values = jobs[job](x, y, k)
    spent = {"cpu": time.process_time() - processor, "wall": time.perf_counter() - wall}
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({**spent, "extra": extra, "values": values}))


def measured(job: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return what a job printed in a process of its own."""
    sizes = ("points", "width", "k", "threads")
    options = [word for name in sizes for word in (f"--{name}", str(getattr(given, name)))]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(given.threads))
    command = [sys.executable, __file__, "--job", job, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **limits})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(given: argparse.Namespace) -> None:
    """Print the table."""
    print(f"{given.points:,} points a side, width {given.width}, k = {given.k}, {given.threads} threads")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}")
    print(f"{'job':<10}{'CPU s':>9}{'wall s':>9}{'extra MB':>10}  values")
    found = {}
    for job in ("ours",) if given.ours_only else JOBS:
        found[job] = measured(job, given)
        values = " ".join(f"{name} {value:.4f}" for name, value in found[job]["values"].items())
        row = found[job]
        print(f"{job:<10}{row['cpu']:>9.1f}{row['wall']:>9.1f}{row['extra']:>10.0f}  {values}", flush=True)
    if not given.ours_only:
        # prdc compares distances that are rounded to float32: a pair in a hundred thousand falls on the other side.
        apart = max(abs(found["prdc"]["values"][name] - found["ours"]["values"][name]) for name in NAMES)
        print(f"largest difference of a value {apart:.1e}")
        for other in ("prdc", "products"):
            ratios = [found[other][what] / max(found["ours"][what], 1e-9) for what in ("cpu", "wall", "extra")]
            print(f"{other} / ours: CPU {ratios[0]:.2f}, wall {ratios[1]:.2f}, extra memory {ratios[2]:.1f}")


def main() -> None:
    """Read the options."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        run_job(given.job, given.points, given.width, given.k, given.threads)
    else:
        compare(given)


if __name__ == "__main__":
    main()
