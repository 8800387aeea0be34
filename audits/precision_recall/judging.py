"""What may be said of each candidate, and of a sweep of temperatures?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import point
from audits.precision_recall.estimating import At, Found
from audits.precision_recall.inputs import CEILING, FLOOR, REFERENCE
from audits.precision_recall.listing import different, outside, uncovered
from audits.precision_recall.sweep import judge_sweep
from audits.records import Estimate, Severity
from audits.wording import listed, size_words, span

if TYPE_CHECKING:
    from audits.precision_recall.report import Results

LARGE, NOTABLE = 0.20, 0.05
"""Ends of intervals, shares of the texts, from which a shortfall is told as of high or of medium severity."""
COPIES = 0.05
"""Low end of the share of repeated texts from which a candidate is said to repeat itself."""
FLOORED = ("precision", "density", "coverage")
"""Scores that should be above the floor; recall is generous to word salad."""
QUALITY, DIVERSITY = ("precision", "density"), ("recall", "coverage")
POWER = 0.8
"""Share of runs in which a difference said to be detectable is shown."""
GROUPED = 0.01
"""Share of points whose balls jump in width in halves of a draw, from which no difference is told."""
HUBS = 3.0
"""Skewness of the k-occurrence from which hubs are warned of."""
MOST_NAMED = 6
_WIDE = "as of texts whose balls are wide or that lie in the middle"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is judged, and where its numbers stand."""

    draft: Draft
    results: "Results"
    alpha: float

    @property
    def found(self) -> Found:
        """Return the places of the estimates."""
        return self.results.found

    @property
    def k(self) -> int:
        """Return the k that leads."""
        return self.results.inputs.settings.k[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the candidates in their order."""
        return tuple(one.name for one in self.results.inputs.candidates)

    @property
    def grouped(self) -> frozenset[str]:
        """Return the sets whose texts stand in groups hardly larger than k, of which no difference is told."""
        shares = {name: one.grouped[self.k] for name, one in self.results.measured.main.items()}
        found = {name for name, (_, own) in shares.items() if own > GROUPED}
        return frozenset(found | ({REFERENCE} if any(theirs > GROUPED for theirs, _ in shares.values()) else set()))

    def at(self, metric: str, name: str, against: str = "") -> Estimate | None:
        """Return an estimate at the leading k, if there is one."""
        place = self.place(metric, name, against)
        return None if place is None else self.draft.estimates[place]

    def place(self, metric: str, name: str, against: str = "") -> int | None:
        """Return where an estimate stands."""
        k = 0 if metric in ("duplicates", "copied", "self_bleu") else self.k
        return self.found.places.get(At(metric, name, k, against))

    def shown(self, metric: str, name: str, against: str) -> int:
        """Return 1 or -1 where a difference is shown to be above or below nothing, after correction, else 0."""
        row = self.at(metric, name, against)
        if row is None or row.low is None or row.high is None or {name, against, REFERENCE} & self.grouped:
            return 0
        if self.found.adjusted[At(metric, name, self.k, against)] >= self.alpha:
            return 0
        return 1 if row.low > 0 else -1 if row.high < 0 else 0

    def apart(self, metric: str, first: str, second: str) -> int:
        """Return 1 or -1 where the first candidate's score is shown to be above or below the second's, else 0."""
        if self.place(metric, first, second) is not None:
            return self.shown(metric, first, second)
        return -self.shown(metric, second, first)


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
    if quiet and results.inputs.control:
        _tell_quiet(scene, quiet)
    judge_sweep(scene)
    _tell_texts(scene)
    _warn_of_hubs(scene)
    order = {severity: place for place, severity in enumerate(("high", "medium", "low", "info"))}
    draft.findings.sort(key=lambda finding: order[finding.severity])


def _tell_candidate(scene: Scene, name: str) -> bool:
    """Tell where a candidate falls short of what the reference reaches against itself; return whether it does."""
    short = {
        metric: row
        for metric in (*QUALITY, *DIVERSITY)
        if scene.shown(metric, name, CEILING) < 0 and (row := scene.at(metric, name, CEILING)) is not None
    }
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
    text = f"{name} falls short of the reference set against itself in {listed(kinds)}: {listed(parts)}."
    level = [
        metric
        for metric in (*QUALITY, *DIVERSITY)
        if metric not in short and scene.at(metric, name, CEILING) and scene.shown(metric, name, CEILING) == 0
    ]
    above_quality, above_diversity = (
        [metric for metric in metrics if scene.shown(metric, name, CEILING) > 0] for metrics in (QUALITY, DIVERSITY)
    )
    for metrics, why in ((above_quality, "as of texts that keep to what is common"), (above_diversity, _WIDE)):
        if metrics:
            text += f" Its {listed(metrics)} {'is' if len(metrics) == 1 else 'are'} higher, {why}."
    if level:
        text += f" In {listed(level)} no difference could be shown."
    if elsewhere:
        text += " Its coverage may be lower because texts lie elsewhere rather than because there are fewer kinds."
    # Density is no share: how far it falls says nothing of how many texts do.
    ends = [-(row.high or 0.0) for metric, row in short.items() if metric != "density"]
    places = [scene.place(metric, name, CEILING) for metric in short]
    places += [scene.place(metric, name) for metric in short]
    severity = _severity(max(ends, default=0.0))
    scene.draft.find(
        "texts.below-ceiling", severity, text, [place for place in places if place is not None], candidate=name
    )
    return True


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
        "mistake. They count as good in every score."
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
    scene.draft.find("texts.more-alike", "low", text, [place], candidate=name)


def _tell_floor(scene: Scene, name: str) -> None:
    """Tell of scores that are not shown to be above those of words dealt anew."""
    rows = {metric: scene.at(metric, name, FLOOR) for metric in FLOORED}
    low = [metric for metric, row in rows.items() if row is not None and scene.shown(metric, name, FLOOR) <= 0]
    if not low or {name, REFERENCE} & scene.grouped:
        return
    verb = "is" if len(low) == 1 else "are"
    text = f"{listed(low).capitalize()} of {name} {verb} not shown to be above the floor, words dealt anew."
    places = [place for metric in low if (place := scene.place(metric, name, FLOOR)) is not None]
    scene.draft.find("texts.not-above-floor", "medium", text, places, candidate=name)


def _tell_quiet(scene: Scene, quiet: Sequence[str]) -> None:
    """Say of whom no shortfall was shown, and how large one would have been told."""
    rows = [
        (scene.place(metric, name, CEILING), scene.at(metric, name, CEILING))
        for name in quiet
        for metric in ("precision", "recall")
    ]
    known = [place for place, row in rows if place is not None and row is not None]
    if not known:
        return
    least = max(
        _detectable(scene, At(metric, name, scene.k, CEILING)) for name in quiet for metric in ("precision", "recall")
    )
    names = listed(list(quiet[:MOST_NAMED])) + (
        f" and {len(quiet) - MOST_NAMED} more" if len(quiet) > MOST_NAMED else ""
    )
    text = (
        f"No shortfall of {names} against the reference set against itself could be shown; one of {least:.2f} or more "
        "in precision or recall would most likely have been."
    )
    scene.draft.find("texts.no-shortfall", "info", text, known)


def _detectable(scene: Scene, at: At) -> float:
    """Return the difference that is shown with probability `POWER`, were it the smallest p-value of its score."""
    from scipy.stats import t

    value = scene.found.values.get(at)
    if value is None:
        return 0.0
    compared = sum(other.name == at.name for other in scene.found.adjusted)
    freedom = len(value.gaps)
    # One quantile to be shown at Holm's first step, and one to be so with this power.
    return float(t.isf(scene.alpha / (2 * max(compared, 1)), freedom) + t.isf(1 - POWER, freedom)) * value.error()


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
