"""Do the parts of an array make the report of one run, and is it told what they left undone?"""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import everything, one_panel
from run_folders import read, stripped
from safetensors.numpy import save_file

from audits.core.context import Cache

Call = Callable[..., Any]
WORDS = ("audit-gradients", "--net", "mlp", "--widths", "16,16,16,4", "--methods", "foton", "--batches", "4",
         "--batch-size", "8", "--train-steps", "5", "--seeds", "2", "--lr-grid", "0.1,0.3", "--device", "cpu",
         "--workers", "1")  # fmt: skip
JOBS = 8
"""Trainings of these words: two methods, two rates, two seeds."""
SECONDS = "gradient-seconds"


@pytest.fixture
def cache(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of a cache that no other test has written into."""
    folder = tmp_path / "cache"
    monkeypatch.setitem(environment, "MILES_CACHE", str(folder))
    return folder


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the method of every training from now on."""
    from audits.gradients import training

    found: list[str] = []
    plain = training._trained

    def count(subject: Any, estimator: Any, job: Any) -> Any:
        found.append(job.method)
        return plain(subject, estimator, job)

    monkeypatch.setattr(training, "_trained", count)
    return found


@contextmanager
def killed(count: int) -> Iterator[None]:
    """Let the training after so many be interrupted."""
    from audits.gradients import training

    plain, done = training._train, list[object]()

    def train(job: Any) -> None:
        if len(done) == count:
            raise KeyboardInterrupt
        plain(job)
        done.append(job)

    def leave(code: int) -> None:
        raise SystemExit(code)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_train", train)
        # Of an interrupted command the process ends here, which would be that of the tests.
        patch.setattr(os, "_exit", leave)
        yield


def succeed(outcome: Any) -> Any:
    assert outcome.code == 0, outcome.err
    return outcome


def manifests(cache: Path) -> dict[str, str]:
    """Return the states of all parts, by number and count."""
    held = [json.loads(path.read_text(encoding="utf-8")) for path in cache.glob("parts/*/*.json")]
    return {f"{one['part']}/{one['of']}": one["state"] for one in held}


def gradients(folder: Path) -> Path:
    """Write gradients that were computed elsewhere, of which nothing is trained."""
    draws = np.random.default_rng(0).normal(size=(4, 3, 2, 2))
    folder.mkdir()
    for batch, (one, two, head) in enumerate(draws):
        arrays = {"reference/a": one, "reference/head": head, "mine/a": two, "mine/head": head}
        save_file(arrays, folder / f"step0_batch{batch}.safetensors")
    return folder


def test_parts_make_the_same_report_as_one_run(
    quick: Callable[..., Path],
    call_miles: Call,
    cache: Path,
    trained: list[str],
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    straight = quick(*WORDS, name="straight")
    assert len(trained) == JOBS and not {"workers", "array", "backend"} & set(read(straight)["settings"])
    # Seconds are measured, and two runs have never the same.
    shutil.copytree(cache / SECONDS, tmp_path / "other" / SECONDS)
    monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / "other"))
    trained.clear()
    first = succeed(call_miles(*WORDS, "--array", "1/3", "--out", "runs/x", cwd=tmp_path))
    assert len(trained) == 3 and not (tmp_path / "runs").exists(), "a part has no run folder"
    lines = first.out.splitlines()
    assert lines[:2] == ["audit-gradients: part 1 of 3 is done.", "  trainings: 3 of 8, 3 computed, 0 found"]
    assert lines[2] == "  1 of 3 parts are done; not begun: 2, 3." and "without --array" in lines[3]
    second = json.loads(succeed(call_miles(*WORDS, "--array", "2/3", "--json", "--fail-if", "cosine > -2")).out)
    assert (second["part"], second["of"], second["state"]) == (2, 3, "done"), "gates are judged by the report"
    (stage,) = second["stages"]
    assert stage == {"things": "trainings", "jobs": JOBS, "computed": 3, "found": 0, "missing": {"3": 2}}
    assert second["command"][:2] == ["miles", "audit-gradients"] and len(second["fingerprint"]) == 64
    assert succeed(call_miles(*WORDS, "--array", "3/3", "--quiet")).out == ""
    assert len(trained) == JOBS and manifests(tmp_path / "other") == dict.fromkeys(("1/3", "2/3", "3/3"), "done")
    again = succeed(call_miles(*WORDS, "--array", "3/3"))
    assert again.out.splitlines()[1] == "  trainings: 2 of 8, 0 computed, 2 found"
    assert again.out.splitlines()[3] == "  Next: the same command without --array, which makes the report."
    joined = quick(*WORDS, name="joined")
    assert len(trained) == JOBS, "what the parts have made is found"
    assert stripped(joined) == stripped(straight)
    assert (joined / "records.csv").read_bytes() == (straight / "records.csv").read_bytes()


