import hashlib
import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from promised_arrays import promise

from probes.classifiers.images import Images, load_images
from probes.core.errors import InputError

RNG = np.random.default_rng(7)
GREY = RNG.integers(0, 256, (6, 1, 4, 5), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def npz(folder: Path, name: str = "d.npz", /, **content: Any) -> Path:
    path = folder / name
    np.savez_compressed(path, **{"x": GREY, "y": LABELS, **content})
    return path


def write(folder: Path, text: str, name: str = "d.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def rows(values: Any, labels: Any = LABELS) -> str:
    return "".join(f"{label},{','.join(map(str, row.ravel()))}\n" for label, row in zip(labels, values, strict=True))


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] = (5, 4), **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = zlib.crc32(path.name.encode())
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(values).convert(mode).save(path, **options)
    return path


def classes(root: Path, names: tuple[str, ...] = ("cat", "dog"), each: int = 2) -> Path:
    for name in names:
        for number in range(each):
            picture(root / name / f"{name}{number}.png")
    return root


def refuse(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        load_images(path, **options)
    assert caught.value.where
    return caught.value


def said(images: Images, *parts: str) -> bool:
    return any(all(part in note for part in parts) for note in images.notes)


def test_an_npz_keeps_its_type_and_gives_pixels_between_0_and_1(tmp_path: Path) -> None:
    images = load_images(npz(tmp_path))
    assert (len(images), images.shape, images.layout) == (6, (1, 4, 5), "NPZ array n,c,h,w")
    assert images.stored == (float(GREY.min()), float(GREY.max()))
    assert images.divisor == 255
    assert images.labels.dtype == np.int64
    assert images.labels.tolist() == LABELS.tolist()
    assert images.names == ("0", "1", "2", "3", "4", "5")
    assert images.class_names == ()
    assert images.read(0).dtype == np.uint8
    pixels = images.pixels(3)
    assert pixels.dtype == np.float32
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, GREY[3].astype(np.float32) / np.float32(255))
    assert said(images, "divided by 255")


def test_one_channel_may_be_left_out(tmp_path: Path) -> None:
    images = load_images(npz(tmp_path, x=GREY[:, 0]))
    assert images.shape == (1, 4, 5)
    assert images.sha256 == load_images(npz(tmp_path, "e.npz")).sha256


@settings(max_examples=30, deadline=None)
@given(
    x=arrays(np.uint8, st.tuples(st.integers(1, 4), st.sampled_from([1, 3]), st.integers(4, 6), st.integers(4, 6))),
    kind=st.sampled_from([np.uint8, np.int32, np.float16, np.float32, np.float64]),
    fortran=st.booleans(),
)
def test_every_type_and_order_of_an_array_gives_the_same_pixels(
    tmp_path_factory: pytest.TempPathFactory, x: np.ndarray[Any, Any], kind: type, fortran: bool
) -> None:
    x.flat[0] = 200
    path = tmp_path_factory.mktemp("npz") / "d.npz"
    np.savez(path, x=np.asarray(x, dtype=kind, order="F" if fortran else "C"), y=np.zeros(len(x)))
    images = load_images(path)
    assert images.shape == x.shape[1:]
    for index, image in enumerate(x):
        pixels = images.pixels(index)
        np.testing.assert_array_equal(pixels, image.astype(np.float32) / np.float32(255))
        assert pixels.flags.c_contiguous
    np.savez(path, x=x, y=np.zeros(len(x), dtype=np.uint8))
    assert load_images(path).sha256 == images.sha256


def test_digests_are_stable_and_differ_where_pixels_differ(tmp_path: Path) -> None:
    images = load_images(npz(tmp_path))
    expected = hashlib.sha256(b"1,4,5" + (GREY[2].astype("<f4") / np.float32(255)).tobytes()).hexdigest()
    assert images.digest(2) == images.digest(2) == expected
    assert len({images.digest(index) for index in range(6)}) == 6
    assert images.pixels(2).tobytes() == images.pixels(2).tobytes()
    turned = load_images(npz(tmp_path, "t.npz", x=GREY.reshape(6, 1, 5, 4)))
    assert turned.digest(2) != images.digest(2)


def test_the_hash_depends_on_pixels_labels_and_attributes_and_on_nothing_else(tmp_path: Path) -> None:
    first = load_images(npz(tmp_path)).sha256
    changed = GREY.copy()
    changed[5, 0, 3, 4] ^= 1
    assert load_images(npz(tmp_path, "other.npz", extra=np.arange(9))).sha256 == first
    assert load_images(npz(tmp_path, "x.npz", x=changed)).sha256 != first
    assert load_images(npz(tmp_path, "y.npz", y=LABELS[::-1])).sha256 != first
    grouped = npz(tmp_path, "by.npz", sex=np.array(list("fmfmfm")))
    assert load_images(grouped).sha256 == first
    assert load_images(grouped, by=("sex",)).sha256 != first


def test_images_can_be_sent_to_another_process(tmp_path: Path) -> None:
    for path in (npz(tmp_path), write(tmp_path, rows(COLOUR)), classes(tmp_path / "c")):
        images = load_images(path)
        again = pickle.loads(pickle.dumps(images))
        assert again.digest(1) == images.digest(1)


def test_labels_may_be_whole_floats(tmp_path: Path) -> None:
    for kind in (np.float16, np.float64, np.uint8):
        assert load_images(npz(tmp_path, y=LABELS.astype(kind))).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("values", "divisor", "note"),
    [
        (np.array([0, 1], dtype=np.uint8), 1.0, "integers 0 and 1"),
        (np.array([0, 2], dtype=np.uint8), 255.0, "only 2"),
        (np.array([0, 64], dtype=np.int64), 255.0, "only 64"),
        (np.array([0.0, 1.0]), 1.0, ""),
        (np.array([0.2, 0.3], dtype=np.float32), 1.0, ""),
        (np.array([0.0, 16.0], dtype=np.float32), 255.0, "only 16"),
        (np.array([0.0, 254.5]), 255.0, "divided by 255"),
        (np.array([-1e-7, 1.0000001]), 1.0, "clipped"),
        (np.array([0.0, 255.0001]), 255.0, "clipped"),
    ],
)
def test_the_scale_is_found_and_told(tmp_path: Path, values: Any, divisor: float, note: str) -> None:
    x = np.resize(values, (2, 1, 4, 4))
    images = load_images(npz(tmp_path, x=x, y=LABELS[:2]))
    assert images.divisor == divisor
    assert images.stored == (float(values.min()), float(values.max()))
    assert said(images, note) if note else images.notes == ()
    assert any("only" in text for text in images.notes) == (1 < values.max() <= 64 and divisor > 1)
    pixels = images.pixels(0)
    assert 0 <= pixels.min() <= pixels.max() <= 1
    np.testing.assert_allclose(pixels.ravel(), np.resize(values, 16) / divisor, atol=1e-6)


