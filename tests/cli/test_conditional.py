"""Does `miles audit-conditional` refuse what is wrong with one panel, and claim no more than its numbers carry?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import one_panel

from audits.core.records import HEADLINE_WORDS, Report
from audits.report.report_file import read_report

N, DRAWS = 600, 20
ROWS = ["--data", "rows.npz", "--candidate"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pages: object) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.uniform(size=N)
    mean, std = np.sin(6 * x), 0.3 + x
    y = mean + std * rng.normal(size=N)
    np.savez("rows.npz", x=x, y=y, side=np.where(x < 0.5, "left", "right " * 30), digits=np.arange(N).astype(str))
    np.savez("good.npz", samples=mean[:, None] + std[:, None] * rng.normal(size=(N, DRAWS)))
    np.savez("other.npz", samples=mean[:, None] + 0.2 * std[:, None] * rng.normal(size=(N, DRAWS)))
    np.savez("normal.npz", mean=mean, std=std)
    for level in (80, 90):
        reach = {80: 1.2816, 90: 1.6449}[level] * std
        np.savez(f"interval{level}.npz", lower=mean - reach, upper=mean + reach, level=level / 100)
    return tmp_path


def saved(name: str, **arrays: Any) -> str:
    np.savez(f"{name}.npz", **arrays)
    return f"{name}={name}.npz"


def run(call_miles: Any, *words: str, out: str = "run") -> Report:
    outcome = call_miles("audit-conditional", *words, "--out", out, "--force")
    assert outcome.code == 0, outcome.err
    return read_report(Path(out))


def verdict(report: Report, name: str, group: str = "all") -> str:
    (found,) = [
        one.where["verdict"]
        for one in report.findings
        if one.id == "conditional.verdict" and one.where["candidate"] == name and one.where["group"] == group
    ]
    return str(found)


def claim(report: Report, name: str, claim: str) -> str:
    wanted = {"candidate": name, "claim": claim}
    (found,) = [one.where["verdict"] for one in report.findings if wanted.items() <= one.where.items()]
    return str(found)


def rows(report: Report, name: str, **where: object) -> list[Any]:
    return [row for row in report.estimates if row.name == name and where.items() <= row.where.items()]


def draws(rng: np.random.Generator, scale: float = 1.0, shift: float = 0.0, count: int = DRAWS) -> np.ndarray:
    x = np.load("rows.npz")["x"]
    return np.asarray((shift + np.sin(6 * x))[:, None] + scale * (0.3 + x)[:, None] * rng.normal(size=(N, count)))


RNG = np.random.default_rng(1)
BAD = RNG.normal(size=(N, DRAWS))
BAD[-1, 3] = np.nan


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"samples": BAD}, "a NaN, an infinite value, or one beyond 1e+100 in row 599, column 3"),
        ({"samples": BAD[:-1]}, "has the shape (599, 20)"),
        ({"samples": np.full((N, DRAWS), 1e200)}, "one beyond 1e+100"),
        ({"samples": np.array([[{}] * 3] * N)}, "samples"),
        ({"mean": np.zeros(N)}, "lacks std"),
        ({"mean": np.zeros(N), "std": -np.ones(N)}, "a negative number in row 0"),
        ({"lower": np.ones(N), "upper": np.zeros(N), "level": 0.9}, "a limit over the upper one"),
        ({"points": np.zeros((N, 2)), "weights": np.ones((N, 2))}, "weights whose sum is not 1"),
        ({"quantiles": np.zeros((N, 2)), "levels": np.array([0.9, 0.1])}, "levels do not rise"),
        ({"samples": np.zeros((N, 3)), "mean": np.zeros(N), "std": np.ones(N)}, "more than one law"),
    ],
)
def test_a_wrong_law_is_refused_wherever_it_stands_and_nothing_is_written(
    folder: Path, call_miles: Any, arrays: dict[str, Any], said: str
) -> None:
    outcome = call_miles("audit-conditional", *ROWS, saved("bad", **arrays), "--out", "run")
    one_panel(outcome, said)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a=good.npz", "--candidate", "a=other.npz"], "names a candidate twice"),
        (["climatology=good.npz"], "takes itself"),
        (["own-mean=good.npz"], "takes itself"),
        (["good.npz"], "is not NAME=FILE"),
        (["../../a=good.npz"], "is not NAME=FILE"),
        (["a,b]=good.npz"], "is not NAME=FILE"),
        ([f"{'x' * 61}=good.npz"], "is not NAME=FILE"),
        (["a=nowhere.npz"], "nowhere.npz"),
        (["a=good.npz", "--against", "b"], "no candidate 'b'"),
        (["a=good.npz", "--by", "digits"], "has 600 values"),
        (["a=good.npz", "--levels", "nan"], "is no level"),
        (["a=good.npz", "--points", "1.5"], "is no number of points"),
        (["a=good.npz", "--projections", "4"], "projections"),
        (["a=good.npz", "--modes", "m"], "mode"),
        (["a=good.npz", "--mask", "side"], "side"),
        (["a=good.npz", "--features", "pca:2"], "fewer than 2"),
    ],
)
def test_what_is_wrong_is_said_in_one_panel_and_nothing_is_written(
    folder: Path, call_miles: Any, words: list[str], said: str
) -> None:
    one_panel(call_miles("audit-conditional", *ROWS, *words, "--out", "run"), said)
    assert not Path("run").exists()


def test_of_very_many_draws_some_are_judged_and_so_many_points_are_refused(folder: Path, call_miles: Any) -> None:
    rng = np.random.default_rng(8)
    saved("short", y=rng.normal(size=30))
    words = ["--data", "short.npz", "--candidate", saved("a", samples=np.sort(rng.normal(size=(30, 1500)), axis=1))]
    report = run(call_miles, *words)
    assert any("1,000 at random" in warning.message for warning in report.warnings)
    assert not [one for one in report.findings if one.where.get("verdict") in ("shifted", "too-narrow")]
    words = ["--data", "short.npz", "--candidate", saved("b", points=np.zeros((30, 1500)))]
    one_panel(call_miles("audit-conditional", *words, "--out", "other"), "1,500 points")


def test_outcomes_beyond_all_measure_or_too_few_are_refused(folder: Path, call_miles: Any) -> None:
    saved("huge", y=np.full(N, 1e200))
    saved("few", y=np.zeros(19))
    saved("tiny", y=np.arange(N) * 1e-200)
    for name, said in (("huge", "one beyond 1e+100"), ("few", "There are 19 rows"), ("tiny", "varies by less than")):
        words = ["--data", f"{name}.npz", "--candidate", "a=good.npz"]
        one_panel(call_miles("audit-conditional", *words, "--out", "run"), said)


def test_a_plan_names_rows_laws_and_cost_and_runs_nothing(folder: Path, call_miles: Any) -> None:
    outcome = call_miles("audit-conditional", *ROWS, "a=good.npz", "--out", "run", "--dry-run")
    assert outcome.code == 0 and "600 of 1 columns" in outcome.out and "seconds" in outcome.out
    assert not Path("run").exists()


def test_numbers_of_a_candidate_do_not_hang_on_who_stands_beside_it(folder: Path, call_miles: Any) -> None:
    words = ["a=good.npz", "--candidate", "b=interval90.npz", "--candidate", "c=interval80.npz"]
    one = run(call_miles, *ROWS, *words)
    other = run(call_miles, *ROWS, words[4], "--candidate", words[2], "--candidate", words[0])
    for name in "abc":
        found = [sorted(map(repr, rows(report, metric, candidate=name)))
                 for metric in ("score", "difference", "pit_deviation", "coverage", "uses_input")
                 for report in (one, other)]  # fmt: skip
        assert found[::2] == found[1::2]
    intervals = [found for found in one.findings if found.where["candidate"] == "b"]
    assert intervals and not [found for found in intervals if "Kolmogorov" in found.how_sure]
    # Interval scores of two levels are no scores of one thing.
    assert not rows(one, "difference", candidate="b", metric="interval")
    assert rows(one, "difference", candidate="c", metric="interval")


def test_names_that_are_hard_to_print_give_headlines_that_are_short(folder: Path, call_miles: Any) -> None:
    name = "our very own new model (v 2.1) of a b c d e f"
    report = run(call_miles, *ROWS, f"{name}=other.npz", "--by", "side")
    assert {verdict(report, name), verdict(report, name, "side=left")} == {"too-narrow"}
    assert max(len(one.headline.split()) for one in report.findings) <= HEADLINE_WORDS


def test_images_of_a_candidate_with_any_name_have_a_figure(folder: Path, call_miles: Any) -> None:
    saved("pictures", y=RNG.normal(size=(40, 4, 4)), mask=np.eye(4) > 0)
    saved("drawn", samples=RNG.normal(size=(40, 12, 4, 4)))
    words = ["--data", "pictures.npz", "--mask", "mask", "--candidate", "Ours v2/b=drawn.npz"]
    report = run(call_miles, *words)
    assert "pictures-1" in {one.file for one in report.figures}


def test_a_law_with_one_standard_deviation_of_zero_has_no_log_score(folder: Path, call_miles: Any) -> None:
    std = np.load("normal.npz")["std"].copy()
    std[-1] = 0
    report = run(call_miles, *ROWS, saved("a", mean=np.load("normal.npz")["mean"], std=std))
    assert not rows(report, "score", metric="log", candidate="a") and rows(report, "score", metric="crps")
    assert "undefined" in {warning.id for warning in report.warnings}


@pytest.mark.parametrize(
    ("scale", "shift", "word"), [(100, 0, "too-wide"), (1, 100, "shifted"), (0.01, 0, "too-narrow")]
)
def test_what_is_far_off_is_called_by_its_name(
    folder: Path, call_miles: Any, scale: float, shift: float, word: str
) -> None:
    report = run(call_miles, *ROWS, saved("a", samples=draws(np.random.default_rng(2), scale, shift)))
    assert verdict(report, "a") == word and verdict(report, "a", "x0=1/4") == word


def test_a_law_that_follows_its_input_the_wrong_way_does_not_ignore_it(folder: Path, call_miles: Any) -> None:
    x, rng = np.load("rows.npz")["x"], np.random.default_rng(3)
    wrong = -np.sin(6 * x)[:, None] + (0.3 + x)[:, None] * rng.normal(size=(N, DRAWS))
    blind = rng.permutation(np.load("rows.npz")["y"])[rng.integers(N, size=(N, DRAWS))]
    words = [saved("wrong", samples=wrong), "--candidate", saved("blind", samples=blind)]
    report = run(call_miles, *ROWS, *words)
    shown = rows(report, "uses_input", candidate="blind")[0]
    assert shown.low <= 0 <= shown.high and shown.method.endswith("as one of five")
    assert verdict(report, "wrong") not in ("ignores-input", "covers") and verdict(report, "blind") == "ignores-input"


def test_too_few_draws_or_quantiles_cover_nothing_and_beat_no_mean(folder: Path, call_miles: Any) -> None:
    good, rng = np.load("good.npz")["samples"], np.random.default_rng(4)
    mean, std = (np.load("normal.npz")[key][:, None] for key in ("mean", "std"))
    ends = {"quantiles": mean + std * [-1.6449, 1.6449], "levels": np.array([0.05, 0.95])}
    words = [saved("one", samples=good[:, :1]), "--candidate", saved("ends", **ends)]
    report = run(call_miles, *ROWS, *words)
    assert {verdict(report, name) for name in ("one", "ends")} == {"undecided"}
    saved("still", y=np.linspace(-1, 1, N) / 1e6)
    words = ["--data", "still.npz", "--candidate", saved("two", samples=rng.normal(size=(N, 2)))]
    # The mean of two draws is far from y; that of the law is not.
    assert claim(run(call_miles, *words), "two", "c1") == "undecided"


def test_the_first_claim_shows_the_difference_that_it_rests_on(folder: Path, call_miles: Any) -> None:
    report = run(call_miles, *ROWS, "a=good.npz")
    (found,) = [one for one in report.findings if one.where.get("claim") == "c1"]
    shown = [report.estimates[at] for at in found.evidence]
    assert [row.where["against"] for row in shown] == ["own-mean"] and shown[0].high < 0


def test_equal_weights_of_many_points_are_not_refuted_by_cells_that_few_rows_could_not_fill(
    folder: Path, call_miles: Any
) -> None:
    rng = np.random.default_rng(5)
    saved("even", y=rng.uniform(size=200))
    points = np.tile((np.arange(300) + 0.5) / 300, (200, 1))
    report = run(call_miles, "--data", "even.npz", "--candidate", saved("a", points=points))
    assert (
        claim(report, "a", "c3") == "undecided"
        and "No weights" in str(report.findings)
        and rows(report, "weight_error")[0].low == 0
    )


def test_whole_numbers_of_several_columns_stay_whole(folder: Path, call_miles: Any) -> None:
    rng = np.random.default_rng(6)
    saved("counts", y=rng.poisson(3, size=(N, 2)) + 0.0)
    words = ["--data", "counts.npz", "--candidate", saved("a", samples=rng.normal(3, 2, size=(N, DRAWS, 2)))]
    report = run(call_miles, *words)
    assert "not-tested" in {warning.id for warning in report.warnings} and verdict(report, "a") == "undecided"


def test_a_distance_from_draws_of_the_true_law_may_be_none(folder: Path, call_miles: Any) -> None:
    rng, x = np.random.default_rng(7), np.load("rows.npz")
    saved("known", x=x["x"], y=x["y"], oracle=draws(rng, count=9))
    report = run(call_miles, "--data", "known.npz", "--candidate", "a=good.npz", "--candidate", "b=normal.npz")
    found = rows(report, "wasserstein", kind="conditional", group="all")
    assert len(found) == 4 and all(row.low == 0 < row.value for row in found)
    far = run(call_miles, "--data", "known.npz", "--candidate", saved("c", samples=draws(rng, shift=9)))
    assert all(4 < row.low < 9 for row in rows(far, "wasserstein", kind="conditional", group="all"))


def test_constant_outcomes_and_gates(folder: Path, call_miles: Any) -> None:
    saved("flat", y=np.ones(N), x=np.arange(N))
    words = ["--data", "flat.npz", "--candidate", saved("a", samples=np.ones((N, DRAWS)))]
    report = run(call_miles, *words)
    assert verdict(report, "a") == "undecided" and {"zero"} <= {warning.id for warning in report.warnings}
    gate = ["--out", "gate", "--fail-if", "findings[severity=high] > 0"]
    assert call_miles("audit-conditional", *ROWS, "a=other.npz", *gate).code == 1
    gate = ["--out", "other", "--fail-if", "self_gap[candidate=a,group=all].high < -1"]
    assert call_miles("audit-conditional", *ROWS, "a=good.npz", *gate).code == 0


def test_points_have_as_much_of_a_mode_as_they_weigh(folder: Path, call_miles: Any) -> None:
    rng = np.random.default_rng(0)
    saved("two", y=np.where(rng.random(N) < 0.9, 1.0, -1.0) + 0.1 * rng.normal(size=N), centres=np.array([-1.0, 1.0]))
    words = ["--data", "two.npz", "--candidate", saved("p", points=np.tile([-1.0, 1.0], (N, 1)), weights=[0.1, 0.9])]
    report = run(call_miles, *words, "--modes", "centres", "--mode-radius", "0.5")
    found = {
        row.where["mode"]: row.value
        for row in report.estimates
        if row.name == "mode_weight" and row.where["candidate"] == "p"
    }
    assert found == {0: pytest.approx(0.1), 1: pytest.approx(0.9)}
