"""The counts of the audit: embeddings once, then both probes on every layer, then the controls.

What a probe answered is kept by the hash of all that it depends on; another grouping, metric or level
changes nothing of it, and a run that was killed goes on after its last finished probe.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

from audits.asr_fairness import Options
from audits.asr_fairness.asr import (
    AsrSplit,
    Hypotheses,
    Transcribed,
    count_transcripts,
    head_transcripts,
    split_asr,
    transcripts_of,
)
from audits.asr_fairness.cohort import Cohort, cohort_of
from audits.asr_fairness.comparisons import Comparison, compare
from audits.asr_fairness.counts import BASELINE, CONTROLS, HEAD, TaskCounts
from audits.asr_fairness.fits import Outline, fit_all
from audits.asr_fairness.frame_sample import weighed_sample
from audits.asr_fairness.layer_sets import LayerSet, baseline_source, encode, encoded_items, encoder_source
from audits.asr_fairness.recordings import Inputs, controls_of
from audits.asr_fairness.sid import SidSplit, count_sid, split_sid
from audits.core.context import Context
from audits.statistics import enough_permutations
from probes.speech.vocabularies import Vocabulary

TWIN = CONTROLS[1]


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
        The transcripts of the clips heard, and the splits, of `sid` one a deal, behind them.
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
    outline = _outline(options, inputs, context)
    fit_all(outline, options.batch, context)
    texts, weighed, cache = [item.text for item in inputs.heard], weighed_sample(inputs), context.cache
    found: list[TaskCounts] = []
    transcripts: dict[str, Hypotheses] = {}
    for control in ("", *controls_of(inputs, options)):
        if outline.deals:
            found.append(count_sid(outline.sid[control], cache))
        if outline.spoken is not None:
            transcripts[control] = transcripts_of(outline.asr[control], cache)
            if not control and isinstance(inputs.vocabulary, Vocabulary):
                head = head_transcripts(_encoder(outline), inputs.vocabulary, inputs.normaliser)
                transcripts[control] |= {HEAD: head} if head else {}
            found += count_transcripts(
                transcripts[control], texts, control, compounds=inputs.normaliser.compounds, weighed=weighed
            )
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
        sid=outline.deals,
        asr=None if outline.spoken is None else outline.spoken.split,
    )


def _outline(options: Options, inputs: Inputs, context: Context) -> Outline:
    """Encode all recordings, and return what the probes are to be fitted on."""
    sources = [encoder_source(inputs, options, context)]
    probed: list[tuple[str, ...]] = [tuple(name for name in ("", *controls_of(inputs, options)) if name != TWIN)]
    if options.baseline:
        # Before the encoder, whose layers it is reported with.
        sources, probed = [baseline_source(inputs, options), *sources], [probed[0], *probed]
    if TWIN in controls_of(inputs, options):
        # Wrong labels on the encoder as it is; right labels on one that learned nothing.
        sources.append(encoder_source(inputs, options, context, random_seed=context.seed))
        probed.append((TWIN,))
    encode(sources, inputs, options, context)
    context.machines.join()
    sets = [
        source.layer_set(encoded_items(inputs, options, source), context.cache, options.batch) for source in sources
    ]
    spoken = None
    if "asr" in options.tasks:
        split = split_asr(inputs.heard, options, context)
        texts = [item.text for item in inputs.heard]
        spoken = Transcribed(texts=texts, split=split, epochs=options.probe_epochs, seed=context.seed)
    return Outline(
        sets=tuple(zip(sets, probed, strict=True)),
        deals=split_sid(inputs.recordings, options, context) if "sid" in options.tasks else (),
        spoken=spoken,
        seed=context.seed,
    )


def _encoder(outline: Outline) -> LayerSet:
    """Return the layers of the encoder itself."""
    return next(one for one, controls in outline.sets if "" in controls and one.layers != (BASELINE,))
