"""Logs of inspect_ai: `.eval` files, which are zips, and JSON, read as scores by sample.

Of a `.eval` the header and the summaries of samples are read, not the transcripts, so that its size does not matter.
"""

import hashlib
import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.core.errors import InputError
from probes.eval_logs.scores import (
    CLOSE,
    LONGEST_NAME,
    Column,
    Entry,
    TaskLog,
    check_columns,
    cluster_of,
    digest,
    exclusions,
    mean,
    name_of,
    number_of,
    object_of,
    reduced,
    setting_of,
    text_of,
)
from probes.eval_logs.zip_parts import Parts, parse_log
from probes.files.opening import read_head, unreadable
from probes.files.text import read_text
from probes.files.zips import entries

HARNESS = "inspect_ai"
WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""What the values in words count: correct, incorrect, partly correct, no answer; the last four in any case."""
LARGEST = 2**28
"""Bytes of a JSON log, or of all that is unpacked from a `.eval`."""
MOST_ENTRIES = 2**20
"""Entries of a `.eval`: one for each epoch of a sample, and a few more."""
SHOWN = 5120
"""Letters of a text that the summaries hold."""
_HINT = "Give a .eval or .json that `inspect eval` wrote."
_CONVERT = "`inspect log convert --to eval` makes a .eval of it, of which the scores alone are read."


def read_log(path: Path, cluster: str = "") -> TaskLog:
    """Read a `.eval` or JSON log.

    Parameters
    ----------
    cluster
        Field of the metadata of samples whose values are the clusters; where empty, that of the log's own clustered
        standard errors, if there is one.

    Raises
    ------
    InputError
        Where it is no such log, is damaged or too large, or holds no scored sample.
    """
    head = read_head(path, wanted="a log of inspect_ai", hint=_HINT)
    parts = _of_zip(path) if head.startswith(b"PK") else _of_json(path)
    return _task_log(path, parts, cluster)


@dataclass(frozen=True, slots=True)
class _Read:
    """The header and the samples of a log, as JSON."""

    header: Mapping[str, Any]
    samples: Sequence[Any]
    sha256: str


def read_if_log(path: Path, cluster: str = "") -> TaskLog | None:
    """Read a file of a folder of logs; None where it is other JSON, such as a list of the logs.

    Raises
    ------
    InputError
        As of `read_log`.
    """
    if path.suffix == ".json":
        text = read_text(path, hint=_HINT, largest=LARGEST)
        value = parse_log(text, str(path))
        return _task_log(path, _of_value(path, value, text), cluster) if is_log(value) else None
    return read_log(path, cluster)


def is_log(value: object) -> bool:
    """Tell whether the JSON of a file is a log: there are others in its folder."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict)


def _of_json(path: Path) -> _Read:
    text = read_text(path, hint=_HINT, largest=LARGEST)
    return _of_value(path, parse_log(text, str(path)), text)


def _of_value(path: Path, value: object, text: str) -> _Read:
    if not isinstance(value, dict) or not is_log(value):
        raise InputError("This is no log of inspect_ai: it has no object `eval`.", where=str(path), hint=_HINT)
    samples = value.get("samples") or []
    if not isinstance(samples, list):
        raise InputError("The samples are no list.", where=f"{path}, samples", hint=_CONVERT)
    return _Read(value, samples, hashlib.sha256(text.encode()).hexdigest())


def _of_zip(path: Path) -> _Read:
    infos = entries(path, most=MOST_ENTRIES, unicode=True)
    try:
        with zipfile.ZipFile(path) as archive:
            parts = Parts(path, archive, infos, LARGEST)
            header = _header(parts, path)
            samples = list(_summaries(parts, path))
    except (OSError, zipfile.BadZipFile) as error:
        # It could be listed a moment ago.
        raise unreadable(path, error) from error
    return _Read(header, samples, parts.digest.hexdigest())


def _header(parts: Parts, path: Path) -> dict[str, Any]:
    name = next((name for name in ("header.json", "_journal/start.json") if name in parts.names), None)
    header = parts.json(name) if name else None
    if not isinstance(header, dict) or not is_log(header):
        raise InputError("This is no log of inspect_ai: the zip has no header.json.", where=str(path), hint=_HINT)
    # Without a header the run is under way, or was killed before it could write one.
    return header if name == "header.json" else {**header, "status": "started"}


