"""Scripts that run audits, each in a process that is forked after the imports, which take longer than a small run.

The file is a module for tests (`Scripts`) and a script: what the tests run. Pages, which come from the reports alone,
are drawn by none.
"""

import json
import os
import runpy
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_runs import learn, print_to

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a script ended: its exit status, or the number of its signal below zero; and what it printed."""

    code: int
    out: str
    err: str


class Scripts:
    """A process that runs scripts in its children, one after another."""

    def __init__(self, logs: Path) -> None:
        self.logs, self._number = logs, 0
        logs.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: Path, *words: str, folder: Path) -> Ended:
        """Run a script in a folder to its end, with what it keeps there in `cache`."""
        self._number += 1
        log = self.logs / str(self._number)
        log.mkdir()
        asked = {"script": str(script), "words": words, "folder": str(folder), "log": str(log)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks has died"
        return Ended(int(answer), (log / "out").read_text(), (log / "err").read_text())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _serve() -> None:
    import numpy as np
    import pandas
    import scipy.stats
    import torch
    from safetensors import torch as _

    from probes.core.library_imports import transformers

    transformers()
    # As the command does, whose reason it gives.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    assert torch and np and pandas and scipy and _
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            _child(asked)
        answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        learn(Path(asked["log"], "modules"))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _child(asked: dict[str, Any]) -> None:
    """Become the script; nothing of this process goes back to the one that forks."""
    script, log = Path(asked["script"]), Path(asked["log"])
    print_to(log)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(asked["folder"])
    os.environ["MILES_CACHE"] = str(Path(asked["folder"], "cache"))
    sys.argv = [str(script), *asked["words"]]
    sys.path.insert(0, str(script.parent))
    code: Any = 1
    try:
        from audits.report import pages

        pages.write_pages = lambda report, folder: None
        before = set(sys.modules)
        runpy.run_path(str(script), run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # What lies beside one script is of no matter to the next.
        own = {file.stem for file in script.parent.glob("*.py")}
        (log / "modules").write_text("\n".join(sorted(set(sys.modules) - before - own)))
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _serve()
