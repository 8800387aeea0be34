"""`miles audit-fairness`: counts of four groups of speakers on the layers of an encoder; no model is run."""

from audits.group_rates.comparing import KINDS
from calibration.asr_fairness_simulated import DEALS, GAP_PLANTED, simulate
from calibration.checks import NONE, Calibration, Case, Check
from calibration.worlds import WORLDS

_BOTH = (NONE, GAP_PLANTED)
_POOLED = "pooled rate, expected errors over expected trials of a group's speakers"
_PAIRS = "simultaneous over all pairs of groups of the attribute, on one layer"
_OTHERS = "simultaneous over all groups of the attribute, on one layer"
_TASK = "all attributes and crossings of a task, on the best layer and the head, Holm"
_DRAWN = tuple(world for world in WORLDS if world != "ties")
"""Worlds in which the rates of layers are multiples of one another."""


_PARTED = "The warning `rates-part`, where some of those who say more, or less, are among the speakers; else nothing"
"""What is said where the size of a speaker goes with the rate."""
_UNWARNED = (
    *("best_layer", "fairest_layer", "layer_correlation", "deal_spread", "gap_deal_spread"),
    "control_error_rate",
)


def _estimate(
    name: str,
    estimand: str,
    family: str = "itself",
    effects: tuple[str, ...] = _BOTH,
    worlds: tuple[str, ...] = tuple(WORLDS),
) -> Check:
    says = "" if name in _UNWARNED else _PARTED
    return Check(
        name=name, kind="estimate", estimand=estimand, family=family, effects=effects, worlds=worlds, says=says
    )


def _finding(name: str, estimand: str, family: str) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, says=_PARTED)


CHECKS = (
    _estimate("error_rate[task=asr]", f"{_POOLED}, on one layer"),
    _estimate("error_rate[task=sid]", f"the same, mean over {DEALS} deals"),
    _estimate("head_error_rate", f"{_POOLED}, of the head"),
    _estimate("control_error_rate", f"{_POOLED}, on one layer of a control"),
    *(
        _estimate(f"{prefix}gap[task=asr,kind={kind}]", f"{kind} gap of the pooled rates of the groups told", _PAIRS)
        for prefix in ("", "head_")
        for kind in KINDS
    ),
    _estimate("gap[task=sid,kind=absolute]", "the same, mean over deals", _PAIRS),
    _estimate("gap_to_others", "pooled rate less that of all other groups", _OTHERS),
    _estimate("head_gap_to_others", "the same of the head", _OTHERS),
    _estimate("best_layer", "the layer with the least pooled rate of all"),
    _estimate("fairest_layer", "the layer with the least absolute gap", effects=(GAP_PLANTED,), worlds=_DRAWN),
    _estimate(
        "layer_correlation", "rank correlation over layers of error and gap", effects=(GAP_PLANTED,), worlds=_DRAWN
    ),
    _estimate("deal_spread", "standard deviation of the rate of one deal, given the speakers"),
    _estimate("gap_deal_spread", "standard deviation of the gap of one deal, given the speakers"),
    _finding("p_value[correction=none]", "the test of one attribute on one layer rejects", "itself"),
    _finding("head_p_value[correction=none]", "the test of one attribute on the head rejects", "itself"),
    *(
        _finding(f"fairness.gap[task={task}]", "groups of an attribute or crossing err at other pooled rates", _TASK)
        for task in ("asr", "sid")
    ),
    _finding("fairness.crossings", "groups of a crossing err at different pooled rates", f"{_TASK}; two tasks"),
    _finding("fairness.layer-pattern", "layers with less error have smaller, or larger, gaps", "two tasks"),
    *(
        Check(
            name=f"fairness.gap[task={task}]", kind="power", effects=(GAP_PLANTED,), family=_TASK,
            estimand=f"a gap of {size} of one group",
        )
        for task, size in (("asr", ".12 (.10 among ties)"), ("sid", ".20 (.10 among ties)"))
    ),
)  # fmt: skip

_OF_THE_NULL = "the range of the largest gap under shuffled labels, known to Monte-Carlo error: of no parameter"
REASONS = {
    "noise_floor": _OF_THE_NULL,
    "head_noise_floor": _OF_THE_NULL,
    "fairness.no-gap-shown": "tells what was not shown, with the interval of the gap",
    "fairness.too-few-speakers": "tells that nothing was compared",
    "fairness.deals": "tells deal_spread and gap_deal_spread, with their intervals",
    "fairness.skipped": "counts clips that were left out",
}


def _full(case: Case) -> int:
    # A data set takes half a second and more: most where a bound is judged.
    if case.effect != NONE:
        return 40
    return 200 if case.level == 0.95 else 100


CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects={GAP_PLANTED: "one group has a pooled rate .12 higher on the best layer, .10 among ties"},
    quick=(
        *((Case(world=world, units=10, level=0.95), 4) for world in WORLDS),
        (Case(world="exchangeable", units=5, level=0.9), 4),
        (Case(world="exchangeable", units=20, level=0.95, effect=GAP_PLANTED), 4),
    ),
    full=_full,
)
