"""Load a classifier from a checkpoint, without running its code unless that is allowed.

Everything becomes one thing: a frozen module that takes float32 pixels in [0, 1] and gives logits, with the
normalisation of its training as first layer, so that noise and distances are in pixels. Weights are read by
readers that run nothing; a program (TorchScript, .pt2, a factory of the user) is run only where that was allowed.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from probes.classifiers.classifier_check import Check, Classifier, check_classifier
from probes.classifiers.classifier_networks import Normalise
from probes.classifiers.image_models import load_image_model
from probes.core.errors import InputError, escaped
from probes.core.hashing import sha256_file, sha256_json
from probes.files.names import nearest_name, suggest
from probes.files.pickles import is_torchscript
from probes.files.weights import is_plain, without_prefixes
from probes.models.architectures import ARCHITECTURES, build, guess_architecture, input_shape, normalisation
from probes.models.checkpoints import Checkpoint, read_checkpoint
from probes.models.foreign_models import refuse_foreign
from probes.models.package_networks import EXTRA, build_packaged, check_packaged, packaged
from probes.models.programs import call_factory, load_program, load_weights

__all__ = ["Check", "Classifier", "check_classifier", "load_classifier"]

_PREFIXES = ("1.", "model.", "net.", "network.")
_PLAIN = re.compile(r"\w{1,60}", re.ASCII)
_MEANS, _STDS = ("0.mean", "0.means", "0.mu"), ("0.std", "0.stds", "0.sds", "0.sigma")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A network before its normalisation is put in front; `content` is a hash of all that it computes with.

    `origin` says where mean and standard deviation are from.
    """

    net: nn.Module
    family: str
    content: str
    shape: tuple[int, int, int] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    origin: str = ""
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def load_classifier(
    reference: str,
    *,
    arch: str | None = None,
    factory: str | None = None,
    allow_code: bool = False,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
) -> Classifier:
    """Load a classifier from a Hugging Face folder, from weights with a name or a factory, or from a program.

    Parameters
    ----------
    reference
        A folder with config.json, or a file: weights (.safetensors, or of torch.save), TorchScript, .pt2.
    arch
        The network of bare weights, one of `ARCHITECTURES`, or "torchvision:NAME", "timm:NAME"; not needed where the
        file names it.
    factory
        "module:callable", imported from the current folder too. Without arguments it returns the network that the
        weights are then loaded into; with one, the path, it returns the finished model.
    allow_code
        Programs and factories may run. Pickles that need code stay refused.
    mean, std
        Per channel, of pixels in [0, 1]; they replace what the checkpoint or its architecture says.

    Raises
    ------
    InputError
        Where the checkpoint is missing, damaged, would run code, does not fit, or holds numbers that are not finite.
    """
    _check_options(arch, factory, allow_code, mean, std)
    path = Path(reference).expanduser()
    if not path.exists():
        near = nearest_name(path)
        hint = f"Did you mean {path.parent / near}?" if near else "Check the path; hub models have to be fetched first."
        raise InputError("There is no such file or folder.", where=reference, hint=hint)
    if factory is None:
        refuse_foreign(path)
    if factory is not None:
        found = _from_factory(path, factory)
    elif path.is_dir():
        found = _from_folder(path, arch, standardised=bool(mean))
    elif not path.is_file():
        raise InputError("This is neither a file nor a folder.", where=reference, hint="Name a checkpoint.")
    elif path.suffix.lower() == ".pt2" or is_torchscript(path):
        found = _from_program(path, arch, allow_code)
    else:
        found = _from_weights(path, arch)
    return _finish(reference, found, mean, std)


def _check_options(
    arch: str | None, factory: str | None, allow_code: bool, mean: tuple[float, ...], std: tuple[float, ...]
) -> None:
    if arch is not None and factory is not None:
        raise InputError("Both an architecture and a factory are given.", where="--arch", hint="Give one of the two.")
    if arch is not None:
        _check_arch(arch)
    if factory is not None and not allow_code:
        raise InputError(
            f"The factory {factory} is code, and code is not run unless that is allowed.",
            where="--factory",
            hint="Add --allow-code where you trust it.",
        )
    if len(mean) != len(std):
        raise InputError(
            f"--mean has {len(mean)} values and --std has {len(std)}.",
            where="--mean, --std",
            hint="Give both, one value a channel.",
        )
    if not all(math.isfinite(value) for value in (*mean, *std)) or any(value <= 0 for value in std):
        raise InputError(
            "A mean is not finite, or a standard deviation is not above 0.",
            where="--mean, --std",
            hint="Give those with which the training standardised pixels in [0, 1].",
        )
    if any(value > 1 for value in mean) and all(value > 1 for value in std):
        raise InputError(
            f"The mean {mean} and the standard deviation {std} are not those of pixels in [0, 1].",
            where="--mean, --std",
            hint="Divide both by 255.",
        )


