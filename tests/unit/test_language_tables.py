import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.interference.language_tables import dyads, read_downstream, read_similarity
from probes.core.errors import InputError

CODES = ["en", "fr", "fa"]
NAN = math.nan


def save(folder: Path, text: str, name: str = "given.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def same(found: Any, wanted: Any) -> bool:
    return np.array_equal(found, np.array(wanted), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "a,b,x\nen,fr,0.5\nfa,en,0.2\nfa,fr,-1e-1\n"),
        ("x.csv", "b,x,a\nfr,0.5,en\nen,0.2,fa\nfa,-0.1,fr\n"),
        ("x.csv", "a,b,x\nen,fr,0.5\nfr,en,0.5\nfa,en,0.2\nfr,fa,NA\nfa,fr,-0.1\n"),
        ("x.csv", ",en,fr,fa\nen,,0.5,0.2\nfr,,,-0.1\nfa,,,\n"),
        ("x.csv", "code,fa,en,fr\nfr,-0.1,0.5,\nfa,nan,0.2,-0.1\nen,0.2,,0.5\n"),
        ("x.tsv", "code\tfa\ten\tfr\nfr\t-0.1\t0.5\t\nfa\t\t0.2\t\nen\t\t\t\n"),
        (
            "x.jsonl",
            '{"a": "en", "b": "fr", "x": 0.5}\n{"a": "fa", "b": "en", "x": 0.2}\n{"a": "fa", "b": "fr", "x": -0.1}',
        ),
    ],
)
def test_pairs_and_squares_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    (found,) = read_similarity(save(tmp_path, text, name), CODES)
    assert found.name == "x"
    assert same(found.matrix, [[NAN, 0.5, 0.2], [0.5, NAN, -0.1], [0.2, -0.1, NAN]])
    assert found.notes == ()


def test_what_the_file_does_not_say_is_counted(tmp_path: Path) -> None:
    text = "a,b,x,y,comment\nen,fr,0.5,,no\nen,de,1,2,\nde,it,3,4,\nen,en,1,1,\nfr,fr,1,1,\n"
    first, second = read_similarity(save(tmp_path, text), CODES)
    assert same(first.matrix, [[1, 0.5, NAN], [0.5, 1, NAN], [NAN, NAN, NAN]])
    assert same(second.matrix, [[1, NAN, NAN], [NAN, 1, NAN], [NAN, NAN, NAN]])
    assert first.notes == (
        "Not asked for, and not used: de, it.",
        "Columns without a name or without numbers, not used: comment.",
        "x is not given for 2 of 3 pairs.",
    )
    assert second.notes[-1] == "y is not given for 3 of 3 pairs."


def test_both_directions_are_kept_where_they_differ(tmp_path: Path) -> None:
    (found,) = read_similarity(save(tmp_path, "a,b,x\nen,fr,1\nfr,en,2\nen,fa,3\nfa,fr,4\nfr,fa,4\n"), CODES)
    assert same(found.matrix, [[NAN, 1, 3], [2, NAN, 4], [3, 4, NAN]])
    assert found.notes == ("x differs between the two directions of 1 pairs.",)


def test_a_square_table_has_the_target_in_its_rows(tmp_path: Path) -> None:
    (found,) = read_similarity(save(tmp_path, ",en,fr,fa\nen,0,1,2\nfr,3,0,4\nfa,5,6,0\n"), CODES)
    assert same(found.matrix, [[0, 1, 2], [3, 0, 4], [5, 6, 0]])
    assert found.notes == ("given differs between the two directions of 3 pairs.",)


def test_languages_may_be_called_a_and_b(tmp_path: Path) -> None:
    (found,) = read_similarity(save(tmp_path, "a,b,x\na,b,7\n"), ["a", "b"])
    assert found.matrix[0, 1] == 7 and found.name == "x"
    (found,) = read_similarity(save(tmp_path, ",a,b\na,1,7\nb,7,1\n"), ["a", "b"])
    assert same(found.matrix, [[1, 7], [7, 1]]) and found.name == "given"


