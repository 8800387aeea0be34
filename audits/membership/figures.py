"""The charts of the audit, each answering the question in its title."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audits.chart_planes import plane
from audits.chart_text import finer, span_of
from audits.charts import MOST_SERIES, STACKED_WIDTH, Axis, forest
from audits.context import Draft
from audits.membership.bounding import ASSUMES_GDP, Bounds
from audits.membership.estimating import Judged
from audits.membership.roc_figure import Line, allows_all, bounds_chart, claim_name, roc_chart, scores_chart
from audits.numbers import percent
from audits.records import Estimate, Figure, Json
from audits.statistics.roc import call_at
from audits.wording import listed, many, span

if TYPE_CHECKING:
    from audits.membership.report import Results

LONGEST, HALF = 24, 12
"""Letters of a name on a chart, so that it leaves room for the chart on a phone, and of its ends where it is longer."""
MOST_PANELS, MOST_ROWS, MOST_BOUNDS = 12, 30, 3
"""Small multiples of a figure, rows of a forest, and attacks on one model whose bounds are drawn."""
TIERS = {"samples": "From samples", "generator": "With the generator", "denoiser": "With the denoiser", "full": "Full"}
ACCESS = {"samples": "From samples alone", "weights": "With the weights", "full": "With all that was released"}
MEASURES = {"held_out_loss": "Loss on non-members (lower: better)", "recall": "Recall (higher: better)"}
PRIVATE, OPEN = "claims privacy", "claims none"


@dataclass(frozen=True, slots=True)
class _Stage:
    """What all figures are drawn from; `names` and `models` are what attacks and models are called on a chart."""

    draft: Draft
    results: "Results"
    names: Mapping[str, str]
    models: Mapping[str, str]
    level: float

    @property
    def several(self) -> bool:
        return len(self.models) > 1

    def at(self, place: int) -> Estimate:
        return self.draft.estimates[place]

    def called(self, one: Judged) -> str:
        """Return what an attack is called where those of all models stand together."""
        name = self.names[one.attack.name]
        return f"{name} · {self.models[_model(one)]}" if self.several else name


def draw(draft: Draft, results: "Results") -> list[Figure]:
    """Return the figures; one that would have nothing to show is left out."""
    levels = [row.level for row in draft.estimates if row.low is not None]
    if not results.judged or not levels:
        return []
    names = _names([one.attack.name for one in results.judged])
    models = _names([_model(one) for one in results.judged])
    stage = _Stage(draft, results, names, models, levels[0])
    kinds = (_roc, _areas, _bounds, _leaks, _learnt, _scores)
    return [figure for kind in kinds if (figure := kind(stage)) is not None]


def _names(full: Sequence[str]) -> dict[str, str]:
    """Return what each is called on a chart; a number tells two apart that are the same once shortened."""
    names: dict[str, str] = {}
    for name in dict.fromkeys(full):
        # Names that begin alike mostly end otherwise.
        short = name if len(name) <= LONGEST else f"{name[: HALF - 1].rstrip()}…{name[-HALF:].lstrip()}"
        called, number = short, 1
        while called in names.values():
            number += 1
            called = f"{short} ({number})"
        names[name] = called
    return names


def _model(one: Judged) -> str:
    return str(one.attack.where.get("model", ""))


def _best_first(found: Sequence[Judged]) -> list[Judged]:
    return sorted(found, key=lambda one: -one.area.value)


def _rest(left: int, noun: str = "attack") -> str:
    return f" {many(left, f'more {noun} is', f'more {noun}s are')} in the tables only." if left > 0 else ""


def _roc(stage: _Stage) -> Figure:
    """Draw all attacks in one panel where they are few, else each in its own; of several models, the best by tier."""
    found, more = _best_first(stage.results.judged), ""
    if stage.several:
        models = list(stage.models)[:MOST_PANELS]
        drawn = [one for model in models for one in _best_by_tier(found, model)]
        more = " Drawn is the attack with the highest AUC of each kind of access." + _rest(
            len(stage.models) - len(models), "model"
        )
        panels = [stage.models[_model(one)] for one in drawn]
        series = [TIERS[one.attack.tier] for one in drawn]
    else:
        drawn = found[: MOST_SERIES if len(found) <= MOST_SERIES else MOST_PANELS]
        apart = len(drawn) > MOST_SERIES
        shown = [stage.names[one.attack.name] for one in drawn]
        panels, series = (shown, ["attack"] * len(drawn)) if apart else ([""] * len(drawn), shown)
        more = _rest(len(found) - len(drawn))
    claims = {panel: stage.results.claims[_model(one)] for one, panel in zip(drawn, panels, strict=True)
              if _model(one) in stage.results.claims}  # fmt: skip
    lines = [
        Line(panel=panel, series=name, attack=one.attack.name, curve=one.curve, told=_told(stage, one))
        for one, panel, name in zip(drawn, panels, series, strict=True)
    ]
    caption = (
        "Hits against false alarms at every threshold, both on scales of powers: the left end is where a call "
        f"is nearly never wrong. Bands are {percent(stage.level)} intervals of the hits, each threshold for itself; "
        "points are the rates in the tables. On the dashed line a call is no better than chance."
    )
    if claims:
        name = claim_name(list(claims.values()))
        caption += f" Grey, {name}: no attack on a model that keeps its claim is above it, on average."
        free = [panel for panel, claim in claims.items() if allows_all(claim, max(line.curve.others for line in lines))]
        if free:
            whose = f"That of {listed(free)}" if len(claims) > len(free) else "It"
            caption += f" {whose} allows everything at all rates that so few non-members can show."
    spec = roc_chart(lines, claims, stage.level)
    return _figure(
        "roc", "At few false alarms, how many members are found?", caption + more, {**spec, **_rates(stage, drawn)}
    )


def _best_by_tier(found: Sequence[Judged], model: str) -> list[Judged]:
    best: dict[str, Judged] = {}
    for one in found:
        if _model(one) == model:
            best.setdefault(one.attack.tier, one)
    return [best[tier] for tier in TIERS if tier in best]


def _told(stage: _Stage, one: Judged) -> list[Estimate]:
    return [stage.at(place) for key, place in one.places.items() if key.startswith("tpr ")]


def _rates(stage: _Stage, drawn: Sequence[Judged]) -> Json:
    """Return area and hits of the attacks that are drawn as a table, with their whole names."""
    fprs = list(dict.fromkeys(str(row.where["fpr"]) for one in drawn for row in _told(stage, one)))
    rows = []
    for one in drawn:
        told = {str(row.where["fpr"]): span(row) for row in _told(stage, one)}
        auc = stage.at(one.places["auc"])
        head = [*([_model(one)] if stage.several else []), one.attack.name, one.attack.tier]
        rows.append([*head, span(auc), *(told.get(fpr, "") for fpr in fprs)])
    titles = [*(["model"] if stage.several else []), "attack", "tier", "AUC", *(f"found at {fpr}" for fpr in fprs)]
    return _table(titles, rows)


def _table(titles: Sequence[str], rows: list[list[str]]) -> Json:
    return {"usermeta": {"miles": {"table": {"columns": [[title, title] for title in titles], "rows": rows}}}}


def _areas(stage: _Stage) -> Figure:
    found = _best_first(stage.results.judged)
    groups: dict[str, list[Json]] = {}
    if stage.several:
        models = list(stage.models)[:MOST_PANELS]
        each = max(MOST_ROWS // len(models), 2)
        for model in models:
            groups[stage.models[model]] = [_area(stage, one) for one in found if _model(one) == model][:each]
    else:
        kept = found[:MOST_ROWS]
        for tier, title in TIERS.items():
            groups[title] = [_area(stage, one) for one in kept if one.attack.tier == tier]
    left = len(found) - sum(map(len, groups.values()))
    caption = (
        f"Probability that a member scores above a non-member (AUC), with its {percent(stage.level)} interval. Dashed: "
        "0.5, no better than chance; an attack whose interval holds it is grey."
    )
    if stage.results.blind is not None:
        groups["Without the model"] = [
            _row(stage.at(place), "classifier", name) for name, place in stage.results.blind.places.items()
        ]
        caption += " The last panel is of classifiers that saw the points and no model: they should be at 0.5."
    spec = _forests(groups, Axis("value", "AUC", ".2f", zero=False))
    return _figure("auc", "How well does each attack tell members from non-members?", caption + _rest(left), spec)


def _area(stage: _Stage, one: Judged) -> Json:
    more = {"tier": one.attack.tier} | ({"setting": one.attack.setting} if one.attack.setting else {})
    return _row(stage.at(one.places["auc"]), "attack", stage.names[one.attack.name], name=one.attack.name, **more)


def _row(row: Estimate, key: str, called: str, **more: Any) -> Json:
    """Return a row of a forest; its first key is that of its label."""
    holds = row.low is None or row.high is None or row.low <= 0.5 <= row.high
    return {key: called, "value": row.value, "low": row.low, "high": row.high, "n": row.n, "as chance": holds, **more}


def _forests(groups: Mapping[str, list[Json]], value: Axis) -> Json:
    """Stack one forest per group under another, all on one axis: they are there to be compared."""
    groups = {title: rows for title, rows in groups.items() if rows}
    low, high = span_of([row for rows in groups.values() for row in rows], ["value", "low", "high"])
    low, high = min(low, 0.5), max(high, 0.5)
    room = 0.03 * (high - low) or 0.05
    ends = round(max(0.0, low - room), 4), round(min(1.0, high + room), 4)
    views = []
    for place, (title, rows) in enumerate(groups.items()):
        label = next(iter(rows[0]))
        view = forest(rows, label=label, value=value, low="low", high="high", reference=0.5, greyed="as chance",
                      ranked=False)  # fmt: skip
        for layer in view["layer"]:
            side = layer["encoding"]["x"]
            side["scale"] = {"domain": list(ends), "nice": False}
            side["title"] = value.title if place == len(groups) - 1 else None
            if "axis" in side:
                side["axis"] |= {"format": finer(value.format, *ends), "title": side["title"]}
        views.append((title, view))
    return _stacked(views)


def _stacked(views: Sequence[tuple[str, Json]]) -> Json:
    if len(views) == 1:
        return views[0][1]
    schema = views[0][1]["$schema"]
    inner = [
        {**{key: part for key, part in view.items() if key != "$schema"}, "width": STACKED_WIDTH,
         "title": {"text": title, "anchor": "start", "frame": "group"}}
        for title, view in views
    ]  # fmt: skip
    return {"$schema": schema, "vconcat": inner}


def _bounds(stage: _Stage) -> Figure | None:
    shown, left = _leading(stage)
    if not shown:
        return None
    proved = [one for bounds in shown for one in bounds.proved.values()]
    claims = [claim.epsilon for claim in stage.results.claims.values()]
    # What a perfect attack proves under an assumption, or a claim far beyond all that can be proved, would leave no
    # room for the rest.
    plain = [one.ceiling for one in proved if one.validity != ASSUMES_GDP]
    edge = 1.1 * max([*plain, *(one.epsilon for one in proved), 0.1])
    near = [claim for claim in claims if claim <= 2 * edge]
    edge = max([edge, *(1.1 * claim for claim in near)])
    views = [
        (
            stage.called(one.judged),
            bounds_chart(list(one.proved.values()), stage.results.claims.get(_model(one.judged)), edge),
        )
        for one in shown
    ]
    caption = (
        f"Lower bounds of epsilon ({percent(stage.level)}) of {_whose(stage, shown)}, by method; the line to the right "
        "ends where a perfect attack on as many points would be, or with an arrow where that is off the chart. Circle: "
        "certified. Diamond: heuristic, since points of one training run are no independent trials. Triangle: holds if "
        "the trade-off curve is Gaussian."
    )
    if claims:
        caption += " Dashed: the claimed epsilon. A bound to the right of it contradicts the claim if it holds; the "
        caption += f"verdict is by {shown[0].leading.method}."
    return _figure(
        "epsilon",
        "How large must epsilon at least be?",
        caption + _rest(left),
        {**_stacked(views), **_listed(stage, shown)},
    )


def _leading(stage: _Stage) -> tuple[list[Bounds], int]:
    """Return the bounds that are drawn, those of the attacks that prove most, and how many are not."""
    found = sorted((one for one in stage.results.bounds if one.proved), key=lambda one: -one.leading.epsilon)
    if not stage.several:
        return found[:MOST_BOUNDS], len(found) - MOST_BOUNDS
    first = [next((one for one in found if _model(one.judged) == model), None) for model in stage.models]
    shown = [one for one in first if one is not None][:MOST_PANELS]
    return shown, len(found) - len(shown)


def _whose(stage: _Stage, shown: Sequence[Bounds]) -> str:
    if stage.several:
        return "the attack on each model that proves most"
    if len(shown) > 1:
        return f"the {len(shown)} attacks that prove most"
    return stage.called(shown[0].judged)


def _listed(stage: _Stage, shown: Sequence[Bounds]) -> Json:
    rows = []
    for bounds in shown:
        claim = stage.results.claims.get(_model(bounds.judged))
        head = [*([_model(bounds.judged)] if stage.several else []), bounds.judged.attack.name]
        for one in bounds.proved.values():
            ends = [f"{one.epsilon:.3g}", f"{one.ceiling:.3g}", "" if claim is None else f"{claim.epsilon:.4g}"]
            rows.append([*head, one.method, one.validity, *ends])
    titles = [
        *(["model"] if stage.several else []),
        "attack",
        "method",
        "standing",
        "at least",
        "most provable",
        "claimed",
    ]
    return _table(titles, rows)


def _leaks(stage: _Stage) -> Figure | None:
    if not stage.several:
        return None
    shown = list(stage.models)[:MOST_ROWS]
    groups: dict[str, list[Json]] = {}
    for access, title in ACCESS.items():
        own = [leak for leak in stage.results.leaks if leak.access == access and leak.model in shown]
        own.sort(key=lambda leak: -leak.area.value)
        groups[title] = [
            _row(stage.at(leak.place), "model", stage.models[leak.model], attack=leak.judged.attack.name)
            for leak in own
        ]
    if not any(groups.values()):
        return None
    caption = (
        f"AUC of each model's best attack with each access, with its {percent(stage.level)} interval. The attack was "
        "chosen on one half of the points and is judged on the other. Models are compared within a panel, never across "
        "panels: who holds more can do more. Grey: the interval holds 0.5."
    )
    spec = _forests(groups, Axis("value", "AUC of the best attack", ".2f", zero=False))
    return _figure("leakage", "Who leaks more, with which access?", caption, spec)


def _learnt(stage: _Stage) -> Figure | None:
    """Set leaks against the first measure of quality that two models share."""
    measure = next((one for one in MEASURES if len(_measured(stage, one)) > 1), None)
    if not stage.several or measure is None:
        return None
    good = _measured(stage, measure)
    leaks = [leak for leak in stage.results.leaks if leak.model in good]
    # The access by which most of them can be compared; not every release has weights.
    access = max(("weights", "samples", "full"), key=lambda access: sum(leak.access == access for leak in leaks))
    rows: list[Json] = []
    for leak in leaks:
        if leak.access == access:
            row = {"model": stage.models[leak.model], "n": len(leak.area.of_members), "hollow": False, "named": True}
            row |= {"kind": PRIVATE if leak.model in stage.results.claims else OPEN, "order": None}
            rows.append(row | _both(good[leak.model], measure) | _both(stage.at(leak.place), "leakage"))
    if len(rows) < 2:
        return None
    spec = plane(
        rows,
        x=Axis(measure, MEASURES[measure], ".3f" if measure == "held_out_loss" else ".2f", zero=False),
        y=Axis("leakage", "AUC of the best attack", ".2f", zero=False),
        **{key: key for key in ("kind", "hollow", "order", "named")},
        label="model",
        kinds={PRIVATE: "circle", OPEN: "square"},
    )
    # No line joins the models, and one without points would leave the scales without an end.
    spec["layer"] = spec["layer"][1:]
    kind = "private models" if stage.results.claims else "models"
    better = "left" if measure == "held_out_loss" else "right"
    caption = (
        f"Leakage {ACCESS[access].lower()} against how well each model does its work, on points that it did not see; "
        f"bars are {percent(stage.level)} intervals. Models further to the {better} learnt more. One that leaks less "
        "and learnt less may owe its privacy to that. Circle: epsilon is claimed; square: it is not."
    )
    return _figure("utility", f"Do {kind} leak less because they learnt less?", caption, spec)


def _measured(stage: _Stage, measure: str) -> dict[str, Estimate]:
    return {model: stage.at(place) for (model, name), place in stage.results.utilities.items() if name == measure}


def _both(row: Estimate, key: str) -> Json:
    return {key: row.value, f"{key}_low": row.low, f"{key}_high": row.high}


def _scores(stage: _Stage) -> Figure | None:
    """Draw how the scores of the attack with the highest AUC are spread over members and non-members."""
    best = _best_first(stage.results.judged)[0]
    attack = best.attack
    threshold, words = None, ""
    for told in sorted(_told(stage, best), key=lambda row: float(row.where["fpr"])):
        if told.value > 0:
            rate = f"{100 * float(told.where['fpr']):g} %"
            threshold = call_at(best.curve, float(told.where["fpr"])).threshold, f"{rate} false alarms"
            words = f" Dashed: the threshold that {rate} of the non-members reach."
            break
    spec = scores_chart(attack.scores[attack.judged], attack.member[attack.judged], threshold, stage.level)
    if spec is None:
        return None
    caption = (
        f"The attack with the highest AUC, {stage.called(best)}: its scores in bins, of which the outermost hold all "
        f"beyond them. Each side adds up to 1; bands are {percent(stage.level)} intervals (Wilson), each bin for "
        f"itself. Where the two lines are one, a score tells nothing.{words}"
    )
    return _figure("scores", "What do the scores look like?", caption, spec)


def _figure(id: str, title: str, caption: str, spec: Json) -> Figure:
    return Figure(id=id, title=title, caption=caption, file=id, spec=spec)
