"""The child process that measures times: one JSON object sets it up, each later line asks for a target at a length."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NoReturn, TextIO

import torch

from probes.core.errors import MilesError, first_line
from probes.core.worker_processes import settle
from probes.scaling.call_times import (
    Clock,
    clock_of,
    free_memory,
    reference_kernel,
    reference_seconds,
    repeated,
    running_others,
)
from probes.scaling.targets import open_target
from probes.scaling.workloads import Case, LengthError, ModeError, TargetSpec, Workload


def serve(parent: int) -> NoReturn:
    """Answer the lines of standard input until it closes or the parent is gone; Ctrl-C is left to the parent."""
    settle(parent)
    requests, answers = _lines()
    status = 1
    try:
        measure: Callable[[str, int], dict[str, Any]] | None = None
        for line in requests:
            request = json.loads(line)
            if measure is None:
                answer, measure = _set_up(request)
            else:
                answer = measure(request["target"], request["n"])
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        status = 0
    finally:
        # Threads that the user's code left behind must not keep the process.
        os._exit(status)


def _lines() -> tuple[TextIO, TextIO]:
    """Return the streams of requests and answers, and put empty ones in their place: user code may read and print."""
    requests, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return requests, answers


def _set_up(request: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str, int], dict[str, Any]] | None]:
    case, threads = Case(**request["case"]), int(request["threads"])
    torch.set_num_threads(threads)
    # What the heap grows by in advance is touched here: else the first calls fault in its pages.
    torch.zeros(request["touched"], dtype=torch.uint8)
    # Numbers close to 0 are slow on a CPU, and decaying scans are full of them.
    torch.set_flush_denormal(True)
    try:
        specs = [TargetSpec(**one) for one in request["targets"]]
        targets = {spec.name: open_target(spec, allow_code=request["allow_code"]) for spec in specs}
        # A step of the user's may append to the state that it is given; ours leave it as it was.
        changing = {spec.name for spec in specs if spec.kind == "factory" and case.mode == "decode"}
    except MilesError as error:
        return {"refused": [error.message, error.where, error.hint]}, None
    clock, kernel = clock_of(case.device, threads), reference_kernel(case.device)
    reference_seconds(kernel, clock)

    def measure(name: str, n: int) -> dict[str, Any]:
        return _measured(partial(targets[name].workload, replace(case, n=n)), clock, kernel, anew=name in changing)

    return {"free": free_memory(case.device)}, measure


def _measured(
    make: Callable[[], Workload], clock: Clock, kernel: Callable[[], object], *, anew: bool
) -> dict[str, Any]:
    """Measure a target at a length: seconds, or the reason why there are none."""
    begun = perf_counter()
    try:
        others, reference = running_others(), reference_seconds(kernel, clock)
        taken, repeats = repeated(make, clock, anew=anew)
    except (Exception, SystemExit) as error:
        kind, text = _kind(error), first_line(error)
        explained = kind != "error" or isinstance(error, MilesError)
        return {"kind": kind, "reason": text if explained else f"fails with {type(error).__name__}: {text}"}
    return {"cpu": taken.cpu, "wall": taken.wall, "memory": taken.memory, "repeats": repeats,
            "reference": reference, "others": others, "spent": perf_counter() - begun}  # fmt: skip


def _kind(error: BaseException) -> str:
    """Say of what kind a failure is; torch has no class of its own for an allocation on the CPU that fails."""
    if isinstance(error, LengthError | ModeError):
        return "length" if isinstance(error, LengthError) else "mode"
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
    return "memory" if memory else "error"
