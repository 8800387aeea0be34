"""On what machine, with what versions: the provenance of a run."""

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from audits.context import Context
from audits.errors import InputError
from audits.records import Provenance

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


def version() -> str:
    """Return the version of miles."""
    return installed("miles-audit")


def choose_device(wanted: str) -> str:
    """Return cpu or cuda[:N].

    Raises
    ------
    InputError
        Where the device has no such name or is not there.
    """
    kind, colon, number = wanted.partition(":")
    numbered = kind == "cuda" and number.isascii() and number.isdigit()
    if kind not in ("auto", "cpu", "cuda") or (colon and not numbered):
        raise InputError(f"{wanted!r} is no device.", where="--device", hint="Give auto, cpu, cuda or cuda:N.")
    if kind == "cpu":
        return "cpu"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        return "cuda" if count else "cpu"
    if int(number or 0) >= count:
        raise InputError(f"There is no {wanted} on this machine.", where="--device", hint="Give --device cpu.")
    return wanted


def provenance(context: Context, seconds: Mapping[str, float]) -> Provenance:
    """Return what it takes to run the audit again."""
    import torch

    return Provenance(
        miles=version(),
        python=platform.python_version(),
        packages=_versions(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        device=context.device,
        dtype=context.dtype,
        threads=torch.get_num_threads(),
        seed=context.seed,
        command=("miles", *sys.argv[1:]),
        seconds=seconds,
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = installed(name)
        except PackageNotFoundError:
            continue
    return found
