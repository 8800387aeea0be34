"""Records as the plain values of JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

UNLESS_NONE = {"optional": True}
"""Metadata of a field that JSON holds only where it has a value."""


def plain(value: Any) -> Any:
    """Return records as mappings and tuples as lists, with all that is in them.

    A field whose metadata has `plain` as False is left out, and so is one of `UNLESS_NONE` that is None.
    """
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if is_dataclass(value):
        kept = [item for item in fields(value) if item.metadata.get("plain", True)]
        held = {item.name: getattr(value, item.name) for item in kept}
        absent = [item.name for item in kept if item.metadata.get("optional") and held[item.name] is None]
        return {name: plain(found) for name, found in held.items() if name not in absent}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
