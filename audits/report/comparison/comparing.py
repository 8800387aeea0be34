"""Two runs compared as a whole: every change with its interval, what else differs, and what could be matched."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import cast

from audits.core import gates, registry
from audits.core.option_groups import MACHINES
from audits.core.records import Estimate, Report
from audits.report.comparison.changes import Change, can_be_tested, corrected, in_both, independent, ranked, unmatched
from audits.report.comparison.pairing import Matching, matched
from audits.report.comparison.parts import Pairing
from audits.report.comparison.renaming import Renames, other_names, parse_matches
from audits.report.comparison.tables import Table, read_table
from audits.report.report_file import fingerprint_of, read_report
from probes.core.errors import InputError

PLACES = frozenset({"model", "manifest", "fail_if", *MACHINES})
"""Settings of paths and machines, and of what is done with the numbers, which do not change what is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run: its name as given, its folder and its report.

    Parameters
    ----------
    records
        Its records and how they are matched, where it has no records.csv: the logs of another harness.
    notes
        Sentences on what a reader of its numbers must know.
    """

    name: str
    folder: Path
    report: Report
    records: tuple[Table, Pairing] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """Differences between two runs besides their numbers: the model, roles of data, settings with both values.

    `surroundings` are Python, packages, the device, its threads and the platform, each with both values.
    """

    model: bool
    data: tuple[str, ...]
    settings: tuple[tuple[str, object, object], ...]
    version: bool
    surroundings: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side.

    Parameters
    ----------
    rows
        The changes that were asked for, those that are shown first.
    records
        Records in both runs, in the first only and in the second only; None where they could not be matched.
    why
        Why no records were matched; empty where they were.
    alone
        Estimates in the first run only and in the second only.
    renames
        What has another name in the second run, old names by new ones.
    other_names
        Coordinates whose values differ: names in the first run only, and in the second only.
    """

    before: Run
    after: Run
    differing: Differing
    rows: tuple[Change, ...]
    records: tuple[int, int, int] | None
    why: str
    alone: tuple[tuple[Estimate, ...], tuple[Estimate, ...]]
    same: bool
    renames: Renames = field(default_factory=dict)
    other_names: Sequence[tuple[str, Sequence[str], Sequence[str]]] = ()

    @property
    def level(self) -> float:
        """Confidence level of the intervals."""
        return self.before.report.estimates[0].level if self.before.report.estimates else 0.95


def read_run(path: Path) -> Run:
    """Read a run folder, or the report.json in one.

    Raises
    ------
    InputError
        Where there is no finished report.
    """
    return Run(name=str(path), folder=path if path.is_dir() else path.parent, report=read_report(path))


def compare(before: Run, after: Run, only: Sequence[gates.Selection] = (), match: Sequence[str] = ()) -> Comparison:
    """Compare two runs over the chosen estimates, which are also those corrected for.

    `match` are texts such as `old=new`: values of coordinates with another name in the second run.

    Raises
    ------
    InputError
        Where no change can be told, a selection selects nothing, or records are damaged.
    """
    return compare_all(before, [after], only, match)[0]


def compare_all(
    before: Run, later: Sequence[Run], only: Sequence[gates.Selection] = (), match: Sequence[str] = ()
) -> list[Comparison]:
    """Compare several runs with the first; the p-values of all rows are corrected together.

    Raises
    ------
    InputError
        Where no change can be told, a selection selects nothing, or records are damaged.
    """
    renames = parse_matches(match, before.report, [run.report for run in later])
    found = [_compared(before, after, only, renames) for after in later]
    rows = iter(corrected(row for one in found for row in one.rows))
    return [replace(one, rows=tuple(ranked(islice(rows, len(one.rows))))) for one in found]


def _compared(before: Run, after: Run, only: Sequence[gates.Selection], renames: Renames) -> Comparison:
    check_levels(before.report, after.report, where=f"{before.name} and {after.name}")
    pairs = in_both(before.report, after.report, renames)
    for selection in only:
        if not any(_selected(selection, pair) for pair in pairs):
            raise InputError(
                f"{selection.text!r} selects nothing that both runs hold.",
                where="--only",
                hint=gates.nearest(selection, [later for _, later in pairs]),
            )
    if only:
        pairs = [pair for pair in pairs if any(_selected(selection, pair) for selection in only)]
    found = _matching(before, after)
    rows = []
    with registry.blamed(before.report.audit):
        for first, second in pairs:
            change = independent(first, second, why=found if isinstance(found, str) else "")
            tested = isinstance(found, Matching) and can_be_tested(first, second)
            rows.append(_paired(change, found) if tested and isinstance(found, Matching) else change)
    return Comparison(
        before=before,
        after=after,
        differing=differing(before.report, after.report),
        rows=tuple(rows),
        records=None if isinstance(found, str) else (found.matched, *found.alone),
        why=found if isinstance(found, str) else "",
        alone=unmatched(before.report, after.report, renames),
        renames=renames,
        other_names=other_names(before.report, after.report, renames),
        same=same_run(before.report, after.report),
    )


