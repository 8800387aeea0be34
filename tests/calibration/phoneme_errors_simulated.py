"""Phone tokens of `miles audit-phonemes` beside what is true of them: four phones in three dimensions, three groups.

A speaker is a unit of a world. The size is how much was said, five of a world's trials being one token; a token
scatters by a variance that rises with the speaker's rate, so that groups of one pooled rate have one pooled variance.
The phones are the corners of a tetrahedron, alike in every respect.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context, Draft
from audits.core.records import Estimate
from audits.phoneme_errors import AUDIT, Options
from audits.phoneme_errors.corpus import corpus_of
from audits.phoneme_errors.estimates import estimates
from audits.phoneme_errors.findings import findings
from audits.phoneme_errors.layers import measure_layers
from audits.phoneme_errors.measure import Counts
from audits.phoneme_errors.tokens import Tokens
from audits.phoneme_errors.values import TRAININGS
from calibration.checks import Case, Outcomes, held
from calibration.worlds import Floats, Group, groups_of

GROUPS, MARKED = 3, 1
"""The marked group is the odd one, which gives the world its name; what is planted is planted there."""
NAME = f"group=g{MARKED}"
SHIFTED, NOISY, ALIKE = "shifted", "noisy", "all scatter alike"
FEWEST, EACH = 5, 5
PLACES = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
BETWEEN, WITHIN, RISES = 0.3, 0.7, 4.0
"""Standard deviations of a speaker's own offset of a phone and of its tokens, and by how much their square rises."""
TURN, NOISE = np.pi / 4, 2.0
"""Angle by which the marked group's phones are turned, and the factor of its variances, where they are planted."""
PILOT = Path(__file__).with_name("phoneme_errors_truths.json")
LARGEST = 60
_MANY = 40_000


