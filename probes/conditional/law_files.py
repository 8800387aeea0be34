"""Read outcomes, and a candidate's laws of them, from an NPZ or a table.

Nothing is unpickled. Draws of an NPZ stay there until they are asked for: shapes are checked at once, values as they
are read.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from probes.conditional.image_laws import View
from probes.conditional.law_arrays import (
    LAWS,
    NEEDED,
    Held,
    Laws,
    Numbers,
    find_kind,
    in_words,
    item_shape,
    make_candidate,
)
from probes.conditional.law_tables import law_columns, read_law_table, read_truth_table
from probes.conditional.laws import KEYS, Bools, Candidate, Floats, Kind, Truth
from probes.core.errors import InputError
from probes.files.arrays import PIECE, Archive, open_archive
from probes.files.json_values import json_text
from probes.files.opening import read_head
from probes.files.tables import read_table

Image = tuple[int, int, int]

_HINT = "Give an NPZ with y (n, d), or a table (CSV, TSV, JSONL, Parquet) whose outcomes --target names."
_ARCHIVES = (b"PK", b"\x93NUMPY", b"\x89HDF")
_SUFFIXES = frozenset({".npz", ".npy", ".h5", ".hdf5", ".mat", ".pt", ".pth"})
_BYTES = "{} holds bytes: they were divided by 255."
_CALIBRATION = ("calibration_size", "calibration_y", "calibration_x")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTruth(Truth):
    """Outcomes as read, with what their candidates need.

    Parameters
    ----------
    view
        What of an outcome is scored.
    targets
        Names of the d values, where they have some.
    """

    view: View
    targets: tuple[str, ...] = ()


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
    (n,). Bytes of images are divided by 255.

    Parameters
    ----------
    target, inputs
        Columns of a table that are y and x; without `inputs` these are x, or x0, x1 and so on.
    mask
        Boolean array, (H, W) or (n, H, W), true where pixels are scored.
    features
        None or "raw": outcomes as they are. "pca:D": their first D principal components, fitted on y alone. Else the
        array that takes the place of y, and in a candidate's file that of samples.
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
    if not _is_archive(path):
        named = {"--mask": mask, "--features": key, "--modes": modes}
        option = next((option for option, name in named.items() if name), None)
        if option:
            message = f"{option} names an array of an NPZ, and this is a table."
            raise InputError(message, where=f"{path}, {option}", hint=f"Leave out {option}, or save an NPZ.")
        table = read_truth_table(path, target, inputs, decimal)
        outcomes = Numbers("y", Held(table.y), table.spot)
        y, view, notes = _scored(outcomes, View(n=len(table.y), shape=table.y.shape[1:]), components)
        notes = [*table.notes, *notes]
        return ReadTruth(y=y, x=table.x, columns=table.columns, notes=tuple(notes), view=view, targets=table.targets)
    if inputs:
        raise InputError("An NPZ holds inputs as x.", where=str(path), hint="Leave out the names of input columns.")
    archive = open_archive(path, forms=("NPZ",), hint=_HINT)
    return _archive_truth(archive, key or "y", components, mask=mask, modes=modes, target=tuple(target))


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
    if not _is_archive(path):
        if truth.view.key is not None:
            message = f"The features {truth.view.key!r} are an array of an NPZ, and this is a table."
            raise InputError(message, where=str(path), hint="Save an NPZ with them, or leave out --features.")
        table = read_law_table(path, truth.view, truth.targets, truth.columns.get("row"), decimal)
        held = {key: Numbers(key, Held(values), table.spot) for key, values in table.arrays.items()}
        laws = Laws(kind=table.kind, numbers=held, view=truth.view)
        return make_candidate(name, laws, levels=table.levels, level=table.level, notes=table.notes)
    archive = open_archive(path, forms=("NPZ",), hint=LAWS)
    numbers, kind = _law_arrays(archive, truth.view)
    laws = Laws(kind=kind, numbers=numbers, view=truth.view)
    calibration, notes = _calibration(archive, truth)
    notes += [_BYTES.format(key) for key, array in numbers.items() if array.unit != 1]
    images = _images(archive, "points" if kind == "points" else "samples", truth.view.n, 1)
    return make_candidate(
        name,
        laws,
        levels=_numbers(archive, "levels").whole() if kind == "quantiles" else None,
        level=_scalar(archive, "level") if kind == "intervals" else None,
        calibration=calibration,
        pictures=partial(_pictures, *images) if images else None,
        notes=notes,
    )


def law_keys(path: Path, target: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of arrays or columns in a file that make a law of each row; () where there is none.

    Raises
    ------
    InputError
        Where the file cannot be read.
    """
    if _is_archive(path):
        return _keys(_names(open_archive(path, forms=("NPZ",), hint=_HINT)))
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
    if text is None or text == "raw":
        return None, None
    if not text.startswith("pca:"):
        return None, text
    count = text.removeprefix("pca:")
    if not (count.isascii() and count.isdecimal() and int(count[:9]) > 0):
        hint = "Write a whole number, as in pca:8."
        raise InputError(f"{count[:60]!r} is no number of components.", where="--features", hint=hint)
    return int(count[:9]), None


