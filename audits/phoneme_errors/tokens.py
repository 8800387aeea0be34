"""Phone tokens: which phone was spoken, by whom, and the vector of features of each.

One token is one spoken phone. A table (CSV, TSV, JSON lines, Parquet, Arrow) has one row for each, and its features
become one array; an NPZ of any size keeps its vectors (see `probes.vectors.token_arrays`).
"""

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from audits.phoneme_errors.token_tables import TokenTable, read_token_table
from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.files.levels import Levels, Note, clean, is_unknown, level_words
from probes.files.names import suggest
from probes.files.table_sources import is_dataset, sha256_table
from probes.files.tables import Table, check_decimal
from probes.speech.manifests import ROLES, find_column, level_rules
from probes.vectors.token_arrays import MAX_WIDTH, TokenArchive, layer_of, open_tokens

PHONE_NAMES = ("phone", "phoneme", "phones", "segment", "label", "vowel")
"""Usual names of the column of the phone; where the first is there, it is the one."""
NO_PHONE, NO_SPEAKER, NO_FEATURE = "no phone", "no speaker", "a feature is missing or no finite number"
_ABSENT = frozenset({"", "NA", "N/A", "<NA>", "NaN", "nan", "None", "null"})
"""What programs write where there is nothing; `na` may be a syllable."""
_RANGE = re.compile(r"(.*?)(\d{1,6})\.\.(.*?)(\d{1,6})", re.ASCII)
_NUMBERED = re.compile(r"x(0|[1-9]\d{0,5})", re.ASCII)


