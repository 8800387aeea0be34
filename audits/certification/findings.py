"""What do the numbers allow to say? Findings, warnings and limits of a certificate."""

from collections.abc import Sequence

from audits.certification.judging import ABSTAIN, Verdict
from audits.certification.logs import USUAL_ALPHAS, Log, implied_alpha, reachable
from audits.certification.rules import Rule, too_few
from audits.context import Draft
from audits.numbers import described
from audits.records import Coordinate, Estimate

HALF = 0.5
_CERTAIN = 1 - 1e-9
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


def find(draft: Draft, verdicts: Sequence[Verdict], rule: Rule, *, log: bool) -> None:
    """Append findings and warnings of a run or of a log."""
    draft.limitations += [SOFT if rule.soft else VOTES, *LIMITATIONS, IN_LOGS if log else EXECUTED]
    rows = {row.name: index for index, row in enumerate(draft.estimates) if not row.where}
    curve = [index for index, row in enumerate(draft.estimates) if set(row.where) == {"radius"}]
    _find_noise(draft, rows)
    _find_accuracy(draft, curve, rows, verdicts, rule, log)
    _find_classes(draft, rule)
    _warn(draft, rule, rows, log)


def _at(draft: Draft, curve: list[int]) -> list[int]:
    """Return the rows worth a sentence: the smallest positive radius, and the largest that many images reach."""
    positive = [index for index in curve if float(draft.estimates[index].where["radius"]) > 0] or curve
    reached = [index for index in positive if (draft.estimates[index].low or 0.0) >= HALF]
    return list(dict.fromkeys((positive[0], (reached or positive)[-1])))


def _find_accuracy(
    draft: Draft, curve: list[int], rows: dict[str, int], verdicts: Sequence[Verdict], rule: Rule, log: bool
) -> None:
    if all(row.predict == ABSTAIN for row in verdicts):
        draft.find(
            "certify.nothing",
            "high",
            f"Nothing could be certified: the smoothed classifier abstains on all {len(verdicts)} images.",
            [rows["abstention_rate"]],
        )
        return
    told = _at(draft, curve)
    said = "; ".join(
        f"within {_number(draft.estimates[i].where['radius'])} on {described(draft.estimates[i])}" for i in told
    )
    draft.find(
        "certify.accuracy",
        "info",
        f"{_who(rule, log)} is right, and {'said' if log else 'proved'} not to change its answer "
        f"({rule.geometry.norm} distance; each certificate false with probability {rule.alpha:g} at most), {said}. "
        "Intervals are over images.",
        told,
        radius=draft.estimates[told[-1]].where["radius"],
    )


def _who(rule: Rule, log: bool) -> str:
    who = f"he smoothed classifier (sigma {rule.geometry.sigma:g})"
    if log:
        return f"By the log, t{who}"
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


def _find_classes(draft: Draft, rule: Rule) -> None:
    """Tell of classes or groups that differ at the middle radius, by intervals that hold for all of them at once."""
    from audits.statistics import clopper_pearson

    radius = rule.radii[len(rule.radii) // 2]
    for key, what in (("label", "classes"), ("group", "groups")):
        rows = [
            (index, row)
            for index, row in enumerate(draft.estimates)
            if row.name == "certified_accuracy" and key in row.where and row.where["radius"] == radius
        ]
        if len(rows) < 2:
            continue
        level = 1 - (1 - rows[0][1].level) / len(rows)
        ends = {index: clopper_pearson(round(row.value * row.n), row.n, level=level) for index, row in rows}
        worst = min(rows, key=lambda pair: ends[pair[0]][1])
        best = max(rows, key=lambda pair: ends[pair[0]][0])
        if ends[worst[0]][1] < ends[best[0]][0]:
            draft.find(
                "certify.uneven",
                "medium",
                f"The certificates are uneven over {what}: at radius {radius:g}, {_name(worst[1], key)} has "
                f"{described(worst[1])}, and {_name(best[1], key)} {described(best[1])}; the two differ also by "
                f"intervals that hold for all {len(rows)} {what} at once.",
                [worst[0], best[0]],
                **{key: worst[1].where[key]},
            )


def _name(row: Estimate, key: str) -> str:
    value = row.where[key]
    return f"class {value}" if key == "label" else str(value)


def _warn(draft: Draft, rule: Rule, rows: dict[str, int], log: bool) -> None:
    kind = (
        "half the width of the uniform noise" if rule.geometry.norm == "l1" else "the standard deviation of the noise"
    )
    draft.warn(
        "sigma-unit",
        f"sigma {rule.geometry.sigma:g} is {kind} in units of pixels in [0, 1] (in grey levels: "
        f"{255 * rule.geometry.sigma:.4g}); radii are {rule.geometry.norm} distances in the same unit.",
    )
    draft.warn("smoothed-classifier", SOFT if rule.soft else VOTES)
    if not log:
        draft.warn("floating-point", EXECUTED)
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
            f"Radii above {rule.ceiling:.4g} cannot be certified with n = {rule.looks[-1]:,}: "
            f"{', '.join(f'{radius:g}' for radius in beyond)}. More draws, or more noise, reach further.",
        )
    bound = draft.estimates[rows["false_certificate_bound"]]
    if bound.value > LIKELY:
        draft.warn(
            "false-certificates",
            f"alpha holds for each image alone: over {bound.n:,} images the probability that at least one certificate "
            f"is false may be as large as {bound.value:.2g}."
            + ("" if log else " --family-wise makes it hold for all together."),
        )
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


