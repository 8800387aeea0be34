"""How long jobs take on many workers: bounds that hold whatever the order of the jobs, before anything is run.

A stage takes as long as its work shared out, and no less than its longest job. Where a job goes to whichever worker is
free, it takes no more than both together (Graham 1969, the bound of list scheduling). Where each of N parts has every
N-th job beforehand, the part with most work decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

ATTEMPTS = 2
"""How often a job whose worker dies is begun, as `probes.core.executor.run_jobs` does."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Jobs that do not need each other; the next stage begins when all of them are done.

    Parameters
    ----------
    seconds, longest
        Of a job on one worker: the mean, and the longest; 0: all are alike.
    deviation
        Standard deviation of the seconds of a job.
    """

    jobs: int
    seconds: float
    longest: float = 0.0
    deviation: float = 0.0

    @property
    def work(self) -> float:
        """Seconds of all jobs on one worker."""
        return self.jobs * self.seconds

    @property
    def end(self) -> float:
        """Seconds of the longest job."""
        return max(self.longest, self.seconds) if self.jobs else 0.0


def spread_time(
    stages: Sequence[Stage], workers: float, *, start: float = 0.0, deaths: float = 0.0, restart: float = 0.0
) -> tuple[float, float]:
    """Return the least and the most seconds, in the mean, that stages take on workers which take a job when free.

    Parameters
    ----------
    workers
        A worker that takes three times as long counts as a third, and then `longest` is that of a slow worker.
    start
        Seconds until a worker computes: its process, its libraries, its model. They count once a stage.
    deaths
        How often a worker dies in an hour. Its job is lost with it, and begun once more behind all others.
    restart
        Seconds until another worker stands in its place.

    Examples
    --------
    Ten jobs of 60 s on four workers: no less than 600 / 4 s, no more than one job beyond (three quarters of it).

    >>> spread_time([Stage(jobs=10, seconds=60)], 4)
    (150.0, 195.0)
    """
    least = most = 0.0
    rate, others = deaths / _HOUR, 1 - 1 / workers
    for stage in stages:
        # A job that is begun until it is done costs (exp(rate s) - 1) / rate in the mean. Convex in s: the mean job
        # is below the mean of all, and the longest one's share above.
        shared = stage.work / workers
        least += start + max(shared * _growth(rate * stage.seconds), stage.end)
        last = stage.end * others if not deaths else ATTEMPTS * stage.end
        most += start + shared * _growth(rate * stage.end) * (1 + rate * restart) + last
    return least, most


def lost_jobs(stage: Stage, deaths: float) -> tuple[float, float]:
    """Return how many jobs are begun again in the mean, and how many of those lose their second worker too.

    Examples
    --------
    A thousand jobs of a minute are 16.7 hours of work. With a death in ten hours of a worker 1.7 are begun again.

    >>> again, lost = lost_jobs(Stage(jobs=1000, seconds=60), 0.1)
    >>> round(again, 2), round(lost, 4)
    (1.67, 0.0028)
    """
    rate = deaths / _HOUR
    square = stage.seconds**2 + stage.deviation**2
    return -stage.jobs * math.expm1(-rate * stage.seconds), stage.jobs * rate**2 * square


def slowest_part(stage: Stage, parts: int) -> float:
    """Return about how many seconds the longest of `parts` parts takes, each with every N-th job and one worker.

    The largest of N normal sums, by Blom's formula: fair from some ten jobs in a part.

    Examples
    --------
    A hundred parts of a hundred jobs of 60 s, give or take 30 s: 6,000 s, and for the unluckiest 750 s more.

    >>> round(slowest_part(Stage(jobs=10_000, seconds=60, deviation=30), 100))
    6750
    """
    own = math.ceil(stage.jobs / parts)
    beyond = NormalDist().inv_cdf((parts - 0.375) / (parts + 0.25)) if parts > 1 else 0.0
    return own * stage.seconds + beyond * stage.deviation * math.sqrt(own)


def _growth(chance: float) -> float:
    """Return by what factor work grows that is begun until it is done."""
    return math.expm1(chance) / chance if chance else 1.0
