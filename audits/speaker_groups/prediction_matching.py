"""Find the transcript of each recording, by its path without the extension of an audio file.

Where two texts would do for a recording, or one for two of them, nothing is chosen in silence.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from audits.speaker_groups.predictions import Entries, Predictions, as_entries, unit_of
from probes.core.errors import InputError
from probes.files.cells import Places

# A list of its own, since identifiers hold full stops too: `utt.1` and `utt.2` are two recordings.
_AUDIO = frozenset(["wav", "mp3", "flac", "ogg", "opus", "m4a", "sph", "webm", "aac", "wma", "aiff", "wv", "mp4"])
EXAMPLES = 3
"""Names that a message gives of many."""


def match(names: Sequence[str], predictions: Predictions) -> tuple[Sequence[str | None], list[str]]:
    r"""Find the text of each recording, by its path without the extension of an audio file.

    `\` counts as `/`, and a leading `./` as nothing. A recording that has no text then gets one by the last part
    of its path, where that part is unique among the recordings and among the entries of the file.

    Returns
    -------
    texts
        One for each recording; None where the file has none.
    unused
        Names of the entries that matched no recording.

    Raises
    ------
    InputError
        Where no recording has a text, or one text would go to two recordings, or two texts to one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from audits.speaker_groups.predictions import Prediction
    >>> entries = {"clips/a.mp3": Prediction("one two", 2)}
    >>> found, unused = match(
    ...     ["a.wav", "b.wav"], Predictions(path=Path("p.tsv"), sha256="", form="table", entries=entries)
    ... )
    >>> list(found), unused
    (['one two', None], [])
    """
    entries = as_entries(predictions.entries)
    numbers, first = _by_key(predictions, entries)
    used = np.fromiter((numbers.get(_key(name), -1) for name in names), dtype=np.intp, count=len(names))
    lost = np.flatnonzero(used < 0).tolist()
    if lost:
        used[lost] = _by_tail([_key(names[at]) for at in lost], names, numbers)
    _check_shared(names, used, entries, predictions)
    matched = np.zeros(len(entries), dtype=bool)
    matched[used[used >= 0]] = True
    unused = [str(entries.names[at]) for at in np.flatnonzero(~matched[first]).tolist()]
    if len(names) and len(unused) == len(entries):
        raise InputError(
            f"The file has no prediction for any of the {len(names)} recordings: "
            f"it names {_some(unused)}, the recordings are {_some(names)}.",
            where=str(predictions.path),
            hint="The names must be equal but for the audio file's extension, or in the last part of the path.",
        )
    return entries.texts.take(used), unused


def _key(name: str) -> str:
    path = name.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    start, dot, suffix = path.rpartition(".")
    return start if dot and start and start[-1] != "/" and suffix.lower() in _AUDIO else path


def _tail(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _by_key(predictions: Predictions, entries: Entries) -> tuple[dict[str, int], Places]:
    """Return the first entry of each recording by the key of its name, and that of the recording of each entry."""
    numbers: dict[str, int] = {}
    first = np.empty(len(entries), dtype=np.intp)
    for at, name in enumerate(entries):
        before = first[at] = numbers.setdefault(_key(name), at)
        if before != at and entries.texts[before] != entries.texts[at]:
            unit = unit_of(predictions.form)
            raise InputError(
                f"{entries.names[before]!r} ({unit} {entries.lines[before]}) and {name!r} ({unit} {entries.lines[at]}) "
                "are one recording by their names, but their texts differ.",
                where=str(predictions.path),
                hint="Keep one of the two.",
            )
    return numbers, first


def _by_tail(lost: Sequence[str], names: Sequence[str], numbers: Mapping[str, int]) -> list[int]:
    """Return the entries of recordings whose key is in no entry, by the last part of their path; -1 where none fits."""
    wanted = {_tail(key) for key in lost}
    own = _times((_tail(_key(name)) for name in names), wanted)
    theirs = _times(map(_tail, numbers), wanted)
    unique = {tail for tail in wanted if own[tail] == theirs[tail] == 1}
    at = {tail: number for key, number in numbers.items() if (tail := _tail(key)) in unique}
    return [at.get(_tail(key), -1) for key in lost]


def _times(tails: Iterable[str], wanted: Container[str]) -> Counter[str]:
    return Counter(tail for tail in tails if tail in wanted)


def _check_shared(names: Sequence[str], used: Places, entries: Entries, predictions: Predictions) -> None:
    times = np.bincount(used[used >= 0], minlength=len(entries))
    shared = next((at for at in used.tolist() if at >= 0 and times[at] > 1), None) if (times > 1).any() else None
    if shared is not None:
        key, owners = _key(str(entries.names[shared])), [names[at] for at in np.flatnonzero(used == shared).tolist()]
        raise InputError(
            f"One prediction would go to {len(owners)} recordings: {_some(owners)}.",
            where=f"{predictions.path}, {key!r}",
            hint="Recordings, and parts of one, need names that differ by more than the audio file's extension.",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:80]) for name in names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")