def with_value(value: float, kind: type = np.float32) -> np.ndarray[Any, Any]:
    x = np.full((6, 1, 4, 5), 0.5, dtype=kind)
    x[4, 0, 1, 2] = value
    return x


@pytest.mark.parametrize(
    ("content", "message", "where"),
    [
        ({"x": with_value(np.nan)}, "not a finite", "x[4]"),
        ({"x": with_value(np.inf)}, "not a finite", "x[4]"),
        ({"x": with_value(-np.inf, np.float16)}, "not a finite", "x[4]"),
        ({"x": with_value(-0.5)}, "negative", "x[4]"),
        ({"x": with_value(-1.002e-5, np.float16)}, "negative", "x[4]"),
        ({"x": with_value(300)}, "above 255", "x[4]"),
        ({"x": with_value(256, np.uint16)}, "above 255", "x[4]"),
        ({"x": GREY > 9}, "type bool", "x"),
        ({"x": GREY.astype(np.complex64)}, "complex64", "x"),
        ({"x": GREY.astype(str)}, "type <U3", "x"),
        ({"x": GREY.astype(object)}, "Python objects", "x"),
        ({"x": np.zeros((6, 4), dtype=[("a", "u1")])}, "values of type [('a', 'u1')]", "x"),
        ({"x": GREY[:0], "y": LABELS[:0]}, "no images", "x"),
        ({"x": GREY[:, :, :0]}, "no images", "x"),
        ({"x": GREY.reshape(6, 20)}, "(6, 20)", "x"),
        ({"x": COLOUR.transpose(0, 2, 3, 1)}, "channels stand last", "x"),
        ({"y": LABELS[:5]}, "(5,)", "y"),
        ({"y": np.eye(6)}, "(6, 6)", "y"),
        ({"y": LABELS - 1}, "-1", "y[0]"),
        ({"y": LABELS + 0.5}, "0.5", "y[0]"),
        ({"y": np.array([0, 1, np.nan, 0, 1, 2])}, "nan", "y[2]"),
        ({"y": np.array([0, 1, 2, 0, 1e300, 2])}, "1e+300", "y[4]"),
        ({"y": LABELS > 0}, "type bool", "y[0]"),
        ({"y": np.array(list("abcabc"))}, "type <U1", "y[0]"),
        ({"y": LABELS.astype(object)}, "Python objects", "y"),
    ],
)
def test_arrays_that_are_no_images_are_refused(
    tmp_path: Path, content: dict[str, Any], message: str, where: str
) -> None:
    error = refuse(npz(tmp_path, **content))
    assert message in error.message
    assert error.where.endswith(f"d.npz, {where}" if where else "d.npz")
    assert error.hint


def test_the_mends_are_named(tmp_path: Path) -> None:
    assert "transpose(0, 3, 1, 2)" in refuse(npz(tmp_path, x=COLOUR.transpose(0, 2, 3, 1))).hint
    assert "normalisation" in refuse(npz(tmp_path, x=with_value(-2))).hint
    np.savez(tmp_path / "k.npz", images=GREY, labels=LABELS)
    assert "There are: images, labels." in refuse(tmp_path / "k.npz").hint
    np.save(tmp_path / "one.npy", GREY)
    assert "savez" in refuse(tmp_path / "one.npy").hint


