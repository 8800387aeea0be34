"""Folders of causal language models: configuration, tokenizer and weights, checked before and while they are loaded."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch

from probes.core.errors import IncompleteError, InputError
from probes.core.library_imports import transformers
from probes.language_models.tokenizer_files import check_rules
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder

_UNMASKED = ("rwkv",)
"""Families that take padding for text."""


def generation_settings(folder: ModelFolder) -> Any:
    """Return the folder's generation settings, or None; only their special tokens are used here."""
    try:
        return transformers().GenerationConfig.from_pretrained(folder.path, **hub_models.LOCAL)
    except (OSError, ValueError):
        return None


def special_tokens(sources: Sequence[Any], name: str, vocabulary: int) -> list[int]:
    """Return the ids of a special token that sources name and the vocabulary has."""
    found: list[Any] = []
    for source in sources:
        value = getattr(source, name, None)
        found += value if isinstance(value, list) else [value]
    # The default configuration of a family names tokens beyond the end of a small vocabulary.
    return list(dict.fromkeys(one for one in found if isinstance(one, int) and 0 <= one < vocabulary))


def check_config(folder: ModelFolder) -> Any:
    """Check and return the configuration: only architectures of causal language models are taken."""
    known = transformers().models.auto.modeling_auto
    name = known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(folder.family)
    config = hub_models.configuration(folder)
    named = [str(one) for one in folder.config.get("architectures") or ()]
    # Encoders have a causal head too, which means nothing unless the configuration makes them decoders.
    masked = folder.family in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if name is None or masked or folder.family in _UNMASKED or (named and name not in named):
        saved = ", ".join(named) or "no architecture"
        what = f"{folder.family!r}, saved as {saved}, is no causal language model that miles can run."
        raise unfit(folder, what, "Give a model that continues texts, such as GPT2LMHeadModel or LlamaForCausalLM.")
    return config


def load_tokeniser(folder: ModelFolder) -> Any:
    """Load the tokenizer of a folder, and check that it knows English text."""
    hint = "Save the model's tokenizer into the folder with save_pretrained()."
    names = ("tokenizer*", "vocab*", "*.model", "merges.txt", "tekken.json")
    if not any(True for name in names for _ in folder.path.glob(name)):
        raise unfit(folder, "The folder has no tokenizer.", hint)
    if (folder.path / "tokenizer.json").is_file():
        check_rules(folder.path / "tokenizer.json")
    with hub_models.within_limits("tokenizer", folder.path), hub_models.loading_errors("tokenizer", folder):
        tokeniser = transformers().AutoTokenizer.from_pretrained(folder.path, **hub_models.LOCAL)
        empty = not tokeniser("A text to try.", add_special_tokens=False).input_ids
    if empty:
        raise unfit(folder, "The tokenizer knows no token of English text.", hint)
    return tokeniser


def load_network(folder: ModelFolder, config: Any, dtype: str) -> Any:
    """Load all weights into the network of a checked configuration."""
    loader = transformers().AutoModelForCausalLM
    with hub_models.loading_errors("model", folder):
        meta = hub_models.empty_model(loader, config, folder)
    limits = hub_models.integer_keys(folder)
    return hub_models.load_whole(meta, config, folder, limits=limits, dtype=dtype)


def not_finite(folder: ModelFolder) -> InputError:
    """Return the refusal of a model that gives infinite or undefined logits."""
    hint = "Its weights are damaged, or too large for the number format: try --dtype float32."
    return unfit(folder, "The model gives logits that are not finite numbers.", hint)


@contextmanager
def one_batch(count: int, unit: str = "texts", hint: str = "Lower --batch.") -> Iterator[None]:
    """Run a model without gradients; where the device runs out of memory, say on how much."""
    try:
        with torch.inference_mode():
            yield
    except torch.OutOfMemoryError as error:
        message = f"The device ran out of memory on a batch of {count} {unit}."
        raise IncompleteError(message, hint=hint) from error


def run_key(folder: ModelFolder, device: str, dtype: str) -> list[object]:
    """Return what, beside its inputs, a model's numbers depend on."""
    packages = [version(name) for name in ("torch", "transformers", "tokenizers")]
    return [folder.sha256, dtype, device.partition(":")[0], packages]


def unfit(folder: ModelFolder, message: str, hint: str) -> InputError:
    """Return the refusal of a folder."""
    return InputError(message, where=str(folder.path), hint=hint)
