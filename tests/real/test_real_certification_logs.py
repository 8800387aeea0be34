"""Do published logs of certificates give back their published tables, and their probabilities our savings?"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from audits.certification import AUDIT, Options
from audits.certification.certificates import judge
from audits.certification.inputs import check
from audits.certification.log_estimates import add_log_estimates
from audits.certification.log_findings import find_in_log
from audits.certification.log_fit import implied_alpha, reachable, read_settings
from audits.certification.logs import read_log
from audits.certification.radii import Geometry
from audits.certification.rules import Rule, geometric_looks
from audits.certification.sampling import draw
from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from probes.classifiers.smoothing import VoteCounts

Floats = NDArray[np.float64]
DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = pytest.mark.real

CIFAR = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
IMAGENET = (0.0, 0.5, 1.0, 1.5)
# Name, noise, rows, certified accuracy as published, alpha that the radii imply, largest other share.
LOGS = [
    ("cifar10_resnet110", 0.12, 500, dict(zip(CIFAR, (0.59, 0, 0, 0, 0, 0), strict=True)), 0.001, 0.13),
    ("cifar10_resnet110", 0.25, 500, dict(zip(CIFAR, (0.60, 0.43, 0.27, 0, 0, 0), strict=True)), 0.01, 0.13),
    ("cifar10_resnet110", 0.50, 500, dict(zip(CIFAR, (0.55, 0.41, 0.32, 0.23, 0.15, 0.09), strict=True)), 0.01, 0.5),
    ("imagenet_resnet50", 0.25, 427, dict(zip(IMAGENET, (0.67, 0.49, 0, 0), strict=True)), 0.01, 0.13),
    ("imagenet_resnet50", 0.50, 500, dict(zip(IMAGENET, (0.57, 0.46, 0.37, 0.29), strict=True)), 0.01, 0.18),
]


def log_file(model: str, sigma: float, kind: str = "certify", last: str = "sigma") -> Path:
    path = DATA / "smoothing_logs" / f"{kind}_{model}_noise_{sigma:.2f}__test_{last}_{sigma:.2f}.tsv"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the logs")
    return path


def planned(path: Path, sigma: float, alpha: float) -> tuple[Any, Rule]:
    context = Context(cache=Cache(path.parent))
    inputs = check(Options(from_log=(str(path),), sigma=sigma, alpha=alpha), context).inputs
    return inputs.log, inputs.rule


@pytest.mark.parametrize(("model", "sigma", "rows", "table", "alpha", "other"), LOGS)
def test_published_tables_come_back(
    model: str, sigma: float, rows: int, table: dict[float, float], alpha: float, other: float
) -> None:
    log = read_log(log_file(model, sigma))
    assert len(log.verdicts) == rows
    assert log.contradictions == () and log.digits == 3
    for radius, published in table.items():
        hits = sum(row.correct and row.radius >= radius for row in log.verdicts)
        assert abs(hits / rows - published) <= 0.005 + 1e-9, radius


@pytest.mark.parametrize(("model", "sigma", "rows", "table", "alpha", "other"), LOGS)
def test_published_logs_give_away_their_alpha(
    model: str, sigma: float, rows: int, table: dict[float, float], alpha: float, other: float
) -> None:
    log, rule = planned(log_file(model, sigma), sigma, 0.001)
    found = implied_alpha(log, rule)
    assert found is not None
    assert found[1] <= alpha <= found[2]
    assert found[2] < 2 * found[1]
    wrong = 0.01 if alpha == 0.001 else 0.001
    met, told = reachable(log, rule, alpha, "nearest")
    assert met == told >= 20
    met, told = reachable(log, rule, wrong, "nearest")
    assert met / told <= other
    for asked, good in ((alpha, True), (wrong, False)):
        draft = Draft()
        named = planned(log_file(model, sigma), sigma, asked)[1]
        reading = read_settings(log, named)
        add_log_estimates(draft, log, named, reading)
        find_in_log(draft, log, named, reading)
        assert reading.alpha == alpha
        ids = {row.id: row for row in draft.findings}
        assert ("certify.consistent-log" in ids) == good
        assert good or next(iter(ids.values())).severity == "high"
        assert draft.row("implied_alpha").value == alpha


def predictions(draws: int) -> Path:
    path = DATA / "smoothing_logs" / f"predict_imagenet_resnet50_noise_0.25__test_N_{draws}.tsv"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the logs")
    return path


def test_a_log_of_predictions_is_no_log_of_certificates() -> None:
    log = read_log(predictions(100))
    assert not log.certified and len(log.verdicts) == 500 and log.radii.size == 0
    draft = drafted(AUDIT, {"from_log": (f"few={predictions(100)}", f"many={predictions(100_000)}")})
    lines = [line.split("\t") for line in predictions(100_000).read_text().splitlines()[1:]]
    right = sum(line[1] == line[2] for line in lines) / len(lines)
    assert draft.row("prediction_accuracy", log="many").value == pytest.approx(right)
    assert draft.row("abstention_rate", log="few").value > draft.row("abstention_rate", log="many").value
    # More draws answer where few abstain.
    found = draft.row("prediction_accuracy_difference", log="many", against="few")
    assert found.low is not None and found.low > 0
    assert "certified_accuracy" not in {row.name for row in draft.estimates}


def test_published_logs_are_compared_image_by_image() -> None:
    paths = {sigma: log_file("cifar10_resnet110", sigma) for sigma in (0.25, 0.5)}
    given = {"from_log": tuple(f"s{sigma}={path}" for sigma, path in paths.items()), "log_sigma": ("s0.5=0.5",)}
    draft = drafted(AUDIT, {**given, "sigma": 0.25, "alpha": 0.01, "radii": ("0.25", "0.5", "0.75", "1")})
    reached = {
        sigma: {row.index: row.radius if row.correct else -1.0 for row in read_log(path).verdicts}
        for sigma, path in paths.items()
    }
    for radius in (0.25, 0.5, 0.75, 1.0):
        apart = [(reached[0.5][i] >= radius) - float(reached[0.25][i] >= radius) for i in reached[0.25]]
        row = draft.row("certified_accuracy_difference", log="s0.5", against="s0.25", radius=radius)
        assert row.value == pytest.approx(float(np.mean(apart))) and row.n == 500
    # As the published table says: at 1 the network that was trained under more noise alone reaches.
    assert row.value == pytest.approx(0.234)
    assert [claim.id for claim in draft.findings].count("certify.consistent-log") == 2


class Image:
    """Stands in for an image whose top class has a known probability."""

    index, seconds = 0, 0.0

    def __init__(self, top: float, rng: np.random.Generator) -> None:
        self.top, self.rng = top, rng
        self.known: dict[str, tuple[int, int]] = {}

    def clean(self) -> int:
        return 0

    def save(self) -> None:
        pass

    def until(self, stream: str, draws: int) -> VoteCounts:
        before, hits = self.known.get(stream, (0, 0))
        hits += int(self.rng.binomial(draws - before, self.top))
        self.known[stream] = (draws, hits)
        votes = torch.tensor([hits, draws - hits, *([0] * 8)])
        return VoteCounts(draws, votes, votes * 0, votes * 0)


def tops() -> Floats:
    """Return the top-class probabilities behind the CIFAR log at .5; abstentions lie somewhere below one half."""
    rng = np.random.default_rng(0)
    found = []
    for row in read_log(log_file("cifar10_resnet110", 0.5)).verdicts:
        low = float(norm.cdf(row.radius / 0.5))
        # The limit lies a quantile of alpha = .01 under the share of 100 000 votes.
        near = low + float(norm.isf(0.01)) * np.sqrt(low * (1 - low) / 100_000)
        found.append(rng.uniform(0.3, 0.5) if row.predict < 0 else min(near, 1 - 1e-6))
    return np.array(found)


def drawn(mode: Any, seed: int, *radii: float) -> tuple[Floats, Floats]:
    """Return radii and draws of every image."""
    looks = geometric_looks(100_000) if mode == "decide" else (100_000,)
    rule = Rule(
        mode=mode, method="one-sided", geometry=Geometry("l2", 0.5), alpha=0.001, n0=100, n=100_000, looks=looks,
        radii=radii,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    rows: list[Any] = []
    for top in tops():
        image: Any = Image(top, rng)
        row = judge(draw(image, 0, rule), rule)
        rows.append((row.radius if row.correct else -1.0, row.draws))
    table = np.array(rows, dtype=float)
    return table[:, 0], table[:, 1]


@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0])
def test_deciding_a_radius_takes_a_twentieth_of_the_draws(radius: float) -> None:
    fixed, all_draws = drawn("fixed", 1)
    found, draws = drawn("decide", 2, radius)
    assert all_draws.mean() == 100_100
    assert all_draws.mean() >= 20 * draws.mean(), draws.mean()
    assert abs((found >= radius).mean() - (fixed >= radius).mean()) <= 0.004 + 1e-9


def test_a_pilot_keeps_the_radius_at_a_fraction_of_the_draws() -> None:
    fixed, all_draws = drawn("fixed", 1)
    found, draws = drawn("pilot", 2)
    assert all_draws.mean() >= 3.5 * draws.mean(), draws.mean()
    certified = fixed > 0
    assert np.maximum(found[certified], 0).mean() >= 0.97 * fixed[certified].mean()
    assert np.maximum(found, 0).mean() >= 0.97 * np.maximum(fixed, 0).mean()
    assert (found >= 0).mean() >= (fixed >= 0).mean() - 0.01
