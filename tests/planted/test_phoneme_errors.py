"""Does the audit of phonemes tell a group that is heard elsewhere from one that is heard noisily, and both from none?

Centroids are the same in every replication, and the tokens around them are drawn anew. The truth about variances and
shifts follows from the plan; that about a systematic error, which depends on the probe, is its mean.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from chance import at_most
from numpy.typing import NDArray
from phone_tokens import BETWEEN, WITHIN, Planted, draw_tokens

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.phoneme_errors import AUDIT, Options
from audits.phoneme_errors.corpus import corpus_of
from audits.phoneme_errors.estimates import estimates
from audits.phoneme_errors.findings import findings
from audits.phoneme_errors.layers import measure_layers
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.tokens import Tokens

Floats = NDArray[np.float64]
PHONES, EACH, GEOMETRY = 8, 3, 99
ERRORS = ("phonemes.systematic", "phonemes.random", "phonemes.both")


@dataclass(frozen=True, slots=True)
class Held:
    """Vectors in memory, shape (layers, tokens, width)."""

    values: NDArray[np.float32]

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(range(len(self.values)))

    def width(self, layer: int) -> int:
        return int(self.values.shape[2])

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        for start in range(0, self.values.shape[1], size):
            yield self.values[layer, start : start + size]


def centroids_of(plan: Mapping[str, Planted], width: int, spread: float) -> Mapping[str, Floats]:
    rng = np.random.default_rng(GEOMETRY)
    return draw_tokens(rng, groups=plan, phones=PHONES, width=width, tokens_per_phone=1, spread=spread).centroids


def drawn(plan: Mapping[str, Planted], seed: int, *, width: int = 10, spread: float = 0.5, layers: int = 1) -> Tokens:
    """Draw tokens around the centroids that all replications share, in every layer anew."""
    fixed, stack = centroids_of(plan, width, spread), []
    for layer in range(layers):
        rng = np.random.default_rng((seed, layer))
        found = draw_tokens(rng, groups=plan, phones=PHONES, width=width, tokens_per_phone=EACH, spread=spread)
        phones = np.array([int(name[1:]) for name in found.phones])
        moved = np.stack([fixed[name] - found.centroids[name] for name in plan])
        group = np.array([list(plan).index(name) for name in found.group])
        stack.append((found.vectors + moved[group, phones]).astype(np.float32))
    names, people = np.unique(found.speakers, return_inverse=True)
    return Tokens(
        phones=phones,
        phone_names=tuple(f"p{number:02d}" for number in range(PHONES)),
        speakers=people,
        speaker_names=tuple(names.tolist()),
        levels={"group": group},
        level_names={"group": tuple(plan)},
        vectors=Held(np.stack(stack)),
        features=(),
        given=len(phones),
        skipped={},
        lines=np.arange(len(phones)),
        sha256="",
        notes=(),
    )


def audited(tokens: Tokens, seed: int, cache: Path) -> Draft:
    """Measure, estimate and judge, with few samples for what is not looked at here."""
    options = Options(
        tokens="tokens.npz", by=("group",), probe="discriminant", repeats=3, bootstrap=40, permutations=20
    )
    context, corpus = Context(cache=Cache(cache), seed=seed), corpus_of(tokens, options)
    draft = Draft(level=context.level, seed=seed, measures=AUDIT.by_name)
    layers = measure_layers(tokens.vectors, tokens.vectors.layers, corpus, options.probe, seed, options, context)
    counts = Counts(options=options, corpus=corpus, first=layers)
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def rows(draft: Draft, name: str, **where: str) -> dict[str, Estimate]:
    """Return the estimates of one name by group."""
    wanted = [row for row in draft.estimates if row.name == name and where.items() <= row.where.items()]
    return {str(row.where["group"]).removeprefix("group="): row for row in wanted}


@pytest.mark.slow
def test_each_error_is_found_in_the_group_that_has_it(tmp_path: Path) -> None:
    plan = {
        "plain": Planted(speakers=30),
        "usual": Planted(speakers=30),
        "shifted": Planted(speakers=20, shift=1.2),
        "inflated": Planted(speakers=20, inflation=2.0),
    }
    found, trials = Counter[str](), 12
    for seed in range(trials):
        draft = audited(drawn(plan, seed, width=6, spread=0.8), seed, tmp_path)
        for finding in draft.findings:
            if finding.id in ERRORS:
                group = str(finding.where["group"]).removeprefix("group=")
                found[f"{group} {finding.id.removeprefix('phonemes.')}"] += 1
                for kind in ("systematic", "random"):
                    found[f"{group} {kind} dominates"] += f"{kind} error dominates" in finding.statement
        error, ratio = rows(draft, "systematic_error"), rows(draft, "variance_ratio")
        own, common = (rows(draft, "accuracy", training=training) for training in ("in", "all_matched"))
        assert all(row.value == pytest.approx(own[name].value - common[name].value) for name, row in error.items())
        assert (error["shifted"].low or 0) > 0 and (ratio["shifted"].low or 0) <= 1
        assert (ratio["inflated"].low or 0) > 1
    assert found["shifted systematic"] >= trials - 1 and found["inflated random"] >= trials - 1
    assert found["shifted systematic dominates"] >= 6 and found["inflated random dominates"] >= 7
    assert found["shifted random dominates"] == found["inflated systematic dominates"] == 0
    # The group that lies elsewhere is part of everyone: a probe without it reads the others slightly better as well.
    assert sum(found[f"{group} systematic"] for group in ("plain", "usual")) <= 6
    assert all(found[f"{group} {kind}"] == 0 for group in ("plain", "usual") for kind in ("random", "both"))


def truths(plan: Mapping[str, Planted], centroids: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Return what is true of each group once every dimension has been divided by its deviation over all tokens."""
    people = np.array([planted.speakers for planted in plan.values()], dtype=float)
    share, places = people / people.sum(), np.stack([centroids[name] for name in plan])
    noise = (BETWEEN**2 + WITHIN**2) * np.array([planted.inflation for planted in plan.values()])
    centre = np.einsum("g,gpd->d", share, places) / PHONES
    square = share @ noise + np.einsum("g,gpd->d", share, (places - centre) ** 2) / PHONES
    places, variance = places / np.sqrt(square), noise * (1 / square).sum()
    middle = places.mean(1)
    wide = variance + ((places - middle[:, None]) ** 2).sum(2).mean(1)
    apart = ((middle[:, None] - middle) ** 2).sum(2)
    pairs = np.outer(people, people) - np.diag(people)
    total = (pairs * (wide[:, None] + wide + apart)).sum() / 2 / pairs.sum()
    found = {}
    for row, name in enumerate(plan):
        rest = np.arange(len(plan)) != row
        others = np.average(places[rest], axis=0, weights=people[rest])
        around = variance[rest][:, None] + ((places[rest] - others) ** 2).sum(2)
        spread = (share[row] * variance[row] + share[rest] @ around) / len(square)
        found[name] = {
            "random_error": variance[row] / total,
            "variance_ratio": variance[row] / np.average(variance[rest], weights=people[rest]),
            "centroid_shift": float(np.sqrt((((places[row] - others) ** 2).sum(1) / spread).mean())),
        }
    return found


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    plan = {
        "plain": Planted(speakers=20),
        "usual": Planted(speakers=20),
        "shifted": Planted(speakers=20, shift=0.8),
        "inflated": Planted(speakers=20, inflation=2.0),
    }
    known, trials = truths(plan, centroids_of(plan, 10, 0.5)), 60
    names = ("systematic_error", "accuracy_gap", "random_error", "variance_ratio", "centroid_shift")
    ends: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for seed in range(trials):
        draft = audited(drawn(plan, seed), seed, tmp_path)
        for name in names:
            for group, row in rows(draft, name).items():
                assert row.low is not None and row.high is not None
                ends.setdefault((name, group), []).append((row.low, row.value, row.high))
    assert len(ends) == len(names) * len(plan)
    missed = Counter[str]()
    for (name, group), met in ends.items():
        low, value, high = np.array(met).T
        truth = known[group].get(name, value.mean())
        out = int(((truth < low) | (high < truth)).sum())
        assert out <= at_most(0.05, trials), (name, group, out)
        missed[name] += out
        error = np.std(value, ddof=1) / np.sqrt(trials)
        # The root of a small square is not free of bias.
        assert name == "centroid_shift" or abs(value.mean() - truth) <= 4 * error, (name, group)
    for name in ("systematic_error", "accuracy_gap", "random_error", "variance_ratio"):
        assert missed[name] >= 3, f"{name} is hardly ever missed: too wide"


@pytest.mark.slow
def test_seldom_is_an_error_found_where_there_is_none(tmp_path: Path) -> None:
    plan = {name: Planted(speakers=speakers) for name, speakers in zip("abcd", (30, 25, 20, 15), strict=True)}
    found, trials = Counter[str](), 30
    for seed in range(trials):
        draft = audited(drawn(plan, seed, layers=4), seed, tmp_path)
        found["corrected"] += any(finding.id in ERRORS for finding in draft.findings)
        found["without"] += any(
            (row.low or 0) > null
            for name, null in (("systematic_error", 0.0), ("variance_ratio", 1.0))
            for row in draft.estimates
            if row.name == name
        )
    allowed = at_most(0.03, trials)
    assert found["corrected"] <= allowed
    assert found["without"] > allowed + 2, "a broken correction would not be noticed"
