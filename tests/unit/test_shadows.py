"""Do shadow models know the points that they are said to know, nothing of the audited model, and meet its noise?"""

import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from audits.statistics.roc import area
from probes.core import spreading
from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.core.executor import Workers, run_jobs
from probes.core.progress import Silent
from probes.core.spreading import Machines
from probes.generators import shadows
from probes.generators.attacks.denoiser import KIND as SCORES
from probes.generators.attacks.denoiser import Request, score_denoiser
from probes.generators.attacks.denoiser_jobs import SHARED, Asked, compute_scores, read_scores, scaled
from probes.generators.denoisers import load_denoiser
from probes.generators.diffusion import Denoiser, linear
from probes.generators.generative_networks import fresh_denoiser
from probes.generators.point_sets import PointSet, read_points
from probes.generators.shadows import (
    KIND,
    Recipe,
    Shadows,
    complementary_halves,
    fresh_weights,
    train_and_score,
)

pytestmark = pytest.mark.usefixtures("one_thread")

LOSS, SIMA = Request("loss", 20), Request("sima", 20)
RECIPE = Recipe(steps=12, batch=8, rate=1e-3)
LEARNT = 7.5


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect on how many points each model is trained, in this process."""
    seen: list[int] = []
    fit = shadows.fit_denoiser

    def counted(module: nn.Module, points: NDArray[np.float32], **more: Any) -> None:
        seen.append(len(points))
        fit(module, points, **more)

    monkeypatch.setattr(shadows, "fit_denoiser", counted)
    return seen


def points(folder: Path, count: int = 20, seed: int = 0, *, pixels: bool = False) -> PointSet:
    values = np.random.default_rng(seed).integers(0, 256, (count, 1, 2, 3)).astype(np.uint8)
    path = folder / f"points{seed}{pixels}.npy"
    np.save(path, values if pixels else 2 * (values.astype(np.float32) / np.float32(255)) - 1)
    return read_points(path, role="--members")


def denoiser(seed: int = 0, hidden: int = 8) -> Denoiser:
    module = fresh_denoiser((1, 2, 3), hidden=hidden, layers=1, seed=seed)
    return Denoiser(
        # As loaded: frozen.
        module=module.eval().requires_grad_(False),
        alphas_bar=linear(100),
        prediction="epsilon",
        shape=(1, 2, 3),
        path="target",
        family="mlp-denoiser",
        sha256=f"{seed}",
        parameters=100,
    )


def made(target: Denoiser, given: PointSet, cache: Cache, **more: Any) -> Shadows:
    how: dict[str, Any] = {
        "count": 4,
        "recipe": RECIPE,
        "machines": Machines(workers=Workers(count=1)),
        "seed": 3,
        "draws": 2,
        "batch": 64,
    }
    found = train_and_score(target, given, [LOSS, SIMA], **{**how, "device": "cpu", **more}, cache=cache)
    assert found is not None
    return found


def workers(count: int) -> Machines:
    return Machines(workers=Workers(count=count))


def same(one: Shadows, other: Shadows) -> bool:
    return np.array_equal(one.keep, other.keep) and all(
        np.array_equal(one.scores[request], other.scores[request]) for request in (LOSS, SIMA)
    )


def entries(cache: Cache) -> list[Path]:
    return sorted(cache.folder.glob(f"{KIND}/*/*.safetensors"))


def scores(cache: Cache) -> list[Path]:
    return sorted(cache.folder.glob(f"{SCORES}/*/*.safetensors"))


@pytest.mark.parametrize("count", [20, 21])
def test_halves_come_with_their_complements(count: int) -> None:
    keep = complementary_halves(8, count, 5)
    assert keep.shape == (8, count)
    assert (keep[::2] == ~keep[1::2]).all() and (keep.sum(0) == 4).all()
    assert set(keep.sum(1)) == {count // 2, count - count // 2}
    assert len({row.tobytes() for row in keep}) == 8
    assert np.array_equal(keep, complementary_halves(8, count, 5))
    assert not np.array_equal(keep, complementary_halves(8, count, 6))
    # Further models leave the first as they are, and what was trained on their halves.
    assert np.array_equal(keep[:4], complementary_halves(4, count, 5))


def test_halves_are_random() -> None:
    keep = np.stack([complementary_halves(2, 10, seed)[0] for seed in range(400)])
    # Each share has a standard error of 0.025; together is each pair in 2/9 of the halves.
    assert np.abs(keep.mean(0) - 0.5).max() < 0.1
    together = (keep[:, :, None] & keep[:, None]).mean(0)[np.triu_indices(10, 1)]
    assert np.abs(together - 2 / 9).max() < 0.1


def test_an_odd_number_of_halves_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        complementary_halves(3, 10, 0)


class Normed(nn.Module):
    """Layers of all kinds that draw their own weights, or keep statistics of what they saw."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.attention = nn.MultiheadAttention(6, 2)
        self.leave = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6))


