"""Check the config.json of a Hugging Face folder: values that steer loading, and sizes, before transformers sees them.

transformers keeps most keys as plain attributes. A few make it load another file, fetch or import code, or build
something in a loop; of these only the values listed here are allowed, in the configuration and in all that it contains.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probes.errors import InputError

_IMPLEMENTATIONS = (None, "eager", "sdpa")
_STEERING: Mapping[str, tuple[tuple[object, ...], str]] = {
    # Any other name may be a kernel of the hub, "organisation/name@revision", which is fetched and imported.
    "attn_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_attn_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "experts_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "_experts_implementation": (_IMPLEMENTATIONS, "asks for {}, which may be code from elsewhere"),
    "fusion_config": ((None,), "asks for {}, which may be code from elsewhere"),
    "kernel_config": ((None,), "asks for {}, which may be code from elsewhere"),
    "transformers_weights": ((None,), "names a file to load in place of the one that is checked"),
    # Another config.json, which could have the one before.
    "configuration_files": ((None,), "names a file to load in place of the one that is checked"),
    "quantization_config": ((None, {}), "says that the weights are quantised"),
    "use_pretrained_backbone": ((None, False), "asks for weights from elsewhere"),
}
_MOST: tuple[tuple[tuple[str, ...], int], ...] = (
    # Each layer and each label is an object of its own, made before anything is compared with the weights.
    (("layers", "depth", "blocks", "n_layer"), 1000),
    (("experts",), 2**12),
    (("labels",), 2**17),
)
_MOST_WIDE = 2**24
_NO_SIZES = ("theta", "base")
"""Parts of the names of numbers that are no sizes, such as the base of rotary positions."""


def check_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse what would load something else than the folder's weights, and sizes beyond belief.

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
        most = next((most for parts, most in _MOST if any(part in key for part in parts)), _MOST_WIDE)
        if most == _MOST_WIDE and any(part in key for part in _NO_SIZES):
            continue
        if any(type(number) is int and abs(number) > most for number in _items(value)):
            raise _refusal(where, key, f"is larger than {most}")


def _items(value: object) -> list[Any]:
    return value if type(value) is list else [value]


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
