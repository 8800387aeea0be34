"""What does the whole of `miles precision-recall` cost beside prdc, where candidates are packed in the middle?

Candidates are 0.9 times as wide as the reference, in 256 dimensions: each lies in very many balls, which is the dearest
case. `miles` is the whole command, from its start and its files to the finished report with its pages, for as many
points a side as there are, with the halves of its intervals, its controls, and curves from clusters. `curveless` is the
same without curves. `prdc` calls the package, version 0.2 (Naeem et al. 2020), whose four numbers have no interval; its
libraries are loaded before the clock starts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import race

NAMES = ("precision", "recall", "density", "coverage")
OPTIONS = {
    "points": race.Option(8_000, 400, "points a side, Gaussian"),
    "width": race.Option(256, 32, "coordinates of a point"),
    "scale": race.Option(0.9, 0.9, "spread of the candidates; that of the reference is 1"),
    "k": race.Option(5, 5, "neighbours"),
}


def prepare(given: argparse.Namespace) -> None:
    """Write both sides."""
    import numpy as np

    rng = np.random.default_rng(0)
    for name, scale in (("reference", 1.0), ("candidate", given.scale)):
        rows = scale * rng.standard_normal((given.points, given.width), dtype=np.float32)
        np.save(given.folder / f"{name}.npy", rows.astype(np.float32))


def miles(curves: bool) -> race.Side:
    """Run the whole command, at the number of points that prdc has."""

    def side(given: argparse.Namespace) -> race.Job:
        files, out = given.folder, given.folder / "run"
        words = ["--reference", str(files / "reference.npy"), "--candidate", f"packed={files / 'candidate.npy'}"]
        words += ["--samples", str(given.points), "--k", str(given.k), *([] if curves else ["--no-curves"])]
        command = [sys.executable, "-m", "miles_cli", "precision-recall", *words, "--out", str(out), "--force"]

        def job() -> race.Job:
            # A cache of its own: nothing that was computed before is read.
            with tempfile.TemporaryDirectory() as cache:
                told = {**os.environ, "MILES_CACHE": cache}
                subprocess.run([*command, "--quiet"], cwd=race.ROOT, check=True, env=told)
            return lambda: scores(json.loads((out / "report.json").read_text(encoding="utf-8")))

        return job

    return side


def scores(report: dict[str, Any]) -> dict[str, float]:
    """Return the four numbers of a report."""
    rows = {row["name"]: row for row in report["estimates"] if row["where"].get("candidate") == "packed"}
    return {name: rows[name]["value"] for name in NAMES}


def prdc(given: argparse.Namespace) -> race.Job:
    """Call the package."""
    import numpy as np
    from prdc import compute_prdc

    x, y = (np.load(given.folder / f"{name}.npy") for name in ("reference", "candidate"))
    return lambda: compute_prdc(x, y, nearest_k=given.k)


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles(curves=True), "curveless": miles(curves=False), "prdc": prdc},
        prepare=prepare,
        base="prdc",
        packages=("prdc", "scikit-learn"),
    )
