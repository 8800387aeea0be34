"""The phones of each clip with their times, from alignments of MFA, Kaldi, TIMIT, WebMAUS, Praat or a table.

An alignment is matched to its clip by name; its times are checked against the length of the recording, its labels
brought to one set of names, and its pauses left out. Nothing is dropped without a note.
"""

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from probes.core.errors import InputError
from probes.core.hashing import sha256_folder
from probes.files.levels import Note, clean
from probes.files.names import nearest_name
from probes.speech.alignment_files import FORMS, find_files, read_ctm, read_intervals, read_tables
from probes.speech.manifests import Clip
from probes.speech.phone_names import PhoneNames, phone_names
from probes.speech.phones import PhoneInterval
from probes.speech.textgrids import Mark, Tier

_SOUNDS = ".wav .flac .mp3 .ogg .opus .oga .sph .nist .m4a .mp4 .aac .aif .aiff .aifc .au .caf .webm .wma .w64"
_OVERLAP = 0.001
_BEYOND = 0.05
_ROUNDING = 1e-6
_DECIMALS = 9
_LONGEST_LABEL = 60
_POSITION = re.compile(r"(.+)_[BIES]")
_NOTES = {
    "unread": "entries of the folder were not read: links out of it, or names not in UTF-8",
    "unmatched": "alignments belong to no clip",
    "without": "clips have no alignment",
    "merged": "alignments have a tier of phones for each speaker, and these were merged",
    "zero-length": "intervals of no length were dropped",
    "cut": "phones reach over an end of the part of a recording that is a clip, and were dropped",
    "positions": "labels lost the mark of Kaldi for the position in a word",
    "stress": "vowels lost the digit of their stress",
    "mapped": "labels were renamed by the phone map",
    "map-unused": "entries of the phone map met no label",
    "numbers": "phones are numbers: Kaldi's own, if its symbols were not looked up, and then pauses count as phones",
}
"""Text of each note, after the number that it counts."""

Log = defaultdict[str, Counter[str]]
"""Counts by event, then by the name of the file, clip or label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedClip:
    """Phones of a clip in time order, and the number of intervals of its `file` left out as pauses."""

    phones: tuple[PhoneInterval, ...]
    pauses: int
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignments:
    """Alignment of each clip (None: it has none), the files used, their hash, and notes on changes."""

    clips: tuple[AlignedClip | None, ...]
    files: tuple[Path, ...]
    sha256: str
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """An alignment that may belong to a clip: a file, not read yet, or one utterance of a file of many."""

    key: str
    name: str
    file: Path
    tiers: Sequence[Tier] | None


def read_alignments(
    path: Path,
    clips: Sequence[Clip],
    *,
    rates: Sequence[int],
    seconds: Sequence[float],
    tier: str | None = None,
    phone_map: Path | None = None,
    keep_stress: bool = False,
) -> Alignments:
    """Read the alignment of every clip from a folder, or from one CTM, CSV or TSV file.

    An alignment belongs to the clip with the same path without suffix, else to the one whose path ends in its own,
    else to the only one with its stem. One that is named after a recording counts from its start, also for the parts
    of it that are clips; one that is named after the utterance of such a part counts from the start of the part.

    Parameters
    ----------
    rates, seconds
        Rate in Hz (TIMIT counts samples) and length of the whole recording of each clip.
    tier
        The tier of phones, where its name is none of the usual ones.
    phone_map
        CSV with the columns from and to; a phone that becomes an empty text is left out as a pause.
    keep_stress
        Keep the digits of ARPAbet vowels (`AH0`).

    Raises
    ------
    InputError
        Where no clip has an alignment, one has several, or a file is broken or does not fit its recording.
    """
    log: Log = defaultdict(Counter)
    names = phone_names(phone_map, keep_stress=keep_stress)
    sources = _sources(path, {PurePosixPath(_key(clip.name)).name for clip in clips}, tier, log)
    owners = _match(sources, clips)
    if not owners:
        hint = "Give the clips that it is of."
        if clips:
            hint = f"A clip is called {clips[0].name!r}, an alignment {sources[0].name!r}."
        raise InputError("No clip has an alignment here: no names agree.", where=str(path), hint=hint)
    aligned: list[AlignedClip | None] = [None] * len(clips)
    for source, indices in owners.items():
        first = indices[0]
        own = _is_of_part(source, clips[first])
        length = (clips[first].end or 0.0) - (clips[first].start or 0.0) if own else seconds[first]
        tiers = source.tiers or read_intervals(source.file, tier, rates[first])
        marks = _marks(source, tiers, length, names, log)
        for index in indices:
            inside = marks if own else _part(marks, clips[index], names, log)
            aligned[index] = _aligned_clip(inside, source.file, names, log)
    log["unmatched"].update(source.name for source in sources if source not in owners)
    log["without"].update(clip.name for clip, found in zip(clips, aligned, strict=True) if found is None)
    log["map-unused"].update(sorted(names.unused))
    files = tuple(sorted({source.file for source in owners}))
    return Alignments(clips=tuple(aligned), files=files, sha256=sha256_folder(files), notes=_notes(log))


def _sources(path: Path, stems: set[str], tier: str | None, log: Log) -> list[_Source]:
    found: list[_Source] = []
    for file, name in _files(path, log).items():
        key = _key(name[: -len(file.suffix)])
        groups: Mapping[str, Sequence[Tier] | None] = {"": None}
        if file.suffix.lower() == ".ctm":
            groups = read_ctm(file, tier)
        elif file.suffix.lower() in (".csv", ".tsv") and not path.is_dir():
            groups = read_tables(file, tier)
        if len(groups) == 1 and ("" in groups or PurePosixPath(key).name in stems):
            found.append(_Source(key, name, file, *groups.values()))
        else:
            found += [_Source(_key(one), f"{one} of {name}", file, tiers) for one, tiers in groups.items()]
    return found


def _files(path: Path, log: Log) -> dict[Path, str]:
    """Return the alignment files of a folder, or the single file, each with its name."""
    if not path.exists():
        near = nearest_name(path)
        hint = f"Did you mean {near}?" if near else "Check the path."
        raise InputError("There is no such file or folder.", where=str(path), hint=hint)
    if path.is_dir():
        files, unread = find_files(path)
        log["unread"].update(unread)
        found, message = {file: file.relative_to(path).as_posix() for file in files}, "The folder holds no alignment."
    else:
        found = {path: path.name} if path.suffix.lower() in FORMS else {}
        message = f"The suffix {path.suffix!r} is that of no alignment."
    if not found:
        raise InputError(message, where=str(path), hint=f"Names of alignments end in {', '.join(FORMS)}.")
    return found


def _key(name: str) -> str:
    """Return the name of a clip or an alignment without suffixes of sound files and leading slashes.

    Those of Windows have backslashes.

    >>> _key("./TRAIN/SA1.WAV.wav"), _key("/data/a.b.flac"), _key("spk1-rec.2")
    ('TRAIN/SA1', 'data/a.b', 'spk1-rec.2')
    """
    key = PurePosixPath(posixpath.normpath(name.strip().replace("\\", "/")).lstrip("/"))
    while key.suffix and key.suffix.lower() in _SOUNDS.split():
        key = key.with_suffix("")
    return key.as_posix()


def _utterance(clip: Clip) -> str:
    name = clip.extras.get("utterance", "").strip()
    return _key(name) if name else ""


def _is_of_part(source: _Source, clip: Clip) -> bool:
    """Tell whether an alignment is named after the clip's own part of a recording, not after the whole recording."""
    return clip.start is not None and source.key == _utterance(clip) != PurePosixPath(_key(clip.name)).name


