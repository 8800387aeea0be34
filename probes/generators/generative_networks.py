"""Small diffusion models and GANs that train within a minute and are rebuilt from their weights alone.

Fully connected networks over flattened points. None of them mixes the points of a batch (no batch normalisation), so
that every point has a gradient of its own. The shape of a point is kept with the weights, every other size is theirs.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.core.errors import InputError, escaped
from probes.files.names import suggest
from probes.files.weights import check_held, is_plain
from probes.models.architectures import fit

TIMES = 64
"""Numbers that encode a timestep, half of them sines and half cosines."""
_PERIOD = 10_000.0
_SLOPE = 0.2
_MOST_AXES = 4


def encode_times(t: Tensor, width: int) -> Tensor:
    """Return cosines and sines of a timestep at `width` / 2 frequencies, (..., width), as Vaswani et al. 2017 encode.

    >>> encode_times(torch.tensor([0]), 4).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    half = width // 2
    rates = torch.exp(torch.arange(half, device=t.device) * (-math.log(_PERIOD) / half))
    angles = t.unsqueeze(-1) * rates
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


class PointNetwork(nn.Module):
    """A network over points of one shape, which is saved with the weights as `point_shape`."""

    point_shape: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.register_buffer("point_shape", torch.tensor(shape, dtype=torch.int64))

    def flat(self, x: Tensor) -> Tensor:
        """Return points (..., *shape) as (..., d)."""
        return x.flatten(x.ndim - len(self.shape))


class MlpDenoiser(PointNetwork):
    """A residual network that predicts the noise in a point: h <- h + W silu(h), `layers` times.

    Parameters
    ----------
    shape
        The shape of one point.
    hidden, layers
        Width of h and number of residual layers.
    times
        Even number that encodes the timestep.
    """

    def __init__(self, shape: tuple[int, ...], *, hidden: int = 256, layers: int = 3, times: int = TIMES) -> None:
        super().__init__(shape)
        size = math.prod(shape)
        self.enter = nn.Linear(size, hidden)
        self.time = nn.Linear(times, hidden)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.leave = nn.Linear(hidden, size)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the noise, in the shape of the points (..., *shape), for timesteps (...)."""
        state = self.enter(self.flat(x)) + self.time(encode_times(t, self.time.in_features).to(x.dtype))
        for block in self.blocks:
            state = state + block(functional.silu(state))
        noise: Tensor = self.leave(functional.silu(state))
        return noise.reshape(x.shape)


class MlpGenerator(PointNetwork):
    """A generator with ReLU inside and a hyperbolic tangent at the end: points lie in (-1, 1)."""

    def __init__(self, shape: tuple[int, ...], *, latent: int = 32, hidden: int = 256, layers: int = 2) -> None:
        super().__init__(shape)
        self.latent = latent
        self.enter = nn.Linear(latent, hidden)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.leave = nn.Linear(hidden, math.prod(shape))

    def forward(self, z: Tensor) -> Tensor:
        """Return points (b, *shape) from latent vectors (b, latent)."""
        state = functional.relu(self.enter(z))
        for block in self.blocks:
            state = functional.relu(block(state))
        points: Tensor = torch.tanh(self.leave(state))
        return points.reshape(*z.shape[:-1], *self.shape)


class MlpDiscriminator(PointNetwork):
    """A discriminator with leaky ReLU (slope 0.2) inside; its logit is high for points that look real."""

    def __init__(self, shape: tuple[int, ...], *, hidden: int = 256, layers: int = 2) -> None:
        super().__init__(shape)
        self.enter = nn.Linear(math.prod(shape), hidden)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.leave = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (b,) of points (b, *shape)."""
        state = functional.leaky_relu(self.enter(self.flat(x)), _SLOPE)
        for block in self.blocks:
            state = functional.leaky_relu(block(state), _SLOPE)
        logits: Tensor = self.leave(state)
        return logits.squeeze(-1)


def fresh_denoiser(shape: tuple[int, ...], *, hidden: int, layers: int, seed: int) -> MlpDenoiser:
    """Return an untrained denoiser; `seed` draws the weights, and the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return MlpDenoiser(shape, hidden=hidden, layers=layers)


def fresh_gan(shape: tuple[int, ...], *, latent: int, hidden: int, seed: int) -> tuple[MlpGenerator, MlpDiscriminator]:
    """Return an untrained pair; `seed` draws the weights, and the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return MlpGenerator(shape, latent=latent, hidden=hidden), MlpDiscriminator(shape, hidden=hidden)


def _denoiser(state: Mapping[str, Tensor], shape: tuple[int, ...]) -> nn.Module:
    (hidden, _), times = _sizes(state, "enter"), _sizes(state, "time")[1]
    return MlpDenoiser(shape, hidden=hidden, layers=_layers(state), times=times)


def _generator(state: Mapping[str, Tensor], shape: tuple[int, ...]) -> nn.Module:
    hidden, latent = _sizes(state, "enter")
    return MlpGenerator(shape, latent=latent, hidden=hidden, layers=_layers(state) + 1)


