"""Layouts of published data: BEGIN, the cleaned E2E, RAGTruth, FRANK, and the benchmark of SummaC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from probes.core.errors import InputError
from probes.files.tables import Table, read_table
from probes.texts.evidence import read_evidence

Cells = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a published table keeps its fields.

    Parameters
    ----------
    columns
        By field.
    faithful
        Labels of faithful outputs.
    judged
        What the cells of a row say: whether it is faithful, and whether it only leaves something out.
    beside
        File beside the table that holds the contexts, the key of both, and the fields that are taken from it.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    faithful: tuple[str, ...] = ()
    judged: Callable[[Cells], tuple[bool | None, bool | None]] | None = None
    beside: tuple[str, str, tuple[str, ...]] | None = None


def e2e_labels(mr: str, orig_mr: str) -> tuple[bool, bool]:
    """Return whether a text of the cleaned E2E data (Dusek and others, 2019) adds a value, and whether it lacks one.

    The corrected slots `mr` say what the text states, and the original ones what its author was given. Of a slot that
    the correction names twice the last value counts, since such corrections are doubtful.

    >>> e2e_labels("name[Aromi], food[Thai]", "name[Aromi], food[Chinese], area[riverside]")
    (True, True)
    """
    said, given = (dict(read_evidence(slots, "slots").cells) for slots in (mr, orig_mr))
    return any(given.get(slot) != value for slot, value in said.items()), bool(given.keys() - said.keys())


def _e2e(cells: Cells) -> tuple[bool | None, bool | None]:
    said, given = (cells.get(name) or "" for name in ("mr", "orig_mr"))
    if not (said.strip() and given.strip()):
        return None, None
    added, missed = e2e_labels(said, given)
    return not added, missed and not added


def _without_spans(cells: Cells) -> tuple[bool | None, bool | None]:
    """Return that an output is faithful where annotators marked no span of it."""
    spans = (cells.get("labels") or "").strip()
    return (None if not spans else spans == "[]"), None


LAYOUTS: dict[str, Layout] = {
    "begin": Layout(
        columns={"context": "knowledge", "output": "response", "label": "begin_label", "system": "model_name"},
        faithful=("Fully attributable",),
    ),
    "e2e": Layout(columns={"context": "orig_mr", "output": "ref"}, judged=_e2e),
    "ragtruth": Layout(
        columns={"context": "source_info", "output": "response", "system": "model", "context_id": "source_id"},
        judged=_without_spans,
        beside=("source_info.jsonl", "source_id", ("source_info", "task_type")),
    ),
    "frank": Layout(
        columns={
            "context": "article",
            "output": "summary",
            "label": "Factuality",
            "system": "model_name",
            "context_id": "hash",
        },
        faithful=("1", "1.0"),
        beside=("human_annotations.json", "hash model_name", ("Factuality",)),
    ),
    "summac": Layout(columns={"context": "document", "output": "claim"}),
}


def layout_of(preset: str | None) -> Layout:
    """Return the layout of a preset; without one, fields stand in columns of their own names."""
    return Layout() if preset is None else LAYOUTS[preset]


def published_rows(path: Path, preset: str | None) -> tuple[Table, Layout]:
    """Return the rows of a table, with what a file beside it holds, and its layout.

    Raises
    ------
    InputError
        Where a file cannot be read or lacks a row that is needed.
    """
    layout, table = layout_of(preset), read_table(path)
    if layout.beside is None or set(layout.beside[2]) <= set(table.columns):
        return table, layout
    name, key, taken = layout.beside
    other = path.parent / name
    if not other.is_file():
        hint = f"Put {name} beside it, as it is published."
        raise InputError(f"There is no {name} beside the file.", where=str(path), hint=hint)
    keys = key.split()
    found = {tuple(row.values.get(part) for part in keys): row.values for row in read_table(other).rows}
    rows = []
    for row in table.rows:
        more = found.get(tuple(row.values.get(part) for part in keys))
        if more is None:
            named = ", ".join(f"{part} {row.values.get(part)}" for part in keys)
            hint = "Both files must be of the same release."
            raise InputError(f"{name} has no row of {named[:80]}.", where=f"{path}:{row.line}", hint=hint)
        rows.append(replace(row, values={**row.values, **{column: more.get(column) for column in taken}}))
    columns = tuple(dict.fromkeys((*table.columns, *taken)))
    return replace(table, rows=tuple(rows), columns=columns, sources=(path, other)), layout
