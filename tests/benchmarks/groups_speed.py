"""How long does an audit of a corpus of usual size take, and how long the same intervals of rates elsewhere?

Run `python tests/benchmarks/groups_speed.py [--clips 26000] [--speakers 1000] [--replicates 2000]` on a quiet machine.
Four attributes of 7, 4, 3 and 2 levels, crossed up to three at a time. The whole command is timed, from the files to
the written report, with the seconds of its phases. Then, in the same run, the rate of every group it reports goes
through fairlearn's MetricFrame, with errors summed over clips and words as sample parameter: without replicates, and
with a few. What 2,000 would take there is extrapolated from these along a line, since they would take hours. Its
bootstrap draws clips, not speakers: the intervals are narrower than they should be, the work is comparable.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"accent": 7, "age": 4, "region": 3, "gender": 2}
RATE, SPREAD, ORDER = 0.12, 0.4, 3
FEW = (3, 6)
"""Replicates that fairlearn is timed with."""


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
            words = compose(rng)
            name = f"s{who:04d}_{clip:05d}.wav"
            said.writerow((name, " ".join(words), f"s{who:04d}", *(f"{key}{levels[key][who]}" for key in LEVELS)))
            heard.writerow((name, " ".join(corrupt(words, float(rates[who]), rng))))


def command(folder: Path, replicates: int) -> list[str]:
    """Return the command that is timed."""
    by = [word for name in LEVELS for word in ("--by", name)]
    return [
        *(sys.executable, "-m", "miles_cli.main", "audit-groups", str(folder / "manifest.csv")),
        *("--predictions", f"one={folder / 'heard.tsv'}", *by, "--max-order", str(ORDER)),
        *("--bootstrap", str(replicates), "--out", str(folder / "run")),
    ]
