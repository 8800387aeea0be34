"""Clean the values of an attribute and turn them into levels, the groups of an audit.

A value goes through the user's value map, is recognised as unknown or put into a bin, and loses the two
characters of the group syntax (`a=b&c=d`): `&` becomes `+` and `=` becomes `:`. Whatever happens to a value is
counted in a note, because a report that hides it would misstate its groups.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from probes.core.errors import InputError
from probes.files.decimals import with_decimal_commas, with_point
from probes.files.tables import read_table
from probes.files.toml_values import read_toml

UNKNOWN = "unknown"
UNKNOWN_TOKENS = frozenset(
    {
        *("", "na", "n/a", "<na>", "none", "nan", "null", "prefer not to say", "unknown", "do_not_wish_to_say"),
        *("k.a.", "k. a.", "keine angabe", "unbekannt"),
    }
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that turn the direction of whatever follows them, numbers of a report too."""
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], " ") | dict.fromkeys(_TURNING, "")
_RESERVED = str.maketrans({"&": "+", "=": ":"})


@dataclass(frozen=True, slots=True)
class Note:
    """A change that was made to values, and how many it concerns."""

    id: str
    message: str
    count: int


def is_unknown(value: str | None) -> bool:
    """Tell whether a value says that nothing is known.

    >>> [is_unknown(value) for value in ("NA", " ", "k.A.", "Namibia", "0")]
    [True, True, True, False, False]
    """
    return value is None or value.strip().casefold() in UNKNOWN_TOKENS


