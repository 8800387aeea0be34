"""Are numbers read however they are written, where they stand, and held against those of the evidence?"""

import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.texts.evidence import Evidence, Grounded
from probes.texts.number_words import NumberSupport, read_numbers


def values(text: str) -> list[float]:
    return [float(number.value) for number in read_numbers(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 1000 1.000,00 1\u00a0000 one thousand a thousand", [1000] * 6),
        ("1,000, or 1,234,567.5.", [1000, 1234567.5]),
        ("3,5 3.5 0,25 .5", [3.5, 3.5, 0.25, 0.5]),
        ("1.000.000", [1e6]),
        ("1,2,3", [1, 2, 3]),
        ("7th seventh Seventh", [7, 7, 7]),
        ("twenty-first, twenty one, twentieth", [21, 21, 20]),
        ("one hundred and five people", [105]),
        ("two million three hundred thousand and twelve", [2300012]),
        ("one hundred and two thousand", [102000]),
        ("one thousand a thousand", [1000, 1000]),
        ("fifty-five hundred", [5500]),
        ("2.5 million, 3 hundred, 4 billion", [2.5e6, 300, 4e9]),
        ("two three, two and three", [2, 3, 2, 3]),
        ("forty twelve, twenty ten, thirty zero", [40, 12, 20, 10, 30, 0]),
        ("five out of five", [5, 5]),
        ("£20-25 in the 1990s on 2010-05-03", [20, 25, 1990, 2010, 5, 3]),
        ("-5 degrees, \u22127 and (8)", [-5, -7, 8]),
        ("mp3, H2O, tent, someone, hundreds, hundred", []),
        ("5km", [5]),
        ("zero", [0]),
    ],
)
def test_numbers_are_read_however_they_are_written(text: str, expected: list[float]) -> None:
    assert values(text) == expected


@given(st.integers(0, 10**9))
def test_every_whole_number_is_read_with_and_without_commas(number: int) -> None:
    assert values(f"about {number:,} or {number}.") == [number, number]


@given(st.text("0123456789.,- %onetwhudrdas", max_size=40))
def test_spans_slice_back_to_the_numbers(text: str) -> None:
    last = 0
    for number in read_numbers(text):
        start, end = number.span
        assert last <= start < end <= len(text)
        assert [one.value for one in read_numbers(text[start:end])] == [number.value]
        last = end


def checked(evidence: str, output: str, derived: bool = False) -> list[tuple[str, bool]]:
    pair = Grounded(Evidence(evidence), output)
    return [(output[start:end], good) for (start, end), good in NumberSupport(derived).mentions(pair)]


def test_what_the_evidence_has_in_other_words_is_supported() -> None:
    assert checked("twelve pubs, 1,000 seats", "12 pubs, one thousand seats, 13 bars") == [
        ("12", True), ("one thousand", True), ("13", False),
    ]  # fmt: skip
    assert checked("a share of .12", "12 %, 12 percent and 12") == [("12 %", True), ("12 percent", True), ("12", False)]
    assert checked("12 % of them", "12 or .12") == [("12", True), (".12", True)]
    assert checked("", "5") == [("5", False)]


def test_pronouns_and_fillers_are_no_numbers() -> None:
    assert checked("", "First, the one that no one knew; every one of the second kind. That one. One") == []
    assert checked("", "It is one of two") == [("one", False), ("two", False)]
    # They support a number all the same.
    assert checked("The first one", "1 pub") == [("1", True)]


@pytest.mark.parametrize(
    ("evidence", "output", "supported"),
    [
        ("12 home, 9 away", "21", True),
        ("12 home, 9 away", "3 more", True),
        ("12 home, 9 away", "108", False),
        ("4,963,000 people", "5 million", True),
        ("4,963,000 people", "4.96 million", True),
        ("4,963,000 people", "4.95 million", False),
        ("18", "20", True),
        ("14.7", "20", False),
        ("4", "5", False),
    ],
)
def test_sums_differences_and_roundings_support_where_asked(evidence: str, output: str, supported: bool) -> None:
    assert [good for _, good in checked(evidence, output, derived=True)] == [supported]
    assert [good for _, good in checked(evidence, output)] == [False]


def test_cells_may_be_counted_where_asked() -> None:
    evidence = Evidence("x", cells=(("name", "Ann"), ("name", "Bob"), ("name", "Cy")))
    pair = Grounded(evidence, "3 names")
    assert NumberSupport(derived=True).unsupported(pair) == () and NumberSupport().unsupported(pair) == ((0, 1),)


def test_counts_and_scores_of_several_outputs() -> None:
    outputs = ["1, 2 and 3", "none", "", "7"]
    pairs = [Grounded(Evidence("1 and 2"), output) for output in outputs] + [Grounded(Evidence(" "), "1")]
    mentions, unsupported = NumberSupport().count(pairs)
    assert mentions.tolist() == [3, 0, 0, 1, 1] and unsupported.tolist() == [1, 0, 0, 1, 1]
    support = NumberSupport().score(pairs)["number_support"]
    np.testing.assert_allclose(support, [2 / 3, 1, np.nan, 0, np.nan])
    assert NumberSupport().score([])["number_support"].shape == (0,)


@pytest.mark.parametrize("text", ["one " * 20000, "one hundred and " * 8000, "twenty-" * 20000, "1," * 30000])
def test_long_rows_of_numbers_take_no_time(text: str) -> None:
    start = time.process_time()
    read_numbers(text)
    assert time.process_time() - start < 5


def test_codes_of_many_digits_are_no_numbers() -> None:
    assert read_numbers("9" * 10**6) == () and read_numbers("9" * 29) == ()
    assert read_numbers("9" * 28)[0].value == Decimal("9" * 28)
