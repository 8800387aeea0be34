"""Read outcomes, and a candidate's laws of them, from an NPZ or a table.

Nothing is unpickled. Draws of an NPZ stay there until they are asked for: shapes are checked at once, values as they
are read.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from probes.conditional.image_laws import FITTED, View
from probes.conditional.law_arrays import LAWS, NEEDED, Held, Laws, Numbers, find_kind, in_words, item_shape
from probes.conditional.law_tables import CALIBRATION, law_columns, read_law_table, read_truth_table
from probes.conditional.laws import KEYS, Bools, Candidate, Floats, Truth
from probes.core.errors import InputError
from probes.files.arrays import PIECE, Archive, open_archive
from probes.files.json_values import json_text
from probes.files.opening import read_head
from probes.files.table_sources import is_dataset
from probes.files.tables import read_table

Image = tuple[int, int, int]

_HINT = "Give an NPZ with y (n, d), or a table (CSV, TSV, JSONL, Parquet) whose outcomes --target names."
_ARCHIVES = (b"PK", b"\x93NUMPY", b"\x89HDF")
_SUFFIXES = frozenset({".npz", ".npy", ".h5", ".hdf5", ".mat", ".pt", ".pth"})
_BYTES = "{} holds bytes: they were divided by 255."
_COLUMNS = "USiufb"
_FAR, _CHANCE = 8.0, 10
_SIZE, _CALIBRATED, _THEIR_INPUTS = CALIBRATION, "calibration_y", "calibration_x"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTruth(Truth):
    """Outcomes as read, with what is needed to read laws of them.

    Parameters
    ----------
    view
        What of an outcome is scored.
    targets
        Names of its values, where they have some.
    unit
        What values were divided by: 255 for the bytes of images.
    """

    view: View
    targets: tuple[str, ...] = ()
    unit: float = 1.0


def read_truth(
    path: Path,
    *,
    target: Sequence[str] = (),
    inputs: Sequence[str] = (),
    mask: str | None = None,
    features: str | None = None,
    modes: str | None = None,
    decimal: str | None = None,
) -> ReadTruth:
    """Read outcomes, what was known before them, and what else a file says of the rows.

    An NPZ holds `y` (n,), (n, d) or (n, H, W, C), and may hold `x` (n,) or (n, p), `oracle` (n, draws, d), and columns
    (n,) of texts or numbers. Bytes of images are divided by 255, in pictures too.

    Parameters
    ----------
    target, inputs
        Columns of a table that are y and x; without `inputs` these are x, or x0, x1 and so on.
    mask
        Boolean array, (H, W) or (n, H, W), true where pixels are scored.
    features
        None or "raw": outcomes as they are. "pca:D": their first D principal components, of each half of the rows
        fitted on y of the other half. Else the array that takes the place of y, and in a candidate's file that of
        samples.
    modes
        Array of where the laws have their modes: (M, d), or (n, M, d).
    decimal
        The decimal mark of a table, where the user names it.

    Raises
    ------
    InputError
        Where the file cannot be read, lacks what is named, or holds what is no finite number.
    """
    components, key = parse_features(features)
    if _is_archive(path):
        if inputs:
            raise InputError("An NPZ holds inputs as x.", where=str(path), hint="Name no columns of inputs.")
        archive = open_archive(path, forms=("NPZ",), hint=_HINT)
        return _archive_truth(archive, key or "y", components, mask, modes, tuple(target))
    named = {"--mask": mask, "--features": key, "--modes": modes}
    option = next((option for option, name in named.items() if name is not None), None)
    if option:
        message = f"{option} names an array of an NPZ, and this is a table."
        raise InputError(message, where=f"{path}, {option}", hint=f"Leave out {option}, or save an NPZ.")
    outcomes, x, columns, notes = read_truth_table(path, target, inputs, decimal)
    view = View(n=outcomes.shape[0], shape=outcomes.shape[1:])
    y, view, others = _scored(outcomes, view, components)
    return ReadTruth(y=y, x=x, columns=columns, notes=(*notes, *others), view=view, targets=tuple(target))


def read_candidate(name: str, path: Path, truth: ReadTruth, *, decimal: str | None = None) -> Candidate:
    """Read a candidate's laws of the rows of `truth`, in the same order; those of an NPZ stay there until needed.

    An NPZ holds the arrays of one kind in `KEYS`, and may hold `calibration_size`, or `calibration_y` (m, d) with
    `calibration_x` (m, p): the rows on which conformal intervals were calibrated. A table has the columns `row`,
    `sample` and the targets or `value`, a line for each draw; or for each row `sample_0`, `sample_1`, ...; `q0.05`,
    `q0.5`, ...; `mean` and `std`; or `lower`, `upper` and `level`.

    Raises
    ------
    InputError
        Where the file cannot be read, holds no law or two, does not fit the rows, or was calibrated on some of them.
    """
    view = truth.view
    if not _is_archive(path):
        if view.key is not None:
            message = f"The features {view.key!r} are an array of an NPZ, and this is a table."
            raise InputError(message, where=str(path), hint="Save an NPZ with them, or leave out --features.")
        laws, said = read_law_table(path, view, truth.targets, truth.columns.get("row"), decimal)
        return replace(laws.candidate(name), calibration=laws.calibration, notes=said)
    archive = open_archive(path, forms=("NPZ",), hint=LAWS)
    laws = _archive_laws(archive, view)
    _check_scale(truth, laws)
    calibration, notes = _calibration(archive, truth)
    notes += [_BYTES.format(array.key) for array in laws.numbers.values() if array.unit != 1]
    images = _images(archive, "points" if laws.kind == "points" else "samples", view.n, 1)
    pictures = partial(_pictures, *images) if images else None
    return replace(laws.candidate(name), calibration=calibration, pictures=pictures, notes=tuple(notes))


def law_keys(path: Path, target: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of arrays or columns in a file that make a law of each row; () where there is none.

    Raises
    ------
    InputError
        Where the file cannot be read.
    """
    if _is_archive(path):
        return _law_names(_names(open_archive(path, forms=("NPZ",), hint=_HINT)))
    return law_columns(read_table(path).columns, target)


