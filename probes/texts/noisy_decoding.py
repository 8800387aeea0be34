"""Noisy decoding: at each step, with probability alpha, the next token is drawn without looking at the context.

After SCOPE (Duong et al., ICLR 2025), which makes unfaithful texts that way. There one coin falls for a whole batch, so
that its texts lose sight of their contexts together; here every text has coins of its own, and a random stream that
depends on seed, row and alpha alone.
"""

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.holding import held
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import run_key, unfit
from probes.texts.evidence import Grounded
from probes.texts.grounded_prompts import Prompts, Template
from probes.texts.option_scores import positions
from probes.texts.text_generation import TEXTS, CausalLM, token_entry, tokens_of_entry
from probes.texts.token_draws import Sampling, row_seed

SAMPLING = Sampling(temperature=0.6, top_p=0.9, max_new_tokens=90)
"""As the paper's code sets it."""
_VERSION = 1

_Ids = tuple[int, ...]


class _Mixture:
    """A logits processor that takes, where a row's coin says so, the logits of a model that does not see the context.

    That model keeps its own keys and values of the tokens so far, where it can.
    """

    def __init__(self, model: CausalLM, prompts: Sequence[_Ids], width: int, blind: Tensor) -> None:
        self._model, self._width, self._blind = model, width, blind.to(model.padded(prompts)[0].device)
        self._prompts, self._mask = model.padded(prompts)
        takes = inspect.signature(model.network.forward).parameters
        # transformers renamed it in 5.24.
        self._name = next((name for name in ("cache", "past_key_values") if name in takes), None)
        self._placed = "position_ids" in takes
        self._kept: Any = None

    def __call__(self, tokens: Tensor, logits: Tensor) -> Tensor:
        written = tokens[:, self._width :]
        mask = torch.cat([self._mask, torch.ones_like(written)], 1)
        whole = torch.cat([self._prompts, written], 1)
        fresh = whole.shape[1] if self._kept is None else 1
        call: dict[str, Any] = {"attention_mask": mask, "use_cache": self._name is not None}
        if self._placed:
            call["position_ids"] = positions(mask)[:, -fresh:]
        if self._kept is not None:
            call[str(self._name)] = self._kept
        output = self._model.network(input_ids=whole[:, -fresh:], **call)
        kept = output.get(self._name) if self._name else None
        # What other layers than attention keep cannot be told what is padding.
        attends = all(hasattr(layer, "keys") for layer in getattr(kept, "layers", [None]))
        self._kept = kept if attends else None
        coins = self._blind[:, written.shape[1], None]
        return torch.where(coins, output.logits[:, -1].to(logits.device, logits.dtype), logits)


def write(
    folder: ModelFolder,
    pairs: Sequence[Grounded],
    alpha: float,
    *,
    template: Template,
    seed: int,
    batch: int,
    device: str,
    dtype: str,
    cache: Cache,
    progress: Progress,
    context_free: ModelFolder | None = None,
    sampling: Sampling = SAMPLING,
    machines: Machines | None = None,
) -> "Written":
    """Write a text for the context and question of each pair, with probability alpha of not looking at each token.

    Parameters
    ----------
    context_free
        A second model, of the same vocabulary, that is asked without context; None asks the first.
    machines
        Who writes the texts, all or those of this run's part; None: this process.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory or the cache cannot be written.
    InputError
        Where a folder is no causal language model, the two have other vocabularies, or a prompt does not fit.
    """
    machines = machines or Machines()
    prompts = Prompts(folder, template)
    other = Prompts(context_free or folder, template)
    if context_free and other.speller.vocabulary_hash() != prompts.speller.vocabulary_hash():
        what = f"Its tokens are not those of {folder.reference}, so their scores cannot be mixed."
        raise unfit(context_free, what, "Give a model with the same tokenizer and size of vocabulary.")
    new = sampling.max_new_tokens
    rows = [
        (prompts.prefix(pair.evidence.text, pair.question, new).prefix, other.prefix("", pair.question, new).prefix)
        for pair in pairs
    ]
    second = context_free and context_free.sha256
    common = ["noisy", _VERSION, *run_key(folder, device, dtype), second, asdict(sampling), alpha, seed]
    # Other coins and draws for each alpha, so that texts of two are independent.
    own_seed = int(sha256_json(["noisy", seed, alpha])[:15], 16)
    jobs = [
        _Job(
            rows=part,
            seeds=[row_seed(own_seed, first + row, sampling) for row in range(len(part))],
            alpha=alpha,
            sampling=sampling,
            key=[common, sha256_json(part), first],
            folders=(folder, context_free),
            device=device,
            dtype=dtype,
            cache=cache,
        )
        for first in range(0, len(rows), batch)
        for part in [rows[first : first + batch]]
    ]
    with progress.phase(f"Writing texts, noise {alpha:g}", len(rows), "texts") as advance:
        spread_entries(_decoded, jobs, TEXTS, machines, "batches of texts", lambda job: advance(len(job.rows)))
    return Written(prompts, jobs)


@dataclass(frozen=True, slots=True)
class Written:
    """Texts that are in the cache, or will be when all parts of a run are done."""

    prompts: Prompts
    jobs: "Sequence[_Job]"

    def read(self) -> list[str]:
        """Return the texts in order; a batch that was damaged since is written again."""
        return [
            self.prompts.speller.read("", ids, row, 0).continuation.strip()
            for job in self.jobs
            for (ids, _), row in zip(job.rows, tokens_of_entry(read_entry(_decoded, job, TEXTS)), strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Texts that are written together: token ids with and without the context; the second model may be missing."""

    rows: list[tuple[_Ids, _Ids]]
    seeds: list[int]
    alpha: float
    sampling: Sampling
    key: list[object]
    folders: tuple[ModelFolder, ModelFolder | None]
    device: str
    dtype: str
    cache: Cache


def _models(job: _Job) -> tuple[CausalLM, CausalLM]:
    first, second = job.folders
    seeing = CausalLM(first, device=job.device, dtype=job.dtype)
    return seeing, seeing if second is None else CausalLM(second, device=job.device, dtype=job.dtype)


def _decoded(job: _Job) -> dict[str, Tensor]:
    rows, alpha, seeds, sampling = job.rows, job.alpha, job.seeds, job.sampling
    named = [folder and [str(folder.path), folder.sha256] for folder in job.folders]
    seeing, blind = held(["noisy decoding", named, job.device, job.dtype], partial(_models, job))
    # Another stream than that of the tokens, which starts from the same number.
    streams = [torch.Generator().manual_seed(seed + 1) for seed in seeds]
    coins = torch.stack([torch.rand(sampling.max_new_tokens, generator=stream) < alpha for stream in streams])
    width = max(len(given) for given, _ in rows)
    mixture = _Mixture(blind, [without for _, without in rows], width, coins) if alpha else None
    return token_entry(seeing.continue_ids([given for given, _ in rows], sampling, seeds, mixture))
