"""Are the numbers of every kind in safetensors those that torch reads?"""

import numpy as np
import pytest
import torch

from probes.files.number_kinds import KINDS, as_doubles, width_of

TORCH = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "F16": torch.float16, "BF16": torch.bfloat16, "U32": torch.uint32, "I32": torch.int32, "F32": torch.float32,
    "U64": torch.uint64, "I64": torch.int64, "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_that_torch_reads(kind: str) -> None:
    # Every code of the kinds of one and two bytes, and draws of the others.
    width = width_of(kind)
    codes = np.arange(2 if kind == "BOOL" else 2 ** min(8 * width, 16)).astype(f"u{min(width, 2)}")
    data = codes.tobytes() if width < 4 else np.random.default_rng(0).bytes(4096)
    truth = torch.frombuffer(bytearray(data), dtype=TORCH[kind]).double().numpy()
    np.testing.assert_array_equal(as_doubles(data, kind), truth)
    assert width == TORCH[kind].itemsize
