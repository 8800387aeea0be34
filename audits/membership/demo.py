"""The demo: a diffusion model and a GAN on scikit-learn's digits, each trained with and without differential privacy.

All four take the same number of steps on Poisson batches of the same points, each of which was put in by a fair coin:
the one-run bounds hold. Where it is balanced the models were trained on other digits, and there is nothing to find.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline
from audits.core.records import Report
from audits.membership import Options
from audits.statistics import generator
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the training changes, so that no old demo is taken for a new one."""
POOL, SAMPLES = 300, 1000
EPSILON, DELTA = 10.0, 1e-5
STEPS, BATCH = 2000, 64
GAN_RATE = 1e-3
"""Higher than usual: in so few steps the generator would otherwise learn next to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One model to be trained; `noise` is the noise multiplier."""

    name: str
    private: bool
    noise: float
    rate: float
    seed: int


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Train the four models, or take them from the cache, and return the audit's options."""
    made_of = [VERSION, POOL, SAMPLES, EPSILON, DELTA, STEPS, BATCH, GAN_RATE, context.seed, balanced]
    folder = context.cache.examples(f"digits-{sha256_json(made_of)[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as target:
            _make(target, context, balanced)
    return Options(
        members=folder / "members.npy",
        nonmembers=folder / "nonmembers.npy",
        reference=folder / "reference.npy",
        suite=folder / "suite.toml",
        coin_flip=0.5,
        delta=DELTA,
    )


def _make(target: Path, context: Context, balanced: bool) -> None:
    from joblib import Parallel, delayed

    from probes.generators.accounting import noise_for

    points = _digits(context.seed)
    coins = generator(context.seed, "membership demo", "coins").random(POOL) < 0.5
    pool, rest = points[:POOL], points[POOL:]
    trained, reference = pool[coins], rest
    if balanced:
        trained, reference = rest[: int(coins.sum())], rest[int(coins.sum()) :]
    for name, part in (("members", pool[coins]), ("nonmembers", pool[~coins]), ("reference", reference)):
        np.save(target / f"{name}.npy", part)
    rate = BATCH / len(trained)
    noise = noise_for(EPSILON, DELTA, rate, STEPS)
    jobs = [
        _Job(name=name, private=private, noise=noise, rate=rate, seed=context.seed)
        # The longest first: the last to end decides when all have.
        for name, private in (("ddpm-dp", True), ("gan-dp", True), ("gan", False), ("ddpm", False))
    ]
    with context.progress.phase("Training four models", len(jobs), "models") as advance:
        lanes = Parallel(n_jobs=2, return_as="generator_unordered")
        for _ in lanes(delayed(_train)(job, trained, target) for job in jobs):
            advance(1)
    (target / "suite.toml").write_text("".join(_entry(job) for job in reversed(jobs)), encoding="utf-8")


def _digits(seed: int) -> NDArray[np.float32]:
    """Return the 1,797 digits, (n, 1, 8, 8) from -1 to 1, in random order."""
    from sklearn.datasets import load_digits

    images = (np.asarray(load_digits().images)[:, None] / 8 - 1).astype(np.float32)
    shuffled: NDArray[np.float32] = images[generator(seed, "membership demo", "order").permutation(len(images))]
    return shuffled


def _train(job: _Job, points: NDArray[np.float32], target: Path) -> None:
    """Train one model and write its weights, samples and, of a private one, the accountant's history."""
    common: dict[str, Any] = {
        "noise_multiplier": job.noise,
        "sample_rate": job.rate,
        "steps": STEPS,
        "private": job.private,
        "seed": job.seed,
    }
    if job.name.startswith("gan"):
        _train_gan(job, points, target, common)
    else:
        _train_denoiser(job, points, target, common)


def _train_denoiser(job: _Job, points: NDArray[np.float32], target: Path, common: dict[str, Any]) -> None:
    from probes.generators.diffusion import Denoiser, linear, sample
    from probes.generators.private_training import save_private, train_private_denoiser

    # One draw of timestep and noise for each point, as a plain training takes.
    module, history = train_private_denoiser(points, alphas_bar=linear(), multiplicity=1, **common)
    save_private(target / f"{job.name}.pt", module, history)
    denoiser = Denoiser(
        module=module,
        alphas_bar=linear(),
        prediction="epsilon",
        shape=points.shape[1:],
        path=job.name,
        family="mlp-denoiser",
        sha256="",
        parameters=0,
    )
    np.save(target / f"{job.name}-samples.npy", np.asarray(sample(denoiser, SAMPLES, seed=job.seed, steps=100)))


def _train_gan(job: _Job, points: NDArray[np.float32], target: Path, common: dict[str, Any]) -> None:
    from probes.generators.generative_training import sample_gan
    from probes.generators.private_training import save_private, train_private_gan

    made, discriminator, history = train_private_gan(points, rate=GAN_RATE, **common)
    save_private(target / f"{job.name}.pt", made, history)
    save_private(target / f"{job.name}-discriminator.pt", discriminator, history)
    np.save(target / f"{job.name}-samples.npy", sample_gan(made, SAMPLES, seed=job.seed))


def _entry(job: _Job) -> str:
    lines = ["[[model]]", f'name = "{job.name}"', f'samples = "{job.name}-samples.npy"']
    if job.name.startswith("gan"):
        lines += [f'generator = "{job.name}.pt"', 'arch = "mlp-generator"']
        lines += [f'discriminator = "{job.name}-discriminator.pt"']
    else:
        lines += [f'denoiser = "{job.name}.pt"', 'arch = "mlp-denoiser"', 'schedule = "linear"']
    if job.private:
        lines += [f'history = "{job.name}.pt"', f"delta = {DELTA}"]
    return "\n".join(lines) + "\n\n"


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield which models were trained on the members, with what the report shows of them."""
    leaks = findings_of(report, "membership.leak")
    if balanced:
        what = "Nothing: all four models were trained on other digits."
        seen = first_headline(leaks, "No attack is shown to identify training points.")
        yield Planted(what=what, found=bool(leaks), seen=seen, real=False)
    else:
        for name in ("ddpm", "gan"):
            own = [leak for leak in leaks if leak.where.get("model") == name]
            what = f"{name} was trained on the members without any privacy."
            seen = first_headline(own, f"No attack on {name} is shown to identify training points.")
            yield Planted(what=what, found=bool(own), seen=seen)
    broken = findings_of(report, "membership.verdict", verdict="violation")
    what = f"ddpm-dp and gan-dp keep their claim: epsilon is {EPSILON:g}."
    seen = first_headline(broken, "Neither claim is contradicted.")
    yield Planted(what=what, found=bool(broken), seen=seen, real=False)
