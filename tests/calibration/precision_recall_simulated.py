"""Texts whose laws are known, and what `miles precision-recall` makes of them; no encoder is run.

A text is a unit. It lies at a normal point in four dimensions, as far from the middle as its rate in a world says, and
has as many words as its size there. Candidates have as many texts as there are units, the reference twice as many, so
that there is a ceiling, or in `few` no more than they have.

Scores depend on how many texts there are, so what is true of them is what they are on average over data sets of the
same number. `python tests/calibration/precision_recall_simulated.py` finds that, and writes it beside this file.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.precision_recall import AUDIT, Options, comparing, figures, measure, records
from audits.precision_recall.sides import ASKED, FLOOR, LEAST, PER_K
from calibration.checks import NONE, Case, Outcomes, held
from calibration.worlds import Floats, groups_of
from probes.core.errors import InputError
from probes.texts.text_embeddings import Encoded
from probes.vectors.support_metrics import METRICS

WORLDS_HERE = ("exchangeable", "unequal-spread", "informative-size", "rare-events", "ties")
"""No text is half of all texts."""
EDGE, FEW, GROUPED, WORSE = "copies", "few", "groups", "worse"
NAMES, K, DIMENSIONS, MOST_WORDS = ("cold", "hot"), 5, 4, 80
SPLITS, REPEATS = 20, 2
"""Fewer than the audit's own 50 and 5, of which an audit takes four times as long."""
TRUTHS = Path(__file__).with_name("precision_recall_truths.json")
SHARE, GROUP_SIZE, VOCABULARY, FAR = 0.05, 6, 400, 2.0
CURVES = ("mauve", "frontier_integral", "prd_precision", "prd_recall")
ORDERS, STATISTICS = (1, 2, 3, 4), ("mean", "p5", "median", "p95")
_QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}
_MIDDLE = 1.0
"""The slope of the curve that is looked at."""
_AVERAGED = (*METRICS, *CURVES, "curve", "self_bleu", "distinct", "hubness", "ceiling", "floor")
_MANY, _RUNS = 200_000, 100
_LENGTH = cache(comparing.list_length)


@dataclass(slots=True)
class Side:
    """Texts of one file, with the point of each by its first word, which no other has."""

    texts: list[str] = field(default_factory=list)
    points: dict[str, Floats] = field(default_factory=dict)

    def add(self, text: str, point: Floats) -> None:
        """Append a text, a copy of an earlier one perhaps."""
        self.texts.append(text)
        self.points[text.partition(" ")[0]] = point


