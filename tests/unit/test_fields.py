import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from promised_arrays import promise

from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.operators.fields import Fields, load_fields
from probes.operators.fno.layers import coordinates

RNG = np.random.default_rng(11)
X = RNG.random((6, 8, 9)) > 0.5
Y = RNG.normal(size=(6, 8, 9)).astype(np.float32)


def npz(path: Path, **arrays) -> None:
    np.savez(path, **arrays)


def packed(path: Path, **arrays) -> None:
    np.savez_compressed(path, **arrays)


def hdf5(path: Path, **arrays) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


def chunked(path: Path, **arrays) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, chunks=True, compression="gzip", shuffle=True)


def matlab73(path: Path, **arrays) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            # MATLAB has logicals as bytes and its first axis as the fastest.
            stored = values.astype(np.uint8) if values.dtype == bool else values
            data = file.create_dataset(name, data=stored.T)
            data.attrs["MATLAB_class"] = np.bytes_("logical" if values.dtype == bool else str(values.dtype))
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def matlab5(path: Path, **arrays) -> None:
    scipy.io.savemat(path, arrays)


def matlab7(path: Path, **arrays) -> None:
    scipy.io.savemat(path, arrays, do_compression=True)


def pt(path: Path, **arrays) -> None:
    torch.save({name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}, path)


WRITERS = (npz, packed, hdf5, chunked, matlab73, matlab5, matlab7, pt)


def fresh(folder: Path) -> Path:
    return folder / f"data{len(list(folder.iterdir()))}.npz"


def write(folder: Path, writer=npz, /, **arrays) -> Path:
    # The name says nothing: content decides. HDF5 writes no file that is still open for reading.
    path = fresh(folder)
    writer(path, **arrays)
    return path


def load(path: Path, *, dimensions: int = 2, fields=(1,), outputs: int = 1, **options) -> Fields:
    return load_fields(path, dimensions=dimensions, fields=fields, outputs=outputs, **options)


def refuse(path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        found = load(path, **options)
        found.check_finite()
    assert str(path) in caught.value.where
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.where} | {caught.value.hint}"


@pytest.mark.parametrize("writer", WRITERS)
def test_every_form_gives_back_what_was_stored(tmp_path, writer) -> None:
    path = write(tmp_path, writer, x=X, y=Y.astype(np.float64))
    found = load(path)
    assert (found.count, found.sizes, found.channels, found.target_channels) == (6, (8, 9), 1, 1)
    assert found.keys == ("x", "y")
    assert found.sha256 == sha256_file(path)
    found.check_finite()
    for start, stop in ((0, 6), (2, 4), (3, 4), (0, 1), (5, 9), (1, 3)):
        x, y = found.read(start, stop)
        assert x.dtype == y.dtype == np.float32
        assert np.array_equal(x, X[start:stop, None])
        assert np.array_equal(y, Y[start:stop, None])
    assert any("float64" in note for note in found.notes)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("last", [True, False])
def test_channels_stand_first_or_last(tmp_path, writer, last) -> None:
    x = RNG.normal(size=(4, 3, 8, 8))
    y = RNG.normal(size=(4, 2, 8, 8))
    stored = {name: np.moveaxis(values, 1, -1) if last else values for name, values in (("a", x), ("u", y))}
    found = load(write(tmp_path, writer, **stored), fields=(1, 3), outputs=2)
    assert (found.channels, found.target_channels, found.sizes) == (3, 2, (8, 8))
    one, two = found.read(1, 3)
    np.testing.assert_array_equal(one, x[1:3].astype(np.float32))
    np.testing.assert_array_equal(two, y[1:3].astype(np.float32))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_grids_of_one_to_three_dimensions(tmp_path, dimensions) -> None:
    x = RNG.normal(size=(2, *(7, 6, 5)[:dimensions]))
    found = load(write(tmp_path, x=x, y=x[:, None]), dimensions=dimensions)
    one, two = found.read(0, 2)
    assert np.array_equal(one, x[:, None].astype(np.float32))
    assert np.array_equal(one, two)


