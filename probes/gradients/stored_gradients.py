"""Read gradients that any framework wrote, block by block: memory does not grow with the files.

A folder holds files `step<S>_batch<B>.safetensors` with keys `reference/<parameter>` and `<method>/<parameter>`, of
floating-point or whole numbers. A method in the metadata key `draws` (names with commas between) has a leading axis
of draws.

The last layer is that of the last parameter, with all whose names differ only behind the last dot. Parameters are in
the order of the header; where that is the alphabet's, as safetensors writes it, numbers in names count as numbers. A
metadata key `last` names the last layer where this is not so, such as `head`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.files.number_kinds import KINDS, as_doubles, width_of
from probes.files.opening import check_ordinary, reading, stamp, unchanged
from probes.files.safe_tensors import check_safetensors
from probes.gradients.agreement import Agreement, added, compare, no_estimate, stacked

REFERENCE = "reference"
BLOCK = 2**17
"""Numbers of one method that are in memory at once."""
_NAME = re.compile(r"step(\d{1,15})_batch(\d{1,15})\.safetensors", re.ASCII)
_METHOD = re.compile(r"[\w.:+-]{1,100}")
_SUMS = ("hidden", "all")
_MOST_DRAWS = 10_000
_FORM = "Keys are reference/PARAMETER and METHOD/PARAMETER, such as reference/layers.0.weight; hidden and all are sums."


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One checked file: where its numbers begin, its entries by method and parameter, and draws by method."""

    path: Path
    step_and_batch: tuple[int, int]
    start: int
    entries: Mapping[str, Mapping[str, Mapping[str, Any]]]
    draws: Mapping[str, int]
    last: str
    stamp: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredGradients:
    """The checked files of a folder, by step and batch.

    `shapes` are those of the reference in the order of layers, `hidden` says which of them are not of the last layer,
    `draws` has 1 for methods without draws, and `others` are files that are not read.
    """

    files: Mapping[tuple[int, int], StoredFile]
    shapes: Mapping[str, tuple[int, ...]]
    hidden: tuple[bool, ...]
    draws: Mapping[str, int]
    others: tuple[str, ...]

    @property
    def axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Steps and batches, in order."""
        steps, batches = zip(*self.files, strict=True)
        return tuple(sorted(set(steps))), tuple(sorted(set(batches)))


@dataclass(frozen=True, slots=True)
class Compared:
    """Agreements by method, shape (draws, parameters, steps, batches), and what is not in them.

    `absent` and `not_finite` count, by method, the parameters of files that it has no numbers of, or others than
    finite ones; `files_absent` the pairs of step and batch without a file.
    """

    agreements: Mapping[str, Agreement]
    absent: Mapping[str, int]
    not_finite: Mapping[str, int]
    files_absent: int


def find_gradients(folder: Path) -> StoredGradients:
    """Check the headers of all files of a folder.

    Raises
    ------
    InputError
        Where there is no such file, a file is damaged or misnamed, or its keys, shapes and draws do not fit together.
    """
    if not folder.is_dir():
        raise InputError("There is no such folder.", where=str(folder), hint="Name the folder of gradients.")
    with reading(folder):
        paths = sorted(folder.iterdir())
    files: dict[tuple[int, int], StoredFile] = {}
    draws: dict[str, int] = {}
    for path in paths:
        if path.suffix != ".safetensors":
            continue
        file = _checked(path)
        first = next(iter(files.values()), file)
        if files.setdefault(file.step_and_batch, file) is not file:
            raise InputError("Two files are of the same step and batch.", where=str(path), hint="Remove one.")
        if _shapes(file) != _shapes(first):
            what = f"Its reference has other parameters or shapes than {first.path.name}."
            raise InputError(what, where=str(path), hint="Every file holds the reference gradient of the same network.")
        for method, count in file.draws.items():
            if draws.setdefault(method, count) != count:
                what = f"{method} has {count} draws, in other files {draws[method]}."
                raise InputError(what, where=str(path), hint="Write as many draws of a method to every file.")
    if not draws:
        hint = "Files are named step<S>_batch<B>.safetensors, and hold reference/<parameter> and <method>/<parameter>."
        raise InputError("The folder holds no gradients to compare.", where=str(folder), hint=hint)
    first = next(iter(files.values()))
    others = tuple(path.name for path in paths if path.suffix != ".safetensors")
    return StoredGradients(files, _shapes(first), _hidden(first), draws, others)


def compare_stored(stored: StoredGradients, progress: Progress | None = None) -> Compared:
    """Read all files and return how each method agrees with the reference.

    Raises
    ------
    InputError
        Where the reference holds a number that is not finite, or a file changes meanwhile.
    """
    absent, broken = (dict.fromkeys(stored.draws, 0) for _ in range(2))
    found: dict[tuple[int, int], dict[str, Agreement]] = {}
    with (progress or Silent()).phase("gradients", len(stored.files), "files") as advance:
        for step_and_batch, file in stored.files.items():
            with unchanged(file.path, file.stamp), reading(file.path), file.path.open("rb") as opened:
                parts = [_parameter(opened, file, name, stored.draws) for name in stored.shapes]
            found[step_and_batch] = {method: stacked([part[method] for part in parts], 1) for method in stored.draws}
            for method, one in found[step_and_batch].items():
                gone = len(stored.shapes) - len(file.entries.get(method, {}))
                absent[method] += gone
                broken[method] += int(np.isnan(one.dot[0]).sum()) - gone
            advance(1)
    steps, batches = stored.axes
    agreements = {}
    for method, count in stored.draws.items():
        none = {method: stacked([no_estimate(count)] * len(stored.shapes), 1)}
        rows = [stacked([found.get((step, batch), none)[method] for batch in batches], -1) for step in steps]
        agreements[method] = stacked(rows, 2)
    return Compared(agreements, absent, broken, len(steps) * len(batches) - len(found))


def _checked(path: Path) -> StoredFile:
    """Return a file with the keys of its header sorted by method, after checking them."""
    named, where = _NAME.fullmatch(path.name), str(path)
    if not named:
        hint = "Name it step<S>_batch<B>.safetensors, such as step0_batch0.safetensors, or move it elsewhere."
        raise InputError("The name of the file does not say which step and batch it is of.", where=where, hint=hint)
    check_ordinary(path, hint="Fetch or save it again.")
    before = stamp(path)
    start, header = check_safetensors(path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InputError("Its metadata are no texts by name.", where=where, hint="Save it again.")
    entries: dict[str, dict[str, Any]] = {}
    for key, entry in header.items():
        method, _, parameter = key.partition("/")
        if not _METHOD.fullmatch(method) or not parameter.isprintable() or parameter in ("", *_SUMS):
            raise InputError(f"The key {ascii(key)[:200]} names no method and parameter.", where=where, hint=_FORM)
        if entry["dtype"] not in KINDS:
            what = f"{ascii(key)[:200]} has the type {ascii(entry['dtype'])[:40]}, which is not read."
            raise InputError(what, where=where, hint="Gradients are real numbers; save them as F32 or F64.")
        entries.setdefault(method, {})[parameter] = entry
    if REFERENCE not in entries:
        raise InputError("The file holds no reference gradient.", where=where, hint=_FORM)
    drawn = {name.strip() for name in metadata.get("draws", "").split(",")} - {""}
    draws = {
        method: _draws(method, own, entries[REFERENCE], drawn, where)
        for method, own in entries.items()
        if method != REFERENCE
    }
    if drawn - draws.keys():
        names = ", ".join(sorted(drawn - draws.keys()))[:200]
        hint = "The metadata key draws lists methods of the file."
        raise InputError(f"Its metadata name draws of {names}, which it does not hold.", where=where, hint=hint)
    step_and_batch = (int(named[1]), int(named[2]))
    return StoredFile(path, step_and_batch, start, entries, draws, metadata.get("last", ""), before)


def _draws(method: str, own: Mapping[str, Any], reference: Mapping[str, Any], drawn: set[str], where: str) -> int:
    """Return how many draws a method has, the same for all its parameters, after checking their shapes."""
    counts = set()
    for parameter, entry in own.items():
        shape, spot = entry["shape"], f"{where}, {method}/{parameter}"[:400]
        if parameter not in reference:
            raise InputError("There is no reference gradient of this parameter.", where=spot, hint=_FORM)
        right = reference[parameter]["shape"]
        if (shape[1:] if method in drawn else shape) != right or (method in drawn and not (shape and shape[0])):
            hint = "Name the method in the metadata key draws." if shape[1:] == right else "Save it again."
            wanted = f"(draws, {', '.join(map(str, right))})" if method in drawn else f"{tuple(right)}"
            raise InputError(f"Its shape is {tuple(shape)}, and should be {wanted}.", where=spot, hint=hint)
        counts.add(shape[0] if method in drawn else 1)
    if len(counts) > 1 or max(counts) > _MOST_DRAWS:
        what = f"The numbers of draws of its parameters are {', '.join(map(str, sorted(counts)[:9]))}."
        hint = f"A draw is of all parameters at once, and there are {_MOST_DRAWS} at most."
        raise InputError(what, where=f"{where}, {method}", hint=hint)
    return int(counts.pop())


def _shapes(file: StoredFile) -> dict[str, tuple[int, ...]]:
    """Return the reference's shapes in the order of layers."""
    names = list(file.entries[REFERENCE])
    if names == sorted(names):
        # Runs of digits by their numbers, everything else as text.
        parts = {name: [(part.isdigit(), part) for part in re.split("([0-9]+)", name) if part] for name in names}
        names.sort(key=lambda name: [(digits, len(part) * digits, part) for digits, part in parts[name]])
    return {name: tuple(file.entries[REFERENCE][name]["shape"]) for name in names}


