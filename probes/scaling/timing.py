"""Time targets over lengths in a child process whose threads and allocator are fixed; each round can be kept.

A single thread and its processor time are what holds on a busy machine; with more threads a barrier waits for
whichever thread the system has put aside. Above glibc's threshold each tensor is mapped and its pages are faulted in
anew, which bends the curve: with the allocator held, memory stays with the process.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch

from probes.core.errors import IncompleteError, InputError
from probes.core.random_streams import stream
from probes.core.systems import APART
from probes.core.worker_processes import ONE_CORE
from probes.scaling.time_budget import LeftOut, Plan, within_budget
from probes.scaling.workloads import Case, TargetSpec

Allocator = Literal["default", "held"]
HELD = {"MALLOC_MMAP_THRESHOLD_": 2**32, "MALLOC_TRIM_THRESHOLD_": 2**33, "MALLOC_TOP_PAD_": 2**28}
"""What keeps glibc from giving memory back: bytes."""
MEMORY_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One target at one length in one round.

    Parameters
    ----------
    cpu, wall
        Seconds of a call, the least of its repeats; `cpu` is None on a GPU.
    reference
        Wall seconds of a fixed product of matrices just before.
    others
        How many others were running, by the cores of the machine; None where the system does not tell.
    memory
        Bytes at the peak of the call beyond those before it; on a GPU alone.
    """

    target: str
    n: int
    round: int
    cpu: float | None
    wall: float
    repeats: int
    reference: float
    memory: int | None
    others: float | None = None


class Stopwatch:
    """A child process that times targets; it ends with the context, or when this process does.

    Weights and inputs are made anew for each cell, outside the clock, and dropped after it; the result of a call is
    freed when the clock has stopped. In mode decode a callable of the user, which may append to the state that it is
    given, has them made anew for each repeat, of which there are three.

    Parameters
    ----------
    case
        What all calls share; its length is not looked at.
    threads
        Threads of torch, one where processor time is to say something.
    allocator
        Whether memory that is freed goes back to the system as deployed, or is held by the process.
    allow_code
        Whether callables of the user may be imported and called.
    patience
        Seconds after which a call is given up, with its child.

    Raises
    ------
    InputError
        By `plan` and `round`, where a target cannot be opened.
    IncompleteError
        By the same, where the child cannot be started.
    """

    def __init__(
        self,
        specs: Sequence[TargetSpec],
        case: Case,
        *,
        threads: int = 1,
        allocator: Allocator = "default",
        allow_code: bool = False,
        patience: float = 3600.0,
    ) -> None:
        self._setup = {
            "targets": [asdict(spec) for spec in specs],
            "case": asdict(case),
            "threads": threads,
            "allow_code": allow_code,
            "touched": HELD["MALLOC_TOP_PAD_"] if allocator == "held" else 0,
        }
        self._held = allocator == "held"
        self._patience = patience
        self._child: subprocess.Popen[str] | None = None
        self._free = 0

    def __enter__(self) -> "Stopwatch":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def plan(
        self,
        lengths: Mapping[str, Sequence[int]],
        *,
        budget_seconds: float,
        rounds: int,
        memory: Mapping[tuple[str, int], int],
    ) -> Plan:
        """Try the lengths of each target upwards, and keep those whose rounds fit into the budget and the memory.

        Parameters
        ----------
        memory
            Counted bytes at the peak, by target and length; above half of what is free, a length is left out.
        """
        self._open_child()

        for target, sizes in lengths.items():
            # What a first call of a process loads and compiles is no part of any length.
            self._ask(target, min(sizes))
        most = MEMORY_SHARE * self._free
        needs = {size: need for size, need in memory.items() if need > most and size[1] in lengths.get(size[0], ())}
        too_big = [
            LeftOut(target=target, n=n, kind="memory", reason=f"needs {need / 2**30:.3g} GiB, more than half of the "
                    f"{self._free / 2**30:.3g} GiB that are free")
            for (target, n), need in needs.items()
        ]  # fmt: skip

        def probe(target: str, n: int) -> float | LeftOut:
            answer = self._ask(target, n)
            if "reason" in answer:
                return LeftOut(target=target, n=n, kind=answer["kind"], reason=answer["reason"])
            return float(answer["spent"])

        fitting = {target: [n for n in sizes if (target, n) not in needs] for target, sizes in lengths.items()}
        found = within_budget(fitting, budget_seconds, rounds, probe)
        return replace(found, left_out=(*found.left_out, *too_big))

    def round(self, number: int, seed: int, kept: Mapping[str, Sequence[int]]) -> list[Cell]:
        """Measure all kept lengths once, in an order of this round's own; a length that fails gives no cell."""
        answers = [(target, n, self._ask(target, n)) for target, n in order(kept, number, seed)]
        return [
            Cell(target=target, n=n, round=number, **{key: value for key, value in answer.items() if key != "spent"})
            for target, n, answer in answers
            if "reason" not in answer
        ]

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                # What could not be written to a child that died is written once more on closing.
                with suppress(BrokenPipeError):
                    if pipe is not None:
                        pipe.close()

    def _ask(self, target: str, n: int) -> dict[str, Any]:
        """Return the child's answer, or where it died, the reason; the next question starts another."""
        self._open_child()
        answer = self._exchange({"target": target, "n": n})
        if answer is None:
            return {"kind": "memory", "reason": f"the process ended with status {self._end()}, for want of memory "
                    f"or after {self._patience:.0f} s"}  # fmt: skip
        return answer

    def _open_child(self) -> None:
        if self._child is not None:
            return
        self._child = _start(int(self._setup["threads"]), held=self._held)  # type: ignore[call-overload]
        answer = self._exchange(self._setup)
        if answer is None:
            message = f"The process that measures times ended with status {self._end()}."
            raise IncompleteError(message, hint="Run it again, or count only: --rounds 0.")
        if "refused" in answer:
            self.close()
            message, where, hint = answer["refused"]
            raise InputError(message, where=where, hint=hint)
        self._free = answer["free"]

    def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        # One that sleeps, or takes longer than all may, is ended.
        timer = threading.Timer(self._patience, child.kill)
        timer.daemon = True
        timer.start()
        try:
            line = child.stdout.readline()
        finally:
            timer.cancel()
        answer: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
        return answer

    def _end(self) -> int:
        assert self._child is not None
        status = self._child.wait()
        self.close()
        return status


def order(kept: Mapping[str, Sequence[int]], number: int, seed: int) -> list[tuple[str, int]]:
    """Return the targets and lengths in the random order of a round, the same for equal seeds.

    >>> sorted(order({"a": [1, 2], "b": [1]}, 0, 0))
    [('a', 1), ('a', 2), ('b', 1)]
    """
    cells = [(target, n) for target, sizes in kept.items() for n in sizes]
    places = torch.randperm(len(cells), generator=stream(seed, f"order of the times of round {number}"))
    return [cells[place] for place in places.tolist()]


def _start(threads: int, *, held: bool) -> "subprocess.Popen[str]":
    environment = os.environ | dict.fromkeys(ONE_CORE, str(threads))
    if held:
        environment |= {name: str(size) for name, size in HELD.items()}
    # The current folder is importable for the user's callables alone: a module there must not stand in for ours.
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-c",
         f"from probes.scaling.timing_child import serve; serve({os.getpid()})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        encoding="utf-8",
        **APART,
    )  # fmt: skip
