"""The rule that turns counts into a certificate, settled before the first draw.

One rule serves all images of a run. It says how many draws, when to look, how the error probability is shared by
the looks, and what geometry turns probabilities into a radius.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from audits.certification import Options
from audits.certification.bounds import Method, bernstein_shift
from audits.certification.confidence_sequences import sequence_limit
from audits.certification.radii import Geometry, ceiling, least_draws
from audits.core.numbers import bounded
from probes.classifiers.noise import BLOCK
from probes.core.errors import InputError

_SIGMA_OF_LOG = "Give the sigma that the log was made with, a number above 0 in units of pixels in [0, 1]."
LOOKS = 12
FIRST_LOOK = 100
BATCH, GROWTH = 64, 8
"""Draws between two looks of `anytime`: so many, or a GROWTH-th of those made, whichever is more, in whole BLOCKs."""
Mode = Literal["fixed", "decide", "pilot", "anytime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule that turns counts into certificates.

    Parameters
    ----------
    alpha
        Error probability of one image's certificate.
    looks
        Numbers of draws at which a decision may fall; each spends an equal part of alpha, in mode anytime all of it.
    radii
        What is asked, ascending; in the modes fixed and pilot, and where it is a grid, it decides nothing.
    asked
        Whether the radii were asked for; a grid otherwise.
    asserted
        Whether the Lipschitz constant is the user's word.
    randomised
        Whether a random number for each image makes its limits exact.
    """

    mode: Mode
    method: Method
    geometry: Geometry
    alpha: float
    n0: int
    n: int
    looks: tuple[int, ...]
    radii: tuple[float, ...]
    pilot: int = 1000
    target_loss: float = 0.025
    asked: bool = False
    asserted: bool = True
    randomised: bool = False

    @property
    def share(self) -> float:
        """Error probability of one look."""
        # The limits of all looks of a confidence sequence hold at once as they are.
        return self.alpha if self.mode == "anytime" else self.alpha / len(self.looks)

    @property
    def soft(self) -> bool:
        """Whether soft outputs are certified instead of votes."""
        return self.geometry.lipschitz is not None

    @property
    def ceiling(self) -> float:
        """Largest radius that the rule can prove: when all votes agree, or all soft outputs are 1."""
        if self.soft:
            # Outputs that are all 1 do not vary: what is left is the second term of the shift.
            least = float(bernstein_shift(0.0, max(self.looks[-1], 2), self.share))
            return max(self.geometry.radius(1.0 - least, least), 0.0) if least < 0.5 else 0.0
        if self.mode == "anytime":
            low = float(sequence_limit(self.looks[-1], 0, self.share, (self.n0, 0)))
            return self.geometry.radius(low, 1.0 - low)
        # The luckiest random number stands for twice the error, so that what is left of it is 1/2.
        share = 0.5 if self.randomised else self.share
        return ceiling(replace(self.geometry, lipschitz=None), self.looks[-1], share)


def rule_of(options: Options, *, images: int, lipschitz: float | None = None) -> Rule:
    """Return the rule that the options ask for, for this number of images.

    Raises
    ------
    InputError
        Where there is no noise level, or two options contradict each other.
    """
    if options.sigma is None or not 0 < options.sigma < math.inf:
        raise InputError(
            "There is no noise level." if options.sigma is None else f"{options.sigma} is no noise level.",
            where="--sigma",
            hint=_SIGMA_OF_LOG
            if options.from_log
            else "Give a number above 0, in units of pixels in [0, 1]: 0.25 is a quarter of the range.",
        )
    radii = parse_radii(options.radii)
    _check_together(options, radii)
    if options.norm == "l1" and options.lipschitz is not None:
        raise InputError(
            "The Lipschitz-aware radius is known for l2 only.",
            where="--lipschitz, --norm l1",
            hint="Leave one of the two out.",
        )
    # The looks share alpha whether or not they come: when to stop may then depend on the counts.
    schedules: dict[str, Callable[[int], tuple[int, ...]]] = {"decide": geometric_looks, "anytime": batched_looks}
    looks = schedules[options.mode](options.n) if options.mode in schedules else (options.n,)
    rule = Rule(
        mode=options.mode,  # type: ignore[arg-type]
        method=options.interval,  # type: ignore[arg-type]
        geometry=Geometry(options.norm, options.sigma, lipschitz),  # type: ignore[arg-type]
        # Bonferroni: the images' certificates need not be independent for all of them to hold together.
        alpha=options.alpha / images if options.family_wise else options.alpha,
        n0=options.n0,
        n=options.n,
        looks=looks,
        radii=radii,
        pilot=options.pilot,
        target_loss=options.target_loss,
        asked=bool(radii),
        asserted=options.lipschitz != "computed",
        randomised=options.randomised,
    )
    return rule if radii else replace(rule, radii=grid(rule.ceiling))


