"""The refusal where a run needs a package of models that is not installed: audits of tables run without these."""

from audits.core.errors import InputError
from probes.core.installed import is_installed

__all__ = ["is_installed", "refusal"]

PACKAGES = ("torch", "torchaudio", "transformers")
"""What runs models: needed by an audit that runs one, and by no other."""


def refusal(error: ModuleNotFoundError, what: str) -> InputError | None:
    """Return the refusal that stands for an import error; None where it is of no package of models.

    >>> refusal(ModuleNotFoundError("", name="yaml"), "miles certify") is None
    True
    """
    wanted = (error.name or "").partition(".")[0]
    if wanted not in PACKAGES or is_installed(wanted):
        return None
    missing = [name for name in PACKAGES if name == wanted or not is_installed(name)]
    return InputError(
        f"This run needs {wanted}, which is not installed here.",
        where=what,
        hint=f"pip install {' '.join(missing)}; for a CPU alone: --extra-index-url https://download.pytorch.org/whl/cpu",
    )
