"""How often do the intervals of `miles interference` hold the truth, and how often does a matrix without effects alarm?

Run `python tests/benchmarks/interference_coverage.py [--draws 400] [--languages 6,12] [--seeds 2,3,5] [--noise ...]`.
Losses of sentences are drawn for every model and seed. What a model adds is new for every model, target and seed; the
monolingual model of a language is shared by a row of the matrix; what a seed adds to all models of a target cancels.
Sentences are of unequal length, their losses and what a second language changes in them have heavy tails (t with 4
degrees of freedom), and what a model makes of a sentence varies with the seed. `equal` noise is the same for all
models; under `unequal` every second bilingual model has four times the standard deviation; under `spread` its logarithm
is normal with a standard deviation of 0.7; under `correlated` a bilingual model errs alike for both of its targets.
False alarms are counted over matrices without any effect. A share of 400 draws is known to about 1 point where it is
one of matrices; `held` and `p<.05` are shares of contrasts. A draw takes about 0.1 s on one core.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95
NOISES = ("equal", "unequal", "spread", "correlated")


@dataclass(frozen=True)
class Setting:
    """One matrix: languages, seeds, sentences of a language, and the kinds and sizes of noise in nats per token."""

    languages: int
    seeds: int
    sentences: int = 60
    noise: str = "equal"
    sigma: float = 0.05
    sentence: float = 0.15
    interaction: float = 0.1
    null: bool = False


@dataclass(frozen=True)
class Drawn:
    """Deltas of every cell, shape (n, n, seeds, sentences), the weights, shape (n, sentences), and the true cells."""

    deltas: Floats
    weights: Floats
    truth: Floats


def draw(setting: Setting, rng: np.random.Generator) -> Drawn:
    """Draw losses of all models; a cell is a bilingual model's less the monolingual one's."""
    n, seeds, count = setting.languages, setting.seeds, setting.sentences
    weights = 1.0 + rng.poisson(rng.gamma(2.0, 6.0, (n, count)))
    scale = np.ones((n, n))
    if setting.noise == "unequal":
        scale = np.where(np.add.outer(np.arange(n), np.arange(n)) % 2 == 0, 4.0, 1.0)
        np.fill_diagonal(scale, 1.0)
    if setting.noise == "spread":
        scale = np.exp(0.7 * rng.standard_normal((n, n)))
    model = rng.standard_normal((n, n, seeds)) * setting.sigma * scale[:, :, None]
    if setting.noise == "correlated":
        # What one bilingual model does to both of its targets.
        shared = rng.standard_normal((n, n, seeds))
        model = setting.sigma * (shared + shared.transpose(1, 0, 2)) / np.sqrt(2)
    # The diagonal holds the monolingual model. A seed's own level is the same for all models of a target.
    level = rng.standard_normal((n, 1, seeds)) * 0.3
    own = rng.standard_t(4, (n, n, 1, count)) / np.sqrt(2) * setting.sentence
    mixed = rng.standard_t(4, (n, n, seeds, count)) / np.sqrt(2) * setting.interaction
    losses = (model + level)[..., None] + own + mixed
    truth = np.zeros((n, n))
    if not setting.null:
        half = rng.random((n, n)) < 0.5
        truth = half * rng.normal(0.0, 0.05, (n, n)) + (np.arange(n) % 2) * 0.02
        np.fill_diagonal(truth, 0.0)
    losses += truth[:, :, None, None]
    alone = losses[np.arange(n), np.arange(n)]
    deltas = (losses - alone[:, None]) * weights[:, None, None, :]
    return Drawn(deltas, weights, truth)


def families(drawn: Drawn) -> dict[str, tuple[list[Any], Floats]]:
    """Return the contrasts of each kind with their true values."""
    from audits.statistics.crossed import Contrast, Part

    n = len(drawn.weights)
    off = [(i, j) for i in range(n) for j in range(n) if i != j]

    def cell(i: int, j: int, factor: float = 1.0) -> Any:
        return Part(drawn.deltas[i, j], drawn.weights[i], factor)

    rows = drawn.deltas.sum(1) / (n - 1)
    return {
        "cells": ([Contrast((cell(i, j),)) for i, j in off], np.array([drawn.truth[i, j] for i, j in off])),
        "asymmetries": (
            [Contrast((cell(i, j), cell(j, i, -1.0))) for i, j in off if i < j],
            np.array([drawn.truth[i, j] - drawn.truth[j, i] for i, j in off if i < j]),
        ),
        "row means": (
            [Contrast((Part(rows[i], drawn.weights[i]),)) for i in range(n)],
            drawn.truth.sum(1) / (n - 1),
        ),
        "column means": (
            [Contrast(tuple(cell(i, j, 1 / (n - 1)) for i in range(n) if i != j)) for j in range(n)],
            drawn.truth.sum(0) / (n - 1),
        ),
    }


def cover(setting: Setting, draws: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Return for every kind: share held, missed below, missed above, spread of errors over mean se, mean half width."""
    from audits.statistics.crossed import crossed_intervals

    rows: dict[str, list[Floats]] = {}
    for _ in range(draws):
        for name, (contrasts, truth) in families(draw(setting, rng)).items():
            found = crossed_intervals(contrasts, level=LEVEL)
            ends = np.array([[one.value, one.se, one.low, one.high] for one in found], dtype=np.float64)
            value, error, low, high = ends.T
            held = (low <= truth) & (truth <= high)
            for label, which in split(setting, name):
                part = [held, high < truth, low > truth, (value - truth) ** 2, error**2, (high - low) / 2]
                rows.setdefault(label, []).append(np.array([one[which].mean() for one in part]))
    found = {name: np.mean(each, axis=0) for name, each in rows.items()}
    return {name: np.array([*row[:3], np.sqrt(row[3] / row[4]), row[5]]) for name, row in found.items()}