def test_the_other_array_tells_which_axis_holds_the_channels(tmp_path) -> None:
    x = RNG.normal(size=(2, 5, 8, 5))
    found = load(write(tmp_path, x=x, y=x[:, 0]), fields=(5,))
    assert found.sizes == (8, 5)
    found = load(write(tmp_path, x=x, y=x[..., 0]), fields=(5,))
    assert found.sizes == (5, 8)


@pytest.mark.parametrize(
    "values", [Y.astype(">f8"), np.asfortranarray(Y), Y.astype(np.float16), (Y * 100).astype(np.int64)]
)
@pytest.mark.parametrize("writer", [npz, packed])
def test_numbers_of_any_order_and_width(tmp_path, writer, values) -> None:
    found = load(write(tmp_path, writer, x=values, y=Y))
    for start, stop in ((1, 3), (0, 6)):
        assert np.array_equal(found.read(start, stop)[0], values[start:stop, None].astype(np.float32))


def test_names_are_taken_as_given_or_asked_for(tmp_path) -> None:
    path = write(tmp_path, x=X, a=X, y=Y, mask=X, t=np.arange(3))
    assert "x, a all fit" in refuse(path)
    assert "(6, 8, 9)" in refuse(path)
    found = load(path, input_key="mask", target_key="y")
    assert (found.keys, found.notes) == (("mask", "y"), ("'mask' is stored as bool and read as float32.",))
    assert load(path, input_key="a").keys == ("a", "y")
    assert "Did you mean 'mask'" in refuse(path, input_key="mosk")
    assert "--target KEY, or none" in refuse(write(tmp_path, x=X))
    assert "--input KEY" in refuse(write(tmp_path, first=X, second=Y))
    assert load(write(tmp_path, X=X, Y=Y)).keys == ("X", "Y")


def test_targets_may_be_absent(tmp_path) -> None:
    found = load(write(tmp_path, x=X), target_key="none")
    assert (found.keys, found.target_channels, found.kind, found.kind_source) == (("x", None), None, None, "")
    assert found.read(0, 2)[1] is None
    path = tmp_path / "one.npy"
    np.save(path, Y)
    found = load(path, target_key="none")
    assert found.keys == ("array", None)
    assert np.array_equal(found.read(4, 6)[0], Y[4:, None])
    assert np.array_equal(found.read(0, 1)[0], Y[:1, None])
    np.save(path, np.array([None]))
    assert "Python objects" in refuse(path, target_key="none", input_key="array")


@pytest.mark.parametrize(
    ("shapes", "options", "said"),
    [
        (((6, 2, 8, 9), (6, 8, 9)), {"fields": (1, 3)}, ("2 channels (or 9", "1 or 3 channels")),
        (((6, 8, 9), (6, 8, 9)), {"fields": (3,)}, ("one channel", "3 channels")),
        (((6, 8, 9), (6, 3, 8, 9)), {}, ("'y'", "3 channels (or 9")),
        (((6, 8, 9), (6, 9, 8)), {}, ("(6, 8, 9)", "(6, 9, 8)", "x and y")),
        (((6, 8, 9), (5, 8, 9)), {}, ("(6, 8, 9)", "(5, 8, 9)")),
        (((6, 64), (6, 64)), {}, ("2-D grid", "(samples, channels, x, y)")),
        (((6, 3, 64), (6, 3, 64)), {}, ("fewer than 4 points",)),
        (((6, 64, 64), (6, 64, 64)), {"dimensions": 1}, ("64 channels", "1-D grids")),
        (((6, 8, 8, 8), (6, 8, 8, 8)), {"dimensions": 1}, ("1-D grid",)),
        (((0, 8, 9), (0, 8, 9)), {}, ("no samples",)),
        (((6, 8, 0), (6, 8, 0)), {}, ("fewer than 4 points",)),
    ],
)
def test_shapes_that_do_not_fit_are_told(tmp_path, shapes, options, said) -> None:
    text = refuse(write(tmp_path, x=np.zeros(shapes[0]), y=np.zeros(shapes[1])), **options)
    assert all(part in text for part in said), text


