"""Run an audit from a test, ours or yours: from options to the draft of its report, without a command line."""

import tempfile
from pathlib import Path
from typing import Any

from audits.core import runner
from audits.core.context import Cache, Context, Draft
from audits.core.options import build
from audits.core.registry import AuditSpec


def drafted(spec: AuditSpec, options: Any, context: Context | None = None) -> Draft:
    """Run an audit and return its draft: estimates, findings, warnings, figures and records.

    Parameters
    ----------
    options
        The options record, or a mapping of values from which it is built and checked as on the command line.
    context
        Seed, level, device and cache; by default those of the command line, and a cache that is thrown away.

    Raises
    ------
    InputError
        Where an option or an input is wrong, as the command line would tell.
    """
    given = build(spec.options, options) if isinstance(options, dict) else options
    if context is not None:
        return runner.carry_out(spec, given, runner.check(spec, given, context), context)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Context(cache=Cache(Path(folder)))
        return runner.carry_out(spec, given, runner.check(spec, given, fresh), fresh)
