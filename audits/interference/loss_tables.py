"""Losses that were measured elsewhere, and those of them that can be compared.

A row is the loss of one language, `lang`, in nats per byte of its held-out text, under a model trained on `lang` and
on what `with` names: the language itself (nothing else), another language, or several joined by `+`. With a column
`sentence` a row is one held-out sentence. Rows of no use are counted under their reason; contradictions are refused.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from audits.interference.loss_rows import Floats, Integers, LossRows, read_rows
from probes.core.errors import InputError
from probes.files.names import suggest
from probes.files.table_sources import sha256_table

NOT_ASKED = "language not asked for"
NO_WEIGHT = "sentence of weight 0"
NO_MONOLINGUAL = "no monolingual loss of the language"
OTHER_SEED = "no monolingual loss of the language from the same seed"
NOT_SHARED = "sentence not measured under every model of its language"
UNIFORM = math.log(256)
"""Nats per byte of a model that knows nothing: 5.545."""


class CellKey(NamedTuple):
    """The key of a loss: the languages trained on, sorted; the seed of the training; the held-out language."""

    languages: tuple[str, ...]
    seed: int
    lang: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossCell:
    """Loss of one language under one model.

    Parameters
    ----------
    nats
        Nats per byte of each held-out sentence, or of all held-out text at once; (units,).
    weights
        What a unit counts, its bytes where they are known; (units,).
    """

    nats: Floats
    weights: Floats

    @property
    def loss(self) -> float:
        """Nats per byte of the held-out text."""
        return float(np.average(self.nats, weights=self.weights))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossTable:
    """The losses of a file that can be compared.

    Parameters
    ----------
    given
        Rows in the file; those not here were `skipped`, by reason.
    languages
        Codes of all languages that were trained on, sorted.
    rows
        Losses by the languages trained on, seed and held-out language. Every one under several languages has a
        monolingual one of the same seed. All of one held-out language are over the same sentences, in one order.
    sentences
        Ids of these sentences by language; None where the file gives one loss a model.
    """

    path: Path
    sha256: str
    given: int
    languages: tuple[str, ...]
    rows: Mapping[CellKey, LossCell]
    sentences: Mapping[str, tuple[str, ...]] | None
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


_Cells = dict[CellKey, Integers]
"""Rows of each loss, as indices of the columns, in the order of their sentences."""


def read_losses(path: Path, *, codes: Sequence[str] | None = None) -> LossTable:
    """Read a file of losses: CSV, TSV, JSON lines or a JSON list.

    Where the models of a language were measured on different sentences, those that all have are taken: a job that
    was cut short leaves such files, and a difference over the same sentences is right however few they are.

    Parameters
    ----------
    codes
        Languages to take; None: all of the file.

    Raises
    ------
    InputError
        Where the file cannot be read, lacks a column, holds something that is no loss, gives one loss twice, or
        leaves nothing to be compared.
    """
    rows, notes = read_rows(path)
    indices, skipped = _usable(rows, codes, path)
    cells = _cells(rows, indices)
    lost = {code for key in cells for code in key.languages} | {*(codes or ())}
    _drop_unpaired(cells, skipped)
    if not any(len(key.languages) > 1 for key in cells):
        reasons = "".join(f"; {reason}: {count}" for reason, count in skipped.items() if count)
        message = f"None of the {len(rows.lines)} rows is a loss under several languages that can be compared{reasons}."
        hint = "Give a language's monolingual loss (with = lang) and one with another language, from the same seed."
        raise InputError(message, where=str(path), hint=hint)
    shared = _shared(rows, cells, path)
    skipped[NOT_SHARED] = sum(map(len, cells.values())) - sum(map(len, shared.values()))
    names = {key.lang: tuple(map(rows.sentences.__getitem__, rows.sentence[own])) for key, own in shared.items()}
    found = {key: LossCell(nats=rows.loss[own], weights=rows.weight[own]) for key, own in sorted(shared.items())}
    languages = {code for key in found for code in key.languages}
    notes += [f"No loss with {', '.join(sorted(lost - languages))} can be compared."] if lost - languages else []
    return LossTable(
        path=path,
        sha256=sha256_table(path),
        given=len(rows.lines),
        languages=tuple(sorted(languages)),
        rows=found,
        sentences=names if rows.by_sentence else None,
        skipped={reason: count for reason, count in skipped.items() if count},
        notes=(*notes, *_doubts(found)),
    )


def _usable(rows: LossRows, codes: Sequence[str] | None, path: Path) -> tuple[Integers, dict[str, int]]:
    """Return the rows that are used, sorted by model, seed and sentence, and how many are not."""
    there = sorted({code for languages, _ in rows.models for code in languages})
    missing = [code for code in codes or () if code not in there]
    if missing:
        raise InputError(f"The file has no loss of {missing[0]!r}.", where=str(path), hint=suggest(missing[0], there))
    asked = [codes is None or {*languages} <= {*codes} for languages, _ in rows.models]
    wanted, full = np.array(asked)[rows.model], rows.weight > 0
    indices = np.flatnonzero(wanted & full)
    # Equal rows keep the order of the file.
    indices = indices[np.lexsort((rows.sentence[indices], rows.seed[indices], rows.model[indices]))]
    columns = (rows.model, rows.seed, rows.sentence)
    same = np.logical_and.reduce([column[indices][1:] == column[indices][:-1] for column in columns])
    if same.any():
        again = indices[1:][same].min()
        first = next(int(index) for index in indices if all(column[index] == column[again] for column in columns))
        message = f"The loss of {_where(rows, int(again))} stands in line {rows.lines[first]} already."
        raise InputError(message, where=f"{path}:{rows.lines[again]}", hint="Give every loss once, or a column seed.")
    return indices, {NOT_ASKED: int((~wanted).sum()), NO_WEIGHT: int((wanted & ~full).sum())}


def _where(rows: LossRows, index: int) -> str:
    languages, lang = rows.models[rows.model[index]]
    name = rows.sentences[rows.sentence[index]]
    return f"{lang} under {'+'.join(languages)}, seed {rows.seed[index]}" + (f", sentence {name!r}" if name else "")


def _cells(rows: LossRows, indices: Integers) -> _Cells:
    model, seed = rows.model[indices], rows.seed[indices]
    ends = np.flatnonzero((model[1:] != model[:-1]) | (seed[1:] != seed[:-1])) + 1
    found: _Cells = {}
    for group in np.split(indices, ends) if len(indices) else ():
        languages, lang = rows.models[rows.model[group[0]]]
        found[CellKey(languages, int(rows.seed[group[0]]), lang)] = group
    return found


def _drop_unpaired(cells: _Cells, skipped: dict[str, int]) -> None:
    """Remove and count the losses without a monolingual one of the same seed."""
    measured = {key.lang for key in cells if len(key.languages) == 1}
    for key in [key for key in cells if key._replace(languages=(key.lang,)) not in cells]:
        reason = OTHER_SEED if key.lang in measured else NO_MONOLINGUAL
        skipped[reason] = skipped.get(reason, 0) + len(cells.pop(key))


def _shared(rows: LossRows, cells: _Cells, path: Path) -> _Cells:
    """Return the rows of the sentences that all models of a language share, after a check of their weights."""
    found: _Cells = {}
    for lang in dict.fromkeys(key.lang for key in cells):
        keys = [key for key in cells if key.lang == lang]
        common = reduce(np.intersect1d, (rows.sentence[cells[key]] for key in keys))
        if not len(common):
            message = f"The models of {lang!r} were not measured on one sentence in common."
            hint = "Measure all models of a language on the same held-out sentences, by the same ids."
            raise InputError(message, where=f"{path}, sentence", hint=hint)
        for key in keys:
            found[key] = cells[key][np.isin(rows.sentence[cells[key]], common)]
    for key, own in found.items():
        # A difference of two weighted means is one of sentences only if the weights are the same on both sides.
        alone = found[key._replace(languages=(key.lang,))]
        differ = np.flatnonzero(~np.isclose(rows.weight[own], rows.weight[alone], rtol=1e-9, atol=0.0))
        if len(differ):
            added, reference = int(own[differ[0]]), int(alone[differ[0]])
            message = f"{_where(rows, added)} has the weight {rows.weight[added]:g}, alone {rows.weight[reference]:g}"
            hint = "A sentence counts alike under all models of a seed: write its bytes."
            raise InputError(
                f"{message} (line {rows.lines[reference]}).", where=f"{path}:{rows.lines[added]}", hint=hint
            )
    return found


def _doubts(cells: Mapping[CellKey, LossCell]) -> list[str]:
    losses = [cell.loss for cell in cells.values()]
    high = sum(loss > UNIFORM for loss in losses)
    message = (
        f"{high} of {len(losses)} losses are above {UNIFORM:.2f} nats per byte, the largest is {max(losses):.4g}: "
    )
    message += "a model that knows nothing has no more. They may be in bits, or of tokens instead of bytes."
    return [message] if high else []
