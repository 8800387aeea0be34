import dataclasses
import json
import math

import pytest
from measured import measured

from audits.core.gates import parse_selection
from audits.core.records import Estimate, Report
from audits.report.comparison import wording
from audits.report.comparison.changes import NO_WIDTH, Change, corrected, in_both, independent, p_of, ranked, unmatched
from audits.report.comparison.comparing import Comparison, Run, check_levels, compare, compare_all, differing, same_run
from audits.report.comparison.page import MOST_ROWS, to_html
from audits.report.comparison.plain import to_json
from probes.core.errors import InputError


def row(name: str = "gap", value: float = 0.2, half: float = 0.05, **more: object) -> Estimate:
    ends = {"low": value - half, "high": value + half, "method": "bootstrap"}
    where = more.pop("where", {"by": "accent"})
    return measured(
        Estimate(**{"name": name, "value": value, **ends, "n": 9, "unit": "speakers", "where": where, **more})
    )  # type: ignore[arg-type]


WIDE = {"value": 0.0534, "low": -0.32, "high": 0.43}
EXACT = {"low": None, "high": None, "method": "exact"}
NONE = {"low": None, "high": None, "method": "none"}


def report(sample: Report, *rows: Estimate, **more: object) -> Report:
    return dataclasses.replace(sample, estimates=rows, findings=(), gates=(), **more)  # type: ignore[arg-type]


def compared(tmp_path, before: Report, after: Report, *only: str, match: tuple[str, ...] = ()) -> Comparison:
    runs = [Run(name=name, folder=tmp_path, report=one) for name, one in (("a", before), ("b", after))]
    return compare(runs[0], runs[1], [parse_selection(text, where="--only") for text in only], match)


def changed(before: Estimate, after: Estimate) -> Change:
    return corrected([independent(before, after)])[0]


def test_the_interval_of_an_independent_change_is_movers() -> None:
    found = changed(row(value=0.2, half=0.03), row(value=0.3, half=0.04))
    assert found.difference == pytest.approx((0.1, 0.1 - math.hypot(0.04, 0.03), 0.1 + math.hypot(0.04, 0.03)))
    assert found.verdict == "changed" and found.is_worse and found.is_regression


def test_rows_are_matched_by_name_and_place_in_any_order_of_keys(sample_report: Report) -> None:
    one = row(where={"by": "accent", "layer": 3})
    same = row(where={"layer": 3, "by": "accent"})
    other = row(where={"by": "accent", "layer": "3"})
    assert len(in_both(report(sample_report, one), report(sample_report, same))) == 1
    assert in_both(report(sample_report, one), report(sample_report, other)) == []
    first, second = report(sample_report, one, row("rate")), report(sample_report, other, row("rate"), row("more"))
    assert [len(rows) for rows in unmatched(first, second)] == [1, 2]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("value", [-0.3, 0.05, 0.3])
def test_p_is_below_the_error_exactly_where_the_interval_leaves_zero_out(value: float, level: float) -> None:
    reach = abs(value)
    for room, excludes in ((0.99 * reach, True), (1.01 * reach, False)):
        low, high = (value - room, value + 9) if value > 0 else (value - 9, value + room)
        assert (p_of((value, low, high), level) < 1 - level) is excludes
    assert p_of((0.0, -0.1, 0.1), level) == 1
    assert p_of((value, value, value), level) == 0


def test_holm_counts_what_is_tested_and_nothing_else() -> None:
    places = [{"layer": layer} for layer in range(5)]
    before = [row(where=where) for where in places]
    after = [row(value=0.29, where=where) for where in places]
    alone = independent(before[0], after[0])
    assert alone.p is not None and 0.01 < alone.p < 0.05
    assert changed(before[0], after[0]).verdict == "changed"
    five = corrected(independent(*pair) for pair in zip(before, after, strict=True))
    assert {found.verdict for found in five} == {"unclear"}
    assert [found.p_holm for found in five] == pytest.approx([5 * alone.p] * 5)
    exact, none = (independent(row(**kind), row(value=0.3, **kind)) for kind in (EXACT, NONE))
    beside = corrected([alone, exact, none])
    assert [found.p_holm for found in beside] == [pytest.approx(alone.p), None, None]