def _match(sources: Sequence[_Source], clips: Sequence[Clip]) -> dict[_Source, list[int]]:
    """Match alignments to clips; return each matched one with the indices of its clips (parts of one recording)."""
    exact, stems = defaultdict[str, list[_Source]](list), defaultdict[str, list[_Source]](list)
    for source in sources:
        exact[source.key].append(source)
        stems[PurePosixPath(source.key).name].append(source)
    owners, claims = defaultdict[_Source, list[int]](list), defaultdict[_Source, list[tuple[int, int]]](list)
    left: list[int] = []
    for index, clip in enumerate(clips):
        same = exact.get(_utterance(clip)) or exact.get(_key(clip.name))
        (owners[_only(same, clip)] if same else left).append(index)
    taken = set(owners)
    for index in left:
        key = PurePosixPath(_key(clips[index].name))
        alike = [(_shared(key, PurePosixPath(one.key)), one) for one in stems.get(key.name, ()) if one not in taken]
        best = max((depth for depth, _ in alike), default=0)
        if alike:
            claims[_only([one for depth, one in alike if depth == best], clips[index])].append((best, index))
    for source, claimed in claims.items():
        best = max(depth for depth, _ in claimed)
        owners[source] = [index for depth, index in claimed if depth == best]
    for source, indices in owners.items():
        names = {clips[index].path: clips[index].name for index in indices}
        if len(names) > 1:
            message = f"The alignment {source.name} may belong to several clips: {_examples(names.values())}."
            raise InputError(message, where=str(source.file), hint="Give every clip an alignment with its own path.")
    return owners


def _shared(one: PurePosixPath, other: PurePosixPath) -> int:
    """Return the length of the shorter path where the longer one ends in it, else 1 (only the stems agree)."""
    depth = min(len(one.parts), len(other.parts))
    return depth if one.parts[-depth:] == other.parts[-depth:] else 1


