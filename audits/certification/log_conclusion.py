"""The answer on several logs: what of each may be reported, with its settings, and how they differ."""

import shlex
from collections.abc import Iterator

from audits.certification.log_comparison import LogCounts
from audits.certification.log_differences import difference_words, measure_of, radius_words
from audits.certification.named_logs import NOISE
from audits.certification.wording import accuracy_at, certain_at, settings_of_log
from audits.core.context import Draft
from audits.core.numbers import point
from audits.core.records import SEVERITIES, Estimate
from audits.core.wording import listed

OWN = ("certify.accuracy", "certify.predictions")
"""Findings on the numbers of one log."""
IMPLIED = "implied_alpha"


def conclude_logs(draft: Draft, counts: LogCounts) -> None:
    """Set the answer: the gravest finding, and what may be reported of the logs whose radii fit their settings."""
    worst = max(draft.findings, key=lambda claim: (SEVERITIES.index(claim.severity), "logs-" in claim.id))
    citable = [name for name in counts.logs.names if counts.citable(name)]
    first, *others = counts.logs.names
    pairs = [difference_words(draft, counts, name) for name in others if {name, first} <= {*citable}]
    own = [claim.evidence[0] for claim in draft.findings if claim.id in OWN and claim.where["log"] in citable]
    rows = [*(row for leading, _ in pairs for row in leading), *own]
    # The number of the worst finding first.
    shown = worst.id == "certify.implied-alpha"
    lead = [row for row in worst.evidence[:1] if shown or row in rows]
    draft.conclude(
        worst.headline,
        numbers=[(row, _words(row, counts)) for row in (*lead, *(row for row in rows if row not in lead))],
        may=list(_may(draft, counts, citable, [sentence for _, sentence in pairs])),
        may_not=list(_may_not(draft, counts, citable)),
        next_step=_next_step(counts) or (_alone(str(worst.where["log"]), counts) if shown else ""),
    )


def _may(draft: Draft, counts: LogCounts, citable: list[str], differences: list[str]) -> Iterator[str]:
    rules = {one.name: one.rule for one in counts.logs.logs}
    for claim in draft.findings:
        if claim.id not in OWN or claim.where["log"] not in citable:
            continue
        name = str(claim.where["log"])
        rule = rules[name]
        if rule is None:
            yield claim.headline
            continue
        reading = counts.readings[name]
        yield (
            f"By the log {name}, the smoothed classifier has certified accuracy {accuracy_at(claim.evidence[0])} "
            f"({rule.geometry.norm}). {settings_of_log(rule, reading, name)} {certain_at(reading.alpha, reading)}"
        )
    yield from differences
    for claim in draft.findings:
        if claim.id in ("certify.unreachable-radii", "certify.implied-alpha"):
            yield claim.headline


def _may_not(draft: Draft, counts: LogCounts, citable: list[str]) -> Iterator[str]:
    lacking = [name for name in counts.logs.names if name not in citable]
    if lacking:
        yield (
            f"Any certified accuracy of {listed(lacking)}, or a difference from it: with which settings these "
            "certificates were made, is not known."
        )
    if not counts.logs.certified:
        yield "Any certified radius: predictions certify nothing."
        yield "That model, images and draws are sound: only the printed logs were read."
        return
    yield "That the network alone is robust: certified is its vote under noise, not its answer to a single image."
    for name in citable:
        bound = draft.get("false_certificate_bound", log=name)
        if bound and any(row.radius > 0 for row in counts.logs.verdicts[name]):
            yield f"That all certificates of {name} hold: at least one is false with probability up to {point(bound)}."
    yield "Anything on turned, shifted or otherwise changed images, or on a distance in another norm."
    yield "That model, images and draws are sound: only the printed logs were read."


def _next_step(counts: LogCounts) -> str:
    """Return how to name the noise of the logs whose radii no alpha explains; nothing where there are none."""
    names = [name for name in counts.logs.names if counts.unsettled(name)]
    if not names:
        return ""
    flags = " ".join(f"{NOISE} {shlex.quote(f'{name}=S')}" for name in names)
    return (
        f"Name the sigma that was used for {listed(names)}, {flags}, or the n; cite none of these certificates before "
        "their radii fit."
    )


def _alone(name: str, counts: LogCounts) -> str:
    """Return what to do about a log read with too small an alpha, where its own is not shown to fit all the others."""
    fitting = {
        other: {alpha for alpha, fit in reading.fits.items() if fit.roundings}
        for other, reading in counts.readings.items()
    }
    # One alpha is named for all logs: that of this one would spoil another.
    if all(fitting[name] <= alphas for alphas in fitting.values()):
        return ""
    return (
        f"Audit {name} alone with the alpha that it was made with (--alpha; its finding says which fit), and cite its "
        "certificates with that alpha only."
    )


def _words(row: Estimate, counts: LogCounts) -> str:
    of = f" of {row.where['log']}"
    if row.name == IMPLIED:
        return f"{row.measure.label}{of}"
    less = f" less that of {row.where['against']}" if "against" in row.where else ""
    beyond = counts.beyond(row.where) if "against" in row.where else ()
    reached = f" ({listed(beyond)} cannot reach it)" if beyond else ""
    return f"{measure_of(row).removeprefix('The ').lower()}{of}{less}{radius_words(row)}{reached}"