def test_only_narrows_before_holm(sample_report: Report, tmp_path) -> None:
    places = [{"layer": layer} for layer in range(5)]
    before = report(sample_report, *(row(where=where) for where in places))
    after = report(sample_report, *(row(value=0.29, where=where) for where in places))
    assert {one.verdict for one in compared(tmp_path, before, after).rows} == {"unclear"}
    assert [one.verdict for one in compared(tmp_path, before, after, "gap[layer=2]").rows] == ["changed"]
    with pytest.raises(InputError, match="selects nothing"):
        compared(tmp_path, before, after, "gap[layer=2]", "gap[layer=9]")


@pytest.mark.parametrize(
    ("value", "half", "verdict", "worse"),
    [
        (0.21, 0.05, "unclear", True),
        (0.5, 0.05, "changed", True),
        (0.0, 0.01, "changed", False),
        (0.2, 0.05, "unclear", False),
    ],
)
def test_only_a_change_beyond_its_interval_counts(value: float, half: float, verdict: str, worse: bool) -> None:
    found = changed(row(), row(value=value, half=half))
    assert (found.verdict, found.is_worse) == (verdict, worse)


def test_a_rise_is_worse_only_where_less_is_better() -> None:
    for name, worse in (("gap", True), ("error_rate", True), ("gap_to_others", True), ("best_layer", False)):
        assert changed(row(name), row(name, value=0.9)).is_worse is worse


LEAKS = ("auc", "leakage", "tpr", "advantage", "advantage_held_out", "balanced_accuracy", "balanced_accuracy_held_out")


@pytest.mark.parametrize("name", LEAKS)
def test_to_leak_more_is_worse(name: str) -> None:
    worse, better = (changed(row(name), row(name, value=value)) for value in (0.9, 0.1))
    assert worse.can_be_judged and worse.is_regression
    assert better.can_be_judged and not better.is_regression


@pytest.mark.parametrize("name", ["epsilon_lower", "epsilon_credible"])
def test_of_what_a_run_could_prove_no_change_is_told(sample_report: Report, name: str) -> None:
    before, after = (report(sample_report, row(name, value=value), row("auc")) for value in (0.2, 5.0))
    assert [one.name for one, _ in in_both(before, after)] == ["auc"]
    assert unmatched(before, after) == ((), ())


@pytest.mark.parametrize(("kind", "compared"), [("Lower bound: a", False), ("Upper bound: b", True)])
def test_of_what_one_sample_showed_no_change_is_told_and_of_what_was_proved_it_is(
    sample_report: Report, kind: str, compared: bool
) -> None:
    before, after = (report(sample_report, row("x", method=kind), row("auc")) for _ in range(2))
    assert [one.name for one, _ in in_both(before, after)] == ["x"] * compared + ["auc"]


def test_what_was_provable_is_compared_as_it_is_written() -> None:
    ends = {"low": None, "high": None, "method": "exact", "n": 9, "unit": "points"}
    found = changed(*(measured(Estimate(name="epsilon_ceiling", value=value, **ends)) for value in (4.20874, 4.99999)))
    assert wording.shown(found)[:2] == ("4.20", "4.99")


@pytest.mark.parametrize(
    ("before", "after"), [(row(half=0), row(value=0.3)), (row(), row(half=0)), (row(half=0), row(half=0))]
)
def test_a_sampled_interval_without_width_is_no_certainty(before: Estimate, after: Estimate) -> None:
    found = changed(before, after)
    assert found.difference is None and found.p is None and found.verdict == "no interval"
    assert found.why == NO_WIDTH and not found.can_be_judged
    exact = changed(row(**EXACT), row(value=0.5))
    assert exact.difference is not None and exact.verdict == "changed"


@pytest.mark.parametrize("name", ["gap_to_others", "head_gap_to_others"])
@pytest.mark.parametrize(
    ("before", "after", "half", "worse", "regression"),
    [
        (-0.30, -0.05, 0.02, False, False),
        (-0.05, -0.30, 0.02, True, True),
        (0.30, 0.05, 0.02, False, False),
        (0.05, 0.30, 0.02, True, True),
        (-0.10, 0.11, 0.02, True, False),
        (-0.01, 0.30, 0.02, True, True),
        (0.01, -0.30, 0.02, True, True),
        (-0.30, 0.01, 0.02, False, False),
        (0.05, 0.06, 0.02, True, False),
    ],
)
def test_a_signed_gap_gets_worse_by_moving_away_from_zero(
    name: str, before: float, after: float, half: float, worse: bool, regression: bool
) -> None:
    found = changed(row(name, before, half), row(name, after, half))
    assert (found.is_worse, found.is_regression) == (worse, regression)


