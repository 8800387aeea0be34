"""What may be said of each group: which error it shows, which of the two is larger, and what could not be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Context, Draft
from audits.groups import ALL
from audits.numbers import point
from audits.phoneme_errors import Options
from audits.phoneme_errors.estimating import RANDOM, SPLIT, SYSTEMATIC, At, Found
from audits.records import Estimate, Severity
from audits.wording import listed, many, size_words, span

if TYPE_CHECKING:
    from audits.phoneme_errors.report import Results

LARGE, NOTABLE = 0.10, 0.05
"""Ends of intervals, shares of the tokens, from which an error is told as of high or of medium severity."""
TELLING = 1.05
"""Low end of a ratio of variances from which a random error may be told as the larger of the two."""
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Judged:
    """What is shown of one group: layers with a systematic and with a random error, and the layer to tell it by."""

    group: str
    systematic: tuple[int, ...]
    random: tuple[int, ...]
    layer: int


@dataclass(frozen=True, slots=True)
class _Scene:
    draft: Draft
    results: "Results"
    alpha: float

    @property
    def found(self) -> Found:
        return self.results.found

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(counts.layer for counts in self.results.measured.layers)

    def at(self, name: str, layer: int, group: str, training: str = "") -> Estimate | None:
        place = self.found.places.get(At(name, layer, group, training))
        return None if place is None else self.draft.estimates[place]

    def where(self, layer: int) -> str:
        return "" if self.layers == (0,) else f" in layer {layer}"


def judge(draft: Draft, results: "Results", options: Options, context: Context) -> None:
    """Add the findings, worst first."""
    scene = _Scene(draft, results, 1 - context.level)
    if any(row.name == "p_value" and row.method == "none" for row in draft.estimates):
        draft.warn("p-without-interval", "p-values of t tests are computed, not sampled: they have no interval.")
    best = best_layer(scene.draft, scene.found, scene.layers)
    quiet: dict[str, list[str]] = {}
    for group, by in zip(results.corpus.groups, results.corpus.by, strict=True):
        judged = _judged(scene, group, best)
        if judged.systematic or judged.random:
            _tell(scene, judged)
        else:
            quiet.setdefault(by, []).append(group)
    for by, groups in quiet.items():
        _tell_quiet(scene, by, groups, best)
    if not results.corpus.groups:
        draft.find(
            "phonemes.nothing-compared",
            "info",
            f"No two groups of one attribute have {options.min_speakers} speakers: nothing could be compared.",
        )
    _tell_correlation(scene, best)
    if results.changes is not None:
        _tell_changes(scene, results, best)
    order = {severity: place for place, severity in enumerate(("high", "medium", "low", "info"))}
    draft.findings.sort(key=lambda finding: order[finding.severity])


def best_layer(draft: Draft, found: Found, layers: Sequence[int]) -> int:
    """Return the layer whose phones are read best, over all speakers."""
    rows = {layer: found.places.get(At("accuracy", layer, ALL, "all")) for layer in layers}
    return max(layers, key=lambda layer: -1.0 if (at := rows[layer]) is None else draft.estimates[at].value)


def _judged(scene: _Scene, group: str, best: int) -> Judged:
    def shown(test: str, name: str, null: float) -> tuple[int, ...]:
        met = []
        for layer in scene.layers:
            row = scene.at(name, layer, group)
            sure = scene.found.adjusted.get((test, layer, group), 1.0) < scene.alpha
            if row is not None and row.low is not None and row.low > null and sure:
                met.append(layer)
        return tuple(met)

    systematic, random = shown(SYSTEMATIC, "systematic_error", 0.0), shown(RANDOM, "variance_ratio", 1.0)
    both = tuple(layer for layer in systematic if layer in random)
    pool = both or systematic or random or (best,)
    layer = best if best in pool else best_layer(scene.draft, scene.found, pool)
    return Judged(group, systematic, random, layer)


def _tell(scene: _Scene, judged: Judged) -> None:
    layer, group = judged.layer, judged.group
    here = layer in judged.systematic, layer in judged.random
    parts = []
    if here[0]:
        parts.append(_systematic(scene, judged))
    if here[1]:
        parts.append(_random(scene, judged))
    for there, layers, word in ((here[0], judged.systematic, "systematic"), (here[1], judged.random, "random")):
        if layers and not there:
            parts.append(f"A {word} error is shown in {_layers(scene, layers)} only.")
    gap, remaining = (scene.at(name, layer, group) for name in ("accuracy_gap", "remaining_gap"))
    parts.append(_balance(scene, judged, gap, remaining))
    kind = "both" if all(here) else SYSTEMATIC if here[0] else RANDOM
    # The first is the one that the page draws beside the finding.
    first = ("variance_ratio", "systematic_error") if kind == RANDOM else ("systematic_error", "variance_ratio")
    names = (*first, "accuracy_gap", "remaining_gap", "systematic_minus_remaining")
    scene.draft.find(
        f"phonemes.{kind}",
        _severity(scene, judged, gap, remaining),
        " ".join(part for part in parts if part),
        [place for name in names if (place := scene.found.places.get(At(name, layer, group))) is not None],
        group=group,
        layer=layer,
    )


def _systematic(scene: _Scene, judged: Judged) -> str:
    layer, group = judged.layer, judged.group
    own, common = (scene.at("accuracy", layer, group, training) for training in ("in", "all_matched"))
    error = scene.at("systematic_error", layer, group)
    if own is None or common is None or error is None:
        return ""
    shift = scene.at("centroid_shift", layer, group)
    apart = shift is not None and (shift.low or 0) > 0
    # Without a shift it is something else that a probe of the group's own makes use of.
    lead = (
        f"The phones of {group} lie elsewhere{scene.where(layer)}"
        if apart
        else f"Though no shift could be shown, the phones of {group} lie otherwise than those of the others"
        f"{scene.where(layer)}"
    )
    text = (
        f"{lead}: a probe that learned from the group alone reads "
        f"{point(own)} of its tokens, one that learned from as many tokens of everyone {point(common)}, a systematic "
        f"error of {span(error)}."
    )
    return text + _also(scene, judged.systematic, judged.layer)


def _random(scene: _Scene, judged: Judged) -> str:
    ratio = scene.at("variance_ratio", judged.layer, judged.group)
    if ratio is None:
        return ""
    text = (
        f"The phones of {judged.group} scatter more than those of the other groups{scene.where(judged.layer)}: their "
        f"variance is {span(ratio)} times as large."
    )
    inner = scene.at("variance_ratio_within_speakers", judged.layer, judged.group)
    if inner is not None and (inner.low or 0) <= 1:
        text += f" Within its speakers that could not be shown ({span(inner)}): they may differ from one another more."
    return text + _also(scene, judged.random, judged.layer)


def _also(scene: _Scene, layers: tuple[int, ...], told: int) -> str:
    return "" if layers == (told,) else f" (It is shown in {_layers(scene, layers)}.)"


def _layers(scene: _Scene, layers: Sequence[int]) -> str:
    if len(layers) == len(scene.layers) > 1:
        return f"all {len(layers)} layers"
    return f"layer{'s' * (len(layers) > 1)} {listed([str(layer) for layer in layers])}"


def _balance(scene: _Scene, judged: Judged, gap: Estimate | None, remaining: Estimate | None) -> str:
    """Say whether the group is read worse, and how much of that its own data would mend."""
    lead = scene.at("systematic_minus_remaining", judged.layer, judged.group)
    if gap is None or remaining is None or lead is None:
        return ""
    if (gap.high or 0) < 0:
        return f"Even so, a common probe reads the group better than the others, by {size_words(gap)}."
    if (gap.low or 0) <= 0:
        return f"That a common probe reads the group worse than the others could not be shown ({span(gap)})."
    text = f"A common probe reads the group worse than the others by {span(gap)}; with a probe of its own "
    text += (
        f"{span(remaining)} of that is left."
        if (remaining.low or 0) > 0
        else f"it is read better than they are, by {size_words(remaining)}."
        if (remaining.high or 0) < 0
        else f"no gap could be shown ({span(remaining)})."
    )
    if (lead.low or 0) > 0 and judged.layer in judged.systematic:
        return f"{text} The systematic error dominates: the group's own data would mend most of the gap."
    ratio, spread = (scene.at(name, judged.layer, judged.group) for name in ("variance_ratio", "scatter_minus_shift"))
    scattered = ratio is not None and (ratio.low or 0) > TELLING and spread is not None and (spread.low or 0) > 0
    inner = scene.at("variance_ratio_within_speakers", judged.layer, judged.group)
    if (lead.high or 0) < 0 and (remaining.low or 0) > 0 and judged.layer in judged.random and scattered:
        if inner is not None and (inner.low or 0) <= 1:
            return f"{text} Most of the gap would be left, and goes with speakers of the group who differ."
        return (
            f"{text} The random error dominates: the group's own data would not mend most of the gap, and its tokens "
            "are further off by their scatter than by a shift."
        )
    return f"{text} Which of the two errors is larger could not be told."


def _severity(scene: _Scene, judged: Judged, gap: Estimate | None, remaining: Estimate | None) -> Severity:
    error = scene.at("systematic_error", judged.layer, judged.group)
    worse = gap is not None and (gap.low or 0) > 0
    sizes = []
    if judged.layer in judged.systematic and error is not None:
        sizes.append(error.low or 0.0)
    if judged.layer in judged.random and remaining is not None:
        sizes.append(remaining.low or 0.0)
    largest = max(sizes, default=0.0)
    if worse and largest >= LARGE:
        return "high"
    return "medium" if (worse and largest > 0) or largest >= NOTABLE else "low"


def _tell_quiet(scene: _Scene, by: str, groups: Sequence[str], best: int) -> None:
    """Say of which groups neither error was shown, and how large one could have been."""
    rows = [
        (group, scene.at("systematic_error", best, group), scene.at("variance_ratio", best, group)) for group in groups
    ]
    known = [(group, error, ratio) for group, error, ratio in rows if error is not None and ratio is not None]
    named = "; ".join(
        f"{group}, systematic error {span(error)}, variance {span(ratio)} times that of the others"
        for group, error, ratio in known[:MOST_NAMED]
    )
    more = f"; and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    who = listed(list(groups[:MOST_NAMED])) if len(groups) <= MOST_NAMED else many(len(groups), "group", "groups")
    evidence = [
        place
        for group, _, _ in known[:MOST_NAMED]
        for name in ("systematic_error", "variance_ratio")
        if (place := scene.found.places.get(At(name, best, group))) is not None
    ]
    several = len(scene.layers) > 1
    anywhere = " in any layer" if several else ""
    lead = f"In layer {best}" if several else "Measured"
    scene.draft.find(
        "phonemes.neither",
        "info",
        f"By {by}, neither error could be shown of {who}{anywhere} (Holm over layers and groups)."
        + (f" {lead}: {named}{more}." if named else ""),
        evidence,
        by=by,
    )


def _tell_correlation(scene: _Scene, best: int) -> None:
    """Say whether speakers whose phones scatter more are read worse, once group and tokens are held fixed."""
    for partial in ("yes", "no"):
        place = scene.found.correlations.get((SPLIT, best, "speaker", partial))
        if place is None:
            continue
        row, p = scene.draft.estimates[place], scene.found.chance[SPLIT, best, "speaker", partial]
        held = ", group and tokens per phone held fixed" if partial == "yes" else ""
        lead = (
            f"Over {row.n} speakers{scene.where(best)}, variance {scene.found.scale} of one half of the phones beside "
            f"accuracy of the other half{held}: "
        )
        if p < scene.alpha and (row.high or 0) < 0:
            text = f"{lead}those whose phones scatter more are read worse, rank correlation {span(row)}."
        elif p < scene.alpha and (row.low or 0) > 0:
            text = f"{lead}those whose phones scatter more are read better, rank correlation {span(row)}."
        else:
            text = f"{lead}no relation of variance and accuracy could be shown, rank correlation {span(row)}."
        scene.draft.find("phonemes.correlation", "info", text, [place], layer=best, unit="speaker", partial=partial)
        return


def _tell_changes(scene: _Scene, results: "Results", best: int) -> None:
    """Say of which groups an error moved from the first encoder to the second."""
    changes = results.changes
    if changes is None:
        return
    still: list[str] = []
    for group in results.corpus.groups:
        told = False
        for error, words in (("systematic_error", "systematic error"), ("variance_ratio", "variance")):
            name = f"{error}_difference"
            moved = []
            for layer in scene.layers:
                place = changes.differences.places.get(At(name, layer, group))
                if place is None or changes.adjusted.get((name, layer, group), 1.0) >= scene.alpha:
                    continue
                row = scene.draft.estimates[place]
                if (row.low or 0) > 0 or (row.high or 0) < 0:
                    moved.append(layer)
            if not moved:
                continue
            told = True
            layer = best if best in moved else moved[0]
            before = scene.found.places.get(At(error, layer, group))
            after = changes.second.places.get(At(f"against_{error}", layer, group))
            change = changes.differences.places[At(name, layer, group)]
            row = scene.draft.estimates[change]
            way = "rose" if row.value > 0 else "fell"
            beside = ", in units of that of the other groups," if error == "variance_ratio" else ""
            ends = [scene.draft.estimates[place] for place in (before, after) if place is not None]
            from_to = f" from {span(ends[0])} to {span(ends[1])}," if len(ends) == 2 else ""
            scene.draft.find(
                "phonemes.moved",
                "low",
                f"In the second encoder the {words} of {group}{beside} {way}{scene.where(layer)}{from_to} by "
                f"{size_words(row)}." + _also(scene, tuple(moved), layer),
                [place for place in (change, before, after) if place is not None],
                group=group,
                layer=layer,
                error=error,
            )
        if not told:
            still.append(group)
    if still:
        rows = [
            (group, place)
            for group in still[:MOST_NAMED]
            if (place := changes.differences.places.get(At("systematic_error_difference", best, group))) is not None
        ]
        named = "; ".join(f"{group} {span(scene.draft.estimates[place])}" for group, place in rows)
        scene.draft.find(
            "phonemes.unmoved",
            "info",
            f"That the second encoder moved an error could not be shown of {many(len(still), 'group', 'groups')}; "
            f"change of the systematic error{scene.where(best)}: {named}.",
            [place for _, place in rows],
            layer=best,
        )
