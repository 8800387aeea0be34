"""Are compounds no error, and everything else counted as without them?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.speech.compound_words import CompoundAlignment, align_compounds, with_compounds
from probes.speech.word_edits import WordAligner
from probes.speech.word_errors import count_edits

PARTS = st.lists(st.sampled_from(["a", "b", "ab", "ba", "abc", "c", "bc"]), max_size=7)


@pytest.mark.parametrize(
    ("reference", "transcript", "errors", "characters"),
    [
        ("ice cream", "icecream", 0, 0),
        ("icecream", "ice cream", 0, 0),
        ("a state of the art van", "a stateoftheart van", 0, 0),
        ("an ice cream", "an icecreams", 2, 2),
        ("the ice cream van", "the icecream fan", 1, 1),
        ("ice cream", "cream ice", 2, None),
        ("ice", "ice cream", 1, 6),
        ("", "ice cream", 2, 9),
        ("ice cream", "", 2, 9),
    ],
)
def test_only_compounds_are_forgiven(reference: str, transcript: str, errors: int, characters: int | None) -> None:
    assert count_edits([reference], [transcript], "word", compounds=True).errors[0] == errors
    if characters is not None:
        assert count_edits([reference], [transcript], "character", compounds=True).errors[0] == characters


@given(PARTS, PARTS)
def test_never_more_errors_than_without_and_edits_are_those_that_are_counted(one: list[str], two: list[str]) -> None:
    texts = [" ".join(one)], [" ".join(two)]
    merged = count_edits(*texts, "word", compounds=True)
    assert merged.errors[0] <= count_edits(*texts, "word").errors[0]
    assert merged.lengths[0] == len(one)
    aligner = WordAligner(compounds=True)
    aligner.add(*texts)
    edits = aligner.edits()
    assert len(edits.pair) == merged.errors[0]
    assert (edits.said < 0).sum() == merged.insertions[0] and (edits.written < 0).sum() == merged.deletions[0]


@given(PARTS, PARTS)
def test_what_is_joined_gives_the_words_of_the_other_side(one: list[str], two: list[str]) -> None:
    merged = align_compounds(one, two).merged
    for said, until, written, end in merged:
        assert "".join(one[said:until]) == "".join(two[written:end]) and (until - said == 1) != (end - written == 1)
    assert with_compounds(one, two, merged).replace(" ", "") == "".join(two)


def test_without_a_compound_nothing_is_aligned() -> None:
    assert align_compounds(["a", "b"], ["b", "a"]) == CompoundAlignment((), ())
    # Words of two hundred letters and more are none.
    assert align_compounds(["a" * 150, "b" * 150], ["a" * 150 + "b" * 150]) == CompoundAlignment((), ())


def test_compounds_of_many_words_are_found() -> None:
    words = ["a"] * 150
    assert align_compounds(words, ["a" * size for size in (1, 50, 99)]).edits == ()
    assert len(align_compounds(words, ["a" * 149]).edits) == 1
