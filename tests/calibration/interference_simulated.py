"""Matrices of `miles interference` beside what is true of them: six languages and three trainings of each model.

A held-out sentence is a unit of a world: its size is the number of its hidden tokens, its rate less that of the world
what it loses more, or less, than others of its language. What a second language changes in it is drawn alike, so that
there is no effect but the planted one. Where languages are the units, a language's rate is how easily it is hurt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.interference import Options
from audits.interference.convergence import Baselines
from audits.interference.estimates import add_relations, estimates
from audits.interference.findings import find_relation, findings
from audits.interference.language_tables import Downstream, Similarity
from audits.interference.losses import Cell, Losses
from audits.interference.matrix import Matrix
from audits.interference.measure import Counts
from audits.interference.mixtures import Mixtures
from audits.interference.settings import settle_training
from calibration.checks import Case, Outcomes, held
from calibration.worlds import Floats, groups_of
from probes.language_models.language_corpora import Attributes

CODES, SEEDS = "abcdef", 3
BASE, HURT = 2.0, 0.2
"""Loss of a language alone, and what a source of the same script adds to it where harm is planted."""
TRAINING, TALKS = 0.05, 0.1
"""Standard deviations of a model over trainings, and of what one training does to a token of one sentence."""
HARM, UNEVEN, LANGUAGES = "harm", "uneven trainings", "languages"
SCRIPTS, FAMILIES = "xxxyyz", "uvuvuv"
TRIPLES = (("a", "b", "c"), ("b", "d", "f"))
SCORES = ("of languages", "of pairs")
_TARGET, _SOURCE = "b", "a"
"""An odd group, which gives the world its name; its loss is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Losses, true cells (target, source), and the true standard deviation of a cell over trainings."""

    losses: Losses
    baselines: Mapping[str, Baselines]
    truth: Floats
    seed_sd: float
    columns: Mapping[str, Mapping[str, str]]


def draw(case: Case, rng: np.random.Generator) -> Drawn:
    """Draw what every model lost on every held-out sentence of its languages."""
    count = len(CODES)
    scripts, families = (rng.permutation(list(names)).tolist() for names in (SCRIPTS, FAMILIES))
    truth = HURT * np.equal.outer(scripts, scripts) * (case.effect == HARM)
    np.fill_diagonal(truth, 0.0)
    groups = groups_of(case.world, case.units, rng, [0.0] * count)
    cells: dict[tuple[tuple[str, ...], int, str], Cell] = {}
    baselines, variances = {}, []
    for place, (code, group) in enumerate(zip(CODES, groups, strict=True)):

        def rates(place: int = place, own: Floats = group.rates, mean: float = group.estimand) -> Floats:
            # Where the size does not tell the rate, each model has its own; else all have that of the sentence.
            if case.world == "informative-size":
                return own - mean
            return groups_of(case.world, case.units, rng, [0.0] * (place + 1))[place].rates - mean

        level = rng.normal(0, 0.3, SEEDS)
        changes = {other: rates() + truth[place, CODES.index(other)] for other in CODES if other != code}
        scale = {other: _scale(case, place, CODES.index(other)) for other in changes}
        alone = rates()
        variances += [_variance(group.sizes, 1 + scale[other] ** 2) for other in changes]
        sets = [(code,), *((code, other) for other in changes), *(three for three in TRIPLES if code in three)]
        for chosen in sets:
            others = [other for other in chosen if other != code]
            tokens = BASE + alone + sum((changes[other] for other in others), np.zeros(case.units))
            spread = scale[others[0]] if len(others) == 1 else 1.0
            for seed in range(SEEDS):
                noise = rng.normal(0, TRAINING * spread) + rng.normal(0, TALKS, case.units) + level[seed]
                sums = (tokens + noise) * group.sizes
                cells[tuple(sorted(chosen)), seed, code] = Cell(sums=sums, weights=group.sizes, factor=1.0)
        counted = Cell(sums=(BASE + 2 + rates()) * group.sizes, weights=group.sizes, factor=1.0)
        baselines[code] = {"unigram": counted, "bigram": counted}
    losses = Losses(languages=tuple(CODES), cells=cells, curves={}, diverged=frozenset())
    columns = {"script": dict(zip(CODES, scripts, strict=True)), "family": dict(zip(CODES, families, strict=True))}
    return Drawn(
        losses=losses, baselines=baselines, truth=truth, seed_sd=float(np.sqrt(np.mean(variances))), columns=columns
    )


def _scale(case: Case, target: int, source: int) -> float:
    """Return how much more than others a model of a pair scatters over trainings."""
    return 4.0 if case.effect == UNEVEN and (target + source) % 2 else 1.0


def _variance(sizes: Floats, models: float) -> float:
    """Return the variance of a cell over trainings: of the models, and of what they do to single sentences."""
    shares = sizes / sizes.sum()
    return float(TRAINING**2 * models + 2 * TALKS**2 * (shares**2).sum())


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one matrix and hold every number and sentence against the truth."""
    if case.effect == LANGUAGES:
        return _of_languages(case, rng)
    drawn = draw(case, rng)
    sets = tuple(sorted({chosen for chosen, _, _ in drawn.losses.cells}, key=lambda one: (len(one), one)))
    draft = audited(case, drawn, [_inputs(CODES, sets, drawn.columns)], int(rng.integers(2**31)))
    found = {**_of_cells(draft, drawn), **_of_effects(draft, drawn)}
    ids = {item.id for item in draft.findings}
    for name in ("interference", "synergy", "asymmetry", "recommended"):
        found[f"interference.{name}"] = f"interference.{name}" in ids
    found["interference.interference found"] = "interference.interference" in ids
    said = {item.id.removeprefix("interference."): f"{item.headline} {item.statement}" for item in draft.findings}
    for name in ("script", "family"):
        claims = said.get(name)
        found[f"interference.{name}[difference]"] = None if claims is None else claims.startswith("Here languages")
    found["interference.script[difference] found"] = found["interference.script[difference]"]
    found["interference.mixtures"] = "off beyond the noise in 0 of" not in said["mixtures"]
    return found