def test_the_shape_must_be_that_of_the_model(tmp_path: Path) -> None:
    path = npz(tmp_path, x=COLOUR)
    assert load_images(path, shape=(3, 4, 4)).shape == (3, 4, 4)
    assert "(3, 32, 32)" in refuse(path, shape=(3, 32, 32)).message
    last = npz(tmp_path, "last.npz", x=RNG.integers(0, 256, (6, 3, 5, 7)))
    assert "last" in refuse(last, shape=(7, 3, 5)).message
    # Without a model a shape that could be either is taken as it is said to be.
    assert load_images(npz(tmp_path, "odd.npz", x=COLOUR[:, :, :3, :3])).shape == (3, 3, 3)


def header(shape: Any, kind: str = "<f4") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(path: Path, x: bytes, **others: bytes) -> Path:
    y = io.BytesIO()
    np.save(y, LABELS)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", x)
        for name, content in {"y": y.getvalue(), **others}.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (header((2**40, 1, 4, 4)) + b"\0" * 64, "promises 70368744177664 bytes in its header and holds 64"),
        (header((6, 1, 4, 5)) + b"\0" * 479, "promises 480 bytes in its header and holds 479"),
        (header((-6, 1, -4, 5)) + b"\0" * 480, "promises 480 bytes"),
        (header((2**33, 2**33, 2**33)), "promises"),
        (header((6, 1, 4, 5))[:40], "EOF"),
        (b"not an array", "magic"),
        (b"", "magic"),
        (header((6,), "|O") + pickle.dumps(print), "Python objects"),
    ],
)
def test_headers_that_lie_are_refused_before_memory_is_taken(tmp_path: Path, x: bytes, message: str) -> None:
    assert message in refuse(archive(tmp_path / "d.npz", x)).message


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "d.npz", header((6, 1, 400, 400)) + b"\0" * (4 * 6 * 160000))
    assert load_images(path).shape == (1, 400, 400)
    assert "unpacks to 402653190 bytes" in refuse(promise(path, x=(6, 1, 2**13, 2**13), y=(6,))).message


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    whole = npz(tmp_path).read_bytes()
    for name, content in (("cut", whole[:-40]), ("flip", whole[:90] + bytes([whole[90] ^ 255]) + whole[91:])):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        assert "cannot be read" in refuse(path).message
    path.write_bytes(b"something else")
    assert "no zip archive" in refuse(path).message
    path.write_bytes(b"<!DOCTYPE html>")
    assert "web page" in refuse(path).message
    path.write_bytes(b"")
    assert "empty" in refuse(path).message


def test_an_object_array_that_nobody_asks_for_is_left_alone(tmp_path: Path) -> None:
    images = load_images(npz(tmp_path, names=np.array([{}] * 6, dtype=object), mean=np.zeros(3)))
    assert len(images) == 6


def test_hwc_and_chw_rows_are_the_same_images(tmp_path: Path) -> None:
    last = load_images(write(tmp_path, rows(COLOUR.transpose(0, 2, 3, 1)), "hwc.csv"))
    first = load_images(write(tmp_path, rows(COLOUR), "chw.csv"), layout="chw")
    assert last.shape == first.shape == (3, 4, 4)
    assert (last.layout, first.layout) == ("CSV rows h,w,c", "CSV rows c,h,w")
    np.testing.assert_array_equal(last.pixels(5), COLOUR[5].astype(np.float32) / np.float32(255))
    assert [last.digest(index) for index in range(6)] == [first.digest(index) for index in range(6)]
    assert last.sha256 == first.sha256 == load_images(npz(tmp_path, x=COLOUR)).sha256
    assert last.pixels(5).flags.c_contiguous
    assert load_images(write(tmp_path, rows(COLOUR)), layout="hwc").digest(0) != last.digest(0)


