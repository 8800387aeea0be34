"""Scores of answers: exactly the target, an option, or a text that holds the target."""

import re
from dataclasses import dataclass
from typing import Literal

from audits.tracking.items import Item, split_answer
from audits.tracking.predictions import Answer

Scoring = Literal["choice", "exact", "contains"]
SCORINGS: tuple[Scoring, ...] = ("choice", "exact", "contains")

_SAYS = re.compile(r"answer is:?\s*(\([A-Za-z]\)|(?:[^\n.]|\.(?=\d))+)", re.IGNORECASE)
"""What is said, to the end of its sentence; a point before a digit ends none."""
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|`)(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)")
"""Marks of Markdown around words, which chat models put around their answers."""


@dataclass(frozen=True, slots=True)
class Score:
    """Whether an answer is right, and what was understood of it; `said` is empty where it gives no answer."""

    correct: bool
    said: str


def score(item: Item, answer: Answer, scoring: Scoring) -> Score:
    """Score an answer.

    `exact`: the target, or its label, and nothing else, without case, articles and final stop; lists are compared as
    sets. Of a text of several lines, what its last "answer is" says; without one it gives no answer, which is wrong.
    `choice`: the option of the highest likelihood, or that is named. `contains`: the target stands in the text as a
    word, and no other option does.

    Examples
    --------
    >>> item = Item(id="1", task="t", prompt="", target="cup", options=("hat", "cup"), n_ops=1, n_changes=1, depth=1)
    >>> score(item, Answer("The cup."), "exact").correct, score(item, Answer("So the answer is hat."), "exact")
    (True, Score(correct=False, said='hat'))
    >>> score(item, Answer("It must be the cup, I think."), "contains").correct
    True
    """
    if scoring == "contains":
        return _contained(item, answer.text)
    if answer.choice is not None:
        chosen = item.options[answer.choice]
        return Score(chosen == item.target, chosen)
    said = extract(answer.text)
    option = _option(item, said)
    if option is not None:
        return Score(option == item.target, option)
    if scoring == "choice" and item.options:
        return Score(correct=False, said="")
    # A box that is empty has the empty list as its answer.
    parts = split_answer(said) - {"nothing", "empty"}
    return Score(bool(said) and parts == item.answers, said)


def extract(text: str) -> str:
    """Return what a text answers: behind its last "answer is", else the text itself if it is one line.

    >>> extract("First (A).\\nSo the answer is **(B)**."), extract("(A)"), extract("First.\\nThen.")
    ('(B)', '(A)', '')
    """
    text = _EMPHASIS.sub(r"\2", text)
    said = _SAYS.findall(text)
    if said:
        return str(said[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else ""


def _option(item: Item, said: str) -> str | None:
    bare = said.strip().rstrip(".").casefold()
    if not bare:
        # Who says nothing names no option, though options without labels have empty ones.
        return None
    for at, option in enumerate(item.options):
        label = item.labels[at].casefold() if item.labels else ""
        named = label and (bare.startswith(label) or bare.strip("():") == label.strip("()"))
        if named or bare == option.casefold():
            return option
    parts = split_answer(said)
    return next((option for option in item.options if parts and parts == split_answer(option)), None)


def _contained(item: Item, text: str) -> Score:
    # A box that is empty has no words of its own to be held.
    empty = ("nothing", "empty") if not item.target else (item.target,)
    held = [option for option in item.options or empty if _has(text, option)]
    if not item.target and held:
        return Score(correct=True, said=held[0])
    return Score(held == [item.target], held[0] if len(held) == 1 else "")


def _has(text: str, words: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None
