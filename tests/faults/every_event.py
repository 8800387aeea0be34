"""Kill runs of the small world, and fill their disk, at every file event; then run each again and compare.

`python tests/faults/every_event.py AUDIT ... [--every 5] [--share 0.2] [--pages]` takes minutes for the cheap audits
and hours for the dear ones, so the tests take a share of the events (`test_interrupted.py`). It prints a line for each
audit and each violation, and ends with 1 where there is one.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parents[1] / "support"),
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[2]),
]

from equal_runs import QUICK, same, to  # noqa: E402
from forked_runs import Server  # noqa: E402
from small_world import make_inputs  # noqa: E402
from stopped_states import wrong_events  # noqa: E402


def checked(server: Server, name: str, work: Path, base: Path, chosen: dict[str, Any], pages: bool) -> tuple[int, int]:
    """Return how many copies of a run of one audit were stopped, and how many of them were wrong."""
    folder = base / name
    folder.mkdir()
    more: dict[str, Any] = {"pages": True} if pages else {}
    words = to(QUICK[name], folder / "run")
    ended = server.run(words, work, folder / "cache", events={**chosen, "kept": str(folder / "kept")}, **more)
    assert ended.code == 0, ended.err
    *told, counted = ended.events
    wrong = wrong_events(told)
    for one in told:
        kept = Path(one["kept"])
        if one["kind"] != "SIGKILL":
            continue
        again = server.run(to(words, kept / "run"), work, kept / "cache", **more)
        try:
            assert again.code == 0, again.err
            same(kept / "run", folder / "run")
        except AssertionError as error:
            wrong.append(f"event {one['number']}, {one['at']}: run again, it ends in {str(error)[:300]}")
        shutil.rmtree(kept)
    kinds = Counter(one["kind"] for one in told)
    print(
        f"{name}: {counted['events']} events, {counted['elsewhere']} in other threads; {kinds['SIGKILL']} kills, "
        f"each run again, and {kinds['ENOSPC']} full disks; {len(wrong)} wrong",
        *wrong, sep="\n  ", flush=True,
    )  # fmt: skip
    shutil.rmtree(folder)
    return len(told), len(wrong)


def main() -> None:
    """Check the audits that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("audits", nargs="*", metavar="AUDIT", help="names of commands; without one, all")
    parser.add_argument("--all", action="store_true", help="every event of every audit: what is done without options")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="every K-th event alone, from the first on")
    parser.add_argument("--share", type=float, default=1.0, help="share of these events, chosen by a seed")
    parser.add_argument("--pages", action="store_true", help="with the pages, which come from the report alone")
    given = parser.parse_args()
    chosen = {"every": given.every, "share": given.share}
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        make_inputs(base / "work")
        server = Server(base / "logs")
        counts = [
            checked(server, name, base / "work", base, chosen, given.pages) for name in given.audits or sorted(QUICK)
        ]
        server.close()
    print(f"{sum(one for one, _ in counts)} stopped, {sum(one for _, one in counts)} wrong")
    sys.exit(any(wrong for _, wrong in counts))


if __name__ == "__main__":
    main()
