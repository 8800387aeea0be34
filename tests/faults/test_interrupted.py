"""Does a run of any audit that is interrupted or killed at any moment end, once repeated, in the same report?"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from equal_runs import QUICK, same, to
from forked_runs import Server
from stopped_states import files, whole, wrong_events

SHARE, SHARE_OF_FEW = 0.05, 0.15
"""Of all file events of a run, and where there are only some thirty; `every_event.py` takes all."""
FEW = {
    "audit-conditional",
    "audit-faithfulness",
    "audit-gradients",
    "audit-groups",
    "audit-phonemes",
    "audit-scaling",
    "audit-tracking",
}


def halfway(killed: list[dict[str, Any]]) -> Path:
    """Return the state of a killed run with about half of the results: some to be used again, others still to come."""
    # Of equal ones that with a file half written.
    states = {whole(Path(moment["kept"])): Path(moment["kept"]) for moment in killed}
    counts = {kept: len(results(kept / "cache")) for kept in reversed(states.values())}
    return min(counts, key=lambda kept: abs(2 * counts[kept] - max(counts.values())))


def results(cache: Path) -> dict[str, tuple[int, int]]:
    """Return of each whole result in a cache what changes when it is written again."""
    states = ((name, (cache / name).stat()) for name in whole(cache))
    return {name: (state.st_mtime_ns, state.st_ino) for name, state in states}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_run_stopped_anywhere_says_so_and_resumes(
    name: str, server: Server, work: Path, prepared: Path, tmp_path: Path
) -> None:
    words, out = QUICK[name], prepared / "work" / QUICK[name][-1]
    share = SHARE_OF_FEW if name in FEW else SHARE
    stopped, events = str(tmp_path / "stopped"), {"share": share, "kept": str(tmp_path / "events")}
    alone = server.run(words, work, tmp_path / "cache", stopped=stopped, events=events)
    assert alone.code == 0, alone.err
    same(work / words[-1], out)
    shutil.rmtree(work / words[-1])
    assert {"phase: Writing the report", "file"} < {moment["at"] for moment in alone.told}
    interrupted, killed = ([one for one in alone.told if one["signal"] == kind] for kind in ("SIGINT", "SIGKILL"))
    for one, other in zip(interrupted, killed, strict=True):
        assert one["code"] == 130, one
        begun = (Path(one["kept"]) / "run").exists()
        said = f"The same command with --out {words[-1]} goes on from here." if begun else "Nothing had been run."
        assert one["said"] == f"Interrupted. {said}\n", one
        assert (other["code"], other["said"]) == (-9, ""), other
        # An interrupt takes away what was half written, and nothing else.
        assert files(Path(one["kept"])) == whole(Path(other["kept"])), one
        assert "run/report.json" not in files(Path(other["kept"]))
    *told, counted = alone.events
    assert len(told) > 2 and counted["elsewhere"] == 0
    assert wrong_events(told) == []
    kept = halfway([*killed, *(one for one in told if one["kind"] == "SIGKILL")])
    before = results(kept / "cache")
    again = server.run(to(words, kept / "run"), work, kept / "cache")
    assert again.code == 0, again.err
    same(kept / "run", out)
    after = results(kept / "cache")
    assert before or len(after) < 2, "nothing that could be done twice"
    assert {name: after.get(name) for name in before} == before, "what was done before the kill is done again"
