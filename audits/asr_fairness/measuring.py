"""From recordings to counts: embeddings once, then both probes on every layer, then the controls.

What a probe answered is kept by the hash of all that it depends on; another grouping, metric or level
changes nothing of it, and a run that was killed goes on after its last finished probe.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
from audits.asr_fairness.counts import CONTROLS, TaskCounts
from audits.asr_fairness.inputs import Inputs
from audits.asr_fairness.sid import SidSplit, measure_sid, split_sid
from audits.asr_fairness.stacks import Stack, baseline_stack, encoder_stack
from audits.context import Context
from probes.loading.vocabularies import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All counts, the splits (of `sid` one a deal) and hypotheses behind them, and the counts of the controls."""

    counts: tuple[TaskCounts, ...]
    controls: tuple[TaskCounts, ...]
    hypotheses: Hypotheses
    sid: tuple[SidSplit, ...]
    asr: AsrSplit | None


def measure(inputs: Inputs, options: Options, context: Context) -> Measured:
    """Measure every task on every layer, and the controls where they are asked for."""
    stack = encoder_stack(inputs, options, context)
    stacks = [baseline_stack(inputs, options, context), stack] if options.baseline else [stack]
    sid = split_sid(inputs.recordings, options, context) if "sid" in options.tasks else ()
    asr = split_asr(inputs.recordings, options, context) if "asr" in options.tasks else None
    texts = [item.text for item in inputs.recordings]
    counts: list[TaskCounts] = []
    heard: Hypotheses = {}
    if sid:
        counts.append(measure_sid(stacks, sid, options, context))
    if asr is not None:
        heard = transcribe(stacks, texts, asr, options, context)
        if isinstance(inputs.vocabulary, Vocabulary):
            heard = with_head(heard, head_transcripts(stack, inputs.vocabulary, options))
        counts += count_transcripts(heard, texts)
    return Measured(
        counts=tuple(counts),
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
    counts: list[TaskCounts] = []
    # Wrong labels on the encoder as it is; right labels on one that learned nothing.
    for control, chosen in zip(CONTROLS, (stacks, twin), strict=True):
        if sid:
            counts.append(measure_sid(chosen, sid, options, context, control=control))
        if asr is not None:
            heard = transcribe(chosen, texts, asr, options, context, control)
            counts += count_transcripts(heard, texts, control)
    return counts
