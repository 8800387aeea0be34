"""The call whose growth is looked at: a target at one length, batch and width, in one mode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Mode = Literal["forward", "train", "decode", "prefill"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Size, mode and type of the call of a target.

    Parameters
    ----------
    n
        Length of the sequence in tokens, or grid points; in mode decode that of the sequence before the next token.
    batch, width
        Sequences, and features of a token; a model of a folder has a width of its own.
    mode
        A forward pass without gradients, one with its backward pass, a prefill that returns the decode state, or the
        next token after n.
    """

    n: int
    batch: int = 1
    width: int = 64
    mode: Mode = "forward"
    device: str = "cpu"
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Workload:
    """A call that is ready: weights and inputs are made, in mode decode the state of n tokens too.

    Parameters
    ----------
    run
        The call to count and to measure; what it returns is alive until the caller drops it.
    state
        Makes the decode state after n tokens; None where the target keeps none.
    """

    run: Callable[[], object]
    state: Callable[[], object] | None = None


class LengthError(Exception):
    """The target cannot be called at this length, such as one beyond its table of positions; the text says why."""


class ModeError(Exception):
    """The target has no such mode; the text says why."""


class Target(Protocol):
    """Something that can be called at any length. All tensors are made under the caller's fake mode, where it has one.

    Calls with equal numbers make equal weights and inputs; the global random state is left as it was.
    """

    name: str

    def workload(self, case: Case) -> Workload:
        """Make the call of a case.

        Raises
        ------
        LengthError, ModeError
            Where it has none.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A target in words, which a child process can make again.

    Parameters
    ----------
    kind
        A built-in module, a callable of the user, or a Hugging Face folder.
    source
        Name of the built-in module (`window-128`), "module:callable", or the folder's path.
    submodule
        Path of the part of a folder's model that is called alone, on the inputs that reach it there.
    """

    name: str
    kind: Literal["built-in", "factory", "folder"]
    source: str
    submodule: str = ""
