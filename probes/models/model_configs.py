"""Check the config.json of a Hugging Face folder: values that steer loading, and sizes, before transformers sees it.

transformers keeps most keys as plain attributes. A few make it load another file, fetch or import code, or build
something in a loop; of these only the values listed here are allowed, in the configuration and in all that it contains.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from probes.core.errors import InputError

_IMPLEMENTATIONS = (None, "eager", "sdpa")
_STEERING: Mapping[str, tuple[tuple[object, ...], str]] = {
    # Any other name may be a kernel of the hub, "organisation/name@revision", which is fetched and imported.
    "attn_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_attn_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_attn_implementation_internal": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "experts_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_experts_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_experts_implementation_internal": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "fusion_config": ((None,), "asks for {}, which may be code from elsewhere"),
    "kernel_config": ((None,), "asks for {}, which may be code from elsewhere"),
    "transformers_weights": ((None,), "names a file to load in place of the one that is checked"),
    # Another config.json, which could again have the key above.
    "configuration_files": ((None,), "names a file to load in place of the one that is checked"),
    "quantization_config": ((None, {}), "says that the weights are quantised"),
    "use_pretrained_backbone": ((None, False), "asks for weights from elsewhere"),
}
_MOST_LAYERS, _MOST_EXPERTS, _MOST_LABELS, _MOST_WIDE = 1000, 2**15, 2**17, 2**24
"""Each layer and each label is an object of its own, made before anything is compared with the weights."""
_WIDTHS = re.compile(
    "attends|bins|bottleneck|buckets|channels?|classes|clusters|codebooks?|codevectors?|coords|ctx|d|dff|dim|dimension|"
    "dims|emb|embd|embed|embedding|embeddings|embeds|entity|feats|features|ff|ffn|filters|groups?|heads?|height|hidden|"
    "inner|intermediate|kernel|langs|latents?|levels|loops|networks|patches|positions|quantizers|queries|rank|registers|"
    "repeats|sizes?|speakers|stages|state|strides?|units|vocab|width|windows?"
)
"""Words in the names of sizes. Other numbers, such as seeds and counts of parameters, may have any size."""
_NO_SIZES = {"theta", "base"}
"""Words in the names of numbers that are no sizes, such as the base of rotary positions."""


def check_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse what would load something else than the folder's weights, and sizes that are implausibly large.

    Raises
    ------
    InputError
        Naming the key.
    """
    where = folder / "config.json"
    if os.path.lexists(adapter := folder / "adapter_config.json"):
        raise _refusal(adapter, "base_model_name_or_path", "points to weights elsewhere: the folder holds an adapter")
    for key, value in _walk(config):
        if key in _STEERING:
            allowed, why = _STEERING[key]
            # By type too, since 0 equals False.
            if not any(type(value) is type(one) and value == one for one in allowed):
                raise _refusal(where, key, why.format(repr(str(value)[:80])))
        most = _largest(key.split("_"))
        # Not turned round: nothing compares with NaN.
        if most is not None and not all(abs(number) <= most for number in _numbers(value)):
            raise _refusal(where, key, f"is larger than {most}")
        # Each part of a model has a depth of its own; layers in a list are more often meant by their numbers.
        if key.endswith("depths") and sum(min(abs(one), _MOST_LAYERS + 1) for one in _numbers(value)) > _MOST_LAYERS:
            raise _refusal(where, key, f"asks for more than {_MOST_LAYERS} layers in all")


def _largest(words: Sequence[str]) -> int | None:
    """Return the limit of a size whose key has these words; None where the key is not a size of a model."""
    # A largest depth is a distance in a picture; a convolution may be "depth separable".
    last = words[-1] in ("layer", "depth", "depths") and words[-2:] not in (["max", "depth"], ["min", "depth"])
    if last or not {"layers", "blocks"}.isdisjoint(words):
        return _MOST_LAYERS
    if "experts" in words:
        return _MOST_EXPERTS
    if "labels" in words:
        return _MOST_LABELS
    wide = _NO_SIZES.isdisjoint(words) and any(map(_WIDTHS.fullmatch, words))
    return _MOST_WIDE if wide else None


def _numbers(value: object) -> Iterator[float]:
    """Yield the numbers of a value, of lists in lists too, and those that are written as texts."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif type(item) is int or type(item) is float:
            yield item
        elif isinstance(item, str):
            with suppress(ValueError):
                yield float(item)


def _walk(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield all keys with their values, those of objects within lists and objects among them."""
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value.items()
            # Names of classes are no keys: one may be called "blocks".
            waiting += [part for key, part in value.items() if key not in ("label2id", "id2label")]
        elif isinstance(value, list):
            waiting += value


def _refusal(path: Path, key: str, what: str) -> InputError:
    return InputError(
        f"{key} {what}.",
        where=f"{path}, key {key}",
        hint="Save a plain float32 model with save_pretrained(), with its own weights, and nothing beside them.",
    )
