"""A report as a run in a tracking store of MLflow."""

import hashlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from audits.core.gates import abridged
from audits.core.records import Estimate, GateResult, Report
from audits.report.exports.mlflow_stores import ROOT, Store, alone, check_files, checked, safe, shown, store_address
from audits.report.exports.mlflow_stores import experiment as make_experiment
from audits.report.exports.wording import ends, line, moment, outcome
from audits.report.pages import content, registered
from audits.report.records_file import records_file
from audits.report.report_file import NAME
from probes.core.errors import InputError

MARK = "miles.report_sha256"
"""The tag by which a report is found again. It is written last: a run without it was cut off."""

MOST_VALUE, MOST_TAG, MOST_KEY = 6000, 5000, 200
"""Letters of a value, a tag and a key that MLflow takes; of keys it takes 250, and ends and marks need some."""

MOST_SAID = 600
"""Letters of MLflow's own words in an error."""

METRICS_A_BATCH, OTHERS_A_BATCH = 1000, 25
"""What one request may hold: MLflow takes 1000 metrics, and a million bytes, which long values reach earlier."""

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # MLflow's file store, the only one without a database, is deprecated and has to be enabled.
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_LOGGING_LEVEL": "WARNING"}
"""Where nothing else is set: by default a server that is down is asked for minutes, without a word.

Of a new database MLflow would tell each step.
"""

_PAGES = (NAME, "report.html", "report.md")
NOT_GIVEN = content.setting(None)


