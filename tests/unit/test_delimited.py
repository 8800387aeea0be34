"""The one core of delimited files: dialects, lines, blocks, refusals, memory."""

import csv
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.core.errors import InputError
from probes.files.delimited import Delimited, find_dialect
from probes.files.names import suggest_column
from probes.files.tables import read_table
from probes.files.text import numbered_lines


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(path: Path, **options: Any) -> list[tuple[int, list[str]]]:
    table = Delimited(path, **options)
    return [(table.header_line, table.header), *table.rows()]


def refuse(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        rows(path)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("suffix", "header", "separator"),
    [
        (".csv", "a,b", ","), (".csv", "a;b", ";"), (".csv", "a\tb", "\t"), (".csv", "a", ","), (".csv", "a,b;c", ","),
        (".csv", '"a,b";c', ";"), (".csv", '"a""b;c",d', ","), (".tsv", "a,b;c", "\t"), (".tab", "a", "\t"),
        (".txt", "a,b\tc", "\t"), ("", "a;b", ";"), ("", "a,b", ","), (".csv", "1,5;2", ";"), (".csv", "1,5,2", ","),
        (".csv", "1;5,x", ","), (".csv", "-1,5e3;.2", ";"),
    ],
)  # fmt: skip
def test_the_separator_is_found_in_the_header(suffix: str, header: str, separator: str) -> None:
    assert find_dialect(suffix, header + "\n").separator == separator


def test_rows_have_the_lines_on_which_they_begin(tmp_path: Path) -> None:
    text = '\n\na,b\n"1\n2",x\n\n"\r\n",y\n  ,\n"\r3","\n\n"\nlast,z'
    expected = [
        (3, ["a", "b"]),
        (4, ["1\n2", "x"]),
        (7, ["\r\n", "y"]),
        (9, ["  ", ""]),
        (10, ["\r3", "\n\n"]),
        (14, ["last", "z"]),
    ]
    assert rows(write(tmp_path, text)) == expected
    assert rows(write(tmp_path, b"\xef\xbb\xbf" + text.encode())) == expected
    assert rows(write(tmp_path, "a,b\r1,2\r3,4\r")) == [(1, ["a", "b"]), (2, ["1", "2"]), (3, ["3", "4"])]


def test_an_empty_text_in_the_only_column_is_a_row_where_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, 'a\n""\n\n  \nx\n')
    assert rows(path) == [(1, ["a"]), (5, ["x"])]
    assert rows(path, keep_empty=True) == [(1, ["a"]), (2, [""]), (4, ["  "]), (5, ["x"])]


def test_quotation_marks_mean_nothing_between_tabs(tmp_path: Path) -> None:
    assert rows(write(tmp_path, 'a\tb\n"x\ty"z\n', "t.tsv")) == [(1, ["a", "b"]), (2, ['"x', 'y"z'])]


