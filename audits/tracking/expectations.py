"""Formulas of what a network that follows pointers gets right, by its layers and heads."""

import math


def expected_loss(layers: int, depth: int, chains: int) -> float:
    """Return the loss of a network that follows 2^L - 1 steps and guesses among the chains beyond, in nats.

    >>> round(expected_loss(1, 16, 4), 3), round(expected_loss(4, 16, 4), 3)
    (1.223, 0.082)
    """
    beyond = max(depth - (2**layers - 1), 0)
    return float(beyond / (depth + 1) * math.log(chains))


def expected_share(heads: int, properties: int, chains: int) -> float:
    """Return the share of properties right where H of P are followed and the others guessed.

    >>> expected_share(1, 2, 4), expected_share(2, 2, 4)
    (0.625, 1.0)
    """
    followed = min(heads / properties, 1.0)
    return followed + (1 - followed) / chains
