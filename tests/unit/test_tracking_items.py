"""Are depths, changes and targets of items what their texts say, and are files of items read as they are meant?"""

import json
from collections import Counter
from pathlib import Path

import pytest

from audits.tracking.generators import TASKS, Recipe, biased_rules, make_items
from audits.tracking.group_words import fold, table
from audits.tracking.item_files import read_items
from audits.tracking.items import Item
from audits.tracking.stories import Operation, Story, dependencies, guesses, simulate
from probes.core.errors import InputError

SWAPS = tuple(Operation("swap", *pair) for pair in (("Ann", "Bob"), ("Bob", "Cid"), ("Ann", "Bob")))
START = {"Ann": ("ball",), "Bob": ("cup",), "Cid": ("hat",)}
BOXES = (
    "Box 0 contains the painting and the bell, Box 1 contains nothing, Box 2 contains the key. Remove the bell from "
    "Box 0. Put the radio into Box 1. Move the contents of Box 0 to Box 1. Move the radio from Box 1 to Box 2. Box 1 "
    "contains <extra_id_0> ."
)
SHUFFLED = (
    "Alice, Bob, and Claire are playing a game. At the start of the game, they are each holding a ball: Alice has a "
    "pink ball, Bob has a green ball, and Claire has a white ball.\nAs the game progresses, pairs of players trade "
    "balls. First, Claire and Alice swap balls. Then, Alice and Bob swap balls. Finally, Bob and Claire swap balls. At "
    "the end of the game, Claire has the\nOptions:\n(A) pink ball\n(B) green ball\n(C) white ball"
)


def test_depth_counts_the_swaps_of_the_carrier_and_changes_those_of_the_entity() -> None:
    # ball: Ann -> Bob -> Cid; cup: Bob -> Ann -> Bob; hat: Cid -> Bob -> Ann.
    for query, answer, changes, depth in (("Cid", "ball", 1, 2), ("Bob", "cup", 3, 2), ("Ann", "hat", 2, 2)):
        outcome = simulate(Story(initial=START, operations=SWAPS, query=query))
        assert (outcome.answer, outcome.changes, outcome.depth) == (frozenset([answer]), changes, depth)


def test_a_value_that_is_named_starts_a_chain_anew() -> None:
    steps = (Operation("copy", "b", "a"), Operation("copy", "c", "b"), Operation("set", "c", values=("hat",)))
    story = Story(initial={"a": ("cup",)}, operations=steps, query="c")
    assert simulate(story).depth == 1
    assert simulate(Story(initial=story.initial, operations=steps[:2], query="c")).depth == 2


def test_boxes_move_what_they_hold() -> None:
    steps = (
        Operation("add", "1", values=("radio",)),
        Operation("move", "1", "0"),
        Operation("carry", "2", "1", ("radio",)),
    )
    held = {"0": ("bell", "key"), "1": (), "2": ()}
    answers = {query: simulate(Story(initial=held, operations=steps, query=query)).answer for query in held}
    assert answers == {"0": set(), "1": {"bell", "key"}, "2": {"radio"}}


def test_cheap_rules_answer_as_their_names_say() -> None:
    found = guesses(Story(initial=START, operations=SWAPS, query="Bob"), ("hat", "cup", "ball"))
    # Bob had the cup; the last swap alone gives him the ball; without the first he gets that too.
    assert {name: set(answer) for name, answer in found.items()} == {
        "initial": {"cup"},
        "last_op_only": {"ball"},
        "drop_first": {"ball"},
        "last_partner_initial": {"ball"},
        "last_mentioned_value": {"hat"},
        "first_option": {"hat"},
    }


@pytest.mark.parametrize("task", TASKS)
def test_generated_items_are_equally_long_and_have_their_depth(task: str) -> None:
    depths = (0, 1, 2, 3, 5)
    items = make_items(Recipe(task=task, depths=depths, per_depth=12))
    lengths = [item.n_changes if task == "overwrite" else item.depth for item in items]
    assert Counter(lengths) == dict.fromkeys(depths, 12)
    assert len({item.n_ops for item in items}) == 1
    assert {len(item.options) for item in items} == ({2} if task == "word:Z2" else {4})
    assert all(item.target in item.options for item in items)
    assert len({item.id for item in items}) == len(items)
    if task == "overwrite":
        assert {item.depth for item in items} == {0, 1}


