"""Is PARENT what one counts by hand, and blind in the ways that it should be?"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.parent_scores import Parent

TABLE = read_evidence([["name", "Ann Lee"], ["job", "judge"]], "row 1")
WORDS = st.lists(st.sampled_from(["ann", "lee", "judge", "name", "of", "rome"]), min_size=1, max_size=9).map(" ".join)


def scores(output: str, reference: str | None, evidence: Evidence = TABLE) -> tuple[float, float]:
    found = Parent().score([Grounded(evidence, output, reference)])
    return float(found["parent_precision"][0]), float(found["parent_recall"][0])


def test_precision_counts_what_reference_or_table_have() -> None:
    # "ann" is the table's, "sings" the reference's, "well" nobody's; the pairs count 1 (reference), then 0.
    precision, _ = scores("ann sings well", "ann sings")
    unigram, bigram, trigram = 2 / 3, (1 + 0) / 2, 1 / 3
    assert precision == pytest.approx((unigram * bigram * trigram) ** (1 / 3), rel=1e-12)


def test_recall_joins_reference_and_table() -> None:
    # Of the reference's unigrams, each by its share of words in the table: ann 1, is 0, judge 1, of which ann is said.
    _, recall = scores("ann", "ann is judge")
    reference = (1 / 2 * 1e-5 * 1e-5) ** (1 / 3)
    table = (1 / 2 + 0 / 1) / 2
    weight = 1 - (1 / 2 + 1 / 1) / 2
    assert recall == pytest.approx(reference ** (1 - weight) * table**weight, rel=1e-12)


def test_a_reference_that_says_all_of_the_table_is_recalled_alone() -> None:
    assert scores("ann lee judge", "ann lee judge") == pytest.approx((1, 1))
    assert scores("ann lee", "ann lee judge")[1] == pytest.approx((2 / 3 * 1 / 2 * 1e-5) ** (1 / 3), rel=1e-12)


def test_what_is_left_out_costs_recall_and_no_precision() -> None:
    assert scores("ann lee", "ann lee is a judge in rome")[0] == 1
    assert scores("ann lee", "ann lee is a judge in rome")[1] < 0.1


@pytest.mark.parametrize(
    ("output", "reference", "evidence"),
    [("", "ann", TABLE), ("ann", None, TABLE), ("ann", " ", TABLE), ("ann", "ann", Evidence("ann"))],
)
def test_without_table_reference_or_output_there_is_no_score(
    output: str, reference: str | None, evidence: Evidence
) -> None:
    assert all(map(math.isnan, scores(output, reference, evidence)))


def brute_precision(output: list[str], reference: list[str], held: set[str]) -> float:
    """Return PARENT's precision, n-gram for n-gram: the first ones of a kind are the reference's."""
    logs = []
    for n in range(1, min(4, len(output)) + 1):
        left = [tuple(reference[at : at + n]) for at in range(len(reference) - n + 1)]
        total = 0.0
        grams = [tuple(output[at : at + n]) for at in range(len(output) - n + 1)]
        for gram in grams:
            if gram in left:
                left.remove(gram)
                total += 1
            else:
                total += sum(word in held for word in gram) / n
        logs.append(math.log(max(total / len(grams), 1e-5)))
    return math.exp(sum(logs) / len(logs))


@given(WORDS, WORDS)
def test_precision_is_that_of_a_slow_count(output: str, reference: str) -> None:
    precision, recall = scores(output, reference)
    held = {"name", "ann", "lee", "job", "judge"}
    assert precision == pytest.approx(brute_precision(output.split(), reference.split(), held), rel=1e-9)
    assert 0 <= recall <= 1 + 1e-12
