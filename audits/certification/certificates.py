"""The certificate of one image: what its counts prove, a class and a radius, or nothing.

Judging needs no model: another alpha, interval or radius is judged from the same counts.
"""

from dataclasses import dataclass, replace

from audits.certification.bounds import Limits
from audits.certification.radii import published_radius, rounded_down
from audits.certification.rules import Rule
from audits.certification.sampling import Drawn, interval_of, limits_of, radius_of

ABSTAIN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The certificate of one image; None stands for what the log of another tool lacks.

    Parameters
    ----------
    predict
        Class of the smoothed classifier, -1 where it abstains.
    radius
        Certified radius, rounded down; 0 where it abstains.
    p_lower, p_upper
        Limits of the top class's probability and of any other's.
    noisy
        Draws that met the label, out of how many.
    published, gaussian
        For soft outputs: the radius of the published Lipschitz bound, and the one without a Lipschitz constant.
    u
        The random number that randomised limits took.
    """

    index: int
    label: int
    predict: int
    radius: float
    seconds: float
    correct: bool
    clean: int | None = None
    p_lower: float | None = None
    p_upper: float | None = None
    draws: int | None = None
    noisy: tuple[int, int] | None = None
    interval: str | None = None
    published: float | None = None
    gaussian: float | None = None
    u: float | None = None


def judge(drawn: Drawn, rule: Rule) -> Verdict:
    """Return the certificate that the counts of one image prove.

    All looks hold at once with 1 - alpha, so the best of them may be told. Of a confidence sequence the last is kept.
    """
    interval = interval_of(drawn.selection, rule)
    proved = [limits_of(tally, interval, rule, selection=drawn.selection, u=drawn.u) for tally in drawn.looks]
    best = max(proved, key=lambda limits: radius_of(limits, rule))
    low, high = best
    radius = radius_of(best, rule)
    predict = interval.top if radius >= 0 else ABSTAIN
    # In the other modes how many draws there are depends on how they fell; the selection draws do not.
    tally = drawn.looks[-1] if rule.mode == "fixed" else drawn.selection
    plain = replace(rule, geometry=replace(rule.geometry, lipschitz=None)) if rule.soft else None
    return Verdict(
        index=drawn.index,
        label=drawn.label,
        predict=predict,
        radius=rounded_down(radius),
        seconds=drawn.seconds,
        correct=predict != ABSTAIN and predict == drawn.label,
        clean=drawn.clean,
        p_lower=low,
        p_upper=high,
        draws=drawn.draws,
        noisy=(int(tally.votes[drawn.label]), tally.draws),
        interval=interval.kind,
        # Each radius takes its own best look: which one that is, the geometry decides.
        published=rounded_down(max(_published(limits, rule) for limits in proved)) if plain else None,
        gaussian=rounded_down(max(radius_of(limits, plain) for limits in proved)) if plain else None,
        u=drawn.u if rule.randomised else None,
    )


def _published(limits: Limits, rule: Rule) -> float:
    low, high = limits
    if low <= 0 or high >= 1 or rule.geometry.lipschitz is None:
        return -1.0
    return published_radius(low, high, rule.geometry.sigma, rule.geometry.lipschitz)
