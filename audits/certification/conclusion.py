"""The answer: certified accuracy with the settings that make it, and what a certificate does not say."""

from collections.abc import Iterator

from audits.certification.attack_findings import BY_ERROR, CONTRADICTED
from audits.certification.attack_outcomes import MULTIPLES
from audits.certification.measure import Counts
from audits.certification.wording import accuracy_at, beyond_reach, certain, settings_of
from audits.core.context import Draft
from audits.core.numbers import decimals, point, written
from audits.core.records import SEVERITIES, Estimate
from audits.core.wording import listed, span

_LEADING = ("noisy_accuracy", "implied_alpha", "abstention_rate", "attack_success")
"""Measures of a finding graver than certified accuracy that stand before it among the numbers on top."""


def conclude(draft: Draft, counts: Counts) -> None:
    """Set the answer: the claim of the gravest finding, and what of the certificates may be reported."""
    worst = max(draft.findings, key=lambda claim: SEVERITIES.index(claim.severity))
    rows = next(
        (
            [row for row in claim.evidence if row.name == "certified_accuracy"]
            for claim in draft.findings
            if claim.id in ("certify.accuracy", "certify.nothing")
        ),
        [],
    )
    # Without its settings a radius means nothing, nor does one that so many draws cannot certify.
    lost = beyond_reach(counts)
    citable = [row for row in rows if row.where["radius"] not in lost] if _citable(draft, counts) else []
    numbers = [(row, f"certified accuracy at radius {float(row.where['radius']):g}") for row in citable]
    leading = [(row, row.measure.label) for row in worst.evidence[:1] if row.name in _LEADING]
    draft.conclude(
        worst.headline,
        numbers=[*leading, *numbers],
        may=list(_may(draft, counts, rows)),
        may_not=list(_may_not(draft, counts)),
        next_step=_next_step(counts) if worst.id == "certify.implied-alpha" else "",
    )


def _next_step(counts: Counts) -> str:
    """Return what to ask for where no alpha that could be tried explains a log; nothing where the finding names one."""
    if counts.reading is None or counts.reading.alpha is not None:
        return ""
    return (
        "Name the sigma (--sigma), n and alpha that the log was made with; cite none of its certificates before its "
        "radii fit."
    )


def _may(draft: Draft, counts: Counts, rows: list[Estimate]) -> Iterator[str]:
    if _citable(draft, counts):
        whom = "By the log, the smoothed classifier" if counts.reading else "The smoothed classifier"
        lost = beyond_reach(counts)
        for row in (row for row in rows if row.where["radius"] not in lost):
            yield f"{whom} has certified accuracy {accuracy_at(row)} ({counts.rule.geometry.norm})."
        yield f"{settings_of(counts)}{f' {certain(counts)}' if counts.reading else ''}"
    yield from _of_attacks(draft, counts)
    clean, noisy = draft.get("clean_accuracy"), draft.get("noisy_accuracy")
    if clean and noisy:
        yield f"The network alone is right on {span(clean)} of the images, on {span(noisy)} of their noisy copies."
    for claim in draft.findings:
        if claim.id in ("certify.unreachable-radii", "certify.implied-alpha") or (
            claim.id == "certify.uneven" and _citable(draft, counts)
        ):
            yield claim.headline


def _of_attacks(draft: Draft, counts: Counts) -> Iterator[str]:
    """Yield what attacks found, unless it contradicts the certificates; that one failed beyond them is no evidence."""
    within, beyond = (draft.get("attack_success", multiple=multiple) for multiple in MULTIPLES)
    if counts.attacks is None or within is None or beyond is None or _contradicted(draft):
        return
    if within.value > 0:
        yield next(claim.headline for claim in draft.findings if claim.id == BY_ERROR)
    else:
        yield (
            f"Within the certified radius an attack turned {counts.attacks.turned_of(1)}: {span(within)}. That proves "
            "no certificate."
        )
    if beyond.value > 0:
        yield f"Twice as far as certified, an attack turned {counts.attacks.turned_of(2)}: {span(beyond)}."


def _citable(draft: Draft, counts: Counts) -> bool:
    """Tell whether sigma, n and alpha of the certificates are known, without which a radius means nothing.

    And whether no attack has contradicted the certificates beyond error.
    """
    return counts.alpha is not None and not _contradicted(draft)


def _contradicted(draft: Draft) -> bool:
    return any(claim.id == CONTRADICTED for claim in draft.findings)


def _may_not(draft: Draft, counts: Counts) -> Iterator[str]:
    rule, reading = counts.rule, counts.reading
    if _contradicted(draft):
        yield "Any certified accuracy: attacks within certified radii turned more answers than error explains."
    elif not _citable(draft, counts):
        yield "Any certified accuracy: with which settings these certificates were made, is not known."
    elif lost := beyond_reach(counts):
        radii = listed([f"{radius:g}" for radius in lost])
        yield f"Certified accuracy at radius {radii}: n = {rule.n:,} draws cannot certify it, whatever the classifier."
    if rule.soft and rule.asserted:
        yield (
            "Certificates without the condition that, as you stated, no soft output rises faster than "
            f"{rule.geometry.lipschitz:g}."
        )
    certified = "its mean output" if rule.soft else "its vote"
    yield f"That the network alone is robust: certified is {certified} under noise, not its answer to a single image."
    bound = draft.get("false_certificate_bound")
    if bound and any(row.radius > 0 for row in counts.verdicts):
        yield f"That all certificates hold: at least one is false with probability up to {point(bound)}."
    for low, high, by in _alike(draft):
        yield f"That certified accuracy is alike by {by}: {low} for one group and {high} for another fit the data."
    if draft.get("attack_success", multiple=2):
        yield "That an image which the attack did not turn is safe beyond its certified radius."
    yield "Anything on turned, shifted or otherwise changed images, or on a distance in another norm."
    if counts.inputs.stored:
        yield "These numbers as planned in advance, if alpha, interval or radii were chosen by what the counts show."
    if reading:
        yield "That model, images and draws are sound: only the printed certificates were read."


def _alike(draft: Draft) -> Iterator[tuple[str, str, str]]:
    """Yield the ends of the intervals that lie furthest apart, for each column without a shown difference."""
    for claim in draft.findings:
        if claim.id != "certify.even":
            continue
        for lowest, highest in zip(claim.evidence[::2], claim.evidence[1::2], strict=True):
            by = str(lowest.where["group"]).partition("=")[0]
            yield _end(lowest.low, lowest), _end(highest.high, highest), by


def _end(end: float | None, row: Estimate) -> str:
    return written(end if end is not None else row.value, decimals(row))
