"""Findings on several logs: what each says, whether its settings fit, and how far they differ, image by image."""

from audits.certification.log_comparison import ACCURACY, PREDICTED, RADIUS, LogCounts
from audits.certification.log_findings import find_in_log
from audits.certification.named_logs import NamedLog
from audits.certification.run_warnings import IN_LOGS
from audits.core.context import Draft
from audits.core.records import SEVERITIES, Estimate
from audits.core.wording import fitting, listed, p_words, size_words, span

NO_CERTIFICATE = (
    "A log of predictions holds no radius: it certifies nothing. Its accuracy is that of the smoothed classifier's "
    "answers, of which each may be another than the smoothed classifier's with a small probability."
)
MOST_TOLD = 4


def find_in_logs(draft: Draft, counts: LogCounts) -> None:
    """Add findings, warnings and the answer."""
    logs = counts.logs
    for one in logs.logs:
        if one.rule is not None:
            find_in_log(draft, one.log, one.rule, counts.readings[one.name], log=one.name)
    for one in logs.logs:
        _find_numbers(draft, one, logs.radii)
    for name in logs.names[1:]:
        _find_difference(draft, name, certified=logs.certified)
    _warn(draft, counts)
    _conclude(draft, counts)


def _find_numbers(draft: Draft, one: NamedLog, radii: tuple[float, ...]) -> None:
    abstained = draft.row("abstention_rate", log=one.name)
    if one.rule is None:
        right = draft.row(PREDICTED, log=one.name)
        draft.find(
            "certify.predictions",
            "info",
            f"It abstains on {span(abstained)} of them, which count as wrong. Predictions certify no radius.",
            [right, abstained],
            headline=fitting(f"{one.name}: predictions are right on {span(right)} of the images.", _short(right)),
            how_sure=_over(right),
            log=one.name,
        )
        return
    rows = [draft.row(ACCURACY, log=one.name, radius=radius) for radius in radii]
    first = _first(rows)
    mean = draft.row(RADIUS, log=one.name)
    draft.find(
        "certify.accuracy",
        "info",
        f"The average certified radius is {span(mean)}; it abstains on {span(abstained)} of the images. "
        f"Named for this log: sigma {one.rule.geometry.sigma:g} ({one.rule.geometry.norm}), n = {one.rule.n:,}.",
        [first, mean, abstained],
        headline=fitting(f"{one.name}: certified accuracy is {_at(first)}.", f"Certified accuracy is {_at(first)}."),
        how_sure=f"{_over(first)} Counted are images on which the log says right, with at least this radius.",
        log=one.name,
    )


def _find_difference(draft: Draft, name: str, *, certified: bool) -> None:
    """Add a finding on the differences of a log from the first that hold after correction for all, or on none."""
    tests = (ACCURACY, RADIUS) if certified else (PREDICTED,)
    rows = [row for test in tests for row in draft.select(f"{test}_difference", log=name)]
    p = {id(row): _holm(draft, row) for row in rows}
    shown = sorted((row for row in rows if p[id(row)].value < 1 - draft.level), key=lambda row: p[id(row)].value)
    against = str(rows[0].where["against"])
    family = len(draft.select("p_value", correction="holm"))
    how = f"{_over(rows[0])} P-values hold for all {family} differences at once (Holm)."
    if not shown:
        first = _first([row for row in rows if row.name.startswith((ACCURACY, PREDICTED))])
        draft.find(
            "certify.logs-alike",
            "info",
            f"{_named(first)} differs by {span(first)} from {against}; "
            f"after correction p {p_words(p[id(first)].value)}.",
            [first, p[id(first)]],
            headline=fitting(f"No difference between {name} and {against} is shown.", "No difference is shown."),
            how_sure=how,
            log=name,
            against=against,
        )
        return
    first, rest = shown[0], shown[1:]
    further = listed([f"{span(row)} {_place(row)}" for row in rest[:MOST_TOLD]])
    more = f", and at {len(rest) - MOST_TOLD} more" if len(rest) > MOST_TOLD else ""
    crossing = " The sign is not the same everywhere." if len({row.value > 0 for row in shown}) > 1 else ""
    draft.find(
        "certify.logs-differ",
        "low",
        f"After correction p {p_words(p[id(first)].value)}."
        + (f" Also shown: {further}{more}." if rest else "")
        + crossing,
        [first, p[id(first)], *rest],
        headline=_headline(first, name, against),
        how_sure=how,
        log=name,
        against=against,
    )


