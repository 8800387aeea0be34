"""Are planted faults of conditional laws named, is the truth left alone, and is what cannot be computed told?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.conditional import AUDIT, Options, measure
from audits.conditional.counts import Counts
from audits.conditional.demo import FAULTS
from audits.conditional.estimates import estimates
from audits.conditional.estimates import tests as ranked
from audits.conditional.findings import findings
from audits.conditional.inputs import Inputs
from audits.conditional.planted_laws import MIXTURES, field_law, fields, mixture
from audits.conditional.rank_tests import coverage_p
from audits.conditional.row_groups import grouped
from audits.conditional.verdicts import Verdict, claims, ignores_input, verdicts
from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from probes.conditional.laws import Candidate, Floats, Truth
from probes.conditional.quantisers import normal_quantiser

SEEDS = 50
TABLE = {1: 1.0, 2: 0.36338, 3: 0.190174, 4: 0.117482, 5: 0.079941, 6: 0.057978, 8: 0.034548, 10: 0.022937}
"""Distortion of optimal quantisers of N(0, 1), by their number of points."""


def law(name: str, kind: str = "samples", **arrays: Any) -> Candidate:
    """Return a law in memory; arrays by row, but for `levels`, `level` and `calibration`."""
    fixed = {key: arrays.pop(key) for key in ("levels", "level", "calibration", "weighted") if key in arrays}
    first = next(iter(arrays.values()))
    return Candidate(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        n=len(first),
        d=first.shape[-1] if kind in ("samples", "points", "normal") else 1,
        draws=first.shape[1] if kind in ("samples", "points", "quantiles") else 0,
        block=lambda start, stop: {key: values[start:stop] for key, values in arrays.items()},
        **fixed,
    )


def counted(
    truth: Truth,
    laws: Sequence[Candidate],
    seed: int = 0,
    by: str | None = None,
    points: tuple[int, ...] = (),
    **o: Any,
) -> Counts:
    d = truth.y.shape[1]
    inputs = Inputs(
        truth=truth,
        candidates=tuple(laws),
        groups=grouped(truth, by, seed)[0],
        scale=np.ones(d),
        levels=(0.5, 0.8, 0.9),
        points=points,
    )
    # Nothing is kept there: the audit has no cache of its own.
    context = Context(seed=seed, cache=Cache(Path("/nowhere")))
    return measure.measure(Options(data=Path("rows.npz"), **o), inputs, context)


@pytest.fixture
def no_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what no verdict rests on."""
    monkeypatch.setattr(measure, "_distances", lambda *given: {})


def told(counts: Counts, seed: int = 0) -> dict[str, dict[str, Verdict]]:
    """Return the verdicts by candidate and group."""
    draft = Draft(seed=seed)
    return {
        rows.name: {one.group: one for one in verdicts(rows, counts, ranked(draft, counts, rows), 0.95)}
        for rows in counts.candidates
    }


def words(counts: Counts, seed: int = 0) -> dict[str, dict[str, str]]:
    return {name: {group: one.word for group, one in each.items()} for name, each in told(counts, seed).items()}


def table(counts: Counts) -> Draft:
    """Return the estimates and findings."""
    draft = Draft(measures=AUDIT.by_name)
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def mixed(seed: int, names: Sequence[str] = tuple(MIXTURES), n: int = 1000) -> Counts:
    rng = np.random.default_rng([7, seed])
    x, y = mixture(n, rng)
    modes = np.stack([-(1 + x), 1 + x], axis=1)[:, :, None]
    laws = [law(name, samples=MIXTURES[name](x, 20, rng)[:, :, None]) for name in names]
    return counted(Truth(y=y[:, None], x=x[:, None], modes=modes), laws, seed, modes="modes", mode_radius=0.6)


# The mixture


def named(name: str, found: Mapping[str, str]) -> bool:
    """Tell whether the fault of a candidate is named where it is."""
    there = {"climate": ["all"], "spread-off": ["x0=1/4", "x0=2/4"], "modes-off": ["x0=4/4"]}.get(name, ["all"])
    wanted = {"spread-off": {"too-narrow"}}.get(name, FAULTS[name][1])
    return all(found[group] in wanted for group in there)


