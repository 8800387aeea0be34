"""The layers that are probed: the encoder's own, the log-mel baseline, and the untrained twin."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from audits.asr_fairness import Options
from audits.asr_fairness.counts import BASELINE
from audits.asr_fairness.recordings import Inputs, Recording
from audits.core.context import Context
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers
from probes.core.hashing import sha256_json
from probes.speech.activations import LogMel, SpeechEncoder, batching_of, encoder_key
from probes.speech.embeddings import Embeddings, Item, clip_item
from probes.speech.layer_vectors import LayerVectors
from probes.speech.stored_states import StoredStates, stored_item


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSet:
    """Layers from one source, with the embeddings of all recordings.

    Parameters
    ----------
    layers, positions
        Numbers of the layers as reported, and their positions in the embeddings.
    key
        Hash of everything that the embeddings depend on.
    stored
        The embeddings as far as the cache has them: neither encoder nor recordings.
    """

    embeddings: Embeddings
    layers: tuple[int, ...]
    positions: tuple[int, ...]
    key: str
    stored: Embeddings

    def shipped(self) -> "LayerSet":
        """Return the layer set for a worker, which reads the cache and never encodes."""
        return replace(self, embeddings=self.stored)


def encoder_layers(inputs: Inputs, options: Options, context: Context, *, random_seed: int | None = None) -> LayerSet:
    """Run the encoder over every recording that is not cached, one forward pass per clip for all tasks."""
    if isinstance(inputs.folder, LayerVectors):
        return _stored_layers(inputs.folder, inputs, options, context)
    folder = inputs.folder
    how: dict[str, Any] = {
        "key": encoder_key(folder, device=context.device, dtype=context.dtype, random_seed=random_seed),
        "batching": batching_of(folder),
        "cache": context.cache,
        "largest": options.batch,
    }
    embeddings = Embeddings(
        items_of(inputs.recordings),
        lambda: SpeechEncoder(folder, device=context.device, dtype=context.dtype, random_seed=random_seed),
        **how,
    )
    label = "Encoding" if random_seed is None else "Encoding with the untrained twin"
    embeddings.compute(context.progress, label, frames="asr" in options.tasks)
    depth = embeddings.depth()
    layers = tuple(range(depth)) if inputs.layers is None else inputs.layers
    if layers[-1] >= depth:
        raise InputError(
            f"There is no layer {layers[-1]}: the encoder has layers 0 to {depth - 1}.",
            where="--layers",
            hint=f"Give numbers from 0 to {depth - 1}, or all.",
        )
    return _layer_set(embeddings, how, layers, layers, items_of(inputs.recordings), options)


def _stored_layers(vectors: LayerVectors, inputs: Inputs, options: Options, context: Context) -> LayerSet:
    """Take the vectors that stand in a file the way of what an encoder makes."""
    how: dict[str, Any] = {"key": StoredStates.key, "batching": StoredStates.batching, "cache": context.cache}
    items = [
        stored_item(item, vectors, recording.key, recording.digest)
        for item, recording in zip(items_of(inputs.recordings), inputs.recordings, strict=True)
    ]
    embeddings = Embeddings(items, StoredStates, **how)
    embeddings.compute(context.progress, "Reading vectors", frames="asr" in options.tasks)
    layers = tuple(range(vectors.layers)) if inputs.layers is None else inputs.layers
    return _layer_set(embeddings, how, layers, layers, items, options)


def baseline_layers(inputs: Inputs, options: Options, context: Context) -> LayerSet:
    """Compute the log-mel baseline, layer -1."""
    how: dict[str, Any] = {"key": LogMel.key, "batching": LogMel.batching, "cache": context.cache}
    embeddings = Embeddings(items_of(inputs.recordings), LogMel, **how)
    embeddings.compute(context.progress, "Log-mel energies", frames="asr" in options.tasks)
    return _layer_set(embeddings, how, (BASELINE,), (0,), items_of(inputs.recordings), options)


def _layer_set(
    embeddings: Embeddings,
    how: dict[str, Any],
    layers: tuple[int, ...],
    positions: tuple[int, ...],
    items: Sequence[Item],
    options: Options,
) -> LayerSet:
    # In the order of the manifest, in which answers are kept too.
    key = sha256_json([embeddings.key, options.batch, [item.states or item.sha256 for item in items]])
    stored = Embeddings([replace(item, read=_absent) for item in items], _absent, **how)
    return LayerSet(embeddings=embeddings, layers=layers, positions=positions, key=key, stored=stored)


def _absent() -> NoReturn:
    raise IncompleteError(
        "A worker cannot read the embeddings of all recordings.",
        where="--workers",
        hint="Run it again. Workers on other machines need the folder of MILES_CACHE under the same path.",
    )


def items_of(recordings: tuple[Recording, ...]) -> list[Item]:
    """Return the recordings as items of the embeddings' cache."""
    return [clip_item(item.clip, item.sha256, item.samples, item.decoder) for item in recordings]


def workers_of(options: Options) -> Workers:
    """Return the workers that fit the probes.

    Raises
    ------
    InputError
        Where the options of it contradict each other, or ask for a package that is not installed.
    """
    return Workers(count=options.workers, backend=options.backend, scheduler=options.scheduler)
