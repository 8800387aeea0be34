"""Readers of AudioMNIST and FSDD, corpora of spoken digits whose file names hold the transcripts.

Their metadata were typed by hand: impossible ages and two spellings of one accent are corrected and counted.
FSDD's stand in a Python file, of which only the literal is read; nothing in it runs.
"""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from probes.core.errors import InputError
from probes.files.json_values import cell_text, parse_json
from probes.files.levels import Note
from probes.files.tables import Row, Table
from probes.speech.corpora.layout import Corpus, Layout, make_table, require_folder, skipped, subfolder, unify
from probes.speech.manifests import ColumnMap

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NAME = re.compile(r"(?P<digit>\d)_(?P<speaker>[^_]+)_(?P<take>\d+)", re.ASCII)
_OLDEST = 120
_COLUMNS = ColumnMap(path="path", text="text", speaker="speaker")

People = Mapping[str, Mapping[str, str | None]]


def read_audiomnist(path: Path, audio_root: Path | None) -> Layout:
    """Read AudioMNIST: `data/<speaker>/<digit>_<speaker>_<take>.wav` and `data/audioMNIST_meta.txt`."""
    corpus = Corpus(require_folder(path, "the folder of the corpus"))
    home = corpus.check(subfolder(corpus.folder, "data"))
    file = home / "audioMNIST_meta.txt"
    content = parse_json(corpus.text(file), str(file))
    people = _people(content, file)
    sounds = [item for item in sorted((audio_root or home).glob("*/*")) if item.suffix.lower() in (".wav", ".flac")]
    rows, left_out = _rows(sounds, audio_root or home, people, file)
    table = make_table(file, rows, [file], "none is called <digit>_<speaker>_<take>.wav")
    table, ages = _correct_ages(table)
    table, accents = _unify_case(table, "accent")
    notes = (*ages, *accents, *skipped(left_out, "files with other names"))
    return Layout(table=table, columns=_COLUMNS, root=audio_root or home, notes=notes)


def read_fsdd(path: Path, audio_root: Path | None) -> Layout:
    """Read the Free Spoken Digit Dataset: `recordings/<digit>_<speaker>_<take>.wav` and `metadata.py`.

    The column `split` follows its own rule: takes 0 to 4 are the test set.
    """
    folder = require_folder(path, "the folder of the corpus")
    corpus = Corpus(folder)
    root = audio_root or corpus.check(subfolder(folder, "recordings"))
    file = folder / "metadata.py"
    people = _people(_literal(corpus, file), file) if file.is_file() else {}
    sounds = [item for item in sorted(root.glob("*")) if item.suffix.lower() in (".wav", ".flac")]
    rows, left_out = _rows(sounds, root, people, file if file.is_file() else folder)
    rows = [
        Row(row.line, {**row.values, "split": "test" if int(row.values["take"] or 0) < 5 else "train"}, row.source)
        for row in rows
    ]
    sources = [file] if file.is_file() else []
    table = make_table(folder, rows, sources, "none is called <digit>_<speaker>_<take>.wav")
    return Layout(table=table, columns=_COLUMNS, root=root, notes=tuple(skipped(left_out, "files with other names")))


def _rows(sounds: list[Path], root: Path, people: People, source: Path) -> tuple[list[Row], int]:
    named = sorted({name for values in people.values() for name in values})
    rows: list[Row] = []
    for sound in sounds:
        match = _NAME.fullmatch(sound.stem)
        if match is None:
            continue
        person = people.get(match["speaker"], {})
        values: dict[str, str | None] = {"path": sound.relative_to(root).as_posix(), "text": WORDS[int(match["digit"])]}
        values |= {name: match[name] for name in ("speaker", "digit", "take")}
        rows.append(Row(len(rows) + 1, {**values, **{name: person.get(name) for name in named}}, source))
    return rows, len(sounds) - len(rows)


def _people(content: object, file: Path) -> People:
    if not isinstance(content, dict) or not all(isinstance(person, dict) for person in content.values()):
        raise InputError(
            "The metadata are not an object of speakers.",
            where=str(file),
            hint='Fetch them again, or write {"speaker": {"gender": ...}, ...}.',
        )
    return {
        str(speaker): {str(name): cell_text(value, f"{file}, {speaker}, {name}") for name, value in person.items()}
        for speaker, person in content.items()
    }


def _literal(corpus: Corpus, file: Path) -> object:
    text = corpus.text(file)
    try:
        tree = ast.parse(text)
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
                return ast.literal_eval(statement.value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise InputError(
            f"The metadata are not a plain dictionary: {error}.",
            where=str(file),
            hint="Nothing in this file is run; it must assign one literal dictionary.",
        ) from None
    raise InputError(
        "The file assigns no dictionary.",
        where=str(file),
        hint="Fetch it again; it must assign one literal dictionary.",
    )


def _correct_ages(table: Table) -> tuple[Table, list[Note]]:
    absurd = {
        value: ""
        for row in table.rows
        if (value := (row.values.get("age") or "").strip()).isdecimal() and int(value[:9]) > _OLDEST
    }
    corrected, notes = unify(table, "age", absurd)
    if not notes:
        return table, []
    text = f"age: {', '.join(sorted(absurd))} cannot be an age in years and counts as unknown."
    return corrected, [Note("corpus.absurd-age", text, notes[0].count)]


def _unify_case(table: Table, column: str) -> tuple[Table, list[Note]]:
    """Unify values that differ only in case to the spelling that most recordings have."""
    if column not in table.columns:
        return table, []
    values = [(row.values[column] or "").strip() for row in table.rows]
    times = Counter(values)
    best: dict[str, str] = {}
    for value in sorted(times, key=lambda item: (-times[item], item)):
        best.setdefault(value.casefold(), value)
    return unify(table, column, {value: best[value.casefold()] for value in times if best[value.casefold()] != value})