def pdebench(folder: Path, tensor, kind="cell", **more) -> Path:
    sizes = {axis: size for axis, size in zip("xyz", tensor.shape[2:], strict=False) if size > 3}
    axes = {f"{axis}-coordinate": coordinates(kind, (size,))[0].numpy() for axis, size in sizes.items()}
    times = np.arange(tensor.shape[1] + 1.0)
    return write(folder, hdf5, tensor=tensor, **axes, **{"t-coordinate": times}, **more)


def test_darcy_flow_of_pdebench(tmp_path) -> None:
    found = load(pdebench(tmp_path, Y[:, None], nu=X.astype(np.float32)))
    assert (found.keys, found.kind) == (("nu", "tensor"), "cell")
    assert found.kind_source == "the stored coordinates x-coordinate, y-coordinate"
    x, y = found.read(0, 6)
    assert np.array_equal(x[:, 0], X)
    assert np.array_equal(y[:, 0], Y)


@pytest.mark.parametrize("grid", [(9,), (8, 9), (5, 6, 7)])
@pytest.mark.parametrize("variables", [0, 2])
def test_series_are_cut_into_first_steps_and_the_next(tmp_path, grid, variables) -> None:
    tensor = RNG.normal(size=(3, 6, *grid, *([variables] * bool(variables)))).astype(np.float32)
    each = variables or 1
    found = load(pdebench(tmp_path, tensor), dimensions=len(grid), fields=(4 * each,), outputs=each, initial_steps=4)
    assert (found.sizes, found.channels, found.target_channels, found.kind) == (grid, 4 * each, each, "cell")
    x, y = found.read(1, 3)
    full = tensor if variables else tensor[..., None]
    for time in range(4):
        for variable in range(each):
            assert np.array_equal(x[:, time * each + variable], full[1:3, time, ..., variable])
    assert np.array_equal(y, np.moveaxis(full[1:3, 4], -1, 1))
    assert "every k-th step" in found.notes[0]
    found.check_finite()


def test_variables_in_arrays_of_their_own_are_stacked(tmp_path) -> None:
    parts = {name: RNG.normal(size=(2, 3, 8, 8)).astype(np.float32) for name in ("Vx", "Vy", "density", "pressure")}
    found = load(write(tmp_path, hdf5, **parts), fields=(8,), outputs=4, initial_steps=2)
    assert found.keys[0] == "density, pressure, Vx, Vy"
    x, y = found.read(0, 2)
    assert np.array_equal(x[:, 5], parts["pressure"][:, 1])
    assert np.array_equal(y[:, 2], parts["Vx"][:, 2])
    parts["Vy"] = parts["Vy"][:1]
    assert "different shapes" in refuse(write(tmp_path, hdf5, **parts), fields=(8,), outputs=4, initial_steps=2)


def test_a_group_a_sample(tmp_path) -> None:
    series = RNG.normal(size=(12, 4, 8, 9, 2)).astype(np.float32)
    path = tmp_path / "rd.h5"
    axes = {"x": (np.arange(8) + 0.5) / 4 - 1, "y": (np.arange(9) + 0.5) / 4.5 - 1}
    with h5py.File(path, "w") as file:
        for place in range(12):
            file[f"{place}/data"] = series[place]
            for axis, nodes in axes.items():
                file[f"{place}/grid/{axis}"] = nodes
    found = load(path, fields=(4,), outputs=2, initial_steps=2)
    assert (found.count, found.sizes, found.kind) == (12, (8, 9), "cell")
    x, y = found.read(9, 12)
    assert np.array_equal(x[:, 3], series[9:, 1, ..., 1])
    assert np.array_equal(y[:, 0], series[9:, 2, ..., 0])
    del found
    # The child that read it may not have ended yet.
    with h5py.File(path, "r+", locking=False) as file:
        del file["7/data"]
        file["7/data"] = series[7, :, :4]
    assert "'7/data' has the shape" in refuse(path, fields=(4,), outputs=2, initial_steps=2)