def _selected(selection: gates.Selection, pair: tuple[Estimate, Estimate]) -> bool:
    """Tell whether a pair is selected, by its coordinates in the later run or, where renamed, in the first."""
    return any(gates.selects(selection, row) for row in reversed(pair))


def _paired(change: Change, records: Matching) -> Change:
    found = records.change(change.before, change.after)
    if isinstance(found, str):
        return replace(change, why=change.why or found)
    return replace(change, values=found.values, difference=found.difference, p=found.p, matched=found.matched, why="")


def _matching(before: Run, after: Run) -> Matching | str:
    """Match the records of two runs, or return the reason why they cannot be matched."""
    audit = before.report.audit
    if before.records is not None and after.records is not None:
        return matched((before.report, after.report), (before.records[0], after.records[0]), before.records[1])
    pairing = pairing_of(audit)
    if pairing is None:
        there = any(entry.name == audit for entry in registry.entries())
        return "this audit does not tell how its records are matched" if there else f"{audit} is not installed here"
    tables = [read_table(run.folder) for run in (before, after)]
    if isinstance(tables[0], str) or isinstance(tables[1], str):
        return next(table for table in tables if isinstance(table, str))
    with registry.blamed(audit):
        return matched((before.report, after.report), (tables[0], tables[1]), pairing)


def pairing_of(audit: str) -> Pairing | None:
    """Return the pairing of an audit's records; None where it declares none, or is not installed here."""
    try:
        spec = registry.find(audit)
    except InputError:
        return None
    module = spec.module("records")
    return cast(Pairing, module) if all(hasattr(module, name) for name in ("keys", "units", "parts")) else None


def _hashes(report: Report) -> dict[str, list[str]]:
    """Return the hashes of what was read, by role; several files may share a role, such as corpora of languages."""
    found: dict[str, list[str]] = {}
    for source in report.data:
        found.setdefault(source.role, []).append(source.sha256)
    return {role: sorted(many) for role, many in found.items()}


def differing(before: Report, after: Report) -> Differing:
    """Return the other differences between the runs, so that a change is not blamed on the model alone."""
    # Of a model of another harness only the name is known.
    subjects = [report.subject and (report.subject.sha256 or report.subject.path) for report in (before, after)]
    hashes = [_hashes(report) for report in (before, after)]
    roles = sorted(hashes[0].keys() | hashes[1].keys())
    keys = sorted((before.settings.keys() | after.settings.keys()) - PLACES)
    later = registry.later_defaults_of(before.audit)
    values = [(key, *(report.settings.get(key, later.get(key)) for report in (before, after))) for key in keys]
    return Differing(
        model=subjects[0] != subjects[1],
        data=tuple(role for role in roles if hashes[0].get(role) != hashes[1].get(role)),
        settings=tuple(value for value in values if value[1] != value[2]),
        version=before.provenance.miles != after.provenance.miles,
        surroundings=_surroundings(before, after),
    )


def _surroundings(before: Report, after: Report) -> tuple[tuple[str, str, str], ...]:
    found = []
    for report in (before, after):
        own = report.provenance
        machine = {"device": own.device, "threads": str(own.threads), "platform": own.platform}
        found.append({"python": own.python, **dict(sorted(own.packages.items())), **machine})
    names = dict.fromkeys([*found[0], *found[1]])
    values = ((name, found[0].get(name, "none"), found[1].get(name, "none")) for name in names)
    return tuple(value for value in values if value[1] != value[2])


def same_run(before: Report, after: Report) -> bool:
    """Tell whether two reports are of the same or of equal runs, so that nothing can have changed."""
    return fingerprint_of(before) == fingerprint_of(after) and before.estimates == after.estimates


def check_levels(before: Report, after: Report, *, where: str) -> None:
    """Refuse two runs that cannot be compared: other audits, norms, or levels of their intervals.

    Raises
    ------
    InputError
        Where the audit differs, or `norm` or `level` in the settings.
    """
    norms = [report.settings.get("norm") for report in (before, after)]
    for what, pair in (("audits", [before.audit, after.audit]), ("norms", norms)):
        if pair[0] != pair[1]:
            raise InputError(
                f"The runs are of two {what}, {pair[0]} and {pair[1]}: their numbers do not mean the same.",
                where=where,
                hint=f"Compare runs of one audit{' with one norm' * (what == 'norms')}.",
            )
    levels = [report.settings.get("level") for report in (before, after)]
    if None not in levels and levels[0] != levels[1]:
        raise InputError(
            f"The intervals of the first run hold at level {levels[0]}, those of the other at {levels[1]}: "
            "no interval of a change follows from them.",
            where=where,
            hint=f"Run the first again with --level {levels[1]}, or the other with --level {levels[0]}.",
        )
