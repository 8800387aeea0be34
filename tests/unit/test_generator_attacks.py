"""Do the scores of GANs find what was planted, and are their files read or refused?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.generators.attacks.generator import discriminator_scores, latent_search
from probes.generators.generative_networks import fresh_denoiser, fresh_gan
from probes.generators.generator_files import load_discriminator, load_generator

SHAPE = (1, 4, 4)
State = dict[str, Tensor]


def points(count: int, *shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *shape)).astype(np.float32)


def auc(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return the share of pairs in which the member is higher."""
    return float((members[:, None] > others[None]).mean())


class Table(nn.Module):
    """Gives one of its rows, whichever coordinate of z is largest; between two it mixes them."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        super().__init__()
        self.register_buffer("rows", torch.from_numpy(rows))

    def forward(self, z: Tensor) -> Tensor:
        return torch.einsum("bk,k...->b...", torch.softmax(30 * z, 1), self.rows)


class Plane(nn.Module):
    """A z + b: the nearest point of a plane is known."""

    def __init__(self) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(2)
        self.slopes, self.shift = torch.randn(6, 2, generator=draws), torch.randn(6, generator=draws)

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.slopes.T + self.shift

    def nearest(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the squared distance of each point."""
        slopes, left = self.slopes.double().numpy(), x - self.shift.double().numpy()
        nearest = slopes @ np.linalg.lstsq(slopes, left.T, rcond=None)[0]
        return np.square(left.T - nearest).sum(0)


def test_a_generator_that_gives_its_members_away() -> None:
    members, others = points(25, *SHAPE), points(200, *SHAPE, seed=1)
    found = latent_search(Table(members), np.concatenate([members, others]), latent=25, samples_start=400)
    assert found.shape == (225,) and found.dtype == np.float64
    assert auc(found[:25], found[25:]) > 0.95
    assert found[:25].min() > -0.01 and found.max() <= 0


def test_the_search_finds_the_nearest_point_of_a_plane() -> None:
    plane, x = Plane(), points(40, 6)
    truth = plane.nearest(x)
    first = latent_search(plane, x, latent=2, samples_start=20, steps=0)
    found = latent_search(plane, x, latent=2, samples_start=20, steps=300)
    assert np.allclose(-found, truth, rtol=1e-3, atol=1e-3)
    assert (-first > truth - 1e-5).all() and np.median(-first / truth) > 1.05


def test_the_best_point_on_the_way_counts() -> None:
    plane, x = Plane(), points(40, 6)
    first = latent_search(plane, x, latent=2, samples_start=50, steps=0)
    wild = latent_search(plane, x, latent=2, samples_start=50, steps=5, rate=100.0)
    assert (wild >= first - 1e-6).all()


def test_scores_do_not_depend_on_the_batch() -> None:
    generator, discriminator = fresh_gan(SHAPE, latent=5, hidden=7, seed=3)
    x = points(23, *SHAPE)
    one, other = (latent_search(generator, x, latent=5, samples_start=40, steps=10, batch=b) for b in (7, 256))
    assert np.allclose(one, other, rtol=1e-4)
    one, other = (discriminator_scores(discriminator, x, batch=b) for b in (7, 256))
    assert np.allclose(one, other, rtol=1e-4) and np.ptp(one) > 0


def test_the_seed_draws_the_starts_and_nothing_else_moves() -> None:
    plane, x, state = Plane(), points(9, 6), torch.get_rng_state()
    one, same, other = (latent_search(plane, x, latent=2, samples_start=5, steps=1, seed=s) for s in (0, 0, 1))
    assert (one == same).all() and (one != other).any()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_generator_keeps_its_weights() -> None:
    generator, _ = fresh_gan(SHAPE, latent=5, hidden=7, seed=3)
    before = {name: value.clone() for name, value in generator.state_dict().items()}
    latent_search(generator, points(5, *SHAPE), latent=5, samples_start=5, steps=3)
    assert all(torch.equal(value, before[name]) for name, value in generator.state_dict().items())
    assert all(weight.grad is None for weight in generator.parameters())


@dataclass
class Given:
    """Points as they are read from a file."""

    rows: NDArray[np.float32]
    pixels: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape[1:]

    def __len__(self) -> int:
        return len(self.rows)

    def block(self, start: int, stop: int) -> NDArray[np.float32]:
        assert 0 <= start < stop <= len(self.rows)
        return self.rows[start:stop]


