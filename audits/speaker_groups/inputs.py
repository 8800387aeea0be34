"""Everything that can be checked before anything is counted: the plan of the audit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context, Plan
from audits.core.groups import UNKNOWN, group_sets
from audits.core.options import check_distinct
from audits.core.records import Source
from audits.core.value_maps import value_map_sources
from audits.group_rates.normalising import rules_sources
from audits.speaker_groups import Options
from audits.speaker_groups.clips import Inputs, levels_of
from audits.speaker_groups.columns import (
    ONE_SYSTEM,
    counted_systems,
    prediction_column,
    read_counts,
    read_rows,
    require_free,
    speakers_of,
)
from audits.speaker_groups.controls import controls_of
from audits.speaker_groups.data_warnings import warnings_of
from audits.speaker_groups.prediction_matching import EXAMPLES, match
from audits.speaker_groups.predictions import Predictions, read_predictions
from audits.speaker_groups.preflight import columns_of, coordinates_of, preview_of
from audits.speaker_groups.references import NO_REFERENCE, chosen, has_words
from probes.core.errors import InputError
from probes.files.cells import Cells, Places
from probes.files.levels import Note
from probes.files.names import suggest
from probes.files.table_sources import reported_path
from probes.speech.bad_clips import BadClips
from probes.speech.clips import as_columns
from probes.speech.manifests import Clip, Clips, Manifest
from probes.speech.normalisers import read_normaliser

NO_SPEAKER = "no speaker"
MOST_LETTERS = 80
NO_PREDICTION = "no transcript by {}"


def check(options: Options, context: Context) -> Plan:
    """Check options, manifest and every system's transcripts; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    _check_options(options)
    named = _named(options.predictions)
    normaliser = read_normaliser(options.normalise)
    for name in (*options.by, *options.control):
        require_plain(name, "--by" if name in options.by else "--control")
    manifest, table = read_rows(options)
    _check_files(named, options)
    files = {name: read_predictions(path) for name, path in named.items()}
    counted = {} if files else counted_systems(table, options)
    for name in counted:
        require_plain(name, f"{options.manifest}, column errors_...")
    clips, skipped = _with_speakers(manifest, options)
    texts: _Texts
    if counted:
        texts, notes = {}, list[Note]()
    else:
        texts, notes = _texts(clips, files, manifest, options)
    clips, texts, more, empty = _transcribed(clips, texts, options)
    if not len(clips):
        why = ", ".join(sorted({why for _, why in [*skipped, *more]}))
        hint = "Mend the rows: each needs a text, a speaker and a transcript of every system."
        raise InputError(f"No clip can be used: {why}.", where=str(options.manifest), hint=hint)
    references: Sequence[str | None] = () if counted else normaliser.column(clips.each_text())
    words = has_words(clips, counted, options, references)
    _check_references(bool(words.any()), counted, options)
    kept = chosen(clips, words, options)
    more += [(clips[at], NO_REFERENCE) for at in np.setdiff1d(np.arange(len(clips)), kept).tolist()]
    clips, (references, *rows) = _only(clips, (references, *texts.values()), kept)
    texts = dict(zip(texts, rows, strict=True))
    _check_groups(clips, options)
    speakers, unit = speakers_of(clips, manifest, options)
    _check_reference_size(clips, speakers, unit, options)
    controls, more_notes = controls_of(clips, manifest, options)
    inputs = Inputs(
        manifest=manifest,
        clips=clips,
        skipped=(*skipped, *more),
        systems=tuple(counted or texts),
        texts=texts,
        references=references,
        counted={name: read_counts(clips, columns, options.decimal) for name, columns in counted.items()},
        speakers=speakers,
        unit=unit,
        controls=controls,
        sets=tuple(group_sets(levels_of(clips), options.by, max_order=options.max_order)),
        notes=(*manifest.notes, *notes, *more_notes),
        empty=empty,
        wordless=int((~words[kept]).sum()),
        read_as=_read_as(files, counted, manifest, options),
        normaliser=normaliser,
    )
    if options.faas and inputs.unit != "speakers":
        raise InputError("The FAAS needs speakers.", where="--faas", hint="Name their column with --speaker-col.")
    return Plan(
        inputs=inputs,
        subject=None,
        data=(
            _manifest_source(manifest, options),
            *(_source(name, named, files) for name in files),
            *value_map_sources(options.values),
            *rules_sources(normaliser),
        ),
        cost=_cost(inputs, options),
        coordinates=coordinates_of(inputs, options),
        preview=preview_of(inputs, options, context.level),
        warnings=tuple(warnings_of(inputs, options)),
    )


