"""What is said of how well a metric sees an error: by both ends of its AUC's interval.

The verdict is of the low end alone. Words need the high end too: whoever reads that a metric is blind, or sees in part,
is told that no more is to be had from it.
"""

from audits.core.records import Estimate

TRUSTED, CHANCE = 0.8, 0.5
NEAR_CHANCE = 0.6
"""The high end of an AUC's interval below which a metric that is not above chance is called blind in words."""


def verdict_of(row: Estimate) -> str:
    """Return whether a metric is trusted, weak or blind, by the interval of its AUC.

    An area below one half is no better: such a metric calls the error the more faithful text.
    """
    assert row.low is not None
    if row.low >= TRUSTED:
        return "trusted"
    return "weak" if row.low > CHANCE else "blind"


def sight(row: Estimate) -> str:
    """Return in a few words what the interval of an AUC shows: a key of `SHOWS` and `MEANS`.

    >>> said = {"value": 0.6, "method": "jackknife", "n": 9, "unit": "contexts", "where": {}}
    >>> [sight(Estimate(name="auc", low=low, high=high, **said)) for low, high in ((0.49, 0.79), (0.66, 1.0))]
    ['not seen well', 'seen, how well is not shown']
    """
    assert row.high is not None
    verdict = verdict_of(row)
    if verdict == "weak":
        return "seen in part" if row.high < TRUSTED else "seen, how well is not shown"
    if verdict == "trusted":
        return verdict
    if row.high >= TRUSTED:
        return "too few texts to tell"
    if row.high < CHANCE:
        return "taken for the better text"
    return "blind" if row.high < NEAR_CHANCE else "not seen well"


SHOWS = {
    "trusted": "sees {}",
    "seen in part": "sees {} only in part",
    "seen, how well is not shown": "sees {}, how well is not shown",
    "too few texts to tell": "is not shown to see {}",
    "taken for the better text": "takes {} for the better text",
    "blind": "is blind to {} on these data",
    "not seen well": "does not see {} well",
}
_UNSUPPORTED = f"The interval reaches {CHANCE}: this metric supports no sentence about such errors."
MEANS = {
    "trusted": f"The interval lies at {TRUSTED} or above.",
    "seen in part": f"The interval lies between {CHANCE} and {TRUSTED}: it may back a finding, not carry one.",
    "seen, how well is not shown": f"The interval lies above {CHANCE} and reaches from below {TRUSTED} to it or above: "
    "whether this metric can be trusted is undecided. It may back a finding, not carry one.",
    "too few texts to tell": f"{_UNSUPPORTED} There are too few texts to tell.",
    "taken for the better text": f"The interval lies below {CHANCE}: this metric supports no sentence about such "
    "errors.",
    "blind": _UNSUPPORTED,
    "not seen well": f"{_UNSUPPORTED} It lies below {TRUSTED}; that nothing at all is seen is not shown.",
}
UNDECIDED = ("seen, how well is not shown", "too few texts to tell")
WHY_NOT = {
    "too few texts to tell": "too few texts to tell",
    "taken for the better text": "takes them for the better text",
    "blind": "blind to them here",
    "not seen well": "not shown to see them, and at most in part",
}
"""Why a metric supports no sentence about an error."""
