"""Does a reader of single images give the very pixels that the whole data set was checked with?"""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from probes.classifiers.image_readers import ImageReader, ImageSource
from probes.classifiers.images import Images, load_images
from probes.core.errors import InputError
from probes.files.images import Resizing

X = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 6), dtype=np.uint8)
SMALLER = Resizing(short=5, crop=(4, 4))


def arrays(folder: Path, save: Callable[..., None], x: object) -> Path:
    save(folder / "images.npz", x=x, y=np.arange(5))
    return folder / "images.npz"


def rows(folder: Path) -> Path:
    lines = [",".join(map(str, [label, *image.ravel()])) for label, image in enumerate(X)]
    (folder / "images.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder / "images.csv"


def pictures(folder: Path) -> Path:
    from PIL import Image

    for place, image in enumerate(X):
        file = folder / "data" / "test" / f"class {place % 2}" / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(file)
    return folder / "data"


MADE: dict[str, Callable[[Path], Path]] = {
    "npz": lambda folder: arrays(folder, np.savez, X),
    "compressed npz": lambda folder: arrays(folder, np.savez_compressed, (X / 255).astype(np.float32)),
    "grey npz": lambda folder: arrays(folder, np.savez, X[:, 0]),
    "csv": rows,
    "folder": pictures,
    "folder resized": pictures,
}


def opened(made: Path, resize: bool | Resizing = False) -> tuple[Images, ImageSource]:
    layout = "chw" if made.suffix == ".csv" else "hwc"
    images = load_images(made, layout=layout, resize=resize, shape=(3, 4, 4) if resize else None)
    return images, ImageSource.of(images, layout=layout, resize=resize)


@pytest.mark.parametrize("kind", MADE)
def test_each_image_is_read_as_it_was_with_all_others(tmp_path: Path, kind: str) -> None:
    images, source = opened(MADE[kind](tmp_path), SMALLER if kind == "folder resized" else False)
    reader = ImageReader(pickle.loads(pickle.dumps(source)))
    for index in (3, 0, 4):
        found = reader.pixels(index, images.names[index], images.digest(index))
        assert found.dtype == np.float32 and np.array_equal(found, images.pixels(index))
    with pytest.raises(InputError, match="another image"):
        reader.pixels(1, images.names[1], images.digest(2))


@pytest.mark.parametrize("kind", MADE)
def test_data_that_have_lost_an_image_are_refused(tmp_path: Path, kind: str) -> None:
    images, source = opened(MADE[kind](tmp_path), SMALLER if kind == "folder resized" else False)
    with pytest.raises(InputError):
        ImageReader(source).pixels(7, "test/class 1/7.png", images.digest(0))


def test_a_name_leads_nowhere_else(tmp_path: Path) -> None:
    images, source = opened(pictures(tmp_path))
    (tmp_path / "outside.png").write_bytes((tmp_path / "data" / images.names[0]).read_bytes())
    with pytest.raises(InputError):
        ImageReader(source).pixels(0, "../outside.png", images.digest(0))
