from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probes.conditional.law_files import ReadTruth, law_keys, read_candidate, read_truth
from probes.conditional.laws import Candidate
from probes.core.errors import InputError

N, K, D = 7, 5, 2
RNG = np.random.default_rng(3)
Y = RNG.normal(size=(N, D))
DRAWS = RNG.normal(size=(N, K, D))


def save(folder: Path, name: str = "data.npz", *, packed: bool = False, **arrays: Any) -> Path:
    path = folder / name
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


def truth(folder: Path, **arrays: Any) -> ReadTruth:
    return read_truth(save(folder, **({"y": Y} | arrays)))


def law(folder: Path, of: ReadTruth, *, packed: bool = False, **arrays: Any) -> Candidate:
    return read_candidate("model", save(folder, "model.npz", packed=packed, **arrays), of)


def refused(folder: Path, of: ReadTruth, start: int | None = None, **arrays: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        found = law(folder, of, **arrays)
        assert start is not None, "the shapes were to be refused at once"
        found.block(start, N)
    assert caught.value.hint and caught.value.where
    return caught.value


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_hold_what_the_file_holds(tmp_path: Path, packed: bool) -> None:
    of = truth(tmp_path)
    found = law(tmp_path, of, packed=packed, samples=DRAWS.astype(np.float32))
    assert (found.kind, found.n, found.d, found.draws, found.name) == ("samples", N, D, K, "model")
    blocks = [found.block(start, min(start + 3, N))["samples"] for start in range(0, N, 3)]
    assert np.array_equal(np.concatenate(blocks), DRAWS.astype(np.float32).astype(np.float64))
    assert found.block(0, N)["samples"].dtype == np.float64
    assert np.array_equal(found.block(2, 4)["samples"], found.block(0, N)["samples"][2:4])
