"""Does the demo train on the points that it says, once for each seed, and find nothing where it is balanced?"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from audits.core.context import Cache, Context, Draft
from audits.core.records import Finding
from audits.core.testing import drafted
from audits.membership import AUDIT, Options, bounding, demo, figures
from probes.generators import private_training

MODELS = ("ddpm", "gan", "gan-dp", "ddpm-dp")
PRIVATE = ("gan-dp", "ddpm-dp")
SMALL = {"STEPS": 100, "POOL": 80, "SAMPLES": 60, "BATCH": 16}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    pytest.importorskip("opacus", reason="training with privacy needs opacus (pip install 'miles-audit[privacy]')")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # In this process, where the constants are those of the test.
    with joblib.parallel_config(backend="sequential"):
        yield
    torch.set_num_threads(threads)


@dataclass(frozen=True, slots=True)
class Made:
    """A demo as it was prepared, and what each of its models was trained on."""

    context: Context
    options: Options
    trained: dict[str, NDArray[np.float32]]

    def points(self, name: str) -> NDArray[np.float32]:
        path = getattr(self.options, name)
        assert isinstance(path, Path)
        return np.asarray(np.load(path))


def make(cache: Path, patch: pytest.MonkeyPatch, *, balanced: bool, seed: int = 0, **sizes: int) -> Made:
    seen: dict[str, NDArray[np.float32]] = {}

    def watched(name: str, train: Callable[..., Any]) -> Callable[..., Any]:
        def trained(points: NDArray[np.float32], *, private: bool, **more: Any) -> Any:
            seen[name + "-dp" * private] = points
            return train(points, private=private, **more)

        return trained

    with patch.context() as inner:
        for name, value in {**SMALL, **sizes}.items():
            inner.setattr(demo, name, value)
        for name, train in (("ddpm", "train_private_denoiser"), ("gan", "train_private_gan")):
            inner.setattr(private_training, train, watched(name, getattr(private_training, train)))
        context = Context(cache=Cache(cache), seed=seed)
        return Made(context, demo.prepare(context, balanced=balanced), seen)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Made]:
    """Return the demo as it is, and balanced."""
    cache, patch = tmp_path_factory.mktemp("cache"), pytest.MonkeyPatch()
    return {balanced: make(cache, patch, balanced=balanced) for balanced in (False, True)}


def rows(points: NDArray[np.float32]) -> list[bytes]:
    return sorted(point.tobytes() for point in points)


@pytest.mark.parametrize("balanced", [False, True])
def test_points_were_put_in_by_a_coin_and_models_saw_these_or_none(both: dict[bool, Made], balanced: bool) -> None:
    made = both[balanced]
    assert made.options.coin_flip == 0.5 and tuple(made.trained) == ("ddpm-dp", "gan-dp", "gan", "ddpm")
    members, others, reference = (rows(made.points(name)) for name in ("members", "nonmembers", "reference"))
    trained = {name: rows(points) for name, points in made.trained.items()}
    (seen,) = {tuple(points) for points in trained.values()}
    assert len(seen) == len(members)
    # Four standard errors of the number of heads.
    assert len(members) + len(others) == SMALL["POOL"] and abs(len(members) - len(others)) < 4 * SMALL["POOL"] ** 0.5
    assert not set(members) & set(others) and not set(reference) & {*members, *others, *seen}
    assert set(seen) == set(members) if not balanced else not set(seen) & {*members, *others}
    assert {*members, *others, *reference, *seen} == {*rows((load_digits().images[:, None] / 8 - 1).astype(np.float32))}


def test_coins_and_order_are_of_the_seed(
    both: dict[bool, Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, balanced = both[False], both[True]
    assert np.array_equal(one.points("members"), balanced.points("members"))
    assert one.options.suite != balanced.options.suite
    other = make(tmp_path, monkeypatch, balanced=False, seed=1, STEPS=1)
    assert {*rows(one.points("members"))} != {*rows(other.points("members"))}


def test_the_second_time_nothing_is_trained(both: dict[bool, Made], monkeypatch: pytest.MonkeyPatch) -> None:
    for balanced, made in both.items():
        again = make(made.context.cache.folder, monkeypatch, balanced=balanced)
        assert again.options == made.options and not again.trained


def test_the_suite_names_what_was_released_of_each_model(both: dict[bool, Made]) -> None:
    for made in both.values():
        suite = made.options.suite
        assert suite is not None
        entries = tomllib.loads(suite.read_text())["model"]
        assert tuple(entry["name"] for entry in entries) == MODELS
        for entry in entries:
            kind = "generator" if entry["name"].startswith("gan") else "denoiser"
            assert {kind, "samples"} <= entry.keys() and ("discriminator" in entry) == (kind == "generator")
            assert ("history" in entry) == (entry["name"] in PRIVATE)
            assert all((suite.parent / entry[key]).is_file() for key in (kind, "samples"))
            samples = np.load(suite.parent / entry["samples"])
            assert samples.shape == (SMALL["SAMPLES"], 1, 8, 8) and np.abs(samples).max() <= 1.5


@pytest.fixture(scope="module")
def drafts(both: dict[bool, Made]) -> dict[bool, Draft]:
    """Return what the audit says of both, with two attacks, without figures and credible intervals."""
    patch, found = pytest.MonkeyPatch(), {}
    patch.setattr(figures, "figures", lambda *given: iter(()))
    patch.setattr(bounding, "joint_beta", lambda *counts, **more: (0.0, 10.0))
    for balanced, made in both.items():
        options = replace(made.options, attack=("nearest", "sima"))
        found[balanced] = drafted(AUDIT, options, made.context)
    patch.undo()
    return found


def told(draft: Draft, name: str) -> list[Finding]:
    return [one for one in draft.findings if one.id == f"membership.{name}"]


def test_the_claims_are_those_of_the_accountant(drafts: dict[bool, Draft]) -> None:
    for draft in drafts.values():
        claims = {row.where["model"]: row.value for row in draft.estimates if row.name == "epsilon_claimed"}
        assert claims.keys() == set(PRIVATE)
        assert all(value == pytest.approx(demo.EPSILON, rel=0.01) for value in claims.values())
        assert {one.where["model"] for one in told(draft, "verdict")} == set(PRIVATE)
        assert all(one.where["verdict"] != "violation" for one in told(draft, "verdict"))


def test_a_coin_for_each_point_allows_the_one_run_bounds(drafts: dict[bool, Draft]) -> None:
    for draft in drafts.values():
        bounds = [row for row in draft.estimates if row.name == "epsilon_lower"]
        assert {row.where["model"] for row in bounds} == set(MODELS)
        certified = [row for row in bounds if row.where["method"] == "one-run"]
        assert certified and all(row.where["validity"] == "certified" for row in certified)


def test_members_of_the_plain_diffusion_model_are_found_and_none_where_it_is_balanced(
    drafts: dict[bool, Draft],
) -> None:
    assert {one.where["model"] for one in told(drafts[False], "leak")} == {"ddpm"}
    assert not told(drafts[True], "leak") and not told(drafts[True], "more-leakage")
    assert not told(drafts[False], "shifted") and not told(drafts[True], "shifted")