def test_a_part_that_was_killed_is_told_and_done_alone(
    call_miles: Call, cache: Path, trained: list[str], no_pages: object, tmp_path: Path
) -> None:
    succeed(call_miles(*WORDS, "--array", "1/3"))
    with killed(1):
        outcome = call_miles(*WORDS, "--array", "2/3")
    assert outcome.code == 130 and outcome.out == ""
    assert "Interrupted. What was computed is kept: the same command goes on from here." in outcome.err
    assert manifests(cache) == {"1/3": "done", "2/3": "begun"} and len(trained) == 4
    known = "1 of 3 parts are done; at work or killed: 2; not begun: 3"
    plan = succeed(call_miles(*WORDS, "--dry-run"))
    assert f"parts      {known}" in plan.out and "part       " not in plan.out
    plan = succeed(call_miles(*WORDS, "--array", "2/3", "--dry-run"))
    assert "part       2 of 3" in plan.out and f"parts      {known}" in plan.out
    # All that is missing is done by who judges, and said.
    shutil.copytree(cache, tmp_path / "kept")
    judged = succeed(call_miles(*WORDS, "--out", tmp_path / "run"))
    assert f"4 of 8 trainings are missing, of parts 2, 3 of 3, and are computed now ({known})." in judged.err
    shutil.rmtree(cache)
    shutil.move(tmp_path / "kept", cache)
    trained.clear()
    redone = succeed(call_miles(*WORDS, "--array", "2/3"))
    assert len(trained) == 2 and "trainings: 3 of 8, 2 computed, 1 found" in redone.out
    assert manifests(cache) == {"1/3": "done", "2/3": "done"}
    quiet = succeed(call_miles(*WORDS, "--out", tmp_path / "quiet", "--quiet"))
    assert quiet.err == quiet.out == ""


def test_what_went_missing_after_all_parts_were_done_is_told(
    call_miles: Call, cache: Path, trained: list[str], no_pages: object, tmp_path: Path
) -> None:
    for number in (1, 2):
        succeed(call_miles(*WORDS, "--array", f"{number}/2"))
    next(path for path in sorted(cache.rglob("*.safetensors")) if "gradient-trainings" in path.parts).unlink()
    judged = succeed(call_miles(*WORDS, "--out", tmp_path / "run"))
    assert "(2 of 2 parts are done; some of what they left in the cache is gone or damaged)." in judged.err