def test_several_later_runs_are_corrected_as_one_family(sample_report: Report, tmp_path) -> None:
    first, later = report(sample_report, row()), report(sample_report, row(value=0.29))
    reports = first, later, first, later, first, first
    runs = [Run(name=str(at), folder=tmp_path, report=one) for at, one in enumerate(reports)]
    (alone,) = compare_all(runs[0], runs[1:2])
    assert alone.rows[0].verdict == "changed"
    found = compare_all(runs[0], runs[1:])
    assert [one.after.name for one in found] == list("12345")
    assert [one.rows[0].verdict for one in found] == ["unclear"] * 5
    assert found[0].rows[0].p_holm == pytest.approx(5 * alone.rows[0].p)


def test_what_has_no_interval_or_another_level_has_no_interval_of_its_change() -> None:
    for before, after in ((row(**NONE), row()), (row(), row(**NONE)), (row(), row(level=0.9))):
        found = changed(before, after)
        assert found.difference is None and found.p is None
        assert found.verdict == "no interval"


def test_a_proved_bound_moves_by_as_much_as_it_moves_and_is_never_tested() -> None:
    def bound(value: float) -> Estimate:
        return row(name="product_bound", value=value, low=200.0, high=value, method="Upper bound: proved")

    (moved,) = corrected([independent(bound(1142.4), bound(240.2))])
    assert moved.verdict == "changed" and moved.p is None and moved.difference == pytest.approx((-902.2,) * 3)
    assert wording.basis(moved) == wording.paired(moved) == "proved"
    assert wording.shown(moved)[:2] == ("1143", "241")
    assert independent(bound(240.2), bound(240.2)).verdict == "same"


def test_an_exact_number_moves_by_as_much_as_it_moves() -> None:
    found = changed(row(**EXACT), row(value=0.3, **EXACT))
    assert found.difference == pytest.approx((0.1, 0.1, 0.1))
    assert found.p is None and found.verdict == "changed" and found.is_regression
    assert changed(row(**EXACT), row(**EXACT)).verdict == "same"


def test_a_run_against_itself_has_not_changed(sample_report: Report, tmp_path) -> None:
    found = compared(tmp_path, sample_report, sample_report)
    assert found.same and len(found.rows) > 100
    assert not any(one.verdict == "changed" for one in found.rows)
    assert all(one.difference is not None and one.difference[0] == 0 for one in found.rows)
    assert found.alone == ((), ())


def test_what_changed_stands_first_then_what_can_be_worse_then_what_moved_more() -> None:
    moved = (("gap", 0.2, 0.05), ("gap", 0.9, 5.0), ("gap", 0.6, 0.01), ("gap", 0.9, 0.01), ("centroid", 9.0, 0.01))
    rows = [
        independent(row(name, where={"at": at}, half=0.01), row(name, value, half, where={"at": at}))
        for at, (name, value, half) in enumerate(moved)
    ]
    assert [dict(found.where)["at"] for found in ranked(corrected(rows))] == [3, 2, 4, 1, 0]


def test_a_copy_is_the_same_run_and_another_seed_or_number_is_not(sample_report: Report) -> None:
    assert same_run(sample_report, dataclasses.replace(sample_report, created="2027-01-01T00:00:00Z"))
    other = {**sample_report.settings, "seed": 5}
    assert not same_run(sample_report, dataclasses.replace(sample_report, settings=other))
    assert not same_run(sample_report, report(sample_report, row()))


def systems(sample: Report, *names: str, value: float = 0.2, group: str = "accent=us") -> Report:
    return report(sample, *(row(value=value, where={"system": name, "group": group}) for name in names))


