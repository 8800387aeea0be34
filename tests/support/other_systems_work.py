"""Work of a process that believes that it runs on another system; it prints a line of JSON for each thing done."""

import importlib
import json
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def imports() -> dict[str, str]:
    """Import every module, and return what those raise that cannot be imported."""
    failed = {}
    for package in map(importlib.import_module, ("probes", "audits", "miles_cli")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except Exception:
                failed[module.name] = traceback.format_exc()[-1500:]
    return failed


def reading() -> dict[str, Any]:
    """Call jobs in children: good ones, one that asks for too much, and one that never ends."""
    import contained_jobs as jobs

    from probes.contained import Limits, Session, call, missing_walls, within
    from probes.core.systems import FORKS

    small = Limits(memory=2**28, seconds=1)
    session = Session(jobs.Counter, 5)
    session.ask("add", 2)

    def block() -> None:
        with within(small):
            jobs.spin()

    return {
        "forks": FORKS,
        "walls": missing_walls(),
        "session": session.ask("add", 2),
        "memory": tried(call, jobs.allocate, 2**29, limits=small) if "none of memory" not in missing_walls() else "",
        "time": tried(call, jobs.spin, limits=small),
        "block": tried(block),
        "raised": tried(call, jobs.refuse, "table.csv:3"),
    }


def pickles(folder: str) -> dict[str, Any]:
    """Read files of torch in children: a good one, and one that wants to run code."""
    import torch

    from probes.files.pickles import read_pickle

    class Harmful:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {folder}/was-run",)

    good, bad = Path(folder, "good.pt"), Path(folder, "bad.pt")
    torch.save({"weight": torch.arange(3.0)}, good)
    torch.save({"weight": Harmful()}, bad)
    return {
        "good": tried(lambda: read_pickle(good)["weight"].tolist()),  # type: ignore[index]
        "harmful": tried(read_pickle, bad),
        "was-run": Path(folder, "was-run").exists(),
    }


def tried(function: Callable[..., Any], *args: Any, **named: Any) -> str:
    """Return in a few words what a call came to."""
    from probes.contained import LimitError
    from probes.core.errors import MilesError

    try:
        return f"read: {function(*args, **named)}"[:80]
    except LimitError as error:
        return f"limit: {error.what}"
    except MilesError as error:
        return f"refused: {error.message}"


def calls(words: list[list[str]]) -> list[tuple[int, str]]:
    """Call the command line in this process, and return the exit status and what it said of each call."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from miles_cli.main import main

    found = []
    for one in words:
        sys.argv = ["miles", *one]
        said = io.TextIOWrapper(io.BytesIO(), encoding=sys.stdout.encoding, newline="\r\n")
        status: Any = 0
        with redirect_stdout(said), redirect_stderr(said), suppress(SystemExit):
            try:
                main()
            except SystemExit as end:
                status = end.code
                raise
        said.flush()
        found.append((int(status or 0), said.buffer.getvalue().decode(said.encoding, "replace")))  # type: ignore[attr-defined]
    return found


if __name__ == "__main__":
    what, argument = sys.argv[1], json.loads(sys.argv[2])
    work: dict[str, Callable[..., Any]] = {"imports": imports, "reading": reading, "pickles": pickles, "calls": calls}
    answer = work[what](*argument)
    print(json.dumps({"platform": sys.platform, "encoding": sys.stdout.encoding, "answer": answer}))