_cell = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.lists(_cell, min_size=3, max_size=3), max_size=40), st.sampled_from(",;"), st.integers(1, 40))
def test_what_is_written_is_read_in_any_blocks(tmp_path_factory, cells, separator: str, size: int) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerows([["a", "b", "c"], *cells])
    path = write(tmp_path_factory.mktemp("t"), stream.getvalue())
    found = rows(path, most=size)
    assert [row for _, row in found[1:]] == cells
    # The line of a row, by counting the ends of lines of what stands before it.
    text, at = stream.getvalue(), 0
    for line, row in found:
        assert len(io.StringIO(text[:at], newline="").readlines()) == line - 1
        one = io.StringIO(newline="")
        csv.writer(one, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(row)
        at += len(one.getvalue())


@pytest.mark.parametrize(
    ("content", "said", "where"),
    [
        ("", "The file is empty.", ""),
        (" \n\n", "The file is empty.", ""),
        ("a,b\n1,2\n3\n4,5\n", "The row has 1 fields, the header 2.", ":3"),
        ("a;b\n1;2;3\n", "The row has 3 fields, the header 2.", ":2"),
        ('a,b\n"1\n2",3\n4,"5\n6,7\n', "The row cannot be read: unexpected end of data.", ":4"),
        ('a,b\n1,2\n"1"x,3\n', "The row cannot be read: ',' expected after '\"'.", ":3"),
        # What comes first in the file is said first.
        ('a,b\n1\n"1"x,3\n', "The row has 1 fields, the header 2.", ":2"),
        ("a,b\n1," + "x" * 200_000 + "\n", "The row cannot be read: field larger than field limit (131072).", ":2"),
        ("a,b\n1,un été\n".encode("latin-1"), "The byte 0xe9 is not UTF-8 text: it looks like Latin-1", ":2"),
        ("a,b\n1,2\n".encode("utf-16"), "The text is in UTF-16.", ":1"),
        (b"a,b\n1,\0\n", "The file holds a NUL byte", ":2"),
        (b"PAR1\x15\x04", "This is a Parquet file, not text.", ""),
        (b"PK\x03\x04 xl/", "This is a ZIP archive, not text.", ""),
        ("<!DOCTYPE html>", "This is a web page, not text.", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, content: str | bytes, said: str, where: str) -> None:
    before = csv.field_size_limit()
    error = refuse(write(tmp_path, content))
    assert said in error.message and error.where == f"{tmp_path / 't.csv'}{where}"
    assert csv.field_size_limit() == before


def test_a_fault_far_below_is_found_and_named(tmp_path: Path) -> None:
    lines = ["a,b"] + [f"{number},x" for number in range(50_000)]
    for bad, said in (("1,2,3", "3 fields"), ('"1"x,2', "cannot be read"), ("1,\0", "NUL")):
        lines[40_123] = bad
        error = refuse(write(tmp_path, "\n".join(lines)))
        assert said in error.message and error.where.endswith(":40124")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for count in (20_000, 80_000):
        path = write(tmp_path, "a,b\n" + "".join(f"{number},{'x' * 60}\n" for number in range(count)))
        tracemalloc.start()
        assert sum(len(block.rows) for block in Delimited(path).blocks()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] and peaks[1] < 3e6


def test_a_file_with_semicolons_is_noted_and_its_cells_stay_as_they_are(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "path;speaker;gain\na;1,2;-,5\nb;7;1,25e3\n"))
    assert [dict(row.values) for row in table.rows] == [
        {"path": "a", "speaker": "1,2", "gain": "-,5"},
        {"path": "b", "speaker": "7", "gain": "1,25e3"},
    ]
    assert table.notes == ("Fields are separated by semicolons; numbers may have decimal commas.",)
    assert read_table(write(tmp_path, 'a,b\n"1,5",2\n')).notes == ()
    assert read_table(write(tmp_path, 'a,b\n"1,5",2\n')).rows[0].values == {"a": "1,5", "b": "2"}


def test_columns_of_numbers_get_points_when_they_are_asked_for(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "path;text;age;gain\na;1,5 km;30;-,5\nb;1,5;;1,25e3\n"))
    assert [dict(row.values) for row in table.with_points(["age", "gain"]).rows] == [
        {"path": "a", "text": "1,5 km", "age": "30", "gain": "-.5"},
        {"path": "b", "text": "1,5", "age": "", "gain": "1.25e3"},
    ]
    other = read_table(write(tmp_path, 'a,b\n"1,5",2\n'))
    assert other.with_points(["a"]) is other


@pytest.mark.parametrize(
    ("cells", "said", "line"),
    [
        (["1.5", "1,234"], "'1,234' has a decimal comma, and other numbers of a have a point.", 3),
        (["1,5", "", "1.234"], "'1.234' has a decimal point, and other numbers of a have a comma.", 4),
        (["7", "1,234", "2,345"], "'1,234' of a may be 1234 or 1.234: every comma in this column has three", 3),
    ],
)
def test_a_column_with_points_and_commas_or_thousands_is_refused(
    tmp_path: Path, cells: list[str], said: str, line: int
) -> None:
    table = read_table(write(tmp_path, "a;b\n" + "".join(f"{cell};x\n" for cell in cells)))
    with pytest.raises(InputError) as refused:
        table.with_points(["a"])
    assert refused.value.message.startswith(said) and refused.value.hint
    assert refused.value.where == f"{tmp_path / 't.csv'}:{line}, a"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("sep=;\na;b\n1;2,5\n", [(2, ["a", "b"]), (3, ["1", "2,5"])]),
        ("\ufeffSEP=,\r\na,b;c\r\n1,2\r\n", [(2, ["a", "b;c"]), (3, ["1", "2"])]),
        ('\n"sep=\t"\n\na\tb\n1\tx\n', [(4, ["a", "b"]), (5, ["1", "x"])]),
        ("sep=|\na|b;c\n1|2\n", [(2, ["a", "b;c"]), (3, ["1", "2"])]),
        ("sep=x\n1\n", [(1, ["sep=x"]), (2, ["1"])]),
    ],
)
def test_a_first_line_that_names_the_separator_is_no_header(
    tmp_path: Path, content: str, found: list[tuple[int, list[str]]]
) -> None:
    assert rows(write(tmp_path, content)) == found


