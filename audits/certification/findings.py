"""What do the numbers allow to say? Findings, warnings and limits of a certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from audits.certification.estimating import LEAST
from audits.certification.judging import ABSTAIN, Verdict
from audits.certification.log_fit import Reading
from audits.certification.rules import Rule, too_few
from audits.context import Draft
from audits.numbers import bounded, counted, described, interval, level_of, point
from audits.records import Coordinate, Estimate
from audits.statistics import clopper_pearson
from audits.wording import listed, span

HALF = 0.5
LIKELY = 0.05
"""Probability of at least one false certificate from which on it is warned of."""
VOTES = (
    "A certificate holds for the smoothed classifier, which answers by a vote under noise. It says nothing about the "
    "network alone, whose answer to a single image may change with the smallest perturbation."
)
SOFT = (
    "A certificate holds for the smoothed classifier, which answers by its mean soft output under noise: another "
    "classifier than the vote. It says nothing about the network alone, whose answer to a single image may change."
)
EXECUTED = (
    "The network is certified as it was executed, in floating point: dtype, device and versions stand in the "
    "provenance, those of counts drawn earlier in the note on the input. "
    "Rounding inside the network and the noise generator is not covered by the proof."
)
LIMITATIONS = (
    "A certificate covers every perturbation up to its radius in its norm, and nothing else: no rotation, no other "
    "norm (an l2 radius r proves only r / sqrt(d) in l-infinity for d pixels), no shift of the data.",
    "Certified accuracy holds for images drawn like these; its interval covers the choice of images, not the error "
    "probability alpha of each certificate.",
)
IN_LOGS = "The certificates are those of the log. Nothing was drawn here: model, images and draws were not checked."


Groups = Mapping[str, Sequence[str]]
"""Column -> level of every image."""


def find(
    draft: Draft,
    verdicts: Sequence[Verdict],
    rule: Rule,
    *,
    groups: Groups | None = None,
    reading: Reading | None = None,
) -> None:
    """Append findings and warnings of a run, or of a log whose settings were read from its radii."""
    log = reading is not None
    draft.limitations += [SOFT if rule.soft else VOTES, *LIMITATIONS, IN_LOGS if log else EXECUTED]
    rows = {row.name: index for index, row in enumerate(draft.estimates) if not row.where}
    curve = [index for index, row in enumerate(draft.estimates) if set(row.where) == {"radius"}]
    _find_noise(draft, rows)
    _find_accuracy(draft, curve, rows, verdicts, rule, reading)
    _find_parts(draft, rule, groups or {})
    _warn(draft, rule, rows, reading)


def _at(draft: Draft, curve: list[int], rule: Rule) -> list[int]:
    """Return the rows worth a sentence.

    All that were asked for; of a grid the smallest positive radius, and the largest that at least half of the images
    reach, or any at all.
    """
    if rule.asked:
        return curve
    positive = [index for index in curve if float(draft.estimates[index].where["radius"]) > 0] or curve
    half = [index for index in positive if (draft.estimates[index].low or 0.0) >= HALF]
    some = [index for index in positive if draft.estimates[index].value > 0]
    return list(dict.fromkeys((positive[0], (half or some or positive)[-1])))


def _find_accuracy(
    draft: Draft,
    curve: list[int],
    rows: dict[str, int],
    verdicts: Sequence[Verdict],
    rule: Rule,
    reading: Reading | None,
) -> None:
    told = _at(draft, curve, rule)
    if all(row.predict == ABSTAIN for row in verdicts):
        images = counted(len(verdicts), "images")
        draft.find(
            "certify.nothing",
            "high",
            f"Nothing could be certified at any radius: the smoothed classifier abstains on all {images}.",
            [rows["abstention_rate"], *told],
        )
        return
    first = draft.estimates[told[0]]
    said = ", ".join(_within(draft.estimates[index]) for index in told)
    draft.find(
        "certify.accuracy",
        "info",
        f"{_who(rule, reading)} is right, and {'said' if reading else 'proved'} not to change its answer "
        f"({rule.geometry.norm} distance; {_certain(rule, reading)}), {said}; {level_of(first)}, "
        f"{counted(first.n, first.unit)}. Intervals are over images.",
        told,
        radius=draft.estimates[told[-1]].where["radius"],
    )


def _within(row: Estimate) -> str:
    """Return on what share of the images a radius is reached."""
    share = span(row) if row.value else f"none ({interval(row)})"
    return f"within {_number(row.where['radius'])} on {share}"


def _certain(rule: Rule, reading: Reading | None) -> str:
    """Return how likely a certificate is to be false; of a log by what its radii allow."""
    alpha = reading.alpha if reading else rule.alpha
    if alpha is not None:
        # Where the radii fit several, the one that was named is no more than that.
        given = f", if alpha was {alpha:g}" if reading and reading.outcome == "fits" and reading.fitting(alpha) else ""
        return f"each certificate false with probability {alpha:g} at most{given}"
    if reading and reading.needed and reading.outcome == "larger alpha":
        return f"each certificate with an error probability of {bounded(reading.needed[1])} or more"
    return "with which error probability, is not known"


def _who(rule: Rule, reading: Reading | None) -> str:
    who = f"he smoothed classifier (sigma {rule.geometry.sigma:g})"
    if reading:
        # A sigma that the radii contradict is not repeated.
        known = reading.outcome != "other settings"
        return f"By the log, t{who}" if known else "By the log, the smoothed classifier"
    if rule.soft and rule.asserted:
        return f"If no output rises faster than the constant {rule.geometry.lipschitz:g} asserted, t{who}"
    return f"T{who}"


def _number(value: Coordinate) -> str:
    return f"{float(value):g}"


def _find_noise(draft: Draft, rows: dict[str, int]) -> None:
    if "noisy_accuracy" not in rows or "clean_accuracy" not in rows:
        return
    noisy, clean = draft.estimates[rows["noisy_accuracy"]], draft.estimates[rows["clean_accuracy"]]
    pair = [rows["noisy_accuracy"], rows["clean_accuracy"]]
    said = f"under this noise it is right on {described(noisy)}, without noise on {described(clean)}"
    if (noisy.high or 1.0) < HALF:
        draft.find(
            "certify.noise-defeats",
            "high",
            f"The network is wrong more often than right: {said} (shares of draws and of images).",
            pair,
        )
    elif (noisy.high or 1.0) < (clean.low or 0.0):
        draft.find("certify.noise-costs", "low", f"Noise costs the network accuracy: {said}.", pair)


def _find_parts(draft: Draft, rule: Rule, groups: Groups) -> None:
    """Tell of classes, and of each column's groups, whether they differ at the middle radius.

    Told are differences by intervals that hold for all classes, or for all groups of one column, at once: each column
    is a family of its own, as each is a question of its own.
    """
    radius = rule.radii[len(rule.radii) // 2]
    at = [
        (index, row)
        for index, row in enumerate(draft.estimates)
        if row.name == "certified_accuracy" and row.where["radius"] == radius
    ]
    classes = [pair for pair in at if "label" in pair[1].where]
    _find_uneven(draft, classes, "label", "classes", radius)
    even, bare = [], []
    for column, levels in sorted(groups.items()):
        names = {f"{column}={level}" for level in levels}
        own = [pair for pair in at if pair[1].where.get("group") in names]
        if len(own) < 2:
            bare.append(column)
        elif not _find_uneven(draft, own, "group", f"groups of {column}", radius):
            even.append((column, own))
    said = []
    if even:
        told = ", ".join(f"{column} ({_ends(rows)})" for column, rows in even)
        said.append(f"No difference of certified accuracy at radius {radius:g} is shown between the groups of {told}.")
    if bare:
        said.append(f"Of {listed(bare)} nothing can be told: fewer than two groups have {LEAST} images.")
    if said:
        draft.find("certify.even", "info", " ".join(said), [index for _, rows in even for index, _ in _extremes(rows)])


Rows = list[tuple[int, Estimate]]
"""Estimates with their places in the report."""


def _extremes(rows: Rows) -> Rows:
    """Return the rows of the smallest and of the largest number."""
    ordered = sorted(rows, key=lambda pair: pair[1].value)
    return [ordered[0], ordered[-1]]


def _ends(rows: Rows) -> str:
    """Return the lowest and the highest of a column's groups."""
    return " to ".join(f"{_name(row, 'group')} {described(row)}" for _, row in _extremes(rows))


