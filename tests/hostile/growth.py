"""Read files of size n and 4n by every reader, and tell what work and memory that took.

Run as a program: `growth.py [CASE ...]` writes a line of JSON for every case. Work is processor time in a fork of its
own, the least of several goes; what readers give to contained children is done in the same process, to be counted.
"""

import gc
import io
import json
import math
import os
import resource
import struct
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import opened_models as opening
from hostile.test_parsers import READERS, _tokenizer
from hostile.uncontained import in_this_process

from audits.core import gates
from probes.core.errors import MilesError

LONGEST = 6
"""Seconds of the processor that all goes at one size may take."""
GOES = {1: 2, 4: 1}
"""How often each multiple of the size is read."""
FURTHER = {4: 1, 16: 1}
"""The multiples that are read where the first ones seem to grow too much: what outgrew a cache does so once."""
ROUNDS = 4
TIMES = 9.0
"""What four times as much may take, of once as much. In proportion it is four, and by squares sixteen."""
LEAST = 0.02
"""Seconds below which a measurement says nothing: the clock of a process may go in steps of milliseconds."""
ROOM = 2**24
"""Bytes by which memory may grow more than by that, for what is taken in large pieces."""


@dataclass(frozen=True)
class Case:
    """A kind of file that can be made at any size.

    Parameters
    ----------
    make
        Returns the bytes of size n, or the path of what it wrote into the folder.
    size
        The n that takes some hundredths of a second.
    mends
        The part of the work that mends a growth that is known; empty where there is none.
    """

    name: str
    make: Callable[[int], bytes]
    read: Callable[[Path], object]
    size: int
    mends: str = ""


def _rows(head: str, row: str, tail: str = "", joint: str = "") -> Callable[[int], bytes]:
    """Return what writes rows, each of which may hold its number `{0}` and others of a small range."""
    return lambda n: (head + joint.join(row.format(at, at % 7, at % 2, at / 7) for at in range(n)) + tail).encode()


def _columns(n: int) -> bytes:
    names = ",".join(f"gendre{at}" for at in range(n))
    return f"path,{names}\na.wav,{','.join('x' for _ in range(n))}\n".encode()


def _losses(n: int) -> bytes:
    rows = (f"{one},{two},0,{at},1.5,60\n" for at in range(n) for one in ("en", "fr") for two in ("en", "fr"))
    return ("lang,with,seed,sentence,loss,bytes\n" + "".join(rows)).encode()


def _grid(n: int) -> bytes:
    parts = "".join(
        f'        intervals [{at + 1}]:\n            xmin = {at}\n            xmax = {at + 1}\n            text = "a"\n'
        for at in range(n)
    )
    return (
        f'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = {n}\ntiers? <exists>\nsize = 1\n'
        f'item []:\n    item [1]:\n        class = "IntervalTier"\n        name = "phones"\n        xmin = 0\n'
        f"        xmax = {n}\n        intervals: size = {n}\n{parts}"
    ).encode()


def _report(n: int) -> bytes:
    row = {"name": "gap", "value": 0.5, "low": 0.4, "high": 0.6, "level": 0.95, "method": "Wilson", "n": 3,
           "unit": "rows", "where": {"by": "a"}}  # fmt: skip
    words = {"audit": "audit-groups", "title": "t", "question": "q", "created": "2026-01-15T09:30:00Z"}
    told = {
        "findings": [{"id": "groups.gap", "severity": "low", "statement": "s", "where": {}, "evidence": [0]}],
        "warnings": [{"id": "few", "message": "m", "where": {}}],
        "gates": [{"expression": "gap.low > 0.1", "outcome": "fail", "rows": [0]}],
        "figures": [{"id": "gaps", "title": "t", "caption": "c", "file": "gaps", "spec": {"mark": "bar"}}],
        "coverage": {"given": n, "used": n, "skipped": []},
    }
    made = {"miles": "0.1", "python": "3.11", "packages": {}, "platform": "Linux", "device": "cpu", "dtype": "float32",
            "threads": 1, "seed": 0, "command": ["miles"], "seconds": {"total": 1}}  # fmt: skip
    empty: dict[str, Any] = {"subject": None, "data": [], "settings": {}, "limitations": [], "measures": {}}
    whole = {"schema": "miles.report/1", **words, **told, **empty, "provenance": made, "estimates": [row] * n}
    return json.dumps(whole).encode()


