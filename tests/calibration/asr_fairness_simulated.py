"""Data sets of `miles audit-fairness` beside what is true of them: counts on the layers of an encoder, without one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.comparisons import Comparison
from audits.asr_fairness.counts import HEAD, TaskCounts, named
from audits.asr_fairness.estimates import add_best_layer, add_corrected, add_gaps, add_rates, add_spreads
from audits.asr_fairness.findings import findings
from audits.asr_fairness.measure import Counts
from audits.core.context import Draft
from audits.core.groups import GroupSet, group_sets
from audits.core.records import Estimate
from audits.group_rates.comparing import KINDS
from audits.statistics import enough_permutations
from calibration.checks import Case, Outcomes, held
from calibration.worlds import GAP, Floats, Group, groups_of

GROUPS, MARKED = 4, 1
"""The marked group is an odd one, which gives the world its name; what is planted is planted there."""
GAP_PLANTED = "gap"
LAYERS: tuple[int | str, ...] = (0, 1, 2, 3, HEAD)
FACTORS = np.array([1.0, 0.8, 0.6, 0.7, 0.6])
"""Rate of each layer over that of the first. Among ties, whose errors are fixed, `MORE` errors of 20 instead."""
MORE = np.array([3.0, 2.0, 0.0, 1.0, 0.0])
BEST = 2
"""The layer with the least error."""
DEALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Counts of both tasks with what is true of them.

    Parameters
    ----------
    chances
        Chance of an error in each trial of speaker identification, shape (rows,).
    """

    groups: Sequence[Group]
    asr: TaskCounts
    sid: TaskCounts
    inputs: Any
    chances: Floats

    def rate(self, name: str, layer: int = BEST, *, sid: bool = False) -> float:
        """Return the true rate of a group such as `group=g1` on a layer; speaker identification has one."""
        group = self.groups[int(name.removeprefix("group=g"))]
        if sid:
            return group.estimand
        return group.estimand + float(MORE[layer]) / 20 if group.exact else group.estimand * float(FACTORS[layer])

    def others(self, name: str) -> float:
        """Return the true rate of all groups but one on the best layer."""
        rest = [(group.words, self.rate(f"group=g{at}")) for at, group in enumerate(self.groups)]
        del rest[int(name.removeprefix("group=g"))]
        return sum(words * rate for words, rate in rest) / sum(words for words, _ in rest)


def draw(case: Case, rng: np.random.Generator) -> Drawn:
    """Draw the errors of every layer and deal; the second attribute is a coin."""
    # As large as wanted on the best layer, on which groups are compared.
    shift = GAP if case.effect == GAP_PLANTED else 0.0
    shift = shift if case.world == "ties" else shift / float(FACTORS[BEST])
    groups = groups_of(case.world, case.units, rng, [shift * (place == MARKED) for place in range(GROUPS)])
    parts = []
    for place, group in enumerate(groups):
        unit, words, errors = group.trials(rng, len(LAYERS))
        if group.exact:
            errors = errors + MORE
        else:
            chances = group.rates[unit][:, None] * FACTORS
            errors = rng.binomial(words.astype(np.int64)[:, None], chances).astype(float)
        coin = rng.random(case.units) < 0.5
        parts.append(
            (np.full(len(unit), place), unit + place * case.units, words, errors, coin[unit], group.rates[unit])
        )
    at, speakers, words, errors, coin, rates = (np.concatenate([part[number] for part in parts]) for number in range(6))
    rows = [{"group": f"g{place}", "side": "old" if old else "young"} for place, old in zip(at, coin, strict=True)]
    recordings = [
        SimpleNamespace(speaker=f"{speaker:04d}", clip=SimpleNamespace(attributes=row))
        for speaker, row in zip(speakers, rows, strict=True)
    ]
    sets = tuple(group_sets(rows, ("group", "side"), max_order=2))
    clips = np.repeat(np.arange(len(words)), words.astype(np.int64))
    deals = rng.random((DEALS, len(clips), 1)) < rates[clips][None, :, None]
    return Drawn(
        groups=groups,
        asr=_counted("asr", "wer", LAYERS, np.arange(len(words)), errors, words),
        sid=replace(_counted("sid", "error", (0,), clips, deals.mean(0), np.ones(len(clips))), deals=deals),
        inputs=SimpleNamespace(recordings=recordings, sets=sets, skipped=(), reasons=()),
        chances=rates[clips],
    )