def audited(case: Case, drawn: Drawn, given: Sequence[Any], seed: int) -> Draft:
    """Estimate, explain and judge as a run on these losses does; inputs differ in their table of scores alone."""
    matrix = Matrix(losses=drawn.losses, failed={}, level=case.level, correction="holm", pairs=given[0].pairs)
    counts = [
        Counts(inputs=one, options=Options(permutations=1000), matrix=matrix, baselines=drawn.baselines, seed=seed)
        for one in given
    ]
    if case.effect == LANGUAGES:
        # Of twenty languages there are more mixtures than time.
        vars(counts[0])["mixtures"] = Mixtures()
    draft = Draft(level=case.level)
    estimates(draft, counts[0])
    findings(draft, counts[0])
    for other in counts[1:]:
        add_relations(draft, other.downstream_outcomes)
        for relation in other.downstream:
            find_relation(draft, relation)
    return draft


def _inputs(codes: str | tuple[str, ...], sets: Any, columns: Mapping[str, Mapping[str, str]], **more: Any) -> Any:
    """Return as much of checked inputs as the numbers and sentences look at."""
    attributes = Attributes(path=Path("langs.csv"), columns=columns, missing=())
    plain = {"part": None, "texts": {}, "similarities": (), "downstream": None, "table": True, "kind": "given"}
    plain |= {"training": settle_training(Options()), "pairs": tuple(chosen for chosen in sets if len(chosen) == 2)}
    return SimpleNamespace(languages=tuple(codes), sets=sets, attributes=attributes, **{**plain, **more})


