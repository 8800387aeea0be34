"""What a run could show with its members and non-members, before an attack is made."""

from functools import partial

from audits.core.context import Context, Plan
from audits.core.detectable import POWER, Detectable
from audits.core.numbers import counted
from audits.membership import Options
from audits.membership.hit_ratios import NOTABLE_TIMES, RATE, ratio
from audits.membership.leaks import NEWEST
from audits.membership.membership_scores import ShadowScores
from audits.membership.preflight import names_of
from audits.membership.reading import Inputs
from audits.statistics.power_exact import area_above_half, both_needed
from audits.statistics.roc import Call

Sides = tuple[int, int]


def detectable(options: Options, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the least area of the best attack, and the least rate of hits at few false alarms, that would be shown."""
    inputs: Inputs = plan.inputs
    attacks = names_of(inputs, options)
    member, models = inputs.pool.member, len(inputs.models)
    everybody = int(member.sum()), int((~member).sum())
    # Where there is a choice of attacks, settings or models, one half of the points makes it.
    by_points = any(one.denoiser is not None for one in inputs.releases) and not options.shadows
    chosen = len(attacks) > 1 or models > 1 or by_points or "domias" in attacks
    rest = ~inputs.pool.chooses if chosen else member | ~member
    judged = int((member & rest).sum()), int((~member & rest).sum())
    return (
        _area(judged, models * _accesses(inputs), context.level, chosen=chosen, inputs=inputs),
        *_hits(everybody, inputs.fprs, len(attacks) * models, context.level),
    )


def _accesses(inputs: Inputs) -> int:
    """Return with how many kinds of access a leak is reported at most, by what an attacker may hold."""
    tiers = {tier for one in inputs.releases for tier in one.tiers}
    return max(1, sum(bool(tiers & set(own)) for own in NEWEST.values()))


def _area(units: Sides, cells: int, level: float, *, chosen: bool, inputs: Inputs) -> Detectable:
    # Shown is a leak whose one-sided test holds after Holm, and whose two-sided interval excludes a half.
    corrected = 1 - (1 - level) * min(1.0, 2 / cells)
    found = partial(area_above_half, level=corrected)
    given = ["one attack, whose scores are higher for all members alike"]
    if chosen:
        given.append("attack chosen on the other half of the points")
    if isinstance(inputs.given, ShadowScores):
        given.append("all points with enough other models")
    if cells > 2:
        given.append(f"Holm over {cells} models and accesses at most")
    return Detectable(
        what="AUC of the best attack",
        effect=found(units),
        units=_words(units),
        assuming="; ".join(given),
        needed=lambda effect: _needed(both_needed(found, units, effect), 2 if chosen else 1),
        possible=(0.5, 1.0),
    )


def _needed(units: Sides | None, halves: int) -> str | None:
    """Return the points that are needed, where one of so many parts of them is judged."""
    if units is None:
        return None
    return _words((units[0] * halves, units[1] * halves)) + (", half of which choose" * (halves > 1))


def _words(units: Sides) -> str:
    return f"{counted(units[0], 'members')}, {counted(units[1], 'non-members')}"


def _hits(units: Sides, fprs: tuple[float, ...], attacks: int, level: float) -> tuple[Detectable, ...]:
    resolved = [rate for rate in fprs if rate * units[1] >= 1]
    if not resolved:
        return ()
    rate = min((rate for rate in resolved if rate >= RATE), default=max(resolved))
    found = partial(_least_rate, rate=rate, alpha=(1 - level) / attacks)
    shared = f", error shared by {attacks} attacks" if attacks > 1 else ""
    return (
        Detectable(
            what=f"TPR at an FPR of {rate:g}",
            effect=found(units),
            units=_words(units),
            assuming=f"shown is a TPR that surely is {NOTABLE_TIMES} times the FPR or more{shared}",
            needed=lambda effect: _needed(both_needed(found, units, effect), 1),
            possible=(rate, 1.0),
        ),
    )


def _least_rate(units: Sides, rate: float, alpha: float) -> float | None:
    """Return the least true positive rate that a threshold of this rate of false alarms shows with `POWER`."""
    from scipy import optimize, stats

    members, others = units
    call = Call(0.0, 0, members, 0, others)
    if rate * others < 1 or ratio(members, call, rate, alpha) < NOTABLE_TIMES:
        return None
    low, high = 0, members
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ratio(middle, call, rate, alpha) < NOTABLE_TIMES else (low, middle)
    if stats.binom.sf(high - 1, members, 1 - 1e-12) < POWER:
        return None
    return float(optimize.brentq(lambda share: stats.binom.sf(high - 1, members, share) - POWER, 0.0, 1.0))