def _find_uneven(draft: Draft, rows: Rows, key: str, what: str, radius: float) -> bool:
    """Tell of two parts whose intervals lie apart, each at the level at which all of them hold at once."""
    if len(rows) < 2:
        return False
    level = 1 - (1 - rows[0][1].level) / len(rows)
    ends = {index: clopper_pearson(round(row.value * row.n), row.n, level=level) for index, row in rows}
    worst = min(rows, key=lambda pair: ends[pair[0]][1])
    best = max(rows, key=lambda pair: ends[pair[0]][0])
    if ends[worst[0]][1] >= ends[best[0]][0]:
        return False
    draft.find(
        "certify.uneven",
        "medium",
        f"The certificates are uneven over {what}: at radius {radius:g}, {_name(worst[1], key)} has "
        f"{described(worst[1])}, and {_name(best[1], key)} {described(best[1])}; the two differ also by "
        f"intervals that hold for all {len(rows)} {what} at once.",
        [worst[0], best[0]],
        **{key: worst[1].where[key]},
    )
    return True


def _name(row: Estimate, key: str) -> str:
    value = row.where[key]
    return f"class {value}" if key == "label" else str(value)


def _warn(draft: Draft, rule: Rule, rows: dict[str, int], reading: Reading | None) -> None:
    kind = (
        "half the width of the uniform noise" if rule.geometry.norm == "l1" else "the standard deviation of the noise"
    )
    given = ", as it was given," if reading else ""
    draft.warn(
        "sigma-unit",
        f"sigma {rule.geometry.sigma:g}{given} is {kind} in units of pixels in [0, 1] (in grey levels: "
        f"{255 * rule.geometry.sigma:.4g}); radii are {rule.geometry.norm} distances in the same unit.",
    )
    draft.warn("smoothed-classifier", SOFT if rule.soft else VOTES)
    if not reading:
        draft.warn("floating-point", EXECUTED)
    # A log is held to the alpha that its radii allow; where that is not known, neither is what could be reached.
    held = replace(rule, alpha=reading.alpha or rule.alpha) if reading else rule
    if reading is None or reading.alpha is not None:
        _warn_reach(draft, held)
    if "false_certificate_bound" in rows:
        _warn_false(draft, draft.estimates[rows["false_certificate_bound"]], log=reading is not None)
    _warn_run(draft, rule, rows)


