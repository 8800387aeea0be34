"""Is one claim of privacy read from options or a history, and nothing else taken for one?"""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from audits.core.options import check_record
from audits.membership import Options
from audits.membership.claims import (
    Claim,
    accounted,
    check_delta,
    check_epsilon,
    check_used,
    claim_of,
    claim_of_file,
    claim_of_options,
    of_search,
    searched,
)
from probes.core.errors import InputError
from probes.generators.accounting import Stage, rdp_epsilon

TRAINING = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_nothing_is_claimed_unless_it_is_said() -> None:
    assert claim_of_options(Options()) is None
    assert claim_of(epsilon=None, delta=1e-5, stages=None, source="") is None
    assert claim_of(epsilon=None, delta=1e-5, stages=(), source="") is None


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 3.5, 1e6])
def test_an_epsilon_is_taken_as_given(epsilon: float) -> None:
    claim = claim_of_options(Options(epsilon=epsilon, delta=1e-6))
    assert claim is not None and (claim.epsilon, claim.delta, claim.source) == (epsilon, 1e-6, "as given")


def test_training_and_its_history_are_the_same_claim(tmp_path: Path) -> None:
    path = written(tmp_path / "h.json", {"history": [[1.0, 0.01, 1000]]})
    claims = [claim_of_options(Options(**TRAINING)), claim_of_options(Options(history=path))]
    truth = rdp_epsilon((Stage(1.0, 0.01, 1000),), 1e-5).epsilon
    assert [claim.epsilon for claim in claims if claim] == [truth, truth]
    assert [claim.source for claim in claims if claim] == ["accounted from the options", "accounted from h.json"]


def test_an_accounted_epsilon_is_an_upper_bound_with_what_no_accountant_goes_below() -> None:
    claim = claim_of_options(Options(noise_multiplier=1.1, sample_rate=0.01, steps=1500))
    assert claim is not None and claim.least is not None
    # Accountants of privacy loss distributions have 1.86 to 1.87.
    assert 1.8 < claim.least < 1.87 < claim.epsilon and claim.words == "at most 2.07" and claim.number == "2.07"
    told = accounted(claim, " for ddpm")
    assert "of at most 2.07 that is claimed for ddpm at delta 1e-05 is accounted from the options" in told
    assert "an upper bound" in told and "can go below 1.83" in told
    loose = accounted(replace(claim, least=0.0))
    assert loose.endswith("it may be loose.") and "might refute the training" in told
    stated = claim_of_options(Options(epsilon=1.37848))
    assert stated is not None and stated.least is None and stated.words == "1.37848"


def test_stages_of_a_history_add_up(tmp_path: Path) -> None:
    halves = written(tmp_path / "halves.json", {"history": [[1.0, 0.01, 400], [1.0, 0.01, 600]]})
    whole = written(tmp_path / "whole.json", {"history": [[1.0, 0.01, 1000]]})
    assert claim_of_file(halves, 1e-5).epsilon == pytest.approx(claim_of_file(whole, 1e-5).epsilon)


def test_more_noise_claims_less_and_more_steps_claim_more() -> None:
    def claimed(**changed: float) -> float:
        found = claim_of_options(Options(**{**TRAINING, **changed}))
        assert found is not None
        return found.epsilon

    assert claimed(noise_multiplier=2.0) < claimed() < claimed(steps=2000) and claimed() < claimed(sample_rate=0.02)


