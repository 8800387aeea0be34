"""How often does precision-recall accuse candidates that are as the reference, in a whole run with all that it asks?

Run `python tests/benchmarks/texts_false_alarms.py [--runs 400] [--texts FILE...]`. Every run is one of the audit
itself, of Gaussian points, or, with `--texts`, of sentences dealt at random to both sides and read by tfidf. An alarm
is a finding above info. At 400 runs a true .05 is seen as .03 to .07. Power is of a candidate that is 0.7 times as
wide, and of one with a fifth of its points elsewhere.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WIDTH = 8


@dataclass(frozen=True)
class Setting:
    """How many points the reference and each candidate have, how many candidates, and which k."""

    reference: int
    candidate: int
    candidates: int = 1
    k: int = 5
    kind: str = "equal"

    def vectors(self, rng: np.random.Generator, size: int | None = None) -> Floats:
        """Draw a candidate, or a reference of this size."""
        if self.kind == "heavy":
            # Student's t with two degrees of freedom: no variance.
            return rng.standard_t(2, (size or self.candidate, WIDTH))
        rows = rng.standard_normal((size or self.candidate, WIDTH))
        if size is not None:
            return rows
        if self.kind == "narrow":
            return 0.7 * rows
        if self.kind == "junk":
            rows[: self.candidate // 5] += 12
        return rows


SETTINGS = (
    Setting(400, 200),
    Setting(400, 200, candidates=3),
    Setting(150, 75),
    Setting(150, 150),
    Setting(88, 88),
    Setting(88, 88, candidates=3),
    Setting(40, 40, k=3),
    Setting(400, 200, kind="narrow"),
    Setting(88, 88, kind="narrow"),
    Setting(40, 40, k=3, kind="narrow"),
    Setting(400, 200, kind="junk"),
    Setting(88, 88, kind="junk"),
    Setting(40, 40, k=3, kind="junk"),
    Setting(120, 60),
    Setting(120, 60, kind="heavy"),
)
TEXTS = (Setting(300, 150), Setting(88, 88), Setting(40, 40, k=3))


def audited(paths: list[Path], k: int, seed: int, **more: Any) -> Any:
    """Run the audit, the reference first, without curves."""
    from audits.core.context import Cache, Context
    from audits.core.testing import drafted
    from audits.precision_recall import AUDIT, Options

    candidates = tuple(f"c{place}={path}" for place, path in enumerate(paths[1:]))
    options = Options(reference=paths[0], candidate=candidates, curves=False, k=(str(k),), **more)
    with tempfile.TemporaryDirectory() as folder:
        context = Context(cache=Cache(Path(folder)), seed=seed)
        return drafted(AUDIT, options, context)


def points_run(setting: Setting, folder: Path, seed: int) -> Any:
    """Audit points."""
    rng = np.random.default_rng((7, seed))
    sides = [setting.vectors(rng, setting.reference)]
    sides += [setting.vectors(rng) for _ in range(setting.candidates)]
    paths = [folder / f"{place}.npz" for place in range(len(sides))]
    for path, rows in zip(paths, sides, strict=True):
        np.savez(path, embeddings=rows.astype(np.float32))
    return audited(paths, setting.k, seed)


def texts_run(setting: Setting, texts: list[str], folder: Path, seed: int) -> Any:
    """Audit sentences of one source."""
    order = iter(np.random.default_rng((8, seed)).permutation(len(texts)).tolist())
    paths = []
    for place, size in enumerate([setting.reference, *[setting.candidate] * setting.candidates]):
        paths.append(folder / f"{place}.jsonl")
        lines = (json.dumps({"text": texts[next(order)]}) for _ in range(size))
        paths[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return audited(paths, setting.k, seed, encoder="tfidf")


def told(setting: Setting, runs: int, made: Any) -> None:
    """Print in which share of runs there was an alarm, and of which kind."""
    found, start = Counter[str](), time.process_time()
    for seed in range(runs):
        findings = [one for one in made(seed).findings if one.severity != "info"]
        found["any"] += bool(findings)
        found.update({one.id for one in findings})
    each = (time.process_time() - start) / runs
    shares = ", ".join(f"{name} {count / runs:.3f}" for name, count in found.most_common())
    print(f"{setting}: {runs} runs, {each:.2f} s each: {shares}", flush=True)


def main() -> None:
    """Read the options and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--texts", type=Path, nargs="*")
    parser.add_argument("--only", type=int, nargs="*")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    settings = TEXTS if given.texts else SETTINGS
    texts = [json.loads(line)["text"] for path in given.texts or () for line in path.open(encoding="utf-8")]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, setting in enumerate(settings):
            if given.only and number not in given.only:
                continue
            if texts:
                told(setting, given.runs, lambda seed, one=setting: texts_run(one, texts, folder, seed))
            else:
                told(setting, given.runs, lambda seed, one=setting: points_run(one, folder, seed))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
