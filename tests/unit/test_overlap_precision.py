"""Are the precisions what one counts by hand, and does evidence that is added never lower one?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.grounding_words import compared_form, split_words
from probes.texts.overlap_precision import METRICS, OverlapPrecision

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", "B", "é", "1"]), max_size=12).map(" ".join)


def scores(evidence: str, output: str, fitted: OverlapPrecision | None = None) -> dict[str, float]:
    fitted = fitted or OverlapPrecision.fit([Evidence(evidence)])
    found = fitted.score([Grounded(Evidence(evidence), output)])
    return {name: float(found[name][0]) for name in METRICS}


def test_each_precision_is_counted_by_hand() -> None:
    found = scores("the cat sat on a mat", "The mat, the cat sat!")
    # The second "the" is more than the evidence has; pairs: the-mat, mat-the, the-cat, cat-sat.
    assert found["unigram_precision"] == 4 / 5 and found["bigram_precision"] == 2 / 4
    assert found["lcs_precision"] == 3 / 5 and found["idf_precision"] == 1


def test_rare_words_weigh_more() -> None:
    fitted = OverlapPrecision.fit([Evidence("a pub"), Evidence("a bar"), Evidence("a bar"), Evidence("a hall")])
    found = scores("a bar", "a pub", fitted)
    common, rare = math.log(4 / 4) + 1, math.log(4 / 2) + 1
    assert found["idf_precision"] == pytest.approx(common / (common + rare), rel=1e-12)
    # A word of no context is the rarest of all, and a context that comes twice is one.
    unknown = math.log(4 / 1) + 1
    assert scores("a bar", "a zoo", fitted)["idf_precision"] == pytest.approx(common / (common + unknown), rel=1e-12)


def test_without_words_there_is_no_precision() -> None:
    assert all(math.isnan(value) for value in (*scores("a", "").values(), *scores("", "a").values()))
    alone = scores("a b", "a")
    assert math.isnan(alone.pop("bigram_precision")) and set(alone.values()) == {1.0}
    empty = OverlapPrecision.fit([]).score([])
    assert {name: values.shape for name, values in empty.items()} == dict.fromkeys(METRICS, (0,))


def test_attributes_are_read_as_people_say_them() -> None:
    evidence = read_evidence("familyFriendly[yes], customer_rating[high], BBC[no]", "row 1")
    assert evidence.text == "family friendly: yes\ncustomer rating: high\nBBC: no"
    assert evidence.cells[0] == ("familyFriendly", "yes")
    unsupported = OverlapPrecision.fit([evidence]).unsupported(Grounded(evidence, "A family-friendly pub, rated high."))
    assert unsupported == ((0, 1), (18, 21), (23, 28))


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("don’t STOP", ("don", "t", "stop")),
        ("snake_case", ("snake", "case")),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 ok", ("\u0939\u093f\u0928\u094d\u0926\u0940", "ok")),
        ("我用Python", ("我", "用", "python")),
        ("cafe\u0301", ("café",)),
        (" -- ", ()),
    ],
)
def test_words_are_runs_of_letters_marks_and_digits(text: str, forms: tuple[str, ...]) -> None:
    assert split_words(text).forms == forms


@given(st.text(max_size=60))
def test_offsets_slice_back_to_the_words(text: str) -> None:
    words = split_words(text)
    assert words.forms == tuple(compared_form(text[start:end]) for start, end in words.spans)
    ends = [0, *(end for _, end in words.spans)]
    assert all(last <= start < end for last, (start, end) in zip(ends, words.spans, strict=False))


@given(TEXTS, TEXTS, TEXTS)
def test_more_evidence_never_lowers_a_precision(evidence: str, more: str, output: str) -> None:
    fitted = OverlapPrecision.fit([Evidence(evidence), Evidence(more)])
    before, after = (scores(text, output, fitted) for text in (evidence, f"{evidence} {more}"))
    for name in METRICS:
        assert math.isnan(before[name]) or before[name] <= after[name] + 1e-12
        assert math.isnan(after[name]) or 0 <= after[name] <= 1 + 1e-12


@given(TEXTS)
def test_a_copy_has_every_word_of_its_evidence(text: str) -> None:
    found = np.array(list(scores(text, text).values()))
    assert np.allclose(found[~np.isnan(found)], 1)
    assert OverlapPrecision.fit([]).unsupported(Grounded(Evidence(text), text)) == ()
