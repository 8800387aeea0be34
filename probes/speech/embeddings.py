"""Embeddings of a whole corpus, from one forward pass a clip, cached by content.

Clips are put into batches by length, always in the same way, and a batch is the unit of the cache: the
same clips give the same batches, the same bits, and after a kill only the missing batches are computed.
Frames are kept in float16, pooled vectors in float32; nothing of a corpus stays in memory.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.core.progress import Progress
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

    def read() -> Tensor:
        loaded = load_clip(clip)
        if (loaded.sha256, loaded.waveform.decoder) != (sha256, decoder):
            what = "recording" if loaded.sha256 != sha256 else "version of ffmpeg"
            raise InputError(f"The {what} changed while the audit ran.", where=clip.where, hint="Run it again.")
        return torch.from_numpy(loaded.waveform.samples)

    content = sha256 if clip.start is None else sha256_json([sha256, clip.start, clip.end])
    content = sha256_json([content, decoder]) if decoder else content
    return Item(sha256=content, samples=samples, read=read)


class Embeddings:
    """The embeddings of a list of items under one encoder.

    Parameters
    ----------
    open_encoder
        Makes the encoder; called only where something is missing in the cache.
    key
        What the encoder's states depend on besides the clips.
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
    ) -> None:
        self._items, self._open, self.key, self._cache = items, open_encoder, key, cache
        self._reopened: Encoder | None = None
        self.batches = plan_batches(items, batching, largest=largest)

    def missing(self, *, frames: bool) -> list[Batch]:
        """Return the batches that are not in the cache."""
        return [batch for batch in self.batches if not self._present(batch, frames)]

    def compute(self, progress: Progress, label: str, *, frames: bool) -> None:
        """Encode the missing batches; `frames` keeps their frames as well as pooled vectors."""
        todo = self.missing(frames=frames)
        with progress.phase(label, len(self._items), "clips") as advance:
            advance(len(self._items) - sum(len(batch.items) for batch in todo))
            if not todo:
                return
            encoder = self._open()
            for batch in todo:
                states = encoder.encode([self._items[index].read() for index in batch.items])
                if frames:
                    self._cache.write(FRAMES, self._key_of(batch), _frames_entry(states))
                self._cache.write(POOLED, self._key_of(batch), _pooled_entry(states, encoder))
                advance(len(batch.items))

    def depth(self) -> int:
        """Return the number of layers."""
        return int(self._entry(POOLED, self.batches[0])["pooled"].shape[1])

    def mean_seconds(self) -> float:
        """Return the mean length of the items, seconds at 16 kHz."""
        return sum(item.samples for item in self._items) / len(self._items) / 16000

    def pooled_width(self) -> int:
        """Return the width of a pooled vector."""
        return int(self._entry(POOLED, self.batches[0])["pooled"].shape[2])

    def frame_width(self) -> int:
        """Return the width of a frame."""
        return int(self.frames(self.batches[0])[0].shape[2])

    def pooled(self, positions: Sequence[int]) -> Tensor:
        """Return the pooled vectors of some layers for all items, shape (layers, items, width)."""
        rows: list[Tensor] = [torch.empty(0)] * len(self._items)
        for batch in self.batches:
            for index, vector in zip(batch.items, self._entry(POOLED, batch)["pooled"], strict=True):
                rows[index] = vector[list(positions)]
        return torch.stack(rows, dim=1)

    def heads(self) -> list[Tensor]:
        """Return the head's best symbol of every frame, one tensor an item; an empty list without a head."""
        rows: list[Tensor] = [torch.empty(0)] * len(self._items)
        for batch in self.batches:
            entry = self._entry(POOLED, batch)
            if "head" not in entry:
                return []
            for index, symbols in zip(batch.items, entry["head"].split(entry["head_counts"].tolist()), strict=True):
                rows[index] = symbols
        return rows

    def frames(self, batch: Batch) -> tuple[Tensor, list[int]]:
        """Return the frames of a batch end to end, float16 (layers, frames, width), and the number of each item's."""
        entry = self._entry(FRAMES, batch)
        return entry["frames"], entry["counts"].tolist()

    def _key_of(self, batch: Batch) -> list[object]:
        return [self.key, [self._items[index].states or self._items[index].sha256 for index in batch.items]]

    def _present(self, batch: Batch, frames: bool) -> bool:
        key = self._key_of(batch)
        return self._cache.has(POOLED, key) and (not frames or self._cache.has(FRAMES, key))

    def _entry(self, kind: str, batch: Batch) -> dict[str, Tensor]:
        def compute() -> dict[str, Tensor]:
            # The entry was cleared or damaged since: computed again, with the same bits.
            encoder = self._reopened = self._reopened or self._open()
            states = encoder.encode([self._items[index].read() for index in batch.items])
            return _frames_entry(states) if kind == FRAMES else _pooled_entry(states, encoder)

        return self._cache.memo(kind, self._key_of(batch), compute)


def _counts(states: Sequence[States]) -> Tensor:
    return torch.tensor([state.layers.shape[1] for state in states])


def _frames_entry(states: Sequence[States]) -> dict[str, Tensor]:
    frames = torch.cat([state.layers for state in states], dim=1)
    # float16 ends at 65504; the rare encoder beyond that keeps its range and loses precision instead.
    half = torch.float16 if frames.abs().max() < HALF_LARGEST else torch.bfloat16
    return {"frames": frames.to(half), "counts": _counts(states)}


def _pooled_entry(states: Sequence[States], encoder: Encoder) -> dict[str, Tensor]:
    entry = {"pooled": torch.stack([encoder.pool(state.layers) for state in states]), "counts": _counts(states)}
    heads = [state.head for state in states if state.head is not None]
    if heads:
        entry |= {"head": torch.cat(heads), "head_counts": torch.tensor([len(head) for head in heads])}
    return entry
