import dataclasses
import math

import pytest

from audits.comparison import Change, _rank, changes, check_levels, ranked, same_run, unmatched
from audits.records import Estimate, Report
from probes.errors import InputError


def row(name: str = "gap", value: float = 0.2, half: float = 0.05, **more: object) -> Estimate:
    ends = {"low": value - half, "high": value + half, "method": "bootstrap"}
    where = more.pop("where", {"by": "accent"})
    return Estimate(**{"name": name, "value": value, **ends, "n": 9, "unit": "speakers", "where": where, **more})  # type: ignore[arg-type]


def report(sample: Report, *rows: Estimate) -> Report:
    return dataclasses.replace(sample, estimates=rows, findings=(), gates=())


def change(sample: Report, before: Estimate, after: Estimate) -> Change:
    (found,) = changes(report(sample, before), report(sample, after))
    return found


def test_the_interval_of_a_change_is_movers(sample_report: Report) -> None:
    found = change(sample_report, row(value=0.2, half=0.03), row(value=0.3, half=0.04))
    assert found.difference == pytest.approx((0.1, 0.1 - math.hypot(0.04, 0.03), 0.1 + math.hypot(0.04, 0.03)))
    assert found.excludes_zero
    assert found.is_worse


def test_rows_are_matched_by_name_and_place_in_any_order_of_keys(sample_report: Report) -> None:
    one = row(where={"by": "accent", "layer": 3})
    same = row(where={"layer": 3, "by": "accent"})
    other = row(where={"by": "accent", "layer": "3"})
    assert len(list(changes(report(sample_report, one), report(sample_report, same)))) == 1
    assert list(changes(report(sample_report, one), report(sample_report, other))) == []
    first, second = report(sample_report, one, row("rate")), report(sample_report, other, row("rate"), row("more"))
    assert unmatched(first, second) == (1, 2)


@pytest.mark.parametrize(
    ("value", "half", "excludes", "worse"),
    [(0.21, 0.05, False, True), (0.5, 0.05, True, True), (0.0, 0.01, True, False), (0.2, 0.05, False, False)],
)
def test_only_a_change_beyond_its_interval_counts(
    sample_report: Report, value: float, half: float, excludes: bool, worse: bool
) -> None:
    found = change(sample_report, row(), row(value=value, half=half))
    assert (found.excludes_zero, found.is_worse) == (excludes, worse)


def test_a_rise_is_worse_only_where_less_is_better(sample_report: Report) -> None:
    for name, worse in (("gap", True), ("error_rate", True), ("gap_to_others", True), ("best_layer", False)):
        assert change(sample_report, row(name), row(name, value=0.9)).is_worse is worse


LEAKS = ("auc", "leakage", "tpr", "advantage", "advantage_held_out", "balanced_accuracy", "balanced_accuracy_held_out")


@pytest.mark.parametrize("name", LEAKS)
def test_to_leak_more_is_worse(sample_report: Report, name: str) -> None:
    worse, better = (change(sample_report, row(name), row(name, value=value)) for value in (0.9, 0.1))
    assert worse.can_be_judged and worse.is_worse and worse.excludes_zero
    assert better.can_be_judged and not better.is_worse


@pytest.mark.parametrize("name", ["epsilon_lower", "epsilon_credible"])
def test_of_what_a_run_could_prove_no_change_is_told(sample_report: Report, name: str) -> None:
    before, after = (report(sample_report, row(name, value=value), row("auc")) for value in (0.2, 5.0))
    assert [found.name for found in changes(before, after)] == ["auc"]
    assert unmatched(before, after) == (0, 0)


def test_what_has_no_interval_or_another_level_has_no_interval_of_its_change(sample_report: Report) -> None:
    none = row(low=None, high=None, method="none")
    for before, after in ((none, row()), (row(), none), (row(), row(level=0.9))):
        found = change(sample_report, before, after)
        assert found.difference is None
        assert not found.excludes_zero


def test_an_exact_number_moves_by_as_much_as_it_moves(sample_report: Report) -> None:
    ends = {"low": None, "high": None, "method": "exact"}
    found = change(sample_report, row(**ends), row(value=0.3, **ends))
    assert found.difference == pytest.approx((0.1, 0.1, 0.1))


def test_a_run_against_itself_has_not_changed(sample_report: Report) -> None:
    found = list(changes(sample_report, sample_report))
    assert len(found) == len({(row.name, row.where) for row in found}) > 100
    assert not any(row.excludes_zero for row in found)
    assert all(row.difference is not None and row.difference[0] == 0 for row in found)
    assert unmatched(sample_report, sample_report) == (0, 0)


def test_what_excludes_zero_stands_first_then_what_moved_more(sample_report: Report) -> None:
    places = [{"layer": layer} for layer in range(4)]
    before = report(sample_report, *(row(where=where) for where in places))
    moved = zip(places, (0.2, 0.9, 0.25, 0.6), (0.05, 5.0, 0.05, 0.05), strict=True)
    after = report(sample_report, *(row(where=where, value=value, half=half) for where, value, half in moved))
    assert [dict(found.where)["layer"] for found in ranked(changes(before, after))] == [3, 1, 2, 0]


def test_a_copy_is_the_same_run_and_another_seed_or_number_is_not(sample_report: Report) -> None:
    assert same_run(sample_report, dataclasses.replace(sample_report, created="2027-01-01T00:00:00Z"))
    other = {**sample_report.settings, "seed": 5}
    assert not same_run(sample_report, dataclasses.replace(sample_report, settings=other))
    assert not same_run(sample_report, report(sample_report, row()))


def test_runs_of_other_levels_are_refused_with_both_levels(sample_report: Report) -> None:
    wide = dataclasses.replace(sample_report, settings={**sample_report.settings, "level": 0.9})
    with pytest.raises(InputError) as error:
        check_levels(sample_report, wide, where="a and b")
    assert "0.95" in error.value.message
    assert "0.9" in error.value.message.replace("0.95", "")
    assert "--level" in error.value.hint
    check_levels(sample_report, sample_report, where="a and b")


def test_only_a_rate_or_a_gap_with_an_interval_can_be_judged(sample_report: Report) -> None:
    none = row(low=None, high=None, method="none")
    assert change(sample_report, row(), row()).can_be_judged
    assert not change(sample_report, none, none).can_be_judged
    assert not change(sample_report, row("best_layer"), row("best_layer")).can_be_judged


def test_what_can_be_worse_stands_before_larger_changes_of_what_cannot() -> None:
    def change(name: str, size: float) -> Change:
        shared = {"name": name, "low": 0.9, "high": 9.0, "method": "x", "n": 9, "unit": "x"}
        before, after = Estimate(value=1.0, **shared), Estimate(value=1.0 + size, **shared)
        return Change(name=name, where=(), before=before, after=after, difference=(size, size / 2, 2 * size))

    rows = [change("centroid", 5.0), change("relative_l2", 0.1)]
    assert [row.name for row in sorted(rows, key=_rank)] == ["relative_l2", "centroid"]
