"""How often are the bounds and intervals of `miles membership` wrong, where the truth is known?

Run `python tests/benchmarks/membership_coverage.py [--audits 1000] [--sizes 500,5000] [--parts bounds,one-run,...]`.
Scores are normal with unit variance, moved by mu for members: a Gaussian mechanism, whose epsilon is known. Numbers
come from the audit's own code. Under `bounds` every score is an independent trial, under `one-run` every canary has a
coin of its own; a bound may exceed the truth in 5 % of the audits. `metrics` and `leakage` show how often intervals of
95 % hold what they are of. A share of 1000 audits is known to 0.7 points (one standard error at 5 %); those that are
off by more than three are marked. On one core, 1000 audits
of 500 + 500 scores take 40 s (bounds), 60 s (one-run), 20 s (metrics) and 300 s (leakage), of 5,000 + 5,000 scores 100,
300, 40 and 700 s.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL, DELTA = 0.95, 1e-5
MUS = (0.0, 0.5, 1.0, 2.0, 3.0)
SELECTIONS = ("split", "bonferroni", "fixed")
SHARE = 0.2
"""Share of the canaries that are guessed where it is fixed before."""
RATES = (0.1, 0.01)
ATTACKS, COMMON = 8, 0.7
"""Attacks to choose from, and how strongly their scores are correlated."""


def normal(mu: float, n: int, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Draw scores of n members and n non-members."""
    member = np.arange(2 * n) < n
    return rng.standard_normal(2 * n) + mu * member, member


