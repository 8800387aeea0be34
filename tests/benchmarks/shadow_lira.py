"""What do shadow models add to a global threshold, and what does the same noise for all models add to both?

Run `python tests/benchmarks/shadow_lira.py [--models 16] [--steps 4000] [--workers 1] [--parts attacks,command]`. Small
diffusion models are trained on complementary halves of 1000 of scikit-learn's digits. Each in turn is the target, and
all but itself and its complement are its shadows; the table shows means over targets, beside EXPECTED: what a separate
implementation gave once, with halves of its own. `command` times `miles membership --shadows 16` on a model of the same
size, from its start to the written report, with an empty cache and a process for each core: do so on a quiet machine.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

ROOT = Path(__file__).resolve().parents[2]
POINTS, HIDDEN, LAYERS, BATCH, RATE = 1000, 128, 2, 128, 1e-3
SETTINGS: Mapping[str, tuple[tuple[int, ...], int]] = {
    "t = 50, 1 draw": ((50,), 1),
    "t = 50, 4 draws": ((50,), 4),
    "t = 50, 16 draws": ((50,), 16),
    "t = 50, 100, 200, 16 draws": ((50, 100, 200), 16),
}
ATTACKS: Mapping[str, tuple[str, str]] = {
    "LiRA online, pooled": ("online", "pooled"),
    "LiRA online, per point": ("online", "per-point"),
    "LiRA offline, pooled": ("offline", "pooled"),
    "LiRA offline two-sided, pooled": ("offline-two-sided", "pooled"),
}
THRESHOLD = "global threshold"
EXPECTED: Mapping[tuple[str, str, str], tuple[float, float | None]] = {
    ("common", "t = 50, 1 draw", "LiRA offline, pooled"): (0.586, None),
    ("common", "t = 50, 4 draws", THRESHOLD): (0.541, 0.015),
    ("common", "t = 50, 4 draws", "LiRA online, pooled"): (0.595, 0.037),
    ("common", "t = 50, 4 draws", "LiRA online, per point"): (0.575, 0.021),
    ("common", "t = 50, 4 draws", "LiRA offline, pooled"): (0.634, 0.040),
    ("common", "t = 50, 16 draws", "LiRA offline, pooled"): (0.668, None),
    ("common", "t = 50, 100, 200, 16 draws", THRESHOLD): (0.567, 0.017),
    ("common", "t = 50, 100, 200, 16 draws", "LiRA online, pooled"): (0.646, 0.051),
    ("common", "t = 50, 100, 200, 16 draws", "LiRA offline, pooled"): (0.677, 0.061),
    ("fresh", "t = 50, 4 draws", "LiRA online, pooled"): (0.514, None),
    ("fresh", "t = 50, 4 draws", "LiRA offline, pooled"): (0.544, None),
}


def digits(seed: int) -> Singles:
    """Return digits in random order, (1797, 1, 8, 8) from -1 to 1."""
    from sklearn.datasets import load_digits

    images = np.asarray(load_digits().images, dtype=np.float32)[:, None] / 8 - 1
    return images[np.random.default_rng(seed).permutation(len(images))]


def train(points: Singles, kept: Bools, steps: int, seed: int) -> Any:
    """Train one model on some of the points, as the audit trains a shadow model."""
    from probes.core.executor import one_thread
    from probes.generators.diffusion import Denoiser, linear
    from probes.generators.generative_networks import fresh_denoiser
    from probes.generators.generative_training import fit_denoiser

    module = fresh_denoiser(points.shape[1:], hidden=HIDDEN, layers=LAYERS, seed=seed)
    with one_thread():
        fit_denoiser(
            module, points[kept], alphas_bar=linear(), steps=steps, batch=BATCH, rate=RATE, seed=seed, label=f"{seed}"
        )
    return Denoiser(
        module=module,
        alphas_bar=linear(),
        prediction="epsilon",
        shape=points.shape[1:],
        path=f"model {seed}",
        family="mlp-denoiser",
        sha256="",
        parameters=sum(weight.numel() for weight in module.parameters()),
    )


def statistics(
    models: Sequence[Any], points: Singles, steps: Sequence[int], draws: int, *, common: bool, seed: int
) -> Floats:
    """Return minus the logarithm of the loss, (models, points, steps), under common or fresh noise."""
    from probes.core.progress import Silent
    from probes.generators.attacks.denoiser import Request, score_denoiser

    asked = [Request("loss", step) for step in steps]
    how: dict[str, Any] = {"draws": draws, "batch": 512, "device": "cpu", "dtype": "float32", "cache": None}
    rows = []
    for place, model in enumerate(models):
        own = seed if common else seed + 1 + place
        found = score_denoiser(model, points, asked, seed=own, **how, progress=Silent(), label="")
        rows.append(np.stack([-np.log(-found[one]) for one in asked], axis=1))
    return np.stack(rows)


def scored(stats: Floats, keep: Bools, target: int) -> dict[str, Floats]:
    """Return the scores of each attack on one of the models."""
    from probes.generators.attacks.likelihood_ratios import left_out, lira

    chosen = left_out(keep, target)
    found = {THRESHOLD: stats[target].mean(axis=1)}
    for name, (mode, variance) in ATTACKS.items():
        how: Any = {"mode": mode, "variance": variance}
        ratios = lira(stats[target], stats[chosen], keep[chosen], **how)
        assert ratios.scored.all()
        found[name] = ratios.scores
    return found


def attack(given: argparse.Namespace) -> None:
    """Print the table of attacks."""
    from joblib import Parallel, delayed

    from audits.statistics.roc import area, call_at, roc
    from probes.generators.shadows import complementary_halves

    points = digits(given.seed)[:POINTS]
    keep = complementary_halves(given.models, POINTS, given.seed)
    start = time.perf_counter()
    jobs = (delayed(train)(points, kept, given.steps, given.seed * 1000 + place) for place, kept in enumerate(keep))
    models = Parallel(n_jobs=given.workers)(jobs)
    print(
        f"{given.models} models of {models[0].parameters:,} weights trained for {given.steps:,} steps in "
        f"{time.perf_counter() - start:.0f} s by {given.workers} processes (load {os.getloadavg()[0]:.1f})",
        flush=True,
    )
    print(f"{'noise':<8}{'settings':<28}{'attack':<32}{'AUC':>7}{'s.e.':>7}{'TPR at 1 %':>12}{'expected':>16}")
    for noise in ("common", "fresh"):
        for setting, (steps, draws) in SETTINGS.items():
            stats = statistics(models, points, steps, draws, common=noise == "common", seed=given.seed)
            rows: dict[str, list[tuple[float, float]]] = {}
            for target, kept in enumerate(keep):
                for name, scores in scored(stats, keep, target).items():
                    met = call_at(roc(scores, kept), 0.01)
                    rows.setdefault(name, []).append((area(scores, kept).value, met.hits / met.members))
            for name, pairs in rows.items():
                areas, hits = np.array(pairs).T
                known = EXPECTED.get((noise, setting, name))
                beside = "" if known is None else " ".join("-" if one is None else f"{one:.3f}" for one in known)
                # Targets share points and shadows: their scatter is a hint, no standard error of a mean over splits.
                spread = areas.std(ddof=1) / np.sqrt(len(areas))
                print(
                    f"{noise:<8}{setting:<28}{name:<32}{areas.mean():>7.3f}{spread:>7.3f}{hits.mean():>12.3f}"
                    f"{beside:>16}",
                    flush=True,
                )


def cpu(whose: int) -> float:
    """Return the seconds that this process, or those that it started, have computed."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def command(given: argparse.Namespace) -> None:
    """Time the whole command."""
    from safetensors.torch import save_file

    points = digits(given.seed)
    member = np.arange(len(points)) < POINTS // 2
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        target = train(points, member, given.steps, 10**6 + given.seed)
        save_file(target.module.state_dict(), folder / "small.safetensors")
        np.save(folder / "members.npy", points[: POINTS // 2])
        np.save(folder / "nonmembers.npy", points[POINTS // 2 : POINTS])
        words = [
            *(sys.executable, "-m", "miles_cli", "membership", "--model", str(folder / "small.safetensors")),
            *("--arch", "mlp-denoiser", "--schedule", "linear", "--shadows", str(given.models)),
            *("--shadow-steps", str(given.steps), "--members", str(folder / "members.npy")),
            *("--nonmembers", str(folder / "nonmembers.npy"), "--out", str(folder / "run"), "--quiet"),
        ]
        environment = {**os.environ, "MILES_CACHE": str(folder / "cache")}
        before, start, used = os.getloadavg()[0], time.perf_counter(), cpu(resource.RUSAGE_CHILDREN)
        subprocess.run(words, cwd=ROOT, env=environment, check=True)
        spent = time.perf_counter() - start
        used = cpu(resource.RUSAGE_CHILDREN) - used
        cores = f"{used:.0f} s of CPU, {os.cpu_count()} cores, load {before:.1f} before"
        print(f"miles membership --shadows {given.models}: {spent:.1f} s, {cores}")
        show(folder / "run")


def show(folder: Path) -> None:
    """Print the seconds of its phases and what the attacks reached."""
    import json

    report = json.loads((folder / "report.json").read_text())
    for phase, seconds in report["provenance"]["seconds"].items():
        print(f"  {phase:<44}{seconds:>8.1f} s")
    for row in report["estimates"]:
        if row["name"] == "auc":
            print(f"  {row['where']['attack']:<44}{row['value']:>8.3f}")


def main() -> None:
    """Read the options."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--parts", default="attacks,command")
    given = parser.parse_args()
    parts = {"attacks": attack, "command": command}
    for part in given.parts.split(","):
        parts[part](given)


if __name__ == "__main__":
    main()