@dataclass(frozen=True, slots=True)
class _Files:
    report: Path
    records: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The result of an export: the run, whether it is new, and what it holds of the report.

    `beside` is where the files of a database's run are.
    """

    run: str
    is_new: bool
    metrics: int = 0
    settings: int = 0
    cut: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    beside: str = ""


def log(report: Report, file: Path, *, store: str | None, experiment: str, force: bool, records: bool = True) -> Logged:
    """Log a report as a run: settings as parameters, estimates as metrics, the files beside it as artifacts.

    Parameters
    ----------
    report, file
        The report and the file that it was read from.
    store
        Where the runs are: a folder or an address. None: what MLFLOW_TRACKING_URI names, if that is on this machine,
        or what MLflow itself would use in this folder.
    experiment
        The experiment, which is made where there is none.
    force
        Log a report again that is there already.
    records
        Copy records.csv or records.parquet too, which holds rows about people or items.

    Raises
    ------
    InputError
        Where MLflow is not installed, or the store cannot be used.
    """
    with _environment():
        try:
            import mlflow.exceptions
            from mlflow import MlflowClient
            from mlflow.utils.file_utils import get_local_path_or_none
        except ImportError as error:
            raise InputError(
                f"MLflow is not installed ({error}).", where="--to mlflow", hint="pip install 'miles-audit[mlflow]'"
            ) from error
        place = checked(store_address(store))
        try:
            # MLflow keeps the files of its own first experiment where the program runs, if nothing else is said.
            with _environment(**({ROOT: str(place.files)} if place.files else {})), alone(place):
                client = MlflowClient(tracking_uri=place.address)
                found = make_experiment(client, place, experiment)
                location = str(client.get_experiment(found).artifact_location)
                check_files(lambda: location, place.address, found)
                logged = _log(client, report, found, _Files(file, records), force)
            return replace(logged, beside=str(get_local_path_or_none(location)) if place.kind == "sqlite" else "")
        except (mlflow.exceptions.MlflowException, ImportError) as error:
            raise _unusable(place, error) from error


def _unusable(place: Store, error: Exception) -> InputError:
    """Say what MLflow says of a store, which may be a page."""
    said = shown(line(error))
    hint = "Give a folder, or the address of a server that answers."
    if "mlflow db upgrade" in said:
        said = "An older version of MLflow made the database."
        hint = f"Make a copy of it, then: mlflow db upgrade {shown(place.address)}"
    elif place.kind in ("sqlite", "database"):
        hint = "Use the version of MLflow that made the database, or give another."
    return InputError(
        f"MLflow cannot use the store: {shorten(said, MOST_SAID, placeholder=' ...')}", where=place.where, hint=hint
    )


@contextmanager
def _environment(**more: str) -> Iterator[None]:
    """Disable the telemetry of MLflow and its deprecations while it is in use, and set what else is given."""
    changed = {**{name: os.environ.get(name, value) for name, value in _PATIENCE.items()}, **_ENVIRONMENT, **more}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        with warnings.catch_warnings():
            # MLflow uses what the newest SQLAlchemy deprecates: nothing that a user of miles could change.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _log(client: Any, report: Report, experiment_id: str, files: _Files, force: bool) -> Logged:
    digest = hashlib.sha256(files.report.read_bytes()).hexdigest()
    start, end = _times(report)
    if not force:
        held = client.search_runs([experiment_id], filter_string=f"tags.`{MARK}` = '{digest}'", max_results=1)
        if held:
            return Logged(run=held[0].info.run_id, is_new=False)
    name = f"{line(report.audit)} {content.identity(report)}"
    run = client.create_run(experiment_id, start_time=start, run_name=name).info.run_id
    try:
        logged = _fill(client, run, report, files, end)
        client.set_tag(run, MARK, digest)
        client.set_terminated(run, "FINISHED", end_time=end)
    except BaseException:
        client.delete_run(run)
        raise
    return logged


def _times(report: Report) -> tuple[int, int]:
    """Return start and end of the audit, in milliseconds."""
    end = int(1000 * moment(report).timestamp())
    spent = 1000 * content.seconds(report)
    return int(max(0, end - min(max(0, spent), end))), end


def _fill(client: Any, run: str, report: Report, files: _Files, time: int) -> Logged:
    from mlflow.entities import Metric, Param, RunTag

    numbers = [Metric(key, value, time, 0) for key, value in metrics(report.estimates)]
    for batch in _batches(numbers, METRICS_A_BATCH):
        client.log_batch(run, metrics=batch)
    values = {key: line(content.setting(value)) or NOT_GIVEN for key, value in sorted(report.settings.items())}
    keys = _distinct([(safe(key), key) for key in values])
    written = [Param(key, value[:MOST_VALUE]) for key, value in zip(keys, values.values(), strict=True)]
    for batch in _batches(written, OTHERS_A_BATCH):
        client.log_batch(run, params=batch)
    tags = _tags(report)
    client.log_batch(run, tags=[RunTag(key, value[:MOST_TAG]) for key, value in tags.items()])
    found, missing = _found(report, files)
    for path, folder in found:
        client.log_artifact(run, str(path), folder)
    return Logged(
        run=run,
        is_new=True,
        metrics=len(numbers),
        settings=len(values),
        cut=tuple(
            key for held, most in ((values, MOST_VALUE), (tags, MOST_TAG)) for key in held if len(held[key]) > most
        ),
        files=tuple(f"{folder}/{path.name}" if folder else path.name for path, folder in found),
        missing=tuple(missing),
    )


def _batches(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _tags(report: Report) -> Mapping[str, str]:
    subject = {"miles.subject_sha256": report.subject.sha256} if report.subject else {}
    made = report.provenance
    tags = {
        "miles.audit": report.audit,
        **subject,
        "miles.version": made.miles,
        "miles.python": made.python,
        "miles.packages": ", ".join(f"{name} {version}" for name, version in sorted(made.packages.items())),
        "miles.gates": outcome(report),
        **_registered(report),
    }
    # MLflow shows mlflow.note.content on the page of the run.
    gates = [] if report.registration is None else [f"Gate {_judged(gate)}" for gate in report.gates]
    note = "\n\n".join([*gates, *(line(finding.whole) for finding in content.findings(report))])
    return {**{key: line(value) for key, value in tags.items()}, "mlflow.note.content": note}


def _registered(report: Report) -> dict[str, str]:
    """Return the digest of the registration that a report cites, and what became of both kinds of gates."""
    if report.registration is None:
        return {}
    kinds = {"miles.gates_registered": True, "miles.gates_post_hoc": False}
    details = {
        tag: outcome(replace(report, gates=tuple(gate for gate in report.gates if gate.registered is kind)))
        for tag, kind in kinds.items()
    }
    return {"miles.registration": report.registration.sha256, **details}


def _judged(gate: GateResult) -> str:
    return f"{registered.outcome(gate)}: {line(abridged(gate.expression))}"


def _found(report: Report, files: _Files) -> tuple[list[tuple[Path, str | None]], list[str]]:
    """Return the files of the run with their folders in the store, and those that are missing.

    Beside a file of another name may stand anything. No link is followed: it could lead anywhere.
    """
    file = files.report
    if file.name != NAME:
        return [(file, None)], []
    pictures = [f"{figure.file}.{kind}" for figure in report.figures for kind in ("png", "svg")]
    wanted: list[tuple[Path, str | None]] = [(file.parent / name, None) for name in _PAGES]
    if files.records:
        wanted.append((records_file(file.parent), None))
    if not (file.parent / "figures").is_symlink():
        wanted += [(file.parent / "figures" / name, "figures") for name in pictures]
    found = [(path, folder) for path, folder in wanted if path.is_file() and (path == file or not path.is_symlink())]
    return found, [path.name for path, folder in wanted if (path, folder) not in found]


def metrics(estimates: Sequence[Estimate]) -> list[tuple[str, float]]:
    """Return the estimates as metrics under keys that MLflow accepts: values and ends of intervals.

    Two estimates never share a key, and a key does not depend on the order of the estimates.

    Examples
    --------
    >>> row = Estimate(name="gap", value=0.1, method="exact", n=1, unit="x", where={"by": "age & sex", "layer": 3})
    >>> metrics([row])
    [('gap.by-age___sex.layer-3', 0.1)]
    """
    keys = _distinct([(_key(row), json.dumps([row.name, dict(row.where)], sort_keys=True)) for row in estimates])
    return [
        (key + end, float(value))
        for key, row in zip(keys, estimates, strict=True)
        for end, value in [("", row.value), *((f".{name}", bound) for name, bound in ends(row).items())]
    ]


def _key(row: Estimate) -> str:
    return ".".join([safe(row.name), *(f"{safe(key)}-{safe(value)}" for key, value in sorted(row.where.items()))])


def _distinct(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a distinct key for each pair of a key and its meaning; equal or long keys get a hash of the meaning."""
    # Compared in lower case, since some file systems ignore case.
    shared = Counter(key.lower() for key, _ in keys)
    seen: Counter[str] = Counter()
    found = []
    for key, whole in keys:
        if shared[key.lower()] > 1 or len(key) > MOST_KEY:
            mark = hashlib.sha256(whole.encode()).hexdigest()[:12]
            seen[mark] += 1
            again = f"_{seen[mark]}" if seen[mark] > 1 else ""
            key = f"{key[:MOST_KEY]}.h{mark}{again}"
        found.append(key)
    return found
