"""Embeddings of every phone token of a corpus, from one forward pass a clip, cached by content.

A batch of clips is the unit of the cache, as for whole clips; what is kept of it is one vector for each phone and
layer, so that a corpus takes a hundredth of what its frames would.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.cache import Cache
from probes.core.progress import Progress
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
        self._reopened: Encoder | None = None
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

    def compute(self, progress: Progress, label: str) -> None:
        """Run the encoder over the clips that are not in the cache."""
        todo = [batch for batch in self._batches if self._count(batch) and not self._present(batch)]
        with progress.phase(label, len(self._items), "clips") as advance:
            advance(len(self._items) - sum(len(batch.items) for batch in todo))
            if not todo:
                return
            encoder = self._open()
            for batch in todo:
                self._cache.write(PHONES, self._key_of(batch), self._encoded(batch, encoder))
                advance(len(batch.items))

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

    def _key_of(self, batch: Batch) -> list[object]:
        content = [
            [self._items[index].sha256, [[one.start, one.end] for one in self._phones[index]]] for index in batch.items
        ]
        return [self.key, content]

    def _present(self, batch: Batch) -> bool:
        return self._cache.has(PHONES, self._key_of(batch))

    def _encoded(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        states = encoder.encode([self._items[index].read() for index in batch.items])
        pooled = [
            pool_phones(state.layers, torch.from_numpy(self._centres[index]).float(), self._phones[index])
            for index, state in zip(batch.items, states, strict=True)
        ]
        return {str(layer): vectors for layer, vectors in enumerate(torch.cat(pooled, dim=1))}

    def _entry(self, batch: Batch) -> dict[str, Tensor]:
        def compute() -> dict[str, Tensor]:
            # The entry was cleared or damaged since: computed again, with the same bits.
            encoder = self._reopened = self._reopened or self._open()
            return self._encoded(batch, encoder)

        return self._cache.memo(PHONES, self._key_of(batch), compute)

    def _vectors(self, batch: Batch, layer: int) -> Tensor:
        found = self._cache.read_one(PHONES, self._key_of(batch), str(layer))
        return self._entry(batch)[str(layer)] if found is None else found
