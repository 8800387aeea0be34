"""`miles audit-phonemes`: three groups of as many speakers as units, two encoders alike in truth, one layer.

Fewer than five speakers a group are not compared. What a probe reads right depends on how many it learned from: the
truth of accuracies, and of correlations with them, is from data sets of their own (`phoneme_errors_simulated.main`). A
rank correlation over groups has no truth where groups are alike, and that over speakers stands for both. Not all levels
are run in all worlds: a data set takes .2 s, and the whole about twelve minutes.
"""

from audits.phoneme_errors.values import TRAININGS
from calibration.checks import NONE, Calibration, Case, Check
from calibration.phoneme_errors_simulated import ALIKE, NOISY, SHIFTED, simulate
from calibration.worlds import LEVELS, WORLDS

_ANY, _SPREAD = (NONE, ALIKE), (NONE, ALIKE, NOISY)
_HOLM = "all groups and layers, Holm"
_LEARNT = (
    "The limitations: intervals are over speakers; those that a probe learned from are a sample too, which they do not "
    "contain."
)


def _estimate(name: str, estimand: str, effects: tuple[str, ...] = _ANY, says: str = "") -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, effects=effects, says=says)


def _read(name: str, estimand: str) -> Check:
    return _estimate(name, estimand, (NONE,), _LEARNT)


def _finding(name: str, estimand: str, family: str, effects: tuple[str, ...] = _ANY) -> Check:
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=effects)


CHECKS = (
    *(
        _read(f"{name}[training={training}]", f"share of a group's tokens that {probe} reads, its learning included")
        for name in ("accuracy", "against_accuracy")
        for training, probe in zip(
            TRAININGS,
            ("a probe of everyone", "one of as many tokens", "one of the group", "one of all others"),
            strict=True,
        )
    ),
    *(
        _estimate(f"accuracy_difference[training={training}]", "the second encoder's less the first's (it is 0)")
        for training in TRAININGS
    ),
    _read("systematic_error", "accuracy of the group's own probe less that of the matched one"),
    _read("own_data_gain", "accuracy of the group's own probe less that of everyone's"),
    _read("accuracy_gap", "accuracy of the others less that of the group, by the matched probe"),
    _read("remaining_gap", "the same with the group read by its own probe"),
    _read("systematic_minus_remaining", "the systematic error less what remains"),
    _estimate("random_error", "variance of a phone in the group over that of all tokens"),
    _estimate("random_error_within_speakers", "the same within a speaker, weighed by pairs of tokens"),
    _estimate("random_error_cosine", "the same of directions", (NONE,)),
    _estimate("variance_ratio", "variance of the group over that of the others", _SPREAD),
    _estimate("variance_ratio_within_speakers", "the same within a speaker", _SPREAD),
    _estimate("scatter_minus_shift", "excess variance less squared shift, over all variance", (NONE, ALIKE, SHIFTED)),
    _estimate("centroid_shift", "how far the group's phones lie from the others'", (NONE, ALIKE, SHIFTED)),
    _estimate("variance_accuracy_correlation[partial=no]", "rank correlation over speakers of this law", (NONE,)),
    _estimate("variance_accuracy_correlation[partial=yes]", "the same, group and tokens held fixed", (NONE,)),
    _estimate("split_correlation[partial=no]", "the same over two halves of the phones"),
    _estimate("split_correlation[partial=yes]", "the same, group and tokens held fixed"),
    _read("against_systematic_error", "as systematic_error, of the second encoder"),
    _estimate("against_random_error", "as random_error, of the second encoder"),
    _estimate("against_variance_ratio", "as variance_ratio, of the second encoder"),
    _estimate("systematic_error_difference", "the second encoder's less the first's (it is 0)"),
    _estimate("random_error_difference", "the second encoder's less the first's (it is 0)"),
    _estimate("variance_ratio_difference", "the second encoder's less the first's (it is 0)"),
    _estimate("alignment_error_rate", "pooled rate, expected errors over expected symbols"),
    _finding("p_value[test=random,correction=none]", "the variance ratio of a group is not 1", "itself"),
    _finding("p_value[test=split,correction=none]", "the split correlation is not 0", "itself", (ALIKE,)),
    _finding("phonemes.systematic", "a group's phones lie elsewhere", _HOLM),
    _finding("phonemes.random", "a group's phones scatter more", _HOLM),
    _finding("phonemes.both", "both", _HOLM),
    _finding("phonemes.correlation", "speakers who scatter more are read better, or worse", "itself", (ALIKE,)),
    _finding("phonemes.moved", "an error of a group is another in the second encoder", f"{_HOLM}, both errors"),
    Check(
        name="phonemes.systematic", kind="power", estimand="phones of a group are turned by 45 degrees", family=_HOLM,
        effects=(SHIFTED,),
    ),
    Check(
        name="phonemes.random", kind="power", estimand="variances of a group are doubled", family=_HOLM,
        effects=(NOISY,),
    ),
)  # fmt: skip

REASONS = {
    "phonemes.neither": "tells what was not shown, with the intervals of systematic_error and variance_ratio",
    "phonemes.unmoved": "tells what was not shown, with the intervals of systematic_error_difference",
    "phonemes.nothing-compared": "tells that nothing was compared",
}


def _grid() -> tuple[Case, ...]:
    cells = [Case(world=world, units=20, level=0.95) for world in WORLDS]
    for effect in (ALIKE, SHIFTED, NOISY):
        worlds = ("exchangeable", "unequal-spread") if effect == ALIKE else ("exchangeable",)
        cells += [Case(world=world, units=20, level=0.95, effect=effect) for world in worlds]
    cells += [Case(world=world, units=5, level=0.95) for world in WORLDS]
    cells += [Case(world="exchangeable", units=20, level=level) for level in LEVELS if level != 0.95]
    cells += [Case(world=world, units=units, level=0.95) for units in (60, 10) for world in WORLDS]
    return tuple(cells)


CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects={
        SHIFTED: "the phones of one group are turned by 45 degrees",
        NOISY: "all variances of one group are doubled",
        ALIKE: "the tokens of all speakers scatter alike, so that nothing goes with how well they are read",
    },
    quick=(
        *((Case(world=world, units=20, level=0.95), 5) for world in WORLDS),
        *((Case(world="exchangeable", units=20, level=0.95, effect=effect), 4) for effect in (ALIKE, SHIFTED, NOISY)),
    ),
    grid=_grid(),
    full=lambda case: 100,
)
