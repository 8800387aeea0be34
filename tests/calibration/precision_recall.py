"""`miles precision-recall`: a reference and two candidates, the steps of a sweep, of texts whose laws are known.

An audit of a side of 60 texts takes half a second, and one without a ceiling three times that. So 60 units are run in
five worlds at .95, and in one of them at all levels; fewer than 50 texts are refused, which is cheap to see. What is
planted is run in one world or two.
"""

from calibration.checks import NONE, Calibration, Case, Check
from calibration.precision_recall_simulated import ASKED as SCORES
from calibration.precision_recall_simulated import (
    EDGE,
    FEW,
    GROUPED,
    LEAST,
    ORDERS,
    SHARE,
    STATISTICS,
    WORLDS_HERE,
    WORSE,
    simulate,
)
from calibration.worlds import LEVELS, UNITS

_AVERAGE = "on average over sets of as many texts"
_SHORTFALL = "all scores against the ceiling (or relabelled texts) and Self-BLEU, of all candidates, Holm"
_PAIRS = "all pairs of candidates, Holm, one family for each score"
_ONE, _TWO = ("exchangeable",), ("exchangeable", "unequal-spread")


def _estimate(
    name: str, estimand: str, effects: tuple[str, ...] = (NONE,), worlds: tuple[str, ...] = WORLDS_HERE
) -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, effects=effects, worlds=worlds)


def _finding(
    name: str, estimand: str, family: str, effects: tuple[str, ...] = (NONE,), worlds: tuple[str, ...] = WORLDS_HERE
) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=effects, worlds=worlds)


def _power(name: str, estimand: str, family: str, effect: str = WORSE) -> Check:
    return Check(name=name, kind="power", estimand=estimand, family=family, effects=(effect,), worlds=_ONE)


CHECKS = (
    *(
        _estimate(name, f"the score {_AVERAGE}")
        for name in ("precision", "recall", "density", "coverage", "f1", "clipped_density", "clipped_coverage")
    ),
    *(
        _estimate(name, f"of histograms over clusters, {_AVERAGE}")
        for name in ("mauve", "frontier_integral", "prd_precision", "prd_recall")
    ),
    *(_estimate(f"curve[side={side}]", f"the curve at a slope of 1, {_AVERAGE}") for side in ("precision", "recall")),
    *(_estimate(f"ceiling[metric={metric}]", f"the reference against itself, {_AVERAGE}") for metric in SCORES),
    *(_estimate(f"floor[metric={metric}]", f"the reference against the floor, {_AVERAGE}") for metric in SCORES),
    *(
        _estimate(f"difference[against={against},metric={metric}]", f"difference of scores {_AVERAGE}")
        for against in ("ceiling", "floor", "candidate")
        for metric in SCORES
    ),
    *(
        _estimate(
            f"difference[against=relabelled,metric={metric}]", "score less that of one source, of which it is", (FEW,),
            _ONE,
        )
        for metric in SCORES
    ),
    _estimate("difference[against=reference,metric=self_bleu]", f"difference of Self-BLEU {_AVERAGE}"),
    *(
        _estimate(f"relabelled[metric={metric}]", "the score of a candidate of the same source", (FEW,), _ONE)
        for metric in SCORES
    ),
    _estimate("self_bleu", f"Self-BLEU {_AVERAGE}"),
    *(_estimate(f"distinct[n={n}]", f"distinct-{n} {_AVERAGE}") for n in ORDERS),
    _estimate("duplicates", f"share of texts that repeat an earlier one, {_AVERAGE}", (EDGE,), _TWO),
    _estimate("copied", "share of texts that stand in this reference", (EDGE,), _TWO),
    *(_estimate(f"length[statistic={name}]", f"{name} of the words of a text of this source") for name in STATISTICS),
    _estimate("shortened", "share of texts that are cut"),
    _estimate("hubness", f"skewness {_AVERAGE}"),
    _finding(
        "p_value", "any p-value of shortfalls and Self-BLEU rejects (all texts are of one source)", _SHORTFALL,
        (NONE, FEW),
    ),
    _finding("texts.below-ceiling", "a candidate falls short (it is as the reference)", _SHORTFALL),
    _finding("texts.below-relabelled", "the same without a ceiling", _SHORTFALL, (FEW,), _ONE),
    _finding(
        "texts.more-alike", "texts are more alike in their words, or fall short (they are as the reference)",
        _SHORTFALL, (NONE, FEW),
    ),
    _finding(
        "texts.not-above-floor", "a score is below the ceiling, and not shown above the floor (it is as the ceiling)",
        f"with the ceiling: {_SHORTFALL}",
    ),
    _finding(
        "texts.mode-collapse", f"more than {SHARE} of the texts repeat others (it is {SHARE})",
        "itself, each candidate", (EDGE,), _TWO,
    ),
    _finding(
        "texts.copied", f"more than {SHARE} of the texts stand in the reference (it is {SHARE})",
        "itself, each candidate", (EDGE,), _TWO,
    ),
    _finding("texts.grouped", "texts stand in groups (none does)", "all sets of texts"),
    _finding("texts.recall-by-temperature", "recall is above or below that at T = 1 (it is the same)", _PAIRS),
    _finding("texts.density-falls", "density is lower at another temperature (it is the same)", _PAIRS),
    _finding("texts.dominates", "a candidate has more precision and recall (both have as much)", _PAIRS),
    _power("texts.below-ceiling", "two in three of a candidate's texts lie elsewhere", _SHORTFALL),
    _power("texts.more-alike", "a candidate has 12 words, the reference 400", _SHORTFALL),
    _power("texts.mode-collapse", "a fifth of a candidate's texts are one sentence", "itself, each candidate"),
    _power("texts.copied", "a third of a candidate's texts stand in the reference", "itself, each candidate"),
    _power("texts.grouped", "texts of candidates stand in groups of 6", "all sets of texts", GROUPED),
    _power("texts.density-falls", "two in three of the hot candidate's texts lie elsewhere", _PAIRS),
)  # fmt: skip

