"""Jobs of the interference matrix: each trains one model on some languages and keeps its held-out losses.

A finished model is a small JSON under the hash of its whole configuration: no weights, but the nats of every held-out
sentence, from which all numbers of the matrix are made. Whoever asks for it again, here or elsewhere, trains nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.language_models.language_corpora import read_language
from probes.language_models.masked_lm import MaskedLM
from probes.language_models.masked_models import read_masked_model
from probes.language_models.masked_training import CURVE, Recipe, held_positions, score, train
from probes.language_models.model_results import Results
from probes.language_models.text_tokenizers import BYTES, Tokenizer, read_tokenizer
from probes.language_models.token_windows import Windows, cut_windows

VERSION = 2
"""Raised whenever training or scoring changes, so that no model made otherwise is taken for these."""
_TEXTS = "language-windows"
TRAINED, DIVERGED = "trained", "diverged"
_MOST_NATS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The small encoder: layers, width of a state, attention heads, tokens of its front end (0: none)."""

    layers: int
    width: int
    heads: int
    front: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Folder and division of the languages' texts.

    Parameters
    ----------
    hashes
        SHA-256 of each language's file, by code.
    seed, train_bytes, held_bytes
        Settings that decide which sentences are held out and, of a large file, which are trained on.
    tokenizer, tokenizer_hash
        A tokenizer.json, None for bytes; its SHA-256.
    window
        Tokens that are read together.
    """

    folder: Path
    hashes: Mapping[str, str]
    seed: int
    train_bytes: int
    held_bytes: int
    tokenizer: Path | None
    tokenizer_hash: str
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Job of one model: training languages, settings, and where its losses are kept; small enough to send anywhere.

    Parameters
    ----------
    codes
        Languages that it is trained on, sorted.
    scored
        Languages that it is scored on.
    seed
        Of initial weights, order and hidden tokens.
    start, start_hash
        A folder of an encoder to begin from, in the place of `sizes`, and its hash.
    """

    codes: tuple[str, ...]
    scored: tuple[str, ...]
    seed: int
    corpus: Corpus
    recipe: Recipe
    sizes: Sizes | None
    start: str | None
    start_hash: str
    device: str
    dtype: str
    cache: Cache
    results: Results

    @property
    def key(self) -> dict[str, Any]:
        """Everything that the losses depend on; no path is among it, and no other language."""
        corpus = self.corpus
        used = sorted({*self.codes, *self.scored})
        return {
            "version": VERSION,
            "torch": version("torch"),
            "trained_on": list(self.codes),
            "scored_on": list(self.scored),
            "texts": {code: corpus.hashes[code] for code in used},
            "division": [corpus.seed, corpus.train_bytes, corpus.held_bytes],
            "tokenizer": corpus.tokenizer_hash,
            "window": corpus.window,
            "recipe": asdict(self.recipe),
            "sizes": asdict(self.sizes) if self.sizes else None,
            "start": self.start_hash,
            "seed": self.seed,
            "device": self.device.partition(":")[0],
            # Scoring is in float32, whatever was trained in.
            "dtype": self.dtype if self.recipe.steps else "float32",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Facts of a held-out text: hidden tokens of each sentence, tokens a byte, share of unknown tokens."""

    masked: tuple[int, ...]
    tokens_per_byte: float
    unknown: float


def fit(job: Job) -> str:
    """Train and score one model unless its result exists; return "trained" or "diverged".

    Raises
    ------
    InputError
        Where a text or a model can no longer be read as it could when the job was made.
    IncompleteError
        Where there is no room for what it scored.
    """
    found = None
    # The facts that a result is checked against are expensive: they are computed only where there is one.
    if job.results.has(job.key):
        tokenizer = _network(job)[1] if job.start is not None else tokenizer_of(job.corpus)
        held = {code: held_of(job, code, tokenizer) for code in job.scored}
        found = job.results.read(job.key, lambda value: check_value(value, job, held))
    if found is None:
        found = measure(job)
        job.results.write(job.key, found)
    return str(found["status"])


def held_of(job: Job, code: str, tokenizer: Tokenizer) -> Held:
    """Compute the facts of a language's held-out text, which need no model."""
    held = windows_of(job.corpus, code, tokenizer, job.cache)[1]
    positions = held_positions(held, share=job.recipe.share, seed=job.corpus.seed, code=code)
    owner = torch.stack([held.sentence.long().gather(1, one) for one in positions])
    unknown = 0.0 if tokenizer.unknown is None else float((held.ids == tokenizer.unknown).double().mean())
    return Held(
        masked=tuple(torch.bincount(owner.flatten(), minlength=held.sentences).tolist()),
        tokens_per_byte=held.tokens / held.bytes,
        unknown=unknown,
    )


def check_value(value: Mapping[str, Any], job: Job, held: Mapping[str, Held]) -> None:
    """Refuse a stored result that cannot be of this model.

    Raises
    ------
    ValueError
        Where anything contradicts the facts known without the model: languages, hidden tokens, stretches of training.
    """
    status, losses, curves = value.get("status"), value.get("losses"), value.get("curves")
    if status not in (TRAINED, DIVERGED) or not isinstance(losses, dict) or not isinstance(curves, dict):
        raise ValueError("it is no result of a model")
    trained = status == TRAINED
    stretches = min(job.recipe.steps, CURVE)
    if sorted(losses) != (sorted(job.scored) if trained else []):
        raise ValueError("it was not scored on these languages")
    if sorted(curves) != (list(job.codes) if trained and stretches else []):
        raise ValueError("it was not trained on these languages")
    if any(not _numbers(curve, stretches) for curve in curves.values()):
        raise ValueError("its training has no such curve")
    for code, row in losses.items():
        known = held[code]
        if not isinstance(row, dict) or list(known.masked) != row.get("masked"):
            raise ValueError(f"other tokens of {code} were hidden")
        if row.get("tokens_per_byte") != known.tokens_per_byte:
            raise ValueError(f"the text of {code} was cut otherwise")
        if not _numbers(row.get("nats"), len(known.masked)):
            raise ValueError(f"its losses on {code} are none")


def _numbers(values: object, count: int) -> bool:
    """Tell whether this is a list of `count` plausible losses."""
    return (
        isinstance(values, list)
        and len(values) == count
        and all(type(value) in (int, float) and 0 <= value <= _MOST_NATS for value in values)
    )


def measure(job: Job, advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Train and score one model, and return the result to be kept."""
    network, tokenizer = _network(job)
    parameters = sum(weight.numel() for weight in network.parameters())
    texts = {code: windows_of(job.corpus, code, tokenizer, job.cache) for code in {*job.codes, *job.scored}}
    curves: Mapping[str, tuple[float, ...]] = {}
    if job.recipe.steps:
        course = train(
            network,
            {code: texts[code][0] for code in job.codes},
            job.recipe,
            mask=tokenizer.mask,
            seed=job.seed,
            device=job.device,
            dtype=getattr(torch, job.dtype),
            advance=advance,
        )
        if not course.finite:
            return {"status": DIVERGED, "losses": {}, "curves": {}, "parameters": parameters}
        curves = course.curves
    losses: dict[str, Any] = {}
    for code in job.scored:
        held = texts[code][1]
        nats, masked = score(
            network,
            held,
            share=job.recipe.share,
            mask=tokenizer.mask,
            seed=job.corpus.seed,
            code=code,
            device=job.device,
        )
        if not np.isfinite(nats).all():
            return {"status": DIVERGED, "losses": {}, "curves": {}, "parameters": parameters}
        losses[code] = {
            # float32 carries seven digits.
            "nats": [float(f"{value:.7g}") for value in nats],
            "masked": [int(count) for count in masked],
            "tokens_per_byte": held.tokens / held.bytes,
        }
    plain = {code: list(curve) for code, curve in curves.items()}
    return {"status": TRAINED, "losses": losses, "curves": plain, "parameters": parameters}


def _network(job: Job) -> tuple[torch.nn.Module, Tokenizer]:
    if job.start is not None:
        found = read_masked_model(job.start)
        if found.sha256 != job.start_hash:
            raise _changed(job.start)
        return found.module, found.tokenizer
    tokenizer = tokenizer_of(job.corpus)
    assert job.sizes is not None
    made = MaskedLM(
        vocabulary=tokenizer.size,
        width=job.sizes.width,
        layers=job.sizes.layers,
        heads=job.sizes.heads,
        length=job.corpus.window,
        front=job.sizes.front,
        seed=job.seed,
    )
    return made, tokenizer


def tokenizer_of(corpus: Corpus) -> Tokenizer:
    """Return the tokenizer of a corpus."""
    found = BYTES if corpus.tokenizer is None else read_tokenizer(corpus.tokenizer)
    if found.sha256 != corpus.tokenizer_hash:
        raise _changed(str(corpus.tokenizer))
    return found


def _changed(where: str) -> InputError:
    return InputError("It has changed since the run began.", where=where, hint="Run the same command again.")


def windows_of(corpus: Corpus, code: str, tokenizer: Tokenizer, cache: Cache) -> tuple[Windows, Windows]:
    """Return the windows of a language to train on and to score, made once and kept in the cache."""
    key = [VERSION, corpus.hashes[code], corpus.seed, corpus.train_bytes, corpus.held_bytes]
    key += [tokenizer.sha256, corpus.window]
    found = cache.memo(_TEXTS, key, lambda: _cut_sides(corpus, code, tokenizer))
    train_side, held_side = (_windows(found, name) for name in _SIDES)
    return train_side, held_side


_SIDES = ("train", "held")


def _cut_sides(corpus: Corpus, code: str, tokenizer: Tokenizer) -> dict[str, torch.Tensor]:
    text = read_language(
        corpus.folder, code, seed=corpus.seed, train_bytes=corpus.train_bytes, held_bytes=corpus.held_bytes
    )
    if text.sha256 != corpus.hashes[code]:
        raise _changed(str(text.path))
    made = (_cut(text.train, tokenizer, corpus.window), _cut(text.held, tokenizer, corpus.window))
    short = [name for name, one in zip(_SIDES, made, strict=True) if not len(one)]
    if short:
        raise InputError(
            f"The {'held-out' if short[0] == 'held' else 'training'} text of {code} fills no window of "
            f"{corpus.window} tokens.",
            where=str(text.path),
            hint="Give a smaller --window, or a longer text (--held-out).",
        )
    return {f"{name}_{part}": value for name, one in zip(_SIDES, made, strict=True) for part, value in _kept(one)}


def _cut(lines: tuple[bytes, ...], tokenizer: Tokenizer, length: int) -> Windows:
    return cut_windows(
        tokenizer.encode(lines), [len(line) for line in lines], separator=tokenizer.separator, length=length
    )


def _kept(one: Windows) -> list[tuple[str, torch.Tensor]]:
    sizes = torch.tensor([one.sentences, one.tokens, one.bytes], dtype=torch.float64)
    return [("ids", one.ids), ("sentence", one.sentence), ("sizes", sizes)]


def _windows(found: Mapping[str, torch.Tensor], name: str) -> Windows:
    sentences, tokens, size = found[f"{name}_sizes"].tolist()
    return Windows(
        ids=found[f"{name}_ids"],
        sentence=found[f"{name}_sentence"],
        sentences=int(sentences),
        tokens=int(tokens),
        bytes=size,
    )
