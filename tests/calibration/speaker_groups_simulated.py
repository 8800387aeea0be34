"""Data sets of `miles audit-groups` beside what is true of them: four groups, a second attribute, three systems."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.groups import group_sets
from audits.core.records import Estimate
from audits.speaker_groups import Options
from audits.speaker_groups.counts import MetricCounts, Utterances
from audits.speaker_groups.estimates import examine
from audits.speaker_groups.findings import findings
from audits.speaker_groups.hypotheses import add_tests, verdicts_of
from audits.speaker_groups.measure import Counts, counts_of
from calibration.checks import NONE, Case, Outcomes, held
from calibration.worlds import GAP, Floats, Group, groups_of
from probes.speech.clips import as_columns
from probes.speech.manifests import Clip

GROUPS, SYSTEMS, MARKED = 4, 3, 1
"""The marked group is an odd one, which gives the world its name; what is planted is planted there."""
PARTS = {"substitution": 0.5, "deletion": 0.3, "insertion": 0.2}
GAP_PLANTED, LEFT, EXPLAINED = "gap", "60 % left", "explained"
_OLD, _OLD_HERE, _AGE = {LEFT: 0.3, EXPLAINED: 0.1}, {LEFT: 0.7, EXPLAINED: 0.9}, {LEFT: 2.0, EXPLAINED: 3.0}
_POPULATION = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A data set with what is true of it: rates and expected words of the groups, and ratios of the marked one."""

    data: Utterances
    groups: Sequence[Group]
    marginal: float = 1.0
    adjusted: float = 1.0

    def rate(self, name: str) -> float:
        """Return the true rate of a group such as `group=g1`."""
        return self.groups[int(name.removeprefix("group=g"))].estimand

    def others(self, name: str) -> float:
        """Return the true rate of all groups but one."""
        rest = [group for place, group in enumerate(self.groups) if f"group=g{place}" != name]
        return sum(group.estimand * group.words for group in rest) / sum(group.words for group in rest)


def draw(case: Case, rng: np.random.Generator) -> Drawn:
    """Draw clips of all groups; the second attribute is a coin, or age that goes with the marked group."""
    shifts = [GAP if case.effect == GAP_PLANTED and place == MARKED else 0.0 for place in range(GROUPS)]
    groups = groups_of(case.world, case.units, rng, shifts)
    here, there, age = (table.get(case.effect, start) for table, start in ((_OLD_HERE, 0.5), (_OLD, 0.5), (_AGE, 1.0)))
    means = [1 + (age - 1) * share for share in (here, there)]
    ratio = means[0] / means[1]
    own = ratio**1.5 if case.effect == LEFT else 1.0
    clips: list[tuple[Any, ...]] = []
    made = []
    for place, group in enumerate(groups):
        old = rng.random(case.units) < (here if place == MARKED else there)
        if case.effect in (LEFT, EXPLAINED):
            # All rates are scaled so that the largest factor is 1: none can pass 1.
            factor = (own if place == MARKED else 1.0) / (age * own)
            mean = means[0] if place == MARKED else means[1]
            group = group.scaled(np.where(old, age, 1.0) * factor, mean * factor)
        made.append(group)
        unit, words, errors = group.trials(rng, SYSTEMS)
        clips.append((np.full(len(unit), place), unit + place * case.units, words, errors, old[unit]))
    at, speakers, sizes, errors, old = (np.concatenate([part[number] for part in clips]) for number in range(5))
    rows = [{"group": f"g{place}", "side": "old" if is_old else "young"} for place, is_old in zip(at, old, strict=True)]
    data = Utterances(
        systems=tuple(f"s{number}" for number in range(SYSTEMS)),
        counts=(_counted(errors, sizes, rng),),
        speakers=speakers.astype(np.int64),
        attributes=rows,
        controls={},
        sets=tuple(group_sets(rows, ("group", "side"), max_order=2)),
    )
    return Drawn(data=data, groups=made, marginal=own * ratio, adjusted=own)


