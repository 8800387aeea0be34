"""Are subjects of known depth told exactly, and is nothing found where nothing is?"""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.tracking import AUDIT, Options
from audits.tracking.estimates import estimates
from audits.tracking.findings import findings
from audits.tracking.generators import Recipe, make_items
from audits.tracking.items import Item, task_words
from audits.tracking.measure import Counts, Graded
from audits.tracking.predictions import Answer
from audits.tracking.scoring import Score, score

DEPTHS = (0, 1, 2, 3, 4, 6, 8)
Subject = Callable[[Item, np.random.Generator], str]


def guess(item: Item, rng: np.random.Generator) -> str:
    return str(rng.choice(item.options))


def follows(depth: int) -> Subject:
    return lambda item, rng: item.target if item.depth <= depth else guess(item, rng)


def counts(limit: int) -> Subject:
    """A subject that loses by length: changes, chained or not."""

    def answer(item: Item, rng: np.random.Generator) -> str:
        changes = item.n_changes if item.task == "overwrite" else item.depth
        return item.target if changes <= limit else guess(item, rng)

    return answer


def rule(name: str) -> Subject:
    return lambda item, rng: next(iter(item.guesses.get(name, {guess(item, rng)})))


def perfect(item: Item, rng: np.random.Generator) -> str:
    return item.target


@functools.cache
def made(task: str, seed: int) -> tuple[Item, ...]:
    return tuple(make_items(Recipe(task=task, depths=DEPTHS, per_depth=64, seed=seed)))


