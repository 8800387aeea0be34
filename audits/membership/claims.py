"""Claims of privacy: an epsilon as given, or accounted from noise, sampling and steps of a training."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.intervals import Interval, exact
from audits.core.numbers import UPPER_BOUND, bounded, given
from audits.membership import Options
from probes.core.errors import InputError

if TYPE_CHECKING:
    from probes.generators.accounting import Stage


ACCOUNTANT = "Renyi differential privacy of DP-SGD; the lower end is what these steps spend by any accountant"
"""How an epsilon is accounted, in words."""
CERTAIN = 0.95
"""What stands as the level of a number that was not drawn, whatever level the run has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claimed budget.

    Parameters
    ----------
    source
        In words, where it is from.
    least
        What the training that was described spends at least, of which `epsilon` is then an upper bound; None where
        epsilon was stated.
    notes
        What a user should know of it.
    """

    epsilon: float
    delta: float
    source: str
    least: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return the epsilon for a sentence: as it was given, or as the bound that it is."""
        return self.number if self.least is None else f"at most {self.number}"

    @property
    def number(self) -> str:
        """Return the epsilon alone as text, rounded up where it was accounted."""
        return given(self.epsilon) if self.least is None else bounded(self.epsilon, up=True)

    @property
    def interval(self) -> Interval:
        """Return the epsilon as given, or as interval from the least that the training spends to what was accounted."""
        if self.least is None:
            return exact(self.epsilon, n=1, unit="claims", level=CERTAIN)
        method, ends = f"{UPPER_BOUND} {ACCOUNTANT}", {"low": self.least, "high": self.epsilon}
        return Interval(value=self.epsilon, **ends, method=method, n=1, unit="claims", level=CERTAIN)


def claim_of(
    *,
    epsilon: float | None,
    delta: float,
    stages: tuple["Stage", ...] | None,
    source: str,
) -> Claim | None:
    """Return the claim of an epsilon or of a history of DP-SGD; None where nothing is claimed."""
    if epsilon is not None:
        return Claim(epsilon=epsilon, delta=delta, source="as given")
    if not stages:
        return None
    from audits.membership.privacy_loss import least_epsilon
    from probes.generators.accounting import rdp_epsilon

    accounted = rdp_epsilon(stages, delta)
    least = least_epsilon(stages, delta)
    # Two bounds that contradict each other are rounding: the lower one then says nothing.
    least = least if least <= accounted.epsilon else 0.0
    return Claim(epsilon=accounted.epsilon, delta=delta, source=source, least=least, notes=accounted.notes)


def claim_of_options(options: Options) -> Claim | None:
    """Return the claim of the options, after checking that there is only one.

    Raises
    ------
    InputError
        Where several claims are given, or one is incomplete or infinite.
    """
    training = {
        "--noise-multiplier": options.noise_multiplier,
        "--sample-rate": options.sample_rate,
        "--steps": options.steps,
    }
    given = [flag for flag, value in training.items() if value is not None]
    claims = [
        *(["--epsilon"] if options.epsilon is not None else []),
        # One of the three stands for them all: together they make one claim.
        *given[:1],
        *(["--history"] if options.history is not None else []),
    ]
    if len(claims) > 1:
        raise InputError(f"{' and '.join(claims)} are two claims.", where=claims[-1], hint="Give one of them.")
    if options.epsilon is not None:
        check_epsilon(options.epsilon, "--epsilon")
        return claim_of(epsilon=options.epsilon, delta=options.delta, stages=None, source="")
    if given:
        missing = [flag for flag in training if flag not in given]
        if missing:
            raise InputError(
                f"{given[0]} needs {' and '.join(missing)} beside it.",
                where=given[0],
                hint="Epsilon follows from all three together.",
            )
        return claim_of(
            epsilon=None, delta=options.delta, stages=(_stage(options),), source="accounted from the options"
        )
    return claim_of_file(options.history, options.delta) if options.history is not None else None


def claim_of_file(path: Path, delta: float, *, where: str = "--history") -> Claim:
    """Return the claim of the history of an accountant.

    Raises
    ------
    InputError
        Where the file holds none.
    """
    from probes.generators.accountants import read_history

    if not path.is_file():
        raise InputError("There is no such file.", where=f"{where} {path}", hint="Check the path.")
    stages = read_history(path)
    if not stages:
        raise InputError(
            "The file holds no history of an accountant.",
            where=str(path),
            hint="Save it with PrivacyEngine.save_checkpoint of Opacus, or give --noise-multiplier, --sample-rate and "
            "--steps.",
        )
    found = claim_of(epsilon=None, delta=delta, stages=stages, source=f"accounted from {path.name}")
    assert found is not None
    return found


def check_epsilon(epsilon: float, where: str) -> None:
    """Refuse a number that is no epsilon.

    Raises
    ------
    InputError
        Unless it is finite and not negative.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"{epsilon} is no epsilon.", where=where, hint="Give a number of 0 or more.")


def check_delta(delta: float, where: str) -> None:
    """Refuse a number that is no delta.

    Raises
    ------
    InputError
        Unless it is at least 0 and below 1.
    """
    if not 0 <= delta < 1:
        raise InputError(f"{delta} is no delta.", where=where, hint="Give a number of 0 or more, far below 1.")


def _stage(options: Options) -> "Stage":
    from probes.generators.accounting import Stage

    sigma, rate, steps = options.noise_multiplier, options.sample_rate, options.steps
    assert sigma is not None and rate is not None and steps is not None
    if math.isinf(sigma):
        raise InputError(f"{sigma} cannot be.", where="--noise-multiplier", hint="Give a number above 0.")
    if options.delta == 0:
        raise InputError("With delta 0, Gaussian noise gives no epsilon.", where="--delta", hint="Such as 1e-5.")
    return Stage(noise_multiplier=sigma, sample_rate=rate, steps=steps)


def stated(options: Options) -> str:
    """Return the user's statement on which certified bounds rest; empty where none was given."""
    if options.coin_flip is not None:
        return "each point was put in by a fair coin of its own"
    return "every score is from a training run of its own" if options.independent else ""


def accounted(claim: Claim, of: str = "") -> str:
    """Return in words that an accounted epsilon is an upper bound, and how loose it may be."""
    floor = f"no accountant of these steps can go below {bounded(claim.least)}" if claim.least else "it may be loose"
    return (
        f"The epsilon of {claim.words} that is claimed{of} at delta {claim.delta:g} is {claim.source}. It is an upper "
        f"bound, by Renyi differential privacy; {floor}. What is proved between the two might refute the training, and "
        "does not contradict this claim."
    )