@pytest.mark.parametrize("writer", WRITERS)
def test_one_array_may_give_input_and_target(tmp_path, writer) -> None:
    u = RNG.normal(size=(3, 8, 8, 5)).astype(np.float32)
    keys = {"input_key": "u", "target_key": "u", "initial_steps": 3}
    found = load(write(tmp_path, writer, u=u, a=u[..., 0]), fields=(3,), **keys)
    x, y = found.read(0, 3)
    assert np.array_equal(x, np.moveaxis(u[..., :3], -1, 1))
    assert np.array_equal(y[:, 0], u[..., 3])
    found = load(write(tmp_path, writer, u=np.moveaxis(u, -1, 1)), fields=(3,), **keys)
    assert np.array_equal(found.read(0, 3)[0], x)


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ((3, 8, 8, 8), {}, "which axis is time"),
        ((3, 8, 9, 7), {}, "which axis is time"),
        ((3, 6, 16), {"dimensions": 1}, "which axis is time"),
        ((3, 16, 16, 4), {"fields": (10,)}, "takes 10"),
        ((3, 16, 16, 1), {}, "1 time steps, of which 2"),
        ((3, 6, 8, 8, 3), {}, "3 variables"),
        ((3, 6), {}, "2-D grid"),
    ],
)
def test_series_that_are_not_clear_are_refused(tmp_path, shape, options, said) -> None:
    assert said in refuse(write(tmp_path, u=np.zeros(shape)), input_key="u", target_key="u", **options)


def test_series_without_targets_need_no_further_step(tmp_path) -> None:
    found = load(write(tmp_path, tensor=np.zeros((2, 1, 8, 8))), target_key="none")
    assert found.target_channels is None


@pytest.mark.parametrize("kind", ["open", "closed", "cell"])
@pytest.mark.parametrize("form", ["axes", "plain", "columns", "mesh", "mesh last", "one"])
def test_stored_coordinates_tell_the_grid(tmp_path, kind, form) -> None:
    values = RNG.normal(size=(2, 8, 8))
    mesh = coordinates(kind, (8, 8)).numpy()
    axis = coordinates(kind, (8,))[0].numpy()
    stored = {
        "axes": {"x_coordinate": axis, "y_coordinate": axis},
        "plain": {"x": axis, "y": axis},
        "columns": {"grid_x": axis[:, None], "grid_y": axis[None]},
        "mesh": {"grid": mesh},
        "mesh last": {"coords": np.moveaxis(mesh, 0, -1)},
        "one": {"grid": axis},
    }[form]
    found = load(write(tmp_path, a=values, u=values, **stored))
    assert found.kind == kind
    assert next(iter(stored)) in found.kind_source


def test_else_the_targets_tell_the_grid(tmp_path) -> None:
    nodes = np.arange(9) / 8
    u = np.multiply.outer(nodes * (1 - nodes), nodes * (1 - nodes))[None]
    closed, opened = (
        load(write(tmp_path, x=u, y=u)),
        load(write(tmp_path, a=u[:, :-1, :-1], u=u[:, :-1, :-1], grid=nodes)),
    )
    assert (closed.kind, closed.kind_source) == ("closed", "y, which vanishes on the first and the last nodes")
    assert (opened.kind, opened.kind_source) == ("open", "u, which vanishes on the first nodes only")
    inside = write(tmp_path, x=u[:, 1:-1, 1:-1], y=u[:, 1:-1, 1:-1])
    assert load(inside).kind is None


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_found(tmp_path, writer, wrong) -> None:
    y = Y.copy()
    y[4, 2, 3] = wrong
    path = write(tmp_path, writer, x=X, y=y)
    found = load(path)
    found.check_finite(4)
    with pytest.raises(InputError, match="sample 4 of 'y'") as caught:
        found.check_finite()
    assert caught.value.where == f"{path}, y[4]"


