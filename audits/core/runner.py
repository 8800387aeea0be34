"""The runner: the steps of every audit in order (check, measure, estimate, judge, draw, list).

What all audits have in common is done here: the warnings of the plan, the limitations, the order of findings, and
which figures stay.
"""

from dataclasses import fields
from typing import Any

from audits.core import registry
from audits.core.context import Context, Draft, Plan
from audits.core.detectable import Detectable
from audits.core.errors import InputError
from audits.core.machines import PartEnded
from audits.core.options import check_record
from audits.core.registry import AuditSpec
from probes.contained import missing_walls, warm

PICKLED = (".pt", ".pth", ".bin", ".th", ".ckpt", ".tar")
"""Suffixes of files from torch.save."""


def check(spec: AuditSpec, options: Any, context: Context) -> Plan:
    """Check every input and return the plan; write nothing.

    Raises
    ------
    InputError
        Where something is wrong that the user can fix.
    """
    check_record(options)
    _warm_readers(options)
    with registry.blamed(spec.name):
        plan: Plan = _step(spec, "inputs", "check")(options, context)
    return plan


def detectable(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> tuple[Detectable, ...]:
    """Return the effects that a run of this plan could show; none of an audit that does not say."""
    step = spec.step("detectable")
    if step is None:
        return ()
    with registry.blamed(spec.name):
        return tuple(step(options, plan, context))


def carry_out(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> Draft:
    """Run an audit on a checked plan and return the draft of its report.

    Raises
    ------
    InputError
        Where the input turns out to be wrong only now.
    IncompleteError
        Where memory, disk or workers ran out.
    """
    with registry.blamed(spec.name):
        return _drafted(spec, options, plan, context)


def carry_out_part(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> bool:
    """Do the part of an audit's jobs that `context.machines` names, and tell whether it waits for other parts.

    Raises
    ------
    InputError
        Where there are no jobs to share, or the input turns out to be wrong only now.
    IncompleteError
        Where memory, disk or workers ran out.
    """
    waits = False
    with registry.blamed(spec.name), context.machines.pool.reused():
        try:
            _step(spec, "measure")(options, plan.inputs, context)
        except PartEnded as end:
            waits = end.waits
    if not any(stage.jobs for stage in context.machines.stages):
        raise InputError(
            "With these inputs and options there is nothing that parts could share.",
            where="--array",
            hint="Leave it out.",
        )
    return waits


def _drafted(spec: AuditSpec, options: Any, plan: Plan, context: Context) -> Draft:
    with context.machines.pool.reused():
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
    if missing := missing_walls():
        draft.warn("system", missing)
    _step(spec, "estimates")(draft, counts)
    _step(spec, "findings")(draft, counts)
    if draft.answer is None or not draft.answer.next_step:
        draft.advise(spec.steps)
    figures = spec.step("figures")
    draft.figures = list(figures(draft, counts)) if figures else []
    draft.records = _step(spec, "records")(counts)
    draft.coverage = _step(spec, "records", "coverage")(counts)
    files = spec.step("records", "files")
    draft.files = files(counts) if files else {}
    # Resolve the evidence now: an error in it is raised while it is known which audit made it.
    draft.numbered()
    return draft


def _warm_readers(options: Any) -> None:
    """Start the import of torch in the contained reader process early, where an option names a file of torch."""
    given = [getattr(options, item.name) for item in fields(options)]
    names = [str(one) for value in given for one in (value if isinstance(value, tuple) else (value,))]
    if any(name.lower().endswith(PICKLED) for name in names):
        warm(["torch"])


def _step(spec: AuditSpec, step: str, function: str = "") -> Any:
    found = spec.step(step, function)
    if found is None:
        raise AttributeError(f"the audit {spec.name} has no {function or step} in {spec.package}")
    return found
