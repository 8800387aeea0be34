"""`miles audit-groups`: four groups of speakers, a second attribute, and three systems alike in truth."""

from calibration.checks import NONE, Calibration, Case, Check
from calibration.speaker_groups_simulated import EXPLAINED, GAP_PLANTED, LEFT, PARTS, simulate
from calibration.worlds import WORLDS

_BOTH = (NONE, GAP_PLANTED)
_ALL = (NONE, GAP_PLANTED, LEFT, EXPLAINED)
_DECLARED = "all attributes and systems, Holm"
_PAIRS = "simultaneous over all pairs of groups of the attribute"
_POOLED = "pooled rate, expected errors over expected words of a group's speakers"


_PARTED = "The warning `rates-part`, where some of those who say more, or less, are among the speakers; else nothing"
"""What is said where the size of a speaker goes with the rate."""
_POOLING = ("rate", "substitution_rate", "shrunken_rate", "gap", "gap_ratio", "gap_to_reference", "rate_ratio",
            "differential_fairness", "p_value", "groups.gap", "groups.conclusion", "groups.confirmed")  # fmt: skip


_LIMITED = "A limitation in every report: where a few err much, these intervals are too short below 200 speakers"


def _says(name: str) -> str:
    if name.startswith("entropy_index") and "between" not in name:
        return _LIMITED
    return _PARTED if name.partition("[")[0] in _POOLING else ""


def _estimate(name: str, estimand: str, family: str = "itself", effects: tuple[str, ...] = _BOTH) -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, family=family, effects=effects, says=_says(name))


def _finding(name: str, estimand: str, family: str, effects: tuple[str, ...] = (NONE,)) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=effects, says=_says(name))


CHECKS = (
    _estimate("rate", _POOLED),
    *(_estimate(f"{part}_rate", f"the part of the {_POOLED}, that is {part}s") for part in PARTS),
    _estimate("speaker_rate", "mean of the rates of a group's speakers"),
    _estimate("shrunken_rate", _POOLED, "itself; on average over groups"),
    *(
        _estimate(f"gap[kind={kind},adjusted=no]", f"{kind} gap of the pooled rates of the two groups told", _PAIRS)
        for kind in ("absolute", "relative", "log_odds")
    ),
    *(
        _estimate(f"gap_ratio[kind={kind},adjusted=no]", "ratio of the pooled rates of the two groups told", _PAIRS)
        for kind in ("ratio", "four_fifths")
    ),
    *(
        _estimate(
            f"{name}[kind={kind},adjusted=yes]", f"{kind} gap of the same with the other attribute held fixed", _PAIRS
        )
        for name, kind in (("gap", "absolute"), ("gap", "relative"), ("gap_ratio", "ratio"))
    ),
    _estimate(
        "gap_to_reference", "pooled rate less that of all other groups", "simultaneous over the groups of the attribute"
    ),
    _estimate(
        "excess", "pooled rate less that of all other groups: its low end", "simultaneous over the groups, one side"
    ),
    _estimate("rate_ratio[adjusted=no]", "ratio of pooled rates", effects=_ALL),
    _estimate("rate_ratio[adjusted=yes]", "the same with the other attribute held fixed", effects=_ALL),
    _estimate("attenuation", "log of the first ratio less log of the second", effects=_ALL),
    _estimate("share_left", "log of the second ratio over log of the first", effects=(LEFT,)),
    _estimate("stratum_ratio", "ratio of pooled rates within a level of the other attribute", effects=_ALL),
    _estimate("differential_fairness", "largest log ratio of two groups", "simultaneous over pairs and outcomes"),
    *(
        _estimate(
            f"entropy_index[index={index},part={part}]", f"{part} of the index over the population of speakers"
        )
        for index in ("generalised_entropy", "atkinson")
        for part in ("total", "between", "within")
    ),
    _estimate("confirmed_difference", "pooled rate less that of all others, on speakers not searched"),
    _estimate("intersection_ratio", "rate over what the parts of the crossing lead to expect, on the same"),
    _estimate("system_difference", "difference of the pooled rates of two systems on the same clips", effects=(NONE,)),
    _estimate("gap_difference", "difference of the gaps of two systems", _PAIRS, effects=(NONE,)),
    _finding("p_value[test=parity,correction=none]", "the test of one attribute and system rejects", "itself"),
    _finding("groups.gap", "groups of an attribute err at different pooled rates (parity)", _DECLARED),
    _finding(
        "groups.gap[hypothesis=worst-group]", "a group errs more than all others together", _DECLARED
    ),
    _finding(
        "groups.gap[hypothesis=conditional]",
        "groups err at different rates with the other attribute held fixed",
        _DECLARED,
    ),
    _finding(
        "groups.spurious", "less than half of the log ratio is left (60 % is, in truth)", "the attribute", (LEFT,)
    ),
    _finding(
        "groups.confirmed",
        "a searched group differs from all others, or from its parts",
        "all named groups of a system, Holm",
    ),
    _finding(
        "groups.system",
        "a system errs more or less than the first, or has another gap",
        "all systems and attributes",
    ),
    _finding("groups.conclusion", "some declared test rejects", _DECLARED),
    Check(
        name="groups.gap", kind="power", estimand="a gap of .12 of one group (.10 among ties)", effects=(GAP_PLANTED,),
        family=_DECLARED,
    ),
    Check(
        name="groups.spurious", kind="power", estimand="a gap that goes with age alone", effects=(EXPLAINED,),
        family="the attribute",
    ),
)  # fmt: skip

REASONS = {
    "noise_floor": "the range of the largest gap under shuffled labels, known to Monte-Carlo error: of no parameter",
    "entropy_noise_floor": "the range of an index under shuffled labels: of no parameter",
    "overdispersion": "an exact number of the data, without an interval",
    "faas": "the score of other tools, without an interval",
    "groups.no-gap-shown": "tells what was not shown, with the intervals of gap and gap_to_reference",
    "groups.nothing-compared": "tells that nothing was tested",
    "groups.nothing-found": "tells what the search did not find",
    "groups.columns": "tells how columns were read",
    "groups.skipped": "counts clips that were left out",
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
    effects={
        GAP_PLANTED: "one group has a pooled rate .12 higher, .10 among ties",
        LEFT: "one group errs more, and 60 % of its log ratio is left with age held fixed",
        EXPLAINED: "one group errs more, all of it through age",
    },
    quick=(
        *((Case(world=world, units=10, level=0.95), 4) for world in WORLDS),
        (Case(world="exchangeable", units=5, level=0.9), 4),
        (Case(world="exchangeable", units=60, level=0.95, effect=GAP_PLANTED), 4),
        (Case(world="exchangeable", units=20, level=0.95, effect=LEFT), 12),
        (Case(world="exchangeable", units=20, level=0.95, effect=EXPLAINED), 4),
    ),
    full=_full,
)