def _is_archive(path: Path) -> bool:
    head = read_head(path, wanted="outcomes or laws of them", hint=_HINT)
    return head.startswith(_ARCHIVES) or path.suffix.lower() in _SUFFIXES


def _archive_truth(
    archive: Archive, key: str, components: int | None, *, mask: str | None, modes: str | None, target: tuple[str, ...]
) -> ReadTruth:
    shape = archive.find(key).shape
    outcomes = _numbers(archive, key, image=len(shape) > 2)
    if not 1 <= len(shape) <= 4 or not math.prod(shape):
        hint = "Give (n,), (n, d) or (n, H, W, C), with some rows."
        raise InputError(f"{key} has the shape {shape}.", where=outcomes.spot(key, ()), hint=hint)
    view = View(n=shape[0], shape=item_shape(shape[1:]), key=None if key == "y" else key)
    if target and len(target) != math.prod(view.shape):
        message = f"--target names {len(target)} values; {key} has {in_words(view.n, view.shape)}."
        raise InputError(message, where=outcomes.spot(key, ()), hint="Name each of them, or leave out --target.")
    if mask is not None:
        view = view.masked(_mask(archive, mask), f"{archive.path}, {mask}")
    y, view, notes = _scored(outcomes, view, components)
    oracle = None
    if _has(archive, "oracle"):
        drawn = _numbers(archive, "oracle", image=len(view.shape) == 3)
        oracle = Laws(kind="samples", numbers={"samples": drawn}, view=view)
    image = _images(archive, "y", view.n, 0)
    return ReadTruth(
        y=y,
        x=_inputs(archive, view.n) if _has(archive, "x") else None,
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
        plain = view
        view, share = plain.projected(y, components, f"{outcomes.spot(outcomes.key, ())}, --features")
        y = view.components(y)
        notes.append(f"The first {components} principal components of {outcomes.key} hold {share:.1%} of its variance.")
    return y, view, notes


def _names(archive: Archive) -> set[str]:
    return {*archive.arrays, *archive.refused}


def _has(archive: Archive, key: str) -> bool:
    return key in archive.arrays or key in archive.refused


def _keys(names: Collection[str]) -> tuple[str, ...]:
    """Return the names of the arrays that make a law, of all laws that are there."""
    kinds = [kind for kind, needed in NEEDED.items() if {*needed} <= {*names}]
    return tuple(key for kind in kinds for key in KEYS[kind] if key in names)


def _numbers(archive: Archive, key: str, *, image: bool = False) -> Numbers:
    array = archive.find(key)
    archive.check_expansion((key,))
    return Numbers(key, array, partial(_spot, archive.path), 255.0 if image and array.dtype == np.uint8 else 1.0)


def _spot(path: Path, key: str, index: Sequence[int]) -> str:
    return f"{path}, {key}{[*index] or ''}"


def _images(archive: Archive, key: str, n: int, before: int) -> tuple[Numbers, Image] | None:
    """Return an array of n rows of images with their shape (H, W, C), `before` axes standing between, if it is one."""
    array = archive.arrays.get(key)
    if (
        array is None
        or len(array.shape) - before not in (3, 4)
        or array.shape[0] != n
        or array.dtype.kind not in "biuf"
    ):
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
        message = f"{key} has the shape {numbers.shape}, and one number is asked for."
        raise InputError(message, where=numbers.spot(key, ()), hint=f"Save it as numpy.savez(file, {key}=NUMBER, ...).")
    return float(numbers.whole().reshape(()))


def _mask(archive: Archive, key: str) -> Bools:
    numbers = _numbers(archive, key)
    values = archive.arrays[key].whole()
    numbers.check((values == 0) | (values == 1), 0, "what is neither true nor false", "Save booleans.")
    return np.asarray(values == 1)


def _inputs(archive: Archive, n: int, key: str = "x") -> Floats:
    numbers = _numbers(archive, key)
    if not numbers.shape or numbers.shape[0] != n or not math.prod(numbers.shape):
        message = f"{key} has the shape {numbers.shape}, and there are {n} rows."
        raise InputError(
            message, where=numbers.spot(key, ()), hint="Give (n,) or (n, p), in the order of the outcomes."
        )
    return numbers.whole().reshape(n, -1)


def _columns(archive: Archive, n: int, taken: Collection[str | None]) -> dict[str, list[str]]:
    """Return arrays of n texts or numbers as they would stand in a table."""
    laws = _keys(_names(archive))
    found = {}
    for name, array in archive.arrays.items():
        if array.shape == (n,) and array.dtype.kind in "USiufb" and name not in {*taken, *laws, *_CALIBRATION}:
            archive.find(name, "USiufb")
            archive.check_expansion((name,))
            found[name] = [_text(item) for item in array.items(0, n)]
    return found


def _text(item: object) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    # Half a surrogate pair could not be written to a report.
    return item.encode("utf-8", "replace").decode() if isinstance(item, str) else json_text(item) or ""


def _modes(numbers: Numbers, view: View) -> Floats:
    values = numbers.whole()
    for axes in (2, 1):
        count = values.shape[axes - 1] if values.ndim >= axes else 0
        if count and item_shape(values.shape[axes:]) == view.shape and (axes == 1 or len(values) == view.n):
            each = np.broadcast_to(values.reshape(-1, count, *view.shape), (view.n, count, *view.shape))
            return view.scored(each)
    message = f"The modes have the shape {values.shape}; the data have {in_words(view.n, view.shape)}."
    hint = "Give (M, d) for all rows, or (n, M, d)."
    raise InputError(message, where=numbers.spot(numbers.key, ()), hint=hint)


def _law_arrays(archive: Archive, view: View) -> tuple[dict[str, Numbers], Kind]:
    image = len(view.shape) == 3
    if view.key is not None:
        return {"samples": _numbers(archive, view.key)}, "samples"
    names = _names(archive)
    kind = find_kind(names, str(archive.path), archive.listing())
    keys = [key for key in KEYS[kind] if key in names and key not in ("levels", "level")]
    numbers = {key: _numbers(archive, key, image=image and key != "weights") for key in keys}
    archive.check_expansion(keys)
    weights = numbers.get("weights")
    if weights is not None and len(weights.shape) == 1:
        every = np.broadcast_to(weights.whole(), (view.n, *weights.shape))
        numbers["weights"] = Numbers("weights", Held(every), weights.spot)
    return numbers, kind


def _calibration(archive: Archive, truth: ReadTruth) -> tuple[int, list[str]]:
    """Return the rows on which a candidate was calibrated; refuse those that are among the rows of the data."""
    if not _has(archive, "calibration_y"):
        size = _scalar(archive, "calibration_size") if _has(archive, "calibration_size") else 0.0
        if size < 0 or size % 1:
            where = f"{archive.path}, calibration_size"
            raise InputError(f"{size:g} is no number of rows.", where=where, hint="Give a whole number.")
        return int(size), []
    numbers = _numbers(archive, "calibration_y", image=len(truth.view.shape) == 3)
    count = numbers.shape[0] if numbers.shape else 0
    if not count or item_shape(numbers.shape[1:]) != truth.view.shape or truth.view.mask is not None:
        message = (
            f"calibration_y has the shape {numbers.shape}; {in_words(truth.view.n, truth.view.shape)} are compared."
        )
        hint = "Give its rows as y has them, or calibration_size alone."
        raise InputError(message, where=numbers.spot(numbers.key, ()), hint=hint)
    own, other = [truth.y], [truth.view.scored(numbers.whole()[:, None])[:, 0]]
    if _has(archive, "calibration_x"):
        x = _inputs(archive, count, "calibration_x")
        if truth.x is None or x.shape[1] != truth.x.shape[1]:
            message = f"calibration_x has the shape {x.shape}, other than the inputs of the data."
            raise InputError(message, where=f"{archive.path}, calibration_x", hint="Give those inputs that x has.")
        own, other = [truth.x, *own], [x, *other]
    return count, _check_apart(np.hstack(own), np.hstack(other), f"{archive.path}, calibration_y")


def _check_apart(rows: Floats, calibration: Floats, where: str) -> list[str]:
    """Refuse a row that is one of the calibration, where rows are distinct enough to tell; else return a note."""
    # The two zeros are equal.
    known = {row.tobytes(): index for index, row in enumerate(calibration + 0.0)}
    keys = [row.tobytes() for row in rows + 0.0]
    if len(known) < len(calibration) or len({*keys}) < len(keys):
        return ["Rows repeat, so whether the data hold rows of the calibration cannot be told."]
    shared = [index for index, key in enumerate(keys) if key in known]
    if shared:
        message = (
            f"calibration rows among the test rows: row {shared[0]} of the data is row {known[keys[shared[0]]]} of "
        )
        message += f"the calibration, and so are {len(shared) - 1} others." if len(shared) > 1 else "the calibration."
        hint = "Leave them out of the data and of each candidate's file: coverage on them is promised, not measured."
        raise InputError(message[0].upper() + message[1:], where=where, hint=hint)
    return []
