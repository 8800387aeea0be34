"""Dense complex tensors from the factors of a decomposition.

The forms are those in which tensorly-torch saves the weights of spectral convolutions: dense, Tucker, CP and
tensor train (Kolda and Bader 2009, doi 10.1137/07070111X; Oseledets 2011, doi 10.1137/090752286).
"""

import math
import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from probes.core.errors import InputError

LARGEST = 2**28
"""Entries that a dense tensor, or a step on the way to it, may have: 2 GiB. Small factors can ask for any number."""

_RANK_ENTRIES = 2**22


def kind(parts: Mapping[str, Tensor]) -> str:
    """Return the form in words: "dense", "Tucker", "CP" or "TT"; empty where the names fit none.

    Examples
    --------
    >>> kind({"core": torch.ones(1, 1), "factors.factor_0": torch.ones(4, 1), "factors.factor_1": torch.ones(6, 1)})
    'Tucker'
    """
    factors = {name for name in parts if re.fullmatch(r"factors\.factor_\d{1,2}", name)}
    numbered = factors == {f"factors.factor_{index}" for index in range(len(factors))}
    rest = tuple(sorted(set(parts) - factors))
    if not factors:
        return "dense" if rest == ("tensor",) else ""
    return {("core",): "Tucker", ("weights",): "CP", (): "TT"}.get(rest, "") if numbered else ""


def dense(parts: Mapping[str, Tensor], *, where: str) -> Tensor:
    """Return the complex tensor of the parts of a decomposition.

    Parameters
    ----------
    parts
        Tensors by their names within the weight: `tensor`; or `core`, `weights` or neither, and `factors.factor_0` to
        the last axis. Real ones hold the real and the imaginary part along a last axis of size 2.
    where
        File and name of the weight, for messages.

    Raises
    ------
    InputError
        Where the parts are of no known form, contradict each other, or make up too large a tensor.

    Examples
    --------
    The tensor train of the cores (1, 2) and (3, 5):

    >>> first, last = torch.tensor([[[1], [2]]]) + 0j, torch.tensor([[[3], [5]]]) + 0j
    >>> dense({"factors.factor_0": first, "factors.factor_1": last}, where="").real.tolist()
    [[3.0, 5.0], [6.0, 10.0]]
    """
    form = kind(parts)
    if not form:
        names = ", ".join(sorted(parts)[:6])
        raise _wrong(f"The parts {names} are those of no dense, Tucker, CP or TT tensor.", where)
    values = {name: _complex(name, part, where) for name, part in parts.items()}
    factors = [values[f"factors.factor_{index}"] for index in range(len(values) - (form != "TT"))]
    if form == "Tucker":
        return _tucker(values["core"], factors, where)
    if form == "CP":
        return _cp(values["weights"], factors, where)
    return _train(factors, where) if form == "TT" else values["tensor"]


def _complex(name: str, part: Tensor, where: str) -> Tensor:
    if part.is_complex():
        return part
    if part.dim() < 2 or part.shape[-1] != 2:
        raise _wrong(f"{name} of shape {tuple(part.shape)} holds no pairs of real and imaginary parts.", where)
    return torch.view_as_complex(part.float().contiguous())


def _tucker(core: Tensor, factors: Sequence[Tensor], where: str) -> Tensor:
    ranks = [tuple(factor.shape[1:]) for factor in factors]
    if ranks != [(rank,) for rank in core.shape]:
        raise _wrong(f"The core of shape {tuple(core.shape)} contradicts factors of {_shapes(factors)}.", where)
    _check_size([factor.shape[0] for factor in factors], where)
    # Axes that shrink come first: then no step is larger than both the core and the result.
    for axis in sorted(range(core.dim()), key=lambda axis: factors[axis].shape[0] / max(core.shape[axis], 1)):
        core = torch.tensordot(core, factors[axis], dims=([axis], [1])).movedim(-1, axis)
    return core.contiguous()


def _cp(weights: Tensor, factors: Sequence[Tensor], where: str) -> Tensor:
    if weights.dim() != 1 or any(factor.shape[1:] != weights.shape for factor in factors):
        raise _wrong(f"Weights of shape {tuple(weights.shape)} contradict factors of {_shapes(factors)}.", where)
    sizes = [factor.shape[0] for factor in factors]
    _check_size(sizes, where)
    middle = len(factors) // 2
    sides = [math.prod(sizes[:middle]), math.prod(sizes[middle:])]
    total = weights.new_zeros(*sides)
    step = max(1, _RANK_ENTRIES // max(*sides, 1))
    for start in range(0, len(weights), step):
        some = [factor[:, start : start + step] for factor in factors]
        left = _columnwise([weights[None, start : start + step], *some[:middle]])
        total += left @ _columnwise(some[middle:]).T
    return total.reshape(sizes)


def _columnwise(factors: Sequence[Tensor]) -> Tensor:
    """Return the Khatri-Rao product: Kronecker products of the columns, shape (product of rows, columns)."""
    product = factors[0]
    for factor in factors[1:]:
        product = (product[:, None] * factor[None]).flatten(0, 1)
    return product


def _train(factors: Sequence[Tensor], where: str) -> Tensor:
    if any(factor.dim() != 3 for factor in factors):
        raise _wrong(f"A tensor train needs factors of 3 axes, these are of {_shapes(factors)}.", where)
    ends = [(factor.shape[0], factor.shape[2]) for factor in factors]
    if [first for first, _ in ends] != [1, *[last for _, last in ends[:-1]]] or ends[-1][1] != 1:
        raise _wrong(f"Factors of {_shapes(factors)} do not couple to a train that begins and ends with 1.", where)
    product = factors[0].flatten(0, 1)
    for factor in factors[1:]:
        _check_size([len(product), *factor.shape[1:]], where)
        product = (product @ factor.flatten(1)).reshape(-1, factor.shape[2])
    return product.reshape([factor.shape[1] for factor in factors])


def _check_size(sizes: Sequence[int], where: str) -> None:
    if math.prod(sizes) > LARGEST:
        raise _wrong(
            f"The factors make up {math.prod(sizes)} entries ({' x '.join(map(str, sizes))}); {LARGEST} at most.", where
        )


def _shapes(factors: Sequence[Tensor]) -> str:
    return ", ".join(str(tuple(factor.shape)) for factor in factors)


def _wrong(message: str, where: str) -> InputError:
    return InputError(message, where=where, hint="Save the model's state again, or convert its weights to dense ones.")
