"""Runs of the small world and of the demos, and what two equal ones have in common.

As a command it keeps golden copies of one revision, and holds another revision against them:
`python tests/support/equal_runs.py keep FOLDER`, then `... compare FOLDER`.
"""

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from small_world import BY_GENDER, COUNTS, ONE_EACH, RUNS, call, make_inputs

QUICK = {**ONE_EACH, "audit-fairness": BY_GENDER}
DEMOS = (
    *("audit-conditional", "audit-fairness", "audit-faithfulness", "audit-groups", "audit-phonemes", "audit-tracking"),
    *("certify", "interference", "lipschitz", "membership", "precision-recall", "spectra"),
)
"""Those of audit-gradients and audit-scaling measure times, which are others in every run."""
MORE = (
    [*COUNTS, "--out", "runs/counts"],
    ["audit-phonemes", "encoder", "--manifest", "clips.csv", "--alignments", "alignments", "--by", "gender",
     "--out", "runs/spoken"],
    ["audit-phonemes", "tokens.csv", "--against", "after.csv", "--by", "dialect", "--out", "runs/against"],
    ["audit-groups", "clips.csv", "--predictions", "ours=ours.tsv", "--predictions", "theirs=theirs.jsonl", "--by",
     "accent", "--out", "runs/systems"],
    ["certify", "net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--sigma", "0.25", "--n", "400",
     "--mode", "decide", "--radii", "0.1,0.25", "--by", "camera", "--out", "runs/decided"],
    ["certify", "--from-log", "runs/certified/certify.tsv", "--sigma", "0.25", "--n0", "100", "--n", "1000",
     "--out", "runs/logged"],
    ["lipschitz", "net.safetensors", "--arch", "small_cnn", "--input", "1,8,8", "--out", "runs/unseen"],
    ["membership", "--scores", "scores.csv", "--higher-is", "member", "--out", "runs/scored"],
    ["membership", "--samples", "ddpm-samples.npy", "--members", "members.npy", "--nonmembers", "nonmembers.npy",
     "--out", "runs/sampled"],
    ["spectra", "darcy.pt", "--data", "darcy.npz", "--train-resolution", "13", "--test-resolutions", "25",
     "--padding", "0", "--fail-if", "relative_l2.low > 5", "--out", "runs/gated"],
)  # fmt: skip
"""Runs for the golden copies alone: other inputs and modes of the audits."""
LEFT_OUT = ("created", "provenance", "measures")
CACHE = "CACHE"
"""What stands in the place of the folder of the cache."""
TIMES = {"records.csv": "seconds", "certify.tsv": "time"}
"""Columns of files that hold times."""


def to(words: list[str], folder: Path) -> list[str]:
    """Return the words of a run with another folder."""
    return [*words[:-1], str(folder)]


def report(folder: Path) -> dict[str, Any]:
    """Return what two equal runs have in common."""
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name not in ("created", "provenance")}


def records(folder: Path) -> list[dict[str, str]]:
    """Return the records without the seconds that one audit gives of each."""
    with (folder / "records.csv").open(newline="", encoding="utf-8") as file:
        return [{name: cell for name, cell in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def same(folder: Path, other: Path) -> None:
    """Fail unless two finished runs hold the same numbers and nothing is left of the work."""
    assert report(folder) == report(other)
    assert records(folder) == records(other)
    assert not (folder / "state").exists()
    assert not list(folder.rglob(".part-*"))


def all_runs(only: Iterable[str], extra: Path | None) -> dict[str, list[str]]:
    """Return the words of every run by the name of its folder; `only` chooses by parts of names or of commands."""
    found = {Path(words[-1]).name: list(words) for words in (*RUNS, *MORE)}
    found |= {f"demo-{name}": ["demo", name, "--out", f"runs/demo-{name}"] for name in DEMOS}
    for line in extra.read_text(encoding="utf-8").splitlines() if extra else ():
        words = shlex.split(line)
        found[Path(words[-1]).name] = words
    chosen = tuple(only)
    return {
        name: words
        for name, words in found.items()
        if not chosen or any(part == name or part == words[0] or name == f"demo-{part}" for part in chosen)
    }


def essence(folder: Path, status: int) -> dict[str, str]:
    """Return what two equal runs share byte for byte, by name: the report, records, files, words and exit status."""
    if not (folder / "report.json").exists():
        return {"status": f"{status}\n"}
    whole = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    kept = {name: value for name, value in whole.items() if name not in LEFT_OUT}
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    # The cache of the run lies in a folder of its own, which stands in the paths of what a demo made.
    cache = str(folder.parents[2] / "cache")
    found = {
        "status": f"{status}\n",
        "files": "\n".join(files) + "\n",
        "report.json": json.dumps(kept, sort_keys=True, indent=1, ensure_ascii=False).replace(cache, CACHE) + "\n",
        "report.md": _timeless((folder / "report.md").read_text(encoding="utf-8")).replace(cache, CACHE),
    }
    for name in files:
        if name.endswith((".csv", ".tsv")):
            found[name] = _without_times(folder / name)
    return found


def _timeless(page: str) -> str:
    """Return a page without what tells of the machine and the moment."""
    return re.sub(r"^- (?:Date|Run): .*$", "", page.split("## Provenance")[0], flags=re.M)


def _without_times(path: Path) -> str:
    dialect = "\t" if path.suffix == ".tsv" else ","
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines(), delimiter=dialect))
    times = [at for at, cell in enumerate(rows[0]) if cell == TIMES.get(path.name)] if rows else []
    return "\n".join(repr([cell for at, cell in enumerate(row) if at not in times]) for row in rows) + "\n"


