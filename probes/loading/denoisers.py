"""Which diffusion model lies in a folder or a file, and can it be had without running code of strangers?

A folder of diffusers is read here and not by its own loader: configuration, schedule and weights are checked before
memory is taken, nothing is fetched, no code of the folder is run. Bare weights need the name of their network, or a
function that builds it, and the schedule that they were trained under.
"""

import hashlib
import importlib
import inspect
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.architectures import fit
from probes.diffusion import PREDICTIONS, SCHEDULES, Denoiser, Prediction, check_answer, schedule_from
from probes.errors import InputError
from probes.generative_networks import NETWORKS, check_plain, guess_network, network_from
from probes.loading.checkpoints import SUFFIXES, read_checkpoint
from probes.loading.guarded import transformers
from probes.loading.hashing import sha256_json
from probes.loading.programs import call_factory, first_line
from probes.loading.sniffing import impostor
from probes.loading.tables import nearest_name, parse_json, read_text, suggest
from probes.loading.weights import check_safetensors, read_pickle

_NETWORK, _WEIGHTS = "UNet2DModel", "diffusion_pytorch_model"
_SCHEDULERS = re.compile(
    r"(DDPM|DDIM|DDIMInverse|DDPMParallel|DDIMParallel|PNDM|DPMSolverMultistep|DPMSolverSinglestep|UniPCMultistep|"
    r"DEISMultistep|LMSDiscrete|EulerDiscrete|EulerAncestralDiscrete|HeunDiscrete)Scheduler"
)
"""Those whose networks are trained on the steps of a variance-preserving schedule."""
_RENAMED = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
_RENAMED_PART = re.compile(r"(.*attentions\.\d+)\.(query|key|value|proj_attn)\.(weight|bias)")
_MOST_WIDE, _MOST_LAYERS, _MOST_PARTS = 2**16, 64, 64
_AVERAGED = ("ema_model", "ema", "model_ema", "ema_state_dict")
_WRAPPERS = (*_AVERAGED, "net_model", "module_state_dict", "state_dict", "model_state_dict", "model", "net")
_PREFIXES = ("module.", "_module.", "_orig_mod.")
_UNUSED = ("_metadata", "n_averaged")
_TOGETHER = "config.json and the weights must belong together; save the folder again with save_pretrained()."

