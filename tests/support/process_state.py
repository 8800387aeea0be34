"""Settings of the process: those of every run of tests, and those that whole files ask for by `usefixtures`."""

import gc
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.doctest import DoctestModule

GRAMMARS = "rfc3987_syntax"
"""What jsonschema takes to judge addresses beyond ASCII; to load it builds 38 grammars, which takes 2 s."""


def _judged(term: str, value: str) -> bool:
    """Judge an address by the package itself, which is loaded now that a schema asks for it."""
    if isinstance(sys.modules[GRAMMARS], _Unloaded):
        del sys.modules[GRAMMARS]
    return bool(import_module(GRAMMARS).is_valid_syntax(term, value))


class _Unloaded(ModuleType):
    """Stands in for the package until then."""

    is_valid_syntax = staticmethod(_judged)


def pytest_configure() -> None:
    """Let jsonschema be imported, as each worker does, without grammars that a test or two need."""
    if GRAMMARS not in sys.modules and find_spec(GRAMMARS) is not None:
        sys.modules[GRAMMARS] = _Unloaded(GRAMMARS)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings only where there is a prompt: every file of tests would be searched twice."""
    collected = yield
    prompted = file_path.suffix != ".py" or b">>> " in file_path.read_bytes()
    return [one for one in collected if prompted or not isinstance(one, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage, and keep what stands then, which stays to the end, from all searches.

    They took two fifths of the collection, then a fifth of what short tests take.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # The oldest are searched between tests; a test that makes very many of its own, within it too.
        gc.set_threshold(*gc.get_threshold()[:2], 10 * SEARCHES)


SEARCHES = 10
"""Searches of younger objects after which the oldest are searched too, as Python sets it."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    """Search all objects between two tests, and keep what then stands from all later searches.

    Nearly all of it are modules, which each search would look through anew.
    """
    if gc.get_count()[2] >= SEARCHES:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let torch use one thread: models of tests are so small that more are in each other's way."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fail the test that leaves torch on another device or type of numbers than it found, not those that come after."""
    found = yield
    if (holding := sys.modules.get("probes.core.holding")) is not None:
        # What one test loaded is no other's, though it may have the same key.
        holding.release()
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "get_default_device"):
        state = str(torch.get_default_device()), torch.get_default_dtype(), torch._C._len_torch_function_stack()
        if state != ("cpu", torch.float32, 0):
            torch.set_default_dtype(torch.float32)
            while torch._C._len_torch_function_stack():
                torch._C._pop_torch_function_stack()
            pytest.fail(f"this test leaves torch with {state}")
    return found