def test_the_index_of_a_data_frame_is_no_measure(tmp_path: Path) -> None:
    (found,) = read_similarity(save(tmp_path, ",a,b,x\n0,en,fr,7\n1,en,fa,8\n"), CODES)
    assert found.name == "x" and "column 1" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a,b,x\nen,fr,1\n\nen,fr,1\n", ":4", "en and fr stands in line 2"),
        ("a,b,x\nxx,yy,1\nxx,yy,1\n", ":3", "stands in line 2"),
        ("a,b,x\nen,fr,1\nxx,fa,near\n", ":3, x", "'near'"),
        ("a,b,x\nen,,1\n", ":2, b", "names no language"),
        ("a,b,x\nen,fr,near\n", "", "No column holds a number"),
        ("a,b\nen,fr\n", "", "No column holds a number"),
        ("a,b,x\nen,xx,1\nen,en,1\n", "", "any pair of en, fr, fa; it knows xx"),
        ("one,two,x\nen,fr,1\n", "", "neither of pairs nor square"),
        (",en,fr\nen,1,2\nen,1,2\n", ":3", "en stands in line 2"),
        (",en,fr\nen,1,2\nfr,x,2\n", ":3, en", "'x'"),
        (",en,xx\nen,1,2\nxx,1,2\n", "", "any pair"),
        (",de,it\nde,1,2\nit,1,2\n", "", "neither"),
    ],
)
def test_what_is_wrong_with_a_similarity_is_told_with_its_line(tmp_path: Path, text: str, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_similarity(save(tmp_path, text), CODES)
    assert said in error.value.message
    assert error.value.where == f"{tmp_path / 'given.csv'}{line}"
    assert error.value.hint


@pytest.mark.parametrize(
    "text",
    ["a;b;x\nen;fr;0,5\nfa;en;0,2\nfa;fr;-0,1\n", "x;en;fr;fa\nen;;0,5;0,2\nfr;0,5;;-0,1\nfa;0,2;-0,1;\n"],
)
def test_numbers_between_semicolons_may_have_decimal_commas(tmp_path: Path, text: str) -> None:
    (found,) = read_similarity(save(tmp_path, text, "x.csv"), CODES)
    assert same(found.matrix, [[NAN, 0.5, 0.2], [0.5, NAN, -0.1], [0.2, -0.1, NAN]])
    with pytest.raises(InputError, match=r"'0\.2' has a decimal point, and other numbers"):
        read_similarity(save(tmp_path, text.replace("0,2", "0.2"), "x.csv"), CODES)


@pytest.mark.parametrize("key", ["code", "lang"])
def test_scores_of_languages(tmp_path: Path, key: str) -> None:
    found = read_downstream(save(tmp_path, f"name,ner,{key},pos\nx,0.5,fr,1\ny,,en,2\nz,9,de,9\n"), CODES)
    assert (found.kind, found.names) == ("languages", ("ner", "pos"))
    assert same(found.values, [[NAN, 0.5, NAN], [2, 1, NAN]])
    assert found.notes == (
        "Not asked for, and not used: de.",
        "Columns without a name or without numbers, not used: name.",
        "ner is not given for en, fa.",
        "pos is not given for fa.",
    )


@pytest.mark.parametrize("keys", ["target,source", "lang,with"])
def test_scores_of_pairs_have_a_direction(tmp_path: Path, keys: str) -> None:
    found = read_downstream(save(tmp_path, f"{keys},ner\nen,fr,1\nfr,en,2\nen,en,3\nfa,en,4\n"), CODES)
    assert (found.kind, found.names) == ("pairs", ("ner",))
    assert same(found.values, [[[3, 1, NAN], [2, NAN, NAN], [4, NAN, NAN]]])
    assert found.notes == ("ner is not given for 3 of 6 cells.",)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("cod,x\nen,1\n", "", "do not say of which language"),
        ("code,x\nen,1\nen,1\n", ":3", "en stands in line 2"),
        ("code,x\nen,\n", "", "No column holds a number"),
        ("code,x\nxx,1\n", "", "any language of en, fr, fa; it knows xx"),
        ("target,source,x\nen,xx,1\n", "", "any pair"),
        ("target,source,x\nen,fr,1\nen,fr,2\n", ":3", "en and fr stands in line 2"),
    ],
)
def test_what_is_wrong_with_scores_is_told_with_its_line(tmp_path: Path, text: str, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_downstream(save(tmp_path, text), CODES)
    assert said in error.value.message
    assert error.value.where == f"{tmp_path / 'given.csv'}{line}"
    assert error.value.hint


def test_a_huge_table_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="ordinary"):
        read_similarity(tmp_path / "pipe.csv", CODES)
    with pytest.raises(InputError, match="no such file"):
        read_downstream(tmp_path / "none.csv", CODES)
    huge = save(tmp_path, "code,x\nen,1\n")
    os.truncate(huge, 2**25 + 1)
    with pytest.raises(InputError, match="33554433 bytes; 33554432 can be read"):
        read_downstream(huge, CODES)


@pytest.mark.parametrize(
    ("values", "kind", "matrix"),
    [
        (["Latn", "Latn", "Arab"], "class", [[1, 1, 0], [1, 1, 0], [0, 0, 1]]),
        (["Latn", None, "Arab"], "class", [[1, NAN, 0], [NAN, NAN, NAN], [0, NAN, 1]]),
        (["Latn", " ", "Latn "], "class", [[1, NAN, 1], [NAN, NAN, NAN], [1, NAN, 1]]),
        ([None, None, None], "class", [[NAN] * 3] * 3),
        (["1", "2.5", "-1"], "number", [[0, 1.5, 2], [1.5, 0, 3.5], [2, 3.5, 0]]),
        (["0", "1", "1"], "class", [[1, 0, 0], [0, 1, 1], [0, 1, 1]]),
        (["1", "2", None], "class", [[1, 0, NAN], [0, 1, NAN], [NAN, NAN, NAN]]),
        (["1", "2", "three"], "class", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (["1", "2", "nan"], "class", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (["1", "2", "1e999"], "class", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ],
)
def test_an_attribute_of_languages_becomes_one_of_pairs(values: list[str | None], kind: str, matrix: Any) -> None:
    column = {code: value for code, value in zip(CODES, values, strict=True) if value is not None} | {"xx": "7"}
    found, pairs = dyads(column, CODES)
    assert found == kind and same(pairs, matrix)


def test_a_number_that_is_not_known_of_all_is_one_still() -> None:
    kind, pairs = dyads({"en": "1", "fr": "2", "de": "4"}, [*CODES, "de"])
    assert kind == "number"
    assert same(pairs, [[0, 1, NAN, 3], [1, 0, NAN, 2], [NAN] * 4, [3, 2, NAN, 0]])
