"""Load a Fourier neural operator from a file, whatever library wrote it.

Nothing of a file is run. The family is recognised by the names of its tensors; what they do not say (padding, scales,
coordinates) is taken from what lies beside them or from the published code, and reported in notes.
"""

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from probes.core.errors import InputError, escaped
from probes.core.hashing import sha256_files
from probes.files.names import nearest_name
from probes.models.foreign_models import refuse_foreign
from probes.operators.fno.contents import Content, read_content
from probes.operators.fno.layers import Padding
from probes.operators.fno.li import check_plain, is_li, read_li
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.neuralop import is_neuralop, read_neuralop
from probes.operators.fno.physicsnemo import read_physicsnemo
from probes.operators.module_operator import ModuleOperator

FAMILIES = ("auto", "li", "pdebench", "neuralop", "physicsnemo")
_KNOWN = (
    "Read are the scripts of Li et al. (fc0, conv0, w0, fc1, fc2), PDEBench, neuraloperator and PhysicsNeMo; any other "
    "operator with --factory module:callable --allow-code, which makes it."
)
_MAX_CELLS = 10_000

_FOREIGN = (
    (r"spectral_list\.\d", "the FNO of the CNO repository, with leaky ReLU and an encoding of its own",
     "That network is not reproduced. " + _KNOWN),
    (r"(spec_encoder|decoder_net)\.", "a PhysicsNeMo model without the arguments that it was built with",
     "Give the .mdlus file that its save() method writes."),
    (r"fno_blocks\.\d+\.|horizontal_skips", "a U-shaped neural operator (UNO)", _KNOWN),
    (r"fno_blocks\.", "a model of neuraloperator in a form that is not known", _KNOWN),
    (r"(.*\.)?(branch|trunk)", "a DeepONet, which has no Fourier layers", _KNOWN),
)  # fmt: skip
"""Other checkpoints that are known: how a name of theirs begins, what they are, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A neural operator, and its source.

    Parameters
    ----------
    operator
        In evaluation mode, on the CPU, without gradients.
    reference
        The path that was given.
    family
        "li", "pdebench", "neuralop" or "physicsnemo"; of a factory, "factory module:callable".
    sha256
        Of the file, or of the weights and the file of metadata beside them; of a factory, of all weights and
        its source.
    parameters
        Numbers in the network; a complex one counts as two.
    scales
        Those of `SCALES` that the checkpoint holds; None where it is not one number.
    notes
        Sentences on what was found and what was decided for the user.
    """

    operator: FourierOperator | ModuleOperator
    reference: str
    family: str
    sha256: str
    parameters: int
    scales: Mapping[str, float | None]
    notes: tuple[str, ...]


def load_operator(
    path: str | Path,
    *,
    family: str = "auto",
    padding: str | None = None,
    normalised: bool = False,
    fftshift_fixed: bool = False,
) -> Loaded:
    """Load a Fourier neural operator from a file, or from the folder that neuraloperator saves.

    Parameters
    ----------
    family
        One of `FAMILIES`; auto: recognised by the names of the tensors.
    padding
        Cells ("9"), a share of the grid ("0.25", with a dot), none ("0"), or one of them an axis ("0,0,6"). A single
        number is for every axis that the family pads. None: what the checkpoint or the published code says.
    normalised
        Li's family: there is instance normalisation around every spectral convolution.
    fftshift_fixed
        neuraloperator: the release is one that handles grids of odd size rightly.

    Raises
    ------
    InputError
        Where the file is missing, damaged, would run code, or holds another network than those that are known.
    """
    if family not in FAMILIES:
        raise InputError(f"{family!r} is no family.", where="--family", hint=f"Known: {', '.join(FAMILIES)}.")
    amounts = None if padding is None else _amounts(padding)
    file = _found(Path(path).expanduser())
    content = Content(tensors={}, files=(file,)) if file.suffix.lower() == ".mdlus" else read_content(file)
    detected, how = _detected(file, content, family)
    check_plain(content.tensors, str(file))
    build = partial(_built, detected, file, content, normalised=normalised, fixed=fftshift_fixed)
    operator = build(None)
    if amounts is not None:
        # Built anew: which axes the family pads is known of a built network only.
        operator = build(_padding(amounts, operator))
    operator = operator.eval().requires_grad_(False)
    _check_numbers(operator, str(file))
    files = content.files
    return Loaded(
        operator=operator,
        reference=str(path),
        family=detected,
        sha256=sha256_files(files),
        parameters=sum(value.numel() * (1 + value.is_complex()) for value in operator.parameters()),
        scales=content.scales,
        notes=(
            f"The family {detected} ({operator.layout.release}) {how}.",
            _padding_note(operator, content, given=amounts is not None),
            *_doubts(operator, normalised=normalised),
            *content.notes,
        ),
    )


