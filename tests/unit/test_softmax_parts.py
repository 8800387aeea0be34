"""Are speaker probes the same where their scores are held in parts?"""

import numpy as np
import pytest
import torch

from probes.speech import softmax_probes
from probes.speech.softmax_probes import softmax_probe


@pytest.mark.parametrize("own_items", [False, True])
def test_scores_in_parts_give_the_same_probes(monkeypatch: pytest.MonkeyPatch, own_items: bool) -> None:
    rng = np.random.default_rng(1)
    labels = torch.from_numpy(rng.integers(0, 5, (2, 60) if own_items else 60))
    features = torch.from_numpy(rng.normal(size=(2, 60, 8)).astype(np.float32)) + labels[..., None] * 0.3
    shares = torch.from_numpy(rng.uniform(0.5, 1, (2, 60)).astype(np.float32))
    whole = softmax_probe(features, labels, 5, shares=shares)
    sizes: list[int] = []
    part = softmax_probes._part

    def noted(point: torch.Tensor, design: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(2 * design.shape[1] * 5)
        return part(point, design, *more)

    monkeypatch.setattr(softmax_probes, "_part", noted)
    monkeypatch.setattr(softmax_probes, "LARGEST", 130)
    found = softmax_probe(features, labels, 5, shares=shares)
    assert max(sizes) == 130 and min(sizes) == 80
    for one, other in zip(whole, found, strict=True):
        assert torch.allclose(one, other, atol=2e-3)
