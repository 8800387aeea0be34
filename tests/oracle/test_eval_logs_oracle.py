"""Changes between logs, recomputed by hand from the files; accuracy and standard errors against those of the logs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eval_logs import ACCURACY, INSPECT, LM_EVAL, task_log
from scipy.stats import binomtest
from scipy.stats import t as student

from audits.report.comparison.changes import Change
from audits.report.comparison.comparing import Run, compare_all
from audits.report.comparison.log_files import read_logs
from audits.report.comparison.log_records import Logs, run_of

pytestmark = pytest.mark.numerical

Scores = dict[str, list[float]]
WORDS = {"C": 1.0, "I": 0.0, "P": 0.5}


def by_sample(path: Path) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return the mean over epochs of each score of each sample, and the cluster, read here in the plainest way."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, dict[str, list[float]]] = {}
    clusters = {}
    for one in raw["samples"]:
        values = {"match": one["scores"]["match"]["value"], **one["scores"]["parts"]["value"]}
        clusters[one["id"]] = one["metadata"]["family"]
        for name, value in values.items():
            number = WORDS[value] if isinstance(value, str) else float(value)
            found.setdefault(name, {}).setdefault(one["id"], []).append(number)
    return {name: {key: float(np.mean(one)) for key, one in own.items()} for name, own in found.items()}, clusters


def by_hand(apart: np.ndarray, clusters: list[str]) -> tuple[float, float, float, float]:
    """Return value, low, high and p of a mean difference over samples, with whole clusters as units.

    CR2 of Bell and McCaffrey (2002) for one mean: residuals summed by cluster, each square over one less its share; the
    degrees of freedom are the least of theirs, of the clusters that moved less one, and of a variance of such tails.
    """
    names = sorted(set(clusters))
    inside = np.array([[own == name for own in clusters] for name in names], dtype=float)
    value, share = apart.mean(), inside.sum(axis=1) / len(apart)
    moved = inside @ (apart - value) / len(apart)
    error = np.sqrt((moved**2 / (1 - share)).sum())
    held = share**2 / (1 - share)
    weights = 1 / ((share**2).sum() + held.sum() ** 2 - (held**2).sum())
    movers = (np.abs(inside @ apart) > 1e-9).sum() - 1
    kurtosis = len(names) * (moved**4).sum() / (moved**2).sum() ** 2
    tails = 2 * len(names) / (kurtosis - 1)
    freedom = min(weights, movers, tails)
    half = student.ppf(0.975, freedom) * error
    return value, value - half, value + half, 2 * student.sf(abs(value) / error, freedom)


def holm(ps: list[float]) -> list[float]:
    """Return the p-values after Holm (1979)."""
    found, most = [0.0] * len(ps), 0.0
    for rank, at in enumerate(np.argsort(ps)):
        most = max(most, min(1.0, ps[at] * (len(ps) - rank)))
        found[at] = most
    return found


def changes(*runs: Run) -> list[Change]:
    return [row for one in compare_all(runs[0], runs[1:]) for row in one.rows]


def new_in_json(tmp_path: Path) -> Path:
    """Return the log of the other model in the plain form, from what the reader knows nothing of: zstd by pyarrow."""
    import zipfile

    import pyarrow

    with zipfile.ZipFile(INSPECT / "new.eval") as archive, (INSPECT / "new.eval").open("rb") as file:
        info = archive.getinfo("summaries.json")
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
        file.seek(int(lengths.sum()), 1)
        data = pyarrow.decompress(file.read(info.compress_size), info.file_size, "zstd", asbytes=True)
    (tmp_path / "new.json").write_text(json.dumps({"samples": json.loads(data)}), encoding="utf-8")
    return tmp_path / "new.json"


@pytest.mark.parametrize("clustered", [False, True])
def test_changes_between_logs_of_inspect_are_those_by_hand(tmp_path: Path, clustered: bool) -> None:
    runs = read_logs("inspect", [INSPECT / "old.eval", INSPECT / "new.eval"], cluster="family" if clustered else "")
    rows = {row.before.where.get("scorer"): row for row in changes(*runs) if row.matched}
    (old, clusters), (new, _) = by_sample(INSPECT / "old.json"), by_sample(new_in_json(tmp_path))
    ids = sorted(clusters)
    expected = {}
    for scorer, name in (("match", "match"), ("parts", "first")):
        apart = np.array([new[name][key] - old[name][key] for key in ids])
        expected[scorer] = by_hand(apart, [clusters[key] if clustered else key for key in ids])
    assert "match" in rows
    for scorer, row in rows.items():
        value, low, high, p = expected[str(scorer)]
        assert row.difference == pytest.approx((value, low, high), abs=1e-9) and row.p == pytest.approx(p, rel=1e-9)
        assert row.matched == (16, 16)


def test_holm_is_over_all_metrics_of_all_later_logs() -> None:
    runs = read_logs("inspect", [INSPECT / "old.eval", INSPECT / "new.eval", INSPECT / "failed.eval"])
    rows = [row for row in changes(*runs) if row.p is not None]
    assert len(rows) == 6
    assert [row.p_holm for row in rows] == pytest.approx(holm([row.p or 0.0 for row in rows]), rel=1e-12)


@pytest.mark.parametrize("name", ["old", "new", "clustered"])
def test_accuracy_and_standard_error_are_those_of_inspect(name: str) -> None:
    """Against a model that is right throughout, the change is 1 less the accuracy, and its error that of the log."""
    (run,) = read_logs("inspect", [INSPECT / f"{name}.eval"])
    theirs = in_the_header(INSPECT / f"{name}.eval")
    (row,) = (one for one in run.report.estimates if one.where["scorer"] == "match")
    assert row.value == theirs["accuracy"] and row.n == (9 if name == "clustered" else 16)
    assert run.records is not None
    table = run.records[0]
    scores = table.numbers['score ["sums", "match", "accuracy", ""]']
    _, codes = np.unique(table.text["unit"].astype(str), return_inverse=True)
    if name == "clustered":
        # The clusters are of two samples or one; theirs has C / (C - 1) in the place of CR2's 1 / (1 - share).
        sums = np.bincount(codes, weights=scores - scores.mean())
        error = np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(scores)
    else:
        error = (by_hand(scores, [str(code) for code in codes])[2] - scores.mean()) / freedom_quantile(scores)
    assert error == pytest.approx(theirs["stderr"], rel=1e-9)
    # The interval of the number itself allows for skew and few samples: it holds that of the normal law.
    assert row.low is not None and row.high is not None
    assert row.low <= theirs["accuracy"] - 1.96 * theirs["stderr"]
    assert row.high >= min(1.0, theirs["accuracy"] + 1.96 * theirs["stderr"]) - 1e-9


def freedom_quantile(scores: np.ndarray) -> float:
    apart = scores - scores.mean()
    kurtosis = len(scores) * (apart**4).sum() / (apart**2).sum() ** 2
    movers = (np.abs(scores) > 1e-9).sum() - 1
    return float(student.ppf(0.975, min(len(scores) - 1, movers, 2 * len(scores) / (kurtosis - 1))))


def in_the_header(path: Path) -> dict[str, float]:
    import zipfile

    from probes.eval_logs.zip_parts import Parts

    with zipfile.ZipFile(path) as archive:
        header: Any = Parts(path, archive, archive.infolist(), 2**20).json("header.json")
    (score,) = (one for one in header["results"]["scores"] if one["name"] == "match")
    return {name: one["value"] for name, one in score["metrics"].items()}


def test_changes_between_logs_of_lm_eval_are_those_by_hand() -> None:
    runs = read_logs("lm-eval", [LM_EVAL / "old", LM_EVAL / "new"])
    (row,) = (one for one in changes(*runs) if one.before.where == {"task": "tiny_choice", "metric": "acc"})
    own: list[dict[int, tuple[float, str]]] = []
    for model in ("old", "new"):
        (path,) = (LM_EVAL / model).glob("samples_tiny_choice_*.jsonl")
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        own.append({one["doc_id"]: (one["acc"], one["doc_hash"]) for one in lines})
    places = sorted(own[0])
    apart = np.array([own[1][place][0] - own[0][place][0] for place in places])
    value, low, high, p = by_hand(apart, [own[0][place][1] for place in places])
    assert row.difference == pytest.approx((value, low, high), abs=1e-9) and row.p == pytest.approx(p, rel=1e-9)
    assert row.is_regression


def test_the_means_are_those_of_lm_eval() -> None:
    for model in ("old", "new"):
        (run,) = read_logs("lm-eval", [LM_EVAL / model])
        (path,) = (LM_EVAL / model).glob("results_*.json")
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        for row in run.report.estimates:
            where = row.where
            theirs = results[where["task"]][f"{where['metric']},{where.get('filter', 'none')}"]
            assert row.value == pytest.approx(theirs, rel=1e-12)
        assert len(run.report.estimates) == 5


@pytest.mark.parametrize(("right", "count"), [(99, 100), (12, 13), (1, 13), (13, 13), (0, 5)])
def test_the_interval_of_right_and_wrong_samples_is_exact(right: int, count: int) -> None:
    log = task_log("m", [1.0] * right + [0.0] * (count - right))
    run = run_of(Logs("a", (log,)), "inspect", {("sums", ACCURACY): True})
    (row,) = run.report.estimates
    tails = binomtest(right, count).proportion_ci(0.95, "exact")
    assert (row.low, row.high) == pytest.approx((tails.low, tails.high), abs=1e-12)
    assert row.method == "Clopper-Pearson" and row.n == count