def _warn_reach(draft: Draft, rule: Rule) -> None:
    """Warn of what so many draws cannot certify."""
    needed = too_few(rule)
    if needed:
        draft.warn(
            "few-draws",
            f"With n = {rule.looks[-1]} and an error probability of {rule.share:g} a look, not even unanimous votes "
            f"certify anything: it takes {needed} draws at least.",
        )
    beyond = [radius for radius in rule.radii if radius > rule.ceiling]
    if beyond:
        draft.warn(
            "beyond-ceiling",
            f"Radii above {bounded(rule.ceiling, 4, up=True)} cannot be certified with n = {rule.looks[-1]:,}: "
            f"{', '.join(f'{radius:g}' for radius in beyond)}. More draws, or more noise, reach further.",
        )


def _warn_false(draft: Draft, bound: Estimate, *, log: bool) -> None:
    """Warn of false certificates among many."""
    if bound.value <= LIKELY:
        return
    draft.warn(
        "false-certificates",
        f"alpha holds for each image alone: over {bound.n:,} images the probability that at least one certificate "
        f"is false may be as large as {point(bound)}."
        + ("" if log else " --family-wise makes it hold for all together."),
    )


def _warn_run(draft: Draft, rule: Rule, rows: dict[str, int]) -> None:
    """Warn of what the network, the mode or the constant makes of a run."""
    if "noisy_accuracy" in rows and draft.estimates[rows["noisy_accuracy"]].value < HALF:
        draft.warn(
            "noisy-accuracy",
            f"Under noise of {rule.geometry.sigma:g} the network is right on less than half of the draws. Train it "
            "with noise, or use less.",
        )
    if rule.mode == "decide":
        draft.warn(
            "early-stopping",
            "Draws stop as soon as the radii asked are decided: certified accuracy is meant at these radii, and the "
            "average certified radius is smaller than all draws would give.",
        )
    if rule.soft and rule.asserted:
        draft.warn(
            "asserted-lipschitz",
            f"The Lipschitz constant {rule.geometry.lipschitz:g} is the user's word. If an output rises faster "
            "anywhere, the radii are not certified.",
        )
