"""Do attacks find the members of a model that has learnt its data by heart, and none where there is nothing to find?"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

import probes.generators.attacks.denoiser as module
from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Silent
from probes.generators.attacks.denoiser import DENOISER_ATTACKS, Request, default_requests, score_denoiser
from probes.generators.attacks.noise import point_noise
from probes.generators.diffusion import Denoiser, linear
from probes.generators.point_sets import read_points

pytestmark = pytest.mark.usefixtures("one_thread")

KEPT = torch.from_numpy(linear())
WEIGHTED = [name for name in DENOISER_ATTACKS if name != "gradnorm"]


class Empirical(nn.Module):
    """The best noise prediction for data that are exactly the given points: a mean weighted by posterior."""

    def __init__(self, data: NDArray[np.float32]) -> None:
        super().__init__()
        self.data = torch.from_numpy(data).flatten(1).double()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        kept, flat = KEPT[t][:, None], x.flatten(1).double()
        distances = (flat[:, None] - kept.sqrt()[:, None] * self.data).square().sum(-1)
        clean = torch.softmax(-distances / (2 * (1 - kept)), dim=1) @ self.data
        return ((flat - kept.sqrt() * clean) / (1 - kept).sqrt()).float().view(x.shape)


class Gaussian(nn.Module):
    """The best noise prediction for standard Gaussian data."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return (1 - KEPT[t]).sqrt().float().view(-1, *[1] * (x.ndim - 1)) * x


