"""The layers that are probed: the encoder's own, the log-mel baseline, and the untrained twin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from audits.asr_fairness import Options
from audits.asr_fairness.counts import BASELINE
from audits.asr_fairness.recordings import Inputs, Recording
from audits.core.context import Context
from probes.core.cache import Cache
from probes.core.errors import AbsentError
from probes.core.hashing import sha256_json
from probes.core.spreading import alone, spread
from probes.models.checkpoints import ModelFolder
from probes.speech.activations import Encoder, LogMel, SpeechEncoder, batching_of, encoder_key
from probes.speech.embeddings import Embeddings, Encoding, Item, Keeping, clip_item, encode_batches, no_layer
from probes.speech.layer_vectors import LayerVectors
from probes.speech.stored_states import StoredStates, stored_item

AT_ONCE = 32
"""Clips of a job where nothing is run on them but a spectrum: one alone would take less than to send it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSet:
    """Layers from one source, with the embeddings of all recordings.

    Parameters
    ----------
    layers, positions
        Numbers of the layers as reported, and their positions in the embeddings.
    key
        Hash of everything that the embeddings depend on.
    """

    source: "Source"
    embeddings: Embeddings
    layers: tuple[int, ...]
    positions: tuple[int, ...]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where layers come from: an encoder, as it is opened, and how its states are kept.

    Parameters
    ----------
    asked
        Numbers of the layers to be probed, as reported; None: all.
    single
        Whether clips go through it one by one and quickly, so that a job has many.
    """

    open_encoder: Callable[[], Encoder]
    key: dict[str, object]
    batching: str
    largest: int = 8
    keeping: Keeping = field(default_factory=Keeping)
    asked: tuple[int, ...] | None = None
    single: bool = False

    def embeddings(self, items: Sequence[Item], cache: Cache) -> Embeddings:
        """Return the embeddings of some items, of which nothing is computed here."""
        return Embeddings(
            items,
            self.open_encoder,
            key=self.key,
            batching=self.batching,
            cache=cache,
            largest=self.largest,
            keeping=self.keeping,
        )

    def layer_set(self, items: Sequence[Item], cache: Cache, batch: int) -> LayerSet:
        """Return the layers to be probed, once all items are encoded; `batch` is the option of this name.

        Raises
        ------
        InputError
            Where there is no such layer.
        """
        embeddings = self.embeddings(items, cache)
        depth, kept = embeddings.depth(), self.keeping.layers
        layers = tuple(range(depth)) if self.asked is None else self.asked
        positions = (0,) if layers == (BASELINE,) else layers if kept is None else tuple(range(len(kept)))
        if positions[-1] >= depth:
            raise no_layer(positions[-1], depth)
        # In the order of the manifest, in which answers are kept too.
        key = sha256_json([embeddings.key, batch, [item.states or item.sha256 for item in items]])
        return LayerSet(source=self, embeddings=embeddings, layers=layers, positions=positions, key=key)


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens the encoder of a model, in whatever process it is called."""

    folder: ModelFolder
    device: str
    dtype: str
    random_seed: int | None = None

    def __call__(self) -> SpeechEncoder:
        return SpeechEncoder(self.folder, device=self.device, dtype=self.dtype, random_seed=self.random_seed)


def encoder_source(inputs: Inputs, options: Options, context: Context, *, random_seed: int | None = None) -> Source:
    """Return the encoder, or with a seed its untrained twin, or vectors in the place of one."""
    folder = inputs.folder
    if isinstance(folder, LayerVectors):
        return Source(
            open_encoder=StoredStates,
            key=StoredStates.key,
            batching=StoredStates.batching,
            keeping=_keeping(inputs, options, inputs.layers),
            asked=inputs.layers,
            single=True,
        )
    return Source(
        open_encoder=_Opener(folder, context.device, context.dtype, random_seed),
        key=encoder_key(folder, device=context.device, dtype=context.dtype, random_seed=random_seed),
        batching=batching_of(folder),
        largest=options.batch,
        keeping=_keeping(inputs, options, inputs.layers if inputs.depth is not None else None),
        asked=inputs.layers,
    )


def baseline_source(inputs: Inputs, options: Options) -> Source:
    """Return the log-mel baseline, layer -1."""
    return Source(
        open_encoder=LogMel,
        key=LogMel.key,
        batching=LogMel.batching,
        keeping=_keeping(inputs, options, None),
        asked=(BASELINE,),
        single=True,
    )


def _keeping(inputs: Inputs, options: Options, layers: tuple[int, ...] | None) -> Keeping:
    """Return what is kept of the states: all, or with `--frames sample:N` what this run needs alone."""
    if inputs.sample is None:
        return Keeping()
    drawn = tuple(inputs.sample.clips.tolist())
    return Keeping(items=drawn if "sid" in options.tasks else None, layers=layers)


def items_of(recordings: Sequence[Recording]) -> list[Item]:
    """Return the recordings as items of the embeddings' cache."""
    return [clip_item(item.clip, item.sha256, item.samples, item.decoder) for item in recordings]


def encoded_items(inputs: Inputs, options: Options, source: Source) -> list[Item]:
    """Return the recordings that a source encodes: where only the task asr asks, those that it is judged on."""
    recordings = inputs.recordings if "sid" in options.tasks else inputs.heard
    items = items_of(recordings)
    if source.open_encoder is not StoredStates or not isinstance(inputs.folder, LayerVectors):
        return items
    return [
        stored_item(item, inputs.folder, recording.key, recording.digest)
        for item, recording in zip(items, recordings, strict=True)
    ]


def encode(sources: Sequence[Source], inputs: Inputs, options: Options, context: Context) -> None:
    """Run the encoders over all recordings that are not cached, one forward pass a clip for all tasks."""
    jobs: list[tuple[Encoding, ...]] = []
    for source in sources:
        items = encoded_items(inputs, options, source)
        batches = source.embeddings(items, context.cache).encodings(frames="asr" in options.tasks)
        size = AT_ONCE if source.single else 1
        jobs += [tuple(batches[start : start + size]) for start in range(0, len(batches), size)]
    clips = sum(len(batch.items) for job in jobs for batch in job)
    with context.progress.phase("Encoding", clips, "clips") as advance:
        spread(
            encode_batches,
            jobs,
            made=lambda index: all(batch.present() for batch in jobs[index]),
            # Vectors are read, not computed: the table of their places is too large to be sent along.
            machines=alone(context.machines) if isinstance(inputs.folder, LayerVectors) else context.machines,
            things="batches of clips",
            done=lambda index: advance(sum(len(batch.items) for batch in jobs[index])),
        )


def absent() -> NoReturn:
    """Say that a worker lacks embeddings, which it does not compute."""
    raise AbsentError(
        "A worker cannot read the embeddings of all recordings.",
        where="--workers",
        hint="Run it again. Workers on other machines need the folder of MILES_CACHE under the same path.",
    )
