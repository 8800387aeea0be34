"""Load a generator or a discriminator from a file, without running its code unless that is allowed.

Weights are read by readers that run nothing. A network of `NETWORKS` is built in the sizes that its weights have; any
other is built by a factory of the user, which is run only where that was allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from probes.core.errors import InputError, escaped, first_line
from probes.core.hashing import sha256_json
from probes.files.file_kinds import unexpected_kind
from probes.files.names import nearest_name
from probes.files.pickles import read_pickle
from probes.files.weights import MOST_WRAPPERS, entries, unwrap, without_prefixes
from probes.generators.accountants import ACCOUNT
from probes.generators.generative_networks import MlpGenerator, check_plain, guess_network, network_from
from probes.models.checkpoints import SUFFIXES, load_state_dict
from probes.models.foreign_models import refuse_foreign
from probes.models.network_weights import hash_tensors
from probes.models.programs import call_factory, load_weights

_GENERATORS = ("generator", "netG", "G_ema", "g_ema", "G", "generator_state_dict", "g")
_DISCRIMINATORS = ("discriminator", "netD", "D", "discriminator_state_dict", "d")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedGenerator:
    """A frozen generator on the CPU, in eval mode: `module` takes (b, latent) and gives points (b, *shape).

    `sha256` identifies the function, not the file; `notes` say what was decided for the user.
    """

    module: nn.Module
    latent: int
    shape: tuple[int, ...]
    path: str
    family: str
    sha256: str
    parameters: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedDiscriminator:
    """A frozen discriminator on the CPU, in eval mode: `module` takes points (b, *shape) and gives a number each.

    `sha256` identifies the function, not the file; `notes` say what was decided for the user.
    """

    module: nn.Module
    shape: tuple[int, ...]
    path: str
    family: str
    sha256: str
    parameters: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Loaded:
    net: nn.Module
    family: str
    content: str
    notes: tuple[str, ...]


class _Spatial(nn.Module):
    """A generator of convolutions, which takes its latent vector as an image (b, latent, 1, 1)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, z: Tensor) -> object:
        return self.net(z[..., None, None])


def load_generator(
    path: Path,
    *,
    arch: str | None = None,
    factory: str | None = None,
    allow_code: bool = False,
    shape: tuple[int, ...] | None = None,
    latent: int | None = None,
) -> LoadedGenerator:
    """Load the generator of a GAN.

    Parameters
    ----------
    path
        Weights in .safetensors or of torch.save: bare, wrapped with a discriminator, or a checkpoint of Opacus.
    arch
        "mlp-generator", for weights that were trained here.
    factory
        "module:callable". Without arguments it returns the network that the weights are then loaded into; with one,
        the path, it returns the finished network.
    allow_code
        The factory may run. Pickles that need code stay refused.
    shape
        The shape of one point; None takes the one that the network gives.
    latent
        Length of the latent vector; needed with a factory whose network has no `latent`.

    Raises
    ------
    InputError
        Where the file is missing, damaged, would run code, or does not fit.
    """
    found = _find(path, "mlp-generator", arch, factory, allow_code, shape)
    latent = _latent(found.net, latent, path)
    net, made, notes = _probe(found.net, latent, path)
    if shape is not None and shape != made:
        raise InputError(
            f"The generator gives points of shape {made}, the points to score have {shape}.",
            where=str(path),
            hint="Give the points that the network was trained on.",
        )
    return LoadedGenerator(
        module=net,
        latent=latent,
        shape=made,
        path=str(path),
        family=found.family,
        sha256=sha256_json([found.family, found.content, latent, list(made)]),
        parameters=sum(weight.numel() for weight in net.parameters()),
        notes=(*found.notes, *notes),
    )


def load_discriminator(
    path: Path,
    *,
    shape: tuple[int, ...],
    arch: str | None = None,
    factory: str | None = None,
    allow_code: bool = False,
) -> LoadedDiscriminator:
    """Load the discriminator of a GAN for points of a shape; the options are those of `load_generator`.

    Raises
    ------
    InputError
        Where the file is missing, damaged, would run code, or does not fit.
    """
    found = _find(path, "mlp-discriminator", arch, factory, allow_code, shape)
    logits = _apply(found.net, torch.zeros(2, *shape), path)
    if logits.numel() != 2:
        raise InputError(
            f"The discriminator gives {tuple(logits.shape)} for two points of shape {shape}, not one number each.",
            where=str(path),
            hint="Is this the file of another network?",
        )
    return LoadedDiscriminator(
        module=found.net,
        shape=shape,
        path=str(path),
        family=found.family,
        sha256=sha256_json([found.family, found.content]),
        parameters=sum(weight.numel() for weight in found.net.parameters()),
        notes=found.notes,
    )


def _find(
    path: Path, role: str, arch: str | None, factory: str | None, allow_code: bool, shape: tuple[int, ...] | None
) -> _Loaded:
    if arch is not None and factory is not None:
        raise InputError("Both an architecture and a factory are given.", where="--arch", hint="Give one of the two.")
    if factory is not None and not allow_code:
        raise InputError(
            f"The factory {factory} is code, and code is not run unless that is allowed.",
            where="--factory",
            hint="Add --allow-code where you trust it.",
        )
    _check_file(path, any_suffix=factory is not None)
    found = _from_weights(path, role, arch, shape) if factory is None else _from_factory(path, role, factory)
    for weight in found.net.parameters():
        weight.requires_grad_(False)
    found.net.eval()
    return found