def _hidden(file: StoredFile) -> tuple[bool, ...]:
    """Tell which parameters are of another layer than the last."""
    names = tuple(_shapes(file))
    last = file.last or names[-1].rpartition(".")[0] or names[-1]
    hidden = tuple(name != last and not name.startswith(f"{last}.") for name in names)
    if all(hidden):
        hint = "The metadata key last is what the names of its parameters begin with, such as head."
        raise InputError(f"No parameter is of the last layer {ascii(last)[:100]}.", where=str(file.path), hint=hint)
    return hidden


def _parameter(opened: BinaryIO, file: StoredFile, name: str, draws: Mapping[str, int]) -> dict[str, Agreement]:
    """Return the agreement of every method on one parameter."""
    exact = file.entries[REFERENCE][name]
    largest = 0.0
    for block in _blocks(opened, file.start, exact, 1, BLOCK):
        largest = max(largest, float(np.abs(block).max(initial=0.0)))
        # Of a block that holds NaN, numpy's largest is NaN, which max() may pass over.
        if not np.isfinite(block).all():
            where = f"{file.path}, {REFERENCE}/{name}"[:400]
            raise InputError("The reference holds a number that is not finite.", where=where, hint="Compute it again.")
    found = {}
    for method, count in draws.items():
        entry = file.entries.get(method, {}).get(name)
        if entry is None:
            found[method] = no_estimate(count)
            continue
        length = max(1, BLOCK // count)
        pairs = zip(
            _blocks(opened, file.start, entry, count, length),
            _blocks(opened, file.start, exact, 1, length),
            strict=True,
        )
        with np.errstate(all="ignore"):
            empty = compare(np.zeros((count, 0)), np.zeros(0), 0.0)
            whole = reduce(added, (compare(values, right[0], largest) for values, right in pairs), empty)
        # What is not finite in one entry is so in its sums.
        known = np.isfinite(whole.square).all() and np.isfinite(whole.error).all()
        found[method] = whole if known else no_estimate(count)
    return found


def _blocks(
    opened: BinaryIO, start: int, entry: Mapping[str, Any], draws: int, length: int
) -> Iterator[NDArray[np.float64]]:
    """Yield entries of a tensor as doubles, shape (draws, at most `length`)."""
    width, size = width_of(entry["dtype"]), math.prod(entry["shape"]) // draws
    for begin in range(0, size, length):
        count = min(length, size - begin)
        read = bytearray()
        for draw in range(draws):
            opened.seek(start + entry["data_offsets"][0] + (draw * size + begin) * width)
            read += opened.read(count * width)
        if len(read) < draws * count * width:
            raise InputError("The file is shorter than it was.", where=opened.name, hint="Run it again.")
        yield as_doubles(read, entry["dtype"]).reshape(draws, count)