@pytest.mark.parametrize(
    "head",
    [
        "",
        "label,a,b,c,d\n",
        "label,0,1,2,3\n",
        '"label","1x1","1x2","2x1","2x2"\n',
        "0,1,2,3,4\n",
        "\n\nlabel,a,b,c,d\n \n",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n\n"])
def test_a_header_and_blank_lines_are_no_images(tmp_path: Path, head: str, end: str) -> None:
    images = load_images(write(tmp_path, f"{head}7,0,10,20,30{end}2, 5,5 ,5,255{end}"))
    assert images.labels.tolist() == [7, 2]
    assert images.layout == "CSV rows h,w"
    np.testing.assert_array_equal(images.pixels(0), np.array([[[0, 10], [20, 30]]], dtype=np.float32) / np.float32(255))
    assert images.read(0).dtype == np.uint8


def test_floats_in_rows_are_taken_as_they_are(tmp_path: Path) -> None:
    x = RNG.random((6, 1, 3, 3))
    images = load_images(write(tmp_path, rows(x)))
    assert (images.divisor, images.notes) == (1, ())
    assert images.sha256 == load_images(npz(tmp_path, x=x)).sha256


def test_tabs_may_separate(tmp_path: Path) -> None:
    assert len(load_images(write(tmp_path, "1\t2\t3\t4\t5\n", "d.tsv"))) == 1


def test_the_shape_of_a_row_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, rows(GREY))
    assert load_images(path, shape=(1, 4, 5)).sha256 == load_images(npz(tmp_path)).sha256
    assert "no square image" in refuse(path).message
    error = refuse(path, shape=(3, 32, 32))
    assert "20 pixels" in error.message
    assert "3072" in error.message


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("1,2,3,4,5\n1,2,3,4\n", "4 fields", ":2"),
        ("1,2,3,4,5\n\n1,2,3,4,5,6\n", "6 fields", ":3"),
        ("1,2,3,4,5\n1,2,x,4,5\n", "'x' is not a finite number", ":2, column 3"),
        ("label,a,b,c,d\n1,2,,4,5\n", "empty", ":2, column 3"),
        ("1,2,3,4,5\n1,2,3,4,\n", "empty", ":2, column 5"),
        ("1,2,3,4,5\n1,2,NA,4,5\n", "'NA'", ":2, column 3"),
        ("1,2,3,4,5\n1,2,nan,4,5\n", "'nan'", ":2, column 3"),
        ("1,2,3,4,5\n1,2,inf,4,5\n", "inf", ":2, column 3"),
        ("1,2,3,4,5\n1,2,1e999,4,5\n", "inf", ":2, column 3"),
        ("1,2,3,4,5\n1,2,True,4,5\n", "'True'", ":2, column 3"),
        ("l,a,b,c,d\n\n1,2,3,-4,5\n", "negative", ":3, column 4"),
        ("l,a,b,c,d\n\n1,2,3,4,256\n", "above 255", ":3, column 5"),
        ("1,2,3,4,5\n1.5,2,3,4,5\n", "1.5", ":2, column 1"),
        ("1,2,3,4,5\n-1,2,3,4,5\n", "-1", ":2, column 1"),
        ("1,2,3,4,5\ncat,2,3,4,5\n", "'cat'", ":2, column 1"),
        ("cat,2,3,4,5\n1,2,3,4,5\n", "'cat'", ":1, column 1"),
        ("a,b,c,d,label\n2,3,4,5,1\n", "'label' is not the first", ":1"),
        ("label,a,b,c,d\n", "no rows", ""),
        ("1,2,3\n", "2 pixels", ":1"),
        ("1\n", "0 pixels", ":1"),
        ("99999999999999999999,2,3,4,5\n", "too large", ":1, column 1"),
        ("1,99999999999999999999999,3,4,5\n", "too large", ":1, column 2"),
        ("", "empty", ""),
        ("<!DOCTYPE html><html>", "web page", ""),
    ],
)
def test_rows_that_are_no_images_are_refused_with_their_place(
    tmp_path: Path, text: str, message: str, place: str
) -> None:
    error = refuse(write(tmp_path, text))
    assert message in error.message
    assert error.where.endswith(f"d.csv{place}")


def test_paths_and_options_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    path = npz(tmp_path)
    assert "d.npz" in refuse(tmp_path / "d.nqz").hint
    assert "layout" in refuse(path, layout="nhwc").message
    os.mkfifo(tmp_path / "pipe.csv")
    assert "ordinary" in refuse(tmp_path / "pipe.csv").message