def parse_features(text: str | None) -> tuple[int | None, str | None]:
    """Return the number of principal components, and the array of features, that are asked for.

    Raises
    ------
    InputError
        Where the number is none.

    >>> parse_features("pca:8"), parse_features("embedded"), parse_features("raw")
    ((8, None), (None, 'embedded'), (None, None))
    """
    if text in (None, "raw"):
        return None, None
    start, found, count = (text or "").partition("pca:")
    if start or not found:
        return None, text
    if not (count.isascii() and count.isdecimal() and int(count[:9]) > 0):
        hint = "Write a whole number, as in pca:8."
        raise InputError(f"{count[:60]!r} is no number of components.", where="--features", hint=hint)
    return int(count[:9]), None


def _is_archive(path: Path) -> bool:
    if is_dataset(path):
        return False
    head = read_head(path, wanted="outcomes or laws of them", hint=_HINT)
    return head.startswith(_ARCHIVES) or path.suffix.lower() in _SUFFIXES


def _archive_truth(
    archive: Archive, key: str, components: int | None, mask: str | None, modes: str | None, target: tuple[str, ...]
) -> ReadTruth:
    outcomes = _numbers(archive, key, image=len(archive.find(key).shape) > 2)
    shape = outcomes.shape
    if not 1 <= len(shape) <= 4 or not math.prod(shape):
        raise outcomes.refusal(f"{key} has the shape {shape}.", "Give (n,), (n, d) or (n, H, W, C), with some rows.")
    view = View(n=shape[0], shape=item_shape(shape[1:]), key=None if key == "y" else key)
    if target and len(target) != math.prod(view.shape):
        message = f"--target names {len(target)} values; {key} has {in_words(view.n, view.shape)}."
        raise outcomes.refusal(message, "Name each of them, or leave out --target.")
    if mask is not None:
        view = view.masked(_mask(archive, mask), f"{archive.path}, {mask}")
    y, view, notes = _scored(outcomes, view, components)
    drawn = [_numbers(archive, "oracle", image=len(view.shape) == 3)] if "oracle" in _names(archive) else []
    oracle = Laws(kind="samples", numbers={"samples": drawn[0]}, view=view) if drawn else None
    image = _images(archive, "y", view.n, 0)
    return ReadTruth(
        y=y,
        x=_inputs(archive, "x", view.n) if "x" in _names(archive) else None,
        columns=_columns(archive, view.n, {"x", "y", "oracle", key, mask, modes}),
        oracle=partial(_draws, oracle) if oracle else None,
        oracle_draws=oracle.draws if oracle else 0,
        modes=_modes(_numbers(archive, modes, image=len(view.shape) == 3), view) if modes is not None else None,
        image=image[1] if image else None,
        pictures=partial(_picture, *image) if image else None,
        masked=view.kept if view.linear else None,
        notes=tuple(notes),
        view=view,
        targets=target,
        unit=outcomes.unit,
    )


