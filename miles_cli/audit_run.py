"""Carry out one audit: plan, run folder, progress, gates, pages, summary, exit status."""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audits.core import gates, runner
from audits.core.context import Cache, Context, Draft, Plan
from audits.core.detectable import Detectable, listed
from audits.core.errors import InputError
from audits.core.machines import ALL_CARDS, machines_of, release, without_machines
from audits.core.option_groups import Workers
from audits.core.options import as_json
from audits.core.records import Provenance, Report
from audits.core.registration import standing
from audits.core.registry import AuditSpec
from audits.report.part_manifests import Manifest, parts_of
from audits.report.records_file import write_records
from audits.report.registration_file import TIME, Registered, without_gates
from audits.report.report_file import dumps, fingerprint, write_bytes, write_report
from miles_cli import folders, interrupts, part_runs, registered_gates, slurm_jobs, system_errors
from miles_cli.environment import choose_device, provenance, version
from miles_cli.options import PRESENTATION, Common, read_config
from miles_cli.printable import line
from miles_cli.progress import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an audit.

    Parameters
    ----------
    effects
        What the run could show; only of a dry run.
    planned
        By which registration a run would be judged; only of a dry run.
    parts
        Lines on the parts of the work; only of a dry run.
    part
        What a run of one part did; it has no report.
    report
        What was found; None of a dry run.
    earlier
        Whether the folder held the finished run already.
    judged
        Whether the call has gates, or the report cites a registration.
    """

    plan: Plan
    folder: Path
    effects: tuple[Detectable, ...] = ()
    planned: registered_gates.Asked | None = None
    parts: tuple[tuple[str, str], ...] = ()
    part: Manifest | None = None
    report: Report | None = None
    earlier: bool = False
    judged: bool = False

    @property
    def status(self) -> int:
        """The exit status. Without a gate nothing was asked now, whatever an earlier gate of the report says."""
        failed = self.report is not None and any(gate.outcome == "fail" for gate in self.report.gates)
        return 1 if self.judged and failed else 0


def carry_out(
    spec: AuditSpec,
    options: Any,
    common: Common,
    *,
    typed: Collection[str] = (),
    ending: Callable[[Report], None] | None = None,
) -> int:
    """Carry out an audit for the command line, print what came out, and return the exit status.

    Parameters
    ----------
    typed
        The options that stand on the command line, some perhaps at their defaults.
    ending
        Prints what follows the summary; not called where no summary is printed.

    Raises
    ------
    MilesError
        Where the input is wrong or the audit could not be completed.
    """
    with interrupts.remembered() as check_interrupt, _announced_interrupt() as endings:
        watch = Watch(quiet=common.quiet, check_interrupt=check_interrupt)
        outcome = audited(spec, options, common, watch, ("miles", *sys.argv[1:]), endings, typed)
        report = outcome.report
        if outcome.part is not None:
            _print_part(outcome.part, common)
        elif report is None:
            _print_plan(spec, outcome, listed(outcome.effects, common.level, common.detect))
        else:
            _print_outcome(report, outcome.folder, common, earlier=outcome.earlier)
    if report is not None and ending is not None and not (common.json or common.quiet):
        ending(report)
    return outcome.status


def audited(
    spec: AuditSpec,
    options: Any,
    common: Common,
    watch: Watch,
    command: Sequence[str],
    endings: list[str],
    typed: Collection[str] = (),
) -> Outcome:
    """Carry out an audit and print nothing.

    Parameters
    ----------
    command
        The words of the command line that does the same, for the report.
    endings
        Gets, before work begins, the sentence on what an interrupted run leaves.
    typed
        The options that stand on the command line.

    Raises
    ------
    MilesError
        Where the input is wrong or the audit could not be completed.
    """
    registration = registered_gates.cited(spec, common.registration)
    asked = registered_gates.asked(spec, common.fail_if, registration)
    prepared = prepare(spec, options, common, watch, command, typed)
    plan, context, settings = prepared.plan, prepared.context, prepared.settings
    one_part = context.machines.part is not None
    registered_gates.check_planned(registration, prepared.registered(spec, common.fail_if))
    asked.check(plan.coordinates, spec.by_name)
    subject = plan.subject and plan.subject.sha256
    mark = fingerprint(spec.name, settings, [as_json(source) for source in plan.data], subject, version())
    folder = common.out or folders.default_folder(spec.name)
    if one_part and not common.dry_run:
        # The run folder is that of the report, which the same command without --array makes.
        _write_files(plan)
        endings.append("What was computed is kept: the same command goes on from here.")
        part = part_runs.carried_out(spec, options, plan, context, watch, mark, command)
        return Outcome(plan=plan, folder=folder, part=part)
    registered_gates.check_folder(asked, folder, mark, force=common.force)
    report = folders.finished(folder, mark, force=common.force, extra=spec.files)
    if report is not None:
        asked = registered_gates.of_finished(asked, report, folder)
    _write_files(plan)
    if common.dry_run:
        effects = runner.detectable(spec, options, plan, context) if not one_part else ()
        parts = tuple(part_runs.cost(context, mark))
        return Outcome(plan=plan, folder=folder, effects=effects, planned=asked, parts=parts)
    earlier = report is not None
    if report is None:
        endings.append(f"The same command with --out {folder} goes on from here.")
        digest = asked.registration.sha256 if asked.registration is not None else None
        with folders.working(folder, mark, force=common.force, extra=spec.files, registration=digest) as first:
            others = parts_of(context.cache, mark)
            known = replace(context.machines, parts=others.of, known=others.words_where_jobs_lack())
            try:
                draft = runner.carry_out(spec, options, plan, replace(context, machines=known))
            finally:
                # A process that goes on, as one of Python does, keeps no model.
                release()
            made = provenance(spec.name, context, watch.elapsed(), command)
            if first is not None:
                made = replace(made, begun=f"{datetime.fromtimestamp(first, UTC):{TIME}}")
            report = _assemble(spec, plan, draft, settings, made, asked)
            _write(report, draft, folder, watch)
    elif asked.gates and not asked.stand_in(report):
        with folders.judging(folder, report):
            report = _judged_again(report, asked, common)
            write_pages_and_report(report, folder)
    return Outcome(plan=plan, folder=folder, report=report, earlier=earlier, judged=bool(asked.gates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is known once every input has been checked: the plan, the surroundings, and the settings of the report."""

    plan: Plan
    context: Context
    settings: dict[str, Any]

    def registered(self, spec: AuditSpec, criteria: Sequence[str]) -> Registered:
        """Return what a registration of this run at this moment says."""
        return Registered(
            audit=spec.name,
            criteria=tuple(criteria),
            data=self.plan.data,
            subject=self.plan.subject,
            # As read from a file, where keys are texts.
            settings=json.loads(json.dumps(without_gates(self.settings))),
            seed=self.context.seed,
            level=self.context.level,
            miles=version(),
            created=f"{datetime.now(UTC):{TIME}}",
        )