def test_what_overflows_in_single_precision_is_found(tmp_path) -> None:
    assert "x[0]" in refuse(write(tmp_path, x=np.full((1, 8, 8), 1e300), y=np.zeros((1, 8, 8))))


@pytest.mark.parametrize("writer", [npz, packed, hdf5, chunked, matlab73])
def test_memory_does_not_grow_with_the_samples(tmp_path, writer) -> None:
    x = np.tile(RNG.normal(size=(4, 64, 64)), (64, 1, 1))
    path = write(tmp_path, writer, x=x, y=x)
    found = load(path)
    tracemalloc.start()
    for start in range(0, 256, 2):
        found.read(start, start + 2)
    found.check_finite()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.nbytes == 2**23
    assert peak < 2**22, peak


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_real_number_is_refused(tmp_path, writer) -> None:
    text = refuse(write(tmp_path, writer, x=Y.astype(np.complex64), y=Y))
    assert "complex" in text or "type" in text
    assert ", x" in text


def test_python_objects_are_not_unpickled(tmp_path) -> None:
    bait = np.array([Path("x")] * 6, dtype=object)
    assert "Python objects" in refuse(write(tmp_path, x=bait, y=Y))
    assert load(write(tmp_path, x=X, y=Y, meta=bait)).count == 6
    torch.save({"x": Path("x")}, tmp_path / "data.npz")
    assert "refused" in refuse(tmp_path / "data.npz")
    scipy.io.savemat(tmp_path / "data.npz", {"x": bait.astype(str), "y": Y})
    assert "no numeric array" in refuse(tmp_path / "data.npz")
    scipy.io.savemat(tmp_path / "data.npz", {"x": {"a": Y}, "y": Y})
    assert "no numeric array" in refuse(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"hello, world" * 20, "not a file of arrays"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS"),
        (b"PK\x03\x04 and then nothing", "cannot be read"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "cannot be read"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "cannot be read"),
        (b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + b"\x0f\x00\x00\x00\xff\xff\xff\x7f", "cut off"),
        (
            b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, 8) + zlib.compress(b"")[:8],
            "cannot be read",
        ),
        (b"\x80\x02" + bytes(50), "damaged"),
        (b"\x80\x05" + bytes(50), "refused"),
    ],
)
def test_other_files_are_refused(tmp_path, content, said) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    assert said in refuse(path)


def test_paths_that_are_no_files(tmp_path) -> None:
    (tmp_path / "data.npz").mkdir()
    assert "a folder, not a file" in refuse(tmp_path / "data.npz")
    write(tmp_path / "data.npz", x=X)
    assert "data.npz" in refuse(tmp_path / "data.npz" / "daat.npz")


@pytest.mark.parametrize("writer", WRITERS)
def test_files_that_are_cut_off(tmp_path, writer) -> None:
    path = write(tmp_path, writer, x=RNG.normal(size=(6, 32, 32)), y=RNG.normal(size=(6, 32, 32)))
    content = path.read_bytes()
    for share in (0.02, 0.3, 0.6, 0.9, 0.99):
        path.write_bytes(content[: int(len(content) * share)])
        refuse(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_damaged_bytes_raise_nothing_else(tmp_path, writer) -> None:
    path = write(tmp_path, writer, x=RNG.normal(size=(4, 8, 8)), y=RNG.normal(size=(4, 8, 8)))
    content = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(25):
        changed = bytearray(content)
        # Headers are at the beginning, directories at the end.
        places = np.concatenate([rng.integers(0, min(800, len(content)), 2), len(content) - rng.integers(1, 300, 1)])
        for place in places:
            changed[place] = rng.integers(256)
        path.write_bytes(changed)
        try:
            found = load(path)
            assert found.read(0, 4)[0].shape[1:] == (1, *found.sizes)
            found.check_finite()
        except InputError:
            continue


def member(shape, data: bytes, dtype: str = "<f4", fortran: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return file.getvalue() + data


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (member((10**12, 8, 8), bytes(256)), "promises 256000000000000 bytes"),
        (member((1, 8, 8), bytes(300)), "promises 256 bytes"),
        (member((-1, 8, 8), bytes(256)), "promises"),
        (b"no array", "cannot be read"),
    ],
)
def test_headers_that_lie(tmp_path, stored, said) -> None:
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", stored)
        archive.writestr("y.npy", member((1, 8, 8), bytes(256)))
    assert said in refuse(path, input_key="x", target_key="none")


