"""Privacy accounting of DP-SGD by privacy loss distributions: tighter than Renyi differential privacy, and dearer.

The loss of one step is put on a grid so that no divergence becomes smaller, by connecting the dots (Doroshenko, Ghazi,
Kamath, Kumar and Manurangsi 2022, arXiv 2207.04380), and added up over the steps by Fourier transforms (Koskela, Jälkö
and Honkela 2020, arXiv 1906.03049). That is computed by Google's package dp-accounting, which is imported only here.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from probes.core.errors import InputError
from probes.generators.accounting import Stage, rdp_epsilon, renyi

STEP_CELLS, ALL_CELLS = 2**12, 2**18
"""Cells for the loss of one step, and for that of all: with fewer, the epsilon is larger."""
LEAST_DELTA = 1e-12
"""Below it, what is rounded in a Fourier transform, and cut off at its ends, is no longer small beside delta."""
MOST_EPSILON = 1000.0
"""What Renyi differential privacy may find; beyond it the grid would have to be coarse, and the claim says nothing."""
MOST_KINDS, MOST_STEPS = 100, 10**6
"""Different stages that are composed, each of which costs transforms of the whole grid, and steps."""
MOST_NOISE, LEAST_RATE = 1e9, 1e-15
"""More noise counts as this, and a smaller rate too, which can only spend more: squares do not overflow or vanish."""
_REACH = 10.0
"""Standard deviations of noise behind a loss: what lies beyond has a probability below 1e-23."""
_CUT = 1e-16
"""The delta at which the reach of the loss of all steps is estimated."""
_LARGE = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed:
    """An upper bound of epsilon by privacy loss distributions, beside that of Renyi differential privacy.

    Parameters
    ----------
    epsilon
        The smaller of both, since each is an upper bound.
    by_renyi
        That of Renyi differential privacy.
    is_renyi
        Whether that is the smaller one, for the grid was too coarse.
    notes
        What a user should know of it.
    """

    epsilon: float
    by_renyi: float
    is_renyi: bool = False
    notes: tuple[str, ...] = ()


def pld_epsilon(history: Sequence[Stage], delta: float) -> Distributed:
    """Return the epsilon at `delta` that all stages spend together, for a point that is added or removed.

    Raises
    ------
    InputError
        Where delta is not between 0 and 1 or too small, there are no stages or too many kinds of them, they spend more
        than can be put on a grid, or dp-accounting is not installed.

    Examples
    --------
    One step without sampling is the Gaussian mechanism, whose epsilon of 4.377 at this delta is known in closed form
    (Balle and Wang 2018, arXiv 1805.06530, theorem 8).

    >>> found = pld_epsilon([Stage(1.0, 1.0, 1)], 1e-5)
    >>> round(found.epsilon, 3), found.epsilon < found.by_renyi
    (4.377, True)
    """
    accounted = rdp_epsilon(history, delta)
    together = _together(history)
    _check(accounted.epsilon, delta, together)
    cell = _cell(history, together)
    distributions, whole = _package(), None
    for (noise, rate), steps in together.items():
        # Steps without sampling are one step of less noise: nothing of them is rounded more than once.
        once, times = (noise / math.sqrt(steps), 1) if rate == 1 else (noise, steps)
        part = distributions.from_gaussian_mechanism(
            once, sampling_prob=rate, value_discretization_interval=cell
        ).self_compose(times)
        whole = part if whole is None else whole.compose(part)
    found = math.inf if whole is None else float(whole.get_epsilon_for_delta(delta))
    if found <= accounted.epsilon:
        return Distributed(epsilon=max(0.0, found), by_renyi=accounted.epsilon)
    # Both are upper bounds: on a coarse grid that of the distributions may be the larger one.
    note = "Privacy loss distributions were rounded to more than Renyi differential privacy has, whose epsilon stands."
    notes = (note, *accounted.notes)
    return Distributed(epsilon=accounted.epsilon, by_renyi=accounted.epsilon, is_renyi=True, notes=notes)


def _together(history: Sequence[Stage]) -> Counter[tuple[float, float]]:
    """Return the number of steps of each noise and rate, in the order of the history."""
    together: Counter[tuple[float, float]] = Counter()
    for stage in history:
        together[min(stage.noise_multiplier, MOST_NOISE), max(stage.sample_rate, LEAST_RATE)] += stage.steps
    return together


def _check(by_renyi: float, delta: float, together: Counter[tuple[float, float]]) -> None:
    """Refuse what cannot be put on a grid."""
    kinds, steps = len(together), together.total()
    other = "or let --accountant rdp do it"
    if delta < LEAST_DELTA:
        message = f"Privacy loss distributions are not computed at a delta of {delta:g}, only from {LEAST_DELTA:g} on."
        raise InputError(message, where="--accountant pld", hint=f"Give a larger --delta, {other}.")
    if by_renyi > MOST_EPSILON:
        message = (
            f"The training spends an epsilon of up to {by_renyi:.4g} by Renyi differential privacy; privacy loss "
            f"distributions are computed up to {MOST_EPSILON:,.0f}."
        )
        hint = f"Check noise multiplier, sample rate and steps, {other}."
        raise InputError(message, where="--accountant pld", hint=hint)
    if steps > MOST_STEPS:
        message = f"{steps:,} steps are too many for privacy loss distributions, which compose {MOST_STEPS:,}."
        raise InputError(message, where="--accountant pld", hint=f"Check the number of steps, {other}.")
    if kinds > MOST_KINDS:
        message = f"The history has {kinds:,} different stages; {MOST_KINDS} can be composed."
        hint = f"Round noise and rate up to fewer values, {other}."
        raise InputError(message, where="--accountant pld", hint=hint)


def _cell(history: Sequence[Stage], together: Counter[tuple[float, float]]) -> float:
    """Return the width of a cell of the grid, on which the loss of one step and that of all find room."""
    # Losses lie on both sides of 0.
    cell = 2 * rdp_epsilon(history, _CUT).epsilon / ALL_CELLS
    for (noise, rate), steps in together.items():
        once, times = (noise / math.sqrt(steps), 1) if rate == 1 else (noise, steps)
        far = _farthest(once, rate)
        # The package bounds where composed losses end by moments of an order of 1 / far and more. Of many small losses
        # that is variance / far beyond their mean; the variance of a loss is about twice its divergence.
        spread = 2 * times * float(renyi(once, rate)[0])
        cell = max(cell, far / STEP_CELLS, spread / far / ALL_CELLS)
    return cell


def _farthest(noise: float, rate: float) -> float:
    """Return log((1 - q) + q e^((2z - 1) / (2 s^2))) at z = 1 + 10 s, about the largest loss of one step."""
    loss = (1 + 2 * _REACH * noise) / 2 / noise / noise
    return loss + math.log(rate) if loss > _LARGE else math.log1p(rate * math.expm1(loss))


def _package() -> ModuleType:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise InputError(
            "Privacy loss distributions need dp-accounting, which is not installed.",
            where="--accountant pld",
            hint="pip install 'miles-audit[privacy]', or give --accountant rdp.",
        ) from None
    module: ModuleType = privacy_loss_distribution
    return module
