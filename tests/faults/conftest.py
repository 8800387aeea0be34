"""What the tests of this folder share: a server that runs miles, and inputs that it may work on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_runs import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server") / "logs")
    yield made
    made.close()


@pytest.fixture(scope="session")
def work(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the inputs of the small world, to be run on: nothing in it but `runs` may change."""
    folder = tmp_path_factory.mktemp("faults") / "work"
    shutil.copytree(prepared / "work", folder, ignore=shutil.ignore_patterns("runs"))
    return folder
