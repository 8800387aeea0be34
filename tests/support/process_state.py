"""Settings of the process: those of every run of tests, and those that whole files ask for by `usefixtures`."""

import gc
import sys
from collections.abc import Generator, Iterator

import pytest


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
