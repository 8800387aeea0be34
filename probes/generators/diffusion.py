"""A diffusion model: its schedule, the noise that it predicts, and samples drawn from it.

Time runs over the steps 0 to T - 1 of training. At step t a point x has become
sqrt(abar_t) x + sqrt(1 - abar_t) e with Gaussian e (Ho et al. 2020, equation 4), and a network predicts e, x, or
v = sqrt(abar_t) e - sqrt(1 - abar_t) x (Salimans and Ho 2022, section 4).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import InputError, first_line

Prediction = Literal["epsilon", "v_prediction", "sample"]
PREDICTIONS: tuple[Prediction, ...] = ("epsilon", "v_prediction", "sample")

_LARGEST_BETA = 0.999
"""Where the cosine schedule is cut off (Nichol and Dhariwal 2021, section 3.2)."""
_COSINE_OFFSET = 0.008
_SIGMOID_REACH = 6.0
_AS_TRAINED = 'Give the schedule that the model was trained under, such as {"betas": [0.0001, ...]}.'
_MOST_STEPS = 100_000
_LEAST_LEFT = 2.0**-24
_MUCH_LEFT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Denoiser:
    """A network that predicts noise, and the schedule that it was trained under.

    `module(x, t)` takes float32 points (b, *shape) and int64 steps (b,) and returns its raw prediction (b, *shape);
    `alphas_bar` (T,) is the product of 1 - beta over the steps so far; `sha256` covers all that it computes with.
    """

    module: nn.Module
    alphas_bar: NDArray[np.float64]
    prediction: Prediction
    shape: tuple[int, ...]
    path: str
    family: str
    sha256: str
    parameters: int
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """Return T, the number of steps of training."""
        return len(self.alphas_bar)

    def levels(self, t: Tensor, dimensions: int) -> tuple[Tensor, Tensor]:
        """Return sqrt(abar_t) and sqrt(1 - abar_t), float32, with as many axes behind the first as points have."""
        abar = torch.from_numpy(self.alphas_bar)[t.cpu()]
        form = (-1, *[1] * dimensions)
        signal, spread = (root.float().to(t.device).view(form) for root in (abar.sqrt(), (1 - abar).sqrt()))
        return signal, spread

    def q_sample(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return points (b, *shape) after the forward process up to steps t (b,), with given noise."""
        signal, spread = self.levels(t, x.ndim - 1)
        return signal * x + spread * noise

    def epsilon(self, x_t: Tensor, t: Tensor) -> Tensor:
        """Return the predicted noise, float32, whether the network predicts noise, v or clean data.

        Raises
        ------
        InputError
            Where the network returns something else than one tensor of the points' shape.
        """
        raw: object = self.module(x_t, t)
        if not isinstance(raw, Tensor) or raw.shape != x_t.shape:
            what = f"of shape {tuple(raw.shape)}" if isinstance(raw, Tensor) else f"a {type(raw).__name__}"
            raise InputError(
                f"The network returns {what} for points of shape {tuple(x_t.shape)}.",
                where=self.path,
                hint="It must take (points, steps) and return a prediction of the points' shape.",
            )
        return to_epsilon(raw.float(), x_t, *self.levels(t, x_t.ndim - 1), self.prediction)

    def ddim_step(self, x: Tensor, start: int, end: int) -> Tensor:
        """Return points at step `start` moved to `end`, in either direction, without fresh noise; -1 is clean data.

        Source: Song, Meng and Ermon 2021, equation 12 with sigma = 0.
        """
        noise = self.epsilon(x, torch.full((len(x),), start, dtype=torch.int64, device=x.device))
        here, there = self._abar(start), self._abar(end)
        clean = (x - math.sqrt(1 - here) * noise) / math.sqrt(here)
        return math.sqrt(there) * clean + math.sqrt(1 - there) * noise

    def _abar(self, step: int) -> float:
        return float(self.alphas_bar[step]) if step >= 0 else 1.0


def to_epsilon(raw: Tensor, x_t: Tensor, signal: Tensor, spread: Tensor, prediction: Prediction) -> Tensor:
    """Return the noise that a raw prediction of noise, v or clean data amounts to.

    Parameters
    ----------
    signal, spread
        sqrt(abar_t) and sqrt(1 - abar_t), of a shape that fits the points'.
    """
    if prediction == "epsilon":
        return raw
    if prediction == "v_prediction":
        return signal * raw + spread * x_t
    return (x_t - signal * raw) / spread


def linear(steps: int = 1000, first: float = 1e-4, last: float = 0.02) -> NDArray[np.float64]:
    """Return abar (steps,) of betas that rise linearly (Ho et al. 2020, section 4).

    >>> linear(2, 0.1, 0.5).round(12).tolist()
    [0.9, 0.45]
    """
    return from_betas(np.linspace(first, last, steps))


