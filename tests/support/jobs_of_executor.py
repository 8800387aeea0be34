"""What the tests of the executor have done by workers, which find it by name on the PYTHONPATH that they are given."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from probes.core.errors import InputError
from probes.core.executor import Workers, run_jobs


def process(_: int) -> int:
    # Long enough that no worker is through with two before another has begun.
    time.sleep(0.3)
    return os.getpid()


def card(job: tuple[str, int, int]) -> tuple[str | None, int]:
    """Kill the worker so many times, then return its GPU and its number."""
    folder, number, times = job
    if begun(Path(folder), number) < times:
        os.kill(os.getpid(), signal.SIGKILL)
    own = os.environ.get("CUDA_VISIBLE_DEVICES")
    _wait_for_another(Path(folder), own)
    return own, os.getpid()


def _wait_for_another(folder: Path, own: str | None) -> None:
    """Wait until a worker of another GPU is at work too: on a busy machine one would be through before."""
    cards, end = folder.with_name(f"{folder.name}-cards"), time.monotonic() + 20
    cards.mkdir(exist_ok=True)
    (cards / str(own)).touch()
    while len(list(cards.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)


def growth_that_ends_it(_: int) -> int:
    """Return the bytes by which this process may grow before loky ends it, with all that it has loaded."""
    from joblib.externals.loky import process_executor

    return int(process_executor._MAX_MEMORY_LEAK_SIZE)


def threads_of(_: int) -> list[int]:
    import torch
    from threadpoolctl import threadpool_info

    return [torch.get_num_threads(), *(one["num_threads"] for one in threadpool_info())]


def begun(folder: Path, number: int) -> int:
    """Leave a mark of this beginning and return how many there were before."""
    before = len(list(folder.glob(f"{number}-*")))
    (folder / f"{number}-{before}-{os.getpid()}").touch()
    return before


def dies(job: tuple[str, int, int]) -> int:
    """Kill the worker so many times, then return the cube of the number."""
    folder, number, times = job
    if begun(Path(folder), number) < times:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    return number**3


def refuses(job: tuple[str, int]) -> int:
    folder, number = job
    begun(Path(folder), number)
    if number == 1:
        raise InputError("The file is empty.", where="points.csv, line 1", hint="Give points.")
    time.sleep(600)
    return number


class OddError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def fails(number: int) -> int:
    if number == 2:
        raise OddError(1, 2)
    raise LookupError(f"no {number}")


def sleeps(folder: str) -> None:
    begun(Path(folder), 0)
    time.sleep(600)


def train_forever(folder: str, backend: str) -> None:
    run_jobs(sleeps, [folder] * 2, Workers(count=2, backend=backend))


def marks(folder: Path, numbers: Sequence[int]) -> list[int]:
    return [len(list(folder.glob(f"{number}-*"))) for number in numbers]


def workers_of(folder: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in folder.iterdir()]


def alive(process: int) -> bool:
    try:
        state: Any = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return bool(state != "Z")
