"""Settings of the process that whole files of tests ask for by `pytest.mark.usefixtures`."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let torch use one thread: models of tests are so small that more are in each other's way."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """Keep what is loaded out of the garbage collections that statsmodels asks for at every correction."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
