"""Are jobs done once, by whoever has them, and are those that another part has not done named?"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from jobs_of_spreading import fails, whose, whose_else, write

from probes.core import executor, spreading
from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.executor import Workers
from probes.core.holding import held, release
from probes.core.spreading import Machines, PartEnded, entry_of, part_of, spread


def paths(folder: Path, count: int) -> list[Path]:
    return [folder / f"{number}" for number in range(count)]


def there(jobs: list[Path]) -> Callable[[int], bool]:
    return lambda index: jobs[index].exists()


@pytest.mark.parametrize("of", [1, 3, 7])
def test_parts_are_a_partition(of: int) -> None:
    parts = [part_of(f"{number}/{of}") for number in range(1, of + 1)]
    for place in range(20):
        assert sum(part.has(place) for part in parts) == 1


@pytest.mark.parametrize(
    "array", ["", "x", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "1.0/3", "1 /3", "9999999999/9999999999", "1/9999999"]
)
def test_parts_that_are_none_are_refused(array: str) -> None:
    with pytest.raises(InputError) as told:
        part_of(array)
    assert told.value.where == "--array"


def test_parts_do_their_own_jobs_and_name_those_of_others(tmp_path: Path) -> None:
    jobs = paths(tmp_path, 10)
    write(jobs[3])
    before = jobs[3].stat().st_mtime_ns
    told: list[int] = []
    for number, missing in ((1, {2: 3, 3: 3}), (3, {2: 3}), (2, {})):
        machines = Machines(part=part_of(f"{number}/3"))
        spread(write, jobs, made=there(jobs), machines=machines, things="files", done=told.append)
        assert machines.stages[0].missing == missing
        if missing:
            with pytest.raises(PartEnded) as end:
                machines.join()
            assert end.value.waits
        else:
            machines.join()
    assert all(job.exists() for job in jobs) and jobs[3].stat().st_mtime_ns == before
    assert machines.stages[0].computed == 3 and machines.stages[0].found == 0
    with pytest.raises(PartEnded) as end:
        machines.join(last=True)
    assert not end.value.waits


def test_a_run_without_parts_tells_what_is_lost(tmp_path: Path) -> None:
    jobs, told = paths(tmp_path, 8), list[str]()
    for index in (0, 1, 3, 4, 5, 7):
        write(jobs[index])
    machines = Machines(parts=4, known="3 of 4 parts are done; not begun: 3", tell=told.append)
    spread(write, jobs, made=there(jobs), machines=machines, things="batches of clips")
    machines.join(last=True)
    known = "3 of 4 parts are done; not begun: 3"
    assert told == [f"2 of 8 batches of clips are missing, of part 3 of 4, and are computed now ({known})."]
    assert all(job.exists() for job in jobs) and machines.stages[0].missing == {}
    told.clear()
    spread(write, paths(tmp_path / "..", 0), made=bool, machines=machines, things="files")
    assert not told


def test_workers_start_only_where_the_rest_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def run_jobs(
        function: Callable[[Path], None], jobs: list[Path], workers: Workers, done: Callable[..., None], pool: object
    ) -> dict[int, str]:
        sent.append(len(jobs))
        for index, job in enumerate(jobs):
            function(job)
            done(index, None)
        return {}

    def slow(job: Path) -> None:
        time.sleep(0.02)
        write(job)

    monkeypatch.setattr(spreading, "run_jobs", run_jobs)
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    done: list[int] = []
    for worth, expected in ((5.0, []), (0.1, [8])):
        monkeypatch.setattr(spreading, "WORTH", worth)
        jobs = paths(tmp_path / f"{worth}", 10)
        jobs[0].parent.mkdir()
        done.clear()
        spread(slow, jobs, made=there(jobs), machines=Machines(workers=Workers()), things="files", done=done.append)
        assert sent == expected and sorted(done) == list(range(10)) and all(job.exists() for job in jobs)


def test_workers_of_this_machine_do_jobs(tmp_path: Path) -> None:
    jobs, done = paths(tmp_path, 5), list[int]()
    write(jobs[2])
    spread(write, jobs, made=there(jobs), machines=Machines(workers=Workers(count=2)), things="files", done=done.append)
    assert sorted(done) == [0, 1, 2, 3, 4] and all(job.exists() for job in jobs)


def test_workers_stay_from_stage_to_stage_and_hold_what_the_next_one_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    plain = executor._opened
    monkeypatch.setattr(executor, "_opened", lambda workers, jobs: (made.append(jobs), plain(workers, jobs))[1])
    stages = [paths(tmp_path, 4), paths(tmp_path / "b", 1), paths(tmp_path / "c", 2), paths(tmp_path / "d", 5)]
    machines = Machines(workers=Workers(count=2))
    with machines.pool.reused():
        for jobs, function in zip(stages, (partial(whose), whose, whose_else, whose), strict=True):
            jobs[0].parent.mkdir(exist_ok=True)
            spread(function, jobs, made=there(jobs), machines=machines, things="files")
    assert made == [4]
    told = [[path.read_text(encoding="utf-8").split(" ", 1) for path in jobs] for jobs in stages]
    assert len({number for each in told for number, _ in each}) == 2
    # One that did two jobs of a kind in turn finds what the first loaded; a job of another kind does not.
    assert "seen" in told[1][0][1] and "seen" not in told[2][0][1]
    assert not any(is_running(int(number)) for each in told for number, _ in each)
    with machines.pool.reused():
        with pytest.raises(ZeroDivisionError):
            spread(fails, [tmp_path, tmp_path], made=lambda index: False, machines=machines, things="files")
        # Nobody awaits what the other worker may still do.
        assert machines.pool._pool is None


def is_running(number: int) -> bool:
    return Path("/proc", str(number)).exists()


def test_one_thing_is_held_at_a_time() -> None:
    made: list[str] = []

    def make(name: str) -> Callable[[], str]:
        return lambda: made.append(name) or name

    assert [held(name, make(name)) for name in ("a", "a", "b", "a")] == ["a", "a", "b", "a"]
    assert made == ["a", "b", "a"]
    release()
    held("a", make("a"))
    release()
    assert made[-2:] == ["a", "a"]


def test_short_stages_are_shared_too(tmp_path: Path) -> None:
    done = []
    for number in (1, 2, 3):
        machines = Machines(part=part_of(f"{number}/3"))
        for stage in range(6):
            jobs = paths(tmp_path / f"{stage}", 1)
            jobs[0].parent.mkdir(exist_ok=True)
            spread(write, jobs, made=there(jobs), machines=machines, things=f"files {stage % 2}")
        done.append(sum(stage.computed for stage in machines.stages))
        assert [stage.jobs for stage in spreading.summed(machines.stages)] == [3, 3]
    assert done == [2, 2, 2]


def test_an_entry_that_was_damaged_is_computed_as_the_job_was(tmp_path: Path) -> None:
    cache, before = Cache(tmp_path), torch.get_num_threads()

    def threads() -> dict[str, torch.Tensor]:
        return {"threads": torch.tensor(torch.get_num_threads())}

    torch.set_num_threads(2)
    try:
        assert entry_of(cache, "numbers", 1, threads)["threads"] == 1
        assert torch.get_num_threads() == 2
        cache.path("numbers", 1).write_bytes(b"damaged")
        assert entry_of(cache, "numbers", 1, threads)["threads"] == 1
        assert entry_of(cache, "numbers", 1, lambda: pytest.fail("it is there"))["threads"] == 1
    finally:
        torch.set_num_threads(before)
