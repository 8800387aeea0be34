"""Are the headlines of audit-phonemes short and borne by the evidence, and does the answer lead with the worst?"""

import json
from pathlib import Path

from headlines import faults, long_statements

from audits.core.records import Report


def test_headlines_are_short_and_the_answer_is_the_worst_error(prepared: Path) -> None:
    report = Report.from_json(json.loads((prepared / "work/runs/phones/report.json").read_text("utf-8")))
    assert faults(report) == []
    assert long_statements(report) == []
    assert report.answer is not None
    shown = [item for item in report.findings if item.id in ("phonemes.both", "phonemes.systematic", "phonemes.random")]
    assert shown and report.answer.title == shown[0].headline
    assert report.answer.numbers[0].row == shown[0].evidence[0]
    assert all(item.headline in report.answer.may for item in shown)