@pytest.mark.parametrize(
    ("options", "where", "says"),
    [
        ({"epsilon": 1.0, **TRAINING}, "--noise-multiplier", "two claims"),
        ({"epsilon": 1.0, "history": Path("h")}, "--history", "two claims"),
        ({**TRAINING, "history": Path("h")}, "--history", "two claims"),
        *(({name: value}, f"--{name.replace('_', '-')}", "beside it") for name, value in TRAINING.items()),
        ({**TRAINING, "steps": None}, "--noise-multiplier", "--steps"),
        ({**TRAINING, "delta": 0.0}, "--delta", "delta 0"),
        ({**TRAINING, "noise_multiplier": 0.0}, "--noise-multiplier", "0.0"),
        ({**TRAINING, "noise_multiplier": math.inf}, "--noise-multiplier", "inf"),
        ({**TRAINING, "noise_multiplier": math.nan}, "--noise-multiplier", "nan"),
        ({**TRAINING, "sample_rate": 0.0}, "--sample-rate", "0.0"),
        ({**TRAINING, "sample_rate": 1.01}, "--sample-rate", "1.01"),
        ({**TRAINING, "steps": 0}, "--steps", "0"),
        ({"epsilon": -0.1}, "--epsilon", "-0.1"),
        ({"epsilon": math.nan}, "--epsilon", "nan"),
        ({"epsilon": 1.0, "delta": 1.0}, "--delta", "1.0"),
        ({"delta": -1e-9}, "--delta", "-1e-09 is too small"),
        ({"epsilon": 1.0, "runs_tried": 0}, "--runs-tried", "0 is too small"),
        ({"epsilon": 1.0, "runs_tried": -3}, "--runs-tried", "-3 is too small"),
        ({"epsilon": 1.0, "runs_tried": 10**400}, "--runs-tried", "too large"),
        ({"epsilon": 1.0, "delta": 0.5, "runs_tried": 2}, "--runs-tried", "a delta of 1"),
        ({"epsilon": 1e308, "runs_tried": 10}, "--runs-tried", "an epsilon of inf"),
        ({**TRAINING, "accountant": "gdp"}, "--accountant", "gdp"),
        ({**TRAINING, "delta": 0.0, "accountant": "pld"}, "--delta", "delta 0"),
        ({"history": Path("/nowhere/h.json")}, "--history /nowhere/h.json", "no such file"),
    ],
)
def test_what_is_no_claim_is_refused(options: dict[str, object], where: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        # As the runner does, what each option promises by itself comes first.
        check_record(Options(**options))
        claim_of_options(Options(**options))
    assert where in str(refused.value.where) and says in refused.value.message and refused.value.hint


@pytest.mark.parametrize("content", [{"epsilon": 3}, [], {"steps": 5}])
def test_a_file_without_a_history_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(InputError, match="no history") as refused:
        claim_of_file(written(tmp_path / "h.json", content), 1e-5)
    assert "h.json" in str(refused.value.where)


@pytest.mark.parametrize(("value", "fits"), [(0.0, True), (0.5, True), (1.0, False), (-1e-9, False), (math.nan, False)])
def test_what_a_delta_is(value: float, fits: bool) -> None:
    if fits:
        check_delta(value, "here")
        return
    with pytest.raises(InputError) as refused:
        check_delta(value, "here")
    assert refused.value.where == "here"


@pytest.mark.parametrize("value", [-1.0, math.inf, -math.inf, math.nan])
def test_what_no_epsilon_is(value: float) -> None:
    with pytest.raises(InputError, match=f"^{value} is no epsilon"):
        check_epsilon(value, "here")
    check_epsilon(0.0, "here")


@pytest.mark.parametrize(("epsilon", "delta", "runs", "of_all"), [(0.1, 1e-5, 3, (0.3, 3e-5)), (8, 0, 20, (160, 0)),
                         (0, 1e-3, 999, (0, 0.999)), (1.1, 1e-6, 10**5, (110_000, 0.1))])  # fmt: skip
def test_a_search_claims_the_sum_of_its_runs(
    epsilon: float, delta: float, runs: int, of_all: tuple[float, float]
) -> None:
    claim = claim_of_options(Options(epsilon=epsilon, delta=delta, runs_tried=runs))
    assert claim is not None and (claim.epsilon, claim.delta) == of_all and claim.runs == runs
    assert claim.each == claim_of_options(Options(epsilon=epsilon, delta=delta))
    assert claim.interval.value == of_all[0] and claim.interval.method == "exact"
    told = of_search(claim, " as ddpm")
    assert f"best of {runs:,} runs, each of which claims an epsilon of {epsilon:g} at delta {delta:g}." in told
    assert "as ddpm" in told and f"by plain composition {claim.words} at delta {of_all[1]:g}" in told
    assert "random number of runs" in told and "without another look" in told
    assert "all runs together may have a tighter one;" in told, "a fixed number of runs is composed better, too"


def test_one_run_is_no_search(tmp_path: Path) -> None:
    assert searched(Claim(epsilon=1.0, delta=1e-5, source=""), 1, "") == Claim(epsilon=1.0, delta=1e-5, source="")
    assert claim_of_options(Options(**TRAINING, runs_tried=1)) == claim_of_options(Options(**TRAINING))


def test_a_search_over_accounted_runs_is_bounded_from_above_alone(tmp_path: Path) -> None:
    history = written(tmp_path / "h.json", {"history": [[1.0, 0.01, 1000]]})
    for given in (TRAINING, {"history": history}):
        claim = claim_of_options(Options(**given, runs_tried=4))
        assert claim is not None and claim.each is not None and (claim.each.least or 0) > 0 and claim.least == 0
        assert claim.epsilon == pytest.approx(4 * claim.each.epsilon) and claim.words.startswith("at most ")
        ends = claim.interval
        assert (ends.low, ends.high) == (0, claim.epsilon) and "4 runs composed" in ends.method
        assert f"4 runs of an epsilon of {claim.each.words} each, {claim.each.source}" in claim.source


def test_so_many_runs_that_nothing_is_claimed_are_refused_with_what_to_do() -> None:
    one = Claim(epsilon=2.0, delta=1e-5, source="")
    assert searched(one, 99_999, "").delta < 1
    for runs, says in ((100_000, "a delta of 1"), (0, "0 runs"), (-1, "-1 runs"), (10**6 + 1, "1,000,001 runs")):
        with pytest.raises(InputError, match=says) as met:
            searched(one, runs, "suite.toml, model 2, runs_tried")
        assert met.value.where == "suite.toml, model 2, runs_tried"
        assert ("--runs-tried" if runs == 100_000 else "whole number from 1") in met.value.hint


def test_what_changes_no_claim_is_refused() -> None:
    stated = Claim(epsilon=2.0, delta=1e-5, source="as given")
    with pytest.raises(InputError, match="that changes nothing") as met:
        check_used((), Options(runs_tried=5))
    assert met.value.where == "--runs-tried" and "--epsilon" in met.value.hint
    for claims in ((), (stated,)):
        with pytest.raises(InputError, match="no training to account for") as met:
            check_used(claims, Options(accountant="pld"))
        assert met.value.where == "--accountant pld" and "--history" in met.value.hint
    check_used((), Options())
    check_used((stated,), Options(runs_tried=5))
    check_used((stated, replace(stated, least=0.0)), Options(accountant="pld"))