def _counted(errors: Floats, sizes: Floats, rng: np.random.Generator) -> MetricCounts:
    total = errors.astype(np.int64)
    first = rng.binomial(total, PARTS["substitution"])
    second = rng.binomial(total - first, PARTS["deletion"] / (1 - PARTS["substitution"]))
    parts = {"substitution": first, "deletion": second, "insertion": total - first - second}
    return MetricCounts(
        metric="wer",
        errors=errors,
        hits=sizes[:, None] - first - second,
        sizes=sizes,
        parts={name: part.astype(float) for name, part in parts.items()},
    )


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one data set and hold every number and sentence against the truth."""
    drawn = draw(case, rng)
    least = min(max(case.units, 5), 10)
    options = Options(manifest=Path("manifest.csv"), by=("group", "side"), min_speakers=least)
    seed = int(rng.integers(2**31))
    draft = Draft(level=case.level, seed=seed)
    counts = counts_of(drawn.data, _inputs(drawn.data), options, seed=seed, level=case.level)
    examine(draft, counts)
    findings(draft, counts)
    found = _Found(case=case, drawn=drawn, draft=draft, counts=counts)
    outcomes: dict[str, bool | None] = {**found.rates(), **found.gaps(), **found.ratios(), **found.rest()}
    outcomes |= found.findings()
    for hypothesis in ("worst-group", "conditional"):
        verdicts = verdicts_of(drawn.data, counts.comparisons, counts.adjustments, hypothesis, case.level)
        add_tests(draft, drawn.data, verdicts)
        outcomes[f"groups.gap[hypothesis={hypothesis}]"] = any(v.found for v in verdicts) if verdicts else None
    outcomes["excess"] = found.excess()
    return outcomes


def _inputs(data: Utterances) -> Any:
    """Return as much of checked inputs as the sentences look at."""
    clips = as_columns(
        [Clip(path=Path(), name="", line=at, source=Path(), attributes=row) for at, row in enumerate(data.attributes)]
    )
    return SimpleNamespace(
        clips=clips, skipped=(), speakers=data.speakers, unit="speakers", controls={}, sets=data.sets, reasons=(),
        manifest=SimpleNamespace(preview=lambda without: ()), read_as=(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A report beside the truth."""

    case: Case
    drawn: Drawn
    draft: Draft
    counts: Counts

    def row(self, name: str, **where: str) -> Estimate | None:
        """Return the first estimate of the first system at these coordinates."""
        wanted = {"system": "s0", **where}
        return next(
            (
                row
                for row in self.draft.estimates
                if row.name == name and all(row.where.get(key) == value for key, value in wanted.items())
            ),
            None,
        )

    def rates(self) -> Mapping[str, bool | None]:
        """Hold the rates of the marked group against its law's."""
        name = f"group=g{MARKED}"
        truth = self.drawn.rate(name)
        parts = {
            f"{part}_rate": held(self.row(f"{part}_rate", group=name), share * truth) for part, share in PARTS.items()
        }
        return {
            "rate": held(self.row("rate", group=name), truth),
            **parts,
            "speaker_rate": held(self.row("speaker_rate", group=name), self.drawn.groups[MARKED].mean_rate),
            "shrunken_rate": held(self.row("shrunken_rate", group=name), truth),
        }

    def gaps(self) -> Mapping[str, bool | None]:
        """Hold the gaps of whichever two groups are told against the difference of their laws."""
        mine = next((row for row in self.counts.comparisons if row.by == "group"), None)
        found: dict[str, bool | None] = {}
        if mine is not None:
            high, low = (self.drawn.rate(name) for name in mine.extremes[0])
            found |= self._kinds(high, low, "no")
        term = self.counts.adjustments[0].term("group")
        if term is not None and all(name.startswith("group=g") for name in term.extremes):
            high, low = (self.drawn.rate(name) for name in term.extremes)
            found |= self._kinds(high, low, "yes")
        name = f"group=g{MARKED}"
        told = self.row("gap_to_reference", group=name, reference="others")
        found["gap_to_reference"] = held(told, self.drawn.rate(name) - self.drawn.others(name))
        return found

    def _kinds(self, high: float, low: float, adjusted: str) -> dict[str, bool | None]:
        # Insertions are no wrong words, but the odds of a rate count them.
        truths = {"absolute": high - low, "relative": high / low - 1, "ratio": high / low}
        if adjusted == "no":
            # Of the log odds, hits are words less those substituted or deleted.
            share = PARTS["substitution"] + PARTS["deletion"]
            truths["log_odds"] = math.log(high / (1 - share * high)) - math.log(low / (1 - share * low))
            truths["four_fifths"] = (1 - high) / (1 - low)
        found = {}
        for kind, truth in truths.items():
            name = "gap_ratio" if kind in ("ratio", "four_fifths") else "gap"
            row = self.row(name, by="group", kind=kind, adjusted=adjusted)
            found[f"{name}[kind={kind},adjusted={adjusted}]"] = held(row, truth)
        return found

    def ratios(self) -> Mapping[str, bool | None]:
        """Hold the ratios of the models, of the marked group over the reference, against those of the laws."""
        where = {"attribute": "group", "level": f"g{MARKED}"}
        confounded = self.case.effect in (LEFT, EXPLAINED)
        truth = self.drawn.marginal if confounded else self.drawn.rate(f"group=g{MARKED}") / self.drawn.rate("group=g0")
        left = self.drawn.adjusted if confounded else truth
        found = {
            "rate_ratio[adjusted=no]": held(self.row("rate_ratio", **where, adjusted="no"), truth),
            "rate_ratio[adjusted=yes]": held(self.row("rate_ratio", **where, adjusted="yes"), left),
            "attenuation": held(self.row("attenuation", **where), math.log(truth / left)),
            "stratum_ratio": held(self.row("stratum_ratio", **where), left),
        }
        if self.case.effect == LEFT:
            found["share_left"] = held(self.row("share_left", **where), math.log(left) / math.log(truth))
        for name, size in (("confirmed_difference", None), ("intersection_ratio", 1.0)):
            rows = [row for row in self.draft.estimates if row.name == name]
            rows = [row for row in rows if size is not None or row.where["by"] == "group"]
            group = str(rows[0].where["group"]) if rows else ""
            known = size if size is not None or not rows else self.drawn.rate(group) - self.drawn.others(group)
            found[name] = held(rows[0], known or 0.0) if rows else None
        return found

    def rest(self) -> Mapping[str, bool | None]:
        """Hold indices, and the differences of systems that are alike, against the truth."""
        rates = [group.estimand for group in self.drawn.groups]
        share = PARTS["substitution"] + PARTS["deletion"]
        wrong = [share * rate for rate in rates]
        apart = max(math.log(max(wrong) / min(wrong)), math.log((1 - min(wrong)) / (1 - max(wrong))))
        found = {"differential_fairness": held(self.row("differential_fairness", by="group"), apart)}
        if self.case.effect in (NONE, GAP_PLANTED):
            truths = inequality(self.case.world, self.case.units, self.case.effect)
            for (index, part), truth in truths.items():
                row = self.row("entropy_index", by="group", index=index, part=part)
                found[f"entropy_index[index={index},part={part}]"] = held(row, truth)
        found["system_difference"] = held(self.row("system_difference", system="s1", group="all"), 0.0)
        found["gap_difference"] = held(self.row("gap_difference", system="s1", by="group"), 0.0)
        p = self.row("p_value", test="parity", by="group", correction="none")
        found["p_value[test=parity,correction=none]"] = None if p is None else p.value < 1 - self.case.level
        return found

    def excess(self) -> bool | None:
        """Tell whether the end that the one-sided test rests on lies below the truth."""
        row = next((row for row in self.draft.estimates if row.name == "excess" and row.where["by"] == "group"), None)
        if row is None or row.low is None:
            return None
        name = str(row.where["group"])
        return bool(row.low <= self.drawn.rate(name) - self.drawn.others(name) + 1e-9)

    def findings(self) -> Mapping[str, bool | None]:
        """Tell which sentences the report has."""
        verdicts = self.counts.verdicts
        told = {(item.id, str(item.where.get("by", ""))) for item in self.draft.findings}
        ids = {name for name, _ in told}
        systems = [item.words for item in self.draft.findings if item.id == "groups.system"]
        searched = sum(len(search.tests) for search in self.counts.searches)
        spurious = ("groups.spurious", "group") in told
        return {
            "groups.gap": bool({"groups.gap", "groups.spurious"} & ids) if verdicts else None,
            "groups.gap found": ("groups.gap", "group") in told if verdicts else None,
            "groups.spurious": spurious if verdicts else None,
            "groups.spurious found": spurious if verdicts else None,
            "groups.conclusion": any(verdict.rejected for verdict in verdicts) if verdicts else None,
            "groups.confirmed": "groups.confirmed" in ids if searched else None,
            "groups.system": any(says_more(text) for text in systems) if systems else None,
        }


