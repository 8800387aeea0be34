"""Clips of a manifest: one recording each, or all of a large manifest as columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

import numpy as np

from probes.core.errors import InputError
from probes.files.cells import Cell, Cells, Coded, Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One recording, or the part of one between `start` and `end` (seconds).

    Parameters
    ----------
    path
        Absolute, symbolic links resolved; the manifest itself where that names no recordings.
    name
        The path as it is written in the manifest.
    line, source
        Where the clip is listed: the line (from 1) of the file.
    attributes
        Level of each attribute asked for; `unknown` where nothing is known.
    extras
        Every other column as written, and the number behind each bin.
    fault
        Why nothing may be opened here: no path is given, or one that leads out of its folder.
    """

    path: Path
    name: str
    line: int
    source: Path
    text: str | None = None
    speaker: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, str] = field(default_factory=dict)
    start: float | None = None
    end: float | None = None
    fault: InputError | None = field(default=None, compare=False)

    @property
    def where(self) -> str:
        """Where a message about this clip points to."""
        return f"{self.source}:{self.line}{self.label}"

    @property
    def label(self) -> str:
        """The name between brackets, to stand behind the line; empty where it says no more than the line."""
        return "" if self.name in ("", f"line {self.line}") else f" ({self.name})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clips(Sequence[Clip]):
    """Clips as columns, of which one is made when it is asked for; nothing is opened, and none is a part of another.

    Parameters
    ----------
    names
        Paths as written; None where the manifest names no recordings, `path` is that of all then.
    lines, sources
        Where each clip is listed: its line, and its file.
    texts, speakers
        None where there is no such column.
    extras
        Every other column as written.
    places
        Which rows of the columns are the clips, shape (clips,).
    """

    names: Sequence[Cell] | None
    path: Path
    lines: Sequence[int]
    sources: Sequence[Path]
    texts: Sequence[Cell] | None
    speakers: Coded | None
    attributes: Mapping[str, Coded]
    extras: Mapping[str, Sequence[Cell]]
    places: Places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Clip: ...
    @overload
    def __getitem__(self, at: slice) -> "Clips": ...
    def __getitem__(self, at: int | slice) -> "Clip | Clips":
        if isinstance(at, slice):
            return replace(self, places=self.places[at])
        row = int(self.places[at])
        name = f"line {self.lines[row]}" if self.names is None else str(self.names[row])
        extras = ((column, cells[row]) for column, cells in self.extras.items())
        attributes = ((column, coded.levels[coded.codes[row]]) for column, coded in self.attributes.items())
        return Clip(
            path=self.path if self.names is None else Path(name),
            name=name,
            line=self.lines[row],
            source=self.sources[row],
            text=None if self.texts is None else self.texts[row],
            speaker=None if self.speakers is None else self.speakers.levels[self.speakers.codes[row]],
            attributes={column: str(level) for column, level in attributes},
            extras={column: cell for column, cell in extras if cell is not None},
        )

    def __iter__(self) -> Iterator[Clip]:
        return (self[at] for at in range(len(self)))

    def take(self, places: Places) -> "Clips":
        """Return some of the clips, by their numbers here."""
        return replace(self, places=self.places[places])

    @property
    def _whole(self) -> bool:
        return len(self.places) == len(self.lines) and bool((np.diff(self.places) == 1).all())

    def _column(self, cells: Sequence[Cell] | None) -> Sequence[Cell]:
        if cells is None:
            return Coded((None,), np.zeros(len(self), dtype=np.int32)).values()
        if self._whole:
            return cells
        return cells.take(self.places) if isinstance(cells, Cells) else [cells[at] for at in self.places.tolist()]

    def each_name(self) -> Sequence[Cell]:
        """Return the names of the clips."""
        if self.names is None:
            return [f"line {self.lines[at]}" for at in self.places.tolist()]
        return self._column(self.names)

    def each_text(self) -> Sequence[Cell]:
        """Return the text of each clip; None where it has none."""
        return self._column(self.texts)

    def each_line(self) -> list[int]:
        """Return the line of each clip."""
        return [self.lines[at] for at in self.places.tolist()]

    def each_extra(self, column: str) -> Sequence[Cell]:
        """Return the cell of a column that is not in use otherwise; None where there is none."""
        return self._column(self.extras.get(column))

    def each_speaker(self) -> Coded:
        """Return the speaker of each clip; None where nobody is named."""
        if self.speakers is None:
            return Coded((None,), np.zeros(len(self), dtype=np.int32))
        return self.speakers.take(self.places)

    def each_level(self, attribute: str) -> Coded:
        """Return the level of an attribute of each clip."""
        return self.attributes[attribute].take(self.places)


def as_columns(clips: Sequence[Clip]) -> Clips:
    """Return clips that were made one by one as columns; they must not be parts of recordings, nor have faults."""
    if isinstance(clips, Clips):
        return clips
    attributes = dict.fromkeys(name for clip in clips for name in clip.attributes)
    extras = dict.fromkeys(name for clip in clips for name in clip.extras)
    return Clips(
        names=Cells(clip.name for clip in clips),
        path=Path(),
        lines=[clip.line for clip in clips],
        sources=[clip.source for clip in clips],
        texts=Cells(clip.text for clip in clips),
        speakers=Coded.of(clip.speaker for clip in clips),
        attributes={name: Coded.of(clip.attributes[name] for clip in clips) for name in attributes},
        extras={name: Cells(clip.extras.get(name) for clip in clips) for name in extras},
        places=np.arange(len(clips), dtype=np.intp),
    )
