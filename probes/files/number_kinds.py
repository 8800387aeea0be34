"""Real numbers of the kinds that safetensors names, as doubles: without torch, which numpy lacks some kinds of."""

import numpy as np
from numpy.typing import NDArray

_PLAIN = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4",
    "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip
_NARROW = {"BF16": "<u2", "F8_E5M2": "u1", "F8_E4M3": "u1"}
KINDS = (*_PLAIN, *_NARROW)
"""Names of the kinds."""


def width_of(kind: str) -> int:
    """Return the bytes of one number."""
    return np.dtype(_PLAIN.get(kind) or _NARROW[kind]).itemsize


def as_doubles(data: bytes | bytearray, kind: str) -> NDArray[np.float64]:
    """Return numbers in a row as doubles, all of them exact.

    bfloat16 is the upper half of a float32, F8_E5M2 that of a float16; F8_E4M3 (Micikevicius et al. 2022,
    arXiv 2209.05433) has a bias of 7, no infinities, and NaN where all bits behind the sign are set.

    >>> as_doubles(bytes([0x80, 0x3F]), "BF16").tolist(), as_doubles(bytes([0x38, 0x01, 0xFE]), "F8_E4M3").tolist()
    ([1.0], [1.0, 0.001953125, -448.0])
    """
    # A NaN that would signal is one as a double too.
    with np.errstate(invalid="ignore"):
        if kind in _PLAIN:
            return np.frombuffer(data, dtype=_PLAIN[kind]).astype(np.float64)
        codes = np.frombuffer(data, dtype=_NARROW[kind])
        if kind == "BF16":
            return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if kind == "F8_E5M2":
            return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    found: NDArray[np.float64] = _E4M3[codes]
    return found


def _e4m3() -> NDArray[np.float64]:
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    # Without a hidden bit where the exponent is 0.
    size = np.where(exponent > 0, 8 + fraction, fraction) * 2.0 ** (np.maximum(exponent, 1) - 10)
    return np.where(codes & 127 == 127, np.nan, np.where(codes < 128, size, -size))


_E4M3 = _e4m3()
