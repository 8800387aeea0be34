"""How long do intervals of the rates of all groups take beside fairlearn's bootstrap, and which are closer to 95 %?

Attributes of 7, 4, 3 and 2 levels are crossed up to three at a time. `miles` is the whole command, from its start and
the two files to the written report, with --replicates bootstrap samples. `MetricFrame` calls fairlearn 0.15 on counts
of words and errors that are given to it: one frame for each attribute or crossing, with --few samples, and without
any; what --replicates would take there is EXTRAPOLATED along the line through these two. Its bootstrap draws clips, not
speakers, and it makes the one rate, where the command makes those of characters and of each kind of error, gaps, tests,
models, search, figures and pages as well.

`--truth 5`: in these data everybody errs alike but for luck and the speaker, so that all groups have one true rate,
that of 100,000 clips by a speaker each. Of how many groups (one or two attributes, 5 speakers or more) do the intervals
of either hold it, in so many corpora? Wanted: 95 %.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import race

LEVELS = {"accent": 7, "age": 4, "region": 3, "gender": 2}
RATE, SPREAD, ORDER, LEAST, MANY, TRUTH_SAMPLES = 0.12, 0.4, 3, 5, 100_000, 200
OPTIONS = {
    "clips": race.Option(26_000, 600, "recordings"),
    "speakers": race.Option(1_000, 60, "who speak them"),
    "replicates": race.Option(2_000, 200, "bootstrap samples of miles"),
    "few": race.Option(20, 2, "bootstrap samples of fairlearn"),
    "truth": race.Option(0, 0, "corpora in which intervals are held against the truth"),
}


def heard(rate: float, rng: Any) -> tuple[list[str], list[str]]:
    """Return a sentence and what a recogniser makes of it."""
    from audits.speaker_groups.transcripts import compose, corrupt

    words = compose(rng)
    return words, corrupt(words, rate, rng)


def rates_of(speakers: int, rng: Any) -> Any:
    """Return the errors per word of each speaker."""
    from audits.speaker_groups.populations import draw_factors

    return (RATE * draw_factors(speakers, SPREAD, rng)).clip(max=1.0)


def errors(words: list[str], written: list[str]) -> int:
    """Return the fewest changes from one to the other."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(words, written)


def prepare(given: argparse.Namespace, seed: int = 0) -> None:
    """Write a manifest, the transcripts of one system, whose errors depend on the speaker alone, and their counts."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rates = rates_of(given.speakers, rng)
    levels = {name: rng.permutation(np.arange(given.speakers) % count) for name, count in LEVELS.items()}
    rows: list[list[Any]] = [["path", "text", "speaker", *LEVELS, "prediction", "words", "errors"]]
    for clip in range(given.clips):
        who = clip % given.speakers
        words, written = heard(float(rates[who]), rng)
        row = [f"s{who:04d}_{clip:05d}.wav", " ".join(words), f"s{who:04d}"]
        row += [f"{name}{levels[name][who]}" for name in LEVELS]
        rows.append([*row, " ".join(written), len(words), errors(words, written)])
    last = 3 + len(LEVELS)
    for name, columns in (("manifest.csv", range(last)), ("heard.csv", (0, last)), ("counts.csv", range(len(rows[0])))):
        with (given.folder / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows([row[place] for place in columns] for row in rows)


def audit(folder: Path, replicates: int) -> None:
    """Run the command."""
    words = [word for name in LEVELS for word in ("--by", name)]
    words += ["--predictions", f"one={folder / 'heard.csv'}", "--max-order", str(ORDER), "--bootstrap", str(replicates)]
    command = [sys.executable, "-m", "miles_cli", "audit-groups", str(folder / "manifest.csv"), *words]
    command += ["--out", str(folder / "run"), "--force", "--quiet"]
    subprocess.run(command, cwd=race.ROOT, check=True)


def estimates(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the word error rates of the groups from a report."""
    report = json.loads((folder / "run" / "report.json").read_text(encoding="utf-8"))
    rows = [row for row in report["estimates"] if row["name"] == "rate" and row["where"]["metric"] == "wer"]
    return {row["where"]["group"]: row for row in rows if row["where"]["group"] != "all"}