def audited(folder: Path, subject: Subject, tasks: tuple[str, ...] = ("pointer", "overwrite"), seed: int = 0) -> Draft:
    """Write items and the answers of a subject, and audit them."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in tasks:
        for item in made(task, seed):
            kept = ("id", "task", "prompt", "options", "target", "n_ops", "n_changes", "depth")
            row = {key: getattr(item, key) for key in kept}
            rows.append({**row, "seed": item.twin, "prediction": subject(item, rng)})
    file = folder / "items.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = Options(items=(str(file),), scoring=("choice",))
    return drafted(AUDIT, options, Context(cache=Cache(folder / "cache")))


def ids(draft: Draft, *, worse: bool = True) -> set[str]:
    return {claim.id for claim in draft.findings if not worse or claim.severity != "info"}


@pytest.mark.parametrize("depth", [1, 3])
def test_a_subject_that_follows_to_a_depth_is_told_exactly(tmp_path: Path, depth: int) -> None:
    draft = audited(tmp_path, follows(depth))
    found = draft.row("critical_n", system="items", task="pointer", scoring="choice")
    assert (found.value, found.low, found.high) == (depth, depth, depth)
    # Overwriting has depth 1 whatever the number of changes: all of it is followed.
    assert draft.row("critical_n", system="items", task="overwrite", scoring="choice").low == max(DEPTHS)
    half = draft.row("half_n", system="items", task="pointer", scoring="choice")
    assert half.low == depth
    assert "tracking.chaining_cost" in ids(draft)
    assert "tracking.length_cost" not in ids(draft)


def test_a_perfect_subject_has_no_fault(tmp_path: Path) -> None:
    draft = audited(tmp_path, perfect, ("pointer", "overwrite", "swap"))
    assert ids(draft) == set()
    assert {warning.id for warning in draft.warnings} >= {"not-reached", "no-half"}


def test_a_loss_by_length_is_not_called_chaining(tmp_path: Path) -> None:
    draft = audited(tmp_path, counts(3))
    assert "tracking.length_cost" in ids(draft)
    assert "tracking.chaining_cost" not in ids(draft)


def test_what_was_not_compared_is_not_called_length(tmp_path: Path) -> None:
    assert "tracking.length_cost" not in ids(audited(tmp_path, counts(3), ("overwrite",)))


def test_a_loss_without_a_change_is_no_cost_of_chaining(tmp_path: Path) -> None:
    def misreads(item: Item, rng: np.random.Generator) -> str:
        return guess(item, rng) if (item.task, item.depth) == ("pointer", 0) else item.target

    assert "tracking.chaining_cost" not in ids(audited(tmp_path, misreads))


def test_guessing_is_at_chance_and_nothing_else(tmp_path: Path) -> None:
    for seed in range(3):
        draft = audited(tmp_path, guess, ("pointer", "swap"), seed)
        assert ids(draft) == {"tracking.at_chance"}, seed
        assert all(row.high == -1 for row in draft.select("critical_n"))
        for claim in draft.findings:
            if claim.id == "tracking.at_chance":
                words = task_words(str(claim.where["task"]))
                assert f"above chance at 1 to 8 changes of {words}: largest accuracy" in claim.headline
                assert sorted(row.where["depth"] for row in claim.evidence) == sorted(DEPTHS[1:] * 2)
                assert claim.evidence[0].value == max(row.value for row in claim.evidence if row.name == "accuracy")


def test_a_shortcut_is_named(tmp_path: Path) -> None:
    file = tmp_path / "swaps.json"
    rng = np.random.default_rng(0)
    people, things = ("Ann", "Bob", "Cid"), ("cup", "hat", "pen")
    examples, answers = [], []
    for _ in range(200):
        start = [things[at] for at in rng.permutation(3)]
        pairs = [[people[at] for at in rng.permutation(3)[:2]] for _ in range(5)]
        held = dict(zip(people, start, strict=True))
        for a, b in pairs:
            held[a], held[b] = held[b], held[a]
        text = (
            f"They have things: Ann has a {start[0]}, Bob has a {start[1]}, and Cid has a {start[2]}.\nThey trade. "
            + "".join(f"Then, {a} and {b} swap things. " for a, b in pairs)
            + "At the end of it, Bob has the\nOptions:\n(A) cup\n(B) hat\n(C) pen"
        )
        labels = dict(zip(things, ("(A)", "(B)", "(C)"), strict=True))
        examples.append({"input": text, "target": labels[held["Bob"]]})
        answers.append(labels[start[1]])
    file.write_text(json.dumps({"examples": examples}))
    said = tmp_path / "said.csv"
    said.write_text("prediction\n" + "\n".join(answers) + "\n")
    options = Options(items=(str(file),), predictions=(f"lazy={said}",))
    draft = drafted(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))
    found = [claim for claim in draft.findings if claim.id == "tracking.shortcut"]
    assert [claim.where["heuristic"] for claim in found] == ["initial"]
    assert found[0].evidence[0].value == 1.0


def test_avoiding_the_right_answer_is_below_chance(tmp_path: Path) -> None:
    def avoids(item: Item, rng: np.random.Generator) -> str:
        if item.depth < 3:
            return item.target
        return str(rng.choice([option for option in item.options if option != item.target]))

    found = [claim for claim in audited(tmp_path, avoids, ("swap",)).findings if claim.id == "tracking.below_chance"]
    assert len(found) == 1
    assert found[0].severity == "medium"


@pytest.mark.parametrize("knows", [False, True])
def test_a_guess_among_options_is_no_knowledge(knows: bool) -> None:
    items = tuple(make_items(Recipe(task="swap", depths=(0, 1), per_depth=64)))
    rng = np.random.default_rng(0)
    chosen = {
        at: score(item, Answer(item.target if knows else guess(item, rng)), "choice") for at, item in enumerate(items)
    }
    said = {at: Score(correct=False, said="what") for at in range(len(items))}
    counts = Counts(
        items=items,
        graded=(
            Graded(system="model", scoring="choice", scores=chosen),
            Graded(system="model", scoring="exact", scores=said),
        ),
    )
    draft = Draft(level=0.95, seed=0, measures={measure.name: measure for measure in AUDIT.measures})
    estimates(draft, counts)
    findings(draft, counts)
    assert ("tracking.format" in ids(draft)) is knows
