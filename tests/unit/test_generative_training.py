"""Does training find what it is to find, and find the same twice?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.progress import Advance
from probes.core.random_streams import stream
from probes.generators.generative_training import fit_denoiser, sample_gan, train_denoiser, train_gan

LINEAR = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
SHORT: dict[str, Any] = {"steps": 30, "batch": 8}


def points(count: int, *shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *shape)).astype(np.float32)


def auc(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the share of pairs in which the member is higher."""
    return float((members[:, None] > others[None]).mean())


def flat(module: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


def denoiser(**options: Any) -> Tensor:
    return flat(train_denoiser(points(20, 1, 3, 3), alphas_bar=LINEAR, hidden=8, layers=1, **{**SHORT, **options}))


def gan(**options: Any) -> Tensor:
    return torch.cat([flat(network) for network in train_gan(points(20, 9), latent=3, hidden=8, **(SHORT | options))])


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("train", [denoiser, gan])
def test_one_seed_gives_the_same_weights_on_any_number_of_cores(train: Any, two_threads: None) -> None:
    state, drawn = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    many = train(seed=4)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert torch.equal(many, train(seed=4)) and not torch.equal(many, train(seed=5))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == drawn).all()  # noqa: NPY002


def test_streams_are_of_a_seed_and_a_purpose() -> None:
    drawn = {
        float(torch.rand(1, generator=stream(seed, purpose), dtype=torch.float64))
        for seed in (0, 1)
        for purpose in ("a", "b", "ab")
    }
    assert len(drawn) == 6


class Recorder(nn.Module):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen: list[Tensor] = []
        self.times: list[Tensor] = []

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        self.seen.append(x.clone())
        self.times.append(t.clone())
        return x * self.weight


@pytest.mark.parametrize(("count", "batch", "steps"), [(10, 4, 25), (7, 4, 250), (5, 12, 10), (300, 128, 7)])
def test_every_point_is_used_once_before_any_is_used_again(count: int, batch: int, steps: int) -> None:
    module = Recorder()
    given = np.arange(count, dtype=np.float32)[:, None]
    # Without noise the network sees the points themselves.
    fit_denoiser(module, given, alphas_bar=np.ones(1), steps=steps, batch=batch, rate=1e-3, seed=0)
    order = torch.cat(module.seen).flatten().long().numpy()
    assert len(module.seen) == steps and len(order) == steps * batch
    for begin in range(0, len(order) - count, count):
        assert sorted(order[begin : begin + count]) == list(range(count))
    assert not module.training


def test_the_noise_is_that_of_the_forward_process() -> None:
    module = Recorder()
    fit_denoiser(module, np.full((4, 2), 0.5, np.float32), alphas_bar=LINEAR, steps=400, batch=64, rate=1e-3, seed=1)
    x, t = torch.cat(module.seen).double(), torch.cat(module.times)
    assert (int(t.min()), int(t.max())) == (0, 999) and abs(float(t.double().mean()) - 499.5) < 10
    kept = torch.from_numpy(LINEAR)[t][:, None]
    noise = (x - kept.sqrt() * 0.5) / (1 - kept).sqrt()
    assert abs(float(noise.mean())) < 0.02 and abs(float(noise.std()) - 1) < 0.02


