"""Are pixels the same as Pillow's own, is memory bounded, and does a bad image cost no other one?"""

import io
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from probes.classifiers.images import load_images
from probes.contained import Limits, Session
from probes.core.errors import InputError
from probes.files import images
from probes.files.image_folders import ImageFile, ImageFolder, ImageRun
from probes.files.images import FORMATS, Decoder

RNG = np.random.default_rng(3)


def picture(size: tuple[int, int], mode: str) -> Image.Image:
    """Return an image of noise, with transparency where its mode can have it."""
    values = RNG.integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    whole = Image.fromarray(values)
    if mode == "P":
        indexed = whole.convert("RGB").quantize(37)
        indexed.info["transparency"] = bytes(range(37))
        return indexed
    return whole.convert("RGB").convert(mode) if mode != "RGBA" else whole


def files(folder: Path, count: int, *, size: tuple[int, int] = (5, 4)) -> list[ImageFile]:
    """Write images whose pixels are all their own number."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number:03d}.png" for number in range(count)]
    for number, path in enumerate(paths):
        Image.new("L", size, number).save(path)
    return [ImageFile(path, f"line {number}") for number, path in enumerate(paths)]


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
@pytest.mark.parametrize("channels", [1, 3])
def test_strips_give_the_pixels_of_the_whole(mode: str, channels: int) -> None:
    target = "L" if channels == 1 else "RGB"
    for size, wanted in itertools.product([(7, 23), (40, 3)], [None, (7, 5), (90, 23), (3, 40), (16, 16)]):
        image = picture(size, mode)
        width, height = wanted or size
        for strip in (1, 50, 10_000):
            found = images.pixels(image, (channels, height, width), strip=strip)
            plain = image.convert(target)
            plain = plain if wanted is None else plain.resize(wanted, Image.Resampling.BILINEAR)
            expected = np.asarray(plain, dtype=np.uint8).reshape(height, width, channels).transpose(2, 0, 1)
            np.testing.assert_array_equal(found, expected)


PEAK = """
import re, sys
from pathlib import Path
from probes.classifiers.images import load_images
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
start, root, shape = peak(), Path(sys.argv[1]), eval(sys.argv[2])
images = load_images(root, shape=shape, resize=shape is not None)
images.pixels(0)
images.digest(0)
print(peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process since its start is told by Linux")
@pytest.mark.parametrize(("side", "shape", "most"), [(8000, (3, 224, 224), 32), (4000, None, 260)])
def test_a_small_file_of_many_pixels_takes_bounded_memory(tmp_path: Path, side: int, shape: Any, most: float) -> None:
    """MiB of this process: of 4000 x 4000 pixels in three channels as bytes (46) and as float32 (183)."""
    (tmp_path / "cat").mkdir()
    Image.new("L", (side, side)).save(tmp_path / "cat" / "a.png")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path), str(shape)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < most


@pytest.mark.parametrize("format", ["WEBP", "JPEG"])
def test_images_as_large_as_is_stated_are_decoded_within_the_limits(tmp_path: Path, format: str) -> None:
    options: dict[str, dict[str, Any]] = {"WEBP": {"method": 0}, "JPEG": {"progressive": True}}
    path = tmp_path / "a.image"
    Image.new("RGB", (8192, 8192), (9, 9, 9)).save(path, format, **options[format])
    folder = ImageFolder(tmp_path, tuple(FORMATS))
    (found,) = folder.pixels([ImageFile(path, "a")], (3, 16, 16), resize=True)
    assert found.shape == (3, 16, 16)
    assert (found == 9).all()


def test_an_image_that_takes_too_much_is_named_and_costs_no_other_one(tmp_path: Path) -> None:
    listed = files(tmp_path, 9)
    Image.new("RGB", (6000, 6000)).save(listed[6].path)
    folder = ImageFolder(tmp_path, ("PNG",), limits=Limits(memory=2**25, seconds=5))
    answers = folder.answers(listed, (1, 4, 5), resize=True)
    assert [index for index, answer in enumerate(answers) if isinstance(answer, InputError)] == [6]
    assert isinstance(answers[6], InputError)
    assert (answers[6].where, "limits" in answers[6].message) == ("line 6", True)


def test_refusals_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    listed = files(tmp_path, 6)
    listed[3].path.write_bytes(b"no image")
    listed[4].path.unlink()
    folder = ImageFolder(tmp_path, ("PNG",))
    for read in (folder.headers(listed), folder.pixels(listed, (1, 4, 5))):
        for _ in range(3):
            next(read)
        with pytest.raises(InputError, match="cannot be read as an image") as caught:
            next(read)
        assert caught.value.where == "line 3"
    with pytest.raises(InputError, match="no such file"):
        list(folder.headers(listed[4:]))


def test_images_are_read_ahead_in_their_order_only(tmp_path: Path) -> None:
    listed = files(tmp_path, 40)
    listed[30].path.write_bytes(b"no image")
    asked: list[int] = []

    class Counting(ImageFolder):
        def answers(self, files: Sequence[ImageFile], shape: Any, resize: bool) -> list[Any]:
            asked.append(len(files))
            return super().answers(files, shape, resize)

    run = ImageRun(Counting(tmp_path, ("PNG",)), listed, (1, 4, 5), False, range(0, 40, 2))
    order = [0, 0, 2, 4, 6, 8, 10, 12, 14, 16, 3, 38, 20, 22, 22]
    assert [int(run.read(index)[0, 0, 0]) for index in order] == order
    assert asked == [1, 1, 2, 4, 8, 1, 1, 1, 2, 1]
    assert [int(run.read(index)[0, 0, 0]) for index in (24, 26, 28)] == [24, 26, 28]
    with pytest.raises(InputError, match="cannot be read"):
        run.read(30)
    assert int(run.read(32)[0, 0, 0]) == 32


def test_a_folder_made_anew_is_read(tmp_path: Path) -> None:
    for value in (1, 2):
        (tmp_path / "in").mkdir()
        Image.new("L", (5, 4), value).save(tmp_path / "in" / "a.png")
        (found,) = ImageFolder(tmp_path / "in", ("PNG",)).pixels([ImageFile(tmp_path / "in" / "a.png", "a")], (1, 4, 5))
        assert (found == value).all()
        (tmp_path / "in").rename(tmp_path / f"old{value}")


@pytest.mark.skipif(sys.platform != "linux", reason="landlock is of Linux")
def test_a_reader_sees_its_folder_and_no_other(tmp_path: Path) -> None:
    (inside,), (outside,) = files(tmp_path / "in", 1), files(tmp_path / "out", 1)
    reader = Session(Decoder, ("PNG",), reads=[tmp_path / "in"], loads=("PIL.Image",))
    seen, hidden = reader.ask("headers", [str(inside.path), str(outside.path)])
    assert seen == ("L", 5, 4, False, False)
    assert "Permission denied" in hidden["refused"]


def test_many_frames_are_refused_without_counting_them(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    one = io.BytesIO()
    Image.new("P", (1, 1)).save(one, "GIF")
    head, frame = one.getvalue()[:-1].split(b",", 1)
    (tmp_path / "cat" / "a.gif").write_bytes(head + (b"," + frame) * 300_000 + b";")
    with pytest.raises(InputError, match="several frames"):
        load_images(tmp_path)
