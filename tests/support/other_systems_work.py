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
            try:
                importlib.import_module(module.name)
            except Exception:
                failed[module.name] = traceback.format_exc()[-1500:]
    return failed


def reading(folder: str) -> dict[str, Any]:
    """Read files in children: good ones, one that wants to run code, one that asks for too much, and never-ending."""
    import contained_jobs as jobs
    import torch

    from probes.contained import LimitError, Limits, Session, call, missing_walls, within
    from probes.core.errors import MilesError
    from probes.core.systems import FORKS
    from probes.files.pickles import read_pickle

    def tried(function: Callable[..., Any], *args: Any, **named: Any) -> str:
        try:
            return f"read: {function(*args, **named)}"[:80]
        except LimitError as error:
            return f"limit: {error.what}"
        except MilesError as error:
            return f"refused: {error.message}"

    class Harmful:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {folder}/was-run",)

    good, bad = Path(folder, "good.pt"), Path(folder, "bad.pt")
    torch.save({"weight": torch.arange(3.0)}, good)
    torch.save({"weight": Harmful()}, bad)
    small = Limits(memory=2**28, seconds=1)
    session = Session(jobs.Counter, 5)
    session.ask("add", 2)

    def block() -> None:
        with within(small):
            jobs.spin()

    return {
        "forks": FORKS,
        "walls": missing_walls(),
        "good": tried(lambda: read_pickle(good)["weight"].tolist()),  # type: ignore[index]
        "harmful": tried(read_pickle, bad),
        "was-run": Path(folder, "was-run").exists(),
        "session": session.ask("add", 2),
        "memory": tried(call, jobs.allocate, 2**29, limits=small) if "none of memory" not in missing_walls() else "",
        "time": tried(call, jobs.spin, limits=small),
        "block": tried(block),
        "raised": tried(call, jobs.refuse, "table.csv:3"),
    }


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
    work: dict[str, Callable[..., Any]] = {"imports": imports, "reading": reading, "calls": calls}
    answer = work[what](*argument)
    print(json.dumps({"platform": sys.platform, "encoding": sys.stdout.encoding, "answer": answer}))
