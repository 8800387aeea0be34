"""Embeddings of every phone token of a corpus, from one forward pass a clip, cached by content.

A batch of clips is the unit of the cache, as for whole clips; what is kept of it is one vector for each phone and
layer, so that a corpus takes a hundredth of what its frames would.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.cache import Cache
from probes.core.holding import held
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.speech.activations import Encoder
from probes.speech.embeddings import Batch, Item, plan_batches
from probes.speech.phones import PhoneInterval, pool_phones

PHONES = "phone-embeddings"


class PhoneEmbeddings:
    """The vectors of all phone tokens of some clips under one encoder, layer by layer.

    Tokens come in the order of `tokens`, which follows the batches and not the list of clips.

    Parameters
    ----------
    phones
        Phone intervals of each item.
    centres
        Middle of each item's frames, seconds, shape (frames,).
    open_encoder
        Makes the encoder; called only where something is missing in the cache.
    key
        What the encoder's states depend on besides the clips.
    """

    def __init__(
        self,
        items: Sequence[Item],
        phones: Sequence[Sequence[PhoneInterval]],
        centres: Sequence[NDArray[np.float64]],
        open_encoder: Callable[[], Encoder],
        *,
        key: dict[str, object],
        batching: str,
        cache: Cache,
        largest: int = 8,
    ) -> None:
        self._items, self._phones, self._centres = items, phones, centres
        self._open, self.key, self._cache = open_encoder, key, cache
        self._batches = plan_batches(items, batching, largest=largest)
        self.tokens = [
            (index, number) for batch in self._batches for index in batch.items for number in range(len(phones[index]))
        ]

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the encoder's layers, 0 being the input of the first transformer block."""
        first = next(batch for batch in self._batches if self._count(batch))
        return tuple(range(len(self._entry(first))))

    def width(self, layer: int) -> int:
        """Return the width of a layer's vectors."""
        first = next(batch for batch in self._batches if self._count(batch))
        return int(self._vectors(first, layer).shape[1])

    def compute(self, progress: Progress, label: str, machines: Machines | None = None) -> None:
        """Run the encoder over the clips that are not in the cache, or over those of this run's part."""
        jobs = [self._job(batch) for batch in self._batches if self._count(batch)]
        with progress.phase(label, sum(len(job.items) for job in jobs), "clips") as advance:
            spread_entries(
                _encoded, jobs, PHONES, machines or Machines(), "batches of clips", lambda job: advance(len(job.items))
            )

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of one layer in the order of `tokens`, at most `size` at once, shape (tokens, width)."""
        held: list[Tensor] = []
        count = 0
        for batch in self._batches:
            if not self._count(batch):
                continue
            vectors = self._vectors(batch, layer)
            held.append(vectors)
            count += len(vectors)
            while count >= size:
                joined = torch.cat(held)
                yield joined[:size].numpy()
                held, count = [joined[size:]], count - size
        if count:
            yield torch.cat(held).numpy()

    def _count(self, batch: Batch) -> int:
        return sum(len(self._phones[index]) for index in batch.items)

    def _job(self, batch: Batch) -> "_Job":
        return _Job(
            items=tuple(self._items[index] for index in batch.items),
            phones=tuple(tuple(self._phones[index]) for index in batch.items),
            centres=tuple(self._centres[index] for index in batch.items),
            open_encoder=self._open,
            encoder=self.key,
            cache=self._cache,
        )

    def _entry(self, batch: Batch) -> dict[str, Tensor]:
        # An entry that was cleared or damaged since is computed again, with the same bits.
        return read_entry(_encoded, self._job(batch), PHONES)

    def _vectors(self, batch: Batch, layer: int) -> Tensor:
        found = self._cache.read_one(PHONES, self._job(batch).key, str(layer))
        return self._entry(batch)[str(layer)] if found is None else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    """A batch of clips with their phones, and what it takes to encode them: small enough to be sent to a worker."""

    items: tuple[Item, ...]
    phones: tuple[tuple[PhoneInterval, ...], ...]
    centres: tuple[NDArray[np.float64], ...]
    open_encoder: Callable[[], Encoder]
    encoder: dict[str, object]
    cache: Cache

    @property
    def key(self) -> list[object]:
        """All that the vectors depend on."""
        pairs = zip(self.items, self.phones, strict=True)
        return [self.encoder, [[item.sha256, [[one.start, one.end] for one in phones]] for item, phones in pairs]]


def _encoded(job: _Job) -> dict[str, Tensor]:
    states = held(job.encoder, job.open_encoder).encode([item.read() for item in job.items])
    pooled = [
        pool_phones(state.layers, torch.from_numpy(centres).float(), phones)
        for state, centres, phones in zip(states, job.centres, job.phones, strict=True)
    ]
    return {str(layer): vectors for layer, vectors in enumerate(torch.cat(pooled, dim=1))}