def test_folders_by_class_follow_the_alphabet(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path, ("dog", "cat")))
    assert images.names == ("cat/cat0.png", "cat/cat1.png", "dog/dog0.png", "dog/dog1.png")
    assert images.labels.tolist() == [0, 0, 1, 1]
    assert images.class_names == ("cat", "dog")
    assert (images.layout, images.stored, images.divisor) == ("folders by class", (0.0, 255.0), 255.0)
    assert images.shape == (3, 4, 5)
    assert images.notes == (
        "The values 0..255 were divided by 255.",
        "Labels follow the alphabetical order of the classes: 0 cat, 1 dog.",
    )
    stored = np.asarray(Image.open(tmp_path / "dog" / "dog1.png"))
    pixels = images.pixels(3)
    np.testing.assert_array_equal(pixels, stored.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    assert pixels.flags.c_contiguous
    assert images.digest(3) == images.digest(3) != images.digest(2)


@pytest.mark.parametrize("suffix", ["png", "jpg", "JPEG", "bmp", "webp", "tif", "tiff", "ppm", "gif"])
def test_every_kind_of_file_is_read(tmp_path: Path, suffix: str) -> None:
    picture(tmp_path / "cat" / f"a.{suffix}")
    assert load_images(tmp_path).pixels(0).shape == (3, 4, 5)


def test_a_pgm_has_one_channel(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "a.pgm", "L")
    images = load_images(tmp_path, shape=(1, 4, 5))
    assert images.pixels(0).shape == (1, 4, 5)
    assert not said(images, "grey")
    assert said(load_images(tmp_path), "1 image was grey")


def test_nothing_is_decoded_before_it_is_asked_for(tmp_path: Path) -> None:
    classes(tmp_path, ("cat", "dog", "eel", "fox"), 50)
    picture(tmp_path / "cat" / "z.jpg")
    for path in tmp_path.glob("*/*1.png"):
        damaged = bytearray(path.read_bytes())
        damaged[damaged.index(b"IDAT") + 6] ^= 255
        path.write_bytes(damaged)
    images = load_images(tmp_path)
    assert len(images) == 201
    places = [place for place, name in enumerate(images.names) if name.endswith("1.png")]
    assert len(places) == 20 and 7 not in places
    images.pixels(7)
    for place in places:
        with pytest.raises(InputError, match="cannot be read"):
            images.pixels(place)


def test_the_hash_of_a_folder_depends_on_its_files_and_not_on_its_place(tmp_path: Path) -> None:
    first = load_images(classes(tmp_path / "a"))
    again = load_images(classes(tmp_path / "b"))
    assert first.sha256 == again.sha256
    assert load_images(tmp_path / "b", shape=(1, 4, 5)).sha256 != first.sha256
    with (tmp_path / "b" / "cat" / "cat0.png").open("ab") as file:
        file.write(b"more")
    assert load_images(tmp_path / "b").sha256 != first.sha256


@pytest.mark.parametrize(
    ("names", "labels", "known", "note"),
    [
        (("dog", "black cat"), [1, 0], ("black cat", "dog"), "of the model"),
        (("DOG", "black_cat"), [2, 1], ("ant", "Black Cat", "dog"), "of the model"),
        (("dog", "cat"), [1, 0], ("dog", "ant"), "only 1 of 2"),
        (("dog", "cat"), [1, 0], ("dog", "cat", "cat"), "only 1 of 2"),
        (("dog", "cat"), [1, 0], (), "alphabetical"),
    ],
)
def test_names_of_the_model_give_the_labels_all_or_none(
    tmp_path: Path, names: tuple[str, str], labels: list[int], known: tuple[str, ...], note: str
) -> None:
    images = load_images(classes(tmp_path, names, 1), class_names=known)
    assert dict(zip([name.split("/")[0] for name in images.names], images.labels.tolist(), strict=True)) == dict(
        zip(names, labels, strict=True)
    )
    assert said(images, note)
    assert images.class_names == (known if note == "of the model" else tuple(sorted(names)))


def test_two_folders_of_one_name_of_the_model_are_kept_apart(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path, ("a_b", "a b"), 1), class_names=("a b", "c"))
    assert images.labels.tolist() == [0, 1]
    assert images.class_names == ("a b", "a_b")


def test_class_folders_named_by_numbers_are_the_labels(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path, ("1", "2", "10"), 1))
    assert images.labels.tolist() == [1, 10, 2]
    assert images.class_names == ()
    assert said(images, "were taken for the labels")


def test_two_spellings_of_one_number_follow_the_alphabet(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path, ("01", "1"), 1))
    assert images.labels.tolist() == [0, 1]
    assert images.class_names == ("01", "1")


@pytest.mark.parametrize(
    ("splits", "chosen"),
    [(("train", "validation", "test"), "test"), (("train", "validation"), "validation"), (("train",), "train")],
)
def test_one_split_is_taken_and_told(tmp_path: Path, splits: tuple[str, ...], chosen: str) -> None:
    for split in splits:
        classes(tmp_path / split, each=1)
    images = load_images(tmp_path)
    assert images.names == (f"{chosen}/cat/cat0.png", f"{chosen}/dog/dog0.png")
    assert images.class_names == ("cat", "dog")
    assert said(images, f"split '{chosen}'")
    assert said(images, "trained on") == (chosen == "train")


@pytest.mark.parametrize("table", [False, True])
def test_a_split_beside_other_folders_is_known_by_its_classes_or_its_table(tmp_path: Path, table: bool) -> None:
    picture(tmp_path / "drafts" / "x.png")
    if table:
        picture(tmp_path / "test" / "cat.png")
        write(tmp_path / "test", "file_name,label\ncat.png,cat\n", "metadata.csv")
    else:
        classes(tmp_path / "test", each=1)
    assert load_images(tmp_path).names[0] == ("test/cat.png" if table else "test/cat/cat0.png")


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path, ("bus", "train")))
    assert images.class_names == ("bus", "train")
    for folder in ("a", "b"):
        picture(tmp_path / folder / "test" / "x.png")
    assert "no class folders" in refuse(tmp_path / "a").message


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("split", ["", "test"])
def test_a_metadata_table_gives_labels_and_attributes(tmp_path: Path, kind: str, split: str) -> None:
    folder = tmp_path / split
    for name in ("a.png", "sub/b.png", "c.png"):
        picture(folder / name)
    data = [("sub/b.png", "dog", "old"), ("a.png", "cat", ""), ("c.png", "dog", "new")]
    if kind == "csv":
        text = "file_name,label,age\n" + "".join(",".join(row) + "\n" for row in data)
    else:
        text = "".join(f'{{"file_name": "{n}", "label": "{one}", "age": "{age}"}}\n' for n, one, age in data)
    write(folder, text, f"metadata.{kind}")
    images = load_images(tmp_path, by=("age",))
    prefix = f"{split}/" if split else ""
    assert images.names == tuple(prefix + name for name in ("sub/b.png", "a.png", "c.png"))
    assert images.labels.tolist() == [1, 0, 1]
    assert images.class_names == ("cat", "dog")
    assert images.attributes == {"age": ("old", "unknown", "new")}
    assert images.layout == f"files of metadata.{kind}"
    assert load_images(tmp_path, class_names=("dog", "cat")).labels.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(
        images.pixels(1)[:, 0, 0] * 255, np.asarray(Image.open(folder / "a.png"))[0, 0].astype(np.float32)
    )