def scaled_linear(steps: int = 1000, first: float = 0.00085, last: float = 0.012) -> NDArray[np.float64]:
    """Return abar (steps,) of betas whose roots rise linearly (Rombach et al. 2022).

    >>> scaled_linear(3, 0.04, 0.16).round(12).tolist()
    [0.96, 0.8736, 0.733824]
    """
    return from_betas(np.linspace(math.sqrt(first), math.sqrt(last), steps) ** 2)


def sigmoid(steps: int = 1000, first: float = 1e-4, last: float = 0.02) -> NDArray[np.float64]:
    """Return abar (steps,) of betas on a logistic curve between -6 and 6."""
    rise = 1 / (1 + np.exp(-np.linspace(-_SIGMOID_REACH, _SIGMOID_REACH, steps)))
    return from_betas(first + (last - first) * rise)


def cosine(steps: int = 1000) -> NDArray[np.float64]:
    """Return abar (steps,) on a squared cosine (Nichol and Dhariwal 2021, equation 17), betas at most 0.999."""
    curve = np.cos((np.arange(steps + 1) / steps + _COSINE_OFFSET) / (1 + _COSINE_OFFSET) * math.pi / 2) ** 2
    return from_betas(np.minimum(1 - curve[1:] / curve[:-1], _LARGEST_BETA))


def from_betas(betas: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return abar, shape (steps,), the product of 1 - beta so far.

    >>> from_betas([0.5, 0.5]).tolist()
    [0.5, 0.25]
    """
    return np.asarray(np.cumprod(1 - np.asarray(betas, dtype=np.float64)), dtype=np.float64)


SCHEDULES: Mapping[str, Callable[[], NDArray[np.float64]]] = {
    "linear": linear,
    "cosine": cosine,
    "scaled_linear": scaled_linear,
}
"""Schedules by the name that users give, each with the numbers of its paper and T = 1000."""


def schedule_from(settings: object, where: str) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return abar of every step by the settings of a scheduler, and notes for the user.

    Parameters
    ----------
    settings
        A mapping with `betas`, `trained_betas` or `alphas_cumprod`, or with `beta_schedule`, `num_train_timesteps`,
        `beta_start` and `beta_end` as diffusers writes them; or a list of betas or of abar. With
        `rescale_betas_zero_snr` the last abar becomes 0 (Lin et al. 2024, algorithm 1), here at most 2^-24.

    Raises
    ------
    InputError
        Where a number is missing or beyond belief, or abar does not fall within (0, 1).

    >>> schedule_from({"betas": [0.5, 0.9]}, "betas.json")[0].round(12).tolist()
    [0.5, 0.05]
    """
    notes: tuple[str, ...] = ()
    if isinstance(settings, list):
        values = _shares(settings, where)
        # Betas start near 0, abar near 1.
        kind = "alphas_cumprod" if values[0] > 0.5 and values[-1] < values[0] else "betas"
        settings, notes = {kind: settings}, (f"The list of the schedule was read as {kind}.",)
    if not isinstance(settings, Mapping):
        raise InputError("This is no schedule.", where=where, hint='Give {"betas": [...]}.')
    lists = [key for key in ("alphas_cumprod", "betas", "trained_betas") if settings.get(key) is not None]
    if lists:
        values = _shares(settings[lists[0]], f"{where}, key {lists[0]}")
        alphas_bar = values if lists[0] == "alphas_cumprod" else from_betas(values)
    else:
        alphas_bar = _shaped(settings, where)
    _check_falling(alphas_bar, where)
    if settings.get("rescale_betas_zero_snr"):
        roots = np.sqrt(alphas_bar)
        # Shifted so that the last root is 0, then scaled so that the first is what it was.
        alphas_bar = ((roots - roots[-1]) * roots[0] / (roots[0] - roots[-1])) ** 2
        # At 0 itself every division by sqrt(abar) would fail, as it does in a DDIM step.
        alphas_bar[-1] = min(_LEAST_LEFT, alphas_bar[-2] / 2)
    if alphas_bar[-1] > _MUCH_LEFT:
        left = f"{alphas_bar[-1]:.0%} of a point's variance"
        notes = (*notes, f"The last step of the schedule leaves {left}: is it cut off?")
    return alphas_bar, notes


def _shaped(settings: Mapping[str, object], where: str) -> NDArray[np.float64]:
    shapes = {"linear": linear, "scaled_linear": scaled_linear, "sigmoid": sigmoid}
    kind, steps = settings.get("beta_schedule"), settings.get("num_train_timesteps")
    if kind != "squaredcos_cap_v2" and kind not in shapes:
        what, known = f"The schedule is {ascii(kind)[:40]}.", ", ".join([*shapes, "squaredcos_cap_v2"])
        raise InputError(what, where=f"{where}, key beta_schedule", hint=f"Supported: {known}.")
    if type(steps) is not int or not 2 <= steps <= _MOST_STEPS:
        what = f"The number of steps is {ascii(steps)[:40]}, not one from 2 to {_MOST_STEPS}."
        raise InputError(what, where=f"{where}, key num_train_timesteps", hint=_AS_TRAINED)
    if kind == "squaredcos_cap_v2":
        return cosine(steps)
    ends = _shares([settings.get("beta_start"), settings.get("beta_end")], f"{where}, keys beta_start, beta_end")
    return shapes[str(kind)](steps, *ends.tolist())


def _shares(values: object, where: str) -> NDArray[np.float64]:
    if not isinstance(values, list) or not 2 <= len(values) <= _MOST_STEPS:
        raise InputError(f"This is no list of 2 to {_MOST_STEPS} numbers.", where=where, hint=_AS_TRAINED)
    for index, value in enumerate(values):
        # By exact type, for true is an int too; NaN fails the comparison.
        if type(value) not in (int, float) or not 0 <= value <= 1:
            what = f"Number {index} is {ascii(value)[:40]}, not one between 0 and 1."
            raise InputError(what, where=where, hint=_AS_TRAINED)
    return np.array(values, dtype=np.float64)


def _check_falling(alphas_bar: NDArray[np.float64], where: str) -> None:
    falling = bool((np.diff(alphas_bar) < 0).all())
    if not falling or alphas_bar[-1] <= 0 or alphas_bar[0] >= 1:
        raise InputError(
            f"The share of a point that is left goes from {alphas_bar[0]:.4g} to {alphas_bar[-1]:.4g}"
            f"{'' if falling else ', and not always down'}.",
            where=where,
            hint="It must fall within (0, 1): give betas between 0 and 1, or their product of 1 - beta.",
        )


def check_answer(denoiser: Denoiser) -> None:
    """Run a network once, so that a wrong shape or a damaged weight shows before hours of work.

    Raises
    ------
    InputError
        Where it fails, or its answer is not finite or of another shape.
    """
    shown = "x".join(map(str, denoiser.shape))
    try:
        with torch.no_grad():
            noise = denoiser.epsilon(torch.zeros(2, *denoiser.shape), torch.tensor([0, denoiser.steps - 1]))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The network fails on points of {shown}: {first_line(error)}",
            where=denoiser.path,
            hint="It must take points of this shape and one step each. Is it a denoiser?",
        ) from error
    if not bool(torch.isfinite(noise).all()):
        raise InputError(
            f"On points of zeros ({shown}) the network gives no finite numbers.",
            where=denoiser.path,
            hint="Its weights are damaged: fetch or save the file again.",
        )


