"""What runs that were stopped have left, and what is wrong with it."""

import json
from pathlib import Path
from typing import Any

from run_folders import files


def whole(folder: Path) -> frozenset[str]:
    """Return the names of the files that are not half written, nor only lent to workers for the time of a run."""
    return frozenset(name for name in files(folder) if ".part-" not in name and "/lent-to-workers/" not in name)


def wrong_events(told: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with copies that were killed, or found the disk full, at file events."""
    wrong = []
    for one in told:
        kept, at = Path(one["kept"]), f"event {one['number']}, {one['at']}, {one['kind']}"
        report = kept / "run" / "report.json"
        if report.exists():
            try:
                json.loads(report.read_bytes())
            except ValueError:
                wrong.append(f"{at}: report.json is half written")
        if one["kind"] == "SIGKILL":
            if (one["code"], one["said"]) != (-9, ""):
                wrong.append(f"{at}: ended with {one['code']}: {one['said']}")
            continue
        if one["code"] not in (0, 3) or "Traceback" in one["said"]:
            wrong.append(f"{at}: ended with {one['code']}: {one['said']}")
        elif one["code"] and one["said"].count("╭─ Error ─") != 1:
            wrong.append(f"{at}: said {one['said']!r}")
        elif one["code"] == 0 and not report.exists():
            wrong.append(f"{at}: ended with 0 and no report")
        if one["code"] and files(kept) - whole(kept):
            wrong.append(f"{at}: left {sorted(files(kept) - whole(kept))}")
    return wrong