def find_in_log(draft: Draft, log: Log, rule: Rule) -> None:
    """Append what gives a log away: the alpha that its radii imply, and radii that votes cannot reach."""
    if log.contradictions:
        shown = ", ".join(str(line) for line in log.contradictions[:8])
        draft.warn(
            "contradictory-rows",
            f"On {len(log.contradictions)} lines (such as {shown}) `correct` is not whether `predict` is `label`; "
            "label and predict were believed.",
        )
    draft.warn(
        "printed-radii",
        f"Radii were printed to {log.digits} significant digits, perhaps rounded up: an image may count as certified "
        "at a radius that it misses by half a digit.",
    )
    implied = implied_alpha(log, rule)
    if implied is None:
        return
    value, low, high = implied
    usual = [alpha for alpha in USUAL_ALPHAS if low <= alpha <= high]
    row = Estimate(
        name="implied_alpha",
        value=usual[0] if usual else value,
        low=low,
        high=high,
        # The range follows from the rounding of print alone: it is no confidence interval and is called certain.
        level=_CERTAIN,
        method=f"from the largest radius; range by the rounding of its print{'; the usual alpha in it' * bool(usual)}",
        n=len(log.verdicts),
        unit="images",
    )
    evidence = [draft.add(row)]
    plain = rule.method == "one-sided" and rule.mode == "fixed"
    if not plain:
        draft.warn(
            "radii-not-checked",
            "Which radii whole votes can reach is known for one-sided limits and a fixed number of draws only; the "
            "largest radius was checked, the others were not.",
        )
    for alpha in sorted({*USUAL_ALPHAS, rule.alpha}) if plain else ():
        met, told = reachable(log, rule, alpha)
        if told:
            row = Estimate(
                name="reachable_share", value=met / told, method="exact", n=told, unit="radii", where={"alpha": alpha}
            )
            evidence.append(draft.add(row))
    _judge_alpha(draft, rule, low, high, evidence)


def _judge_alpha(draft: Draft, rule: Rule, low: float, high: float, evidence: list[int]) -> None:
    shares = {float(draft.estimates[i].where["alpha"]): draft.estimates[i] for i in evidence[1:]}
    fits = [alpha for alpha, row in shares.items() if low <= alpha <= high and row.value == 1.0]
    other = f" All {shares[fits[0]].n} radii that can tell are those of alpha = {fits[0]:g}." if fits else ""
    own = shares.get(rule.alpha)
    if low > rule.alpha:
        draft.find(
            "certify.implied-alpha",
            "high",
            f"The log's largest radius cannot come from n = {rule.n:,} and alpha = {rule.alpha:g}: even unanimous "
            f"votes need an alpha of at least {low:.3g}.{other} Its certificates are weaker than alpha = "
            f"{rule.alpha:g} says.",
            evidence,
        )
    elif own is not None and own.value < 1.0:
        draft.find(
            "certify.unreachable-radii",
            "high",
            f"{round((1 - own.value) * own.n)} of {own.n} radii cannot come from n = {rule.n:,} whole votes, "
            f"one-sided limits and alpha = {rule.alpha:g}.{other}",
            evidence,
        )
    else:
        draft.find(
            "certify.consistent-log",
            "info",
            f"Every radius that can tell agrees with n = {rule.n:,} and alpha = {rule.alpha:g}."
            if own is not None
            else f"The largest radius does not contradict n = {rule.n:,} and alpha = {rule.alpha:g}.",
            evidence,
        )