def _summaries(parts: Parts, path: Path) -> Iterator[Any]:
    names = ["summaries.json"] if "summaries.json" in parts.names else []
    names = names or sorted(name for name in parts.names if name.startswith("_journal/summaries/"))
    if not names:
        # Early versions wrote none; whole samples hold the same fields.
        yield from (parts.json(name) for name in sorted(parts.names) if name.startswith("samples/"))
    for name in names:
        found = parts.json(name)
        if not isinstance(found, list):
            raise InputError("The summaries are no list.", where=f"{path}, {name}", hint=_CONVERT)
        yield from found


def _task_log(path: Path, read: _Read, cluster: str) -> TaskLog:
    about, where = read.header["eval"], str(path)
    names = _metric_names(about.get("scorers"))
    field = cluster or _cluster_field(about.get("scorers"))
    made, notes = [], Counter[str]()
    for number, sample in enumerate(read.samples, start=1):
        if not isinstance(sample, dict):
            raise InputError("A sample is no object.", where=f"{path}, sample {number}", hint=_HINT)
        made += _entry(sample, field, names, f"{path}, sample {number}", notes)
        check_columns(notes, where)
    task, status = name_of(about.get("task"), "a task", where), text_of(read.header.get("status"), 20)
    if not made:
        message = f"The log holds no scored sample (status {status})."
        raise InputError(message, where=where, hint="Run the task again, or `inspect score` the log.")
    samples = reduced(made, where)
    return TaskLog(
        path=where,
        sha256=read.sha256,
        model=name_of(about.get("model"), "a model", where),
        task=task,
        created=text_of(about.get("created")),
        harness=(HARNESS, text_of(object_of(about, "packages").get(HARNESS))),
        complete=status == "success",
        samples=samples,
        clusters=field,
        settings=_settings(about),
        notes=(
            *_missing(about, status, task, made),
            *exclusions(task, notes, "answers to"),
            *_other_means(read.header, task, samples),
        ),
    )


def _metric_names(scorers: object) -> dict[str, str]:
    """Return what the mean of a scorer is called: accuracy, where the log takes that, else mean."""
    found = {}
    for scorer in scorers if isinstance(scorers, list) else ():
        metrics = scorer.get("metrics") if isinstance(scorer, dict) else None
        for metric in metrics if isinstance(metrics, list) else ():
            if isinstance(metric, dict) and text_of(metric.get("name")).rpartition("/")[2] == "accuracy":
                found[text_of(scorer.get("name"), LONGEST_NAME)] = "accuracy"
    return found


def _cluster_field(scorers: object) -> str:
    """Return the field by which the log's own standard errors are clustered; empty where there is not just one."""
    found = set()
    for scorer in scorers if isinstance(scorers, list) else ():
        metrics = scorer.get("metrics") if isinstance(scorer, dict) else None
        groups = metrics.values() if isinstance(metrics, dict) else [metrics]
        for metric in (one for group in groups if isinstance(group, list) for one in group):
            options = metric.get("options") if isinstance(metric, dict) else None
            field = options.get("cluster") if isinstance(options, dict) else None
            found |= {field} if isinstance(field, str) else set()
    return found.pop() if len(found) == 1 else ""


def _entry(
    sample: Mapping[str, Any], field: str, names: Mapping[str, str], where: str, notes: Counter[str]
) -> list[Entry]:
    """Return the scored answer of a sample, as a list of one; an empty one where it has no score."""
    name, epoch = sample.get("id"), sample.get("epoch", 1)
    if not isinstance(name, str | int) or not isinstance(epoch, int) or isinstance(epoch, bool):
        raise InputError("A sample has no id, or its epoch is no whole number.", where=where, hint=_HINT)
    if sample.get("error"):
        notes["that ended in an error"] += 1
        return []
    scores = _scores(sample.get("scores"), names, where, notes)
    if not scores:
        notes["without a score"] += 1
        return []
    cluster = cluster_of(sample.get("metadata"), field, ascii(name), where, "metadata") if field else ""
    return [Entry(json.dumps(name), epoch, digest(_asked(sample.get("input"))), cluster, scores)]


