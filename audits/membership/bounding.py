"""Lower bounds of epsilon from the counts of attacks, and the assumptions of each.

Rates of one model's points are no independent trials of the game that epsilon is defined by: their bounds are called
heuristic. Where each point was put in by a coin of its own, the one-run bounds hold; where every score is from a
training run of its own, the plain ones do. Bounds that hold canaries not to interfere, or the trade-off curve to be
Gaussian, stand beside them, and no verdict rests on these.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.intervals import Interval
from audits.core.numbers import LOWER_BOUND
from audits.membership import Options
from audits.membership.claims import Claim
from audits.membership.pool import Pool
from audits.membership.rates import Judged
from audits.statistics import generator
from audits.statistics.epsilon_bounds import ceiling
from audits.statistics.joint_beta import joint_beta
from audits.statistics.one_run import Guesses, count_guesses, one_run_epsilon
from audits.statistics.one_run_fdp import one_run_fdp_epsilon
from audits.statistics.one_run_independent import one_run_independent_epsilon, one_run_independent_gdp_epsilon
from audits.statistics.roc import Bools, Call, Floats
from audits.statistics.threshold_selection import bound

CERTIFIED, HEURISTIC, ASSUMES_GDP = "certified", "heuristic", "assumes-gdp"
ASSUMES_INDEPENDENT = "assumes-independent-canaries"
ASSUMES_INDEPENDENT_GDP = "assumes-independent-gdp"
CLOPPER_PEARSON, GDP, ONE_RUN, ONE_RUN_FDP = "clopper-pearson", "gdp", "one-run", "one-run-fdp"
INDEPENDENT, INDEPENDENT_GDP = "one-run-independent", "one-run-independent-gdp"
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the points that are guessed, half of them as members: what the one-run bounds may choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A lower bound of epsilon.

    Parameters
    ----------
    bound
        From the bound to the ceiling: an audit of this size can prove no more.
    credible
        What is believed of epsilon after the same counts, which is no confidence interval; None where it is not told.
    """

    method: str
    validity: str
    bound: Interval
    credible: Interval | None = None

    @property
    def epsilon(self) -> float:
        """The lower bound, with its ceiling as upper end."""
        return self.bound.value

    @property
    def ceiling(self) -> float:
        """The bound of a perfect attack on as many points, or this bound where it is larger."""
        assert self.bound.high is not None
        return self.bound.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one attack by method, and that of the verdict; `rivals` attacks share the error."""

    judged: Judged
    proved: Mapping[str, Proved]
    rivals: int

    @property
    def leading(self) -> Proved:
        """The bound that holds with the fewest assumptions."""
        return self.proved[ONE_RUN] if ONE_RUN in self.proved else self.proved[CLOPPER_PEARSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One attack whose bounds share the error `alpha` with those of `rivals` in all; `seed` orders points that tie."""

    one: Judged
    pool: Pool
    options: Options
    delta: float
    alpha: float
    rivals: int
    level: float
    seed: int

    def bound(self, epsilon: float, ceiling: float, n: int, how: str) -> Interval:
        """Return a bound, with that of a perfect attack as the upper end."""
        shared = f", error shared by {self.rivals} attacks" if self.rivals > 1 else ""
        method = f"{LOWER_BOUND} {how}{shared}; the upper end is what a perfect attack would prove"
        return Interval(value=epsilon, low=epsilon, high=max(ceiling, epsilon), method=method, n=n, unit="points")


def bound_all(
    found: Sequence[Judged], pool: Pool, options: Options, claims: Mapping[str, Claim], *, level: float, seed: int
) -> list[Bounds]:
    """Return the bounds of all attacks.

    Those on one model share the error, since the largest of them is looked at; so do those on all models with a claim.
    """
    made = []
    for one in found:
        model = one.attack.model
        # Models with a claim are one family, since any broken claim of a suite is reported.
        beside = set(claims) if model in claims else {model}
        # Bonferroni: attacks on the same points depend on each other in no way that is known.
        rivals = sum(other.attack.model in beside for other in found)
        case = _Case(
            one=one,
            pool=pool,
            options=options,
            delta=claims[model].delta if model in claims else options.delta,
            alpha=(1 - level) / rivals,
            rivals=rivals,
            level=level,
            seed=seed,
        )
        plain = _plain(case) if options.coin_flip is None or options.selection != "fixed" else ()
        runs = _one_run(case) if options.coin_flip is not None else ()
        made.append(Bounds(judged=one, proved={row.method: row for row in (*plain, *runs)}, rivals=rivals))
    return made


