"""How long does an audit of a million scores take, and how much memory?

Run `python tests/benchmarks/million_scores.py [--scores 1000000] [--runs npz,csv,coins]`. `miles membership` runs as a
process of its own: on an NPZ file, on a CSV file with a name for each point, and on an NPZ file with --coin-flip 0.5,
which adds the bounds of one run. The table shows wall seconds, CPU seconds and the peak of resident memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RUNS = {
    "npz": ("scores.npz", ["--independent", "--epsilon", "3"]),
    "csv": ("scores.csv", ["--independent", "--epsilon", "3"]),
    "coins": ("scores.npz", ["--coin-flip", "0.5", "--epsilon", "3"]),
}


def write(folder: Path, count: int) -> None:
    """Write the same scores, half of them of members, in both forms."""
    member = np.random.default_rng(0).random(count) < 0.5
    scores = np.random.default_rng(1).standard_normal(count) + member
    np.savez(folder / "scores.npz", scores=scores, member=member)
    with (folder / "scores.csv").open("w") as file:
        file.write("id,score,member\n")
        file.writelines(f"point-{i},{s:.6f},{m:d}\n" for i, (s, m) in enumerate(zip(scores, member, strict=True)))


def measured(folder: Path, name: str, options: list[str]) -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds and peak MB of a run."""
    command = [sys.executable, "-m", "miles_cli", "membership", "--scores", str(folder / name), "--higher-is", "member"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MILES_CACHE": str(folder / "cache")}
    begun = time.perf_counter()
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            [*command, *options, "--out", str(folder / "report"), "--force"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"the run failed with {process.returncode}:\n{output.read()}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=1_000_000)
    parser.add_argument("--runs", default=",".join(RUNS))
    given = parser.parse_args()
    print(f"{given.scores:,} scores, load of the last minute {os.getloadavg()[0]:.1f}")
    print(f"{'run':<8}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, given.scores)
        for run in given.runs.split(","):
            wall, cpu, peak = measured(folder, *RUNS[run])
            print(f"{run:<8}{wall:>8.1f}{cpu:>8.1f}{peak:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
