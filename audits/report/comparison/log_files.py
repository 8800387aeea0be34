"""Logs of other harnesses, as files and folders are named on the command line, read as runs that can be compared."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from audits.report.comparison.comparing import Run
from audits.report.comparison.log_records import Logs, directions, run_of
from probes.core.errors import InputError
from probes.eval_logs import inspect_logs, lm_eval_logs
from probes.eval_logs.scores import TaskLog
from probes.files.opening import reading

HARNESSES = ("inspect", "lm-eval")
MOST_LOGS = 1000
"""Logs in a folder."""

Shown = Callable[[Path], str]
"""How a path is shown."""


def read_logs(harness: str, paths: Sequence[Path], *, cluster: str = "", shown: Shown = str) -> list[Run]:
    """Return the logs as runs, in the order given: one for each model that a file or folder holds.

    Parameters
    ----------
    harness
        One of `HARNESSES`.
    cluster
        Field of the samples (`metadata` of inspect_ai, `doc` of lm-evaluation-harness) whose values are the clusters.

    Raises
    ------
    InputError
        Where a file is no such log, a folder holds none, or one model took a task twice in it.
    """
    found = [taken for path in paths for taken in _taken(harness, path, cluster, shown)]
    if harness == "inspect" and not cluster:
        found = _alike_clustered(found)
    better = directions((log for taken in found for log in taken.logs), of_range=harness == "inspect")
    models = Counter(taken.logs[0].model for taken in found)
    runs = []
    for taken in found:
        model = taken.logs[0].model
        # The name of the model says more than that of a file, where it tells the runs apart.
        name = model if models[model] == 1 else taken.name
        runs.append(run_of(replace(taken, name=name), harness, better))
    return runs


def _alike_clustered(found: Sequence[Logs]) -> list[Logs]:
    """Return the logs with the clusters that any log of the same task names: they belong to the samples, not to a log.

    Raises
    ------
    InputError
        Where logs of a task name two fields, or one lacks the field that another names.
    """
    fields: dict[str, str] = {}
    for log in (log for taken in found for log in taken.logs if log.clusters):
        if fields.setdefault(log.task, log.clusters) != log.clusters:
            message = f"Logs of {log.task} have standard errors clustered by {fields[log.task]} and by {log.clusters}."
            raise InputError(message, where=log.path, hint="Say which with --cluster FIELD.")
    again = (
        tuple(
            log if log.clusters == fields.get(log.task, "") else inspect_logs.read_log(Path(log.path), fields[log.task])
            for log in taken.logs
        )
        for taken in found
    )
    return [replace(taken, logs=logs) for taken, logs in zip(found, again, strict=True)]


def _taken(harness: str, path: Path, cluster: str, shown: Shown) -> list[Logs]:
    logs, notes = _of_inspect(path, cluster) if harness == "inspect" else _of_lm_eval(path, cluster)
    models: dict[str, list[TaskLog]] = {}
    for log in logs:
        models.setdefault(log.model, []).append(log)
    name = shown(path)
    several = len(models) > 1
    return [_once(f"{name} ({model})" if several else name, own, notes, path) for model, own in models.items()]


def _once(name: str, logs: Sequence[TaskLog], notes: tuple[str, ...], path: Path) -> Logs:
    """Return the logs with each task once: of several logs of a task, the one that came to its end."""
    tasks: dict[str, list[TaskLog]] = {}
    for log in logs:
        tasks.setdefault(log.task, []).append(log)
    kept, left = [], []
    for task, alike in tasks.items():
        whole = [log for log in alike if log.complete] if len(alike) > 1 else alike
        if len(whole) != 1:
            message = f"{alike[0].model} took {task} more than once: {', '.join(Path(one.path).name for one in alike)}."
            hint = "Name the logs to compare, file by file (of lm-eval the results_DATE.json of each run)."
            raise InputError(message[:400], where=str(path), hint=hint)
        kept += whole
        left += [f"{Path(one.path).name} is left out: it did not come to its end." for one in alike if one not in whole]
    return Logs(name, tuple(kept), (*notes, *left))


def _of_inspect(path: Path, cluster: str) -> tuple[list[TaskLog], tuple[str, ...]]:
    if not path.is_dir():
        return [inspect_logs.read_log(path, cluster)], ()
    logs, others = [], []
    for file in _files(path, lambda one: one.suffix in (".eval", ".json")):
        log = inspect_logs.read_if_log(file, cluster)
        if log is None:
            others.append(f"{file.name} is no log, and left out.")
        else:
            logs.append(log)
    if not logs:
        hint = "Name the folder that `inspect eval --log-dir` wrote to, or a .eval or .json in it."
        raise InputError("There is no log of inspect_ai in this folder.", where=str(path), hint=hint)
    return logs, tuple(others)


def _of_lm_eval(path: Path, cluster: str) -> tuple[list[TaskLog], tuple[str, ...]]:
    if path.is_dir():
        samples = _files(path, lm_eval_logs.is_samples)
    elif lm_eval_logs.is_results(path):
        lm_eval_logs.read_results(path)
        samples = lm_eval_logs.samples_of(path)
    else:
        samples = [path]
    if not samples:
        where = "in this folder" if path.is_dir() else "of this run beside it"
        hint = "Run lm_eval with --log_samples: results alone have no scores of single samples."
        raise InputError(f"There is no samples_TASK_DATE.jsonl {where}.", where=str(path), hint=hint)
    known: dict[str, lm_eval_logs.Results | None] = {}
    logs, seen = [], dict[str, set[str]]()
    for file in samples:
        place = f"{file.parent}/{lm_eval_logs.task_and_date(file)[1]}"
        if place not in known:
            known[place] = lm_eval_logs.results_of(file)
        logs.append(lm_eval_logs.read_log(file, cluster, known[place]))
        seen.setdefault(place, set()).add(logs[-1].task)
    single = not path.is_dir() and samples == [path]
    return logs, () if single else tuple(_unsampled(known, seen))


def _unsampled(known: Mapping[str, lm_eval_logs.Results | None], seen: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield a sentence for each task that results name and of which there are no samples; groups have none."""
    for place, results in known.items():
        if results is not None:
            tasks = results.values.get("n-samples")
            for task in sorted(tasks.keys() - seen[place]) if isinstance(tasks, dict) else ():
                yield f"there are no samples of {ascii(task)[1:60].rstrip(chr(39))} in {results.path.name}'s folder."


def _files(folder: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    """Return the files below a folder, without hidden ones.

    Raises
    ------
    InputError
        Where there are too many.
    """
    with reading(folder):
        found = sorted(
            one for one in folder.rglob("*") if wanted(one) and one.is_file() and not one.name.startswith(".")
        )
    if len(found) > MOST_LOGS:
        message = f"There are {len(found):,} logs in this folder; {MOST_LOGS:,} are read."
        raise InputError(message, where=str(folder), hint="Name a folder of fewer, or the logs.")
    return found