def says_more(statement: str) -> bool:
    """Tell whether the sentences on another system say that it differs from the first."""
    return any(
        words in statement for words in (" makes more errors than ", " makes fewer errors than ", " and not by ")
    )


@cache
def inequality(world: str, units: int, effect: str) -> Mapping[tuple[str, str], float]:
    """Return the indices of inequality of benefits in the population, from many more speakers than in any sample.

    A speaker's benefit is that which is seen, with the chance of the words that were read.
    """
    rng = np.random.default_rng(len(world) * 1000 + units)
    shifts = [GAP if effect == GAP_PLANTED and place == MARKED else 0.0 for place in range(GROUPS)]
    seen: list[list[Floats]] = [[] for _ in range(GROUPS)]
    for _ in range(_POPULATION // units):
        for place, group in enumerate(groups_of(world, units, rng, shifts)):
            wrong = (
                np.rint(group.rates * group.sizes)
                if group.exact
                else rng.binomial(group.sizes.astype(int), group.rates)
            )
            seen[place].append(np.maximum(0.0, 1 - wrong / group.sizes))
    groups = [np.concatenate(parts) for parts in seen]
    everyone = np.concatenate(groups)
    mean = everyone.mean()
    means = np.array([group.mean() for group in groups])
    worth = np.array([np.sqrt(group).mean() ** 2 for group in groups])
    total = ((everyone / mean) ** 2 - 1).mean() / 2
    between = ((means / mean) ** 2 - 1).mean() / 2
    whole = 1 - np.sqrt(everyone).mean() ** 2 / mean
    apart = 1 - np.sqrt(worth).mean() ** 2 / worth.mean()
    return {
        ("generalised_entropy", "total"): float(total),
        ("generalised_entropy", "between"): float(between),
        ("generalised_entropy", "within"): float(total - between),
        ("atkinson", "total"): float(whole),
        ("atkinson", "between"): float(apart),
        ("atkinson", "within"): float(1 - (1 - whole) / (1 - apart)),
    }