def _discriminator(state: Mapping[str, Tensor], shape: tuple[int, ...]) -> nn.Module:
    return MlpDiscriminator(shape, hidden=_sizes(state, "enter")[0], layers=_layers(state) + 1)


NETWORKS: Mapping[str, Callable[[Mapping[str, Tensor], tuple[int, ...]], nn.Module]] = {
    "mlp-denoiser": _denoiser,
    "mlp-generator": _generator,
    "mlp-discriminator": _discriminator,
}
"""The networks that weights can be of, each with what builds it from weights and the shape of a point."""


def guess_network(state: Mapping[str, Tensor]) -> str | None:
    """Return the name of the network that has weights of these names and sizes, or None."""
    if "enter.weight" not in state or "leave.weight" not in state:
        return None
    if "time.weight" in state:
        return "mlp-denoiser"
    shape = state.get("point_shape")
    size = math.prod(shape.tolist()) if shape is not None and shape.ndim == 1 else None
    # A generator ends in a point; a point of one number looks like a logit, unless what enters differs.
    entered = state["enter.weight"].shape[-1:]
    single = state["leave.weight"].shape[:1] == (1,) and (size is None or entered == (size,))
    return "mlp-discriminator" if single else "mlp-generator"


def network_from(name: str, state: Mapping[str, Tensor], shape: tuple[int, ...] | None = None) -> nn.Module:
    """Build the named network in the sizes of these weights, float32 and in eval mode.

    Parameters
    ----------
    shape
        The shape of one point; None takes the one saved with the weights, or else flat points.

    Raises
    ------
    InputError
        Where the name is unknown, or the weights are not exactly those that the network has.
    """
    if name not in NETWORKS:
        raise InputError(f"{name!r} is not a known network.", where="--arch", hint=suggest(name, tuple(NETWORKS)))
    check_plain(state, f"--arch {name}")
    likely = guess_network(state)
    if likely not in (None, name):
        raise InputError(
            f"These are the weights of {likely}, not of {name}.", where=f"--arch {name}", hint=f"Give --arch {likely}."
        )
    size = _sizes(state, "leave")[0] if name == "mlp-generator" else _sizes(state, "enter")[1]
    shape = _shape(state.get("point_shape"), shape, size, name)
    # On the meta device a shape that is not that of the weights costs nothing.
    with torch.device("meta"):
        module = NETWORKS[name](state, shape)
    fitted = fit(module, {**state, "point_shape": torch.tensor(shape)}, name)
    weights = {key: value.detach().float() for key, value in fitted.items() if key != "point_shape"}
    module.load_state_dict({**weights, "point_shape": fitted["point_shape"]}, assign=True)
    return module.eval()


def check_plain(state: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors that are not plain arrays of finite real numbers, or claim more numbers than are stored.

    Raises
    ------
    InputError
        With the name of the first such tensor.
    """
    for name, value in state.items():
        shown = escaped(name)
        if not is_plain(value) or value.is_complex() or not value.numel():
            raise InputError(
                f"The tensor {shown} is no plain array of real numbers.", where=where, hint="Save float32 weights."
            )
        check_held({name: value}, where)
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise InputError(
                f"The weights hold numbers that are not finite, first in {shown}.",
                where=where,
                hint="The training diverged or the file is damaged: take an earlier checkpoint.",
            )


def _sizes(state: Mapping[str, Tensor], layer: str) -> tuple[int, int]:
    """Return outputs and inputs of a linear layer."""
    weight = state.get(f"{layer}.weight")
    if weight is None or weight.ndim != 2 or not weight.is_floating_point():
        what = "is missing" if weight is None else "is no matrix of floating-point numbers"
        raise InputError(
            f"The weights are not of one of the networks here: {layer}.weight {what}.",
            where="--arch",
            hint="Build the network yourself, with --factory module:callable.",
        )
    return int(weight.shape[0]), int(weight.shape[1])


def _layers(state: Mapping[str, Tensor]) -> int:
    return sum(name.startswith("blocks.") and name.endswith(".weight") for name in state)


def _shape(stored: Tensor | None, wanted: tuple[int, ...] | None, size: int, name: str) -> tuple[int, ...]:
    saved = None
    if stored is not None:
        saved = tuple(stored.tolist()) if stored.ndim == 1 and stored.dtype == torch.int64 else ()
        if not 1 <= len(saved) <= _MOST_AXES or min(saved) < 1 or math.prod(saved) != size:
            raise InputError(
                f"point_shape in the weights is not the shape of {size} numbers.",
                where=f"--arch {name}",
                hint="Save the weights of the network again.",
            )
    if wanted is None:
        return saved or (size,)
    if math.prod(wanted) != size or not (saved is None or _same(wanted, saved)):
        raise InputError(
            f"The points have the shape {wanted}, the network is for {saved or f'{size} numbers'}.",
            where=f"--arch {name}",
            hint="Give the points that the network was trained on, in their shape.",
        )
    return wanted


def _same(wanted: tuple[int, ...], saved: tuple[int, ...]) -> bool:
    """Tell whether two shapes of one size are known to put the numbers of a point in the same order."""
    one, two = (tuple(side for side in shape if side > 1) for shape in (wanted, saved))
    return one == two or min(len(one), len(two)) <= 1
