"""Are planted faults false, are omissions mere omissions, and does nothing but the seed of a row decide?"""

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from audits.faithfulness.corruptions import KINDS, Planted, Pool, corrupt
from audits.faithfulness.english_clauses import negations, removable
from audits.statistics.seeds import generator
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.number_words import read_numbers

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
TEXTS = DATA / "faithfulness"
SLOTS = [
    "name[Blue Spice], eatType[coffee shop], customer rating[5 out of 5], near[Crowne Plaza Hotel]",
    "name[The Punter], eatType[pub], food[Italian], priceRange[less than £20], area[riverside], familyFriendly[yes]",
    "name[Clowns], eatType[restaurant], food[French], priceRange[high], area[city centre], familyFriendly[no]",
    "name[Aromi], food[Chinese], priceRange[cheap], customer rating[3 out of 5], near[Café Rouge]",
]
OUTPUTS = [
    "The coffee shop Blue Spice is near Crowne Plaza Hotel, and it has a rating of 5 out of 5.",
    "The Punter is a family friendly pub by the riverside. It serves Italian food for less than £20.",
    "Clowns serves French food in the city centre at high prices. It is not family friendly.",
    "Aromi offers cheap Chinese food near Café Rouge. Customers rate it 3 out of 5.",
]
PASSAGES = [
    "The band Nickelback formed in 1995 in Hanna, Alberta. It has sold more than 50 million albums worldwide.",
    "Cheerleading began in Minnesota. About 1,500 students were cheering for their team, led by Johnny Campbell.",
    "In Ireland the music of Galway was collected by Edward Bunting between 1792 and 1807.",
]
SAID = [
    "Yes! Nickelback was formed in Hanna in 1995 and they have sold albums worldwide.",
    "I think cheerleading began in Minnesota, where students were cheering for the team of Johnny Campbell.",
    "It was collected by Edward Bunting between 1792 and 1807 in Galway.",
]


def pairs_of(contexts: Sequence[str], outputs: Sequence[str]) -> list[Grounded]:
    return [Grounded(read_evidence(c, "here"), text) for c, text in zip(contexts, outputs, strict=True)]


PAIRS = [*pairs_of(SLOTS, OUTPUTS), *pairs_of(PASSAGES, SAID)]
POOLS = [Pool.fit(pair.evidence for pair in part) for part in (PAIRS[:4], PAIRS[4:])]


def planted(at: int, kind: str, rate: float = 1.0, seed: int = 0) -> Planted | None:
    rng = generator(seed, "corruption", str(at), kind)
    return corrupt(PAIRS[at], kind, rate, rng, POOLS[at >= 4])


def one(kind: str, evidence: str, output: str, others: Sequence[str] = (), seed: int = 0) -> str | None:
    """Return the faulty text of one output."""
    own = read_evidence(evidence, "here")
    pool = Pool.fit([own, *(read_evidence(other, "there") for other in others)])
    found = corrupt(Grounded(own, output), kind, 1.0, generator(seed, kind), pool)
    return found.output if found else None


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", range(len(PAIRS)))
def test_what_is_put_in_is_not_stated(kind: str, at: int) -> None:
    stated = f" {' '.join(words(PAIRS[at].evidence.text))} "
    for seed in range(20):
        found = planted(at, kind, (0.1, 1.0)[seed % 2], seed)
        if found is None:
            continue
        assert found.output != PAIRS[at].output
        assert found.count == len(found.spans) >= 1
        for start, end in found.spans:
            new = found.output[start:end]
            if kind == "drop":
                assert new == ""
            elif kind == "number":
                known = {number.value for number in read_numbers(PAIRS[at].evidence.text)}
                assert all(number.value not in known for number in read_numbers(new))
            elif kind != "negation":
                assert f" {' '.join(words(new))} " not in stated


@pytest.mark.parametrize("at", range(len(PAIRS)))
def test_omission_adds_no_word_and_keeps_the_order(at: int) -> None:
    for seed in range(20):
        found = planted(at, "drop", (0.1, 0.5, 1.0)[seed % 3], seed)
        if found is not None:
            left = iter(words(PAIRS[at].output))
            assert all(word in left for word in words(found.output))
            assert len(words(found.output)) >= 3


def test_every_kind_can_be_planted_in_slots_and_passages() -> None:
    for kind in KINDS:
        assert any(planted(at, kind) for at in range(4)), kind
        assert any(planted(at, kind) for at in range(4, len(PAIRS))), kind


@pytest.mark.parametrize("kind", KINDS)
def test_seed_decides_and_higher_rates_add_to_lower_ones(kind: str) -> None:
    for at in range(len(PAIRS)):
        assert planted(at, kind, 0.5, 3) == planted(at, kind, 0.5, 3)
        few, many = planted(at, kind, 0.1, 3), planted(at, kind, 1.0, 3)
        assert (few is None) == (many is None)
        if few and many:
            assert 1 == few.count <= many.count
            if kind in ("name", "value", "number"):
                assert {few.output[a:b] for a, b in few.spans} <= {many.output[a:b] for a, b in many.spans}