@pytest.mark.parametrize(
    ("fortran", "said"), [(False, "too large for a file of this size"), (True, "unpacks to 536870912 bytes")]
)
def test_what_unpacks_to_too_much(tmp_path, fortran, said) -> None:
    path = promise(tmp_path / "data.npz", fortran=fortran, x=(1, 2**9, 2**20), y=(1, 8, 8))
    assert said in refuse(path, input_key="x", target_key="none")


def test_a_member_may_not_stand_twice(tmp_path) -> None:
    path = write(tmp_path, x=X, y=Y)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x.npy", member((6, 8, 9), bytes(4 * Y.size)))
    assert "twice" in refuse(path)


def test_tensors_that_are_no_plain_arrays(tmp_path) -> None:
    path = tmp_path / "data.npz"
    torch.save({"x": torch.zeros(3, 8, 8).to_sparse(), "y": torch.zeros(3, 8, 8)}, path)
    assert "no plain tensor" in refuse(path)
    torch.save({"x": 3, "y": torch.zeros(3, 8, 8)}, path)
    assert "no tensor but a int" in refuse(path)
    torch.save([torch.zeros(3, 8, 8)], path)
    assert "holds a list" in refuse(path)
    torch.save({"x": torch.zeros(1).expand(2, 10**5, 10**5), "y": torch.zeros(2, 8, 8)}, path)
    assert "too large" in refuse(path, input_key="x", target_key="none")
    torch.save({"x": torch.ones(2, 8, 8, dtype=torch.bfloat16), "y": torch.zeros(2, 8, 8)}, path)
    assert load(path).read(0, 1)[0].sum() == 64


def test_hdf5_leads_to_no_other_file(tmp_path) -> None:
    secret = tmp_path / "secret.h5"
    hdf5(secret, x=Y, y=Y)
    raw = tmp_path / "raw.bin"
    raw.write_bytes(Y.tobytes())

    def attempt(make) -> str:
        path = fresh(tmp_path)
        with h5py.File(path, "w") as file:
            file["y"] = Y
            make(file)
        return refuse(path, input_key="x", target_key="y")

    def virtual(file) -> None:
        layout = h5py.VirtualLayout(shape=Y.shape, dtype=Y.dtype)
        layout[:] = h5py.VirtualSource(str(secret), "x", shape=Y.shape)
        file.create_virtual_dataset("x", layout)

    def linked(file) -> None:
        file["x"] = h5py.ExternalLink(str(secret), "/x")

    def through_a_group(file) -> None:
        file["all"] = h5py.ExternalLink(str(secret), "/")
        file["x"] = h5py.SoftLink("/all/x")

    def external(file) -> None:
        file.create_dataset("x", Y.shape, "f4", external=[(str(raw), 0, Y.nbytes)])

    def references(file) -> None:
        file["x"] = np.array([file["y"].ref] * 6, dtype=h5py.ref_dtype)

    def circle(file) -> None:
        file["x"] = h5py.SoftLink("/z")
        file["z"] = h5py.SoftLink("x")

    assert "link to another file" in attempt(linked)
    assert "link to another file" in attempt(through_a_group)
    assert "in other files" in attempt(virtual)
    assert "in other files" in attempt(external)
    assert "references" in attempt(references)
    assert "in circles" in attempt(circle)
    assert "to nothing" in attempt(lambda file: file.__setitem__("x", h5py.SoftLink("/nowhere")))
    assert "to nothing" in attempt(lambda file: file.__setitem__("x", h5py.SoftLink("/y/inside")))
    assert "type" in attempt(lambda file: file.__setitem__("x", np.zeros(6, dtype=[("a", "f4"), ("b", "f4")])))
    assert "is empty" in attempt(lambda file: file.__setitem__("x", h5py.Empty("f4")))