class Small(nn.Module):
    """A network with weights, of points of six numbers."""

    def __init__(self, width: int = 12, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first, self.last = nn.Linear(7, width), nn.Linear(width, 6)
        self.calls = 0
        self.rows = 0

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        self.calls += 1
        self.rows += len(x)
        time = (t / 1000).to(x.dtype)[:, None]
        answer: Tensor = self.last(functional.silu(self.first(torch.cat([x, time], dim=1))))
        return answer


def denoiser(network: nn.Module, shape: tuple[int, ...] = (6,), **settings: Any) -> Denoiser:
    plain: dict[str, Any] = {"prediction": "epsilon", "path": "model.pt", "family": "test", "sha256": "a"}
    count = sum(weight.numel() for weight in network.parameters())
    return Denoiser(module=network, alphas_bar=linear(), shape=shape, parameters=count, **{**plain, **settings})


def data(count: int, shape: tuple[int, ...] = (6,), seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)


def scores(
    model: Denoiser, points: Any, requests: list[Request], **settings: Any
) -> dict[Request, NDArray[np.float64]]:
    plain: dict[str, Any] = {"seed": 0, "draws": 4, "batch": 64, "device": "cpu", "dtype": "float32", "cache": None}
    return score_denoiser(model, points, requests, progress=Silent(), label="test", **{**plain, **settings})


def auc(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    above = (members[:, None] > others[None]).mean() + (members[:, None] == others[None]).mean() / 2
    return float(above)


@pytest.mark.parametrize("shape", [(6,), (1, 4, 4)])
def test_a_model_that_knows_its_data_by_heart_is_found_out(shape: tuple[int, ...]) -> None:
    points = data(120, shape)
    found = scores(denoiser(Empirical(points[:60]), shape), points, [Request(name, 50) for name in WEIGHTED])
    values = {request.attack: auc(score[:60], score[60:]) for request, score in found.items()}
    assert all(values[name] > 0.9 for name in ("loss", "sima", "pia", "secmi", "pfami")), values


def test_nothing_is_found_where_there_is_nothing() -> None:
    points = data(1200)
    requests = [Request(name, step) for name in WEIGHTED for step in (50, 200)]
    found = scores(denoiser(Gaussian()), points, requests)
    limit = 3 * math.sqrt(1201 / (12 * 600 * 600))
    for request, score in found.items():
        assert abs(auc(score[:600], score[600:]) - 0.5) < limit, request


def test_scores_are_the_formulas() -> None:
    model, points = denoiser(Small()), data(3)
    x = torch.from_numpy(points)
    steps = torch.full((3,), 30)

    def seen(values: Tensor, step: int) -> Tensor:
        with torch.no_grad():
            return model.module(values, torch.full((3,), step)).double()

    found = {name: scores(model, points, [Request(name, 30)])[Request(name, 30)] for name in WEIGHTED}
    noise = torch.from_numpy(point_noise(0, np.arange(3), 4, (6,)))
    losses = [(seen(model.q_sample(x, e, steps), 30) - e).square().mean(1) for e in noise.unbind(1)]
    assert found["loss"] == pytest.approx(-torch.stack(losses).mean(0).numpy(), rel=1e-5)
    assert found["sima"] == pytest.approx(-seen(x, 30).norm(dim=1).numpy(), rel=1e-5)
    first = seen(x, 0).float()
    for name, added in (("pia", first), ("pian", first / first.abs().mean(1, keepdim=True) * math.sqrt(2 / math.pi))):
        away = added - seen(model.q_sample(x, added, steps), 30)
        assert found[name] == pytest.approx(-away.pow(4).sum(1).numpy(), rel=1e-4)
    with torch.no_grad():
        at = model.ddim_step(model.ddim_step(model.ddim_step(x, 0, 10), 10, 20), 20, 30)
        back = model.ddim_step(model.ddim_step(at, 30, 40), 40, 30)
    assert found["secmi"] == pytest.approx(-(back - at).square().sum(1).numpy(), rel=1e-3)
    near = torch.from_numpy(point_noise(0, np.arange(3), 10, (6,), stream="neighbours"))
    nearby, own = [], []
    for place in range(10):
        e = noise[:, place % 4]
        moved = seen(model.q_sample(x + 0.1 * near[:, place], e, steps), 30)
        nearby.append((moved - e).square().mean(1))
        own.append(losses[place % 4])
    rises = torch.stack(nearby).mean(0) / torch.stack(own).mean(0) - 1
    assert found["pfami"] == pytest.approx(rises.numpy(), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_gradient_norms_are_those_of_autograd(prediction: Any) -> None:
    model, points = denoiser(Small(), prediction=prediction), data(5)
    request = Request("gradnorm", 40)
    noise = torch.from_numpy(point_noise(0, np.arange(5), 4, (6,)))
    expected = []
    for point, draws in zip(torch.from_numpy(points), noise, strict=True):
        rows = torch.full((4,), 40)
        model.module.zero_grad()
        (model.epsilon(model.q_sample(point.expand(4, 6), draws, rows), rows) - draws).square().mean().backward()
        expected.append(-math.sqrt(sum(float(weight.grad.square().sum()) for weight in model.module.parameters())))
    assert scores(model, points, [request])[request] == pytest.approx(expected, rel=1e-4)


class Unbatchable(Small):
    """A network that looks at numbers, which no batching over points allows."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        assert math.isfinite(x.sum().item())
        return super().forward(x, t)


def test_gradients_are_taken_one_by_one_where_they_cannot_be_batched() -> None:
    request, points = Request("gradnorm", 40), data(7)
    batched = scores(denoiser(Small()), points, [request])[request]
    assert scores(denoiser(Unbatchable()), points, [request])[request] == pytest.approx(batched, rel=1e-5)


def test_the_batch_size_changes_rounding_alone() -> None:
    model, points = denoiser(Small()), data(23)
    requests = list(default_requests(list(DENOISER_ATTACKS), 1000))
    many = scores(model, points, requests, batch=64)
    for batch in (1, 7, 4096):
        for request, found in scores(model, points, requests, batch=batch).items():
            assert found == pytest.approx(many[request], rel=2e-3, abs=2e-6), (batch, request)


def test_no_more_rows_than_asked_pass_together_and_as_many_as_told() -> None:
    for name, attack in DENOISER_ATTACKS.items():
        network = Small()
        model = denoiser(network)
        scores(model, data(10), [Request(name, 35)], batch=16)
        if name != "gradnorm":
            assert network.rows == 10 * attack.evaluations(35, 1000, 4), name


def test_noise_is_of_the_point_and_of_nothing_else() -> None:
    model, points, request = denoiser(Small()), data(20), Request("loss", 50)
    whole = scores(model, points, [request])[request]
    part = scores(model, points[12:], [request], indices=np.arange(12, 20))[request]
    assert part == pytest.approx(whole[12:], rel=1e-6)
    assert not np.allclose(scores(model, points[12:], [request])[request], whole[12:], rtol=1e-3)
    assert not np.allclose(scores(model, points, [request], seed=1)[request], whole, rtol=1e-3)
    noise = point_noise(5, np.array([3, 9]), 2, (40,))
    assert np.array_equal(noise[1:], point_noise(5, np.array([9]), 2, (40,)))
    assert np.array_equal(noise, point_noise(5, np.array([3, 9]), 6, (40,))[:, :2])
    flat = point_noise(0, np.arange(200), 2, (50,)).reshape(400, 50)
    # 80,000 pairs of draws, whose correlations have a standard deviation of 1 / sqrt(50).
    together = np.corrcoef(flat) - np.eye(400)
    assert abs(flat.mean()) < 0.025 and abs(flat.std() - 1) < 0.02 and np.abs(together).max() < 0.85


@pytest.mark.parametrize("attack", DENOISER_ATTACKS)
def test_what_the_cache_has_is_not_computed_again(tmp_path: Path, attack: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "CHUNK", 8)
    network, cache, points = Small(), Cache(tmp_path), data(20)
    model, requests = denoiser(network), [Request(attack, 20), Request(attack, 40)]
    first = scores(model, points, requests, cache=cache)
    network.calls = 0
    again = scores(model, points, requests, cache=cache)
    assert network.calls == 0
    assert all(np.array_equal(first[request], again[request]) for request in requests)
    # The last of three chunks is gone, as after a run that was killed: it alone is made again.
    network.rows = 0
    changed = np.concatenate([points[:16], data(4, seed=9)])
    scores(model, changed, requests, cache=cache)
    whole = network.rows
    network.rows = 0
    scores(model, changed, requests)
    assert 0 < whole <= network.rows / 3
    for other in (replace(model, sha256="b"), model):
        network.calls = 0
        scores(other, points, requests, cache=cache, dtype="float32" if other is not model else "bfloat16")
        assert network.calls > 0


@pytest.mark.parametrize(("attack", "again"), [("loss", True), ("sima", False)])
def test_chance_is_part_of_the_key_where_there_is_any(tmp_path: Path, attack: str, again: bool) -> None:
    network, cache, points, request = Small(), Cache(tmp_path), data(5), Request(attack, 20)
    model = denoiser(network)
    scores(model, points, [request], cache=cache)
    changes: list[dict[str, Any]] = [{"seed": 2}, {"draws": 3}, {"indices": np.arange(5, 10)}]
    for change in changes:
        network.calls = 0
        scores(model, points, [request], cache=cache, **change)
        assert (network.calls > 0) == again, change


def test_images_of_eight_bits_are_seen_between_minus_one_and_one(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 1, 4, 4), dtype=np.uint8)
    np.save(tmp_path / "points.npy", pixels)
    points = read_points(tmp_path / "points.npy", role="--members")
    assert points.pixels
    model, request = denoiser(Gaussian(), (1, 4, 4)), Request("sima", 100)
    seen = (2 * (pixels / np.float32(255)) - 1).reshape(6, -1)
    expected = -np.sqrt(1 - linear()[100]) * np.linalg.norm(seen, axis=1)
    assert scores(model, points, [request])[request] == pytest.approx(expected, rel=1e-5)


def test_larger_images_are_cropped_and_not_blurred_with_noise() -> None:
    # A crop of one colour is the image itself: no neighbour of it has another loss.
    flat = np.full((2, 3, 20, 16), 0.5, dtype=np.float32)
    request = Request("pfami", 50)
    assert scores(denoiser(Gaussian(), (3, 20, 16)), flat, [request])[request] == pytest.approx(0, abs=1e-6)
    small = scores(denoiser(Gaussian(), (3, 8, 16)), flat[:, :, :8], [request])[request]
    assert np.abs(small).min() > 1e-6


class Failing(Small):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor, t: Tensor) -> Any:
        answer = super().forward(x, t)
        late = (t >= 40)[:, None]
        if self.how == "fails":
            raise ValueError("cannot be\nand more")
        return {"nan": torch.where(late, math.nan, answer), "narrow": answer[:, :3]}[self.how]


@pytest.mark.parametrize("attack", DENOISER_ATTACKS)
def test_what_is_not_a_number_is_refused_with_its_step(attack: str) -> None:
    model = denoiser(Failing("nan"))
    with pytest.raises(InputError, match="timestep 40") as caught:
        scores(model, data(4), [Request(attack, 20), Request(attack, 40)])
    assert caught.value.where == "model.pt"


@pytest.mark.parametrize(("how", "said"), [("fails", "cannot be$"), ("narrow", r"\(4, 3\)")])
def test_a_network_that_fails_is_named(how: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        scores(denoiser(Failing(how)), data(4), [Request("sima", 20)])
    assert caught.value.where == "model.pt"


@pytest.mark.parametrize(("requests", "points", "said"), [
    ([Request("simba", 10)], data(3), "simba"),
    ([Request("loss", 1000)], data(3), "1000"),
    ([Request("loss", -1)], data(3), "-1"),
    ([Request("secmi", 0)], data(3), "secmi"),
    ([Request("secmi", 995)], data(3), "secmi"),
    ([Request("loss", 10)], data(3, (7,)), "7"),
    ([Request("loss", 10)], np.full((3, 6), np.inf, dtype=np.float32), "Point 0"),
    ([Request("gradnorm", 10)], data(3), "no weights"),
])  # fmt: skip
def test_requests_that_cannot_be_met_are_refused(requests: list[Request], points: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        scores(denoiser(Gaussian()), points, requests)


def test_the_network_is_asked_in_evaluation_mode_and_left_as_it_was() -> None:
    class Dropping(Small):
        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            return super().forward(functional.dropout(x, 0.5, self.training), t)

    network = Dropping()
    network.first.eval()
    requests = [Request("sima", 20), Request("gradnorm", 20)]
    state = torch.get_rng_state()
    found = scores(denoiser(network), data(4), requests)
    plain = scores(denoiser(Small()), data(4), requests)
    assert all(np.array_equal(found[request], plain[request]) for request in requests)
    assert network.training and not network.first.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(weight.grad is None and weight.requires_grad for weight in network.parameters())


def test_half_precision_gives_nearly_the_same() -> None:
    points, requests = data(6), [Request(name, 50) for name in ("loss", "sima", "gradnorm")]
    single = scores(denoiser(Small()), points, requests)
    for request, found in scores(denoiser(Small()), points, requests, dtype="bfloat16").items():
        assert found == pytest.approx(single[request], rel=0.02) and not np.array_equal(found, single[request])


def test_default_steps_lie_within_any_schedule() -> None:
    for total in (2, 10, 1000):
        names = [name for name in DENOISER_ATTACKS if name != "secmi" or total > 10]
        for request in default_requests(names, total):
            assert 1 <= request.timestep < total
    found = default_requests(["loss"], 1000)
    assert [request.timestep for request in found] == [10, 30, 50, 100, 200, 400]
    with pytest.raises(InputError, match="lossy"):
        default_requests(["lossy"], 1000)
