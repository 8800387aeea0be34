"""Manifests: the clips of an audit, with speaker, transcript and groups of each.

Whatever a user hands over (a table, a folder with one, a corpus in its own layout) becomes one `Manifest` of `Clip`s.
Files are not opened here, but a relative path must stay below its folder: no manifest reaches other files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from probes.core.errors import InputError
from probes.core.hashing import sha256_files
from probes.files.levels import Levels, clean, is_unknown, level_words, read_value_map
from probes.files.levels import Note as Note
from probes.files.safe_paths import RootedPaths
from probes.files.table_rows import cells_of
from probes.files.tables import Row, Table, check_flat
from probes.speech.clip_columns import clips_of
from probes.speech.clip_paths import locate
from probes.speech.clips import Clip as Clip
from probes.speech.clips import Clips as Clips
from probes.speech.known_layouts import advice_on_table, with_advice
from probes.speech.manifest_folders import open_manifest, root_of
from probes.speech.segments import SegmentColumns, find_segment_columns

ROLES: Mapping[str, tuple[str, ...]] = {
    "path": ("path", "audio_filepath", "audio", "file_name"),
    "text": ("text", "sentence", "transcription", "transcript"),
    "speaker": ("speaker", "client_id", "speaker_id", "user_id"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """Names of the columns by role; None: the usual names are tried (`ROLES`).

    `start` and `end` are seconds, for clips that are parts of a longer recording; they have no usual names.
    """

    path: str | None = None
    text: str | None = None
    speaker: str | None = None
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All clips, and notes on how their values were read.

    Parameters
    ----------
    read_as
        What each column that is used was read as, in words.
    advice
        Which preset knows the layout, where one was recognised and not asked for.
    form
        How the table was read where that is unusual, in sentences.
    nested
        Where a column first holds a list or an object; see `probes.files.tables.check_flat`.
    """

    path: Path
    sha256: str
    clips: Sequence[Clip]
    by: tuple[str, ...]
    columns: tuple[str, ...]
    notes: tuple[Note, ...]
    read_as: Mapping[str, str] = field(default_factory=dict)
    advice: str = ""
    form: tuple[str, ...] = ()
    nested: Mapping[str, str] = field(default_factory=dict)

    def check_flat(self, name: str) -> None:
        """Refuse a column that holds a list or an object."""
        check_flat([name], self.nested)

    def preview(self, without: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the lines of `--dry-run` on the columns, except those of `without`."""
        left_out = set(without)
        words = [f"{name}: {what}" for name, what in self.read_as.items() if name not in left_out]
        return (f"Columns are read as: {'; '.join(words)}.", *self.form, *([self.advice] if self.advice else []))


def read_manifest(
    path: Path,
    *,
    columns: ColumnMap,
    by: Sequence[str],
    values: Path | None,
    bins: Mapping[str, Sequence[float]],
    audio_root: Path | None = None,
    needs: frozenset[str],
    decimal: str | None = None,
) -> Manifest:
    """Read a manifest: CSV, TSV, JSON lines (NeMo's too), a JSON list of objects, Parquet, Arrow, or a folder of one.

    Parameters
    ----------
    columns
        Names that the user gave; they win over the usual ones.
    by
        Columns whose values are the groups.
    values
        Value map (see `probes.files.levels.read_value_map`).
    bins
        Lower ends of the bins of a numeric column.
    audio_root
        Folder of relative paths; default the folder of the manifest.
    needs
        What the audit cannot do without: any of path, text, speaker.
    decimal
        The decimal mark of numbers, where the user names it.

    Raises
    ------
    InputError
        Where a column is missing or ambiguous, a row cannot be read, or a path is listed twice.
    """
    table = open_manifest(path, decimal)
    return assemble(
        table,
        columns=columns,
        by=by,
        values=values,
        bins=bins,
        audio_root=audio_root or root_of(path),
        needs=needs,
        advice=advice_on_table(path, table.columns),
    )


def assemble(
    table: Table,
    *,
    columns: ColumnMap,
    by: Sequence[str],
    values: Path | None,
    bins: Mapping[str, Sequence[float]],
    audio_root: Path,
    needs: frozenset[str],
    notes: Iterable[Note] = (),
    opened: bool = True,
    advice: str = "",
) -> Manifest:
    """Make the manifest of a table; `notes` of its reader go before those made here.

    Where recordings are never `opened`, a path is a name like any other: it need not lead to a file below the root.
    `advice` is added to every refusal.
    """
    paths = RootedPaths(audio_root) if opened else None
    with with_advice(advice):
        manifest = _assemble(table, columns, by, values, bins, paths, needs, notes)
    return replace(manifest, advice=advice)


def _assemble(
    table: Table,
    columns: ColumnMap,
    by: Sequence[str],
    values: Path | None,
    bins: Mapping[str, Sequence[float]],
    paths: RootedPaths | None,
    needs: frozenset[str],
    notes: Iterable[Note],
) -> Manifest:
    by = tuple(dict.fromkeys(by))
    chosen = {
        role: find_column(table, role, getattr(columns, role), usual=usual, needed=role in needs)
        for role, usual in ROLES.items()
    }
    table.check_flat([*filter(None, chosen.values()), *by, "utterance"])
    segment = find_segment_columns(table, columns.start, columns.end, chosen["path"])
    if segment:
        table = table.with_points(segment.names)
    levels = level_rules(table, by, values, bins)
    for name, rule in levels.items():
        rule.look(cells_of(table.rows, name))
    used = {name for name in chosen.values() if name} | {name for name in by if name not in bins}
    if paths is None and segment is None:
        clips: Sequence[Clip] = clips_of(table, chosen, levels, used, needs)
    else:
        clips = _clips(table, _Reading(chosen, segment, levels, paths, used, needs))
    dialect = [Note("manifest.dialect", text, len(table.rows)) for text in table.notes]
    found = [*notes, *dialect, *(note for column in levels.values() for note in column.notes())]
    found += _speaker_notes(clips, chosen["speaker"], table, "speaker" in needs)
    return Manifest(
        path=table.path,
        sha256=sha256_files(table.sources),
        clips=clips,
        by=by,
        columns=table.columns,
        notes=tuple(found),
        read_as=_read_as(clips, chosen, segment, levels),
        form=table.notes,
        nested=table.nested,
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """How rows become clips: column of each role, of parts and of groups; roots of paths; columns in use or needed."""

    chosen: Mapping[str, str | None]
    segment: SegmentColumns | None
    levels: Mapping[str, Levels]
    paths: RootedPaths | None
    used: set[str]
    needs: frozenset[str]


def _clips(table: Table, how: _Reading) -> tuple[Clip, ...]:
    clips: list[Clip] = []
    seen: dict[tuple[Path, float | None, float | None], Clip] = {}
    for row in table.rows:
        clip = _clip(row, table, how)
        key = (clip.path, clip.start, clip.end)
        if how.chosen["path"] and clip.fault is None and seen.setdefault(key, clip) is not clip:
            raise InputError(
                f"The recording is listed twice: before on line {seen[key].line} of {seen[key].source.name}.",
                where=clip.where,
                hint="Keep one of the two rows; parts of one recording need a start and an end.",
            )
        clips.append(clip)
    return tuple(clips)


def _read_as(
    clips: Sequence[Clip],
    chosen: Mapping[str, str | None],
    segment: SegmentColumns | None,
    levels: Mapping[str, Levels],
) -> dict[str, str]:
    """Describe in words what each column in use was read as."""
    people, present = _present(clips, levels)
    words = {"path": "the recording", "text": "the transcript", "speaker": f"the speaker, {people:,} of them"}
    found = {column: words[role] for role, column in chosen.items() if column is not None}
    if segment:
        end = "length" if segment.is_length else "end"
        found |= {segment.start: "the start in seconds", segment.end: f"the {end} in seconds"}
    return found | {name: level_words(rule, present[name]) for name, rule in levels.items()}


def _present(clips: Sequence[Clip], names: Iterable[str]) -> tuple[int, dict[str, set[str]]]:
    """Return the number of speakers, and the levels of each attribute that some clip has."""
    if isinstance(clips, Clips):
        levels = {name: {str(level) for level in clips.each_level(name).present()} for name in names}
        return len(clips.each_speaker().present() - {None}), levels
    levels = {name: {clip.attributes[name] for clip in clips} for name in names}
    return len({clip.speaker for clip in clips} - {None}), levels


def find_column(table: Table, role: str, name: str | None, *, usual: Sequence[str], needed: bool) -> str | None:
    """Find the column of a role: the one that the user named, or the only one with a usual name.

    Raises
    ------
    InputError
        Where it is not there, several have a usual name, or none has and one is needed.
    """
    option = f"--{role}-col"
    if name is not None:
        if name not in table.columns:
            hint = table.suggest(name)
            raise InputError(f"There is no column {name!r}.", where=f"{table.path}, {option}", hint=hint)
        return name
    found = [column for column in table.columns if column.casefold() in usual]
    if len(found) > 1:
        raise InputError(
            f"Several columns may hold the {role}: {', '.join(found)}.",
            where=str(table.path),
            hint=f"Choose one with {option}.",
        )
    if not found and needed:
        raise InputError(
            f"There is no column for the {role} (usual names: {', '.join(usual)}).",
            where=str(table.path),
            hint=f"Name it with {option}. {table.suggest(role)}",
        )
    return found[0] if found else None


def level_rules(
    table: Table, by: Sequence[str], values: Path | None, bins: Mapping[str, Sequence[float]]
) -> dict[str, Levels]:
    """Return the rule that turns values into levels, for each column of groups.

    Raises
    ------
    InputError
        Where a column is not there, has bins without being asked for, or a name that no group can carry, or numbers of
        which it is unclear whether their commas are decimal ones.
    """
    mapping = read_value_map(values) if values is not None else {}
    for names, option in ((by, "--by"), (mapping, "--values"), (bins, "--bin")):
        for name in names:
            if name not in table.columns:
                raise InputError(
                    f"There is no column {name!r}.", where=f"{table.path}, {option}", hint=table.suggest(name)
                )
    stray = next((name for name in bins if name not in by), None)
    if stray is not None:
        raise InputError(f"The column {stray!r} has bins but is not audited.", where="--bin", hint=f"Add --by {stray}.")
    reserved = next((name for name in by if "&" in name or "=" in name), None)
    if reserved is not None:
        raise InputError(
            f"The column name {reserved!r} holds & or =, which separate the parts of a group's name.",
            where=f"{table.path}, --by",
            hint="Rename the column.",
        )
    # Only to refuse what is unclear, by its line: the levels themselves read decimal commas, and count them.
    table.with_points([name for name in bins if name not in mapping])
    return {name: Levels(name, mapping.get(name, {}), tuple(bins.get(name, ())), table.decimal) for name in by}


def _clip(row: Row, table: Table, how: _Reading) -> Clip:
    chosen = how.chosen
    source = row.source or table.path
    where = f"{source}:{row.line}"
    get = row.values.get
    text = get(chosen["text"]) if chosen["text"] else None
    if text is None and "text" in how.needs:
        raise InputError("The row has no text.", where=where, hint=f"Fill in {chosen['text']!r}, or drop the row.")
    name = (get(chosen["path"]) or "").strip() if chosen["path"] else f"line {row.line}"
    speaker = clean(get(chosen["speaker"])) if chosen["speaker"] else ""
    start, end = how.segment.read(row, table, where) if how.segment else (None, None)
    column = chosen["path"]
    path, fault = locate(name, column, how.paths, where) if column else (table.path.absolute(), None)
    return Clip(
        path=path,
        name=name,
        line=row.line,
        source=source,
        text=text,
        speaker=None if is_unknown(speaker) else speaker,
        attributes={column: rule.level(get(column), where) for column, rule in how.levels.items()},
        extras={column: value for column, value in row.values.items() if column not in how.used and value is not None},
        start=start,
        end=end,
        fault=fault,
    )


def _speaker_notes(clips: Sequence[Clip], column: str | None, table: Table, needed: bool) -> list[Note]:
    missing = (
        clips.each_speaker().count(None) if isinstance(clips, Clips) else sum(clip.speaker is None for clip in clips)
    )
    if column is None or not missing:
        return []
    if needed and missing == len(clips):
        raise InputError(
            f"No row names its speaker: {column!r} is empty or unknown throughout.",
            where=str(table.path),
            hint="Name another column with --speaker-col.",
        )
    return [Note("manifest.no-speaker", f"{missing} clips name no speaker in {column!r}.", missing)]