class Vectors(Protocol):
    """The vectors of tokens in one or more layers, read in chunks."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers; (0,) where there is one set of features without a number."""

    def width(self, layer: int) -> int:
        """Return the length of a layer's vectors."""

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the used tokens in their order, at most `size` at once, shape (tokens, width)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Phone tokens whose phone, speaker and vectors are known.

    Parameters
    ----------
    phones, speakers
        Places in the sorted names, shape (tokens,).
    levels, level_names
        By attribute the place of each token's level, shape (tokens,), in its sorted names, maybe `unknown`.
    features
        Names of the numbers of a vector; empty for arrays without names.
    given, skipped
        Tokens in the file, and how many of them were left out, by reason.
    lines
        Line of each token; in an NPZ its number from 0. Shape (tokens,).
    read_as
        What each column that is used was read as, in words.
    form
        How the table was read where that is unusual, in sentences.
    """

    phones: NDArray[np.int64]
    phone_names: tuple[str, ...]
    speakers: NDArray[np.int64]
    speaker_names: tuple[str, ...]
    levels: Mapping[str, NDArray[np.int64]]
    level_names: Mapping[str, tuple[str, ...]]
    vectors: Vectors
    features: tuple[str, ...]
    given: int
    skipped: Mapping[str, int]
    lines: NDArray[np.int64]
    sha256: str
    notes: tuple[Note, ...]
    read_as: Mapping[str, str] = field(default_factory=dict)
    form: tuple[str, ...] = ()

    def preview(self, of: str = "") -> tuple[str, ...]:
        """Return the lines of `--dry-run` on columns and left-out tokens, `of` a file where there are several."""
        words = "; ".join(f"{name}: {what}" for name, what in self.read_as.items())
        left_out = (f"{count:,} of {self.given:,} tokens are left out: {why}." for why, count in self.skipped.items())
        return (f"Columns{f' of {of}' * bool(of)} are read as: {words}.", *self.form, *left_out)


def read_tokens(
    path: Path,
    *,
    by: Sequence[str],
    features: Sequence[str] = (),
    phone_col: str | None = None,
    speaker_col: str | None = None,
    values: Path | None = None,
    bins: Mapping[str, Sequence[float]] = {},
    transform: str = "none",
    layers: Sequence[int] | None = None,
    on_bad: str = "stop",
    decimal: str | None = None,
    progress: Progress = Silent(),
) -> Tokens:
    """Read phone tokens from a CSV, TSV, JSON lines, Parquet, Arrow or NPZ file.

    A token with a number that is missing or not finite, in any of the layers, is left out of all and counted.

    Parameters
    ----------
    by
        Columns of attributes of the speaker.
    features
        Columns of the features, ranges such as `x0..x12` among them; default x0, x1, ... or, in an NPZ, the array
        `features` (tokens, width) or (layers, tokens, width), or `layer_0`, `layer_1`, ... (tokens, width) each.
    values, bins
        As for `probes.speech.manifests.read_manifest`.
    transform
        "none", or "log": the natural logarithm.
    decimal
        The decimal mark of a table, where the user names it.
    on_bad
        "stop" or "skip", where a token has no phone or no speaker.

    Raises
    ------
    InputError
        Where a column is missing or ambiguous, a cell is no number, a number has no logarithm, or no token is left.
    """
    _check_choice("transform", transform, ("none", "log"))
    _check_choice("on-bad", on_bad, ("stop", "skip"))
    source = _open(path, decimal)
    table = Table(path=path, columns=source.names, rows=(), sources=(path,), decimal=decimal)
    rules = level_rules(table, by, values, bins)
    phone, speaker = _label_columns(table, phone_col, speaker_col)
    wanted = _wanted(source, features, (phone, speaker, *rules))
    texts = source.labels(tuple(dict.fromkeys((phone, speaker, *rules))))
    for name, rule in rules.items():
        rule.look(texts[name])
    labels = {NO_PHONE: _cleaned(texts[phone], _ABSENT.__contains__), NO_SPEAKER: _cleaned(texts[speaker], is_unknown)}
    if on_bad == "stop":
        _check_labelled(labels, (phone, speaker), source)
    vectors = source.vectors(wanted, beside=phone, count=len(texts[phone]), layers=layers, transform=transform)
    kept, skipped = _kept(labels, vectors.usable(progress), path)
    rows = np.flatnonzero(kept).tolist()
    (phones, phone_names), (speakers, speaker_names) = (
        _numbered(cleaned[row] for row in rows) for cleaned in labels.values()
    )
    found = {name: _levels(rule, name, texts[name], rows, source) for name, rule in rules.items()}
    names = {"phone": (phone, phone_names), "speaker": (speaker, speaker_names)}
    return Tokens(
        phones=phones,
        phone_names=phone_names,
        speakers=speakers,
        speaker_names=speaker_names,
        levels={name: numbers for name, (numbers, _) in found.items()},
        level_names={name: levels for name, (_, levels) in found.items()},
        vectors=vectors.keeping(kept),
        features=vectors.features,
        given=len(kept),
        skipped=skipped,
        lines=np.array([source.line(row) for row in rows], dtype=np.int64),
        sha256=sha256_table(path),
        notes=tuple(note for rule in rules.values() for note in rule.notes()),
        read_as=_read_as(names, rules, {name: levels for name, (_, levels) in found.items()}, wanted),
        form=source.notes,
    )


def _label_columns(table: Table, phone: str | None, speaker: str | None) -> tuple[str, str]:
    """Return the columns of phone and speaker, named or with a usual name."""
    names = PHONE_NAMES[:1] if "phone" in map(str.casefold, table.columns) else PHONE_NAMES
    # Where a column is needed and none is found, this raises.
    return (
        find_column(table, "phone", phone, usual=names, needed=True) or "",
        find_column(table, "speaker", speaker, usual=ROLES["speaker"], needed=True) or "",
    )


def _levels(
    rule: Levels, name: str, texts: Sequence[str | None], rows: Iterable[int], source: "TokenArchive | TokenTable"
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the numbers of the levels of some rows, and the levels' sorted names."""
    return _numbered(rule.level(texts[row], source.spot(row, name)) for row in rows)


def _read_as(
    labels: Mapping[str, tuple[str, Sequence[str]]],
    rules: Mapping[str, Levels],
    levels: Mapping[str, Sequence[str]],
    features: Sequence[str],
) -> dict[str, str]:
    """Describe in words what each column in use was read as; `labels` has by role its column and what it holds."""
    return {
        **{column: f"the {role}, {len(names):,} of them" for role, (column, names) in labels.items()},
        **{name: level_words(rule, levels[name]) for name, rule in rules.items()},
        _named(features): "numbers",
    }


