"""Score points by a discriminator that is trained to tell samples from fresh data."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from probes.core.executor import one_thread
from probes.core.progress import Progress, Silent
from probes.generators.attacks.samples import Points, Singles, blocks, check_widths, taken

Floats = NDArray[np.float64]

MOST = 20_000
"""Points of one side on which the network is trained; of more, a random part."""
HIDDEN, STEPS, BATCH, RATE = 256, 2000, 128, 1e-3
NOISE = 0.25
"""Standard deviation of the noise in training, in units of the points' own spread.

Without it the network learns to know samples by their finest texture, which says nothing of any one point.
"""


def shadow_discriminator(
    x: Points, samples: Points, reference: Points, *, seed: int, progress: Progress | None = None
) -> Floats:
    """Score points by the logit of a network trained on samples against reference points, shape (points,).

    The black-box attack of Hayes, Melis, Danezis and De Cristofaro (2019, "LOGAN", section 4.3), with data that the
    model has not seen as the other side. None of `x` may be among the reference. Every batch is half samples, half
    reference, whatever their numbers; all coordinates are scaled by one factor, so that those that hardly vary do not
    decide.
    """
    check_widths(x, samples)
    check_widths(x, reference)
    rng = np.random.default_rng(seed)
    sides = [taken(side, MOST, rng) for side in (samples, reference)]
    centre = np.mean([side.mean(0, dtype=np.float64) for side in sides], axis=0)
    # Points that are all equal have no spread; any scale will do.
    spread = np.sqrt(np.mean([np.square(side - centre).mean() for side in sides])) or 1.0
    network = _trained([_scaled(side, centre, spread) for side in sides], seed, progress or Silent())
    scores = np.empty(len(x))
    with torch.no_grad():
        for part, own in blocks(x, 4096):
            scores[part] = network(_scaled(own, centre, spread))[:, 0].numpy()
    return scores


def weighed(width: int) -> int:
    """Return the points that training passes through the network, times its weights: what training costs."""
    weights = width * HIDDEN + HIDDEN**2 + HIDDEN
    # A step goes forwards once and backwards for about two.
    return 3 * STEPS * BATCH * weights


def _scaled(rows: Singles, centre: Floats, spread: float) -> Tensor:
    return torch.from_numpy(((rows - centre) / spread).astype(np.float32))


def _trained(sides: list[Tensor], seed: int, progress: Progress) -> nn.Module:
    width, draws = sides[0].shape[1], torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inner = (nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        network = nn.Sequential(*inner, nn.Linear(HIDDEN, 1))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, fused=True)
    half = BATCH // 2
    made = torch.arange(BATCH)[:, None].lt(half).float()
    with one_thread(), progress.phase("Shadow discriminator", STEPS, "steps") as advance:
        for _ in range(STEPS):
            batch = torch.cat([side[torch.randint(len(side), (half,), generator=draws)] for side in sides])
            batch += NOISE * torch.randn(batch.shape, generator=draws)
            optimiser.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(network(batch), made).backward()
            optimiser.step()
            advance(1)
    return network