class Scaled(nn.Module):
    """A layer with a weight of its own, which it can draw."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.inside = nn.Linear(6, 6)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.scale)


class Started(nn.Module):
    """A network that draws its last layer in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.leave = nn.Linear(6, 6), nn.Linear(6, 6)

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.leave.weight)


def filled(module: nn.Module) -> nn.Module:
    """Return a network that has learnt one number, wherever it can."""
    with torch.no_grad():
        for value in module.state_dict().values():
            if value.is_floating_point():
                value.fill_(LEARNT)
    return module.eval()


def flat(module: nn.Module) -> Tensor:
    return torch.cat([value.flatten() for value in module.state_dict().values() if value.is_floating_point()])


@pytest.mark.parametrize(
    "network", [Normed, Scaled, Started, lambda: fresh_denoiser((1, 2, 3), hidden=8, layers=2, seed=0)]
)
def test_fresh_weights_hold_nothing_that_was_learnt(network: Any) -> None:
    target = filled(network())
    state = torch.get_rng_state()
    one, again, other = (fresh_weights(target, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state), "the generator that all share was touched"
    assert (flat(target) == LEARNT).all() and not target.training
    assert not (flat(one) == LEARNT).any() and one.training and bool(flat(one).isfinite().all())
    assert all(weight.requires_grad for weight in one.parameters())
    assert torch.equal(flat(one), flat(again)) and not torch.equal(flat(one), flat(other))
    assert {name: value.shape for name, value in one.state_dict().items()} == {
        name: value.shape for name, value in target.state_dict().items()
    }


def test_fresh_weights_keep_the_shape_of_the_points() -> None:
    target = fresh_denoiser((1, 2, 3), hidden=8, layers=2, seed=0)
    assert fresh_weights(target, 1).state_dict()["point_shape"].tolist() == [1, 2, 3]


def test_a_network_draws_its_layers_in_its_own_way() -> None:
    fresh = fresh_weights(filled(Started()), 0)
    assert not fresh.get_parameter("leave.weight").any() and bool(fresh.get_parameter("inside.weight").all())


class Bare(nn.Module):
    """Weights that stand in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(6, 6)
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(5)])


class Forgetful(nn.Module):
    """A weight that the network's own reset leaves as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.scale = nn.Linear(6, 6), nn.Parameter(torch.ones(1))

    def reset_parameters(self) -> None:
        self.inside.reset_parameters()


class Hooked(nn.Module):
    """A layer whose weight is made of another before each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))


@pytest.mark.parametrize(
    ("network", "left"),
    [
        (Bare, r"scales\.0, scales\.1, scales\.2 belong to no layer"),
        (Forgetful, "The weights scale belong to no layer"),
        (Hooked, r"inside\.parametrizations\.weight\.original0, .* belong to no layer"),
    ],
)
def test_weights_that_no_layer_draws_are_refused(tmp_path: Path, network: Any, left: str) -> None:
    with pytest.raises(InputError, match=left) as caught:
        fresh_weights(network(), 0)
    assert caught.value.where == "--shadows" and "reset_parameters" in str(caught.value.hint)
    cache = Cache(tmp_path / "cache")
    with pytest.raises(InputError, match="belong to no layer"):
        made(replace(denoiser(), module=network()), points(tmp_path), cache)
    assert not entries(cache)


def test_what_was_trained_is_not_trained_again(tmp_path: Path, trained: list[int]) -> None:
    given, cache = points(tmp_path, 21), Cache(tmp_path / "cache")
    first = made(denoiser(), given, cache)
    assert sorted(trained) == [10, 10, 11, 11] and len(entries(cache)) == 4
    assert same(made(denoiser(), given, cache), first) and len(trained) == 4
    lost = entries(cache)[1]
    lost.unlink()
    # The scores are there still: nobody asks for the weights.
    assert same(made(denoiser(), given, cache), first) and len(trained) == 4
    for path in scores(cache):
        path.unlink()
    assert same(made(denoiser(), given, cache), first)
    assert len(trained) == 5 and lost in entries(cache)
    # Damaged after they were looked for, they are computed again.
    for path in scores(cache):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert same(made(denoiser(), given, cache), first) and len(trained) == 5
    # More models, other attacks or draws need no old one anew.
    more = made(denoiser(), given, cache, count=6)
    assert len(trained) == 7 and all((more.scores[one][:4] == first.scores[one]).all() for one in (LOSS, SIMA))
    drawn = made(denoiser(), given, cache, draws=5)
    assert len(trained) == 7 and not np.array_equal(drawn.scores[LOSS], first.scores[LOSS])
    assert np.array_equal(drawn.scores[SIMA], first.scores[SIMA])


CHANGES: Mapping[str, Any] = {
    "seed": {"seed": 4},
    "steps": {"recipe": replace(RECIPE, steps=13)},
    "batch": {"recipe": replace(RECIPE, batch=7)},
    "rate": {"recipe": replace(RECIPE, rate=2e-3)},
}


@pytest.mark.parametrize(
    "change", [*CHANGES, "points", "schedule", "prediction", "network", "hash", "torch", "damaged"]
)
def test_other_training_is_not_taken_for_this(
    tmp_path: Path, trained: list[int], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    given, cache, target = points(tmp_path), Cache(tmp_path / "cache"), denoiser()
    first = made(target, given, cache)
    trained.clear()
    if change == "damaged":
        for path in (*entries(cache), *scores(cache)):
            path.write_bytes(path.read_bytes()[:-50])
    if change == "torch":
        monkeypatch.setattr(shadows, "version", lambda package: f"{package} 0.1")
    other = made(
        {
            "schedule": replace(target, alphas_bar=linear(100, 1e-3)),
            "prediction": replace(target, prediction="sample"),
            "network": denoiser(hidden=9),
            # Equal shapes may compute otherwise: only the hash tells.
            "hash": replace(target, sha256="other"),
        }.get(change, target),
        points(tmp_path, seed=1) if change == "points" else given,
        cache,
        **CHANGES.get(change, {}),
    )
    assert len(trained) == 4 and same(other, first) == (change in ("damaged", "hash", "torch"))
    assert len(entries(cache)) == (4 if change == "damaged" else 8)


def test_the_number_of_processes_changes_no_bit(tmp_path: Path) -> None:
    given = points(tmp_path)
    one, two = (made(denoiser(), given, Cache(tmp_path / f"{count}"), machines=workers(count)) for count in (1, 2))
    assert same(one, two)
    alike = [[path.read_bytes() for path in entries(Cache(tmp_path / f"{count}"))] for count in (1, 2)]
    assert len(alike[0]) == 4 and alike[0] == alike[1]


OWN = """
import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.only = nn.Linear(6, 6)

    def forward(self, x, t):
        return self.only(x.flatten(1)).reshape(x.shape)


def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Mine()
"""


def test_a_network_of_the_users_code_is_sent_to_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net_of_mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    weights = tmp_path / "net.safetensors"
    save_file({"only.weight": torch.eye(6), "only.bias": torch.zeros(6)}, weights)
    factory: dict[str, Any] = {"factory": "net_of_mine:net", "allow_code": True}
    mine = load_denoiser(weights, schedule="linear", shape=(1, 2, 3), **factory)
    given = points(tmp_path)
    one, two = (made(mine, given, Cache(tmp_path / f"{count}"), machines=workers(count)) for count in (1, 2))
    assert same(one, two)
    asked = Asked(requests=(LOSS,), seed=3, draws=2, batch=64, device="cpu")
    cache = Cache(tmp_path / "2")
    compute_scores(mine, given, asked, cache=cache, progress=Silent(), label="", machines=workers(2))
    assert read_scores(mine, scaled(given), asked, cache) is not None


def test_shadows_meet_the_noise_that_the_audited_model_meets(tmp_path: Path) -> None:
    given, cache, target = points(tmp_path), Cache(tmp_path / "cache"), denoiser()
    found = made(target, given, cache)
    how: dict[str, Any] = {"batch": 7, "device": "cpu", "dtype": "float32", "cache": None, "label": ""}

    def asked(path: Path, seed: int) -> bytes:
        target.module.load_state_dict(load_file(path))
        scores = score_denoiser(target, given, [LOSS], **how, seed=seed, draws=2, progress=Silent())
        return bytes(scores[LOSS].round(5).tobytes())

    rows = sorted(bytes(row.round(5).tobytes()) for row in found.scores[LOSS])
    assert rows == sorted(asked(path, 3) for path in entries(cache))
    assert not set(rows) & {asked(path, 4) for path in entries(cache)}


def test_shadows_know_the_points_that_they_are_said_to_know(tmp_path: Path) -> None:
    given, cache = points(tmp_path, 40), Cache(tmp_path / "cache")
    recipe = Recipe(steps=500, batch=20, rate=5e-3)
    found = made(denoiser(hidden=64), given, cache, recipe=recipe, draws=8)
    areas = [area(row, kept).value for row, kept in zip(found.scores[SIMA], found.keep, strict=True)]
    assert np.mean(areas) > 0.75
    starts = [load_file(path)["enter.weight"] for path in entries(cache)]
    assert all(not torch.equal(one, other) for place, one in enumerate(starts) for other in starts[:place])


def test_pixels_are_trained_and_asked_on_the_scale_of_the_model(tmp_path: Path) -> None:
    pixels, numbers = points(tmp_path, pixels=True), points(tmp_path)
    assert pixels.pixels and not numbers.pixels
    found = [made(denoiser(), given, Cache(tmp_path / "cache")) for given in (pixels, numbers)]
    assert same(*found)


def test_a_training_that_diverges_is_told(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    with pytest.raises(InputError, match="diverged") as caught:
        made(denoiser(), points(tmp_path), cache, recipe=Recipe(steps=100, batch=8, rate=1e30))
    assert caught.value.where == "shadow model 0" and not entries(cache)


@pytest.mark.parametrize("lost", [{}, {2: "its worker died (SIGKILL(-9))"}])
def test_a_model_that_is_lost_is_told_and_the_points_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: dict[int, str]
) -> None:
    cache, seen = Cache(tmp_path / "cache"), []

    def running(function: Any, jobs: Any, here: Workers, *, done: Any, pool: object) -> dict[int, str]:
        seen.append((len(list(cache.folder.glob(f"{SHARED}/*/*"))), [len(pickle.dumps(job)) for job in jobs]))
        kept = [job for place, job in enumerate(jobs) if place not in lost]
        return run_jobs(function, kept, Workers(count=1), done=done) or lost

    monkeypatch.setattr(spreading, "run_jobs", running)
    given, target = points(tmp_path, 2000), denoiser(hidden=256)
    if lost:
        with pytest.raises(IncompleteError, match=r"1 of 4 shadow models were lost; of number 3, its worker died"):
            made(target, given, cache, machines=workers(2))
    else:
        made(target, given, cache, machines=workers(2))
    # Neither points, 48 kB, nor weights, 0.3 MB, go with a job.
    assert seen[0][0] == 1 and max(seen[0][1]) < 20_000
    assert not list(cache.folder.glob(f"{SHARED}/*/*")) and len(entries(cache)) == 4 - len(lost)
