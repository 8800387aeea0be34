#!/usr/bin/env python3
"""What `.pre-commit-hooks.yaml` runs: `miles_hook.py check|registration|gate [AUDIT WORD... --] FILE...`.

The standard library alone; `check` calls the `miles` of the PATH. Exit status 1 stops the commit.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

REGISTRATION = "miles.registration/1"
REPORT = "miles.report/1"
_AUDIT = re.compile(r"[a-z][a-z-]*")


def check(path: Path, words: Sequence[str]) -> str:
    """Return what `miles ... --config FILE --dry-run` refuses: options, inputs, gates; empty where nothing.

    Without `words`, the audits are those that the file has tables of, and a file without one is refused.
    """
    miles = shutil.which("miles")
    if miles is None:
        return "There is no miles on the PATH: install it into the environment that you commit from."
    calls = [list(words)] if words else [[name] for name in tables(path)]
    if not calls:
        return "No table of an audit: write [audit-groups] and so on, or name the audit in the hook's args."
    said = []
    for call in calls:
        command = [miles, *call, "--config", str(path), "--dry-run"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said.append(f"miles {' '.join(call)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return "\n".join(said)


def tables(path: Path) -> list[str]:
    """Return the audits that a file of options has tables of."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return [name for name, value in content.items() if isinstance(value, dict) and _AUDIT.fullmatch(name)]


def registration(path: Path, words: Sequence[str]) -> str:
    """Return why a file of registered criteria is not what `miles register` wrote; empty where it is."""
    raw = path.read_bytes()
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        # Of all the JSON of a repository much is not strict: comments, or a mark of its encoding.
        if REGISTRATION.encode() in raw:
            raise
        return ""
    if not isinstance(content, dict) or content.get("schema") != REGISTRATION:
        return ""
    digest = content.pop("sha256", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if digest == found:
        return ""
    return f"Its digest is {digest}, its content has {found}: it was changed after it was registered."


def gate(path: Path, words: Sequence[str]) -> str:
    """Return the gates of a finished report that failed; empty where none did."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("schema") != REPORT:
        return ""
    failed = [one["expression"] for one in content["gates"] if one["outcome"] == "fail"]
    return "\n".join(f"gate failed: {expression}" for expression in failed)


CHECKS: dict[str, Callable[[Path, Sequence[str]], str]] = {"check": check, "registration": registration, "gate": gate}


def main(given: Sequence[str]) -> int:
    """Hold every file against the check that is named, and say what is wrong."""
    name, rest = given[0], list(given[1:])
    words = rest[: rest.index("--")] if "--" in rest else []
    files = rest[len(words) + 1 :] if "--" in rest else rest
    status = 0
    for file in files:
        try:
            said = CHECKS[name](Path(file), words)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            said = f"It cannot be read: {type(error).__name__}: {error}"
        if said:
            sys.stderr.write(f"{file}: {said}\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
