"""How often do test and interval both show a gap with other things held fixed, where there is none?

`python tests/calibration/adjusted_designs.py N` prints it for each world, from N simulations. A world says who is in
which group, the speakers' own error rates and how many words they say; an age that has nothing to do with it is held
fixed.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from audits.statistics import NotFitted, adjusted_gap, adjusted_rates, fit_poisson_gee, wald_test

Floats = NDArray[np.float64]
World = tuple[NDArray[np.int64], Floats, Floats]


def alike(groups: int, people: int) -> Callable[[np.random.Generator], World]:
    def drawn(rng: np.random.Generator) -> World:
        count = groups * people
        return np.repeat(np.arange(groups), people), 0.1 * rng.gamma(4, 0.25, count), np.full(count, 60.0)

    return drawn


def few_against_many(rng: np.random.Generator) -> World:
    return np.repeat([0, 1], [10, 60]), 0.1 * rng.gamma(4, 0.25, 70), np.full(70, 60.0)


def unequal_skew(spread: float) -> Callable[[np.random.Generator], World]:
    """Draw speakers of whom, at 1.2, one in six has more than three times the median."""

    def drawn(rng: np.random.Generator) -> World:
        own = np.exp(spread * rng.normal(size=10) - spread**2 / 2)
        return np.repeat([0, 1], [10, 60]), np.append(0.1 * own, np.full(60, 0.1)), np.full(70, 60.0)

    return drawn


def talkative_err_more(rng: np.random.Generator) -> World:
    talks = rng.random(10) < 0.2
    rates, words = np.where(talks, 0.5, 0.1), np.where(talks, 400.0, 20.0)
    # Of all words, 80 of 96 are of those who talk: both groups err in 41.6 of 96.
    return np.repeat([0, 1], [10, 60]), np.append(rates, np.full(60, 41.6 / 96)), np.append(words, np.full(60, 96.0))


def uneven_words(rng: np.random.Generator) -> World:
    words = np.ceil(60 * np.exp(1.2 * rng.normal(size=30)))
    return np.repeat([0, 1], 15), 0.1 * rng.gamma(4, 0.25, 30), words


def apart(rng: np.random.Generator) -> World:
    rates = np.repeat([0.22, 0.10], 25) + 0.03 * rng.normal(size=50)
    return np.repeat([0, 1], 25), np.maximum(rates, 0.005), np.full(50, 60.0)


def found(world: Callable[[np.random.Generator], World], trials: int) -> tuple[float, float, int]:
    """Return how often test and interval both show a gap, how often the test, and in how many samples."""
    shown = rejected = fitted = 0
    for seed in range(trials):
        rng = np.random.default_rng((3, seed))
        group, rates, words = world(rng)
        errors, age = rng.poisson(words * rates).astype(float), rng.random(group.size) < 0.5
        count = int(group.max()) + 1
        design = np.column_stack([group == place for place in range(count)] + [age]).astype(float)
        design[:, 0] = 1.0
        try:
            fit = fit_poisson_gee(errors, words, design, np.arange(group.size))
        except NotFitted:
            continue
        logs = np.eye(count + 1)[:count]
        logs[0] = 0.0
        adjusted = adjusted_rates(fit, logs, words, group)
        worst = int(adjusted.value.argmax())
        best = int(np.where(np.arange(count) == worst, np.inf, adjusted.value).argmin())
        _, gap = adjusted_gap(fit, adjusted, (worst, best), level=0.95, top=max(1.0, float((errors / words).max())))
        clear = wald_test(fit, range(1, count)) < 0.05
        shown, rejected, fitted = shown + (clear and gap[1] > 0), rejected + clear, fitted + 1
    return shown / fitted, rejected / fitted, fitted


WORLDS = {
    "2 of 12": alike(2, 12),
    "4 of 10": alike(4, 10),
    "8 of 10": alike(8, 10),
    "8 of 5": alike(8, 5),
    "10 against 60": few_against_many,
    "2 of 15, words log-normal(1.2)": uneven_words,
    "10 of rates log-normal(1.2) against 60 all alike": unequal_skew(1.2),
    "10 of rates log-normal(1.5) against 60 all alike": unequal_skew(1.5),
    "10, one in five says 20 times as much and errs 5 times as often, against 60 alike": talkative_err_more,
    "25 against 25, a real gap of 0.12": apart,
}


def main(trials: int) -> None:
    """Print a row for each world."""
    print("| groups and speakers | test and interval | the test alone |\n| --- | --- | --- |")
    for name, world in WORLDS.items():
        both, alone, _ = found(world, trials)
        print(f"| {name} | {both:.3f} | {alone:.3f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
