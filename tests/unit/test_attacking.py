"""Are the draws that judge an attack of a seed of their own, and of the very image that the attack made?"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audits.certification import Options, attacking
from audits.certification.attacking import AttackJob, attack_image
from audits.certification.rules import rule_of
from audits.core.context import Cache
from probes.classifiers.noise import Noise
from probes.classifiers.smoothing import Sampler
from probes.core.executor import one_thread

SHAPE, SIGMA = (1, 4, 4), 0.5


class Bright(nn.Module):
    """Class 0 where the mean of the pixels is above one half."""

    def forward(self, pixels: Tensor) -> Tensor:
        far = pixels.flatten(1).mean(1) - 0.5
        return torch.stack([far, -far], 1)


def sampler(seed: int) -> Sampler:
    noise = Noise("gaussian", SIGMA)
    return Sampler(Bright(), classes=2, noise=noise, seed=seed, device="cpu", dtype="float32", batch=16)


@pytest.fixture
def job(tmp_path: Path) -> AttackJob:
    # All that an attack asks of the job of its image.
    image: Any = SimpleNamespace(
        cache=Cache(tmp_path),
        key=["image"],
        index=3,
        rule=rule_of(Options(sigma=SIGMA, n0=16, n=400), images=1),
        setting=SimpleNamespace(seed=5),
    )
    return AttackJob(image=image, top=0, multiple=1, length=0.25, steps=2, draws=4)


def test_seeds_are_those_of_no_other_attack_nor_of_the_certificate(job: AttackJob) -> None:
    others = [replace(job, multiple=2), replace(job, steps=3), replace(job, draws=5), job]
    assert len({5, *(one.seed for one in others)}) == 5
    assert all(0 <= one.seed < 2**63 for one in others)


def test_votes_belong_to_what_the_attack_made(job: AttackJob) -> None:
    with one_thread():
        light, dark = (
            job.counted({"pixels": torch.full(SHAPE, level), "blind": torch.tensor(0)}, lambda: sampler(job.seed))
            for level in (0.55, 0.45)
        )
    # Made again on another card, the image may be another: its votes are drawn anew.
    assert light.votes[0] > 220 and dark.votes[1] > 220


def test_votes_are_drawn_with_the_seed_of_the_attack_and_not_of_the_certificate(
    job: AttackJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, pixels = sampler(5), np.full(SHAPE, 0.55, dtype=np.float32)
    bench = SimpleNamespace(sampler=lambda: shared, pixels=lambda image: pixels)
    monkeypatch.setattr(attacking, "bench_of", lambda setting: bench)
    with one_thread():
        attack_image(job)
        found = job.stored()
        made = job.image.cache.read(attacking.KIND, job.key)
        assert found is not None and made is not None
        own, other = (
            sampler(seed).count_votes(made["pixels"], 3, "estimation", 0, 400).votes.tolist() for seed in (job.seed, 5)
        )
    assert found.votes.tolist() == own != other
    assert shared.seed == 5
