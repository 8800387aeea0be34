"""Does every wrong input of `miles spectra` end in one panel that says what is wrong and the mend, and in nothing else?

The fields are 12 samples on a closed grid of 17 x 17, the target is what the operator itself gives there.
"""

import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import Table, Words, nothing_runs, told

CASES = Table()
case = CASES.case
SIZE = 17


@dataclass(frozen=True)
class Flow:
    """A small operator and fields that it fits."""

    folder: Path
    model: Path
    data: Path
    carry_out: Any

    @property
    def arrays(self) -> dict[str, Any]:
        return dict(np.load(self.data))

    def command(self, *more: object, model: object = "", **other: object) -> Words:
        """Return the words of a run; `other` replaces values by flag, None leaves the flag out."""
        flags: dict[str, object] = {
            "--data": self.data, "--train-resolution": 9, "--test-resolutions": SIZE, "--padding": 0,
            "--grid": "closed",
        }  # fmt: skip
        flags |= {f"--{name.replace('_', '-')}": value for name, value in other.items()}
        pairs = [str(word) for flag, value in flags.items() if value is not None for word in (flag, value)]
        return ["spectra", str(model or self.model), *pairs, *(str(word) for word in more)]

    def with_arrays(self, folder: Path, *more: object, **arrays: Any) -> Words:
        """Return a run on the same fields but for these arrays; None leaves one out."""
        kept = {name: value for name, value in {**self.arrays, **arrays}.items() if value is not None}
        np.savez(folder / "wrong.npz", **kept)
        return self.command(*more, data=folder / "wrong.npz")

    def with_bytes(self, folder: Path, content: bytes, name: str) -> Words:
        """Return a run whose data, or with the name of a model whose checkpoint, has this content."""
        (folder / name).write_bytes(content)
        if name.endswith((".npz", ".h5", ".mat")):
            return self.command(data=folder / name)
        return self.command(model=folder / name)

    def with_state(self, folder: Path, change: Callable[[dict[str, Any]], Any], *more: object) -> Words:
        """Return a run whose checkpoint was changed."""
        import torch

        content = torch.load(self.model, weights_only=True)
        torch.save(change(content) or content, folder / "wrong.pt")
        return self.command(*more, model=folder / "wrong.pt")


def fields(count: int, size: int = SIZE, seed: int = 0) -> Any:
    """Return smooth fields that neither vanish on the edge nor repeat, shape (count, size, size)."""
    rng = np.random.default_rng(seed)
    k = np.arange(5)
    waves = np.cos(np.pi * np.outer(np.arange(size) / (size - 1), k))
    weights = rng.normal(size=(count, 5, 5)) / (1 + k[:, None] ** 2 + k**2)
    return (waves @ weights @ waves.T).astype(np.float32)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Let a case that wrongly passes its checks end at once instead of running the whole audit."""
    import torch

    from audits.core import runner
    from probes.operators.darcy_operator import fresh_operator, li_state

    folder = tmp_path_factory.mktemp("flow")
    operator = fresh_operator(4, 3, 2, 0)
    for block in operator.blocks:
        block.spectral.weight.data *= 8
    x = fields(12)
    with torch.no_grad():
        y = operator(torch.from_numpy(x[:, None]), "closed")[:, 0].numpy()
    torch.save({"state_dict": li_state(operator)}, folder / "flow.pt")
    np.savez(folder / "flow.npz", x=x, y=y)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    plain = runner.carry_out
    with nothing_runs():
        yield Flow(folder=folder, model=folder / "flow.pt", data=folder / "flow.npz", carry_out=plain)
    torch.set_num_threads(threads)


@pytest.fixture
def run_whole(flow: Flow, call_miles: Any, no_pages: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets the audit run, without its pages."""
    from audits.core import runner

    monkeypatch.setattr(runner, "carry_out", flow.carry_out)
    return call_miles


def simple(name: str, says: tuple[str, ...], *more: str, **other: object) -> None:
    """Register a wrong value of an option."""
    CASES.add(name, says, lambda flow, _: flow.command(*more, **other))