def _check_arch(arch: str) -> None:
    if packaged(arch):
        check_packaged(arch)
    elif arch not in ARCHITECTURES:
        hint = suggest(arch, ARCHITECTURES)
        if _PLAIN.fullmatch(arch):
            hint += f" Others by package, such as torchvision:{arch} or timm:{arch} ({EXTRA})."
        raise InputError(f"{arch!r} is not a known architecture.", where="--arch", hint=hint)


def _finish(reference: str, found: _Loaded, mean: tuple[float, ...], std: tuple[float, ...]) -> Classifier:
    net, notes = found.net, list(found.notes)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    _check_numbers(net, reference)
    origin = "those of the options" if mean else found.origin
    mean, std = (mean, std) if mean else (found.mean, found.std)
    if mean:
        notes.append(f"Mean {_listed(mean)} and standard deviation {_listed(std)} of pixels in [0, 1] are {origin}.")
    if found.shape and mean and len(mean) != found.shape[0]:
        raise InputError(
            f"The mean has {len(mean)} values; the network takes images of {found.shape[0]} channels.",
            where="--mean, --std",
            hint="Give one value a channel.",
        )
    module = nn.Sequential(Normalise(mean, std), net) if mean else net
    return Classifier(
        module=module.eval(),
        reference=reference,
        family=found.family,
        sha256=sha256_json([found.family, found.content, mean, std]),
        parameters=sum(parameter.numel() for parameter in net.parameters()),
        shape=found.shape,
        mean=mean,
        std=std,
        class_names=found.class_names,
        notes=tuple(notes),
    )


def _check_numbers(net: nn.Module, where: str) -> None:
    for name, value in net.state_dict().items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        if not bool(torch.isfinite(value).all()):
            raise InputError(
                f"The weights hold numbers that are not finite, first in {name}.",
                where=where,
                hint="The training diverged or the file is damaged: take an earlier checkpoint.",
            )
        if name.endswith("running_var") and bool((value < 0).any()):
            raise InputError(f"{name} holds a negative variance.", where=where, hint="Fetch or save the file again.")


def _hash_tensors(net: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        # These count training steps, on which nothing depends in eval mode.
        if isinstance(value, Tensor) and not name.endswith("num_batches_tracked"):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode("utf-8", "surrogatepass"))
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _from_weights(path: Path, arch: str | None) -> _Loaded:
    checkpoint = read_checkpoint(path)
    _check_tensors(checkpoint, path)
    tensors, inside = _split(without_prefixes(checkpoint.tensors), path)
    notes = _notes_on(checkpoint)
    named = checkpoint.arch if checkpoint.arch in ARCHITECTURES else ""
    if arch and named and arch.rpartition(":")[2] != named:
        raise InputError(
            f"The file says that its architecture is {named}, the option says {arch}.",
            where=f"{path}, key arch; --arch {arch}",
            hint=f"Leave --arch out, or give --arch {named}.",
        )
    if not arch and not named:
        likely = guess_architecture(tensors)
        unknown = f" It names {escaped(checkpoint.arch)}, which is not known here." if checkpoint.arch else ""
        hint = f"The names of the weights are those of {likely}: give --arch {likely}. " if likely else ""
        raise InputError(
            f"Bare weights do not say which network they are of.{unknown}",
            where=str(path),
            hint=f"{hint}Known: {', '.join(ARCHITECTURES)}, torchvision:NAME and timm:NAME; any other by --factory "
            "module:callable --allow-code.",
        )
    if not arch:
        notes.append(f"The architecture {named} was read from the checkpoint.")
    arch = arch or named
    if packaged(arch):
        return _from_package(path, arch, tensors, inside, notes)
    try:
        net = build(arch, tensors)
        shape, published = input_shape(arch, tensors), normalisation(arch, tensors)
    except InputError as error:
        raise InputError(error.message, where=f"{path}, {error.where}", hint=error.hint) from None
    mean, std = inside or published or ((), ())
    origin = "those in the checkpoint" if inside else f"those published with this layout of {arch}"
    return _Loaded(
        net=net,
        family=arch,
        content=_hash_tensors(net),
        shape=shape,
        mean=mean,
        std=std,
        origin=origin,
        notes=tuple(notes),
    )


