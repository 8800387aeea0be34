"""Are gradients of any framework read as they were written, and refused in one clear message where they cannot be?"""

import json
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from probes.core.errors import InputError
from probes.gradients import stored_gradients
from probes.gradients.agreement import agreement
from probes.gradients.stored_gradients import compare_stored, find_gradients

SHAPES = {"layers.0.weight": (7, 5), "layers.0.bias": (7,), "layers.10.weight": (3, 7), "layers.2.weight": (7, 7)}


def made(seed: int = 0, draws: int = 3) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in SHAPES.items():
        found[f"reference/{name}"] = torch.randn(shape, generator=rng)
        found[f"foton/{name}"] = torch.randn(shape, generator=rng)
        found[f"fg/{name}"] = torch.randn((draws, *shape), generator=rng)
    return found


def write(folder: Path, tensors: dict[str, Tensor], step: int = 0, batch: int = 0, **metadata: str) -> Path:
    path = folder / f"step{step}_batch{batch}.safetensors"
    save_file(tensors, path, metadata={"draws": "fg", **metadata})
    return path


def test_the_sums_are_those_of_the_tensors_whatever_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (0, 50):
        for batch in (0, 1):
            write(tmp_path, made(step + batch), step, batch)
    stored = find_gradients(tmp_path)
    assert tuple(stored.shapes) == ("layers.0.bias", "layers.0.weight", "layers.2.weight", "layers.10.weight")
    assert stored.hidden == (True, True, True, False)
    for block in (4, 2**17):
        monkeypatch.setattr(stored_gradients, "BLOCK", block)
        found = compare_stored(stored).agreements
        tensors = made(51)
        exact = {name: tensors[f"reference/{name}"] for name in stored.shapes}
        draws = [{name: tensors[f"fg/{name}"][at] for name in exact} for at in range(3)]
        for method, wanted in (
            ("fg", agreement(draws, exact)),
            ("foton", agreement([{name: tensors[f"foton/{name}"] for name in exact}], exact)),
        ):
            for field in wanted.__slots__:
                got = getattr(found[method], field)[:, :, 1, 1]
                np.testing.assert_allclose(got, getattr(wanted, field), rtol=1e-9 if block > 4 else 1e-6)


TYPES = (
    *(
        "bool",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "float16",
        "uint32",
        "int32",
        "float32",
        "uint64",
        "int64",
        "float64",
    ),
    *("bfloat16", "float8_e5m2", "float8_e4m3fn"),
)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_real_number_is_read(tmp_path: Path, kind: str) -> None:
    values = torch.tensor([0.0, 1.0, 1.0, 0.0]).to(getattr(torch, kind))
    write(tmp_path, {"reference/w": torch.tensor([1.0, 1.0, -1.0, 0.0]), "sign/w": values}, draws="")
    found = compare_stored(find_gradients(tmp_path)).agreements["sign"]
    assert (found.dot.item(), found.square.item()) == (0.0, 2.0)


def test_what_is_missing_is_counted(tmp_path: Path) -> None:
    write(tmp_path, made(), 0, 0)
    second = made(1)
    del second["foton/layers.0.bias"]
    second["fg/layers.0.weight"][1, 2, 3] = float("inf")
    write(tmp_path, second, 0, 1)
    third = {key: value for key, value in made(2).items() if not key.startswith("fg/")}
    write(tmp_path, third, 50, 1, draws="")
    (tmp_path / "notes.txt").write_text("x")
    stored = find_gradients(tmp_path)
    found = compare_stored(stored)
    assert found.absent == {"fg": 4, "foton": 1}
    assert found.not_finite == {"fg": 1, "foton": 0}
    assert (found.files_absent, stored.others) == (1, ("notes.txt",))
    assert np.isnan(found.agreements["fg"].dot[:, 1, 0, 1]).all()
    assert np.isnan(found.agreements["fg"].dot[:, :, 1]).all()


def test_the_last_layer_can_be_named(tmp_path: Path) -> None:
    tensors = {f"{method}/{name}": torch.ones(2) for method in ("reference", "fa") for name in ("head.w", "z.w")}
    write(tmp_path, tensors, draws="", last="head")
    assert find_gradients(tmp_path).hidden == (False, True)


