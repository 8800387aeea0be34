"""Which texts are listed as outside or as reached by nobody, in which order, and how often copies count."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scored_texts import compared, counted, described, judged
from scored_texts import tally as counts_of_texts

from audits.core.wording import span
from audits.precision_recall.counts import Counts
from audits.precision_recall.listing import MOST_LETTERS, different, excerpt, outside, uncovered
from audits.precision_recall.records import records

NAMES = ("first", "second")
tally = partial(counts_of_texts, count=4)
FAIR = tally(judged=2)


def measured(*, kinds: Any = None, texts: bool = True, **tallies: Any) -> Counts:
    """Return four texts a side; places in the files count from 11, 21 and 31. Without `first` there was one draw."""
    sides = {
        name: compared(name, {}, **{"generated": FAIR, "reference": FAIR, **given})
        for name in NAMES
        for given in [{what: found[name] for what, found in tallies.items() if name in found}]
    }
    sets = [
        described(
            name,
            (kinds or {}).get(name, np.arange(4)),
            places=np.arange(4) + 10 * number + 11,
            texts=[f"{name} {text}" for text in range(4)] if texts else None,
        )
        for number, name in enumerate(("reference", *NAMES))
    ]
    return counted(sides, sets=sets)


def test_outside_is_who_lay_in_no_ball_in_the_first_draw_the_farthest_first() -> None:
    own = tally([1, 1, 0, 1], [1, 0, 0, 1], [1.5, 9.0, np.inf, 4.0], nearest=[1, 0, -1, 2])
    all_draws = tally([2, 2, 1, 2], [1, 0, 1, 1], [1.1, 0.5, 9.0, 1.2])
    found = measured(generated={"first": all_draws}, first={"first": (own, tally())})
    rows, count = outside(found, "first", 10)
    assert count == 2 and [row.place for row in rows] == [24, 21]
    assert rows[0].text == "first 3" and rows[0].nearest_text == "reference 2" and rows[0].nearest_place == 13
    assert (rows[0].share, rows[0].distance, rows[0].copies) == (4.0, 8.0, 1)
    assert outside(found, "second", 10) == ([], 0)


def test_the_texts_outside_are_of_one_draw_and_the_precision_beside_them_of_all() -> None:
    own = tally([1, 1, 0, 1], [1, 0, 0, 1], [1.5, 9.0, np.inf, 4.0], nearest=[1, 0, -1, 2])
    all_draws = tally([2, 2, 1, 2], [1, 0, 1, 1], [1.1, 0.5, 9.0, 1.2])
    draft = judged(measured(generated={"first": all_draws}, first={"first": (own, tally())}))
    (one,) = [claim for claim in draft.findings if claim.id == "texts.outside"]
    (row,) = one.evidence
    assert one.headline == (
        f"2 of 3 texts of first lie near no reference text; over all draws precision is {span(row)}."
    )


def test_different_texts_are_those_of_the_first_draw_with_copies_counted_once() -> None:
    own = tally([1, 1, 0, 1]), tally()
    found = measured(first={"first": own}, kinds={"first": np.array([0, 0, 1, 2]), "reference": np.array([0, 1, 1, 1])})
    assert (different(found, "first"), different(found, "second"), different(found, "reference")) == (2, 4, 2)


def test_of_many_the_farthest_are_shown_and_all_are_counted() -> None:
    found = measured(generated={"first": tally(1, 1, [1.1, 3.0, 2.0, np.inf])})
    rows, count = outside(found, "first", 2)
    assert count == 4 and [row.place for row in rows] == [24, 22], "a ball without size is the farthest off"


def test_copies_are_listed_once_with_their_number() -> None:
    found = measured(generated={"first": tally(1, 1, 2.0)}, kinds={"first": np.array([0, 1, 0, 0])})
    rows, count = outside(found, "first", 10)
    assert count == 2 and [(row.place, row.copies) for row in rows] == [(21, 3), (22, 1)]


def test_uncovered_is_what_no_candidate_reached_with_the_nearest_of_all() -> None:
    found = measured(
        reference={
            "first": tally(1, [1, 1, 1, 0], [5.0, 1.5, 3.0, 0.5], nearest=[0, 1, 2, 3]),
            "second": tally(1, [1, 1, 0, 1], [2.0, 4.0, 0.9, 3.0], nearest=[3, 2, 1, 0]),
        }
    )
    rows, count = uncovered(found, 10)
    assert count == 2 and [(row.place, row.share) for row in rows] == [(11, 2.0), (12, 1.5)]
    assert [row.nearest_text for row in rows] == ["second 3", "first 1"]
    assert uncovered(found, 1)[0] == rows[:1] and uncovered(found, 1)[1] == 2


def test_a_reference_text_that_was_not_drawn_is_not_called_uncovered() -> None:
    missed = tally([0, 1, 1, 1], [0, 1, 1, 1], [np.inf, 2.0, 2.0, 2.0])
    _, count = uncovered(measured(reference=dict.fromkeys(NAMES, missed)), 10)
    assert count == 3


@pytest.mark.parametrize(
    ("judged", "apart", "verdicts"),
    [(2, 0, ("inside", "reached")), (2, 1, ("undecided", "undecided")), (2, 2, ("outside", "unreached")), (0, 0, ())],
)
def test_every_text_that_was_judged_has_a_record(judged: int, apart: int, verdicts: tuple[str, ...]) -> None:
    own = tally(judged, apart, 0.25, empty=apart)
    rows = records(measured(generated=dict.fromkeys(NAMES, own), reference=dict.fromkeys(NAMES, own)))
    assert len(rows) == (16 if judged else 0)
    assert {row["verdict"] for row in rows} == set(verdicts)
    for row in rows:
        assert row.keys() == rows[0].keys() and (row["draws"], row["draws_apart"]) == (judged, apart)
        assert row["draws_empty"] == ("" if row["side"] == "generated" else apart)
        own_name = "reference" if row["side"] == "reference" else row["candidate"]
        assert row["text"].startswith(own_name) and not row["nearest_text"].startswith(own_name)


def test_a_distance_to_a_ball_without_size_is_left_blank_and_embeddings_have_no_texts() -> None:
    own = tally(1, 1, np.inf)
    rows = records(measured(generated=dict.fromkeys(NAMES, own), texts=False))
    assert {row["radii"] for row in rows if row["side"] == "generated"} == {""}
    assert {row["text"] for row in rows} == {""}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\tb  c", "a b c"),
        ("x" * MOST_LETTERS, "x" * MOST_LETTERS),
        ("x" * 999, "x" * MOST_LETTERS + "…"),
        ("", ""),
        # Letters that would move a terminal's cursor, turn a line round, or cannot be written.
        ("a\x1b[2J \u202eb\u2066 \ud800 \x07", "a\ufffd[2J \ufffdb\ufffd \ufffd \ufffd"),
        ("na\u00efve \u4f60\u597d \U0001f600", "na\u00efve \u4f60\u597d \U0001f600"),
    ],
)
def test_an_excerpt_is_one_line_of_a_least_length(text: str, shown: str) -> None:
    assert excerpt(text) == shown
