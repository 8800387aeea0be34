"""Clips of a manifest that cannot be used, collected so that all of them are named at once."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from probes.core.errors import InputError
from probes.files.safe_paths import OutsideError
from probes.files.several_refusals import SHOWN, counted, one_line, several
from probes.speech.audio import inspect_clip
from probes.speech.manifests import Clip

P = ParamSpec("P")
T = TypeVar("T")


class BadClips:
    """The refusals of clips, in the order in which they were found.

    Parameters
    ----------
    manifest, given
        Where the clips are listed, and how many there are.
    skip
        The option that leaves such clips out, such as "--on-bad skip".
    advice
        What may be wrong with the manifest as a whole; empty where nothing is known.
    most
        Refusals that are named; the others are counted.
    """

    def __init__(self, manifest: Path, given: int, *, skip: str, advice: str = "", most: int = SHOWN) -> None:
        self._most = most
        self._manifest, self._given, self._skip, self._advice = manifest, given, skip, advice
        self._shown: list[tuple[Clip, InputError]] = []
        self._count = 0
        self._outside: Clip | None = None

    @property
    def outside(self) -> bool:
        """Tell whether a path led out of its folder: a manifest that reaches for other files stops on purpose."""
        return self._outside is not None

    def keep(self, clip: Clip, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """Call the function and return its result; if it refuses the clip, keep the refusal and return None."""
        if clip.fault is not None:
            self.add(clip, clip.fault)
            return None
        try:
            return function(*args, **named)
        except InputError as error:
            self.add(clip, error)
            return None

    def add(self, clip: Clip, error: InputError) -> None:
        """Keep a refusal."""
        self._count += 1
        if self._outside is None and isinstance(error, OutsideError):
            self._outside = clip
        if len(self._shown) < self._most:
            self._shown.append((clip, error))

    def check_header(self, clip: Clip) -> None:
        """Refuse a clip whose file is missing or has no header of sound; nothing is decoded.

        Raises
        ------
        InputError
            As of `inspect_clip`.
        """
        if len(self._shown) == self._most and not clip.path.is_file():
            # The search for a similar name is slow in a large folder, and this refusal is not shown.
            raise InputError("There is no such file.", where=clip.where, hint="Check the path.")
        inspect_clip(clip)

    def refuse(self) -> None:
        """Raise the refusals kept: a single one as it is, several as one that counts and names them.

        Raises
        ------
        InputError
            Where a clip was refused.
        """
        if self._count:
            shown = [(_name(clip), error) for clip, error in self._shown]
            advice = self._advice
            if self._outside is not None and self._count > 1:
                said = f"The path of {_name(self._outside)} leads out of its folder: such a clip is never left out."
                advice = f"{said} {advice}".rstrip()
            raise several(
                shown,
                self._count,
                given=self._given,
                what="clips",
                where=str(self._manifest),
                skip="" if self.outside else self._skip,
                advice=advice,
            )

    def notes(self, left_out: Sequence[tuple[Clip, str]]) -> tuple[str, ...]:
        """Return `left_out_notes` with the messages of the refusals kept."""
        return left_out_notes(left_out, self._given, {id(clip): error.message for clip, error in self._shown})


def left_out_notes(
    left_out: Sequence[tuple[Clip, str]], given: int, refusals: Mapping[int, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return a note that counts the clips left out by reason, then a note for each of the first ten.

    Parameters
    ----------
    left_out
        All of them, each with its reason in a few words.
    given
        How many clips there are.
    refusals
        Messages in place of the reason, by `id` of the clip.
    """
    if not left_out:
        return ()
    counts = Counter(reason for _, reason in left_out)
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
    lines = (one_line(_name(clip), refusals.get(id(clip), reason)) for clip, reason in left_out[:SHOWN])
    return (f"{len(left_out):,} of {given:,} clips are left out ({why}):", *counted(lines, len(left_out)))


def _name(clip: Clip) -> str:
    return f"line {clip.line}{clip.label}"
