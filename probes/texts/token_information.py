"""Pointwise cross-mutual information of a text and its context, token by token, under a causal language model.

i_t = log p(y_t | prompt(x), y_<t) - log p(y_t | prompt(none), y_<t), in nats, for the same token ids of y both times.
Its mean over data is the conditional cross-mutual information (Bugliarello et al. 2020; Fernandes et al. 2021). What
stands for no context is an empty one in the same template, that of another row, or a given text. Log-likelihoods are
kept by content: a killed run goes on where it was, and resampling needs no model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import not_finite, one_batch, run_key
from probes.texts.evidence import Grounded
from probes.texts.grounded_prompts import Prompts, Spelt, Template
from probes.texts.option_scores import logits_behind
from probes.texts.text_generation import CausalLM, held_model

LIKELIHOODS = "token-likelihoods"
BLANK, SHUFFLED = "blank", "shuffled"
_VERSION = 1
_MOST_LOGITS = 2**28
"""Logits of a batch at most, a gigabyte of single precision."""
_SLICE = 2**24
"""Logits that are normalised at a time."""

_Row = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TokenInformation:
    """Log-likelihoods of an output's tokens with and without its context, and the characters that each spells."""

    given: NDArray[np.float64]
    alone: NDArray[np.float64]
    spans: tuple[tuple[int, int], ...]
    cut: bool = False

    @property
    def information(self) -> NDArray[np.float64]:
        """Pointwise information of each token."""
        return self.given - self.alone


class Information:
    """Pointwise information of outputs and their contexts.

    Parameters
    ----------
    without
        `blank`, `shuffled` (the context of another row, by the seed), or a text: what stands for no context.
    batch
        Texts at a time, fewer where a large vocabulary would fill the memory.
    contexts
        Of the run: among them and those of the pairs contexts are shuffled, the same for few pairs and for all.
    machines
        Who reads the texts; None: this process.

    Raises
    ------
    InputError
        Where the folder is no causal language model.
    """

    name = "cxmi"

    def __init__(
        self,
        folder: ModelFolder,
        template: Template,
        without: str,
        *,
        seed: int,
        batch: int,
        device: str,
        dtype: str,
        cache: Cache,
        progress: Progress,
        contexts: Iterable[str] = (),
        machines: Machines | None = None,
    ) -> None:
        self._machines = machines or Machines()
        self._contexts = frozenset(contexts)
        self._without, self._seed, self._batch = without, seed, batch
        self._cache, self._progress = cache, progress
        self._prompts = Prompts(folder, template)
        # Scores, spans and cuts are asked for one after the other.
        self._last: tuple[tuple[Grounded, ...], list[list[Spelt] | None]] = ((), [])
        self._folder, self._device, self._dtype = folder, device, dtype
        self._common = [_VERSION, *run_key(folder, device, dtype)]

    def score(self, pairs: Sequence[Grounded]) -> dict[str, NDArray[np.float64]]:
        """Return information by token (mean), output (sum) and least token, and log p(output | context) by token.

        All are NaN for an output that has no token, or that does not fit into the model beside any of its context.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory or the cache cannot be written.
        InputError
            Where shuffled contexts are asked for and all are alike, or the model gives no finite numbers.
        """
        names = ("cxmi_token", "cxmi_output", "cxmi_minimum", "log_probability")
        found = {name: np.full(len(pairs), np.nan) for name in names}
        for row, one in enumerate(self.by_token(pairs)):
            if one is not None:
                values = one.information
                numbers = (values.mean(), values.sum(), values.min(), one.given.mean())
                for name, value in zip(names, numbers, strict=True):
                    found[name][row] = value
        return found

    def lowest_span(self, pairs: Sequence[Grounded]) -> list[tuple[int, int] | None]:
        """Return the characters of each output that its token with the least information spells."""
        return [None if one is None else one.spans[int(one.information.argmin())] for one in self.by_token(pairs)]

    def truncated(self, pairs: Sequence[Grounded]) -> NDArray[np.bool_]:
        """Tell whose context, or what stands for none, was cut at its end for the output to fit; needs no weights."""
        return np.array([spelt is not None and any(one.cut for one in spelt) for spelt in self._spell(pairs)], bool)

    def by_token(self, pairs: Sequence[Grounded]) -> list[TokenInformation | None]:
        """Return the likelihoods of all tokens of each output; None where `score` is NaN."""
        spelt = self._spell(pairs)
        known = self._likelihoods(_rows(spelt))
        return [None if both is None else _paired(both, known) for both in spelt]

    def compute(self, pairs: Sequence[Grounded]) -> None:
        """Compute what `score` needs, or this run's part of it."""
        self._read(_rows(self._spell(pairs)))

    def _spell(self, pairs: Sequence[Grounded]) -> list[list[Spelt] | None]:
        if self._last[0] != tuple(pairs):
            others, spell = self._others(pairs), self._prompts.pair
            texts = [(pair.evidence.text, others.get(pair.evidence.text, self._without), pair) for pair in pairs]
            spelt = [spell((given, other), pair.question, pair.output) for given, other, pair in texts]
            self._last = (tuple(pairs), spelt)
        return self._last[1]

    def _others(self, pairs: Sequence[Grounded]) -> dict[str, str]:
        """Return what stands in the place of each context."""
        contexts = self._contexts | {pair.evidence.text for pair in pairs}
        if self._without == BLANK:
            return dict.fromkeys(contexts, "")
        if self._without != SHUFFLED:
            return {}
        if len(contexts) == 1:
            raise InputError(
                "All rows have the same context, so none can get that of another.",
                where="--without shuffled",
                hint="Give rows with several contexts, or --without blank.",
            )
        # A cycle in the order of hashes: no context keeps its own, and a new one changes only its neighbour's.
        cycle = sorted(contexts, key=lambda text: sha256_json(["other context", self._seed, text]))
        return dict(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))

    def _likelihoods(self, rows: set[_Row]) -> dict[_Row, NDArray[np.float64]]:
        found: dict[_Row, NDArray[np.float64]] = {}
        for job in self._read(rows):
            entry = read_entry(_compute, job, LIKELIHOODS)
            lengths = np.cumsum([len(own) for _, own in job.rows])[:-1]
            found |= zip(job.rows, np.split(entry["log_likelihoods"].numpy(), lengths), strict=True)
        return found

    def _read(self, rows: set[_Row]) -> "list[_Job]":
        """Read the texts that are missing in the cache, or those of this run's part, and return all jobs."""
        jobs = [
            _Job(
                rows=part,
                key=[self._common, sha256_json(part)],
                folder=self._folder,
                device=self._device,
                dtype=self._dtype,
                cache=self._cache,
            )
            for part in self._batches(sorted(rows, key=lambda row: (len(row[0]) + len(row[1]), row)))
        ]
        with self._progress.phase("Reading texts with and without context", len(rows), "texts") as advance:
            spread_entries(
                _compute, jobs, LIKELIHOODS, self._machines, "batches of texts", lambda job: advance(len(job.rows))
            )
        return jobs

    def _batches(self, rows: Sequence[_Row]) -> list[list[_Row]]:
        found: list[list[_Row]] = []
        widest = 0
        for row in rows:
            widest = max(widest, len(row[1]))
            held = (len(found[-1]) + 1) * widest * self._prompts.speller.vocabulary if found else 0
            if not found or len(found[-1]) == self._batch or held > _MOST_LOGITS:
                found.append([])
                widest = len(row[1])
            found[-1].append(row)
        return found