def test_two_tasks_of_the_same_part_do_no_harm(
    call_miles: Call, cache: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from audits.gradients import training
    from miles_cli import main

    plain, entered = training._train, list[object]()

    def train(job: Any) -> None:
        # The other task begins, and ends, while this one is at its first training.
        if not entered:
            entered.append(job)
            with pytest.raises(SystemExit) as left:
                main.main()
            assert not left.value.code
        plain(job)

    monkeypatch.setattr(training, "_train", train)
    outcome = succeed(call_miles(*WORDS, "--array", "1/4"))
    assert "1 of 4 parts are done" in outcome.out and manifests(cache) == {"1/4": "done"}
    assert len(trained) == 4 and len([*cache.glob("gradient-trainings/*/*")]) == 2


def test_inputs_that_share_nothing_are_refused(
    call_miles: Call, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, job = gradients(tmp_path / "gradients"), tmp_path / "job.sh"
    more = ("--array", "1/2", "--out", tmp_path / "run", "--sbatch", job)
    one_panel(call_miles("audit-gradients", "--gradients", place, *more), "nothing is trained", "--array", "Leave out")
    plain = tuple(word for word in WORDS if word not in ("--train-steps", "5", "--seeds", "2"))
    one_panel(call_miles(*plain, *more, "--dry-run"), "nothing is trained", "--array", "Give --train-steps")
    assert [*tmp_path.iterdir()] == [place]
    # An audit that finds out only when it is at work.
    monkeypatch.setattr("audits.gradients.comparing.losses_at_budgets", lambda *_: {})
    one_panel(call_miles(*WORDS, "--array", "1/2"), "nothing that parts could share", "--array", "Leave it out")
    assert (cache / "parts").is_dir() and manifests(cache) == {}


@pytest.mark.parametrize("array", ["0/3", "4/3", "1", "1/3/3", "a/b", "", "-1/3", "1/10000000", "1/3 ", "٣/٤x"])
def test_what_is_no_part_is_refused(call_miles: Call, cache: Path, array: str) -> None:
    one_panel(call_miles(*WORDS, f"--array={array}"), "is no part of the work", "--array", "3/100")
    assert not cache.exists()


def test_an_array_of_a_configuration_file_is_refused_by_its_key(call_miles: Call, cache: Path, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text('array = "9/3"\n', encoding="utf-8")
    one_panel(call_miles(*WORDS, "--config", config), "is no part of the work", "my.toml, key array")
    config.write_text('array = "1/3"\n', encoding="utf-8")
    done = json.loads(succeed(call_miles(*WORDS, "--config", config, "--json")).out)
    assert (done["part"], done["of"]) == (1, 3)
    done = json.loads(succeed(call_miles(*WORDS, "--config", config, "--array", "2/4", "--json")).out)
    assert (done["part"], done["of"]) == (2, 4), "the command line wins"


# The job for SLURM.
def test_the_job_says_the_command_again(call_miles: Call, cache: Path, tmp_path: Path) -> None:
    job = tmp_path / "my job.sh"
    for number in ("1", "2"):
        plan = succeed(call_miles(*WORDS, "--array", f"{number}/4", "--sbatch", job, "--dry-run", cwd=tmp_path))
        assert f"written    {job}" in plan.out
    assert list(tmp_path.iterdir()) == [job], "nothing else is written"
    text = job.read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("miles ")]
    words = shlex.split(line)
    assert words == ["miles", "audit-gradients", "--array", "$SLURM_ARRAY_TASK_ID/4", *WORDS[1:]]
    assert f"export MILES_CACHE={cache}\n" in text and f"cd {tmp_path}\n" in text and "#SBATCH --array=1-4\n" in text
    assert f"#   MILES_CACHE={cache} miles {shlex.join(WORDS)}\n" in text
    assert "each needs all" not in text, "there is one stage"


@pytest.mark.parametrize(
    ("content", "name"), [("mine", "job.sh"), ("#!/bin/bash\necho mine\n", "job.sh"), (None, "nowhere/job.sh")]
)
def test_no_other_file_is_written_over(
    call_miles: Call, cache: Path, tmp_path: Path, content: str | None, name: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    before = everything(tmp_path)
    one_panel(call_miles(*WORDS, "--array", "1/4", "--sbatch", tmp_path / name), "--sbatch", name)
    assert everything(tmp_path) == before


def test_a_line_break_cannot_add_a_command_to_the_job(call_miles: Call, cache: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    words = ("--array", "1/5", "--sbatch", job, "--dry-run", "--out")
    one_panel(call_miles(*WORDS, *words, "runs\ntouch broken #"), "line break", "--sbatch")
    folder = tmp_path / "place\ntouch broken #"
    folder.mkdir()
    one_panel(call_miles(*WORDS, *words, "run", cwd=folder), "line break", "--sbatch")
    assert not job.exists()


@pytest.mark.parametrize("line", ['array = "2/4"', 'sbatch = "other.sh"', "dry-run = true"])
def test_no_task_takes_its_part_from_a_file(call_miles: Call, cache: Path, tmp_path: Path, line: str) -> None:
    config, job = tmp_path / "my.toml", tmp_path / "job.sh"
    config.write_text(f"[audit-gradients]\n{line}\n", encoding="utf-8")
    words = (*WORDS, "--config", config, "--array", "1/4", "--sbatch", job, "--dry-run")
    one_panel(call_miles(*words), "every task", "my.toml, key", line.partition(" ")[0].replace("-", "_"))
    assert not job.exists()
    config.write_text("[audit-gradients]\nseed = 3\nworkers = 2\n", encoding="utf-8")
    succeed(call_miles(*(word for word in words if word not in ("--workers", "1")), cwd=tmp_path))
    text = job.read_text(encoding="utf-8")
    assert "#SBATCH --cpus-per-task=2\n" in text and f"--config {config}" in text and "--workers" not in text


# From Python, registered, and in the cache.
@pytest.mark.parametrize("name", ["array", "sbatch", "dry_run"])
def test_from_python_there_are_no_parts(cache: Path, name: str, tmp_path: Path) -> None:
    from miles_cli import InputError, register, run

    values: dict[str, Any] = {name: "1/2"}
    for call in (lambda: run("audit-gradients", net="mlp", **values),
                 lambda: register("audit-gradients", net="mlp", out=tmp_path / "r.json", **values)):  # fmt: skip
        with pytest.raises(InputError, match="of the command line alone") as refused:
            call()
        flag = f"--{name.replace('_', '-')}"
        assert f"{name}=" in refused.value.where and f"miles audit-gradients ... {flag}" in refused.value.hint
    config = tmp_path / "my.toml"
    config.write_text('array = "1/2"\nsbatch = "x.sh"\ndry_run = true\n', encoding="utf-8")
    with pytest.raises(InputError, match="of the command line alone") as refused:
        run("audit-gradients", net="mlp", config=config)
    assert "my.toml, key" in refused.value.where and not cache.exists()


def test_registrations_do_not_say_who_computes(call_miles: Call, cache: Path, tmp_path: Path) -> None:
    gate = ("--fail-if", "cosine < -2")
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    succeed(call_miles("register", *WORDS, *gate, "--out", files[0]))
    more = ("--workers", "3", "--array", "2/5", "--out", files[1])
    succeed(call_miles("register", *WORDS, *gate, *more))
    held = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert all(held[0][name] == held[1][name] for name in held[0] if name not in ("created", "sha256"))
    assert not {"workers", "array", "sbatch", "backend", "scheduler"} & set(held[0]["settings"])
    done = json.loads(succeed(call_miles(*WORDS, "--registration", files[1], "--array", "4/4", "--json")).out)
    assert done["state"] == "done"
    other = call_miles(*WORDS, "--seed", "1", "--registration", files[1], "--array", "4/4")
    one_panel(other, "seed")
    job = tmp_path / "job.sh"
    refused = call_miles("register", *WORDS, *gate, *more, "--force", "--sbatch", job)
    one_panel(refused, "writes no job", "--sbatch")
    assert not job.exists() and manifests(cache) == {"4/4": "done"}


def test_manifests_are_counted_cleared_and_never_trusted(call_miles: Call, cache: Path) -> None:
    succeed(call_miles(*WORDS, "--array", "1/9", "--quiet"))
    assert Cache(cache).usage()["parts"][0] == 1
    shown = succeed(call_miles("cache")).out
    assert "parts" in shown and " 1 entries" in shown
    (path,) = cache.glob("parts/*/*.json")
    path.write_bytes(b'{"state": "done", "more": "' + b"x" * 10_000_000 + b'"}')
    assert "parts" not in succeed(call_miles(*WORDS, "--dry-run")).out
    succeed(call_miles("cache", "--clear"))
    assert not [path for path in cache.rglob("*") if path.is_file()]