def _counted(
    task: str, metric: str, layers: tuple[int | str, ...], clips: NDArray[np.int64], errors: Floats, sizes: Floats
) -> TaskCounts:
    hits = sizes[:, None] - errors
    return TaskCounts(task=task, metric=metric, layers=layers, clips=clips, errors=errors, hits=hits, sizes=sizes)


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one data set and hold every number and sentence against the truth."""
    drawn = draw(case, rng)
    draft, comparisons = examine(drawn, case, int(rng.integers(2**31)))
    found = _Found(case=case, drawn=drawn, draft=draft, comparisons=comparisons)
    return {**found.rates(), **found.gaps(), **found.layers(), **found.deals(), **found.findings()}


def examine(drawn: Drawn, case: Case, seed: int) -> tuple[Draft, Sequence[Comparison]]:
    """Audit one data set."""
    options = Options(
        model="m", manifest=Path("manifest.csv"), by=("group", "side"), min_speakers=min(max(case.units, 5), 10)
    )
    sets: tuple[GroupSet, ...] = drawn.inputs.sets
    enough = enough_permutations(options.permutations, 2 * len(sets), case.level)
    options = replace(options, permutations=enough)
    counts = Counts(inputs=drawn.inputs, options=options, level=case.level, seed=seed, tasks=(drawn.asr, drawn.sid))
    draft, cohort = Draft(level=case.level, seed=seed), counts.cohort
    for task in counts.tasks:
        add_rates(draft, task, cohort)
        add_best_layer(draft, task, cohort)
        add_spreads(draft, task, counts.cohort)
        for comparison in counts.of(task):
            add_gaps(draft, comparison)
    add_rates(draft, replace(drawn.asr, control="random-init"), cohort)
    for task in counts.tasks:
        add_corrected(draft, counts.of(task))
    findings(draft, counts)
    return draft, counts.comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A report beside the truth."""

    case: Case
    drawn: Drawn
    draft: Draft
    comparisons: Sequence[Comparison]

    def row(self, name: str, **where: str | int) -> Estimate | None:
        """Return the first estimate at these coordinates."""
        return next(
            (
                row
                for row in self.draft.estimates
                if row.name == name and all(row.where.get(key) == value for key, value in where.items())
            ),
            None,
        )

    def of(self, task: str, by: str = "group") -> Comparison | None:
        """Return the comparison by an attribute in a task."""
        return next((one for one in self.comparisons if one.task.task == task and one.by == by), None)

    def rates(self) -> Mapping[str, bool | None]:
        """Hold the rates of the marked group against its law's."""
        name = f"group=g{MARKED}"
        best = {"task": "asr", "layer": BEST, "group": name}
        return {
            "error_rate[task=asr]": held(self.row("error_rate", **best), self.drawn.rate(name)),
            "error_rate[task=sid]": held(
                self.row("error_rate", task="sid", group=name), self.drawn.rate(name, sid=True)
            ),
            "head_error_rate": held(self.row("head_error_rate", group=name), self.drawn.rate(name, 4)),
            "control_error_rate": held(self.row("control_error_rate", **best), self.drawn.rate(name)),
        }

    def gaps(self) -> Mapping[str, bool | None]:
        """Hold the gaps of whichever two groups are told against the difference of their laws."""
        found: dict[str, bool | None] = {}
        asr, sid, name = self.of("asr"), self.of("sid"), f"group=g{MARKED}"
        for kind in KINDS if asr else ():
            for layer in (BEST, HEAD):
                ends = [self.drawn.rate(name, LAYERS.index(layer)) for name in (asr.worst(layer), asr.best(layer))]
                row = self.draft.get(named("gap", layer), **asr.at(layer, kind=kind))
                found[f"{named('gap', layer)}[task=asr,kind={kind}]"] = held(row, _gap(kind, *ends))
        if sid is not None:
            ends = [self.drawn.rate(name, sid=True) for name in (sid.worst(0), sid.best(0))]
            found["gap[task=sid,kind=absolute]"] = held(self.row("gap", task="sid", by="group"), ends[0] - ends[1])
        apart = self.drawn.rate(name) - self.drawn.others(name)
        told = self.row("gap_to_others", task="asr", layer=BEST, group=name)
        return {
            **found,
            "gap_to_others": held(told, apart),
            "head_gap_to_others": held(self.row("head_gap_to_others", group=name), apart),
        }

    def layers(self) -> Mapping[str, bool | None]:
        """Hold the choice of layers, and the relation of error and gap, against the truth."""
        best = held(self.row("best_layer", task="asr"), BEST)
        if self.case.effect != GAP_PLANTED:
            return {"best_layer": best}
        where = {"task": "asr", "by": "group", "kind": "absolute"}
        return {
            "best_layer": best,
            "fairest_layer": held(self.row("fairest_layer", **where), BEST),
            # Both rates and their gap are those of the first layer times one factor.
            "layer_correlation": held(self.row("layer_correlation", **where), 1.0),
        }

    def deals(self) -> Mapping[str, bool | None]:
        """Hold the scatter of one deal against that which independent errors have."""
        counts, chances = self.drawn.sid, self.drawn.chances
        noise = chances * (1 - chances)
        found = {"deal_spread": held(self.row("deal_spread"), math.sqrt(noise.sum()) / len(noise))}
        sid = self.of("sid")
        if sid is not None:
            member = sid.groups.member[counts.clips]
            both = [noise[member == sid.groups.names.index(name)] for name in (sid.worst(0), sid.best(0))]
            truth = math.sqrt(sum(float(part.sum()) / len(part) ** 2 for part in both))
            found["gap_deal_spread"] = held(self.row("gap_deal_spread", by="group"), truth)
        return found

    def findings(self) -> Mapping[str, bool | None]:
        """Tell which sentences the report has."""
        found: dict[str, bool | None] = {}
        told = [(item.id, item.where.get("task"), item.where.get("by"), item.headline) for item in self.draft.findings]
        for task in ("asr", "sid"):
            made = self.of(task) is not None or self.of(task, "side") is not None
            mine = [one for one in told if one[0] == "fairness.gap" and one[1] == task]
            found[f"fairness.gap[task={task}]"] = bool(mine) if made else None
            found[f"fairness.gap[task={task}] found"] = any(one[2] == "group" for one in mine) if made else None
        made = bool(self.comparisons)
        found["fairness.crossings"] = any(one[0] == "fairness.crossings" for one in told) if made else None
        pattern = [text for name, *_, text in told if name == "fairness.layer-pattern"]
        found["fairness.layer-pattern"] = (
            any("ayers with less error have" in text or "disagree" in text for text in pattern) if made else None
        )
        for name, where in (("p_value", {"layer": BEST}), ("head_p_value", {})):
            row = self.row(name, task="asr", by="group", correction="none", **where)
            found[f"{name}[correction=none]"] = None if row is None else row.value < 1 - self.case.level
        return found


def _gap(kind: str, high: float, low: float) -> float:
    if kind == "absolute":
        return high - low
    return high / low - 1 if kind == "relative" else math.log(high / (1 - high)) - math.log(low / (1 - low))