def _of_cells(draft: Draft, drawn: Drawn) -> dict[str, bool | None]:
    """Hold losses, cells and what is made of them against the truth."""
    truth, target, source = drawn.truth, CODES.index(_TARGET), CODES.index(_SOURCE)
    cell, back, others = truth[target, source], truth[source, target], len(CODES) - 1
    ends = [row for row in draft.estimates if row.name == "predicted_interference"]
    return {
        "loss": held(_row(draft, "loss", lang=_TARGET, **{"with": _SOURCE}), BASE + cell),
        "baseline": held(_row(draft, "baseline", lang=_TARGET, order="unigram"), BASE + 2),
        "interference": held(_row(draft, "interference", target=_TARGET, source=_SOURCE), cell),
        "interference_relative": held(
            _row(draft, "interference_relative", target=_TARGET, source=_SOURCE), cell / BASE
        ),
        "asymmetry": held(_row(draft, "asymmetry", a=_SOURCE, b=_TARGET), back - cell),
        "received": held(_row(draft, "received", target=_TARGET), truth[target].sum() / others),
        "caused": held(_row(draft, "caused", source=_SOURCE), truth[:, source].sum() / others),
        "seed_deviation": held(_row(draft, "seed_deviation"), drawn.seed_sd),
        "predicted_interference": all(bool(held(row, _predicted(truth, row))) for row in ends),
        "prediction_error[of=mixture]": held(_row(draft, "prediction_error", target=_TARGET, mixture="a+b+c"), 0.0),
        "prediction_error[of=triples]": held(_row(draft, "prediction_error", of="triples"), 0.0),
    }


def _predicted(truth: Floats, row: Estimate) -> float:
    members = [CODES.index(code) for code in str(row.where["mixture"]).split("+")]
    return float(truth[np.ix_(members, members)].sum() / 3)


def _of_effects(draft: Draft, drawn: Drawn) -> dict[str, bool | None]:
    """Hold the contrasts of pairs that share a script, or a family, against the truth."""
    off = ~np.eye(len(CODES), dtype=bool)
    same = {
        name: np.equal.outer(column, column)[off].astype(float)
        for name in ("script", "family")
        for column in [np.array([drawn.columns[name][code] for code in CODES])]
    }
    truth, found = drawn.truth[off], dict[str, bool | None]()
    for name, other in (("script", "family"), ("family", "script")):
        plain = float(truth[same[name] == 1].mean() - truth[same[name] == 0].mean())
        design = np.stack([np.ones(len(truth)), same[name], same[other]], axis=1)
        fixed = float((np.linalg.pinv(design)[1] * truth).sum())
        for adjusted, value in (("no", plain), ("yes", fixed)):
            row = _row(draft, f"{name}_effect", adjusted=adjusted)
            found[f"{name}_effect[adjusted={adjusted}]"] = held(row, value)
    return found


def _row(draft: Draft, name: str, **where: str) -> Estimate | None:
    rows = (row for row in draft.estimates if row.name == name)
    return next((row for row in rows if all(row.where.get(key) == value for key, value in where.items())), None)


# Languages as the units: nothing that is known of them has anything to do with the matrix.


def _of_languages(case: Case, rng: np.random.Generator) -> Outcomes:
    codes = tuple(f"l{place:02d}" for place in range(case.units))
    hurt, likeness, score = (_law(case.world, case.units, rng) for _ in range(3))
    classes = rng.permutation(np.arange(case.units) % 3).tolist()
    columns = {
        "script": dict(zip(codes, (f"s{number}" for number in classes), strict=True)),
        "speakers": dict(zip(codes, (f"{value:.9f}" for value in likeness.tolist()), strict=True)),
    }
    symmetric = rng.normal(size=(case.units, case.units))
    drawn = _plain(codes, hurt, rng)
    similar = Similarity(name="given", matrix=symmetric + symmetric.T, notes=())
    tables = (
        Downstream(kind="languages", names=SCORES[:1], values=score[None], notes=()),
        Downstream(kind="pairs", names=SCORES[1:], values=rng.normal(size=(1, case.units, case.units)), notes=()),
    )
    sets = (*((code,) for code in codes), *combinations(codes, 2))
    inputs = [_inputs(codes, sets, columns, similarities=(similar,), downstream=table) for table in tables]
    return _of_relations(case, audited(case, drawn, inputs, int(rng.integers(2**31))))


