"""Everything that can be checked before an encoder runs: the plan of the audit."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audits.asr_fairness import Options
from audits.asr_fairness.frame_sample import draw_sample, parse_frames
from audits.asr_fairness.preview import coordinates_of, cost_of, preview_of
from audits.asr_fairness.recordings import FrameSample, Inputs, Recording
from audits.asr_fairness.vectors import (
    ClipVectors,
    check_tasks,
    key_of,
    vectors_source,
    warnings_of,
)
from audits.core.context import Context, Plan
from audits.core.groups import group_sets
from audits.core.options import check_distinct
from audits.core.records import Source, Subject
from audits.core.value_maps import value_map_sources
from audits.group_rates.normalising import rules_sources
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.levels import parse_bins
from probes.files.several_refusals import SHOWN
from probes.files.table_sources import reported_path
from probes.models.checkpoints import ModelFolder, count_parameters, find_model
from probes.speech.activations import check_family
from probes.speech.bad_clips import BadClips
from probes.speech.corpora import read_corpus
from probes.speech.frames import check_config, frame_count
from probes.speech.layer_vectors import LayerVectors, are_vectors, open_vectors
from probes.speech.manifests import Clip, ColumnMap, Manifest, read_manifest
from probes.speech.normalisers import Normaliser, read_normaliser
from probes.speech.recordings import TOO_SHORT, measure_sound
from probes.speech.vocabularies import read_vocabulary

NO_TEXT = "empty transcript"
NO_SPEAKER = "no speaker"
UNREADABLE = "unreadable recording"


def check(options: Options, context: Context) -> Plan:
    """Check options, model, manifest and every recording; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    check_distinct((("--by", options.by), ("--tasks", options.tasks)))
    parse_frames(options.frames, options.tasks)
    normaliser = read_normaliser(options.normalise)
    folder = _encoder(options)
    layers = _layers(options, folder)
    vocabulary = read_vocabulary(folder) if "asr" in options.tasks and isinstance(folder, ModelFolder) else ""
    manifest = _read(options)
    own = ClipVectors(folder, manifest, options) if isinstance(folder, LayerVectors) else None
    recordings, skipped, left_out = _recordings(manifest, folder, own, options, context, normaliser)
    _check_groups(recordings, options)
    _check_speakers(recordings, options)
    sets = group_sets([item.clip.attributes for item in recordings], options.by, max_order=options.max_order)
    inputs = Inputs(
        folder=folder,
        manifest=manifest,
        recordings=tuple(recordings),
        skipped=tuple(skipped),
        sets=tuple(sets),
        layers=layers,
        vocabulary=vocabulary,
        normaliser=normaliser,
        sample=_sample(recordings, folder, options, context),
    )
    # What was heard; who spoke, and what, follows from the manifest, the value map and the settings.
    audio = [
        [item.clip.name, item.sha256, item.clip.start, item.clip.end, *filter(None, [item.decoder])]
        for item in recordings
    ]
    content = sha256_json(audio + [[clip.name, why] for clip, why in skipped])
    return Plan(
        inputs=inputs,
        subject=Subject(
            path=options.model,
            family=folder.family,
            sha256=folder.sha256,
            parameters=count_parameters(folder),
        )
        if isinstance(folder, ModelFolder)
        else None,
        data=(
            Source(
                role="manifest", path=reported_path(options.manifest), sha256=manifest.sha256, items=len(manifest.clips)
            ),
            Source(role="recordings", path=str(_root(manifest)), sha256=content, items=len(recordings)),
            *value_map_sources(options.values),
            *rules_sources(normaliser),
            *([vectors_source(own.vectors, ((item.key, item.digest) for item in recordings))] if own else []),
        ),
        cost=cost_of(inputs, options),
        preview=(
            *manifest.preview(),
            *(note.message for note in manifest.notes),
            *left_out,
            *preview_of(inputs, options, context.level),
        ),
        coordinates=coordinates_of(inputs, options),
        warnings=warnings_of(options, len(own.extra)) if own else (),
    )


def _encoder(options: Options) -> ModelFolder | LayerVectors:
    """Return the model, or vectors in the place of one."""
    if are_vectors(options.model):
        vectors = open_vectors(options.model)
        check_tasks(vectors, options)
        return vectors
    if options.id_col is not None:
        raise InputError(
            "--id-col names the keys of vectors, and MODEL is none.",
            where="--id-col",
            hint="Leave it out, or give vectors of layers as MODEL.",
        )
    folder = find_model(options.model)
    check_family(folder)
    # Each clip would be refused for it.
    check_config(folder)
    return folder


def _depth(folder: ModelFolder | LayerVectors) -> object:
    """Return the number of the last layer, as far as it is known."""
    if isinstance(folder, LayerVectors):
        return folder.layers - 1
    return folder.config.get("encoder_layers" if folder.family == "whisper" else "num_hidden_layers")


def _layers(options: Options, folder: ModelFolder | LayerVectors) -> tuple[int, ...] | None:
    if options.layers == ("all",):
        return None
    count = _depth(folder)
    numbers = {int(text) for text in options.layers if text.isascii() and text.isdigit()}
    if len(numbers) < len(options.layers):
        raise InputError(
            f"{','.join(options.layers)} are no layers.", where="--layers", hint="Give all, or numbers such as 0,3,6."
        )
    chosen = tuple(sorted(int(text) for text in options.layers))
    if isinstance(count, int) and chosen[-1] > count:
        raise InputError(
            f"There is no layer {chosen[-1]}: the encoder has layers 0 to {count}.",
            where="--layers",
            hint="0 is the input of the first transformer block.",
        )
    return chosen


