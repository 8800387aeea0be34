import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audits.core.records import Coverage, Estimate, Report, Skipped

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def estimate(**changes: Any) -> Estimate:
    row = {"name": "rate", "value": 0.2, "low": 0.1, "high": 0.3, "method": "Wilson", "n": 9, "unit": "clips"}
    return Estimate(**{**row, **changes})


@pytest.mark.parametrize("end", ["value", "low", "high"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_no_estimate_holds_a_number_that_is_none(end: str, number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        estimate(**{end: number})


def test_an_interval_is_whole_or_absent_with_the_right_to_be() -> None:
    for ends in ({"low": None}, {"high": None}, {"low": None, "high": None}):
        with pytest.raises(ValueError, match="both ends"):
            estimate(**ends)
    for method in ("exact", "none"):
        assert estimate(low=None, high=None, method=method).low is None
        with pytest.raises(ValueError, match="both ends"):
            estimate(low=None, method=method)
    with pytest.raises(ValueError, match="above"):
        estimate(low=0.4)
    assert estimate(low=0.2, high=0.2).low == 0.2


def test_coverage_adds_up_or_is_refused() -> None:
    skipped = (Skipped(reason="short", count=2), Skipped(reason="empty", count=1))
    assert Coverage(given=10, used=7, skipped=skipped).skipped == skipped
    for used in (6, 8):
        with pytest.raises(ValueError, match="add up"):
            Coverage(given=10, used=used, skipped=skipped)


def test_records_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate().value = 3.0  # type: ignore[misc]


def test_a_report_survives_json(sample_report: Report) -> None:
    text = json.dumps(sample_report.to_json(), allow_nan=False)
    again = Report.from_json(json.loads(text))
    assert again.to_json() == sample_report.to_json()
    assert again == Report.from_json(again.to_json())
    assert [type(part) for part in (again.estimates, again.findings[0].evidence, again.provenance.command)] == [
        tuple
    ] * 3


def test_a_report_without_a_model_survives_json(sample_report: Report) -> None:
    report = dataclasses.replace(sample_report, subject=None)
    assert report.to_json()["subject"] is None
    assert Report.from_json(report.to_json()).subject is None


@given(value=FINITE, below=st.floats(0, 1e6), above=st.floats(0, 1e6), layer=st.integers() | st.text(max_size=8))
def test_any_estimate_survives_json_bit_for_bit(value: float, below: float, above: float, layer: int | str) -> None:
    row = estimate(value=value, low=value - below, high=value + above, where={"layer": layer})
    again = Estimate(**json.loads(json.dumps(dataclasses.asdict(row))))
    assert again == row