def miles(given: argparse.Namespace) -> race.Job:
    """Run the whole command."""

    def job() -> race.Job:
        audit(given.folder, given.replicates)
        return lambda: {name: row["value"] for name, row in estimates(given.folder).items()}

    return job


def frames(clips: Any, replicates: int, orders: range) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name, the rate and the interval of each group as fairlearn makes them."""
    from fairlearn.metrics import MetricFrame

    more = {"n_boot": replicates, "ci_quantiles": [0.025, 0.975], "random_state": 0} if replicates else {}
    for by in (by for order in orders for by in combinations(sorted(LEVELS), order)):
        frame = MetricFrame(
            metrics=lambda words, errors: errors.sum() / words.sum(),
            y_true=clips["words"],
            y_pred=clips["errors"],
            sensitive_features=clips[list(by)],
            **more,
        )
        low, high = frame.by_group_ci if replicates else (frame.by_group, frame.by_group)
        for levels, rate in frame.by_group.items():
            row = (levels,) if isinstance(levels, str) else levels
            name = "&".join(f"{key}={level}" for key, level in zip(by, row, strict=True))
            yield name, float(rate), float(low[levels]), float(high[levels])


def fairlearn(bootstrapped: bool) -> race.Side:
    """Make the rates of all groups, with few samples or none."""

    def side(given: argparse.Namespace) -> race.Job:
        import pandas as pd

        clips = pd.read_csv(given.folder / "counts.csv")
        few = given.few if bootstrapped else 0
        return lambda: {name: rate for name, rate, *_ in frames(clips, few, range(1, ORDER + 1))}

    return side


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say what all samples would take there, and how often intervals hold the truth."""
    if found.keys() == SIDES.keys():
        own, few, none = ([row.cpu for row in found[name]] for name in SIDES)
        whole = [b + (a - b) / given.few * given.replicates for a, b in zip(few, none, strict=True)]
        yield f"MetricFrame with {given.replicates:,} samples, EXTRAPOLATED, CPU s: {race.spread(whole)}"
        over = [a / b for a, b in zip(whole, own, strict=True)]
        yield f"EXTRAPOLATED, side / miles, CPU: {race.spread(over)}"
    if given.truth:
        yield from truths(given)


def truths(given: argparse.Namespace) -> Iterator[str]:
    """Say how often the intervals of either side hold the true rate."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(1_000)
    many = [heard(float(rate), rng) for rate in rates_of(MANY, rng)]
    true = sum(errors(*pair) for pair in many) / sum(len(words) for words, _ in many)
    held: dict[str, list[bool]] = {"miles": [], "MetricFrame": []}
    for seed in range(1, given.truth + 1):
        prepare(given, seed)
        audit(given.folder, given.replicates)
        rows = estimates(given.folder)
        clips = pd.read_csv(given.folder / "counts.csv")
        for name, _, low, high in frames(clips, TRUTH_SAMPLES, range(1, 3)):
            row = rows[name]
            if row["n"] >= LEAST and row.get("low") is not None:
                held["miles"].append(row["low"] <= true <= row["high"])
                held["MetricFrame"].append(low <= true <= high)
    yield f"true rate {true:.4f}; intervals of {len(held['miles'])} groups in {given.truth} corpora that hold it:"
    for name, hits in held.items():
        yield f"    {name}: {np.mean(hits):.1%}"


SIDES = {"miles": miles, "MetricFrame, few": fairlearn(True), "MetricFrame, none": fairlearn(False)}

if __name__ == "__main__":
    race.main(__doc__, options=OPTIONS, sides=SIDES, prepare=prepare, remarks=remarks, packages=("fairlearn", "pandas"))
