"""Open a target by its words: a built-in module, a callable of the user, or a Hugging Face folder."""

from pathlib import Path

from probes.core.errors import InputError
from probes.scaling.workloads import Target, TargetSpec


def open_target(spec: TargetSpec, *, allow_code: bool) -> Target:
    """Return the target that a specification names.

    Parameters
    ----------
    allow_code
        Whether a callable of the user may be imported and called.

    Raises
    ------
    InputError
        Where there is no such module, callable or folder, or the user's code may not run.
    """
    if spec.kind == "folder":
        from probes.scaling.hub_targets import folder_target

        return folder_target(spec.name, Path(spec.source), spec.submodule)
    from probes.scaling.reference_modules import built_in_target, factory_target

    if spec.kind == "built-in":
        return built_in_target(spec.source)
    if not allow_code:
        raise InputError(
            f"The target {spec.source} is code, which would be run.",
            where=f"{spec.name}={spec.source}",
            hint="Add --allow-code where you trust it.",
        )
    from probes.models.programs import find_callable

    try:
        return factory_target(spec.name, find_callable(spec.source))
    except InputError as error:
        hint = "Give NAME=module:callable; it is called as f(batch, n, width, device)."
        raise InputError(error.message, where=f"{spec.name}={spec.source}", hint=hint) from error
