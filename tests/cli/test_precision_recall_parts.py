"""Do workers and the parts of an array come to the bytes of one process, whatever of the work they share?"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from run_folders import stripped

from audits.core.context import Cache
from audits.precision_recall import comparing, spread_comparisons
from probes.core.holding import release

pytestmark = pytest.mark.usefixtures("no_pages")

FEW = ("--splits", "10", "--repeats", "2", "--no-curves")
TEXTS, POINTS, SAMPLES = 120, 90, 60
Call = Callable[..., Any]


@pytest.fixture
def spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread the comparisons of few texts."""
    monkeypatch.setattr(spread_comparisons, "SPREAD", 2)


@pytest.fixture
def cut(spread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the tables of few texts too."""
    monkeypatch.setattr(comparing, "STRIPS", 2)
    monkeypatch.setattr(comparing, "STRIP", 23)


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of embeddings of a reference and two candidates, some of them copies."""
    folder = tmp_path_factory.mktemp("vectors")
    rng = np.random.default_rng(0)
    for name, shift in (("ref", 0.0), ("a", 0.1), ("b", 0.8)):
        rows = rng.normal(shift, 1.0, size=(2 * POINTS if name == "ref" else POINTS, 4)).astype(np.float32)
        rows[:5] = rows[5:10]
        np.save(folder / f"{name}.npy", rows)
    return folder


def words(folder: Path, *more: object) -> list[str]:
    sides = ["--reference", folder / "ref.npy", "--candidate", f"a={folder / 'a.npy'}"]
    both = [*sides, "--candidate", f"b={folder / 'b.npy'}", "--samples", SAMPLES]
    return [str(word) for word in ("precision-recall", *both, *FEW, *more)]


@pytest.fixture
def fresh(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what gives a run a cache of its own."""

    def take(name: str) -> Path:
        monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / name))
        return tmp_path / name

    return take


def same(one: Path, other: Path) -> bool:
    return (
        stripped(one) == stripped(other) and (one / "records.csv").read_bytes() == (other / "records.csv").read_bytes()
    )


def part(call: Call, told: list[str], number: int, of: int, out: Path) -> str:
    """Submit one part, and return what it said."""
    ended = call(*told, "--array", f"{number}/{of}", "--out", out)
    assert ended.code == 0, ended.err
    return str(ended.out)


@pytest.mark.parametrize("more", [(), ("--pca", "0.8", "--k", "3,5")])
def test_tables_that_are_cut_give_the_numbers_of_whole_ones(
    vectors: Path, finish_run: Call, fresh: Call, tmp_path: Path, more: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    fresh("whole")
    whole = finish_run(*words(vectors, *more), out=tmp_path / "one")
    request.getfixturevalue("spread")
    fresh("jobs")
    assert same(whole, finish_run(*words(vectors, *more), out=tmp_path / "two"))
    request.getfixturevalue("cut")
    cache = fresh("cut")
    assert same(whole, finish_run(*words(vectors, *more), out=tmp_path / "three"))
    # What was only needed on the way is gone.
    left = {path.parts[-3] for path in cache.rglob("*.safetensors")}
    assert left == {comparing.COMPARED}


def test_parts_submitted_once_a_stage_and_two_workers_come_to_the_bytes_of_one_process(
    cut: None, vectors: Path, call_miles: Call, fresh: Call, tmp_path: Path
) -> None:
    told = words(vectors)
    fresh("one")
    assert call_miles(*told, "--out", tmp_path / "one").code == 0
    cache = fresh("parts")
    for stage, things in enumerate(("strips of neighbours", "strips of near pairs", "comparisons")):
        said = [part(call_miles, told, number, 2, tmp_path / f"{stage}-{number}") for number in (1, 2)]
        assert all(things in one for one in said)
        assert ("is done" if stage == 2 else "go on") in said[-1] or stage < 2
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.safetensors")}
    ended = call_miles(*told, "--out", tmp_path / "whole")
    assert ended.code == 0 and "are missing" not in ended.err
    assert same(tmp_path / "one", tmp_path / "whole")
    assert all(before[path] == path.stat().st_mtime_ns for path in (cache / comparing.COMPARED).rglob("*.safetensors"))
    fresh("workers")
    assert call_miles(*told, "--workers", 2, "--out", tmp_path / "two").code == 0
    assert same(tmp_path / "one", tmp_path / "two")


def test_a_lost_share_is_named_and_redone_alone(
    spread: None, vectors: Path, call_miles: Call, fresh: Call, tmp_path: Path
) -> None:
    told = words(vectors)
    fresh("one")
    assert call_miles(*told, "--out", tmp_path / "one").code == 0
    cache = fresh("parts")
    for number in (1, 2, 4):
        part(call_miles, told, number, 4, tmp_path / f"{number}")
    before = {path: path.stat().st_mtime_ns for path in (cache / comparing.COMPARED).rglob("*.safetensors")}
    ended = call_miles(*told, "--out", tmp_path / "whole")
    assert ended.code == 0 and "1 of 6 comparisons are missing" in ended.err and "not begun: 3" in ended.err
    assert same(tmp_path / "one", tmp_path / "whole")
    after = list((cache / comparing.COMPARED).rglob("*.safetensors"))
    assert len(after) > len(before) and all(before[path] == path.stat().st_mtime_ns for path in before)


def test_parts_share_texts_and_what_a_model_writes(
    call_miles: Call, fresh: Call, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from probes.core.progress import Silent
    from probes.texts.causal_lm import train_causal_lm
    from probes.texts.synthetic_sentences import make_sentences

    sentences = make_sentences(TEXTS, seed=1)
    (tmp_path / "ref.txt").write_text("\n".join(sentences), encoding="utf-8")
    train_causal_lm(sentences, tmp_path / "lm", seed=0, progress=Silent(), steps=5, layers=1)
    model = ("--generate", tmp_path / "lm", "--max-new-tokens", 12, "--batch", 16)
    told = ["precision-recall", "--reference", tmp_path / "ref.txt", *model, "--encoder", tmp_path / "lm", *FEW]
    fresh("one")
    assert call_miles(*told, "--out", tmp_path / "one").code == 0
    fresh("parts")
    said = [
        [part(call_miles, told, number, 2, tmp_path / f"{stage}-{number}") for number in (1, 2)] for stage in range(2)
    ]
    assert "batches of texts" in said[0][0] and "is done" in said[-1][-1]
    assert call_miles(*told, "--out", tmp_path / "whole").code == 0
    assert same(tmp_path / "one", tmp_path / "whole")


def test_a_worker_that_outlives_a_run_reads_the_cache_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Cache] = []
    side = spread_comparisons.Kept("r", "s", ["vectors"], ["draws"], "mark")
    settings: Any = SimpleNamespace(as_options=dict)

    def pairing(job: spread_comparisons.Job) -> Any:
        seen.append(job.cache)
        return SimpleNamespace(strip=lambda first: {"near": np.zeros(1)})

    monkeypatch.setattr(spread_comparisons, "_pairing", pairing)
    caches = [Cache(tmp_path / name) for name in ("first", "first", "second")]
    for cache in caches:
        how: dict[str, Any] = {"settings": settings, "seed": 0, "device": "cpu", "cache": cache, "strip": 1}
        job = spread_comparisons.Job(stage="pairs", reference=side, other=side, draw=0, key=["pairs"], **how)
        spread_comparisons.do(job)
    release()
    assert seen == caches[1:]


def test_few_embeddings_have_nothing_to_share(vectors: Path, call_miles: Call, fresh: Call, tmp_path: Path) -> None:
    fresh("none")
    ended = call_miles(*words(vectors), "--array", "1/2", "--out", tmp_path / "part")
    assert ended.code == 2 and "nothing that parts could share" in ended.err
