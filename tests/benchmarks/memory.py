"""Does the memory of an audit stay flat when the corpus grows?

Run `python tests/benchmarks/memory.py [--clips 200,600]`. Each size is audited in a fresh process, both tasks
and all layers of a small encoder; the table shows the peak of resident memory.
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def encoding_cost() -> ModuleType:
    """Return the script beside this one, which makes the corpus and runs the jobs."""
    path = Path(__file__).with_name("encoding_cost.py")
    spec = importlib.util.spec_from_file_location("encoding_cost", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Audit corpora of the given sizes and print the peaks."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", default="200,600")
    sizes = [int(size) for size in parser.parse_args().clips.split(",")]
    cost = encoding_cost()
    print(f"{'clips':>6}{'seconds':>10}{'peak MB':>10}{'growth':>8}")
    first = 0.0
    for clips in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            cost.make_corpus(folder, clips)
            cost.make_encoder(folder / "model", width=128, layers=4)
            found = cost.measured("sid+asr", folder)
        first = first or found["peak"]
        print(f"{clips:>6}{found['seconds']:>10.1f}{found['peak']:>10.0f}{found['peak'] / first:>8.2f}")


if __name__ == "__main__":
    main()