simple("train_resolution_missing", ("--train-resolution", "missing"), train_resolution=None)
simple("test_resolutions_missing", ("--test-resolutions", "missing"), test_resolutions=None)
simple("data_missing", ("--data", "missing"), data=None)
simple("train_resolution_word", ("--train-resolution",), train_resolution="nine")
simple("train_resolution_one", ("--train-resolution", "1 is too small", "3 to 8,192"), train_resolution=1)
simple("train_resolution_endless", ("--train-resolution", "too large", "3 to 8,192"), train_resolution=10**12)
simple("test_resolution_word", ("--test-resolutions", "'fine'", "61,121"), test_resolutions="17,fine")
simple("test_resolution_fraction", ("--test-resolutions", "'17.0'"), test_resolutions="17.0")
simple("test_resolution_negative", ("--test-resolutions", "'-17'"), test_resolutions="-17")
simple("test_resolution_superscript", ("--test-resolutions", "whole numbers"), test_resolutions="17²")
simple("test_resolution_endless", ("--test-resolutions", "whole numbers"), test_resolutions="9" * 30)
simple("test_resolution_empty", ("--test-resolutions",), test_resolutions="")
simple("test_resolution_that_of_training", ("9 is the grid of training", "--test-resolutions"),
       test_resolutions="17,9")  # fmt: skip
simple("test_resolution_coarser_but_not_nested", ("4 points", "closed grid of 17 x 17", "17, 9, 5, 3"),
       test_resolutions=4)  # fmt: skip
simple("test_resolution_too_coarse", ("2 has fewer than 3 points", "--test-resolutions"), test_resolutions=2)
simple("test_resolution_of_three_axes", ("17x9x9 has 3 axes, the data 2",), test_resolutions="17x9x9")
simple("test_resolution_of_an_axis_not_nested", ("6 points", "closed grid of 17 points"), test_resolutions="17x6")
simple("test_resolution_half_said", ("'17x' is no resolution", "32x64"), test_resolutions="17x")
simple("test_resolution_of_training_by_axis", ("9x9 and 9 are one grid", "9 x 9"), test_resolutions="17,9x9")
simple("test_resolution_twice", ("17x17 and 17 are one grid",), test_resolutions="17,17x17")
simple("closed_data_read_as_cells", ("9 points", "in a cell grid of 17 x 17", "--grid closed"), grid="cell")
simple("closed_data_read_as_open", ("9 points", "in an open grid of 17 x 17", "--grid closed"), grid="open")
simple("sizes_not_nested", ("10 points", "closed grid of 17 x 17", "17, 9, 5, 3"), train_resolution=10)
simple("finer_than_the_data", ("33 points", "closed grid of 17 x 17", "17, 9, 5"), test_resolutions="17,33")
simple("too_coarse_for_a_spectrum", ("--train-resolution",), train_resolution=2, padding=9, target="none")
simple("too_coarse_for_the_modes", ("5 x 5 is too coarse", "--train-resolution", "6 x 4"), train_resolution=5)
simple("grid_unknown", ("--grid", "open"), grid="centred")
simple("family_unknown", ("--family", "li"), family="deeponet")
simple("family_of_another", ("family li", "--family neuralop"), family="neuralop")
simple("family_physicsnemo", ("family li", "--family physicsnemo"), family="physicsnemo")
simple("fftshift_of_another_family", ("--fftshift", "neuralop"), fftshift="mended")
simple("padding_word", ("--padding", "neither cells nor a share"), padding="some")
simple("padding_negative", ("--padding", "neither cells nor a share"), padding="-3")
simple("padding_endless", ("--padding", "neither cells nor a share"), padding="9" * 9)
simple("padding_beyond_the_grid", ("too many", "--padding"), padding="10000")
simple("test_resolution_of_thousands_of_digits", ("--test-resolutions", "whole numbers"), test_resolutions="1" * 5000)
simple("padding_nan", ("--padding",), padding="nan")
simple("padding_of_three_axes", ("--padding", "3 numbers, the grid 2"), padding="1,2,3")
simple("scale_of_one_number", ("--input-scale", "MEAN,STD"), input_scale="0.5")
simple("scale_of_three_numbers", ("--target-scale", "MEAN,STD"), target_scale="0,1,2")
simple("scale_of_words", ("--input-scale",), input_scale="mean,std")
simple("scale_nought", ("--target-scale", "no standard deviation"), target_scale="0,0")
simple("scale_negative", ("--input-scale", "no standard deviation"), input_scale="0,-1")
simple("scale_nan", ("--input-scale",), input_scale="nan,1")
simple("scale_nan_of_the_target", ("--target-scale",), target_scale="nan,1")
simple("scale_endless", ("--target-scale",), target_scale="0,inf")
simple("cutoff_nan", ("--cutoff",), cutoff="nan")
simple("dtype_narrow", ("--dtype", "bfloat16", "float32"), dtype="bfloat16")
simple("device_unknown", ("--device",), device="quantum")
simple("sine_on_an_open_grid", ("--upsample", "sine", "open", "--grid closed"), grid="open", test_resolutions=16,
       train_resolution=8, upsample="sine")  # fmt: skip