@dataclass(frozen=True, slots=True)
class Held:
    """Vectors in memory, shape (tokens, width)."""

    values: NDArray[np.float32]

    @property
    def layers(self) -> tuple[int, ...]:
        """One set of numbers."""
        return (0,)

    def width(self, layer: int) -> int:
        """Numbers of a vector."""
        return int(self.values.shape[1])

    def chunks(self, layer: int, size: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors, at most so many at once."""
        for start in range(0, len(self.values), size):
            yield self.values[start : start + size]


def said(group: Group) -> NDArray[np.int64]:
    """Return how many tokens each speaker of a group says."""
    return np.maximum(np.rint(group.sizes / EACH), 1).astype(np.int64)


def variances(case: Case, rates: Floats) -> Floats:
    """Return the variance of one dimension of a speaker's tokens of one phone."""
    return WITHIN**2 * (1 + RISES * rates * (case.effect != ALIKE))


def draw(case: Case, rng: np.random.Generator) -> tuple[list[Group], Tokens, Tokens]:
    """Draw the tokens of all groups as two encoders place them, alike in truth."""
    groups = groups_of(case.world, case.units, rng, [0.0] * GROUPS)
    numbers = [said(group) for group in groups]
    spoken = np.concatenate(numbers)
    speaker = np.repeat(np.arange(len(spoken)), spoken)
    group = np.repeat(np.arange(GROUPS), [number.sum() for number in numbers])
    # In turn, from a phone that is drawn: all are as frequent.
    within = np.arange(len(speaker)) - np.repeat(np.cumsum(spoken) - spoken, spoken)
    phones = (rng.integers(0, len(PLACES), len(spoken))[speaker] + within) % len(PLACES)
    marked = group == MARKED
    places = PLACES[phones]
    if case.effect == SHIFTED:
        turn = np.array([[np.cos(TURN), -np.sin(TURN), 0], [np.sin(TURN), np.cos(TURN), 0], [0, 0, 1]])
        places = np.where(marked[:, None], places @ turn.T, places)
    spread = np.sqrt(variances(case, np.concatenate([one.rates for one in groups])))[speaker][:, None]
    louder = np.where(marked & (case.effect == NOISY), np.sqrt(NOISE), 1.0)[:, None]
    both = []
    for _ in range(2):
        offsets = rng.normal(0, BETWEEN, (len(spoken), *PLACES.shape))[speaker, phones]
        vectors = places + louder * (offsets + spread * rng.normal(size=places.shape))
        both.append(_tokens(phones, speaker, group, len(spoken), vectors))
    return groups, both[0], both[1]


def _tokens(
    phones: NDArray[np.int64], speaker: NDArray[np.int64], group: NDArray[np.int64], people: int, vectors: Floats
) -> Tokens:
    return Tokens(
        phones=phones,
        phone_names=tuple(f"p{number}" for number in range(len(PLACES))),
        speakers=speaker,
        speaker_names=tuple(f"s{number:03d}" for number in range(people)),
        levels={"group": group},
        level_names={"group": tuple(f"g{number}" for number in range(GROUPS))},
        vectors=Held(vectors.astype(np.float32)),
        features=(),
        given=len(phones),
        skipped={},
        lines=np.arange(len(phones)),
        sha256="",
        notes=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One run: what it reports, and what it counted."""

    draft: Draft
    counts: Counts


def audited(case: Case, rng: np.random.Generator, *, alone: bool = False) -> Audited:
    """Measure, estimate, compare and judge as a run on two files of these tokens does, or on the first alone."""
    groups, *encoders = draw(case, rng)
    options = Options(
        tokens="a.npz", against="b.npz", by=("group",), probe="discriminant", repeats=2, bootstrap=200,
        permutations=200, min_speakers=min(case.units, 10), min_tokens=2, folds=3,
    )  # fmt: skip
    # Nothing is written: every data set is another, and no two have a name in common.
    cache: Any = SimpleNamespace(read=lambda kind, key: None, write=lambda kind, key, value: None)
    context = Context(seed=int(rng.integers(2**31)), level=case.level, cache=cache)
    corpus = corpus_of(encoders[0], options)
    draft = Draft(level=context.level, seed=context.seed, measures=AUDIT.by_name)
    first, *second = (
        measure_layers(one.vectors, (0,), corpus, "discriminant", "", options, context) for one in encoders[: 2 - alone]
    )
    aligned = tuple(_heard(groups, rng))
    counts = Counts(options=options, corpus=corpus, first=first, second=second[0] if second else (), aligned=aligned)
    estimates(draft, counts)
    findings(draft, counts)
    return Audited(draft=draft, counts=counts)


def _heard(groups: list[Group], rng: np.random.Generator) -> Any:
    """Return recordings of all speakers with the errors that an aligner made in their transcripts."""
    found, first = [], 0
    for place, group in enumerate(groups):
        unit, words, errors = group.trials(rng)
        for who, length, wrong in zip(unit, words, errors[:, 0], strict=True):
            clip = SimpleNamespace(speaker=f"s{first + who:03d}", attributes={"group": f"g{place}"})
            found.append(SimpleNamespace(clip=clip, errors=wrong, length=length))
        first += len(group.rates)
    return found


# What is true


@cache
def law(world: str, units: int) -> tuple[Group, Group]:
    """Return many speakers of a calm group and of the odd one."""
    rng = np.random.default_rng(6)
    drawn = [groups_of(world, units, rng) for _ in range(_MANY // units)]
    calm, odd = (
        Group(
            rates=np.concatenate([one[side].rates for one in drawn]),
            sizes=np.concatenate([one[side].sizes for one in drawn]),
            estimand=drawn[0][side].estimand,
            words=0.0,
        )
        for side in (0, 1)
    )
    return calm, odd


def within(case: Case, group: Group) -> float:
    """Return the variance of one speaker's tokens of a phone, each speaker weighing by the pairs of tokens."""
    tokens = said(group)
    least, more = tokens // len(PLACES), tokens % len(PLACES) / len(PLACES)
    weights = (1 - more) * np.maximum(least - 1, 0) + more * least
    return float(weights @ variances(case, group.rates) / weights.sum()) if weights.any() else np.nan


@cache
def truths(world: str, units: int, effect: str) -> Mapping[str, float]:
    """Return what is true of variances and shifts of the marked group, those of all groups being one."""
    case = Case(world=world, units=units, level=0.95, effect=effect)
    calm, odd = law(world, units)
    variance = float(variances(case, np.array([odd.estimand]))[0]) + BETWEEN**2
    total = variance + 1.0
    apart = 8 * np.sin(TURN / 2) ** 2 if effect == SHIFTED else 0.0
    louder = NOISE if effect == NOISY else 1.0
    rng = np.random.default_rng(7)
    spread = np.sqrt(variances(case, odd.rates) + BETWEEN**2)[:, None]
    tokens = PLACES[0] + spread * rng.normal(size=(len(spread), 3))
    weights = said(odd) / said(odd).sum()
    middle = weights @ (tokens / np.linalg.norm(tokens, axis=1, keepdims=True))
    return {
        "random_error": variance / total,
        "random_error_within_speakers": within(case, odd) / total,
        "random_error_cosine": float(1 - middle @ middle),
        "variance_ratio": louder,
        "variance_ratio_within_speakers": louder * within(case, odd) / within(case, calm),
        "scatter_minus_shift": float(-apart / 3 / total),
        "centroid_shift": float(np.sqrt(apart / variance)),
        "alignment_error_rate": odd.estimand,
        **_read(world, units),
    }


@cache
def _pilots() -> Mapping[str, Mapping[str, float]]:
    found: Mapping[str, Mapping[str, float]] = json.loads(PILOT.read_text(encoding="utf-8"))
    return found


def _read(world: str, units: int) -> Mapping[str, float]:
    """Return accuracies and correlations, which hang on the probe: pooled over data sets of their own."""
    mine, largest = (_pilots().get(f"{world}/{count}", {}) for count in (units, LARGEST))
    # A rank correlation of few is not free of bias: the truth is that of most speakers.
    return {**mine, **{name: value for name, value in largest.items() if name.endswith("correlation")}}


def pilot(world: str, units: int, count: int) -> dict[str, float]:
    """Return accuracies pooled over so many data sets, their differences, and mean correlations."""
    case = Case(world=world, units=units, level=0.95)
    rng = np.random.default_rng([8, units, *world.encode()])
    sums, correlations = dict[str, Floats](), dict[str, list[float]]()
    for _ in range(count):
        run = audited(case, rng, alone=True)
        values = run.counts.first[0]
        for training in (*TRAININGS, "rest"):
            right, trials = (
                values.tokens(NAME, "all_matched", rest=True) if training == "rest" else values.tokens(NAME, training)
            )
            sums[training] = sums.get(training, np.zeros(2)) + np.array([right.sum(), trials.sum()])
        for row in run.draft.estimates:
            if row.name.endswith("_correlation") and row.where["unit"] == "speaker":
                key = f"{row.where['partial']} {row.name}"
                correlations.setdefault(key, []).append(row.value)
    share = {training: float(right / trials) for training, (right, trials) in sums.items()}
    systematic, remaining = share["in"] - share["all_matched"], share["rest"] - share["in"]
    return {
        **{f"accuracy {training}": share[training] for training in TRAININGS},
        "systematic_error": systematic,
        "own_data_gain": share["in"] - share["all"],
        "accuracy_gap": share["rest"] - share["all_matched"],
        "remaining_gap": remaining,
        "systematic_minus_remaining": systematic - remaining,
        **{key: float(np.mean(rows)) for key, rows in correlations.items()},
    }


# How often it is held


def simulate(case: Case, rng: np.random.Generator) -> Outcomes:
    """Audit one data set and hold every number and sentence against the truth."""
    if case.units < FEWEST:
        return {}
    draft = audited(case, rng).draft
    known = truths(case.world, case.units, case.effect)
    found: dict[str, bool | None] = {}
    for training in TRAININGS:
        for name in ("accuracy", "against_accuracy"):
            at = known[f"accuracy {training}"]
            found[f"{name}[training={training}]"] = held(_row(draft, name, training=training), at)
        change = _row(draft, "accuracy_difference", training=training)
        found[f"accuracy_difference[training={training}]"] = held(change, 0.0)
    for name in PLAIN:
        truth = 0.0 if name.endswith("_difference") else known[name.removeprefix("against_")]
        found[name] = held(_row(draft, name), truth) if np.isfinite(truth) else None
    for name in ("variance_accuracy_correlation", "split_correlation"):
        for partial in ("no", "yes"):
            row = _row(draft, name, unit="speaker", partial=partial)
            truth = 0.0 if case.effect == ALIKE else known[f"{partial} {name}"]
            found[f"{name}[partial={partial}]"] = held(row, truth)
    ids = {(item.id, item.where.get("group")) for item in draft.findings}
    told = {id for id, _ in ids}
    for kind in ("systematic", "random", "both"):
        found[f"phonemes.{kind}"] = f"phonemes.{kind}" in told
    for test in ("random", "split"):
        more = {"group": NAME} if test == "random" else {"partial": "no"}
        row = _row(draft, "p_value", test=test, correction="none", **more)
        found[f"p_value[test={test},correction=none]"] = None if row is None else row.value <= 1 - case.level
    said = [item.headline for item in draft.findings if item.id == "phonemes.correlation"]
    found["phonemes.correlation"] = not said[0].startswith("No relation") if said else None
    found["phonemes.moved"] = "phonemes.moved" in told
    both = ("phonemes.both", NAME) in ids
    found["phonemes.systematic found"] = both or ("phonemes.systematic", NAME) in ids
    found["phonemes.random found"] = both or ("phonemes.random", NAME) in ids
    return found


PLAIN = (
    *("systematic_error", "own_data_gain", "accuracy_gap", "remaining_gap", "systematic_minus_remaining"),
    *("random_error", "random_error_within_speakers", "random_error_cosine", "variance_ratio"),
    *("variance_ratio_within_speakers", "scatter_minus_shift", "centroid_shift", "alignment_error_rate"),
    *("against_systematic_error", "against_random_error", "against_variance_ratio"),
    *("systematic_error_difference", "random_error_difference", "variance_ratio_difference"),
)
"""Estimates of the marked group that have no other coordinate."""


def _row(draft: Draft, name: str, **where: str) -> Estimate | None:
    wanted = {"group": NAME, **where} if "unit" not in where and "test" not in where else where
    rows = (row for row in draft.estimates if row.name == name)
    return next((row for row in rows if all(row.where.get(key) == value for key, value in wanted.items())), None)


def main() -> None:
    """Add the truths that hang on the probe and are not there yet, from as many data sets as are asked for."""
    import sys

    from calibration.worlds import WORLDS

    found = json.loads(PILOT.read_text(encoding="utf-8")) if PILOT.is_file() else {}
    for units in (20, 60, 5, 10):
        for world in WORLDS:
            if f"{world}/{units}" not in found:
                values = pilot(world, units, int(sys.argv[1]))
                found[f"{world}/{units}"] = {key: round(value, 6) for key, value in values.items()}
                PILOT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
