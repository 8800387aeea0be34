"""Everything that can be checked before an encoder runs or a layer is read: the plan of the audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audits.context import Context, Plan
from audits.options import check_distinct, check_least
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus, corpus_of
from audits.phoneme_errors.outlook import coordinates_of, cost_of, layers_of, notes_of
from audits.phoneme_errors.speech import Speech, embeddings_of, tokens_of
from audits.phoneme_errors.speech_inputs import read_speech, subject_of
from audits.records import Source, Subject
from audits.value_maps import value_map_sources
from probes.errors import InputError
from probes.loading.checkpoints import ModelFolder, find_model
from probes.loading.levels import Note, parse_bins
from probes.loading.manifests import Manifest
from probes.loading.tokens import Tokens, read_tokens

TOKEN_FORMS = (".csv", ".tsv", ".jsonl", ".json", ".npz")
"""Suffixes of files of tokens, in any case."""
_OF_TOKENS = ("features", "phone_col")
_OF_SPEECH = (
    *("preset", "path_col", "text_col", "audio_root"),
    *("alignments", "align_with", "phones_col", "tier", "phone_map", "keep_stress"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the audit runs on.

    Parameters
    ----------
    tokens, corpus
        None where the phones have yet to be placed.
    speech
        None where the tokens are a file.
    second
        The same tokens elsewhere; for recordings a folder.
    layers
        Numbers of the layers, None for all.
    """

    tokens: Tokens | None
    corpus: Corpus | None
    speech: Speech | None
    manifest: Manifest | None
    second: Tokens | ModelFolder | None
    layers: tuple[int, ...] | None
    stamps: tuple[tuple[Path, tuple[int, ...]], ...] = ()
    """Files that are read again during the run, with what tells whether they are still the same."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was done to values, phones and alignments on the way."""
        parts = [part.notes for part in (self.manifest, self.speech, self.tokens) if part is not None]
        return tuple(note for notes in parts for note in notes)


def plan(options: Options, context: Context) -> Plan:
    """Check options, tokens or recordings and alignments; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can mend.
    """
    _check_options(options)
    inputs, subject, data = _speech(options, context) if options.manifest else _tokens(options, context)
    return Plan(
        inputs=inputs,
        subject=subject,
        data=data,
        cost=cost_of(inputs, options),
        notes=notes_of(inputs, options),
        coordinates=coordinates_of(inputs, options),
    )


def chosen_layers(asked: tuple[int, ...] | None, there: Sequence[int]) -> tuple[int, ...]:
    """Return the layers to look at.

    Raises
    ------
    InputError
        Where one of them is not there.
    """
    lacking = [layer for layer in asked or () if layer not in there]
    if lacking:
        raise InputError(
            f"There is no layer {lacking[0]}: there are {', '.join(map(str, there))}.",
            where="--layers",
            hint="Give all, or some of these.",
        )
    return asked or tuple(there)


def stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ino


def check_unchanged(inputs: Inputs) -> None:
    """Refuse to go on where a file of tokens is another than the one that was checked.

    Raises
    ------
    InputError
        Where it is.
    """
    for path, before in inputs.stamps:
        if stamp(path) != before:
            raise InputError("The file changed while the audit ran.", where=str(path), hint="Run it again.")


def _check_options(options: Options) -> None:
    check_least(
        (
            ("--batch", options.batch, 1),
            ("--folds", options.folds, 2),
            ("--repeats", options.repeats, 1),
            ("--max-order", options.max_order, 1),
            ("--min-speakers", options.min_speakers, 5),
            ("--min-tokens", options.min_tokens, 2),
            ("--bootstrap", options.bootstrap, 200),
            ("--permutations", options.permutations, 100),
        )
    )
    if options.folds > options.min_speakers:
        raise InputError(
            f"{options.folds} folds need as many speakers of every group; --min-speakers is {options.min_speakers}.",
            where="--folds",
            hint="Give fewer folds, or a larger --min-speakers.",
        )
    check_distinct((("--by", options.by),))
    idle = [name for name in (_OF_TOKENS if options.manifest else _OF_SPEECH) if getattr(options, name)]
    if options.manifest and options.transform != "none":
        idle.append("transform")
    if idle:
        kind = "a file of tokens, not recordings" if options.manifest else "recordings, not a file of tokens"
        raise InputError(
            f"--{idle[0].replace('_', '-')} is for {kind}.",
            where=f"--{idle[0].replace('_', '-')}",
            hint="Leave it out." if options.manifest else "Leave it out, or give a model and --manifest.",
        )


def _check_idle(options: Options) -> None:
    """Refuse what only one of the two ways to place phones knows."""
    for flag, given, other in (
        ("--phones-col", options.phones_col is not None and options.alignments is not None, "--align-with"),
        ("--tier", options.tier is not None and options.align_with is not None, "--alignments"),
    ):
        if given:
            raise InputError(f"{flag} is for {other}.", where=flag, hint="Leave it out.")


