"""Measure how many chained changes of state a model can follow, and whether it is chaining or length that costs.

Operations in the text, changes of what is asked for, and depth, the longest chain that leads to the answer, are three
numbers. A transformer of L layers needs L >= log2(depth + 1) of them (Fagnou et al. 2024, arXiv 2410.05565): a bound
on depth alone, which models with many layers never reach.
"""

from dataclasses import dataclass
from typing import Any

from audits.core.measures import Measure
from audits.core.option_groups import Workers
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

_ITEMS, _MODEL, _TRAIN, _OPERATOR = "Items", "Model and answers", "Reference curves", "Operators"


def _train(help: str, default: int, *, least: int = 1, most: int | None = None) -> Any:
    """Declare a number of the reference curves."""
    return option(help, default, metavar="N", panel=_TRAIN, least=least, most=most, only_with=("train",))


@dataclass(frozen=True, kw_only=True)
class Options(Workers):
    """Options of `miles audit-tracking`."""

    model: str | None = argument(
        "A causal language model: a local Hugging Face folder or a hub id.", metavar="MODEL", required=False
    )
    items: tuple[str, ...] = option(
        "Items: a table of prompt, target and depth; BIG-Bench-Hard, Boxes, bAbI, or words of a group; repeatable.",
        (),
        listed=False,
        metavar="FILE",
        panel=_ITEMS,
    )
    task: tuple[str, ...] = option(
        "Tasks whose items are made here.",
        ("pointer", "overwrite", "swap"),
        metavar="pointer,contents,swap,overwrite,word:A5,...",
        panel=_ITEMS,
        several=False,
    )
    n: tuple[str, ...] = option(
        "Depths of the items that are made, and of the chains of --train.",
        ("0", "1", "2", "3", "4", "6", "8", "12", "16"),
        metavar="N,...",
        panel=_ITEMS,
        several=False,
    )
    per_n: int = option("Items of each task and depth.", 64, metavar="N", panel=_ITEMS, least=1, most=100_000)
    entities: int = option(
        "Entities of an item, each with a value: who guesses is right once in so many.",
        4,
        metavar="N",
        panel=_ITEMS,
        least=3,
        most=12,
    )
    render: str = option("How items are written.", "text", choices=("text", "code"), metavar="text|code", panel=_ITEMS)
    shots: int = option("Worked examples before each question.", 2, metavar="N", panel=_ITEMS, least=0, most=16)
    predictions: tuple[str, ...] = option(
        "Answers that a system gave: a table of id (or index, or the order) and prediction, or samples of "
        "lm-evaluation-harness; repeatable.",
        (),
        listed=False,
        metavar="NAME=FILE",
        panel=_MODEL,
        only_with=("items",),
    )
    scoring: tuple[str, ...] = option(
        "How answers count. Default: exact, and of a MODEL its choice among the options too.",
        (),
        metavar="choice,exact,contains",
        choices=("choice", "exact", "contains"),
        panel=_MODEL,
    )
    cot: bool = option(
        "Let the MODEL reason before it says 'the answer is'.", False, panel=_MODEL, only_with=("model",)
    )
    chat: bool = option("Ask in the chat template of the MODEL's tokenizer.", False, panel=_MODEL, only_with=("model",))
    max_new_tokens: int | None = option(
        "Most tokens of an answer. Default: 16; with --cot 256.",
        metavar="N",
        panel=_MODEL,
        least=1,
        only_with=("model",),
    )
    batch: int = option(
        "Most prompts in one forward pass.", 16, metavar="N", panel=_MODEL, least=1, only_with=("model",)
    )
    level_accuracy: float = option(
        "Accuracy from which on a depth counts as followed.", 0.9, metavar="SHARE", panel=_MODEL, above=0, under=1
    )
    structure: bool = option(
        "Measure the share of attention within blocks.", False, panel=_OPERATOR, only_with=("model",)
    )
    block: tuple[str, ...] = option(
        "Sizes of blocks; auto is (2 T)^(1/3) for T tokens.",
        ("auto",),
        metavar="auto|N,...",
        panel=_OPERATOR,
        several=False,
        only_with=("structure",),
    )
    operator: bool = option("Compare the forms of attention that follows chains in one layer.", False, panel=_OPERATOR)
    gamma: tuple[str, ...] = option(
        "Discounts of the operator, below 1.",
        ("0.5", "0.9", "0.99"),
        metavar="G,...",
        panel=_OPERATOR,
        several=False,
        only_with=("operator",),
    )
    length: int = option(
        "Tokens that the operator mixes.",
        512,
        metavar="N",
        panel=_OPERATOR,
        least=32,
        most=4096,
        only_with=("operator",),
    )
    train: bool = option("Train reference curves on chains of pointers: no MODEL is needed.", False, panel=_TRAIN)
    layers: tuple[str, ...] = option(
        "Numbers of layers: a network each.",
        ("1", "2"),
        metavar="L,...",
        panel=_TRAIN,
        several=False,
        only_with=("train",),
    )
    resolvent: bool = option("Train one layer that solves for chains, too.", False, panel=_TRAIN, only_with=("train",))
    layerwise: bool = option(
        "Train a linear reading after every layer of the deepest network.", False, panel=_TRAIN, only_with=("train",)
    )
    properties: int = option(
        "Properties that each name carries along chains of their own; more than one trains twins with as many heads, "
        "and with half.",
        1,
        metavar="P",
        panel=_TRAIN,
        least=1,
        most=8,
        only_with=("train",),
    )
    heads: int = _train("Attention heads in each layer.", 2, most=16)
    width: int = _train("Width of the networks.", 64, least=8, most=1024)
    steps: int = _train("Training steps.", 4000)
    seeds: int = _train("Trainings of each network.", 3, most=100)


