"""Load networks that need code to be run: TorchScript, an exported program, or a factory of the user.

Nothing here is safe with an untrusted file or function; the caller has asked for permission.
"""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from functools import reduce, wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn

from probes.core.errors import InputError, first_line
from probes.core.hashing import sha256_file, sha256_folder
from probes.models.architectures import fit

_OTHER_WEIGHTS = "Give the weights of the network that --factory makes."


class Program(nn.Module):
    """An exported network, whose mode is fixed; `train` and `eval` leave it as it is."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program
        for part in self.modules():
            part.training = False

    def train(self, mode: bool = True) -> "Program":
        """Return the network, unchanged."""
        return self

    def forward(self, pixels: torch.Tensor) -> object:
        """Return what the program returns."""
        return self.program(pixels)


def load_program(path: Path, *, exported: bool) -> nn.Module:
    """Return the network of a TorchScript file, or of a .pt2 where `exported`, on the CPU. This runs its code.

    Raises
    ------
    InputError
        Where the file cannot be loaded.
    """
    try:
        # torch warns of the age of its own formats, which is no concern of the user's run.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if exported:
                return Program(torch.export.load(path).module())
            script: nn.Module = torch.jit.load(path, map_location="cpu")
            return script.eval()
    except Exception as error:
        raise InputError(
            f"The program cannot be loaded: {first_line(error)}", where=str(path), hint="Save or fetch it again."
        ) from error


def call_factory(factory: str, path: Path | None) -> tuple[nn.Module, bool, list[str]]:
    """Call "module:callable", which may lie in the current folder. This runs its code.

    Parameters
    ----------
    path
        The checkpoint; None: there is none, and the callable must take no argument.

    Returns
    -------
    tuple
        The network; whether the weights are in it already, since the callable took the path; and hashes of what it
        was made from besides its weights: the source file, and the checkpoint where the callable read that.

    Raises
    ------
    InputError
        Where there is no such callable, it fails, needs other arguments, or returns no network.
    """
    with _current_folder_importable(), torch.random.fork_rng(devices=[]):
        function = _find(factory)
        takes_path = _arguments(function, factory) == 1
        if takes_path and path is None:
            raise InputError(
                f"The factory {factory} takes the path of a checkpoint, and none is given.",
                where=f"--factory {factory}",
                hint="Give the checkpoint, or a callable without arguments that returns the trained model.",
            )
        try:
            net = function(str(path)) if takes_path else function()
        except (Exception, SystemExit) as error:
            raise _bad(factory, f"fails with {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(net, nn.Module):
        raise _bad(factory, f"returns a {type(net).__name__}, not a torch.nn.Module")
    made_from = [sha256_file(source) for source in _sources(function)]
    if takes_path and path is not None:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        made_from.append(sha256_folder(files))
    return net.eval(), takes_path, made_from


def load_weights(net: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path, factory: str) -> None:
    """Load the weights of a file into the network that a factory made.

    Raises
    ------
    InputError
        Where they do not fit it.
    """
    try:
        net.load_state_dict(fit(net, tensors, factory))
    except InputError as error:
        # There is a factory already: nothing else is to be built.
        hint = _OTHER_WEIGHTS if "--factory" in error.hint else error.hint
        raise InputError(error.message, where=f"{path}, --factory {factory}", hint=hint) from None
    except RuntimeError as error:
        raise InputError(
            f"The weights cannot be loaded: {first_line(error)}",
            where=str(path),
            hint=_OTHER_WEIGHTS,
        ) from error


def call_any(factory: str) -> object:
    """Return what "module:callable" returns, which may lie in the current folder. This runs its code.

    Raises
    ------
    InputError
        Where there is no such callable, it needs arguments, or fails.
    """
    with _current_folder_importable(), torch.random.fork_rng(devices=[]):
        function = _find(factory)
        try:
            return function()
        except (Exception, SystemExit) as error:
            raise _bad(factory, f"fails with {type(error).__name__}: {first_line(error)}") from error


def find_callable(factory: str) -> Callable[..., Any]:
    """Return "module:callable", which may lie in the current folder, as does what it imports when it is called.

    Raises
    ------
    InputError
        Where there is no such callable.
    """
    with _current_folder_importable():
        function = _find(factory)

    @wraps(function)
    def called(*args: object, **options: object) -> Any:
        # A run folder is often given from the current folder, which the code may leave.
        with _current_folder_importable(), chdir(Path.cwd()):
            return function(*args, **options)

    return called


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _find(factory: str) -> Callable[..., object]:
    module, colon, name = factory.partition(":")
    if not (module and colon and name):
        raise _bad(factory, "is not written as module:callable")
    try:
        found: object = reduce(getattr, name.split("."), importlib.import_module(module))
    except AttributeError as error:
        raise _bad(factory, f"was not found: {first_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise _bad(factory, f"cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    if not callable(found):
        raise _bad(factory, f"is a {type(found).__name__}, which cannot be called")
    return found


def _arguments(function: Callable[..., object], factory: str) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise _bad(factory, "does not tell which arguments it takes") from None
    named = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in parameters if one.default is inspect.Parameter.empty and one.kind not in named]
    if len(needed) > 1 or any(one.kind is inspect.Parameter.KEYWORD_ONLY for one in needed):
        raise _bad(factory, f"needs the arguments {', '.join(one.name for one in needed)}")
    return len(needed)


def _sources(function: Callable[..., object]) -> list[Path]:
    try:
        source = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        source = None
    return [Path(source)] if source and Path(source).is_file() else []


def _bad(factory: str, what: str) -> InputError:
    return InputError(
        f"The factory {factory} {what}.",
        where=f"--factory {factory}",
        hint="Give module:callable: without arguments it returns the network that the weights are loaded into, with "
        "one, the path of the checkpoint, it returns the finished model.",
    )
