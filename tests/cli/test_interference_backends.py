"""Does it matter to a matrix who trains its models, where, and in how many parts?"""

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# What says who trained and where, and may differ.
PLACES = ("results", "merge")
MODELS = (
    "--steps", 30, "--batch", 16, "--window", 32, "--layers", 1, "--hidden", 32, "--heads", 2, "--front", 7,
    "--rate", 0.02, "--seeds", 1, "--held-out", 1000, "--device", "cpu",
)  # fmt: skip
THREE, FOUR = "aa,bb,cc", "aa,bb,cc,dd"


def write_corpus(folder: Path) -> Path:
    """Write languages of two words each, which neighbours tell and frequencies do not."""
    for number, code in enumerate(FOUR.split(",")):
        draw = random.Random(number)
        words = ["".join(draw.choices("abcdef", k=6)) for _ in range(2)]
        lines = (" ".join(draw.choices(words, k=5)) for _ in range(200))
        (folder / f"{code}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def words_of(corpus: Path, out: Path, results: Path, *more: object, langs: str = THREE) -> list[str]:
    words = ("interference", corpus, "--langs", langs, *MODELS, "--results", results, "--out", out, "--quiet", *more)
    return [str(word) for word in words]


def content(out: Path) -> bytes:
    """Return the report without what says when and where it was made."""
    report = json.loads((out / "report.json").read_bytes())
    for name in ("created", "provenance"):
        del report[name]
    report["settings"] = {name: value for name, value in report["settings"].items() if name not in PLACES}
    return json.dumps(report, ensure_ascii=False).encode()


def models(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.rglob("*.json")}


def states(results: Path) -> dict[str, tuple[int, int]]:
    """Return of each finished model whatever changes when it is written again."""
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in results.rglob("*.json")}