_CELL = ("system", "task", "depth", "scoring")
_CURVE = ("system", "task", "scoring")
MEASURES = (
    Measure("accuracy", (*_CELL, "n_changes"), "accuracy", unit="items", worse="down"),
    Measure("chance", ("task", "depth"), "accuracy by guessing", unit="options"),
    Measure("critical_n", _CURVE, "largest depth followed", unit="items", worse="down"),
    Measure("above_chance_depth", _CURVE, "largest depth above chance", unit="items", worse="down"),
    Measure("half_n", _CURVE, "depth half-way to chance", unit="items", worse="down"),
    Measure("depth_bound", ("layers",), "depth that layers allow", unit="layers", compared=False),
    Measure("layers_needed", ("depth",), "layers that a depth needs", unit="layers", compared=False),
    Measure("depth_use", ("system", "task"), "layers used of those there are", unit="items", worse="down", neutral=1.0),
    Measure(
        "chained_minus_overwrite",
        ("system", "depth"),
        "accuracy of chained changes less that of plain ones",
        unit="pairs",
        worse="down",
        neutral=0.0,
    ),
    Measure(
        "heuristic_agreement", ("system", "heuristic", "task"), "answers that a cheap rule gives too", unit="items"
    ),
    Measure("heuristic_gold", ("heuristic", "task"), "right answers of a cheap rule", unit="items", compared=False),
    Measure(
        "format_gap", ("system", "task", "depth"), "accuracy lost in saying it", unit="items", worse="up", neutral=0.0
    ),
    Measure(
        "layer_critical_n", ("system", "layer"), "largest depth read after a layer", unit="sequences", worse="down"
    ),
    Measure("exact_match", ("system", "properties", "heads"), "all properties right", unit="sequences", worse="down"),
    Measure(
        "block_share", ("layer", "head", "block", "kind"), "attention within blocks", unit="items", apart=("block",)
    ),
    Measure(
        "operator_difference", ("form", "gamma", "length"), "relative difference from the solution", unit="solutions"
    ),
    Measure(
        "seconds_ratio", ("form", "length"), "time by that of the triangular solution", unit="seconds", neutral=1.0
    ),
)

LIMITATIONS = (
    "The bound of depth is necessary, not sufficient: to follow less than it says nothing about it, and to reach it is "
    "consistent with it and proves nothing. It counts steps along a chain; operations that name their value, or that "
    "commute, have shortcuts.",
    "Of a text, the depth is that of its operations. Reading them takes layers too, which is why no model of texts is "
    "judged by the bound minus what reading may take.",
    "Published items may have been in a model's training texts. Items made here with a new seed were not.",
    "Attention is no measure of importance: a share within blocks is a property of the text's layout as well.",
)

STEPS = {
    "tracking.shortcut": (
        "Test on items where the rule fails: those that are made here (--task), or published ones without the "
        "rule's answer."
    ),
    "tracking.below_chance": "Read the wrong answers: below chance means that a rule avoids the right one.",
    "tracking.chaining_cost": (
        "Let the model write down its steps (--cot), or keep chains in its inputs shorter than the depth that "
        "it follows."
    ),
    "tracking.length_cost": (
        "Shorten the inputs, or train on longer ones: the number of changes costs, not their chaining."
    ),
    "tracking.format": (
        "Ask for an option instead of free text, or show more examples of the answer's form (--shots)."
    ),
    "tracking.at_chance": (
        "Ask for shallower chains (--n) and check the form of the answers before you conclude anything."
    ),
    "tracking.depth_pattern": (
        "Compare the depth with the chains of your own inputs, and ask for deeper ones (--n) where no failure "
        "was shown."
    ),
    "tracking.operator_mismatch": "Use a form that is exact, or one whose bound you can live with.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-tracking",
    title="Changes of state that a model follows",
    question=(
        "How many chained changes of state does the model follow, is it chaining or length that costs, does it take a "
        "shortcut, and what would its depth allow?"
    ),
    summary="How many chained changes of state can a model follow, and is it chaining or length that costs?",
    options=Options,
    package="audits.tracking",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    summaries=(Summary(measure="critical_n", title="Largest depth followed", row="task", column="system"),),
    headed=("task", "n", "per_n", "entities", "level_accuracy", "scoring"),
    model=("model",),
    spreads=("answers and networks",),
)
