"""Clips with and without a word of reference, and what becomes of those without."""

from collections.abc import Mapping, Sequence

from audits.core.wording import many
from audits.speaker_groups import Options
from audits.speaker_groups.columns import read_counts
from probes.core.errors import InputError
from probes.speech.manifests import Clip
from probes.speech.normalisers import Normaliser

NO_REFERENCE = "no word of reference"


def has_words(
    clips: Sequence[Clip], counted: Mapping[str, Mapping[str, str]], options: Options, normaliser: Normaliser
) -> list[bool]:
    """Return a mask of the clips with a reference word, in their normalised text or by their counts."""
    if counted:
        return [bool(words) for words in read_counts(clips, next(iter(counted.values())), options.decimal)["words"]]
    return [bool(text) for text in normaliser.all([clip.text or "" for clip in clips])]


def chosen(clips: Sequence[Clip], words: Sequence[bool], options: Options) -> list[int]:
    """Return the indices of the clips that are used.

    Raises
    ------
    InputError
        Where `--on-empty-reference stop` meets a clip without a word.
    """
    if options.on_empty_reference == "count":
        return list(range(len(clips)))
    if options.on_empty_reference == "stop" and not all(words):
        raise InputError(
            "The clip has no word of reference.",
            where=clips[words.index(False)].where,
            hint="Fill it in, or see --on-empty-reference skip and --on-empty-reference count.",
        )
    return [at for at, there in enumerate(words) if there]


def wordless(count: int) -> str:
    """Return the text on how clips without a word of reference affect the rates."""
    clips = many(count, "clip has", "clips have")
    return (
        f"{clips} no word of reference: what a system wrote there counts as insertions of the group, without adding "
        "words; the adjusted model leaves these clips out. --on-empty-reference skip leaves them out of everything."
    )