def _words(n: int) -> bytes:
    rules = json.loads(_tokenizer())
    rules["model"]["vocab"] |= {f"w{at}": at + 4 for at in range(n)}
    return json.dumps(rules).encode()


def _merges(n: int) -> bytes:
    rules = json.loads(_tokenizer())
    names = [f"a{at}" for at in range(n)]
    rules["model"] = {"type": "BPE", "vocab": {name: at for at, name in enumerate(names)},
                      "merges": [[one, one] for one in names]}  # fmt: skip
    return json.dumps(rules).encode()


def _members(n: int) -> bytes:
    file, value = io.BytesIO(), io.BytesIO()
    np.save(value, np.zeros(1))
    with zipfile.ZipFile(file, "w") as archive:
        for at in range(n):
            archive.writestr(f"a{at}.npy", value.getvalue())
    return file.getvalue()


def _shape(n: int) -> bytes:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1,' * n}), }}\n".encode()
    return b"\x93NUMPY\x02\0" + struct.pack("<I", len(head)) + head + bytes(4)


def _chunks(n: int) -> bytes:
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
    body = b"WAVE" + form + (b"junk" + struct.pack("<I", 0)) * n + b"data" + struct.pack("<I", 3200) + bytes(3200)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _headed(header: str, size: int) -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + bytes(size)


