"""Are modules that break their claim found out, true claims left alone, and time called consistent and no more?"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from audits.core.context import Draft
from audits.core.testing import drafted
from audits.scaling import AUDIT, Options
from audits.scaling.counts import LENGTH, Counts, Curve
from audits.scaling.estimates import estimates
from audits.scaling.findings import findings
from audits.scaling.growth_claims import read_law

PLANTED = "probes.scaling.planted_modules"
LINEAR = "operations=n,memory=n,state=const"


def counted(*targets: str, claim: Sequence[str] = (), **options: object) -> Draft:
    given = {"targets": targets, "claim": tuple(claim), "lengths": ("256:4096",), "rounds": 0, "allow_code": True}
    return drafted(AUDIT, Options(**{**given, **options}))  # type: ignore[arg-type]


def verdicts(draft: Draft) -> dict[tuple[str, str], str]:
    return {
        (str(one.where["target"]), str(one.where["quantity"])): str(one.where["verdict"])
        for one in draft.findings
        if one.id == "scaling.claim"
    }


def test_a_hidden_mask_and_a_growing_chunk_and_a_leak_are_found() -> None:
    names = ("hidden_mask", "growing_chunk", "leaking_cache")
    draft = counted(*(f"{name}={PLANTED}:{name}" for name in names), claim=[LINEAR])
    found = verdicts(draft)
    assert found["hidden_mask", "memory"] == "refuted" and found["hidden_mask", "operations"] == "confirmed"
    assert found["growing_chunk", "operations"] == "refuted"
    assert found["leaking_cache", "state"] == "refuted" and found["leaking_cache", "operations"] == "confirmed"
    leaks = [one for one in draft.findings if one.id == "scaling.leak"]
    assert [one.where["target"] for one in leaks] == ["leaking_cache"]
    assert "256 bytes of each token" in leaks[0].headline
    assert draft.answer is not None and "faster than the claimed" in draft.answer.title


def test_true_claims_hold_and_a_logarithm_too_few_is_refuted() -> None:
    claims = (LINEAR, "sdpa:operations=n^2,memory=n,state=n", "fft-conv:operations=n log n,memory=n,state=n")
    draft = counted("sdpa", "linear-attention", "pom", "fft-conv", claim=claims)
    assert set(verdicts(draft).values()) == {"confirmed"} and len(verdicts(draft)) == 12
    assert {one.id for one in draft.findings} == {"scaling.claim", "scaling.uncounted"}
    draft = counted("fft-conv", claim=["operations=n"])
    assert verdicts(draft)["fft-conv", "operations"] == "refuted"


def test_a_short_range_is_undecided_and_says_how_far_to_go() -> None:
    draft = counted("sdpa", claim=["operations=n^2"], lengths=("64:512",), count_to=0)
    claim = next(one for one in draft.findings if one.id == "scaling.claim")
    assert claim.where["verdict"] == "undecided" and "too short a range: go to" in claim.statement


def test_width_and_batch_have_exponents_of_their_own() -> None:
    draft = counted("sdpa", vary=("length", "width", "batch"), lengths=("4096", "8192"), count_to=2**20)
    exponents = {
        row.where["variable"]: row.value
        for row in draft.select("exponent", target="sdpa", quantity="operations")
        if "variable" in row.where
    }
    assert exponents["batch"] == pytest.approx(1) and 1 < exponents["width"] < 1.2
    # n^2 d with d = n.
    assert exponents["length=width"] == pytest.approx(3, abs=0.02)


def measured(curves: dict[str, Curve], claim: str) -> Draft:
    draft = Draft(measures=AUDIT.by_name)
    found = Counts(
        targets=tuple(curves),
        asked=next(iter(curves.values())).lengths,
        curves={(name, "time", LENGTH): curve for name, curve in curves.items()},
        claims={(name, "time"): read_law(claim) for name in curves},
        tolerance=0.15,
    )
    estimates(draft, found)
    findings(draft, found)
    return draft


def clock(law: str, rounds: int = 9, overhead: float = 0.0) -> Curve:
    lengths = tuple(2**k for k in range(8, 18))
    true = overhead + read_law(law).values(lengths)
    drawn = true * np.random.default_rng(5).lognormal(0, 0.04, (rounds, len(lengths)))
    return Curve(lengths=lengths, values=drawn, counted=False)


def test_time_is_consistent_or_not_and_no_more() -> None:
    draft = measured({"kept": clock("n"), "broken": clock("n^2")}, "n")
    assert verdicts(draft) == {("kept", "time"): "confirmed", ("broken", "time"): "refuted"}
    lines = [one.headline for one in draft.findings if one.id == "scaling.claim"]
    assert "is consistent with the claimed n" in lines[0] and "is not consistent with" in lines[1]
    # The same round of both: they cost the same at n = 1.
    assert draft.row("ratio_at", target="kept", against="broken", quantity="time", n=256).below(1)


def test_one_round_has_no_interval_and_decides_nothing() -> None:
    draft = measured({"once": clock("n^2", rounds=1)}, "n")
    assert verdicts(draft) == {("once", "time"): "undecided"}
    assert {one.id for one in draft.warnings} >= {"one-round"}
    assert all(row.low is None for row in draft.estimates if row.unit == "rounds")


def test_a_state_that_was_measured_is_judged_by_its_interval_alone(tmp_path: Path) -> None:
    rows = ["target,n,round,state_bytes,operations"]
    for turn in range(3):
        for n in (64, 128, 256, 512, 1024):
            # Not the same in every round, so not counted; the first has no last cell of operations.
            operations = "" if (turn, n) == (0, 1024) else n * n + turn
            rows.append(f"a,{n},{turn},{4 * n + turn},{operations}")
    path = tmp_path / "cells.csv"
    path.write_text("\n".join(rows) + "\n")
    draft = drafted(AUDIT, Options(from_csv=path, claim=("state=const",)))
    assert not any("nan" in f"{one.headline} {one.statement}" for one in draft.findings)
    assert verdicts(draft) == {("a", "state"): "refuted"}
    assert "scaling.leak" not in {one.id for one in draft.findings}


@pytest.mark.slow
def test_others_on_the_machine_change_no_verdict_of_counts_and_are_noticed() -> None:
    claims = (LINEAR, "attention:operations=n^2,memory=n^2,state=n")
    given = {"lengths": ("256:2048",), "rounds": 3, "budget_seconds": 20.0, "claim": claims}
    loop = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(loop) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        loud = counted("attention", "linear-attention", **given)  # type: ignore[arg-type]
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert set(verdicts(loud).values()) == {"confirmed"}
    assert "scaling.contention" in {one.id for one in loud.findings}