def _check_file(path: Path, *, any_suffix: bool) -> None:
    if not any_suffix:
        refuse_foreign(path)
    if not path.is_file():
        near = nearest_name(path)
        what = "This is a folder, not a file of weights." if path.is_dir() else "There is no such file."
        raise InputError(what, where=str(path), hint=f"Did you mean {path.parent / near}?" if near else "Name a file.")
    if path.suffix.lower() not in SUFFIXES and not any_suffix:
        raise InputError(
            f"The suffix {path.suffix!r} is not one of a checkpoint.",
            where=str(path),
            hint=f"Known: {', '.join(SUFFIXES)}.",
        )
    with path.open("rb") as file:
        disguise = unexpected_kind(file.read(512))
    if disguise:
        raise InputError(f"The file is {disguise.what}, not weights.", where=str(path), hint=disguise.hint)


def _from_weights(path: Path, role: str, arch: str | None, shape: tuple[int, ...] | None) -> _Loaded:
    tensors, notes = _read(path, role)
    check_plain(tensors, str(path))
    likely = guess_network(tensors)
    if arch is None:
        hint = f"The names of the weights are those of {likely}: give --arch {likely}. " if likely == role else ""
        raise InputError(
            "Bare weights do not say which network they are of.",
            where=str(path),
            hint=f"{hint}Known: {role}; any other by --factory module:callable --allow-code.",
        )
    if arch != role:
        raise InputError(f"{arch!r} is not {role}.", where=f"--arch {arch}", hint=f"Give --arch {role}.")
    try:
        net = network_from(arch, tensors, shape)
    except InputError as error:
        raise InputError(error.message, where=f"{path}, {error.where}", hint=error.hint) from None
    return _Loaded(net, arch, hash_tensors(net, str(path)), notes)


def _from_factory(path: Path, role: str, factory: str) -> _Loaded:
    net, complete, made_from = call_factory(factory, path)
    notes: tuple[str, ...] = (f"Code of {factory} was run; the hash covers its file, not what that imports.",)
    if not complete:
        tensors, more = _read(path, role)
        notes += more
        check_plain(tensors, f"{path}, --factory {factory}")
        load_weights(net, tensors, path, factory)
    net = net.to("cpu", torch.float32)
    return _Loaded(net, f"factory {factory}", sha256_json([hash_tensors(net, str(path)), *made_from]), notes)


def _read(path: Path, role: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the tensors of one network by name, and the keys of the file that are not used."""
    refuse_foreign(path)
    if path.suffix.lower() == ".safetensors":
        return load_state_dict(path), ()
    content = read_pickle(path)
    roles = _GENERATORS if role == "mlp-generator" else _DISCRIMINATORS
    # The key of the role first, then wrappers: a training checkpoint holds both networks.
    found = unwrap(content, first=roles, levels=MOST_WRAPPERS)
    beside = [escaped(name) for name in found.beside if name != ACCOUNT]
    named = entries(found.content) if isinstance(found.content, Mapping) else {}
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if not tensors or len(tensors) < len(named):
        keys = ", ".join(escaped(name) for name in list(named)[:10]) or "none"
        raise InputError(
            "The file holds no tensors by name.",
            where=str(path),
            hint=f"Save the state_dict() of the network. Names in the file: {keys}.",
        )
    notes = (f"Not used of the checkpoint: {', '.join(beside[:8])}.",) if beside else ()
    return without_prefixes(tensors), notes


def _latent(net: nn.Module, asked: int | None, path: Path) -> int:
    own = net.latent if isinstance(net, MlpGenerator) else getattr(net, "latent", None)
    known = own if isinstance(own, int) else None
    if asked is not None and known not in (None, asked):
        raise InputError(
            f"The generator takes latent vectors of {known} numbers, not of {asked}.",
            where=str(path),
            hint="Leave it out.",
        )
    length = asked if asked is not None else known
    if length is None or length < 1:
        raise InputError(
            "The length of the latent vector is not known, or not above 0.",
            where=str(path),
            hint="Give it as an option, or as the attribute `latent` of the network.",
        )
    return length


def _probe(net: nn.Module, latent: int, path: Path) -> tuple[nn.Module, tuple[int, ...], tuple[str, ...]]:
    """Return the generator as a function of vectors, the shape of its points, and notes on the shape of its latent."""
    vectors = torch.randn(2, latent, generator=torch.Generator().manual_seed(0))
    notes: tuple[str, ...] = ()
    try:
        made = _apply(net, vectors, path)
    except InputError as refused:
        try:
            net, notes = _Spatial(net), (f"The generator takes latent vectors as images, {latent}x1x1.",)
            made = _apply(net.eval(), vectors, path)
        except InputError:
            raise refused from None
    if made.ndim < 2 or len(made) != 2:
        raise InputError(
            f"The generator gives a tensor of shape {tuple(made.shape)} for two latent vectors.",
            where=str(path),
            hint="Is this the file of another network?",
        )
    return net, tuple(made.shape[1:]), notes


def _apply(net: nn.Module, batch: Tensor, path: Path) -> Tensor:
    hint = "Check the length of the latent vector and the shape of the points, or take an earlier checkpoint."
    try:
        # A network of the user may draw noise of its own.
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            made = net(batch)
    except Exception as error:
        raise InputError(f"The network cannot be applied: {first_line(error)}", where=str(path), hint=hint) from error
    if not isinstance(made, Tensor) or not made.is_floating_point() or not bool(torch.isfinite(made).all()):
        raise InputError("The network gives no finite floating-point numbers.", where=str(path), hint=hint)
    return made
