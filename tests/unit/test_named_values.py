"""Are names and values of the output found where they stand, and held against its evidence?"""

import numpy as np
import pytest

from audits.faithfulness.presets import e2e_labels
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.named_values import EntitySupport, ValueSupport
from probes.texts.support_checks import SupportCheck


def checked(check: SupportCheck, evidence: Evidence, output: str) -> list[tuple[str, bool]]:
    found = list(check.mentions(Grounded(evidence, output)))
    assert check.unsupported(Grounded(evidence, output)) == tuple(span for span, good in found if not good)
    return [(output[start:end], good) for (start, end), good in found]


ROME = Evidence("Today Ann Lee, who is a doctor, lives in Rome. Dr. Ray does too.")
NAMES = EntitySupport.fit([ROME, Evidence("In the town of Bath I'm at home, and Today is a paper.")])


def test_names_are_learnt_inside_of_sentences_only() -> None:
    assert NAMES.known == {"ann", "lee", "rome", "ray", "bath", "today", "i"}
    assert EntitySupport.fit([Evidence("The Rose is a rose.")]).known == frozenset()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("we met Ann Lee in Rome", [("Ann Lee", True), ("Rome", True)]),
        ("we met Lee Ann, Bob Lee and Carl", [("Lee Ann", True), ("Bob Lee", False), ("Carl", False)]),
        ("Bath is a town. Bob is not known.", [("Bath", False)]),
        ("Bob Lee is", [("Lee", True)]),
        ("we met Dr. Ray! Yesterday we met J. Ray", [("Dr", True), ("Ray", True), ("J", False), ("Ray", True)]),
        ("and I think It is The Rome of old", [("Rome", True)]),
        ("we saw Jean-Luc O'Neil", [("Jean-Luc O'Neil", False)]),
        ("SHE MET BOB SMITH IN BATH", [("BATH", False)]),
        ("we Met Bob Smith Jones", [("Met Bob Smith Jones", False)]),
        ("Bob Smith", [("Smith", False)]),
        ("all lower case, ann lee too", []),
        ("", []),
    ],
)
def test_names_need_each_of_their_words(output: str, expected: list[tuple[str, bool]]) -> None:
    assert checked(NAMES, ROME, output) == expected


ROWS = [
    read_evidence(row, "row")
    for row in (
        "name[All Bar One], near[Raja Indian Cuisine], familyFriendly[yes], seats[40], priceRange[£20-25]",
        "name[Bar], food[Indian], priceRange[less than £20], familyFriendly[no], near[Café Rouge]",
    )
]
VALUES = ValueSupport.fit(ROWS)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("All Bar One is near Raja Indian Cuisine", [("All Bar One", True), ("Raja Indian Cuisine", True)]),
        # A value within another one of the row is supported, and so is one that any slot of the row has.
        ("an indian bar", [("indian", True), ("bar", True)]),
        ("£20-25, near CAFÉ ROUGE", [("20-25", True), ("CAFÉ ROUGE", False)]),
        ("no, 40 seats for less than £20", [("less than £20", False)]),
        ("all barns", []),
    ],
)
def test_values_of_other_rows_are_unsupported(output: str, expected: list[tuple[str, bool]]) -> None:
    assert checked(VALUES, ROWS[0], output) == expected


def test_without_cells_no_value_is_known() -> None:
    plain = ValueSupport.fit([ROME])
    assert not plain.phrases and plain.score([Grounded(ROME, "in Rome")])["value_support"].tolist() == [1.0]


def test_scores_are_shares_of_mentions() -> None:
    pairs = [Grounded(ROWS[0], "an Indian bar, Café Rouge, cheap"), Grounded(ROWS[0], " "), Grounded(ROWS[1], "x")]
    np.testing.assert_allclose(VALUES.score(pairs)["value_support"], [2 / 3, np.nan, 1])
    assert NAMES.score([Grounded(ROME, "by Ann and Bob")])["entity_support"].tolist() == [0.5]


def test_labels_of_corrected_slots() -> None:
    given = "name[Mill], food[Thai], area[city]"
    assert e2e_labels(given, given) == (False, False)
    assert e2e_labels("name[Mill], food[Thai]", given) == (False, True)
    assert e2e_labels("name[Mill], food[Thai], area[city], near[Pier]", given) == (True, False)
    assert e2e_labels("name[Mill], food[Thai], area[city], food[Greek]", given) == (True, False)
    assert e2e_labels("name[Mill], food[Greek], food[Thai], area[city]", given) == (False, False)