def flipped(mu: float, n: int, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Draw scores of 2 n canaries, each included by a fair coin."""
    included = rng.random(2 * n) < 0.5
    return rng.standard_normal(2 * n) + mu * included, included


def correlated(mus: Sequence[float], n: int, rng: np.random.Generator, common: float = COMMON) -> tuple[Floats, Bools]:
    """Draw scores of several attacks on the same points, shape (attacks, 2 n); each has unit variance."""
    member = np.arange(2 * n) < n
    shared, own = rng.standard_normal(2 * n), rng.standard_normal((len(mus), 2 * n))
    return np.sqrt(common) * shared + np.sqrt(1 - common) * own + np.array(mus)[:, None] * member, member


def truth(mu: float) -> float:
    """Return the epsilon of the mechanism."""
    from audits.statistics.epsilon_bounds import gdp_epsilon

    return gdp_epsilon(mu, DELTA)


@contextmanager
def audits() -> Iterator[Callable[..., "Audit"]]:
    """Let audits be made without their credible intervals, and without computing a bound of the same counts twice."""
    from audits.core.context import Cache, Context
    from audits.membership import bounding

    runs = ("one_run_epsilon", "one_run_fdp_epsilon", "one_run_independent_epsilon", "one_run_independent_gdp_epsilon")
    kept = {name: getattr(bounding, name) for name in ("joint_beta", *runs)}
    bounding.joint_beta = lambda *counts, **more: (0.0, 0.0)
    for name in runs:
        setattr(bounding, name, lru_cache(maxsize=100_000)(kept[name]))
    # The correction for several p-values asks for a collection of garbage each time.
    gc.collect()
    gc.freeze()
    try:
        with tempfile.TemporaryDirectory() as folder:
            context = Context(cache=Cache(Path(folder)), level=LEVEL)
            yield lambda scores, member, seed: Audit(scores, member, seed, context)
    finally:
        gc.unfreeze()
        for name, one in kept.items():
            setattr(bounding, name, one)


class Audit:
    """One audit of scores; where they have two axes, of several attacks; where they are several, of several models."""

    def __init__(self, scores: Floats | Mapping[str, Floats], member: Bools, seed: int, context: Any) -> None:
        from audits.membership.scoring import Attack

        everybody = np.ones(len(member), dtype=np.bool_)
        models = scores if isinstance(scores, Mapping) else {"": np.atleast_2d(scores)}
        self.context, self.models = context, list(models)
        self.member, self.seed = member, seed
        self.pool = self.points(coins=False)
        self.attacks = [
            Attack(
                name=f"{place}",
                tier="full",
                where={"model": model} if model else {},
                setting="",
                scores=row,
                member=member,
                judged=everybody,
            )
            for model, rows in models.items()
            for place, row in enumerate(rows)
        ]

    def points(self, *, coins: bool) -> Any:
        """Return the points with the half that chooses."""
        from audits.membership.pool import pool_of_labels

        count = len(self.member)
        return pool_of_labels(self.member, (), self.seed, given=count, skipped={}, where="", coins=coins)

    def bounds(self, selection: str, **options: Any) -> Mapping[str, Any]:
        """Return the bounds of the first attack by method."""
        from audits.membership import Options
        from audits.membership.bounding import bound_all
        from audits.membership.rates import judged_of

        given = Options(selection=selection, **{"delta": DELTA, **options})
        pool = self.points(coins=given.coin_flip is not None)
        judged = [judged_of(self.attacks[0], self.context.level)]
        return bound_all(judged, pool, given, {}, level=self.context.level, seed=self.context.seed)[0].proved

    def estimates(self) -> tuple[list[Any], Any]:
        """Return all estimates of the scores, and what was counted of the first attack."""
        from audits.core.context import Draft
        from audits.membership.estimates import add_rates
        from audits.membership.rates import judge_all

        draft, judged = Draft(level=self.context.level), judge_all(self.attacks, self.context.level, RATES)
        for one in judged:
            add_rates(draft, one, self.pool.chooses, RATES)
        return draft.estimates, judged[0]

    def leaks(self) -> tuple[list[tuple[Any, int]], list[Any]]:
        """Return each model's leak with the attack that was chosen, and the differences."""
        from audits.membership.leaks import gaps_of, leaks_of
        from audits.membership.rates import judged_of

        level = self.context.level
        leaks = leaks_of([judged_of(one, level) for one in self.attacks], self.pool, self.models)
        gaps = [(gap.interval, gap.p) for gap in gaps_of(leaks, level)]
        return [(one.interval(level), int(one.judged.attack.name)) for one in leaks], gaps


def plain(audit: Audit, mu: float) -> dict[tuple[str, str, str], float]:
    """Return the bounds of independent trials by method, validity and selection."""
    found = {}
    for selection in SELECTIONS:
        threshold = mu / 2 if selection == "fixed" else None
        for method, one in audit.bounds(selection, independent=True, threshold=threshold).items():
            found[method, one.validity, selection] = one.epsilon
    return found


def one_run(audit: Audit, mu: float) -> dict[tuple[str, str, str], float]:
    """Return the bounds of coins by method, validity and selection."""
    found = {}
    for selection in SELECTIONS:
        threshold = SHARE if selection == "fixed" else None
        for method, one in audit.bounds(selection, coin_flip=0.5, threshold=threshold).items():
            if method.startswith("one-run"):
                found[method, one.validity, selection] = one.epsilon
    return found


def marked(share: float, wanted: float, draws: int, *, both: bool = False) -> str:
    """Return a mark where a share is more than three standard errors too high, or for `both` off."""
    off = (abs(share - wanted) if both else share - wanted) / np.sqrt(wanted * (1 - wanted) / draws)
    return "  <-- OFF" if off > 3 else ""


def show_bounds(
    make: Callable[..., Audit],
    draw: Callable[..., tuple[Floats, Bools]],
    bounds: Callable[..., Any],
    n: int,
    draws: int,
) -> None:
    """Print how often and how far bounds lie above or below the truth."""
    print(f"{'mu':>4}{'truth':>8}  {'method':<25}{'selection':<12}{'validity':<30}{'mean':>8}{'above':>8}")
    for mu in MUS:
        rng, true = np.random.default_rng([n, int(10 * mu)]), truth(mu)
        rows = [bounds(make(*draw(mu, n, rng), seed), mu) for seed in range(draws)]
        for method, validity, selection in rows[0]:
            values = np.array([row[method, validity, selection] for row in rows])
            above = float((values > true).mean())
            print(
                f"{mu:>4}{true:>8.3f}  {method:<25}{selection:<12}{validity:<30}{values.mean():>8.3f}{above:>8.4f}"
                f"{marked(above, 1 - LEVEL, draws)}",
                flush=True,
            )


def metrics(audit: Audit, mu: float) -> dict[str, tuple[float, float, float, float]]:
    """Return value, interval and truth of the numbers of an attack."""
    from scipy.stats import norm

    from audits.statistics.roc import call_at, roc

    def advantage(threshold: float) -> float:
        return float(norm.sf(threshold - mu) - norm.sf(threshold))

    rows, judged = audit.estimates()
    attack, half = audit.attacks[0], audit.pool.chooses
    curve = roc(attack.scores[half], attack.member[half])
    chosen = float(curve.thresholds[np.argmax(curve.hits / curve.members - curve.alarms / curve.others)])
    best = advantage(mu / 2)
    truths = {
        "auc": {"": float(norm.cdf(mu / np.sqrt(2)))},
        "advantage": {"": best},
        "advantage_held_out": {"of its threshold": advantage(chosen), "best there is": best},
    }
    found = {}
    for row in rows:
        known = truths.get(row.name, {})
        name = row.name
        if row.name == "tpr":
            rate = float(row.where["fpr"])
            name = f"tpr at {rate:g}"
            # At the largest score of a non-member that is not called: this the members have no part in.
            met = call_at(judged.curve, rate)
            border = np.sort(attack.scores[~attack.member])[met.others - met.alarms - 1]
            known = {
                "of its threshold": float(norm.sf(border - mu)),
                "at this rate": float(norm.sf(norm.isf(rate) - mu)),
            }
        for which, true in known.items():
            found[f"{name} {which}".strip()] = (row.value, row.low, row.high, true)
    return found


def show_metrics(make: Callable[..., Audit], n: int, draws: int) -> None:
    """Print how often intervals hold the truth."""
    _head()
    for mu in MUS:
        rng = np.random.default_rng([n, int(10 * mu), 1])
        _show(f"{mu}", [metrics(make(*normal(mu, n, rng), seed), mu) for seed in range(draws)])


def show_leakage(make: Callable[..., Audit], n: int, draws: int) -> None:
    """Print how often a leak holds the area of the attack that was chosen, and what the largest area of all would."""
    from scipy.stats import norm

    def true(mu: float) -> float:
        return float(norm.cdf(mu / np.sqrt(2)))

    _head()
    for mu in MUS[:4]:
        rng = np.random.default_rng([n, int(10 * mu), 2])
        rows, apart = [], []
        for seed in range(draws):
            # Attacks of the second model share noise with those of the first, since the points are the same.
            mus = [mu * share for share in np.linspace(0.9, 1, ATTACKS)]
            scores, member = correlated([*mus, *mus[::-1]], n, rng)
            audit = make({"a": scores[:ATTACKS], "b": scores[ATTACKS:]}, member, seed)
            leaks, gaps = audit.leaks()
            reached = [true(one[chosen]) for one, (_, chosen) in zip((mus, mus[::-1]), leaks, strict=True)]
            (row, _), (gap, p) = leaks[0], gaps[0]
            rows.append(
                {
                    "leakage": (row.value, row.low, row.high, reached[0]),
                    "difference": (gap.value, gap.low, gap.high, reached[0] - reached[1]),
                    "largest of all": _largest(scores[:ATTACKS], member, max(true(one) for one in mus)),
                }
            )
            apart.append(p < 1 - LEVEL)
        _show(f"{mu}", rows)
        if not mu:
            print(f"      differences told, of models that do not leak: {np.mean(apart):.4f}", flush=True)


def _largest(scores: Floats, member: Bools, true: float) -> tuple[float, float, float, float]:
    from audits.statistics.roc import area, area_interval

    best = max((area(row, member) for row in scores), key=lambda one: one.value)
    return best.value, *area_interval(best, LEVEL)[:2], true


def _head() -> None:
    print(f"{'mu':>4}  {'number':<38}{'truth':>8}{'mean':>8}{'width':>8}{'held':>8}{'below':>8}{'above':>8}")


def _show(mu: str, rows: Sequence[Mapping[str, tuple[float, float, float, float]]]) -> None:
    for name in rows[0]:
        value, low, high, true = np.array([row[name] for row in rows]).T
        below, above = float((high < true).mean()), float((low > true).mean())
        off = marked(below + above, 1 - LEVEL, len(rows))
        print(
            f"{mu:>4}  {name:<38}{true.mean():>8.4f}{value.mean():>8.4f}{(high - low).mean():>8.4f}"
            f"{1 - below - above:>8.4f}{below:>8.4f}{above:>8.4f}{off}",
            flush=True,
        )


PARTS: Mapping[str, Callable[[Callable[..., Audit], int, int], None]] = {
    "bounds": lambda make, n, draws: show_bounds(make, normal, plain, n, draws),
    "one-run": lambda make, n, draws: show_bounds(make, flipped, one_run, n, draws),
    "metrics": show_metrics,
    "leakage": show_leakage,
}


def main() -> None:
    """Read the options and print the tables."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--sizes", default="500,5000", help="members, and as many non-members")
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    given = parser.parse_args()
    with audits() as make:
        for part in given.parts.split(","):
            for n in map(int, given.sizes.split(",")):
                start = time.process_time()
                print(f"{part}: {given.audits:,} audits with {n:,} + {n:,} scores")
                PARTS[part](make, n, given.audits)
                print(f"{time.process_time() - start:.0f} s of CPU\n", flush=True)


if __name__ == "__main__":
    main()