@pytest.fixture(scope="module")
def alone(
    corpus: Path,
    finish_run: Callable[..., Path],
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    """Return report and results of a run in this process alone, with a cache of its own."""
    folder = tmp_path_factory.mktemp("alone")
    out, results = folder / "out", folder / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(environment, "MILES_CACHE", str(folder / "cache"))
        finish_run(*words_of(corpus, out, results, "--workers", 1), out=out)
    return out, results


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return a list of the models that are trained from now on in this process."""
    from probes.language_models import mixture_models as language_models

    found: list[tuple[str, ...]] = []
    plain = language_models.measure

    def measure(job: Any, *words: Any) -> Any:
        found.append(job.codes)
        return plain(job, *words)

    monkeypatch.setattr(language_models, "measure", measure)
    return found


def succeed(done: Any) -> None:
    assert done.code == 0, done.err


def same(out: Path, results: Path, expected: tuple[Path, Path]) -> None:
    assert models(results) == models(expected[1])
    assert content(out) == content(expected[0])
    assert (out / "records.csv").read_bytes() == (expected[0] / "records.csv").read_bytes()


def test_the_matrix_has_numbers(alone: tuple[Path, Path]) -> None:
    names = [row["name"] for row in json.loads((alone[0] / "report.json").read_bytes())["estimates"]]
    assert names.count("interference") == 6 and len(models(alone[1])) == 6


# That those of loky train the same as a run in one process, `test_interference_kill.py` shows, killed or not; that
# those of Ray do, `test_many_machines.py`.
@pytest.mark.parametrize("backend", ["dask"])
def test_every_cluster_trains_the_same_models(
    corpus: Path,
    alone: tuple[Path, Path],
    call_miles: Callable[..., Any],
    no_pages: object,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    backend: str,
) -> None:
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[backend])
    out, results = tmp_path / "out", tmp_path / "results"
    # A cache of its own, so that its texts too are cut anew.
    monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / "cache"))
    succeed(call_miles(*words_of(corpus, out, results, "--workers", 2, "--backend", backend)))
    same(out, results, alone)


def run_parts(
    call_miles: Callable[..., Any], corpus: Path, tmp_path: Path, folders: Sequence[Path], trained: list[Any]
) -> None:
    for number, folder in enumerate(folders, 1):
        more = ("--workers", 1, "--array", f"{number}/{len(folders)}")
        succeed(call_miles(*words_of(corpus, tmp_path / f"part-{number}", folder, *more)))
        assert len(trained) == len(set(trained)) == 3 * number


def test_parts_in_one_folder_make_the_whole(
    corpus: Path, alone: tuple[Path, Path], call_miles: Callable[..., Any], trained: list[Any], tmp_path: Path
) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    run_parts(call_miles, corpus, tmp_path, [results, results], trained)
    before = states(results)
    succeed(call_miles(*words_of(corpus, out, results, "--workers", 1)))
    assert len(trained) == 6 and states(results) == before
    same(out, results, alone)


def test_parts_of_two_machines_are_merged(
    corpus: Path, alone: tuple[Path, Path], call_miles: Callable[..., Any], trained: list[Any], tmp_path: Path
) -> None:
    machines = [tmp_path / "one", tmp_path / "two"]
    run_parts(call_miles, corpus, tmp_path, machines, trained)
    before = [states(folder) for folder in machines]
    assert [len(found) for found in before] == [3, 3] and not set(before[0]) & set(before[1])
    out, results = tmp_path / "out", tmp_path / "results"
    merged = [word for folder in machines for word in ("--merge", folder)]
    succeed(call_miles(*words_of(corpus, out, results, "--workers", 1, *merged)))
    assert len(trained) == 6 and [states(folder) for folder in machines] == before
    same(out, results, alone)


def losses(out: Path) -> dict[tuple[str, str], tuple[str, str]]:
    with (out / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["target"], row["source"]): (row["losses_alone"], row["losses_together"]) for row in rows}


def test_a_further_language_costs_its_own_models_only(
    corpus: Path, alone: tuple[Path, Path], call_miles: Callable[..., Any], trained: list[Any], tmp_path: Path
) -> None:
    before = states(alone[1])
    out = tmp_path / "out"
    succeed(call_miles(*words_of(corpus, out, tmp_path / "results", "--workers", 1, "--merge", alone[1], langs=FOUR)))
    assert sorted(trained) == [("aa", "dd"), ("bb", "dd"), ("cc", "dd"), ("dd",)]
    found = models(tmp_path / "results")
    assert len(before) == 6 and len(found) == 10 and found.items() >= models(alone[1]).items()
    assert states(alone[1]) == before
    old, new = losses(alone[0]), losses(out)
    assert len(new) == 12 and {where: new[where] for where in old} == old


def test_a_damaged_result_is_trained_again_and_no_other(
    corpus: Path,
    alone: tuple[Path, Path],
    call_miles: Callable[..., Any],
    trained: list[Any],
    tmp_path: Path,
) -> None:
    out, results = tmp_path / "out", tmp_path / "results"
    for path in alone[1].rglob("*.json"):
        (results / path.parent.name).mkdir(parents=True, exist_ok=True)
        (results / path.parent.name / path.name).write_bytes(path.read_bytes())
    chosen = sorted(results.rglob("*.json"))[2:3]
    for path in chosen:
        # Whole at both ends, so that only a look at all of it tells.
        data = bytearray(path.read_bytes())
        place = data.index(b'"nats":[') + 8
        data[place : place + 3] = b"9.9"
        path.write_bytes(data)
    before = states(results)
    succeed(call_miles(*words_of(corpus, out, results, "--workers", 1)))
    assert len(trained) == len(chosen) and models(results) == models(alone[1])
    changed = {path for path, state in states(results).items() if before[path] != state}
    assert changed == {path.name for path in chosen}


def test_a_forged_result_of_another_machine_is_not_believed(
    corpus: Path, alone: tuple[Path, Path], call_miles: Callable[..., Any], trained: list[Any], tmp_path: Path
) -> None:
    from probes.language_models.model_results import Results

    theirs = tmp_path / "theirs"
    chosen = sorted(alone[1].rglob("*.json"))[2]
    for path in alone[1].rglob("*.json"):
        (theirs / path.parent.name).mkdir(parents=True, exist_ok=True)
        (theirs / path.parent.name / path.name).write_bytes(path.read_bytes())
    document = json.loads(chosen.read_bytes())
    for loss in document["value"]["losses"].values():
        loss["nats"] = [-one for one in loss["nats"]]
    # With the right hash, as anybody can write it.
    Results(theirs).write(document["key"], document["value"])
    out, results = tmp_path / "out", tmp_path / "results"
    succeed(call_miles(*words_of(corpus, out, results, "--workers", 1, "--merge", theirs)))
    assert trained == [tuple(document["key"]["trained_on"])] and models(results) == models(alone[1])
    warnings = json.loads((out / "report.json").read_bytes())["warnings"]
    (told,) = [one["message"] for one in warnings if one["id"] == "damaged-result"]
    assert chosen.name in told and str(theirs) in told
