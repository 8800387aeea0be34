"""Claims of privacy: an epsilon as given, or accounted from noise, sampling and steps of a training."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.intervals import Interval, exact
from audits.core.numbers import UPPER_BOUND, bounded, given
from audits.membership import ACCOUNTANTS, MOST_RUNS, Options
from probes.core.errors import InputError

if TYPE_CHECKING:
    from probes.generators.accounting import Stage


RENYI, DISTRIBUTIONS = ACCOUNTANTS
BY = {RENYI: "Renyi differential privacy", DISTRIBUTIONS: "privacy loss distributions"}
"""Accountants in words."""
ACCOUNTANT = "{} of DP-SGD; the lower end is what these steps spend by any accountant"
SEARCH = "{} of DP-SGD, {} runs composed; the lower end says nothing"
"""How an epsilon is accounted, in words: of one training, and of a search over several."""
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
    accountant
        By which an epsilon was accounted that was not stated, one of `ACCOUNTANTS`: that of the bound which stands.
    runs, each
        How many runs the released model is the best of, and the claim of each; None where it was the only one.
    """

    epsilon: float
    delta: float
    source: str
    least: float | None = None
    notes: tuple[str, ...] = ()
    accountant: str = RENYI
    runs: int = 1
    each: "Claim | None" = None

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
        how = (ACCOUNTANT if self.each is None else SEARCH).format(BY[self.accountant], self.runs)
        method, ends = f"{UPPER_BOUND} {how}", {"low": self.least, "high": self.epsilon}
        return Interval(value=self.epsilon, **ends, method=method, n=1, unit="claims", level=CERTAIN)


def claim_of(
    *,
    epsilon: float | None,
    delta: float,
    stages: tuple["Stage", ...] | None,
    source: str,
    accountant: str = RENYI,
) -> Claim | None:
    """Return the claim of an epsilon or of a history of DP-SGD; None where nothing is claimed.

    Raises
    ------
    InputError
        Where the accountant cannot account for the history.
    """
    if epsilon is not None:
        return Claim(epsilon=epsilon, delta=delta, source="as given")
    if not stages:
        return None
    from audits.membership.privacy_loss import least_epsilon
    from probes.generators.accounting import rdp_epsilon

    if accountant == DISTRIBUTIONS:
        from probes.generators.loss_distributions import pld_epsilon

        found = pld_epsilon(stages, delta)
        epsilon, notes = found.epsilon, found.notes
        if found.is_renyi:
            accountant = RENYI
        else:
            source += f" ({bounded(found.by_renyi, up=True)} by {BY[RENYI]})"
    else:
        accounted = rdp_epsilon(stages, delta)
        epsilon, notes = accounted.epsilon, accounted.notes
    least = least_epsilon(stages, delta)
    # Two bounds that contradict each other are rounding: the lower one then says nothing.
    least = least if least <= epsilon else 0.0
    return Claim(epsilon=epsilon, delta=delta, source=source, least=least, notes=notes, accountant=accountant)


def searched(claim: Claim, runs: int, where: str) -> Claim:
    """Return the claim of a search over so many runs, each of the same claim: by plain composition (N eps, N delta).

    It holds where the best run was chosen by what the runs gave out, and by nothing else of their training points.

    Raises
    ------
    InputError
        Where the runs are none or too many, or together claim nothing.

    Examples
    --------
    >>> found = searched(Claim(epsilon=0.1, delta=1e-5, source="as given"), 3, "--runs-tried")
    >>> found.epsilon, found.delta, found.each.epsilon
    (0.3, 3e-05, 0.1)
    """
    if not 1 <= runs <= MOST_RUNS:
        hint = f"Give a whole number from 1 to {MOST_RUNS:,}."
        # Python writes no whole number of thousands of digits.
        said = f"{runs:,}" if abs(runs) < 10**12 else "So many"
        raise InputError(f"{said} runs cannot have been tried.", where=where, hint=hint)
    if runs == 1:
        return claim
    epsilon, delta = _times(claim.epsilon, runs), _times(claim.delta, runs)
    if delta >= 1 or math.isinf(epsilon):
        both = f"epsilon {claim.number} and delta {claim.delta:g}"
        raise InputError(
            f"{runs:,} runs of {both} each together claim nothing: {'a delta' if delta >= 1 else 'an epsilon'} of "
            f"{delta if delta >= 1 else epsilon:g}.",
            where=where,
            hint=f"Check the number of runs (--runs-tried), or give a delta below 1/{runs:,} and the epsilon of a run.",
        )
    least = None if claim.least is None else 0.0
    source = f"by composition of {runs:,} runs of an epsilon of {claim.words} each, {claim.source}"
    return replace(claim, epsilon=epsilon, delta=delta, source=source, least=least, runs=runs, each=claim)