def _paired(both: Sequence[Spelt], known: dict[_Row, NDArray[np.float64]]) -> TokenInformation:
    given, alone = (known[one.prefix, one.own] for one in both)
    return TokenInformation(given, alone, both[0].spans, any(one.cut for one in both))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Texts that are read together, as token ids."""

    rows: list[_Row]
    key: list[object]
    folder: ModelFolder
    device: str
    dtype: str
    cache: Cache


def _rows(spelt: Sequence[Sequence[Spelt] | None]) -> set[_Row]:
    return {(one.prefix, one.own) for both in spelt if both for one in both}


def _compute(job: _Job) -> dict[str, Tensor]:
    model = held_model(job.folder, job.device, job.dtype)
    return {"log_likelihoods": torch.cat(log_likelihoods(model, job.rows))}


def log_likelihoods(model: CausalLM, rows: Sequence[_Row]) -> list[Tensor]:
    """Return the log-likelihood of each token of a continuation, for (prompt, continuation) ids, in one batch.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    InputError
        Where the model gives no finite numbers.
    """
    tokens, mask = model.padded([(*prefix, *own) for prefix, own in rows])
    longest = max(len(own) for _, own in rows)
    with one_batch(len(rows)):
        logits = logits_behind(model, tokens[:, :-1], mask[:, :-1], longest)
        parts = zip(logits, tokens, rows, strict=True)
        found = [_normalised(row[-len(own) :], ids[-len(own) :]) for row, ids, (_, own) in parts]
    if not all(bool(one.isfinite().all()) for one in found):
        raise not_finite(model.speller.folder)
    return found


def _normalised(logits: Tensor, ids: Tensor) -> Tensor:
    """Return log-likelihoods of tokens, from few logits at a time: those of all in single precision fill gigabytes."""
    number = torch.promote_types(logits.dtype, torch.float32)
    parts = [
        part.to(number).log_softmax(-1).gather(1, wanted[:, None])[:, 0]
        for part, wanted in zip(
            *(whole.split(max(1, _SLICE // logits.shape[1])) for whole in (logits, ids)), strict=True
        )
    ]
    return torch.cat(parts).double().cpu()
