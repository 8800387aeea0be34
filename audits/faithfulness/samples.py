"""Outputs with their contexts: rows of a table, under the user's column names or in the layouts of published data."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from audits.faithfulness.presets import Layout, published_rows
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.tables import Row, Table
from probes.texts.evidence import Evidence, Grounded, read_evidence
from probes.texts.sentence_spans import sentence_spans

FIELDS = ("id", "context", "context_id", "output", "reference", "label", "system", "question", "run")
YES, NO = frozenset({"1", "1.0", "true", "yes"}), frozenset({"0", "0.0", "false", "no"})
DATASET = "dataset"
"""Column whose levels are never pooled without saying so."""
ONLY = "output"
"""Name of the system where no column names one."""
EMPTY, REFUSAL, NO_CONTEXT = "empty output", "refusal to answer", "empty context"
_REFUSES = re.compile(
    r"\W*(?:(?:(?:i'm|i am) )?(?:sorry|afraid)\b\W*(?:but )?)?(?:"
    r"i (?:do not|don't) know(?: the answer\b|\W*$)|(?:there is|i have) no (?:information|answer)\b|"
    r"(?:i )?(?:can(?:not|'t)|could(?: not|n't)|(?:am |'m )?unable to) "
    r"(?:answer|determine|provide|assist|help\b(?! but)|(?:say|tell)\W*$)|"
    r"(?:(?:(?:i'm|i am) )?sorry|no answer|unanswerable|not (?:mentioned|answerable)|n/?a)\W*$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One output with its context and what is known of it.

    Parameters
    ----------
    context_id
        Of all outputs with one context: these are no independent observations.
    label
        Whether a person called it faithful; None where nobody judged.
    omits
        Whether it only leaves something out, as published data tell; None where that is not known.
    scores
        Of metrics that were computed elsewhere; a missing one is not there.
    apart
        Why it is a class of its own that no metric scores; empty where metrics score it.
    """

    id: str
    system: str
    context_id: str
    pair: Grounded
    label: bool | None = None
    omits: bool | None = None
    run: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    apart: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is read of a table: columns by field, labels of faithful outputs, columns of groups and of scores."""

    columns: Mapping[str, str]
    faithful: frozenset[str]
    by: tuple[str, ...]
    scores: tuple[str, ...]


def read_samples(path: Path, preset: str | None, wanted: Wanted) -> tuple[list[Sample], Table]:
    """Read all outputs.

    Raises
    ------
    InputError
        Where a column is missing or a cell cannot be read.
    """
    table, layout = published_rows(path, preset)
    columns = _columns(table, layout, wanted)
    faithful = wanted.faithful or frozenset(layout.faithful)
    if DATASET in table.columns and DATASET not in wanted.by:
        wanted = replace(wanted, by=(*wanted.by, DATASET))
    found = [_sample(row, index, table, columns, faithful, wanted, layout) for index, row in enumerate(table.rows)]
    _check_labels(table, columns, wanted.faithful)
    _check_ids(found, table)
    return found, table


def _columns(table: Table, layout: Layout, wanted: Wanted) -> dict[str, str]:
    """Return the column of each field that there is."""
    named = {**layout.columns, **wanted.columns}
    columns = {name: named.get(name, name) for name in FIELDS}
    asked = [*named.values(), *wanted.by, *(name.removeprefix("-") for name in wanted.scores)]
    needed = [] if wanted.scores else [columns["context"], columns["output"]]
    for name in [*asked, *needed]:
        if name not in table.columns:
            hint = f"Name the column with --column FIELD=COLUMN. {table.suggest(name)}"
            raise InputError(f"There is no column {name!r}.", where=str(table.path), hint=hint)
    return {name: column for name, column in columns.items() if column in table.columns}


def _sample(
    row: Row,
    index: int,
    table: Table,
    columns: Mapping[str, str],
    faithful: frozenset[str],
    wanted: Wanted,
    layout: Layout,
) -> Sample:
    where = f"{row.source or table.path}:{row.line}"
    cell = {name: row.values.get(column) for name, column in columns.items()}
    evidence = read_evidence(cell.get("context") or "", f"{where}, {columns.get('context', 'context')}")
    output = cell.get("output") or ""
    label = _label(cell.get("label"), faithful, f"{where}, {columns.get('label', 'label')}")
    omits = None
    if layout.judged is not None:
        label, omits = layout.judged(row.values)
    texts = {"context", "output"} <= columns.keys()
    return Sample(
        id=(cell.get("id") or "").strip() or str(index + 1),
        system=(cell.get("system") or "").strip() or ONLY,
        context_id=(cell.get("context_id") or "").strip() or _context_id(evidence, cell.get("question"), index),
        pair=Grounded(evidence, output, cell.get("reference") or None, cell.get("question") or None),
        label=label,
        omits=omits,
        run=(cell.get("run") or "").strip(),
        groups={name: (row.values.get(name) or "").strip() or "unknown" for name in wanted.by},
        scores=dict(filter(None, (_score(row, name, where) for name in wanted.scores))),
        apart=_apart(evidence, output) if texts else "",
    )


def _label(text: str | None, faithful: frozenset[str], where: str) -> bool | None:
    if text is None or not text.strip():
        return None
    plain = text.strip()
    if faithful:
        return plain in faithful
    if plain.casefold() in YES | NO:
        return plain.casefold() in YES
    hint = "Name the labels of faithful outputs with --faithful LABEL,...; all others then are not."
    message = f"The label {plain[:40]!r} is neither 0 nor 1, nor true, false, yes or no."
    raise InputError(message, where=where, hint=hint)


def sentences_of(samples: Sequence[Sample]) -> list[Sample]:
    """Return a sample for each sentence of each output; what is known of a whole output is not known of these."""
    found = []
    for sample in samples:
        text = sample.pair.output
        for at, (start, end) in enumerate(sentence_spans(text) or [(0, len(text))], start=1):
            pair = replace(sample.pair, output=text[start:end])
            found.append(replace(sample, id=f"{sample.id}.{at}", pair=pair, label=None, omits=None, scores={}))
    return found


def _check_labels(table: Table, columns: Mapping[str, str], faithful: frozenset[str]) -> None:
    """Refuse labels of faithful outputs of which none is there."""
    if faithful and "label" in columns:
        there = {(row.values.get(columns["label"]) or "").strip() for row in table.rows} - {""}
        if not there & faithful:
            hint = f"There are: {', '.join(sorted(there)[:5])}."
            raise InputError(f"No output has the label {sorted(faithful)[0]!r}.", where="--faithful", hint=hint)


def _score(row: Row, name: str, where: str) -> tuple[str, float] | None:
    column = name.removeprefix("-")
    text = (row.values.get(column) or "").strip()
    if not text or text.casefold() in ("nan", "none", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        hint = "Write a number, or leave the cell empty where there is none."
        raise InputError(f"{text[:40]!r} is no score.", where=f"{where}, {column}", hint=hint)
    return column, -value if name.startswith("-") else value


def _context_id(evidence: Evidence, question: str | None, index: int) -> str:
    return f"row {index + 1}" if evidence.empty else sha256_json([evidence.text, question or ""])[:16]


def _apart(evidence: Evidence, output: str) -> str:
    if not output.strip():
        return EMPTY
    if evidence.empty:
        return NO_CONTEXT
    return REFUSAL if len(output) < 200 and _REFUSES.match(output.replace("\u2019", "'")) else ""


def _check_ids(samples: Sequence[Sample], table: Table) -> None:
    counts = Counter((sample.id, sample.system, sample.run) for sample in samples)
    twice = next((key for key, count in counts.items() if count > 1), None)
    if twice is not None:
        hint = "Give each output of a system an id of its own, or leave the column out."
        raise InputError(f"Two outputs of {twice[1]!r} have the id {twice[0]!r}.", where=str(table.path), hint=hint)
