"""Findings on temperatures: where recall exceeds its value at 1, where density falls, who dominates whom."""

from audits.core.context import Draft
from audits.core.numbers import point
from audits.core.wording import listed, many, size_words, span
from audits.precision_recall.counts import Counts
from audits.precision_recall.lookup import apart, between, score
from audits.precision_recall.sides import CEILING

NATURAL = 1.0
"""The temperature at which a model is sampled as it was trained."""
MOST_NAMED = 6
PAIRS = "Holm over all pairs of candidates, each score by itself; intervals are not corrected."


def judge_sweep(draft: Draft, counts: Counts) -> None:
    """Add findings on the path of temperatures, and on candidates that dominate others."""
    path = path_of(counts)
    if len(path) > 1:
        _find_recall(draft, counts, path)
        _find_density(draft, counts, path)
    _find_dominance(draft, counts)


def path_of(counts: Counts) -> list[tuple[float, str]]:
    """Return the candidates of the sweep with their temperatures, the coldest first."""
    heat = [(one.temperature, one.name) for one in counts.inputs.candidates if one.temperature is not None]
    return sorted(heat)


def front_of(draft: Draft, counts: Counts) -> list[str]:
    """Return the candidates that no other exceeds in both precision and recall (Pareto front of the values)."""
    rows = {name: [score(draft, counts, metric, name) for metric in ("precision", "recall")] for name in counts.names}
    values = {name: (p.value, r.value) for name, (p, r) in rows.items() if p is not None and r is not None}
    return [
        name
        for name, (p, r) in values.items()
        if not any(q >= p and s >= r and (q, s) != (p, r) for q, s in values.values())
    ]


def _find_recall(draft: Draft, counts: Counts, path: list[tuple[float, str]]) -> None:
    natural = next((name for heat, name in path if heat == NATURAL), None)
    if natural is None:
        draft.warn("no-natural-temperature", "The sweep has no candidate at T = 1 to compare recall with.")
        return
    own = score(draft, counts, "recall", natural)
    if own is None:
        return
    others = [(heat, name) for heat, name in path if name != natural]
    signs = {name: apart(draft, counts, "recall", name, natural) for _, name in others}
    above = [(heat, name) for heat, name in others if signs[name] > 0]
    evidence = [own, *(score(draft, counts, "recall", name) for _, name in others)]
    if above:
        parts = [
            f"T = {heat:g} by {_size(draft, counts, 'recall', name, natural)}" for heat, name in above[:MOST_NAMED]
        ]
        text = f"Recall is above its value at T = 1, {span(own)}, at {listed(parts)}."
        gains = {heat: between(draft, counts, "recall", name, natural) for heat, name in above}
        known = {heat: row for heat, row in gains.items() if row is not None}
        best = max(known, key=lambda heat: abs(known[heat].value))
        headline = f"Recall is higher at T = {best:g} than at T = 1, by {size_words(known[best])}."
        # The bar of a finding is that of its first evidence, whose number stands in the headline.
        evidence = [known.pop(best), *evidence, *known.values()]
        bought = [f"{heat:g}" for heat, name in above if apart(draft, counts, "coverage", name, natural) < 0]
        if bought:
            # Balls around noisy texts are wide: they reach many reference texts and resemble none.
            text += (
                f" Coverage is lower at T = {listed(bought)}: that recall is of wide balls, not of more kinds of text."
            )
    else:
        headline = f"Recall is at no other temperature shown to be above its value at T = 1, {span(own)}."
        text = f"The sweep has {many(len(path), 'temperature', 'temperatures')}."
        below = [f"{heat:g}" for heat, name in others if signs[name] < 0]
        if below:
            text += f" Recall is below that at T = {listed(below)}."
    draft.find("texts.recall-by-temperature", "info", text, evidence, headline=headline, how_sure=PAIRS)


def _size(draft: Draft, counts: Counts, metric: str, first: str, second: str) -> str:
    row = between(draft, counts, metric, first, second)
    return "an unknown amount" if row is None else size_words(row)


def _find_density(draft: Draft, counts: Counts, path: list[tuple[float, str]]) -> None:
    """Add a finding on the temperature from which density is below its highest value and does not recover."""
    rows = [(heat, name, row) for heat, name in path if (row := score(draft, counts, "density", name)) is not None]
    if len(rows) < 2:
        return
    top = max(range(len(rows)), key=lambda at: rows[at][2].value)
    warmth, peak, highest = rows[top]
    falls = [one for one in rows[top + 1 :] if apart(draft, counts, "density", one[1], peak) < 0]
    ceiling = score(draft, counts, "density", CEILING)
    evidence = [highest, *(row for _, name, row in rows if name != peak), ceiling]
    known = "" if ceiling is None else f" (the reference against itself: {point(ceiling)})"
    text = f"Density has its largest value at T = {warmth:g}, {span(highest)}{known}, "
    if falls:
        heat, name, row = falls[0]
        fall = between(draft, counts, "density", name, peak)
        evidence.insert(0, fall)
        headline = f"Density is lower at T = {heat:g} than at T = {warmth:g}"
        headline += "." if fall is None else f", by {size_words(fall)}."
        text += f"and is lower at T = {heat:g}: {_size(draft, counts, 'density', name, peak)} less"
        last = falls[-1]
        text += f", {span(last[2])} at T = {last[0]:g}." if last[0] != heat else f", {span(row)}."
        draft.find("texts.density-falls", "low", text, evidence, headline=headline, how_sure=PAIRS)
    else:
        hottest = top == len(rows) - 1
        text += "the hottest of the sweep." if hottest else "and is not shown to be lower at any hotter one."
        headline = f"No fall of density with temperature is shown: at most {span(highest)}, at T = {warmth:g}."
        draft.find("texts.density-falls", "info", text, evidence, headline=headline, how_sure=PAIRS)


def _find_dominance(draft: Draft, counts: Counts) -> None:
    """Add a finding on each candidate that exceeds others in both precision and recall."""
    both = ("precision", "recall")
    for name in counts.names:
        beaten = [
            other
            for other in counts.names
            if other != name and all(apart(draft, counts, metric, name, other) > 0 for metric in both)
        ]
        if not beaten:
            continue
        rest = f" and {len(beaten) - MOST_NAMED} more" if len(beaten) > MOST_NAMED else ""
        text = f"{name} dominates {listed(beaten[:MOST_NAMED])}{rest}: both its precision and its recall are higher."
        more = f"; {len(beaten) - 1} more are exceeded" if len(beaten) > 1 else ""
        size = _size(draft, counts, "precision", name, beaten[0])
        headline = f"{name} exceeds {beaten[0]} in recall and in precision, there by {size}{more}."
        evidence = [between(draft, counts, metric, name, other) for other in beaten for metric in both]
        draft.find("texts.dominates", "info", text, evidence, headline=headline, how_sure=PAIRS, candidate=name)
