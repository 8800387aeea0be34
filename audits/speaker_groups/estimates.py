"""The estimates, in the order of the report: rates, gaps, adjusted gaps, tests, the search, indices and systems."""

from threadpoolctl import threadpool_limits

from audits.core.context import Draft
from audits.group_rates import MIN_REPORTED
from audits.speaker_groups.adjusting import add_adjusted
from audits.speaker_groups.data_warnings import warn_about_data
from audits.speaker_groups.discovery import add_search
from audits.speaker_groups.gaps import add_gaps
from audits.speaker_groups.hypotheses import add_tests
from audits.speaker_groups.indices import add_faas, add_indices
from audits.speaker_groups.measure import Counts
from audits.speaker_groups.preflight import beyond_options
from audits.speaker_groups.rates import add_rates, add_shrunken, add_speaker_rates
from audits.speaker_groups.systems import compare_systems


def estimates(draft: Draft, counts: Counts) -> None:
    """Warn about the data, then estimate everything from the counts; no text is looked at again."""
    warn_about_data(draft, counts.inputs, counts.data, counts.options)
    for by, dropped in counts.dropped.items():
        draft.warn(
            "small-crossings",
            f"By {by}, {dropped} groups of fewer than {MIN_REPORTED} {counts.data.unit} are not listed.",
            by=by,
        )
    # Many small products: threads would wait for one another longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        examine(draft, counts)


def examine(draft: Draft, counts: Counts) -> None:
    """Add all estimates."""
    data, options, metric, cohort = counts.data, counts.options, counts.options.metric, counts.cohort
    for name, message in beyond_options(options, len(data.singles()) * len(data.systems), counts.level):
        draft.warn(name, message)
    with draft.progress.phase("Statistics", 6, "steps") as advance:
        add_rates(draft, data, cohort, counts.small)
        add_speaker_rates(draft, data, cohort, metric)
        add_shrunken(draft, data, metric)
        advance(1)
        for comparison in counts.considered:
            add_gaps(draft, data, comparison, options)
        advance(1)
        for adjustment in counts.adjustments:
            add_adjusted(draft, data, counts.tested, adjustment)
        add_tests(draft, data, counts.verdicts)
        advance(1)
        for system, found in enumerate(counts.searches):
            add_search(draft, data, counts.tested, system, found)
        advance(1)
        add_indices(draft, data, counts.comparisons, cohort)
        if options.faas:
            add_faas(draft, data, counts.tested)
        advance(1)
        compared = [comparison for comparison in counts.considered if comparison.compared]
        compare_systems(draft, data, compared, cohort, counts.small, metric)
        advance(1)
