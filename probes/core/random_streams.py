"""Random numbers of torch: one independent stream for each seed and purpose, none from shared state."""

import numpy as np
import torch


def stream(seed: int, purpose: str) -> torch.Generator:
    """Return a generator for one purpose; those of other purposes and seeds are independent of it."""
    words = np.random.SeedSequence([seed, *purpose.encode()])
    # 32 bits: a generator of torch on the CPU keeps no more of a seed.
    return torch.Generator().manual_seed(int(words.generate_state(1)[0]))
