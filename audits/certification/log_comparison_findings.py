"""Findings on several logs: what each says, whether its settings fit, and how far they differ, image by image."""

from audits.certification.log_comparison import ACCURACY, PREDICTED, RADIUS, LogCounts
from audits.certification.log_conclusion import conclude_logs
from audits.certification.log_differences import find_log_difference, first_row, over_common, radius_words
from audits.certification.log_findings import find_in_log
from audits.certification.named_logs import NamedLog
from audits.certification.run_warnings import IN_LOGS, warn_of_log, warn_of_votes
from audits.certification.wording import certain_at, settings_of_log
from audits.core.context import Draft
from audits.core.wording import fitting, listed, span

NO_CERTIFICATE = (
    "A log of predictions holds no radius: it certifies nothing. Its accuracy is that of the smoothed classifier's "
    "answers, of which each may be another than the smoothed classifier's with a small probability."
)


def find_in_logs(draft: Draft, counts: LogCounts) -> None:
    """Add findings, warnings and the answer."""
    logs = counts.logs
    # A sigma or an n that is not the log's makes all else that is said of it doubtful.
    for one in sorted(logs.logs, key=lambda one: not counts.unsettled(one.name)):
        if one.rule is not None:
            find_in_log(draft, one.log, one.rule, counts.readings[one.name], log=one.name)
    for one in logs.logs:
        _find_numbers(draft, one, counts)
    for name in logs.names[1:]:
        find_log_difference(draft, counts, name)
    _warn(draft, counts)
    conclude_logs(draft, counts)


def _find_numbers(draft: Draft, one: NamedLog, counts: LogCounts) -> None:
    abstained = draft.row("abstention_rate", log=one.name)
    if one.rule is None:
        right = draft.row(PREDICTED, log=one.name)
        draft.find(
            "certify.predictions",
            "info",
            f"It abstains on {span(abstained)} of them, which count as wrong. Predictions certify no radius.",
            [right, abstained],
            headline=fitting(
                f"{one.name}: predictions are right on {span(right)} of the images.",
                f"Predictions are right on {span(right)} of the images.",
            ),
            how_sure=over_common(right),
            log=one.name,
        )
        return
    rows = [draft.row(ACCURACY, log=one.name, radius=radius) for radius in counts.logs.radii]
    first = first_row(rows)
    mean, reading = draft.row(RADIUS, log=one.name), counts.readings[one.name]
    at = f"{span(first)}{radius_words(first)}"
    draft.find(
        "certify.accuracy",
        "info",
        f"The average certified radius is {span(mean)}; it abstains on {span(abstained)} of the images. "
        f"{settings_of_log(one.rule, reading, 'this log')}",
        [first, mean, abstained],
        headline=fitting(f"{one.name}: by the log, certified accuracy is {at}.", f"Certified accuracy is {at}."),
        how_sure=f"{certain_at(reading.alpha, reading)} {over_common(first)} Counted are images on which the log says "
        "right, with at least this radius.",
        log=one.name,
    )


def _warn(draft: Draft, counts: LogCounts) -> None:
    logs = counts.logs
    if not logs.certified:
        draft.limit(IN_LOGS)
        draft.warn("no-certificates", NO_CERTIFICATE)
        draft.limit(NO_CERTIFICATE)
        return
    rules = {one.name: one.rule for one in logs.logs if one.rule is not None}
    for name, rule in rules.items():
        warn_of_log(draft, rule, counts.readings[name], name)
    warn_of_votes(draft, rules[logs.names[0]])
    alphas = {name: reading.alpha for name, reading in counts.readings.items()}
    if len(set(alphas.values())) > 1:
        read = listed([f"{name} {alpha:g}" if alpha else f"{name} unknown" for name, alpha in alphas.items()])
        draft.warn(
            "other-alphas",
            f"The logs' certificates are not equally sure: alpha is {read}. A larger alpha gives larger radii from the "
            "same votes, so that a small difference may be one of settings.",
        )