def test_a_metadata_table_may_name_ids_and_splits(tmp_path: Path) -> None:
    for name in ("train/a.png", "test/b.png", "test/c.png"):
        picture(tmp_path / name)
    write(tmp_path, "file_name,label\ntrain/a.png,0\ntest/b.png,7\n./test/c.png,3\n", "metadata.csv")
    images = load_images(tmp_path, class_names=("x", "y"))
    assert images.names == ("test/b.png", "test/c.png")
    assert images.labels.tolist() == [7, 3]
    assert images.class_names == ("x", "y")
    assert said(images, "split 'test'", "train")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("file_name,class\na.png,1\n", "'label'", ""),
        ("path,label\na.png,1\n", "'file_name'", ""),
        ("file_name,label\na.png,\n", "no label", ":2"),
        ("file_name,label\n,1\n", "no file_name", ":2"),
        ("file_name,label\na.png,1\na.png,1\n", "line 2", ":3"),
        ("file_name,label\nb.png,1\n", "no such file", ":2 (b.png)"),
        ("file_name,label\n../out.png,1\n", "out of its folder", ":2"),
        ("file_name,label\n/etc/passwd,1\n", "absolute", ":2"),
        ("file_name,label\nhttp://x/a.png,1\n", "no such file", ":2 (http:/x/a.png)"),
    ],
)
def test_metadata_that_cannot_be_right_is_refused(tmp_path: Path, text: str, message: str, place: str) -> None:
    picture(tmp_path / "out.png")
    picture(tmp_path / "root" / "a.png")
    write(tmp_path / "root", text, "metadata.csv")
    error = refuse(tmp_path / "root")
    assert message in error.message
    assert error.where.endswith(f"metadata.csv{place}")


def test_links_out_of_the_folder_are_refused_and_links_inside_are_followed(tmp_path: Path) -> None:
    root = classes(tmp_path / "root")
    (root / "cat" / "same.png").symlink_to(root / "dog" / "dog0.png")
    images = load_images(root)
    assert images.digest(2) == images.digest(3)
    outside = picture(tmp_path / "out" / "secret.png")
    link = root / "cat" / "z.png"
    link.symlink_to(outside)
    error = refuse(root)
    assert (error.where, "out of its folder" in error.message) == (str(link), True)
    link.unlink()
    (root / "eel").symlink_to(outside.parent)
    assert refuse(root).where == str(root / "eel")
    (root / "eel").unlink()
    (root / "test").symlink_to(classes(tmp_path / "elsewhere"))
    assert "out of its folder" in refuse(root).message
    (root / "test").unlink()
    (root / "metadata.csv").symlink_to(write(tmp_path, "file_name,label\ncat/cat0.png,1\n"))
    assert "out of its folder" in refuse(root).message


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    root = classes(tmp_path)
    write(root, "x", "README.md")
    write(root / "cat", "x", "notes.txt")
    write(root / "cat", "x", ".hidden.png")
    (root / ".git").mkdir()
    (root / "__MACOSX").mkdir()
    (root / "emu").mkdir()
    picture(root / "dog" / "deep" / "a.png")
    images = load_images(root)
    assert len(images) == 4
    assert images.class_names == ("cat", "dog", "emu")
    assert said(images, "2 files were left out")
    assert said(images, "1 folder was left out")
    assert said(images, "1 class folder was empty", "emu")


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    assert "no class folders" in refuse(tmp_path).message
    (tmp_path / "cat").mkdir()
    assert "no images" in refuse(tmp_path).message
    (tmp_path / "cat").rmdir()
    picture(tmp_path / "test" / "a.png")
    assert "no class folders" in refuse(tmp_path).message


