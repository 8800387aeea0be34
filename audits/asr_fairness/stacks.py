"""The layers that are probed: the encoder's own, the log-mel baseline, and the twin that learned nothing."""

from dataclasses import dataclass

from audits.asr_fairness import Options
from audits.asr_fairness.counts import BASELINE
from audits.asr_fairness.inputs import Inputs, Recording
from audits.context import Context
from probes.activations import LogMel, SpeechEncoder, batching_of, encoder_key
from probes.embeddings import Embeddings, Item, clip_item
from probes.errors import InputError
from probes.loading.hashing import sha256_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Layers with the embeddings of all recordings.

    Parameters
    ----------
    layers, places
        Numbers of the layers as reported, and their places in the embeddings.
    key
        Hash of everything that the embeddings depend on.
    """

    embeddings: Embeddings
    layers: tuple[int, ...]
    places: tuple[int, ...]
    key: str


def encoder_stack(inputs: Inputs, options: Options, context: Context, *, random_seed: int | None = None) -> Stack:
    """Run the encoder over every recording that the cache has not, one forward pass a clip, for all tasks."""
    embeddings = Embeddings(
        items_of(inputs.recordings),
        lambda: SpeechEncoder(inputs.folder, device=context.device, dtype=context.dtype, random_seed=random_seed),
        key=encoder_key(inputs.folder, device=context.device, dtype=context.dtype, random_seed=random_seed),
        batching=batching_of(inputs.folder),
        cache=context.cache,
        largest=options.batch,
    )
    label = "Encoding" if random_seed is None else "Encoding with the untrained twin"
    embeddings.compute(context.progress, label, frames="asr" in options.tasks)
    depth = embeddings.depth()
    layers = tuple(range(depth)) if inputs.layers is None else inputs.layers
    if layers[-1] >= depth:
        raise InputError(f"There is no layer {layers[-1]}: the encoder has layers 0 to {depth - 1}.", where="--layers")
    return _stack(embeddings, layers, layers, inputs, options)


def baseline_stack(inputs: Inputs, options: Options, context: Context) -> Stack:
    """Compute log-mel energies, layer -1."""
    embeddings = Embeddings(
        items_of(inputs.recordings), LogMel, key=LogMel.key, batching=LogMel.batching, cache=context.cache
    )
    embeddings.compute(context.progress, "Log-mel energies", frames="asr" in options.tasks)
    return _stack(embeddings, (BASELINE,), (0,), inputs, options)


def _stack(
    embeddings: Embeddings, layers: tuple[int, ...], places: tuple[int, ...], inputs: Inputs, options: Options
) -> Stack:
    # In the order of the manifest, in which answers are kept too.
    key = sha256_json([embeddings.key, options.batch, [item.sha256 for item in items_of(inputs.recordings)]])
    return Stack(embeddings=embeddings, layers=layers, places=places, key=key)


def items_of(recordings: tuple[Recording, ...]) -> list[Item]:
    """Return the recordings as the embeddings see them."""
    return [clip_item(item.clip, item.sha256, item.samples) for item in recordings]
