"""The estimates: for all images, each class and each group; of a log also what its radii imply."""

import numpy as np

from audits.certification.attack_outcomes import add_attacks
from audits.certification.certificates import ABSTAIN
from audits.certification.image_means import mean_or_none, mean_within
from audits.certification.log_comparison import LogCounts, add_logs
from audits.certification.log_estimates import add_log_estimates
from audits.certification.measure import Counts
from audits.certification.parts import LEAST, Part
from audits.certification.rules import Rule
from audits.core.context import Draft
from audits.core.intervals import Interval, exact
from audits.core.numbers import UPPER_BOUND
from audits.statistics import exact_share

UNSAMPLED = 0.95
"""What report.json says is the level of a bound or an exact number, which has none."""


def estimates(draft: Draft, counts: Counts | LogCounts) -> None:
    """Add the estimates of every part with enough images, of the rule, and of a log or several."""
    if isinstance(counts, LogCounts):
        add_logs(draft, counts)
        return
    rule = counts.rule
    enough = [part for part in counts.parts if not part.where or len(part.verdicts) >= LEAST]
    for part in enough:
        _add_part(draft, part, rule)
    small = len(counts.parts) - len(enough)
    if small:
        draft.warn(
            "few-images",
            f"{small} classes or groups have fewer than {LEAST} images and get no numbers of their own.",
        )
    if rule.geometry.lipschitz is not None:
        _add_constant(draft, rule.geometry.lipschitz, asserted=rule.asserted)
    if counts.inputs.log and counts.reading:
        add_log_estimates(draft, counts.inputs.log, rule, counts.reading)
    _add_bound(draft, counts)
    if counts.attacks is not None:
        add_attacks(draft, counts.attacks, rule)


def _add_part(draft: Draft, part: Part, rule: Rule) -> None:
    rows, count, level = part.verdicts, len(part.verdicts), draft.level
    for radius in rule.radii:
        hits = sum(row.correct and row.radius >= radius for row in rows)
        draft.add("certified_accuracy", exact_share(hits, count, "images", level=level), **part.where, radius=radius)
    draft.add(
        "abstention_rate",
        exact_share(sum(row.predict == ABSTAIN for row in rows), count, "images", level=level),
        **part.where,
    )
    _add_mean_radius(draft, "average_certified_radius", [row.radius * row.correct for row in rows], part, rule)
    if rows[0].published is not None:
        for name in ("published", "gaussian"):
            radii = [float(getattr(row, name) or 0.0) * row.correct for row in rows]
            _add_mean_radius(draft, f"average_certified_radius_{name}", radii, part, rule)
    if rows[0].clean is not None:
        draft.add(
            "clean_accuracy",
            exact_share(sum(row.clean == row.label for row in rows), count, "images", level=level),
            **part.where,
        )
    if rows[0].noisy is not None:
        shares = np.array([row.noisy[0] / row.noisy[1] for row in rows if row.noisy])
        draft.add("noisy_accuracy", mean_within(shares, 1.0, level), **part.where)
    if rows[0].draws is not None and not part.where:
        _add_draws(draft, part, rule)


def _add_mean_radius(draft: Draft, name: str, radii: list[float], part: Part, rule: Rule) -> None:
    # A log may have radii above the ceiling of the n that it names: the range must hold them.
    draft.add(name, mean_within(np.array(radii), max(*radii, rule.ceiling), draft.level), **part.where)


def _add_draws(draft: Draft, part: Part, rule: Rule) -> None:
    numbers = np.array([row.draws or 0 for row in part.verdicts], dtype=np.float64)
    if rule.mode == "fixed":
        # The number is the same for every image: there is nothing to resample.
        draft.add("draws_per_item", exact(float(numbers.mean()), n=len(numbers), unit="images", level=UNSAMPLED))
        return
    found = mean_or_none(numbers, draft.level)
    if found.method == "none":
        draft.warn("no-interval", f"draws_per_item has no interval: {found.n} images, all with as many draws.")
    draft.add("draws_per_item", found)


def _add_constant(draft: Draft, constant: float, *, asserted: bool) -> None:
    """Add the Lipschitz constant: as given, or an upper bound computed from the network."""
    proved = _bound(constant, "proved from the bounds of all layers", n=1, unit="networks")
    given = exact(constant, n=1, unit="networks", level=UNSAMPLED)
    draft.add("lipschitz_constant", given if asserted else proved, origin="asserted" if asserted else "computed")


def _add_bound(draft: Draft, counts: Counts) -> None:
    """Add the upper bound of the probability of any false certificate, 1 - (1 - alpha)^m.

    A log is held to the alpha that its radii allow, which need not be the one that was named.
    """
    images, alpha = len(counts.verdicts), counts.alpha
    if alpha is None:
        draft.warn(
            "alpha-unknown",
            "There is no false_certificate_bound: with which error probability the log's certificates were made, its "
            "radii do not tell.",
        )
        return
    # Without cancellation.
    bound = -float(np.expm1(images * np.log1p(-alpha)))
    draft.add("false_certificate_bound", _bound(bound, "1 - (1 - alpha)^m for m images", n=images, unit="images"))


def _bound(value: float, how: str, *, n: int, unit: str) -> Interval:
    method = f"{UPPER_BOUND} {how}"
    return Interval(value=value, low=0.0, high=value, method=method, n=n, unit=unit, level=UNSAMPLED)
