"""Clips with and without a word of reference, and what becomes of those without."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from audits.core.wording import many
from audits.speaker_groups import Options
from audits.speaker_groups.columns import read_counts
from probes.core.errors import InputError
from probes.files.cells import Places
from probes.speech.manifests import Clips

NO_REFERENCE = "no word of reference"


def has_words(
    clips: Clips, counted: Mapping[str, Mapping[str, str]], options: Options, references: Iterable[str | None]
) -> NDArray[np.bool_]:
    """Return a mask of the clips with a reference word, in their normalised text or by their counts."""
    if counted:
        return read_counts(clips, next(iter(counted.values())), options.decimal)["words"] > 0
    return np.fromiter(map(bool, references), dtype=bool, count=len(clips))


def chosen(clips: Clips, words: NDArray[np.bool_], options: Options) -> Places:
    """Return the indices of the clips that are used.

    Raises
    ------
    InputError
        Where `--on-empty-reference stop` meets a clip without a word.
    """
    if options.on_empty_reference == "count":
        return np.arange(len(clips))
    if options.on_empty_reference == "stop" and not words.all():
        raise InputError(
            "The clip has no word of reference.",
            where=clips[int(words.argmin())].where,
            hint="Fill it in, or see --on-empty-reference skip and --on-empty-reference count.",
        )
    return np.flatnonzero(words)


def wordless(count: int) -> str:
    """Return the text on how clips without a word of reference affect the rates."""
    clips = many(count, "clip has", "clips have")
    return (
        f"{clips} no word of reference: what a system wrote there counts as insertions of the group, without adding "
        "words; the adjusted model leaves these clips out. --on-empty-reference skip leaves them out of everything."
    )
