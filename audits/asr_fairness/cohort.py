"""The speakers and groups, with bootstrap samples of the speakers and of the deals of their clips over the folds.

Another deal gives other errors of speaker identification. Its noise in which speakers are independent shows in their
spread, and so in every interval over speakers. What one deal does to all of them at once does not. So each rate and
each gap has, beside the variance over speakers, that between deals over their number, with the Student factor of so
few deals. What is independent is then counted twice, which makes intervals a little too long.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audits.asr_fairness import Options
from audits.asr_fairness.counts import Floats, TaskCounts, sums_of
from audits.asr_fairness.recordings import Inputs
from audits.core.groups import reported_groups
from audits.core.intervals import Interval, Undefined
from audits.statistics import SpeakerSums, cluster_weights, generator, ratio

SPREAD_METHOD = "standard deviation between deals, chi-squared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The recordings as statistics see them, with bootstrap samples, groups and options.

    Parameters
    ----------
    speakers
        Speaker number of each recording.
    weights
        How often each speaker is drawn in each bootstrap sample, shape (repeats, speakers); the same for
        all tasks, layers and groups, so that differences stay paired.
    names, member
        Every group that gets a rate and who is in it, shape (groups, recordings).
    shifts
        How much more each deal of the clips counts in each bootstrap sample, shape (repeats, deals).
    """

    speakers: NDArray[np.int64]
    weights: Floats
    names: list[str]
    member: NDArray[np.bool_]
    shifts: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    min_speakers: int
    permutations: int
    level: float = 0.95
    seed: int = 0

    @property
    def everyone(self) -> NDArray[np.bool_]:
        """A group of all recordings, shape (1, recordings)."""
        return np.ones((1, len(self.speakers)), dtype=bool)


def cohort_of(inputs: Inputs, options: Options, *, level: float, seed: int) -> Cohort:
    """Draw the bootstrap samples and list the groups."""
    known = sorted({item.speaker for item in inputs.recordings})
    number = {name: number for number, name in enumerate(known)}
    names, member = reported_groups([item.clip.attributes for item in inputs.recordings], inputs.sets)
    rng = generator(seed, "bootstrap")
    dealt = generator(seed, "bootstrap", "deals")
    return Cohort(
        speakers=np.array([number[item.speaker] for item in inputs.recordings], dtype=np.int64),
        weights=cluster_weights(len(known), options.bootstrap, rng),
        names=names,
        member=member,
        shifts=deal_shifts(options.repeats, options.bootstrap, dealt, level=level),
        min_speakers=options.min_speakers,
        permutations=options.permutations,
        level=level,
        seed=seed,
    )


def replicate_rates(task: TaskCounts, cohort: Cohort) -> Floats:
    """Return the overall error rate of every layer in every bootstrap sample, shape (repeats, layers)."""
    drawn = sums_of(task, cohort.speakers, cohort.everyone).drawn(cohort.weights)
    drawn = with_deals(drawn, deal_rates(task, cohort.everyone), cohort.shifts)
    return ratio(drawn.errors[:, 0], drawn.sizes)


def layer_choice(task: TaskCounts, cohort: Cohort, values: Floats, replicates: Floats) -> Interval:
    """Return the first encoder layer with the least value, with the bootstrap range of that choice.

    Parameters
    ----------
    values, replicates
        What each layer has, and has in every bootstrap sample: shapes (layers,) and (repeats, layers). NaN is never
        least.
    """
    layers = np.array(task.encoder_layers, dtype=np.float64)
    lowest, highest = _least_layers(layers, replicates)
    first, last = (float(found[0]) for found in _least_layers(layers, values[None]))
    tail = (1 - cohort.level) / 2
    # An end is a layer that there is, never a mean of two.
    low, high = (
        float(np.quantile(found, share, method="inverted_cdf"))
        for found, share in ((lowest, tail), (highest, 1 - tail))
    )
    return Interval(
        value=first,
        low=min(low, first),
        high=max(high, last),
        method="percentile cluster bootstrap",
        n=len(np.unique(cohort.speakers[task.clips])),
        unit="speakers",
        level=cohort.level,
    )