def test_other_sizes_are_refused_or_brought_to_one(tmp_path: Path) -> None:
    root = classes(tmp_path)
    picture(root / "dog" / "wide.png", size=(9, 4))
    error = refuse(root)
    assert error.where == str(root / "dog" / "wide.png")
    assert "9 x 4" in error.message
    assert "5 x 4" in error.message
    others = refuse(root, shape=(3, 4, 9))
    assert others.where == str(root)
    assert others.message.split("\n")[:2] == [
        "4 of 5 images cannot be used:",
        "cat/cat0.png: The image has 5 x 4 pixels (w x h), the model takes 9 x 4.",
    ]
    assert others.hint == "Bring all images to one size first."
    square = refuse(root, shape=(3, 32, 32)).hint
    assert "--resize 32 --crop 32" in square and "processor" not in square
    both = refuse(root, shape=(3, 32, 32), processor=True).hint
    assert "--resize processor" in both and "--resize 32 --crop 32" in both
    assert "--resize 256 --crop 224, or the model's own size" in error.hint and "processor" not in error.hint
    assert "not known" in refuse(root, resize=True).message
    images = load_images(root, shape=(3, 4, 5), resize=True)
    assert said(images, "1 image was brought to 5 x 4")
    assert images.pixels(4).shape == (3, 4, 5)
    reference = Image.open(root / "dog" / "wide.png").resize((5, 4), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal((images.pixels(4) * 255).round(), np.asarray(reference).transpose(2, 0, 1))


def test_all_images_whose_headers_are_wrong_are_named_at_once(tmp_path: Path) -> None:
    root = classes(tmp_path, each=8)
    for number in range(6):
        (root / "cat" / f"cat{number}.png").write_bytes(b"no image")
        picture(root / "dog" / f"dog{number}.png", size=(9, 4))
    error = refuse(root)
    count, *lines = error.message.split("\n")
    assert count == "12 of 16 images cannot be used:" and error.where == str(root)
    assert lines[0].startswith("cat/cat0.png: The file cannot be read as an image")
    assert lines[6] == "dog/dog0.png: The image has 9 x 4 pixels (w x h), the first one (cat/cat6.png) has 5 x 4."
    assert len(lines) == 11 and lines[-1] == "and 2 more"


def test_an_image_that_is_not_taken_may_have_any_size(tmp_path: Path) -> None:
    root = classes(tmp_path)
    picture(root / "dog" / "wide.png", size=(9, 4))
    (root / "dog" / "xbroken.png").touch()
    assert "allow" not in (refuse(root).hint or "")
    assert len(load_images(root, taken=slice(0, 4))) == 6
    assert load_images(root, taken=slice(0, 4, 3)).pixels(3).shape == (3, 4, 5)
    assert refuse(root, taken=slice(0, 5, 4)).where == str(root / "dog" / "wide.png")


def test_channels_follow_the_model_and_changes_are_counted(tmp_path: Path) -> None:
    for name, mode in (("a.png", "RGBA"), ("b.png", "LA"), ("c.jpg", "CMYK"), ("d.png", "L"), ("e.png", "P")):
        picture(tmp_path / "cat" / name, mode)
    images = load_images(tmp_path)
    assert said(images, "2 images were stored with transparency")
    assert said(images, "1 image was converted from CMYK to RGB")
    assert said(images, "2 images were grey")
    assert {images.pixels(index).shape for index in range(5)} == {(3, 4, 5)}
    grey = load_images(tmp_path, shape=(1, 4, 5))
    assert said(grey, "2 images were converted to grey")
    assert {grey.pixels(index).shape for index in range(5)} == {(1, 4, 5)}
    assert "channels" in refuse(tmp_path, shape=(4, 4, 5)).message


def test_a_marked_rotation_is_ignored_and_told(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(tmp_path / "cat" / "a.jpg", exif=exif)
    picture(tmp_path / "cat" / "b.png", exif=exif)
    images = load_images(tmp_path)
    assert images.shape == (3, 4, 5)
    assert said(images, "2 images were marked as rotated")


def test_a_tiff_that_is_marked_as_rotated_is_refused(tmp_path: Path) -> None:
    exif = Image.Exif()
    for orientation in (1, 6):
        exif[0x0112] = orientation
        picture(tmp_path / "cat" / f"{orientation}.tiff", exif=exif)
    error = refuse(tmp_path)
    assert "marked as rotated" in error.message and error.where.endswith("6.tiff") and "upright" in error.hint
    (tmp_path / "cat" / "6.tiff").unlink()
    assert load_images(tmp_path).shape == (3, 4, 5)


@pytest.mark.parametrize(("suffix", "kind"), [("gif", "GIF"), ("png", "PNG"), ("webp", "WEBP"), ("tiff", "TIFF")])
def test_several_frames_are_refused(tmp_path: Path, suffix: str, kind: str) -> None:
    (tmp_path / "cat").mkdir()
    frames = [Image.fromarray(frame[0] if frame.shape[0] == 1 else frame) for frame in GREY]
    path = tmp_path / "cat" / f"a.{suffix}"
    frames[0].save(path, format=kind, save_all=True, append_images=frames[1:])
    error = refuse(tmp_path)
    assert "several frames" in error.message
    assert error.where == str(path)


def test_16_bits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.fromarray(RNG.integers(0, 60000, (4, 5), dtype=np.uint16)).save(tmp_path / "cat" / "a.png")
    assert "8 bits" in refuse(tmp_path).message


def bomb(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + b"\0\0\0\0IDAT"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"no image at all", "cannot be read as an image"),
        (b"\x89PNG\r\n\x1a\n", "cannot be read as an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 4\n%%EndComments\n", "cannot be read as an image"),
        (b"<html>log in</html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (bomb(9000, 9000), "too large"),
        (bomb(50000, 50000), "too large"),
    ],
)
def test_files_that_are_no_images_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    root = classes(tmp_path)
    path = root / "cat" / "z.png"
    path.write_bytes(content)
    error = refuse(root)
    assert message in error.message
    assert error.where == str(path)


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(classes(tmp_path) / "cat" / "z.png")
    assert "ordinary" in refuse(tmp_path).message
    (tmp_path / "cat" / "z.png").unlink()
    (tmp_path / "cat" / "z.png").symlink_to("nothing.png")
    assert "no such file" in refuse(tmp_path).message


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_file_that_is_cut_off_is_told_when_it_is_decoded(tmp_path: Path, suffix: str) -> None:
    path = picture(tmp_path / "cat" / f"a.{suffix}", size=(64, 64))
    path.write_bytes(path.read_bytes()[:900])
    images = load_images(tmp_path)
    with pytest.raises(InputError, match="cannot be read as an image") as caught:
        images.pixels(0)
    assert caught.value.where == str(path)


def test_a_file_that_changes_after_listing_is_told(tmp_path: Path) -> None:
    images = load_images(classes(tmp_path))
    picture(tmp_path / "cat" / "cat0.png", size=(6, 4))
    with pytest.raises(InputError, match="changed"):
        images.pixels(0)


def test_columns_of_an_npz_are_attributes(tmp_path: Path) -> None:
    path = npz(
        tmp_path,
        sex=np.array(["f", "m", "", "NA", "f", "m"]),
        age=np.array([20, 30, 40, 20, 30, 40]),
        weight=np.array([1.0, 2.5, np.nan, 1, 1, 1]),
        seen=np.array([True, False] * 3),
        raw=np.array([b"a", b"b"] * 3),
    )
    images = load_images(path, by=("sex", "age", "weight", "seen", "raw"))
    assert images.attributes == {
        "sex": ("f", "m", "unknown", "unknown", "f", "m"),
        "age": ("20", "30", "40", "20", "30", "40"),
        "weight": ("1", "2.5", "unknown", "1", "1", "1"),
        "seen": ("true", "false") * 3,
        "raw": ("a", "b") * 3,
    }
    assert said(images, "sex: 2 have no value")
    error = refuse(path, by=("sez",))
    assert "Did you mean 'sex'?" in error.hint
    assert "age" in error.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "sex,age\n" + "f,1\nm,2\n,3\nf,4\nm,5\nf,6\n"),
        ("a.tsv", "idx\tsex\n5\tf\n4\tm\n3\tf\n2\tunknown\n1\tm\n0\tf\n"),
        ("b.csv", "sex,idx\nf,0\nm,1\nf,3\nm,4\nf,5\n"),
    ],
)
def test_a_table_gives_attributes_in_order_or_by_index(tmp_path: Path, name: str, text: str) -> None:
    # What stands in the table goes before what the data hold.
    path = npz(tmp_path, sex=np.array(["x"] * 6), site=np.array(list("aabbcc")))
    images = load_images(path, by=("sex", "site"), attributes=write(tmp_path, text, name))
    assert images.attributes == {
        "sex": ("f", "m", "unknown", "f", "m", "f"),
        "site": ("a", "a", "b", "b", "c", "c"),
    }
    assert said(images, "images have no row") == said(images, "1 of 6 images") == (name == "b.csv")
    assert not said(images, "not used")


