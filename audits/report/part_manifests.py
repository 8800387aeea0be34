"""The manifests of the parts of a run: what each task of an array has computed, as JSON in the shared cache.

A part writes one when it begins and again when it ends, so that a part that was killed, or never ran, can be named by
the run that judges. A manifest is a note for people: what counts as computed is only what lies in the cache.
"""

import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from audits.core.context import Cache
from audits.core.errors import IncompleteError
from audits.core.machines import Stage, numbered, summed
from audits.report.report_file import write_text

KIND = "parts"
"""Subfolder of the cache."""
MOST_BYTES = 2**20
State = Literal["begun", "waits", "done"]
_NAME = re.compile(r"[0-9a-f]{64}\.(\d{1,7})-of-(\d{1,7})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one part of a run has done.

    Parameters
    ----------
    mark
        The hash of all that decides the report; parts of one run have the same.
    state
        It was begun, and is at work or was killed; it waits for other parts before it can go on; or it is done.
    began, seconds
        When this part was last begun, in UTC, and how long it took.
    machine
        The name of the computer.
    """

    audit: str
    mark: str
    number: int
    of: int
    state: State
    began: str
    seconds: float
    machine: str
    command: tuple[str, ...]
    stages: tuple[Stage, ...] = ()

    def ended(self, stages: Sequence[Stage], *, waits: bool, seconds: float) -> "Manifest":
        """Return the manifest at the part's end."""
        return replace(self, state="waits" if waits else "done", stages=summed(stages), seconds=round(seconds, 3))

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON."""
        return {
            "audit": self.audit,
            "fingerprint": self.mark,
            "part": self.number,
            "of": self.of,
            "state": self.state,
            "began": self.began,
            "seconds": self.seconds,
            "machine": self.machine,
            "command": list(self.command),
            "stages": [
                {
                    "things": stage.things,
                    "jobs": stage.jobs,
                    "computed": stage.computed,
                    "found": stage.found,
                    "missing": {str(number): count for number, count in stage.missing.items()},
                }
                for stage in self.stages
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the manifests say of the parts of a run; `of` is 0 where there is none."""

    of: int = 0
    states: Mapping[int, State] = field(default_factory=dict)

    def in_state(self, *states: State) -> list[int]:
        """Return the numbers of the parts in any of these states."""
        return [number for number, state in self.states.items() if state in states]

    @property
    def never_begun(self) -> list[int]:
        """The numbers of the parts without a manifest."""
        return [number for number in range(1, self.of + 1) if number not in self.states]

    def words(self) -> str:
        """Return in a sentence which parts are done, and which are not.

        >>> Parts(of=4, states={1: "done", 2: "begun", 3: "done"}).words()
        '2 of 4 parts are done; at work or killed: 2; not begun: 4'
        """
        done = self.in_state("done")
        said = [f"{len(done):,} of {self.of:,} parts are done"]
        open_ = {
            "waiting for others": self.in_state("waits"),
            "at work or killed": self.in_state("begun"),
            "not begun": self.never_begun,
        }
        said += [f"{what}: {numbered(numbers)}" for what, numbers in open_.items() if numbers]
        return "; ".join(said)

    def words_where_jobs_lack(self) -> str:
        """Return the same for a run that lacks jobs: where all parts are done, what they left went missing since.

        >>> Parts(of=2, states={1: "done", 2: "done"}).words_where_jobs_lack()
        '2 of 2 parts are done; some of what they left in the cache is gone or damaged'
        """
        all_done = 0 < self.of == len(self.in_state("done"))
        return self.words() + ("; some of what they left in the cache is gone or damaged" if all_done else "")


def write(cache: Cache, manifest: Manifest) -> Path:
    """Write a manifest into the cache, over an earlier one of the same part, and return its path.

    Raises
    ------
    IncompleteError
        Where the cache cannot be written.
    """
    path = _path(cache, manifest)
    cache.make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(manifest.to_json(), ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise IncompleteError(
            f"The manifest of the part cannot be written: {error.strerror or error}",
            where=str(path),
            hint="Make room, or point MILES_CACHE at a folder that all tasks may write.",
        ) from error
    return path


def remove(cache: Cache, manifest: Manifest) -> None:
    """Remove the manifest of a part that was refused; its folder stays, which others may be writing into."""
    with suppress(OSError):
        _path(cache, manifest).unlink(missing_ok=True)


def parts_of(cache: Cache, mark: str) -> Parts:
    """Return what is known of the parts of a run; of two ways to cut it into parts, the one that was used last."""
    found: dict[int, dict[int, State]] = {}
    latest: dict[int, float] = {}
    for path in _paths(cache, mark):
        match = _NAME.fullmatch(path.name)
        # A file that is none of ours, or was damaged, is no manifest.
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if match is None or not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > MOST_BYTES:
                continue
            number, of = int(match[1]), int(match[2])
            state = json.loads(path.read_bytes())["state"]
            if state in get_args(State) and 1 <= number <= of:
                found.setdefault(of, {})[number] = state
                latest[of] = max(latest.get(of, 0.0), path.stat().st_mtime)
    if not found:
        return Parts()
    of = max(latest, key=lambda each: (latest[each], each))
    return Parts(of=of, states=dict(sorted(found[of].items())))


def _path(cache: Cache, manifest: Manifest) -> Path:
    return _folder(cache, manifest.mark) / f"{manifest.mark}.{manifest.number}-of-{manifest.of}.json"


def _folder(cache: Cache, mark: str) -> Path:
    return cache.folder / KIND / mark[:2]


def _paths(cache: Cache, mark: str) -> Iterator[Path]:
    yield from _folder(cache, mark).glob(f"{mark}.*.json")