def _check_together(options: Options, radii: tuple[float, ...]) -> None:
    """Refuse what a mode and random numbers cannot do.

    Raises
    ------
    InputError
        With the options that do not go together.
    """
    # Of counts, the mode is theirs and was not given.
    mode = () if options.from_counts else (f"--mode {options.mode}",)
    otherwise = "draw anew, without --from-counts" if options.from_counts else "take --mode fixed, decide or pilot"
    if options.mode == "decide" and not radii:
        raise InputError(
            "Which radii shall be decided?",
            where=", ".join(mode) or "--radii",
            hint="Name them, such as --radii 0.25,0.5."
            if mode
            else "The counts do not name the radii that they were drawn for. Give some, such as --radii 0.25,0.5.",
        )
    if options.mode == "anytime" and options.lipschitz is not None:
        raise InputError(
            "Limits of soft outputs do not hold at any number of draws.",
            where=", ".join((*mode, "--lipschitz")),
            hint=f"Leave --lipschitz out, or {otherwise}.",
        )
    if options.mode == "anytime" and options.from_log:
        raise InputError(
            "Which radii a confidence sequence can give depends on draws that no log holds.",
            where="--mode anytime, --from-log",
            hint="Leave --mode out: the log is then held against a fixed number of draws.",
        )
    if options.randomised and options.mode == "anytime":
        raise InputError(
            "Limits that hold at any number of draws leave nothing for a random number to spend.",
            where=", ".join(("--randomised", *mode)),
            hint=f"Leave --randomised out, or {otherwise}.",
        )
    if options.randomised and options.lipschitz is not None:
        raise InputError(
            "Random numbers break the ties of whole votes; soft outputs have none.",
            where="--randomised, --lipschitz",
            hint="Leave one of the two out.",
        )


def batched_looks(n: int) -> tuple[int, ...]:
    """Return the numbers of draws at which `anytime` looks, up to n.

    >>> batched_looks(1000), len(batched_looks(100_000)), batched_looks(50)
    ((64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 720, 800, 896, 1000), 54, (50,))
    """
    looks = [min(BATCH, n)]
    while looks[-1] < n:
        looks.append(min(looks[-1] + max(BATCH, looks[-1] // GROWTH // BLOCK * BLOCK), n))
    return tuple(looks)


def geometric_looks(n: int) -> tuple[int, ...]:
    """Return a dozen numbers of draws from 100 to n, each larger than the last by the same factor.

    >>> geometric_looks(100_000)[:3], len(geometric_looks(100_000)), geometric_looks(60)
    ((100, 187, 351), 12, (60,))
    """
    if n <= FIRST_LOOK:
        return (n,)
    growth = (n / FIRST_LOOK) ** (1 / (LOOKS - 1))
    return tuple(sorted({*(round(FIRST_LOOK * growth**look) for look in range(LOOKS - 1)), n}))


def grid(top: float) -> tuple[float, ...]:
    """Return round radii from 0 to a ceiling, about eight of them.

    >>> grid(0.6755)
    (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    """
    if not top > 0 or math.isinf(top):
        return (0.0,)
    size = 10.0 ** math.floor(math.log10(top / 8))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * 8.0001 >= top)
    # Of a ceiling that is next to nothing all of them are 0, which counts once.
    return tuple(dict.fromkeys(round(step * count, 12) for count in range(int(top / step + 1e-9) + 1)))


def parse_radii(texts: tuple[str, ...]) -> tuple[float, ...]:
    """Return radii in ascending order, each once."""
    found = set()
    for text in texts:
        try:
            radius = float(text)
        except ValueError:
            radius = math.nan
        if not 0 <= radius < math.inf:
            raise InputError(f"{text!r} is no radius.", where="--radii", hint="Numbers from 0 on: --radii 0.25,0.5,1")
        found.add(radius)
    return tuple(sorted(found))


def asserted(text: str) -> float:
    """Return a Lipschitz constant that the user gives.

    Raises
    ------
    InputError
        Where it is no number above 0.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(
            f"{text!r} is no Lipschitz constant.", where="--lipschitz", hint="A number above 0, or computed."
        )
    return value


def too_few(rule: Rule) -> int:
    """Return how many draws the rule would need to certify anything, 0 where it has them.

    With randomised limits a lucky number certifies after fewer.
    """
    needed = least_draws(rule.share)
    if rule.mode == "anytime":
        while float(sequence_limit(needed, 0, rule.share, (rule.n0, 0))) < 0.5:
            needed += 1
    return needed if rule.looks[-1] < needed else 0


def out_of_reach(rule: Rule) -> tuple[float, ...]:
    """Return the radii that so many draws cannot certify, whatever the classifier."""
    return tuple(radius for radius in rule.radii if radius > rule.ceiling)


def reach_words(rule: Rule) -> tuple[str, ...]:
    """Return what is to be said of radii out of reach: nothing, or a sentence or two."""
    beyond = ", ".join(f"{radius:g}" for radius in out_of_reach(rule))
    if not beyond:
        return ()
    return (
        f"Radii above {bounded(rule.ceiling, 4, up=True)} cannot be certified with n = {rule.looks[-1]:,}: {beyond}. "
        "More draws, or more noise, reach further.",
    )


def most_draws(rule: Rule) -> int:
    """Return the most draws of an image, of all kinds."""
    return (rule.pilot if rule.mode == "pilot" else rule.n0) + rule.n