def sample(
    denoiser: Denoiser,
    count: int,
    seed: int,
    steps: int = 50,
    *,
    eta: float = 0.0,
    clip: bool = True,
    batch: int = 256,
) -> NDArray[np.float32]:
    """Return points drawn from a diffusion model on the CPU, float32 (count, *shape).

    Source: Song, Meng and Ermon 2021, equations 12 and 16.

    Parameters
    ----------
    steps
        Network evaluations a point; they are spread evenly over the T steps of training.
    eta
        0: DDIM, all randomness is in the start. 1: fresh noise at every step; with `steps` = T this is DDPM.
    clip
        Keep the clean point that every step aims at within [-1, 1].
    """
    stream = torch.Generator().manual_seed(seed)
    found = [
        _sample_batch(denoiser, min(batch, count - start), stream, steps, eta, clip) for start in range(0, count, batch)
    ]
    return np.concatenate(found) if found else np.zeros((0, *denoiser.shape), dtype=np.float32)


def _sample_batch(
    denoiser: Denoiser, count: int, stream: torch.Generator, steps: int, eta: float, clip: bool
) -> NDArray[np.float32]:
    times = np.unique(np.linspace(0, denoiser.steps - 1, min(steps, denoiser.steps)).round().astype(int))[::-1]
    x = torch.randn(count, *denoiser.shape, generator=stream)
    with torch.no_grad():
        for step, following in zip(times.tolist(), [*times.tolist()[1:], -1], strict=True):
            here, there = denoiser._abar(step), denoiser._abar(following)
            noise = denoiser.epsilon(x, torch.full((count,), step, dtype=torch.int64))
            clean = (x - math.sqrt(1 - here) * noise) / math.sqrt(here)
            # The noise is taken anew from the clipped point, or the two would no longer add up to x.
            if clip:
                clean = clean.clamp(-1, 1)
                noise = (x - math.sqrt(here) * clean) / math.sqrt(1 - here)
            # Equation 16: at eta = 1 the standard deviation of DDPM's posterior.
            fresh = eta * math.sqrt((1 - there) / (1 - here) * (1 - here / there))
            x = math.sqrt(there) * clean + math.sqrt(max(0.0, 1 - there - fresh**2)) * noise
            if fresh > 0:
                x = x + fresh * torch.randn(x.shape, generator=stream)
    return x.numpy()
