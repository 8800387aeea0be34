"""What may be said of each candidate, and of a sweep of temperatures?"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import point
from audits.precision_recall.estimating import At
from audits.precision_recall.inputs import ASKED, CEILING, DIVERSITY, FLOOR, FLOORED, QUALITY, REFERENCE, RELABELLED
from audits.precision_recall.listing import different, outside, uncovered
from audits.precision_recall.scene import Scene
from audits.precision_recall.sweep import judge_sweep
from audits.records import Estimate, Severity
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.precision_recall.report import Results

LARGE, NOTABLE = 0.20, 0.05
"""Ends of intervals, shares of the texts, from which a shortfall is told as of high or of medium severity."""
COPIES = 0.05
"""Low end of the share of repeated texts from which a candidate is said to repeat itself."""
_BENCHMARKS = {
    CEILING: "the reference set against itself",
    RELABELLED: "a set of the reference's own source",
}
POWER = 0.8
"""Share of runs in which a difference said to be detectable is shown."""
HUBS = 3.0
"""Skewness of the k-occurrence from which hubs are warned of."""
MOST_NAMED = 6
_WIDE = "as of texts whose balls are wide or that lie in the middle"


def judge(draft: Draft, results: "Results", context: Context) -> None:
    """Add the findings, worst first."""
    scene = Scene(draft, results, 1 - context.level)
    grouped = scene.grouped
    if grouped:
        _tell_groups(scene, grouped)
    quiet = [name for name in scene.names if not _tell_candidate(scene, name) and not {name, REFERENCE} & grouped]
    for name in scene.names:
        _tell_copies(scene, name)
        _tell_copied(scene, name)
        _tell_sequences(scene, name)
        _tell_floor(scene, name)
    _tell_sight(scene)
    asked = [name for name in quiet if scene.place("precision", name, scene.benchmark) is not None]
    if asked:
        _tell_quiet(scene, asked)
    judge_sweep(scene)
    _tell_texts(scene)
    _warn_of_hubs(scene)
    order = {severity: place for place, severity in enumerate(("high", "medium", "low", "info"))}
    draft.findings.sort(key=lambda finding: order[finding.severity])


def _tell_candidate(scene: Scene, name: str) -> bool:
    """Tell where a candidate falls short of what the reference reaches against itself; return whether it does."""
    against = scene.benchmark
    shown = {metric: scene.shown(metric, name, against) for metric in ASKED if scene.at(metric, name, against)}
    short = {metric: row for metric in shown if shown[metric] < 0 and (row := scene.at(metric, name, against))}
    if not short:
        return False
    # Texts that lie elsewhere cover less, whatever their kinds.
    elsewhere = "coverage" in short and "recall" not in short and bool(short.keys() & set(QUALITY))
    kinds = [
        word
        for word, metrics in (("quality", QUALITY), ("diversity", DIVERSITY))
        if short.keys() & set(metrics) and not (word == "diversity" and elsewhere)
    ]
    parts = [f"{metric} by {size_words(row)}" for metric, row in short.items()]
    text = f"{name} falls short of {_BENCHMARKS[against]} in {listed(kinds)}: {listed(parts)}."
    for metrics, why in ((QUALITY, "as of texts that keep to what is common"), (DIVERSITY, _WIDE)):
        above = [metric for metric in metrics if shown.get(metric, 0) > 0]
        if above:
            text += f" Its {listed(above)} {'is' if len(above) == 1 else 'are'} higher, {why}."
    level = [metric for metric in shown if shown[metric] == 0]
    if level:
        text += f" In {listed(level)} no difference could be shown."
    if elsewhere:
        text += " Its coverage may be lower because texts lie elsewhere rather than because there are fewer kinds."
    text += _plainly(scene, name, kinds)
    places = [scene.place(metric, name, against) for metric in short]
    places += [scene.place(metric, name) for metric in (short if against == CEILING else shown)]
    if against == RELABELLED:
        places += [scene.of_one_source(metric, name) for metric in shown]
    end = max(_least_shortfall(scene, metric, name, row) for metric, row in short.items())
    found = [place for place in places if place is not None]
    scene.draft.find(f"texts.below-{against}", _severity(end), text, found, candidate=name)
    return True


def _plainly(scene: Scene, name: str, kinds: Sequence[str]) -> str:
    """Return precision and recall beside what sets of one source have, where no ceiling on the page says so."""
    rows = {metric: scene.at(metric, name) for metric in ("precision", "recall")}
    known = [(metric, row) for metric, row in rows.items() if row is not None]
    would = [place for metric, _ in known if (place := scene.of_one_source(metric, name)) is not None]
    if scene.benchmark == CEILING or not would:
        return ""
    parts = listed([f"its {metric} is {span(row)}" for metric, row in known])
    values = listed([point(scene.draft.estimates[place]) for place in would])
    text = f" {parts[0].upper()}{parts[1:]}; sets of independent texts of one source would have {values}."
    if kinds == ["diversity"] and rows["precision"] is not None:
        text += f" So {name} is less diverse, and not shown to be less precise."
    return text


def _least_shortfall(scene: Scene, metric: str, name: str, row: Estimate) -> float:
    """Return the end of a shortfall that is nearest to none, as a share of the texts.

    Texts that lie in no ball have no density: a density lower by a fifth of what it would be is that of a fifth of
    such texts, if the others lie as the reference does.
    """
    end = -(row.high or 0.0)
    if metric != "density":
        return end
    # What it would be: the score less its difference.
    would_be = scene.would_be(metric, name)
    return end / would_be if would_be > 0 else 0.0


def _tell_groups(scene: Scene, grouped: frozenset[str]) -> None:
    """Say whose texts stand in groups hardly larger than k, so that their intervals cannot be trusted."""
    names = listed([name for name in (REFERENCE, *scene.names) if name in grouped][:MOST_NAMED])
    text = (
        f"Texts of {names} stand in groups hardly larger than k = {scene.k}, such as answers to one prompt: in halves "
        "of a draw their balls reach into other groups, and intervals are too narrow. No difference is told of them; "
        "take a smaller --k, or more texts of each group."
    )
    scene.draft.find("texts.grouped", "medium", text)
    scene.draft.warn("grouped", text)


def _severity(end: float) -> Severity:
    return "high" if end >= LARGE else "medium" if end >= NOTABLE else "low"


def _tell_copies(scene: Scene, name: str) -> None:
    own, reference = scene.at("duplicates", name), scene.at("duplicates", REFERENCE)
    if own is None or own.low is None or reference is None or reference.high is None:
        return
    # People repeat themselves too: only more copies than the reference has are told.
    if own.low < COPIES or own.low <= reference.high:
        return
    text = (
        f"{name} repeats itself: of {own.n:,} texts {span(own)} are copies of an earlier one, of as many reference "
        f"texts {point(reference)}."
    )
    places = [scene.place("duplicates", name), scene.place("duplicates", REFERENCE)]
    scene.draft.find(
        "texts.mode-collapse", _severity(own.low), text, [p for p in places if p is not None], candidate=name
    )


def _tell_copied(scene: Scene, name: str) -> None:
    """Tell of a candidate many of whose texts stand word for word in the reference."""
    row, reference = scene.at("copied", name), scene.at("duplicates", REFERENCE)
    if row is None or row.low is None or row.low < COPIES:
        return
    # Where reference texts repeat each other, those of their kind repeat them too.
    if reference is not None and reference.high is not None and row.low <= reference.high:
        return
    text = (
        f"Of the texts of {name} {span(row)} stand word for word in the reference: learnt by heart, or in both by "
        "mistake. Where a draw holds both, such a text counts as good in every score."
    )
    place = scene.place("copied", name)
    scene.draft.find("texts.copied", _severity(row.low), text, [] if place is None else [place], candidate=name)


def _tell_sequences(scene: Scene, name: str) -> None:
    """Tell of a candidate whose texts share more word sequences with each other than reference texts do."""
    at = At("self_bleu", name, 0, REFERENCE)
    place = scene.found.places.get(at)
    if place is None or scene.found.adjusted[at] >= scene.alpha:
        return
    row, own, other = scene.draft.estimates[place], scene.at("self_bleu", name), scene.at("self_bleu", REFERENCE)
    if row.low is None or row.low <= 0 or own is None or other is None:
        return
    text = (
        f"Among themselves texts of {name} are more alike in their words than reference texts: Self-BLEU {point(own)} "
        f"against {point(other)}, more by {size_words(row)}."
    )
    beside = [scene.place("self_bleu", who) for who in (name, REFERENCE)]
    evidence = [place, *(other for other in beside if other is not None)]
    scene.draft.find("texts.more-alike", "low", text, evidence, candidate=name)


def _sighted(scene: Scene) -> list[str]:
    """Return the scores by which people's texts are shown to be above their own words dealt anew."""
    return [metric for metric in FLOORED if scene.shown(metric, CEILING, FLOOR) > 0]