def _times(number: float, runs: int) -> float:
    """Return a product as decimals have it: three times 0.1 is 0.3."""
    return float(Decimal(repr(number)) * runs)


def claim_of_options(options: Options) -> Claim | None:
    """Return the claim of the options, after checking that there is only one: that of the search, if there was one.

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
    claim = _single(options, training, given)
    return None if claim is None else searched(claim, options.runs_tried, "--runs-tried")


def _single(options: Options, training: Mapping[str, float | None], given: Sequence[str]) -> Claim | None:
    """Return the claim of one run."""
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
            epsilon=None,
            delta=options.delta,
            stages=(_stage(options),),
            source="accounted from the options",
            accountant=options.accountant,
        )
    if options.history is None:
        return None
    return claim_of_file(options.history, options.delta, accountant=options.accountant)


def claim_of_file(path: Path, delta: float, *, where: str = "--history", accountant: str = RENYI) -> Claim:
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
    source = f"accounted from {path.name}"
    found = claim_of(epsilon=None, delta=delta, stages=stages, source=source, accountant=accountant)
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
    if options.delta == 0:
        raise InputError("With delta 0, Gaussian noise gives no epsilon.", where="--delta", hint="Such as 1e-5.")
    return Stage(noise_multiplier=sigma, sample_rate=rate, steps=steps)


def stated(options: Options) -> str:
    """Return the user's statement on which certified bounds rest; empty where none was given."""
    if options.coin_flip is not None:
        return "each point was put in by a fair coin of its own"
    return "every score is from a training run of its own" if options.independent else ""


def accounted(claim: Claim, of: str = "") -> str:
    """Return in words that an accounted epsilon, of a search that of each run, is an upper bound, and how loose."""
    one, of = (claim, of) if claim.each is None else (claim.each, f" of each run{of}")
    floor = f"no accountant of these steps can go below {bounded(one.least)}" if one.least else "it may be loose"
    text = f"The epsilon of {one.words} that is claimed{of} at delta {one.delta:g} is {one.source}. It is an upper "
    text += f"bound, by {BY[one.accountant]}; {floor}."
    # Of a search nothing is known from below.
    if claim.least:
        text += " What is proved between the two might refute the training, and does not contradict this claim."
    return text


def of_search(claim: Claim, of: str = "") -> str:
    """Return in words that the claim of a search is judged, what that of each run was, and when it holds."""
    assert claim.each is not None
    return (
        f"The model released{of} is the best of {claim.runs:,} runs, each of which claims an epsilon of "
        f"{claim.each.words} at delta {claim.each.delta:g}. Judged is the claim of the search: by plain composition "
        f"{claim.words} at delta {claim.delta:g}. It holds if the best was chosen by what the runs gave out, without "
        "another look at their training points. An accountant of the steps of all runs together may have a tighter "
        "one; those of Papernot and Steinke (2022) are only for a random number of runs."
    )


def check_used(claims: Iterable[Claim], options: Options) -> None:
    """Refuse options that change no claim, for a user who gives them thinks that they do.

    Raises
    ------
    InputError
        Where runs are given without a claim, or an accountant without a training to account for.
    """
    claims = tuple(claims)
    if options.runs_tried > 1 and not claims:
        raise InputError(
            f"{options.runs_tried:,} runs were tried, but no privacy is claimed: that changes nothing.",
            where="--runs-tried",
            hint="Give the claim of each run, such as --epsilon, or leave it out.",
        )
    if options.accountant != RENYI and all(claim.least is None for claim in claims):
        raise InputError(
            "There is no training to account for: that changes nothing.",
            where=f"--accountant {options.accountant}",
            hint="Give --noise-multiplier, --sample-rate and --steps, or --history, in the place of an epsilon.",
        )
