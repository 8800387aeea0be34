"""An encoder that encodes nothing: the states of a clip were computed elsewhere, and are read from a file."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from probes.speech.activations import States
from probes.speech.embeddings import Item
from probes.speech.layer_vectors import LayerVectors


class StoredStates:
    """Stand-in for a `SpeechEncoder`: an item is read as its stored states, not as sound.

    One clip is one batch. So the states and their order are those of an encoder that is given one clip at a time.
    """

    batching = "single"
    key: ClassVar[dict[str, object]] = {"encoder": "stored-states", "version": 1}

    def frames(self, samples: int) -> int:
        """Return 1: how many frames a clip has is known from its file alone."""
        return min(samples, 1)

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        """Return the states that were read, each of shape (layers, frames, width)."""
        return [States(wave) for wave in waves]

    def pool(self, layers: Tensor) -> Tensor:
        """Return the mean over frames, shape (layers, width)."""
        return layers.mean(dim=1)


def stored_item(item: Item, vectors: LayerVectors, key: str, digest: str) -> Item:
    """Return the item of a clip whose states stand in a file.

    Parameters
    ----------
    item
        The clip, as an encoder would be given it.
    digest
        Of the vectors, as of `LayerVectors.digest`: another clip of the same sound may have others.
    """
    return replace(item, read=lambda: torch.from_numpy(vectors.read(key)), states=digest)