_Schedule = tuple[NDArray[np.float64], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A network, and a hash of all that it computes with; the schedule where it comes with one."""

    net: nn.Module
    family: str
    content: str
    shape: tuple[int, ...]
    notes: tuple[str, ...] = ()
    schedule: _Schedule | None = None
    prediction: Prediction = "epsilon"


def load_denoiser(
    path: Path,
    *,
    arch: str | None = None,
    factory: str | None = None,
    allow_code: bool = False,
    schedule: str | None = None,
    prediction: str | None = None,
    shape: tuple[int, ...] | None = None,
) -> Denoiser:
    """Load the denoiser of a folder of diffusers, or of weights with a name or a factory, on the CPU.

    Parameters
    ----------
    path
        A pipeline's folder (model_index.json), a UNet2DModel's folder, or weights (.safetensors, or of torch.save).
    arch
        The network of bare weights, one of `NETWORKS`; not needed where their names tell it.
    factory
        "module:callable", imported from the current folder too. Without arguments it returns the network that the
        weights are then loaded into; with one, the path, it returns the finished network.
    allow_code
        Factories may run. Pickles that need code stay refused.
    schedule
        One of `SCHEDULES`, or a JSON file as `schedule_from` takes it; a pipeline has its own.
    prediction
        One of `PREDICTIONS`; by default what the folder says, or else "epsilon".
    shape
        The shape of one point, where the model does not tell; where it does, it must be the same.

    Raises
    ------
    InputError
        Where the model is missing, damaged, would run code, does not fit, is conditional, or has no usable schedule.
    """
    _check_options(path, arch, factory, allow_code, prediction)
    if factory is not None:
        found = _from_factory(path, factory, shape)
    elif path.is_dir():
        found = _from_folder(path, arch, schedule, shape)
    else:
        found = _from_weights(path, arch, shape)
    alphas_bar, notes = found.schedule or _named_schedule(schedule, path)
    predicted = found.prediction if prediction is None else cast("Prediction", prediction)
    denoiser = Denoiser(
        module=_Plain(found.net.float()).eval().requires_grad_(False),
        alphas_bar=alphas_bar,
        prediction=predicted,
        shape=found.shape,
        path=str(path),
        family=found.family,
        sha256=sha256_json([found.family, found.content, alphas_bar.tolist(), predicted]),
        parameters=sum(parameter.numel() for parameter in found.net.parameters()),
        notes=(*found.notes, *notes),
    )
    check_answer(denoiser)
    return denoiser


def _check_options(path: Path, arch: str | None, factory: str | None, allow_code: bool, prediction: str | None) -> None:
    if not path.exists():
        near = nearest_name(path)
        hint = f"Did you mean {path.parent / near}?" if near else "Models of a hub have to be fetched first."
        raise InputError("There is no such file or folder.", where=str(path), hint=hint)
    if arch is not None and factory is not None:
        raise InputError("Both an architecture and a factory are given.", where="--arch", hint="Give one of the two.")
    if factory is not None and not allow_code:
        what = f"The factory {factory} is code, and code is not run unless that is allowed."
        raise InputError(what, where="--factory", hint="Add --allow-code where you trust it.")
    if prediction is not None and prediction not in PREDICTIONS:
        what = f"{prediction!r} is not a known prediction."
        raise InputError(what, where="--prediction", hint=suggest(prediction, PREDICTIONS))


class _Plain(nn.Module):
    """A network of diffusers as a plain function: points and steps in, prediction out."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, t: Tensor) -> object:
        """Return the prediction."""
        answer: Any = self.net(x, t)
        return answer if isinstance(answer, Tensor) else getattr(answer, "sample", answer)


def _named_schedule(schedule: str | None, path: Path) -> _Schedule:
    known = f"Give --schedule {'|'.join(SCHEDULES)}, or a JSON file of betas."
    if schedule is None:
        what = "The model does not say under which noise schedule it was trained."
        raise InputError(what, where=str(path), hint=known)
    if schedule in SCHEDULES:
        return SCHEDULES[schedule](), ()
    file = Path(schedule).expanduser()
    if not file.is_file():
        what = f"{schedule!r} is neither the name of a schedule nor a file."
        raise InputError(what, where="--schedule", hint=known)
    return schedule_from(parse_json(read_text(file), schedule), schedule)


def _hash_tensors(net: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode("utf-8", "surrogatepass"))
        digest.update(value.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _from_weights(path: Path, arch: str | None, shape: tuple[int, ...] | None) -> _Found:
    tensors, notes = _read_tensors(path)
    name = arch or guess_network(tensors)
    if name is None:
        hint = f"Give --arch {'|'.join(NETWORKS)}, or build the network by --factory module:callable --allow-code."
        raise InputError("Bare weights do not say which network they are of.", where=str(path), hint=hint)
    if arch is None:
        notes.append(f"The names of the weights are those of {name}.")
    try:
        net = network_from(name, tensors, shape)
    except InputError as error:
        raise InputError(error.message, where=f"{path}, {error.where}", hint=error.hint) from None
    own = _known(getattr(net, "shape", shape), path)
    return _Found(net=net, family=name, content=_hash_tensors(net), shape=own, notes=tuple(notes))


def _from_factory(path: Path, factory: str, shape: tuple[int, ...] | None) -> _Found:
    net, complete, made_from = call_factory(factory, path)
    notes = [f"Code of {factory} was run; the hash covers its file, not what that imports."]
    if not complete:
        tensors, more = _read_tensors(path)
        notes += more
        check_plain(tensors, str(path))
        _load(net, tensors, factory, f"{path}, --factory {factory}", "Give a factory of the network that was saved.")
    net = net.to("cpu")
    content = sha256_json([_hash_tensors(net), *made_from])
    own = _known(shape, path)
    return _Found(net=net, family=f"factory {factory}", content=content, shape=own, notes=tuple(notes))


def _known(shape: tuple[int, ...] | None, path: Path) -> tuple[int, ...]:
    if shape is None:
        raise InputError("The model does not tell the shape of its points.", where=str(path), hint="Give points too.")
    return tuple(shape)


def _load(net: nn.Module, tensors: Mapping[str, Tensor], name: str, where: str, hint: str) -> None:
    """Put weights in place of a network's own, float32, without a copy of them."""
    try:
        fitted = fit(net, tensors, name)
    except InputError as error:
        raise InputError(error.message, where=where, hint=hint) from None
    weights = {key: value.float() if value.is_floating_point() else value for key, value in fitted.items()}
    net.load_state_dict(weights, assign=True)


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Return the tensors of a checkpoint, averaged weights before others, and what was decided about it."""
    if path.suffix.lower() == ".safetensors" or path.suffix.lower() not in SUFFIXES or not path.is_file():
        return read_checkpoint(path).tensors, []
    with path.open("rb") as file:
        disguise = impostor(file.read(512))
    if disguise:
        raise InputError(f"The file is {disguise.what}, not weights.", where=str(path), hint=disguise.hint)
    content, notes = read_pickle(path, device="cpu"), list[str]()
    held = [name for name in _WRAPPERS if isinstance(content, Mapping) and isinstance(content.get(name), Mapping)]
    if isinstance(content, Mapping) and held:
        others = [ascii(str(name))[1:-1][:40] for name in content if name != held[0]]
        kind = "averaged weights" if held[0] in _AVERAGED else "weights"
        notes.append(f"The {kind} under {held[0]} are used, not: {', '.join(others[:8]) or 'anything else'}.")
        content = content[held[0]]
    named = {str(name): value for name, value in content.items()} if isinstance(content, Mapping) else {}
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor) and name not in _UNUSED}
    if not tensors:
        what = f"The checkpoint holds no tensors by name, but a {type(content).__name__}."
        raise InputError(what, where=str(path), hint="Save model.state_dict().")
    return _bare(tensors), notes


def _bare(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = next((head for head in _PREFIXES if all(name.startswith(head) for name in tensors)), None)
    return _bare({name.removeprefix(prefix): value for name, value in tensors.items()}) if prefix else tensors


def _from_folder(path: Path, arch: str | None, schedule: str | None, shape: tuple[int, ...] | None) -> _Found:
    if arch is not None:
        raise InputError("A folder names its own network.", where=f"--arch {arch}", hint="Leave the option out.")
    if not (path / "model_index.json").is_file():
        return _from_unet(path, path, shape)
    if schedule is not None:
        what = "The folder has a schedule of its own."
        raise InputError(what, where=f"--schedule {schedule}", hint="Leave the option out.")
    _check_index(_object(path / "model_index.json", path), f"{path / 'model_index.json'}")
    where = path / "scheduler" / "scheduler_config.json"
    config = _object(where, path)
    known = schedule_from(config, str(where))
    value = config.get("prediction_type", "epsilon" if config.get("predict_epsilon", True) else "sample")
    if value not in PREDICTIONS:
        what = f"The network predicts {ascii(value)[:40]}."
        raise InputError(what, where=f"{where}, key prediction_type", hint=f"Supported: {', '.join(PREDICTIONS)}.")
    return replace(_from_unet(path / "unet", path, shape), schedule=known, prediction=cast("Prediction", value))


def _check_index(index: Mapping[str, Any], where: str) -> None:
    """Refuse pipelines whose network sees something else than points and steps."""
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


def _from_unet(folder: Path, root: Path, shape: tuple[int, ...] | None) -> _Found:
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
    asked, held = sum(weight.numel() for weight in net.parameters()), weights.stat().st_size
    if asked > held:
        what = f"config.json describes {asked} parameters; the weights have {held} bytes in all."
        raise InputError(what, where=str(where), hint=_TOGETHER)
    tensors, _ = _read_tensors(weights)
    check_plain(tensors, str(weights))
    _load(net, {_today(name): value for name, value in tensors.items()}, _NETWORK, str(folder), _TOGETHER)
    content = sha256_json([_hash_tensors(net), sorted((key, str(value)) for key, value in settings.items())])
    notes = (f"Not used of config.json: {unused}.",) if unused else ()
    return _Found(net=net, family=_NETWORK, content=content, shape=points, notes=notes)


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
    """Return a setting of the network, after checking that no size in it is beyond belief."""
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
    told = len(sides) == 2 and all(type(side) is int and side > 0 for side in sides)
    asked = _known(shape, where) if shape is not None or not told else (channels, *sides)
    if len(asked) != 3 or asked[0] != channels or (told and asked[1:] != sides):
        shown = ["x".join(map(str, one)) for one in (asked, (channels, *(sides if told else ("?", "?"))))]
        what = f"The points are {shown[0]}; the model was made for {shown[1]} (channels, height, width)."
        hint = "Give points as the model was trained on them."
        raise InputError(what, where=f"{where}, keys in_channels, sample_size", hint=hint)
    return asked


def _today(name: str) -> str:
    """Return the present name of a weight; older releases of diffusers named those of attention otherwise."""
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
    target = path.resolve()
    cached = any(place.name == "snapshots" and target.parent == place.parent / "blobs" for place in path.parents)
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
        raise InputError(f"This is a {type(content).__name__}, not an object.", where=str(path))
    return content
