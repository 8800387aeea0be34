"""Embeddings of texts by an encoder, none of which depends on the texts beside it.

One forward pass over a batch, padded on the right behind an exact mask, gives every text one vector. Texts of a
corpus are taken in chunks, and a chunk is the unit of the cache: a killed run goes on with the first missing one.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.holding import held
from probes.core.progress import Progress
from probes.core.spreading import Machines, alone, as_a_job, spread_entries
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
    found = Embeddings(spec, texts, reference=reference, device=device, dtype=dtype, batch=batch, cache=cache)
    found.write(progress, label, Machines())
    return found.read()


class Embeddings:
    """The embeddings of texts, written in chunks, each an entry of the cache; of equal texts there is one.

    Parameters
    ----------
    reference
        See `TextEncoder`.
    """

    def __init__(
        self,
        spec: TextEncoderSpec,
        texts: Sequence[str],
        *,
        reference: Sequence[str],
        device: str,
        dtype: str,
        batch: int,
        cache: Cache,
    ) -> None:
        self._texts, self._cache = texts, cache
        key = _key(spec, reference, device, dtype)
        self._jobs = [
            _Job(
                spec=spec,
                texts=tuple(chunk),
                reference=reference if spec.folder is None else (),
                key=[key, sha256_json(chunk)],
                device=device,
                dtype=dtype,
                batch=batch,
                cache=cache,
            )
            for chunk in _chunks(list(dict.fromkeys(texts)))
        ]
        self._weak = spec.weak

    def write(self, progress: Progress, label: str, machines: Machines) -> None:
        """Write the chunks that are missing, or those of this run's part; those of `tfidf` in this process.

        Raises
        ------
        InputError, IncompleteError
            As of `TextEncoder`; and where a worker is lost or the cache cannot be written.
        """
        # What it knows of the reference is more to send than it is to compute.
        machines = alone(machines) if self._weak else machines
        with progress.phase(label, sum(len(job.texts) for job in self._jobs), "texts") as advance:
            spread_entries(
                _encoded, self._jobs, KIND, machines, "batches of texts", lambda job: advance(len(job.texts))
            )

    def read(self) -> Encoded:
        """Return the vectors, shape (n, width), in the order of the texts; a chunk that was damaged is made again."""
        if not self._texts:
            return Encoded(vectors=np.zeros((0, 0), dtype=np.float32), cut=np.zeros(0, dtype=np.bool_))
        with as_a_job():
            entries = [self._cache.memo_arrays(KIND, job.key, partial(_encoded, job)) for job in self._jobs]
        indices = {text: index for index, text in enumerate(text for job in self._jobs for text in job.texts)}
        rows = [indices[text] for text in self._texts]
        vectors, cut = (np.concatenate([entry[name] for entry in entries]) for name in ("vectors", "shortened"))
        return Encoded(vectors=vectors[rows], cut=cut[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A chunk of texts."""

    spec: TextEncoderSpec
    texts: tuple[str, ...]
    reference: Sequence[str]
    key: list[Any]
    device: str
    dtype: str
    batch: int
    cache: Cache


def _encoded(job: _Job) -> dict[str, NDArray[Any]]:
    folder = "" if job.spec.folder is None else str(job.spec.folder.path)
    encoder = held(
        ["text encoder", folder, job.key[0], job.device, job.dtype, job.batch],
        lambda: TextEncoder(job.spec, reference=job.reference, device=job.device, dtype=job.dtype, batch=job.batch),
    )
    vectors, shortened = encoder.encode_each(job.texts)
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