def test_faults_below_a_line_that_names_the_separator_have_their_lines(tmp_path: Path) -> None:
    assert refuse(write(tmp_path, "sep=;\na;b\n1;2\n3\n")).where.endswith("t.csv:4")
    assert refuse(write(tmp_path, 'sep=;\na;b\n"1"x;2\n')).where.endswith("t.csv:3")
    assert refuse(write(tmp_path, "sep=;\n\n")).message == "The file is empty."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a\n" + "1\n" * 300_000),
        ("t.jsonl", '{"a": 1}\n' * 300_000),
        ("t.json", "[" + "{}," * 300_000 + "{}]"),
        ("u.json", "[" + "[]," * 300_000 + "[]]"),
        ("w.csv", ",".join(f"c{place}" for place in range(1000)) + "\n" + (",".join("x" * 1000) + "\n") * 300),
    ],
)
def test_a_table_that_takes_too_much_memory_is_refused_while_it_is_read(
    tmp_path: Path, name: str, content: str
) -> None:
    path = write(tmp_path, content, name)
    del content
    tracemalloc.start()
    with pytest.raises(InputError, match="There are more than 10,000 rows") as refused:
        read_table(path, most_rows=10_000, most_cells=20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.hint and peak < 12e6


@pytest.mark.parametrize(("mark", "name"), [("|", "Bars"), (";", "Semicolons"), (",", "Commas")])
def test_another_separator_than_that_of_tsv_is_named_with_the_mend(tmp_path: Path, mark: str, name: str) -> None:
    content = mark.join(["path", "text"]) + "\n" + mark.join(["a.wav", "so\tthen"]) + "\n"
    advice = f"{name} ({mark}) seem to separate the fields: let the first line be sep={mark}."
    path = write(tmp_path, content, "t.tsv")
    assert advice in refuse(path).hint
    assert advice not in suggest_column("gender", [f"path{mark}text"], mark)
    path.write_text(content.replace("\t", " "))
    assert advice in read_table(path).suggest("gender")
    path = write(tmp_path, json.dumps([{f"path{mark}text": "a"}]), "t.json")
    assert advice not in read_table(path).suggest("gender")
    assert rows(write(tmp_path, f"sep={mark}\n{content}", "t.tsv"))[1] == (3, ["a.wav", "so\tthen"])


def test_bars_between_fields_are_named_with_the_mend(tmp_path: Path) -> None:
    bars = "Bars (|) seem to separate the fields: let the first line be sep=|."
    assert bars in refuse(write(tmp_path, "path|text\na.wav|so, then\n")).hint
    assert bars not in refuse(write(tmp_path, "path,text|\na.wav|so, then, on\n")).hint
    assert bars not in refuse(write(tmp_path, "path,a|b\na.wav,so, then\n")).hint
    assert suggest_column("gendre", ["gender", "age|group"], ",").startswith("Did you mean 'gender'?")
    assert "Commas (,)" in suggest_column("a", ["path,text,n;m"], "\t")
    assert rows(write(tmp_path, "sep=|\npath|text\na.wav|so, then\n"))[1] == (3, ["a.wav", "so, then"])


@pytest.mark.parametrize(("head", "suffix"), [(b"PAR1\x15\x04", ".parquet"), (b"ARROW1\0\0", ".arrow")])
def test_a_table_of_another_kind_is_told_its_suffix(tmp_path: Path, head: bytes, suffix: str) -> None:
    advice = f"Where it is a table, name it {suffix}."
    assert advice in refuse(write(tmp_path, head)).hint
    # A reader of text alone takes it under no name.
    with pytest.raises(InputError, match="not text") as caught:
        list(numbered_lines(write(tmp_path, head, f"t{suffix}"), hint="Give text."))
    assert caught.value.hint == "Give text."


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_rows_below_a_key_are_named_with_it(tmp_path: Path, indent: int | None, suffix: str) -> None:
    def refusal(value: object) -> str:
        with pytest.raises(InputError) as caught:
            read_table(write(tmp_path, json.dumps(value, indent=indent), f"t{suffix}"))
        assert caught.value.where.startswith(str(tmp_path / f"t{suffix}")) and caught.value.hint
        return caught.value.message

    said = "The file is one object, and the rows are a list below its key 'data'."
    assert refusal({"data": [{"path": "a.wav"}, {"path": "b.wav"}]}) == said
    if indent is not None:
        assert refusal({"version": 1, "data": [{"path": "a.wav"}]}) == said
        assert refusal({"path": "a.wav"}).startswith("This is not JSON")


def test_a_row_may_hold_a_list_of_objects(tmp_path: Path) -> None:
    words = {"path": "a.wav", "words": [{"word": "so"}]}
    assert len(read_table(write(tmp_path, json.dumps(words), "t.json")).rows) == 1
    both = json.dumps({"words": [{"word": "so"}], "path": "a.wav"}) + "\n"
    assert len(read_table(write(tmp_path, both + both.replace("a.wav", "b.wav"), "t.jsonl")).rows) == 2
    assert len(read_table(write(tmp_path, both, "t.jsonl")).rows) == 1
    for sign in "{[":
        # Of a long first row no more than its beginning is looked at, and it may end with such a sign.
        start = '{"words": [{"word": "so"}], "text": "'
        long = start + "x" * (511 - len(start)) + sign + '"}\n'
        assert long[511] == sign and len(read_table(write(tmp_path, 2 * long, "t.jsonl")).rows) == 2


@pytest.mark.parametrize(("width", "sizes"), [(1024, [16, 32, 49, 49]), (100_000, [16, 2, 2, 2])])
def test_blocks_hold_as_many_rows_as_fit_into_their_bytes(tmp_path: Path, width: int, sizes: list[int]) -> None:
    path = write(tmp_path, "a,b\n" + ("x" * (width - 3) + ",1\n") * 300)
    found = [len(block.rows) for block in Delimited(path).blocks()]
    assert found[:4] == sizes and sum(found) == 300


def test_the_suffix_says_nothing_of_rows_of_numbers(tmp_path: Path) -> None:
    assert Delimited(write(tmp_path, "1,2\n", "t.tsv"), numbers=True).header == ["1", "2"]
    assert Delimited(write(tmp_path, "1,2\n", "t.tsv")).header == ["1,2"]


def test_a_first_row_of_nothing_is_line_one(tmp_path: Path) -> None:
    assert rows(write(tmp_path, '""\n')) == [(1, [])]


@pytest.mark.parametrize("above", ["\n" * 100_000, "1,2\n" * 100_000])
def test_a_block_of_long_rows_below_short_ones_stays_small(tmp_path: Path, above: str) -> None:
    path = write(tmp_path, "a,b\n" + above + f"{'x' * 100_000},y\n" * 100)
    assert max(sum(len(row[0]) for row in block.rows) for block in Delimited(path).blocks()) < 2_000_000
