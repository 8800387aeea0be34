"""One part of a run, as a task of an array: it computes its share into the cache, leaves a manifest, and stops."""

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from audits.core import runner
from audits.core.context import Context, Plan
from audits.core.errors import InputError
from audits.core.machines import parts_named
from audits.core.registry import AuditSpec
from audits.report.part_manifests import Manifest, Parts, parts_of, remove, write
from miles_cli.progress import Watch


def carried_out(
    spec: AuditSpec, options: Any, plan: Plan, context: Context, watch: Watch, mark: str, command: Sequence[str]
) -> Manifest:
    """Do one part of the jobs, and return the manifest, which stands in the cache too.

    Parameters
    ----------
    mark
        The hash of all that decides the report.

    Raises
    ------
    MilesError
        Where the input is wrong, and no manifest is left; or where the part could not be completed, and the manifest
        says that it was begun.
    """
    part, machines = context.machines.part, context.machines
    assert part is not None
    manifest = Manifest(
        audit=spec.name,
        mark=mark,
        number=part.number,
        of=part.of,
        state="begun",
        began=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        seconds=0.0,
        # It is what the system says, and may be no text.
        machine=platform.node().encode("utf-8", "replace").decode(),
        command=tuple(command),
    )
    write(context.cache, manifest)
    try:
        waits = runner.carry_out_part(spec, options, plan, context)
    except InputError:
        # Nothing was begun that could be gone on with.
        remove(context.cache, manifest)
        raise
    manifest = manifest.ended(machines.stages, waits=waits, seconds=watch.elapsed()["total"])
    write(context.cache, manifest)
    return manifest


def words(manifest: Manifest, parts: Parts) -> str:
    """Return what a part's run prints: what it did, and what is to be done next."""
    state = "has done what it can" if manifest.state == "waits" else "is done"
    lines = [f"{manifest.audit}: part {manifest.number} of {manifest.of} {state}."]
    for stage in manifest.stages:
        own = stage.computed + stage.found
        lines.append(f"  {stage.things}: {own:,} of {stage.jobs:,}, {stage.computed:,} computed, {stage.found:,} found")
        if stage.missing and manifest.state == "waits":
            those = parts_named(list(stage.missing), manifest.of)
            lines.append(f"    {sum(stage.missing.values()):,} are missing, of {those}")
    lines.append(f"  {parts.words()}.")
    if manifest.state == "waits":
        lines.append(
            "  Next: when the other parts have ended, the same command again, which goes on with what follows."
        )
    else:
        when = "" if len(parts.in_state("done")) == manifest.of else "when all parts are done, "
        lines.append(f"  Next: {when}the same command without --array, which makes the report.")
    return "\n".join(lines) + "\n"


def as_json(manifest: Manifest) -> str:
    """Return the manifest as what `--json` prints."""
    return json.dumps(manifest.to_json(), ensure_ascii=False, indent=1) + "\n"


def cost(context: Context, mark: str) -> list[tuple[str, str]]:
    """Return the lines of a dry run on the parts: which one this is, and what is known of all."""
    part, known = context.machines.part, parts_of(context.cache, mark)
    lines = [("part", f"{part.number} of {part.of}")] if part is not None else []
    return [*lines, *([("parts", known.words())] if known.of else [])]
