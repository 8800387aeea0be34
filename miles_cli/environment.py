"""The provenance of a run: on what machine, and with what versions, it was made."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from audits.core import registry
from audits.core.context import Context
from audits.core.errors import InputError
from audits.core.missing_packages import is_installed
from audits.core.records import Provenance

PACKAGES = (
    "torch",
    "torchaudio",
    "transformers",
    "numpy",
    "scipy",
    "scikit-learn",
    "statsmodels",
    "jiwer",
    "soundfile",
)
_ELSEWHERE = "Give --device cpu, or run this on a machine or a node of a cluster that has one."


def version() -> str:
    """Return the version of miles."""
    return installed("miles-audit")


def choose_device(wanted: str, *, needed: bool = True) -> str:
    """Return cpu or cuda[:N]; where no model needs a device, auto is cpu and nothing is loaded to find out.

    It is cpu too where there is no torch.

    Raises
    ------
    InputError
        Where the device has no such name or is not there.
    """
    kind, colon, number = wanted.partition(":")
    numbered = kind == "cuda" and number.isascii() and number.isdigit()
    if kind not in ("auto", "cpu", "cuda") or (colon and not numbered):
        raise InputError(
            f"{wanted!r} is no device.", where="--device", hint="Give auto, cpu, cuda, cuda:N or cuda:all."
        )
    if kind == "cpu" or (kind == "auto" and not (needed and is_installed("torch"))):
        return "cpu"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        return "cuda" if count else "cpu"
    if int(number or 0) >= count:
        raise InputError(f"There is no {wanted} on this machine.", where="--device", hint=_ELSEWHERE)
    return wanted


def provenance(audit: str, context: Context, seconds: Mapping[str, float], command: Sequence[str]) -> Provenance:
    """Return the provenance of a run: all that it takes to repeat it, and the words of its command."""
    return Provenance(
        miles=version(),
        python=platform.python_version(),
        packages=_versions() | dict(filter(None, [registry.release(audit)])),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        device=context.device,
        dtype=context.dtype,
        threads=_threads(),
        seed=context.seed,
        command=tuple(command),
        seconds=seconds,
    )


def _threads() -> int:
    """Return how many threads a model runs on; where none ran, torch is not loaded to find out."""
    if sys.modules.get("torch") is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    import torch

    return torch.get_num_threads()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = installed(name)
        except PackageNotFoundError:
            continue
    return found