def _tensors(n: int) -> bytes:
    entries = {f"t{at}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]} for at in range(n)}
    return _headed(json.dumps(entries), 4 * n)


def _digits(n: int) -> bytes:
    numbers = ",".join("9" * 4000 for _ in range(n))
    return _headed(f'{{"a":{{"dtype":"F32","shape":[{numbers}],"data_offsets":[0,4]}}}}', 4)


def _pickle(n: int) -> bytes:
    import torch

    file = io.BytesIO()
    torch.save({f"k{at}": at for at in range(n)}, file)
    return file.getvalue()


def _records(n: int) -> bytes:
    import torch

    file = io.BytesIO()
    torch.save({f"k{at}": torch.zeros(1) for at in range(n)}, file)
    return file.getvalue()


def _datasets(n: int) -> bytes:
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        for at in range(n):
            made[f"a{at}"] = np.zeros((1, 4, 4), np.float32)
    return file.getvalue()


def _matrices(n: int) -> bytes:
    from scipy.io import savemat

    file = io.BytesIO()
    savemat(file, {f"a{at}": np.zeros((1, 4, 4)) for at in range(n)})
    return file.getvalue()


def _gate(path: Path) -> object:
    return gates.parse(path.read_text(encoding="utf-8", errors="replace"))


def _selection(path: Path) -> object:
    return gates.parse_selection(path.read_text(encoding="utf-8", errors="replace"), where="--only")


def _clip(path: Path) -> object:
    from probes.speech.audio import inspect_clip
    from probes.speech.manifests import Clip

    return inspect_clip(Clip(path=path, name=path.name, line=1, source=path))


def _known(name: str, key: str, make: Callable[[int], bytes], size: int, mends: str = "") -> Case:
    """Return a case whose reader is one of those that any bytes are given to."""
    return Case(f"{name} ({key})", make, READERS[key][1], size, mends)


CASES: tuple[Case, ...] = (
    _known("rows", "manifest.csv", _rows("path,speaker,text,gender\n", "{0}.wav,s{1},up we go,f{2}\n"), 1000),
    _known("columns", "manifest.csv", _columns, 15000),
    _known("one long cell", "manifest.csv", lambda n: b"path,text,gender\na.wav," + b"a" * n + b",f\n", 100_000),
    _known("an open quote", "manifest.csv", _rows('path,text,gender\na.wav,"', "a,b\n"), 20_000),
    _known("quotes", "manifest.csv", lambda n: b'path,text,gender\na.wav,"' + b'""' * n + b'",f\n', 3_000_000),
    _known("empty lines", "manifest.csv", lambda n: b"path,text,gender\n" + b"\n" * n + b"a.wav,up,f\n", 300_000),
    _known("rows", "manifest.tsv", _rows("path\ttext\tgender\n", "{0}.wav\tup\tf{2}\n"), 1000),
    _known("rows", "manifest.jsonl", _rows("", '{{"path": "{0}.wav", "text": "up", "gender": "{1}"}}\n'), 1000),
    _known("entries", "manifest.json", _rows("[", '{{"path": "{0}", "text": "a", "gender": "b"}}', "]", ","), 1000),
    _known("keys", "manifest.jsonl", _rows('{"path": "a", "text": "b", "gender": "c"', ', "k{0}": 1', "}\n"), 20_000),
    _known("a key twice", "manifest.jsonl", _rows('{"path": "a"', ', "k{0}": 1', ', "k5": 1}\n'), 30_000),
    _known("one key for all", "manifest.jsonl", _rows('{"path": "a"', ', "k": 1', "}\n"), 50_000),
    _known(
        "the last key twice",
        "manifest.jsonl",
        lambda n: _rows('{"a": 1', ', "k{0}": 1', f', "k{n - 1}": 1}}\n')(n),
        10_000,
    ),
    _known("escapes", "manifest.jsonl", _rows('{"path": "a", "gender": "f", "text": "', "\\u00e9", '"}\n'), 200_000),
    _known(
        "samples",
        "samples_sums.jsonl",
        _rows("", '{{"doc_id": {0}, "doc": {{"q": {0}}}, "metrics": ["acc"], "acc": 1}}\n'),
        1000,
    ),
    _known(
        "samples",
        "inspect.json",
        _rows(
            '{"eval": {"task": "a", "model": "b"}, "samples": [',
            '{{"id": {0}, "input": "up", "scores": {{"match": {{"value": "C"}}}}}}',
            "]}",
            ",",
        ),
        1000,
    ),
    _known("rows", "predictions.tsv", _rows("path\tprediction\n", "{0}.wav\tup\n"), 5000),
    _known("rows", "predictions.jsonl", _rows("", '{{"path": "{0}.wav", "text": "up"}}\n'), 3000),
    _known("keys", "predictions.json", _rows("{", '"{0}.wav": "up"', "}", ","), 10_000),
    _known("rows", "predictions.trn", _rows("", "up we go (a-{0})\n"), 8000),
    _known("brackets", "predictions.trn", lambda n: b"up " + b"(" * n + b"\n", 1_000_000),
    _known("rows", "predictions.txt", _rows("", "a{0} up we go\n"), 8000),
    _known("rows", "scores.csv", _rows("id,member,score\n", "p{0},{2},{3}\n"), 8000),
    _known(
        "rows", "log.tsv", _rows("idx\tlabel\tpredict\tradius\tcorrect\ttime\n", "{0}\t1\t1\t0.5\t1\t0:00:01\n"), 2000
    ),
    _known(
        "empty lines",
        "log.tsv",
        lambda n: b"idx\tlabel\tpredict\tradius\tcorrect\ttime\n" + b"\n" * n + b"1\t1\t1\t0.5\t1\t1\n",
        100_000,
    ),
    _known("rows", "tokens.csv", _rows("phone,speaker,dialect,x0,x1\n", "a,s{1},n{2},{3},1\n"), 2000),
    _known("rows", "tokens.jsonl", _rows("", '{{"phone": "a", "speaker": "s{1}", "x0": {3}}}\n'), 2000),
    _known("rows", "points.csv", _rows("", "{0},{3}\n"), 10000),
    _known("columns", "points.csv", lambda n: b"1," * n + b"2\n", 1000),
    _known("decimal commas", "points.csv", _rows("", "{0},5;{1},25\n"), 10000),
    _known("commas of thousands", "points.csv", _rows("", "1,234;2,567\n"), 10000),
    _known("digits", "points.csv", lambda n: b"0;1\n" + b"0" * n + b";1,5\n", 100_000),
    _known("rows", "images.csv", _rows("", "{2},0,255,3,4\n"), 3000),
    _known("decimal commas", "images.csv", _rows("", "{2};0,5;2,55;3;4\n"), 3000),
    _known("columns", "images.csv", lambda n: b"1" + b",2" * n + b"\n", 2500),
    _known("lines above", "images.csv", lambda n: b"\n" * n + b"1,2,3,4,5\n", 100_000),
    _known("intervals", "a.TextGrid", _grid, 2000),
    _known("intervals", "b.TextGrid", _grid, 2000),
    _known("letters of two bytes", "a.TextGrid", lambda n: _grid(n).decode().encode("utf-16"), 2000),
    _known("rows", "a.ctm", _rows("", "a 1 {0} 0.5 AH\n"), 5000),
    _known("rows", "a.phn", _rows("", "{0} {0} ah\n"), 8000),
    _known(
        "rows",
        "a.csv",
        lambda n: "".join(["start,end,phone\n", *(f"{at},{at + 1},a\n" for at in range(n))]).encode(),
        3000,
    ),
    _known("rows", "all.csv", _rows("clip,start,end,phone\n", "x{0},0,1,a\n"), 3000),
    _known("rows", "phones.csv", _rows("from,to\n", "a{0},ah\n"), 6000),
    _known("rows", "values.csv", _rows("column,from,to\n", "gender,f{0},female\n"), 3000),
    _known("chains", "values.csv", _rows("column,from,to\n", "gender,{0},f{0}\n"), 3000),
    _known("keys", "values.toml", _rows("[gender]\n", 'f{0} = "female"\n'), 4000),
    _known("dots", "values.toml", lambda n: b"a" + b".a" * n + b"=1\n", 1200),
    _known("tables", "values.toml", _rows("", '[a{0}]\nf = "b"\n'), 3000),
    _known("dots", "config.toml", lambda n: b"a" + b".a" * n + b"=1\n", 1200),
    _known("keys", "config.toml", _rows("[audit-fairness]\n", "k{0} = 1\n"), 2000),
    _known("models", "suite.toml", _rows("", '[[model]]\nname = "{0}"\nsamples = "a.npy"\nepsilon = 8\n'), 1000),
    _known("rows", "langs.csv", _rows("code,speakers\nen,1500\n", "x{0},310\n"), 8000),
    _known("rows", "losses.csv", _losses, 1500),
    _known("rows", "distances.csv", _rows("a,b,syntax\nen,fr,0.5\nen,de,0.1\nfr,de,0.2\n", "x{0},en,0.5\n"), 3000),
    _known("rows", "tagging.csv", _rows("code,tagging\nen,0.7\nfr,0.5\n", "x{0},0.5\n"), 3000),
    _known("lines", "en.txt", _rows("", "we do so {0}\n"), 2000),
    _known("rows", "texts.jsonl", _rows("", '{{"text": "we do {0}"}}\n'), 3000),
    _known("rows", "texts.txt", _rows("", "we do {0}\n"), 10_000),
    _known("rows", "texts.csv", _rows("text\n", "we do {0}\n"), 5000),
    _known("words", "tokenizer.json", _words, 10_000),
    _known("merges", "tokenizer.json", _merges, 10_000),
    _known("estimates", "report.json", _report, 200),
    _known("a key twice", "report.json", _rows('{"a": 1', ', "k{0}": 1', ', "k5": 1}\n'), 100_000),
    _known("members", "scores.npz", _members, 500),
    _known("members", "images.npz", _members, 500),
    _known("members", "fields.npz", _members, 500),
    _known("members", "tokens.npz", _members, 500),
    _known("sides", "points.npy", _shape, 3000),
    _known("sides", "texts.npy", _shape, 3000),
    Case("datasets (fields.h5)", _datasets, opening.read_fields, 150),
    Case("matrices (fields.mat)", _matrices, opening.read_fields, 150),
    Case("tensors (a.safetensors)", _tensors, opening.classifier, 2000),
    Case("digits (b.safetensors)", _digits, opening.classifier, 25),
    Case("keys (a.pt)", _pickle, opening.classifier, 10_000),
    Case("records (b.pt)", _records, opening.classifier, 200),
    Case("chunks (a.wav)", _chunks, _clip, 20_000),
    Case("spaces (gate)", lambda n: b"a" + b" " * n + b"x", _gate, 250),
    Case("keys (gate)", _rows("gap[", "k{0}=a", "].low > 0.5", ","), _gate, 2000),
    Case("brackets (gate)", lambda n: b"a" + b"[" * n, _gate, 20_000),
    Case("digits (gate)", lambda n: b"gap.low > " + b"9" * n, _gate, 200_000),
    Case("spaces (selection)", lambda n: b"a[" + b" " * n + b"x", _selection, 250),
)


def _peak(reset: bool = False) -> int:
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1])


