"""The recordings, their alignments and the encoder, checked before anything runs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from audits.core.context import Context
from audits.core.records import Source, Subject
from audits.core.value_maps import value_map_sources
from audits.group_rates.cautions import decoded_elsewhere
from audits.phoneme_errors import Options
from audits.phoneme_errors.speech import NO_ALIGNMENT, NO_PHONES, Aligner, Recording, Speech
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.levels import Note, parse_bins
from probes.files.names import suggest
from probes.files.table_sources import reported_path
from probes.models.checkpoints import ModelFolder, count_parameters, find_model
from probes.speech.activations import check_family
from probes.speech.alignments import read_alignments
from probes.speech.audio import inspect_clip
from probes.speech.bad_clips import BadClips
from probes.speech.corpora import read_corpus
from probes.speech.ctc_alignment import Targets, targets_of
from probes.speech.frames import RATE, check_config
from probes.speech.manifests import Clip, ColumnMap, Manifest, read_manifest
from probes.speech.phone_names import phone_names
from probes.speech.recordings import Sound, measure_sound
from probes.speech.vocabularies import Vocabulary, read_vocabulary

NO_SPEAKER = "no speaker"
UNREADABLE = "unreadable recording"
PHONES_COLUMN = "phones"
"""Usual name of the column with the phones that were said."""
NO_TRANSCRIPT = "nothing in its transcript that the aligner knows"
OWN_ALIGNMENT = (
    "The phones were placed by the CTC checkpoint of --align-with, not by people: where it misplaces the sounds of a "
    "group, that is part of what is measured."
)
LETTERS = "What is placed are the letters of the text, not phones: give the phones that were said with --phones-col."


def read_speech(
    options: Options, second: ModelFolder | None, context: Context
) -> tuple[Speech, Manifest, tuple[Source, ...]]:
    """Return the recordings that can be encoded, with their phones or with transcripts to align.

    Raises
    ------
    InputError
        Where a model, the manifest, a recording or an alignment cannot be used.
    """
    folder = find_model(options.tokens)
    folders = [folder, *([second] if second is not None else [])]
    for one in folders:
        check_family(one)
        # Each clip would be refused for it.
        check_config(one)
    if (options.alignments is None) == (options.align_with is None):
        what = "Nothing says" if options.alignments is None else "Two options say"
        raise InputError(
            f"{what} where the phones lie.",
            where="--alignments",
            hint="Give --alignments DIR, or --align-with MODEL to have a CTC checkpoint place them.",
        )
    manifest = _manifest(options)
    skipped: list[tuple[Clip, str]] = []
    bad = BadClips(options.manifest or Path(), len(manifest.clips), skip="--on-bad skip", advice=manifest.advice)
    sounds = _sounds(manifest, folders, options, context, skipped, bad)
    sources = [
        Source(
            role="manifest",
            path=reported_path(options.manifest or manifest.path),
            sha256=manifest.sha256,
            items=len(manifest.clips),
        ),
        Source(
            role="recordings",
            path=str(manifest.path.parent),
            sha256=sha256_json(
                [
                    [clip.name, clip.start, clip.end, sound.sha256, *filter(None, [sound.decoder])]
                    for clip, sound in sounds
                ]
            ),
            items=len(sounds),
        ),
        *value_map_sources(options.values),
    ]
    if not sounds:
        _stop(bad, options)
        raise _unusable(skipped, options)
    try:
        if options.alignments is not None:
            speech, source = _aligned(folder, sounds, skipped, options, options.alignments, bad)
        else:
            speech, source = _unaligned(folder, sounds, skipped, options, manifest, bad)
    except InputError:
        # Without the clips that cannot be used, the alignments may be in order.
        _stop(bad, options)
        raise
    _stop(bad, options)
    if not speech.recordings:
        raise _unusable(skipped, options)
    decoders = [sound.decoder for _, sound in sounds if sound.decoder]
    decoded = [Note("decoded-by-ffmpeg", message, len(decoders)) for message in decoded_elsewhere(decoders)]
    speech = replace(speech, left_out=bad.notes(skipped), notes=(*speech.notes, *decoded))
    return speech, manifest, (*sources, source)


def _unusable(skipped: Sequence[tuple[Clip, str]], options: Options) -> InputError:
    return InputError(
        "No clip can be used: " + ", ".join(sorted({reason for _, reason in skipped})) + ".",
        where=str(options.manifest),
        hint="Check that --manifest, the alignments and --phone-map belong together.",
    )


def _stop(bad: BadClips, options: Options) -> None:
    if options.on_bad == "stop" or bad.outside:
        bad.refuse()


def subject_of(folder: ModelFolder, path: str) -> Subject:
    """Return the audited model as the report names it."""
    return Subject(path=path, family=folder.family, sha256=folder.sha256, parameters=count_parameters(folder))


def _manifest(options: Options) -> Manifest:
    needs = frozenset({"path", "speaker"})
    bins = parse_bins(options.bin)
    if options.manifest is not None and options.preset is not None:
        return read_corpus(
            options.preset,
            options.manifest,
            audio_root=options.audio_root,
            by=options.by,
            values=options.values,
            bins=bins,
            needs=needs,
        )
    return read_manifest(
        options.manifest or Path(),
        columns=ColumnMap(path=options.path_col, text=options.text_col, speaker=options.speaker_col),
        by=options.by,
        values=options.values,
        bins=bins,
        audio_root=options.audio_root,
        needs=needs,
        decimal=options.decimal,
    )


def _sounds(
    manifest: Manifest,
    folders: Sequence[ModelFolder],
    options: Options,
    context: Context,
    skipped: list[tuple[Clip, str]],
    bad: BadClips,
) -> list[tuple[Clip, Sound]]:
    """Return the clips that every encoder can take, with their audio facts; add the others to `skipped`."""
    kept: list[tuple[Clip, Sound]] = []
    with context.progress.phase("Checking recordings", len(manifest.clips), "clips") as advance:
        for clip in manifest.clips:
            found = bad.keep(clip, _sound, clip, folders, options, bad)
            if isinstance(found, Sound):
                kept.append((clip, found))
            else:
                skipped.append((clip, found or UNREADABLE))
            advance(1)
    return kept


def _sound(clip: Clip, folders: Sequence[ModelFolder], options: Options, bad: BadClips) -> Sound | str:
    """Return the audio facts of a clip, or the reason why an encoder cannot take it.

    Raises
    ------
    InputError
        Where it has no speaker and may not be left out, or no usable sound.
    """
    if clip.speaker is None:
        _stopped(clip, NO_SPEAKER, options)
        return NO_SPEAKER
    bad.check_header(clip)
    found = [measure_sound(clip, folder) for folder in folders]
    return next((one for one in found if isinstance(one, str)), found[0])


def _stopped(clip: Clip, reason: str, options: Options, file: str = "") -> None:
    """Refuse a clip that may not be left out; `file` is the file or folder to blame."""
    if options.on_bad == "stop":
        raise InputError(
            f"The clip cannot be used: {reason}{f' ({file})' if file else ''}.",
            where=clip.where,
            hint="Mend it, or leave such clips out with --on-bad skip.",
        )


def _aligned(
    folder: ModelFolder,
    sounds: Sequence[tuple[Clip, Sound]],
    skipped: list[tuple[Clip, str]],
    options: Options,
    path: Path,
    bad: BadClips,
) -> tuple[Speech, Source]:
    found = read_alignments(
        path,
        [clip for clip, _ in sounds],
        rates=[sound.rate for _, sound in sounds],
        seconds=[_length(clip, sound) for clip, sound in sounds],
        tier=options.tier,
        phone_map=options.phone_map,
        keep_stress=options.keep_stress,
    )
    recordings = []
    for (clip, sound), aligned in zip(sounds, found.clips, strict=True):
        if aligned is not None and aligned.phones:
            recordings.append(Recording(clip=clip, sound=sound, phones=aligned.phones))
        else:
            reason, file = (NO_ALIGNMENT, path) if aligned is None else (NO_PHONES, aligned.file)
            unread = next((f"; {note.message}" for note in found.notes if note.id == "alignments.unread"), "")
            shown = f"{file}{unread if aligned is None else ''}"
            bad.keep(clip, _stopped, clip, reason, options, shown)
            skipped.append((clip, reason))
    speech = Speech(
        folder=folder, recordings=tuple(recordings), skipped=tuple(skipped), aligner=None, notes=found.notes
    )
    source = Source(role="alignments", path=str(path), sha256=found.sha256, items=len(found.files))
    return speech, source


def _length(clip: Clip, sound: Sound) -> float:
    """Return the length of the whole recording, seconds: alignments of its parts count from its start."""
    if clip.start is None:
        return sound.samples / RATE
    return inspect_clip(replace(clip, start=None, end=None)).seconds


def _unaligned(
    folder: ModelFolder,
    sounds: Sequence[tuple[Clip, Sound]],
    skipped: list[tuple[Clip, str]],
    options: Options,
    manifest: Manifest,
    bad: BadClips,
) -> tuple[Speech, Source]:
    """Return the recordings with the transcripts that a CTC checkpoint will align."""
    model = find_model(str(options.align_with))
    vocabulary = read_vocabulary(model)
    if isinstance(vocabulary, str):
        raise InputError(
            f"This checkpoint cannot place phones: {vocabulary or 'it has no CTC head'}.",
            where=f"--align-with {options.align_with}",
            hint="Give a model fine-tuned with CTC, with its vocab.json.",
        )
    check_config(model)
    _check_head(model, vocabulary)
    column = _phones_column(options, manifest)
    names = phone_names(options.phone_map, keep_stress=options.keep_stress)
    recordings, left_out = [], 0
    for clip, sound in sounds:
        transcript = (clip.text if column is None else clip.extras.get(column)) or ""
        if column is not None:
            # What the map names is what the head is asked for; what it leaves out is not asked for.
            transcript = " ".join(filter(None, map(names.mapped, transcript.split())))
        targets = _targets(clip, transcript, vocabulary, column)
        left_out += targets.left_out
        if targets.numbers:
            recordings.append(Recording(clip=clip, sound=sound, targets=targets))
        else:
            bad.keep(clip, _stopped, clip, NO_TRANSCRIPT, options)
            skipped.append((clip, NO_TRANSCRIPT))
    notes = [Note("phonemes.own-alignment", OWN_ALIGNMENT, len(recordings))]
    if column is None:
        notes.append(Note("phonemes.letters", LETTERS, len(recordings)))
    if left_out:
        unknown = f"{left_out:,} letters of the transcripts are unknown to the checkpoint and take no part."
        notes.append(Note("phonemes.unknown-letters", unknown, left_out))
    speech = Speech(
        folder=folder,
        recordings=tuple(recordings),
        skipped=tuple(skipped),
        aligner=Aligner(folder=model, blank=vocabulary.blank, names=names),
        notes=tuple(notes),
    )
    return speech, Source(role="aligner", path=str(options.align_with), sha256=model.sha256, items=1)


def _check_head(model: ModelFolder, vocabulary: Vocabulary) -> None:
    """Check that the head has an output for every symbol, as far as its configuration says."""
    size = model.config.get("vocab_size")
    stray = [number for number in (*vocabulary.symbols, vocabulary.blank) if number < 0]
    if type(size) is int:
        stray += [number for number in (*vocabulary.symbols, vocabulary.blank) if number >= size]
    if stray:
        raise InputError(
            f"vocab.json has a symbol of number {stray[0]}, and the head has {size} symbols.",
            where=f"--align-with {model.path}",
            hint="vocab.json and the weights must belong together; fetch both again.",
        )


def _phones_column(options: Options, manifest: Manifest) -> str | None:
    """Return the column of spoken phones; None where there is none and the letters of the text serve."""
    if options.phones_col is not None and options.phones_col not in manifest.columns:
        raise InputError(
            f"There is no column {options.phones_col!r}.",
            where=f"{manifest.path}, --phones-col",
            hint=suggest(options.phones_col, manifest.columns),
        )
    column = options.phones_col
    if column is None and options.text_col is None and PHONES_COLUMN in manifest.columns:
        column = PHONES_COLUMN
    if column is not None:
        manifest.check_flat(column)
        return column
    if all(clip.text is None for clip in manifest.clips):
        raise InputError(
            "The manifest has neither phones nor text to be placed.",
            where=str(manifest.path),
            hint=f"Name a column with --phones-col or --text-col. {suggest(PHONES_COLUMN, manifest.columns)}",
        )
    return None


def _targets(clip: Clip, transcript: str, vocabulary: Vocabulary, column: str | None) -> Targets:
    try:
        return targets_of(vocabulary, transcript, phones=column is not None)
    except InputError as error:
        hint = f"{error.hint} With --phone-map, CSV from,to, phones are renamed before they are placed."
        raise InputError(error.message, where=clip.where, hint=hint) from None