def _scores(found: object, names: Mapping[str, str], where: str, notes: Counter[str]) -> dict[Column, float]:
    scores, lacking = {}, []
    for scorer, score in found.items() if isinstance(found, dict) else ():
        value = score.get("value") if isinstance(score, dict) else None
        scorer = name_of(scorer, "a scorer", where)
        for metric, one in value.items() if isinstance(value, dict) else ((names.get(scorer, "mean"), value),):
            number = value_of(one)
            if number is not None:
                scores[Column(scorer, name_of(metric, "a metric", where))] = number
            elif one is None or (isinstance(one, float) and math.isnan(one)):
                lacking.append(scorer)
            else:
                notes[f"with a score of {scorer} that is no number, which is left out"] += 1
    # Of an answer without any score that is noted for all of them.
    for scorer in lacking if scores else ():
        notes[f"without a score of {scorer}"] += 1
    return scores


def value_of(value: object) -> float | None:
    """Return a value as inspect_ai counts it; None of what it does not know, and of no score.

    >>> [value_of(value) for value in ("C", "P", "N", "Yes", "0.25", True, 3)], value_of("good")
    ([1.0, 0.5, 0.0, 1.0, 0.25, 1.0, 3.0], None)
    """
    if not isinstance(value, str):
        return number_of(value)
    if value in WORDS or value.lower() in ("yes", "true", "no", "false"):
        return WORDS.get(value, WORDS.get(value.lower()))
    try:
        return number_of(float(value)) if len(value) < 40 and value.isascii() else None
    except ValueError:
        return None


def _asked(asked: object) -> object:
    """Return what was asked, as both forms of a log have it: texts up to the length of the summaries."""
    if isinstance(asked, str):
        return asked[:SHOWN]
    messages = asked if isinstance(asked, list) else []
    return [[text_of(one.get("role")), _content(one.get("content"))] for one in messages if isinstance(one, dict)]


def _content(content: object) -> object:
    if isinstance(content, str):
        return content[:SHOWN]
    parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return [
        text_of(one.get("text"), SHOWN) if one.get("type") == "text" else f"({text_of(one.get('type')).capitalize()})"
        for one in parts
    ]


def _settings(about: Mapping[str, Any]) -> dict[str, object]:
    config = object_of(about, "config")
    found = {
        "version": about.get("task_version"),
        "arguments": about.get("task_args") or None,
        "model arguments": about.get("model_args") or None,
        "generation": about.get("model_generate_config") or None,
        **{name.replace("_", " "): config.get(name) for name in ("epochs", "epochs_reducer", "limit")},
    }
    return {name: setting_of(value) for name, value in found.items() if value is not None}


def _missing(about: Mapping[str, Any], status: str, task: str, made: Sequence[Entry]) -> Iterator[str]:
    """Yield a sentence where the log did not come to its end, or fewer answers are scored than there should be."""
    dataset = object_of(about, "dataset")
    ids, epochs = dataset.get("sample_ids"), object_of(about, "config").get("epochs") or 1
    count = len(ids) if isinstance(ids, list) else dataset.get("samples")
    whole = count * epochs if isinstance(count, int) and isinstance(epochs, int) and not isinstance(count, bool) else 0
    lacking = f": {whole - len(made):,} of {whole:,} answers are missing" if whole > len(made) else ""
    if status != "success":
        yield f"the log of {task} has the status {status}{lacking}."
    elif lacking:
        yield f"{lacking[2:]} in the log of {task}."


def _other_means(header: Mapping[str, Any], task: str, samples: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence for each number of the log that is another than the mean of the samples' means over epochs."""
    scores = object_of(header, "results").get("scores")
    for score in scores if isinstance(scores, list) else ():
        metrics = score.get("metrics") if isinstance(score, dict) else None
        for name in ("accuracy", "mean"):
            metric = metrics.get(name) if isinstance(metrics, dict) else None
            theirs = number_of(metric.get("value")) if isinstance(metric, dict) else None
            scorer, own = (text_of(score.get(key), LONGEST_NAME) for key in ("scorer", "name"))
            places = [Column(scorer, own)] if own != scorer else [Column(scorer, one) for one in ("accuracy", "mean")]
            ours = next((found for one in places if (found := mean(samples, one)) is not None), None)
            if theirs is not None and ours is not None and abs(ours - theirs) > CLOSE * max(1.0, abs(theirs)):
                how = f" (reduced by {reducer})" if (reducer := text_of(score.get("reducer"))) else ""
                yield (
                    f"the log of {task} says {name} {theirs:.4g} of {own}{how}; "
                    f"the mean over samples and their epochs, which is compared, is {ours:.4g}."
                )
