"""How often may something go wrong by chance?"""

from scipy.stats import binom


def at_most(level: float, trials: int, sure: float = 0.999) -> int:
    """Return how many of the trials may go wrong by chance where the true share is the level."""
    return int(binom.ppf(sure, trials, level))
