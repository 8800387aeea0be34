"""Does what a job raises in a worker come back as what it was, by plain data alone?"""

import pickle
from pathlib import Path

import pytest

from probes.core.errors import IncompleteError, InputError, MilesError
from probes.core.worker_processes import Fault, call
from probes.files.safe_paths import OutsideError


class LookupError(Exception):
    """Shares its name with one of Python's."""


def again(error: Exception) -> Exception:
    """Return what this process makes of an error in a worker."""

    def fail(_: int) -> None:
        raise error

    fault = call(fail, 0).fault
    assert fault is not None and all(type(one) in (str, int, float, bool) for one in fault.arguments)
    return Fault(
        *pickle.loads(pickle.dumps((fault.kind, fault.arguments, fault.where, fault.hint, fault.trace)))
    ).error()


@pytest.mark.parametrize(("kind", "told"), [(InputError,) * 2, (IncompleteError,) * 2, (OutsideError, InputError)])
def test_errors_of_ours_come_back_whole(kind: type[MilesError], told: type[MilesError]) -> None:
    found = again(kind("The file is empty.", where="points.csv, line 1", hint="Give points."))
    assert type(found) is told
    assert vars(found) == {"message": "The file is empty.", "where": "points.csv, line 1", "hint": "Give points."}
    assert str(found) == "The file is empty."


def test_errors_of_python_come_back_with_their_traceback(tmp_path: Path) -> None:
    missing = FileNotFoundError(2, "No such file or directory", str(tmp_path / "a.npy"))
    for error in (missing, ValueError("3 is odd"), MemoryError(), KeyError("a")):
        found = again(error)
        assert type(found) is type(error) and str(found) == str(error)
        assert "In a worker:" in found.__notes__[0] and "in fail" in found.__notes__[0]
    assert again(missing).errno == 2  # type: ignore[attr-defined]


def test_any_other_is_told_by_its_traceback() -> None:
    odd = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    for error in (LookupError("of ours"), odd, ExceptionGroup("several", [ValueError("one")])):
        found = again(error)
        assert type(found) is RuntimeError and "in fail" in str(found) and str(error).splitlines()[0] in str(found)


def test_what_is_not_plain_is_told_in_words() -> None:
    assert again(ValueError({"a": 1}, [2])).args == ("({'a': 1}, [2])",)
