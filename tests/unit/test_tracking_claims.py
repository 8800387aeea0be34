"""Do answers that say nothing, mixed items and unasked depths lead to no claim?"""

from pathlib import Path

import numpy as np
import pytest
from headlines import faults

from audits.core.context import Cache, Context, Draft
from audits.core.intervals import Undefined
from audits.core.testing import drafted
from audits.core.wording import span
from audits.tracking import AUDIT, Options
from audits.tracking.critical_depth import half_depth
from audits.tracking.estimates import agrees, chance_of, estimates
from audits.tracking.figures import figures
from audits.tracking.findings import findings
from audits.tracking.inputs import _gammas, _named
from audits.tracking.item_files import read_items
from audits.tracking.items import Item
from audits.tracking.language_model import _said
from audits.tracking.measure import NO_OPTIONS, NOT_GIVEN, Counts, Graded
from audits.tracking.predictions import Answer, read_predictions
from audits.tracking.published_items import DISAGREES, _boxed
from audits.tracking.scoring import Score, Scoring, extract, score
from probes.core.errors import InputError


def item(**values: object) -> Item:
    given: dict[str, object] = {"id": "1", "task": "t", "prompt": "p", "target": "cup", "options": ("cup", "hat")}
    return Item(**{**given, "n_ops": 1, "n_changes": 1, "depth": 1, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("scoring", ["exact", "choice"])
@pytest.mark.parametrize("text", ["", " . ", "First.\nThen."])
def test_who_says_nothing_names_no_option(text: str, scoring: Scoring) -> None:
    found = score(item(), Answer(text), scoring)
    assert not found.correct
    assert found.said not in ("cup", "hat")


@pytest.mark.parametrize(("text", "right"), [("It holds the cup.", False), ("", False), ("It is empty.", True)])
def test_an_empty_box_is_not_held_by_every_text(text: str, right: bool) -> None:
    assert score(item(target="", options=()), Answer(text), "contains").correct is right


def test_a_point_in_a_number_ends_no_answer() -> None:
    assert extract("The answer is 0.5. Done.") == "0.5"
    assert _said(" 0.5. And so on", whole=False) == "0.5"
    assert _said(" cup. And so on", whole=False) == "cup"


def test_an_answer_with_an_article_goes_with_a_rule() -> None:
    guesses = {"initial": frozenset({"cup"}), "last": frozenset({"cup", "red hat"})}
    free = item(options=(), guesses=guesses)
    assert agrees(free, "initial", "the cup")
    assert agrees(free, "last", "the red hat and the cup")
    assert not agrees(free, "last", "the cup")
    assert not agrees(free, "initial", "")


def test_a_depth_at_which_some_items_have_no_options_has_no_chance() -> None:
    items = [item(), item(id="2", options=()), item(id="3", depth=2)]
    assert chance_of(items, "t") == {2: 0.5}


def test_a_half_that_was_not_asked_is_not_made_up() -> None:
    for hits in (
        {0: (58, 64), 1: (38, 64), 2: (58, 64), 3: (58, 64)},
        {0: (40, 64), 1: (39, 64), 2: (40, 64), 3: (39, 64)},
        {0: (8, 10), 1: (7, 10), 2: (6, 10)},
    ):
        assert isinstance(half_depth(hits, 0.25, 0.95), Undefined)


def test_a_row_of_boxes_without_text_is_not_read() -> None:
    assert _boxed("") is None


def test_numbers_and_prompts_that_two_items_have_tell_none(tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text("task,index,prediction\nt,0,cup\n")
    with pytest.raises(InputError, match="or several have"):
        read_predictions("s", tmp_path / "said.csv", [item(), item(id="2")])


def test_an_answer_to_an_item_that_was_left_out_is_counted_and_one_to_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Z60=2.csv").write_text("input,target\n1 2,1 9\n" + "".join(f"1 {at},1 {at + 1}\n" for at in range(30)))
    rows = read_items(tmp_path / "Z60=2.csv").rows
    said = tmp_path / "said.csv"
    context = Context(cache=Cache(tmp_path / "cache"))
    options = Options(items=(str(tmp_path / "Z60=2.csv"),), predictions=(f"s={said}",))
    by_id = "id,prediction\n" + "".join(f"{row.id},{at}\n" for at, row in enumerate(rows))
    # In the order of the file, whose first row is left out, n + 1 is the answer to 1 n.
    for text in (by_id, "prediction\n" + "".join(f"{at}\n" for at in range(31))):
        said.write_text(text)
        draft = drafted(AUDIT, options, context)
        assert draft.coverage is not None
        assert {one.reason: one.count for one in draft.coverage.skipped} == {DISAGREES: 1}
        assert sum(row.value * row.n for row in draft.select("accuracy")) == draft.coverage.used == 30
        left = [row for row in draft.records if row["skipped_because"]]
        assert [(row["system"], row["depth"], row["skipped_because"]) for row in left] == [("s", "", DISAGREES)]
        assert all(row["properties"] == 1 and row.keys() == left[0].keys() for row in draft.records[:30])
    said.write_text("\n".join(line for line in by_id.splitlines() if not line.startswith(rows[0].id)))
    left = [row for row in drafted(AUDIT, options, context).records if row["skipped_because"]]
    assert [(row["system"], row["id"], row["skipped_because"]) for row in left] == [("", rows[0].id, DISAGREES)]
    said.write_text(by_id + "other,1\n")
    with pytest.raises(InputError, match="No item has id other"):
        drafted(AUDIT, options, context)
    said.write_text(f"id,prediction\n{rows[0].id},1\n")
    with pytest.raises(InputError, match="No answer of s"):
        drafted(AUDIT, options, context)


def test_an_item_without_an_answer_or_options_has_a_row_that_says_so(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text(
        "id,prompt,target,options,depth\n" + "".join(f"{at},p {at},1,1|2,0\n" for at in range(4)) + "4,q,1,,0\n"
    )
    (tmp_path / "said.csv").write_text("id,prediction\n0,1\n1,2\n4,1\n")
    options = Options(items=(str(items),), predictions=(f"s={tmp_path / 'said.csv'}",), scoring=("choice",))
    draft = drafted(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))
    left = {row["id"]: row["skipped_because"] for row in draft.records}
    assert left == {"0": "", "1": "", "2": NOT_GIVEN, "3": NOT_GIVEN, "4": NO_OPTIONS}
    assert draft.coverage is not None
    assert (draft.coverage.given, draft.coverage.used) == (5, 2)


def test_words_of_two_groups_are_two_items(tmp_path: Path) -> None:
    for group in ("A5", "Z60"):
        (tmp_path / f"{group}=1.csv").write_text("seed,input,target\n0,3,3\n")
    first, second = (read_items(tmp_path / f"{group}=1.csv").items[0] for group in ("A5", "Z60"))
    assert first.id != second.id


@pytest.mark.parametrize("text", ["0.999999999999", "1e-18", "1", "nan"])
def test_a_discount_that_rounds_to_an_end_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no discount"):
        _gammas([text])


def test_a_system_whose_name_fills_a_headline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no name of a system"):
        _named(["a b c d e f=said.csv"])
    (tmp_path / "said.csv").write_text("id,mode,prediction\n1,a\u202eb,cup\n1,c,cup\n")
    with pytest.raises(InputError, match="no name of a system"):
        read_predictions("s", tmp_path / "said.csv", [item()])


def test_a_figure_of_many_tasks_shows_the_first_and_says_so() -> None:
    items = tuple(item(id=str(at), task=f"task {at}") for at in range(70))
    scores = {at: Score(correct=True, said="cup") for at in range(70)}
    counts = Counts(items=items, graded=(Graded(system="s", scoring="exact", scores=scores),))
    draft = Draft(level=0.95, seed=0, measures={measure.name: measure for measure in AUDIT.measures})
    estimates(draft, counts)
    accuracy, depths = list(figures(draft, counts))[:2]
    assert "first 12 of 70 tasks" in accuracy.caption
    assert "first 60 of 70 rows" in depths.caption
    assert "task 12" not in str(accuracy.spec)


@pytest.mark.parametrize(
    ("graph", "phase", "told"), [(0.2, 0.3, True), (0.6, 0.3, False), (0.2, 0.6, False), (None, 0.3, True)]
)
def test_a_head_looks_within_blocks_beyond_what_chains_and_nearness_explain(
    graph: float | None, phase: float, told: bool
) -> None:
    rng = np.random.default_rng(0)
    levels = {"measured": 0.5, "phase": phase, "graph": graph}
    noisy = {(0, 1, 8, kind): level + rng.normal(0, 0.01, 40) for kind, level in levels.items() if level is not None}
    draft = Draft(level=0.95, seed=0, measures={measure.name: measure for measure in AUDIT.measures})
    counts = Counts(items=(), shares={key: row.tolist() for key, row in noisy.items()})
    estimates(draft, counts)
    findings(draft, counts)
    found = [claim for claim in draft.findings if claim.id == "tracking.block_structure"]
    assert bool(found) is told
    for claim in found:
        assert [row.where["kind"] for row in claim.evidence] == [kind for kind, level in levels.items() if level]


def judged(hits: dict[int, tuple[int, int]], options: tuple[str, ...] = ("cup", "hat")) -> Draft:
    """Return what is said of right answers, and all, by depth, of a task of a long name."""
    items, scores = [], {}
    for depth, (right, count) in hits.items():
        for place in range(count):
            scores[len(items)] = Score(correct=place < right, said="cup" if place < right else "hat")
            items.append(item(id=f"{depth} {place}", task="shuffled_objects", depth=depth, options=options))
    counts = Counts(items=tuple(items), graded=(Graded(system="s", scoring="exact", scores=scores),))
    draft = Draft(level=0.95, seed=0, measures={measure.name: measure for measure in AUDIT.measures})
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def depth_headline(draft: Draft) -> str:
    (claim,) = [one for one in draft.findings if one.id == "tracking.depth_pattern"]
    assert claim.evidence[0].name == "critical_n"
    return claim.headline


def test_an_interval_from_none_to_all_that_was_asked_shows_no_depth() -> None:
    draft = judged({1: (19, 20), 2: (17, 20), 3: (20, 20)})
    row = draft.row("critical_n", system="s", task="shuffled_objects", scoring="exact")
    assert (row.low, row.high) == (-1, 3)
    assert depth_headline(draft) == "How deep s follows shuffled objects is not shown."
    assert draft.answer is not None and not any("follows 1" in words for words in draft.answer.may)
    # At the least depth all is right: that much is followed.
    assert depth_headline(judged({1: (80, 80), 2: (17, 20), 3: (20, 20)})).startswith("s follows 1 (1 to 3) ")


@pytest.mark.parametrize(
    ("hits", "said"),
    [
        ({1: (30, 100), 2: (20, 100)}, "s does not follow 1 chained change of shuffled objects: right in only "),
        # Near the level of 0.9 an accuracy alone would read as a success.
        ({1: (850, 1000), 2: (820, 1000)}, "s does not follow 1 chained change of shuffled objects: right in only "),
        ({3: (60, 100), 4: (20, 100)}, "s does not follow 3 chained changes of shuffled objects: right in only "),
        ({0: (60, 100), 1: (20, 100)}, "s does not follow shuffled objects even without a change: right in only "),
    ],
)
def test_a_failure_at_the_least_depth_is_told_as_one_with_its_task_and_accuracy(
    hits: dict[int, tuple[int, int]], said: str
) -> None:
    draft = judged(hits)
    cell = draft.row("accuracy", system="s", task="shuffled_objects", depth=min(hits), scoring="exact")
    headline = f"{said}{span(cell)}."
    assert depth_headline(draft) == headline and not faults(draft)
    (claim,) = [one for one in draft.findings if one.id == "tracking.depth_pattern"]
    assert cell in claim.evidence and claim.statement.startswith("Accuracy is below 0.9 at ")
    assert draft.answer is not None and headline in draft.answer.may


def test_the_answer_on_a_failure_near_the_level_says_that_it_is_one() -> None:
    answer = judged({1: (850, 1000), 2: (820, 1000)}).answer
    assert answer is not None
    said = "s does not follow 1 chained change of shuffled objects: right in only 0.850 (0.826 to 0.872)."
    assert answer.title == said and answer.may[0] == said


def test_the_largest_accuracy_of_a_guesser_is_not_told_as_a_bound() -> None:
    (claim,) = [one for one in judged({1: (48, 100), 2: (50, 100)}).findings if one.id == "tracking.at_chance"]
    assert claim.headline.startswith("s is not shown above chance at 1 to 2 changes of shuffled objects: largest ")
    assert "largest accuracy 0.50 (" in claim.headline and "at most" not in claim.headline


def test_warnings_of_a_curve_name_the_system_and_the_task() -> None:
    for hits, kind in (({1: (30, 100), 2: (20, 100)}, "no-half"), ({1: (90, 100), 2: (91, 100)}, "not-reached")):
        (warning,) = [one for one in judged(hits).warnings if one.id == kind]
        assert warning.message.startswith("s on shuffled objects: ")
