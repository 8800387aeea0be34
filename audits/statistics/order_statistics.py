"""Which of sorted values enclose a quantile of what they were drawn from, whatever its distribution.

David and Nagaraja (2003). Order statistics. Wiley, section 7.1.
"""


def enclosing(n: int, share: float, level: float) -> tuple[int, int] | None:
    """Return the places, from 0, of two of n sorted values between which a quantile lies, or None for too few values.

    How many independent values lie below the quantile is binomial. Each end is missed by at most half of what the level
    leaves; ends that come closest to the quantile are taken.

    Parameters
    ----------
    share
        Of the distribution below the quantile: 0.5 for the median.
    level
        Confidence level.

    Examples
    --------
    >>> enclosing(9, 0.5, 0.95), enclosing(100, 0.5, 0.95), enclosing(5, 0.5, 0.95)
    ((1, 7), (39, 60), None)
    """
    from scipy.stats import binom

    tail = (1 - level) / 2
    low, high = int(binom.ppf(tail, n, share)) - 1, int(binom.ppf(1 - tail, n, share))
    return (low, high) if low >= 0 and high < n else None