def parse_bins(texts: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Read options such as `age=0,13,18`: a column, then the lower ends of its bins.

    >>> parse_bins(["age=0,13,18"])
    {'age': (0.0, 13.0, 18.0)}
    """
    bins: dict[str, tuple[float, ...]] = {}
    for text in texts:
        column, found, ends = text.partition("=")
        parts = [part.strip() for part in ends.split(",")]
        if not found or not column.strip() or not all(_NUMBER.fullmatch(part) for part in parts):
            raise InputError(f"The bins {text!r} cannot be read.", where="--bin", hint="Write column=0,13,18,30,50.")
        bins[column.strip()] = tuple(float(part) for part in parts)
    return bins


def bin_labels(edges: Sequence[float], *, whole: bool = True) -> tuple[str, ...]:
    """Name the bins [edge, next edge), the last one without an upper end; `whole` says that all numbers are.

    >>> bin_labels([0, 13, 18])
    ('0-12', '13-17', '18+')
    >>> bin_labels([0, 13, 18], whole=False), bin_labels([0, 0.5])
    (('0-<13', '13-<18', '18+'), ('0-<0.5', '0.5+'))
    """
    if not edges or any(not math.isfinite(edge) for edge in edges):
        raise InputError("A bin has no finite lower end.", where="--bin", hint="Write column=0,13,18,30,50.")
    if any(high <= low for low, high in pairwise(edges)):
        raise InputError(
            f"The ends {', '.join(f'{edge:g}' for edge in edges)} do not rise.",
            where="--bin",
            hint="Write them in rising order, each once.",
        )
    whole = whole and all(float(edge).is_integer() for edge in edges)
    names = []
    for low, high in pairwise(edges):
        last = f"{high - 1:g}" if whole else f"<{high:g}"
        names.append(f"{low:g}" if f"{low:g}" == last else f"{low:g}-{last}")
    return (*names, f"{edges[-1]:g}+")


def read_value_map(path: Path) -> dict[str, dict[str, str]]:
    """Read a value map: a CSV with the columns column, from, to, or a TOML file with one table a column.

    Raises
    ------
    InputError
        Where the file is neither, or gives one value two meanings.
    """
    if path.suffix.lower() == ".toml":
        return _toml_map(path)
    table = read_table(path)
    table.check_flat(("column", "from", "to"))
    missing = {"column", "from", "to"} - set(table.columns)
    if missing:
        raise InputError(
            f"The value map has no column {sorted(missing)[0]!r}.",
            where=str(path),
            hint=f"Its columns are column, from, to. {table.suggest(sorted(missing)[0])}",
        )
    found: dict[str, dict[str, str]] = {}
    for row in table.rows:
        column, old, new = (clean(row.values.get(name)) for name in ("column", "from", "to"))
        if found.setdefault(column, {}).setdefault(old, new) != new:
            raise InputError(
                f"The value {old!r} of {column} becomes both {found[column][old]!r} and {new!r}.",
                where=f"{path}:{row.line}",
                hint="Keep one of the two rows.",
            )
    return found


def _toml_map(path: Path) -> dict[str, dict[str, str]]:
    hint = 'Write [column] and below it lines such as "old" = "new".'
    content = read_toml(path, hint=hint)
    if not content:
        raise InputError("The value map is empty.", where=str(path), hint=hint)
    found: dict[str, dict[str, str]] = {}
    for column, pairs in content.items():
        if not isinstance(pairs, dict) or not all(isinstance(new, str) for new in pairs.values()):
            raise InputError(
                f"The key {column!r} is not a table of texts.",
                where=str(path),
                hint=f'Write [{column}] and below it lines such as "England English" = "england".',
            )
        found[column] = {clean(old): clean(new) for old, new in pairs.items()}
    return found


def clean(value: str | None) -> str:
    """Return a value in one spelling: NFC, runs of space and control characters as one space, none around it.

    >>> clean(" a\u202e \t b ")
    'a b'
    """
    return " ".join(unicodedata.normalize("NFC", value or "").translate(_CONTROLS).split())


@dataclass(slots=True)
class Levels:
    """The cleaning of one column; call `look` once, `level` for each clip, then `notes` once."""

    column: str
    mapping: Mapping[str, str] = field(default_factory=dict)
    edges: Sequence[float] = ()
    decimal: str | None = None
    _labels: tuple[str, ...] = ()
    _unknown: Counter[str] = field(default_factory=Counter)
    _mapped: Counter[str] = field(default_factory=Counter)
    _not_numeric: Counter[str] = field(default_factory=Counter)
    _outside: int = 0
    _binned: int = 0
    _comma: bool = False
    _with_comma: Counter[str] = field(default_factory=Counter)
    _replaced: Counter[str] = field(default_factory=Counter)
    _spellings: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        self._labels = bin_labels(self.edges) if self.edges else ()

    def look(self, values: Iterable[str | None]) -> None:
        """Find out from the whole column whether its numbers have a decimal comma, and whether all are whole.

        Raises
        ------
        InputError
            Where that is not clear.
        """
        if self._labels:
            texts = {clean(value) for value in values}
            known = {self.mapping.get(text, text) for text in texts}
            known = {text for text in known if not is_unknown(text)}
            self._comma = with_decimal_commas(sorted(known), column=self.column, where="--bin", decimal=self.decimal)
            texts = {with_point(text) for text in known} if self._comma else known
            numbers = [float(text) for text in texts if _NUMBER.fullmatch(text)]
            # A bin 0-1 that holds 1.9 would be misread.
            whole = all(number.is_integer() for number in numbers if number >= self.edges[0])
            self._labels = bin_labels(self.edges, whole=whole)

    def level(self, value: str | None, where: str, *, times: int = 1) -> str:
        """Return the level of a value, which stands in so many rows.

        Raises
        ------
        InputError
            Where two different values of the file would become one level.
        """
        text = clean(value)
        if text in self.mapping:
            self._mapped[text] += times
            text = self.mapping[text]
        if text.casefold() in UNKNOWN_TOKENS:
            self._unknown[text or "empty"] += times
            return UNKNOWN
        if self._labels:
            return self._bin(text, times)
        level = text.translate(_RESERVED)
        if level != text:
            self._replaced[text] += times
        spellings = self._spellings[level]
        spellings[text] += times
        if len(spellings) > 1:
            first, second = sorted(spellings)
            raise InputError(
                f"The values {first!r} and {second!r} of {self.column} would become one level, {level!r}.",
                where=where,
                hint="Name them apart with --values: & and = separate the parts of a group's name.",
            )
        return level

    def _bin(self, text: str, times: int) -> str:
        if self._comma and (pointed := with_point(text)) != text:
            self._with_comma[text] += times
            text = pointed
        if not _NUMBER.fullmatch(text):
            self._not_numeric[text] += times
            return UNKNOWN
        number = float(text)
        if number < self.edges[0]:
            self._outside += times
            return UNKNOWN
        self._binned += times
        return self._labels[sum(edge <= number for edge in self.edges) - 1]

    def notes(self) -> list[Note]:
        """Return the changes that were made to the values of this column.

        Raises
        ------
        InputError
            Where bins are given and no value is a number.
        """
        if self._labels and self._not_numeric and not self._binned and not self._outside:
            raise InputError(
                f"No value of {self.column} is a number ({_examples(self._not_numeric)}).",
                where="--bin",
                hint=f"Leave out the bins of {self.column}, or turn its values into numbers with --values.",
            )
        never = Counter({old: 1 for old in self.mapping if old not in self._mapped})
        edges = ", ".join(self._labels)
        counted = (
            ("manifest.unknown", self._unknown, "have no value ({}) and form the level 'unknown'"),
            ("manifest.mapped", self._mapped, "were renamed by the value map ({})"),
            ("manifest.decimal-comma", self._with_comma, "have a decimal comma ({})"),
            ("manifest.not-numeric", self._not_numeric, "are not numbers ({}) and count as unknown"),
            ("manifest.replaced", self._replaced, "hold & or =, written + and : here ({})"),
            ("manifest.map-unused", never, "entries of the value map met no clip ({})"),
        )
        notes = [
            Note(id, f"{self.column}: {total(values)} {text.format(_examples(values))}.", total(values))
            for id, values, text in counted
            if values
        ]
        if self._outside:
            text = f"{self.column}: {self._outside} lie below the first bin and count as unknown."
            notes.append(Note("manifest.outside", text, self._outside))
        if self._binned:
            text = f"{self.column}: {self._binned} were put into the bins {edges}."
            notes.append(Note("manifest.binned", text, self._binned))
        return notes + self._case_notes()

    def _case_notes(self) -> list[Note]:
        alike: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for level, spellings in self._spellings.items():
            alike[level.casefold()][level] += total(spellings)
        notes = []
        for levels in alike.values():
            if len(levels) > 1:
                names = " and ".join(repr(level) for level in sorted(levels))
                text = f"{self.column}: {names} differ only in case and are kept apart; --values can unite them."
                notes.append(Note("manifest.case", text, total(levels)))
        return notes


def level_words(rule: Levels, levels: Collection[str]) -> str:
    """Describe in words how a column of groups was read.

    >>> level_words(Levels("age", edges=(0, 30)), {"0-29", "30+", "unknown"})
    'a number in bins, 2 levels'
    """
    known = len({*levels} - {UNKNOWN})
    count = f"{known:,} level{'s' * (known != 1)}"
    return f"a number in bins, {count}" if rule.edges else count


def total(counts: Counter[str]) -> int:
    """Return the sum of all counts."""
    return sum(counts.values())


def _examples(counts: Counter[str]) -> str:
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    return ", ".join(ordered[:3]) + (", ..." if len(ordered) > 3 else "")