def test_a_statement_depends_on_those_that_its_values_come_from() -> None:
    assert dependencies(Story(initial=START, operations=SWAPS, query="Cid")) == [
        (), (), (), (0, 1), (2, 3), (3, 4), (4,),
    ]  # fmt: skip


@pytest.mark.parametrize("rendering", ["text", "code"])
@pytest.mark.parametrize("task", ["pointer", "contents", "overwrite", "word:Z60"])
def test_the_graph_of_an_item_leads_from_its_question_to_its_answer(task: str, rendering: str) -> None:
    for item in make_items(Recipe(task=task, depths=(0, 1, 3), per_depth=8, rendering=rendering)):
        ends = [0, *(end for end, _ in item.graph)]
        assert ends[-1] == len(item.prompt)
        at, hops = len(item.graph) - 1, 0
        while sources := item.graph[at][1]:
            (before,) = sources
            assert before < at
            at, hops = before, hops + 1
        statement = item.prompt[ends[at] : ends[at + 1]]
        if task.startswith("word"):
            assert (hops, statement.split()) == (item.n_ops, item.prompt.split(" of ")[1].split()[:1])
        else:
            assert item.target in statement
            assert hops == (1 if task == "overwrite" else item.depth + 1)


def test_items_depend_on_the_seed_alone() -> None:
    recipe = Recipe(task="swap", depths=(0, 3), per_depth=4)
    assert make_items(recipe) == make_items(recipe)
    assert make_items(recipe) != make_items(Recipe(task="swap", depths=(0, 3), per_depth=4, seed=1))


@pytest.mark.parametrize("task", ["pointer", "contents", "swap", "overwrite"])
def test_no_cheap_rule_is_right_more_often_than_chance(task: str) -> None:
    items = make_items(Recipe(task=task, depths=(0, 1, 2, 3, 4, 6, 8), per_depth=40))
    assert biased_rules(items) == {}


def test_a_rule_that_is_always_right_is_seen() -> None:
    items = [
        Item(
            id=str(at), task="pointer", prompt="", target="cup", options=("cup", "hat"), n_ops=4, n_changes=4, depth=4,
            guesses={"first_option": frozenset(["cup"])},
        )
        for at in range(20)
    ]  # fmt: skip
    assert biased_rules(items) == {"first_option": (1.0, 0.5)}


@pytest.mark.parametrize("task", ["pointer", "contents", "swap", "overwrite"])
def test_examples_share_no_name_or_value_with_the_question(task: str) -> None:
    for item in make_items(Recipe(task=task, depths=(0, 2), per_depth=5, shots=2)):
        *examples, question = item.prompt.split("\n\n")
        assert len(examples) == 2
        assert not any(option in example for option in item.options for example in examples)
        names = {word.strip(".") for word in question.split() if word[:1].isupper() and word[1:2].isdigit()}
        assert not any(f"{name} " in example or f"{name}." in example for name in names for example in examples)


def test_code_is_code_that_gives_the_answer() -> None:
    for task in ("pointer", "swap", "overwrite", "contents"):
        for item in make_items(Recipe(task=task, depths=(0, 3), per_depth=3, shots=0, rendering="code")):
            lines = item.prompt.splitlines()
            scope: dict[str, object] = dict.fromkeys(("None",))
            names = {word.strip(",") for line in lines[:-1] for word in line.split() if word[:1].isupper()}
            values: dict[str, object] = dict.fromkeys(names)
            exec("\n".join(lines[:-1]), scope, values)
            assert values[lines[-1].split(" of ")[1].removesuffix(" is:")] == item.target


