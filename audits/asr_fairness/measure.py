"""The counts of the audit: embeddings once, then both probes on every layer, then the controls.

What a probe answered is kept by the hash of all that it depends on; another grouping, metric or level
changes nothing of it, and a run that was killed goes on after its last finished probe.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

from audits.asr_fairness import Options
from audits.asr_fairness.asr import AsrSplit, Hypotheses, count_transcripts, head_transcripts, split_asr, transcribe
from audits.asr_fairness.cohort import Cohort, cohort_of
from audits.asr_fairness.comparisons import Comparison, compare
from audits.asr_fairness.counts import HEAD, TaskCounts
from audits.asr_fairness.layer_sets import baseline_layers, encoder_layers
from audits.asr_fairness.recordings import Inputs, controls_of
from audits.asr_fairness.sid import SidSplit, measure_sid, split_sid
from audits.core.context import Context
from audits.statistics import enough_permutations
from probes.speech.vocabularies import Vocabulary


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """The counts of the audit.

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
    encoder = encoder_layers(inputs, options, context)
    layer_sets = [baseline_layers(inputs, options, context), encoder] if options.baseline else [encoder]
    sid = split_sid(inputs.recordings, options, context) if "sid" in options.tasks else ()
    asr = split_asr(inputs.recordings, options, context) if "asr" in options.tasks else None
    texts = [item.text for item in inputs.recordings]
    found: list[TaskCounts] = []
    transcripts: dict[str, Hypotheses] = {}
    for control in ("", *controls_of(inputs, options)):
        # Wrong labels on the encoder as it is; right labels on one that learned nothing.
        twin = control == "random-init"
        chosen = [encoder_layers(inputs, options, context, random_seed=context.seed)] if twin else layer_sets
        if sid:
            found.append(measure_sid(chosen, sid, options, context, control=control))
        if asr is not None:
            transcripts[control] = transcribe(chosen, texts, asr, options, context, control)
            if not control and isinstance(inputs.vocabulary, Vocabulary):
                head = head_transcripts(encoder, inputs.vocabulary, inputs.normaliser)
                transcripts[control] |= {HEAD: head} if head else {}
            found += count_transcripts(transcripts[control], texts, control, compounds=inputs.normaliser.compounds)
    # Every comparison is tested in two places.
    enough = enough_permutations(options.permutations, 2 * len(inputs.sets), context.level)
    return Counts(
        inputs=inputs,
        options=replace(options, permutations=enough),
        level=context.level,
        seed=context.seed,
        tasks=tuple(task for task in found if not task.control),
        controls=tuple(task for task in found if task.control),
        hypotheses=transcripts.get("", {}),
        sid=sid,
        asr=asr,
    )
