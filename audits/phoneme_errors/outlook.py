"""What will a run on these inputs be able to say, and what will it cost? Told before anything is measured."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from audits.groups import ALL
from audits.numbers import counted
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.estimating import TESTS
from audits.phoneme_errors.measuring import probe_of
from audits.phoneme_errors.values import TRAININGS
from audits.records import Coordinate
from probes.frames import RATE
from probes.loading.checkpoints import ModelFolder
from probes.phone_scatter import MIN_SPEAKERS

if TYPE_CHECKING:
    from audits.phoneme_errors.inputs import Inputs

NOTHING_COMPARED = "nothing-compared"
DOMINATING = 0.25
"""Share of a group's tokens from which one speaker is warned of."""
_PRODUCTS = 4e10
"""Products and sums a second of one core of a small virtual machine."""


def coordinates_of(inputs: "Inputs", options: Options) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values; empty where the phones are not placed."""
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


def layers_of(inputs: "Inputs") -> tuple[int, ...] | None:
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


def _depth(folder: ModelFolder) -> int | None:
    count = folder.config.get("encoder_layers" if folder.family == "whisper" else "num_hidden_layers")
    return count + 1 if type(count) is int else None


def notes_of(inputs: "Inputs", options: Options) -> tuple[str, ...]:
    """Return what the inputs already show of how little a run could say."""
    notes = [note.message for note in inputs.notes]
    if inputs.corpus is not None:
        notes += [message for _, message, _ in warnings_of(inputs.corpus, options)]
    return tuple(notes)


def warnings_of(corpus: Corpus, options: Options) -> list[tuple[str, str, Mapping[str, Coordinate]]]:
    """Return what the reader must know of the groups and phones: id, message and place of each warning."""
    found: list[tuple[str, str, Mapping[str, Coordinate]]] = []
    for group, people in corpus.small.items():
        few = f"{group} has {counted(people, 'speakers')} and is not compared: that takes {options.min_speakers}."
        found.append(("small-group", few, {"group": group}))
    if not corpus.groups:
        text = f"No two groups have {options.min_speakers} speakers: nothing is compared."
        found.append((NOTHING_COMPARED, text, {}))
    if corpus.dropped:
        shown = ", ".join(list(corpus.dropped)[:12]) + (", ..." if len(corpus.dropped) > 12 else "")
        text = (
            f"{counted(len(corpus.dropped), 'phones')} with {counted(sum(corpus.dropped.values()), 'tokens')} left "
            f"out, since not every compared group has {options.min_tokens} tokens by {MIN_SPEAKERS} speakers: {shown}."
        )
        found.append(("phones-not-shared", text, {}))
    tokens = np.bincount(corpus.speakers[corpus.phones >= 0], minlength=len(corpus.names))
    for group, inside in zip(corpus.groups, corpus.member, strict=True):
        largest = int(np.argmax(tokens * inside))
        share = tokens[largest] / max(tokens[inside].sum(), 1)
        if share > DOMINATING:
            text = (
                f"One speaker, {corpus.names[largest]}, has {share:.0%} of the tokens of {group}: its numbers are "
                "mostly that speaker's."
            )
            found.append(("dominating-speaker", text, {"group": group}))
    if corpus.several:
        text = (
            f"Some speakers have several levels of an attribute and count as a speaker for each, {corpus.several} more "
            "than there are. Intervals take these for different people."
        )
        found.append(("speaker-in-several-groups", text, {}))
    return found


def cost_of(inputs: "Inputs", options: Options) -> tuple[tuple[str, str], ...]:
    """Return what the run costs, in words."""
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
            rows.append(("encoding", f"about {_minutes(seconds)} on one CPU core"))
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
        rows.append(("time", f"about {_minutes(products / _PRODUCTS)} of probing ({method}) on one CPU core"))
    else:
        rows.append(("time", "up to a few minutes of probing (logistic)"))
    return tuple(rows)


def _minutes(seconds: float) -> str:
    minutes = max(seconds / 60, 0.1)
    return f"{minutes:.1f} minutes" if minutes < 10 else f"{minutes:,.0f} minutes"
