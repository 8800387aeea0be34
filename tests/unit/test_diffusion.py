"""Do three kinds of prediction amount to one noise, and does sampling give back the data's own distribution?"""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.generators.diffusion import (
    PREDICTIONS,
    Denoiser,
    check_answer,
    cosine,
    from_betas,
    linear,
    sample,
    scaled_linear,
    schedule_from,
    sigmoid,
)

MEAN, SD = 0.4, 0.3


class GaussianData(nn.Module):
    """The best prediction there is for data N(MEAN, SD^2) in every coordinate."""

    def __init__(self, alphas_bar: np.ndarray, prediction: str) -> None:
        super().__init__()
        self.kept, self.prediction = torch.from_numpy(alphas_bar), prediction

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        kept = self.kept[t].view(-1, *[1] * (x.ndim - 1))
        signal, spread = kept.sqrt(), (1 - kept).sqrt()
        gain = signal * SD**2 / (kept * SD**2 + 1 - kept)
        clean = MEAN + gain * (x.double() - signal * MEAN)
        noise = (x.double() - signal * clean) / spread
        answers = {"sample": clean, "epsilon": noise, "v_prediction": signal * noise - spread * clean}
        return answers[self.prediction].float()


def denoiser(module: nn.Module, alphas_bar: np.ndarray, **settings: Any) -> Denoiser:
    plain: dict[str, Any] = {"prediction": "epsilon", "shape": (4,), "path": "model.pt", "family": "test"}
    return Denoiser(module=module, alphas_bar=alphas_bar, **{"sha256": "0", "parameters": 0, **plain, **settings})


def gaussian(prediction: str = "epsilon", **settings: Any) -> Denoiser:
    return denoiser(GaussianData(linear(), prediction), linear(), prediction=prediction, **settings)


@pytest.mark.parametrize("shape", [(4,), (3, 4, 5)])
def test_three_predictions_are_one_noise(shape: tuple[int, ...]) -> None:
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    t = torch.tensor([0, 1, 10, 100, 500, 999])
    found = [gaussian(prediction, shape=shape).epsilon(x, t) for prediction in PREDICTIONS]
    kept = torch.from_numpy(linear())[t].float().view(-1, *[1] * len(shape))
    truth = (1 - kept).sqrt() * (x - kept.sqrt() * MEAN) / (kept * SD**2 + 1 - kept)
    for noise in found:
        torch.testing.assert_close(noise, truth, rtol=1e-4, atol=1e-4)


def test_q_sample_is_the_formula() -> None:
    model = gaussian()
    x, noise = torch.full((2, 4), 0.5), torch.full((2, 4), -2.0)
    found = model.q_sample(x, noise, torch.tensor([0, 999]))
    for row, step in zip(found, (0, 999), strict=True):
        kept = linear()[step]
        assert row.tolist() == pytest.approx([0.5 * math.sqrt(kept) - 2 * math.sqrt(1 - kept)] * 4, rel=1e-6)


def test_a_ddim_step_moves_along_the_noise_it_sees() -> None:
    # Where all data are one point, the noise seen is the noise added, and every jump is exact.
    class OnePoint(nn.Module):
        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return torch.full_like(x, 0.7)

    model = denoiser(OnePoint(), linear(), prediction="sample")
    noise = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))

    def at(step: int) -> Tensor:
        return model.q_sample(torch.full((5, 4), 0.7), noise, torch.full((5,), step))

    torch.testing.assert_close(model.ddim_step(at(300), 300, 700), at(700), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.ddim_step(at(300), 300, 40), at(40), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.ddim_step(at(300), 300, 300), at(300), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.ddim_step(at(300), 300, -1), torch.full((5, 4), 0.7), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("eta", "steps", "prediction"), [(0.0, 100, "epsilon"), (0.0, 100, "v_prediction"), (1.0, 1000, "epsilon")]
)
def test_samples_have_the_distribution_of_the_data(eta: float, steps: int, prediction: str) -> None:
    found = sample(gaussian(prediction), 1500, 3, steps, eta=eta, clip=False, batch=1500)
    assert found.shape == (1500, 4) and found.dtype == np.float32
    # 6000 numbers: standard errors .0039 of the mean and .0027 of the standard deviation.
    assert found.mean() == pytest.approx(MEAN, abs=0.013)
    assert found.std() == pytest.approx(SD, abs=0.012)
    again = sample(gaussian(prediction), 10, 3, 20, eta=eta)
    assert np.array_equal(again, sample(gaussian(prediction), 10, 3, 20, eta=eta))


def test_clipping_keeps_samples_within_reach_and_is_no_part_of_small_values() -> None:
    assert np.abs(sample(gaussian(), 300, 0, 50)).max() <= 1
    assert np.abs(sample(gaussian(), 300, 0, 50, clip=False)).max() > 1
    assert sample(gaussian(), 0, 0).shape == (0, 4)