def _layers(options: Options) -> tuple[int, ...] | None:
    if options.layers == ("all",):
        return None
    numbers = [text for text in options.layers if text.removeprefix("-").isdigit() and text.isascii()]
    strange = next((text for text in options.layers if text not in numbers), None)
    if strange is not None or len(set(numbers)) < len(numbers):
        what = "A layer is named twice." if strange is None else f"{strange!r} is no layer."
        raise InputError(what, where="--layers", hint="Give all, or numbers such as 0,3,6.")
    return tuple(sorted(int(text) for text in numbers))


def _tokens(options: Options, context: Context) -> tuple[Inputs, Subject | None, tuple[Source, ...]]:
    path = Path(options.tokens)
    try:
        is_model = path.is_dir() or (not path.suffix and not path.exists())
    except OSError as error:
        raise InputError(
            f"The file cannot be read: {error.strerror}.", where=options.tokens[:200], hint="Check the path."
        ) from error
    if is_model:
        raise InputError(
            f"{options.tokens} is no file of tokens, and an encoder needs recordings.",
            where="--manifest",
            hint="Name the recordings with --manifest and their alignments with --alignments.",
        )
    # Before they are read, so that no change goes unseen.
    stamps = tuple((one, stamp(one)) for one in (path, *([Path(options.against)] if options.against else [])))
    tokens = _read(path, options, context)
    layers = _layers(options)
    corpus = corpus_of(tokens, options)
    chosen = chosen_layers(layers, tokens.vectors.layers)
    second = None
    if options.against is not None:
        second = _read(Path(options.against), options, context)
        _check_same(tokens, second, options)
        chosen = tuple(layer for layer in chosen if layer in second.vectors.layers)
        if not chosen:
            raise InputError(
                "The two files have no layer in common.",
                where=f"--against {options.against}",
                hint="Number them alike.",
            )
    inputs = Inputs(
        tokens=tokens, corpus=corpus, speech=None, manifest=None, second=second, layers=chosen, stamps=stamps
    )
    data = [Source(role="tokens", path=options.tokens, sha256=tokens.sha256, items=tokens.given)]
    if second is not None:
        data.append(Source(role="tokens compared", path=str(options.against), sha256=second.sha256, items=second.given))
    return inputs, None, (*data, *value_map_sources(options.values))


def _read(path: Path, options: Options, context: Context) -> Tokens:
    return read_tokens(
        path,
        by=options.by,
        features=options.features,
        phone_col=options.phone_col,
        speaker_col=options.speaker_col,
        values=options.values,
        bins=parse_bins(options.bin),
        transform=options.transform,
        layers=None,
        on_bad=options.on_bad,
        progress=context.progress,
    )


def _check_same(tokens: Tokens, second: Tokens, options: Options) -> None:
    """Check that the second file holds the same tokens in the same order, so that differences are paired."""
    where = f"--against {options.against}"
    if len(tokens.phones) != len(second.phones):
        alone = np.setxor1d(tokens.lines, second.lines)
        first = f" Line {alone[0]} is the first that can be used in one of them only." if len(alone) else ""
        raise InputError(
            f"It has {len(second.phones)} usable tokens, and {options.tokens} has {len(tokens.phones)}.{first}",
            where=where,
            hint="Both files need the same tokens in the same order.",
        )
    for what, names, codes, others, other_codes in (
        ("phone", tokens.phone_names, tokens.phones, second.phone_names, second.phones),
        ("speaker", tokens.speaker_names, tokens.speakers, second.speaker_names, second.speakers),
    ):
        here, there = np.array(names)[codes], np.array(others)[other_codes]
        apart = np.flatnonzero(here != there)
        if len(apart):
            at = int(apart[0])
            raise InputError(
                f"A token has the {what} {there[at]!s}, and in {options.tokens} {here[at]!s}.",
                where=f"{where}:{second.lines[at]}",
                hint="Both files need the same tokens in the same order.",
            )


def _speech(options: Options, context: Context) -> tuple[Inputs, Subject | None, tuple[Source, ...]]:
    _check_idle(options)
    if Path(options.tokens).suffix.lower() in TOKEN_FORMS:
        raise InputError(
            f"{options.tokens} is a file of tokens, which needs no recordings.",
            where="--manifest",
            hint="Leave --manifest out, or name a speech encoder.",
        )
    second = find_model(options.against) if options.against is not None else None
    speech, manifest, data = read_speech(options, second, context)
    tokens = corpus = None
    if speech.aligner is None:
        vectors = embeddings_of(speech.folder, speech.recordings, options, context)
        tokens = tokens_of(speech.recordings, vectors, options.by)
        corpus = corpus_of(tokens, options)
    inputs = Inputs(
        tokens=tokens, corpus=corpus, speech=speech, manifest=manifest, second=second, layers=_layers(options)
    )
    if second is not None:
        data = (*data, Source(role="encoder compared", path=str(options.against), sha256=second.sha256, items=1))
    there = layers_of(replace(inputs, layers=None))
    if there is not None:
        chosen_layers(inputs.layers, there)
    return inputs, subject_of(speech.folder, options.tokens), data
