"""Columns of Parquet files of strangers: read part by part, checked, and refused where they are not what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probes.contained import Limits
from probes.core.errors import InputError
from probes.files import parquet_columns
from probes.files.parquet_columns import ParquetColumns, _part

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def written(folder: Path, **columns: Any) -> Path:
    path = folder / "records.parquet"
    parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
    return path


def test_columns_are_read_side_by_side_and_more_than_once(tmp_path: Path) -> None:
    names = [f"name {at}" for at in range(7)]
    held = ParquetColumns(written(tmp_path, text=names, number=[*range(6), None]))
    assert held.kinds == {"text": "text", "number": "whole"} and held.rows == 7
    first = held.parts("text")
    cells = [*next(first).values]
    numbers = [*held.parts("number")]
    assert np.concatenate([part.values for part in numbers]).tolist()[:6] == [*range(6)]
    assert np.concatenate([part.given for part in numbers]).tolist() == [True] * 6 + [False]
    assert cells + [cell for part in first for cell in part.values] == names
    assert [cell for part in held.parts("text") for cell in part.values] == names


def test_a_file_without_rows_or_columns_has_none(tmp_path: Path) -> None:
    held = ParquetColumns(written(tmp_path, text=pyarrow.array([], type=pyarrow.string())))
    assert held.rows == 0 and [*held.parts("text")] == []
    assert ParquetColumns(written(tmp_path)).kinds == {}


@pytest.mark.parametrize(
    ("column", "kind"),
    [([[1]], "list"), ([b"x"], "binary"), (pyarrow.array([1], type=pyarrow.int32()), "int32"), ([{"a": 1}], "struct")],
)
def test_other_columns_are_refused(tmp_path: Path, column: Any, kind: str) -> None:
    with pytest.raises(InputError, match=f"'odd' holds .*{kind}") as error:
        ParquetColumns(written(tmp_path, fine=[1], odd=column), hint="Mend it.")
    assert error.value.hint == "Mend it." and "records.parquet" in error.value.where


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, names=["a", "a"]), path)
    with pytest.raises(InputError, match="one name"):
        ParquetColumns(path)


def test_nul_and_too_much_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = ParquetColumns(written(tmp_path, text=["a", "b\0c"]))
    with pytest.raises(InputError, match="NUL") as error:
        [*held.parts("text")]
    assert "column text" in error.value.where
    monkeypatch.setattr(parquet_columns, "MOST_TEXT", 10)
    held = ParquetColumns(written(tmp_path, text=["a" * 11]))
    with pytest.raises(InputError, match="more than 10 bytes"):
        [*held.parts("text")]


@pytest.mark.parametrize("kept", [0, 4, 40, -9])
def test_a_damaged_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path, text=["a"] * 50)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError) as error:
        ParquetColumns(path, hint="Mend it.")
    assert "records.parquet" in error.value.where


def test_damage_inside_shows_when_the_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    table = pyarrow.table({"text": [f"a text {at}" for at in range(100)]})
    parquet.write_table(table, path, use_dictionary=False, compression="zstd")
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    held = ParquetColumns(path, hint="Mend it.")
    with pytest.raises(InputError) as error:
        [*held.parts("text")]
    assert error.value.hint == "Mend it."


def test_cells_that_take_more_memory_than_they_may_are_refused(tmp_path: Path) -> None:
    # A kilobyte of file, a gibibyte of texts.
    path = tmp_path / "records.parquet"
    text = "a" * 2**20
    parquet.write_table(pyarrow.table({"text": pyarrow.array([text] * 2**10, type=pyarrow.large_string())}), path)
    assert path.stat().st_size < 2**20
    held = ParquetColumns(path, limits=Limits(memory=2**28, seconds=60))
    with pytest.raises(InputError, match="memory"):
        [*held.parts("text")]


def test_fewer_cells_than_declared_are_refused(tmp_path: Path) -> None:
    held = ParquetColumns(written(tmp_path, number=[1, 2]))
    for rows in (1, 3):
        held.rows = rows
        with pytest.raises(InputError, match=f"the {rows} cells"):
            [*held.parts("number")]


def test_without_pyarrow_the_line_that_installs_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, number=[1])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="not installed") as error:
        ParquetColumns(path, hint="Mend it.")
    assert "pip install" in error.value.hint


@pytest.mark.parametrize(
    ("values", "given", "kind"),
    [
        (b"a\0b", np.ones(1, bool), "text"), (np.ones(2), np.ones(3, bool), "number"),
        (np.ones(1), np.ones(1, bool), "whole"), (np.ones(1), np.ones(1), "number"),
        (b"\xff", np.ones(1, bool), "text"),
    ],
)  # fmt: skip
def test_what_a_child_answers_is_checked(values: Any, given: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"NUL|kind|decode"):
        _part(values, given, kind)
