"""Similarities of two languages: script, family, another attribute, a similarity that is given, their n-grams."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.interference.settings import Inputs

Floats = NDArray[np.float64]
EFFECTS = ("script", "family")
OVERLAP = "byte-trigram overlap"
NEVER = ("name", "source files", "source", "sources", "files", "notes", "comment")
"""Columns that name a language or its file, and are no likeness."""
MOST_OVERLAP = 60
"""Languages up to which overlaps of n-grams are counted here."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Likeness:
    """One similarity of pairs of languages, larger for more; a shared class is 1, else 0."""

    name: str
    kind: str
    matrix: Floats


def plural(name: str) -> str:
    """Return the plural of script or family."""
    return {"family": "families"}.get(name, f"{name}s")


def names_of(inputs: Inputs) -> tuple[str, ...]:
    """Return the names of all similarities but script and family."""
    columns = [name for name in inputs.attributes.columns if name.lower().replace("_", " ") not in (*EFFECTS, *NEVER)]
    own = [OVERLAP] if inputs.texts and len(inputs.languages) <= MOST_OVERLAP else []
    return (*columns, *(one.name for one in inputs.similarities), *own)


def likenesses_of(inputs: Inputs) -> list[Likeness]:
    """Return all similarities, as matrices over the languages."""
    from audits.interference.language_tables import dyads
    from probes.language_models.byte_ngrams import overlap_matrix

    found: list[Likeness] = []
    columns = inputs.attributes.columns
    for name, column in columns.items():
        effect = name.lower() if name.lower() in EFFECTS else ""
        if not effect and name not in names_of(inputs):
            continue
        # A script or family that is written as a number is a class all the same.
        values = {code: f"class {value}" for code, value in column.items()} if effect else column
        kind, matrix = dyads(values, inputs.languages)
        name = effect or name
        # Of a number the difference is unlikeness.
        found.append(Likeness(name=name, kind=kind, matrix=matrix if kind == "class" else -matrix))
    found += [Likeness(name=one.name, kind="given", matrix=one.matrix) for one in inputs.similarities]
    if OVERLAP in names_of(inputs):
        overlaps = overlap_matrix([inputs.texts[code].train for code in inputs.languages])
        found.append(Likeness(name=OVERLAP, kind="overlap", matrix=overlaps))
    return found


def complete(*likenesses: Floats) -> list[int]:
    """Return the indices of languages between which all similarities are known, leaving out few (greedily).

    >>> complete(np.array([[0.0, 1.0, np.nan], [1.0, 0.0, np.nan], [1.0, 1.0, 0.0]]))
    [0, 1]
    """
    kept = list(range(len(likenesses[0])))
    while kept:
        at = np.ix_(kept, kept)
        missing = sum((np.isnan(one[at]) & ~np.eye(len(kept), dtype=bool)).astype(int) for one in likenesses)
        gaps = np.asarray(missing).sum(0) + np.asarray(missing).sum(1)
        if not gaps.any():
            break
        # One at a time: without the language with the most gaps, others may have none left.
        kept.pop(len(kept) - 1 - int(gaps[::-1].argmax()))
    return kept
