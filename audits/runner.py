"""One way through every audit: check, measure, estimate, judge, draw, list.

What all audits have in common is done here: the warnings of the plan, the limitations, the order of findings, and
which figures stay.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from audits import registry
from audits.context import Context, Draft, Plan
from audits.options import check_record
from audits.registry import AuditSpec
from probes.errors import IncompleteError, MilesError, first_line


def check(spec: AuditSpec, options: Any, context: Context) -> Plan:
    """Check every input; nothing is written.

    Raises
    ------
    InputError
        Where something is wrong that the user can mend.
    """
    check_record(options)
    with _blamed(spec):
        plan: Plan = _step(spec, "inputs", "check")(options, context)
    return plan


def carry_out(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> Draft:
    """Run an audit on a checked plan.

    Raises
    ------
    InputError
        Where the input turns out to be wrong only now.
    IncompleteError
        Where memory, disk or workers ran out.
    """
    with _blamed(spec):
        return _drafted(spec, options, plan, context)


def _drafted(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> Draft:
    counts = _step(spec, "measure")(options, plan.inputs, context)
    draft = Draft(
        level=context.level,
        seed=context.seed,
        progress=context.progress,
        measures=spec.by_name,
        limitations=list(spec.limitations),
    )
    for warning in plan.warnings:
        draft.warn(warning.id, warning.message, **warning.where)
    for note in plan.notes:
        draft.warn("input", note)
    _step(spec, "estimates")(draft, counts)
    _step(spec, "findings")(draft, counts)
    figures = spec.step("figures")
    draft.figures = list(figures(draft, counts)) if figures else []
    draft.records = _step(spec, "records")(counts)
    draft.coverage = _step(spec, "records", "coverage")(counts)
    files = spec.step("records", "files")
    draft.files = files(counts) if files else {}
    # An error in the evidence is met here, where it is known whose it is.
    draft.numbered()
    return draft


@contextmanager
def _blamed(spec: AuditSpec) -> Iterator[None]:
    """Let an error of another package's audit name that package; of ours it stays what it is."""
    try:
        yield
    except (MilesError, MemoryError, OSError):
        raise
    except Exception as error:
        owner = registry.owner(spec.name)
        if owner == registry.OURS:
            raise
        raise IncompleteError(
            f"The audit {spec.name} of {owner} met an error of its own: {type(error).__name__}: {first_line(error)}",
            where=spec.package,
            hint=f"Run it again with --verbose for the traceback, and report it to the authors of {owner}.",
        ) from error


def _step(spec: AuditSpec, step: str, function: str = "") -> Any:
    found = spec.step(step, function)
    if found is None:
        raise AttributeError(f"the audit {spec.name} has no {function or step} in {spec.package}")
    return found
