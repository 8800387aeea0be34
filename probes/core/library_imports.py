"""Import torchaudio, torchvision, timm and transformers, also where a compiled part of the first two cannot load.

The wheels of torchaudio carry libraries linked against CUDA. Beside a CPU-only torch they do not load, and
then both `import torchaudio` and every speech class of transformers raise OSError, although resampling,
filter banks and spectra are plain Python. Here the part that needs the libraries is replaced by a stand-in
that says they are absent. torchvision looks for the operators of its library while it is imported; where that does
not load, they are declared without being defined, which is all that its networks need. Every import of the packages
goes through this module.
"""

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import NoReturn

_EXTENSION = "torchaudio._extension"
_OPERATORS = ("nms", "qnms")
"""Operators of torchvision whose shapes it describes while it is imported, whether they are there or not."""


@cache
def torchaudio() -> ModuleType:
    """Return torchaudio, without its compiled functions where those cannot load."""
    try:
        return importlib.import_module("torchaudio")
    except ModuleNotFoundError:
        raise
    except (OSError, ImportError, RuntimeError):
        # OSError: a library is missing; the others: the libraries are of another torch or CUDA release.
        _drop("torchaudio")
        sys.modules[_EXTENSION] = _stand_in()
        try:
            return importlib.import_module("torchaudio")
        except BaseException:
            _drop("torchaudio")
            raise


@cache
def torchvision() -> ModuleType:
    """Return torchvision, without its compiled operators where those cannot load.

    Raises
    ------
    ModuleNotFoundError
        Where it is not installed.
    """
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError:
        raise
    except (OSError, ImportError, RuntimeError):
        _drop("torchvision")
        _declare_operators()
        try:
            return importlib.import_module("torchvision")
        except BaseException:
            _drop("torchvision")
            raise


@cache
def timm() -> ModuleType:
    """Return timm, which imports torchvision.

    Raises
    ------
    ModuleNotFoundError
        Where one of the two is not installed.
    """
    torchvision()
    return importlib.import_module("timm")


def _declare_operators() -> None:
    import torch

    for name in _OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float threshold) -> Tensor")


@cache
def transformers() -> ModuleType:
    """Return transformers, which then logs errors only; whether it may use the network stays the user's choice."""
    torchaudio()
    # Where it is installed, transformers imports it; where it is broken beyond this, that is for transformers to say.
    with suppress(OSError, ImportError, RuntimeError):
        torchvision()
    package = importlib.import_module("transformers")
    logging = importlib.import_module("transformers.utils.logging")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return package


def compiled_aligner_available() -> bool:
    """Tell whether `torchaudio.functional.forced_align` can run here."""
    torchaudio()
    return bool(getattr(sys.modules[_EXTENSION], "_IS_ALIGN_AVAILABLE", False))


def _stand_in() -> ModuleType:
    module = ModuleType(_EXTENSION, "Stands for the compiled part of torchaudio where it cannot be loaded.")
    module.__dict__.update(
        _IS_TORCHAUDIO_EXT_AVAILABLE=False,
        _IS_ALIGN_AVAILABLE=False,
        fail_if_no_align=_refuse,
    )
    return module


def _refuse(function: Callable[..., object]) -> Callable[..., NoReturn]:
    def refuse(*values: object, **options: object) -> NoReturn:
        raise RuntimeError(f"{function.__name__} needs the compiled part of torchaudio, which cannot load here.")

    return refuse


def _drop(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