def test_groups_are_groups_and_a5_is_not_commutative() -> None:
    for group, order, commuting in (("S3", 6, 18), ("A5", 60, 300), ("Z60", 60, 3600), ("Z2", 2, 4)):
        products = table(group)
        assert len(products) == order
        assert all(sorted(row) == list(range(order)) for row in products)
        assert products[0] == tuple(range(order))
        pairs = sum(products[a][b] == products[b][a] for a in range(order) for b in range(order))
        assert pairs == commuting
    a, b, c = 7, 23, 41
    assert fold("A5", [table("A5")[a][b], c])[-1] == fold("A5", [a, table("A5")[b][c]])[-1]


def test_boxes_are_replayed_and_a_wrong_target_is_left_out(tmp_path: Path) -> None:
    rows = [{"sentence_masked": BOXES, "masked_content": f"<extra_id_0> the {what}"} for what in ("painting", "bell")]
    file = tmp_path / "boxes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_items(file)
    assert (found.form, len(found.items), found.skipped) == ("Boxes", 1, {"replay disagrees with the target": 1})
    item = found.items[0]
    assert (item.n_ops, item.n_changes, item.depth, item.private) == (4, 3, 1, True)


def test_shuffled_objects_are_replayed(tmp_path: Path) -> None:
    examples = [{"input": SHUFFLED, "target": target} for target in ("(C)", "(A)")]
    file = tmp_path / "shuffled.json"
    file.write_text(json.dumps({"canary": "x", "examples": examples}))
    # pink: Alice -> Claire, -> Bob; green: Bob -> Alice; white: Claire -> Alice -> Bob -> Claire.
    found = read_items(file)
    assert found.skipped == {"replay disagrees with the target": 1}
    item = found.items[0]
    assert (item.target, item.labels, item.depth, item.n_changes, item.chance) == (
        "white ball",
        ("(A)", "(B)", "(C)"),
        3,
        2,
        1 / 3,
    )


def test_babi_has_the_facts_that_each_question_needs(tmp_path: Path) -> None:
    file = tmp_path / "qa2.txt"
    file.write_text(
        "1 Mary got the milk.\n2 Mary went home.\n3 Where is the milk? \thome\t1 2\n1 Joe left.\n2 Who left?\tJoe\t1\n"
    )
    items = read_items(file).items
    assert [(item.target, item.depth, item.n_ops) for item in items] == [("home", 2, 2), ("Joe", 1, 1)]
    assert items[1].prompt == "Joe left.\nWho left?"


def test_a_text_that_is_no_babi_is_told_what_it_was_read_as(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("prompt,target,depth\na,b,1\n")
    with pytest.raises(InputError, match="is read as bAbI") as caught:
        read_items(tmp_path / "mine.txt")
    assert "table with prompt, target and depth" in (caught.value.hint or "")


def test_words_are_folded_and_wrong_products_left_out(tmp_path: Path) -> None:
    file = tmp_path / "Z60=2.csv"
    file.write_text("seed,input,target\n1,30 40,30 10\n1,30 40,30 11\n1,0 5,0 5\n")
    found = read_items(file)
    assert [(item.target, item.depth) for item in found.items] == [("10", 2), ("5", 1)]
    assert found.skipped == {"replay disagrees with the target": 1}


GOOD = {"id": "1", "prompt": "a=1. b=a. b is", "target": "1", "depth": 1, "options": ["1", "2"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": None}, "The item has no depth"),
        ({"depth": "two"}, "'two' is no whole number"),
        ({"depth": -1}, "'-1' is no whole number"),
        ({"depth": 10**9}, "is no whole number"),
        ({"prompt": " "}, "The item has no prompt"),
        ({"target": "3"}, "none of the options"),
        ({"options": ["1"]}, "There is one option"),
        ({"options": ["1", "1"]}, "stands twice"),
        ({"id": "0"}, "Two items are named '0'"),
    ],
)
def test_a_bad_item_is_refused_with_its_line(tmp_path: Path, change: dict[str, object], message: str) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (GOOD | {"id": "0"}, GOOD | change)))
    with pytest.raises(InputError, match=message) as refused:
        read_items(file)
    assert str(file) in str(refused.value.where)


def test_items_without_a_column_of_depth_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("prompt,target\na,b\n")
    with pytest.raises(InputError, match="no column 'depth'"):
        read_items(file)
