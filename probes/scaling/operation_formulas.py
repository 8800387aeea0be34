"""Operations of operators: the formulas of torch's counter, and those that it lacks on the CPU.

torch 2.13 counts fused attention on the CPU and every FFT as nothing (pytorch issue 195460), and so do products that
are added in place, systems of equations, and recurrent layers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

Formula = Callable[..., int]


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: object, **__: object) -> int:
    """Return 2 b h n m (d + d_v): the full square, causal or not, as torch counts it on other devices."""
    return 2 * q.shape[:-1].numel() * k.shape[-2] * (q.shape[-1] + v.shape[-1])


def _attention_backward(_: Tensor, q: Tensor, k: Tensor, v: Tensor, *__: object, **___: object) -> int:
    """Return those of five products: the scores once more, and the gradients of scores, values, queries and keys."""
    return 2 * q.shape[:-1].numel() * k.shape[-2] * (3 * q.shape[-1] + 2 * v.shape[-1])


def _fft(real: Tensor, dims: Sequence[int], each: float) -> int:
    """Return `each` N log2 N for every transform of N = the product of the dimensions."""
    size = math.prod(real.shape[dim] for dim in dims)
    return round(each * real.numel() * math.log2(size)) if size else 0


def _real_fft(x: Tensor, dims: Sequence[int], *_: object, **__: object) -> int:
    return _fft(x, dims, 2.5)


def _inverse_real_fft(x: Tensor, dims: Sequence[int], *_: object, out_val: Tensor, **__: object) -> int:
    return _fft(out_val, dims, 2.5)


def _complex_fft(x: Tensor, dims: Sequence[int], *_: object, **__: object) -> int:
    return _fft(x, dims, 5.0)


def _triangular_solve(matrix: Tensor, *_: object, out_val: Tensor, **__: object) -> int:
    """Return n^2 for each right side of n numbers."""
    return out_val.numel() * matrix.shape[-1]


def _added_products(_: Tensor, one: Tensor, other: Tensor, **__: object) -> int:
    """Return those of all products of a batch, added up or not."""
    return 2 * one.numel() * other.shape[-1]


def _grouped(one: Tensor, other: Tensor, *_: object, out_val: Tensor, **__: object) -> int:
    """Return those of products of a batch whose parts share rows, columns or the sum, as experts do."""
    return 2 * min(one.numel() * other.shape[-1], out_val.numel() * one.shape[-1])


def _factored(thirds: int, *, right: int | None = None) -> Formula:
    """Return `thirds` n^3 / 3 for each matrix, as LAPACK counts, and 2 n^2 for each right side of n numbers."""

    def formula(*args: Any, **_: object) -> int:
        matrix = args[0]
        n = int(matrix.shape[-1])
        sides = 0 if right is None else int(args[right].numel())
        return int(matrix.numel()) * n * thirds // 3 + 2 * n * sides

    return formula


def _recurrent(times: int) -> Formula:
    """Return 2 for each weight, for each token of (tokens, batch, width)."""
    return lambda x, w, v, *_, **__: times * 2 * int(x.shape[0] * x.shape[1] * (w.numel() + v.numel()))


def _products(at: int) -> Formula:
    """Return 2 for each number of the matrix, or of the vector, that is multiplied by a vector."""
    return lambda *args, **_: 2 * int(args[at].numel())


_ATEN = torch.ops.aten
ADDED: dict[Any, Formula] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _ATEN._fft_r2c: _real_fft,
    _ATEN._fft_c2r: _inverse_real_fft,
    _ATEN._fft_c2c: _complex_fft,
    _ATEN.linalg_solve_triangular: _triangular_solve,
    _ATEN.mv: _products(0),
    _ATEN.addmv: _products(1),
    _ATEN.addmv_: _products(1),
    _ATEN.addmm_: _added_products,
    _ATEN._addmm_activation: _added_products,
    _ATEN.addbmm: _added_products,
    _ATEN.addbmm_: _added_products,
    _ATEN.baddbmm_: _added_products,
    _ATEN._int_mm: flop_registry[_ATEN.mm],
    _ATEN._grouped_mm: _grouped,
    _ATEN._linalg_solve_ex: _factored(2, right=1),
    _ATEN.linalg_lu_solve: _factored(0, right=2),
    _ATEN.linalg_inv_ex: _factored(6),
    _ATEN.linalg_cholesky_ex: _factored(1),
    _ATEN.cholesky_solve: lambda right, matrix, *_, **__: _factored(0, right=1)(matrix, right),
    _ATEN.linalg_lu_factor_ex: _factored(2),
    _ATEN._linalg_det: _factored(2),
    _ATEN._linalg_slogdet: _factored(2),
    _ATEN.mkldnn_rnn_layer: _recurrent(1),
    _ATEN.mkldnn_rnn_layer_backward: _recurrent(2),
    _ATEN.dot: _products(0),
    _ATEN.vdot: _products(0),
}
"""Formulas that torch lacks; each counts an operator once."""
FORMULAS: dict[Any, Formula] = {**ADDED, **flop_registry}
"""Called with the operator's arguments and `out_val`; torch's own stand before ours."""
