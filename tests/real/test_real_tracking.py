"""Are published items replayed, and published answers scored, with the figures that their authors give?"""

import os
from pathlib import Path

import pytest

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.tracking import AUDIT, Options
from audits.tracking.group_words import fold_by, table
from audits.tracking.item_files import read_items
from probes.files.tables import read_table

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real
TASKS = {name: f"tracking_shuffled_objects_{name}_objects" for name in ("three", "five", "seven")}
DEPTHS = {
    "three": {1: 41, 2: 169, 3: 40},
    "five": {1: 74, 2: 117, 3: 47, 4: 11, 5: 1},
    "seven": {1: 90, 2: 94, 3: 50, 4: 14, 5: 2},
}
RIGHT = {"direct": {"three": 94, "five": 51, "seven": 36}, "cot": {"three": 196, "five": 224, "seven": 214}}
SCREEN = {
    "last_op_only": {"three": 0.0, "five": 0.176, "seven": 0.160},
    "initial": {"three": 0.336, "five": 0.124, "seven": 0.084},
    "drop_first": {"three": 0.344, "five": 0.612, "seven": 0.748},
    "last_partner_initial": {"three": 0.164},
}


def place(name: str) -> Path:
    path = DATA / "tracking" / name
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the items")
    return path


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Draft:
    items = tuple(str(place(f"{task}.json")) for task in TASKS.values())
    options = Options(items=items, predictions=(f"davinci={place('code-davinci-002.jsonl')}",))
    return drafted(AUDIT, options, Context(cache=Cache(tmp_path_factory.mktemp("cache"))))


@pytest.mark.parametrize("name", TASKS)
def test_every_story_leads_to_its_target_over_known_depths(name: str) -> None:
    found = read_items(place(f"{TASKS[name]}.json"))
    assert (len(found.items), found.skipped) == (250, {})
    assert {depth: sum(item.depth == depth for item in found.items) for depth in DEPTHS[name]} == DEPTHS[name]


def test_answers_have_the_published_accuracies(draft: Draft) -> None:
    for mode, tasks in RIGHT.items():
        for name, right in tasks.items():
            rows = draft.select("accuracy", system=f"davinci.{mode}", task=TASKS[name], scoring="exact")
            assert sum(row.n for row in rows) == 250
            assert round(sum(row.value * row.n for row in rows)) == right


def test_three_swaps_of_three_are_below_chance(draft: Draft) -> None:
    row = draft.row("accuracy", system="davinci.direct", task=TASKS["three"], scoring="exact", depth=3)
    assert (row.value, row.n) == (0.05, 40)
    assert row.low == pytest.approx(0.006, abs=5e-4)
    assert row.high == pytest.approx(0.169, abs=5e-4)
    found = [claim.where["task"] for claim in draft.findings if claim.id == "tracking.below_chance"]
    assert found == [TASKS["three"]]
    at_chance = [claim.where["task"] for claim in draft.findings if claim.id == "tracking.at_chance"]
    assert at_chance == [TASKS["five"], TASKS["seven"]]


def test_cheap_rules_are_right_as_often_as_measured(draft: Draft) -> None:
    for rule, tasks in SCREEN.items():
        for name, share in tasks.items():
            assert draft.row("heuristic_gold", heuristic=rule, task=TASKS[name]).value == pytest.approx(share)
    row = draft.row(
        "heuristic_agreement", system="davinci.direct", heuristic="last_partner_initial", task=TASKS["three"]
    )
    assert row.value == pytest.approx(0.420)
    assert (row.low, row.high) == pytest.approx((0.358, 0.484), abs=5e-4)


def test_answers_without_a_last_word_are_counted_as_wrong(draft: Draft) -> None:
    assert any(warning.id == "no-answer" and warning.message.startswith("2 answers") for warning in draft.warnings)


@pytest.mark.parametrize("group", ["A5", "Z60"])
def test_tables_of_groups_are_the_published_ones(group: str) -> None:
    rows = read_table(place(f"{group}=2.csv")).rows
    assert len(rows) == 3600
    for row in rows:
        a, b = map(int, (row.values["input"] or "").split())
        assert int((row.values["target"] or "").split()[-1]) == table(group)[a][b]


def test_words_fold_from_the_left_and_not_from_the_right() -> None:
    found = read_items(place("A5=8.csv"))
    assert (len(found.items), found.skipped) == (10_000, {})
    turned = [list(column) for column in zip(*table("A5"), strict=True)]
    wrong = sum(fold_by(turned, [*map(int, item.prompt.split())])[-1] == int(item.target) for item in found.items)
    assert wrong < 500
