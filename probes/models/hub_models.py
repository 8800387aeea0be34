"""Load a Hugging Face model from an untrusted folder.

Only files on this disk, no code of theirs, no more memory than the weight files account for, and no parameter that
the weights do not bring: what transformers would fill with random numbers is refused. transformers is handed the
tensors, not the folder, so that it cannot open another file than those whose hash the report holds.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from probes.contained import LimitError, Limits, within
from probes.core.errors import InputError, MilesError
from probes.core.library_imports import transformers
from probes.models.checkpoints import ModelFolder, contradiction, read_weights

LOCAL: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}
TOGETHER = "config.json and the weights must belong together; save the folder again with save_pretrained()."
_TRUST = "Fetch the model again, or use one that you trust."
LIMITS = Limits(memory=2**31, seconds=60)
"""Of what transformers makes of files, without memory for weights: large models take a few seconds."""
_INFORMED = {"output_loading_info": True, "ignore_mismatched_sizes": True}


@contextmanager
def loading_errors(what: str, folder: ModelFolder, hint: str = TOGETHER) -> Iterator[None]:
    """Turn whatever transformers raises on an untrusted folder into an error that names it."""
    try:
        yield
    except (MilesError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(f"The {what} cannot be loaded: {reason}", where=str(folder.path), hint=hint) from error


@contextmanager
def within_limits(what: str, file: Path) -> Iterator[None]:
    """Turn an exceeded limit of memory or time into a refusal that names the file.

    Parameters
    ----------
    what
        What is made of it.
    """
    try:
        with within(LIMITS):
            yield
    except LimitError as error:
        raise InputError(f"The {what} cannot be made: {error.text}.", where=str(file), hint=_TRUST) from None


def _within_limits(folder: ModelFolder) -> AbstractContextManager[None]:
    return within_limits("model that it describes", folder.path / "config.json")


def integer_keys(folder: ModelFolder) -> list[str]:
    """Return the keys of a configuration that hold whole numbers, any of which may contradict the weights."""
    return [key for key, value in folder.config.items() if type(value) is int]


def empty_model(loader: Any, config: Any, folder: ModelFolder, used: Callable[[str], bool] = lambda name: True) -> Any:
    """Return the model that a configuration describes, without memory for its weights.

    Parameters
    ----------
    used
        Whether the parameter of a name must be in the weight files.

    Raises
    ------
    InputError
        Where it has more parameters than the weight files can hold.
    """
    with _within_limits(folder), torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = loader.from_config(copy.deepcopy(config), trust_remote_code=False)
    parameters = sum(weight.numel() for name, weight in model.named_parameters() if used(name))
    held = sum(path.stat().st_size for path in folder.weights)
    # No parameter is stored in less than a byte.
    if parameters > held:
        raise InputError(
            f"config.json describes {parameters} parameters; the weights have {held} bytes in all.",
            where=str(folder.path / "config.json"),
            hint=TOGETHER,
        )
    return model


def configuration(folder: ModelFolder) -> Any:
    """Return the configuration of a folder as transformers parses it.

    Raises
    ------
    InputError
        Where it does not.
    """
    with loading_errors("configuration", folder), _within_limits(folder):
        return transformers().AutoConfig.from_pretrained(folder.path, **LOCAL)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, with the names of unused weights and of parameters that the weight files lack."""

    model: Any
    unused: list[str]
    lacking: list[str]


def load_model(
    meta: Any, config: Any, folder: ModelFolder, *, limits: Iterable[str], dtype: str | None = None
) -> Loaded:
    """Load the model of a folder; the global random state is left as it was.

    Parameters
    ----------
    meta, config
        The model without weights, of `empty_model`, and the configuration that it was made from.
    limits
        Keys of the configuration to be named where sizes contradict the weights.
    dtype
        None leaves it to transformers.

    Raises
    ------
    InputError
        Where the weights do not belong to the configuration.
    """
    number = {} if dtype is None else {"dtype": getattr(torch, dtype)}
    if type(meta.config) is not type(config):
        config = config.get_text_config()
    # Loading draws numbers for what the weights lack.
    with loading_errors("model", folder), torch.random.fork_rng(devices=[]):
        # For sizes that differ, transformers refers to a log that is not shown.
        model, info = type(meta).from_pretrained(
            None, config=config, state_dict=read_weights(folder), **number, **_INFORMED, **LOCAL
        )
    if info["mismatched_keys"]:
        raise contradiction(folder, sorted(info["mismatched_keys"]), limits)
    return Loaded(model, sorted(info["unexpected_keys"]), sorted(info["missing_keys"]))


def load_whole(
    meta: Any,
    config: Any,
    folder: ModelFolder,
    *,
    limits: Iterable[str],
    used: Callable[[str], bool] = lambda name: True,
    dtype: str | None = None,
) -> Any:
    """Load the model of a folder as `load_model` does, and refuse one with parameters missing in the weight files.

    Parameters
    ----------
    used
        Whether the parameter of a name must be there.

    Raises
    ------
    InputError
        Where the weights do not belong to the configuration, or some are missing.
    """
    loaded = load_model(meta, config, folder, limits=limits, dtype=dtype)
    missing = [name for name in loaded.lacking if used(name)]
    if missing:
        raise InputError(
            f"The weights lack {len(missing)} parameters that config.json asks for, such as {missing[0]}.",
            where=str(folder.path),
            hint=TOGETHER,
        )
    return loaded.model
