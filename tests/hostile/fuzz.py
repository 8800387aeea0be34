"""Give a reader of strangers' files mutated bytes, guided by what code they reach; nothing but a refusal may come out.

`python tests/hostile/fuzz.py READER --seconds 60` uses atheris where it is installed, and else mutates without being
guided; without READER it lists the readers. Each input that a reader takes badly (another error than one of miles,
longer than LONGEST seconds of the processor, more memory than MOST) is kept in `--findings`.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "hostile"), str(TESTS / "support"), str(TESTS), str(TESTS.parent)]

try:
    import atheris
except ImportError:
    atheris = None

LONGEST = 5
"""Seconds of the processor for one input."""
MOST = 2**30
"""Bytes by which all inputs together may let the process grow."""


@contextmanager
def _instrumented() -> Any:
    """Watch which branches the readers take, where atheris is there."""
    if atheris is None:
        yield
    else:
        with atheris.instrument_imports(include=["probes", "audits", "miles_cli", "tomllib", "zipfile"]):
            yield


with _instrumented():
    import mutations
    from hostile import growth
    from hostile.test_parsers import _WORDS, READERS, _arrays
    from hostile.uncontained import in_this_process

    from probes.core.errors import MilesError


class Slow(BaseException):
    """An input took too long."""


def late(number: int, frame: object) -> None:
    """Say that an input takes too long."""
    raise Slow


def readers(folder: Path) -> dict[str, tuple[list[bytes], Callable[[Path], object]]]:
    """Return seeds and the function of every reader, by the name of the file that it is given."""
    arrays = _arrays(folder)
    found = {}
    for name, (text, read) in READERS.items():
        seed = arrays.get(name) or (text.encode() if isinstance(text, str) else text)
        found[name] = ([seed] if seed else [], read)
    # What grows is a seed too, small: these are kinds of files that samples do not have.
    for case in growth.CASES:
        name = case.name.rsplit("(", 1)[1].rstrip(")")
        seeds, read = found.setdefault(name, ([], case.read))
        seeds.append(case.make(3))
    return found


class Fuzzed:
    """A reader, and what came of its inputs."""

    def __init__(self, name: str, read: Callable[[Path], object], folder: Path, findings: Path) -> None:
        self.name, self.read, self.findings = name, read, findings
        self.path = folder / name
        self.counts = {"read": 0, "refused": 0, "bad": 0}
        self.kinds: dict[str, str] = {}
        self.first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def one(self, data: bytes) -> None:
        """Give it one input, and keep that if it is taken badly."""
        self.path.write_bytes(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            self.read(self.path)
            self.counts["read"] += 1
        except MilesError as error:
            self.counts["refused"] += 1
            if not error.message or (not error.where and self.name not in ("gate", "selection")):
                self._keep(data, "a refusal that says nothing")
        except (Exception, Slow) as error:
            self._keep(data, f"{type(error).__name__} at {_where(error)}")
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.first)
        if grown > MOST:
            self._keep(data, "memory")
            self.first += MOST // 1024

    def _keep(self, data: bytes, kind: str) -> None:
        self.counts["bad"] += 1
        if kind in self.kinds:
            return
        self.findings.mkdir(parents=True, exist_ok=True)
        place = self.findings / f"{len(self.kinds)}-{self.name}"
        place.write_bytes(data)
        self.kinds[kind] = str(place)
        print(f"FINDING {self.name}: {kind}: {place}", flush=True)


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " ".join(places[-4:])


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """Return a seed with some changes: bytes, words that mean something to a reader, or parts of another seed."""
    data = rng.choice(seeds)
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(4):
            case 0 if data:
                where = rng.randrange(len(data) + 1)
                data = data[:where] + rng.choice(_WORDS).encode()[:200] + data[where:]
            case 1 if len(seeds) > 1 and data:
                other = rng.choice(seeds)
                data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
            case _ if data:
                data = mutations.broken_bytes(data, rng)[1]
            case _:
                data = rng.randbytes(20)
    return data[:100_000]


def unguided(fuzzed: Fuzzed, seeds: list[bytes], seconds: float, count: int | None = None, seed: int = 0) -> None:
    """Mutate seeds until the time is up, or a number of times."""
    rng, end = random.Random(f"{fuzzed.name} {seed}"), time.monotonic() + seconds
    done = 0
    while time.monotonic() < end and (count is None or done < count):
        fuzzed.one(mutated(seeds, rng))
        done += 1


def guided(fuzzed: Fuzzed, seeds: list[bytes], seconds: int, folder: Path) -> None:
    """Let atheris search from the seeds on; it ends the process."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / f"{number}").write_bytes(seed)

    def custom(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        return (atheris.Mutate(data, most) if rng.random() < 0.5 else mutated([data or b"a", *seeds], rng))[:most]

    limits = ["-max_len=20000", "-rss_limit_mb=8192", "-timeout=120"]
    words = [f"-max_total_time={seconds}", *limits, "-print_final_stats=1", str(corpus)]
    atheris.Setup([sys.argv[0], *words], fuzzed.one, custom_mutator=custom)
    atheris.Fuzz()


def main() -> None:
    """Fuzz the reader that is named, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", nargs="?")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--findings", type=Path, default=Path("findings"))
    parser.add_argument("--unguided", action="store_true", help="without atheris, where it is installed too")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    known = readers(folder)
    if given.reader is None:
        print("\n".join(sorted(known)))
        return
    seeds, read = known[given.reader]
    in_this_process()
    for seed in seeds:
        (folder / given.reader).write_bytes(seed)
        with suppress(MilesError):
            read(folder / given.reader)
    in_this_process()
    signal.signal(signal.SIGVTALRM, late)
    fuzzed = Fuzzed(given.reader, read, folder, given.findings.absolute())

    if atheris is None or given.unguided:
        unguided(fuzzed, seeds, given.seconds)
        print(json.dumps({"reader": given.reader, **fuzzed.counts, "findings": fuzzed.kinds}))
        return
    os.chdir(folder)
    guided(fuzzed, seeds, given.seconds, folder)


if __name__ == "__main__":
    main()
