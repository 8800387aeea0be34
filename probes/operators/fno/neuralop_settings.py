"""Recognise the release of neuraloperator that saved a checkpoint, and refuse what cannot be reproduced."""

import pickle
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.operators.fno.factorised import LARGEST

Release = Literal["0.2", "0.3", "1.x", "2.0", "1.x or 2.0"]

CONVS = "fno_blocks.convs"
MOST = 2 * LARGEST
"""Numbers that the tensors of a checkpoint may have, and that they may make up."""

RETRAIN = "Train the model without it, or audit another one."
BELONG = "The metadata and the weights must be of the same model: give the two files that were saved together."

_SINGLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_FOREIGN = {
    r"fno_blocks\.\d+\..*": "a network of several groups of blocks (UNO)",
    r"fno_blocks\.convs\.weight\.(tensor|core|weights|factors\.\w+)": "one tensor for all layers (joint_factorization)",
    r"fno_blocks\.norm\.\d+\.(mlp|norm|fr|fi)\..*": "batch_norm, ada_in or a complex norm",
    r".*\.(fr|fi)\..*": "complex_data",
}


class _Sealed:
    path = ""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        # A file only names these; one that builds or calls them is no checkpoint.
        raise pickle.UnpicklingError(f"GLOBAL {cls.path}")


class _SpectralConvName(_Sealed):
    path = "neuralop.layers.spectral_convolution.SpectralConv"


class _GeluName(_Sealed):
    path = "torch._C._nn.gelu"


STANDINS = tuple((name, name.path) for name in (_SpectralConvName, _GeluName))
"""What a checkpoint's settings may name, for `read_pickle`: objects that can be named and compared, but not used."""

_ALLOWED: dict[str, tuple[object, ...]] = {
    "preactivation": (False, None),
    "complex_data": (False, None),
    "joint_factorization": (False, None),
    "non_linearity": (nn.functional.gelu, _GeluName),
    "conv_module": (_SpectralConvName,),
    "SpectralConv": (_SpectralConvName,),
    "norm": (None, "instance_norm", "group_norm"),
    "positional_embedding": ("grid", None),
    "fno_block_precision": ("full",),
    "incremental_n_modes": (None,),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the library saved beside the tensors; None where there are none."""

    values: Mapping[str, object] | None
    where: str

    def get(self, key: str, default: object = None) -> object:
        """Return a setting, or the default where it is not recorded."""
        return default if self.values is None else self.values.get(key, default)

    def whole(self, key: str) -> int | None:
        """Return a setting that is a whole number, else None."""
        value = self.get(key)
        return value if type(value) is int else None

    def modes(self, key: str) -> list[int] | None:
        """Return a setting that is a number for each axis; None where there is none.

        Raises
        ------
        InputError
            Where it is anything else.
        """
        value = self.get(key)
        if key == "n_modes" and value is None:
            # The classes for one number of axes name each by itself.
            value = [self.get(f"n_modes_{axis}") for axis in ("height", "width", "depth")]
            value = [count for count in value if count is not None] or None
        if value is None:
            return None
        counts = value if isinstance(value, list | tuple) else [value]
        if not counts or not all(type(count) is int and count > 0 for count in counts):
            raise self.wrong(key, "not a whole number for each axis.", BELONG)
        return list(counts)

    def wrong(self, key: str, why: str, hint: str = RETRAIN) -> InputError:
        """Return the refusal of a setting."""
        value = reprlib.repr(self.get(key))
        return InputError(f"{key} is {value}: {why}", where=f"{self.where}, metadata, key {key}", hint=hint)


def recorded_settings(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, object] | None, where: str
) -> tuple[Release, Settings]:
    """Return the release, and the settings with positional arguments put under their names.

    Raises
    ------
    InputError
        Where the model is no FNO, or has arguments whose names are not known.
    """
    release = _release(tensors, metadata or {})
    if metadata is None:
        return release, Settings(None, where)
    settings = Settings(metadata, where)
    name = settings.get("_name", "FNO")
    if not isinstance(name, str) or not re.fullmatch(r"T?FNO([123]d)?", name):
        raise settings.wrong("_name", "only FNO and TFNO are read.", "Audit an FNO.")
    axes = ("height", "width", "depth")[: int(name[-2])] if name.endswith("d") else ()
    names = [f"n_modes_{axis}" for axis in axes] or ["n_modes"]
    channels = ["in_channels", "out_channels"]
    names += ["hidden_channels", *channels] if axes or release == "0.3" else [*channels, "hidden_channels"]
    positional = settings.get("args", ())
    if not isinstance(positional, list | tuple) or len(positional) > len(names):
        # Of further ones the metadata hold the default, beside the value.
        raise settings.wrong("args", "it has more arguments without names than are read.", "Pass them by name.")
    return release, Settings({**metadata, **dict(zip(names, positional, strict=False))}, where)


def _release(tensors: Mapping[str, Tensor], recorded: Mapping[str, object]) -> Release:
    if "lifting.fc.weight" in tensors:
        return "0.2"
    if any(name.startswith(f"{CONVS}.weight.") for name in tensors):
        return "0.3"
    if "domain_padding_mode" in recorded:
        # Every class of the releases before 2.0 records this setting.
        return "1.x"
    late = "use_channel_mlp" in recorded or "_name" in recorded
    return "2.0" if late or not any(name.startswith("fno_blocks.channel_mlp.") for name in tensors) else "1.x or 2.0"


def check_settings(settings: Settings, release: Release) -> None:
    """Refuse settings that change the computation in a way that is not reproduced.

    Raises
    ------
    InputError
        Naming the setting and its value.
    """
    for key, allowed in _ALLOWED.items():
        value = settings.get(key, allowed[0])
        # Release 0.3 takes the precision but never passes it on.
        if (key == "fno_block_precision" and release == "0.3") or any(value is one for one in allowed):
            continue
        if not isinstance(value, str | int) or value not in allowed:
            raise settings.wrong(key, "this cannot be reproduced here.")
    for key in ("output_scaling_factor", "resolution_scaling_factor"):
        value = settings.get(key)
        factors = value if isinstance(value, list | tuple) else [value]
        nested = [one for factor in factors for one in (factor if isinstance(factor, list | tuple) else [factor])]
        if value is not None and not all(isinstance(one, int | float) and one == 1 for one in nested):
            raise settings.wrong(key, "networks that change the resolution cannot be reproduced here.")


def check_tensors(tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors of other networks, and values that are too many, too coarse or not finite.

    Raises
    ------
    InputError
        Naming the tensor.
    """
    total = sum(value.numel() for value in tensors.values())
    if total > MOST:
        raise InputError(
            f"The tensors claim {total} numbers; {MOST} at most are read.", where=where, hint="Audit a smaller model."
        )
    for name, value in tensors.items():
        shown = [what for pattern, what in _FOREIGN.items() if re.fullmatch(pattern, name)]
        if value.is_complex() and not name.startswith(f"{CONVS}."):
            shown.append("complex_data")
        if shown:
            raise InputError(f"The tensor {name} shows {shown[0]}, not reproduced here.", where=where, hint=RETRAIN)
        if value.dtype not in _SINGLE:
            kind = str(value.dtype).removeprefix("torch.")
            raise InputError(f"{name} is of {kind}.", where=where, hint="Save the model in single precision.")
        if not bool(torch.isfinite(value).all()):
            raise InputError(f"{name} holds values that are not finite.", where=where, hint="Save the model again.")
