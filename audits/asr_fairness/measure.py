"""From recordings to counts: embeddings once, then both probes on every layer, then the controls.

What a probe answered is kept by the hash of all that it depends on; another grouping, metric or level
changes nothing of it, and a run that was killed goes on after its last finished probe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from audits.asr_fairness import Options
from audits.asr_fairness.asr import (
    AsrSplit,
    Hypotheses,
    count_transcripts,
    head_transcripts,
    split_asr,
    transcribe,
    with_head,
)
from audits.asr_fairness.comparisons import Cohort, Comparison, cohort_of, compare
from audits.asr_fairness.counts import CONTROLS, TaskCounts
from audits.asr_fairness.recordings import Inputs
from audits.asr_fairness.sid import SidSplit, measure_sid, split_sid
from audits.asr_fairness.stacks import Stack, baseline_stack, encoder_stack
from audits.context import Context
from audits.statistics import enough_permutations
from probes.loading.vocabularies import Vocabulary


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """What was counted.

    Parameters
    ----------
    options
        With as many permutations as the tests need at least.
    tasks, controls
        What each metric counted, and what it counted of the controls.
    hypotheses, sid, asr
        The transcripts, and the splits, of `sid` one a deal, behind them.
    """

    inputs: Inputs
    options: Options
    level: float = 0.95
    seed: int = 0
    tasks: tuple[TaskCounts, ...]
    controls: tuple[TaskCounts, ...] = ()
    hypotheses: Hypotheses = field(default_factory=dict)
    sid: tuple[SidSplit, ...] = ()
    asr: AsrSplit | None = None

    @cached_property
    def cohort(self) -> Cohort:
        """The speakers and groups, with bootstrap samples of them."""
        return cohort_of(self.inputs, self.options, level=self.level, seed=self.seed)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons of groups for which there are enough speakers."""
        found = (compare(groups, task, self.cohort) for task in self.tasks for groups in self.inputs.sets)
        return tuple(comparison for comparison in found if comparison is not None)

    def of(self, task: TaskCounts) -> list[Comparison]:
        """Return the comparisons in one metric."""
        return [comparison for comparison in self.comparisons if comparison.task is task]


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Measure every task on every layer, and the controls where they are asked for."""
    stack = encoder_stack(inputs, options, context)
    stacks = [baseline_stack(inputs, options, context), stack] if options.baseline else [stack]
    sid = split_sid(inputs.recordings, options, context) if "sid" in options.tasks else ()
    asr = split_asr(inputs.recordings, options, context) if "asr" in options.tasks else None
    texts = [item.text for item in inputs.recordings]
    tasks: list[TaskCounts] = []
    heard: Hypotheses = {}
    if sid:
        tasks.append(measure_sid(stacks, sid, options, context))
    if asr is not None:
        heard = transcribe(stacks, texts, asr, options, context)
        if isinstance(inputs.vocabulary, Vocabulary):
            heard = with_head(heard, head_transcripts(stack, inputs.vocabulary, options))
        tasks += count_transcripts(heard, texts)
    # Every comparison is tested in two places.
    enough = enough_permutations(options.permutations, 2 * len(inputs.sets), context.level)
    return Counts(
        inputs=inputs,
        options=replace(options, permutations=enough),
        level=context.level,
        seed=context.seed,
        tasks=tuple(tasks),
        controls=tuple(_controls(stacks, texts, sid, asr, inputs, options, context)) if options.controls else (),
        hypotheses=heard,
        sid=sid,
        asr=asr,
    )


def _controls(
    stacks: list[Stack],
    texts: Sequence[str],
    sid: Sequence[SidSplit],
    asr: AsrSplit | None,
    inputs: Inputs,
    options: Options,
    context: Context,
) -> list[TaskCounts]:
    twin = [encoder_stack(inputs, options, context, random_seed=context.seed)]
    found: list[TaskCounts] = []
    # Wrong labels on the encoder as it is; right labels on one that learned nothing.
    for control, chosen in zip(CONTROLS, (stacks, twin), strict=True):
        if sid:
            found.append(measure_sid(chosen, sid, options, context, control=control))
        if asr is not None:
            heard = transcribe(chosen, texts, asr, options, context, control)
            found += count_transcripts(heard, texts, control)
    return found
