"""Measure how often intervals hold and findings are told falsely, and write docs/calibration/<audit>.json.

    python tests/calibration/run.py                        the reduced table, some minutes
    python tests/calibration/run.py --full --workers 8     the whole, hours; can be stopped and started again
    python tests/calibration/run.py --full --level 0.95 --most 50      a part of it, which the whole takes up later
    python tests/calibration/run.py --full --lacking       what a run that was stopped, or a part, has left
    python tests/calibration/run.py --full --renew         what was measured by other code than today's

Rows that rest on more simulations than this run's are left as they stand, unless --replace is given.
"""

import argparse
import os
import sys
import time
from pathlib import Path

# One process for each core: threads of each would be in the others' way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
_HERE = Path(__file__).resolve()
sys.path[:0] = [str(_HERE.parents[1]), str(_HERE.parents[2])]

from calibration import running  # noqa: E402
from calibration.checks import Case, audits, calibrated  # noqa: E402
from calibration.worlds import LEVELS  # noqa: E402


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all worlds, units and levels")
    parser.add_argument("--audit", nargs="+", metavar="NAME", help="commands, such as audit-groups; default all")
    parser.add_argument("--level", nargs="+", type=float, choices=LEVELS, help="levels; default all")
    parser.add_argument("--kept", action="store_true", help="run nothing: write what was run before")
    parser.add_argument("--lacking", action="store_true", help="cells of which fewer data sets are published, alone")
    parser.add_argument("--renew", action="store_true", help="cells that other code was measured by, alone; not kept")
    parser.add_argument("--most", type=int, metavar="N", help="data sets a cell at the most")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    parser.add_argument("--state", type=Path, default=running.STATE, metavar="FOLDER", help="where batches are kept")
    parser.add_argument(
        "--out", type=Path, default=running.PUBLISHED, metavar="FOLDER", help="where tables are written"
    )
    parser.add_argument("--replace", action="store_true", help="drop all rows that were published before")
    asked = parser.parse_args()
    names = {stem: name for stem, name in audits().items() if stem in calibrated()}
    unknown = set(asked.audit or ()) - {*names, *names.values()}
    if unknown:
        parser.error(f"not calibrated: {', '.join(sorted(unknown))}; there are {', '.join(names.values())}")
    revision = running.revision()
    for stem, name in names.items():
        if asked.audit and not {stem, name} & set(asked.audit):
            continue
        todo = running.batches(stem, full=asked.full, levels=asked.level, most=asked.most)
        todo = running.lacking(todo, asked.out, renew=asked.renew) if asked.lacking or asked.renew else todo
        known = [batch for batch in todo if running.kept(batch, asked.state) is not None]
        cells = len({batch.case for batch in todo})
        print(f"{name}: {cells} cells, {len(todo)} batches, of which {len(known)} are kept from before", flush=True)
        todo = known if asked.kept else todo
        start = time.monotonic()

        def done(case: Case, n: int, start: float = start) -> None:
            where = f"{case.world}, {case.units} units, level {case.level}, effect {case.effect}"
            print(f"  {time.monotonic() - start:7.0f} s  {where}: n = {n}", flush=True)

        sums = running.run(todo, asked.state, asked.workers, done)
        if asked.replace:
            (asked.out / f"{stem}.json").unlink(missing_ok=True)
        print(
            f"  written: {running.publish(stem, running.rows_of(stem, sums, revision), asked.out, renew=asked.renew)}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