simple("input_misspelt", ("no array 'xx'", "x (12, 17, 17)"), input="xx")
simple("target_misspelt", ("no array 'z'", "y (12, 17, 17)"), target="z")
simple("data_from_nowhere", ("/nowhere.npz", "no such file"), data="/nowhere.npz")
simple("gate_on_another_name", ("--fail-if",), "--fail-if", "error > 0.5")
simple("gate_on_another_coordinate", ("--fail-if", "33"), "--fail-if", "relative_l2[resolution=33] > 0.5")
simple("gate_on_another_key", ("--fail-if", "layer"), "--fail-if", "mismatch[layer=output] > 0.5")
simple("config_from_nowhere", ("no such file", "nowhere.toml"), "--config", "/nowhere.toml")


@case("CHECKPOINT", "There is nothing to audit", "--factory")
def no_checkpoint(flow: Flow, folder: Path) -> Words:
    words = flow.command()
    return [words[0], *words[2:]]


# Fields.


def spoilt(flow: Flow, folder: Path, key: str, value: float) -> Words:
    array = flow.arrays[key]
    array[7, 3, 3] = value
    return flow.with_arrays(folder, **{key: array})


@case("sample 7 of 'x'", "wrong.npz, x[7]", "NaN", "remove the sample")
def nan_in_the_input(flow: Flow, folder: Path) -> Words:
    return spoilt(flow, folder, "x", np.nan)


@case("sample 7 of 'y'", "wrong.npz, y[7]")
def nan_in_the_target(flow: Flow, folder: Path) -> Words:
    return spoilt(flow, folder, "y", np.nan)


@case("sample 7 of 'x'", "infinite")
def infinity_in_the_input(flow: Flow, folder: Path) -> Words:
    return spoilt(flow, folder, "x", np.inf)


@case("sample 7 of 'y'", "infinite")
def infinity_in_the_target(flow: Flow, folder: Path) -> Words:
    return spoilt(flow, folder, "y", -np.inf)


@case("sample 2 of 'x'", "x[2]")
def nan_in_the_samples_that_are_tried_first(flow: Flow, folder: Path) -> Words:
    array = flow.arrays["x"]
    array[2, 8, 8] = np.nan
    return flow.with_arrays(folder, x=array)


@case("sample 1 of 'y'", "y[1]")
def nan_in_the_targets_that_are_tried_first(flow: Flow, folder: Path) -> Words:
    array = flow.arrays["y"]
    array[1, 0, 0] = np.nan
    return flow.with_arrays(folder, y=array)


@case("sample 5 of 'x'", "3.4e38")
def beyond_single_precision(flow: Flow, folder: Path) -> Words:
    array = flow.arrays["x"].astype(np.float64)
    array[5, 1, 1] = 1e300
    return flow.with_arrays(folder, x=array)


@case("keys are swapped", "--input x --target y")
def keys_swapped(flow: Flow, folder: Path) -> Words:
    return flow.command("--input", "y", "--target", "x")


