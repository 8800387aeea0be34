"""Contained work done in the process of the tests, where its time is counted and the files that it opens may fail."""

import sys
from collections.abc import Callable
from typing import Any

from probes.core.errors import MilesError


def in_this_process(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let all modules that are imported do here what they would give to a child; `put` sets a name of a module."""
    import probes.contained as contained

    def call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            if isinstance(error, MilesError):
                raise
            raise contained.ContainedError(type(error).__name__, str(error)) from error

    class Session:
        def __init__(self, opener: Callable[..., Any], *args: Any, **named: Any) -> None:
            self._object = opener(*args)

        def ask(self, method: str, *args: Any) -> Any:
            return getattr(self._object, method)(*args)

        def close(self) -> None:
            pass

    real = {contained.call: call, contained.Session: Session}
    for module in [module for name, module in sys.modules.items() if name.startswith(("probes", "audits"))]:
        for name in ("call", "Session"):
            if getattr(module, name, None) in real:
                put(module, name, real[getattr(module, name)])