def test_renamed_systems_are_compared_as_one_and_hinted_at(sample_report: Report, tmp_path) -> None:
    before, after = systems(sample_report, "old", "both"), systems(sample_report, "both", "new", value=0.3)
    plain = compared(tmp_path, before, after)
    assert [dict(one.where)["system"] for one in plain.rows] == ["both"]
    said = " ".join(wording.notes(plain))
    assert "In a only: 1 estimate (gap [group=accent=us, system=old])." in said
    assert "There is a system old in a only and new in b only: --match old=new compares the two as one." in said
    found = compared(tmp_path, before, after, match=("old=new",))
    assert sorted(wording.place(one) for one in found.rows) == [
        "group=accent=us, system=both", "group=accent=us, system=old → new"
    ]  # fmt: skip
    assert ("names", "old → new") in wording.differences(found)
    assert found.alone == ((), ()) and not found.other_names
    assert to_json([found])["runs"][0]["renamed"] == [{"before": "old", "after": "new"}]
    for asked in ("gap[system=old]", "gap[system=new]"):
        assert len(compared(tmp_path, before, after, asked, match=("old=new",)).rows) == 1


def test_groups_can_be_matched_and_systems_can_swap_names(sample_report: Report, tmp_path) -> None:
    before, after = systems(sample_report, "x"), systems(sample_report, "x", group="accent=american", value=0.4)
    (one,) = compared(tmp_path, before, after, match=("accent=us=accent=american",)).rows
    assert one.values == (0.2, 0.4)
    pair = report(
        sample_report, *systems(sample_report, "x").estimates, *systems(sample_report, "y", value=0.9).estimates
    )
    rows = compared(tmp_path, pair, pair, match=("x=y", "y=x")).rows
    assert {dict(one.where)["system"]: one.values for one in rows} == {"x": (0.2, 0.9), "y": (0.9, 0.2)}


def test_attributes_and_parts_of_crossed_groups_are_matched(sample_report: Report, tmp_path) -> None:
    before, after = (
        report(
            sample_report,
            row("gap", where={"by": f"age&{sex}"}),
            row("error_rate", where={"group": f"age=old&{sex}={level}"}),
        )
        for sex, level in (("gender", "f"), ("sex", "female"))
    )
    assert not compared(tmp_path, before, after).rows
    found = compared(tmp_path, before, after, match=("gender=sex",))
    assert [one.name for one in found.rows] == ["gap"]
    both = compared(tmp_path, before, after, match=("gender=sex", "gender=f=sex=female"))
    assert sorted(one.name for one in both.rows) == ["error_rate", "gap"]
    turned = report(sample_report, row("error_rate", where={"group": "gender=f&years=old"}))
    assert len(compared(tmp_path, before, turned, match=("age=years",)).rows) == 1


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (("old",), "is not OLD=NEW"),
        (("older=new",), "group named 'older'"),
        (("old=never",), "No estimate of a later run is of a system.* group named 'never'"),
        (("wer=cer",), "group named 'wer'"),
        (("old=old",), "is not OLD=NEW"),
        (("old=both",), "has a 'old' of its own|would be matched with one"),
        (("old=new", "both=new"), "is matched already"),
    ],
)
def test_matches_that_cannot_be_are_refused(sample_report: Report, tmp_path, match, message: str) -> None:
    before, after = systems(sample_report, "old", "both"), systems(sample_report, "old", "both", "new")
    with pytest.raises(InputError, match=message) as error:
        compared(tmp_path, before, after, match=match)
    assert error.value.where == "--match" and error.value.hint


def test_a_match_the_wrong_way_round_is_turned_in_the_hint(sample_report: Report, tmp_path) -> None:
    with pytest.raises(InputError) as error:
        compared(tmp_path, systems(sample_report, "old"), systems(sample_report, "new"), match=("new=old",))
    assert error.value.hint == "--match old=new"


def test_runs_that_share_nothing_are_said_to(sample_report: Report, tmp_path) -> None:
    found = compared(tmp_path, systems(sample_report, "a", "b"), systems(sample_report, "c", "d"))
    assert wording.heading(found).startswith("No number whose change can be told stands in both runs")
    assert "There is a system a, b in a only and c, d in b only: --match OLD=NEW" in " ".join(wording.notes(found))