def _only(found: Sequence[_Source], clip: Clip) -> _Source:
    if len(found) > 1:
        message = f"Several alignments may belong to this clip: {_examples([one.name for one in found])}."
        hint = f"Keep one of them, or give it the path of its clip: {_key(clip.name)}{found[0].file.suffix}."
        raise InputError(message, where=clip.where, hint=hint)
    return found[0]


def _marks(source: _Source, tiers: Sequence[Tier], seconds: float, names: PhoneNames, log: Log) -> list[Mark]:
    """Check the intervals of an alignment and merge those of all its speakers in time order."""
    found: list[Mark] = []
    for tier in tiers:
        for mark in tier.marks:
            _check(mark, seconds, source.file)
        kept = [mark for mark in tier.marks if mark.start < mark.end]
        log["zero-length"].update(mark.label for mark in tier.marks if mark.start == mark.end)
        _check_order(kept, source.file, "Sort the intervals by time, each up to the start of the next.")
        found += [_without_position(mark, log) for mark in kept] if source.file.suffix.lower() == ".ctm" else kept
    if len(tiers) > 1:
        log["merged"][source.name] += 1
        found.sort(key=lambda mark: (mark.start, mark.end))
        # Pauses of one speaker overlap the phones of another, which is no error.
        spoken = [mark for mark in found if names.of(mark.label)[0]]
        _check_order(spoken, source.file, "Two speakers speak at once: choose one of them with --tier.")
    return found


def _without_position(mark: Mark, log: Log) -> Mark:
    position = _POSITION.fullmatch(mark.label)
    log["positions"][mark.label] += position is not None
    return mark._replace(label=position[1]) if position else mark


def _check(mark: Mark, seconds: float, file: Path) -> None:
    if 0 <= mark.start <= mark.end <= seconds + _BEYOND and len(mark.label) <= _LONGEST_LABEL:
        return
    message = f"The interval from {mark.start:.10g} s to {mark.end:.10g} s"
    hint = "Times are seconds from the start of the recording, and the start comes first."
    if not (math.isfinite(mark.start) and math.isfinite(mark.end) and mark.start >= 0):
        message += " has a time that is negative or no number."
    elif mark.start > mark.end:
        message += " ends before it starts."
    elif mark.end > seconds + _BEYOND:
        message += f" ends after the recording, which has {seconds:.10g} s."
        hint = "Is this the alignment of another recording, or of a longer version of it?"
    else:
        message = f"The label {mark.label[:_LONGEST_LABEL]!r}... is too long for a phone."
        hint = "Choose the tier of phones with --tier."
    raise InputError(message, where=f"{file}:{mark.line}", hint=hint)


def _check_order(marks: Sequence[Mark], file: Path, hint: str) -> None:
    for one, other in pairwise(marks):
        if other.start < one.end - _OVERLAP - _ROUNDING:
            after = f"stands after one that starts at {one.start:.10g} s"
            what = after if other.start < one.start else f"overlaps the one that ends at {one.end:.10g} s"
            message = f"The interval from {other.start:.10g} s to {other.end:.10g} s {what}."
            raise InputError(message, where=f"{file}:{other.line}", hint=hint)


def _part(marks: Sequence[Mark], clip: Clip, names: PhoneNames, log: Log) -> list[Mark]:
    """Return the intervals wholly inside the clip's part of the recording, in seconds from its start."""
    if clip.start is None or clip.end is None:
        return list(marks)
    inside = []
    for mark in marks:
        if mark.start >= clip.start - _ROUNDING and mark.end <= clip.end + _ROUNDING:
            start, end = (max(0.0, round(time - clip.start, _DECIMALS)) for time in (mark.start, mark.end))
            inside.append(mark._replace(start=start, end=end))
        elif mark.start < clip.end - _ROUNDING and mark.end > clip.start + _ROUNDING and names.of(mark.label)[0]:
            log["cut"][names.of(mark.label)[0]] += 1
    return inside


def _aligned_clip(marks: Sequence[Mark], file: Path, names: PhoneNames, log: Log) -> AlignedClip:
    phones = []
    for mark in marks:
        phone, done = names.of(mark.label)
        if phone:
            phones.append(PhoneInterval(phone, mark.start, mark.end))
        log[done][mark.label] += 1
        log["numbers"][phone] += phone.isdecimal()
    return AlignedClip(phones=tuple(phones), pauses=len(marks) - len(phones), file=file)


def _notes(log: Log) -> tuple[Note, ...]:
    totals = ((id, text, log[id], log[id].total()) for id, text in _NOTES.items())
    return tuple(
        Note(f"alignments.{id}", f"{n} {text} ({_examples(+names)}).", n) for id, text, names, n in totals if n
    )


def _examples(names: Iterable[str]) -> str:
    ordered = [name for name, _ in names.most_common(4)] if isinstance(names, Counter) else list(names)[:4]
    return ", ".join(clean(name[:60]) or "empty" for name in ordered[:3]) + (", ..." if len(ordered) > 3 else "")
