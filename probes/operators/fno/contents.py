"""Read the tensors of an operator's checkpoint, and what lies beside them.

Training loops save weights bare, or wrapped together with counters, optimisers and the scales of their data. Files
are read by readers that run nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from probes.core.errors import InputError, escaped
from probes.files.file_kinds import unexpected_kind
from probes.files.pickles import read_pickle
from probes.files.safe_tensors import read_safetensors
from probes.files.weights import entries, unwrap, without_prefixes
from probes.operators.fno.neuralop import STANDINS, is_neuralop

SCALES = ("x_mean", "x_std", "y_mean", "y_std")
_PREFIXES = ("model.",)
_CONVERT = (
    "Where you trust it, load it once beside the code that made it, and save the weights alone: "
    "torch.save(model.state_dict(), 'weights.pt')."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a checkpoint.

    Parameters
    ----------
    tensors
        By name, without the prefixes of wrappers.
    metadata
        What neuraloperator leaves beside its weights: arguments of the model, in the file or in one of its own.
    files
        Those that were read.
    pdebench
        Whether the entries beside the weights are PDEBench's.
    scales
        Those of `SCALES` that are there; None where it is not one number.
    notes
        Sentences on what was turned into something else, or not used.
    """

    tensors: dict[str, Tensor]
    metadata: Mapping[str, object] | None = None
    files: tuple[Path, ...] = ()
    pdebench: bool = False
    scales: dict[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_content(path: Path) -> Content:
    """Read a file of weights, and the file of metadata beside it if there is one.

    Raises
    ------
    InputError
        Where it is damaged, would run code, or holds no tensors by name.
    """
    where = str(path)
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise InputError(
            f"The file cannot be read: {error.strerror or error}.",
            where=where,
            hint="Check the path and its permissions.",
        ) from error
    disguise = unexpected_kind(head)
    if disguise or not head:
        what, hint = (disguise.what, disguise.hint) if disguise else ("empty", "Fetch it again.")
        raise InputError(f"The file is {what}, not weights.", where=where, hint=hint)
    if path.suffix.lower() == ".safetensors":
        content: object = read_safetensors(path)
    else:
        content = _unpickled(path)
    return _sorted_out(content, path)


def _unpickled(path: Path) -> object:
    try:
        return read_pickle(path, standins=STANDINS)
    except InputError as error:
        if error.message.startswith("The file was refused"):
            error.hint = _CONVERT
        raise


def _sorted_out(content: object, path: Path) -> Content:
    """Open wrappers, take prefixes off, and separate weights from the rest."""
    where, found = str(path), unwrap(content)
    if not isinstance(found.content, Mapping):
        what = f"The file holds a {type(found.content).__name__}, not tensors by name."
        raise InputError(what, where=where, hint=_CONVERT)
    others, named, inside = found.beside, entries(found.content), found.content.get("_metadata")
    others |= {name: named.pop(name) for name in SCALES if name in named}
    other = next((name for name, value in named.items() if not isinstance(value, Tensor)), None)
    if other is not None or not named:
        what = "It holds nothing" if other is None else f"Its entry {escaped(other)} is a {type(named[other]).__name__}"
        raise InputError(f"{what}, where tensors by name should be.", where=where, hint=_CONVERT)
    tensors = without_prefixes(named, more=_PREFIXES)
    metadata, beside = _metadata(tensors, inside, path)
    scales, notes = _scales(others, where)
    unused = sorted(escaped(name) for name in others if name not in SCALES)
    if unused:
        notes.append(f"Not used of the checkpoint: {', '.join(unused[:8])}.")
    kinds = {value.dtype for value in named.values() if value.is_floating_point() or value.is_complex()}
    rounded = sorted(str(kind)[6:] for kind in kinds - {torch.float32, torch.complex64})
    if rounded:
        notes.append(f"Weights in {', '.join(rounded)} were turned into single precision.")
    return Content(
        tensors=tensors,
        metadata=metadata,
        files=(path, *beside),
        pdebench={"model_state_dict", "optimizer_state_dict", "epoch", "loss"} <= {*found.keys, *others},
        scales=scales,
        notes=tuple(notes),
    )


def _metadata(
    tensors: Mapping[str, Tensor], inside: object, path: Path
) -> tuple[Mapping[str, object] | None, tuple[Path, ...]]:
    """Return the arguments that neuraloperator saves, and the other files that they come from."""
    beside = path.with_name(path.stem.removesuffix("_state_dict") + "_metadata.pkl")
    if not is_neuralop(tensors) or (inside is None and not beside.is_file()):
        return None, ()
    found = _unpickled(beside) if inside is None else inside
    if not isinstance(found, Mapping):
        raise InputError(
            f"The metadata is a {type(found).__name__}, not arguments by name.",
            where=str(path if inside is not None else beside),
            hint="Save the model again with its save_checkpoint() method.",
        )
    return {str(name): value for name, value in found.items()}, (beside,) if inside is None else ()


def _scales(others: Mapping[str, object], where: str) -> tuple[dict[str, float | None], list[str]]:
    scales: dict[str, float | None] = {}
    notes = []
    for name in SCALES:
        value = others.get(name)
        if value is None:
            continue
        scales[name] = None
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
            value = value.item()
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value) or (name.endswith("std") and value <= 0):
                raise InputError(f"The checkpoint's {name} is {value}.", where=where, hint="Save the model again.")
            scales[name] = float(value)
        else:
            size = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            notes.append(f"The checkpoint's {name} ({size}) is not one number and is not used: scale the data instead.")
    return scales, notes
