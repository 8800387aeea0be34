"""Time all targets in rounds; of a run that was killed, the rounds that were measured are kept."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from audits.core.context import Context
from audits.scaling import Options
from audits.scaling.contention import VARIES, contention
from audits.scaling.counting import Counted, case_of
from audits.scaling.counts import LENGTH, Contention, Curve, SkippedLength, settled
from audits.scaling.inputs import Inputs
from probes.scaling.time_budget import LeftOut
from probes.scaling.timing import Cell, Stopwatch

KIND = "scaling-seconds"
STARTING = 60.0
"""Seconds that a process may take to begin, beyond the budget."""
WALL, DEVICE_MEMORY = "wall_time", "device_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What timing gave."""

    curves: dict[tuple[str, str, str], Curve]
    skipped_lengths: list[SkippedLength]
    cells: list[dict[str, object]]
    contention: Contention


def time_all(options: Options, inputs: Inputs, counted: Counted, context: Context) -> Timed:
    """Time every target at the lengths that fit into budget and memory, in shuffled rounds."""
    case = replace(case_of(options, context.dtype, inputs.lengths[0]), device=context.device)
    key = [asdict(case), [asdict(spec) for spec in inputs.specs], list(inputs.lengths), options.threads,
           options.allocator, options.budget_seconds, options.rounds, context.seed, platform.node(),
           torch.__version__]  # fmt: skip
    # The code of strangers may have changed since.
    lasting = all(spec.kind == "built-in" for spec in inputs.specs)

    def kept(what: object, compute: Callable[[], Any]) -> Any:
        return _memo(context, [*key, what], compute) if lasting else compute()

    curves = {name: counted.curves[name, "memory", LENGTH] for name in inputs.targets}
    asked = {name: [n for n in one.lengths if n <= inputs.lengths[-1]] for name, one in curves.items()}
    memory = {(name, n): int(one.values[0, at]) for name, one in curves.items() for at, n in enumerate(one.lengths)}
    cells: list[Cell] = []
    with Stopwatch(
        inputs.specs,
        case,
        threads=options.threads,
        allocator=options.allocator,  # type: ignore[arg-type]
        allow_code=options.allow_code,
        patience=options.budget_seconds + STARTING,
    ) as stopwatch:

        def plan() -> dict[str, Any]:
            found = stopwatch.plan(asked, budget_seconds=options.budget_seconds, rounds=options.rounds, memory=memory)
            return {"kept": dict(found.kept), "left_out": [asdict(one) for one in found.left_out]}

        with context.progress.phase("Looking which lengths fit into the budget", 1, "plans") as advance:
            planned = kept("plan", plan)
            advance(1)
        sizes = {name: tuple(lengths) for name, lengths in planned["kept"].items()}
        count = sum(map(len, sizes.values()))
        with context.progress.phase("Timing", options.rounds * count, "cells") as advance:
            for number in range(options.rounds if count else 0):
                rows = kept(number, partial(_round, stopwatch, number, context.seed, sizes))
                cells += [Cell(**row) for row in rows]
                advance(count)
    left_out = [LeftOut(**one) for one in planned["left_out"]]
    return Timed(
        curves=curves_of(cells, options.clock, list(sizes)),
        skipped_lengths=[SkippedLength(target=one.target, n=one.n, reason=one.reason, timing=True) for one in left_out],
        cells=[_row(cell, options.clock) for cell in cells],
        contention=_looked_at(cells),
    )


def _round(stopwatch: Stopwatch, number: int, seed: int, sizes: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    return [asdict(one) for one in stopwatch.round(number, seed, sizes)]


def _memo(context: Context, key: object, compute: Callable[[], Any]) -> Any:
    """Return a JSON value of the cache, or compute and keep it."""

    def encoded() -> dict[str, torch.Tensor]:
        return {"json": torch.tensor(list(json.dumps(compute()).encode()), dtype=torch.uint8)}

    return json.loads(bytes(context.cache.memo(KIND, key, encoded)["json"].tolist()))


def curves_of(cells: Sequence[Cell], clock: str, targets: Sequence[str]) -> dict[tuple[str, str, str], Curve]:
    """Return seconds by target: of the wall where it is asked for or there is no other clock; with both, of both."""
    found: dict[tuple[str, str, str], Curve] = {}
    for target in targets:
        own = [cell for cell in cells if cell.target == target]
        if not own:
            continue
        found[target, "time", LENGTH] = _curve(own, [_seconds(cell, clock) for cell in own])
        if clock == "both" and own[0].cpu is not None:
            found[target, WALL, LENGTH] = _curve(own, [cell.wall for cell in own])
        memory = [cell.memory for cell in own]
        if None not in memory:
            # The allocator of a GPU knows its kernels' workspaces too, which counting does not.
            device = _curve(own, [float(one or 0) for one in memory])
            found[target, DEVICE_MEMORY, LENGTH] = settled(device)
    return found


def _seconds(cell: Cell, clock: str) -> float:
    return cell.wall if clock == "wall" or cell.cpu is None else cell.cpu


def _curve(cells: Sequence[Cell], values: Sequence[float]) -> Curve:
    lengths, rounds = (sorted({getattr(cell, name) for cell in cells}) for name in ("n", "round"))
    table = np.full((len(rounds), len(lengths)), np.nan)
    for cell, value in zip(cells, values, strict=True):
        table[rounds.index(cell.round), lengths.index(cell.n)] = value
    return Curve(lengths=tuple(lengths), values=table, counted=False)


def _row(cell: Cell, clock: str) -> dict[str, object]:
    row = {"target": cell.target, "n": cell.n, "round": cell.round + 1, "seconds": _seconds(cell, clock),
           "wall_seconds": cell.wall, "processor_seconds": cell.cpu, "reference_seconds": cell.reference,
           "repeats": cell.repeats, "device_bytes": cell.memory}  # fmt: skip
    return {name: "" if value is None else value for name, value in row.items()}


def _looked_at(cells: Sequence[Cell]) -> Contention:
    found = contention(cells)
    rough = sum(one > VARIES for one in found.variation.values())
    text = (
        f"A fixed product of matrices was slowed in {len(found.flagged)} of {len({cell.round for cell in cells})} "
        f"rounds; seconds vary by more than a fifth at {rough} of {len(found.variation)} lengths of targets; "
        f"wall by processor time differs {found.ratio_spread:.1f} times over lengths; "
        f"{found.others:.1f} other threads were running for each core."
    )
    return Contention(contended=found.contended, text=text)
