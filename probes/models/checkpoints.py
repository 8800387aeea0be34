"""Find a model folder or checkpoint, and read its weights without running code.

A model folder is checked before anything is loaded from it: config.json names a family, every weight file is
there, whole and inside the folder, and none needs code to be run. Pickles are read by the restricted reader of
torch only, and a config's `auto_map` (code of the model's author) is never followed.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.core.errors import InputError
from probes.core.hashing import sha256_folder
from probes.files.json_values import LARGEST_SETTING, parse_json
from probes.files.names import nearest_name
from probes.files.opening import advise, read_head
from probes.files.pickles import read_pickle
from probes.files.safe_tensors import check_safetensors, read_safetensors
from probes.files.text import read_text
from probes.files.weights import check_held, entries, unwrap, without_prefixes
from probes.models.foreign_models import refuse_foreign
from probes.models.model_configs import check_config

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".th", ".ckpt", ".tar")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_LARGEST_JSON = 2**24
_SMALL_FILES = ("*.json", "*.txt", "*.model")
_AGAIN = "Fetch the file again, or save the model again with save_pretrained()."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A Hugging Face model on this disk: `family` is its `model_type`, `sha256` covers config and weights."""

    reference: str
    path: Path
    family: str
    config: Mapping[str, Any]
    weights: tuple[Path, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, the architecture that the file names (or ""), and the keys beside the tensors."""

    tensors: "dict[str, Tensor]"
    arch: str = ""
    others: tuple[str, ...] = ()


def find_model(reference: str) -> ModelFolder:
    """Find and check a model: a local folder, or the id of one on the Hugging Face hub.

    An existing path always wins over an id. Whoever loads the folder passes `trust_remote_code=False`.

    Raises
    ------
    InputError
        Where there is no such model, or its folder is incomplete, damaged or would run code.
    """
    path = Path(reference).expanduser()
    if path.is_dir():
        return _check_folder(path.resolve(), reference)
    if path.exists():
        raise _no_folder(path, reference)
    if not _HUB_ID.fullmatch(reference) or ".." in reference or path.suffix in SUFFIXES:
        raise _no_folder(path, reference)
    return _check_folder(_download(reference), reference)


def find_configuration(path: Path) -> ModelFolder:
    """Find and check a local folder of which config.json alone is read: weights need not be there, and have no part.

    Raises
    ------
    InputError
        Where there is no such folder, or its configuration is damaged or would run code.
    """
    folder = path.expanduser()
    if not folder.is_dir():
        raise _no_folder(folder, str(path))
    folder = folder.resolve()
    check_links(folder)
    config = _read_config(folder)
    check_config(folder, config)
    sha256 = sha256_folder([folder / "config.json"])
    return ModelFolder(
        reference=str(path), path=folder, family=config["model_type"], config=config, weights=(), sha256=sha256
    )


def load_state_dict(path: Path) -> "dict[str, Tensor]":
    """Read a checkpoint's tensors by name, on the CPU.

    Wrappers such as `{"state_dict": ...}` are opened, and prefixes that DataParallel or torch.compile put before every
    name are taken off.

    Raises
    ------
    InputError
        Where the file is no checkpoint, is damaged, or would run code.
    """
    return without_prefixes(read_checkpoint(path).tensors)


def read_checkpoint(path: Path, *, held: bool = True) -> Checkpoint:
    """Read a checkpoint's tensors by the names in the file, and the keys beside them.

    Parameters
    ----------
    held
        False leaves the numbers of a pickle's tensors out.

    Raises
    ------
    InputError
        Where the file is no checkpoint, is damaged, or would run code.
    """
    where = str(path)
    refuse_foreign(path)
    if path.is_dir():
        raise InputError("This is a folder, not a checkpoint.", where=where, hint="Name the file in it.")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"The suffix {path.suffix!r} is not one of a checkpoint.",
            where=where,
            hint=f"Known: {', '.join(SUFFIXES)}.",
        )
    read_head(path, wanted="weights", hint="Fetch or save the file of weights again.")
    if path.suffix.lower() == ".safetensors":
        return Checkpoint(read_safetensors(path))
    return _named(read_pickle(path, held=held), where)


def read_weights(folder: ModelFolder) -> "dict[str, Any]":
    """Read the tensors of a folder's checked weight files by name, on the CPU, and no other file.

    Raises
    ------
    InputError
        Where one is damaged, would run code, or holds nothing by name.
    """
    tensors: dict[str, Any] = {}
    for path in folder.weights:
        if path.suffix == ".safetensors":
            tensors |= read_safetensors(path)
            continue
        content = read_pickle(path)
        if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
            what = f"The file holds a {type(content).__name__}, not tensors by name."
            raise InputError(what, where=str(path), hint=_AGAIN)
        check_held(content, str(path))
        tensors |= content
    return tensors


def _no_folder(path: Path, reference: str) -> InputError:
    refuse_foreign(path, factory=False)
    if path.exists():
        pickled = " It was not opened: a pickle can run code." if path.suffix in (".pkl", ".pickle") else ""
        return InputError(
            f"{path.name} is a file; a model here is a folder with config.json and weights.{pickled}",
            where=reference,
            hint="Weights alone do not say which model they are of: give the folder made by save_pretrained().",
        )
    near = nearest_name(path)
    hint = f"Did you mean {path.parent / near}?" if near else "Check the path."
    return InputError("There is no such folder.", where=reference, hint=hint)


def _named(content: object, where: str) -> Checkpoint:
    from torch import Tensor

    found = unwrap(content)
    arch = found.beside.get("arch")
    if not isinstance(found.content, Mapping):
        raise InputError(
            f"The checkpoint holds a {type(found.content).__name__}, not tensors by name.",
            where=where,
            hint="Save model.state_dict().",
        )
    named = entries(found.content)
    other = next((name for name, value in named.items() if not isinstance(value, Tensor)), None)
    if other is not None or not named:
        keys = ", ".join(list(named)[:10]) or "none"
        what = f"Its entry {other!r} is a {type(named[other]).__name__}, not a tensor." if other else "It is empty."
        raise InputError(what, where=where, hint=f"Save model.state_dict(). Names in the file: {keys}.")
    check_held(named, where)
    return Checkpoint(named, arch if isinstance(arch, str) else "", tuple(found.beside))


def _download(reference: str) -> Path:
    import huggingface_hub
    from huggingface_hub.utils import HFValidationError, disable_progress_bars

    disable_progress_bars()
    try:
        fetch = huggingface_hub.snapshot_download
        folder = Path(fetch(reference, allow_patterns=[*_SMALL_FILES, "*.safetensors"], etag_timeout=5))
        # Pickles are fetched only where there is nothing safer.
        if not any(folder.glob("*.safetensors")):
            folder = Path(fetch(reference, allow_patterns=[*_SMALL_FILES, "pytorch_model*.bin"], etag_timeout=5))
        return folder
    except (OSError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"There is no folder of this name, and the hub gave no model: {reason}",
            where=reference,
            hint="Pass a local folder (config.json and model.safetensors), or check the id and the connection.",
        ) from None


def _check_folder(folder: Path, reference: str) -> ModelFolder:
    # Links are checked before anything is read through one.
    check_links(folder)
    config = _read_config(folder)
    check_config(folder, config)
    weights = _find_weights(folder)
    for file in weights:
        read_head(file, wanted="weights", hint="Fetch or save the file of weights again.")
        if file.suffix == ".safetensors":
            check_safetensors(file)
        else:
            # Nothing is kept; the point is whether the restricted reader accepts it.
            read_pickle(file, held=False)
    files = {file for pattern in _SMALL_FILES for file in folder.glob(pattern) if file.is_file()}
    return ModelFolder(
        reference=reference,
        path=folder,
        family=config["model_type"],
        config=config,
        weights=weights,
        sha256=sha256_folder([*files, *weights]),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        refuse_foreign(folder, factory=False)
        raise InputError(
            "The folder has no config.json, so it is not known which model this is.",
            where=str(folder),
            hint="Give the folder made by save_pretrained(), or the one of a hub model.",
        )
    config = _read_json(path)
    if not isinstance(config, dict):
        raise InputError(f"The config is a {type(config).__name__}, not an object.", where=str(path), hint=_AGAIN)
    family = config.get("model_type")
    if not isinstance(family, str) or not family:
        raise InputError(
            "The config has no model_type.",
            where=f"{path}, model_type",
            hint='Save the model with transformers, which writes it, or add it, such as "model_type": "wav2vec2".',
        )
    return config


def _read_json(path: Path) -> object:
    try:
        if path.is_file() and path.stat().st_size > _LARGEST_JSON:
            raise InputError(f"It has more than {_LARGEST_JSON} bytes.", where=str(path), hint=_AGAIN)
        return parse_json(read_text(path), str(path), largest=LARGEST_SETTING)
    except InputError as error:
        # The hint of the reader is about tables.
        advise(error, path, _AGAIN)
        raise


def check_links(folder: Path) -> None:
    """Refuse links out of a model's folder, other than into the blobs of the hub's own cache.

    Raises
    ------
    InputError
        Naming the first.
    """
    # In the hub's cache, snapshots/<revision>/<file> links to blobs/<hash> of the same model.
    blobs = folder.parent.parent / "blobs"
    for file in sorted(folder.iterdir()):
        if not file.is_symlink():
            continue
        # Where links lead in a circle, this gives the link itself.
        target = Path(os.path.realpath(file))
        in_cache = folder.parent.name == "snapshots" and target.parent == blobs
        if not in_cache and not target.is_relative_to(folder):
            raise InputError(
                f"{file.name} is a link that leaves the model's folder, to {target}.",
                where=str(file),
                hint="Copy the file itself into the folder.",
            )


def _find_weights(folder: Path) -> tuple[Path, ...]:
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if (folder / name).exists():
            return (folder / name,)
        if index.is_file():
            return _read_index(folder, index)
    near = sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES)
    raise InputError(
        "The folder has no weights: neither model.safetensors, nor its index, nor pytorch_model.bin.",
        where=str(folder),
        hint=f"There are: {', '.join(near[:10])}." if near else "Fetch the weights too (git lfs pull, or the hub).",
    )


def _read_index(folder: Path, index: Path) -> tuple[Path, ...]:
    content = _read_json(index)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise InputError("The index has no weight_map of names.", where=f"{index}, weight_map", hint=_AGAIN)
    files = []
    for name in sorted(set(names.values())):
        file = folder / name
        if not Path(os.path.realpath(file)).is_relative_to(folder) and not (
            file.is_symlink() and not {"/", "\\"} & set(name)
        ):
            raise InputError(
                f"The index names {name!r}, which is outside the folder.",
                where=f"{index}, weight_map",
                hint="Fetch the model again, from a place that you trust.",
            )
        if not file.is_file():
            raise InputError(
                f"The index names {name}, which is missing.", where=str(index), hint="Fetch the missing part."
            )
        files.append(file)
    return tuple(files)


def count_parameters(folder: ModelFolder) -> int:
    """Return how many numbers the checkpoint holds; safetensors are counted from their headers alone."""
    from safetensors import safe_open

    total = 0
    for path in folder.weights:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="np") as file:
                total += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
        else:
            total += sum(tensor.numel() for tensor in read_checkpoint(path, held=False).tensors.values())
    return total


def contradiction(
    folder: ModelFolder, mismatched: list[tuple[str, Sequence[int], Sequence[int]]], known: Iterable[str]
) -> InputError:
    """Return the refusal that says which size differs, and which keys of the configuration have the other one."""
    name, held, wanted = mismatched[0]
    keys = [key for key in known if folder.config.get(key) in set(wanted) - set(held)]
    sizes = [" x ".join(str(size) for size in shape) for shape in (held, wanted)]
    more = f"; {len(mismatched) - 1} more parameters differ" if len(mismatched) > 1 else ""
    return InputError(
        f"{name} is {sizes[0]} in the weights, config.json asks for {sizes[1]}{more}.",
        where=f"{folder.path / 'config.json'}" + (f", key {' or '.join(keys)}" if keys else ""),
        hint="config.json and the weights must belong together; save the folder again with save_pretrained.",
    )