def _check_choice(option: str, value: str, usual: Sequence[str]) -> None:
    if value not in usual:
        raise InputError(f"{value!r} is unknown.", where=f"--{option}", hint=suggest(value, usual))


def _open(path: Path, decimal: str | None) -> TokenArchive | TokenTable:
    if not _is_archive(path):
        return read_token_table(path, decimal)
    check_decimal(path, decimal)
    return open_tokens(path)


def _named(features: Sequence[str]) -> str:
    """Return the names of features, only the ends of a long list.

    >>> _named(["x0", "x1", "x2"]), _named([f"x{number}" for number in range(13)])
    ('x0, x1, x2', 'x0 to x12 (13 columns)')
    """
    if len(features) < 5:
        return ", ".join(features)
    return f"{features[0]} to {features[-1]} ({len(features):,} columns)"


def _is_archive(path: Path) -> bool:
    if is_dataset(path):
        return False
    try:
        if path.exists() and not path.is_file():
            hint = "Name a CSV, TSV, JSONL, Parquet or NPZ."
            raise InputError("This is not an ordinary file.", where=str(path), hint=hint)
        with path.open("rb") as file:
            return file.read(6).startswith((b"PK", b"\x93NUMPY"))
    except OSError:
        # Reading it as text says what is the matter.
        return False