def test_schedules_are_those_of_the_papers() -> None:
    betas = np.linspace(1e-4, 0.02, 1000)
    assert linear()[[0, -1]].tolist() == pytest.approx([0.9999, math.exp(np.log1p(-betas).sum())])
    assert scaled_linear()[-1] == pytest.approx(0.0047, abs=1e-4)
    half = math.cos((0.5 + 0.008) / 1.008 * math.pi / 2) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2
    assert cosine()[499] == pytest.approx(half, rel=1e-9)
    assert sigmoid()[0] == pytest.approx(1 - (1e-4 + 0.0199 / (1 + math.exp(6))))
    for made in (linear(), scaled_linear(), cosine(), sigmoid()):
        assert len(made) == 1000 and (np.diff(made) < 0).all() and 0 < made[-1] < made[0] < 1


SETTINGS = {"num_train_timesteps": 50, "beta_start": 0.001, "beta_end": 0.3, "beta_schedule": "linear"}


def test_a_schedule_is_read_from_settings() -> None:
    assert schedule_from(SETTINGS, "s.json")[0].tolist() == linear(50, 0.001, 0.3).tolist()
    assert schedule_from(SETTINGS, "s.json")[1] == ()
    scaled = {**SETTINGS, "beta_schedule": "scaled_linear"}
    assert schedule_from(scaled, "s.json")[0].tolist() == scaled_linear(50, 0.001, 0.3).tolist()
    assert schedule_from({**SETTINGS, "beta_schedule": "squaredcos_cap_v2"}, "")[0].tolist() == cosine(50).tolist()
    betas = [0.1, 0.3, 0.9]
    for settings in ({**SETTINGS, "trained_betas": betas}, {"betas": betas}, betas):
        assert schedule_from(settings, "")[0].tolist() == from_betas(betas).tolist()
    abar = from_betas(betas).tolist()
    assert schedule_from({"alphas_cumprod": abar}, "")[0].tolist() == abar
    assert schedule_from(abar, "")[0].tolist() == abar
    assert "alphas_cumprod" in schedule_from(abar, "")[1][0] and "betas" in schedule_from(betas, "")[1][0]


def test_a_schedule_that_stops_early_is_told() -> None:
    (note,) = schedule_from({"betas": [0.1, 0.2]}, "")[1]
    assert "72%" in note


def test_zero_terminal_signal_is_honoured() -> None:
    plain, rescaled = (schedule_from({**SETTINGS, "rescale_betas_zero_snr": zero}, "")[0] for zero in (False, True))
    assert rescaled[0] == pytest.approx(plain[0]) and 0 < rescaled[-1] <= 2.0**-24
    roots = np.sqrt(plain)
    assert rescaled[25] == pytest.approx(((roots[25] - roots[-1]) * roots[0] / (roots[0] - roots[-1])) ** 2)
    assert (
        np.diff(schedule_from({**SETTINGS, "num_train_timesteps": 1000, "rescale_betas_zero_snr": True}, "")[0]) < 0
    ).all()


WRONG: dict[str, object] = {
    "rising": {"alphas_cumprod": [0.5, 0.6]},
    "beta of nothing": {"betas": [0.1, 0.0]},
    "beta of all": {"betas": [0.1, 1.0]},
    "above one": {"betas": [0.1, 1.5]},
    "negative": {"betas": [-0.1, 0.5]},
    "not a number": {"betas": [0.1, math.nan]},
    "text": {"betas": [0.1, "0.2"]},
    "truth": {"betas": [0.1, True]},
    "huge": {"betas": [0.1, 10**400]},
    "one": {"betas": [0.1]},
    "no list": {"betas": 0.1},
    "unknown": {**SETTINGS, "beta_schedule": "laplace"},
    "many steps": {**SETTINGS, "num_train_timesteps": 10**9},
    "no start": {key: value for key, value in SETTINGS.items() if key != "beta_start"},
    "falling betas": {**SETTINGS, "beta_start": 0.5, "beta_end": 1.0},
    "words": "linear",
    "empty": [],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_schedule_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        schedule_from(WRONG[name], "here.json")
    assert "here.json" in caught.value.where


def test_nan_read_from_json_is_refused() -> None:
    with pytest.raises(InputError, match="nan"):
        schedule_from(json.loads("[0.1, NaN]"), "here.json")


class Broken(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor, t: Tensor) -> object:
        if self.kind == "fails":
            raise RuntimeError("no such layer\nmore")
        return {"pair": (x, x), "narrow": x[:, :2], "nan": x * math.nan}[self.kind]


@pytest.mark.parametrize(("kind", "said"), [
    ("pair", "a tuple"), ("narrow", r"\(2, 2\)"), ("nan", "no finite"), ("fails", "no such layer$"),
])  # fmt: skip
def test_a_network_that_cannot_be_asked_is_refused(kind: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        check_answer(denoiser(Broken(kind), linear()))
    assert caught.value.where == "model.pt"
