"""Files of numbers alone: the same values in any blocks, and one decimal mark in the whole file."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probes.classifiers.image_arrays import read_arrays
from probes.core.errors import InputError
from probes.files.number_rows import NumberRows
from probes.generators.point_files import read_number_rows

RNG = np.random.default_rng(3)


def write(folder: Path, text: str, name: str = "n.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def table(values: np.ndarray, separator: str = ",", mark: str = ".") -> str:
    return "".join(separator.join(str(one).replace(".", mark) for one in row) + "\n" for row in values.tolist())


@pytest.mark.parametrize("size", [1, 40, 2**22])
@pytest.mark.parametrize("header", ["", "\n label,a,b,c,d\n\n"])
@pytest.mark.parametrize("kind", ["bytes", "wide", "floats", "mixed"])
def test_pixels_are_those_of_the_whole_file(tmp_path: Path, size: int, header: str, kind: str) -> None:
    values = np.concatenate([RNG.integers(0, 9, (60, 1)), RNG.integers(0, 256, (60, 4))], axis=1).astype(object)
    if kind == "wide":
        values[50, 2] = 70_000
    if kind != "bytes" and kind != "wide":
        values[30 if kind == "mixed" else 0 :, 1:] = RNG.random((60, 4))[30 if kind == "mixed" else 0 :]
    text = table(values)
    # Read at once, as it was before it came in blocks.
    frame = pd.read_csv(io.StringIO(text), header=None, low_memory=False).to_numpy()
    whole = frame[:, 1:].astype(np.uint8) if kind == "bytes" else frame[:, 1:]
    found = read_arrays(write(tmp_path, header + text), layout="hwc", shape=None, size=size)
    assert found.values.dtype == whole.dtype and found.labels.dtype == frame.dtype
    assert found.values.tobytes() == whole.tobytes() and found.labels.tobytes() == frame[:, 0].tobytes()
    line = header.count("\n") + 31
    assert found.locate(30, 2) == f"{tmp_path / 'n.csv'}:{line}, column 4"


@pytest.mark.parametrize("size", [1, 40, 2**22])
def test_decimal_commas_of_pixels_need_semicolons(tmp_path: Path, size: int) -> None:
    values = np.concatenate([RNG.integers(0, 9, (60, 1)).astype(object), RNG.random((60, 4)).astype(object)], axis=1)
    plain = read_arrays(write(tmp_path, table(values)), layout="hwc", shape=None, size=size)
    commas = read_arrays(write(tmp_path, table(values, ";", ",")), layout="hwc", shape=None, size=size)
    points = read_arrays(write(tmp_path, table(values, ";")), layout="hwc", shape=None, size=size)
    for other, layout in ((commas, " between semicolons, with decimal commas"), (points, " between semicolons")):
        assert other.values.tobytes() == plain.values.tobytes() and other.layout == plain.layout + layout


@pytest.mark.parametrize(
    ("content", "said", "where"),
    [
        ("1,5;2\n" * 9 + "1.5;2\n", "'1.5' has a decimal point, and other numbers of the file have a comma", ":10, "),
        ("1.5;2\n" * 9 + "3;1,25\n", "'1,25' has a decimal comma, and other numbers of the file have a po", ":10, "),
        ("1,234;2\n3;4,567\n", "'1,234' may be 1234 or 1.234: every comma in this file has three dig", ":1, column 1"),
        ("1,5;2\n" * 9 + "1.234,5;2\n", "'1.234,5' is not a finite number.", ":10, column 1"),
        ("1,5;2\n" * 9 + "2\n", "The row has 1 fields, the header 2.", ":10"),
        ("1,2\n" * 9 + '"1,5",2\n', "'1,5' is not a finite number.", ":10, column 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2**22])
def test_a_file_has_one_decimal_mark(tmp_path: Path, content: str, said: str, where: str, size: int) -> None:
    with pytest.raises(InputError) as caught:
        read_number_rows(write(tmp_path, content), size=size)
    assert said in caught.value.message and f"{tmp_path / 'n.csv'}{where}" in str(caught.value.where)


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "false", "False", "FALSE", '"true"'])
@pytest.mark.parametrize("size", [1, 2**22])
def test_words_of_truth_are_no_numbers(tmp_path: Path, word: str, size: int) -> None:
    for content, place in (
        (f"1,{word}\n0,{word}\n", "1, column 2"),
        (f"x,y\n1,2\n0,{word}\n", "3, column 2"),
        (f"x,y\n1,2\n{word},{word}\n", "3, column 1"),
    ):
        path = write(tmp_path, content)
        with pytest.raises(InputError) as caught:
            read_number_rows(path, size=size)
        said = f"{word.strip(chr(34))!r} is not a finite number."
        assert (caught.value.message, caught.value.where) == (said, f"{path}:{place}")


@pytest.mark.parametrize("clear", ["0,123", ",5", "1234,567", "1,2", "1,2345", "1,234e3", "-0,001"])
def test_one_comma_that_is_clear_makes_the_others_clear(tmp_path: Path, clear: str) -> None:
    for content in (f"1,234;{clear}\n", f"1,234;7\n{clear};8\n"):
        found = read_number_rows(write(tmp_path, content))
        assert found.rows(0, 1)[0, 0] == np.float32(1.234)


def test_what_takes_more_than_a_block_above_the_rows_is_passed_over(tmp_path: Path) -> None:
    assert read_number_rows(write(tmp_path, "\n" * 20 + "a,b\n1,2\n"), size=1).rows(0, 1).tolist() == [[1, 2]]
    file = NumberRows(
        write(tmp_path, "1,2\n\n3,4\n"), is_header=lambda fields, where: False, largest=9, row="a point", size=1
    )
    assert [*file.rows()] == [(1, ["1", "2"]), (3, ["3", "4"])]


def test_a_first_row_of_decimal_commas_is_no_header(tmp_path: Path) -> None:
    found = read_number_rows(write(tmp_path, "1,5;2,5\n3,5;4\n"))
    assert found.rows(0, 2).tolist() == [[1.5, 2.5], [3.5, 4.0]] and "without a header" in found.layout
