"""What attacks on certified images came to: whose answer turned, on what share of them, and what chance would do."""

from dataclasses import dataclass
from functools import cached_property

from audits.certification import Options
from audits.certification.bounds import Counts as Votes
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.intervals import Interval, Undefined
from audits.core.numbers import UPPER_BOUND
from audits.core.wording import many
from audits.statistics import exact_share

MULTIPLES = (1, 2)
"""Certified radii that an attack may move an image: within the certificate, and beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSetting:
    """How images were attacked and judged.

    Parameters
    ----------
    images
        Images that were chosen at random before anything was drawn; those that are certified were attacked.
    alpha
        Error probability of the test of one attacked image: shared, so that at either distance no test of all these
        images errs with probability 1 - --alpha.
    """

    steps: int
    draws: int
    images: int
    alpha: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCounts:
    """The votes around one attacked image.

    Parameters
    ----------
    top
        Its certified class.
    selection, votes
        Votes of the draws that choose the rival, and of the fresh ones that are tested, shape (classes,).
    blind
        Whether no step of the attack had a gradient.
    """

    index: int
    multiple: int
    top: int
    selection: Votes
    votes: Votes
    blind: bool


@dataclass(frozen=True, kw_only=True)
class Attacks:
    """All attacks of a run."""

    setting: AttackSetting
    outcomes: tuple[AttackCounts, ...]

    @cached_property
    def turned(self) -> dict[tuple[int, int], bool]:
        """Whether the answer turned, by number of the image and multiple of its radius."""
        return {(one.index, one.multiple): is_turned(one, self.setting.alpha) for one in self.outcomes}

    def hits(self, multiple: int) -> int:
        """Return how many images turned."""
        return sum(hit for (_, own), hit in self.turned.items() if own == multiple)

    @property
    def attacked(self) -> int:
        """Images that were attacked, each at every multiple."""
        return len(self.outcomes) // len(MULTIPLES)

    def turned_of(self, multiple: int) -> str:
        """Return how many of the attacked images turned, in words."""
        hits = self.hits(multiple)
        turned = f"{hits:,}" if hits else "none"
        return f"{turned} of {many(self.attacked, 'attacked image', 'attacked images')}"


def is_turned(counts: AttackCounts, alpha: float) -> bool:
    """Tell whether the fresh votes show that another class than the certified one has the higher probability.

    The rival is named by the draws that choose alone. If the certified class has at least its probability, the share
    of the rival among the votes for either is one half at most: the one-sided binomial test errs with probability
    alpha at most (as in PREDICT of Cohen et al. 2019, with a rival that the tested votes did not name).

    >>> from numpy import array
    >>> votes = {"index": 0, "multiple": 2, "top": 0, "blind": False}
    >>> is_turned(AttackCounts(**votes, selection=array([4, 6]), votes=array([40, 60])), 0.05)
    True
    >>> is_turned(AttackCounts(**votes, selection=array([4, 6]), votes=array([45, 55])), 0.05)
    False
    """
    from scipy.stats import binom

    others = counts.selection.copy()
    others[counts.top] = -1
    rival = int(others.argmax())
    against, both = int(counts.votes[rival]), int(counts.votes[rival] + counts.votes[counts.top])
    return bool(binom.sf(against - 1, both, 0.5) <= alpha)


def error_chance(contradictions: int, images: int, error: float) -> float:
    """Return the largest probability of so many turned images within their radii where no certificate is unsound.

    Of each image that was chosen, certified or not, its certificate and the test of what the attack made of it err
    with probability `error` at most together, with noise of its own. So their number is no larger, in distribution,
    than a binomial one over the images chosen. Over the attacked ones alone it need not be: who is certified depends
    on the draws, and among the certified the false are more frequent than among all.

    >>> round(error_chance(1, 100, 0.001), 4), error_chance(0, 100, 0.001)
    (0.0952, 1.0)
    """
    from scipy.stats import binom

    return float(binom.sf(contradictions - 1, images, min(1.0, error)))


def error_of(attacks: Attacks, rule: Rule) -> float:
    """Return the probability that an image contradicts its certificate by error: of the certificate, or of the test."""
    return min(1.0, rule.alpha + attacks.setting.alpha)


def add_attacks(draft: Draft, attacks: Attacks, rule: Rule) -> None:
    """Add the share of attacked images that turned at each distance, and what chance alone would do."""
    for multiple in MULTIPLES:
        draft.add("attack_success", _success(attacks, multiple, draft.level), multiple=multiple)
    contradictions, images = attacks.hits(1), attacks.setting.images
    if contradictions:
        chance = error_chance(contradictions, images, error_of(attacks, rule))
        method = f"{UPPER_BOUND} binomial tail over the images chosen"
        draft.add(
            "attack_error_chance",
            Interval(value=chance, low=0.0, high=chance, method=method, n=images, unit="images"),
        )


def _success(attacks: Attacks, multiple: int, level: float) -> Interval | Undefined:
    if not attacks.attacked:
        return Undefined(
            id="attack-none",
            why=f"None of the {attacks.setting.images} images that were chosen for an attack is certified.",
            where={},
        )
    return exact_share(attacks.hits(multiple), attacks.attacked, "images", level=level)


def attack_cost(options: Options, rule: Rule, images: int, shape: tuple[int, int, int]) -> tuple[tuple[str, str], ...]:
    """Return in words what attacks cost at the most: if all images that are chosen for them are certified."""
    if not options.attack_steps:
        return ()
    count = len(MULTIPLES) * min(options.attack_images, images)
    steps, draws = count * options.attack_steps * options.attack_draws, count * (rule.n0 + rule.n)
    channels, height, width = shape
    disk = count * (4 * channels * height * width + 4096) / 1e6
    return (
        (
            "attacks",
            f"at most {count:,}: {steps + draws:,} forwards and {steps:,} backward passes (about two forwards each), "
            f"about {disk:.1f} MB more in the cache",
        ),
    )
