"""Are points the same wherever they lie, and is whatever is no set of points refused by name?"""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from promised_arrays import promise

from probes.core.errors import InputError
from probes.generators.point_sets import PointSet, joined, read_points

BYTES = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
NUMBERS = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)


def saved(folder: Path, name: str, **arrays: NDArray[Any]) -> Path:
    path = folder / name
    if name.endswith("npy"):
        np.save(path, *arrays.values())
    else:
        (np.savez if "plain" in name else np.savez_compressed)(path, **arrays)
    return path


def images(folder: Path, values: NDArray[np.uint8], names: tuple[str, ...] | None = None) -> Path:
    for index, value in enumerate(values):
        path = folder / (names[index] if names else f"{index}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(value.squeeze()).save(path)
    return folder


def everything(points: PointSet) -> NDArray[np.float32]:
    return points.block(0, len(points))


def test_one_set_is_the_same_from_every_source(tmp_path: Path) -> None:
    first = BYTES.transpose(0, 3, 1, 2)
    sources = [
        images(tmp_path / "flat", BYTES),
        images(tmp_path / "nested", BYTES, ("a/x.png", "a/y.png", "b/c/z.png", "d.png", "e.png")),
        saved(tmp_path, "a.npy", x=BYTES),
        saved(tmp_path, "f.npy", x=np.asfortranarray(first)),
        saved(tmp_path, "plain.npz", noise=NUMBERS, img_r01=BYTES.astype(np.float32) / np.float32(255)),
        saved(tmp_path, "packed.npz", y=np.arange(5), x=first),
        saved(tmp_path, "only.npz", whatever=first),
    ]
    for source in sources:
        points = read_points(source, role="--samples", shape=(3, 4, 6))
        assert points.pixels and points.shape == (3, 4, 6) and len(points) == 5
        np.testing.assert_array_equal(everything(points), first.astype(np.float32) / np.float32(255))
        assert points.sha256 == read_points(sources[0], role="--samples").sha256, source
        assert points.span == (float(first.min()) / 255, float(np.float32(first.max()) / np.float32(255)))
    assert read_points(sources[1], role="--samples").names == ("a/x.png", "a/y.png", "b/c/z.png", "d.png", "e.png")
    assert "channels stood last" in read_points(sources[2], role="--samples").notes[0]
    assert "'noise'" in read_points(sources[4], role="--samples").notes[1]


@pytest.mark.parametrize(
    ("header", "separator"), [("", ","), ("a,b,c\n", ","), ("0,1,2\n\n", ","), ("a\tb\tc\n", "\t")]
)
def test_rows_of_numbers_are_those_of_an_array(tmp_path: Path, header: str, separator: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(header + "\n".join(separator.join(map(repr, row)) for row in NUMBERS.tolist()))
    points = read_points(path, role="--members")
    twin = read_points(saved(tmp_path, "rows.npy", x=NUMBERS.astype(np.float64)), role="--members")
    np.testing.assert_array_equal(everything(points), NUMBERS)
    assert points.sha256 == twin.sha256 and not points.pixels and points.shape == (3,)


def test_digests_are_of_shape_and_bytes(tmp_path: Path) -> None:
    points = read_points(saved(tmp_path, "a.npy", x=NUMBERS), role="--members")
    assert points.digests()[2] == hashlib.sha256(b"3" + NUMBERS[2].tobytes()).hexdigest()
    assert len(set(points.digests())) == 7


@pytest.mark.parametrize("name", ["a.npy", "packed.npz"])
def test_parts_and_joined_sets_read_the_right_points(tmp_path: Path, name: str) -> None:
    points = read_points(saved(tmp_path, name, x=NUMBERS), role="--members")
    for places in ([0, 1, 4, 6], [3], []):
        part = points.take(np.array(places, dtype=np.int64))
        np.testing.assert_array_equal(everything(part), NUMBERS[places])
        assert part.digests() == tuple(points.digests()[place] for place in places)
    part = points.take(np.array([1, 2, 5]))
    np.testing.assert_array_equal(part.block(1, 3), NUMBERS[[2, 5]])
    both = joined((part, points))
    np.testing.assert_array_equal(both.block(2, 5), np.concatenate([NUMBERS[[5]], NUMBERS[:2]]))
    assert both.digests() == part.digests() + points.digests()
    for wrong in ([2, 1], [7], [1, 1]):
        with pytest.raises(ValueError, match="places"):
            points.take(np.array(wrong))
    with pytest.raises(ValueError, match="points 3 to 8"):
        points.block(3, 8)


def test_grey_images_have_one_channel_and_changes_are_told(tmp_path: Path) -> None:
    grey = images(tmp_path / "grey", BYTES[..., :1])
    points = read_points(grey, role="--members")
    assert points.shape == (1, 4, 6) and points.notes == ()
    assert read_points(saved(tmp_path, "g.npy", x=BYTES[..., 0]), role="--members").sha256 == points.sha256
    alpha = tmp_path / "alpha"
    alpha.mkdir()
    Image.fromarray(BYTES[0]).convert("RGBA").save(alpha / "a.png")
    Image.fromarray(BYTES[0]).convert("CMYK").save(alpha / "b.jpg")
    (alpha / "readme.txt").write_text("no image")
    notes = " ".join(read_points(alpha, role="--members").notes)
    for said in ("with transparency", "from CMYK", "1 file(s) left out"):
        assert said in notes


def lying_header(folder: Path) -> Path:
    path = folder / "lie.npy"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 3)})
    path.write_bytes(head.getvalue() + b"\0" * 12)
    return path


def without_bytes(folder: Path) -> Path:
    path = folder / "none.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 0)})
    return path