def prepare(
    spec: AuditSpec, options: Any, common: Common, watch: Watch, command: Sequence[str], typed: Collection[str] = ()
) -> Prepared:
    """Check every input; write nothing. Parameters are those of `audited`.

    Raises
    ------
    MilesError
        Where something is wrong that the user can fix.
    """
    _check_encoding(command)
    every_card = common.device == ALL_CARDS
    device = choose_device("cuda" if every_card else common.device, needed=spec.runs_model(options))
    machines = machines_of(options, device, every_card=every_card, tell=watch.tell)
    context = Context(
        seed=common.seed,
        level=common.level,
        # A worker that has a GPU of its own sees no other.
        device="cuda" if machines.workers.gpus else device,
        dtype=common.dtype,
        typed=frozenset(typed),
        cache=Cache.default(),
        machines=machines,
        progress=watch,
    )
    job = options.sbatch if isinstance(options, Workers) else None
    if job is not None:
        slurm_jobs.check(job, common.config, _configured(spec, common))
    with system_errors.as_wrong_input(f"the inputs of {spec.name}"):
        plan = runner.check(spec, options, context)
    if job is not None:
        text = slurm_jobs.script(spec, context, command, options.workers)
        plan = replace(plan, files={**plan.files, job: text})
    settings = _settings(options, common) | {key: as_json(value) for key, value in plan.settings.items()}
    return Prepared(plan=plan, context=context, settings=settings)


def _configured(spec: AuditSpec, common: Common) -> Collection[str]:
    """Return the options that the configuration file sets."""
    return read_config(common.config, spec.name, spec.options) if common.config else ()


@contextmanager
def _announced_interrupt() -> Iterator[list[str]]:
    """Print one line where a run is interrupted; the last item of the yielded list says how it ends."""
    endings = ["Nothing had been run."]
    try:
        yield endings
    except KeyboardInterrupt:
        sys.stderr.write(f"Interrupted. {endings[-1]}\n")
        raise


def write_pages_and_report(report: Report, folder: Path) -> None:
    """Write the pages of a report, then report.json."""
    from audits.report.pages import write_pages

    write_pages(report, folder)
    write_report(report, folder)


def _check_encoding(command: Sequence[str]) -> None:
    for word in command[1:]:
        if word != word.encode("utf-8", "replace").decode():
            # It would stand in the report, which is UTF-8.
            raise InputError(f"{word!r} is not UTF-8.", where="the command line", hint="Rename the file or folder.")


def _settings(options: Any, common: Common) -> dict[str, Any]:
    own = {item.name: as_json(getattr(options, item.name)) for item in fields(options)}
    shared = {item.name: as_json(getattr(common, item.name)) for item in fields(common)}
    if common.device == ALL_CARDS:
        shared["device"] = "cuda"
    return without_machines(options, own) | {key: value for key, value in shared.items() if key not in PRESENTATION}


