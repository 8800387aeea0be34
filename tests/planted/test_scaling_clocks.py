"""Planted clocks a + b n^p: true claims are kept, false ones refuted, and what cannot be told is left open."""

from fractions import Fraction

import numpy as np
import pytest

from audits.scaling.claim_verdicts import Verdict, verdict
from audits.scaling.growth_claims import Law
from audits.scaling.growth_counts import count_exponent
from audits.scaling.growth_fits import seconds_excess

SIZES = 16 * 2.0 ** np.arange(8)
LAWS = [Law(1), Law(Fraction(4, 3)), Law(Fraction(3, 2)), Law(2)]


def clock(law: Law, overhead: float = 0.0, noise: float = 0.03, rounds: int = 9, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    seconds = overhead + law.values(SIZES) / law.values(SIZES[0])
    drawn = seconds * np.exp(noise * rng.normal(size=(rounds, SIZES.size)))
    return np.asarray(drawn * np.where(rng.random(drawn.shape) < 0.15, rng.uniform(1, 3, drawn.shape), 1.0))


def said(cells: np.ndarray, claim: Law) -> Verdict:
    return verdict(seconds_excess(SIZES, cells, claim, level=0.95, seed=1), claim, 0.15)


@pytest.mark.parametrize("law", LAWS)
def test_a_true_claim_is_confirmed_and_one_half_a_power_less_refuted(law: Law) -> None:
    cells = clock(law)
    assert said(cells, law) == Verdict("confirmed")
    assert said(cells, Law(law.power - Fraction(1, 2))) == Verdict("refuted")
    assert said(cells, Law(law.power + Fraction(1, 2))) == Verdict("confirmed", slower=True)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("overhead", [10, 100])
@pytest.mark.parametrize("noise", [0.03, 0.15])
def test_overhead_refutes_no_true_claim_and_confirms_no_false_one(law: Law, overhead: float, noise: float) -> None:
    for seed in range(2):
        cells = clock(law, overhead, noise, seed=seed)
        assert said(cells, law).word != "refuted"
        assert said(cells, Law(law.power - Fraction(1, 2))).word != "confirmed"


@pytest.mark.parametrize("claim", [Law(Fraction(1, 2)), Law(1), Law(2)])
@pytest.mark.parametrize("seed", range(3))
def test_growth_below_an_overhead_of_all_sizes_is_not_told(claim: Law, seed: int) -> None:
    assert said(clock(Law(1), overhead=1e5, seed=seed), claim).word == "undecided"


def test_seconds_that_do_not_grow_keep_a_claim_that_they_do_not() -> None:
    assert said(clock(Law(0)), Law(0)).word == "confirmed"
    assert said(clock(Law(1)), Law(0)).word == "refuted"


@pytest.mark.parametrize("seed", range(5))
def test_seconds_never_tell_n_log_n_from_n(seed: int) -> None:
    assert said(clock(Law(1, 1), seed=seed), Law(1)).word != "refuted"
    assert said(clock(Law(1), seed=seed), Law(1, 1)).word != "refuted"


def test_one_round_decides_nothing() -> None:
    assert said(clock(Law(2), rounds=1), Law(1)).word == "undecided"


@pytest.mark.parametrize(
    ("counts", "claim", "word"),
    [
        (lambda n: 64 * n**2 * 4 + 6 * n * 64**2, Law(2), "confirmed"),
        (lambda n: 64 * n**2 * 4 + 6 * n * 64**2, Law(1), "refuted"),
        (lambda n: 4096 * n, Law(1), "confirmed"),
        (lambda n: 4096 * n + n**2, Law(1), "refuted"),
        (lambda n: 160 * n * np.log2(n) + 8 * 64 * n, Law(1), "refuted"),
        (lambda n: 160 * n * np.log2(n) + 8 * 64 * n, Law(1, 1), "confirmed"),
        (lambda n: 64 * 65 * 4 + 0 * n, Law(0), "confirmed"),
        (lambda n: 64 * 65 * 4 + 4 * n, Law(0), "refuted"),
        (lambda n: 4 * np.minimum(n, 512), Law(0), "confirmed"),
        (lambda n: 8 * np.ceil(np.log2(n)), Law(0, 1), "confirmed"),
        (lambda n: 8 * np.ceil(np.sqrt(n)), Law(Fraction(1, 2)), "confirmed"),
    ],
)
def test_counts_of_mixers_are_held_against_their_claims(counts, claim: Law, word: str) -> None:  # type: ignore[no-untyped-def]
    sizes = 256 * 2.0 ** np.arange(9)
    assert verdict(count_exponent(sizes, counts(sizes), claim), claim, 0.15).word == word