def _without_reference(tensors: dict[str, Tensor]) -> None:
    for key in [key for key in tensors if key.startswith("reference/")]:
        del tensors[key]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_without_reference, "no reference gradient"),
        (lambda t: t.pop("reference/layers.0.bias"), "no reference gradient of this parameter"),
        (lambda t: t.update({"foton/layers.0.bias": torch.ones(8)}), "should be (7,)"),
        (lambda t: t.update({"foton/layers.0.bias": torch.ones(3, 7)}), "should be (7,)"),
        (lambda t: t.update({"fg/layers.0.bias": torch.ones(7)}), "should be (draws, 7)"),
        (lambda t: t.update({"fg/layers.0.bias": torch.ones(4, 7)}), "draws of its parameters are 3, 4"),
        (lambda t: t.update({"fg/layers.0.bias": torch.ones(0, 7)}), "should be (draws, 7)"),
        (lambda t: t.update({"fg/layers.0.bias": torch.ones(20_000, 7)}), "parameters are 3, 20000"),
        (lambda t: t.update({"foton/all": torch.ones(7), "reference/all": torch.ones(7)}), "names no method"),
        (lambda t: t.update({"a\nb/layers.0.bias": torch.ones(7)}), "names no method"),
        (lambda t: t.update({"loss": torch.ones(1)}), "names no method"),
        (lambda t: t.update({"foton/layers.0.bias": torch.ones(7, dtype=torch.complex64)}), "type 'C64'"),
        (lambda t: t.update({"reference/layers.0.bias": torch.full((7,), torch.nan)}), "not finite"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, spoil: Callable[[dict[str, Tensor]], object], words: str
) -> None:
    tensors = made()
    spoil(tensors)
    write(tmp_path, tensors)
    with pytest.raises(InputError) as raised:
        compare_stored(find_gradients(tmp_path))
    assert words in raised.value.message
    assert raised.value.where
    assert raised.value.hint


def test_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    def refusal(words: str) -> None:
        with pytest.raises(InputError, match=words):
            find_gradients(tmp_path)

    with pytest.raises(InputError, match="no such folder"):
        find_gradients(tmp_path / "none")
    refusal("no gradients")
    write(tmp_path, made())
    write(tmp_path, made(1, draws=2), 0, 1)
    refusal("2 draws, in other files 3")
    smaller = made(1)
    for method in ("reference", "foton", "fg"):
        del smaller[f"{method}/layers.0.bias"]
    write(tmp_path, smaller, 0, 1)
    refusal("other parameters or shapes")
    write(tmp_path, made(), 0, 1, draws="fg,pepita")
    refusal("draws of pepita")
    write(tmp_path, made(), 0, 1).rename(tmp_path / "step0_batch00.safetensors")
    write(tmp_path, made())
    refusal("same step and batch")
    (tmp_path / "step0_batch00.safetensors").rename(tmp_path / "model.safetensors")
    refusal("does not say")


def _with_header(header: dict[str, object], numbers: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 16,
        _with_header({"reference/w": ENTRY}, b""),
        _with_header({"reference/w": {**ENTRY, "shape": [2]}}, b"1234"),
        _with_header({"reference/w": {**ENTRY, "dtype": "F4"}}, b"1234"),
        _with_header({"reference/w": ENTRY, "__metadata__": {"draws": 3}}, b"1234"),
        _with_header({"reference/w": ENTRY}, b"1234"),
        _with_header(
            {
                "reference/w": {**ENTRY, "shape": [0], "data_offsets": [0, 0]},
                "fg/w": {**ENTRY, "shape": [2**47, 0], "data_offsets": [0, 0]},
                "__metadata__": {"draws": "fg"},
            },
            b"",
        ),
        _with_header({"reference/w": ENTRY, "__metadata__": {"last": "x"}}, b"1234"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "step0_batch0.safetensors").write_bytes(content)
    with pytest.raises(InputError):
        find_gradients(tmp_path)


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, made())
    stored = find_gradients(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError):
        compare_stored(stored)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    size = 12_000_000
    write(tmp_path, {"reference/w": torch.ones(size), "fg/w": torch.ones(2, size, dtype=torch.bfloat16)})
    stored = find_gradients(tmp_path)
    # What is held is measured against a peak that the tensors have made already: a copy of them would not raise it.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = compare_stored(stored).agreements["fg"]
    assert found.measures()["cosine"].item() == pytest.approx(1.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
