"""Find the transcript of each recording, by its path without the extension of an audio file.

Where two texts would do for a recording, or one for two of them, nothing is chosen in silence.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from audits.speaker_groups.predictions import Predictions, unit_of
from probes.core.errors import InputError

# A list of its own, since identifiers hold full stops too: `utt.1` and `utt.2` are two recordings.
_AUDIO = re.compile(r"(?ai)(?<=[^/])\.(wav|mp3|flac|ogg|opus|m4a|sph|webm|aac|wma|aiff|wv|mp4)\Z")
EXAMPLES = 3
"""Names that a message gives of many."""


def match(names: Sequence[str], predictions: Predictions) -> tuple[tuple[str | None, ...], list[str]]:
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
    >>> match(["a.wav", "b.wav"], Predictions(path=Path("p.tsv"), sha256="", form="table", entries=entries))
    (('one two', None), [])
    """
    entries = _by_key(predictions)
    keys = [_key(name) for name in names]
    own, theirs = _unique_tails(keys), _unique_tails(entries)
    used = [key if key in entries else theirs.get(_tail(key)) if _tail(key) in own else None for key in keys]
    _check_shared(names, used, predictions)
    matched = set(used)
    unused = [name for name in predictions.entries if _key(name) not in matched]
    if names and len(unused) == len(predictions.entries):
        raise InputError(
            f"The file has no prediction for any of the {len(names)} recordings: "
            f"it names {_some(unused)}, the recordings are {_some(names)}.",
            where=str(predictions.path),
            hint="The names must be equal but for the audio file's extension, or in the last part of the path.",
        )
    return tuple(None if key is None else entries[key] for key in used), unused


def _key(name: str) -> str:
    path = name.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return _AUDIO.sub("", path)


def _tail(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _by_key(predictions: Predictions) -> dict[str, str]:
    first: dict[str, str] = {}
    entries = predictions.entries
    for name, prediction in entries.items():
        before = first.setdefault(_key(name), name)
        if entries[before].text != prediction.text:
            unit = unit_of(predictions.form)
            raise InputError(
                f"{before!r} ({unit} {entries[before].line}) and {name!r} ({unit} {prediction.line}) are one "
                "recording by their names, but their texts differ.",
                where=str(predictions.path),
                hint="Keep one of the two.",
            )
    return {key: entries[name].text for key, name in first.items()}


def _unique_tails(keys: Iterable[str]) -> dict[str, str]:
    tails = [(_tail(key), key) for key in keys]
    times = Counter(tail for tail, _ in tails)
    return {tail: key for tail, key in tails if times[tail] == 1}


def _check_shared(names: Sequence[str], used: Sequence[str | None], predictions: Predictions) -> None:
    times = Counter(key for key in used if key is not None)
    shared = next((key for key, count in times.items() if count > 1), None)
    if shared is not None:
        owners = [name for name, key in zip(names, used, strict=True) if key == shared]
        raise InputError(
            f"One prediction would go to {len(owners)} recordings: {_some(owners)}.",
            where=f"{predictions.path}, {shared!r}",
            hint="Recordings, and parts of one, need names that differ by more than the audio file's extension.",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:80]) for name in names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")