def test_long_values_are_shown_where_they_differ(sample_report: Report, tmp_path) -> None:
    folder = "asr=/data/speech/corpora/artie/predictions/of/the/release/"
    runs = [
        dataclasses.replace(sample_report, settings={**sample_report.settings, "predictions": [f"{folder}{name}"]})
        for name in ("deepspeech-0.5.1.tsv", "deepspeech-0.6.0.tsv")
    ]
    found = compared(tmp_path, *runs)
    told = dict(wording.differences(found))["settings"]
    before, after = told.removeprefix("predictions ").split(" → ")
    assert before != after and before.endswith("0.5.1.tsv") and after.endswith("0.6.0.tsv") and len(told) < 100
    assert f"{before} → {after}" in to_html([found])


def test_no_change_is_called_one_beside_a_p_value_of_the_threshold(sample_report: Report) -> None:
    one = dataclasses.replace(changed(row(), row(value=0.3)), p_holm=0.0496)
    assert (one.verdict, wording.p_shown(one)) == ("changed", "0.0496")
    assert wording.p_shown(dataclasses.replace(one, p_holm=0.0004)) == "< 0.001"


def test_runs_of_other_levels_are_refused_with_both_levels(sample_report: Report) -> None:
    wide = dataclasses.replace(sample_report, settings={**sample_report.settings, "level": 0.9})
    with pytest.raises(InputError) as error:
        check_levels(sample_report, wide, where="a and b")
    assert "0.95" in error.value.message
    assert "0.9" in error.value.message.replace("0.95", "")
    assert "--level" in error.value.hint
    check_levels(sample_report, sample_report, where="a and b")


def test_only_a_rate_or_a_gap_with_an_interval_can_be_judged() -> None:
    assert changed(row(), row()).can_be_judged
    assert not changed(row(**NONE), row(**NONE)).can_be_judged
    assert not changed(row("best_layer"), row("best_layer")).can_be_judged


def test_model_data_and_settings_that_differ_are_told_apart(sample_report: Report) -> None:
    assert sample_report.subject is not None
    other = dataclasses.replace(
        sample_report,
        subject=dataclasses.replace(sample_report.subject, sha256="f" * 64),
        data=tuple(dataclasses.replace(one, sha256="e" * 64) for one in sample_report.data[:1])
        + sample_report.data[1:],
        settings={**sample_report.settings, "seed": 77, "model": "elsewhere"},
    )
    found = differing(sample_report, other)
    assert found.model and found.data == (sample_report.data[0].role,) and not found.version
    assert found.settings == (("seed", sample_report.settings.get("seed"), 77),)
    same = differing(sample_report, sample_report)
    assert not same.model and not same.data and not same.settings


def test_packages_and_the_machine_are_told_where_they_differ(sample_report: Report) -> None:
    own = sample_report.provenance
    packages = {**own.packages, "torch": "2.1.0", "numpy": "1"}
    del packages["numpy"]
    other = dataclasses.replace(own, packages=packages, device="cuda:0", threads=own.threads + 3, seconds={})
    found = differing(sample_report, dataclasses.replace(sample_report, provenance=other)).surroundings
    assert ("torch", own.packages["torch"], "2.1.0") in found
    assert ("device", own.device, "cuda:0") in found
    assert ("threads", str(own.threads), str(own.threads + 3)) in found
    assert len(found) == 3 + ("numpy" in own.packages)
    assert not differing(sample_report, sample_report).surroundings


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (row(), row(value=0.5), ("0.20", "0.50", "0.30 (0.23 to 0.37)")),
        (row(**WIDE), row(**WIDE), ("0.05", "0.05", "0.0 (-0.5 to 0.5)")),
        (row(**EXACT), row(value=0.25, **EXACT), ("0.2000", "0.2500", "0.0500")),
        (row(**EXACT), row(**EXACT), ("0.200", "0.200", "same")),
        (row(**NONE), row(value=0.25, **NONE), ("0.2000", "0.2500", "0.0500, no interval")),
    ],
)
def test_numbers_have_the_digits_that_the_interval_bears(
    before: Estimate, after: Estimate, shown: tuple[str, str, str]
) -> None:
    assert wording.shown(changed(before, after)) == shown


