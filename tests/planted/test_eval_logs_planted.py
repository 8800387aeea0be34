"""Does a comparison of logs find a model that is worse, and stay silent between two that are equal?"""

import numpy as np
import pytest
from eval_logs import task_log

from audits.report.comparison.comparing import compare
from audits.report.comparison.log_records import Logs, directions, run_of
from probes.eval_logs.scores import TaskLog


def verdict(first: TaskLog, second: TaskLog) -> tuple[bool, bool]:
    """Return whether the second log is called worse than the first, and whether it is called better."""
    better = directions([first, second], of_range=True)
    runs = [run_of(Logs(log.model, (log,)), "inspect", better) for log in (first, second)]
    (row,) = compare(runs[0], runs[1]).rows
    assert row.matched is not None
    return row.is_regression, row.is_improvement


def drawn(rng: np.random.Generator, chances: np.ndarray, epochs: int) -> np.ndarray:
    return rng.binomial(epochs, chances) / epochs


def pair(
    seed: int, *, worse: float, per_cluster: int = 1, samples: int = 60, epochs: int = 2
) -> tuple[TaskLog, TaskLog]:
    """Return logs of two models on samples of unlike difficulty, which in a cluster is one.

    In a cluster, what one model happens to know better it knows in all samples, and neither does so on average.
    """
    rng = np.random.default_rng((32, seed))
    clusters = np.repeat(np.arange(samples // per_cluster), per_cluster)
    hard = rng.normal(size=clusters[-1] + 1)[clusters]
    own = [rng.normal(size=clusters[-1] + 1)[clusters] if per_cluster > 1 else 0.0 for _ in range(2)]
    chances = [1 / (1 + np.exp(-(0.8 - lack + hard + known))) for lack, known in zip((0.0, worse), own, strict=True)]
    names = clusters.tolist() if per_cluster > 1 else ()
    old, new = (task_log(name, drawn(rng, one, 2), names) for name, one in zip("ab", chances, strict=True))
    return old, new


@pytest.mark.parametrize("per_cluster", [1, 5])
def test_of_equal_models_hardly_any_is_called_worse(per_cluster: int) -> None:
    found = [verdict(*pair(seed, worse=0.0, per_cluster=per_cluster)) for seed in range(200)]
    worse, better = (sum(one) for one in zip(*found, strict=True))
    # In truth 2.5 % on each side: at most 5 % of either, and not always on one.
    assert worse <= 10 and better <= 10


def test_without_the_clusters_equal_models_would_be_called_worse() -> None:
    found = 0
    for seed in range(100):
        logs = pair(seed, worse=0.0, per_cluster=5)
        bare = (task_log(log.model, [next(iter(one.scores.values())) for one in log.samples]) for log in logs)
        found += any(verdict(*bare))
    assert found > 10


def test_a_model_that_is_worse_is_found() -> None:
    found = [verdict(*pair(seed, worse=1.2, samples=100)) for seed in range(40)]
    assert sum(worse for worse, _ in found) >= 38 and not any(better for _, better in found)


def test_pairing_finds_what_two_intervals_leave_open() -> None:
    rng = np.random.default_rng(32)
    easy = rng.random(200) < 0.6
    first, second = easy.astype(float), easy.astype(float)
    second[np.flatnonzero(easy)[:12]] = 0.0
    logs = task_log("a", first), task_log("b", second)
    assert verdict(*logs) == (True, False)
    rows = [run_of(Logs(log.model, (log,)), "inspect", directions(logs, of_range=True)) for log in logs]
    (before,), (after,) = (one.report.estimates for one in rows)
    assert before.low is not None and after.high is not None and after.high > before.low


def test_samples_are_paired_in_whatever_order_the_tasks_were_taken() -> None:
    runs = []
    rng = np.random.default_rng(32)
    for model, turned in (("a", False), ("b", True)):
        # The same samples in two tasks, by another field in each.
        logs = [
            task_log(model, (rng.random(40) < 0.5).astype(float), [at % many for at in range(40)], task)
            for task, many in (("sums", 8), ("terms", 10))
        ]
        logs = logs[::-1] if turned else logs
        runs.append(run_of(Logs(model, tuple(logs)), "inspect", directions(logs, of_range=True)))
    rows = compare(*runs).rows
    assert [row.matched for row in rows] == [(40, 40)] * 2 and not any(row.why for row in rows)
