"""Records in CSV and in Parquet: which of them is written, and that both hold the same."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audits.report import records_file
from audits.report.comparison.tables import Table, read_table
from audits.report.frames import records_frame
from audits.report.records_file import CSV, MOST_IN_CSV, PARQUET, write_records
from probes.core.errors import InputError


class Made(Sequence[Mapping[str, Any]]):
    """Rows that are made when they are asked for."""

    def __init__(self, rows: int) -> None:
        self.rows, self.passes = rows, 0

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, at: Any) -> Any:
        return {"at": at}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        self.passes += 1
        return ({"at": at} for at in range(self.rows))


def both(rows: Sequence[Mapping[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Write rows in both forms and return the folders."""
    found = folder / "csv", folder / "parquet"
    for made, most in zip(found, (len(rows), len(rows) - 1), strict=True):
        made.mkdir(parents=True)
        monkeypatch.setattr(records_file, "MOST_IN_CSV", most)
        write_records(rows, made)
    assert [[file.name for file in made.iterdir()] for made in found] == [[CSV], [PARQUET]]
    return found


def tables(rows: Sequence[Mapping[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    found = [read_table(made) for made in both(rows, folder, monkeypatch)]
    assert all(isinstance(table, Table) for table in found)
    return [table for table in found if isinstance(table, Table)]


def cells(table: Table) -> dict[str, list[str]]:
    return {name: table.text[name].tolist() for name in table.text}


def numbers(table: Table) -> dict[str, Any]:
    """Return the numbers of each column that has them, and of others that it is refused."""
    found: dict[str, Any] = {}
    for name in table.numbers:
        try:
            found[name] = table.numbers[name].tobytes()
        except InputError as error:
            assert "number" in error.message
            found[name] = None
    return found


def test_the_hundred_thousand_and_first_row_makes_it_parquet(tmp_path: Path) -> None:
    assert MOST_IN_CSV == 100_000
    rows = Made(MOST_IN_CSV)
    assert write_records(rows, tmp_path).name == CSV and rows.passes == 1
    (tmp_path / CSV).unlink()
    rows = Made(MOST_IN_CSV + 1)
    assert write_records(rows, tmp_path).name == PARQUET and rows.passes == 2
    table = read_table(tmp_path)
    assert isinstance(table, Table) and table.rows == MOST_IN_CSV + 1
    assert np.array_equal(table.numbers["at"], np.arange(MOST_IN_CSV + 1))


MIXED: dict[str, list[Any]] = {
    "whole": [1, -2, "", None, 0],
    "numbers": [0.1, 1e300, -0.0, "", 2.0],
    "truth": [True, False, True, "", True],
    "whole and float": [1, 1.0, 2.5, "", 3],
    "truth and whole": [True, 1, 0, False, ""],
    "number and text": [1, "a", "", 2.5, None],
    "not finite": [math.nan, math.inf, 1.0, "", -math.inf],
    "long": [10**18, 1, 2, 3, 4],
    "beyond 64 bits": [2**70, 1, "", 2, 3],
    "as long as may be": [10**18 - 1, 1 - 10**18, 2, 3, ""],
    "digits": ["007", "8", "", "1.50", "True"],
    "empty": ["", None, "", "", ""],
    "of numpy": [np.int64(3), np.float32(0.1), np.float64(0.1), np.bool_(True), np.str_("x")],
    "small floats": [np.float32(0.1), np.float16(0.1), np.float32(1e16), "", np.float64(1e-5)],
    "written otherwise": [np.float32(0.1), np.float32(16777216), "", 1.0, 2.0],
    "a.b": ["=1+1", "'=1+1", "a;'-x", "'tis", "a\r\nb\rc"],
    "a": ["", "''", "a\tb", "=\r=1", '"quoted", ü'],
    "'=named": ["é", "\u2028", "0x10", "1e5", "nan"],
}


def test_both_forms_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [dict(zip(MIXED, row, strict=True)) for row in zip(*MIXED.values(), strict=True)]
    first, second = tables(rows, tmp_path, monkeypatch)
    assert cells(first) == cells(second) and [*first.text][:-1] == [*MIXED][:-1] and [*first.text][-1] == "=named"
    assert numbers(first) == numbers(second)
    frames = [records_frame(tmp_path / form) for form in ("csv", "parquet")]
    pandas.testing.assert_frame_equal(*frames)


class Here:
    """What a session asks of its child, in this process: children take most of the time of a small file."""

    def __init__(self, opener: Any, *args: Any, **walls: Any) -> None:
        self.made = opener(*args)

    def ask(self, method: str, *args: Any) -> Any:
        return getattr(self.made, method)(*args)


_cell = st.one_of(
    st.just(""), st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec="utf-8"), max_size=4)
)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(_cell, _cell), min_size=1, max_size=5))
def test_whatever_an_audit_gives_both_forms_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]]
) -> None:
    if any("\0" in cell for row in rows for cell in row if isinstance(cell, str)):
        return
    folder = tmp_path_factory.mktemp("records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probes.files.parquet_columns.Session", Here)
        first, second = tables([{"a": one, "b": other} for one, other in rows], folder, patch)
    assert cells(first) == cells(second)
    assert numbers(first) == numbers(second)


