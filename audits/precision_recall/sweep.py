"""What does temperature buy: is recall ever above its value at 1, where does density fall, and who dominates whom?"""

from typing import TYPE_CHECKING

from audits.numbers import point
from audits.records import Estimate
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.precision_recall.scene import Scene

NATURAL = 1.0
"""The temperature at which a model is sampled as it was trained."""
MOST_NAMED = 6


def judge_sweep(scene: "Scene") -> None:
    """Add what the path of temperatures shows, and which candidates dominate others."""
    path = path_of(scene)
    if len(path) > 1:
        _tell_recall(scene, path)
        _tell_density(scene, path)
    _tell_dominance(scene)


def path_of(scene: "Scene") -> list[tuple[float, str]]:
    """Return the candidates of the sweep with their temperatures, the coldest first."""
    heat = [(one.temperature, one.name) for one in scene.results.inputs.candidates if one.temperature is not None]
    return sorted(heat)


def front_of(scene: "Scene") -> list[str]:
    """Return the candidates that none other exceeds in both precision and recall (Pareto front of the values)."""
    rows = {name: (scene.at("precision", name), scene.at("recall", name)) for name in scene.names}
    values = {name: (p.value, r.value) for name, (p, r) in rows.items() if p is not None and r is not None}
    return [
        name
        for name, (p, r) in values.items()
        if not any(q >= p and s >= r and (q, s) != (p, r) for q, s in values.values())
    ]


def _tell_recall(scene: "Scene", path: list[tuple[float, str]]) -> None:
    natural = next((name for heat, name in path if heat == NATURAL), None)
    if natural is None:
        scene.draft.warn("no-natural-temperature", "The sweep has no candidate at T = 1 to compare recall with.")
        return
    others = [(heat, name) for heat, name in path if name != natural]
    above = [(heat, name) for heat, name in others if scene.apart("recall", name, natural) > 0]
    # The bar of a finding is that of its first evidence.
    names = [natural, *(name for _, name in others)]
    evidence = [place for name in names if (place := scene.place("recall", name)) is not None]
    own = scene.at("recall", natural)
    if own is None:
        return
    if above:
        parts = [f"T = {heat:g} by {_size(scene, name, natural)}" for heat, name in above[:MOST_NAMED]]
        text = f"Recall is above its value at T = 1, {span(own)}, at {listed(parts)}."
        evidence += [place for _, name in above if (place := _place(scene, "recall", name, natural)) is not None]
        bought = [f"{heat:g}" for heat, name in above if scene.apart("coverage", name, natural) < 0]
        if bought:
            # Balls around noisy texts are wide: they reach many reference texts and resemble none.
            text += (
                f" Coverage is lower at T = {listed(bought)}: that recall is of wide balls, not of more kinds of text."
            )
    else:
        text = f"At no temperature of the sweep is recall shown to be above its value at T = 1, {span(own)}."
        below = [f"{heat:g}" for heat, name in others if scene.apart("recall", name, natural) < 0]
        if below:
            text += f" It is below it at T = {listed(below)}."
    scene.draft.find("texts.recall-by-temperature", "info", text, evidence)


def _size(scene: "Scene", first: str, second: str, metric: str = "recall") -> str:
    row = scene.at(metric, first, second) or scene.at(metric, second, first)
    return "an unknown amount" if row is None else size_words(row)


def _tell_density(scene: "Scene", path: list[tuple[float, str]]) -> None:
    """Tell from which temperature on density is below its highest value, which a hotter one does not regain."""
    rows = [(heat, name, row) for heat, name in path if (row := scene.at("density", name)) is not None]
    if len(rows) < 2:
        return
    top = max(range(len(rows)), key=lambda at: rows[at][2].value)
    peak = rows[top]
    falls = [(heat, name, row) for heat, name, row in rows[top + 1 :] if scene.apart("density", name, peak[1]) < 0]
    names = [peak[1], *(name for _, name, _ in rows if name != peak[1])]
    evidence = [place for name in names if (place := scene.place("density", name)) is not None]
    ceiling, level = scene.at("density", "ceiling"), scene.place("density", "ceiling")
    evidence += [] if level is None else [level]
    known = "" if ceiling is None else f" (the reference against itself: {point(ceiling)})"
    if falls:
        heat, name, row = falls[0]
        gap = _place(scene, "density", name, peak[1])
        evidence += [] if gap is None else [gap]
        text = (
            f"Density has its largest value at T = {peak[0]:g}, {span(peak[2])}{known}, and is lower at T = {heat:g}: "
            f"{_difference(scene, name, peak[1])} less"
        )
        last = falls[-1]
        text += f", {span(last[2])} at T = {last[0]:g}." if last[0] != heat else f", {span(row)}."
        scene.draft.find("texts.density-falls", "low", text, evidence)
    else:
        rest = "the hottest of the sweep" if top == len(rows) - 1 else "and is not shown to be lower at any hotter one"
        text = f"Density has its largest value at T = {peak[0]:g}, {span(peak[2])}{known}, {rest}."
        scene.draft.find("texts.density-falls", "info", text, evidence)


def _place(scene: "Scene", metric: str, first: str, second: str) -> int | None:
    """Return where a difference of two candidates stands, whichever was named first."""
    place = scene.place(metric, first, second)
    return scene.place(metric, second, first) if place is None else place


def _difference(scene: "Scene", first: str, second: str) -> str:
    row: Estimate | None = scene.at("density", first, second) or scene.at("density", second, first)
    return "an unknown amount" if row is None else size_words(row)


def _tell_dominance(scene: "Scene") -> None:
    """Tell of each candidate which others it exceeds in precision and recall both."""
    for name in scene.names:
        beaten = [
            other
            for other in scene.names
            if other != name and all(scene.apart(metric, name, other) > 0 for metric in ("precision", "recall"))
        ]
        if not beaten:
            continue
        shown = listed(beaten[:MOST_NAMED]) + (
            f" and {len(beaten) - MOST_NAMED} more" if len(beaten) > MOST_NAMED else ""
        )
        text = f"{name} dominates {shown}: both its precision and its recall are higher."
        places = [
            place
            for other in beaten
            for metric in ("precision", "recall")
            if (place := _place(scene, metric, name, other)) is not None
        ]
        scene.draft.find("texts.dominates", "info", text, places, candidate=name)
