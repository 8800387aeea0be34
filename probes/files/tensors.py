"""Read the tensors that torch.save wrote under names, as arrays."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.files.pickles import read_pickle
from probes.files.stored import Refusal, Window
from probes.files.weights import is_plain

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class TensorArray:
    """A tensor, read as float32."""

    tensor: "Tensor"
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def rows(self, start: int, stop: int, window: Window | None = None) -> NDArray[Any]:
        """Return entries of the first axis; of another axis only a window (axis, from, to) where one is given."""
        piece = self.tensor[start:stop]
        if window:
            piece = piece.narrow(window[0], window[1], window[2] - window[1])
        values: NDArray[Any] = piece.float().numpy()
        return values


def read_tensors(path: Path, most: int) -> tuple[dict[str, TensorArray], dict[str, Refusal], str]:
    """Return the tensors of a dictionary by name, those that are refused, and the form in words."""
    import torch

    del most
    content = read_pickle(path)
    if not isinstance(content, dict):
        raise InputError(
            f"The file holds a {type(content).__name__}, not named tensors.",
            where=str(path),
            hint='Save torch.save({"x": inputs, "y": targets}, file).',
        )
    arrays: dict[str, TensorArray] = {}
    refused: dict[str, Refusal] = {}
    for name, value in content.items():
        if not isinstance(value, torch.Tensor):
            refused[str(name)] = Refusal(f"is no tensor but a {type(value).__name__}")
        elif not is_plain(value):
            refused[str(name)] = Refusal("is no plain tensor", "Save it dense and unquantised.")
        elif value.is_complex():
            refused[str(name)] = Refusal("holds complex numbers", "Save real numbers.")
        else:
            arrays[str(name)] = TensorArray(value.detach(), tuple(value.shape), _numpy_type(value))
    return arrays, refused, "torch"


def _numpy_type(tensor: "Tensor") -> np.dtype[Any]:
    try:
        return np.dtype(str(tensor.dtype).removeprefix("torch."))
    except TypeError:
        # bfloat16 and narrower floats.
        return np.dtype(np.float32)
