"""How long does an audit of a corpus of usual size take, and how long do the same intervals of rates take elsewhere?

Run `python tests/benchmarks/groups_speed.py [--clips 26000] [--speakers 1000] [--replicates 2000] [--threads 2]` on a
quiet machine. Attributes of 7, 4, 3 and 2 levels are crossed up to three at a time. The whole command is timed, from
its start and the two files to the written report; the seconds of its phases are those in report.json. Then, in the
same run, the word error rates of the same groups go through fairlearn's MetricFrame, one frame for each attribute or
crossing, with no replicates and with a few. What all replicates would take there is EXTRAPOLATED along the line
through these, since it would take many minutes. Its bootstrap draws clips, not speakers, so its intervals are not
those wanted; and it is timed for the one rate, where the command makes those of characters and of each kind of error,
gaps, tests, models, search, figures and pages as well.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"accent": 7, "age": 4, "region": 3, "gender": 2}
RATE, SPREAD, ORDER = 0.12, 0.4, 3
FEW = (3, 6)
"""Replicates that the frames are timed with."""


def write(folder: Path, clips: int, speakers: int) -> None:
    """Write a manifest and the transcripts of one system, whose errors depend on the speaker alone."""
    from probes.synthetic.transcripts import compose, corrupt, draw_factors

    rng = np.random.default_rng(0)
    rates = np.minimum(RATE * draw_factors(speakers, SPREAD, rng), 1.0)
    levels = {name: rng.permutation(np.arange(speakers) % count) for name, count in LEVELS.items()}
    with (
        (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as references,
        (folder / "heard.tsv").open("w", newline="", encoding="utf-8") as transcripts,
    ):
        said = csv.writer(references, lineterminator="\n")
        heard = csv.writer(transcripts, delimiter="\t", lineterminator="\n")
        said.writerow(("path", "text", "speaker", *LEVELS))
        heard.writerow(("path", "prediction"))
        for clip in range(clips):
            who = clip % speakers
            words, name = compose(rng), f"s{who:04d}_{clip:05d}.wav"
            said.writerow((name, " ".join(words), f"s{who:04d}", *(f"{key}{levels[key][who]}" for key in LEVELS)))
            heard.writerow((name, " ".join(corrupt(words, float(rates[who]), rng))))


def audit(folder: Path, replicates: int, threads: int) -> float:
    """Run the command and return its seconds."""
    by = [word for name in LEVELS for word in ("--by", name)]
    command = [
        *(sys.executable, "-m", "miles_cli", "audit-groups", str(folder / "manifest.csv"), *by),
        *("--predictions", f"one={folder / 'heard.tsv'}", "--max-order", str(ORDER)),
        *("--bootstrap", str(replicates), "--out", str(folder / "run"), "--quiet"),
    ]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env={**os.environ, **limits}, check=True)
    return time.perf_counter() - start


def frames(folder: Path, replicates: int | None) -> tuple[float, dict[str, float]]:
    """Return the seconds of all frames, and the rate of every group by name."""
    import pandas as pd
    from fairlearn.metrics import MetricFrame

    clips = pd.read_csv(folder / "run" / "records.csv")
    names = sorted(LEVELS)
    more = {"n_boot": replicates, "ci_quantiles": [0.025, 0.975], "random_state": 0} if replicates else {}
    rates: dict[str, float] = {}
    start = time.perf_counter()
    for order in range(1, ORDER + 1):
        for by in combinations(names, order):
            frame = MetricFrame(
                metrics=lambda words, errors: errors.sum() / words.sum(),
                y_true=clips["words"],
                y_pred=clips["word_errors_one"],
                sensitive_features=clips[list(by)],
                **more,
            )
            for levels, rate in frame.by_group.items():
                row = (levels,) if isinstance(levels, str) else levels
                rates["&".join(f"{name}={level}" for name, level in zip(by, row, strict=True))] = float(rate)
    return time.perf_counter() - start, rates


def compare(clips: int, speakers: int, replicates: int, threads: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, clips, speakers)
        own = audit(folder, replicates, threads)
        report = json.loads((folder / "run" / "report.json").read_text())
        bare, rates = frames(folder, None)
        few = [frames(folder, count)[0] for count in FEW]
    mine = {
        row["where"]["group"]: row["value"]
        for row in report["estimates"]
        if row["name"] == "rate" and row["where"]["metric"] == "wer" and row["where"]["group"] != "all"
    }
    apart = max(abs(mine[name] - rate) for name, rate in rates.items())
    assert mine.keys() == rates.keys() and apart < 1e-12, "the two sides have other groups or rates"
    each = (few[1] - few[0]) / (FEW[1] - FEW[0])
    whole = few[0] + (replicates - FEW[0]) * each
    print(f"{clips:,} clips, {speakers:,} speakers, {len(mine)} groups, {replicates:,} replicates, {threads} threads")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}")
    print(f"{'miles audit-groups, whole command':<44}{own:>9.1f} s")
    for phase, seconds in report["provenance"]["seconds"].items():
        print(f"{'  ' + phase:<44}{seconds:>9.1f} s")
    print(f"{'MetricFrame, the same rates, no replicates':<44}{bare:>9.1f} s")
    for count, seconds in zip(FEW, few, strict=True):
        print(f"{f'MetricFrame, {count} replicates':<44}{seconds:>9.1f} s")
    print(f"{f'MetricFrame, {replicates:,} replicates, EXTRAPOLATED':<44}{whole:>9.1f} s")
    print(f"ratio {whole / own:.1f}")


def main() -> None:
    """Read the options."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=26_000)
    parser.add_argument("--speakers", type=int, default=1_000)
    parser.add_argument("--replicates", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    compare(given.clips, given.speakers, given.replicates, given.threads)


if __name__ == "__main__":
    main()
