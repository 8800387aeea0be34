"""Does the number of threads change a report?

That two processes with one thread give equal reports is found on the way in the other files of this folder: all
compare runs of one process with those of another, whose hashes have another seed.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from equal_runs import QUICK, records, report, same
from forked_runs import Server

ROUNDED = ("spectra",)
"""Audits whose numbers may differ in their last digits; see docs/determinism.md."""
RELATIVE, ABSOLUTE = 1e-5, 1e-6


@pytest.fixture(scope="module")
def two_threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("two") / "logs", threads=2)
    yield made
    made.close()


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Yield where two trees differ by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name in one:
            yield from differences(one[name], other[name], f"{place}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif one != other and not _close(one, other):
        yield f"{place}: {one} and {other}"


def _close(one: Any, other: Any) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except (TypeError, ValueError):
        return False


def test_what_is_more_than_rounding_is_found() -> None:
    one = {"a": [1.0, "0.5", "x"], "b": None}
    assert list(differences(one, {"a": [1.000001, "0.5000001", "x"], "b": None})) == []
    for other in ({"a": [1.1, "0.5", "x"], "b": None}, {"a": [1.0, "0.5", "y"], "b": None}, {"a": [], "b": None}, {}):
        assert len(list(differences(one, other))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUICK))
def test_two_threads_give_the_report_of_one(
    name: str, two_threads: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    out, alone = tmp_path / "run", prepared / "work" / QUICK[name][-1]
    ended = two_threads.run([*QUICK[name][:-1], str(out)], work, tmp_path / "cache")
    assert ended.code == 0, ended.err
    asked = [json.loads((folder / "report.json").read_bytes())["provenance"]["threads"] for folder in (out, alone)]
    assert asked == [2, 1]
    if name not in ROUNDED:
        same(out, alone)
        return
    assert list(differences(report(out), report(alone))) == []
    assert list(differences(records(out), records(alone))) == []
    # A verdict is an id and a sentence: of these nothing may differ.
    assert [report(folder)["findings"] for folder in (out, alone)] == [report(alone)["findings"]] * 2
    assert [one["id"] for one in report(out)["warnings"]] == [one["id"] for one in report(alone)["warnings"]]
