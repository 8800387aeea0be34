"""The counts of the audit: scores of every answer, curves of trained networks, shares of attention, and operators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from audits.core.context import Context
from audits.tracking import Options
from audits.tracking.inputs import MODEL, REASONED, TOKENS, Inputs, layers_of
from audits.tracking.items import Item, Skip
from audits.tracking.language_model import (
    Choice,
    ChoiceJob,
    Replies,
    Reply,
    attention_shares,
    choices_of,
    score_choices,
    write_replies,
)
from audits.tracking.operators import Compared, compare_operators
from audits.tracking.predictions import Answer, Answers
from audits.tracking.scoring import Score, Scoring, score
from audits.tracking.trained_curves import TrainedCurve, curves_of, designs_of, train_all

TOO_LONG, NOT_GIVEN = "longer than the model's context", "no prediction"
NO_OPTIONS = "no options to choose among"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The scores of one system under one scoring, by the position of the item."""

    system: str
    scoring: Scoring
    scores: Mapping[int, Score]
    gaps: Mapping[int, float] = field(default_factory=dict)

    def hits(self, items: Sequence[Item], task: str, *, by_changes: bool = False) -> dict[int, tuple[int, int]]:
        """Return right answers and all, by depth, or by the number of changes."""
        found: dict[int, list[int]] = {}
        for at, one in self.scores.items():
            item = items[at]
            if item.task == task:
                cell = found.setdefault(item.n_changes if by_changes else item.depth, [0, 0])
                cell[0] += one.correct
                cell[1] += 1
        return {depth: (right, count) for depth, (right, count) in sorted(found.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was measured.

    Parameters
    ----------
    layers
        Of the MODEL.
    shares
        Of attention within blocks: a row an item, by layer, head, block and kind.
    skips
        What was left out.
    silent
        Answers that say nothing, by system and scoring: they count as wrong.
    """

    items: tuple[Item, ...]
    graded: tuple[Graded, ...] = ()
    curves: tuple[TrainedCurve, ...] = ()
    compared: tuple[Compared, ...] = ()
    shares: Mapping[tuple[int, int, int, str], Sequence[float]] = field(default_factory=dict)
    layers: int | None = None
    skips: Sequence[Skip] = ()
    silent: Mapping[str, int] = field(default_factory=dict)
    ties: int = 0
    several_tokens: int = 0
    level_accuracy: float = 0.9

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of the items, in their order."""
        return tuple(dict.fromkeys(item.task for item in self.items))


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Score all answers, train the networks, and compare the operators that are asked for."""
    graded = _given(inputs, context)
    skips = list(inputs.skips)
    for system, given in inputs.answers.items():
        skips += _left(system, inputs, given, NOT_GIVEN)
    chosen, replies, curves = _computed(options, inputs, context)
    shares: dict[tuple[int, int, int, str], list[float]] = {}
    if inputs.folder is not None:
        if "choice" in inputs.scorings:
            graded.append(_of_choices(inputs.items, chosen))
        answers = {at: Answer(said.text) for at, said in replies.items()}
        graded += [_graded(MODEL, one, inputs.items, answers) for one in inputs.scorings if one != "choice"]
        skips += _left(MODEL, inputs, {**chosen, **replies}, TOO_LONG)
        if options.structure:
            shares = attention_shares(inputs.folder, inputs.items, inputs.sizes, options, context)
    return Counts(
        items=inputs.items,
        graded=tuple(one for one in graded if one.scores),
        curves=curves,
        compared=compare_operators(options, inputs, context) if options.operator else (),
        shares=shares,
        layers=layers_of(inputs.folder),
        skips=skips,
        silent=_silent(graded),
        ties=sum(choice.tied for choice in chosen.values()),
        several_tokens=sum(choice.several for choice in chosen.values()),
        level_accuracy=options.level_accuracy,
    )


def _computed(
    options: Options, inputs: Inputs, context: Context
) -> tuple[dict[int, Choice], dict[int, Reply], tuple[TrainedCurve, ...]]:
    """Let the model choose and write, and train the networks: what parts of a run share."""
    jobs: tuple[ChoiceJob, ...] = ()
    written: Replies | None = None
    if inputs.folder is not None and "choice" in inputs.scorings:
        jobs = score_choices(inputs.folder, inputs.items, options, context)
    if inputs.folder is not None and {"exact", "contains"} & set(inputs.scorings):
        tokens = options.max_new_tokens or (REASONED if options.cot else TOKENS)
        written = write_replies(inputs.folder, inputs.items, tokens, options, context)
    designs = designs_of(options, inputs, context)
    train_all(designs, context)
    context.machines.join(last=True)
    replies = {} if written is None else written.read(whole=options.cot)
    return choices_of(jobs, inputs.items), replies, curves_of(inputs, designs, context)


def _left(system: str, inputs: Inputs, there: Mapping[int, object], reason: str) -> list[Skip]:
    """Return the items of which a system has no score: some have no options, the others a given reason."""
    choice = inputs.scorings == ("choice",)
    reasons = ((at, NO_OPTIONS if choice and not item.options else reason) for at, item in enumerate(inputs.items))
    return [Skip(system, inputs.items[at], why) for at, why in reasons if why == NO_OPTIONS or at not in there]


def _given(inputs: Inputs, context: Context) -> list[Graded]:
    """Score the answers that were made elsewhere."""
    graded: list[Graded] = []
    if inputs.answers:
        with context.progress.phase("Scoring answers", len(inputs.answers), "systems") as advance:
            for system, answers in inputs.answers.items():
                graded += [_graded(system, scoring, inputs.items, answers) for scoring in inputs.scorings]
                advance(1)
    return graded


def _graded(system: str, scoring: Scoring, items: Sequence[Item], answers: Answers) -> Graded:
    scored = {at: score(items[at], answer, scoring) for at, answer in answers.items() if _takes(items[at], scoring)}
    return Graded(system=system, scoring=scoring, scores=scored)


def _takes(item: Item, scoring: Scoring) -> bool:
    return scoring != "choice" or bool(item.options)


def _of_choices(items: Sequence[Item], chosen: Mapping[int, Choice]) -> Graded:
    scores = {at: score(items[at], Answer(choice=choice.option), "choice") for at, choice in chosen.items()}
    return Graded(system=MODEL, scoring="choice", scores=scores, gaps={at: choice.gap for at, choice in chosen.items()})


def _silent(graded: Sequence[Graded]) -> dict[str, int]:
    counts = {f"{one.system}, {one.scoring}": sum(not score.said for score in one.scores.values()) for one in graded}
    return {name: count for name, count in counts.items() if count}
