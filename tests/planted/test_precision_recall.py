"""Does the audit of generated texts tell what was planted: kinds missing, junk, copies, a sweep, or nothing at all?

Texts are points around centres far apart, as many around each, so that it is known who can lie near whom.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chance import at_most
from headlines import says
from numpy.typing import NDArray

from audits.core.context import Cache, Claim, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.precision_recall import AUDIT, Options
from probes.core.errors import InputError

Floats = NDArray[np.float64]
KINDS, WIDTH, REFERENCE, CANDIDATE = 8, 6, 800, 400
CENTRES = 100 * np.eye(KINDS, WIDTH + KINDS)[:, :WIDTH] + 30 * np.arange(KINDS)[:, None]
FAR = np.full(WIDTH, 5000.0)
SHOWN = ("precision", "recall", "density", "coverage")


def texts(rng: np.random.Generator, count: int, *, kinds: int = KINDS, spread: float = 1.0) -> Floats:
    """Draw texts, as many of each of the first kinds."""
    return CENTRES[np.arange(count) % kinds] + spread * rng.normal(size=(count, WIDTH))


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs the audit on embeddings."""

    folder: Path

    def audit(
        self,
        reference: Floats,
        candidates: Mapping[str, Floats],
        *,
        heat: Mapping[str, float] | None = None,
        seed: int = 0,
        **asked: Any,
    ) -> Draft:
        for name, vectors in {"reference": reference, **candidates}.items():
            np.savez(self.folder / f"{name}.npz", embeddings=vectors.astype(np.float32))
        options = Options(
            reference=self.folder / "reference.npz",
            candidate=tuple(f"{name}={self.folder / name}.npz" for name in candidates),
            temperature=tuple(f"{name}={value}" for name, value in (heat or {}).items()),
            curves=False,
            **{"repeats": 2, "splits": 40, **asked},
        )
        context = Context(cache=Cache(self.folder / "cache"), seed=seed)
        return drafted(AUDIT, options, context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def row(draft: Draft, name: str, **where: str | int) -> Estimate:
    (found,) = [one for one in draft.estimates if one.name == name and where.items() <= one.where.items()]
    return found


def difference(draft: Draft, candidate: str, metric: str, against: str = "ceiling") -> Estimate:
    return row(draft, "difference", candidate=candidate, metric=metric, against=against)


def told(draft: Draft, name: str, candidate: str | None = None) -> list[Claim]:
    return [
        one
        for one in draft.findings
        if one.id == f"texts.{name}" and (candidate is None or one.where["candidate"] == candidate)
    ]


def test_kinds_that_a_model_never_writes_are_missed_in_recall_and_coverage_alone(bench: Bench) -> None:
    rng = np.random.default_rng(1)
    written = 5
    draft = bench.audit(
        texts(rng, REFERENCE),
        {"fair": texts(rng, CANDIDATE), "narrow": texts(rng, CANDIDATE, kinds=written)},
    )
    assert not told(draft, "below-ceiling", "fair")
    (short,) = told(draft, "below-ceiling", "narrow")
    assert short.severity == "high" and "in diversity:" in says(short)
    for metric in ("recall", "coverage"):
        # Of the kinds that it writes a narrow candidate has more texts than the reference has.
        ceiling, own = row(draft, "ceiling", metric=metric), row(draft, metric, candidate="narrow")
        assert own.low is not None and own.high is not None
        assert own.low < ceiling.value * written / KINDS < own.high < written / KINDS + 0.1
        apart = difference(draft, "narrow", metric)
        assert (apart.high or 0) < -0.25 and apart.value == pytest.approx(own.value - ceiling.value)
    for metric in ("precision", "density"):
        apart = difference(draft, "narrow", metric)
        assert apart.low is not None and apart.high is not None and apart.low < 0 < apart.high
    (missed,) = told(draft, "uncovered")
    assert int(says(missed).split()[0]) <= 0.1 * REFERENCE, "the fair candidate reaches what the narrow one misses"
    missing = [
        one["verdict"]
        for one in draft.records
        if one["candidate"] == "narrow" and one["side"] == "reference" and (int(one["place"]) - 1) % KINDS >= written
    ]
    assert len(missing) > 100 and set(missing) == {"unreached"}


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_share_of_junk_is_what_precision_lacks_of_1(bench: Bench, share: float) -> None:
    rng = np.random.default_rng(2)
    junk = round(share * CANDIDATE)
    spoilt = texts(rng, CANDIDATE)
    spoilt[rng.permutation(CANDIDATE)[:junk]] = FAR + rng.normal(size=(junk, WIDTH))
    # Balls that reach to the tenth neighbour hold nearly all texts that are alike.
    draft = bench.audit(texts(rng, REFERENCE), {"spoilt": spoilt}, k=("10",))
    own = row(draft, "precision", candidate="spoilt")
    assert own.low is not None and own.high is not None and own.low < 1 - share < own.high < 1 - share / 2
    (short,) = told(draft, "below-ceiling", "spoilt")
    assert "in quality" in says(short) and re.search("precision (lower )?by", says(short))
    assert (difference(draft, "spoilt", "density").high or 0) < 0
    # Good texts are fewer, which costs hardly anything.
    for metric in ("recall", "coverage"):
        assert (difference(draft, "spoilt", metric).low or 0) > -0.02
    (outside,) = told(draft, "outside", "spoilt")
    assert junk <= int(says(outside).split()[0]) <= junk + 0.02 * CANDIDATE
    apart = [one for one in draft.records if one["side"] == "generated" and one["verdict"] == "outside"]
    assert sum(float(one["distance"]) > 1000 for one in apart) == junk


def copied(rng: np.random.Generator, kinds: int, distinct: int) -> Floats:
    """Draw distinct texts and fill up with copies of them."""
    once = texts(rng, distinct, kinds=kinds)
    return np.concatenate([once, once[rng.integers(distinct, size=CANDIDATE - distinct)]])


@pytest.mark.parametrize("duplicates", ["distinct", "keep"])
def test_a_collapse_to_copies_of_some_kinds_is_found_and_recall_is_lower(bench: Bench, duplicates: str) -> None:
    rng = np.random.default_rng(3)
    kinds, distinct = 4, 160
    draft = bench.audit(
        texts(rng, REFERENCE),
        {"copied": copied(rng, KINDS, distinct), "collapsed": copied(rng, kinds, distinct)},
        duplicates=duplicates,
    )
    for name in ("copied", "collapsed"):
        rate = row(draft, "duplicates", candidate=name)
        assert rate.value == pytest.approx(1 - distinct / CANDIDATE)
        assert rate.low is not None and rate.high is not None and rate.low < rate.value < rate.high
        (collapse,) = told(draft, "mode-collapse", name)
        assert collapse.severity == "high" and "copies of an earlier one" in says(collapse)
        assert (difference(draft, name, "coverage").high or 0) < 0
    assert row(draft, "duplicates", candidate="reference").value == 0
    ceiling, collapsed = row(draft, "ceiling", metric="recall"), row(draft, "recall", candidate="collapsed")
    assert (collapsed.high or 1) < (row(draft, "recall", candidate="copied").low or 0)
    assert (difference(draft, "collapsed", "recall").high or 0) < -0.3
    apart = difference(draft, "copied", "recall")
    if duplicates == "distinct":
        # Balls that reach past copies are those of the distinct texts, which are of all kinds.
        assert collapsed.value == pytest.approx(ceiling.value * kinds / KINDS, abs=0.05)
        assert apart.low is not None and apart.high is not None and apart.low < 0 < apart.high
    else:
        # Balls around texts with copies have no size.
        assert (apart.high or 0) < -0.1 and collapsed.value < 0.45


@pytest.mark.slow
def test_seldom_is_anything_said_of_candidates_that_are_as_the_reference(bench: Bench) -> None:
    found, trials = Counter[str](), 20
    for seed in range(trials):
        rng = np.random.default_rng((4, seed))
        draft = bench.audit(
            texts(rng, 240, kinds=2),
            {name: texts(rng, 120, kinds=2) for name in ("first", "second", "third")},
            seed=seed,
            repeats=1,
            splits=20,
        )
        found["below"] += bool(told(draft, "below-ceiling"))
        found["dominates"] += bool(told(draft, "dominates"))
        found["quiet"] += bool(told(draft, "no-shortfall"))
        rows = [one for one in draft.estimates if one.name == "difference" and one.where["metric"] in SHOWN]
        p_values = [one for one in draft.estimates if one.name == "p_value" and one.where["metric"] in SHOWN]
        assert len(rows) == len(p_values) == len(SHOWN) * (3 + 3)
        for metric in SHOWN:
            found[metric] += any(one.value < 0.05 for one in p_values if one.where["metric"] == metric)
        found["without"] += any(not (one.low or 0) <= 0 <= (one.high or 0) for one in rows)
        found["missed"] += sum(not (one.low or 0) <= 0 <= (one.high or 0) for one in rows)
    # All shortfalls of a run are one family, corrected after Holm, and so are the pairs of one metric.
    assert found["below"] <= at_most(0.05, trials)
    assert found["dominates"] <= at_most(0.05, trials)
    for metric in SHOWN:
        # Pairs, and this metric's part of the shortfalls.
        assert found[metric] <= at_most(2 * 0.05, trials), metric
    assert found["without"] > at_most(len(SHOWN) * 0.05, trials), "a broken correction would not be noticed"


def in_groups(rng: np.random.Generator, groups: int, members: int, *, of: int) -> Floats:
    """Draw as many texts around each of the first centres, of so many that all sides share."""
    centres = 100 * np.random.default_rng(20).normal(size=(of, WIDTH))[:groups]
    return np.repeat(centres, members, axis=0) + rng.normal(size=(groups * members, WIDTH))


def test_of_texts_in_groups_hardly_larger_than_k_no_difference_is_told(bench: Bench) -> None:
    rng = np.random.default_rng(8)
    # Draws take half of the reference: ten texts of a group.
    made = {"fair": in_groups(rng, 20, 10, of=20), "narrow": in_groups(rng, 10, 20, of=20)}
    draft = bench.audit(in_groups(rng, 20, 20, of=20), made)
    (grouped,) = told(draft, "grouped")
    assert grouped.severity == "medium" and "judge reference, fair: groups are hardly larger than k" in says(grouped)
    assert [one.message for one in draft.warnings if one.id == "grouped"] == [grouped.statement]
    assert not [one for name in ("below-ceiling", "dominates", "no-shortfall") for one in told(draft, name)]
    # Which is not for want of a difference.
    assert (difference(draft, "narrow", "recall").high or 0) < -0.3


def test_texts_in_large_groups_are_compared(bench: Bench) -> None:
    rng = np.random.default_rng(8)
    made = {"fair": in_groups(rng, 5, 50, of=5), "narrow": in_groups(rng, 2, 125, of=5)}
    draft = bench.audit(in_groups(rng, 5, 100, of=5), made)
    assert not told(draft, "grouped") and "grouped" not in {one.id for one in draft.warnings}
    (short,) = told(draft, "below-ceiling")
    assert (
        short.where == {"candidate": "narrow"}
        and "diversity:" in says(short)
        and re.search("recall (lower )?by", says(short))
    )


def test_vectors_too_long_for_float32_squares_are_compared_once_they_have_unit_length(bench: Bench) -> None:
    rng = np.random.default_rng(11)
    sides = texts(rng, 200), texts(rng, 100, kinds=6)
    found = []
    for scale in (1.0, 1e25, 1e-25):
        draft = bench.audit(scale * sides[0], {"one": scale * sides[1]}, normalisation="unit", splits=10)
        found.append([row(draft, metric, candidate="one").value for metric in SHOWN])
    assert found[1] == pytest.approx(found[0], abs=0.01) and found[2] == pytest.approx(found[0], abs=0.01)
    with pytest.raises(InputError, match="float32 does not hold their squares"):
        bench.audit(1e25 * sides[0], {"one": 1e25 * sides[1]})


NOT_LOWER = ("the hottest of the sweep.", "is not shown to be lower at any hotter one.")
HEAT = {"cold": 0.5, "warm": 1.0, "hot": 1.5}


def sweep_of(rng: np.random.Generator, **how: Mapping[str, Any]) -> dict[str, Floats]:
    return {name: texts(rng, CANDIDATE, **how.get(name, {})) for name in HEAT}


def test_a_sweep_that_narrows_below_1_and_blurs_above_is_told_so(bench: Bench) -> None:
    rng = np.random.default_rng(5)
    made = sweep_of(rng, cold={"kinds": 4, "spread": 0.8}, hot={"spread": 1.6})
    draft = bench.audit(texts(rng, REFERENCE), made, heat=HEAT)
    (density,) = told(draft, "density-falls")
    assert density.severity == "low" and density.statement.startswith("Density has its largest value at T = 0.5,")
    assert "is lower at T = 1:" in says(density)
    (recall,) = told(draft, "recall-by-temperature")
    # Blurred texts have wide balls, which reach everything.
    assert "Recall is above its value at T = 1," in says(recall) and "at T = 1.5 by" in says(recall)
    assert "Coverage is lower at T = 1.5: that recall is of wide balls" in says(recall)
    (blurred,), (narrow,) = told(draft, "below-ceiling", "hot"), told(draft, "below-ceiling", "cold")
    assert "in quality:" in says(blurred) and "in diversity:" in says(narrow)
    assert "Its coverage may be lower because texts lie elsewhere" in says(blurred)
    assert not told(draft, "below-ceiling", "warm") and not told(draft, "dominates")


def test_recall_that_heat_buys_is_told_and_hot_texts_of_more_kinds_have_no_lower_coverage(bench: Bench) -> None:
    rng = np.random.default_rng(6)
    made = sweep_of(rng, cold={"kinds": 2}, warm={"kinds": 5})
    draft = bench.audit(texts(rng, REFERENCE), made, heat=HEAT)
    (recall,) = told(draft, "recall-by-temperature")
    gain = difference(draft, "warm", "recall", against="hot")
    assert "Recall is above its value at T = 1," in says(recall) and "at T = 1.5 by" in says(recall)
    assert "Coverage" not in says(recall)
    assert gain.low is not None and gain.high is not None and gain.low < -3 / KINDS < gain.high
    (density,) = told(draft, "density-falls")
    assert density.severity == "info" and density.statement.endswith(NOT_LOWER)


def test_where_nothing_is_shown_to_be_above_1_the_lower_temperatures_are_named(bench: Bench) -> None:
    rng = np.random.default_rng(7)
    draft = bench.audit(texts(rng, REFERENCE), sweep_of(rng, cold={"kinds": 5}), heat=HEAT)
    (recall,) = told(draft, "recall-by-temperature")
    assert says(recall).startswith("Recall is at no other temperature shown to be above its value at T = 1,")
    assert recall.statement.endswith("Recall is below that at T = 0.5.")


def test_a_sweep_without_effect_shows_nothing(bench: Bench) -> None:
    rng = np.random.default_rng(12)
    draft = bench.audit(texts(rng, REFERENCE), sweep_of(rng), heat=HEAT)
    (recall,), (density,) = told(draft, "recall-by-temperature"), told(draft, "density-falls")
    assert recall.severity == density.severity == "info"
    assert "at no other temperature" in says(recall) and "below" not in says(recall)
    assert density.statement.endswith(NOT_LOWER)
    assert not told(draft, "below-ceiling") and not told(draft, "dominates")
    assert "cold, warm and hot" in says(told(draft, "no-shortfall")[0])


def test_what_is_better_in_both_dominates(bench: Bench) -> None:
    rng = np.random.default_rng(9)
    worse = texts(rng, CANDIDATE, kinds=5)
    worse[::4] = FAR + rng.normal(size=(len(worse[::4]), WIDTH))
    draft = bench.audit(texts(rng, REFERENCE), {"worse": worse, "better": texts(rng, CANDIDATE)})
    (dominates,) = told(draft, "dominates")
    assert says(dominates).startswith("better exceeds worse in recall and in precision, there by ")


def test_scaled_shifted_or_rotated_embeddings_have_the_same_scores(bench: Bench) -> None:
    rng = np.random.default_rng(10)
    reference, candidate = texts(rng, REFERENCE), texts(rng, CANDIDATE, kinds=6, spread=1.2)
    turn, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    changes = {
        "as they are": lambda vectors: vectors,
        "scaled": lambda vectors: 0.01 * vectors,
        "shifted": lambda vectors: vectors + 300,
        "rotated": lambda vectors: vectors @ turn,
    }
    found = {}
    for name, change in changes.items():
        draft = bench.audit(change(reference), {"candidate": change(candidate)}, splits=10)
        found[name] = {
            (one.name, tuple(one.where.items())): (one.value, one.low, one.high)
            for one in draft.estimates
            if one.name in (*SHOWN, "f1", "clipped_density", "clipped_coverage", "ceiling", "difference", "hubness")
        }
        assert len(found[name]) > 20
    for name, rows in found.items():
        for key, values in rows.items():
            # Rounding to 32 bits may move one text across the edge of a ball.
            assert values == pytest.approx(found["as they are"][key], abs=0.01), (name, key)


def test_without_a_ceiling_what_is_precise_but_less_diverse_is_found(bench: Bench) -> None:
    rng = np.random.default_rng(14)
    # Of few kinds, so that halves of a kind are larger than k.
    made = {"fair": texts(rng, 88, kinds=3), "narrow": texts(rng, 88, kinds=2)}
    draft = bench.audit(texts(rng, 88, kinds=3), made)
    (short,) = told(draft, "below-relabelled")
    assert short.where == {"candidate": "narrow"} and short.severity in ("medium", "high")
    assert "in diversity: " in short.headline and "recall" in says(short)
    assert short.statement.endswith("So narrow is less diverse, not shown to be less precise.")
    assert "That is of fair against a set of the reference's" in says(told(draft, "no-shortfall")[0])
    for name in made:
        for metric in SHOWN:
            would_be, own = row(draft, "relabelled", candidate=name, metric=metric), row(draft, metric, candidate=name)
            apart = difference(draft, name, metric, against="relabelled")
            assert would_be.low is not None and would_be.low < would_be.value
            assert apart.value == pytest.approx(own.value - would_be.value)
    # Of one source coverage is known, and so it is met.
    would_be, known = row(draft, "relabelled", candidate="fair", metric="coverage"), row(draft, "expected_coverage")
    assert would_be.value == pytest.approx(known.value, abs=0.01)


def test_a_reference_of_40_texts_has_a_verdict_too(bench: Bench) -> None:
    rng = np.random.default_rng(14)
    spoilt = texts(rng, 40, kinds=2)
    # Junk that is no group, which would reach into the others in halves.
    spoilt[::2] = FAR + 500 * rng.normal(size=(20, WIDTH))
    draft = bench.audit(texts(rng, 40, kinds=2), {"spoilt": spoilt, "fair": texts(rng, 40, kinds=2)}, k=("3",))
    (short,) = told(draft, "below-relabelled")
    assert short.where == {"candidate": "spoilt"} and "in quality" in says(short)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "k", "trials"), [((40, 40), 3, 30), ((88, 88), 5, 25), ((60, 70), 5, 5)])
