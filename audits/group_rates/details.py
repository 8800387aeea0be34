"""What a cell of the matrix on top of a report says beside its gap: which groups were compared, and the p-value."""

from audits.core.records import Estimate, Report
from audits.core.wording import p_words
from audits.group_rates.wording import levels_of

_NOT_OF_TESTS = {"kind", "adjusted"}


def pair_and_p(report: Report, index: int) -> str:
    """Return the worst and the best group of a gap, as the finding that rests on it names them, and its p-value."""
    return " · ".join(filter(None, (_pair(report, index), _p(report, report.estimates[index]))))


def _pair(report: Report, index: int) -> str:
    attribute = str(report.estimates[index].where.get("by", ""))
    for finding in report.findings:
        if finding.evidence[:1] == (index,):
            rows = [report.estimates[row] for row in finding.evidence[1:]]
            groups = dict.fromkeys(str(row.where["group"]) for row in rows if _is_level(row, attribute))
            worst, best = (*list(groups)[:2], "", "")[:2]
            return f"{levels_of(worst)} against {levels_of(best)}" if best else ""
    return ""


def _is_level(row: Estimate, attribute: str) -> bool:
    group = str(row.where.get("group", ""))
    return bool(attribute) and "&".join(part.partition("=")[0] for part in group.split("&")) == attribute


def _p(report: Report, gap: Estimate) -> str:
    where = {key: value for key, value in gap.where.items() if key not in _NOT_OF_TESTS}
    for row in report.estimates:
        if row.name == "p_value" and row.where.get("correction") == "holm" and where.items() <= row.where.items():
            return f"p {p_words(row.value)}"
    return ""
