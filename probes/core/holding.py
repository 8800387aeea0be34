"""Hold what a process loaded for its jobs, such as a model: once for all that need it, and one at a time."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from probes.core.hashing import sha256_json

Held = TypeVar("Held")

_HELD: dict[str, Any] = {}
_HELD_FOR: list[tuple[str, str]] = []


def held(key: object, make: Callable[[], Held]) -> Held:
    """Return what this process loaded last for a key (any JSON value), or load it: once for all jobs of a worker.

    >>> held(["a", 1], lambda: "loaded"), held(["a", 1], lambda: "not called")
    ('loaded', 'loaded')
    >>> release()
    """
    name = sha256_json(key)
    if name not in _HELD:
        # One at a time: a worker has memory for one model.
        _HELD.clear()
        _HELD[name] = make()
    return cast(Held, _HELD[name])


def release() -> None:
    """Let go of what this process holds for `held`, on a GPU too."""
    _HELD.clear()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def keep_only_for(function: Callable[[Any], Any]) -> None:
    """Let go of what was held for jobs of another function: a worker goes on from one stage to the next."""
    named = getattr(function, "func", function)
    name = named.__module__, named.__qualname__
    if [name] != _HELD_FOR:
        release()
        _HELD_FOR[:] = [name]
