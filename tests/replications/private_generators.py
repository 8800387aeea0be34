"""Private GANs and diffusion models (arXiv 2509.03341) against what miles finds: leaks by access, and with privacy.

Both are trained on the same members, batch for batch; attacks and timestep are fixed beforehand, so none is chosen.
"""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from replicating import Claim, Found, Given, Paper, estimate, main, mean_of
from sklearn.datasets import load_digits
from torch import nn

from miles_cli import run
from probes.generators.accounting import noise_for
from probes.generators.diffusion import Denoiser, linear, sample
from probes.generators.generative_networks import fresh_denoiser, fresh_gan
from probes.generators.generative_training import sample_gan
from probes.generators.private_training import save_private, train_private_denoiser, train_private_gan

PAPER = Paper(
    "On the MIA vulnerability gap between private GANs and diffusion models",
    "Sebag, Franceschi, Rakotomamonjy, Allauzen, Atif (2025)",
    "2509.03341",
)
TRAINED = "100 members among the digits of 8 by 8 pixels, 2,000 steps"
SHORT = TRAINED.replace("2,000", "600")
LESS = "AUC on the diffusion model less that on the GAN"
CLAIMS = {
    "weights": Claim(
        says="Diffusion models give away their training points more than GANs do.",
        source="abstract",
        measured=f"{LESS}, attacker with the weights that generate (sima at step 50, latent search); {TRAINED}, no "
        "privacy",
        above=0,
    ),
    "samples": Claim(
        says="The same, for an attacker who has samples alone.",
        source="abstract, which names no access",
        measured=f"{LESS}, distance to the nearest of 1,000 samples; {TRAINED}, no privacy",
        above=0,
    ),
    "released": Claim(
        says="The same, where the GAN's discriminator is released too.",
        source="abstract, which names no access",
        measured=f"{LESS}, attacker with all that was trained (sima at step 50, discriminator); {TRAINED}, no privacy",
        above=0,
    ),
    "private": Claim(
        says="The gap stays where both are trained with a strong privacy budget.",
        source="abstract; the budget is ours",
        measured=f"{LESS}, attacker with the weights that generate; {SHORT}, epsilon 10 and delta 1e-3 by DP-SGD",
        above=0,
    ),
    "stable": Claim(
        says="GANs are less sensitive to a change of the data, which is why they leak less.",
        source="abstract, shown there by an analysis of stability; what is compared is ours",
        measured="Log ratio, GAN by diffusion model, of how far the weights that generate move when one member is "
        f"replaced, as a share of their way in training; {SHORT}, same start, batches and noise",
        below=0,
    ),
    "type_alone": Claim(
        says="The kind of model makes the gap, not how much it learnt: the GAN covers no less.",
        source="abstract, that the type alone can shape the leak; the comparison is ours",
        measured=f"Recall of non-members by samples of the GAN less that of the diffusion model; {TRAINED}, no privacy",
        above=0,
    ),
    "theorem": Claim(
        says="The bounds of stability are lower for GANs.",
        source="abstract",
        untried="A bound of the analysis needs constants of the loss that no measurement gives.",
    ),
}
MEMBERS, EPSILON, DELTA, RATE, HIDDEN, STEP = 100, 10.0, 1e-3, 0.32, 128, 50
SUITE = """[[model]]
name = "ddpm"
denoiser = "ddpm.pt"
arch = "mlp-denoiser"
schedule = "linear"
samples = "ddpm.npy"

[[model]]
name = "gan"
generator = "gan.pt"
arch = "mlp-generator"
discriminator = "discriminator.pt"
samples = "gan.npy"
"""


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    of = partial(mean_of, level=given.level, unit="seeds")
    numbers = range(given.size(5, 2))
    plain = [audited(given, seed, private=False) for seed in numbers]
    private = [audited(given, seed, private=True) for seed in numbers]
    return {
        "weights": of([one["weights"] for one in plain]),
        "samples": of([one["samples"] for one in plain]),
        "released": of([one["released"] for one in plain]),
        "private": of([one["weights"] for one in private]),
        "stable": of([moved(given, seed) for seed in numbers]),
        "type_alone": of([one["recall"] for one in plain]),
    }


@cache
def digits(seed: int) -> Any:
    images = np.asarray(load_digits().images, dtype=np.float32)[:, None] / 8 - 1
    return images[np.random.default_rng(seed).permutation(len(images))]


