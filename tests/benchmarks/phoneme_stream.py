"""Can phone tokens be audited that do not fit in memory, and in a fixed number of readings of their file?

Run `python tests/benchmarks/phoneme_stream.py [--tokens 200000] [--layers 13] [--width 768] [--folder DIR]` on a quiet
machine with 4 GB of disk for the defaults. An NPZ of float16 is written, and every layer is read once in chunks, as
the audit reads it, which gives the time of one reading. Then the whole command runs in a process of its own, five
repetitions as a user gets them: printed are its peak of resident memory, that of an interpreter which only loads the
same libraries, its seconds, those of its processors and phases, and the ratio to one reading. In the end the file is
removed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
SPEAKERS, PHONES, GROUPS = 500, 40, 4
CHUNK = 8192


def layer(tokens: int, width: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors of one layer: a centroid for each phone, an offset for each speaker, and noise."""
    rng = np.random.default_rng(seed)
    centroids = 0.5 * rng.standard_normal((PHONES, width), np.float32)
    offsets = 0.5 * rng.standard_normal((SPEAKERS, width), np.float32)
    for start in range(0, tokens, CHUNK):
        place = np.arange(start, min(start + CHUNK, tokens))
        noise = rng.standard_normal((len(place), width), np.float32)
        yield centroids[place // SPEAKERS % PHONES] + offsets[place % SPEAKERS] + noise


def write(path: Path, tokens: int, layers: int, width: int) -> None:
    """Write the tokens: every speaker says the phones in turn."""
    from audits.phoneme_errors.tokens import write_tokens

    place = np.arange(tokens)
    write_tokens(
        path,
        phones=[f"p{number:02d}" for number in place // SPEAKERS % PHONES],
        speakers=[f"s{number:03d}" for number in place % SPEAKERS],
        attributes={"group": [f"g{number}" for number in place % SPEAKERS % GROUPS]},
        layers={number: layer(tokens, width, number) for number in range(layers)},
        dtype="float16",
    )


def reading(path: Path) -> float:
    """Return the seconds of one reading of all layers, which have been judged before."""
    from audits.phoneme_errors.tokens import read_tokens

    vectors = read_tokens(path, by=("group",)).vectors
    start = time.perf_counter()
    for number in vectors.layers:
        for part in vectors.chunks(number, CHUNK):
            part.mean()
    return time.perf_counter() - start


def run(command: list[str], folder: Path, threads: int) -> tuple[float, float, float]:
    """Return the seconds of a process, those it had a processor, and the peak of its resident memory in MB."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    # A cache of its own: the same tokens, measured before, would not be read again.
    surroundings = {**os.environ, **limits, "MILES_CACHE": str(folder / "cache")}
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=surroundings)
    # Each process by itself: what all children of this one used at most would be that of the largest.
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, peak(used)


def peak(used: resource.struct_rusage) -> float:
    """Return the peak of resident memory in MB; Linux counts kilobytes, macOS bytes."""
    return used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def measure(folder: Path, tokens: int, layers: int, width: int, threads: int) -> None:
    """Print the table."""
    path, report = folder / "tokens.npz", folder / "run"
    write(path, tokens, layers, width)
    size, once = path.stat().st_size, reading(path)
    *_, bare = run(["-c", "import torch, scipy.stats, statsmodels.api, audits.phoneme_errors.measure"], folder, threads)
    command = ["-m", "miles_cli", "audit-phonemes", str(path), "--by", "group"]
    seconds, busy, most = run([*command, "--out", str(report), "--quiet"], folder, threads)
    told = json.loads((report / "report.json").read_text(encoding="utf-8"))
    print(f"{tokens:,} tokens x {width} x {layers} layers, {size / 1e6:,.0f} MB; {threads} threads")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}")
    print(f"{'peak memory of the libraries alone':<44}{bare:>9.0f} MB")
    print(f"{'peak memory of the command':<44}{most:>9.0f} MB")
    print(f"{'one reading of all layers':<44}{once:>9.1f} s")
    print(f"{'the whole command':<44}{seconds:>9.1f} s")
    print(f"{'  time of processors in it':<44}{busy:>9.1f} s")
    for phase, spent in told["provenance"]["seconds"].items():
        print(f"{'  ' + phase:<44}{spent:>9.1f} s")
    print(f"ratio of the command to one reading {seconds / once:.1f}")


def main() -> None:
    """Read the options."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--layers", type=int, default=13)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the file is written for a while; it may take 4 GB")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        measure(Path(place), given.tokens, given.layers, given.width, given.threads)


if __name__ == "__main__":
    main()