@pytest.mark.parametrize("place", [0, 1])
def test_of_several_files_of_one_role_each_counts(sample_report: Report, tmp_path, place: int) -> None:
    source = sample_report.data[0]
    corpora = [dataclasses.replace(source, role="corpus", path=name, sha256=name * 64) for name in "ab"]
    before = dataclasses.replace(sample_report, data=tuple(corpora))
    corpora[place] = dataclasses.replace(corpora[place], sha256="c" * 64)
    after = dataclasses.replace(sample_report, data=tuple(corpora))
    assert compared(tmp_path, before, after).differing.data == ("corpus",)


def test_better_and_worse_are_counted_and_a_signed_gap_is_better_nearer_to_zero() -> None:
    def better(name: str, before: float, after: float) -> tuple[bool, bool]:
        one = changed(row(name, before, 0.01), row(name, after, 0.01))
        return one.is_improvement, one.is_regression

    assert better("error_rate", 0.4, 0.2) == (True, False)
    assert better("accuracy", 0.4, 0.2) == (False, True)
    assert better("gap_to_others", -0.4, -0.2) == (True, False)
    assert better("gap_to_others", -0.4, 0.4) == (False, False)
    assert better("centroid", 0.4, 0.2) == (False, False)
    assert better("error_rate", 0.4, 0.4) == (False, False)


def test_the_narrow_column_says_how_many_records_are_in_both() -> None:
    alone = changed(row(), row(value=0.5))
    assert wording.paired(alone) == "no"
    assert wording.paired(dataclasses.replace(alone, matched=(1025, 1030))) == "1,025/1,030"
    assert wording.paired(changed(row(**EXACT), row(**EXACT))) == "exact"


def test_the_name_of_the_audited_file_is_no_setting_that_clouds_the_change(sample_report: Report, tmp_path) -> None:
    def runs(**settings: object) -> Report:
        (first, *others) = sample_report.data
        source = dataclasses.replace(first, path=str(settings["scores"]))
        return dataclasses.replace(
            sample_report, data=(source, *others), settings={**sample_report.settings, **settings}
        )

    def clouded(before: Report, after: Report) -> bool:
        return any("settings differ" in note for note in wording.notes(compared(tmp_path, before, after)))

    plain = runs(scores="a.csv", folds=5)
    assert not clouded(plain, runs(scores="b.csv", folds=5))
    assert clouded(plain, runs(scores="b.csv", folds=6))


def test_json_is_finite_sorted_and_says_all(sample_report: Report, tmp_path) -> None:
    before = report(sample_report, row(), row("best_layer", **NONE), row("centroid", **EXACT))
    after = report(sample_report, row(value=0.5), row("best_layer", **NONE), row("centroid", **EXACT), row("more"))
    found = to_json([compared(tmp_path, before, after)])
    again = json.loads(json.dumps(found, sort_keys=True, allow_nan=False))
    assert again["schema"] == "miles.comparison/1" and again["before"] == "a"
    (one,) = again["runs"]
    assert one["statement"] == (
        "1 of 1 estimates changed significantly: 0 better, 1 worse. Of 1 exact number, 0 changed."
    )
    assert one["estimates_in_one_run"] == {"before": 0, "after": 1} and one["records"] is None
    assert one["alone"] == {"before": [], "after": [{"name": "more", "where": {"by": "accent"}}]}
    assert [(item["name"], item["verdict"]) for item in one["changes"]] == [
        ("gap", "changed"),
        ("best_layer", "no interval"),
        ("centroid", "same"),
    ]
    assert "records.csv is not there" in one["changes"][0]["why"]


def test_the_page_is_one_file_in_which_names_are_text(sample_report: Report, tmp_path) -> None:
    evil = "</script><script>alert(1)</script><b>"
    rows = [row(where={"group": f"{evil}{at}"}) for at in range(MOST_ROWS + 5)]
    found = compared(tmp_path, report(sample_report, *rows), report(sample_report, *rows))
    named = dataclasses.replace(found, after=dataclasses.replace(found.after, name=evil))
    page = to_html([named])
    assert "<b>" not in page and page.count("<script>") == 1
    assert page.count("<tr data-") + page.count('<tr class="faint" data-') == MOST_ROWS
    assert f"first of {len(rows):,}" in page
    assert "http" not in page.replace("http-equiv", "")
    assert len(page) < 1_500_000 * 2
    assert to_html([found, found]).count('<section id="run-') == 2
