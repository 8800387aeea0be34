"""Reader of CORAAL, whose recordings are whole interviews, cut into utterances by its transcripts.

A clip is one line of a transcript that a speaker of the metadata says. Its text loses the marks of transcription;
lines with nothing but pauses and noises, and lines in which something is hidden or not understood, are left out
and counted, because no reference says what was spoken there.
"""

import re
from collections import Counter
from pathlib import Path

from probes.core.errors import InputError
from probes.files.tables import Row, Table
from probes.speech.corpora.layout import Corpus, Layout, make_table, require_folder, skipped
from probes.speech.manifests import ColumnMap

_PAUSE = re.compile(r"\(pause[^)]*\)", re.IGNORECASE)
_NOISE = re.compile(r"<[^<>]*>")
_HIDDEN = re.compile(r"/\s*(unintelligible|inaudible|\?+|rd-[^/]*)\s*/|\bRD-\w+", re.IGNORECASE)
_MARKS = str.maketrans("", "", "[]/")
_TRANSCRIPT = ("Spkr", "StTime", "Content", "EnTime")


def clean_content(content: str) -> str | None:
    """Return the spoken words of a transcript's line: empty without any, None where some are hidden.

    >>> clean_content("[Yeah] I was <laugh> (pause 0.31) /there/.")
    'Yeah I was there.'
    >>> clean_content("my name is /RD-NAME-2/") is None
    True
    """
    if _HIDDEN.search(content):
        return None
    plain = _NOISE.sub(" ", _PAUSE.sub(" ", content)).translate(_MARKS)
    return " ".join(plain.split()) if re.search(r"\w", plain) else ""


def read_coraal(path: Path, audio_root: Path | None) -> Layout:
    """Read CORAAL, or one of its components: `*_metadata_*.txt`, transcripts `<file>.txt`, recordings `<file>.wav`."""
    folder = require_folder(path, "the folder that holds metadata and transcripts")
    corpus = Corpus(folder)
    metadata = sorted(file for file in folder.rglob("*.txt") if "metadata" in file.name.lower())
    if not metadata:
        raise InputError("There is no *_metadata_*.txt.", where=str(folder), hint="It comes with every component.")
    transcripts = {file.stem: file for file in sorted(folder.rglob("*.txt")) if file not in metadata}
    root = audio_root or folder
    sounds = {file.stem: file.relative_to(root).as_posix() for file in sorted(root.rglob("*.wav"))}
    people = _people([corpus.table(file) for file in metadata])
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for name in dict.fromkeys(file for file, _ in people):
        if name not in transcripts:
            left_out["files of the metadata without a transcript"] += 1
            continue
        sound = sounds.get(name, f"{name}.wav")
        rows += _utterances(corpus.table(transcripts[name]), name, sound, people, left_out)
    sources = [*metadata, *dict.fromkeys(row.source for row in rows if row.source)]
    return Layout(
        table=make_table(folder, rows, sources, "no transcript belongs to the metadata"),
        columns=ColumnMap(path="path", text="text", speaker="CORAAL.Spkr", start="start", end="end"),
        root=root,
        notes=tuple(note for what, count in sorted(left_out.items()) for note in skipped(count, what)),
    )


def _people(tables: list[Table]) -> dict[tuple[str, str], dict[str, str | None]]:
    people = {}
    for table in tables:
        for name in ("CORAAL.Spkr", "CORAAL.File"):
            if name not in table.columns:
                raise InputError(
                    f"The metadata have no column {name!r}.",
                    where=str(table.path),
                    hint="Fetch the metadata of CORAAL again.",
                )
        for row in table.rows:
            key = ((row.values["CORAAL.File"] or "").strip(), (row.values["CORAAL.Spkr"] or "").strip())
            people[key] = dict(row.values)
    return people


def _utterances(
    table: Table, name: str, sound: str, people: dict[tuple[str, str], dict[str, str | None]], left_out: Counter[str]
) -> list[Row]:
    missing = next((column for column in _TRANSCRIPT if column not in table.columns), None)
    if missing is not None:
        raise InputError(
            f"The transcript has no column {missing!r}.",
            where=str(table.path),
            hint=f"Fetch it again; a transcript has {', '.join(_TRANSCRIPT)}.",
        )
    rows = []
    for row in table.rows:
        speaker, start, content, end = ((row.values[column] or "").strip() for column in _TRANSCRIPT)
        person = people.get((name, speaker))
        text = clean_content(content)
        if person is None:
            left_out["lines of speakers who are not in the metadata (interviewers)"] += 1
        elif text is None:
            left_out["lines with hidden or unintelligible words"] += 1
        elif not text:
            left_out["lines without words"] += 1
        else:
            rows.append(Row(row.line, {"path": sound, "text": text, "start": start, "end": end, **person}, table.path))
    return rows
