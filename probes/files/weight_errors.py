"""Refusals of weight files, worded once for all readers."""

from probes.core.errors import InputError


def damaged(how: str, where: str) -> InputError:
    """Return the refusal of a damaged weight file."""
    return InputError(f"The file of weights is damaged: {how}.", where=where, hint="Fetch or save it again.")


def refused(what: str, where: str) -> InputError:
    """Return the refusal of a file that would run code."""
    return InputError(
        f"The file was refused: it holds {what}, and loading that would run code from the file.",
        where=where,
        hint="Where you trust it, convert it once: load it there and save model.state_dict() with "
        "safetensors.torch.save_file.",
    )


def needless(what: str, where: str) -> InputError:
    """Return the refusal of a file that expands to far more than a checkpoint needs."""
    return InputError(
        f"The file was refused: it holds {what}, more than a checkpoint needs.",
        where=where,
        hint="Where you trust it, save model.state_dict() alone, with safetensors.torch.save_file.",
    )
