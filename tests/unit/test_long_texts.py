"""Are texts of 100,000 characters, made to be matched again and again, read in time that grows with their length?"""

import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from audits.faithfulness.corruptions import Pool, corrupt
from audits.faithfulness.english_clauses import negations, removable
from probes.texts import grounding_words
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.number_words import NumberSupport
from probes.texts.sentence_spans import sentence_spans

LONG, SECONDS = 100_000, 5.0
"""Characters, and seconds that each takes at most; matched again and again, they took minutes."""


def planted(kind: str) -> Callable[[str], Any]:
    pool = Pool.fit([Evidence("the cheap pub has seven words.")])
    return lambda text: corrupt(Grounded(Evidence(text), text), kind, 1.0, np.random.default_rng(0), pool)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a[b]," + " " * LONG + "x", lambda text: read_evidence(text, "here")),
        ("a[b], " * (LONG // 6) + "c", lambda text: read_evidence(text, "here")),
        ("a" + " " * (LONG // 2) + "b" + " " * (LONG // 2) + "[x]", lambda text: read_evidence(text, "here")),
        ("a[b]" + " " * LONG + ",c[d]", lambda text: read_evidence(text, "here")),
        ("111," * (LONG // 4) + "1111", lambda text: NumberSupport().count([Grounded(Evidence(""), text)])),
        ("111." * (LONG // 4) + "1111", lambda text: NumberSupport().count([Grounded(Evidence(""), text)])),
        ("A. " * (LONG // 3), sentence_spans),
        ("it is and " * (LONG // 10), lambda text: list(negations(text))),
        ("it is good, " * (LONG // 12), lambda text: list(removable(text))),
        ("111." * (LONG // 4), planted("number")),
        ("a million thousand " * (LONG // 19), planted("value")),
    ],
)  # fmt: skip
def test_a_long_text_takes_no_time_that_grows_with_its_square(text: str, read: Callable[[str], Any]) -> None:
    begun = time.process_time()
    read(text)
    assert time.process_time() - begun < SECONDS


def test_slots_are_read_as_before() -> None:
    cells = read_evidence(" name [ The Aromi, 2 ] , family friendly[yes],x[]", "here").cells
    assert cells == (("name", "The Aromi, 2"), ("family friendly", "yes"), ("x", ""))
    assert read_evidence("said [1], and [2] more", "here").cells == ()


def test_what_is_kept_of_texts_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounding_words, "KEPT", 1000)
    asked = []
    lengths = grounding_words.kept(lambda text: asked.append(text) or Kept(text))  # type: ignore[func-returns-value]
    results = [weakref.ref(lengths(f"{at:0100}")) for at in range(50) for _ in range(2)]
    assert len(asked) == 50 and len({id(one()) for one in results if one()}) <= 10


class Kept:
    def __init__(self, text: str) -> None:
        self.text = text