def trained(given: Given, members: Any, seed: int, steps: int, *, private: bool) -> tuple[Any, Any]:
    """Return a diffusion model and a GAN, and what is charged of each."""
    steps = given.size(steps, 10)
    noise = noise_for(EPSILON, DELTA, RATE, steps) if private else 1.0
    common: dict[str, Any] = {"noise_multiplier": noise, "sample_rate": RATE, "steps": steps, "private": private}
    common |= {"hidden": HIDDEN, "seed": seed}
    ddpm = train_private_denoiser(members, alphas_bar=linear(), multiplicity=1, **common)
    return ddpm, train_private_gan(members, rate=1e-3, **common)


def audited(given: Given, seed: int, *, private: bool) -> dict[str, float]:
    """Return what the audit finds of both models: differences in AUC by access, and in recall."""
    folder = given.work / f"{'private' if private else 'plain'}-{seed}"
    if not (folder / "suite.toml").exists():
        write(given, folder, seed, private=private)
    report = run(
        "membership",
        **{name: folder / f"{name}.npy" for name in ("members", "nonmembers")},
        suite=folder / "suite.toml",
        attack=["nearest", "sima", "latent-search", "discriminator"],
        timesteps=[str(STEP)],
        blind=False,
        level=given.level,
        out=folder / "run",
        force=True,
    )
    of = partial(estimate, report)
    ddpm, gan = ({"model": name} for name in ("ddpm", "gan"))
    sima = of("auc", attack="sima", **ddpm).value
    return {
        "weights": sima - of("auc", attack="latent-search", **gan).value,
        "samples": of("auc", attack="nearest", **ddpm).value - of("auc", attack="nearest", **gan).value,
        "released": sima - of("auc", attack="discriminator", **gan).value,
        "recall": of("utility", measure="recall", **gan).value - of("utility", measure="recall", **ddpm).value,
    }


def write(given: Given, folder: Path, seed: int, *, private: bool) -> None:
    """Train both models and write weights, samples and points; the suite last, which says that all is there."""
    folder.mkdir(exist_ok=True)
    points = digits(seed)
    members, others = points[:MEMBERS], points[MEMBERS : given.size(5, 2) * MEMBERS]
    (ddpm, spent), (made, judge, charged) = trained(given, members, seed, 600 if private else 2000, private=private)
    for name, part in (("members", members), ("nonmembers", others), ("gan", sample_gan(made, 1000, seed=seed))):
        np.save(folder / f"{name}.npy", part)
    whole: dict[str, Any] = {"alphas_bar": linear(), "prediction": "epsilon", "family": "mlp-denoiser"}
    whole |= {"shape": members.shape[1:], "path": "ddpm", "sha256": "", "parameters": 0}
    count = given.size(1000, 50)
    np.save(folder / "ddpm.npy", np.asarray(sample(Denoiser(module=ddpm, **whole), count, seed=seed, steps=50)))
    for name, network, history in (("ddpm", ddpm, spent), ("gan", made, charged), ("discriminator", judge, charged)):
        save_private(folder / f"{name}.pt", network, history)
    (folder / "suite.toml").write_text(SUITE, encoding="utf-8")


def moved(given: Given, seed: int) -> float:
    """Return the log ratio, GAN by diffusion model, of how far one replaced member moves the weights."""
    points = digits(seed)
    replaced = np.concatenate([points[-1:], points[1:MEMBERS]])
    pair = [trained(given, part, seed, 600, private=False) for part in (points[:MEMBERS], replaced)]
    shape = points.shape[1:]
    start = (
        fresh_denoiser(shape, hidden=HIDDEN, layers=3, seed=seed),
        fresh_gan(shape, latent=32, hidden=HIDDEN, seed=seed),
    )
    shares = [
        apart(pair[0][kind][0].parameters(), pair[1][kind][0].parameters())
        / apart(pair[0][kind][0].parameters(), begun)
        for kind, begun in enumerate((start[0].parameters(), start[1][0].parameters()))
    ]
    return float(np.log(shares[1] / shares[0]))


def apart(some: Iterable[nn.Parameter], others: Iterable[nn.Parameter]) -> float:
    pairs = zip(some, others, strict=True)
    return float(torch.stack([(one - other).detach().square().sum() for one, other in pairs]).sum().sqrt())


if __name__ == "__main__":
    main("private_generators", PAPER, CLAIMS, measured)
