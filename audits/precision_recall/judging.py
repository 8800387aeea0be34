"""What may be said of each candidate, and of a sweep of temperatures?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.numbers import point
from audits.precision_recall.estimating import At, Found
from audits.precision_recall.inputs import CEILING, REFERENCE
from audits.precision_recall.listing import outside, uncovered
from audits.precision_recall.sweep import judge_sweep
from audits.records import Estimate, Severity
from audits.wording import listed, many, size_words, span

if TYPE_CHECKING:
    from audits.precision_recall.report import Results

LARGE, NOTABLE = 0.20, 0.05
"""Ends of intervals, shares of the texts, from which a shortfall is told as of high or of medium severity."""
COPIES = 0.05
"""Low end of the share of repeated texts from which a candidate is said to repeat itself."""
QUALITY, DIVERSITY = ("precision", "density"), ("recall", "coverage")
POWER = 1.4
"""Half widths of an interval from which a difference is shown in some four of five runs."""
HUBS = 3.0
"""Skewness of the k-occurrence from which hubs are warned of."""
MOST_NAMED = 6


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

    def at(self, metric: str, name: str, against: str = "") -> Estimate | None:
        """Return an estimate at the leading k, if there is one."""
        place = self.place(metric, name, against)
        return None if place is None else self.draft.estimates[place]

    def place(self, metric: str, name: str, against: str = "") -> int | None:
        """Return where an estimate stands."""
        k = 0 if metric in ("duplicates", "self_bleu") else self.k
        return self.found.places.get(At(metric, name, k, against))

    def shown(self, metric: str, name: str, against: str) -> int:
        """Return 1 or -1 where a difference is shown to be above or below nothing, after correction, else 0."""
        row = self.at(metric, name, against)
        if row is None or row.low is None or row.high is None:
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
    quiet = [name for name in scene.names if not _tell_candidate(scene, name)]
    for name in scene.names:
        _tell_copies(scene, name)
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
    kinds = [
        word
        for word, metrics in (("quality", QUALITY), ("diversity", DIVERSITY))
        if any(metric in short for metric in metrics)
    ]
    parts = [f"{metric} by {size_words(row)}" for metric, row in short.items()]
    text = f"{name} falls short of the reference set against itself in {listed(kinds)}: {listed(parts)}."
    level = [
        metric
        for metric in (*QUALITY, *DIVERSITY)
        if metric not in short and scene.at(metric, name, CEILING) and scene.shown(metric, name, CEILING) == 0
    ]
    above = [metric for metric in (*QUALITY, *DIVERSITY) if scene.shown(metric, name, CEILING) > 0]
    if above:
        text += f" Its {listed(above)} {'is' if len(above) == 1 else 'are'} higher."
    if level:
        text += f" In {listed(level)} no difference could be shown."
    # Density is no share: how far it falls says nothing of how many texts do.
    ends = [-(row.high or 0.0) for metric, row in short.items() if metric != "density"]
    places = [scene.place(metric, name, CEILING) for metric in short]
    places += [scene.place(metric, name) for metric in short]
    severity = _severity(max(ends, default=0.0))
    scene.draft.find(
        "texts.below-ceiling", severity, text, [place for place in places if place is not None], candidate=name
    )
    return True


def _severity(end: float) -> Severity:
    return "high" if end >= LARGE else "medium" if end >= NOTABLE else "low"


def _tell_copies(scene: Scene, name: str) -> None:
    own, reference = scene.at("duplicates", name), scene.at("duplicates", REFERENCE)
    if own is None or own.low is None or reference is None or reference.high is None:
        return
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


def _tell_quiet(scene: Scene, quiet: Sequence[str]) -> None:
    """Say of whom no shortfall was shown, and how large one would have been told."""
    rows = [
        (scene.place(metric, name, CEILING), scene.at(metric, name, CEILING))
        for name in quiet
        for metric in ("precision", "recall")
    ]
    known = [(place, row) for place, row in rows if place is not None and row is not None and row.low is not None]
    if not known:
        return
    # A difference that is shown in four of five runs is 1.4 times as large as one whose interval just excludes nothing.
    widest = POWER * max((row.value - (row.low or 0.0)) for _, row in known)
    names = listed(list(quiet[:MOST_NAMED])) + (
        f" and {len(quiet) - MOST_NAMED} more" if len(quiet) > MOST_NAMED else ""
    )
    text = (
        f"No shortfall of {names} against the reference set against itself could be shown; one of {widest:.2f} in "
        "precision or recall would have been in most runs."
    )
    scene.draft.find("texts.no-shortfall", "info", text, [place for place, _ in known])


def _tell_texts(scene: Scene) -> None:
    """Name the candidate with most texts outside the reference, and what nobody covers."""
    counts = {name: outside(scene.results, name, 1) for name in scene.names}
    name = max(counts, key=lambda one: counts[one][1])
    (rows, count), k = counts[name], scene.k
    if count:
        text = (
            f"{many(count, 'text', 'texts')} of {name}, copies counted once, "
            f"{'lies' if count == 1 else 'lie'} in no ball (k = {k}) around a reference text"
        )
        if rows and rows[0].text:
            own, nearest = _short(rows[0].text), _short(rows[0].nearest_text)
            text += f"; the farthest: “{own}”, whose nearest reference text is “{nearest}”"
        place = scene.place("precision", name)
        scene.draft.find("texts.outside", "info", text + ".", [] if place is None else [place], candidate=name)
    missed, count = uncovered(scene.results, 1)
    if count:
        text = f"{many(count, 'reference text is', 'reference texts are')} reached by no candidate"
        if missed and missed[0].text:
            text += f"; the farthest: “{_short(missed[0].text)}”"
        scene.draft.find("texts.uncovered", "info", text + ".")


def _short(text: str) -> str:
    return text if len(text) <= 90 else text[:90].rsplit(" ", 1)[0] + "…"


def _warn_of_hubs(scene: Scene) -> None:
    for name in scene.names:
        row = scene.at("hubness", name)
        if row is not None and row.value > HUBS:
            text = (
                f"Some texts of {name} are among the nearest of very many others (skewness {point(row)}): recall rests "
                "on these hubs."
            )
            scene.draft.warn("hubs", text, candidate=name)
