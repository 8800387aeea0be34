"""Readers of Kaldi data folders and of speechocean762, which is two of them.

`wav.scp` may hold commands instead of paths; those are refused, since reading them would run them.
"""

import re
from pathlib import Path

from probes.core.errors import InputError
from probes.files.foreign_paths import as_written_here
from probes.files.tables import Row
from probes.speech.corpora.layout import Corpus, Layout, make_table, require_folder
from probes.speech.manifests import ColumnMap

_GENDERS = {"m": "male", "f": "female", "M": "male", "F": "female"}
_NOT_ATTRIBUTES = {"spk2utt", "utt2spk", "utt2num_frames", "utt2dur"}
_ARCHIVE = re.compile(r"\.ark:\d+$")

Pairs = dict[str, tuple[int, str]]


def read_kaldi(path: Path, audio_root: Path | None) -> Layout:
    """Read a data folder: wav.scp, and where they are there text, utt2spk, segments, spk2gender, any spk2X, utt2X.

    Relative paths belong to the folder, or to the nearest folder above it in which the first one is found.
    """
    folder = require_folder(path, "the data folder that holds wav.scp")
    rows, sources = _read_folder(Corpus(folder), folder, {})
    first = next((name for row in rows if not Path(name := row.values["path"] or "").is_absolute()), None)
    homes = [folder, *folder.absolute().parents[:2]]
    home = next((home for home in homes if first and (home / as_written_here(first, str(home))).is_file()), folder)
    return Layout(
        table=make_table(folder / "wav.scp", rows, sources, "wav.scp lists none"),
        columns=_columns(folder),
        root=audio_root or home,
    )


def read_speechocean(path: Path, audio_root: Path | None) -> Layout:
    """Read speechocean762: its folders `train` and `test` (or one of them), paths relative to the corpus."""
    folder = require_folder(path, "the folder of the corpus")
    splits = [folder] if (folder / "wav.scp").is_file() else [folder / "train", folder / "test"]
    home = folder.absolute().parent if splits == [folder] else folder
    corpus = Corpus(folder)
    rows: list[Row] = []
    sources: list[Path] = []
    for split in splits:
        if split.is_dir():
            found, files = _read_folder(corpus, split, {"split": split.absolute().name})
            rows += found
            sources += files
    return Layout(
        table=make_table(folder, rows, sources, "neither train/wav.scp nor test/wav.scp"),
        columns=ColumnMap(path="path", text="text", speaker="speaker"),
        root=audio_root or home,
    )


def _columns(folder: Path) -> ColumnMap:
    there = {"text": (folder / "text").is_file(), "speaker": (folder / "utt2spk").is_file()}
    parts = (folder / "segments").is_file()
    return ColumnMap(
        path="path",
        text="text" if there["text"] else None,
        speaker="speaker" if there["speaker"] else None,
        start="start" if parts else None,
        end="end" if parts else None,
    )


def _read_folder(corpus: Corpus, folder: Path, fixed: dict[str, str]) -> tuple[list[Row], list[Path]]:
    scp = folder / "wav.scp"
    if not scp.is_file():
        raise InputError("The folder has no wav.scp.", where=str(folder), hint="Give a Kaldi data folder.")
    recordings = _read_pairs(corpus, scp)
    for line, entry in recordings.values():
        _check_entry(entry, f"{scp}:{line}")
    optional = {name: folder / name for name in ("text", "utt2spk", "segments") if (folder / name).is_file()}
    tables = {name: _read_pairs(corpus, file) for name, file in optional.items()}
    attributes = {
        file.name: _read_pairs(corpus, file)
        for pattern in ("spk2*", "utt2*")
        for file in sorted(folder.glob(pattern))
        if file.name not in _NOT_ATTRIBUTES and file.is_file()
    }
    rows = []
    for utterance, (line, content) in (tables.get("segments") or recordings).items():
        where = f"{optional.get('segments', scp)}:{line}"
        values: dict[str, str | None] = {"path": content}
        if "segments" in tables:
            values = _segment(content, recordings, where)
        for column, name in (("text", "text"), ("speaker", "utt2spk")):
            if name in tables:
                values[column] = tables[name].get(utterance, (0, None))[1]
        for name, pairs in attributes.items():
            key = utterance if name.startswith("utt2") else values.get("speaker") or ""
            value = pairs.get(key, (0, None))[1]
            column = name[4:]
            values[column] = _GENDERS.get(value or "", value) if column == "gender" else value
        rows.append(Row(line, {"utterance": utterance, **values, **fixed}, optional.get("segments", scp)))
    return rows, [scp, *optional.values(), *(folder / name for name in attributes)]


def _segment(content: str, recordings: Pairs, where: str) -> dict[str, str | None]:
    parts = content.split()
    if len(parts) < 3 or parts[0] not in recordings:
        raise InputError(
            f"The segment {content!r} is not: recording of wav.scp, start, end.", where=where, hint="In seconds."
        )
    return {"path": recordings[parts[0]][1], "start": parts[1], "end": parts[2]}


def _check_entry(value: str, where: str) -> None:
    if value.endswith("|") or value.startswith("|"):
        raise InputError(
            f"The entry is a command ({value[:60]}), not a path.",
            where=where,
            hint="Commands are never run here. Write the recordings to files and list those.",
        )
    if _ARCHIVE.search(value):
        raise InputError(
            f"The entry points into a Kaldi archive ({value[:60]}).", where=where, hint="Write WAV or FLAC files."
        )


def _read_pairs(corpus: Corpus, path: Path) -> Pairs:
    pairs: Pairs = {}
    for line, content in enumerate(corpus.text(path).split("\n"), start=1):
        if not content.strip():
            continue
        key, *rest = content.strip().split(maxsplit=1)
        if key in pairs:
            raise InputError(
                f"The key {key!r} stands twice: before on line {pairs[key][0]}.",
                where=f"{path}:{line}",
                hint="Keep one.",
            )
        if not rest and path.name != "text":
            raise InputError(
                f"The key {key!r} has no value.",
                where=f"{path}:{line}",
                hint="Write its value behind it, or drop the line.",
            )
        pairs[key] = (line, rest[0] if rest else "")
    return pairs
