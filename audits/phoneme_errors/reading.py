"""The inputs of the audit, read and checked: the tokens of a file, or recordings with their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audits.core.context import Context
from audits.core.records import Source, Subject
from audits.core.value_maps import value_map_sources
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus, corpus_of
from audits.phoneme_errors.speech import Speech, embeddings_of, tokens_of
from audits.phoneme_errors.speech_inputs import read_speech, subject_of
from audits.phoneme_errors.tokens import Tokens, read_tokens
from probes.core.errors import InputError
from probes.files.arrow import ARROW, PARQUET
from probes.files.gzips import plain_suffix
from probes.files.levels import Note, parse_bins
from probes.files.table_sources import find_table, is_dataset, reported_path
from probes.models.checkpoints import ModelFolder, find_model
from probes.speech.manifests import Manifest

TOKEN_FORMS = frozenset({".csv", ".tsv", ".jsonl", ".json", ".npz"}) | PARQUET | ARROW
"""Suffixes of files of tokens, in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

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
        """Notes on what was done to values, phones and alignments."""
        parts = [part.notes for part in (self.manifest, self.speech, self.tokens) if part is not None]
        return tuple(note for notes in parts for note in notes)


def read_token_files(options: Options, context: Context) -> tuple[Inputs, Subject | None, tuple[Source, ...]]:
    """Read the tokens of a file, and of its comparison file where there is one.

    Raises
    ------
    InputError
        Where a file cannot be used, or the two do not hold the same tokens.
    """
    path = Path(options.tokens)
    try:
        is_model = not is_dataset(path) and (path.is_dir() or (not path.suffix and not path.exists()))
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
    named = (path, *([Path(options.against)] if options.against else []))
    stamps = tuple((file, stamp(file)) for one in named for file in find_table(one).files)
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
    data = [Source(role="tokens", path=reported_path(path), sha256=tokens.sha256, items=tokens.given)]
    if second is not None:
        data.append(
            Source(role="tokens compared", path=reported_path(named[1]), sha256=second.sha256, items=second.given)
        )
    return inputs, None, (*data, *value_map_sources(options.values))


def read_recordings(options: Options, context: Context) -> tuple[Inputs, Subject | None, tuple[Source, ...]]:
    """Read recordings, and the tokens in them where their alignments are given.

    Raises
    ------
    InputError
        Where a model, the manifest, a recording or an alignment cannot be used.
    """
    if plain_suffix(Path(options.tokens)) in TOKEN_FORMS:
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


def chosen_layers(asked: tuple[int, ...] | None, there: Sequence[int]) -> tuple[int, ...]:
    """Return the layers to measure.

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
    """Return a stamp that changes when a file is written again; empty where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_size, found.st_mtime_ns, found.st_ino


def check_unchanged(inputs: Inputs) -> None:
    """Refuse a file of tokens that changed since it was checked.

    Raises
    ------
    InputError
        Where it is.
    """
    for path, before in inputs.stamps:
        if stamp(path) != before:
            raise InputError("The file changed while the audit ran.", where=str(path), hint="Run it again.")


def layers_of(inputs: Inputs) -> tuple[int, ...] | None:
    """Return the numbers of the layers; None where the encoder's configuration does not say."""
    if inputs.layers is not None:
        return inputs.layers
    if inputs.speech is None:
        return None
    depths = [_depth(inputs.speech.folder)]
    if isinstance(inputs.second, ModelFolder):
        depths.append(_depth(inputs.second))
    known = [depth for depth in depths if depth is not None]
    return tuple(range(min(known))) if len(known) == len(depths) else None


def _layers(options: Options) -> tuple[int, ...] | None:
    if options.layers == ("all",):
        return None
    numbers = [text for text in options.layers if text.removeprefix("-").isdigit() and text.isascii()]
    strange = next((text for text in options.layers if text not in numbers), None)
    if strange is not None or len(set(numbers)) < len(numbers):
        what = "A layer is named twice." if strange is None else f"{strange!r} is no layer."
        raise InputError(what, where="--layers", hint="Give all, or numbers such as 0,3,6.")
    return tuple(sorted(int(text) for text in numbers))


def _depth(folder: ModelFolder) -> int | None:
    count = folder.config.get("encoder_layers" if folder.family == "whisper" else "num_hidden_layers")
    return count + 1 if type(count) is int else None


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
        decimal=options.decimal,
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