def _least_layers(layers: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last layer with the least value, in every row.

    Examples
    --------
    >>> first, last = _least_layers(np.array([0.0, 1.0, 2.0]), np.array([[0.5, 0.2, 0.2], [0.1, np.nan, 0.3]]))
    >>> first.tolist(), last.tolist()
    ([1.0, 0.0], [2.0, 0.0])
    """
    known = np.nan_to_num(values, nan=np.inf)
    least = known <= known.min(axis=1, keepdims=True) + 1e-12
    return layers[least.argmax(axis=1)], layers[::-1][least[:, ::-1].argmax(axis=1)]


def deal_rates(task: TaskCounts, member: NDArray[np.bool_]) -> Floats | None:
    """Return the pooled rate of every group in every deal, shape (deals, groups, layers); None of fewer than two deals.

    `member` tells who is in which group, shape (groups, recordings).
    """
    if task.deals is None or len(task.deals) < 2:
        return None
    inside = member[:, task.clips].astype(np.float64)
    # Deal by deal: all at once would take eight times the memory of what was counted.
    errors = np.stack([inside @ wrong for wrong in task.deals])
    return ratio(errors, (inside @ task.sizes)[:, None])


def few_deals(deals: int, level: float) -> float:
    """Return the inflation of the standard deviation of few deals: Student's quantile over the normal one.

    Other parts of an interval are of many speakers and take normal quantiles. Where nothing but the deals matters, the
    product is Student's interval of them.

    Examples
    --------
    >>> [round(few_deals(deals, 0.95), 2) for deals in (2, 3, 5, 20)]
    [6.48, 2.2, 1.42, 1.07]
    """
    from scipy.stats import norm, t

    tail = (1 - level) / 2
    return float(t.isf(tail, deals - 1) / norm.isf(tail))


def deal_variance(rates: Floats | None, level: float) -> Floats | float:
    """Return the variance that the mean over deals adds to every rate, shape (groups, layers); 0 of one deal."""
    return 0.0 if rates is None else rates.var(axis=0, ddof=1) / len(rates) * few_deals(len(rates), level) ** 2


def deal_covariance(rates: Floats | None, column: int, level: float) -> Floats | None:
    """Return the covariance of group rates on one layer from the mean over deals, shape (groups, groups).

    On its diagonal are the variances of `deal_variance`.
    """
    if rates is None:
        return None
    found: Floats = np.atleast_2d(np.cov(rates[:, :, column], rowvar=False))
    return found / len(rates) * few_deals(len(rates), level) ** 2


def deal_shifts(deals: int, samples: int, rng: np.random.Generator, *, level: float) -> Floats:
    """Return the excess weight of each deal in bootstrap samples of deals, shape (samples, deals).

    Times the values of the deals, that is by how much their mean moves, with the variance s^2 / N of N deals times the
    square of `few_deals`.

    Examples
    --------
    >>> shifts = deal_shifts(4, 20_000, np.random.default_rng(0), level=0.95)
    >>> values = np.array([0.1, 0.2, 0.2, 0.5])
    >>> round(float((shifts @ values).std() / np.sqrt(values.var(ddof=1) / 4) / few_deals(4, 0.95)), 1)
    1.0
    """
    if deals < 2:
        return np.zeros((samples, deals))
    # The variance of a bootstrapped mean of N is (N - 1) / N of the unbiased one.
    scale = np.sqrt(deals / (deals - 1)) * few_deals(deals, level)
    shifts: Floats = (cluster_weights(deals, samples, rng) - 1) / deals * scale
    return shifts


def with_deals(drawn: SpeakerSums, rates: Floats | None, shifts: Floats) -> SpeakerSums:
    """Add the errors of bootstrap samples of deals to the sums of bootstrap samples of speakers.

    Parameters
    ----------
    drawn
        Of every sample of speakers, of errors that count 0 to 1 a trial.
    rates, shifts
        From `deal_rates` and `deal_shifts`.
    """
    if rates is None:
        return drawn
    sizes = drawn.sizes[..., None]
    moved = np.einsum("sd,dgl->sgl", shifts, rates)
    errors = np.clip(drawn.errors + sizes * moved, 0.0, sizes)
    return SpeakerSums(errors=errors, hits=sizes - errors, sizes=drawn.sizes)


def deal_spread(values: Floats, level: float) -> Interval | Undefined:
    """Return the spread between deals from the value in each; undefined where all are equal."""
    from scipy.stats import chi2

    spread, freedom = float(values.std(ddof=1)), len(values) - 1
    if spread <= 1e-12:
        return Undefined(f"All {len(values)} deals of the clips gave the same: no spread is told.", id="deals-alike")
    tail = (1 - level) / 2
    low, high = (spread * float(np.sqrt(freedom / chi2.isf(share, freedom))) for share in (tail, 1 - tail))
    return Interval(value=spread, low=low, high=high, method=SPREAD_METHOD, n=len(values), unit="deals", level=level)
