"""The scores of a log as every harness has them: tasks, samples, and one number for each metric of a sample."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probes.core.errors import InputError

LONGEST_NAME = 200
"""Letters of the name of a model, task, scorer or metric."""
MOST_COLUMNS = 500
"""Metrics that a task may have."""
_SECRET = re.compile("key|token$|secret|password|credential", re.IGNORECASE)
LARGEST_SCORE = 1e70
"""Size of a score, so that fourth powers of sums stay in range."""
CLOSE = 1e-6
"""Distance up to which two means are one, relative where they are above 1."""


@dataclass(frozen=True, slots=True)
class Column:
    """What is scored: a scorer (empty where the harness has none), its metric, and the filter of the answers."""

    scorer: str
    metric: str
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One scored answer: a sample in one epoch.

    Parameters
    ----------
    id
        What the harness calls the sample, as JSON: the number 1 is not the text "1".
    content
        Hash of what was asked, so that samples of one id in other data are not taken for the same.
    cluster
        What is sampled as a whole; empty where the sample itself is.
    """

    id: str
    epoch: int
    content: str
    cluster: str
    scores: Mapping[Column, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample with the mean of its epochs for each metric; `key` is the same in another log of the same sample."""

    key: str
    cluster: str
    scores: Mapping[Column, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLog:
    """One task that one model took, as a log tells it.

    Parameters
    ----------
    path, sha256
        The file, and the hash of what was read of it.
    created
        When it was made, as the log says.
    harness
        The harness and its version.
    complete
        Whether the harness says that it came to its end.
    clusters
        The field whose values are the clusters; empty where there is none.
    higher_is_better
        What the log says of the direction of a metric; those that it says nothing of are missing.
    settings
        What the run of the harness was given, by name.
    notes
        Sentences on what is missing or left out.
    """

    path: str
    sha256: str
    model: str
    task: str
    created: str
    harness: tuple[str, str]
    complete: bool
    samples: tuple[Sample, ...]
    clusters: str = ""
    higher_is_better: Mapping[Column, bool] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """The metrics, in the order in which samples name them."""
        return tuple(dict.fromkeys(column for sample in self.samples for column in sample.scores))


def digest(*parts: object) -> str:
    """Return the SHA-256 of values of JSON; any text counts, also what no UTF-8 can hold."""
    # With escapes for all that is not ASCII: half a surrogate pair has no bytes.
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(value: object, most: int = 60) -> str:
    """Return the beginning of a text; an empty one of anything else."""
    return value[:most] if isinstance(value, str) else ""


def object_of(holder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of JSON by name; an empty one where there is something else."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def setting_of(value: object) -> object:
    """Return a setting as it is shown: a text or number, or the JSON of anything else, without what may be a secret.

    >>> setting_of(2), setting_of({"n": 12, "hard": False, "api_key": "x"}), setting_of([0.5])
    (2, 'n=12, hard=false', '[0.5]')
    """
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    try:
        if isinstance(value, dict):
            return ", ".join(f"{name}={json.dumps(one)}" for name, one in value.items() if not _SECRET.search(name))
        return json.dumps(value)
    except RecursionError:
        return "nested"


def exclusions(task: str, notes: Mapping[str, int], what: str) -> Iterator[str]:
    """Yield a sentence for each reason why something of a task was left out."""
    for why, count in sorted(notes.items()):
        yield f"{what} {task} {why}: {count:,}."


def reduced(entries: Sequence[Entry], where: str) -> tuple[Sample, ...]:
    """Return the samples with the means of their epochs, in the order of the entries.

    Raises
    ------
    InputError
        Where an epoch of a sample stands twice, a sample has two contents or clusters, or there are too many metrics.

    Examples
    --------
    >>> right = Column("match", "accuracy")
    >>> answers = [Entry("1", epoch, "asked", "", {right: score}) for epoch, score in ((1, 1.0), (2, 0.0))]
    >>> [sample.scores[right] for sample in reduced(answers, "a.eval")]
    [0.5]
    """
    twice = [key for key, count in Counter((entry.id, entry.epoch) for entry in entries).items() if count > 1]
    if twice:
        name, epoch = twice[0]
        message = f"The sample {name[:60]} stands twice in epoch {epoch}."
        raise InputError(message, where=where, hint="Name the log of one run of the task.")
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.id, []).append(entry)
    for name, epochs in found.items():
        if len({(entry.content, entry.cluster) for entry in epochs}) > 1:
            message = f"The sample {name[:60]} asks something else, or is of another cluster, in another epoch."
            raise InputError(message, where=where, hint="Give every sample an id of its own.")
    check_columns({column for entry in entries for column in entry.scores}, where)
    return tuple(
        Sample(digest(name, epochs[0].content), epochs[0].cluster, _means(epochs)) for name, epochs in found.items()
    )


def check_columns(columns: Collection[object], where: str) -> None:
    """Refuse more than `MOST_COLUMNS` metrics, or notes on them: each is compared over all samples, or reported.

    Raises
    ------
    InputError
        Where there are more.
    """
    if len(columns) > MOST_COLUMNS:
        message = f"The samples have more than {MOST_COLUMNS} metrics."
        raise InputError(message, where=where, hint="Give the log of a task with fewer.")


def _means(epochs: Sequence[Entry]) -> dict[Column, float]:
    values: dict[Column, list[float]] = {}
    for entry in epochs:
        for column, score in entry.scores.items():
            values.setdefault(column, []).append(score)
    # fsum, so that the order of the epochs does not matter; divided first, the largest numbers stay in range.
    return {column: math.fsum(score / len(scores) for score in scores) for column, scores in values.items()}


def mean(samples: Sequence[Sample], column: Column) -> float | None:
    """Return the mean of a metric over the samples that have it; None where none has."""
    scores = [sample.scores[column] for sample in samples if column in sample.scores]
    return math.fsum(score / len(scores) for score in scores) if scores else None


def name_of(value: object, what: str, where: str) -> str:
    """Return the name of a model, task, scorer or metric.

    Raises
    ------
    InputError
        Where it is no printable text, or a long one.
    """
    if isinstance(value, str) and value.strip() and len(value) <= LONGEST_NAME and value.isprintable():
        return value
    hint = f"It is a text of at most {LONGEST_NAME} printable letters in logs of the harness."
    raise InputError(f"{ascii(value)[:60]} is no name of {what}.", where=where, hint=hint)


def number_of(value: object) -> float | None:
    """Return a number of JSON up to the largest score, true and false as 1 and 0; None of anything else.

    >>> number_of(2), number_of(True), number_of("2"), number_of(float("nan"))
    (2.0, 1.0, None, None)
    """
    if isinstance(value, bool | int | float) and abs(value) <= LARGEST_SCORE:
        return float(value)
    return None


def cluster_of(fields: object, name: str, sample: str, where: str, kind: str) -> str:
    """Return the cluster of a sample: the value of a field, as JSON.

    Parameters
    ----------
    fields
        The object that holds it.
    kind
        What the object is called by the harness.

    Raises
    ------
    InputError
        Where the field is missing or null, or holds a list or an object.
    """
    found = fields.get(name) if isinstance(fields, dict) else None
    if isinstance(found, str | int | float) and not (isinstance(found, float) and not math.isfinite(found)):
        return json.dumps(found)
    known = sorted(key for key in fields if isinstance(key, str)) if isinstance(fields, dict) else []
    hint = f"Its {kind} has {', '.join(known[:10])[:200]}." if known else f"Its {kind} has no fields."
    message = f"The sample {sample[:60]} has no text or number {name!r} in its {kind}, by which samples are clustered."
    raise InputError(message, where=where, hint=hint)
