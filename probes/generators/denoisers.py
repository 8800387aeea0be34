"""Load a diffusion model from a folder or a file, without running code unless that is allowed.

A folder of diffusers is read here and not by its own loader: configuration, schedule and weights are checked before
memory is taken, nothing is fetched, no code of the folder is run. Bare weights need the name of their network, or a
function that builds it, and the schedule that they were trained under.
"""

from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.json_values import parse_json
from probes.files.names import nearest_name, suggest
from probes.files.text import read_text
from probes.generators.diffusers_folders import read_folder
from probes.generators.diffusion import PREDICTIONS, SCHEDULES, Denoiser, Prediction, check_answer, schedule_from
from probes.generators.generative_networks import NETWORKS, check_plain, guess_network, network_from
from probes.models.network_weights import LoadedNetwork, Schedule, hash_tensors, known_shape, load_into, read_tensors
from probes.models.programs import call_factory

FACTORY = "factory "
"""How the family of a denoiser begins whose network is made by code of the user."""


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
        The network of bare weights, one of `NETWORKS`; not needed where their names show it.
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
        The shape of one point, where the model does not state it; where it does, it must be the same.

    Raises
    ------
    InputError
        Where the model is missing, damaged, would run code, does not fit, is conditional, or has no usable schedule.
    """
    _check_options(path, arch, factory, allow_code, prediction)
    if factory is not None:
        found = _from_factory(path, factory, shape)
    elif path.is_dir():
        found = read_folder(path, arch, schedule, shape)
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
        hint = f"Did you mean {path.parent / near}?" if near else "Check the path; hub models have to be fetched first."
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


def _named_schedule(schedule: str | None, path: Path) -> Schedule:
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


def _from_weights(path: Path, arch: str | None, shape: tuple[int, ...] | None) -> LoadedNetwork:
    tensors, notes = read_tensors(path)
    check_plain(tensors, str(path))
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
    own = known_shape(getattr(net, "shape", shape), path)
    return LoadedNetwork(net=net, family=name, content=hash_tensors(net, str(path)), shape=own, notes=tuple(notes))


def _from_factory(path: Path, factory: str, shape: tuple[int, ...] | None) -> LoadedNetwork:
    net, complete, made_from = call_factory(factory, path)
    notes = [f"Code of {factory} was run; the hash covers its file, not what that imports."]
    if not complete:
        tensors, more = read_tensors(path)
        notes += more
        check_plain(tensors, str(path))
        load_into(
            net, tensors, factory, f"{path}, --factory {factory}", "Give a factory of the network that was saved."
        )
    net = net.to("cpu")
    content = sha256_json([hash_tensors(net, str(path)), *made_from])
    own = known_shape(shape, path)
    return LoadedNetwork(net=net, family=f"{FACTORY}{factory}", content=content, shape=own, notes=tuple(notes))
