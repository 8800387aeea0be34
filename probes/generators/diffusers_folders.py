"""Read the denoiser and the schedule of a folder of diffusers, without its own loader.

Configuration, schedule and weights are checked before memory is taken; nothing is fetched, no code of the folder is
run.
"""

import importlib
import inspect
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from probes.core.errors import InputError, first_line
from probes.core.hashing import sha256_json
from probes.core.library_imports import transformers
from probes.files.json_values import parse_json
from probes.files.safe_tensors import check_safetensors
from probes.files.text import read_text
from probes.generators.diffusion import PREDICTIONS, Prediction, schedule_from
from probes.generators.generative_networks import check_plain
from probes.models.checkpoints import SUFFIXES
from probes.models.foreign_models import refuse_foreign
from probes.models.network_weights import LoadedNetwork, hash_tensors, known_shape, load_into, read_tensors

_NETWORK, _WEIGHTS = "UNet2DModel", "diffusion_pytorch_model"
_SCHEDULERS = re.compile(
    r"(DDPM|DDIM|DDIMInverse|DDPMParallel|DDIMParallel|PNDM|DPMSolverMultistep|DPMSolverSinglestep|UniPCMultistep|"
    r"DEISMultistep|LMSDiscrete|EulerDiscrete|EulerAncestralDiscrete|HeunDiscrete)Scheduler"
)
"""Those whose networks are trained on the steps of a variance-preserving schedule."""
_RENAMED = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
_RENAMED_PART = re.compile(r"(.*attentions\.\d+)\.(query|key|value|proj_attn)\.(weight|bias)")
_MOST_WIDE, _MOST_LAYERS, _MOST_PARTS = 2**16, 64, 64
_TOGETHER = "config.json and the weights must belong together; save the folder again with save_pretrained()."


def read_folder(path: Path, arch: str | None, schedule: str | None, shape: tuple[int, ...] | None) -> LoadedNetwork:
    """Return the denoiser of a pipeline's folder with its schedule, or of a network's folder without.

    Raises
    ------
    InputError
        Where an option contradicts the folder, or it is incomplete, damaged or of another kind.
    """
    if arch is not None:
        raise InputError("A folder names its own network.", where=f"--arch {arch}", hint="Leave it out.")
    refuse_foreign(path)
    if not (path / "model_index.json").is_file():
        return _from_unet(path, path, shape)
    if schedule is not None:
        what = "The folder has a schedule of its own."
        raise InputError(what, where=f"--schedule {schedule}", hint="Leave it out.")
    _check_index(_object(path / "model_index.json", path), f"{path / 'model_index.json'}")
    where = path / "scheduler" / "scheduler_config.json"
    config = _object(where, path)
    known = schedule_from(config, str(where))
    # Older releases of diffusers said predict_epsilon.
    value = config.get("prediction_type", "epsilon" if config.get("predict_epsilon", True) else "sample")
    if value not in PREDICTIONS:
        what = f"The network predicts {ascii(value)[:40]}."
        raise InputError(what, where=f"{where}, key prediction_type", hint=f"Supported: {', '.join(PREDICTIONS)}.")
    return replace(_from_unet(path / "unet", path, shape), schedule=known, prediction=cast("Prediction", value))


def _check_index(index: Mapping[str, Any], where: str) -> None:
    """Refuse pipelines whose network has other inputs than points and steps."""
    used = {key: value for key, value in index.items() if isinstance(value, list) and any(value) and key[:1] != "_"}
    unet, scheduler = used.pop("unet", None), used.pop("scheduler", [None, None])
    what = ""
    if unet != ["diffusers", _NETWORK]:
        what = f"Its unet is {ascii(unet)[:80]}; a prompt or a class cannot be given here."
    elif used:
        others = ascii(", ".join(sorted(used)))[1:-1][:200]
        what = f"It has more than a denoiser ({others}): it denoises what another network makes of a point."
    elif scheduler[0] != "diffusers" or not _SCHEDULERS.fullmatch(str(scheduler[-1])):
        what = f"Its scheduler is {ascii(scheduler)[:80]}, not one for a model of discrete steps, as DDPMScheduler is."
    if what:
        hint = f"Supported is an unconditional {_NETWORK} of diffusers on points, with its scheduler."
        raise InputError(f"The pipeline cannot be used. {what}", where=where, hint=hint)


def _from_unet(folder: Path, root: Path, shape: tuple[int, ...] | None) -> LoadedNetwork:
    where = folder / "config.json"
    config = _object(where, root)
    if config.get("_class_name") != _NETWORK:
        what = f"The configuration is one of {ascii(config.get('_class_name'))[:80]}."
        hint = f"Supported is {_NETWORK}, unconditional. Build another network by --factory and --allow-code."
        raise InputError(what, where=f"{where}, key _class_name", hint=hint)
    maker = _unet_class()
    known = set(inspect.signature(maker.__init__).parameters) - {"self"}
    settings = {key: _setting(key, value, where) for key, value in config.items() if key in known}
    unused = ascii(", ".join(sorted(key for key in config if key not in known and key[:1] != "_")))[1:-1][:200]
    points = _unet_shape(settings, shape, where)
    weights = _weights_file(folder, root)
    try:
        # Without memory for weights, so that sizes which the file does not have cost nothing.
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            net: nn.Module = maker(**settings)
    except Exception as error:
        what = f"The network cannot be built: {first_line(error)}"
        raise InputError(what, where=str(where), hint=_TOGETHER) from error
    wanted, held = sum(weight.numel() for weight in net.parameters()), weights.stat().st_size
    # No parameter is stored in less than a byte.
    if wanted > held:
        what = f"config.json describes {wanted} parameters; the weights have {held} bytes in all."
        raise InputError(what, where=str(where), hint=_TOGETHER)
    tensors, _ = read_tensors(weights)
    check_plain(tensors, str(weights))
    load_into(net, {_today(name): value for name, value in tensors.items()}, _NETWORK, str(folder), _TOGETHER)
    made_from = sorted((key, str(value)) for key, value in settings.items())
    content = sha256_json([hash_tensors(net, str(weights)), made_from])
    notes = (f"Not used of config.json: {unused}.",) if unused else ()
    return LoadedNetwork(net=net, family=_NETWORK, content=content, shape=points, notes=notes)