def _wanted(source: "TokenArchive | TokenTable", features: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the features, or the names of their arrays."""
    where = f"{source.path}, --features"
    names = tuple(name for entry in features for name in _expanded(entry, source.names, where))
    names = names or _usual(source, labels)
    twice = {name for name, times in Counter(names).items() if times > 1}
    for name in names:
        if name in labels or name in twice:
            problem = "is a label of the tokens" if name in labels else "is named twice"
            raise InputError(f"The feature {name!r} {problem}.", where=where, hint="Name every feature once.")
    return names


def _expanded(entry: str, names: Sequence[str], where: str) -> Sequence[str]:
    """Return the existing columns that an entry such as `x0..x12` or `x3` names."""
    found = None if entry in names else _RANGE.fullmatch(entry)
    columns = [entry]
    if found is not None:
        stem, low, other, high = found.groups()
        if stem != other or not 0 <= int(high) - int(low) < MAX_WIDTH:
            raise InputError(f"The range {entry!r} cannot be read.", where=where, hint="Write x0..x12, rising.")
        digits = len(low) if low.startswith("0") else 0
        columns = [f"{stem}{number:0{digits}d}" for number in range(int(low), int(high) + 1)]
    there = frozenset(names)
    absent = next((name for name in columns if name not in there), None)
    if absent is not None:
        raise InputError(f"There is no column {absent!r}.", where=where, hint=suggest(absent, names))
    return columns


def _usual(source: "TokenArchive | TokenTable", labels: Sequence[str]) -> tuple[str, ...]:
    """Return x0, x1, ..., or the arrays of an archive that usually hold vectors."""
    numbered = sorted((int(found[1]), name) for name in source.names if (found := _NUMBERED.fullmatch(name)))
    forms = [form for form in (*source.packed, tuple(name for _, name in numbered)) if form]
    where = str(source.path)
    if not forms:
        hint = f"Name columns of numbers: --features {','.join(source.numeric(labels)[:40]) or 'a,b,...'}."
        raise InputError("There are no features x0, x1, ... and none are named.", where=where, hint=hint)
    if len(forms) > 1:
        message = f"The features may be {' or '.join(', '.join(form[:3]) for form in forms)}."
        raise InputError(message, where=where, hint=f"Choose with --features {','.join(forms[0][:40])}.")
    gap = next((position for position, (number, _) in enumerate(numbered) if number != position), None)
    if gap is not None:
        hint = f"Name the features, for instance --features {forms[0][0]}..{forms[0][-1]}."
        raise InputError(f"There is no column 'x{gap}' before {numbered[gap][1]!r}.", where=where, hint=hint)
    return forms[0]


def _cleaned(texts: Sequence[str | None], absent: Callable[[str], bool]) -> list[str]:
    """Return labels in a canonical spelling; "" where there is none."""
    spelt = {text: clean(text) for text in set(texts)}
    known = {text: "" if absent(value) else value for text, value in spelt.items()}
    return [known[text] for text in texts]


def _check_labelled(
    labels: Mapping[str, Sequence[str]], names: Sequence[str], source: "TokenArchive | TokenTable"
) -> None:
    for (reason, cleaned), name in zip(labels.items(), names, strict=True):
        if "" in cleaned:
            hint = f"Fill in {name!r}, or leave such tokens out with --on-bad skip."
            raise InputError(f"The token has {reason}.", where=source.spot(cleaned.index(""), name), hint=hint)


def _kept(
    labels: Mapping[str, Sequence[str]], usable: NDArray[np.bool_], path: Path
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return a mask of the used tokens, and the number of others by the first reason that holds."""
    kept = np.ones(len(usable), dtype=np.bool_)
    skipped = {}
    reasons = {reason: np.array([bool(text) for text in texts]) for reason, texts in labels.items()}
    for reason, fine in {**reasons, NO_FEATURE: usable}.items():
        if (kept & ~fine).any():
            skipped[reason] = int((kept & ~fine).sum())
        kept &= fine
    if not kept.any():
        counts = ", ".join(f"{times} ({reason})" for reason, times in skipped.items())
        raise InputError(f"No token is left: {counts}.", where=str(path), hint="Every token needs all of these.")
    return kept, skipped


def _numbered(texts: Iterable[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    codes: dict[str, int] = {}
    found = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), dtype=np.int64)
    names = tuple(sorted(codes))
    # By name and not by first appearance: another order of the rows then changes no number.
    rank = np.empty(len(names), dtype=np.int64)
    rank[[codes[name] for name in names]] = np.arange(len(names))
    return rank[found], names


def write_tokens(
    path: Path,
    *,
    phones: Sequence[str],
    speakers: Sequence[str],
    attributes: Mapping[str, Sequence[str]],
    layers: Mapping[int, Iterable[NDArray[Any]]],
    dtype: str = "float32",
) -> None:
    """Write an NPZ of tokens, uncompressed, holding no more than one chunk of vectors at a time.

    Parameters
    ----------
    attributes
        By name, one entry a token.
    layers
        By number, the vectors of all tokens in chunks of shape (some tokens, width).

    Raises
    ------
    InputError
        Where lengths or widths differ, a number is too large for the type, or an attribute has a name in use.
    """
    own = {"phone": phones, "speaker": speakers}
    taken = [name for name in attributes if name in {*own, "features", "layers"} or layer_of(name) is not None]
    if taken or not layers:
        message = f"The attribute {taken[0]!r} has the name of another array." if taken else "There are no layers."
        raise InputError(message, where=str(path), hint="Give vectors, and attributes with names of their own.")
    # Whoever stops this half-way leaves no file that looks whole.
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name, texts in {**own, **attributes}.items():
                _write(archive, name, len(phones), [np.array(texts, dtype=np.str_)])
            for number, chunks in layers.items():
                _write(archive, f"layer_{number}", len(phones), (_narrowed(chunk, dtype) for chunk in chunks))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _narrowed(chunk: NDArray[Any], dtype: str) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        stored = chunk.astype(dtype)
    if not np.array_equal(np.isfinite(stored), np.isfinite(chunk)):
        raise InputError(f"A number is too large for {dtype}.", where="dtype", hint="Use float32 or float64.")
    return stored


def _write(archive: zipfile.ZipFile, name: str, count: int, chunks: Iterable[NDArray[Any]]) -> None:
    written, row = 0, None
    # A ZipInfo is dated 1980, so that the same tokens give the same bytes; the size is not known yet.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
        for chunk in chunks:
            if row is None:
                row = chunk.shape[1:]
                header = {"descr": chunk.dtype.str, "fortran_order": False, "shape": (count, *row)}
                np.lib.format.write_array_header_1_0(file, header)
            if chunk.shape[1:] != row:
                message = f"A chunk holds entries of the shape {chunk.shape[1:]}, the first one of {row}."
                raise InputError(message, where=name, hint="Give chunks (some tokens, width).")
            file.write(chunk.tobytes())
            written += len(chunk)
    if row is None or written != count:
        hint = "Give one entry for each token."
        raise InputError(f"{name!r} has {written} entries, 'phone' {count}.", where=name, hint=hint)