def test_links_and_groups_inside_the_file_are_followed(tmp_path) -> None:
    path = tmp_path / "data.npz"
    with h5py.File(path, "w") as file:
        file["deep/down/values"] = Y
        file["deep/x"] = h5py.SoftLink("down/values")
        file["x"] = h5py.SoftLink("/deep/x")
        file["y"] = file["deep/down/values"]
        file["deep/down/loop"] = file["deep"]
    assert np.array_equal(load(path).read(2, 3)[0], Y[2:3, None])
    assert load(path, input_key="deep/down/values").keys == ("deep/down/values", "y")


def test_hdf5_data_that_were_never_written_or_unpack_to_too_much(tmp_path) -> None:
    def attempt(*rest, **options) -> str:
        path = fresh(tmp_path)
        with h5py.File(path, "w") as file:
            file["y"] = Y
            data = file.create_dataset("x", *rest, **options)
            if data.chunks and data.shape[0] > 6:
                data[:6] = 1.0
        return refuse(path)

    assert "never written" in attempt((6, 8, 9), "f4")
    assert "never written" in attempt((10**15, 8, 9), "f4", chunks=(6, 8, 9), compression="gzip")
    assert "chunks that unpack" in attempt((6, 8, 9), "f8", chunks=(2**12, 2**8, 2**8), maxshape=(None, None, None))


def test_hdf5_filters_from_elsewhere_are_refused(tmp_path) -> None:
    path = tmp_path / "data.npz"
    with h5py.File(path, "w") as file:
        file["y"] = Y
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_chunk((6, 8, 9))
        settings.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
        space = h5py.h5s.create_simple(Y.shape)
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, settings).write(h5py.h5s.ALL, h5py.h5s.ALL, Y)
    assert "filter 32015, which needs a plug-in" in refuse(path)
    path = fresh(tmp_path)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, compression="lzf", fletcher32=True)
        file.create_dataset("y", data=Y, compression="lzf", chunks=(2, 8, 9))
    assert np.array_equal(load(path).read(1, 5)[1], Y[1:5, None])


def test_matlab_files_that_lie(tmp_path) -> None:
    path = write(tmp_path, matlab5, x=Y.astype(np.float64), y=Y)
    content = bytearray(path.read_bytes())
    place = content.index(struct.pack("<iii", 6, 8, 9))
    content[place : place + 4] = struct.pack("<i", 7)
    path.write_bytes(content)
    assert "promises the shape (7, 8, 9)" in refuse(path)

    def part(kind: int, data: bytes, length: int | None = None) -> bytes:
        return struct.pack("<II", kind, len(data) if length is None else length) + data.ljust(
            -(-len(data) // 8) * 8, b"\0"
        )

    sides = (6, 2**12, 2**12)
    inner = part(6, struct.pack("<II", 6, 0)) + part(5, struct.pack("<iii", *sides)) + part(1, b"x")
    inner += struct.pack("<II", 9, 8 * 6 * 2**24)
    bomb = zlib.compress(struct.pack("<II", 14, len(inner)) + inner + bytes(10**6))
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + part(15, bomb, len(bomb))[: 8 + len(bomb)])
    assert "unpacks to 805306368 bytes" in refuse(path, input_key="x", target_key="none")


def test_empty_arrays_of_matlab_are_refused(tmp_path) -> None:
    path = write(tmp_path, matlab73, x=Y, y=Y)
    with h5py.File(path, "r+") as file:
        file["x"].attrs["MATLAB_empty"] = np.uint8(1)
    assert "is empty" in refuse(path)


def test_notes_are_plain_text(tmp_path) -> None:
    found = load(write(tmp_path, a=X, u=Y))
    assert json.loads(json.dumps(found.notes)) == [
        "'a' was taken as the input.",
        "'u' was taken as the target.",
        "'a' is stored as bool and read as float32.",
    ]