def test_pixels_are_brought_to_the_scale_of_the_generator() -> None:
    generator, discriminator = fresh_gan(SHAPE, latent=5, hidden=7, seed=3)
    x = points(11, *SHAPE)
    for given in (Given((x + 1) / 2, True), Given(x, False)):
        options: Any = {"latent": 5, "samples_start": 20, "steps": 3, "batch": 4}
        assert np.allclose(
            latent_search(generator, given, **options), latent_search(generator, x, **options), rtol=1e-4
        )
        one, other = (discriminator_scores(discriminator, part, batch=4) for part in (given, x))
        assert np.allclose(one, other, rtol=1e-4, atol=1e-6)


class Ends(nn.Module):
    """Gives numbers of a shape that only depends on the batch."""

    def __init__(self, *shape: int, value: float = 1.0, kind: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.made = torch.full(shape, value, dtype=kind)

    def forward(self, x: Tensor) -> Tensor:
        first = x.flatten(1)[:, 0].abs().to(self.made.dtype)
        return first.reshape(-1, *[1] * self.made.ndim) * self.made


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_a_number_per_point_may_have_further_axes(shape: tuple[int, ...]) -> None:
    x = points(7, *SHAPE)
    assert np.allclose(discriminator_scores(Ends(*shape), x), np.abs(x[:, 0, 0, 0]))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Ends(2), "not one number each"),
        (Ends(1, value=np.nan), "not finite"),
        (Ends(1, kind=torch.int64), "no floating-point"),
        (nn.Linear(5, 1), "cannot be applied"),
        (nn.Identity(), "not one number each"),
    ],
)
def test_what_is_no_discriminator(network: nn.Module, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        discriminator_scores(network, points(7, *SHAPE))
    assert caught.value.hint and caught.value.where == "discriminator"


class Breaks(nn.Module):
    """Is a generator as long as nobody searches."""

    def forward(self, z: Tensor) -> Tensor:
        made = z.repeat(1, 8).reshape(-1, *SHAPE)
        return made / 0 if z.requires_grad else made


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Ends(*SHAPE[:-1]), r"points of shape \(1, 4\), the points to score have \(1, 4, 4\)"),
        (Ends(*SHAPE, value=np.inf), "not finite"),
        (Breaks(), "not finite"),
        (nn.Linear(5, 16), "cannot be applied"),
    ],
)
def test_what_is_no_generator(network: nn.Module, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        latent_search(network, points(7, *SHAPE), latent=2, samples_start=4, steps=2)
    assert caught.value.hint and caught.value.where == "generator"


def state(role: str = "generator") -> State:
    generator, discriminator = fresh_gan(SHAPE, latent=5, hidden=7, seed=3)
    return (generator if role == "generator" else discriminator).state_dict()


def prefixed(head: str, role: str) -> State:
    return {head + name: value for name, value in state(role).items()}


def keep_account(role: str, path: Path) -> None:
    account = {"history": [(1.0, 0.1, 5)], "mechanism": "rdp"}
    torch.save(
        {"module_state_dict": prefixed("_module.", role), "privacy_accountant_state_dict": account},
        path,
    )


FORMATS: dict[str, Callable[[str, Path], None]] = {
    "a.safetensors": lambda role, path: save_file(state(role), path),
    "opacus.safetensors": lambda role, path: save_file(prefixed("_module.", role), path),
    "a.pt": lambda role, path: torch.save(state(role), path),
    "legacy.pth": lambda role, path: torch.save(state(role), path, _use_new_zipfile_serialization=False),
    "parallel.th": lambda role, path: torch.save(prefixed("module.", role), path),
    "wrapped.tar": lambda role, path: torch.save({"state_dict": state(role), "epoch": 3}, path),
    "opacus.pt": keep_account,
    "pair.pt": lambda role, path: torch.save({"netD": state("d"), "netG": state()}, path),
    "pair.ckpt": lambda role, path: torch.save(
        {"model": {"generator": state(), "discriminator": {"state_dict": state("d")}}}, path
    ),
}


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_gives_the_same_networks(tmp_path: Path, name: str) -> None:
    generator, discriminator = fresh_gan(SHAPE, latent=5, hidden=7, seed=3)
    FORMATS[name]("generator", tmp_path / name)
    save_file(state(), tmp_path / "plain.safetensors")
    found = load_generator(tmp_path / name, arch="mlp-generator")
    plain = load_generator(tmp_path / "plain.safetensors", arch="mlp-generator", shape=SHAPE, latent=5)
    assert (found.latent, found.shape, found.family) == (5, SHAPE, "mlp-generator")
    assert found.sha256 == plain.sha256 and found.path == str(tmp_path / name)
    assert found.parameters == sum(weight.numel() for weight in generator.parameters())
    z = torch.randn(3, 5)
    assert torch.equal(found.module(z), generator(z))
    assert not found.module.training and not any(weight.requires_grad for weight in found.module.parameters())
    assert bool(found.notes) == (name in ("wrapped.tar", "pair.pt", "pair.ckpt"))
    FORMATS[name]("discriminator", tmp_path / name)
    judge = load_discriminator(tmp_path / name, arch="mlp-discriminator", shape=SHAPE)
    x = torch.randn(3, *SHAPE)
    assert torch.equal(judge.module(x), discriminator(x)) and judge.family == "mlp-discriminator"
    assert judge.sha256 != found.sha256


def test_the_hash_is_of_the_function(tmp_path: Path) -> None:
    weights = state()
    torch.save(weights, tmp_path / "a.pt")
    weights["leave.bias"][0] += 1e-3
    torch.save(weights, tmp_path / "b.pt")
    one, other = (load_generator(tmp_path / name, arch="mlp-generator") for name in ("a.pt", "b.pt"))
    assert one.sha256 != other.sha256


class Call:
    """An object whose pickle runs a command when an ordinary reader opens it."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, ("raise SystemExit",)


BAD: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "missing.pt": (lambda path: None, {}, "no such file"),
    "folder.pt": (lambda path: path.mkdir(), {}, "folder"),
    "a.txt": (lambda path: path.write_text("x"), {}, "suffix '.txt'"),
    "page.pt": (lambda path: path.write_text("<!DOCTYPE html><html>"), {}, "page"),
    "code.pt": (lambda path: torch.save(Call(), path), {}, "run code"),
    "list.pt": (lambda path: torch.save([1, 2], path), {}, "no tensors by name"),
    "mixed.pt": (lambda path: torch.save({**state(), "epoch": 1}, path), {}, "no tensors by name"),
    "cut.safetensors": (lambda path: path.write_bytes(b"\x10" + b"\0" * 7 + b"{}"), {}, "damaged"),
    "bare.pt": (lambda path: torch.save(state(), path), {"arch": None}, "do not say"),
    "other.pt": (lambda path: torch.save(state("d"), path), {}, "weights of mlp-discriminator"),
    "denoiser.pt": (lambda path: torch.save(state(), path), {"arch": "mlp-denoiser"}, "is not mlp-generator"),
    "shape.pt": (lambda path: torch.save(state(), path), {"shape": (1, 5, 5)}, "The points have"),
    "latent.pt": (lambda path: torch.save(state(), path), {"latent": 6}, "vectors of 5 numbers, not of 6"),
    "both.pt": (lambda path: torch.save(state(), path), {"factory": "a:b"}, "Both an architecture"),
    "factory.pt": (lambda path: torch.save(state(), path), {"arch": None, "factory": "a:b"}, "is code"),
    "nan.pt": (lambda path: torch.save({**state(), "leave.bias": torch.full((16,), torch.nan)}, path), {}, "finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BAD))
def test_files_that_are_refused(tmp_path: Path, name: str) -> None:
    write, options, said = BAD[name]
    write(tmp_path / name)
    with pytest.raises(InputError, match=said) as caught:
        load_generator(tmp_path / name, **{"arch": "mlp-generator", **options})
    assert caught.value.where and caught.value.hint


def holding_itself() -> dict[str, Any]:
    content: dict[str, Any] = {"epoch": 1}
    content["model"] = content
    return content


ENDLESS: dict[str, Callable[[], Any]] = {
    "itself": holding_itself,
    "deep": lambda: {"model": {"net": {"model": {"net": {"model": {"net": {"model": {"net": {"model": state()}}}}}}}}},
    "prefixes": lambda: {"module." * 2000 + name: value for name, value in state().items()},
}


@pytest.mark.parametrize("name", list(ENDLESS))
def test_wrappers_without_end_are_refused(tmp_path: Path, name: str) -> None:
    torch.save(ENDLESS[name](), tmp_path / "a.pt")
    with pytest.raises(InputError) as caught:
        load_generator(tmp_path / "a.pt", arch="mlp-generator")
    assert str(tmp_path / "a.pt") in str(caught.value.where) and caught.value.hint
    assert len(str(caught.value)) < 2000


def test_a_denoiser_is_no_generator(tmp_path: Path) -> None:
    torch.save(fresh_denoiser(SHAPE, hidden=4, layers=1, seed=0).state_dict(), tmp_path / "a.pt")
    with pytest.raises(InputError, match="weights of mlp-denoiser"):
        load_generator(tmp_path / "a.pt", arch="mlp-generator")
    with pytest.raises(InputError, match="do not say") as caught:
        load_generator(tmp_path / "a.pt")
    assert "give --arch" not in caught.value.hint
    save_file(state(), tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="do not say") as caught:
        load_generator(tmp_path / "a.safetensors")
    assert "give --arch mlp-generator" in caught.value.hint


DCGAN = """
import torch
from torch import nn

def generator():
    return nn.Sequential(nn.ConvTranspose2d(6, 4, 4), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1), nn.Tanh())