def _tell_sight(scene: Scene) -> None:
    """Say once where encoder and number of texts do not tell people's texts from their words dealt anew."""
    rows = [metric for metric in FLOORED if scene.at(metric, CEILING, FLOOR) is not None]
    blind = [metric for metric in rows if metric not in _sighted(scene)]
    encoder = scene.results.inputs.encoder
    if not blind or encoder is None or REFERENCE in scene.grouped:
        return
    size = scene.results.measured.controls[CEILING].size
    text = (
        f"With {size:,} texts a side, {encoder.reference} does not tell the reference from its own words dealt anew: "
        f"in {listed(blind)} the ceiling is not shown to be above the floor. So no candidate is judged against that "
        "floor" + ("." if len(blind) == len(rows) else f" in {'it' if len(blind) == 1 else 'them'}.")
    )
    places = [place for metric in blind if (place := scene.place(metric, CEILING, FLOOR)) is not None]
    scene.draft.find("texts.order-unseen", "info", text, places)


def _tell_floor(scene: Scene, name: str) -> None:
    """Tell of scores that are shown to be below the ceiling, and not to be above words dealt anew.

    Not shown to be above is what chance does to good texts too: what falls short of nothing is not accused.
    """
    low = [
        metric
        for metric in _sighted(scene)
        if scene.at(metric, name, FLOOR) is not None
        and scene.shown(metric, name, FLOOR) <= 0
        and scene.shown(metric, name, CEILING) < 0
    ]
    if not low or {name, REFERENCE} & scene.grouped:
        return
    verb = "is" if len(low) == 1 else "are"
    text = f"{listed(low).capitalize()} of {name} {verb} not shown to be above the floor, words dealt anew."
    places = [place for metric in low if (place := scene.place(metric, name, FLOOR)) is not None]
    scene.draft.find("texts.not-above-floor", "medium", text, places, candidate=name)


