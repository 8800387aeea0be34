"""Likelihoods of whole texts under a causal language model: one forward pass a text, a few numbers kept of each.

A text is tokenised as the folder's tokenizer does it by itself, behind the start token of the folder, which many
tokenizers know and do not write. The first token has no likelihood, since nothing stands before it. Of a text that is
longer than the model can see, the beginning is read. Batches are kept by content: a killed run goes on where it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import not_finite, one_batch, run_key
from probes.texts.option_scores import logits_behind
from probes.texts.text_generation import CausalLM, Speller, held_model

ENTRIES = "text-likelihoods"
LEAST_SHARE = 20
"""Percent of a text's tokens, the least likely ones, of which `least` and `standard` are means."""
MOST_TOKENS = 2048
"""Tokens of a text that are read, where the model could see more."""
_VERSION = 1
_MOST_LOGITS = 2**28
"""Logits of a batch at most, a gigabyte of single precision."""
_SLICE = 2**24
"""Logits that are normalised at a time."""
_NARROW = 1e-6
"""Standard deviation from which a token is measured, in nats: of a model that is certain it is 0."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text as a model reads it.

    Parameters
    ----------
    ids
        Token ids, two or more.
    text
        What of the text these spell.
    left
        Tokens behind them that are not read.
    opened
        Whether a start token stands first that the tokenizer did not write.
    """

    ids: tuple[int, ...]
    text: str
    left: int = 0
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Numbers of one text, in nats.

    Parameters
    ----------
    tokens
        Tokens that have a likelihood.
    total
        Sum of their log-likelihoods.
    least
        Mean log-likelihood of the least likely fifth of them (Shi et al. 2024).
    standard
        Mean of the lowest fifth of (log p - mean) / standard deviation, both under the model's law of the next token
        (Zhang et al. 2025).
    """

    tokens: int
    total: float
    least: float
    standard: float

    @property
    def mean(self) -> float:
        """Mean log-likelihood of a token."""
        return self.total / self.tokens


def read_passages(speller: Speller, texts: Sequence[str], *, start: bool = True) -> list[Passage | None]:
    """Return texts as a model reads them; None where there are fewer than two tokens. Needs no weights.

    Parameters
    ----------
    start
        Whether the start token of the folder, if it has one, is put before texts where the tokenizer does not.

    Raises
    ------
    InputError
        Where the tokenizer does not fit the model, or cannot tell where the text is to be cut.
    """
    most = min(speller.context or MOST_TOKENS, MOST_TOKENS)
    begin = list(speller.begin) if start else []
    return [_passage(speller, text, most, begin) for text in texts]


def _passage(speller: Speller, text: str, most: int, begin: Sequence[int]) -> Passage | None:
    ids = speller.whole(text)
    before = [] if ids[:1] == begin else list(begin)
    if len(before) + len(ids) < 2:
        return None
    most -= len(before)
    if len(ids) <= most:
        return Passage((*before, *ids), text, opened=bool(before))
    ids, spans = speller.offsets(text)
    end = max(span[1] for span in spans[:most])
    return Passage((*before, *ids[:most]), text[:end], len(ids) - most, bool(before))


def likelihoods_of(
    folder: ModelFolder,
    passages: Sequence[Passage],
    *,
    batch: int,
    device: str,
    dtype: str,
    cache: Cache,
    progress: Progress,
    label: str = "Reading texts",
    machines: Machines | None = None,
) -> list[Likelihood]:
    """Return the likelihoods of texts under the model of a folder.

    Parameters
    ----------
    batch
        Texts at a time, fewer where a large vocabulary would fill the memory.
    machines
        Who reads the texts; None: this process.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory, a worker is lost, or the cache cannot be written.
    InputError
        Where the folder is no causal language model, or gives no finite numbers.
    PartEnded
        Where another part has not read all of its texts.
    """
    machines = machines or Machines()
    jobs = read_texts(
        folder,
        passages,
        batch=batch,
        device=device,
        dtype=dtype,
        cache=cache,
        progress=progress,
        label=label,
        machines=machines,
    )
    machines.join()
    found: dict[tuple[int, ...], Likelihood] = {}
    for job in jobs:
        entry = read_entry(_compute, job, ENTRIES)
        for ids, numbers in zip(job.rows, entry["numbers"].tolist(), strict=True):
            found[ids] = Likelihood(len(ids) - 1, *numbers)
    return [found[one.ids] for one in passages]


def read_texts(
    folder: ModelFolder,
    passages: Sequence[Passage],
    *,
    batch: int,
    device: str,
    dtype: str,
    cache: Cache,
    progress: Progress,
    label: str,
    machines: Machines,
) -> "list[_Job]":
    """Read the texts whose likelihoods are missing in the cache, or those of this run's part, and return the jobs.

    Parameters
    ----------
    batch, machines
        As of `likelihoods_of`.

    Raises
    ------
    IncompleteError, InputError
        As of `likelihoods_of`.
    """
    rows = sorted({one.ids for one in passages}, key=lambda ids: (len(ids), ids))
    common = [_VERSION, LEAST_SHARE, *run_key(folder, device, dtype)]
    jobs = [
        _Job(rows=part, key=[common, sha256_json(part)], folder=folder, device=device, dtype=dtype, cache=cache)
        for part in _batches(rows, batch, Speller(folder).vocabulary)
    ]
    with progress.phase(label, len(rows), "texts") as advance:
        spread_entries(_compute, jobs, ENTRIES, machines, "batches of texts", lambda job: advance(len(job.rows)))
    return jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Texts that are read together, as token ids."""

    rows: list[tuple[int, ...]]
    key: list[object]
    folder: ModelFolder
    device: str
    dtype: str
    cache: Cache


