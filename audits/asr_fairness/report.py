"""The audit from plan to draft: measure, estimate, compare, judge, draw, list."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audits.asr_fairness import Options
from audits.asr_fairness.asr import AsrSplit
from audits.asr_fairness.counts import HEAD, TaskCounts
from audits.asr_fairness.dealing import add_spread, deal_rates
from audits.asr_fairness.estimating import Cohort, add_best_layer, add_error_rates, cohort_of, warn_parted
from audits.asr_fairness.figures import coverage_figure, draw
from audits.asr_fairness.gaps import GapRows, add_gaps, compare_groups
from audits.asr_fairness.inputs import Inputs
from audits.asr_fairness.judging import judge
from audits.asr_fairness.measuring import Measured, measure
from audits.asr_fairness.outlook import beyond_samples, few_clips_for_folds, silent_clips
from audits.context import Context, Draft, Plan
from audits.groups import ALL
from audits.records import Coverage, Json
from audits.statistics import enough_permutations
from probes.frames import RATE

FIXED = ("path", "line", "speaker", "status", "seconds", "text")
"""Columns of records.csv that are always there."""
LIMITATIONS = (
    "A probe shows what a linear map can read off frozen embeddings of these recordings; it does not show what a "
    "fine-tuned or larger model would do with them.",
    "Groups are compared as they were recorded: differences of microphone, room, text or reading skill between "
    "groups are part of every gap.",
    "Speaker identification is closed-set: it gets harder with more speakers, and with more speakers of the same "
    "group, so its error rates hold for this set of speakers only.",
    "The layer with the least error is chosen and judged on the same clips, so its error is a little flattered; the "
    "choice does not look at groups.",
    "Layers are probed one by one, without the weighted sum over layers that downstream models often use.",
    "The definitions of error, gap and layer pattern are those of miles; published studies may define them otherwise.",
)


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    # Every comparison is tested in two places.
    tests = 2 * len(inputs.sets)
    options = replace(options, permutations=enough_permutations(options.permutations, tests, context.level))
    measured = measure(inputs, options, context)
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs))
    fewest = len(inputs.sets) * min(1 + (HEAD in counts.layers) for counts in measured.counts)
    for name, message in beyond_samples(options, fewest, context.level):
        draft.warn(name, message)
    _warn_about_data(draft, inputs, measured, options)
    cohort = cohort_of(inputs, options, context)
    rows: list[GapRows] = []
    with context.progress.phase("Statistics", len(measured.counts), "metrics") as advance:
        for counts in measured.counts:
            rows += _estimate(draft, counts, inputs, cohort, options, context)
            advance(1)
    for counts in measured.controls:
        add_error_rates(draft, counts, cohort, context)
    judge(draft, measured.counts, rows, inputs, context)
    small = {str(warning.where["group"]) for warning in draft.warnings if warning.id == "small-group"}
    draft.figures = draw(draft, measured.counts, rows, small)
    if inputs.skipped:
        draft.figures.append(coverage_figure(_coverage_rows(inputs)))
    draft.records = _records(inputs, measured)
    return draft


def _estimate(
    draft: Draft, counts: TaskCounts, inputs: Inputs, cohort: Cohort, options: Options, context: Context
) -> list[GapRows]:
    rates = add_error_rates(draft, counts, cohort, context)
    add_best_layer(draft, counts, cohort, context)
    warn_parted(draft, counts, cohort, context)
    _add_spreads(draft, counts, cohort, context)
    rows = []
    for groups in inputs.sets:
        comparison = compare_groups(groups, counts, cohort, options)
        if comparison is None:
            draft.warn(
                "too-few-speakers",
                f"By {groups.by}, fewer than two groups have enough speakers ({options.min_speakers}) and words: no "
                "gap is estimated.",
                **counts.where,
                by=groups.by,
            )
            continue
        left_out = set(groups.names) - set(comparison.names)
        if left_out:
            draft.warn(
                "not-compared",
                f"By {groups.by}, {len(left_out)} group{'s' * (len(left_out) != 1)} with too few speakers (under "
                f"{options.min_speakers}) or words {'are' if len(left_out) != 1 else 'is'} shown but not compared: "
                f"{', '.join(sorted(left_out)[:8])}{' and others' if len(left_out) > 8 else ''}.",
                **counts.where,
                by=groups.by,
            )
        rows.append(add_gaps(draft, comparison, rates, cohort, options, context))
    return rows


def _add_spreads(draft: Draft, counts: TaskCounts, cohort: Cohort, context: Context) -> None:
    """Add by how much the error of everyone differs from one deal of the clips to the next, on every layer."""
    dealt = deal_rates(counts, np.ones((1, len(cohort.speakers)), dtype=bool))
    if dealt is not None:
        for column in range(len(counts.layers)):
            add_spread(draft, dealt[:, 0, column], {**counts.place(column), "group": ALL}, context)


def _coverage(inputs: Inputs) -> Coverage:
    used = len(inputs.recordings)
    return Coverage(given=used + len(inputs.skipped), used=used, skipped=inputs.reasons)


def _coverage_rows(inputs: Inputs) -> list[Json]:
    rows: dict[tuple[str, str], int] = {}
    clips = [(item.clip, "used") for item in inputs.recordings] + [(clip, "left out") for clip, _ in inputs.skipped]
    for clip, status in clips:
        for name, level in clip.attributes.items():
            rows[f"{name}={level}", status] = rows.get((f"{name}={level}", status), 0) + 1
    return [{"group": group, "status": status, "clips": count} for (group, status), count in sorted(rows.items())]


def _warn_about_data(draft: Draft, inputs: Inputs, measured: Measured, options: Options) -> None:
    for note in inputs.manifest.notes:
        draft.warn(note.id, note.message)
    resampled = sum(item.rate != RATE for item in inputs.recordings)
    mixed = sum(item.channels != 1 for item in inputs.recordings)
    if resampled:
        draft.warn("resampled", f"{resampled} clips had another sample rate and were resampled to {RATE} Hz.")
    if mixed:
        draft.warn("mixed-down", f"{mixed} clips had several channels, which were averaged.")
    contents = [(item.sha256, item.clip.start, item.clip.end) for item in inputs.recordings]
    repeated = len(contents) - len(set(contents))
    if repeated:
        draft.warn(
            "repeated-recordings",
            f"{repeated} clips have the same content as another: a probe may be tested on what it was trained on.",
        )
    silent = silent_clips(inputs.recordings)
    if silent:
        draft.warn("silent-clips", silent)
    if isinstance(inputs.vocabulary, str) and inputs.vocabulary:
        draft.warn("head-not-judged", f"The checkpoint's own CTC head is not judged: {inputs.vocabulary}.", task="asr")
    _warn_about_attributes(draft, inputs)
    if measured.sid:
        _warn_about_enrolment(draft, measured, inputs, options)
    if measured.asr is not None:
        _warn_about_stopping(draft, measured.asr)


def _warn_about_attributes(draft: Draft, inputs: Inputs) -> None:
    """Say where the same speakers are in several groups: their pooled rates are compared all the same."""
    for groups in inputs.sets:
        varying = len(inputs.varying(groups))
        if varying and "&" not in groups.by:
            draft.warn(
                "varies-within-speaker",
                f"{varying} speaker{'s are' if varying > 1 else ' is'} in several groups by {groups.by}. Pooled rates "
                "are compared: where speakers have unequal shares of the groups, who they are is part of the gap.",
                by=groups.by,
            )


def _warn_about_enrolment(draft: Draft, measured: Measured, inputs: Inputs, options: Options) -> None:
    first, sizes = measured.sid[0], [size for split in measured.sid for size in split.enrolled]
    least, most = min(sizes), max(sizes)
    amount = f"{least}" if least == most else f"{least} to {most}"
    draft.limitations.append(
        f"Speaker probes were trained on {amount} clips of each of {first.classes} speakers, the same number "
        "for every speaker of a fold; with more, all of them would err less."
    )
    if len(measured.sid) < 2:
        draft.warn(
            "one-deal",
            "In speaker identification the clips were dealt over the folds once (--repeats 1): how much another deal "
            "would change is not known, and is in the intervals only as far as speakers differ by it.",
            task="sid",
        )
    few = few_clips_for_folds(inputs.recordings, options)
    if few:
        draft.warn("few-clips-for-folds", f"In speaker identification, {few}")
    out = [item.speaker for item, fold in zip(inputs.recordings, first.fold, strict=True) if fold < 0]
    if out:
        draft.warn(
            "not-enrolled",
            f"{len(set(out))} speakers with fewer than {options.min_utterances} clips ({len(out)} clips) take no part "
            "in speaker identification.",
            task="sid",
        )


def _warn_about_stopping(draft: Draft, split: AsrSplit) -> None:
    if not split.dev.any(axis=1).all():
        draft.warn(
            "no-early-stopping",
            "There are too few speakers to keep some for early stopping: the CTC probes stop after alignment.",
            task="asr",
        )


def _records(inputs: Inputs, measured: Measured) -> Sequence[dict[str, Any]]:
    """Return one row a clip given: who, whether it was used, and its errors on every layer."""
    rows: list[dict[str, Any]] = []
    places = [{int(clip): row for row, clip in enumerate(counts.clips)} for counts in measured.counts]
    for number, item in enumerate(inputs.recordings):
        row: dict[str, Any] = {"path": item.clip.name, "line": item.clip.line, "speaker": item.speaker}
        row |= {"status": "used", "seconds": round(item.samples / RATE, 3), "text": item.text}
        row |= {_column(name): level for name, level in item.clip.attributes.items()}
        for counts, place in zip(measured.counts, places, strict=True):
            row |= _columns(counts, place.get(number))
        for layer, texts in measured.hypotheses.items():
            row[f"asr_text_{layer}"] = texts[number]
        rows.append(row)
    empty = dict.fromkeys(rows[0], "")
    for clip, reason in inputs.skipped:
        named = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or "", "status": reason}
        levels = {_column(name): level for name, level in clip.attributes.items()}
        rows.append({**empty, **named, **levels})
    return rows


def _column(name: str) -> str:
    """Return the column of an attribute in records.csv, apart from the columns that are always there."""
    return f"attribute_{name}" if name in FIXED else name


def _columns(counts: TaskCounts, row: int | None) -> dict[str, Any]:
    stem = f"{counts.task}_{counts.metric}"
    # Each deal is a trial here, so that all cells are whole numbers.
    times = 1 if counts.deals is None else len(counts.deals)
    cells: dict[str, Any] = {f"{stem}_size": "" if row is None else round(times * counts.sizes[row])}
    for column, layer in enumerate(counts.layers):
        cells[f"{stem}_errors_{layer}"] = "" if row is None else round(times * counts.errors[row, column])
    return cells
