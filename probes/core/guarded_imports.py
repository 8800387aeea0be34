"""Import torchaudio and transformers, also where torchaudio's compiled part cannot load.

The wheels of torchaudio carry libraries linked against CUDA. Beside a CPU-only torch they do not load, and
then both `import torchaudio` and every speech class of transformers raise OSError, although resampling,
filter banks and spectra are plain Python. Here the part that needs the libraries is replaced by a stand-in
that says they are absent. Every import of the two packages goes through this module.
"""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import NoReturn

_EXTENSION = "torchaudio._extension"


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
def transformers() -> ModuleType:
    """Return transformers, which then logs errors only; whether it may use the network stays the user's choice."""
    torchaudio()
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