def test_a_table_may_name_the_files_of_a_folder(tmp_path: Path) -> None:
    root = classes(tmp_path / "root", each=1)
    table = write(tmp_path, "file_name,sex\ndog/dog0.png,f\ncat/cat0.png,m\n")
    assert load_images(root, by=("sex",), attributes=table).attributes == {"sex": ("m", "f")}
    error = refuse(root, by=("sex",), attributes=write(tmp_path, "file_name,sex\ndog0.png,f\n"))
    assert "'dog0.png' names no image" in error.message
    assert "'cat/cat0.png'" in error.hint


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("sex\nf\nm\n", "2 rows", ""),
        ("idx,sex\n6,f\n", "'6' names no image", ":2"),
        ("idx,sex\n-1,f\n", "'-1' names no image", ":2"),
        ("idx,sex\n0,f\n0,m\n", "stands twice", ":3"),
        ("idx,age\n0,1\n", "no column 'sex'", ", --by"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, text: str, message: str, place: str) -> None:
    error = refuse(npz(tmp_path), by=("sex",), attributes=write(tmp_path, text, "a.csv"))
    assert message in error.message
    assert error.where.endswith(f"a.csv{place}")


def test_a_table_that_nobody_asks_for_is_told_and_reserved_names_are_refused(tmp_path: Path) -> None:
    assert said(load_images(npz(tmp_path), attributes=write(tmp_path, "idx,sex\n0,f\n", "a.csv")), "not used")
    assert "& or =" in refuse(npz(tmp_path, **{"a=b": LABELS}), by=("a=b",)).message