def test_values_are_swapped_for_values_of_the_same_attribute_and_form() -> None:
    other = ["area[city centre], priceRange[more than £30]", "food[Thai], priceRange[high]"]
    assert one("value", "area[riverside]", "By the riverside.", other) == "By the city centre."
    assert one("value", "area[riverside]", "Riverside is fine.", other) == "City centre is fine."
    assert one("value", "priceRange[cheap]", "It is cheap.", other) == "It is high."
    assert one("value", "priceRange[less than £20]", "It costs less than £20.", other) == "It costs more than £30."
    assert one("value", "priceRange[£20-25]", "It is £20-25.", other) == "It is more than £30."
    # The only other value is stated too, or is another attribute's.
    assert one("value", "area[riverside], near[city centre]", "By the riverside.", other) is None
    assert one("value", "near[riverside]", "By the riverside.", other) is None


def test_names_inside_of_other_values_stay() -> None:
    other = ["name[Aromi]"]
    assert (
        one("name", "name[Punter], near[Punter Hotel]", "Punter, near Punter Hotel.", other)
        == "Aromi, near Punter Hotel."
    )
    assert one("name", "name[The Punter]", "It is Punter.", ["name[Punter]"]) is None
    assert one("name", "name[Punter]", "The Punter.", ["name[The Punter]"]) is None


def test_numbers_keep_their_form() -> None:
    for seed in range(10):
        assert re.fullmatch(
            r"Rated [124] out of 5\.", one("number", "rating[3 out of 5]", "Rated 3 out of 5.", seed=seed) or ""
        )
        assert re.fullmatch(r"In (19|20)\d\d\.", one("number", "Born in 1995.", "In 1995.", seed=seed) or "")
        assert re.fullmatch(
            r"Some \d,\d{3} fans|Some \d{3} fans", one("number", "1000 fans", "Some 1,000 fans", seed=seed) or ""
        )
        assert (one("number", "the 7th day", "on the 7th", seed=seed) or "").endswith("th")
    assert one("number", "1, 2, 4, 5 and 3", "It is 3.") is None
    # What the evidence lacks is a fault already.
    assert one("number", "In 1995.", "In 1996.") is None


def test_negations_are_put_in_or_taken_out() -> None:
    assert one("negation", "cheap food", "The food is cheap.") == "The food is not cheap."
    assert one("negation", "cheap food", "The food isn't cheap.") == "The food is cheap."
    assert one("negation", "pizza", "Aromi serves pizza.") == "Aromi does not serve pizza."
    assert one("negation", "pizza", "Aromi has pizza.") == "Aromi does not have pizza."
    assert one("negation", "pizza", "Aromi has served pizza.") == "Aromi has not served pizza."
    # A question, a sentence on something else, and what would come true.
    assert one("negation", "cheap food", "The food, is it cheap?") is None
    assert one("negation", "cheap food", "He is tall.") is None
    assert one("negation", "The food is not cheap.", "The food is cheap.") is None
    assert one("negation", "familyFriendly[no], area[riverside]", "It is family friendly.") is None
    assert one("negation", "familyFriendly[yes], area[riverside]", "It is not family friendly.") is None


def test_one_negation_a_sentence() -> None:
    text = "The food is cheap and the pub is located by the river."
    found = one("negation", "cheap food, river", text)
    assert found is not None
    assert found.count(" not") == 1
    assert len(list(negations(text))) > 1


def test_clauses_go_only_where_what_stays_is_a_sentence_and_true() -> None:
    for text in (
        "Near the river.",
        "It is not a pub near the river.",
        "It is a pub only if paid.",
        "It was between 4 and 6.",
        "They are called Tom and Jerry.",
    ):
        assert not list(removable(text)), text
    assert list(removable("Yes! It is a pub. No!")) == [(17, 21)]


def test_nothing_is_planted_where_there_is_nothing() -> None:
    for evidence, output in ((Evidence(""), "It is 5 out of 5, and cheap."), (read_evidence(SLOTS[0], ""), "")):
        for kind in KINDS:
            assert corrupt(Grounded(evidence, output), kind, 1.0, generator(0, kind), POOLS[0]) is None


@pytest.mark.real
@pytest.mark.skipif(not TEXTS.is_dir(), reason=f"{TEXTS} is absent; MILES_TEST_DATA names another place")
def test_most_rows_can_be_corrupted() -> None:
    with (TEXTS / "e2e" / "e2e_test_half.csv").open(encoding="utf-8", newline="") as file:
        slots = [Grounded(read_evidence(row["mr"], "e2e"), row["ref"]) for row in csv.DictReader(file)]
    lines = (TEXTS / "begin" / "begin_test_wow.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines[1:]]
    passages = [Grounded(read_evidence(row[2], "begin"), row[4]) for row in cells]
    for pairs, least in ((slots[::5], (0.98, 0.98, 0.25, 0.9, 0.85)), (passages[::5], (0.1, 0.8, 0.15, 0.55, 0.55))):
        pool = Pool.fit(pair.evidence for pair in pairs)
        for kind, share in zip(KINDS, least, strict=True):
            found = [corrupt(pair, kind, 0.1, generator(0, str(at), kind), pool) for at, pair in enumerate(pairs)]
            assert np.mean([one is not None for one in found]) >= share
