"""Logs of lm-evaluation-harness: the samples of a task, as JSON a line, and the results beside them."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.core.errors import InputError
from probes.eval_logs.scores import (
    CLOSE,
    Column,
    Sample,
    TaskLog,
    check_columns,
    cluster_of,
    digest,
    exclusions,
    mean,
    name_of,
    number_of,
    object_of,
    setting_of,
    text_of,
)
from probes.files.json_values import parse_json
from probes.files.text import check_size, numbered_lines, read_text

HARNESS = "lm_eval"
LARGEST = 2**31
"""Bytes of the samples of a task; line by line, they are not held."""
LARGEST_RESULTS = 2**26
MOST_SAMPLES = 10**6
HIGHER = frozenset({"acc", "acc_norm", "acc_mutual_info", "exact_match", "em", "f1", "mc1", "mc2", "pass@1"})
"""Metrics of which more is better, where no results say so."""
_OWN = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash"}
    | {"target_hash", "task_name"}
)
_DATED = re.compile(r"(?:samples_)?(?P<task>.+?)(?:_(?P<date>\d{4}-\d{2}-\d{2}T[\d.\-:]+))?\.jsonl")
_HINT = "Give what lm_eval wrote with --output_path and --log_samples."


@dataclass(frozen=True, slots=True)
class Results:
    """What a results file says of the run as a whole."""

    path: Path
    values: Mapping[str, Any]

    def of(self, name: str, task: str) -> dict[str, Any]:
        """Return what it says of a task under a name; an empty object where that is nothing."""
        return object_of(object_of(self.values, name), task)


def is_samples(path: Path) -> bool:
    """Tell by its name whether a file holds the samples of a task."""
    return path.name.startswith("samples_") and path.suffix == ".jsonl"


def is_results(path: Path) -> bool:
    """Tell by its name whether a file holds results."""
    return path.name.startswith("results") and path.suffix == ".json"


def task_and_date(path: Path) -> tuple[str, str]:
    """Return the task and the date in the name of a file of samples; the date is empty where it has none.

    >>> task_and_date(Path("samples_arc_easy_2026-11-28T00-28-36.589327.jsonl"))
    ('arc_easy', '2026-11-28T00-28-36.589327')
    """
    found = _DATED.fullmatch(path.name)
    return (found["task"], found["date"] or "") if found else (path.stem, "")


def read_results(path: Path) -> Results:
    """Read a results file.

    Raises
    ------
    InputError
        Where it is no JSON, or has no results.
    """
    values = parse_json(read_text(path, hint=_HINT, largest=LARGEST_RESULTS), str(path), lone=True)
    if not isinstance(values, dict) or not isinstance(values.get("results"), dict):
        raise InputError("The file has no object `results`.", where=str(path), hint=_HINT)
    return Results(path, values)


def results_of(path: Path) -> Results | None:
    """Return the results of the run that wrote a file of samples; None where they are not beside it."""
    date = task_and_date(path)[1]
    beside = path.with_name(f"results_{date}.json")
    return read_results(beside) if date and beside.is_file() else None


def samples_of(results: Path) -> list[Path]:
    """Return the files of samples that the run of a results file wrote: those of its date beside it."""
    date = results.stem.removeprefix("results_")
    return [one for one in sorted(results.parent.iterdir()) if is_samples(one) and task_and_date(one)[1] == date]


def read_log(path: Path, cluster: str = "", results: Results | None = None) -> TaskLog:
    """Read the samples of a task.

    A metric whose number in the results is not the mean over samples, such as a perplexity, is left out, with a note.

    Parameters
    ----------
    cluster
        Field of the documents whose values are the clusters; where empty, documents of one hash are one.
    results
        What the same run says of the task.

    Raises
    ------
    InputError
        Where a line is no such sample, one stands twice, or there are too many or none, or too many metrics.
    """
    check_size(path, LARGEST)
    task, date = task_and_date(path)
    task = name_of(task, "a task", str(path))
    notes, whole = Counter[str](), hashlib.sha256()
    samples = tuple(_samples(path, cluster, notes, whole))
    if not samples:
        raise InputError("The file holds no scored sample.", where=str(path), hint=_HINT)
    lacking = _lacking(samples, task, results)
    samples, left_out = _means_only(samples, task, results, lacking)
    values = results.values if results else {}
    return TaskLog(
        path=str(path),
        sha256=whole.hexdigest(),
        model=_model(path, values),
        task=task,
        created=date,
        harness=(HARNESS, text_of(values.get("lm_eval_version"))),
        complete=True,
        samples=samples,
        clusters=cluster,
        higher_is_better=_directions(samples, task, results),
        settings=_settings(values, task),
        notes=(*exclusions(task, notes, "samples of"), *_missing(task, results, lacking), *left_out),
    )


def _samples(path: Path, cluster: str, notes: Counter[str], whole: Any) -> Iterator[Sample]:
    """Yield the documents, each with its metrics under all filters."""
    scores: dict[int, dict[Column, float]] = {}
    columns: set[Column] = set()
    known: dict[int, tuple[str, str]] = {}
    seen = set[tuple[int, str]]()
    for number, text in numbered_lines(path, hint=_HINT):
        whole.update(f"{text}\n".encode())
        if not text.strip():
            continue
        where = f"{path}:{number}"
        row = _parsed(text, where)
        doc_id = row.get("doc_id") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(doc_id, int) or isinstance(doc_id, bool):
            raise InputError("The line is no sample: it has no whole number `doc_id`.", where=where, hint=_HINT)
        if len(known) > MOST_SAMPLES:
            message = f"The file has more than {MOST_SAMPLES:,} samples."
            raise InputError(message, where=where, hint="Split it by task.")
        kept = row.get("filter") if isinstance(row.get("filter"), str) else "none"
        if (doc_id, str(kept)) in seen:
            message = f"The document {doc_id} stands twice (filter {ascii(kept)[:40]})."
            raise InputError(message, where=where, hint="Two runs wrote one file: run the task again.")
        seen.add((doc_id, str(kept)))
        asked = _asked(row, where)
        own = cluster_of(row.get("doc"), cluster, f"doc_id {doc_id}", where, "doc") if cluster else asked
        if known.setdefault(doc_id, (asked, own)) != (asked, own):
            message = f"The document {doc_id} is another one than above."
            raise InputError(message, where=where, hint="Two runs wrote one file: run the task again.")
        found = _scores(row, str(kept), where, notes)
        columns |= found.keys()
        check_columns(columns, where)
        check_columns(notes, where)
        scores.setdefault(doc_id, {}).update(found)
    turns = Counter[str]()
    for doc_id in sorted(known):
        asked, own = known[doc_id]
        # The same document again is another sample of the same cluster.
        turns[asked] += 1
        if scores[doc_id]:
            yield Sample(digest(asked, turns[asked]), own, scores[doc_id])
        else:
            notes["without a score"] += 1


def _parsed(text: str, where: str) -> object:
    try:
        return parse_json(text, where, lone=True)
    except InputError as error:
        error.hint = _HINT
        raise


def _asked(row: Mapping[str, Any], where: str) -> str:
    """Return the hash of the document; early versions wrote none, and it is taken of the document itself."""
    found = row.get("doc_hash")
    if isinstance(found, str) and found:
        return digest(found)
    try:
        return digest(row.get("doc"))
    except RecursionError:
        raise InputError("The document is nested too deep.", where=where, hint=_HINT) from None


def _scores(row: Mapping[str, Any], kept: str, where: str, notes: Counter[str]) -> dict[Column, float]:
    """Return the metrics of a line: those that it lists, or in early versions all that are not fields of the format."""
    listed = row.get("metrics")
    names = listed if isinstance(listed, list) else [name for name in row if name not in _OWN]
    found = {}
    for name in names:
        value = number_of(row.get(name)) if isinstance(name, str) else None
        column = Column(
            "", name_of(name, "a metric", where), "" if kept == "none" else name_of(kept, "a filter", where)
        )
        if value is not None:
            found[column] = value
        else:
            notes[f"without a single number as {name}, which is left out"] += 1
    return found


def _means_only(
    samples: Sequence[Sample], task: str, results: Results | None, lacking: int
) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """Leave out the metrics of which the results give another number than the mean, also over those that lack."""
    said = results.of("results", task) if results else {}
    dropped, notes = set(), []
    for column in dict.fromkeys(column for sample in samples for column in sample.scores):
        theirs, ours = number_of(said.get(f"{column.metric},{column.filter or 'none'}")), mean(samples, column)
        if theirs is None or ours is None:
            continue
        bounds = _reach(samples, column, ours, lacking)
        if bounds is None or not bounds[0] <= theirs <= bounds[1]:
            dropped.add(column)
            why = (
                f"which is no mean over its samples ({ours:.4g})"
                if bounds
                else f"and whether that is a mean cannot be told ({ours:.4g})"
            )
            notes.append(f"{column.metric} of {task} is left out: the results say {theirs:.4g}, {why}.")
    if not dropped:
        return tuple(samples), ()
    kept = ({one: score for one, score in sample.scores.items() if one not in dropped} for sample in samples)
    whole = zip(samples, kept, strict=True)
    return tuple(Sample(sample.key, sample.cluster, own) for sample, own in whole if own), tuple(notes)


def _reach(samples: Sequence[Sample], column: Column, ours: float, lacking: int) -> tuple[float, float] | None:
    """Return the ends between which the mean over all samples lies, whatever those have that lack; None: anywhere."""
    scores = [sample.scores[column] for sample in samples if column in sample.scores]
    if lacking and not all(0 <= score <= 1 for score in scores):
        return None
    share = len(scores) / (len(scores) + lacking)
    low, high = ours * share, ours * share + 1 - share
    slack = CLOSE * max(1.0, abs(ours))
    return low - slack, high + slack


def _directions(samples: Sequence[Sample], task: str, results: Results | None) -> dict[Column, bool]:
    said = results.of("higher_is_better", task) if results else {}
    columns = dict.fromkeys(column for sample in samples for column in sample.scores)
    if not said:
        return {column: True for column in columns if column.metric in HIGHER}
    return {column: said[column.metric] for column in columns if isinstance(said.get(column.metric), bool)}


def _lacking(samples: Sequence[Sample], task: str, results: Results | None) -> int:
    """Return how many samples there should be beside those that there are."""
    count = results.of("n-samples", task).get("effective") if results else None
    return max(count - len(samples), 0) if isinstance(count, int) and not isinstance(count, bool) else 0


def _missing(task: str, results: Results | None, lacking: int) -> Iterator[str]:
    if results is not None and lacking:
        count = results.of("n-samples", task)["effective"]
        yield f"{lacking:,} of {count:,} samples of {task} are missing."


def _model(path: Path, values: Mapping[str, Any]) -> str:
    """Return the name of the model: what the results call it, or the folder that is named after it."""
    config = object_of(values, "config")
    given = config.get("model_args")
    pretrained = given.get("pretrained") if isinstance(given, dict) else None
    named = next((one for one in (values.get("model_name"), pretrained) if isinstance(one, str) and one.strip()), None)
    return name_of(named or path.absolute().parent.name or path.stem, "a model", str(path))


def _settings(values: Mapping[str, Any], task: str) -> dict[str, object]:
    config = object_of(values, "config")
    # The name of the model is told as such.
    given = {name: value for name, value in object_of(config, "model_args").items() if name != "pretrained"}
    found = {
        "version": object_of(values, "versions").get(task),
        "n-shot": object_of(values, "n-shot").get(task),
        "model arguments": given or None,
        "generation": config.get("gen_kwargs") or None,
        "limit": config.get("limit"),
        "system instruction": values.get("system_instruction") or None,
        "chat template": values.get("chat_template_sha") or None,
    }
    return {name: setting_of(value) for name, value in found.items() if value is not None}