def finished(path):
    net = generator()
    net.load_state_dict(torch.load(path, weights_only=True))
    net.latent = 6
    return net

def discriminator():
    return nn.Sequential(nn.Conv2d(1, 1, 4), nn.Sigmoid())

def broken():
    net = discriminator()
    net.forward = lambda x: x.sum() / 0
    return net
"""


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    name = f"dcgan_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(DCGAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path / f"{name}.py"


def test_a_generator_of_convolutions(tmp_path: Path, factory: Path) -> None:
    found: dict[str, Any] = {}
    exec(DCGAN, found)
    net = found["generator"]()
    torch.save({"generator": net.state_dict(), "step": 4}, tmp_path / "a.pt")
    torch.save(net.state_dict(), tmp_path / "bare.pt")
    state = torch.get_rng_state()
    made = load_generator(
        tmp_path / "a.pt", factory=f"{factory.stem}:generator", allow_code=True, latent=6, shape=SHAPE
    )
    assert torch.equal(torch.get_rng_state(), state)
    whole = load_generator(tmp_path / "bare.pt", factory=f"{factory.stem}:finished", allow_code=True)
    z = torch.randn(3, 6)
    assert torch.equal(made.module(z), net.eval()(z[..., None, None]))
    assert torch.equal(whole.module(z), made.module(z))
    assert (made.latent, made.shape, whole.latent) == (6, SHAPE, 6) and made.sha256 != whole.sha256
    assert any("as images" in note for note in made.notes) and any("was run" in note for note in made.notes)
    scores = latent_search(made.module, points(4, *SHAPE), latent=6, samples_start=10, steps=2)
    assert scores.shape == (4,)
    options: Any = {"factory": f"{factory.stem}:generator", "allow_code": True}
    for wrong, said in [
        ({}, "not known"),
        ({"latent": 5}, "cannot be applied"),
        ({"latent": 6, "shape": (16,)}, r"have \(16,\)"),
        ({"latent": 0}, "not above 0"),
    ]:
        with pytest.raises(InputError, match=said):
            load_generator(tmp_path / "a.pt", **options, **wrong)


def test_a_discriminator_of_convolutions(tmp_path: Path, factory: Path) -> None:
    found: dict[str, Any] = {}
    exec(DCGAN, found)
    net = found["discriminator"]()
    torch.save(net.state_dict(), tmp_path / "a.pt")
    options: Any = {"factory": f"{factory.stem}:discriminator", "allow_code": True}
    made = load_discriminator(tmp_path / "a.pt", shape=SHAPE, **options)
    x = points(5, *SHAPE)
    assert np.allclose(discriminator_scores(made.module, x), net(torch.from_numpy(x)).detach().flatten())
    with pytest.raises(InputError, match="not one number each"):
        load_discriminator(tmp_path / "a.pt", shape=(1, 6, 6), **options)
    with pytest.raises(InputError, match="cannot be applied"):
        load_discriminator(tmp_path / "a.pt", shape=(16,), **options)
    with pytest.raises(InputError, match="no finite"):
        load_discriminator(tmp_path / "a.pt", shape=SHAPE, **{**options, "factory": f"{factory.stem}:broken"})
    torch.save({"0.weight": torch.ones(1, 1, 3, 3)}, tmp_path / "b.pt")
    with pytest.raises(InputError, match="do not fit") as caught:
        load_discriminator(tmp_path / "b.pt", shape=SHAPE, **options)
    assert "--factory" in caught.value.where
