"""Did the errors move from one encoder to another? Paired differences on the same tokens, folds and matched draws."""

from dataclasses import dataclass

import numpy as np

from audits.context import Context, Draft
from audits.groups import ALL
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.estimating import JACKKNIFE, STUDENT, At, Found, add, estimate, values_of, warn_missing
from audits.phoneme_errors.measuring import Measured
from audits.phoneme_errors.values import TRAININGS
from audits.statistics import adjust
from audits.statistics.influences import Moved


@dataclass(frozen=True, slots=True)
class Changes:
    """The estimates of the second encoder, the differences, and their Holm-adjusted p-values.

    `adjusted` is by name, layer and group.
    """

    second: Found
    differences: Found
    adjusted: dict[tuple[str, int, str], float]


def compare(
    draft: Draft, first: Measured, second: Measured, corpus: Corpus, options: Options, context: Context
) -> Changes:
    """Add the estimates of the second encoder and the differences, second less first."""
    others = estimate(draft, second, corpus, options, context, prefix="against_")
    differences = Found()
    tests: list[tuple[str, int, str, float]] = []
    for one, other in zip(first.layers, second.layers, strict=True):
        before, after = (values_of(counts, first, corpus) for counts in (one, other))
        cells = [(ALL, "all"), *((group, training) for group in corpus.groups for training in TRAININGS)]
        for group, training in cells:
            at = At("accuracy_difference", one.layer, group, training)
            moved = after.accuracy(group, training) - before.accuracy(group, training)
            add(
                draft,
                differences,
                at,
                moved,
                after.strata(group),
                context,
                method=f"{STUDENT}, paired",
                values=after,
            )
        for group in corpus.groups:
            strata = after.strata(group)
            change = after.systematic(group) - before.systematic(group)
            at = At("systematic_error_difference", one.layer, group)
            add(draft, differences, at, change, strata, context, method=f"{STUDENT}, paired", values=after)
            tests.append((at.name, one.layer, group, change.p(strata, after.sizes)))
            spread = _apart(after.variance(group), before.variance(group))
            everyone = after.kinds(group)
            at = At("random_error_difference", one.layer, group)
            add(draft, differences, at, spread, everyone, context, method=f"{JACKKNIFE}, paired", values=after)
            # Against the other groups: a layer's variance falls when a shift is mended, and noise seems to rise.
            both = after.strata(group, against=True)
            ratio, at = (
                _apart(after.excess(group), before.excess(group)),
                At("variance_ratio_difference", one.layer, group),
            )
            add(draft, differences, at, ratio, both, context, method=f"{JACKKNIFE}, paired", values=after)
            if ratio is not None:
                tests.append((at.name, one.layer, group, ratio.p(both, after.sizes)))
    # Both errors together: either of them makes the one finding that something moved.
    corrected = adjust([test[3] for test in tests], "holm")
    adjusted = {test[:3]: p for test, p in zip(tests, corrected, strict=True)}
    warn_missing(draft, differences)
    return Changes(others, differences, adjusted)


def _apart(after: Moved | None, before: Moved | None) -> Moved | None:
    """Return the difference of two numbers of which the logarithms are given; None where one is."""
    if after is None or before is None:
        return None
    one, other = (Moved(float(np.exp(log.value)), np.exp(log.value) * log.moves) for log in (after, before))
    return one - other
