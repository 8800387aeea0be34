"""Does the normaliser of the leaderboard take any text, in a time that grows with its length?"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.speech.open_asr import normalise_open_asr


@given(st.one_of(st.text(), st.text(alphabet="a1 .,$%'()[]:-½٣oh")))
def test_any_text_is_normalised(text: str) -> None:
    found = normalise_open_asr(text)
    assert found == " ".join(found.split())


@pytest.mark.parametrize(
    "text", ["(" * 50_000, "[" * 50_000, " " * 50_000 + "x", "1 o" + " " * 50_000 + "x", "um " * 9000]
)
def test_long_texts_take_no_square_of_their_length(text: str) -> None:
    start = time.process_time()
    normalise_open_asr(text)
    assert time.process_time() - start < 4


def test_figures_too_long_to_be_read_are_words() -> None:
    assert normalise_open_asr(f"{'7' * 5000} dollars") == f"{'7' * 5000} dollars"