def bomb(folder: Path) -> Path:
    return promise(folder / "bomb.npz", x=(257, 2**20))


def cut_short(folder: Path) -> Path:
    path = saved(folder, "packed.npz", x=np.random.default_rng(0).normal(size=(200, 30)))
    data = bytearray(path.read_bytes())
    data[3000:3040] = bytes(40)
    path.write_bytes(data)
    return path


def link_out(folder: Path) -> Path:
    images(folder / "else", BYTES[:1])
    images(folder / "in", BYTES[1:2])
    (folder / "in" / "b.png").symlink_to(folder / "else" / "0.png")
    return folder / "in"


def folder_link(folder: Path) -> Path:
    images(folder / "in", BYTES[:1])
    (folder / "in" / "again").symlink_to(folder / "in")
    return folder / "in"


def text(content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "rows.csv").write_text(content)
        return folder / "rows.csv"

    return write


def array(name: str, **arrays: Any) -> Callable[[Path], Path]:
    return lambda folder: saved(folder, name, **{key: np.array(value) for key, value in arrays.items()})


def two(mode: str, size: tuple[int, int]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        images(folder / "in", BYTES[:1])
        Image.new(mode, size).save(folder / "in" / "z.png")
        return folder / "in"

    return write


def frames(folder: Path) -> Path:
    (folder / "in").mkdir()
    pictures = [Image.fromarray(value) for value in BYTES]
    pictures[0].save(folder / "in" / "a.png", save_all=True, append_images=pictures[1:])
    return folder / "in"


def empty_folder(folder: Path) -> Path:
    (folder / "in").mkdir()
    return folder / "in"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "nothing.npy", "no such file"),
    "empty folder": (empty_folder, "no images"),
    "link out of the folder": (link_out, "leads out"),
    "link to a folder": (folder_link, "link to a folder"),
    "other size": (two("RGB", (3, 3)), r"\(3, 3, 3\)"),
    "other channels": (two("L", (6, 4)), r"\(1, 4, 6\)"),
    "16 bits": (two("I;16", (6, 4)), "more than 8 bits"),
    "several frames": (frames, "several frames"),
    "a header that lies": (lying_header, "promises 12000000000"),
    "points without numbers": (without_bytes, r"\(1000000000000, 0\)"),
    "a bomb": (bomb, "unpacks to"),
    "damaged in the middle": (cut_short, "cannot be read"),
    "objects": (array("o.npz", x=[{}, {}]), "Python objects"),
    "words": (array("w.npy", x=[["a"], ["b"]]), "values of type"),
    "complex": (array("c.npy", x=[[1j], [2]]), "complex"),
    "one axis": (array("d.npy", x=[1.0, 2.0]), r"\(2,\)"),
    "no name that is known": (array("n.npz", left=NUMBERS, right=NUMBERS), "not clear"),
    "not a number": (array("x.npy", x=[[1.0], [np.nan]]), "not finite"),
    "too large for float32": (array("x.npy", x=[[1.0], [1e300]]), "too large for float32"),
    "not from 0 to 1": (array("x.npz", img_r01=[[0.5], [-0.5]]), "promises 0 to 1"),
    "no archive": (lambda folder: text("1,2")(folder).rename(folder / "x.npz"), "no NPZ"),
    "short row": (text("1,2\n3\n"), "1 fields"),
    "long row": (text("1,2\n3,4,5\n"), "3 fields"),
    "a word": (text("1,2\n3,x\n"), "'x' is not a finite"),
    "a hole": (text("1,2\n3,\n"), "empty"),
    "nan in words": (text("1,2\n3,nan\n"), "'nan'"),
    "too large in words": (text("1,2\n3,1e39\n"), "too large"),
    "header alone": (text("a,b\n"), "no rows"),
    "a word beside semicolons": (text("1,5;2\n3;x\n"), "'x' is not a finite"),
    "a short row behind a block": (text("1,2\n" * 2**20 + "3\n"), "1 fields"),
    "column of row numbers": (text(",a,b\n0,1,2\n"), "no name|empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_set_of_points_is_refused(case: str, tmp_path: Path) -> None:
    make, said = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(InputError, match=said) as caught:
        read_points(path, role="--members")
    assert caught.value.where.startswith("--members ") and path.name in caught.value.where


def test_places_of_faults_are_told(tmp_path: Path) -> None:
    for make, where in ((REFUSED["not a number"][0], "row 1"), (REFUSED["a word"][0], "rows.csv:2, column 2")):
        with pytest.raises(InputError) as caught:
            read_points(make(tmp_path), role="--members")
        assert caught.value.where.endswith(where)
    with pytest.raises(InputError, match=r"\(3, 4, 6\); \(1, 28, 28\)"):
        read_points(saved(tmp_path, "a.npy", x=BYTES), role="--members", shape=(1, 28, 28))


def test_rows_of_numbers_come_in_any_separator(tmp_path: Path) -> None:
    commas = ("1,5;2\n\n3;4e1\n", 'x;y\n"1,5";2\n3;4e1', "1.5;2\n3;40\n", "sep=;\n1,5;2\n3;40\n")
    for content in ("1.5,2\n3,4e1\n", "a\tb\n1.5\t2\n3\t4e1\n", '"1.5"\t"2"\n3\t40\n', *commas):
        found = read_points(text(content)(tmp_path), role="--members")
        assert found.rows(0, 2).tolist() == [[1.5, 2], [3, 40]]
        assert any("decimal comma" in note for note in found.notes) == (";" in content)
    many = read_points(text("0,25;1\n" + "1,5;2\n" * 2**20)(tmp_path), role="--members")
    assert len(many) == 2**20 + 1 and many.rows(0, 2).tolist() == [[0.25, 1], [1.5, 2]]
