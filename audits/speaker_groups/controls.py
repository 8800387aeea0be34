"""The controls, held fixed beside the attributes, read as numbers or as words."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import UNKNOWN
from audits.core.wording import many
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups import Options
from audits.speaker_groups.columns import WORDS, require_free
from audits.speaker_groups.counts import MANY_LEVELS
from probes.core.errors import InputError
from probes.files.cells import Coded
from probes.files.decimals import NumberColumn, has_unit, mark_hint, plain_float, with_decimal_commas, with_point
from probes.files.levels import Note, clean, is_unknown
from probes.files.names import suggest
from probes.speech.manifests import Clips, Manifest

LARGEST = 1e100
"""Numbers from which on a control is none: their squares would overflow."""
MOST_POOLED = 0.5
"""Share of the clips above which levels that are too small make a column one that cannot be held fixed."""
_FRACTION = re.compile(r"\d[.,]\d")

Values = tuple[float | str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """Counts of a column's levels, of those too small for a model, and of the clips in these."""

    levels: int
    pooled: int
    clips: int
    of: int


def pooling_of(labels: NDArray[np.str_], kept: Collection[str]) -> Pooling:
    """Return the number of levels not `kept`, and of the clips in them; unknown values are no level."""
    known = labels != UNKNOWN
    levels = np.unique(labels[known]).tolist()
    pooled = sorted(set(levels) - set(kept))
    inside = int(np.isin(labels, pooled).sum())
    return Pooling(levels=len(levels), pooled=len(pooled), clips=inside, of=int(known.sum()))


def levels_words(labels: Coded, speakers: NDArray[np.int64], least: int, unit: str) -> str:
    """Return the text on the number of levels, and of those with too few speakers."""
    size = len(labels.levels)
    cells = np.unique(speakers * size + labels.codes)
    people = np.bincount(cells % size if size else cells, minlength=size)
    people = people[[level != UNKNOWN for level in labels.levels]]
    people = people[people > 0]
    few = int((people < least).sum())
    text = many(len(people), "level", "levels")
    return text + (f", {few} of them with fewer than {least} {unit}" if few else "")


def controls_of(clips: Clips, manifest: Manifest, options: Options) -> tuple[dict[str, Values], list[Note]]:
    """Return the values of every control (None: unknown), and how they were read.

    Numbers where all that are known are, else words. `words` without such a column is left empty here: it is counted
    from the reference.

    Raises
    ------
    InputError
        Where a column is missing or taken, holds one value only, or numbers that cannot be read as such.
    """
    found: dict[str, Values] = {}
    notes: list[Note] = []
    for name in options.control:
        if name not in manifest.columns:
            if name == WORDS:
                found[name] = ()
                continue
            raise InputError(
                f"There is no column {name!r}.",
                where=f"{options.manifest}, --control",
                hint=suggest(name, manifest.columns),
            )
        require_free(clips, name, "a control", option="--control")
        manifest.check_flat(name)
        found[name], more = _read(name, clips, manifest, options)
        notes += more
    return found, notes


def _read(name: str, clips: Clips, manifest: Manifest, options: Options) -> tuple[Values, list[Note]]:
    texts = _cleaned(clips.each_extra(name))
    known = Counter(text for text in texts if not is_unknown(text))
    if options.decimal is not None:
        NumberColumn(name, manifest.path, options.decimal).look(texts, clips.each_line())
    where = f"{options.manifest}, --control"
    comma = with_decimal_commas(sorted(known), column=name, where=where, decimal=options.decimal)
    numbers = {text: _number(with_point(text) if comma else text) for text in known}
    numeric = _numeric(name, clips, texts, numbers)
    if len({numbers[text] if numeric else text for text in known}) < 2:
        raise InputError(
            f"The column {name!r} has no two different values: there is nothing to hold fixed.",
            where=f"{options.manifest}, --control",
            hint="Leave it out.",
        )
    if not numeric:
        return tuple(None if is_unknown(text) else text for text in texts), _units(name, clips, texts, known)
    written = Counter({text: times for text, times in known.items() if with_point(text) != text})
    notes = []
    if written:
        first, times = min(written), sum(written.values())
        message = f"{name}: {times} numbers have a decimal comma ({first} is read as {with_point(first)})."
        notes.append(Note("manifest.decimal-comma", message, times))
    return tuple(None if is_unknown(text) else numbers[text] for text in texts), notes


def _cleaned(cells: Iterable[str | None]) -> list[str]:
    column = Coded.of(cells)
    levels = [clean(level) for level in column.levels]
    return [levels[code] for code in column.codes.tolist()]


def _number(text: str) -> float | None:
    try:
        number = plain_float(text)
    except ValueError:
        return None
    return number if abs(number) < LARGEST else None


def _numeric(name: str, clips: Clips, texts: Sequence[str], numbers: Mapping[str, float | None]) -> bool:
    """Tell whether a control is numeric; refuse numbers mixed with words, which would become levels."""
    known = [at for at, text in enumerate(texts) if text in numbers]
    words = [at for at in known if numbers[texts[at]] is None]
    # With a decimal comma among points it is a number all the same, though none that can be read.
    strange = [at for at in words if _number(with_point(texts[at])) is None]
    if words and len(strange) < len(known) / 2:
        text = texts[words[0]]
        hint = mark_hint(text, True)
        raise InputError(
            f"{text!r} is no number, and most values of {name} are."
            if words == strange
            else f"{text!r} has a decimal comma, and other numbers of {name} have a point.",
            where=f"{clips[words[0]].where}, column {name}",
            hint=f"{f'{hint} Or' if hint else 'Mend it, or'} leave it empty: such clips are then not in the adjusted "
            "model.",
        )
    return not words and bool(known)


def _units(name: str, clips: Clips, texts: Sequence[str], known: Mapping[str, int]) -> list[Note]:
    """Return a note on numbers with a unit, which are read as words; refuse them where too fine to be levels."""
    units = sorted(text for text in known if has_unit(text))
    count = sum(known[text] for text in units)
    if 2 * count < sum(known.values()):
        return []
    if len(known) > MANY_LEVELS and any(_FRACTION.search(text) for text in units):
        at = next(at for at, text in enumerate(texts) if text in units)
        raise InputError(
            f"{texts[at]!r} is a number with a unit: {name} would be {len(known)} levels, with nothing in common.",
            where=f"{clips[at].where}, column {name}",
            hint="Write the numbers alone, all in one unit.",
        )
    message = f"{name}: {count} values hold a unit ({units[0]}): they are {len(known)} levels, not numbers."
    return [Note("manifest.unit", message, count)]


def as_read(values: Values, speakers: NDArray[np.int64], unit: str) -> str:
    """Return the reading of a control, in words."""
    known = [value for value in values if value is not None]
    if not values:
        return "a number, the words of the reference"
    if all(isinstance(value, float) for value in known):
        numbers = [float(value) for value in known]
        return f"a number, {min(numbers):g} to {max(numbers):g}"
    labels = Coded.of(UNKNOWN if value is None else str(value) for value in values)
    return levels_words(labels, speakers, MIN_REPORTED, unit)
