"""The scores of an attack, spread over members and non-members."""

import numpy as np

from audits.charts import Axis, interval_lines
from audits.context import Draft
from audits.membership.drawing import Names, best_first, figure_of, hit_rows
from audits.membership.measure import Counts
from audits.numbers import percent
from audits.records import Figure, Json
from audits.statistics import wilson
from audits.statistics.roc import Bools, Floats, call_at

MOST_BINS = 60


def scores(draft: Draft, counts: Counts, names: Names) -> Figure | None:
    """Draw how the scores of the attack with the highest AUC are spread over members and non-members."""
    best = best_first(counts.judged)[0]
    attack = best.attack
    threshold, words = None, ""
    for row in sorted(hit_rows(draft, best), key=lambda row: float(row.where["fpr"])):
        if row.value > 0:
            rate = f"{100 * float(row.where['fpr']):g} %"
            threshold = call_at(best.curve, float(row.where["fpr"])).threshold, f"{rate} false alarms"
            words = f" Dashed: the threshold that {rate} of the non-members reach."
            break
    spec = scores_chart(attack.scores[attack.judged], attack.member[attack.judged], threshold, draft.level)
    if spec is None:
        return None
    caption = (
        f"The attack with the highest AUC, {names.called(best)}: its scores in bins, of which the outermost hold all "
        f"beyond them. Each side adds up to 1; bands are {percent(draft.level)} intervals (Wilson), each bin for "
        f"itself. Where the two lines are one, a score tells nothing.{words}"
    )
    return figure_of("scores", "What do the scores look like?", caption, spec)


def scores_chart(scores: Floats, member: Bools, threshold: tuple[float, str] | None, level: float) -> Json | None:
    """Draw the share of each side in bins of the score; None where all scores are equal.

    Parameters
    ----------
    threshold
        A score and what it is called; not drawn where it is outside the bins.
    """
    edges = _edges(scores)
    if edges is None:
        return None
    unit, base = _unit(edges)
    rows = _binned(scores, member, edges, level)
    for row in rows:
        row["score"] = row["score"] / unit - base / unit
    title = "Score (higher: member)" + (f" less {base!r}" if base else "")
    rule = None
    if threshold is not None and edges[0] <= threshold[0] <= edges[-1]:
        rule = threshold[0] / unit - base / unit, threshold[1]
    return interval_lines(
        rows,
        x=Axis("score", title + (f", in units of {unit:g}" if unit != 1 else ""), zero=False, kind="quantitative"),
        y=Axis("share", "Share of its side", ".2f"),
        low="low",
        high="high",
        series="points",
        series_title="",
        rule=rule,
    )


def _edges(scores: Floats) -> Floats | None:
    """Return the edges of bins over all but the outermost scores; None where these do not differ."""
    # Single far scores would leave all others in one bin; where most are equal, they are all there is.
    for tail in (0.005, 0.0):
        low, high = np.quantile(scores, [tail, 1 - tail], method="nearest")
        if low < high:
            break
    else:
        return None
    # Rice's rule for the number of bins.
    part = np.linspace(0, 1, int(np.clip(2 * np.cbrt(len(scores)), 8, MOST_BINS)) + 1)
    # A weighted mean, since the difference of two large numbers may be infinite.
    return np.asarray(low * (1 - part) + high * part)


def _unit(edges: Floats) -> tuple[float, float]:
    """Return a unit and an origin in which six digits tell the bins apart."""
    low, high = float(edges[0]), float(edges[-1])
    far = max(abs(low), abs(high))
    unit = 1.0 if 1e-6 < far < 1e9 else float(f"1e{int(np.floor(np.log10(far)))}")
    return unit, low if high / unit - low / unit < 1e-3 * far / unit else 0.0


def _binned(scores: Floats, member: Bools, edges: Floats, level: float) -> list[Json]:
    """Return the share of each side in each bin, with its interval (Wilson)."""
    bins = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)
    middles = edges[:-1] / 2 + edges[1:] / 2
    rows = []
    for name, side in (("members", member), ("non-members", ~member)):
        counts = np.bincount(bins[side], minlength=len(middles))
        total = int(counts.sum())
        for middle, count in zip(middles.tolist(), counts.tolist(), strict=True):
            low, high = wilson(count, total, level=level)
            share = count / total
            ends = {"low": min(low, share), "high": max(high, share)}
            rows.append({"score": middle, "share": share, **ends, "points": name})
    return rows