@case("not its unit", "times the prediction", "suggest --target-scale")
def target_in_another_unit(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=flow.arrays["y"] * 100)


@case("not its unit", "plus 273", "--target-scale 273,1.")
def target_with_another_zero(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=flow.arrays["y"] + 273)


@case("'x' has the shape (12, 2, 17, 17)", "2 channels", "1 channel")
def channels_too_many(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=np.stack([flow.arrays["x"]] * 2, axis=1))


@case("3 channels", "1 channel")
def fields_with_coordinates(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=np.stack([flow.arrays["x"]] * 3, axis=1))


@case("'y' has the shape (12, 2, 17, 17)", "2 channels")
def targets_too_many(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=np.stack([flow.arrays["y"]] * 2, axis=1))


@case("'x' has the shape (12, 17)", "2-D grid", "(samples, channels, x, y)")
def fields_of_one_dimension(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=flow.arrays["x"][:, 0], y=flow.arrays["y"][:, 0])


@case("2-D grid", "(samples, channels, x, y)")
def fields_of_three_dimensions(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, **{name: np.zeros((3, 1, 9, 9, 9), np.float32) for name in "xy"})


@case("(12, 17, 17)", "(12, 9, 9)", "not the same samples on one grid")
def target_on_another_grid(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=flow.arrays["y"][:, ::2, ::2])


@case("(11, 17, 17)", "not the same samples")
def target_of_fewer_samples(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=flow.arrays["y"][:11])


@case("no samples")
def no_samples(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=flow.arrays["x"][:0], y=flow.arrays["y"][:0])


@case("which array is the input", "--input KEY", "first (12, 17, 17)")
def fields_by_other_names(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=None, y=None, first=flow.arrays["x"], second=flow.arrays["y"])


@case("which array is the target", "--target KEY", "none")
def no_target(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=None)


@case("which array is the input", "x, a all fit", "--input KEY")
def two_inputs(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, a=flow.arrays["x"])


@case("no arrays")
def archive_without_arrays(flow: Flow, folder: Path) -> Words:
    with zipfile.ZipFile(folder / "wrong.npz", "w") as archive:
        archive.writestr("readme.txt", "fields")
    return flow.command(data=folder / "wrong.npz")


@case("no arrays")
def archive_empty(flow: Flow, folder: Path) -> Words:
    np.savez(folder / "wrong.npz")
    return flow.command(data=folder / "wrong.npz")


@case("empty")
def data_of_no_bytes(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"", "wrong.npz")


@case("cannot be read")
def data_cut_off(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, flow.data.read_bytes()[:-300], "wrong.npz")


@case("not a file of arrays")
def data_of_words(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"x,y\n1,2\n" * 30, "wrong.npz")


