"""Attacks that tell from a language model's likelihoods of a text whether it was trained on that text.

All scores are higher for a likely member. `loss` is the mean log-likelihood of a token (Yeom et al. 2018); `min-k` that
of the least likely fifth of the tokens (Shi et al. 2024); `min-k++` the same of standardised likelihoods (Zhang et al.
2025); `zlib` holds the loss against what a general compressor makes of the text (Carlini et al. 2021); `reference`
against the loss of another model (the same).
"""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from probes.texts.text_likelihoods import Likelihood, Passage

LOSS, ZLIB, MIN_K, MIN_K_STANDARD, REFERENCE = "loss", "zlib", "min-k", "min-k++", "reference"
ATTACKS = (LOSS, ZLIB, MIN_K, MIN_K_STANDARD, REFERENCE)

Floats = NDArray[np.float64]


def scores_of(passages: Sequence[Passage], found: Sequence[Likelihood]) -> dict[str, Floats]:
    """Return the scores of the attacks that need one model, each (texts,)."""
    columns = {
        LOSS: [one.mean for one in found],
        ZLIB: [one.mean / zlib_bits(passage.text) for passage, one in zip(passages, found, strict=True)],
        MIN_K: [one.least for one in found],
        MIN_K_STANDARD: [one.standard for one in found],
    }
    return {name: np.array(column, dtype=np.float64) for name, column in columns.items()}


def against_reference(
    own: tuple[Sequence[Passage], Sequence[Likelihood]],
    other: tuple[Sequence[Passage], Sequence[Likelihood]],
    *,
    same_tokens: bool,
) -> Floats:
    """Return by how much less a model loses on each text than the reference model, (texts,).

    Parameters
    ----------
    same_tokens
        Whether both models have one tokenizer: nats a token are compared then, or else nats a byte of what each read,
        since tokens of two tokenizers are of two sizes.
    """
    mine, rivals = (_rates(passages, found, same_tokens) for passages, found in (own, other))
    return mine - rivals


def _rates(passages: Sequence[Passage], found: Sequence[Likelihood], by_token: bool) -> Floats:
    sizes = [
        one.tokens if by_token else len(passage.text.encode()) for passage, one in zip(passages, found, strict=True)
    ]
    return np.array([one.total / size for one, size in zip(found, sizes, strict=True)], dtype=np.float64)


def zlib_bits(text: str) -> int:
    """Return the bits to which zlib compresses a text.

    >>> zlib_bits("abc") > 8 * 3, zlib_bits("abc" * 1000) < 8 * 100
    (True, True)
    """
    return 8 * len(zlib.compress(text.encode()))
