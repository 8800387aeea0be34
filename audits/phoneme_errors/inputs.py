"""Everything that can be checked before an encoder runs or a layer is read: the plan of the audit."""

from collections.abc import Mapping

from audits.core.context import Context, Plan
from audits.core.groups import ALL
from audits.core.numbers import minutes
from audits.core.options import check_distinct
from audits.core.records import Coordinate
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import group_warnings
from audits.phoneme_errors.layers import probe_of
from audits.phoneme_errors.reading import Inputs, layers_of, read_recordings, read_token_files
from audits.phoneme_errors.tokens import Tokens
from audits.phoneme_errors.values import TESTS, TRAININGS
from probes.core.errors import InputError
from probes.speech.frames import RATE

_PRODUCTS = 4e10
"""Products and sums a second of one core of a small virtual machine."""


def check(options: Options, context: Context) -> Plan:
    """Check options, tokens or recordings and alignments; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    if options.folds > options.min_speakers:
        raise InputError(
            f"{options.folds} folds need as many speakers of every group; --min-speakers is {options.min_speakers}.",
            where="--folds",
            hint="Give fewer folds, or a larger --min-speakers.",
        )
    check_distinct((("--by", options.by),))
    read = read_recordings if options.manifest else read_token_files
    inputs, subject, data = read(options, context)
    return Plan(
        inputs=inputs,
        subject=subject,
        data=data,
        cost=_cost(inputs, options),
        preview=_remarks(inputs, options),
        coordinates=_coordinates(inputs),
    )


def _remarks(inputs: Inputs, options: Options) -> tuple[str, ...]:
    """Return notes on what a run on these inputs will not be able to show."""
    lines = list(inputs.manifest.preview()) if inputs.manifest is not None else []
    if inputs.speech is None and inputs.tokens is not None:
        lines += inputs.tokens.preview()
    if isinstance(inputs.second, Tokens):
        lines += inputs.second.preview(str(options.against))
    lines += [note.message for note in inputs.notes]
    lines += inputs.speech.left_out if inputs.speech is not None else ()
    if inputs.corpus is not None:
        lines += [warning.message for warning in group_warnings(inputs.corpus, options)]
    return tuple(lines)


def _coordinates(inputs: Inputs) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return the possible coordinates of the run's estimates, by key; empty where the phones are not aligned yet."""
    layers = layers_of(inputs)
    if inputs.corpus is None or layers is None:
        return {}
    compared = bool(inputs.corpus.groups)
    return {
        "layer": layers,
        "group": (ALL, *inputs.corpus.groups),
        "training": TRAININGS if compared else TRAININGS[:1],
        "unit": ("speaker", "group"),
        "partial": ("no", "yes"),
        "test": (*(TESTS if compared else ()), "permutation", "split"),
        "correction": ("none", "holm") if compared else ("none",),
    }


def _cost(inputs: Inputs, options: Options) -> tuple[tuple[str, str], ...]:
    """Return the cost of the run, in words."""
    rows: list[tuple[str, str]] = []
    layers = layers_of(inputs)
    encoders = 2 if inputs.second is not None else 1
    if inputs.speech is not None:
        sounds = [item.sound.samples for item in inputs.speech.recordings]
        passes = encoders + (inputs.speech.aligner is not None)
        rows.append(("forwards", f"{len(sounds) * passes} clips, {sum(sounds) / RATE / 60:.1f} minutes of sound"))
        width = int(inputs.speech.folder.config.get("hidden_size") or inputs.speech.folder.config.get("d_model") or 768)
        if layers is not None:
            frames = sum(sounds) / 320
            seconds = passes * (frames * len(layers) * 12 * width**2 / _PRODUCTS + 0.02 * len(sounds))
            rows.append(("encoding", f"about {minutes(seconds)} on one CPU core"))
    else:
        width = max(inputs.tokens.vectors.width(layer) for layer in layers or ()) if inputs.tokens else 0
    corpus = inputs.corpus
    if corpus is None or layers is None or inputs.tokens is None:
        return (*rows, ("tokens", "known once the phones are placed"))
    method = options.probe
    if inputs.speech is None:
        method = probe_of(inputs.tokens.vectors, layers, corpus, options)
    kept = f"{corpus.used:,} of {len(corpus.phone_names)} phones by {len(corpus.names):,} speakers"
    rows.append(("tokens", f"{kept}, in {len(layers)} layer{'s' * (len(layers) > 1)} of up to {width} numbers"))
    rows.append(("groups", f"{len(corpus.groups)} compared, {len(corpus.small)} too small"))
    share = 1.0 + 2 * float(corpus.member.sum()) / max(len(corpus.names), 1)
    products = encoders * len(layers) * options.repeats * corpus.used * width * (width * share + 200)
    if method != "logistic":
        rows.append(("time", f"about {minutes(products / _PRODUCTS)} of probing ({method}) on one CPU core"))
    else:
        rows.append(("time", "up to a few minutes of probing (logistic)"))
    return tuple(rows)