@case("web page")
def data_a_page(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n", "wrong.npz")


@case("This is a folder")
def data_a_folder(flow: Flow, folder: Path) -> Words:
    (folder / "fields").mkdir()
    return flow.command(data=folder / "fields")


@case("'x'", "Python objects", "plain numbers")
def objects_in_the_data(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=np.array([Trap(folder / "canary")] * 12, dtype=object))


@case("'y'", "Python objects")
def objects_in_the_target(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, y=np.array([Trap(folder / "canary")] * 12, dtype=object))


@case("'x'", "complex numbers", "real numbers")
def complex_fields(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=flow.arrays["x"] + 1j)


@case("'x'", "plain arrays")
def texts_in_the_data(flow: Flow, folder: Path) -> Words:
    return flow.with_arrays(folder, x=flow.arrays["x"].astype("U8"))


def hdf5(flow: Flow, folder: Path, link: Callable[[Any, Any], None]) -> Words:
    """Return a run on an HDF5 file whose input lies elsewhere."""
    import h5py

    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = flow.arrays["x"]
    with h5py.File(folder / "wrong.h5", "w") as file:
        file["y"] = flow.arrays["y"]
        link(file, folder / "other.h5")
    return flow.command(data=folder / "wrong.h5")


@case("'x'", "link to another file", "one file")
def external_link(flow: Flow, folder: Path) -> Words:
    import h5py

    def link(file: Any, other: Path) -> None:
        file["x"] = h5py.ExternalLink(str(other), "/x")

    return hdf5(flow, folder, link)


@case("'x'", "other files")
def virtual_data_set(flow: Flow, folder: Path) -> Words:
    import h5py

    def link(file: Any, other: Path) -> None:
        layout = h5py.VirtualLayout((12, SIZE, SIZE), np.float32)
        layout[:] = h5py.VirtualSource(str(other), "x", (12, SIZE, SIZE))
        file.create_virtual_dataset("x", layout)

    return hdf5(flow, folder, link)


@case("'x'", "other files")
def values_outside_the_file(flow: Flow, folder: Path) -> Words:
    def link(file: Any, other: Path) -> None:
        shape = (12, SIZE, SIZE)
        file.create_dataset("x", shape, np.float32, external=[(str(other), 0, 4 * 12 * SIZE * SIZE)])

    return hdf5(flow, folder, link)


@case("'x'", "circles")
def link_in_circles(flow: Flow, folder: Path) -> Words:
    import h5py

    def link(file: Any, other: Path) -> None:
        file["x"] = h5py.SoftLink("/z")
        file["z"] = h5py.SoftLink("/x")

    return hdf5(flow, folder, link)


# Checkpoints.


class Trap:
    """Leaves a trace where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.canary}",)


@case("refused", "posix.system", "state_dict")
def checkpoint_with_code(flow: Flow, folder: Path) -> Words:
    import torch

    torch.save({"state_dict": Trap(folder / "canary")}, folder / "wrong.pt")
    return flow.command(model=folder / "wrong.pt")


@case("refused")
def plain_pickle_with_code(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, pickle.dumps(Trap(folder / "canary")), "wrong.pt")


@case("refused")
def old_pickle_with_code(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, pickle.dumps(Trap(folder / "canary"), protocol=2), "wrong.pkl")


@case("refused", "FourierOperator", "torch.save(model.state_dict()")
def whole_module(flow: Flow, folder: Path) -> Words:
    import torch

    from probes.operators.fno.reading import load_operator

    operator = load_operator(flow.model).operator
    torch.save(operator, folder / "wrong.pt")
    return flow.command(model=folder / "wrong.pt")


@case("refused", "TorchScript")
def program(flow: Flow, folder: Path) -> Words:
    with zipfile.ZipFile(folder / "wrong.pt", "w") as archive:
        archive.writestr("model/constants.pkl", b"")
        archive.writestr("model/data.pkl", b"")
    return flow.command(model=folder / "wrong.pt")


@case("damaged", "Fetch or save it again")
def checkpoint_cut_off(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, flow.model.read_bytes()[:-800], "wrong.pt")


@case("damaged")
def checkpoint_of_words(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"epoch,loss\n1,0.5\n" * 20, "wrong.pt")


@case("web page")
def checkpoint_a_page(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n", "wrong.pt")


@case("Git LFS pointer", "git lfs pull")
def checkpoint_a_pointer(flow: Flow, folder: Path) -> Words:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"
    return flow.with_bytes(folder, pointer, "wrong.pt")


@case("empty")
def checkpoint_of_no_bytes(flow: Flow, folder: Path) -> Words:
    return flow.with_bytes(folder, b"", "wrong.pt")


@case("no such file", "flow.pt")
def checkpoint_misspelt(flow: Flow, folder: Path) -> Words:
    return flow.command(model=flow.folder / "flw.pt")


@case("*_state_dict.pt", "Name the file")
def checkpoint_a_folder(flow: Flow, folder: Path) -> Words:
    (folder / "models").mkdir()
    return flow.command(model=folder / "models")


@case("NPZ of arrays", "wrong way round")
def fields_as_checkpoint(flow: Flow, folder: Path) -> Words:
    return flow.command(model=flow.data)


@case("no fourier neural operator", "layer.weight")
def another_network(flow: Flow, folder: Path) -> Words:
    import torch

    return flow.with_state(folder, lambda _: {"layer.weight": torch.ones(3, 3), "layer.bias": torch.ones(3)})


@case("no Fourier layers", "DeepONet")
def deep_operator_network(flow: Flow, folder: Path) -> Words:
    import torch

    return flow.with_state(folder, lambda _: {"branch.0.weight": torch.ones(3, 3), "trunk.0.weight": torch.ones(3, 3)})


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["state_dict"].pop(name) is None or None


@case("no conv1.weights2", "wrong.pt")
def checkpoint_with_a_hole(flow: Flow, folder: Path) -> Words:
    return flow.with_state(folder, without("conv1.weights2"))


@case("1 tensors", "extra.weight")
def checkpoint_with_more(flow: Flow, folder: Path) -> Words:
    def change(content: dict[str, Any]) -> None:
        content["state_dict"]["extra.weight"] = content["state_dict"]["fc0.weight"]

    return flow.with_state(folder, change)


@case("not finite", "diverged")
def weights_not_finite(flow: Flow, folder: Path) -> Words:
    def change(content: dict[str, Any]) -> None:
        content["state_dict"]["fc1.bias"][0] = float("nan")

    return flow.with_state(folder, change)


@case("not finite", "--input-scale")
def outputs_not_finite(flow: Flow, folder: Path) -> Words:
    def change(content: dict[str, Any]) -> None:
        content["state_dict"]["fc2.weight"].fill_(3e38)

    return flow.with_state(folder, change)


@case("y_std is 0")
def scale_of_the_checkpoint_nought(flow: Flow, folder: Path) -> Words:
    return flow.with_state(folder, lambda content: content.update(y_std=0.0))


@case("x_mean is nan")
def scale_of_the_checkpoint_nan(flow: Flow, folder: Path) -> Words:
    return flow.with_state(folder, lambda content: content.update(x_mean=float("nan")))


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 90


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(flow: Flow, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], flow)


@pytest.mark.parametrize("offset", [0.0, -25.0])
def test_the_unit_that_the_panel_suggests_is_accepted(
    flow: Flow, call_miles: Any, tmp_path: Path, offset: float
) -> None:
    words = flow.with_arrays(tmp_path, y=flow.arrays["y"] * 100 + np.float32(offset))
    said = told(call_miles(*words, "--dry-run"))
    found = re.search(r"suggest --target-scale (\S+),(\S+)\.", said)
    assert found, said
    mean, std = map(float, found.groups())
    assert std == pytest.approx(100, rel=0.1) and mean == pytest.approx(offset, abs=10)
    assert call_miles(*words, "--target-scale", f"{found[1]},{found[2]}", "--dry-run").code == 0


@pytest.mark.parametrize("what", ["target", "network"])
def test_what_is_zero_everywhere_is_no_error_of_ours(flow: Flow, run_whole: Any, tmp_path: Path, what: str) -> None:
    def change(content: dict[str, Any]) -> None:
        for value in content["state_dict"].values():
            value.zero_()

    y = flow.arrays["y"]
    y[5] = 0
    words = flow.with_arrays(tmp_path, y=y) if what == "target" else flow.with_state(tmp_path, change)
    done = run_whole(*words, "--out", tmp_path / "run", "--quiet")
    assert done.code in (0, 2) and "an error of its own" not in done.err, done.err
    assert "RuntimeWarning" not in done.err
    assert done.code == 0 or what == "network" or "5" in done.err


def test_a_gate_that_selects_nothing_in_the_end_is_refused(flow: Flow, run_whole: Any, tmp_path: Path) -> None:
    # Both the name and the coordinate are there, only not together.
    gate = ("--fail-if", "mismatch[stage=output] > 0.5")
    done = run_whole(*flow.command(*gate), "--out", tmp_path / "run", "--quiet")
    assert done.code == 2 and "--fail-if" in done.err
    assert not (tmp_path / "run" / "report.json").exists()


def overflow(arrays: dict[str, Any]) -> None:
    arrays["x"][10] *= np.float32(3e37)


def nothing_on_the_coarse_grid(arrays: dict[str, Any]) -> None:
    arrays["y"][7, ::2, ::2] = 0


@pytest.mark.parametrize(
    "spoil, says",
    [(overflow, ("not finite", "sample 10")), (nothing_on_the_coarse_grid, ("zero at every node", "sample 7"))],
)
def test_a_sample_that_only_the_run_meets_is_named(
    flow: Flow, run_whole: Any, tmp_path: Path, spoil: Callable[[dict[str, Any]], None], says: tuple[str, ...]
) -> None:
    arrays = {name: value.copy() for name, value in flow.arrays.items()}
    spoil(arrays)
    words = flow.with_arrays(tmp_path, **arrays)
    done = run_whole(*words, "--out", tmp_path / "run", "--quiet")
    said = told(done)
    assert done.code == 2 and all(word in said for word in says), done.err
    assert not (tmp_path / "run" / "report.json").exists()


def test_a_constant_target_has_no_share_of_its_rounding(flow: Flow, run_whole: Any, tmp_path: Path) -> None:
    words = flow.with_arrays(tmp_path, y=np.ones_like(flow.arrays["y"]))
    done = run_whole(*words, "--out", tmp_path / "run", "--quiet")
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    taps = {row["where"]["tap"] for row in report["estimates"] if row["name"] == "high_frequency_share"}
    assert "output" in taps and "target" not in taps
    # An operator that misses its targets on its own grid is not judged on a finer one.
    findings = {finding["id"]: finding for finding in report["findings"]}
    assert findings["spectra.poor-fit"]["severity"] == "high"
    assert findings["spectra.verdict"]["where"]["verdict"] == "tie"
    assert findings["spectra.verdict"]["headline"].startswith("Neither way can be preferred at")
    assert report["answer"]["title"] == findings["spectra.poor-fit"]["headline"]
    assert report["answer"]["may_not"][0].startswith("Anything else about the operator")
    assert {"tap": "target", "resolution": 9} in [
        warning["where"] for warning in report["warnings"] if warning["id"] == "constant-stage"
    ]


def test_what_the_targets_look_like_yields_to_what_is_said(flow: Flow, call_miles: Any, tmp_path: Path) -> None:
    # Zero on the first sides only, which looks like an open grid; but 9 of 17 nodes nest in a closed one.
    x = np.arange(17) / 16
    y = np.tile(np.outer(np.sin(np.pi * x / 2), np.sin(np.pi * x / 2)), (12, 1, 1)).astype(np.float32)
    words = flow.with_arrays(tmp_path, y=y)
    assert words[words.index("--grid") + 1] == "closed"
    done = call_miles(*words, "--dry-run")
    assert done.code == 0, done.err
    assert "look as if it were open" in " ".join((done.out + done.err).split())


def test_a_unit_that_was_said_is_warned_about_and_not_refused(flow: Flow, call_miles: Any, tmp_path: Path) -> None:
    words = flow.with_arrays(tmp_path, y=flow.arrays["y"] * 100)
    assert call_miles(*words, "--dry-run").code == 2
    assert call_miles(*words, "--target-scale", "0,1", "--dry-run").code == 0


def test_a_scale_of_the_checkpoint_in_another_unit_is_told_as_such(flow: Flow, call_miles: Any, tmp_path: Path) -> None:
    def scaled(content: dict[str, Any]) -> None:
        content.update(y_mean=0.5, y_std=4.0)

    (tmp_path / "data").mkdir()
    words = flow.with_arrays(tmp_path / "data", y=(flow.arrays["y"] * 4 + np.float32(0.5)) / 100)
    wrong = flow.with_state(tmp_path, scaled)
    refused = call_miles(wrong[0], wrong[1], *words[2:], "--dry-run")
    assert refused.code == 2
    assert "--target-scale 0.005,0.04" in told(refused)


def test_a_refused_grid_names_the_kind_on_which_all_resolutions_nest(flow: Flow, call_miles: Any) -> None:
    words = flow.command(grid=None, train_resolution=8, test_resolutions="16")
    refused = call_miles(*words)
    assert refused.code == 2 and "--grid open all of them nest" in told(refused)
