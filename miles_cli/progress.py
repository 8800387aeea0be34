"""Progress of a run: a bar with rate and time left, or a line every half minute."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from miles_cli.system_errors import named

LINE_EVERY = 30.0


class Watch:
    """A timer of phases that shows each on stderr; `seconds` goes into the report's provenance.

    `check_interrupt` is called at every step, and raises where the user has interrupted the run.
    """

    def __init__(self, *, quiet: bool, check_interrupt: Callable[[], None] = lambda: None) -> None:
        self._check_interrupt = check_interrupt
        self.seconds: dict[str, float] = {}
        self._start = time.monotonic()
        self._quiet = quiet
        self._console = Console(stderr=True)

    def elapsed(self) -> dict[str, float]:
        """Return the wall seconds of every phase, and of all since the watch was made."""
        return {"total": round(time.monotonic() - self._start, 3), **self.seconds}

    def tell(self, text: str) -> None:
        """Print a sentence on stderr."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """Open a phase of `total` steps; the yielded function is called with the number of steps just done."""
        self._check_interrupt()
        start = time.monotonic()
        shown = self._silent if self._quiet else self._bar if sys.stderr.isatty() else self._lines
        try:
            with named(name), shown(name, total, unit) as advance:
                yield lambda steps: (self._check_interrupt(), advance(steps))[1]
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - start, 3)

    @contextmanager
    def _silent(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        yield lambda steps: None

    @contextmanager
    def _bar(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(show_speed=True),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(name, total=total)
            yield lambda steps: progress.advance(task, steps)

    @contextmanager
    def _lines(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        done, start = 0, time.monotonic()
        last = start

        def advance(steps: int) -> None:
            nonlocal done, last
            done += steps
            now = time.monotonic()
            if now - last >= LINE_EVERY:
                last = now
                left = (now - start) / max(done, 1) * (total - done)
                rate = done / (now - start)
                pace = f"{rate:.1f} a second" if rate >= 0.1 else f"{60 * rate:.1f} a minute"
                text = f"{name}: {done} of {total} {unit}, {pace}, about {_span(left)} left"
                # One line in a log, however narrow a console is taken for granted there.
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)

        yield advance


def _span(seconds: float) -> str:
    """Write an approximate duration: seconds up to two minutes, then minutes, then hours.

    >>> _span(99.6), _span(354), _span(9000)
    ('100 s', '6 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