def fit_fields(loaded: Loaded, channels: int) -> Loaded:
    """Return the operator for inputs of so many channels; those of early neuraloperator releases append coordinates.

    Raises
    ------
    InputError
        Where the network takes another number of fields.
    """
    layout, axes = loaded.operator.layout, loaded.operator.dimensions
    if channels == layout.fields:
        return loaded
    where = loaded.reference
    if layout.coordinates == "none" and layout.family == "neuralop" and channels + axes == layout.fields:
        if not re.match(r"\D*0\.[23]", layout.release):
            raise InputError(
                f"The network takes {layout.fields} fields and appends no coordinates, the data have {channels}.",
                where=where,
                hint=f"Put the {axes} coordinates with which the model was trained behind the fields of the data.",
            )
        operator = copy(loaded.operator)
        operator.layout = replace(layout, fields=channels, coordinates="open")
        note = (
            f"The data have {axes} channels less than the network takes: coordinates i / N are put behind them, as the "
            "loaders of data of this release do."
        )
        return replace(loaded, operator=operator, notes=(*loaded.notes, note))
    if layout.coordinates != "none" and channels == layout.fields + axes:
        raise InputError(
            f"The data have {channels} channels, the network takes {layout.fields} fields and appends {axes} "
            "coordinates itself: the data seem to bring coordinates.",
            where=where,
            hint=f"Give the {layout.fields} fields alone.",
        )
    raise InputError(
        f"The network takes {layout.fields} fields, the data have {channels}.",
        where=where,
        hint="Name the array of the inputs that the model was trained on, with one channel a field.",
    )


def _found(path: Path) -> Path:
    refuse_foreign(path)
    if path.is_dir():
        states = sorted(path.glob("*_state_dict.pt"))
        if len(states) != 1:
            listed = ", ".join(item.name for item in states[:8]) or "none"
            raise InputError(
                f"The folder holds {len(states)} files of weights named *_state_dict.pt ({listed}), not one.",
                where=str(path),
                hint="Name the file in it.",
            )
        return states[0]
    if not path.is_file():
        near = nearest_name(path)
        hint = f"Did you mean {path.parent / near}?" if near else "Check the path."
        raise InputError("There is no such file or folder.", where=str(path), hint=hint)
    return path


def _check_numbers(operator: FourierOperator, where: str) -> None:
    if not all(bool(torch.isfinite(value).all()) for value in operator.parameters()):
        raise InputError(
            "The weights hold numbers that are not finite.",
            where=where,
            hint="The training diverged or the file is damaged: take an earlier checkpoint.",
        )


def _detected(path: Path, content: Content, family: str) -> tuple[str, str]:
    """Return the family, and how it was recognised."""
    where = str(path)
    if path.suffix.lower() == ".mdlus":
        detected, how = "physicsnemo", "is that of a .mdlus archive"
    elif is_neuralop(content.tensors):
        detected, how = "neuralop", "was told from names of tensors that begin with fno_blocks"
    elif not is_li(content.tensors):
        raise _foreign(content.tensors, where)
    elif family in ("li", "pdebench"):
        # PDEBench's networks are copies of the scripts': only what lies beside the tensors can tell them apart.
        detected, how = family, "is that of the option; the tensors have the names of its scripts"
    elif content.pdebench:
        detected, how = "pdebench", "was told from epoch, loss and optimizer_state_dict beside the weights"
    else:
        detected, how = "li", "was told from names of tensors such as conv0.weights1"
    if family not in ("auto", detected):
        raise InputError(
            f"The checkpoint is of the family {detected}, the option says {family}.",
            where=f"{where}; --family {family}",
            hint=f"Leave --family out, or give --family {detected}.",
        )
    return detected, how


