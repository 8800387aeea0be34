"""Does the process that forks children know the folders of libraries that each of them may read?"""

import importlib
import socket
import sys
from pathlib import Path

import pytest

from probes.contained.server import _Server


def test_folders_of_libraries_are_looked_for_anew_once_something_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "imported_for_a_later_job"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").touch()
    here, there = socket.socketpair()
    with here, there:
        server = _Server(here)
        before = server.libraries()
        assert before and str(package) not in before
        assert server.libraries() is before
        monkeypatch.syspath_prepend(tmp_path)
        importlib.import_module(package.name)
        assert str(package) in server.libraries()
    del sys.modules[package.name]
