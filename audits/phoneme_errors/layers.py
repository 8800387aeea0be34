"""The measurement of each layer, from vectors to counts by speaker, cached by content."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from audits.core.context import Context
from audits.phoneme_errors import Options
from audits.phoneme_errors.corpus import Corpus
from audits.phoneme_errors.tokens import Vectors
from audits.phoneme_errors.values import LayerCounts, Values
from audits.statistics import generator
from probes.core.progress import Advance
from probes.speech.phone_probes import Hits, affordable, fit_and_count, make_design, mean_hits
from probes.speech.phone_scatter import Scatter, measure_scatter
from probes.speech.token_moments import phone_moments, standardisation

STATISTICS = "phone-statistics"
CHUNK_VALUES = 2**24
"""Numbers that are read at once, 64 MB: 21,845 tokens of a layer 768 wide."""
_VERSION = 9
"""Raised whenever what is measured changes, so that no old counts are read from the cache."""
PROBE_WORDS = {"logistic": "softmax probe", "discriminant": "linear discriminant"}


def probe_of(vectors: Vectors, layers: tuple[int, ...], corpus: Corpus, options: Options) -> str:
    """Return the probe to use: the one asked for, or softmax regression where that takes minutes at most."""
    if options.probe != "auto":
        return options.probe
    widest = max(vectors.width(layer) for layer in layers)
    fits = options.folds * options.repeats * len(layers)
    cheap = affordable(corpus.used, widest, len(corpus.phone_names), len(corpus.groups), fits)
    return "logistic" if cheap else "discriminant"


def measure_layers(
    vectors: Vectors,
    layers: tuple[int, ...],
    corpus: Corpus,
    method: str,
    key: object,
    options: Options,
    context: Context,
    *,
    unchanged: Callable[[], None] = lambda: None,
) -> tuple[Values, ...]:
    """Measure every layer, or take its counts from the cache.

    Parameters
    ----------
    key
        What the vectors depend on.
    unchanged
        Raises where that is no longer what the vectors are read from; asked before anything is kept.
    """
    settings = [method, context.seed, options.folds, options.repeats, options.weights]
    content = [_VERSION, key, *settings, _identity(corpus)]
    found = []
    steps = 3 + options.repeats
    with context.progress.phase("Reading the phones of each layer", steps * len(layers), "steps") as advance:
        for layer in layers:
            kept = context.cache.read(STATISTICS, [*content, layer])
            if kept is None:
                counts = _measure_layer(vectors, layer, corpus, method, options, context, advance)
                unchanged()
                context.cache.write(STATISTICS, [*content, layer], _packed(counts))
            else:
                counts = _unpacked(layer, kept)
                advance(steps)
            found.append(counts)
    return tuple(Values(counts, corpus, mix_of(corpus, options), PROBE_WORDS[method]) for counts in found)


def mix_of(corpus: Corpus, options: Options) -> NDArray[np.float64]:
    """Return the shares of the phones that every accuracy is stated for, shape (phones,)."""
    counts = np.bincount(corpus.phones[corpus.phones >= 0], minlength=len(corpus.phone_names)).astype(np.float64)
    wanted = np.ones_like(counts) if options.weights == "phones" else counts
    shares: NDArray[np.float64] = wanted / wanted.sum()
    return shares


def _identity(corpus: Corpus) -> str:
    digest = sha256()
    for part in (corpus.phones, corpus.speakers, corpus.member, corpus.rest, corpus.home, corpus.people):
        digest.update(f"{part.shape} {part.dtype}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _measure_layer(
    vectors: Vectors,
    layer: int,
    corpus: Corpus,
    method: str,
    options: Options,
    context: Context,
    advance: Advance,
) -> LayerCounts:
    used = corpus.phones >= 0

    def chunks() -> Iterator[NDArray[np.float32]]:
        for part in vectors.chunks(layer, max(CHUNK_VALUES // vectors.width(layer), 1)):
            # No progress yet, but this lets an interrupt through.
            advance(0)
            yield part

    standard = standardisation(lambda: _taking_part(chunks(), used))
    advance(1)
    scatters = []
    for cosine in (False, True):
        moments = phone_moments(
            chunks, standard, corpus.speakers, corpus.phones, np.arange(len(corpus.phone_names)), cosine=cosine
        )
        scatters.append(measure_scatter(moments, corpus.member, corpus.rest, corpus.home))
        advance(1)
    draws: list[NDArray[np.float64]] = []

    def read(repeat: int) -> Hits:
        # The same in every layer and encoder, so that these are compared on the same folds and matched tokens.
        rng = generator(context.seed, "folds", str(repeat))
        design = make_design(
            corpus.phones,
            corpus.speakers,
            corpus.member,
            options.folds,
            rng,
            people=corpus.people,
            mix=mix_of(corpus, options),
        )
        found = fit_and_count(design, chunks, standard, method=method)
        draws.append(_summed(found, corpus))
        advance(1)
        return found

    hits = mean_hits(read(repeat) for repeat in range(options.repeats))
    return LayerCounts(
        layer=layer,
        scatter=scatters[0],
        cosine=scatters[1],
        hits=hits,
        draws=np.stack(draws),
    )


def _summed(hits: Hits, corpus: Corpus) -> NDArray[np.float64]:
    """Return the correctly read tokens of one repetition, as in `LayerCounts.draws`."""
    rows = [hits.everyone.sum(0)]
    for group, (inside, rest) in enumerate(zip(corpus.member, corpus.rest, strict=True)):
        own = (hits.everyone, hits.matched[group], hits.inside[group], hits.outside[group])
        rows += [kind[inside].sum(0) for kind in own]
        rows.append(hits.matched[group][rest].sum(0))
    return np.stack(rows)


def _taking_part(chunks: Iterator[NDArray[np.float32]], used: NDArray[np.bool_]) -> Iterator[NDArray[np.float32]]:
    read = 0
    for part in chunks:
        yield part[used[read : read + len(part)]]
        read += len(part)


def _packed(counts: LayerCounts) -> dict[str, torch.Tensor]:
    parts: dict[str, Scatter | Hits] = {"scatter": counts.scatter, "cosine": counts.cosine, "hits": counts.hits}
    found = {"draws": torch.from_numpy(counts.draws)}
    for name, record in parts.items():
        for item in fields(record):
            found[f"{name}.{item.name}"] = torch.as_tensor(np.asarray(getattr(record, item.name), dtype=np.float64))
    return found


def _unpacked(layer: int, kept: dict[str, torch.Tensor]) -> LayerCounts:
    def arrays(name: str) -> dict[str, NDArray[np.float64]]:
        return {key.partition(".")[2]: kept[key].numpy() for key in kept if key.startswith(f"{name}.")}

    def scatter(name: str) -> Scatter:
        found: dict[str, Any] = dict(arrays(name))
        return Scatter(**found | {"total": float(found["total"]), "phones": int(found["phones"])})

    return LayerCounts(
        layer=layer,
        scatter=scatter("scatter"),
        cosine=scatter("cosine"),
        hits=Hits(**arrays("hits")),
        draws=kept["draws"].numpy(),
    )