def _write_files(plan: Plan) -> None:
    """Write what the user asked the plan itself to write."""
    for path, content in plan.files.items():
        write_bytes(path, content.encode("utf-8"))


def _judged_again(report: Report, asked: registered_gates.Asked, common: Common) -> Report:
    """Return a finished report judged by the gates of this call, and with its command."""
    words, settings = list(report.provenance.command), report.settings
    if common.fail_if:
        for index in reversed([index for index, word in enumerate(words) if word == gates.GATE]):
            del words[index : index + 2]
        words = [word for word in words if not word.startswith(f"{gates.GATE}=")]
        for expression in common.fail_if:
            words += [gates.GATE, expression]
        settings = {**settings, "fail_if": list(common.fail_if)}
    if asked.registration is not None and report.registration is None:
        words += [registered_gates.OPTION, asked.registration.file]
    more = [warning for warning in asked.warnings() if warning not in report.warnings]
    return replace(
        report,
        gates=asked.judged(report),
        registration=asked.registration,
        warnings=(*report.warnings, *more),
        settings=settings,
        provenance=replace(report.provenance, command=tuple(words)),
    )


def _assemble(
    spec: AuditSpec,
    plan: Plan,
    draft: Draft,
    settings: dict[str, Any],
    made: Provenance,
    asked: registered_gates.Asked,
) -> Report:
    declared = spec.by_name
    report = Report(
        audit=spec.name,
        title=draft.title or spec.title,
        question=spec.question,
        created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        subject=draft.subject or plan.subject,
        data=plan.data,
        settings=settings,
        estimates=tuple(replace(row, measure=declared.get(row.name, row.measure)) for row in draft.estimates),
        findings=draft.numbered(),
        warnings=(*draft.warnings, *asked.warnings()),
        limitations=tuple(draft.limitations),
        coverage=draft.coverage,
        gates=(),
        figures=tuple(draft.figures),
        provenance=made,
        answer=draft.answer,
        registration=asked.registration,
    )
    return replace(report, gates=asked.judged(report))


def _write(report: Report, draft: Draft, folder: Path, watch: Watch) -> None:
    write_records(draft.records, folder)
    for name, content in draft.files.items():
        write_bytes(folder / name, content)
    with watch.phase("Writing the report", 1, "report"):
        write_pages_and_report(report, folder)


def _print_plan(spec: AuditSpec, outcome: Outcome, effects: Sequence[tuple[str, str]]) -> None:
    plan, planned = outcome.plan, outcome.planned
    lines = [f"{spec.name}: every input is in order. Nothing was run."]
    if plan.subject:
        lines.append(f"  model      {plan.subject.path} ({plan.subject.family}, {plan.subject.sha256[:12]})")
    lines += [f"  {source.role:<10} {source.path} ({source.items} items)" for source in plan.data]
    costs = (*plan.cost, *(plan.measure() if plan.measure else ()), *outcome.parts, *effects)
    lines += [f"  {what:<10} {amount}" for what, amount in costs]
    lines += [f"  written    {path}" for path in plan.files]
    if planned is not None and planned.registration is not None:
        held = planned.registration
        lines.append(f"  registered {held.file}: this is the run that was registered, sha256 {held.sha256}")
        for gate, mark in zip(planned.gates, planned.registered, strict=True):
            lines.append(f"  fail if    {gate.expression} ({standing(mark)})")
    notes = (*plan.notes, *(warning.message for warning in plan.warnings), *plan.preview)
    lines += [f"  note       {note}" for note in dict.fromkeys(notes)]
    sys.stdout.write("\n".join(lines) + "\n")


def _print_part(manifest: Manifest, common: Common) -> None:
    if common.json:
        sys.stdout.buffer.write(part_runs.as_json(manifest).encode("utf-8"))
    elif not common.quiet:
        sys.stdout.write(part_runs.words(manifest, parts_of(Cache.default(), manifest.mark)))


def _print_outcome(report: Report, folder: Path, common: Common, *, earlier: bool) -> None:
    if common.json:
        sys.stdout.buffer.write(dumps(report).encode("utf-8"))
    elif not common.quiet:
        from miles_cli.terminal import print_summary

        if earlier:
            sys.stdout.write(f"{folder} was finished earlier; nothing was run.\n\n")
        print_summary(report, folder)
        return
    _print_failed_gates(report)


def _print_failed_gates(report: Report) -> None:
    """Print a line for each gate that failed, with the reason: a quiet log must hold at least that."""
    from audits.report.pages.content import broken

    for gate in report.gates:
        if gate.outcome == "fail":
            why = "; ".join(broken(report, gate))
            known = f", {standing(gate.registered)}" if gate.registered is not None else ""
            sys.stderr.write(f"✗ gate failed{known}  {line(f'{gate.expression}: {why}' if why else gate.expression)}\n")