def _unet_class() -> Any:
    """Return the class of diffusers, imported without its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # diffusers imports transformers, which has to come by the guard where torchaudio cannot load.
            transformers()
            package = importlib.import_module("diffusers")
            importlib.import_module("diffusers.utils.logging").set_verbosity_error()
            return getattr(package, _NETWORK)
    except ImportError as error:
        what = f"A folder of diffusers needs that package: {first_line(error)}"
        raise InputError(what, where="diffusers", hint="pip install 'miles-audit[privacy]'") from error


def _setting(key: str, value: object, where: Path) -> object:
    """Return a setting of the network, after checking its sizes against limits."""
    parts = value if isinstance(value, list) else [value]
    most = _MOST_LAYERS if "layers" in key else _MOST_WIDE
    large = any(isinstance(part, int | float) and not abs(part) <= most for part in parts)
    if len(parts) > _MOST_PARTS or large or any(isinstance(part, dict | list) for part in parts):
        what = f"{key} is {ascii(value)[:60]}, which no network of this kind has."
        raise InputError(what, where=f"{where}, key {key}", hint=_TOGETHER)
    if key in ("class_embed_type", "num_class_embeds") and value is not None:
        what = "The network is conditional: it wants a class beside each point."
        raise InputError(what, where=f"{where}, key {key}", hint="Supported are unconditional models.")
    return tuple(value) if isinstance(value, list) else value


def _unet_shape(settings: Mapping[str, object], shape: tuple[int, ...] | None, where: Path) -> tuple[int, ...]:
    channels, made, size = (settings.get(key) for key in ("in_channels", "out_channels", "sample_size"))
    if type(channels) is not int or channels != made:
        what = f"The network takes {channels} channels and gives {made}."
        hint = "Supported are models that predict as many channels as a point has (no learned variances)."
        raise InputError(what, where=f"{where}, keys in_channels, out_channels", hint=hint)
    sides = size if isinstance(size, tuple) else (size, size)
    known = len(sides) == 2 and all(type(side) is int and side > 0 for side in sides)
    wanted = known_shape(shape, where) if shape is not None or not known else (channels, *sides)
    if len(wanted) != 3 or wanted[0] != channels or (known and wanted[1:] != sides):
        shown = ["x".join(map(str, one)) for one in (wanted, (channels, *(sides if known else ("?", "?"))))]
        what = f"The points are {shown[0]}; the model was made for {shown[1]} (channels, height, width)."
        hint = "Give points as the model was trained on them."
        raise InputError(what, where=f"{where}, keys in_channels, sample_size", hint=hint)
    return wanted


def _today(name: str) -> str:
    """Return the present name of a weight: older releases of diffusers had other names for those of attention."""
    old = _RENAMED_PART.fullmatch(name)
    return f"{old[1]}.{_RENAMED[old[2]]}.{old[3]}" if old else name


def _weights_file(folder: Path, root: Path) -> Path:
    for suffix in (".safetensors", ".bin"):
        path = folder / f"{_WEIGHTS}{suffix}"
        if path.is_file():
            _check_inside(path, root)
            if suffix == ".safetensors":
                check_safetensors(path)
            return path
    near = sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES)
    hint = f"There are: {', '.join(near[:10])}." if near else "Fetch the weights too."
    raise InputError(f"The folder has no {_WEIGHTS}.safetensors.", where=str(folder), hint=hint)


def _check_inside(path: Path, root: Path) -> None:
    """Refuse a link out of the model's folder; the hub's cache links from snapshots/<revision> to blobs."""
    target = Path(os.path.realpath(path))
    cached = any(parent.name == "snapshots" and target.parent == parent.parent / "blobs" for parent in path.parents)
    if not target.is_relative_to(root.resolve()) and not cached:
        what = f"{path.name} is a link that leaves the model's folder."
        raise InputError(what, where=str(path), hint="Copy the file itself into the folder.")


def _object(path: Path, root: Path) -> dict[str, Any]:
    if not path.is_file():
        what = f"The folder has no {path.name}, so it is not known which model this is."
        hint = "Give a folder made by save_pretrained() of diffusers, or a file of weights."
        raise InputError(what, where=str(path.parent), hint=hint)
    _check_inside(path, root)
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict):
        raise InputError(
            f"This is a {type(content).__name__}, not an object.",
            where=str(path),
            hint="Fetch it again, or save the model anew with save_pretrained.",
        )
    return content
