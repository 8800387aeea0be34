"""Folders of configurations of tiny models of token ids, without weights."""

from pathlib import Path
from typing import Any

from probes.core.library_imports import transformers

WIDTH, LAYERS, HEADS, INNER, VOCABULARY, POSITIONS = 8, 2, 2, 16, 32, 64
_PLAIN = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": POSITIONS,
}
_GPT2 = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": VOCABULARY, "n_positions": POSITIONS}
_OPT = {**_PLAIN, "ffn_dim": INNER, "word_embed_proj_dim": WIDTH}
_FAMILIES: dict[str, dict[str, Any]] = {
    "GPT2": _GPT2,
    "Llama": _PLAIN,
    "Mistral": {**_PLAIN, "num_key_value_heads": 1, "sliding_window": 8},
    "Mixtral": {**_PLAIN, "num_key_value_heads": 1, "num_local_experts": 2},
    "OPT": _OPT,
    "Mamba": {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "state_size": 4},
    "Bert": _PLAIN,
    # Two rows of the table are of no position.
    "Roberta": {**_PLAIN, "max_position_embeddings": POSITIONS + 2},
}


def tiny(folder: Path, family: str, **options: object) -> Path:
    """Write the configuration of a tiny model of a family, such as `Llama`."""
    config = getattr(transformers(), f"{family}Config")
    config(**{**_FAMILIES.get(family, {}), **options}).save_pretrained(folder)
    return folder
