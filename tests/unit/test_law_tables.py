import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probes.conditional.law_files import ReadTruth, law_keys, read_candidate, read_truth
from probes.conditional.laws import Candidate
from probes.core.errors import InputError

ROWS = [("0.5", "1", "a"), ("-2", "2.5", "b"), ("3e0", "4", "a")]
TRUTH = "y,x,site\n" + "".join(",".join(row) + "\n" for row in ROWS)
DRAWS = np.arange(12.0).reshape(3, 4) / 8


def save(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def truth(folder: Path, text: str = TRUTH, target: tuple[str, ...] = ("y",), **options: Any) -> ReadTruth:
    return read_truth(save(folder, text), target=target, **options)


def law(folder: Path, of: ReadTruth, text: str, name: str = "model.csv") -> Candidate:
    return read_candidate("model", save(folder, text, name), of)


def refused(call: Any, *says: str) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    error: InputError = caught.value
    assert error.hint and error.where
    for part in says:
        assert part in f"{error.message} {error.where} {error.hint}", (part, error.message, error.where, error.hint)
    return error


def long(rows: Any = range(3), names: str = "value") -> list[str]:
    return [f"row,sample,{names}", *(f"{row},{k},{DRAWS[i, k]}" for i, row in enumerate(rows) for k in range(4))]


def test_columns_are_outcomes_inputs_and_the_rest(tmp_path: Path) -> None:
    of = truth(tmp_path)
    assert of.y.tolist() == [[0.5], [-2], [3]] and of.targets == ("y",)
    assert of.x is not None and of.x.tolist() == [[1], [2.5], [4]]
    assert {**of.columns} == {"site": ["a", "b", "a"]} and law_keys(tmp_path / "data.csv") == ()
    both = truth(tmp_path, target=("x", "y"))
    assert both.y.tolist() == [[1, 0.5], [2.5, -2], [4, 3]] and both.x is None
    named = truth(tmp_path, "a,b,x,y\n1,2,3,4\n", inputs=["b", "a"])
    assert named.x is not None and named.x.tolist() == [[2, 1]] and [*named.columns] == ["x"]


def test_inputs_are_the_columns_that_count_on_from_x(tmp_path: Path) -> None:
    of = truth(tmp_path, "x10,y,x2,x_1,x,xs\n10,0,2,1,left,5\n10,0,2,1,right,5\n")
    assert of.x is not None and of.x.tolist() == [[1, 2, 10]] * 2
    assert {**of.columns} == {"x": ["left", "right"], "xs": ["5", "5"]}
    refused(lambda: truth(tmp_path, "y,x\n1,2\n1,left\n"), "'left' is no number up to 1e+100", "data.csv:3")


@pytest.mark.parametrize("form", ["tsv", "jsonl", "json", "parquet", "semicolons"])
def test_forms_of_tables_say_the_same(tmp_path: Path, form: str) -> None:
    rows = [{"y": float(y), "x": float(x), "site": site} for y, x, site in ROWS]
    drawn = [{"row": i, "sample": k, "value": float(DRAWS[i, k])} for i in range(3) for k in range(4)]
    tables = []
    for name, lines in (("data", rows), ("model", drawn)):
        path = tmp_path / f"{name}.{form}"
        if form == "parquet":
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(arrow.Table.from_pylist(lines), path)
        elif form.startswith("json"):
            path.write_text(json.dumps(lines) if form == "json" else "\n".join(map(json.dumps, lines)))
        else:
            mark = "\t" if form == "tsv" else ";"
            cells = [mark.join(lines[0]), *(mark.join(map(str, line.values())) for line in lines)]
            text = "\n".join(cells)
            path = save(tmp_path, text.replace(".", ",") if form == "semicolons" else text, f"{name}.{form}")
        tables.append(path)
    of = read_truth(tables[0], target=["y"])
    assert of.y.tolist() == [[0.5], [-2], [3]] and of.x is not None and of.x.tolist() == [[1], [2.5], [4]]
    assert {**of.columns} == {"site": ["a", "b", "a"]}
    found = read_candidate("m", tables[1], of)
    assert np.array_equal(found.block(0, 3)["samples"], DRAWS[..., None])
    assert bool(of.notes) is bool(found.notes) is (form == "semicolons")


def test_the_user_may_name_the_decimal_mark(tmp_path: Path) -> None:
    of = truth(tmp_path, 'y,x\n"1,234",2\n', decimal=",")
    assert of.y.tolist() == [[1.234]] and of.notes == ("Numbers have decimal commas.",)
    refused(lambda: truth(tmp_path, 'y,x\n"1,234",2\n'), "say --decimal ,")
    found = read_candidate("m", save(tmp_path, 'mean,std\n"0,5","1,5"\n', "m.csv"), of, decimal=",")
    assert found.block(0, 1)["std"].tolist() == [[1.5]]
    path = save(tmp_path, '{"mean": 0.5, "std": 1.5}', "m.jsonl")
    assert read_candidate("m", path, of, decimal=",").block(0, 1)["mean"].tolist() == [[0.5]]


@pytest.mark.parametrize("name", ["value", "y"])
def test_draws_stand_in_any_order(tmp_path: Path, name: str) -> None:
    of = truth(tmp_path)
    head, *lines = long(names=name)
    random.Random(5).shuffle(lines)
    found = law(tmp_path, of, "\n".join([head, *lines]))
    assert (found.kind, found.n, found.d, found.draws) == ("samples", 3, 1, 4)
    # A draw of a name stands at one place in all rows.
    draws = found.block(0, 3)["samples"][..., 0]
    assert np.array_equal(np.sort(draws, axis=1), DRAWS) and (np.diff(draws, axis=0) == 0.5).all()
    assert np.array_equal(found.block(1, 2)["samples"][..., 0], draws[1:2])


def test_draws_of_several_outcomes(tmp_path: Path) -> None:
    of = truth(tmp_path, target=("x", "y"))
    lines = [f"{i},{k},{DRAWS[i, k]},{-DRAWS[i, k]}" for i in (2.0, 0.0, 1.0) for k in range(4) for i in (int(i),)]
    found = law(tmp_path, of, "\n".join(["row,sample,y,x", *lines]))
    assert np.array_equal(found.block(0, 3)["samples"], np.stack([-DRAWS, DRAWS], axis=2))
    refused(lambda: law(tmp_path, of, "\n".join(long())), "Draws of 2 values", "Name the outcomes with --target")
    np.savez(tmp_path / "y.npz", y=of.y)
    nameless = read_truth(tmp_path / "y.npz")
    refused(lambda: read_candidate("m", tmp_path / "model.csv", nameless), "Draws of 2 values")
    lines = ["row,sample,a,b", *(f"{i},0,{i},7" for i in range(3))]
    save(tmp_path, "\n".join(lines), "m.csv")
    named = read_candidate("m", tmp_path / "m.csv", read_truth(tmp_path / "y.npz", target=["b", "a"]))
    assert named.block(1, 3)["samples"].tolist() == [[[7, 1]], [[7, 2]]]


def test_rows_may_have_names(tmp_path: Path) -> None:
    of = truth(tmp_path, "row,y\n7,1\nq,2\n0,3\n")
    for ids in (["7", "q", "0"], [" 7.0", "q ", "0.0"]):
        lines = long(ids)
        found = law(tmp_path, of, "\n".join([lines[0], *lines[:0:-1]]))
        assert np.array_equal(np.sort(found.block(0, 3)["samples"][..., 0], axis=1), DRAWS)
    wide = law(tmp_path, of, "row,mean,std\nq,2,3\n0,4,5\n7,0,1\n")
    assert wide.block(0, 3)["mean"].tolist() == [[0], [2], [4]]
    refused(lambda: law(tmp_path, of, "\n".join(long())), "no row '1'", "model.csv:6", "names in the column row")
    # A column of that name which names no rows does not matter where a table is as the data.
    assert law(tmp_path, truth(tmp_path, "row,y\na,1\na,2\n"), "row,mean,std\na,1,1\na,2,1\n").block(0, 2)
    refused(lambda: law(tmp_path, truth(tmp_path, "row,y\na,1\na,2\n"), "row,mean,std\na,1,1\nb,2,1\n"), "a row twice")


WIDE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "samples": ("sample_10,sample_2,sample0", "3,2,1", {"samples": [[1], [2], [3]]}),
    "quantiles": ("q0.9,q_.05,q0.50", "3,1,2", {"quantiles": [1, 2, 3]}),
    "normal": ("std,mean", "1,2", {"mean": [2], "std": [1]}),
    "own names": ("std_y,mean_y,mean", "1,2,9", {"mean": [2], "std": [1]}),
    "intervals": ("level,upper,lower", "0.9,2,1", {"lower": 1, "upper": 2}),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_line_for_each_row(tmp_path: Path, name: str) -> None:
    head, line, wanted = WIDE[name]
    lines = [f"{i},{line},{i}" for i in range(3)]
    of = truth(tmp_path, "\n".join([f"y,{head},x", *lines]))
    path = tmp_path / "data.csv"
    # The data may hold the law too, whose columns make no groups.
    assert not {*of.columns} - {"mean"} and {*law_keys(path, ["y"])} >= {*head.split(",")} - {"mean"}
    assert law_keys(path, ["y"])
    found = read_candidate("m", path, of)
    assert {key: values[1].tolist() for key, values in found.block(0, 3).items()} == wanted
    assert found.level == (0.9 if name == "intervals" else None)
    if name == "quantiles":
        assert found.levels is not None and found.levels.tolist() == [0.05, 0.5, 0.9]
    turned = [f"{2 - i},{line}" for i in range(3)]
    assert law(tmp_path, of, "\n".join([f"row,{head}", *turned])).block(0, 3).keys() == wanted.keys()


def test_normal_laws_of_several_outcomes(tmp_path: Path) -> None:
    of = truth(tmp_path, target=("x", "y"))
    found = law(tmp_path, of, "mean_y,mean_x,std_y,std_x\n" + "1,2,3,4\n" * 3)
    assert found.block(0, 1)["mean"].tolist() == [[2, 1]] and found.block(0, 1)["std"].tolist() == [[4, 3]]
    refused(lambda: law(tmp_path, of, "mean,std\n" + "1,2\n" * 3), "no law", "mean, std")
    refused(lambda: law(tmp_path, of, "sample0,sample1\n" + "1,2\n" * 3), "(3, 2)", "3 rows of 2 values")


def edited(line: int, text: str | None) -> str:
    lines = long()
    lines[line : line + 1] = [] if text is None else text.split("\n")
    return "\n".join(lines)


LAWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a missing draw": (edited(6, None), ("'1' has 3 draws, and others have 4", "model.csv:8")),
    "a draw more": (edited(6, "1,1,0\n1,9,0"), ("'1' has 5 draws",)),
    "a draw twice": (edited(7, "1,1,0"), ("The draw '1' of row '1' stands here again", "model.csv:8")),
    "a missing row": ("\n".join(long()[:9]), ("no line on row 2",)),
    "missing rows": ("\n".join(long()[:5]), ("no line on row 1 of the data, and none on 1 others",)),
    "another row": (edited(4, "3,0,0"), ("no row '3'", "model.csv:5", "from 0 to 2")),
    "a negative row": (edited(4, "-1,0,0"), ("no row '-1'",)),
    "half a row": (edited(4, "0.5,0,0"), ("no row '0.5'",)),
    "no row": (edited(4, ",0,0"), ("no row ''",)),
    "nan": (edited(6, "1,1,nan"), ("'nan' is no number up to 1e+100", "'value'", "model.csv:7")),
    "infinite": (edited(6, "1,1,1e999"), ("'1e999' is no number up to 1e+100",)),
    "vast": (edited(6, "1,1,-2e100"), ("'-2e100' is no number",)),
    "empty": (edited(6, "1,1,"), ("'' is no number up to 1e+100",)),
    "a text": (edited(6, "1,1,1_0"), ("'1_0' is no number up to 1e+100",)),
    "no outcome": ("\n".join(long(names="other")), ("no columns that are known", "There are: row, sample, other")),
    "no rows": ("row,value\n0,1\n", ("no law", "row, value", "Give columns row, sample")),
    "other lines": ("mean,std\n1,1\n1,1\n", ("2 lines, and the data have 3 rows",)),
    "a line twice": ("row,mean,std\n0,1,1\n1,1,1\n0,1,1\n", ("The row '0' stands here again", "model.csv:4")),
    "two laws": ("mean,std,sample_0\n" + "1,1,1\n" * 3, ("more than one law: samples; mean and std",)),
    "half a law": ("mean\n" + "1\n" * 3, ("mean lacks std",)),
    "no level": ("lower,upper\n" + "1,1\n" * 3, ("lower and upper lack level", "such as 0.9")),
    "two levels": ("lower,upper,level\n1,1,.9\n1,1,.9\n1,1,.8\n", ("0.8 here, and 0.9 above", "model.csv:4")),
    "a level in percent": ("lower,upper,level\n" + "1,1,90\n" * 3, ("level 90",)),
    "one level twice": ("q0.5,q0.50\n" + "1,1\n" * 3, ("do not rise",)),
    "commas": ('mean,std\n"1,5",1\n1,1\n1,1\n', ("write 1.5",)),
    "nothing": ("row,sample,value\n", ("no rows",)),
    "long digits": (f"sample_{'1' * 5000},x\n" + "1,1\n" * 3, ("no law",)),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_that_do_not_fit_are_refused_with_the_line(tmp_path: Path, name: str) -> None:
    text, says = LAWS[name]
    refused(lambda: law(tmp_path, truth(tmp_path), text), "model.csv", *says)


def test_values_that_make_no_law_are_refused_with_the_line(tmp_path: Path) -> None:
    of = truth(tmp_path)
    for text, where in (
        ("row,mean,std\n2,1,1\n1,1,-1\n0,1,1\n", "model.csv:3, std"),
        ("lower,upper,level\n1,1,.9\n1,1,.9\n1,0,.9\n", "model.csv:4, lower"),
        ("q0.9,q0.1\n2,1\n1,2\n2,1\n", "model.csv:3, quantiles"),
    ):
        found = law(tmp_path, of, text)
        assert refused(lambda found=found: found.block(0, 3)).where.endswith(where)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (TRUTH, {"target": ()}, ("Which column", "--target", "There are: y, x, site")),
        (TRUTH, {"target": ("Y",)}, ("no column 'Y'", "Did you mean 'y'")),
        (TRUTH, {"inputs": ["z"]}, ("no column 'z'",)),
        (TRUTH, {"inputs": ["y"]}, ("'y' is named twice",)),
        (TRUTH, {"target": ("site",)}, ("'a' is no number up to 1e+100", "data.csv:2")),
        (TRUTH, {"mask": "m"}, ("--mask names an array of an NPZ",)),
        (TRUTH, {"features": "f"}, ("--features names an array of an NPZ",)),
        (TRUTH, {"modes": "x"}, ("--modes names an array of an NPZ",)),
        (TRUTH, {"features": "pca:2"}, ("vary in 1 directions",)),
        ("y,x\n", {}, ("no rows",)),
        ("y|x\n1|2\n", {"target": ("z",)}, ("no column 'z'",)),
    ],
)
def test_tables_that_hold_no_outcomes_are_refused(tmp_path: Path, text: str, options: Any, says: Any) -> None:
    refused(lambda: truth(tmp_path, text, **options), "data.csv", *says)


def test_lists_in_cells_make_no_groups(tmp_path: Path) -> None:
    path = save(tmp_path, '{"y": 1, "tags": ["a"], "site": "b"}\n{"y": 2, "tags": [], "site": null}', "d.jsonl")
    assert {**read_truth(path, target=["y"]).columns} == {"site": ["b", ""]}


def test_principal_components_of_a_table(tmp_path: Path) -> None:
    of = truth(tmp_path, target=("x", "y"), features="pca:1")
    values = np.array([[1, 0.5], [2.5, -2], [4, 3]])
    found = law(tmp_path, of, "\n".join(["row,sample,x,y", *(f"{i},0,{x},{y}" for i, (x, y) in enumerate(values))]))
    assert found.d == 1 and np.allclose(found.block(0, 3)["samples"][:, 0], of.y, rtol=0, atol=1e-15)
    assert of.y.var() == pytest.approx(np.linalg.eigvalsh(np.cov(values.T, ddof=0))[1])