REASONS = {
    "expected_coverage": "computed from the number of texts: without an interval",
    "texts.order-unseen": "tells what was not shown of ceiling and floor, with their differences",
    "texts.no-shortfall": "tells what was not shown, with the differences",
    "texts.outside": "counts texts of the first draw",
    "texts.uncovered": "counts texts of the first draw",
}


def _grid() -> tuple[Case, ...]:
    null = [Case(world=w, units=u, level=0.95) for w in WORLDS_HERE for u in UNITS]
    far = [Case(world="exchangeable", units=60, level=level) for level in LEVELS if level != 0.95]
    planted = [(EDGE, _TWO), (FEW, _ONE), (WORSE, _ONE), (GROUPED, _ONE)]
    more = [Case(world=w, units=60, level=0.95, effect=effect) for effect, worlds in planted for w in worlds]
    return (*null, *far, *more)


def _full(case: Case) -> int:
    return 10 if case.units < LEAST else 20 if case.effect in (WORSE, GROUPED) else 100


_CELLS = ((NONE, "exchangeable", 4), (NONE, "unequal-spread", 2), (EDGE, "exchangeable", 6), (FEW, "exchangeable", 6))
CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects={
        EDGE: f"{SHARE} of a candidate's texts repeat an earlier one, and as many stand in the reference",
        FEW: "the reference has no more texts than a candidate: there is no ceiling",
        WORSE: "of the hot candidate a third stands in the reference, and the rest lies elsewhere, of which a third is "
        "one sentence; it has few words",
        GROUPED: "texts of candidates stand in groups of 6, as answers to one prompt",
    },
    quick=(
        *((Case(world=world, units=60, level=0.95, effect=effect), n) for effect, world, n in _CELLS),
        (Case(world="exchangeable", units=60, level=0.95, effect=WORSE), 5),
        (Case(world="exchangeable", units=60, level=0.95, effect=GROUPED), 6),
        (Case(world="exchangeable", units=20, level=0.95), 1),
        # Percentiles of 60 texts have an interval only at lower levels than .95.
        (Case(world="exchangeable", units=60, level=0.9), 20),
    ),
    grid=_grid(),
    full=_full,
    worlds=WORLDS_HERE,
)