def _scored(outcomes: Numbers, view: View, components: int | None) -> tuple[Floats, View, list[str]]:
    """Return what is scored of all outcomes, the view with its principal components, and notes."""
    step = max(1, PIECE // (8 * math.prod(view.shape)))
    blocks = ((start, outcomes.read(start, min(start + step, view.n))) for start in range(0, view.n, step))
    y = np.concatenate([view.scored(block[:, None], start)[:, 0] for start, block in blocks])
    notes = [_BYTES.format(outcomes.key)] * (outcomes.unit != 1)
    if view.kept is not None:
        each = ", of each row those under its own mask" * (view.mask is not None)
        notes.append(f"{len(view.kept):,} of {math.prod(view.shape):,} values of an image are scored{each}.")
    if components is not None:
        view, share = view.projected(y, components, f"{outcomes.spot(outcomes.key, ())}, --features")
        y = replace(view, kept=None, mask=None).scored(y[:, None])[:, 0]
        fitted = f"{FITTED:,} rows of " * (view.n > 2 * FITTED)
        what = f"{components} principal components of {outcomes.key} hold {share:.1%} of its variance"
        notes.append(f"{what}; those of each half of the rows are fitted on {fitted}the other half.")
    return y, view, notes


def _archive_laws(archive: Archive, view: View) -> Laws:
    names, image = _names(archive), len(view.shape) == 3
    if view.key is not None:
        return Laws(kind="samples", numbers={"samples": _numbers(archive, view.key, image=image)}, view=view)
    kind = find_kind(names, str(archive.path), archive.listing())
    keys = [key for key in KEYS[kind] if key in names and key not in ("levels", "level")]
    numbers = {key: _numbers(archive, key, image=image and key != "weights") for key in keys}
    archive.check_expansion(keys)
    weights = numbers.get("weights")
    if weights is not None and len(weights.shape) == 1:
        every = np.broadcast_to(weights.whole(), (view.n, *weights.shape))
        numbers["weights"] = Numbers("weights", Held(every), weights.spot)
    levels = _numbers(archive, "levels").whole() if kind == "quantiles" else None
    level = _scalar(archive, "level") if kind == "intervals" else None
    return Laws(kind=kind, numbers=numbers, view=view, levels=levels, level=level)


def _check_scale(truth: ReadTruth, laws: Laws) -> None:
    """Refuse bytes, which are divided by 255, beside images with numbers that reach far over 1."""
    numbers = laws.numbers.get(laws.kind) or laws.numbers.get("mean")
    if numbers is None or numbers.unit == truth.unit or truth.view.directions is not None:
        return
    largest = float(np.abs(truth.y if truth.unit == 1 else numbers.read(0, 1)).max())
    if largest > _FAR:
        message = f"Of y and {numbers.key} one holds bytes, divided by 255, and the other numbers up to {largest:g}."
        raise numbers.refusal(message, "Save both as bytes, or both as numbers from 0 to 1.")


def _names(archive: Archive) -> set[str]:
    return {*archive.arrays, *archive.refused}


def _law_names(names: Collection[str]) -> tuple[str, ...]:
    """Return the names of the arrays that make a law, of all laws that are there."""
    return tuple(key for kind, keys in NEEDED.items() if {*keys} <= {*names} for key in KEYS[kind] if key in names)


def _numbers(archive: Archive, key: str, *, image: bool = False) -> Numbers:
    array = archive.find(key)
    archive.check_expansion((key,))
    return Numbers(key, array, partial(_spot, archive.path), 255.0 if image and array.dtype == np.uint8 else 1.0)


def _spot(path: Path, key: str, index: Sequence[int]) -> str:
    return f"{path}, {key}{[*index] or ''}"


def _images(archive: Archive, key: str, n: int, before: int) -> tuple[Numbers, Image] | None:
    """Return an array of n rows of images with their shape (H, W, C), `before` axes standing between, if it is one."""
    array = archive.arrays.get(key)
    if array is None or len(array.shape) - before not in (3, 4) or array.shape[0] != n:
        return None
    height, width, channels = item_shape(array.shape[1 + before :])
    return _numbers(archive, key, image=True), (height, width, channels)


def _picture(numbers: Numbers, image: Image, row: int) -> Floats:
    return numbers.read(row, row + 1).reshape(image)


def _pictures(numbers: Numbers, image: Image, row: int, count: int) -> Floats:
    return numbers.read(row, row + 1, (1, 0, min(count, numbers.shape[1]))).reshape(-1, *image)


def _draws(laws: Laws, start: int, stop: int) -> Floats:
    return laws.block(start, stop)["samples"]


def _scalar(archive: Archive, key: str) -> float:
    numbers = _numbers(archive, key)
    if math.prod(numbers.shape) != 1:
        hint = f"Save it so: numpy.savez(file, {key}=NUMBER)."
        raise numbers.refusal(f"{key} has the shape {numbers.shape}, not that of one number.", hint)
    return float(numbers.whole().reshape(()))


def _mask(archive: Archive, key: str) -> Bools:
    numbers = _numbers(archive, key)
    values = archive.arrays[key].whole()
    numbers.check((values == 0) | (values == 1), 0, "what is neither true nor false", "Save booleans.")
    return np.asarray(values == 1)


def _inputs(archive: Archive, key: str, n: int) -> Floats:
    numbers = _numbers(archive, key)
    if numbers.shape[:1] != (n,) or not math.prod(numbers.shape):
        message = f"{key} has the shape {numbers.shape}, and there are {n} rows."
        raise numbers.refusal(message, "Give (n,) or (n, p), in the order of the outcomes.")
    return numbers.whole().reshape(n, -1)


def _columns(archive: Archive, n: int, taken: set[str | None]) -> dict[str, list[str]]:
    """Return arrays of n texts or numbers as they would stand in a table."""
    taken = taken.union(_law_names(_names(archive)), (_SIZE, _CALIBRATED, _THEIR_INPUTS))
    found = {name: array for name, array in archive.arrays.items() if array.shape == (n,) and name not in taken}
    chosen = [name for name, array in found.items() if array.dtype.kind in _COLUMNS]
    archive.check_expansion(chosen)
    return {name: [_text(item) for item in archive.find(name, _COLUMNS).items(0, n)] for name in chosen}


def _text(item: object) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    # Half a surrogate pair could not be written to a report, and long doubles stay those of numpy.
    plain = isinstance(item, str | np.generic)
    return str(item).encode("utf-8", "replace").decode() if plain else json_text(item) or ""


def _modes(numbers: Numbers, view: View) -> Floats:
    """Return modes (n, M, d); those of all rows are the same where the file has one set."""
    values = numbers.whole()
    for axes in (2, 1):
        count = values.shape[axes - 1] if values.ndim >= axes else 0
        if count and item_shape(values.shape[axes:]) == view.shape and (axes == 1 or len(values) == view.n):
            each = values.reshape(-1, count, *view.shape)
            return view.scored(np.broadcast_to(each, (view.n, *each.shape[1:])))
    message = f"{numbers.key} has the shape {values.shape}; the data have {in_words(view.n, view.shape)}."
    raise numbers.refusal(message, "Give modes (M, d) for all rows, or (n, M, d).")


def _calibration(archive: Archive, truth: ReadTruth) -> tuple[int, list[str]]:
    """Return on how many rows a candidate was calibrated, and a note; refuse those that are among the data."""
    names, view = _names(archive), truth.view
    if _CALIBRATED not in names:
        size = _scalar(archive, _SIZE) if _SIZE in names else 0.0
        if size < 0 or size % 1:
            raise _numbers(archive, _SIZE).refusal(f"{size:g} is no number of rows.", "Give a whole number.")
        return int(size), []
    numbers = _numbers(archive, _CALIBRATED, image=len(view.shape) == 3)
    shape = numbers.shape
    if not math.prod(shape) or item_shape(shape[1:]) != view.shape or view.mask is not None:
        message = f"{_CALIBRATED} has the shape {shape}; the data have {in_words(view.n, view.shape)}."
        raise numbers.refusal(message, f"Give rows as y has them, or {_SIZE} alone.")
    rows, others = [truth.y], [view.scored(numbers.whole()[:, None])[:, 0]]
    if _THEIR_INPUTS in names:
        x = _inputs(archive, _THEIR_INPUTS, shape[0])
        if truth.x is None or x.shape[1] != truth.x.shape[1]:
            message = f"{_THEIR_INPUTS} has {x.shape[1]} inputs, and x of the data not as many."
            raise _numbers(archive, _THEIR_INPUTS).refusal(message, "Give those inputs that the data have.")
        rows, others = [truth.x, *rows], [x, *others]
    return shape[0], _check_apart(numbers, np.hstack(rows), np.hstack(others))


def _check_apart(numbers: Numbers, rows: Floats, calibration: Floats) -> list[str]:
    """Refuse rows that are some of the calibration; return a note where so many may be equal by chance."""
    # Adding zero makes the two zeros equal.
    known = {row.tobytes(): index for index, row in enumerate(calibration + 0.0)}
    keys = [row.tobytes() for row in rows + 0.0]
    shared = [index for index, key in enumerate(keys) if key in known]
    if not shared:
        return []
    # Counts and repeated values are equal by chance; numbers without an end to their digits are not.
    repeated = len(calibration) - len(known) + len(keys) - len({*keys}) + bool((rows % 1 == 0).all())
    if len(shared) <= _CHANCE * repeated:
        return [f"{len(shared):,} rows are equal to rows of {numbers.key}, as may be by chance: such values repeat."]
    first = known[keys[shared[0]]]
    message = f"Calibration rows among the test rows: {len(shared):,} of {len(keys):,}, such as row {shared[0]} of the "
    hint = "Leave them out of the data and of every candidate: coverage there is promised, not measured."
    raise numbers.refusal(f"{message}data, which is row {first} of the calibration.", hint, (first,))