def _of_relations(case: Case, draft: Draft) -> dict[str, bool | None]:
    found = {
        "similarity_correlation[column]": held(_row(draft, "similarity_correlation", attribute="speakers"), 0.0),
        "similarity_correlation[given]": held(_row(draft, "similarity_correlation", attribute="given"), 0.0),
        "downstream_correlation[side=received]": held(_row(draft, "downstream_correlation", side="received"), 0.0),
        "downstream_correlation[side=cell]": held(_row(draft, "downstream_correlation", side="cell"), 0.0),
    }
    if case.units >= 5:
        for place, predictor in enumerate(("interference", "mean")):
            row = _row(draft, "prediction_error", of="downstream", predictor=predictor)
            found[f"prediction_error[predictor={predictor}]"] = held(row, _missed(case.world, case.units)[place])
    for test in ("script", "speakers", "given", *SCORES):
        row = _row(draft, "p_value", test=test, correction="none")
        name = {"speakers": "column", "of languages": "received", "of pairs": "cell"}.get(test, test)
        found[f"p_value[test={name},correction=none]"] = None if row is None else row.value <= 1 - case.level
    script = [item.statement for item in draft.findings if item.id == "interference.script"]
    found["interference.script[reason]"] = "more than chance" in script[0] if script else None
    told = any(item.id == "interference.similarity" for item in draft.findings)
    found["interference.similarity"] = told if _row(draft, "p_value", test="speakers") else None
    for name, side in zip(SCORES, ("received", "cell"), strict=True):
        said = [item.headline for item in draft.findings if item.where.get("score") == name]
        found[f"interference.downstream[side={side}]"] = not said[0].startswith("No relation") if said else None
    return found


def _law(world: str, units: int, rng: np.random.Generator) -> Floats:
    """Draw a number for every language; the odd group is the one that gives the world its name."""
    return groups_of(world, units, rng)[1].rates.round(9)


def _plain(codes: tuple[str, ...], hurt: Floats, rng: np.random.Generator) -> Drawn:
    """Draw losses of four sentences of each language; a row is higher where its language is easily hurt."""
    weights, cells = np.full(4, 50.0), dict[tuple[tuple[str, ...], int, str], Cell]()
    for place, code in enumerate(codes):
        for other in codes:
            effect = hurt[place] * (other != code)
            for seed in range(SEEDS):
                tokens = BASE + effect + rng.normal(0, TRAINING) + rng.normal(0, TALKS, 4)
                chosen = (code,) if other == code else (min(code, other), max(code, other))
                cells[chosen, seed, code] = Cell(sums=tokens * weights, weights=weights, factor=1.0)
    losses = Losses(languages=codes, cells=cells, curves={}, diverged=frozenset())
    return Drawn(losses=losses, baselines={}, truth=np.zeros((0, 0)), seed_sd=0.0, columns={})


@cache
def _missed(world: str, units: int, draws: int = 4000) -> tuple[float, float]:
    """Return by how much a line through what languages receive, and their plain mean, miss a score on average."""
    rng = np.random.default_rng(4)
    spread = np.sqrt((TRAINING**2 + TALKS**2 / 4) / SEEDS)
    errors = np.zeros(2)
    for _ in range(draws):
        alone = rng.normal(0, spread, units)
        received = _law(world, units, rng) + rng.normal(0, spread / np.sqrt(units - 1), units) - alone
        score, x = _law(world, units, rng), received - received.mean()
        centred = score - score.mean()
        errors[1] += np.abs(centred).mean() * units / (units - 1)
        # What is left of a regression, over 1 less the leverage, is what it misses once it is left out.
        slope = (x @ centred) / (x @ x)
        errors[0] += np.abs((centred - slope * x) / (1 - 1 / units - x**2 / (x @ x))).mean()
    return float(errors[0] / draws), float(errors[1] / draws)