def _read(options: Options) -> Manifest:
    needs = frozenset({"path", "speaker"} | ({"text"} if "asr" in options.tasks else set()))
    bins = parse_bins(options.bin)
    if options.preset is not None:
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
        options.manifest,
        columns=ColumnMap(path=options.path_col, text=options.text_col, speaker=options.speaker_col),
        by=options.by,
        values=options.values,
        bins=bins,
        audio_root=options.audio_root,
        needs=needs,
        decimal=options.decimal,
    )


def _root(manifest: Manifest) -> Path:
    return manifest.path if manifest.path.is_dir() else manifest.path.parent


def _recordings(
    manifest: Manifest,
    folder: ModelFolder | LayerVectors,
    own: ClipVectors | None,
    options: Options,
    context: Context,
    normaliser: Normaliser,
) -> tuple[list[Recording], list[tuple[Clip, str]], tuple[str, ...]]:
    """Return the usable clips, the others with reasons, and notes on these; refuse only after all were checked."""
    kept: list[Recording] = []
    skipped: list[tuple[Clip, str]] = []
    given = len(manifest.clips)
    most = given if options.on_bad_clip == "list" else SHOWN
    # All at once: rules run in a child.
    normaliser.all([clip.text or "" for clip in manifest.clips])
    bad = BadClips(options.manifest, given, skip="--on-bad-clip skip", advice=manifest.advice, most=most)
    with context.progress.phase("Checking recordings", len(manifest.clips), "clips") as advance:
        for clip in manifest.clips:
            found = bad.keep(clip, _recording, clip, folder, own, options, bad, normaliser)
            if isinstance(found, Recording):
                kept.append(found)
            else:
                why = found or _lacking(clip, options, normaliser) or (own.reason(clip) if own else "") or UNREADABLE
                skipped.append((clip, why))
            advance(1)
    if options.on_bad_clip != "skip" or bad.outside:
        bad.refuse()
    if not kept:
        raise InputError(
            "No clip can be used: " + ", ".join(sorted({reason for _, reason in skipped})) + ".",
            where=str(options.manifest),
            hint="Mend the recordings or texts that the reasons name; --on-bad-clip list names all of them.",
        )
    return kept, skipped, bad.notes(skipped)


def _recording(
    clip: Clip,
    folder: ModelFolder | LayerVectors,
    own: ClipVectors | None,
    options: Options,
    bad: BadClips,
    normaliser: Normaliser,
) -> Recording | str:
    """Return a usable clip, or the reason why the encoder cannot take it.

    Raises
    ------
    InputError
        Where it has no text or no speaker, no usable sound, or no usable vectors.
    """
    lacking = _lacking(clip, options, normaliser)
    if lacking == NO_TEXT:
        raise InputError(
            f"The transcript is empty after --normalise {options.normalise}.",
            where=clip.where,
            hint="Mend the text, use --tasks sid, or leave such clips out with --on-bad-clip skip.",
        )
    if lacking == NO_SPEAKER:
        raise InputError(
            "The clip has no speaker, and everything here is counted by speakers.",
            where=clip.where,
            hint="Name its speaker, or leave such clips out with --on-bad-clip skip.",
        )
    bad.check_header(clip)
    sound = measure_sound(clip, folder if isinstance(folder, ModelFolder) else None)
    if isinstance(sound, str):
        return sound
    digest = own.digest(clip, sound.samples) if own else ""
    if own and not digest:
        return TOO_SHORT
    return Recording(
        clip=clip,
        sha256=sound.sha256,
        samples=sound.samples,
        text=normaliser.one(clip.text or ""),
        rate=sound.rate,
        channels=sound.channels,
        silent=sound.silent,
        decoder=sound.decoder,
        key=key_of(clip, options) if own else "",
        digest=digest,
    )


def _lacking(clip: Clip, options: Options, normaliser: Normaliser) -> str:
    """Return the name of a part of a clip that the manifest lacks; empty where none."""
    if "asr" in options.tasks and not normaliser.one(clip.text or ""):
        return NO_TEXT
    return NO_SPEAKER if clip.speaker is None else ""


def _sample(
    recordings: Sequence[Recording], folder: ModelFolder | LayerVectors, options: Options, context: Context
) -> FrameSample | None:
    most = parse_frames(options.frames, options.tasks)
    if most is None:
        return None
    frames = [
        folder.frames(item.key) if isinstance(folder, LayerVectors) else frame_count(folder, item.samples)
        for item in recordings
    ]
    return draw_sample(recordings, np.array(frames, dtype=np.int64), most, context.seed)


def _check_groups(recordings: Sequence[Recording], options: Options) -> None:
    for column in options.by:
        levels = {item.clip.attributes[column] for item in recordings} - {"unknown"}
        if len(levels) < 2:
            only = f"one level, {levels.pop()!r}" if levels else "no known level"
            raise InputError(
                f"The column {column!r} has {only}: there is nothing to compare.",
                where=f"{options.manifest}, column {column}",
                hint="Choose another column with --by.",
            )


def _check_speakers(recordings: Sequence[Recording], options: Options) -> None:
    clips = Counter(item.speaker for item in recordings)
    if "asr" in options.tasks and len(clips) < options.folds:
        raise InputError(
            f"{options.folds} folds need as many speakers; there are {len(clips)}.",
            where="--folds",
            hint="Give fewer folds, but at least 3, or leave the task out with --tasks sid.",
        )
    enough = sum(count >= options.min_utterances for count in clips.values())
    if "sid" in options.tasks and enough < 2:
        raise InputError(
            f"Telling speakers apart needs two of them with {options.min_utterances} clips each; there are {enough}.",
            where="--min-utterances",
            hint="Give more clips a speaker, lower --min-utterances, or leave the task out with --tasks asr.",
        )
