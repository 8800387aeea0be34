"""What is read as a claim on growth, and what is not."""

from fractions import Fraction

import numpy as np
import pytest

from audits.scaling.growth_claims import Law, read_claims, read_law
from probes.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "power", "logs"),
    [
        ("const", 0, 0),
        ("1", 0, 0),
        ("log n", 0, 1),
        ("log(n)", 0, 1),
        ("sqrt n", Fraction(1, 2), 0),
        ("sqrt(n)", Fraction(1, 2), 0),
        ("n", 1, 0),
        (" N log N ", 1, 1),
        ("n*log(n)", 1, 1),
        ("n^4/3", Fraction(4, 3), 0),
        ("n^(4/3)", Fraction(4, 3), 0),
        ("n ^ {4/3}", Fraction(4, 3), 0),
        ("n^1.5", Fraction(3, 2), 0),
        ("n^2 log n", 2, 1),
        ("n^0.37", Fraction(37, 100), 0),
    ],
)
def test_a_law_is_read_with_its_power_and_logarithm(text: str, power: float, logs: int) -> None:
    law = read_law(text)
    assert law == Law(power, logs)
    assert read_law(law.text) == law


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "2",
        "n^",
        "n^-1",
        "n^4/0",
        "n^(4/3",
        "n log",
        "n*",
        "*log n",
        "1 log n",
        "const log n",
        "log n n",
        "n^2^2",
    ],
)
def test_what_is_no_law_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InputError) as refused:
        read_law(text)
    assert refused.value.where == "--claim" and refused.value.hint


def test_claims_name_each_quantity_once() -> None:
    claims = read_claims("flops = n, peak_memory=n,state=const,time = n log n")
    assert claims == {"operations": Law(1), "memory": Law(1), "state": Law(0), "time": Law(1, 1)}


@pytest.mark.parametrize(
    "text", ["", "n", "time", "time=", "speed=n", "time=n,", "time=n,time=n^2", "flops=n,operations=n"]
)
def test_claims_that_say_nothing_or_twice_are_refused(text: str) -> None:
    with pytest.raises(InputError) as refused:
        read_claims(text)
    assert refused.value.where == "--claim" and refused.value.hint


def test_values_and_local_exponents_belong_together() -> None:
    law, n = Law(Fraction(4, 3), 1), np.array([64.0, 64.0 * (1 + 1e-7)])
    slope = np.diff(np.log(law.values(n))) / np.diff(np.log(n))
    assert slope == pytest.approx([float(law.local_exponent(64.0))], abs=1e-5)
    assert (Law(0, 1).values([1, 2]) > 0).all()


def test_a_logarithm_outgrows_none() -> None:
    assert Law(1, 1).outgrows(Law(1)) and Law(2).outgrows(Law(1, 1)) and not Law(1).outgrows(Law(1))


def test_a_power_that_no_number_holds_is_refused() -> None:
    with pytest.raises(InputError, match="above 10"):
        read_law("n^99999999999999999999")
    assert read_law("n^10").power == 10
