"""The columns of a manifest that hold speakers, counts and transcripts."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import combined
from audits.speaker_groups import Options
from probes.core.errors import InputError
from probes.files.cells import Coded
from probes.files.decimals import in_thousands, mark_hint, plain_float, with_point
from probes.files.gzips import plain_suffix
from probes.files.levels import clean, parse_bins
from probes.files.names import suggest
from probes.files.tables import Table
from probes.speech.clips import as_columns
from probes.speech.corpora import read_corpus
from probes.speech.known_layouts import advice_on_table, with_advice
from probes.speech.manifest_folders import open_manifest, root_of
from probes.speech.manifests import ROLES, Clip, Clips, ColumnMap, Manifest, assemble

NAMES = ("id", "utt_id", "utterance_id", "hash_name", "audio_id", "segment_filename", "utterance")
"""Columns that name a clip where there is no path."""
PARTS = {"substitutions": "substitution", "deletions": "deletion", "insertions": "insertion"}
PROFILES = "speaker profiles"
WORDS = "words"
_MARKS = {".": "point", ",": "comma"}
_DELIMITED = frozenset({".csv", ".tsv", ".txt"})
_CORRECT = (
    "Correct the counts of this clip: errors = substitutions + deletions + insertions, and no more substitutions and "
    "deletions than words."
)
ONE_SYSTEM = "prediction"
"""Name of the system whose transcripts or counts stand in the manifest."""
PREDICTION_COLUMNS = ("prediction", "pred_text", "hypothesis", "hyp")


def read_rows(options: Options) -> tuple[Manifest, tuple[str, ...]]:
    """Read the manifest, with its columns; recordings are never opened, so that paths are names only."""
    bins = parse_bins(options.bin)
    if options.preset is not None:
        manifest = read_corpus(
            options.preset,
            options.manifest,
            audio_root=None,
            by=options.by,
            values=options.values,
            bins=bins,
            needs=frozenset({"path", "text"}),
            opened=False,
        )
        return manifest, manifest.columns
    table = open_manifest(options.manifest, options.decimal, lean=True)
    advice = advice_on_table(options.manifest, table.columns)
    with with_advice(advice):
        needs = _needs(table, options)
    manifest = assemble(
        table,
        columns=ColumnMap(path=_name_column(table, options), text=options.text_col, speaker=options.speaker_col),
        by=options.by,
        values=options.values,
        bins=bins,
        audio_root=root_of(options.manifest),
        needs=needs,
        opened=False,
        advice=advice,
    )
    return manifest, table.columns


def _name_column(table: Table, options: Options) -> str | None:
    if options.path_col is not None or any(column.casefold() in ROLES["path"] for column in table.columns):
        return options.path_col
    return next((column for column in table.columns if column.casefold() in NAMES), None)


def _needs(table: Table, options: Options) -> frozenset[str]:
    if options.predictions:
        return frozenset({"path", "text"})
    errors = any(column == "errors" or column.startswith("errors_") for column in table.columns)
    texts = any(column.casefold() in ROLES["text"] for column in table.columns)
    if errors != (WORDS in table.columns) and not texts:
        there, missing = ("errors", WORDS) if errors else (WORDS, "errors")
        raise InputError(
            f"There is a column {there}, but no column {missing}: counts need both.",
            where=str(table.path),
            hint="Add it, or give texts and transcripts.",
        )
    return frozenset() if counted_systems(table.columns, options) else frozenset({"text"})


def counted_systems(columns: Sequence[str], options: Options) -> dict[str, dict[str, str]]:
    """Return the columns that count the errors of each system: errors and words, or errors_NAME and words.

    Their keys are those of `read_counts`. Empty where there are transcripts instead; those win, since they say more.
    """
    transcribed = options.prediction_col or any(name.casefold() in PREDICTION_COLUMNS for name in columns)
    if options.predictions or transcribed or WORDS not in columns:
        return {}
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        if column != "errors" and not column.startswith("errors_"):
            continue
        suffix = column.removeprefix("errors")
        own = {part: name + suffix for name, part in PARTS.items() if name + suffix in columns}
        if own and len(own) < len(PARTS):
            raise InputError(
                f"The column {column} has {', '.join(own.values())} beside it, but not all of "
                f"{', '.join(name + suffix for name in PARTS)}.",
                where=str(options.manifest),
                hint="Give all three or none.",
            )
        name = suffix.removeprefix("_") or ONE_SYSTEM
        if suffix == "_" or name in found:
            other = found[name]["errors"] if name in found else "errors"
            raise InputError(
                f"The columns {other} and {column} would count errors of one system, {name}.",
                where=str(options.manifest),
                hint="Name every system apart: errors_NAME.",
            )
        found[name] = {"errors": column, "words": WORDS, **own}
    return found


def read_counts(clips: Clips, columns: Mapping[str, str], decimal: str | None) -> dict[str, NDArray[np.float64]]:
    """Return the counts of one system by name: errors, words, and substitution, deletion, insertion where given.

    `columns` has the column of each; `decimal` is the mark that the user names.

    Raises
    ------
    InputError
        Where a count is no whole number, may be one of thousands or is negative, or the kinds do not add up to the
        errors.
    """
    clips = as_columns(clips)
    for column in columns.values():
        require_free(clips, column, "a count")
    rows = {name: _counts(clips, column, decimal) for name, column in columns.items()}
    parts = [name for name in columns if name not in ("errors", "words")]
    if parts:
        wrong = np.flatnonzero(sum(rows[name] for name in parts) != rows["errors"])
        if len(wrong):
            raise InputError(
                f"{', '.join(columns[name] for name in parts)} do not add up to {columns['errors']}.",
                where=clips[wrong[0]].where,
                hint=_CORRECT,
            )
        long = np.flatnonzero(rows["substitution"] + rows["deletion"] > rows["words"])
        if len(long):
            raise InputError(
                "More words are wrong or missing than there are.", where=clips[long[0]].where, hint=_CORRECT
            )
    return rows


def _counts(clips: Clips, column: str, decimal: str | None) -> NDArray[np.float64]:
    """Return the counts of a column; each distinct text is read once, where it comes first."""
    cells = Coded.of(clips.each_extra(column))
    first = np.full(len(cells.levels), len(clips))
    np.minimum.at(first, cells.codes, np.arange(len(clips)))
    numbers = [_count(clips[at], text, column, decimal) for text, at in zip(cells.levels, first.tolist(), strict=True)]
    return np.array(numbers, dtype=np.float64)[cells.codes]


def _count(clip: Clip, cell: str | None, column: str, decimal: str | None) -> float:
    text = (cell or "").strip()
    where = f"{clip.where}, column {column}"
    # Cells of other files have their types, and --decimal is refused.
    option = plain_suffix(clip.source) in _DELIMITED
    _check_mark(text, decimal, where, option)
    try:
        # A data frame writes whole numbers so where the comma is the decimal mark.
        number = plain_float(text.replace(",", ".") if decimal else text.removesuffix(",0"))
    except ValueError:
        number = math.nan
    if not (number >= 0 and number.is_integer() and number < 2**40):
        hint = "Counts are whole numbers from 0 up, without marks between thousands."
        if with_point(text).rstrip("0").endswith("."):
            hint = mark_hint(text, False, decimal, option=option) or hint
        raise InputError(f"{text!r} is no count." if text else "The count is missing.", where=where, hint=hint)
    return number


def _check_mark(text: str, decimal: str | None, where: str, option: bool) -> None:
    """Refuse a count with a decimal or thousands mark that is ambiguous."""
    marks = {mark for mark in _MARKS if mark in text}
    if decimal is not None and marks - {decimal}:
        message = f"{text[:60]!r} has a {_MARKS[(marks - {decimal}).pop()]}, and --decimal says that numbers have a "
        hint = "Write counts without marks between thousands."
        raise InputError(f"{message}decimal {_MARKS[decimal]}.", where=where, hint=hint)
    if decimal is None and len(marks) == 1 and in_thousands(text):
        mark = marks.pop()
        digits, fraction = text.replace(mark, ""), f"{float(text.replace(mark, '.')):g}"
        message = f"{text!r} may be {digits} or {fraction}: three digits follow its {_MARKS[mark]}."
        hint = f"Write counts as whole numbers, such as {digits}"
        hint += f", or say --decimal {mark} if that is the decimal mark." if option else "."
        raise InputError(message, where=where, hint=hint)


def speakers_of(clips: Clips, manifest: Manifest, options: Options) -> tuple[NDArray[np.int64], str]:
    """Return the speaker number of each clip, and the name of the unit.

    Where nobody is named, all clips with the same attributes count as one speaker: that is too few rather than too
    many, and intervals are too wide rather than too narrow.
    """
    speakers = clips.each_speaker()
    if speakers.present() - {None}:
        names: Sequence[object] = speakers.levels
        codes = speakers.codes.astype(np.int64)
        unit = PROFILES if any(note.id == "corpus.no-speakers" for note in manifest.notes) else "speakers"
    else:
        chosen = options.cluster_by or options.by
        missing = next((name for name in chosen if name not in manifest.columns), None)
        if missing is not None:
            raise InputError(
                f"There is no column {missing!r}.", where="--cluster-by", hint=suggest(missing, manifest.columns)
            )
        for name in chosen:
            if name not in options.by:
                require_free(clips, name, "part of a profile", option="--cluster-by")
                manifest.check_flat(name)
        names, codes = combined([_written(clips, name) for name in chosen])
        unit = PROFILES
    # Those of clips that are left out have no number.
    there = sorted(np.unique(codes).tolist(), key=lambda code: str(names[code]))
    number = np.zeros(len(names), dtype=np.int64)
    number[there] = np.arange(len(there))
    return number[codes], unit


def _written(clips: Clips, column: str) -> Coded:
    if column in clips.attributes:
        return clips.each_level(column)
    cells = Coded.of(clips.each_extra(column))
    once = Coded.of(clean(cell) for cell in cells.levels)
    return Coded(once.levels, once.codes[cells.codes])


def require_free(clips: Clips, column: str, purpose: str, *, option: str = "") -> None:
    """Refuse a column that is already used: compared, or read as path, text or speaker."""
    if all(cell is None for cell in clips.each_extra(column)):
        raise InputError(
            f"The column {column!r} is empty, or taken already (as attribute, path, text or speaker); it cannot be "
            f"{purpose} too.",
            where=option or f"column {column}",
            hint="Choose another column, or copy it under another name.",
        )


def prediction_column(manifest: Manifest, options: Options) -> str:
    """Return the column of the manifest in which transcripts stand."""
    if options.prediction_col is not None:
        if options.prediction_col not in manifest.columns:
            raise InputError(
                f"There is no column {options.prediction_col!r}.",
                where=f"{options.manifest}, --prediction-col",
                hint=f"There are: {', '.join(manifest.columns[:40])}.",
            )
        return options.prediction_col
    usual = [column for column in manifest.columns if column.casefold() in PREDICTION_COLUMNS]
    if len(usual) == 1:
        return usual[0]
    if usual:
        raise InputError(
            f"Several columns may hold the transcript: {', '.join(usual)}.",
            where=str(options.manifest),
            hint="Choose one with --prediction-col.",
        )
    raise InputError(
        "There is nothing to compare with the references: no transcripts and no counts.",
        where=str(options.manifest),
        hint="Give --predictions NAME=FILE, a column of transcripts (prediction, or --prediction-col), or columns "
        "errors and words.",
    )