def _headline(row: Estimate, name: str, against: str) -> str:
    word = "higher" if row.value > 0 else "lower"
    return fitting(
        f"{_named(row)} of {name} is {word} than that of {against}, by {size_words(row)}{_at_radius(row)}.",
        f"{_named(row)} is {word}, by {size_words(row)}{_at_radius(row)}, than in the first log.",
    )


def _holm(draft: Draft, row: Estimate) -> Estimate:
    return draft.row("p_value", test=row.name.removesuffix("_difference"), correction="holm", **row.where)


def _first(rows: list[Estimate]) -> Estimate:
    """Return the row of the smallest positive radius: radius 0 asks for the right answer alone."""
    return next((row for row in rows if float(row.where.get("radius", 0)) > 0), rows[0])


def _named(row: Estimate) -> str:
    names = {ACCURACY: "Certified accuracy", RADIUS: "The average certified radius", PREDICTED: "Accuracy"}
    return names[row.name.removesuffix("_difference")]


def _at_radius(row: Estimate) -> str:
    return f" at radius {float(row.where['radius']):g}" if "radius" in row.where else ""


def _place(row: Estimate) -> str:
    return _at_radius(row).strip() or "of the average certified radius"


def _at(row: Estimate) -> str:
    return f"{span(row)}{_at_radius(row)}"


def _short(row: Estimate) -> str:
    return f"Predictions are right on {span(row)} of the images."


def _over(row: Estimate) -> str:
    return f"Intervals are over the {row.n:,} images that all logs have."


def _warn(draft: Draft, counts: LogCounts) -> None:
    draft.limit(IN_LOGS)
    logs = counts.logs
    if not logs.certified:
        draft.warn("no-certificates", NO_CERTIFICATE)
        draft.limit(NO_CERTIFICATE)
        return
    for one in logs.logs:
        assert one.rule is not None
        draft.warn(
            "sigma-unit",
            f"sigma {one.rule.geometry.sigma:g}, as it was given, is in units of pixels in [0, 1]; radii are "
            f"{one.rule.geometry.norm} distances in the same unit.",
            log=one.name,
        )
    alphas = {name: reading.alpha for name, reading in counts.readings.items()}
    if len(set(alphas.values())) > 1:
        told = listed([f"{name} {alpha:g}" if alpha else f"{name} unknown" for name, alpha in alphas.items()])
        draft.warn(
            "other-alphas",
            f"The logs' certificates are not equally sure: alpha is {told}. A larger alpha gives larger radii from the "
            "same votes, so that a small difference may be one of settings.",
        )


def _conclude(draft: Draft, counts: LogCounts) -> None:
    logs = counts.logs
    told = {"certify.logs-differ", "certify.logs-alike", "certify.predictions", "certify.accuracy"}
    worst = max(draft.findings, key=lambda claim: (SEVERITIES.index(claim.severity), "logs-" in claim.id))
    known = all(reading.alpha is not None for reading in counts.readings.values())
    rows = [claim.evidence[0] for claim in draft.findings if claim.id in told] if known else []
    lead = [row for row in worst.evidence[:1] if row in rows]
    ordered = [*lead, *(row for row in rows if row not in lead)]
    may = [claim.headline for claim in draft.findings if claim.id in told] if known else []
    may_not = ["That model, images and draws are sound: only the printed logs were read."]
    if logs.certified:
        may_not.append("Anything on turned, shifted or otherwise changed images, or on a distance in another norm.")
    else:
        may_not.insert(0, "Any certified radius: predictions certify nothing.")
    if not known:
        may_not.insert(
            0, "Any certified accuracy: with which settings some of these certificates were made, is unknown."
        )
    draft.conclude(worst.headline, numbers=[(row, _words(row)) for row in ordered], may=may, may_not=may_not)


def _words(row: Estimate) -> str:
    of = f" of {row.where['log']}"
    less = f" less that of {row.where['against']}" if "against" in row.where else ""
    return f"{_named(row).removeprefix('The ').lower()}{of}{less}{_at_radius(row)}"