def points_of(case: Case, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return points, shape (count, dimensions), and words of texts, shape (count,)."""
    (_, drawn) = groups_of(case.world, count, rng)
    points = (0.05 + drawn.rates)[:, None] * rng.standard_normal((count, DIMENSIONS))
    return (points.round(1) if case.world == "ties" else points), drawn.sizes


def side_of(case: Case, count: int, name: str, rng: np.random.Generator, *, words: int = VOCABULARY) -> Side:
    """Draw texts of one source."""
    made, (points, sizes) = Side(), points_of(case, count, rng)
    for place, (point, size) in enumerate(zip(points, sizes, strict=True)):
        # Few words are frequent, most are rare.
        rest = np.floor(words * rng.random(int(size) - 1) ** 2).astype(int)
        made.add(" ".join([f"{name}{place}", *(f"w{word}" for word in rest)]), point)
    return made


def candidate_of(case: Case, name: str, reference: Side, rng: np.random.Generator) -> Side:
    """Draw a candidate: of the law of the reference, but for what is planted."""
    hot = case.effect == WORSE and name == NAMES[1]
    drawn = side_of(case, case.units, name, rng, words=12 if hot else VOCABULARY)
    if not hot and case.effect not in (EDGE, GROUPED):
        return drawn
    made, stock = Side(), side_of(case, 1, f"{name}stock", rng)
    copied = rng.permutation(len(reference.texts))
    # As many learnt as stand in no small group, of which nothing would be told.
    repeated, learnt = (0.2, 0.35) if hot else (repeating(case.units), SHARE)
    for place, text in enumerate(drawn.texts):
        point, luck = drawn.points[text.partition(" ")[0]], rng.random()
        if case.effect == GROUPED:
            if place % GROUP_SIZE == 0:
                centre = point
            point = centre + 1e-3 * rng.standard_normal(DIMENSIONS)
        elif luck < repeated:
            text = stock.texts[0]
            point = stock.points[text.partition(" ")[0]] + (FAR if hot else 0.0)
        elif luck < repeated + learnt:
            text = reference.texts[copied[place]]
            point = reference.points[text.partition(" ")[0]]
        elif hot:
            point = point + FAR
        made.add(text, point)
    return made


@cache
def repeating(units: int) -> float:
    """Return how often one sentence must be said that this share of the texts repeat an earlier one, on average."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        repeats = middle - (1 - (1 - middle) ** units) / units
        low, high = (low, middle) if repeats > SHARE else (middle, high)
    return (low + high) / 2


def audited(case: Case, rng: np.random.Generator, **more: Any) -> Draft:
    """Write a reference and two candidates, the steps of a sweep, and audit them; nothing is drawn."""
    given = {"splits": SPLITS, "repeats": REPEATS, "curves": case.effect == NONE, **more}
    reference = side_of(case, case.units * (1 if case.effect == FEW else 2), "reference", rng)
    sides = {name: candidate_of(case, name, reference, rng) for name in NAMES}
    points = {**reference.points}
    for side in sides.values():
        points |= side.points

    def encoded(spec: object, texts: Sequence[str], *, label: str, **others: object) -> Encoded:
        if label.endswith(FLOOR):
            rows = 3 * points_of(case, len(texts), rng)[0]
        else:
            rows = np.stack([points[text.partition(" ")[0]] for text in texts])
        return Encoded(vectors=rows.astype(np.float32), cut=np.zeros(len(texts), dtype=np.bool_))

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(measure, "encode_all", encoded),
        # Not asked for here, and a good part of the time.
        patch.object(figures, "figures", lambda *given: ()),
        patch.object(records, "records", lambda *given: ()),
        patch.object(comparing, "list_length", _LENGTH),
    ):
        files = {"reference": reference, **sides}
        for name, side in files.items():
            lines = (json.dumps({"text": text}) + "\n" for text in side.texts)
            Path(folder, f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        options = Options(
            reference=Path(folder, "reference.jsonl"),
            candidate=tuple(f"{name}={Path(folder, name)}.jsonl" for name in NAMES),
            temperature=(f"{NAMES[0]}=1", f"{NAMES[1]}=1.5"),
            encoder="tfidf", max_words=MOST_WORDS, **given,
        )  # fmt: skip
        context = Context(seed=int(rng.integers(2**31)), level=case.level, cache=Cache(Path(folder, "cache")))
        return drafted(AUDIT, options, context)


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one data set and hold every number and sentence against the truth."""
    if case.units < max(LEAST, PER_K * K):
        with pytest.raises(InputError):
            audited(case, rng)
        return {}
    found = _Found(case=case, draft=audited(case, rng), truths=truths()[f"{case.world}/{case.units}"])
    return {**found.scores(), **found.differences(), **found.words(), **found.sentences()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A report beside the truth."""

    case: Case
    draft: Draft
    truths: Mapping[str, float]

    def row(self, name: str, **where: str | float) -> Estimate | None:
        """Return the first estimate at these coordinates."""
        rows = (row for row in self.draft.estimates if row.name == name)
        return next((row for row in rows if all(row.where.get(key) == value for key, value in where.items())), None)

    def scores(self) -> dict[str, bool | None]:
        """Hold the scores of the first candidate, and what bounds them."""
        true, cold = self.truths, NAMES[0]
        found = {name: held(self.row(name, candidate=cold), true[name]) for name in (*METRICS, *CURVES, "hubness")}
        for side in ("precision", "recall"):
            row = self.row("curve", candidate=cold, side=side, **{"lambda": _MIDDLE})
            found[f"curve[side={side}]"] = held(row, true[f"curve/{side}"])
        for metric in ASKED:
            for control in ("ceiling", "floor"):
                row = self.row(control, metric=metric)
                found[f"{control}[metric={metric}]"] = held(row, true[f"{control}/{metric}"])
            dealt, own = self.row("relabelled", metric=metric, candidate=cold), self.row(metric, candidate=cold)
            found[f"relabelled[metric={metric}]"] = held(dealt, own.value) if own is not None else None
        return found

    def differences(self) -> dict[str, bool | None]:
        """Hold differences of what is alike against 0, and those from the floor against that of the averages."""
        cold, hot = NAMES
        found = {}
        for metric in ASKED:
            for against in ("ceiling", "relabelled"):
                row = self.row("difference", candidate=cold, metric=metric, against=against)
                found[f"difference[against={against},metric={metric}]"] = held(row, 0.0)
            row = self.row("difference", candidate=cold, metric=metric, against=hot)
            found[f"difference[against=candidate,metric={metric}]"] = held(row, 0.0)
            apart = self.truths[metric] - self.truths[f"floor/{metric}"]
            row = self.row("difference", candidate=cold, metric=metric, against="floor")
            found[f"difference[against=floor,metric={metric}]"] = held(row, apart)
        row = self.row("difference", candidate=cold, metric="self_bleu")
        found["difference[against=reference,metric=self_bleu]"] = held(row, 0.0)
        rows = [row for row in self.draft.estimates if row.name == "p_value"]
        asked = [
            row for row in rows
            if row.where["metric"] == "self_bleu"
            or (row.where["metric"] in ASKED and row.where["against"] in ("ceiling", "relabelled"))
        ]  # fmt: skip
        found["p_value"] = any(row.value < 1 - self.case.level for row in asked) if asked else None
        return found

    def words(self) -> dict[str, bool | None]:
        """Hold what a set shows by itself."""
        cold = {"candidate": NAMES[0]}
        lengths = {
            f"length[statistic={name}]": held(self.row("length", **cold, statistic=name), length(self.case.world, name))
            for name in STATISTICS
        }
        sequences = {n: held(self.row("distinct", **cold, n=n), self.truths[f"distinct/{n}"]) for n in ORDERS}
        return {
            **lengths,
            **{f"distinct[n={n}]": one for n, one in sequences.items()},
            "self_bleu": held(self.row("self_bleu", **cold), self.truths["self_bleu"]),
            "shortened": held(self.row("shortened", **cold), length(self.case.world, "shortened")),
            "duplicates": held(self.row("duplicates", **cold), SHARE),
            "copied": held(self.row("copied", **cold), SHARE),
        }  # fmt: skip

    def sentences(self) -> dict[str, bool | None]:
        """Tell which sentences the report has."""
        told = {item.id for item in self.draft.findings}
        statements = {item.id: item.statement for item in self.draft.findings}
        recall = statements.get("texts.recall-by-temperature", "")
        falls = any(item.id == "texts.density-falls" and item.severity == "low" for item in self.draft.findings)
        short = {"texts.below-ceiling", "texts.below-relabelled"} & told
        return {
            "texts.below-ceiling": "texts.below-ceiling" in told,
            "texts.below-ceiling found": "texts.below-ceiling" in told,
            "texts.below-relabelled": "texts.below-relabelled" in told,
            "texts.more-alike": bool(short) or "texts.more-alike" in told,
            "texts.more-alike found": "texts.more-alike" in told,
            "texts.not-above-floor": "texts.not-above-floor" in told,
            "texts.mode-collapse": "texts.mode-collapse" in told,
            "texts.mode-collapse found": "texts.mode-collapse" in told,
            "texts.copied": "texts.copied" in told,
            "texts.copied found": "texts.copied" in told,
            "texts.grouped": "texts.grouped" in told,
            "texts.grouped found": "texts.grouped" in told,
            "texts.recall-by-temperature": "is above" in recall or "is below" in recall if recall else None,
            "texts.density-falls": falls,
            "texts.density-falls found": falls,
            "texts.dominates": "texts.dominates" in told,
            "texts.dominates found": "texts.dominates" in told,
        }


@cache
def length(world: str, statistic: str) -> float:
    """Return what is true of the words of a text."""
    units = 60
    rng = np.random.default_rng(6)
    # Of as many texts as a candidate has: in one world the longest text grows with them.
    groups = [groups_of(world, units, rng)[1] for _ in range(_MANY // units)]
    words = np.sort(np.concatenate([group.sizes for group in groups]))
    if statistic == "shortened":
        return float((words > MOST_WORDS).mean())
    return float(words.mean() if statistic == "mean" else words[int(_QUANTILES[statistic] * len(words))])


@cache
def truths() -> Mapping[str, Mapping[str, float]]:
    """Return averages by world and units, as they were found once."""
    found: Mapping[str, Mapping[str, float]] = json.loads(TRUTHS.read_text(encoding="utf-8"))
    return found


def averages(world: str, units: int, runs: int) -> Mapping[str, float]:
    """Return the averages of what the audit reports, over runs in which nothing is planted."""
    rng, sums = np.random.default_rng(len(world) * 100 + units), dict[str, list[float]]()
    case = Case(world=world, units=units, level=0.95)
    for _ in range(runs):
        for row in audited(case, rng, splits=10, repeats=1).estimates:
            where = row.where
            if row.name not in _AVERAGED or where.get("candidate") == "reference":
                continue
            if row.name == "curve" and where["lambda"] != _MIDDLE:
                continue
            part = where.get("metric") or where.get("n") or where.get("side")
            sums.setdefault(row.name if part is None else f"{row.name}/{part}", []).append(row.value)
    return {name: round(float(np.mean(values)), 5) for name, values in sums.items()}


if __name__ == "__main__":
    made = {f"{world}/60": averages(world, 60, _RUNS) for world in WORLDS_HERE}
    TRUTHS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
