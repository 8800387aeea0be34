"""How sure is a proportion of independent trials?"""


def clopper_pearson(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion (Clopper and Pearson 1934).

    The ends are beta quantiles, low = B(a/2; k, n - k + 1) and high = B(1 - a/2; k + 1, n - k) with
    a = 1 - level; coverage is at least `level` whatever the true proportion.

    Raises
    ------
    ValueError
        Unless 0 <= successes <= trials and trials > 0.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 24)
    >>> low, round(high, 4), round(1 - 0.025 ** (1 / 24), 4)
    (0.0, 0.1425, 0.1425)
    """
    from scipy.stats import beta

    _check(successes, trials)
    tail = (1.0 - level) / 2
    low = float(beta.ppf(tail, successes, trials - successes + 1)) if successes > 0 else 0.0
    high = float(beta.ppf(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


def wilson(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a proportion (Wilson 1927): shorter than exact, right on average.

    Raises
    ------
    ValueError
        Unless 0 <= successes <= trials and trials > 0.

    Examples
    --------
    >>> low, high = wilson(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    >>> wilson(0, 10)[0], wilson(10, 10)[1]
    (0.0, 1.0)
    """
    from statsmodels.stats.proportion import proportion_confint

    _check(successes, trials)
    low, high = proportion_confint(successes, trials, alpha=1.0 - level, method="wilson")
    # Rounding would put the end of an interval of nothing, or of all, beside the proportion.
    return 0.0 if successes == 0 else float(low), 1.0 if successes == trials else float(high)


def _check(successes: int, trials: int) -> None:
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"need 0 <= successes <= trials and trials > 0, got {successes} of {trials}")
