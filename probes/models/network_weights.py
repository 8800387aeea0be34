"""Read the weights of a file, put them into a network, and hash what a network computes with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import InputError, escaped
from probes.files.file_kinds import unexpected_kind
from probes.files.pickles import read_pickle
from probes.files.weights import check_held, entries, unwrap, without_prefixes
from probes.generators.accountants import ACCOUNT
from probes.generators.diffusion import Prediction
from probes.models.architectures import fit
from probes.models.checkpoints import SUFFIXES, load_state_dict
from probes.models.foreign_models import refuse_foreign

# Diffusion models are sampled from averages of their weights, so these are what was released.
_AVERAGED = ("ema_model", "ema", "model_ema", "ema_state_dict")

Schedule = tuple[NDArray[np.float64], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedNetwork:
    """A network, a hash of all that it computes with, and its schedule where it has one."""

    net: nn.Module
    family: str
    content: str
    shape: tuple[int, ...]
    notes: tuple[str, ...] = ()
    schedule: Schedule | None = None
    prediction: Prediction = "epsilon"


def known_shape(shape: tuple[int, ...] | None, path: Path) -> tuple[int, ...]:
    """Return the shape of points that the caller gave, for a model that does not state its own."""
    if shape is None:
        raise InputError("The model does not tell the shape of its points.", where=str(path), hint="Give points too.")
    return tuple(shape)


def load_into(net: nn.Module, tensors: Mapping[str, Tensor], name: str, where: str, hint: str) -> None:
    """Replace a network's weights by these, in float32; those that are float32 already are not copied."""
    try:
        fitted = fit(net, tensors, name)
    except InputError as error:
        raise InputError(error.message, where=where, hint=hint) from None
    # Numbers of another type are copied.
    check_held(fitted, where)
    weights = {key: value.float() if value.is_floating_point() else value for key, value in fitted.items()}
    net.load_state_dict(weights, assign=True)


def hash_tensors(net: nn.Module, where: str) -> str:
    """Return a hash of all weights and buffers, by name.

    Raises
    ------
    InputError
        Where one claims more numbers than are stored for it.
    """
    digest, state = hashlib.sha256(), net.state_dict()
    check_held(state, where)
    for name, value in sorted(state.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode("utf-8", "surrogatepass"))
        # As bytes, since numpy has no bfloat16.
        digest.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Return the tensors of a checkpoint, averaged weights rather than others, and notes on that choice."""
    if path.suffix.lower() == ".safetensors" or path.suffix.lower() not in SUFFIXES or not path.is_file():
        return load_state_dict(path), []
    refuse_foreign(path)
    with path.open("rb") as file:
        disguise = unexpected_kind(file.read(512))
    if disguise:
        raise InputError(f"The file is {disguise.what}, not weights.", where=str(path), hint=disguise.hint)
    content, notes = read_pickle(path), list[str]()
    found = unwrap(content, first=_AVERAGED)
    others = [escaped(name, 40) for name in found.beside if name != ACCOUNT]
    if others:
        kind = "averaged weights" if found.keys[0] in _AVERAGED else "weights"
        notes.append(f"The {kind} under {found.keys[0]} are used, not: {', '.join(others[:8])}.")
    named = entries(found.content) if isinstance(found.content, Mapping) else {}
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if not tensors:
        what = f"The checkpoint holds no tensors by name, but a {type(found.content).__name__}."
        raise InputError(what, where=str(path), hint="Save model.state_dict().")
    check_held(tensors, str(path))
    return without_prefixes(tensors), notes
