"""Clips of a manifest that cannot be used, collected so that all of them are named at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from probes.errors import InputError
from probes.loading.audio import inspect_clip
from probes.loading.manifests import Clip

SHOWN = 10
"""Clips that are named; the others are counted."""
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
    """

    def __init__(self, manifest: Path, given: int, *, skip: str, advice: str = "") -> None:
        self._manifest, self._given, self._skip, self._advice = manifest, given, skip, advice
        self._shown: list[tuple[Clip, InputError]] = []
        self._count = 0

    def keep(self, clip: Clip, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """Return what the function returns; where it refuses the clip, keep the refusal and return None."""
        try:
            return function(*args, **named)
        except InputError as error:
            self.add(clip, error)
            return None

    def add(self, clip: Clip, error: InputError) -> None:
        """Keep a refusal."""
        self._count += 1
        if len(self._shown) < SHOWN:
            self._shown.append((clip, error))

    def check_header(self, clip: Clip) -> None:
        """Refuse a clip whose file is not there or does not begin as sound does; nothing is decoded.

        Raises
        ------
        InputError
            As of `inspect_clip`.
        """
        if len(self._shown) == SHOWN and not clip.path.is_file():
            # To look for a name like it would take long in a large folder, and nobody would read it.
            raise InputError("There is no such file.", where=clip.where, hint="Check the path.")
        inspect_clip(clip)

    def refuse(self) -> None:
        """Raise what was kept: a single refusal as it is, several as one that counts them and names the first ten.

        Raises
        ------
        InputError
            Where a clip was refused.
        """
        if not self._count:
            return
        hints = list(dict.fromkeys(error.hint for _, error in self._shown))
        if self._count == 1:
            _, error = self._shown[0]
            hint = f"{error.hint} {self._advice}".rstrip()
            raise InputError(error.message, where=error.where, hint=hint) from None
        lines = _counted((_line(clip, error.message) for clip, error in self._shown), self._count)
        mend = hints[0] if len(hints) == 1 else f"Of the first: {hints[0]}"
        if self._count < self._given and self._skip not in mend:
            mend += f" All of them are left out with {self._skip}."
        raise InputError(
            f"{self._count:,} of {self._given:,} clips cannot be used:\n" + "\n".join(lines),
            where=str(self._manifest),
            hint=f"{mend} {self._advice}".rstrip(),
        )

    def notes(self, left_out: Sequence[tuple[Clip, str]]) -> tuple[str, ...]:
        """Return what `left_out_notes` says, with the refusals of those clips that have one."""
        return left_out_notes(left_out, self._given, {id(clip): error.message for clip, error in self._shown})


def left_out_notes(
    left_out: Sequence[tuple[Clip, str]], given: int, refusals: Mapping[int, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return how many clips are left out and why, then which: the first ten, each in a note of its own.

    Parameters
    ----------
    left_out
        All of them, each with its reason in a few words.
    given
        How many clips there are.
    refusals
        What there is to say besides, by `id` of the clip.
    """
    if not left_out:
        return ()
    counts = Counter(reason for _, reason in left_out)
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
    lines = (_line(clip, refusals.get(id(clip), reason)) for clip, reason in left_out[:SHOWN])
    return (f"{len(left_out):,} of {given:,} clips are left out ({why}):", *_counted(lines, len(left_out)))


def _line(clip: Clip, said: str) -> str:
    # A name or a path that holds the end of a line cannot pretend to be a line of its own.
    return " ".join(f"line {clip.line} ({clip.name}): {said}".split())


def _counted(lines: Iterable[str], count: int) -> list[str]:
    shown = list(lines)
    more = count - len(shown)
    return [*shown, *[f"and {more:,} more"] * (more > 0)]
