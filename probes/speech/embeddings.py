"""Embeddings of a whole corpus, from one forward pass a clip, cached by content.

Clips are put into batches by length, always in the same way, and a batch is the unit of the cache: the
same clips give the same batches, the same bits, and after a kill only the missing batches are computed.
Frames are kept in float16, pooled vectors in float32; nothing of a corpus stays in memory. Frames are most of what is
kept: a corpus that is too large for them may keep those of some clips and layers alone.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.core.holding import held
from probes.core.progress import Progress
from probes.core.spreading import entry_of
from probes.speech.activations import Encoder, States
from probes.speech.audio import load_clip
from probes.speech.manifests import Clip

POOLED = "pooled-embeddings"
FRAMES = "frame-embeddings"
HALF_LARGEST = 60000.0
PADDED_STEP = 1600


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A clip to be encoded: content hash, number of samples at 16 kHz, and a function that reads it.

    `states` is what its states depend on besides its content and the encoder's key; empty where that is all.
    """

    sha256: str
    samples: int
    read: Callable[[], Tensor]
    states: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Indices of the items that go through the encoder together."""

    items: tuple[int, ...]


def plan_batches(items: Sequence[Item], batching: str, *, largest: int = 8) -> list[Batch]:
    """Plan batches that depend on the set of clips and not on their order.

    Parameters
    ----------
    batching
        "equal" joins only clips of exactly the same length, "padded" clips within 0.1 s of each other,
        "fixed" any clips, "single" none.
    """
    steps = {"equal": 1, "padded": PADDED_STEP, "fixed": sys.maxsize}
    step = steps.get(batching, 1)
    largest = largest if batching in steps else 1
    order = sorted(range(len(items)), key=lambda index: (items[index].samples, items[index].sha256))
    batches: list[Batch] = []
    current: list[int] = []
    for index in order:
        other = current and items[current[0]].samples // step != items[index].samples // step
        if other or len(current) >= largest:
            batches.append(Batch(tuple(current)))
            current = []
        current.append(index)
    return [*batches, Batch(tuple(current))] if current else batches


def clip_item(clip: Clip, sha256: str, samples: int, decoder: str = "") -> Item:
    """Return the item of a clip, which is read again whenever it is encoded.

    Parameters
    ----------
    sha256, samples
        Of the clip's whole file, and of the clip at 16 kHz, as they were when the inputs were checked.
    decoder
        What decoded it, where that is not libsndfile: another version may find other samples in the same file.
    """

    content = sha256 if clip.start is None else sha256_json([sha256, clip.start, clip.end])
    content = sha256_json([content, decoder]) if decoder else content
    return Item(sha256=content, samples=samples, read=partial(_read_again, clip, sha256, decoder))


def _read_again(clip: Clip, sha256: str, decoder: str) -> Tensor:
    loaded = load_clip(clip)
    if (loaded.sha256, loaded.waveform.decoder) != (sha256, decoder):
        what = "recording" if loaded.sha256 != sha256 else "version of ffmpeg"
        raise InputError(f"The {what} changed while the audit ran.", where=clip.where, hint="Run it again.")
    return torch.from_numpy(loaded.waveform.samples)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept of the states of clips.

    Parameters
    ----------
    items
        Numbers of the items whose frames are kept, in order; None: all.
    layers
        Positions of the layers that are kept, of frames and of pooled vectors; None: all.
    """

    items: tuple[int, ...] | None = None
    layers: tuple[int, ...] | None = None

    def of(self, layers: Tensor) -> Tensor:
        """Return the layers that are kept, of a tensor whose first axis they are.

        Raises
        ------
        InputError
            Where the encoder has not so many.
        """
        if self.layers is None:
            return layers
        if self.layers[-1] >= len(layers):
            raise no_layer(self.layers[-1], len(layers))
        return layers[list(self.layers)]


