"""Embeddings of texts by an encoder, none of which depends on the texts beside it.

One forward pass over a batch, padded on the right behind an exact mask, gives every text one vector. Texts of a
corpus are taken in chunks, and a chunk is the unit of the cache: a killed run goes on with the first missing one.
"""

import functools
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.progress import Progress
from probes.models.checkpoints import ModelFolder
from probes.texts.text_encoders import TextEncoderSpec
from probes.texts.tfidf import TfIdf

if TYPE_CHECKING:
    from probes.texts.transformer_encoder import Transformer

KIND = "text-embeddings"
CHUNK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Vectors, shape (n, width), in the order of the texts, and whether each text was cut."""

    vectors: NDArray[np.float32]
    cut: NDArray[np.bool_]

    @property
    def shortened(self) -> int:
        """Number of texts that were cut."""
        return int(self.cut.sum())


class TextEncoder:
    """An encoder of texts, loaded.

    Parameters
    ----------
    reference
        The texts that `tfidf` takes the rarity of words from; other encoders do not look at them.
    batch
        Texts that go through the model together.

    Raises
    ------
    InputError
        Where the folder's model or tokenizer cannot be loaded.
    """

    def __init__(
        self, spec: TextEncoderSpec, *, reference: Sequence[str], device: str, dtype: str, batch: int = 32
    ) -> None:
        self.spec = spec
        self._encoder: TfIdf | Transformer
        if spec.folder is None:
            self._encoder = TfIdf([_clean(text) for text in reference])
            self.parameters = 0
        else:
            self._encoder = _transformer(spec, spec.folder, device, dtype, batch)
            self.parameters = self._encoder.parameters
        self.width = self._encoder.width

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors of texts; a text without any token is encoded as the beginning or end mark alone.

        Raises
        ------
        InputError
            Where a state is not finite, or there is no such mark.
        IncompleteError
            Where the device runs out of memory.
        """
        vectors, cut = self.encode_each(texts)
        return Encoded(vectors=vectors, cut=cut)

    def encode_each(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the vectors of texts as `encode` does, and whether each text was cut."""
        plain = [_clean(text) for text in texts]
        if isinstance(self._encoder, TfIdf):
            return self._encoder.encode(plain), np.zeros(len(plain), dtype=np.bool_)
        return self._encoder.encode(plain)


def encode_all(
    spec: TextEncoderSpec,
    texts: Sequence[str],
    *,
    reference: Sequence[str],
    device: str,
    dtype: str,
    batch: int,
    cache: Cache,
    progress: Progress,
    label: str,
) -> Encoded:
    """Encode texts, shape (n, width), computing only what is not in the cache, and each distinct text once.

    Parameters
    ----------
    reference
        See `TextEncoder`.
    label
        Name of the phase in `progress`.

    Raises
    ------
    InputError, IncompleteError
        As of `TextEncoder`.
    """
    distinct = list(dict.fromkeys(texts))
    chunks = list(_chunks(distinct))
    key = _key(spec, reference, device, dtype)
    encoder = functools.cache(partial(TextEncoder, spec, reference=reference, device=device, dtype=dtype, batch=batch))
    vectors, cut = list[NDArray[np.float32]](), list[NDArray[np.bool_]]()
    with progress.phase(label, len(distinct), "texts") as advance:
        for chunk in chunks:
            entry = cache.memo_arrays(KIND, [key, sha256_json(chunk)], partial(_encoded, encoder, chunk))
            vectors.append(entry["vectors"])
            cut.append(entry["shortened"])
            advance(len(chunk))
    if not texts:
        return Encoded(vectors=np.zeros((0, 0), dtype=np.float32), cut=np.zeros(0, dtype=np.bool_))
    indices = {text: index for index, text in enumerate(text for chunk in chunks for text in chunk)}
    rows = [indices[text] for text in texts]
    return Encoded(vectors=np.concatenate(vectors)[rows], cut=np.concatenate(cut)[rows])


def _encoded(encoder: Callable[[], TextEncoder], chunk: Sequence[str]) -> dict[str, NDArray[Any]]:
    vectors, shortened = encoder().encode_each(chunk)
    return {"vectors": vectors, "shortened": shortened}


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield chunks of texts; those that differ only in case, accents or white space share one.

    Many tokenizers give such texts the same tokens; in different batches rounding would give them different vectors.
    """
    groups: dict[str, list[str]] = {}
    for text in texts:
        bare = unicodedata.normalize("NFKD", text.casefold())
        folded = "".join(letter for letter in bare if not unicodedata.combining(letter))
        groups.setdefault(" ".join(folded.split()), []).append(text)
    chunk: list[str] = []
    for group in groups.values():
        if chunk and len(chunk) + len(group) > CHUNK:
            yield chunk
            chunk = []
        chunk += group
    if chunk:
        yield chunk


def _key(spec: TextEncoderSpec, reference: Sequence[str], device: str, dtype: str) -> dict[str, object]:
    if spec.folder is None:
        packages = {name: version(name) for name in ("scikit-learn", "numpy")}
        return {**spec.key, **packages, "reference": sha256_json(sorted(reference))}
    packages = {name: version(name) for name in ("torch", "transformers", "tokenizers")}
    return {**spec.key, **packages, "device": device.partition(":")[0], "dtype": dtype}


def _transformer(spec: TextEncoderSpec, folder: ModelFolder, device: str, dtype: str, batch: int) -> "Transformer":
    # With torch behind it, which tf-idf does not need.
    from probes.texts.transformer_encoder import Transformer

    return Transformer(spec, folder, device=device, dtype=dtype, batch=batch)


def _clean(text: str) -> str:
    # Half a surrogate pair, which JSON can hold, has no UTF-8 form, and tokenizers refuse it.
    return text.encode("utf-8", "replace").decode("utf-8")