def _from_package(
    path: Path,
    arch: str,
    tensors: dict[str, Tensor],
    inside: tuple[tuple[float, ...], tuple[float, ...]] | None,
    notes: list[str],
) -> _Loaded:
    """Return a network of torchvision or timm with these weights."""
    try:
        found = build_packaged(arch, tensors)
    except InputError as error:
        raise InputError(error.message, where=f"{path}, {error.where}", hint=error.hint) from None
    mean, std = inside or (found.mean, found.std)
    if not mean:
        what = (
            f"{arch} tells no mean and standard deviation for {found.shape[0]} channels: pixels are taken as they are."
        )
        notes.append(f"{what} Give --mean and --std where training standardised them.")
    return _Loaded(
        net=found.net,
        family=arch,
        content=_hash_tensors(found.net),
        shape=found.shape,
        mean=mean,
        std=std,
        origin="those in the checkpoint" if inside else found.origin,
        notes=tuple(notes),
    )


def _notes_on(checkpoint: Checkpoint) -> list[str]:
    notes = []
    others = [escaped(name) for name in sorted(checkpoint.others) if name != "arch"]
    if others:
        notes.append(f"Not used of the checkpoint: {', '.join(others[:8])}.")
    kinds = {value.dtype for value in checkpoint.tensors.values() if value.is_floating_point()} - {torch.float32}
    if kinds:
        notes.append(f"Weights in {', '.join(sorted(str(kind)[6:] for kind in kinds))} were turned into float32.")
    return notes


def _check_tensors(checkpoint: Checkpoint, path: Path) -> None:
    """Refuse tensors that are not plain arrays of real numbers."""
    for name, tensor in checkpoint.tensors.items():
        if not is_plain(tensor) or tensor.is_complex():
            raise InputError(
                f"The tensor {escaped(name)} is no plain array of real numbers.",
                where=str(path),
                hint="Save the weights of the plain float32 model.",
            )


def _split(
    tensors: dict[str, Tensor], path: Path
) -> tuple[dict[str, Tensor], tuple[tuple[float, ...], tuple[float, ...]] | None]:
    """Return tensors without prefixes, and mean and std of a normalisation before the network, if there is one."""
    inside = None
    means, stds = ([name for name in tensors if name in known] for known in (_MEANS, _STDS))
    # As Cohen et al. 2019 (arXiv 1902.02918) save it: Sequential(normalisation, network).
    if len(means) == len(stds) == 1 and all(name in (*means, *stds) or name.startswith("1.") for name in tensors):
        both = [tuple(tensors[name].flatten().tolist()[:16]) for name in (means[0], stds[0])]
        inside = (both[0], both[1])
        tensors = {name: value for name, value in tensors.items() if name.startswith("1.")}
        if len(both[0]) != len(both[1]) or not all(map(math.isfinite, (*both[0], *both[1]))) or min(both[1]) <= 0:
            what = f"{means[0]} and {stds[0]} are no mean and standard deviation per channel."
            raise InputError(
                what, where=str(path), hint="Give --mean and --std, with the weights of the network alone."
            )
    return without_prefixes(tensors, more=_PREFIXES), inside


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _from_program(path: Path, arch: str | None, allow_code: bool) -> _Loaded:
    exported = path.suffix.lower() == ".pt2"
    family = "exported program" if exported else "TorchScript"
    if not allow_code:
        raise InputError(
            f"The file was refused: it is a program ({family}), and loading that would run code from the file.",
            where=str(path),
            hint="Where you trust it, add --allow-code; better, save the weights and give --arch.",
        )
    if arch:
        raise InputError(
            f"The file is a program ({family}), which is its own architecture.",
            where=f"--arch {arch}",
            hint="Leave it out.",
        )
    net = load_program(path, exported=exported)
    return _Loaded(net=net, family=family, content=sha256_file(path), notes=("Code from the checkpoint was run.",))


def _from_factory(path: Path, factory: str) -> _Loaded:
    net, complete, made_from = call_factory(factory, path)
    notes = [f"Code of {factory} was run; the hash covers its file, not what that imports."]
    if not complete:
        checkpoint = read_checkpoint(path)
        _check_tensors(checkpoint, path)
        tensors = checkpoint.tensors
        if not tensors.keys() & net.state_dict().keys():
            tensors = without_prefixes(tensors, more=_PREFIXES)
        load_weights(net, tensors, path, factory)
        notes += _notes_on(checkpoint)
    net = net.to("cpu", torch.float32)
    content = sha256_json([_hash_tensors(net), *made_from])
    return _Loaded(net=net, family=f"factory {factory}", content=content, notes=tuple(notes))


def _from_folder(path: Path, arch: str | None, *, standardised: bool) -> _Loaded:
    if arch:
        raise InputError("A folder names its own architecture.", where=f"--arch {arch}", hint="Leave it out.")
    model = load_image_model(path, standardised=standardised)
    return _Loaded(
        net=model.net,
        family=model.folder.family,
        content=model.folder.sha256,
        shape=model.shape,
        mean=model.mean,
        std=model.std,
        origin=f"those of {model.processor}",
        class_names=model.class_names,
        notes=model.notes,
    )