def test_seldom_is_anything_said_of_small_sets_of_one_source(
    sizes: tuple[int, int], k: int, trials: int, bench: Bench
) -> None:
    alarms = 0
    for seed in range(trials):
        rng = np.random.default_rng((15, seed))
        made = {"one": rng.normal(size=(sizes[1], WIDTH))}
        draft = bench.audit(rng.normal(size=(sizes[0], WIDTH)), made, k=(str(k),), seed=seed, splits=20)
        assert "no-controls" in {one.id for one in draft.warnings}
        assert {one.where["against"] for one in draft.estimates if one.name == "p_value"} >= {"relabelled"}
        alarms += any(one.severity != "info" for one in draft.findings)
    assert alarms <= at_most(0.05, trials)


def test_without_a_ceiling_a_candidate_of_one_text_has_no_verdict_and_is_not_called_quiet(bench: Bench) -> None:
    rng = np.random.default_rng(16)
    same = np.repeat(texts(rng, 1), 60, axis=0)
    draft = bench.audit(texts(rng, 60, kinds=2), {"same": same, "fair": texts(rng, 60, kinds=2)})
    assert not told(draft, "below-relabelled") and told(draft, "mode-collapse", "same")
    assert "it has no verdict" in " ".join(one.message for one in draft.warnings if one.id == "too-few-distinct")
    assert "No shortfall of fair is shown" in says(told(draft, "no-shortfall")[0])


def test_without_a_ceiling_texts_that_all_lie_elsewhere_fall_short_though_no_half_differs(bench: Bench) -> None:
    rng = np.random.default_rng(17)
    made = {"far": rng.normal(size=(60, WIDTH)) + FAR}
    draft = bench.audit(rng.normal(size=(60, WIDTH)), made)
    (short,) = told(draft, "below-relabelled")
    assert short.severity == "high" and re.search("precision (lower )?by", says(short))
    assert row(draft, "precision", candidate="far").value == 0
