"""Draws of the next token from a model's logits, with temperature, top-k, top-p and repetition penalty.

A token is the argmax of its logits after repetition penalty, temperature, top-k and top-p, plus Gumbel noise, which
is an exact draw from their softmax (Gumbel 1954; Maddison et al. 2014). Every text has a random stream of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.core.library_imports import transformers
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import not_finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of sampling: temperature 0 takes the likeliest token, top-k 0 and top-p 1 cut nothing off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    max_new_tokens: int = 128

    def __post_init__(self) -> None:
        bounds = {
            "temperature": 0 <= self.temperature < math.inf,
            "top_p": 0 < self.top_p <= 1,
            "top_k": self.top_k >= 0,
            "repetition_penalty": 0 < self.repetition_penalty < math.inf,
            "max_new_tokens": self.max_new_tokens >= 1,
        }
        for name in (name for name, fits in bounds.items() if not fits):
            hint = "temperature and top_k: 0 or more; top_p: above 0 up to 1; the others: above 0."
            raise InputError(f"{name} is {getattr(self, name)}, which cannot be.", where=name, hint=hint)


def row_seed(seed: int, row: int, sampling: Sampling) -> int:
    """Return the seed of one text's noise, which differs by settings but not by the number of new tokens."""
    settings = asdict(sampling)
    del settings["max_new_tokens"]
    # 60 bits, which any generator takes as a seed.
    return int(sha256_json(["text", seed, row, settings])[:15], 16)


class Draw:
    """A logits processor of transformers whose argmax is a draw from the distribution of the next token."""

    def __init__(self, sampling: Sampling, seeds: Sequence[int], mask: Tensor, folder: ModelFolder) -> None:
        hub = transformers()
        self._mask, self._folder = mask.bool(), folder
        self._penalty = hub.RepetitionPenaltyLogitsProcessor(penalty=float(sampling.repetition_penalty))
        self._warpers: list[Any] = []
        self._streams: list[torch.Generator] = []
        if sampling.temperature == 0:
            return
        self._warpers.append(hub.TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k:
            self._warpers.append(hub.TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._warpers.append(hub.TopPLogitsWarper(float(sampling.top_p)))
        # On the CPU, so that every device sees the same noise.
        self._streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits of a step with their noise, for all tokens so far."""
        if not bool(torch.isfinite(scores.amax(dim=-1)).all()):
            raise not_finite(self._folder)
        width = self._mask.shape[1]
        # Padding is no part of the text: it is replaced by the last token of the prompt, which is.
        seen = torch.where(self._mask, input_ids[:, :width], input_ids[:, width - 1 : width])
        scores = self._penalty(torch.cat([seen, input_ids[:, width:]], dim=1), scores)
        for warp in self._warpers:
            scores = warp(input_ids, scores)
        return scores.double() + self._noise(scores) if self._streams else scores

    def _noise(self, scores: Tensor) -> Tensor:
        """Return Gumbel noise, minus the logarithm of exponential noise; double precision reaches its rare values."""
        noise = torch.empty(scores.shape, dtype=torch.float64)
        for row, stream in zip(noise, self._streams, strict=True):
            row.exponential_(generator=stream)
        return -noise.clamp_min_(torch.finfo(torch.float64).tiny).log_().to(scores.device)