def _plain(case: _Case) -> Iterator[Proved]:
    """Yield the bounds from the counts at one threshold."""
    attack, pool, options = case.one.attack, case.pool, case.options
    split = options.selection == "split"
    # The half that chooses a threshold may be the one that chose the attack's setting.
    chooses, rest = attack.half(pool.chooses)
    # With split, points that chose a setting may choose the threshold too; without it, nothing may rest on them.
    used = chooses | rest if split else attack.judged
    for method, validity in ((CLOPPER_PEARSON, CERTIFIED if options.independent else HEURISTIC), (GDP, ASSUMES_GDP)):
        if method == GDP and not case.delta:
            continue
        made = bound(
            attack.scores[used],
            attack.member[used],
            delta=case.delta,
            alpha=case.alpha,
            selection=options.selection,
            gaussian=method == GDP,
            chooses=chooses[used],
            threshold=_threshold(options, pool),
        )
        missed, alarms = made.call.members - made.call.hits, made.call.alarms
        counts = f"{missed:,} of {made.call.members:,} members missed, {alarms:,} of {made.call.others:,} others called"
        how = f"{_NAMES[method]}, {_selected(options, made.tried)}: {counts}"
        reached = case.bound(made.epsilon, made.ceiling, made.call.members + made.call.others, how)
        # Of equal scores there would be a prior, and nothing else.
        credible = _credible(case, made.call) if method == CLOPPER_PEARSON and not case.one.constant else None
        yield Proved(method=method, validity=validity, bound=reached, credible=credible)


_NAMES = {
    CLOPPER_PEARSON: "one-sided Clopper-Pearson",
    GDP: "one-sided Clopper-Pearson, trade-off curve held to be Gaussian",
    ONE_RUN: "one training run (Steinke et al. 2023)",
    ONE_RUN_FDP: "one training run, trade-off curve held to be Gaussian (Mahloujifar et al. 2024)",
    INDEPENDENT: "one training run, canaries held not to interfere",
    INDEPENDENT_GDP: "one training run, canaries held not to interfere and trade-off curve held to be Gaussian",
}


def _threshold(options: Options, pool: Pool) -> float | None:
    """Return the given threshold on scores that rise with membership; losses change sign when read.

    Files of one model are turned unless said to be of members; those of several only where said to be of non-members.
    """
    turned = options.higher_is == "nonmember" or (pool.losses and options.higher_is is None)
    return -options.threshold if turned and options.threshold is not None else options.threshold


def _selected(options: Options, tried: int) -> str:
    return {
        "split": "threshold from the other half",
        "bonferroni": f"Bonferroni over {tried} thresholds",
        "fixed": "threshold as given",
    }[options.selection]


def _credible(case: _Case, call: Call) -> Interval:
    """Return the credible interval of epsilon after these counts, which is no confidence interval."""
    misses, right = call.members - call.hits, call.others - call.alarms
    low, high = joint_beta(call.hits, right, call.alarms, misses, delta=case.delta, level=case.level)
    # The ends of an interval of nearly no level: the median.
    middle, _ = joint_beta(call.hits, right, call.alarms, misses, delta=case.delta, level=1e-6)
    return Interval(
        value=min(max(middle, low), high),
        low=low,
        high=high,
        method="posterior median and credible interval, joint beta (Zanella-Beguelin et al. 2022)",
        n=call.members + call.others,
        unit="points",
    )


def _one_run(case: _Case) -> Iterator[Proved]:
    """Yield the bounds from guesses about canaries, each included by a coin of its own."""
    attack, options = case.one.attack, case.options
    alpha = case.alpha
    chooses, rest = attack.half(case.pool.chooses)
    judged = attack.judged
    # Of points with equal scores any may be guessed, as long as it is not their place in the file that says which.
    order = generator(case.seed, "ties").permutation(len(attack.scores))
    if options.selection == "bonferroni":
        alpha /= len(SHARES)
    elif options.selection == "split":
        chosen = _guesses(attack.scores[chooses], attack.member[chooses], SHARES, order[chooses])
        judged = rest
    n = int(judged.sum())
    every = (options.threshold or 0.0,) if options.selection == "fixed" else SHARES
    made = dict(zip(every, _guesses(attack.scores[judged], attack.member[judged], every, order[judged]), strict=True))
    for method, (validity, of, by) in _RUNS.items():
        # Without delta the others are undefined, or the same.
        if method != ONE_RUN and not case.delta:
            continue
        tried: tuple[float, ...] = every
        if options.selection == "split":
            tried = (SHARES[int(np.argmax([by(one, case.delta, alpha) for one in chosen]))],)
        reached = {share: of(made[share], case.delta, alpha) for share in tried}
        best = made[max(reached, key=reached.__getitem__)][0]
        # A perfect attack gains by guessing more: its ceiling is over all shares that may be chosen.
        perfect = _most(of, every, n, case.delta, alpha)
        how = f"{_NAMES[method]}, {best.guesses:,} of {n:,} guessed, {best.correct:,} right"
        yield Proved(method=method, validity=validity, bound=case.bound(max(reached.values()), perfect, n, how))


