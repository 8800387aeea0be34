"""Does it matter to any report who computed it: one process, the parts of an array, or workers of a cluster?"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SMALL = ("--bootstrap", "200", "--permutations", "100")
COMMANDS: dict[str, tuple[str, ...]] = {
    "audit-fairness": (
        *("encoder", "--manifest", "clips.csv", "--by", "gender", "--tasks", "sid,asr", "--layers", "0,4"),
        *("--probe-epochs", "1", "--min-speakers", "5", *SMALL),
    ),
    "audit-faithfulness": (
        *("short.jsonl", "--model", "lm", "--metrics", "cxmi,overlap", "--plant", "20", "--noisy", "0.5"),
        *("--max-new-tokens", "4", "--corrupt", "number", "--rates", "1"),
    ),
    "audit-gradients": (
        *("--net", "mlp", "--widths", "16,16,16,4", "--methods", "foton,dfa", "--batches", "4", "--batch-size", "8"),
        *("--train-steps", "5", "--seeds", "2", "--budget", "steps,operations"),
    ),
    "audit-phonemes": (
        *("encoder", "--manifest", "clips.csv", "--alignments", "alignments", "--by", "gender", "--layers", "0,4"),
        *("--min-speakers", "5", "--folds", "3", "--repeats", "1", *SMALL),
    ),
    "audit-tracking": (
        *("lm", "--items", "variables.csv", "--scoring", "choice,exact", "--train", "--layers", "1", "--steps", "5"),
        *("--width", "16", "--max-new-tokens", "2"),
    ),
    "certify": (
        *("net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--sigma", "0.25", "--n", "256"),
        *("--radii", "0.1", "--max", "12"),
    ),
    "interference": (
        *("corpora", "--langs", "en,fr", "--steps", "4", "--hidden", "32", "--batch", "8", "--seeds", "2"),
        *("--held-out", "1000"),
    ),
    "membership": (
        *("--members", "members.npy", "--nonmembers", "nonmembers.npy", "--model", "ddpm.safetensors"),
        *("--arch", "mlp-denoiser", "--schedule", "linear", "--attack", "loss,lira-online", "--timesteps", "50"),
        *("--shadows", "4", "--shadow-steps", "5"),
    ),
    "precision-recall": (
        *("--reference", "human.jsonl", "--candidate", "fresh=fresh.jsonl", "--candidate", "hot=hot.jsonl"),
        *("--encoder", "tfidf", "--k", "3"),
    ),
}
"""A small run of every audit that spreads, in the small world."""
TIMED = {"audit-gradients": ("gradient-seconds",), "certify": ("classifier-checks",)}
"""Kinds of entries that hold seconds, which no two machines have the same."""
SECONDS = {"certify": ("seconds",)}
"""Columns of records that do."""


@pytest.fixture(scope="module")
def work(prepared: Path) -> Path:
    """Return the folder of the inputs."""
    return prepared / "work"


@pytest.fixture
def run(
    call_miles: Callable[..., Any], no_pages: object, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch,
    work: Path,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that calls an audit with a cache of its own."""

    def call(audit: str, cache: Path, *more: object) -> Any:
        monkeypatch.setitem(environment, "MILES_CACHE", str(cache))
        done = call_miles(audit, *COMMANDS[audit], *more, cwd=work)
        assert done.code == 0, done.err
        return done

    return call


@pytest.fixture(scope="module")
def alone(
    finish_run: Callable[..., Path], environment: dict[str, str], work: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return a function that gives the folder of an audit in this process alone: its run, and its cache."""
    folder = tmp_path_factory.mktemp("alone")

    def made(audit: str) -> Path:
        place = folder / audit
        if not place.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(work)
                patch.setitem(environment, "MILES_CACHE", str(place / "cache"))
                finish_run(audit, *COMMANDS[audit], "--workers", "1", out=place / "run")
        return place

    return made


def cache_of(audit: str, alone: Callable[[str], Path], folder: Path) -> Path:
    """Return a new cache, in which only what was timed stands."""
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    for kind in TIMED.get(audit, ()):
        if (alone(audit) / "cache" / kind).exists():
            shutil.copytree(alone(audit) / "cache" / kind, cache / kind)
    return cache


def content(run: Path) -> tuple[dict[str, Any], list[list[str]]]:
    """Return report and records without what says when, where and how fast they were made."""
    report = json.loads((run / "report.json").read_bytes())
    del report["created"], report["provenance"]
    rows = [line.split(",") for line in (run / "records.csv").read_text(encoding="utf-8").splitlines()]
    timed = [place for place, name in enumerate(rows[0]) if name in SECONDS.get(report["audit"], ())]
    return report, [[cell for place, cell in enumerate(row) if place not in timed] for row in rows]


def entries(cache: Path) -> set[Path]:
    return {path for path in cache.glob("*/??/*.safetensors") if path.parts[-3] not in ("lent-to-workers",)}


@pytest.mark.parametrize("audit", COMMANDS)
def test_parts_make_the_report_of_one_process(
    audit: str,
    run: Callable[..., Any],
    alone: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from audits.core import registry
    from probes.core import spreading

    cache, rounds = cache_of(audit, alone, tmp_path), len(registry.find(audit).spreads)
    # The second part is killed in every stage, as it were.
    for _ in range(rounds):
        for number in (1, 3, 4):
            assert f"part {number} of 4" in run(audit, cache, "--array", f"{number}/4").out
    told = run(audit, cache, "--dry-run").out
    assert "of 4 parts are done" in told and "not begun: 2" in told
    before = entries(cache)
    run(audit, cache, "--array", "2/4")
    assert before <= entries(cache)
    for _ in range(rounds - 1):
        for number in (1, 2, 3, 4):
            run(audit, cache, "--array", f"{number}/4")
    computed: list[int] = []
    plain = spreading._compute
    monkeypatch.setattr(spreading, "_compute", lambda *given: (computed.extend(given[2]), plain(*given)))
    run(audit, cache, "--out", tmp_path / "run", "--workers", "1")
    assert computed == [], "what parts share is left to nobody else"
    assert content(tmp_path / "run") == content(alone(audit) / "run")


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[tuple[str, ...]]:
    """Start a Dask cluster of two processes for all tests here."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield "--backend", "dask", "--scheduler", cluster.scheduler_address, "--workers", "2"


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[tuple[str, ...]]:
    """Start Ray for all tests here."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=1, include_dashboard=False, logging_level=50, log_to_driver=False)
    yield "--backend", "ray", "--workers", "1"
    ray.shutdown()


OF_HERE = ("audit-gradients", "audit-phonemes")
"""Audits that workers of this machine are tried on here: most others have tests of their own of these."""
BY_RAY = ("audit-fairness", "interference", "precision-recall")
"""Audits that Ray is tried on, one of an encoder, one of trainings, one of texts.

What the jobs of an audit need wherever they are done is seen on Dask, which packs them alike and knows no audit either.
"""


@pytest.mark.parametrize(
    ("audit", "backend"),
    [(audit, name) for name, audits in (("dask", COMMANDS), ("ray", BY_RAY), ("loky", OF_HERE)) for audit in audits],
)
def test_workers_make_the_report_of_one_process(
    audit: str,
    backend: str,
    run: Callable[..., Any],
    alone: Callable[[str], Path],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    words = ("--workers", "2") if backend == "loky" else request.getfixturevalue(f"{backend}_cluster")
    run(audit, cache_of(audit, alone, tmp_path), "--out", tmp_path / "run", *words)
    assert content(tmp_path / "run") == content(alone(audit) / "run")