def _cost(inputs: Inputs, options: Options) -> tuple[tuple[str, str], ...]:
    return (
        ("clips", f"{len(inputs.clips):,} of {len(inputs.manifest.clips):,}"),
        ("systems", ", ".join(inputs.systems)),
        *((option, text) for option, texts in columns_of(inputs, options).items() for text in texts),
        ("groups", f"{sum(len(groups.names) for groups in inputs.sets):,}"),
        ("time", "seconds to a few minutes; no model is run"),
    )


def _read_as(
    files: Mapping[str, Predictions], counted: Mapping[str, Mapping[str, str]], manifest: Manifest, options: Options
) -> tuple[str, ...]:
    """Return sentences on the sources of each system's transcripts or counts."""
    if counted:
        pairs = ((name, tuple(columns.values())) for name, columns in counted.items())
        return tuple(f"{name}: counts are read from {', '.join(columns)}." for name, columns in pairs)
    if not files:
        return (f"{ONE_SYSTEM}: transcripts are read from {prediction_column(manifest, options)}.",)
    return tuple(f"{name}: {text}" for name, found in files.items() for text in found.read_as)


def _check_files(named: Mapping[str, Path], options: Options) -> None:
    for name, path in named.items():
        # Every word of it would be right: the audit would praise a system that it never met.
        if _same(path, options.manifest):
            raise InputError(
                f"The transcripts of {name} are the manifest itself, whose text is the reference.",
                where=f"--predictions {name}={path}",
                hint="Give the file that the recogniser wrote, or --prediction-col.",
            )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        # A file that cannot be looked at is refused where it is read.
        return False


def _manifest_source(manifest: Manifest, options: Options) -> Source:
    path = reported_path(options.manifest)
    return Source(role="manifest", path=path, sha256=manifest.sha256, items=len(manifest.clips))


def _source(name: str, named: Mapping[str, Path], files: Mapping[str, Predictions]) -> Source:
    found = files[name]
    return Source(
        role=f"transcripts of {name}", path=reported_path(named[name]), sha256=found.sha256, items=len(found.entries)
    )


def _check_options(options: Options) -> None:
    check_distinct((("--by", options.by), ("--control", options.control), ("--cluster-by", options.cluster_by)))
    both = sorted(set(options.by) & set(options.control))
    if both:
        raise InputError(
            f"The column {both[0]!r} is compared and held fixed at once.",
            where="--control",
            hint="Every attribute of --by is held fixed for the others anyway.",
        )