def test_types_are_those_of_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [dict(zip(MIXED, row, strict=True)) for row in zip(*MIXED.values(), strict=True)]
    schema = parquet.read_schema(both(rows, tmp_path, monkeypatch)[1] / PARQUET)
    types = dict(zip(schema.names, map(str, schema.types), strict=True))
    wanted = {"whole": "int64", "as long as may be": "int64", "numbers": "double", "small floats": "double",
              "truth": "bool"}  # fmt: skip
    assert [*types] == [*MIXED]
    assert types == {name: wanted.get(name, "string") for name in MIXED}


def test_a_type_is_that_of_all_blocks_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file, "_BLOCK", 2)
    rows = [{"late": "", "mixed": 1, "whole": at} for at in range(2)]
    rows += [{"late": 2, "mixed": "x", "whole": at} for at in range(2, 5)]
    first, second = tables(rows, tmp_path, monkeypatch)
    assert cells(first) == cells(second) == {
        "late": ["", "", "2", "2", "2"], "mixed": ["1", "1", "x", "x", "x"], "whole": ["0", "1", "2", "3", "4"],
    }  # fmt: skip


@pytest.mark.parametrize("most", [0, 9])
def test_a_row_with_a_column_of_its_own_is_an_error_in_both_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(records_file, "MOST_IN_CSV", most)
    with pytest.raises(ValueError, match="extra"):
        write_records([{"a": 1}, {"a": 1, "extra": 2}], tmp_path)
    assert not list(tmp_path.iterdir())
    write_records([{"a": 1, "b": 2}, {"a": 1}], tmp_path)
    table = read_table(tmp_path)
    assert isinstance(table, Table) and table.text["b"].tolist() == ["2", ""]


def test_without_pyarrow_it_is_csv_whatever_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file, "MOST_IN_CSV", 1)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert write_records([{"a": 1}, {"a": 2}], tmp_path).name == CSV
    assert (tmp_path / CSV).read_bytes() == b"a\n1\n2\n"


def test_two_files_of_records_are_refused(tmp_path: Path) -> None:
    for name in (CSV, PARQUET):
        (tmp_path / name).write_text("a\n1\n")
    for read in (read_table, records_frame):
        with pytest.raises(InputError, match=f"{CSV} and {PARQUET}") as error:
            read(tmp_path)
        assert error.value.where == str(tmp_path)


def test_what_breaks_off_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file, "_BLOCK", 2)
    for most in (0, 100):
        monkeypatch.setattr(records_file, "MOST_IN_CSV", most)
        with pytest.raises(UnicodeEncodeError):
            write_records([{"a": "x"}] * 4 + [{"a": "\ud800"}], tmp_path)
        assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    from contextlib import contextmanager

    class Full:
        closed = False

        def write(self, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None: ...

        def close(self) -> None: ...

    @contextmanager
    def full(path: Path) -> Iterator[Any]:
        yield Full()

    monkeypatch.setattr(records_file, "in_one_step", full)
    for most in (0, 100):
        monkeypatch.setattr(records_file, "MOST_IN_CSV", most)
        with pytest.raises(OSError) as error:
            write_records([{"a": "x"}] * 4, tmp_path)
        assert error.value.errno == errno.ENOSPC


def test_more_rows_than_are_read_are_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audits.report.comparison.tables.MOST_ROWS", 3)
    for folder in both([{"a": at} for at in range(4)], tmp_path, monkeypatch):
        assert "3 rows" in str(read_table(folder))


def test_columns_are_kept_while_they_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audits.report.comparison.tables._KEPT", 8 * 3 * 2)
    for table in tables([{"a": at, "b": at, "c": at} for at in range(3)], tmp_path, monkeypatch):
        first, second = table.numbers["a"], table.numbers["b"]
        assert table.numbers["b"] is second and table.numbers["a"] is first
        # What was asked for longest ago goes, and is made again.
        assert table.numbers["c"].tolist() == [0, 1, 2] and table.numbers["a"] is first
        assert table.numbers["b"] is not second and table.numbers["b"].tolist() == [0, 1, 2]


def test_names_that_are_one_without_their_apostrophe_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in both([{"=a": 1, "'=a": 2}, {"=a": 3, "'=a": 4}], tmp_path, monkeypatch):
        with pytest.raises(InputError, match="one name"):
            read_table(folder)