def test_every_planted_fault_is_named_where_it_is_and_the_truth_covers() -> None:
    counts = mixed(1)
    found = words(counts, 1)
    assert set(found["truth"].values()) == {"covers"} and set(found) == set(FAULTS)
    assert [name for name in FAULTS if not named(name, found[name])] == []
    assert found["modes-off"]["x0=1/4"] == "covers"
    draft = table(counts)
    row = draft.get("self_gap", candidate="spread-off", group="x0=1/4")
    assert row is not None and row.low is not None and row.low > 0
    # Table A3: the best possible CRPS, what the others lose beyond it, and the coverage of [min, max] of 20 draws.
    scores = {name: counts.rows[name].scores["crps"] for name in FAULTS}
    assert scores["truth"].mean() == pytest.approx(0.8356, abs=0.03)
    lost = {name: float((each - scores["truth"]).mean()) for name, each in scores.items()}
    expected = {"one-gaussian": 0.082, "one-mode": 0.671, "weights-off": 0.111, "climate": 0.034, "mean": 0.655}
    assert lost == pytest.approx({"truth": 0, "spread-off": 0.005, "modes-off": 0.013, **expected}, abs=0.06)
    missed = draft.get("mode_weight", candidate="one-mode", mode=0, group="all")
    assert missed is not None and missed.value == 0


def test_a_law_that_ignores_its_input_is_found_although_pooled_tests_pass(no_distances: None) -> None:
    counts = mixed(3, ("truth", "climate"))
    pooled = [one for one in ranked(Draft(), counts, counts.rows["climate"]) if one.group == "all"]
    assert min(one.p for one in pooled) > 0.01
    draft = table(counts)
    row = draft.get("coverage", candidate="climate", group="all", level=0.9)
    assert row is not None and row.low is not None and row.high is not None and row.low < 19 / 21 < row.high
    used = {name: draft.get("uses_input", candidate=name) for name in ("truth", "climate")}
    assert used["truth"] is not None and used["truth"].low is not None and used["truth"].low > 0
    assert words(counts)["climate"]["all"] == "ignores-input" and words(counts)["truth"]["all"] == "covers"
    assert draft.answer is not None and "1 of 2 candidates" in draft.answer.title


@pytest.mark.parametrize(("slope", "share"), [(0.0, 1.0), (0.0, 0.5), (0.3, 1.0), (0.6, 0.5)])
def test_a_law_is_not_blamed_for_a_y_that_hardly_depends_on_x(slope: float, share: float, no_distances: None) -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(size=1000)
    y = slope * x + rng.standard_normal(1000)
    draws = slope * x[:, None] + share * rng.standard_normal((1000, 20))
    counts = counted(Truth(y=y[:, None], x=x[:, None]), [law("model", samples=draws[:, :, None])])
    assert not ignores_input(counts.rows["model"], counts, 0.95)
    assert words(counts)["model"]["all"] == ("covers" if share == 1 else "too-narrow")


def test_a_shift_that_is_nearly_as_large_names_the_verdict() -> None:
    """Distances from the draws' mean grow with a shift too, as with modes of the wrong weight."""
    from audits.conditional.rank_tests import Tested

    def one(projection: str, **effects: float) -> Tested:
        found = tuple((word.replace("_", "-"), size) for word, size in effects.items())
        return Tested(
            test="pit", projection=projection, group="all", n=900, deviation=0.2, reach=0.05, p=1e-9, effects=found
        )

    counts = mixed(0, ("truth",), n=80)
    for shift, word in ((8.1, "shifted"), (7.9, "too-narrow")):
        pair = [one("y0", shifted=shift, too_narrow=1), one("distance", too_narrow=10.0, too_wide=-10)]
        pair = [replace(each, adjusted=1e-8) for each in pair]
        verdict = verdicts(counts.rows["truth"], counts, pair, 0.95)[0]
        assert verdict.word == word
        assert verdict.test is pair[word == "too-narrow"]


@pytest.mark.slow
def test_of_50_seeds_the_truth_covers_and_every_fault_is_named(no_distances: None) -> None:
    covers, found = 0, Counter[str]()
    for seed in range(SEEDS):
        each = words(mixed(seed), seed)
        covers += set(each["truth"].values()) == {"covers"}
        found.update(name for name in FAULTS if name != "truth" and named(name, each[name]))
    assert covers >= 0.92 * SEEDS, f"the truth covers in {covers} of {SEEDS}"
    assert {name: count for name, count in found.items() if count < 0.95 * SEEDS} == {}, dict(found)
    assert set(found) == set(FAULTS) - {"truth"}


# The field