def _named(texts: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in texts:
        name, separator, file = text.partition("=")
        if not separator or not name.strip() or not file.strip():
            raise InputError(f"{text!r} is not NAME=FILE.", where="--predictions", hint="Such as --predictions a=a.tsv")
        require_plain(name.strip(), "--predictions")
        if name.strip() in found:
            raise InputError(
                f"The system {name.strip()!r} is named twice.",
                where="--predictions",
                hint="Give each file a name of its own, such as a=one.tsv b=two.tsv.",
            )
        found[name.strip()] = Path(file.strip())
    return found


def require_plain(name: str, where: str) -> None:
    """Refuse a name that is no plain line of text, since it stands in every table and figure."""
    if not name.isprintable() or len(name) > MOST_LETTERS:
        raise InputError(
            f"{name[:40]!r} is no name that a report can carry.",
            where=where,
            hint=f"Use at most {MOST_LETTERS} printable letters.",
        )


def _only(
    clips: Clips, columns: Sequence[Sequence[str | None]], kept: Places
) -> tuple[Clips, list[Sequence[str | None]]]:
    """Return some of the clips, with the same cells of columns."""
    if len(kept) == len(clips):
        return clips, list(columns)
    cells = (column if isinstance(column, Cells) else Cells(column) for column in columns)
    return clips.take(kept), [column.take(kept) if len(column) else column for column in cells]


def _with_speakers(manifest: Manifest, options: Options) -> tuple[Clips, list[tuple[Clip, str]]]:
    """Leave out clips without a speaker where others have one."""
    clips = as_columns(manifest.clips)
    speakers = clips.each_speaker()
    named = np.array([level is not None for level in speakers.levels], dtype=bool)[speakers.codes]
    known = bool(named.any())
    if known and options.cluster_by:
        raise InputError(
            "The manifest names speakers: nothing has to stand for them.",
            where="--cluster-by",
            hint="Leave it out.",
        )
    if not known:
        return clips, []
    return clips.take(np.flatnonzero(named)), [(clips[at], NO_SPEAKER) for at in np.flatnonzero(~named).tolist()]


def _texts(
    clips: Clips, files: Mapping[str, Predictions], manifest: Manifest, options: Options
) -> tuple["_Texts", list[Note]]:
    if not files:
        column = prediction_column(manifest, options)
        require_free(clips, column, "the transcript", option="--prediction-col")
        manifest.check_flat(column)
        return {ONE_SYSTEM: clips.each_extra(column)}, []
    # All clips, used or not: a transcript of an unused clip is not an unused transcript.
    every = as_columns(manifest.clips)
    names = _names(every)
    found: _Texts = {}
    notes = []
    for system, predictions in files.items():
        matched, unused = match(names, predictions)
        found[system] = _only(every, [matched], clips.places)[1][0]
        if unused:
            some = ", ".join(unused[:EXAMPLES]) + (", ..." if len(unused) > EXAMPLES else "")
            plural = "s" * (len(unused) > 1)
            text = f"{system}: {len(unused)} transcript{plural} met no clip of the manifest ({some})."
            notes.append(Note("unused-transcripts", text, len(unused)))
    return found, notes


_Texts = dict[str, Sequence[str | None]]


def _names(clips: Clips) -> Sequence[str]:
    """Return the names of clips by which transcripts are found."""
    names, own = clips.each_name(), clips.each_extra("utterance")
    if all(name is None for name in own):
        return names  # type: ignore[return-value]
    return Cells(other or name for name, other in zip(names, own, strict=True))  # type: ignore[return-value]


def _transcribed(
    clips: Clips, texts: _Texts, options: Options
) -> tuple[Clips, _Texts, list[tuple[Clip, str]], dict[str, int]]:
    """Leave out clips without a transcript of every system: all systems are compared on the same clips."""
    if options.on_missing == "empty":
        missing = {name: sum(text is None for text in rows) for name, rows in texts.items()}
        return clips, texts, [], {name: count for name, count in missing.items() if count}
    absent = {
        name: np.fromiter((text is None for text in rows), dtype=bool, count=len(clips)) for name, rows in texts.items()
    }
    some = np.any([*absent.values(), np.zeros(len(clips), dtype=bool)], axis=0)
    skipped: list[tuple[Clip, str]] = []
    bad = BadClips(options.manifest, len(clips), skip="--on-missing skip")
    for number in np.flatnonzero(some).tolist():
        clip, lacking = clips[number], [name for name, rows in absent.items() if rows[number]]
        if options.on_missing == "stop":
            message = f"{lacking[0]} has no transcript of the clip."
            hint = "Add it, or see --on-missing skip and --on-missing empty."
            bad.add(clip, InputError(message, where=clip.where, hint=hint))
        whom = lacking[0] if len(lacking) == 1 else f"{len(lacking)} systems" if len(texts) > 2 else "both systems"
        skipped.append((clip, NO_PREDICTION.format(whom)))
    bad.refuse()
    clips, rows = _only(clips, list(texts.values()), np.flatnonzero(~some))
    return clips, dict(zip(texts, rows, strict=True)), skipped, {}


def _check_groups(clips: Clips, options: Options) -> None:
    levels = {name: {str(level) for level in clips.each_level(name).present()} - {UNKNOWN} for name in options.by}
    if all(len(found) < 2 for found in levels.values()):
        counted = "; ".join(f"{name} has {len(found)}" for name, found in levels.items())
        raise InputError(
            f"There is nothing to compare: no column has two known levels ({counted}).",
            where=f"{options.manifest}, --by",
            hint="Choose other columns with --by.",
        )
    for reference in options.reference:
        if reference in ("overall", "best"):
            continue
        attribute, separator, level = reference.partition("=")
        if not separator or attribute not in levels or level not in levels[attribute]:
            known = [f"{name}={value}" for name, found in levels.items() for value in sorted(found)]
            alike = [name for name in known if name.partition("=")[2] == reference]
            hint = f"Did you mean {alike[0]!r}?" if alike else suggest(reference, ["overall", "best", *known])
            raise InputError(f"{reference!r} is no group of --by.", where="--reference", hint=hint)
    attributes = [reference.partition("=")[0] for reference in options.reference]
    if len(set(attributes)) < len(attributes) or {"overall", "best"} <= set(attributes):
        raise InputError(
            f"{', '.join(options.reference)} give one attribute two references.",
            where="--reference",
            hint="Give one for each attribute, and overall or best for the others.",
        )


def _check_reference_size(clips: Clips, speakers: NDArray[np.int64], unit: str, options: Options) -> None:
    for reference in options.reference:
        attribute, separator, level = reference.partition("=")
        if not separator:
            continue
        people = len(np.unique(speakers[clips.each_level(attribute).is_(level)]))
        if people < options.min_speakers:
            raise InputError(
                f"{reference} has {people} {unit}: too few to compare others with (--min-speakers "
                f"{options.min_speakers}).",
                where="--reference",
                hint="Choose a larger group, overall or best.",
            )


def _check_references(any_word: bool, counted: Mapping[str, Any], options: Options) -> None:
    if not any_word:
        raise InputError(
            "No reference has a word: there is nothing to err on.",
            where=str(options.manifest),
            hint="Is --text-col the reference?",
        )
    if options.metric == "cer" and counted:
        raise InputError(
            "Counts of errors and words say nothing about characters.", where="--metric", hint="Leave it out."
        )