def provable(pool: Pool, options: Options, attacks: int, level: float, *, delta: float) -> float | None:
    """Return the bound at `delta`, of those that verdicts use, of a perfect attack on all points among this many.

    None for plain bounds with `bonferroni`: how many thresholds share the error is told by the scores.
    """
    alpha = (1 - level) / attacks
    proves = ~pool.chooses if options.selection == "split" else np.ones(len(pool), dtype=np.bool_)
    if options.coin_flip is not None:
        shares = (options.threshold or 0.0,) if options.selection == "fixed" else SHARES
        share = alpha / len(SHARES) if options.selection == "bonferroni" else alpha
        return _most(_epsilon, shares, int(proves.sum()), delta, share)
    if options.selection == "bonferroni":
        return None
    members = int(pool.member[proves].sum())
    return ceiling(members, int(proves.sum()) - members, delta=delta, alpha=alpha)


Proof = Callable[[tuple[Guesses, int], float, float], float]
"""The epsilon that guesses about so many points prove at a delta and with an error."""


def _most(of: Proof, shares: Sequence[float], points: int, delta: float, alpha: float) -> float:
    return max(of(_perfect(share, points), delta, alpha) for share in shares)


def _guesses(
    scores: Floats, member: Bools, shares: Sequence[float], order: NDArray[np.int64]
) -> list[tuple[Guesses, int]]:
    """Return guesses for each share of the points, half of them as members, and the number of points."""
    each = [_each(share, len(scores)) for share in shares]
    return [(count_guesses(scores, member, number, number, order=order), len(scores)) for number in each]


def _each(share: float, points: int) -> int:
    # Rounded down: more guesses than there are points would be refused.
    return max(1, int(share * points / 2))


def _perfect(share: float, points: int) -> tuple[Guesses, int]:
    number = _each(share, points)
    return Guesses(high=number, low=number, correct=2 * number), points


def _epsilon(made: tuple[Guesses, int], delta: float, alpha: float) -> float:
    guesses, points = made
    return one_run_epsilon(guesses.correct, guesses.guesses, points, delta=delta, level=1 - alpha)


def _epsilon_fdp(made: tuple[Guesses, int], delta: float, alpha: float) -> float:
    guesses, points = made
    return one_run_fdp_epsilon(guesses.correct, guesses.guesses, points, delta=delta, level=1 - alpha)


def _epsilon_independent(made: tuple[Guesses, int], delta: float, alpha: float) -> float:
    guesses, points = made
    return one_run_independent_epsilon(guesses.correct, guesses.guesses, points, delta=delta, level=1 - alpha)


def _epsilon_independent_gdp(made: tuple[Guesses, int], delta: float, alpha: float) -> float:
    guesses, points = made
    return one_run_independent_gdp_epsilon(guesses.correct, guesses.guesses, points, delta=delta, level=1 - alpha)


_RUNS: Mapping[str, tuple[str, Proof, Proof]] = {
    # What each rests on, its bound, and the bound that its share of guesses is chosen for. Without interference other
    # numbers of guesses pay than for the one that verdicts rest on.
    ONE_RUN: (CERTIFIED, _epsilon, _epsilon),
    ONE_RUN_FDP: (ASSUMES_GDP, _epsilon_fdp, _epsilon),
    INDEPENDENT: (ASSUMES_INDEPENDENT, _epsilon_independent, _epsilon_independent),
    INDEPENDENT_GDP: (ASSUMES_INDEPENDENT_GDP, _epsilon_independent_gdp, _epsilon_independent_gdp),
}