def met(read: Callable[[Path], object], path: Path) -> str:
    """Return how a reader took a file."""
    try:
        read(path)
    except MilesError as error:
        return f"refused: {error.message[:80]}"
    except Exception as error:
        return f"raised {type(error).__name__}: {str(error)[:80]}"
    return "read"


def _measured(case: Case, path: Path, goes: int) -> dict[str, Any]:
    """Read a file in a fork, and return the least time of several goes, the memory of the first, and how it went."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        times, how, grown = [], "", 0
        # A full collection goes through all that was imported, and comes only with many rows.
        gc.freeze()
        for go in range(goes):
            gc.collect()
            before = _peak(reset=True)
            start = time.process_time()
            how = met(case.read, path)
            times.append(time.process_time() - start)
            grown = grown if go else _peak() - before
        os.write(theirs, json.dumps({"seconds": min(times), "grown": grown, "how": how}).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"seconds": None, "grown": None, "how": f"ended after {LONGEST} s or died"}


def _round(case: Case, path: Path, sizes: dict[int, int]) -> list[dict[str, Any]]:
    found = []
    for times, goes in sizes.items():
        path.write_bytes(case.make(times * case.size))
        found.append(_measured(case, path, goes) | {"bytes": path.stat().st_size})
        if found[-1]["seconds"] is None:
            break
    return found


def _least(case: Case, path: Path, sizes: dict[int, int]) -> list[dict[str, Any]]:
    """Measure until it does not seem too much: what others do on the machine makes it longer, never shorter."""
    found = _round(case, path, sizes)
    for _ in range(ROUNDS - 1):
        if not too_much(found):
            break
        # A round without an end is shorter: what the other has beyond it stays.
        found = [min(filter(None, pair), key=_seconds) for pair in zip_longest(found, _round(case, path, sizes))]
    return found


def _seconds(measured: dict[str, Any]) -> float:
    return math.inf if measured["seconds"] is None else float(measured["seconds"])


def too_much(found: list[dict[str, Any]]) -> str:
    """Return what grows faster than the file, or nothing."""
    first, last = found[0], found[-1]
    if last["seconds"] is None:
        return f"no end after {LONGEST} seconds"
    if last["seconds"] > TIMES * max(first["seconds"], LEAST):
        return f"{first['seconds']:.3f} s become {last['seconds']:.3f} s"
    if last["grown"] > TIMES * first["grown"] + ROOM:
        return f"{first['grown']} bytes become {last['grown']}"
    return ""


def main(names: list[str]) -> None:
    """Measure the cases whose names hold one of these words, or all."""
    with TemporaryDirectory() as place:
        for case in CASES:
            if names and not any(word in case.name for word in names):
                continue
            path = Path(place, case.name.rsplit("(", 1)[1].rstrip(")"))
            path.write_bytes(case.make(3))
            met(case.read, path)  # What a reader imports, it imports now.
            in_this_process()
            found = _least(case, path, GOES)
            if too_much(found) and found[-1]["seconds"] is not None:
                found = _least(case, path, FURTHER)
            print(json.dumps({"case": case.name, "mends": case.mends, "found": found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
