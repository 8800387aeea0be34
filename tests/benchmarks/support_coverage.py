"""How often do the intervals of precision-recall hold the truth, and how often does it tell equal candidates apart?

Run `python tests/benchmarks/support_coverage.py [--draws 500] [--pairs 500] [--threads 1]`. Each draw is a reference
and a candidate of Gaussian points; intervals are made by the audit's own code from 50 splits. The truth is the mean
over all draws, at most 1 where the audit reports at most 1, and, where it can be computed, the value for many points.
The share of intervals that hold it is itself a count of draws: at 500 draws a true .95 is seen as .93 to .97. In the
null, two candidates of one distribution are set against one reference; differences are tested at the 5 % level.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
K, SPLITS, LEVEL = 5, 50, 0.95


@dataclass(frozen=True)
class Setting:
    """Standard Gaussian reference, and a candidate moved by `shift` in all and stretched by `scale`."""

    n: int
    d: int
    shift: float = 0.0
    scale: float = 1.0

    def reference(self, rng: np.random.Generator) -> Floats:
        """Draw the reference, shape (n, d)."""
        return rng.standard_normal((self.n, self.d))

    def candidate(self, rng: np.random.Generator) -> Floats:
        """Draw a candidate, shape (n, d)."""
        return self.scale * rng.standard_normal((self.n, self.d)) + self.shift / np.sqrt(self.d)

    def limits(self) -> dict[str, float]:
        """Return what is known for many points: in one dimension, coverage and density."""
        if self.d > 1:
            return {}
        from scipy.stats import norm

        x = np.linspace(-12.0, 12.0, 240_001)
        p, q = norm.pdf(x), norm.pdf(x, self.shift, self.scale)
        # The ball of x holds no candidate where the k points nearest to x, of both kinds, are all reference points.
        missed = float((p * (p / (p + q)) ** K).sum() * (x[1] - x[0]))
        return {"coverage": 1 - missed, "density": 1.0}


SETTINGS = (
    Setting(1000, 1, shift=0.5),
    Setting(400, 4, shift=1.0),
    Setting(1000, 8),
    Setting(150, 16),
    Setting(150, 16, scale=0.7),
)
NULLS = (Setting(400, 4, shift=1.0), Setting(400, 4))


def scores(
    reference: Floats, candidates: list[Floats], rng: np.random.Generator, *, splits: int = SPLITS
) -> list[dict[str, Floats]]:
    """Return every metric of every candidate, of the whole and of the halves, shape (1 + 2 splits,)."""
    from audits.statistics.halves import half_splits
    from probes.vectors import knn
    from probes.vectors.support_metrics import Balls, Side, balls, evaluate, list_length, prepare_reference, reach

    def prepared(rows: Floats) -> tuple[knn.Points, Balls]:
        points = knn.points(rows, reference.mean(0))
        weights = np.ones((1 + 2 * splits, len(rows)), dtype=np.int32)
        weights[1::2] = half_splits(len(rows), splits, rng)
        weights[2::2] = 1 - weights[1::2]
        near = knn.neighbours(points, list_length(K, 0.5 if splits else 1.0, len(rows)))
        return points, balls(Side(near, weights), [K])[0]

    x, own = prepared(reference)
    against, found = prepare_reference(own), []
    for rows in candidates:
        y, theirs = prepared(rows)
        found.append(evaluate(against, theirs, knn.pairs(x, y, reach([own]), reach([theirs]))))
    return found


def reported(parts: dict[str, Floats], size: int, context: Any) -> dict[str, Any]:
    """Return the estimates that the audit reports, by metric."""
    from audits.core.context import Draft
    from audits.precision_recall.intervals import add
    from audits.statistics.halves import halved

    draft = Draft(level=context.level)
    # Every text is seen once, as in an audit of all texts.
    return {name: add(draft, name, halved(values[:, None]), size, {}, seen=size) for name, values in parts.items()}


def holds(estimate: Any, truth: float) -> bool:
    """Tell whether the interval holds the truth; an estimate without any does not."""
    return estimate.low is not None and estimate.low <= truth <= estimate.high


def cover(setting: Setting, draws: int, rng: np.random.Generator, context: Any) -> None:
    """Print the shares of one setting."""
    from audits.statistics.halves import halved

    rows, sides, start = [], [], time.process_time()
    for _ in range(draws):
        parts = scores(setting.reference(rng), [setting.candidate(rng)], rng)[0]
        rows.append(reported(parts, setting.n, context))
        sides.append({name: halved(values[:, None]) for name, values in parts.items()})
    each = (time.process_time() - start) / draws
    print(f"n={setting.n} d={setting.d} shift={setting.shift} scale={setting.scale}: {draws} draws, {each:.2f} s each")
    print(f"  {'metric':<18}{'truth':>8}{'spread':>8}{'error':>8}{'held':>7}{'below':>7}{'above':>7}{'none':>6}")
    limits = setting.limits()
    for name in rows[0]:
        ones = [row[name] for row in rows]
        values = np.array([one[name].value for one in sides])
        error = float(np.sqrt(np.mean([one[name].error() ** 2 for one in sides])))
        mean = min(1.0, float(values.mean())) if name.startswith("clipped") else float(values.mean())
        for label, truth in ((name, mean), (f"{name}, limit", limits.get(name))):
            if truth is None:
                continue
            held = np.mean([holds(one, truth) for one in ones])
            below = np.mean([one.low is not None and one.high < truth for one in ones])
            above = np.mean([one.low is not None and one.low > truth for one in ones])
            none = sum(one.low is None for one in ones)
            print(
                f"  {label:<18}{truth:>8.4f}{values.std(ddof=1):>8.4f}{error:>8.4f}"
                f"{held:>7.3f}{below:>7.3f}{above:>7.3f}{none:>6}",
                flush=True,
            )


def null(setting: Setting, pairs: int, rng: np.random.Generator) -> None:
    """Print how often equal candidates differ significantly."""
    from audits.statistics.halves import halved

    found: dict[str, list[float]] = {}
    for _ in range(pairs):
        one, two = scores(setting.reference(rng), [setting.candidate(rng), setting.candidate(rng)], rng)
        for name in one:
            gap = halved(one[name][:, None]) - halved(two[name][:, None])
            found.setdefault(name, []).append(gap.p())
    print(f"equal candidates, n={setting.n} d={setting.d} shift={setting.shift}: {pairs} pairs, share with p < .05")
    for name, values in found.items():
        print(f"  {name:<18}{np.mean(np.array(values) < 0.05):>8.3f}", flush=True)


def main() -> None:
    """Read the options and print the tables."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import torch

    from audits.core.context import Cache, Context

    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        context = Context(cache=Cache(Path(folder)), level=LEVEL)
        for setting in SETTINGS:
            cover(setting, given.draws, np.random.default_rng(given.seed), context)
        for setting in NULLS:
            null(setting, given.pairs, np.random.default_rng(given.seed + 1))


if __name__ == "__main__":
    main()