def keep(folder: Path, runs: Mapping[str, list[str]]) -> None:
    """Run everything and keep its essence in a folder, with the inputs, for `compare`."""
    inputs = folder / "inputs"
    if not inputs.exists():
        made = folder / ".making"
        shutil.rmtree(made, ignore_errors=True)
        make_inputs(made)
        made.rename(inputs)
    for name, found in _run(folder, runs):
        place = folder / "golden" / name
        shutil.rmtree(place, ignore_errors=True)
        for file, text in found.items():
            path = place / file.replace("/", "__")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def compare(folder: Path, runs: Mapping[str, list[str]], lines: int = 40) -> int:
    """Run everything and return how many runs differ from the golden copies; each difference is printed."""
    differing = 0
    for name, found in _run(folder, runs):
        place = folder / "golden" / name
        kept = {path.name: path.read_text(encoding="utf-8") for path in place.glob("*")}
        now = {file.replace("/", "__"): text for file, text in found.items()}
        wrong = [file for file in sorted(kept.keys() | now.keys()) if kept.get(file) != now.get(file)]
        differing += bool(wrong)
        print(f"{name}: {'differs in ' + ', '.join(wrong) if wrong else 'equal'}", flush=True)
        for file in wrong:
            old, new = kept.get(file, "").splitlines(), now.get(file, "").splitlines()
            print("\n".join(list(unified_diff(old, new, "golden", "now", n=1, lineterm=""))[:lines]))
    print(f"{differing} of {len(runs)} runs differ")
    return differing


def _run(folder: Path, runs: Mapping[str, list[str]]) -> Iterable[tuple[str, dict[str, str]]]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        work = Path(place) / "work"
        # Links, since inputs are only read: an operator or a corpus is not copied for every run.
        shutil.copytree(folder / "inputs", work, copy_function=os.link)
        if os.environ.get("MILES_GOLDEN_CACHE"):
            # What is dear is taken from the cache of an earlier run: it finds its results only under the same keys.
            Path(place, "cache").symlink_to(Path(os.environ["MILES_GOLDEN_CACHE"]).resolve())
        for name, words in runs.items():
            outcome = call(words, work)
            found = essence(work / words[-1], outcome.code)
            yield name, found if len(found) > 1 else {**found, "said": outcome.out}


def main() -> None:
    """Keep or compare the golden runs, as the command line says."""
    parser = argparse.ArgumentParser(description="Golden runs of one revision, and another one held against them.")
    parser.add_argument("verb", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="names of runs, commands or demos")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="further runs, a command a line, --out DIR last")
    parser.add_argument("--lines", type=int, default=40, help="lines of each difference that are printed")
    given = parser.parse_args()
    # As the command line does before torch is loaded, which making the inputs does too.
    from miles_cli import threads

    threads.let_idle_sleep()
    threads.fix_order_of_sums()
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = all_runs(given.only, given.runs)
    if given.verb == "keep":
        keep(given.folder.resolve(), runs)
    else:
        sys.exit(compare(given.folder.resolve(), runs, given.lines) > 0)


if __name__ == "__main__":
    main()