def _tell_quiet(scene: Scene, quiet: Sequence[str]) -> None:
    """Say of whom no shortfall was shown, and how large one would have been told."""
    rows = [
        (scene.place(metric, name, scene.benchmark), scene.at(metric, name, scene.benchmark))
        for name in quiet
        for metric in ("precision", "recall")
    ]
    known = [place for place, row in rows if place is not None and row is not None]
    if not known:
        return
    least = max(
        _detectable(scene, At(metric, name, scene.k, scene.benchmark))
        for name in quiet
        for metric in ("precision", "recall")
    )
    names = listed(list(quiet[:MOST_NAMED])) + (
        f" and {len(quiet) - MOST_NAMED} more" if len(quiet) > MOST_NAMED else ""
    )
    whole = _BENCHMARKS[scene.benchmark]
    text = (
        f"No shortfall of {names} against {whole} could be shown; one of {_up(least)} or more in precision or recall "
        "would most likely have been."
    )
    scene.draft.find("texts.no-shortfall", "info", text, known)


def _detectable(scene: Scene, at: At) -> float:
    """Return the difference that is shown with probability `POWER`, were its p-value the smallest of its family."""
    from scipy.stats import t

    value = scene.found.values.get(at)
    if value is None:
        return 0.0
    compared = scene.found.questions[at]
    freedom = len(value.gaps)
    # One quantile to be shown at Holm's first step, and one to be so with this power.
    return float(t.isf(scene.alpha / (2 * compared), freedom) + t.isf(1 - POWER, freedom)) * value.error()


def _up(number: float) -> str:
    """Return a number with two decimals that promises no more than it does: rounded up.

    >>> _up(0.0142), _up(0.02)
    ('0.02', '0.02')
    """
    return f"{math.ceil(round(100 * number, 6)) / 100:.2f}"


def least_precise(scene: Scene) -> str:
    """Return the candidate of the lowest precision: its texts outside the reference are the first to look at."""
    rows = {name: row.value for name in scene.names if (row := scene.at("precision", name)) is not None}
    return min(rows, key=lambda name: rows[name])


def _tell_texts(scene: Scene) -> None:
    """Name a text of the least precise candidate outside the reference, and what nobody covers."""
    counts = {name: outside(scene.results, name, 1) for name in scene.names}
    name = least_precise(scene)
    (rows, count), k = counts[name], scene.k
    if count:
        judged = different(scene.results, name)
        whose = f"{count:,} of the {judged:,} different texts of {name} in the first draw"
        text = f"{whose} {'lies' if count == 1 else 'lie'} in no ball (k = {k}) around a reference text"
        if rows and rows[0].text:
            own, nearest = _short(rows[0].text), _short(rows[0].nearest_text)
            text += f"; the farthest: “{own}”, whose nearest reference text is “{nearest}”"
        others = [
            f"{other} {counts[other][1]:,} of {different(scene.results, other):,}"
            for other in scene.names
            if other != name
        ]
        if others:
            text += f". Of others: {listed(others[:MOST_NAMED])}"
        place = scene.place("precision", name)
        scene.draft.find("texts.outside", "info", text + ".", [] if place is None else [place], candidate=name)
    missed, count = uncovered(scene.results, 1)
    if count:
        judged, verb = different(scene.results, REFERENCE), "is" if count == 1 else "are"
        text = f"{count:,} of the {judged:,} different reference texts in the first draw {verb} reached by no candidate"
        if missed and missed[0].text:
            text += f"; the farthest: “{_short(missed[0].text)}”"
        scene.draft.find("texts.uncovered", "info", text + ".")


def _short(text: str) -> str:
    return text if len(text) <= 90 else text[:90].rsplit(" ", 1)[0] + "…"


def _warn_of_hubs(scene: Scene) -> None:
    for name in scene.names:
        row = scene.at("hubness", name)
        if row is not None and row.value > HUBS:
            most = scene.results.measured.main[name].hubs[scene.k][1]
            text = (
                f"Some texts of {name} are among the nearest of very many others, one of {most:,} (skewness "
                f"{point(row)}): recall rests on these hubs."
            )
            scene.draft.warn("hubs", text, candidate=name)
