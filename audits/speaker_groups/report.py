"""The audit from plan to draft: count, estimate, compare, adjust, search, judge, draw, list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from audits.context import Context, Draft, Plan
from audits.records import Coverage
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import Adjusted, adjust_gaps
from audits.speaker_groups.cautions import warn_about_data
from audits.speaker_groups.counting import count
from audits.speaker_groups.counts import MIN_REPORTED, Utterances, cohort_of
from audits.speaker_groups.discovery import Search, search
from audits.speaker_groups.figures import draw
from audits.speaker_groups.gaps import GapRow, compare
from audits.speaker_groups.indices import add_faas, add_indices
from audits.speaker_groups.inputs import Inputs, useful
from audits.speaker_groups.judging import Verdict, declare, judge
from audits.speaker_groups.outlook import beyond_samples
from audits.speaker_groups.rates import Rates, add_rates, add_shrunken, add_speaker_rates
from audits.speaker_groups.systems import Compared, compare_systems
from audits.statistics import enough_permutations, generator

FIXED = ("path", "line", "speaker", "status", "words", "characters")
COUNTED = ("word_errors_", "character_errors_", "attribute_")
LIMITATIONS = (
    "Groups are compared as they were recorded: whatever differs between them and was not recorded (room, microphone, "
    "topic, text) is part of every gap, adjusted or not.",
    "An adjusted gap is that of a log-linear model without interactions: it holds the other attributes and the "
    "controls fixed, and shows no cause.",
    "Partially pooled rates borrow from the other groups: they say what is likely of a small group, not what was "
    "measured on it.",
    "Differential fairness and the entropy indices are above zero by chance alone; the noise floor beside an index "
    "says by how much.",
    "Where most speakers err little and a few err much, 95 % intervals of `total` and `within` of an entropy index "
    "hold less often than they say: of fewer than 200 speakers in 0.6 to 0.9 of simulations.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was estimated, for whoever judges and draws it."""

    rates: Rates
    rows: list[GapRow]
    verdicts: list[Verdict]
    adjusted: Adjusted
    search: Search
    compared: Compared


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    given: Inputs = plan.inputs
    inputs, dropped = useful(given)
    data = count(inputs, options, context)
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs))
    warn_about_data(draft, inputs, data, options)
    for by, count_of in dropped.items():
        draft.warn(
            "small-crossings",
            f"By {by}, {count_of} groups of fewer than {MIN_REPORTED} {data.unit} are not listed.",
            by=by,
        )
    # Many small products: threads would wait for one another longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        results = examine(draft, data, options, context)
    judge(draft, data, results, inputs, options, context)
    draft.figures = draw(draft, data, results, inputs, options)
    draft.records = _records(inputs, data)
    return draft


def examine(draft: Draft, data: Utterances, options: Options, context: Context) -> Results:
    """Estimate everything from the counts; no text and no model is looked at again."""
    tests = len(data.singles()) * len(data.systems)
    options = replace(options, permutations=enough_permutations(options.permutations, tests, context.level))
    for name, message in beyond_samples(options, tests, context.level):
        draft.warn(name, message)
    counts = data.of(options.metric)
    cohort = cohort_of(data, options.bootstrap, generator(context.seed, "bootstrap"))
    with context.progress.phase("Statistics", 6, "steps") as advance:
        rates = add_rates(draft, data, cohort, context)
        add_speaker_rates(draft, data, cohort, options.metric, context)
        add_shrunken(draft, data, options.metric, context)
        advance(1)
        rows = [row for each in data.counts for row in compare(draft, data, each, cohort, options, context)]
        advance(1)
        tested = [row for row in rows if row.counts is counts]
        adjusted = adjust_gaps(draft, data, counts, tested, options, context)
        verdicts = declare(draft, data, tested, adjusted, options, context)
        advance(1)
        found = search(draft, data, counts, options, context)
        advance(1)
        add_indices(draft, data, tested, cohort, context)
        if options.faas:
            add_faas(draft, data, counts)
        advance(1)
        compared = compare_systems(draft, data, rows, cohort, rates.small, options.metric, context)
        advance(1)
    return Results(rates=rates, rows=tested, verdicts=verdicts, adjusted=adjusted, search=found, compared=compared)


def _coverage(inputs: Inputs) -> Coverage:
    used = len(inputs.clips)
    return Coverage(given=used + len(inputs.skipped), used=used, skipped=inputs.reasons)


def _records(inputs: Inputs, data: Utterances) -> Sequence[dict[str, Any]]:
    """Return one row a clip given: who, whether it was used, and what each system got wrong."""
    rows: list[dict[str, Any]] = []
    words = data.counts[0]
    for number, clip in enumerate(inputs.clips):
        row: dict[str, Any] = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or ""}
        row |= {"status": "used", "words": int(words.sizes[number])}
        row |= {_column(name): level for name, level in clip.attributes.items()}
        for counts in data.counts:
            unit = "word" if counts.metric == "wer" else "character"
            if unit == "character":
                row["characters"] = int(counts.sizes[number])
            for system, name in enumerate(data.systems):
                row[f"{unit}_errors_{name}"] = int(counts.errors[number, system])
        rows.append(row)
    empty = dict.fromkeys(rows[0], "")
    for clip, reason in inputs.skipped:
        named = {"path": clip.name, "line": clip.line, "speaker": clip.speaker or "", "status": reason}
        rows.append({**empty, **named, **{_column(name): level for name, level in clip.attributes.items()}})
    return rows


def _column(name: str) -> str:
    """Return the column of an attribute in records.csv, apart from the columns that are always there."""
    return f"attribute_{name}" if name in FIXED or name.startswith(COUNTED) else name
