"""Logs of other harnesses for tests: small genuine ones, kept as data, and such as are written here in their form.

The genuine ones were made by inspect_ai 0.3.285 with its mockllm model, without the events of the transcripts, and by
lm-evaluation-harness 0.4.13 with a scripted model, without what its results say of the machine.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.eval_logs.scores import Column, Sample, TaskLog

DATA = Path(__file__).resolve().parents[1] / "data" / "eval_logs"
INSPECT, LM_EVAL = DATA / "inspect", DATA / "lm_eval"
ACCURACY = Column("match", "accuracy")


def task_log(model: str, scores: Sequence[float], clusters: Sequence[int] = (), task: str = "sums") -> TaskLog:
    """Return a log with a score for each sample, in memory."""
    names = [str(one) for one in clusters] or [""] * len(scores)
    samples = tuple(
        Sample(f"s{at}", name, {ACCURACY: float(score)})
        for at, (score, name) in enumerate(zip(scores, names, strict=True))
    )
    return TaskLog(
        path=f"{model}.eval", sha256=model, model=model, task=task, created="2026-11-28", harness=("inspect_ai", "1"),
        complete=True, samples=samples, clusters="family" if clusters else "",
    )  # fmt: skip


def sample(name: object, value: object, epoch: int = 1, **more: Any) -> dict[str, Any]:
    """Return a sample of a log of inspect_ai with one score."""
    scores = {"match": {"value": value}}
    return {"id": name, "epoch": epoch, "input": f"What is {name}?", "target": "1", "scores": scores, **more}


def inspect_json(samples: Sequence[Mapping[str, Any]], model: str = "m/a", **more: Any) -> dict[str, Any]:
    """Return a log of inspect_ai, as JSON has it; `more` are further keys of `eval`."""
    scorers = [{"name": "match", "metrics": [{"name": "inspect_ai/accuracy", "options": {}}]}]
    about = {
        "task": "sums", "model": model, "created": "2026-11-28T00:00:00+00:00", "scorers": scorers,
        "dataset": {"samples": len({one["id"] for one in samples})},
        "config": {"epochs": len({one["epoch"] for one in samples}) or 1},
        "packages": {"inspect_ai": "0.3.285"}, **more,
    }  # fmt: skip
    return {"version": 2, "status": "success", "eval": about, "samples": list(samples)}


def inspect_eval(path: Path, log: Mapping[str, Any], *, header: str = "header.json", summaries: bool = True) -> Path:
    """Write a log as a `.eval`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(header, json.dumps({key: value for key, value in log.items() if key != "samples"}))
        for one in log["samples"]:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if summaries:
            file.writestr("summaries.json", json.dumps(log["samples"]))
    return path


def lm_eval_line(place: int, **more: Any) -> dict[str, Any]:
    """Return a line of samples of lm-evaluation-harness."""
    metrics = {key: value for key, value in more.items() if key not in ("filter", "doc", "doc_hash")}
    own = {"doc_id": place, "doc": {"q": place}, "target": "1", "resps": [["1"]], "filtered_resps": ["1"]}
    return {**own, "filter": "none", "metrics": list(metrics), "doc_hash": f"{place:064x}", **more}


def lm_eval_samples(folder: Path, lines: Sequence[Mapping[str, Any]], task: str = "sums", date: str = "") -> Path:
    """Write the samples of a task into a folder that is named after the model."""
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_{task}_{date or '2026-11-28T00-00-00.000001'}.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path