def _built(
    family: str, path: Path, content: Content, padding: Padding | None, *, normalised: bool, fixed: bool
) -> FourierOperator:
    where = str(path)
    for flag, given, of in (("--norm instance", normalised, "li"), ("--fftshift mended", fixed, "neuralop")):
        if given and family != of:
            raise InputError(
                f"{flag} is for checkpoints of {of}, {where} is one of {family}.", where=flag, hint="Leave it out."
            )
    if family == "physicsnemo":
        return read_physicsnemo(path, padding=padding)
    if family == "neuralop":
        return read_neuralop(content.tensors, content.metadata, where=where, padding=padding, fixed_shift=fixed)
    scripts: Literal["li", "pdebench"] = "pdebench" if family == "pdebench" else "li"
    return read_li(content.tensors, where=where, family=scripts, padding=padding, normalised=normalised)


def _foreign(tensors: Mapping[str, Tensor], where: str) -> InputError:
    first = ", ".join(escaped(name) for name in list(tensors)[:5])
    for pattern, what, hint in _FOREIGN:
        if any(re.match(pattern, name) for name in tensors):
            return InputError(f"The checkpoint is {what}; its first tensors are {first}.", where=where, hint=hint)
    return InputError(
        f"The checkpoint is no Fourier neural operator that is known; its first tensors are {first}.",
        where=where,
        hint=_KNOWN,
    )


def _amounts(text: str) -> tuple[tuple[float, ...], bool]:
    """Return the numbers of a padding's text, and whether they are shares of the grid's size."""
    parts = [part.strip() for part in text.split(",")]
    share = any("." in part for part in parts)
    try:
        numbers = [float(part) if share else int(part) for part in parts]
    except ValueError:
        numbers = [-1]
    if not all(0 <= number <= (1 if share else _MAX_CELLS) for number in numbers):
        raise InputError(
            f"The padding {escaped(text)} is neither cells nor a share of the grid.",
            where="--padding",
            hint="Give cells (9), a share between 0 and 1 with a dot (0.25), or one of them an axis (0,0,6).",
        )
    return tuple(numbers), share


def _padding(amounts: tuple[tuple[float, ...], bool], operator: FourierOperator) -> Padding:
    numbers, share = amounts
    axes = operator.dimensions
    if len(numbers) not in (1, axes):
        raise InputError(
            f"The padding has {len(numbers)} numbers, the grid {axes} dimensions.",
            where="--padding",
            hint="Give one number, or one an axis.",
        )
    usual = operator.layout.padding
    if len(numbers) == 1:
        numbers = tuple(numbers[0] if one else 0 for one in usual.amounts or (1.0,) * axes)
    # Release 2.0 of neuraloperator pads both sides whenever it pads.
    symmetric = usual.symmetric or operator.layout.release.startswith("neuralop 2.0")
    return Padding(amounts=numbers, fraction=share, symmetric=symmetric) if any(numbers) else Padding()


def _padding_note(operator: FourierOperator, content: Content, *, given: bool) -> str:
    padding, family = operator.layout.padding, operator.layout.family
    source = "the family's published value"
    if family == "physicsnemo":
        source = "the value in args.json"
    elif family == "neuralop":
        source = "the value in its metadata" if content.metadata else "assumed, since no metadata came with it"
    source = "as --padding says" if given else f"{source}; --padding overrides it"
    if not any(padding.amounts):
        return f"The domain is not padded: {source}."
    numbers = [f"{amount:g}" for amount in padding.amounts]
    each = numbers[0] if len(set(numbers)) == 1 else ", ".join(numbers)
    unit = "of the grid's size" if padding.fraction else "cells"
    sides = "on both sides" if padding.symmetric else "at the far end"
    return f"The domain is padded by {each} {unit} {sides} of the axes: {source}."


def _doubts(operator: FourierOperator, *, normalised: bool) -> list[str]:
    layout, notes = operator.layout, []
    if layout.family == "pdebench":
        notes.append("PDEBench passes the coordinates of its data: here they run over the unit interval.")
    if layout.family == "li" and "2022" in layout.release and "Navier-Stokes" in layout.release and not normalised:
        notes.append(
            "The Navier-Stokes script of 2022 has an instance normalisation around every spectral convolution, which "
            "leaves no trace in the tensors: none was assumed; --norm instance puts it in."
        )
    if operator.shifted_at_odd:
        notes.append(
            "This release shifts spectra by one on grids of odd size, which is reproduced (--fftshift mended: not)."
        )
    return notes