def _batches(rows: Sequence[tuple[int, ...]], most: int, vocabulary: int) -> list[list[tuple[int, ...]]]:
    """Return rows, which come by length, in parts that are computed together."""
    found: list[list[tuple[int, ...]]] = []
    for ids in rows:
        held = (len(found[-1]) + 1) * len(ids) * vocabulary if found else 0
        if not found or len(found[-1]) == most or held > _MOST_LOGITS:
            found.append([])
        found[-1].append(ids)
    return found


def _compute(job: _Job) -> dict[str, Tensor]:
    model = held_model(job.folder, job.device, job.dtype)
    return {"numbers": torch.tensor(_read(model, job.rows), dtype=torch.float64)}


def _read(model: CausalLM, rows: Sequence[tuple[int, ...]]) -> list[tuple[float, float, float]]:
    """Return `total`, `least` and `standard` of texts in one batch."""
    tokens, mask = model.padded(rows)
    longest = tokens.shape[1] - 1
    with one_batch(len(rows)):
        logits = logits_behind(model, tokens[:, :-1], mask[:, :-1], longest)
        parts = zip(logits, tokens, map(len, rows), strict=True)
        found = [_of_tokens(row[1 - size :], ids[1 - size :]) for row, ids, size in parts]
    if not all(bool(one.isfinite().all()) for one in found):
        raise not_finite(model.speller.folder)
    return [_summed(likely, standard) for likely, standard in found]


def _of_tokens(logits: Tensor, ids: Tensor) -> Tensor:
    """Return log-likelihoods and standardised ones of tokens, (2, tokens), from few logits at a time."""
    number = torch.promote_types(logits.dtype, torch.float32)
    size = max(1, _SLICE // logits.shape[1])
    parts = [
        _standardised(part.to(number).log_softmax(-1), wanted)
        for part, wanted in zip(logits.split(size), ids.split(size), strict=True)
    ]
    return torch.cat(parts, 1).double().cpu()


def _standardised(law: Tensor, ids: Tensor) -> Tensor:
    chance = law.exp()
    # A token that cannot come has a logarithm of minus infinity, and counts for nothing.
    finite = torch.where(chance > 0, law, 0.0)
    mean = (chance * finite).sum(1)
    spread = (chance * (finite - mean[:, None]) ** 2).sum(1).sqrt().clamp_min(_NARROW)
    own = law.gather(1, ids[:, None])[:, 0]
    return torch.stack([own, (own - mean) / spread])


def _summed(likely: Tensor, standard: Tensor) -> tuple[float, float, float]:
    count = max(1, len(likely) * LEAST_SHARE // 100)
    least, lowest = (float(one.sort().values[:count].mean()) for one in (likely, standard))
    return float(likely.sum()), least, lowest
