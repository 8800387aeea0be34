"""Count every target at every length: what was asked for, what lies beyond, and what else is varied."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from audits.core.context import Context
from audits.scaling import Options
from audits.scaling.counts import LENGTH, Curve, SkippedLength, Uncounted
from probes.core.errors import InputError, MilesError, first_line
from probes.scaling.counting import Count, NeedsValuesError, TooManyCallsError, count
from probes.scaling.workloads import Case, LengthError, ModeError, Target

FEWEST, WIDENED = 2, 5
"""Lengths at the least, and the widths and batches that are tried, each twice the one before."""
MOST_CALLS, MOST_CALLS_BEYOND = 100_000, 20_000
"""Dispatched calls of one count, at lengths asked for and beyond: a loop over tokens has as many as tokens."""
MOST_REAL = 2**31
"""Bytes that a count on real tensors may take."""
WIDEST = 2**20
BOTH = "length=width"
_OF_COUNT: Mapping[str, Callable[[Count], int | None]] = {
    "operations": lambda one: one.operations,
    "bytes_moved": lambda one: one.bytes_moved,
    "memory": lambda one: one.memory,
    "state": lambda one: one.state,
}


@dataclass(slots=True)
class Counted:
    """What counting gave, target by target."""

    curves: dict[tuple[str, str, str], Curve] = field(default_factory=dict)
    allocated: dict[str, Curve] = field(default_factory=dict)
    skipped_lengths: list[SkippedLength] = field(default_factory=list)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)
    on_real: dict[str, str] = field(default_factory=dict)


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Name the target in an error of its own code.

    Raises
    ------
    InputError
        In place of what the code raises.
    """
    try:
        # What it prints must not stand in the answer of a command.
        with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing):
            yield
    except ModeError as error:
        hint = "Choose another --mode, or a target that has it."
        raise InputError(f"{str(error).rstrip('.')}.", where="--mode", hint=hint) from error
    except (MilesError, MemoryError, LengthError, NeedsValuesError, TooManyCallsError):
        raise
    except (Exception, SystemExit) as error:
        message = f"{name} fails: {type(error).__name__}: {first_line(error)}"
        hint = "It is called as f(batch, n, width, device), and what it returns on (batch, n, width): do so yourself."
        raise InputError(message, where=f"TARGET {name}", hint=hint) from error


def case_of(options: Options, dtype: str, n: int, **changed: int) -> Case:
    """Return the case of a length, counted on the processor."""
    sizes = {"batch": options.batch, "width": options.width, "n": n, **changed}
    return Case(**sizes, mode=options.mode, dtype=dtype)  # type: ignore[arg-type]


def count_all(
    options: Options, targets: Mapping[str, Target], lengths: Sequence[int], further: Sequence[int], context: Context
) -> Counted:
    """Count every target at every length asked for, at lengths beyond, and along what else is varied."""
    found = Counted()
    steps = len(targets) * (len(lengths) + len(further))
    dtype = context.dtype
    with context.progress.phase("Counting", steps, "lengths") as advance:
        for name, target in targets.items():
            cases = [(n, case_of(options, dtype, n)) for n in (*lengths, *further)]
            rows = _counts(name, target, cases, len(lengths), found, advance)
            if len(rows) < FEWEST:
                reason = found.skipped_lengths[-1].reason
                hint = f"Give {FEWEST} lengths or more that it can be called at."
                raise InputError(f"{name} has {len(rows)} length: {reason}.", where="--lengths", hint=hint)
            _keep(found, name, LENGTH, rows)
            last = max(n for n in rows if n <= lengths[-1])
            found.uncounted[name] = Uncounted(operators=dict(rows[last].uncounted), calls=rows[last].calls)
            for variable, others in _varied(options, dtype, (*lengths, *further), last):
                _keep(found, name, variable, _counts(name, target, others, len(others), Counted(), lambda steps: None))
    return found


def try_first(name: str, target: Target, options: Options, dtype: str, n: int) -> None:
    """Count a target at its first length.

    Raises
    ------
    InputError
        Where it cannot be called there.
    """
    found = Counted()
    if not _counts(name, target, [(n, case_of(options, dtype, n))], 1, found, lambda steps: None):
        raise InputError(
            f"{name} has no length: {found.skipped_lengths[0].reason}.", where="--lengths", hint="Give shorter ones."
        )


def _varied(
    options: Options, dtype: str, lengths: Sequence[int], last: int
) -> Iterator[tuple[str, list[tuple[int, Case]]]]:
    """Yield what is varied beside length, and its cases by the value that grows."""
    if "width" in options.vary:
        widths = [options.width * 2**i for i in range(WIDENED)]
        yield "width", [(width, case_of(options, dtype, last, width=width)) for width in widths]
    if "batch" in options.vary:
        batches = [options.batch * 2**i for i in range(WIDENED)]
        yield "batch", [(batch, case_of(options, dtype, last, batch=batch)) for batch in batches]
    if {"length", "width"} <= {*options.vary}:
        both = [n for n in lengths if n <= WIDEST]
        yield BOTH, [(n, case_of(options, dtype, n, width=n)) for n in both]


def _counts(
    name: str,
    target: Target,
    cases: Sequence[tuple[int, Case]],
    asked: int,
    found: Counted,
    advance: Callable[[int], None],
) -> dict[int, Count]:
    """Return counts by what grows, up to the first case that has none; why is noted in `found`."""
    rows: dict[int, Count] = {}
    for at, (size, case) in enumerate(cases):
        beyond = at >= asked
        if beyond and name in found.on_real:
            break
        try:
            with blamed(name):
                rows[size] = _count(name, target, case, found, MOST_CALLS_BEYOND if beyond else MOST_CALLS, rows)
        except (LengthError, TooManyCallsError, MemoryError) as error:
            reason = str(error).rstrip(".") or "too much memory"
        except InputError as error:
            if not rows:
                raise
            reason = error.message
        else:
            advance(1)
            continue
        if not beyond:
            found.skipped_lengths += [SkippedLength(target=name, n=n, reason=reason) for n, _ in cases[at:asked]]
        break
    return rows


def _count(name: str, target: Target, case: Case, found: Counted, most_calls: int, rows: Mapping[int, Count]) -> Count:
    """Count on fake tensors; on real ones where the target reads values, as long as they take little memory."""
    if name not in found.on_real:
        try:
            return count(target, case, most_calls=most_calls)
        except NeedsValuesError as error:
            found.on_real[name] = str(error)
    if len(rows) > 1:
        first, last = list(rows.values())[-2:]
        expected = last.memory**2 // max(first.memory, 1)
        if expected > MOST_REAL:
            raise LengthError(f"it would take {expected / 2**30:.1f} GiB on real tensors")
    return count(target, case, real=True, most_calls=most_calls)


def _keep(found: Counted, name: str, variable: str, rows: Mapping[int, Count]) -> None:
    sizes = tuple(rows)
    if len(sizes) < FEWEST:
        return
    for quantity, take in _OF_COUNT.items():
        values = [take(one) for one in rows.values()]
        if all(value is not None for value in values):
            found.curves[name, quantity, variable] = _curve(sizes, values)
    allocated = [one.state_allocated for one in rows.values()]
    if variable == LENGTH and all(value is not None for value in allocated):
        found.allocated[name] = _curve(sizes, allocated)


def _curve(sizes: tuple[int, ...], values: Sequence[int | None]) -> Curve:
    return Curve(lengths=sizes, values=np.array([values], dtype=np.float64), counted=True)
