"""Cost of containment: a checkpoint of 100 MB, cold and warm, and the start of a run.

`python tests/benchmarks/containment.py`; each figure is the median of several, beside the same work in this process.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from probes.contained import call, client
from probes.models.checkpoints import read_checkpoint


def median(work: Callable[[], object], times: int) -> float:
    """Return the median time of some work, in seconds."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def cold() -> None:
    """End the server, so that the next job starts one."""
    client.stop_server()


def started(code: str) -> Callable[[], object]:
    """Return work that runs some code in an interpreter of its own."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Time readers in contained children beside the same in this process.")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--times", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.pt"
        layers = {f"layer{index}.weight": torch.randn(512, 512) for index in range(given.megabytes)}
        torch.save(layers, path)
        plain = median(lambda: torch.load(path, weights_only=True), given.times)
        ours = median(lambda: read_checkpoint(path), given.times)
        first = median(lambda: (cold(), read_checkpoint(path)), 3)
        print(f"{path.stat().st_size / 2**20:.0f} MiB of torch.save: torch.load here {plain:.3f} s")
        print(f"  read_checkpoint, server there {ours:.3f} s ({ours / plain:.2f} x); server started {first:.3f} s")
        nothing = median(started("import torch"), 5)
        one = median(started("import torch; from probes.contained import warm; warm(['torch'])"), 5)
        print(f"start: import torch {nothing:.3f} s; with a server that imports it beside {one:.3f} s")
        small = median(lambda: call(len, "abc"), 50)
        print(f"one call of a child that does nothing {1000 * small:.1f} ms")


if __name__ == "__main__":
    main()