def no_layer(number: int, depth: int) -> InputError:
    """Return the refusal of a layer that an encoder of so many layers does not have."""
    return InputError(
        f"There is no layer {number}: the encoder has layers 0 to {depth - 1}.",
        where="--layers",
        hint=f"Give numbers from 0 to {depth - 1}, or all.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A batch of clips with all that it takes to encode it: small enough to be sent to a worker.

    Parameters
    ----------
    open_encoder, key
        Makes the encoder; and what its states depend on besides the clips.
    framed
        Places in the batch of the clips whose frames are kept.
    keeping
        Of which layers.
    """

    items: tuple[Item, ...]
    open_encoder: Callable[[], Encoder]
    key: Mapping[str, object]
    cache: Cache
    framed: tuple[int, ...]
    keeping: Keeping

    @property
    def _pooled_key(self) -> list[object]:
        return [self.key, [item.states or item.sha256 for item in self.items]]

    @property
    def _frames_key(self) -> list[object]:
        return [*self._pooled_key, *([] if len(self.framed) == len(self.items) else [list(self.framed)])]

    def present(self) -> bool:
        """Tell whether all that is kept of it is in the cache."""
        if self.framed and not self.cache.has(FRAMES, self._frames_key):
            return False
        return self.cache.has(POOLED, self._pooled_key)

    def write(self, encoder: Encoder) -> None:
        """Encode the clips and write what is kept of them to the cache."""
        states = self._states(encoder)
        if self.framed:
            self.cache.write(FRAMES, self._frames_key, self._frames(states))
        self.cache.write(POOLED, self._pooled_key, self._pooled(states, encoder))

    def pooled(self, encoder: Callable[[], Encoder]) -> dict[str, Tensor]:
        """Return pooled vectors, frame counts and the symbols of a head, computed again where the entry is damaged."""
        return entry_of(self.cache, POOLED, self._pooled_key, lambda: self._again(encoder, frames=False))

    def frames(self, encoder: Callable[[], Encoder]) -> dict[str, Tensor]:
        """Return frames and their counts, computed again where the entry is damaged."""
        return entry_of(self.cache, FRAMES, self._frames_key, lambda: self._again(encoder, frames=True))

    def _again(self, open_encoder: Callable[[], Encoder], *, frames: bool) -> dict[str, Tensor]:
        encoder = open_encoder()
        states = self._states(encoder)
        return self._frames(states) if frames else self._pooled(states, encoder)

    def _states(self, encoder: Encoder) -> list[States]:
        return encoder.encode([item.read() for item in self.items])

    def _frames(self, states: Sequence[States]) -> dict[str, Tensor]:
        kept = [states[place] for place in self.framed]
        frames = torch.cat([self.keeping.of(state.layers) for state in kept], dim=1)
        # float16 ends at 65504; the rare encoder beyond that keeps its range and loses precision instead.
        half = torch.float16 if frames.abs().max() < HALF_LARGEST else torch.bfloat16
        return {"frames": frames.to(half), "counts": _counts(kept)}

    def _pooled(self, states: Sequence[States], encoder: Encoder) -> dict[str, Tensor]:
        pooled = torch.stack([self.keeping.of(encoder.pool(state.layers)) for state in states])
        entry = {"pooled": pooled, "counts": _counts(states)}
        heads = [state.head for state in states if state.head is not None]
        if heads:
            entry |= {"head": torch.cat(heads), "head_counts": torch.tensor([len(head) for head in heads])}
        return entry


def encode_batches(batches: Sequence[Encoding]) -> None:
    """Encode the batches that are missing in the cache, with the encoder that this process holds."""
    for batch in batches:
        if not batch.present():
            batch.write(held(batch.key, batch.open_encoder))


def _counts(states: Sequence[States]) -> Tensor:
    return torch.tensor([state.layers.shape[1] for state in states])


class Embeddings:
    """The embeddings of a list of items under one encoder.

    Parameters
    ----------
    open_encoder
        Makes the encoder; called only where something is missing in the cache.
    key
        What the encoder's states depend on besides the clips.
    keeping
        What is kept of the states. Batches, and so the states themselves, are the same whatever it is.

    Attributes
    ----------
    items
        The clips.
    framed
        Numbers of the items whose frames are kept, in order.
    frame_batches
        Batches of these, which are numbered among themselves from 0.
    """

    def __init__(
        self,
        items: Sequence[Item],
        open_encoder: Callable[[], Encoder],
        *,
        key: dict[str, object],
        batching: str,
        cache: Cache,
        largest: int = 8,
        keeping: Keeping = Keeping(),
    ) -> None:
        self.items, self._open, self._cache, self._keeping = items, open_encoder, cache, keeping
        self.key = key if keeping.layers is None else {**key, "layers": list(keeping.layers)}
        self._reopened: Encoder | None = None
        self.batches = plan_batches(items, batching, largest=largest)
        self.framed = tuple(range(len(items))) if keeping.items is None else keeping.items
        number_of = self._number_of = {item: number for number, item in enumerate(self.framed)}
        # By the numbers of its framed items, the batch that went through the encoder.
        self._whole = {
            tuple(number_of[item] for item in batch.items if item in number_of): batch for batch in self.batches
        }
        self.frame_batches = [Batch(items) for items in self._whole if items]

    def encodings(self, *, frames: bool) -> list[Encoding]:
        """Return the batches, in order, as what encodes them; `frames` keeps frames as well as pooled vectors."""
        return [self._encoding(batch, frames=frames) for batch in self.batches]

    def _encoding(self, batch: Batch, *, frames: bool) -> Encoding:
        every = self._keeping.items is None
        places = [place for place, item in enumerate(batch.items) if every or item in self._number_of] if frames else []
        return Encoding(
            items=tuple(self.items[index] for index in batch.items),
            open_encoder=self._open,
            key=self.key,
            cache=self._cache,
            framed=tuple(places),
            # Which clips are framed stands in the places: the numbers of all would be sent along.
            keeping=Keeping(layers=self._keeping.layers),
        )

    def compute(self, progress: Progress, label: str, *, frames: bool) -> None:
        """Encode the missing batches in this process; `frames` keeps their frames as well as pooled vectors."""
        todo = [batch for batch in self.encodings(frames=frames) if not batch.present()]
        with progress.phase(label, len(self.items), "clips") as advance:
            advance(len(self.items) - sum(len(batch.items) for batch in todo))
            encoder = self._open() if todo else None
            for batch in todo:
                assert encoder is not None
                batch.write(encoder)
                advance(len(batch.items))

    def _opened(self) -> Encoder:
        encoder = self._reopened = self._reopened or self._open()
        return encoder

    def depth(self) -> int:
        """Return the number of layers that are kept."""
        return int(self._pooled(self.batches[0])["pooled"].shape[1])

    def mean_seconds(self) -> float:
        """Return the mean length of the items, seconds at 16 kHz."""
        return sum(item.samples for item in self.items) / len(self.items) / 16000

    def pooled_width(self) -> int:
        """Return the width of a pooled vector."""
        return int(self._pooled(self.batches[0])["pooled"].shape[2])

    def frame_width(self) -> int:
        """Return the width of a frame."""
        return int(self.frames(self.frame_batches[0])[0].shape[2])

    def pooled(self, positions: Sequence[int]) -> Tensor:
        """Return the pooled vectors of some of the layers for all items, shape (layers, items, width).

        They are read batch by batch into their place, and nothing else is held.
        """
        found = torch.empty((len(positions), len(self.items), self.pooled_width()))
        for batch in self.batches:
            vectors = self._pooled(batch)["pooled"]
            found[:, list(batch.items)] = vectors[:, list(positions)].transpose(0, 1)
        return found

    def heads(self) -> list[Tensor]:
        """Return the head's best symbol of every frame, one tensor an item; an empty list without a head."""
        rows: list[Tensor] = [torch.empty(0)] * len(self.items)
        for batch in self.batches:
            entry = self._pooled(batch)
            if "head" not in entry:
                return []
            for index, symbols in zip(batch.items, entry["head"].split(entry["head_counts"].tolist()), strict=True):
                rows[index] = symbols
        return rows

    def frames(self, batch: Batch) -> tuple[Tensor, list[int]]:
        """Return the frames of one of `frame_batches`, and the number of each item's.

        They stand end to end, float16 (layers, frames, width).
        """
        entry = self._encoding(self._whole[batch.items], frames=True).frames(self._opened)
        return entry["frames"], entry["counts"].tolist()

    def _pooled(self, batch: Batch) -> dict[str, Tensor]:
        return self._encoding(batch, frames=False).pooled(self._opened)