@cache
def field() -> Counts:
    rng = np.random.default_rng(2)
    y, candidates = fields(500, 20, rng)
    inside = field_law()[2].reshape(-1)
    around = y.reshape(500, -1)[:, ~inside]
    laws = [law(name, samples=one.reshape(500, 20, -1)[:, :, inside]) for name, one in candidates.items()]
    truth = Truth(y=y.reshape(500, -1)[:, inside], x=around[:, [14, 30]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_distances", lambda *given: {})
        return counted(truth, laws, by="cluster:4", points=(1, 20), against="truth", projections=16)


def excess(counts: Counts, name: str, metric: str) -> tuple[float, float]:
    """Return the mean difference to the truth, and how many standard errors it is from 0."""
    apart = counts.rows[name].scores[metric] - counts.rows["truth"].scores[metric]
    return float(apart.mean()), float(apart.mean() / (apart.std() / np.sqrt(len(apart))))


def test_scores_of_the_field_are_those_of_the_table() -> None:
    counts = field()
    wanted = {"independent": 0.010, "narrow": 0.308, "wide": 0.089}
    assert {name: excess(counts, name, "energy")[0] for name in wanted} == pytest.approx(wanted, abs=0.05)
    assert excess(counts, "ignoring", "energy")[0] > 0.9
    assert abs(excess(counts, "independent", "energy")[1]) < 3 < excess(counts, "independent", "variogram")[1]
    best = {name: counts.rows[name].best_of[20].mean() / 16 for name in ("truth", "narrow", "wide", "independent")}
    assert best == pytest.approx({"truth": 0.336, "narrow": 0.299, "wide": 0.507, "independent": 0.408}, rel=0.06)
    skills = {"truth": 1.005, "narrow": 0.094, "wide": 2.11}
    for name, skill in skills.items():
        rows = counts.rows[name]
        assert rows.spread is not None and rows.error is not None
        assert rows.spread.mean() / rows.error.mean() == pytest.approx(skill, rel=0.06)


def test_the_best_of_20_prefers_the_narrow_field_and_the_report_says_so() -> None:
    draft = table(field())
    preferred = {(one.where["candidate"], one.where["against"]) for one in draft.findings if "best_of" in one.id}
    assert ("narrow", "truth") in preferred and not any(name == "truth" for name, _ in preferred)
    found = {one.where["candidate"]: one.where["verdict"] for one in draft.findings if one.where.get("group") == "all"}
    assert (found["truth"], found["narrow"], found["wide"]) == ("covers", "too-narrow", "too-wide")
    assert found["ignoring"] == "ignores-input" and found["independent"] not in ("covers", "undecided")
    assert "best-of" in {one.id for one in draft.warnings}
    row = draft.get("difference", candidate="independent", against="truth", metric="variogram", group="all")
    assert row is not None and row.low is not None and row.low > 0


# Quantisers


@cache
def normal_laws() -> Counts:
    rng = np.random.default_rng(3)
    n = 1200
    x = rng.uniform(size=n)
    mean, std = np.sin(2 * np.pi * x), 0.3 + x
    oracle = (mean[:, None] + std[:, None] * rng.standard_normal((n, 300)))[:, :, None]
    laws = [law("normal", "normal", mean=mean[:, None], std=std[:, None])]
    for count in (5, 10):
        best = normal_quantiser(count)
        points = (mean[:, None] + std[:, None] * best.points)[:, :, None]
        middle = mean[:, None, None] + 0.3 * (points - mean[:, None, None])
        weights = {"": best.weights, "equal-": np.full(count, 1 / count)}
        for words_, each in weights.items():
            laws.append(law(f"{words_}{count}", "points", points=points, weights=np.tile(each, (n, 1))))
        laws.append(law(f"drawn-in-{count}", "points", points=middle, weights=np.tile(best.weights, (n, 1))))
    truth = Truth(
        y=(mean + std * rng.standard_normal(n))[:, None],
        x=x[:, None],
        oracle=lambda start, stop: oracle[start:stop],
        oracle_draws=300,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_distances", lambda *given: {})
        patch.setattr(measure, "FITTED_ROWS", 300)
        return counted(truth, laws, points=tuple(range(1, 11)))


def test_the_distortion_of_a_normal_law_is_that_of_the_table() -> None:
    draft = table(normal_laws())
    for count in range(1, 11):
        row = draft.get("distortion", candidate="normal", points=count, group="all")
        ratio = draft.get("distortion_ratio", candidate="normal", points=count, reference="closed")
        assert row is not None and ratio is not None and row.low is not None and row.high is not None
        if count in TABLE:
            assert row.low < 0.72333 * TABLE[count] < row.high
        assert ratio.low is not None and ratio.high is not None and ratio.low < 1 < ratio.high
        ends = [
            draft.get("distortion_ratio", candidate="normal", points=count, reference=end) for end in ("lower", "upper")
        ]
        # References fitted to draws are too low on these, and too high on others.
        assert ends[0] is not None and ends[1] is not None and ends[1].value < ends[0].value
        assert ends[0].high is not None and ends[1].low is not None and ends[1].low < 1 < ends[0].high


def test_claims_of_points_are_judged_as_they_are() -> None:
    counts = normal_laws()
    draft = table(counts)
    found = {name: claims(rows, counts, None, 0.95) for name, rows in counts.rows.items() if rows.kind == "points"}
    assert found["5"]["c1"] == "confirmed" and found["5"]["c2"] in ("confirmed", "undecided")
    assert found["5"]["c3"] != "refuted" and found["10"]["c3"] != "refuted"
    assert found["drawn-in-5"]["c2"] == "refuted"
    assert found["equal-5"]["c3"] == "refuted" and found["equal-10"]["c3"] == "refuted"
    for count in (5, 10):
        right, equal = (draft.get("weight_error", candidate=f"{kind}{count}") for kind in ("", "equal-"))
        assert right is not None and equal is not None and right.low is not None and equal.low is not None
        assert equal.low > right.value and right.low < 0.01
        truth = float(np.abs(normal_quantiser(count).weights - 1 / count).sum() / 2)
        assert equal.high is not None and equal.low < truth < equal.high
    assert words(counts)["5"] == {}


def test_draws_of_the_truth_confirm_that_optimal_points_are_near_the_optimum(no_distances: None) -> None:
    rng = np.random.default_rng(5)
    n = 300

    def drawn(count: int) -> Floats:
        sign = np.where(rng.random((n, count, 1)) < 0.5, 1.0, -1.0)
        return np.asarray(sign + 0.1 * rng.standard_normal(sign.shape))

    oracle = drawn(200)
    points = np.tile([[1.0], [-1.0]], (n, 1, 1))
    truth = Truth(
        y=drawn(1)[:, 0],
        x=rng.uniform(size=(n, 1)),
        oracle=lambda start, stop: oracle[start:stop],
        oracle_draws=200,
    )
    drawn_in = law("drawn-in", "points", points=0.9 * points, weights=np.full((n, 2), 0.5))
    counts = counted(truth, [law("two", "points", points=points, weights=np.full((n, 2), 0.5)), drawn_in])
    found = {name: claims(counts.rows[name], counts, None, 0.95) for name in ("two", "drawn-in")}
    # 300 rows do not show that weights are within .05 of the cells.
    assert found["two"] == {"c1": "confirmed", "c2": "confirmed", "c3": "undecided"}
    # .1 off at a standard deviation of .1: twice the least.
    assert found["drawn-in"]["c2"] == "refuted"


def test_the_fair_score_does_not_hang_on_how_many_draws_there_are(no_distances: None) -> None:
    rng = np.random.default_rng(6)
    y = rng.standard_normal((4000, 1))
    laws = [law(f"{draws}", samples=rng.standard_normal((4000, draws, 1))) for draws in (5, 100)]
    counts = counted(Truth(y=y), laws)
    few, many = (counts.rows[name].scores["crps"] for name in ("5", "100"))
    apart = few - many
    assert abs(apart.mean()) < 3 * apart.std() / np.sqrt(4000)
    assert many.mean() == pytest.approx(1 / np.sqrt(np.pi), abs=0.03)


# Intervals, quantiles and normal laws


def test_a_conformal_interval_is_not_blamed_for_the_chance_of_its_calibration(no_distances: None) -> None:
    rng = np.random.default_rng(7)
    n = 800
    # Calibrated on 100 rows to .9, it holds .85 by chance: in a group of 200 rows about 170.
    y = np.where(np.arange(n) % 20 < 17, 0.0, 2.0) + 0.01 * rng.standard_normal(n)
    x = np.arange(n) / n
    ends: dict[str, Any] = {"lower": np.full(n, -1.0), "upper": np.full(n, 1.0), "level": 0.9}
    laws = [law("plain", "intervals", **ends), law("conformal", "intervals", **ends, calibration=100)]
    counts = counted(Truth(y=y[:, None], x=x[:, None]), laws)
    found = words(counts)
    assert found["plain"]["all"] == "too-narrow" and found["conformal"]["all"] == "covers"
    p = {name: [one.p for one in ranked(Draft(), counts, counts.rows[name])][1:] for name in ("plain", "conformal")}
    assert max(p["plain"]) < 0.05 < min(p["conformal"])
    assert coverage_p(174, 200, 0.9, 0) > coverage_p(170, 200, 0.9, 0)
    row = table(counts).get("coverage", candidate="conformal", level=0.9, group="all")
    assert row is not None and row.value == 0.85


def test_quantiles_and_normal_laws_are_judged_and_points_have_no_verdict(no_distances: None) -> None:
    from scipy.stats import norm

    rng = np.random.default_rng(8)
    x = rng.uniform(size=1000)
    mean, std = np.sin(2 * np.pi * x), 0.3 + x
    y = mean + std * rng.standard_normal(1000)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    z = norm.ppf(levels)
    laws = []
    for name, share in (("right", 1.0), ("half", 0.5)):
        quantiles = mean[:, None] + share * std[:, None] * z
        laws.append(law(f"quantiles-{name}", "quantiles", quantiles=quantiles, levels=levels))
        laws.append(law(f"normal-{name}", "normal", mean=mean[:, None], std=share * std[:, None]))
    laws.append(law("points", "points", points=quantiles[:, :, None], weights=np.full((1000, 5), 0.2)))
    counts = counted(Truth(y=y[:, None], x=x[:, None]), laws)
    found = words(counts)
    assert set(found["quantiles-right"].values()) == set(found["normal-right"].values()) == {"covers"}
    assert set(found["quantiles-half"].values()) == set(found["normal-half"].values()) == {"too-narrow"}
    assert found["points"] == {}
    draft = table(counts)
    assert draft.get("coverage", candidate="quantiles-right", level=0.9, group="all") is not None
    assert {one.where.get("level") for one in draft.warnings if one.id == "no-quantiles"} == {0.8}


# What cannot be computed is told


def saved(folder: Path, name: str, **arrays: Any) -> Path:
    np.savez(folder / name, **arrays)
    return folder / name


def audited(folder: Path, y: Floats, x: Floats, laws: Mapping[str, Mapping[str, Any]], **options: Any) -> Draft:
    data = saved(folder, "rows.npz", x=x, y=y)
    files = [f"{name}={saved(folder, f'{name}.npz', **arrays)}" for name, arrays in laws.items()]
    return drafted(AUDIT, Options(data=data, candidate=tuple(files), points=("1", "5"), **options))


def test_draws_that_test_nothing_have_no_ranks_and_the_mend_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    n = 120
    x = rng.uniform(size=n)
    y = x + rng.standard_normal(n)
    grid = np.sort(rng.standard_normal(20))
    levels = np.quantile(rng.standard_normal(10_000), (np.arange(20) + 0.5) / 20)
    laws = {
        "shared": {"samples": x[:, None] + grid[rng.permutation(20)]},
        "quantiles": {"samples": x[:, None] + levels},
        "single": {"samples": x[:, None] + rng.standard_normal((n, 1))},
        "many": {"samples": x[:, None] + rng.standard_normal((n, 60))},
    }
    draft = audited(tmp_path, y, x, laws)
    why = {one.where.get("candidate"): one.message for one in draft.warnings if one.id == "not-tested"}
    assert "draw anew for each row" in why["shared"] and "points with weights" in why["quantiles"]
    assert draft.select("p_value", candidate="shared") == draft.select("pit_deviation", candidate="quantiles") == []
    found = {one.where["candidate"]: one.where["verdict"] for one in draft.findings if one.where.get("group") == "all"}
    assert found["shared"] == found["quantiles"] == "undecided" and found["many"] == "covers"
    assert draft.select("score", candidate="single") == draft.select("self_gap", candidate="single") == []
    assert any("single" in one.message and "single draw" in one.message for one in draft.warnings)
    # Fair scores of other numbers of draws can be compared, and the report says that they differ.
    assert draft.get("score", candidate="many", metric="crps", group="all") is not None
    assert any("draws a row" in one.message for one in draft.warnings)
    # Groups of 30 rows have a reference of one point, and none of five.
    assert draft.select("distortion_ratio", candidate="many", points=1) != []
    assert draft.select("distortion_ratio", candidate="many", points=5) == []
    assert any(one.id == "no-reference" and "150 rows" in one.message for one in draft.warnings)
    assert all(np.isfinite(row.value) for row in draft.estimates)


def test_whole_numbers_and_smooth_draws_are_told_to_be_rounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    n = 200
    x = rng.uniform(size=n)
    draws = 3 * x[:, None] + 2 * rng.standard_normal((n, 15))
    y = np.rint(3 * x + 2 * rng.standard_normal(n))
    draft = audited(tmp_path, y, x, {"smooth": {"samples": draws}, "whole": {"samples": np.rint(draws)}})
    assert [one.where["candidate"] for one in draft.warnings if one.id == "not-tested"] == ["smooth"]
    assert any("round the samples" in one.message for one in draft.warnings)
    found = {one.where["candidate"]: one.where["verdict"] for one in draft.findings if one.where.get("group") == "all"}
    assert found == {"smooth": "undecided", "whole": "covers"}
