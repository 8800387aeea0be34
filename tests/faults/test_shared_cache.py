"""What if two runs share a cache or a run folder, or the cache is cleared while one is at work?"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from equal_runs import QUICK, same, to
from forked_runs import Server

Start = Callable[..., int]
PAIRS = {
    "audit-fairness": "audit-fairness",
    "interference": "interference",
    "spectra": "lipschitz",
}
"""Runs that are begun together."""
CLEARED = ("audit-fairness", "audit-phonemes", "interference", "precision-recall")
"""Audits whose cache is cleared under them, in one process and with workers: others use it in one of their ways."""


@pytest.fixture
def start(server: Server, work: Path, tmp_path: Path) -> Start:
    """Return a function that starts a run of an audit in a cache that all runs of a test share."""

    def begin(name: str, out: str, **more: Any) -> int:
        return server.start(to(QUICK[name], tmp_path / out), work, tmp_path / "cache", **more)

    return begin


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_two_runs_at_once_in_one_cache_give_the_reports_of_single_ones(
    name: str, start: Start, server: Server, prepared: Path, tmp_path: Path
) -> None:
    pair = (name, PAIRS[name])
    for number, ended in enumerate([server.end(run) for run in [start(pair[0], "0"), start(pair[1], "1")]]):
        assert ended.code == 0, ended.err
        same(tmp_path / str(number), prepared / "work" / QUICK[pair[number]][-1])
    assert not list((tmp_path / "cache").rglob(".part-*"))


@pytest.mark.parametrize("at", ["phase: Layer bounds", "phase: Writing the report"])
def test_a_second_run_is_kept_out_of_a_folder_in_which_one_is_at_work(
    at: str, start: Start, server: Server, prepared: Path, tmp_path: Path
) -> None:
    asleep = tmp_path / "asleep"
    first = start("lipschitz", "run", paused={"at": at, "file": str(asleep)})
    server.until(asleep.exists)
    for more in ([], ["--force"], ["--seed", "1"]):
        words = to([*QUICK["lipschitz"][:-2], *more, "--out", ""], tmp_path / "run")
        second = server.run(words, prepared / "work", tmp_path / "cache")
        assert (second.code, second.out) == (2, "")
        assert second.err.count("╭─ Error ─") == 1
        # Other settings are met first, unless they do not matter.
        assert ("unfinished run with other settings" if "--seed" in more else "Another run is at work") in second.err
        assert not (tmp_path / "run" / "report.json").exists()
    asleep.unlink()
    assert server.end(first).code == 0
    same(tmp_path / "run", prepared / "work" / QUICK["lipschitz"][-1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "workers"), [*itertools.product(CLEARED, ("1", "2")), ("spectra", "")])
def test_a_cache_that_is_cleared_again_and_again_costs_time_and_no_number(
    name: str, workers: str, server: Server, prepared: Path, tmp_path: Path
) -> None:
    work, cache = prepared / "work", tmp_path / "cache"
    words = to([*QUICK[name][:-2], *(["--workers", workers] if workers else []), *QUICK[name][-2:]], tmp_path / "run")
    ended = server.run(words, work, cache, cleared=True)
    if ended.code:
        # The models of a matrix are handed over as files: the run may end, but not with other numbers.
        assert (name, ended.code) == ("interference", 3), ended.err
        assert "the same command goes on from what is finished" in ended.err
        assert not (tmp_path / "run" / "report.json").exists()
        ended = server.run(words, work, cache)
    assert ended.code == 0, ended.err
    same(tmp_path / "run", work / QUICK[name][-1])


def test_clearing_leaves_what_another_run_is_just_writing(
    start: Start, server: Server, prepared: Path, tmp_path: Path
) -> None:
    asleep, cache = tmp_path / "asleep", tmp_path / "cache"
    # The third file is an entry of the cache: the settings of the run and a first entry come before it.
    first = start("spectra", "run", paused={"at": "file", "time": 3, "file": str(asleep)})
    server.until(asleep.exists)
    parts = list(cache.rglob(".part-*"))
    assert len(parts) == 1
    assert server.run(["cache", "--clear"], tmp_path, cache).code == 0
    assert [file for file in cache.rglob("*") if file.is_file()] == parts
    asleep.unlink()
    assert server.end(first).code == 0
    same(tmp_path / "run", prepared / "work" / QUICK["spectra"][-1])
