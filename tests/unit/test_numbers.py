"""How a number is written: its interval decides its digits."""

import re
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audits.core.measures import Measure
from audits.core.numbers import (
    ATTAINED,
    LOWER_BOUND,
    RANGE,
    UPPER_BOUND,
    bounded,
    coordinates,
    counted,
    decimals,
    described,
    ends,
    interval,
    is_bound,
    levelled,
    point,
    probability,
    written,
)
from audits.core.records import Estimate
from audits.core.wording import p_words

ROOT = Path(__file__).resolve().parents[2]


def _estimate(value, low=None, high=None, *, method="bootstrap", n=969, unit="speakers", level=0.95) -> Estimate:
    return Estimate(name="rate", value=value, low=low, high=high, method=method, n=n, unit=unit, level=level)


def test_the_form_of_the_house() -> None:
    assert described(_estimate(0.16412, 0.11604, 0.21391)) == "0.164 (0.116 to 0.214), 95 %, 969 speakers"


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.5, 0.1, 0.9, "0.50 (0.10 to 0.90)"),
        (0.123456, 0.1230, 0.1239, "0.12346 (0.12300 to 0.12390)"),
        (12.34, 5.1, 30.2, "12 (5 to 30)"),
        (1234.5, 1100.2, 1400.9, "1234 (1100 to 1401)"),
        (-0.0004, -0.02, 0.05, "0.000 (-0.020 to 0.050)"),
        (3.0, 2.0, 4.0, "3 (2 to 4)"),
        (1.0, 0.92, 1.1, "1.00 (0.92 to 1.10)"),
        (2000000.0, 1500000.0, 2500000.0, "2000000 (1500000 to 2500000)"),
        (0.00012, 0.00010, 0.00015, "0.000120 (0.000100 to 0.000150)"),
    ],
)
def test_two_digits_of_the_interval_decide(value, low, high, expected) -> None:
    assert described(_estimate(value, low, high)).startswith(expected + ",")


def test_exact_and_none_say_so() -> None:
    assert described(_estimate(0.25, method="exact", n=1, unit="models")) == "0.250, exact, 1 model"
    assert described(_estimate(0.0125, method="none")) == "0.0125, no interval, 969 speakers"
    assert interval(_estimate(7.0, method="none")) == "no interval"


def test_an_interval_of_no_width_takes_three_digits() -> None:
    assert described(_estimate(0.031415, 0.031415, 0.031415)).startswith("0.0314 (0.0314 to 0.0314)")


def test_ordinary_sizes_are_never_written_as_powers_of_ten() -> None:
    for exponent in range(-6, 12):
        value = 1.5 * 10.0**exponent
        assert "e" not in described(_estimate(value, 0.9 * value, 1.2 * value)).partition(",")[0]


def test_extreme_sizes_stay_readable() -> None:
    assert point(_estimate(2.5e-12, 2e-12, 3e-12)) == "2.5 x 10^-12"
    assert point(_estimate(3e20, 2e20, 4e20)) == "3 x 10^20"


def test_levels_and_counts() -> None:
    assert ", 99.9 %, " in described(_estimate(0.5, 0.4, 0.6, level=0.999))
    assert counted(20000, "clips") == "20,000 clips"
    assert counted(1, "class") == "1 class"
    assert written(-0.0, 2) == "0.00"


def test_decimals_never_go_below_zero() -> None:
    assert decimals(_estimate(5432.1, 1000.5, 9000.5)) == 0


@given(st.floats(1e-6, 1e6))
def test_a_bound_is_never_written_larger_than_it_is(number: float) -> None:
    text = bounded(number)
    assert 0.98 * number <= float(text) <= number


@given(st.floats(1e-6, 1e6))
def test_an_upper_bound_is_never_written_smaller_than_it_is(number: float) -> None:
    text = bounded(number, up=True)
    assert number <= float(text) <= 1.02 * number


@given(st.floats(1e-30, 1e30), st.integers(1, 6), st.booleans())
def test_bounds_of_any_size_are_rounded_the_safe_way(number: float, digits: int, up: bool) -> None:
    text = bounded(number, digits, up=up)
    shown = float(text.replace(" x 10^", "e"))
    assert "e" not in text and (shown >= number if up else shown <= number)
    assert shown == pytest.approx(number, rel=1.01 * 10.0 ** (1 - digits))


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        (f"{UPPER_BOUND} proved", 1142.4, "1143 (at most; at least 225), 5 layers"),
        (f"{ATTAINED} a slope", 225.97, "225 (attained; at most 1143), 5 layers"),
        (f"{RANGE} by rounding", 500.2, "500 (225 to 1143), 5 layers"),
        ("bootstrap", 500.2, "500 (226 to 1142), 95 %, 5 layers"),
    ],
)
def test_what_was_proved_is_rounded_away_from_the_truth_and_holds_at_no_level(method, value, expected) -> None:
    found = _estimate(value, 225.97, 1142.4, method=method, n=5, unit="layers")
    assert described(found) == expected
    assert levelled(found) == expected.partition("(")[2].partition(")")[0] + ", 95 %" * ("95" in expected)


def test_nothing_is_said_to_be_attained_where_nothing_was() -> None:
    bare = _estimate(1142.4, 0.0, 1142.4, method=f"{UPPER_BOUND} proved", n=5, unit="layers")
    assert described(bare) == "1143 (at most), 5 layers"
    assert ends(bare) == ("0", "1143") and ends(_estimate(1.0, method="exact")) is None


