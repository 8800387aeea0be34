"""Are the headlines of audit-fairness short and borne by the evidence, and its answer silent where nothing is shown?"""

import json
from pathlib import Path

import pytest
from headlines import faults, long_statements

from audits.core.records import Report


@pytest.mark.parametrize("run", ["first", "second"])
def test_headlines_are_short_and_their_numbers_stand_in_the_evidence(prepared: Path, run: str) -> None:
    report = Report.from_json(json.loads((prepared / "work/runs" / run / "report.json").read_text("utf-8")))
    assert faults(report) == []
    assert long_statements(report) == []
    assert report.answer is not None
    assert (
        report.answer.title
        == f"No gap between groups is shown in {'6 comparisons' if run == 'first' else '1 comparison'}."
    )
    assert not any(line.startswith("The gap by") for line in report.answer.may)
    assert any("still fit" in line for line in report.answer.may_not)
