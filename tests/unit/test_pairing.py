"""Records of two runs: what is read, what is matched, and what each audit makes of its own columns."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pairings import RATIO, ById, area_of, table

from audits.core.records import Estimate, Report, Source
from audits.report.comparison.comparing import pairing_of
from audits.report.comparison.pairing import NOT_GIVEN, NOT_OF_RECORDS, Matching, Paired, matched
from audits.report.comparison.parts import Rows, Smooth
from audits.report.comparison.tables import LARGEST, MOST_CELLS, Table, read_table
from audits.report.report_file import read_report
from audits.statistics.roc import area
from audits.statistics.unit_moves import Side, freedom, variance
from probes.core.errors import InputError

# How each audit with records in the small world names its estimates that records make.
MADE = {
    "certified": {"certified_accuracy", "clean_accuracy", "abstention_rate", "average_certified_radius"},
    "grids": {"relative_l2", "direct_minus_upsampled", "direct_worse_share", "mismatch", "mismatch_share"},
    "groups": {"rate"},
    "first": {"error_rate", "head_error_rate"},
    "suite": {"auc"},
}


def as_rows(found: Table) -> Rows:
    return Rows(found.text, found.numbers, {})


def rate(value: float, **where: str) -> Estimate:
    return Estimate(name="rate", value=value, low=0, high=1, method="x", n=1, unit="x", where=where)


def rows(errors: list[Any], *, sizes: list[Any] | None = None, ids: list[Any] | None = None, **more: Any) -> Table:
    ids = ids or [f"r{at}" for at in range(len(errors))]
    return table(id=ids, who=more.pop("who", ids), errors=errors, size=sizes or [1] * len(errors), **more)


def match(sample: Report, first: Table, second: Table, pairing: Any = RATIO) -> Any:
    return matched((sample, sample), (first, second), pairing)


def test_a_paired_mean_is_students_paired_t(sample_report: Report) -> None:
    from scipy.stats import ttest_rel

    first, second = [1, 4, 2, 8, 5, 7], [2, 3, 5, 9, 6, 9]
    found = match(sample_report, rows(first), rows(second)).change(rate(27 / 6), rate(34 / 6))
    expected = ttest_rel(second, first)
    low, high = expected.confidence_interval()
    assert found.difference == pytest.approx((7 / 6, low, high))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.matched == (6, 6)


def test_clusters_are_the_units(sample_report: Report) -> None:
    """Records repeated within their speaker say nothing new."""
    first, second = [1, 4, 2, 8, 5, 7], [2, 4, 5, 9, 6, 9]
    who = [f"s{at}" for at in range(6)]
    once = match(sample_report, rows(first, who=who), rows(second, who=who)).change(rate(27 / 6), rate(35 / 6))
    twice = match(sample_report, rows(first * 2, who=who * 2), rows(second * 2, who=who * 2))
    assert twice.change(rate(27 / 6), rate(35 / 6)).difference == pytest.approx(once.difference)


def test_records_of_one_run_only_are_counted_and_left_out(sample_report: Report) -> None:
    first = rows([1, 0, 1, 0, 1, 0, 1], ids=list("abcdefg"))
    second = rows([1, 0, 0, 1, 0, 1, 0, 1], ids=list("gxhfedcb"))
    found = match(sample_report, first, second)
    assert (found.matched, found.alone) == (6, (1, 2))
    change = found.change(rate(4 / 7), rate(4 / 8))
    assert change.values == pytest.approx((3 / 6, 4 / 6)) and change.matched == (6, 9)


def test_a_group_is_that_of_the_records(sample_report: Report) -> None:
    levels = ["north"] * 6 + ["=south"] * 2
    columns = {"who": [f"s{at}" for at in range(8)], "attribute_status": levels, "status": ["used"] * 8}
    found = match(sample_report, rows([1, 0, 1, 0, 0, 0, 1, 1], **columns), rows([0, 1, 1, 1, 1, 1, 0, 0], **columns))
    change = found.change(rate(2 / 6, group="status=north"), rate(5 / 6, group="status=north"))
    assert change.matched == (6, 6) and change.difference[0] == pytest.approx(3 / 6)
    assert found.change(rate(1, group="status==south"), rate(0, group="status==south")).startswith("fewer than 5")
    assert found.change(rate(1, group="age=old"), rate(0, group="age=old")) == NOT_OF_RECORDS


@pytest.mark.parametrize(
    ("first", "second", "values", "why"),
    [
        ([1, 0, 1, 0], [1, 1, 1, 0], (0.5, 0.75), "fewer than 5"),
        ([1, 0, 1, 0, 1], [1, 1, 1, 0, 1], (0.6, 0.7), NOT_GIVEN),
        ([1] * 9, [0] * 9, (1, 0), "all units moved alike"),
        ([1] * 9, [0] * 4 + [1] * 5, (1, 5 / 9), "fewer than 5 units came out otherwise"),
    ],
)
def test_what_cannot_be_paired_says_why(
    sample_report: Report, first: list[int], second: list[int], values: tuple[float, float], why: str
) -> None:
    found = match(sample_report, rows(first), rows(second)).change(rate(values[0]), rate(values[1]))
    assert isinstance(found, str) and found.startswith(why)


def test_without_a_record_that_came_out_otherwise_the_change_is_exactly_none(sample_report: Report) -> None:
    errors = [1, 0, 1, 0, 1, 1]
    found = match(sample_report, rows(errors), rows(errors)).change(rate(4 / 6), rate(4 / 6 + 1e-12))
    assert found.difference == (0, 0, 0) and found.p == 1 and found.values[0] == found.values[1]


def test_records_are_matched_or_the_reason_is_told(sample_report: Report) -> None:
    good, other = rows([1, 0, 1]), rows([1, 0, 1], who=["x", "r1", "r2"])
    assert "stands twice" in match(sample_report, good, rows([1, 0, 1], ids=["a", "a", "b"]))
    assert "no record" in match(sample_report, good, rows([1, 0], ids=["x", "y"]))
    assert "another in the second" in match(sample_report, good, other)
    assert "no column 'id'" in match(sample_report, good, table(name=["a"]))
    by_place = dataclasses.replace(RATIO, roles=("images",))
    assert "differ or are not named" in match(sample_report, good, good, by_place)
    images = [
        dataclasses.replace(sample_report, data=(Source(role="images", path="x", sha256=digest * 64, items=3),))
        for digest in "ab"
    ]
    assert "differ" in matched((images[0], images[1]), (good, good), by_place)
    assert isinstance(matched((images[0], images[0]), (good, good), by_place), Matching)


def test_the_area_is_paired_as_by_delong(sample_report: Report) -> None:
    rng = np.random.default_rng(0)
    member = np.arange(300) < 140
    shared = rng.normal(size=300) + member
    scores = [shared + 0.5 * rng.normal(size=300) for _ in range(2)]
    pairing = ById(made=area_of)
    one, two = (table(id=list(range(300)), score=list(column), member=list(member.astype(int))) for column in scores)
    first, second = (area(column, member) for column in scores)
    found = match(sample_report, one, two, pairing).change(
        dataclasses.replace(rate(first.value), name="auc"), dataclasses.replace(rate(second.value), name="auc")
    )
    variance = sum(
        np.cov(np.stack([a, b]))[[0, 1, 0], [0, 1, 1]] @ [1, 1, -2] / len(a)
        for a, b in ((first.of_members, second.of_members), (first.of_others, second.of_others))
    )
    half = (found.difference[2] - found.difference[1]) / 2
    assert half == pytest.approx(1.968 * np.sqrt(variance), rel=0.01)
    turned = table(id=list(range(300)), score=list(scores[1]), member=list(1 - member.astype(int)))
    whole = dataclasses.replace(rate(area(scores[1], ~member).value), name="auc")
    assert "non-members" in match(sample_report, one, turned, pairing).change(
        dataclasses.replace(rate(first.value), name="auc"), whole
    )


def test_an_area_needs_units_on_each_side(sample_report: Report) -> None:
    member = np.arange(40) < 4
    scores = np.random.default_rng(0).normal(size=(2, 40))
    pairing = ById(made=area_of, unit="who")

    def told(side: Any, who: list[int]) -> Any:
        tables = [table(id=list(range(40)), who=who, score=list(one), member=list(side.astype(int))) for one in scores]
        ends = [dataclasses.replace(rate(area(one, side).value), name="auc") for one in scores]
        return match(sample_report, *tables, pairing).change(*ends)

    assert told(member, list(range(40))).startswith("fewer than 5")
    assert isinstance(told(np.arange(40) < 5, list(range(40))), Paired)
    assert told(np.arange(40) < 20, [place % 20 for place in range(40)]) == "a unit holds members and others"


def test_a_smooth_function_of_sums_is_paired_like_the_ratio_that_it_is(sample_report: Report) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 20, 30).tolist()
    errors = [rng.binomial(sizes, share).tolist() for share in (0.2, 0.3)]
    who = [f"s{at // 2}" for at in range(30)]
    tables = [rows(one, sizes=sizes, who=who) for one in errors]

    def smooth(run: Rows) -> Smooth:
        sums = np.stack([run.numbers["errors"], run.numbers["size"]], axis=1)
        return Smooth(sums, lambda total: float(total[0] / total[1]), run.numbers["size"], bounded=True)

    ends = [rate(sum(one) / sum(sizes)) for one in errors]
    expected = match(sample_report, *tables).change(*ends)
    found = match(sample_report, *tables, ById(made=smooth, unit="who")).change(*ends)
    assert found.difference == pytest.approx(expected.difference) and found.p == pytest.approx(expected.p)


def test_what_records_move_sums_to_zero_for_any_function() -> None:
    sums = np.random.default_rng(0).normal(3.0, 1.0, (20, 2))
    moves = Smooth(sums, lambda total: float(total[0] ** 2 - total[1])).moves()
    assert np.abs(moves).max() > 1 and moves.sum() == pytest.approx(0, abs=1e-6)


def test_the_interval_of_a_paired_calibration_error_holds(sample_report: Report) -> None:
    """Two scorers of known calibration error on the same items, with the number of bins among the settings."""
    edges = np.linspace(0, 1, 6)[1:-1]
    pairing = ById(made=lambda run: Smooth(binned(run.numbers["p"], run.numbers["y"], edges), calibration_error))
    rng, count = np.random.default_rng(2), 800
    # Confidences in the middles of the bins; the truth lies .04 and .12 below them.
    held = []
    for _ in range(200):
        middle = rng.choice([0.3, 0.5, 0.7, 0.9], count)
        tables = []
        for bias in (0.04, 0.12):
            right = rng.random(count) < middle - bias
            tables.append(table(id=list(range(count)), p=list(middle), y=list(right.astype(int))))
        values = [calibration_error(binned(one.numbers["p"], one.numbers["y"], edges).sum(axis=0)) for one in tables]
        found = match(sample_report, *tables, pairing).change(*(rate(value) for value in values))
        held.append(found.difference[1] <= 0.08 <= found.difference[2])
    assert np.mean(held) >= 0.91


def binned(scores: Any, right: Any, edges: Any) -> Any:
    codes = np.searchsorted(edges, scores)
    found = np.zeros((len(scores), 3 * (len(edges) + 1)))
    for column, amount in enumerate((np.ones(len(scores)), scores, right)):
        found[np.arange(len(scores)), 3 * codes + column] = amount
    return found


def calibration_error(sums: Any) -> float:
    n, confident, right = sums.reshape(-1, 3).T
    return float(np.abs(confident - right).sum() / n.sum())


def test_degrees_of_freedom_are_those_of_the_quadratic_form() -> None:
    """Of Q = sum a^2 w^2 (d - mean)^2 with d of variance 1 / w: tr(G)^2 / tr(G^2), and tr(G) is the variance itself."""
    weights = np.random.default_rng(0).dirichlet(np.full(9, 0.7))
    scale = np.sqrt(1 / (1 - weights))
    spread = np.diag(weights) - np.outer(weights, weights)
    form = np.outer(scale, scale) * spread
    assert np.trace(form) == pytest.approx(1)
    assert freedom(weights) == pytest.approx(1 / np.trace(form @ form))


def test_unequal_weights_leave_fewer_degrees_of_freedom_however_even_the_moves() -> None:
    weights = np.array([0.3, 0.2, *[0.1] * 5])
    moved = np.array([1.0, -1, 1, -1, 1, -1, 0.1])
    _, left = variance(Side(moved, weights, 7))
    assert left == freedom(weights) < 5
    assert variance(Side(moved, np.full(7, 1 / 7), 7))[1] == pytest.approx(6)


@pytest.mark.parametrize("run", MADE)
def test_the_records_of_every_audit_give_its_numbers(prepared: Path, run: str) -> None:
    """A run against itself: each estimate that records make is paired by all of its records, and none has changed."""
    folder = prepared / "work" / "runs" / run
    report, records = read_report(folder), read_table(folder)
    assert isinstance(records, Table)
    pairing: Any = pairing_of(report.audit)
    found = matched((report, report), (records, records), pairing)
    assert isinstance(found, Matching) and found.alone == (0, 0)
    paired = set()
    for one in report.estimates:
        change = found.change(one, one)
        assert change != NOT_GIVEN, one
        if isinstance(change, Paired):
            assert change.difference == (0, 0, 0) and change.matched[0] == change.matched[1] > 0
            paired.add(one.name)
    assert paired >= MADE[run]


BROKEN = {
    "a row is short": "a,b\n1\n",
    "two columns of one name": "a,a\n1,2\n",
    "a quote is open": 'a,b\n1,"2\n',
    "no text": b"a,b\n\xff,1\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_damaged_records_are_refused(tmp_path: Path, text: str | bytes) -> None:
    (tmp_path / "records.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read_table(tmp_path)
    assert "records.csv" in error.value.where


@pytest.mark.parametrize("cell", ["x", "inf", "nan", "1e999"])
def test_a_cell_that_is_no_number_is_refused(cell: str) -> None:
    with pytest.raises(InputError, match="number"):
        table(a=["1", cell]).numbers["a"]


def test_what_a_spreadsheet_must_not_run_is_read_as_it_was(tmp_path: Path) -> None:
    from audits.report.records_file import write_records

    names = ["=1+1", "-x", "'quoted", "plain", "a\nb"]
    write_records([{"name": name, "size": at or ""} for at, name in enumerate(names)], tmp_path)
    found = read_table(tmp_path)
    assert isinstance(found, Table)
    assert found.text["name"].tolist() == names
    assert np.isnan(found.numbers["size"][0]) and found.numbers["size"][1:].tolist() == [1, 2, 3, 4]


def test_what_is_too_large_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "records.csv").open("wb") as file:
        file.truncate(LARGEST + 1)
    assert "MiB" in str(read_table(tmp_path))
    assert "not there" in str(read_table(tmp_path / "nowhere"))


@pytest.mark.parametrize(("before", "many"), [("", ","), ("a\n", ","), ("a\n", "\r"), ('"', '",\n"')])
def test_cells_are_counted_before_they_are_made(tmp_path: Path, before: str, many: str) -> None:
    # A quote is left open, which would be refused where cells are made.
    cells = MOST_CELLS // sum(many.count(mark) for mark in ",\r\n")
    (tmp_path / "records.csv").write_text(f'{before}{many * cells},"', newline="")
    assert f"{MOST_CELLS:,} cells" in str(read_table(tmp_path))


def test_rows_of_several_blocks_are_read_in_order(tmp_path: Path) -> None:
    # The first block has 16 rows.
    (tmp_path / "records.csv").write_text("a,b\n" + "".join(f"{at},x\n" for at in range(40)))
    found = read_table(tmp_path)
    assert isinstance(found, Table) and found.numbers["a"].tolist() == list(range(40)) and found.rows == 40
    (tmp_path / "records.csv").write_text("a,b\n" + "1,2\n" * 40 + "1\n")
    with pytest.raises(InputError, match="The row has 1 fields, the header 2"):
        read_table(tmp_path)


def test_points_without_an_id_are_known_only_in_the_same_files() -> None:
    pairing = pairing_of("membership")
    columns = {"attack": ["x"] * 2, "tier": ["full"] * 2, "member": [1, 0], "judged": [1, 1], "score": [0.5, ""]}
    numbered, named = (as_rows(table(point=names, **columns)) for names in (["0", "1"], ["a", "1"]))
    assert pairing.keys(numbered)[1] and not pairing.keys(named)[1]
    assert [key is None for key in pairing.keys(named)[0]] == [False, True]


def test_ids_of_digits_are_ids_where_they_cannot_be_places() -> None:
    pairing = pairing_of("membership")
    same = {"attack": ["x", "x", "y", "y"], "tier": ["full"] * 4, "member": [1] * 4, "judged": [1] * 4}

    def known_by_place(*points: str) -> bool:
        return bool(pairing.keys(as_rows(table(point=list(points), score=[0.5] * 4, **same)))[1])

    assert known_by_place("0", "1", "0", "1") and known_by_place("7", "9", "7", "9")
    assert not known_by_place("1009", "1001", "1009", "1001")
    assert not known_by_place("0007", "0008", "0007", "0008")
    assert not known_by_place("1" * 5000, "2" * 5000, "1" * 5000, "2" * 5000)


def test_a_clip_of_nobody_is_one_unit_wherever_it_stands() -> None:
    pairing = pairing_of("audit-groups")
    columns = {"status": ["used"] * 3, "speaker": ["", "ann", ""]}
    first = table(path=list("xyz"), line=[2, 3, 4], **columns)
    turned = table(path=list("zyx"), line=[2, 3, 4], **columns)
    assert pairing.units(as_rows(first)) == pairing.units(as_rows(turned))[::-1]
    assert len(set(pairing.units(as_rows(first)))) == 3


@pytest.mark.parametrize(
    ("audit", "alike"), [("audit-fairness", ["seconds"]), ("audit-groups", ["words", "characters"])]
)
def test_a_path_means_one_clip_only_where_the_clips_are_alike(
    sample_report: Report, audit: str, alike: list[str]
) -> None:
    pairing: Any = pairing_of(audit)
    columns = {"path": list("xyz"), "line": [2, 3, 4], "status": ["used"] * 3, "speaker": list("abc")}
    sizes = {name: [3, 5, 7] for name in alike}
    first = table(**columns, **sizes)
    assert isinstance(match(sample_report, first, table(**columns, **sizes), pairing), Matching)
    for name in alike:
        other = table(**columns, **{**sizes, name: [3, 5, 8]})
        assert name in match(sample_report, first, other, pairing)


@pytest.mark.parametrize("audit", ["audit-fairness", "audit-groups"])
def test_recordings_named_twice_are_known_by_their_lines(audit: str) -> None:
    pairing = pairing_of(audit)
    columns = {"line": [2, 3, 4], "status": ["used", "used", "no text"], "speaker": ["a", "", "b"]}
    assert pairing.keys(as_rows(table(path=list("xyz"), **columns))) == (["x", "y", None], ())
    assert pairing.keys(as_rows(table(path=list("xxz"), **columns))) == (["2", "3", None], ("manifest",))
