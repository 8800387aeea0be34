"""Do jobs on up to a thousand workers take as long as is predicted, and is none lost, whoever dies?

Workers and time are pretended, deaths are drawn; what schedules is the code of the executor.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from virtual_workers import HOUR, Fleet, Killed, skewed, virtual

from audits.core.spread_time import Stage, lost_jobs, slowest_part, spread_time
from audits.report.part_manifests import Parts, State
from probes.core.executor import Workers, run_jobs
from probes.core.spreading import Machines, Part, PartEnded, part_of, spread

JOBS, MEAN, SPREAD, START, RESTART = 10_000, 60.0, 0.5, 20.0, 120.0
SECONDS = skewed(JOBS, MEAN, SPREAD, seed=1)
STAGE = Stage(jobs=JOBS, seconds=MEAN, longest=float(SECONDS.max()), deviation=float(SECONDS.std()))
ANY = Workers(count=2)
"""The pools are ours, however many workers are asked for."""
PAGE = Path(__file__).parents[2] / "docs" / "cluster-costs.md"


@dataclass(frozen=True)
class Told:
    """What a run took: seconds, jobs begun again and lost, and how often each was done."""

    seconds: float
    again: int
    lost: int
    done: Counter[int]


@cache
def simulated(lanes: int, deaths: float = 0.0, slow: int = 0, times: float = 1.0) -> Told:
    fleet = Fleet(lanes=lanes, start=START, deaths=deaths, restart=RESTART, slow=(slow, times))
    done: Counter[int] = Counter()
    with pytest.MonkeyPatch.context() as patch, virtual(fleet, SECONDS.__getitem__, 3, patch) as pools:
        lost = run_jobs(int, range(JOBS), ANY, done=lambda index, _: done.update([index]))
    return Told(pools[0].now, pools[0].begun - JOBS, len(lost), done)


def predicted(lanes: int, deaths: float = 0.0, slow: int = 0, times: float = 1.0) -> tuple[float, float]:
    stage = Stage(jobs=JOBS, seconds=MEAN, longest=STAGE.longest * times, deviation=STAGE.deviation)
    return spread_time([stage], lanes - slow + slow / times, start=START, deaths=deaths, restart=RESTART)


RUNS = [(1, 0.0), (10, 0.0), (100, 0.0), (1000, 0.0), (100, 0.1), (1000, 0.1), (1000, 1.0)]


@pytest.mark.parametrize(("lanes", "deaths"), RUNS)
def test_a_run_takes_as_long_as_predicted_and_loses_no_job(lanes: int, deaths: float) -> None:
    told, (least, most) = simulated(lanes, deaths), predicted(lanes, deaths)
    # Which jobs met which deaths is chance: half a percent of the work.
    assert 0.995 * least <= told.seconds <= 1.005 * most
    again, lost = lost_jobs(STAGE, deaths)
    # Poisson counts, within four standard deviations.
    assert abs(told.again - again) <= 4 * np.sqrt(again) and abs(told.lost - lost) <= 4 * np.sqrt(lost + 0.1)
    assert len(told.done) == JOBS - told.lost and set(told.done.values()) == {1}


def test_with_enough_attempts_no_job_is_lost_and_a_death_costs_one_beginning() -> None:
    fleet, done = Fleet(lanes=50, deaths=6.0, restart=RESTART), Counter[int]()
    with pytest.MonkeyPatch.context() as patch, virtual(fleet, SECONDS.__getitem__, 5, patch) as pools:
        lost = run_jobs(int, range(2000), ANY, done=lambda index, _: done.update([index]), attempts=20)
    assert lost == {} and done == Counter(range(2000))
    deaths = pools[0].deaths
    assert pools[0].begun == 2000 + deaths.total() and deaths.total() > 150 and max(deaths.values()) > 1


def test_slow_workers_hold_up_a_run_by_one_job_and_no_more() -> None:
    told, (least, most) = simulated(100, 0.0, 10, 3.0), predicted(100, 0.0, 10, 3.0)
    assert least <= told.seconds <= most and told.seconds < 1.1 * predicted(100)[1]


def test_all_jobs_are_alike_where_nothing_else_is_said() -> None:
    seconds = [MEAN] * 40
    with pytest.MonkeyPatch.context() as patch, virtual(Fleet(lanes=7), lambda job: MEAN, 0, patch) as pools:
        run_jobs(int, range(len(seconds)), ANY)
    least, most = spread_time([Stage(jobs=40, seconds=MEAN)], 7)
    assert pools[0].now == 6 * MEAN and least <= pools[0].now <= most


def test_stages_add_up_and_one_without_jobs_costs_its_start() -> None:
    one, none = Stage(jobs=10, seconds=60), Stage(jobs=0, seconds=60)
    assert spread_time([one, none, one], 4, start=5) == (315, 405)
    assert spread_time([none], 4) == (0, 0) and lost_jobs(none, 1) == (0, 0)


# Parts of an array, and stages

SHARED = 5000
FEWER = Stage(
    jobs=SHARED,
    seconds=float(SECONDS[:SHARED].mean()),
    longest=float(SECONDS[:SHARED].max()),
    deviation=float(SECONDS[:SHARED].std()),
)
SLOW = replace(FEWER, jobs=SHARED // 10)
"""What five of fifty parts have."""


@dataclass
class World:
    """A cache that all parts share: by entry, how often it was written."""

    written: Counter[int]
    told: list[str]

    def run(self, fleet: Fleet, part: Part | None, seed: int = 0, others: Parts | None = None) -> float:
        """Let one run do what is missing of its share, and return its seconds."""
        others = others or Parts()
        machines = Machines(workers=ANY, part=part, parts=others.of, known=others.words(), tell=self.told.append)
        with pytest.MonkeyPatch.context() as patch, virtual(fleet, SECONDS.__getitem__, seed, patch) as pools:
            try:
                spread(
                    lambda job: self.written.update([job]),
                    range(SHARED),
                    made=self.written.__contains__,
                    machines=machines,
                    things="entries",
                )
            except Killed:
                return fleet.until
        return pools[0].now if pools else 0.0


@cache
def in_parts(parts: int, killed: int = 0, slow: int = 0, times: float = 1.0) -> tuple[World, list[float], float]:
    """Return a world after all parts, their seconds, and those of the plain command that does what is missing."""
    world, taken = World(Counter(), []), []
    for number in range(1, parts + 1):
        until = FEWER.work / parts / 2 if number <= killed else float("inf")
        fleet = Fleet(lanes=1, start=START, until=until, slow=(number > parts - slow, times))
        taken.append(world.run(fleet, part_of(f"{number}/{parts}")))
    states: dict[int, State] = {number: "begun" if number <= killed else "done" for number in range(1, parts + 1)}
    known = Parts(of=parts, states=states)
    return world, taken, world.run(Fleet(lanes=16, start=START), None, others=known)


@pytest.mark.parametrize("parts", [10, 50])
def test_parts_do_every_job_once_and_the_slowest_takes_as_long_as_predicted(parts: int) -> None:
    world, taken, rest = in_parts(parts)
    assert world.written == Counter(range(SHARED)) and rest == 0 and world.told == []
    least, _ = spread_time([FEWER], parts, start=START)
    assert least <= max(taken) and max(taken) == pytest.approx(START + slowest_part(FEWER, parts), rel=0.05)


def test_a_part_on_a_slow_node_holds_up_all_the_others() -> None:
    _, taken, _ = in_parts(50, slow=5, times=3.0)
    assert max(taken) == pytest.approx(START + 3 * slowest_part(SLOW, 5), rel=0.05)
    assert sorted(taken)[44] == pytest.approx(max(in_parts(50)[1]), rel=0.05)


def test_parts_that_were_killed_are_named_and_what_they_lack_is_done_once() -> None:
    world, taken, rest = in_parts(50, killed=5)
    assert world.written == Counter(range(SHARED)) and len(world.told) == 1
    told = re.fullmatch(r"(\d+) of 5,000 entries are missing, of parts .* of 50, and .* \((.*)\)\.", world.told[0])
    assert told is not None and told[2] == "45 of 50 parts are done; at work or killed: 1, 2, 3, 4, 5"
    missing = int(told[1])
    # Each had done about half of its hundred jobs.
    assert missing == pytest.approx(250, rel=0.1) and taken[:5] == [FEWER.work / 100] * 5
    least, most = spread_time([Stage(jobs=missing, seconds=MEAN, longest=STAGE.longest)], 16, start=START)
    assert 0.9 * least <= rest <= 1.1 * most


def test_a_part_that_is_sent_again_does_what_it_lacks_and_no_more() -> None:
    world = World(Counter(), [])
    first = world.run(Fleet(lanes=1, start=START, until=2000.0), part_of("7/50"))
    had = len(world.written)
    second = world.run(Fleet(lanes=1, start=START), part_of("7/50"))
    assert 10 < had < 60 and world.written == Counter(range(6, SHARED, 50)) and first == 2000
    # The job at which it was killed is the only work that was done twice.
    own = SECONDS[6:SHARED:50].sum()
    assert own + 2 * START <= first + second <= own + 2 * START + STAGE.longest


def is_there(written: Counter[tuple[int, int]], stage: int, index: int) -> bool:
    return (stage, index) in written


def submitted(written: Counter[tuple[int, int]], part: str, until: float = float("inf")) -> bool:
    """Run a part of an audit of three stages of forty jobs, and tell whether it had nothing to wait for."""
    machines = Machines(workers=ANY, part=part_of(part))
    with pytest.MonkeyPatch.context() as patch, virtual(Fleet(lanes=1, until=until), lambda _: MEAN, 0, patch):
        try:
            for stage in range(3):
                spread(
                    lambda job: written.update([job]),
                    [(stage, index) for index in range(40)],
                    made=partial(is_there, written, stage),
                    machines=machines,
                    things=f"things of stage {stage}",
                )
                machines.join(last=stage == 2)
        except PartEnded as end:
            return not end.waits
        except Killed:
            return False
    raise AssertionError("a part ends at its last join")


def submissions(lost: int) -> int:
    """Return how often an array of four tasks is submitted until all are done, where one is killed the first time."""
    written: Counter[tuple[int, int]] = Counter()
    for count in range(1, 9):
        done = [
            submitted(written, f"{n}/4", 2.5 * MEAN if (n, count) == (lost, 1) else float("inf")) for n in (1, 2, 3, 4)
        ]
        if all(done):
            assert set(written.values()) == {1} and len(written) == 120
            return count
    raise AssertionError("an array that never ends")


def test_an_audit_is_submitted_once_a_stage_and_once_more_for_a_task_that_is_lost() -> None:
    assert submissions(lost=0) == 3 and submissions(lost=1) <= 4 and submissions(lost=4) == 4


# What the page says


def _table(heading: str) -> list[list[str]]:
    text = PAGE.read_text(encoding="utf-8").partition(heading)[2]
    lines = text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def row(lanes: int, deaths: float) -> list[str]:
    """Return a row of the page's table of simulated runs."""
    told, between = simulated(lanes, deaths), predicted(lanes, deaths)
    hours = [f"{seconds / HOUR:#.3g}".rstrip(".") for seconds in (*between, told.seconds)]
    formula = hours[0] if hours[0] == hours[1] else f"{hours[0]} to {hours[1]}"
    again = f"{lost_jobs(STAGE, deaths)[0]:.0f}"
    return [f"{lanes:,}", f"{deaths:g}", formula, hours[2], again, f"{told.again}", f"{told.lost}"]


def test_the_page_has_the_simulated_runs() -> None:
    assert _table("## Simulated") == [row(lanes, deaths) for lanes, deaths in RUNS]


def test_the_page_has_the_simulated_parts() -> None:
    formulas = START + slowest_part(FEWER, 50), START + 3 * slowest_part(SLOW, 5)
    runs = in_parts(50), in_parts(50, slow=5, times=3.0)
    told = [[f"{hours / HOUR:.2f} h" for hours in (one, max(run[1]))] for one, run in zip(formulas, runs, strict=True)]
    assert [row[1:] for row in _table("as an array of 50 tasks")] == told