@pytest.mark.parametrize(
    ("number", "down", "up"),
    [(1.37848, "1.37", "1.38"), (4.20874, "4.20", "4.21"), (0.29, "0.290", "0.290"), (2.0, "2.00", "2.00"),
     (0.0, "0", "0"), (-1.37848, "-1.38", "-1.37"), (999.96, "999", "1000"),
     (2.5e-12, "2.50 x 10^-12", "2.50 x 10^-12"), (1e15 + 1, "1.00 x 10^15", "1.01 x 10^15")],
)  # fmt: skip
def test_a_bound_is_rounded_to_its_own_side(number: float, down: str, up: str) -> None:
    assert (bounded(number), bounded(number, up=True)) == (down, up)


def test_what_could_be_proved_is_rounded_down_and_a_claim_stands_as_it_was_given() -> None:
    common = {"low": None, "high": None, "method": "exact", "n": 1000, "unit": "points"}
    proved, claimed = Measure("epsilon_ceiling", written="down"), Measure("epsilon_claimed", written="given")
    ceiling = Estimate(name="epsilon_ceiling", value=4.20874, measure=proved, **common)
    assert described(ceiling) == "4.20, exact, 1,000 points"
    assert point(Estimate(name="epsilon_claimed", value=1.37848, measure=claimed, **common)) == "1.37848"
    assert point(Estimate(name="epsilon_claimed", value=8.0, measure=claimed, **common)) == "8"
    assert point(Estimate(name="product_bound", value=4.20874, **common)) == "4.21"


def test_an_upper_bound_is_rounded_up_and_its_lower_end_down() -> None:
    method = f"{UPPER_BOUND} Renyi differential privacy"
    claim = _estimate(1.7119, 1.5259, 1.7119, method=method, n=1, unit="claims")
    assert described(claim) == "1.72 (at most; at least 1.52), 1 claim" and is_bound(claim)
    assert interval(_estimate(1.7119, 0.0, 1.7119, method=method)) == "at most"


def test_coordinates_in_words() -> None:
    assert coordinates({"layer": 3, "by": "accent", "radius": 0.25}) == "by accent, layer 3, radius 0.25"


def test_the_upper_end_of_a_lower_bound_is_no_limit() -> None:
    proved = _estimate(1.26, 1.26, 3.77, method=f"{LOWER_BOUND} one-sided Clopper-Pearson", n=440, unit="points")
    assert described(proved) == "1.26 (at least; 3.77 provable), 95 %, 440 points"
    assert "to" not in interval(proved).split()
    assert interval(_estimate(1.26, 1.26, 3.77)) == "1.3 to 3.8"


@given(st.floats(1e-7, 1.0))
@example(0.0499)
@example(4 / 2001)
def test_a_p_value_is_never_rounded_down_nor_up_to_a_usual_threshold(p: float) -> None:
    shown = float(probability(p))
    assert p * (1 - 1e-5) <= shown <= 1.2 * p or p < 0.001
    for threshold in (0.01, 0.05, 0.1):
        assert shown < threshold or p > threshold * (1 - 1e-5), (p, shown)
    assert p_words(p) == (f"= {probability(p)}" if shown >= 0.001 else "< 0.001")


@given(st.floats(1e-3, 0.499))
@example(0.02496)
@example(0.1196)
@example(0.15 - 1e-7)
def test_more_digits_of_a_p_value_stand_where_it_would_look_like_a_hundredth_or_twentieth_and_nowhere_else(p) -> None:
    exact = Decimal(f"{p:.12g}")
    rounded = exact.quantize(Decimal(1).scaleb(-max(3, 1 - exact.adjusted())), rounding=ROUND_CEILING)
    # Values at which tests are judged unless --level is a more seldom one.
    lies_below = rounded > exact and (rounded % Decimal("0.01" if rounded <= Decimal("0.1") else "0.05") == 0)
    assert (Decimal(probability(p)) != rounded) == lies_below


def test_the_glossary_writes_p_values_as_reports_do_and_says_where_digits_do_not_help() -> None:
    text = " ".join((ROOT / "docs/glossary.md").read_text(encoding="utf-8").split())
    entry = text.partition("**p-value.**")[2].partition("- **")[0]
    written_as = dict(re.findall(r"(0\.\d+) is (0\.\d+)", entry))
    assert {probability(float(p)) for p in written_as} == set(written_as.values())
    # These lie below the values of the levels 0.975 and 0.999, and look like them.
    assert (written_as["0.02496"], written_as["0.000996"]) == ("0.025", "0.001")
    assert "`--level 0.975`" in entry and "a hundredth (0.01 to 0.10) or a twentieth (0.15 to 0.50)" in entry
    for p, never in re.findall(r"(0\.\d+) is not written (0\.\d+)", entry):
        assert float(probability(float(p))) < float(never)


def test_a_table_writes_a_p_value_as_a_sentence_does() -> None:
    row = Estimate(name="p_value", value=0.0024987, low=0.0, high=0.0092, method="permutation", n=9, unit="speakers")
    assert (point(row), p_words(row.value)) == ("0.0025", "= 0.0025")


@given(st.floats(1e-300, 1.0))
def test_a_p_value_is_never_written_smaller_than_it_is(p: float) -> None:
    shown = float(probability(p).replace(" x 10^", "e"))
    assert shown >= float(f"{p:.12g}") and (shown > 0.05) == (float(f"{p:.12g}") > 0.05)
    assert p_words(p).startswith(("= ", "< 0.001"))


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.0500000001, "0.051"), (0.05 + 1e-17, "0.050"), (6 / 2400, "0.0025"), (1e-9, "1.0 x 10^-9"), (0.0, "0.000")],
)
def test_p_values_at_the_edge_of_their_digits(p: float, shown: str) -> None:
    assert probability(p) == shown