def split(setting: Setting, name: str) -> list[tuple[str, Any]]:
    """Return which contrasts make up a line; cells of the noisy and of the quiet models also have their own."""
    lines: list[tuple[str, Any]] = [(name, slice(None))]
    if name == "cells" and setting.noise == "unequal":
        n = setting.languages
        noisy = np.array([(i + j) % 2 == 0 for i in range(n) for j in range(n) if i != j])
        lines += [("  noisy", noisy), ("  quiet", ~noisy)]
    return lines


def alarms(setting: Setting, draws: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Return for every kind: share of cells with p < .05, and of matrices with any under Holm and under BH."""
    from audits.statistics.crossed import crossed_intervals

    rows: dict[str, list[list[float]]] = {}
    for _ in range(draws):
        for name, (contrasts, _) in families(draw(setting, rng)).items():
            p = np.sort([float(one.p) for one in crossed_intervals(contrasts, level=LEVEL)])
            # Whether any is left after the correction is all that is asked, and much sooner known.
            any_bh = (p * len(p) / np.arange(1, len(p) + 1)).min() < 0.05
            rows.setdefault(name, []).append([float((p < 0.05).mean()), float(p[0] * len(p) < 0.05), float(any_bh)])
    return {name: np.mean(each, axis=0) for name, each in rows.items()}


def table(setting: Setting, draws: int, seed: int) -> None:
    """Print coverage and false alarms of one setting."""
    start = time.process_time()
    held = cover(setting, draws, np.random.default_rng(seed))
    null = Setting(**{**vars(setting), "null": True})
    false = alarms(null, draws, np.random.default_rng(seed + 1))
    each = (time.process_time() - start) / (2 * draws)
    print(
        f"{setting.languages} languages, {setting.seeds} seeds, {setting.noise} noise: {draws} draws, {each:.2f} s each"
    )
    print(f"  {'kind':<14}{'held':>7}{'below':>7}{'above':>7}{'sd/se':>7}{'half':>8}{'p<.05':>8}{'Holm':>7}{'BH':>7}")
    for name, row in held.items():
        line = f"  {name:<14}{row[0]:>7.3f}{row[1]:>7.3f}{row[2]:>7.3f}{row[3]:>7.3f}{row[4]:>8.4f}"
        if name in false:
            line += f"{false[name][0]:>8.3f}{false[name][1]:>7.3f}{false[name][2]:>7.3f}"
        print(line, flush=True)


def main() -> None:
    """Read the options and print the tables."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--languages", default="6,12")
    parser.add_argument("--seeds", default="2,3,5")
    parser.add_argument("--noise", default=",".join(NOISES))
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--sigma", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for noise in given.noise.split(","):
        for languages in map(int, given.languages.split(",")):
            for seeds in map(int, given.seeds.split(",")):
                setting = Setting(languages, seeds, given.sentences, noise, given.sigma)
                table(setting, given.draws, given.seed)


if __name__ == "__main__":
    main()