class Affine(nn.Module):
    """a x + b, with one slope for all numbers of a point."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(1))
        self.shift = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.slope * x + self.shift


# A point x0 and the only abar .36: the noised x is .6 x0 + .8 e, so e = (x - .6 x0) / .8 and v = .6 e - .8 x0.
@pytest.mark.parametrize(
    ("prediction", "slope", "shift"),
    [("epsilon", 1 / 0.8, -0.6 / 0.8), ("v_prediction", 0.75, -1.25), ("sample", 0.0, 1.0)],
)
def test_a_network_learns_what_it_is_to_predict(prediction: Any, slope: float, shift: float) -> None:
    module, x0 = Affine(), np.array([[0.5, -1.0]], np.float32)
    fit_denoiser(module, x0, alphas_bar=np.array([0.36]), steps=600, batch=32, rate=0.02, seed=0, prediction=prediction)
    assert abs(float(module.slope.detach()) - slope) < 0.01
    assert np.allclose(module.shift.detach().numpy(), shift * x0[0], atol=0.01)


def test_weights_that_are_held_stay_as_they_are() -> None:
    module = Affine()
    module.slope.requires_grad_(False)
    fit_denoiser(module, points(5, 2), alphas_bar=LINEAR, steps=20, batch=4, rate=0.1, seed=0)
    assert float(module.slope.detach()) == 0 and float(module.shift.detach().abs().min()) > 0


def test_dropout_draws_from_the_seed() -> None:
    found = []
    for _ in range(2):
        torch.rand(1)
        module = nn.ModuleDict({"a": nn.Linear(2, 2)})
        nn.init.constant_(module["a"].weight, 0.1)
        nn.init.zeros_(module["a"].bias)
        module.forward = lambda x, t, m=module: nn.functional.dropout(m["a"](x), 0.5, m.training)  # type: ignore[method-assign]
        fit_denoiser(module, points(5, 2), alphas_bar=LINEAR, steps=20, batch=4, rate=0.1, seed=0)
        found.append(flat(module))
    assert torch.equal(*found)


def test_a_denoiser_remembers_its_points() -> None:
    members, others = points(60, 1, 4, 4), points(60, 1, 4, 4, seed=1)
    module = train_denoiser(members, alphas_bar=LINEAR, hidden=128, layers=2, steps=600, batch=64)

    def score(given: NDArray[np.float32]) -> NDArray[np.float64]:
        x, t = torch.from_numpy(given), torch.full((16, len(given)), 200)
        noise = torch.randn(16, *x.shape, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            found = module(LINEAR[200] ** 0.5 * x + (1 - LINEAR[200]) ** 0.5 * noise, t)
        return -(found - noise).square().flatten(2).mean(dim=(0, 2)).double().numpy()

    assert auc(score(members), score(others)) > 0.7


def test_a_discriminator_remembers_its_points() -> None:
    members, others = points(60, 64), points(500, 64, seed=1)
    _, discriminator = train_gan(members, latent=8, hidden=128, steps=600, batch=32, rate=1e-3)
    with torch.no_grad():
        real, fresh = (discriminator(torch.from_numpy(part)).double().numpy() for part in (members, others))
    assert auc(real, fresh) > 0.7


def test_a_generator_makes_points_like_those_given() -> None:
    # Two clouds: at (.6, .6) and at (-.6, -.6).
    draw = np.random.default_rng(0)
    given = (draw.choice([-0.6, 0.6], (200, 1)) + draw.normal(0, 0.05, (200, 2))).astype(np.float32)
    generator, _ = train_gan(given, latent=4, hidden=32, steps=1000, batch=32, rate=1e-3)
    made = sample_gan(generator, 500)
    near = np.minimum(np.abs(made - 0.6).max(1), np.abs(made + 0.6).max(1)) < 0.25
    assert near.mean() > 0.75
    assert 0.1 < (made[:, 0] > 0).mean() < 0.9


def test_samples_are_of_the_seed() -> None:
    generator, _ = train_gan(points(20, 1, 3, 3), latent=3, hidden=8, **SHORT)
    made = sample_gan(generator, 10, seed=1)
    assert made.shape == (10, 1, 3, 3) and made.dtype == np.float32 and np.abs(made).max() <= 1
    assert np.allclose(made, sample_gan(generator, 10, seed=1, batch=3), atol=1e-6)
    assert not np.allclose(made, sample_gan(generator, 10, seed=2))


class Watch:
    def __init__(self) -> None:
        self.phases: list[list[Any]] = []
        self.threads: set[int] = set()

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        self.phases.append([name, total, unit, 0])

        def advance(steps: int) -> None:
            self.phases[-1][3] += steps
            self.threads.add(torch.get_num_threads())

        yield advance


@pytest.mark.parametrize("train", [denoiser, gan])
def test_progress_is_told(train: Any, two_threads: None) -> None:
    watch = Watch()
    train(steps=230, progress=watch, label="Here")
    assert watch.phases == [["Here", 230, "steps", 230]]
    # The order of sums, and so the weights, would depend on the number of cores.
    assert watch.threads == {1}


@pytest.mark.parametrize("train", [train_gan, lambda x, **o: train_denoiser(x, alphas_bar=LINEAR, **o)])
def test_training_that_diverges_is_told(train: Any) -> None:
    with pytest.raises(InputError, match="diverged") as caught:
        train(np.full((10, 4), 3e38, np.float32), hidden=8, label="Here", **SHORT)
    assert caught.value.where == "Here"
