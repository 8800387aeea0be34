"""Warnings about groups, speakers and samples in every comparison of error rates."""

from collections import Counter
from collections.abc import Hashable, Iterable

from audits.statistics import FEW_RESAMPLES, OUT_OF_REACH, few_resamples, out_of_reach


def too_few_words(by: str, enough: str) -> str:
    """Return the warning that no groups are compared; `enough` names what each needs enough of."""
    return f"By {by}, fewer than two groups have enough {enough}: no gap is estimated."


def in_several(speakers: Iterable[Hashable], member: Iterable[int]) -> int:
    """Return the number of speakers in several groups, from the speaker and the group of each clip (-1: none).

    >>> in_several(["a", "a", "b", "b"], [0, 1, 1, -1])
    1
    """
    pairs = {(who, group) for who, group in zip(speakers, member, strict=True) if group >= 0}
    counts = Counter(who for who, _ in pairs)
    return sum(count > 1 for count in counts.values())


def in_several_words(who: str, by: str, they: str) -> str:
    """Return the warning on gaps between groups that share speakers; `who` and `they` are its subjects."""
    return (
        f"{who} in several groups by {by}. Pooled rates are compared: where {they} have unequal shares of the groups, "
        "who they are is part of the gap."
    )


def decoded_elsewhere(decoders: Iterable[str]) -> list[str]:
    """Return a warning for each version of ffmpeg that decoded clips; empty names are of other clips.

    >>> decoded_elsewhere(["", "ffmpeg 7.1", "ffmpeg 7.1"])
    ['2 clips were decoded by ffmpeg 7.1: another version may give other samples, and so other numbers.']
    """
    return [
        f"{count} clip{' was' if count == 1 else 's were'} decoded by {name}: another version may give other samples, "
        "and so other numbers."
        for name, count in sorted(Counter(filter(None, decoders)).items())
    ]


def beyond_samples(permutations: int | None, bootstrap: int, tests: int, level: float) -> list[tuple[str, str]]:
    """Return id and text of a warning where shuffles or bootstrap samples are too few for this level.

    None of `permutations` where nothing is tested by shuffles.
    """
    reach = "" if permutations is None else out_of_reach(permutations, tests, level)
    found = [(OUT_OF_REACH, reach), (FEW_RESAMPLES, few_resamples(bootstrap, level))]
    return [(name, message) for name, message in found if message]
