"""The loss of each model on each held-out sentence, wherever it was trained."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.interference.loss_tables import LossTable
from audits.interference.settings import Languages

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """The losses of one model on one language.

    Parameters
    ----------
    sums, weights
        Nats over the hidden tokens of each held-out sentence, and their number, (sentences,).
    factor
        From nats per token to nats per byte.
    """

    sums: Floats
    weights: Floats
    factor: float

    @property
    def loss(self) -> float:
        """Nats per byte of the held-out text."""
        return float(self.factor * self.sums.sum() / self.weights.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Losses:
    """All losses of a matrix.

    Parameters
    ----------
    languages
        Codes, sorted.
    cells
        By training set, number of the seed and held-out language.
    curves
        Mean loss (nats per token) of each stretch of a training, by the same three; empty where nothing was trained.
    diverged
        Training sets and seeds whose loss was no number any more.
    """

    languages: Languages
    cells: Mapping[tuple[Languages, int, str], Cell]
    curves: Mapping[tuple[Languages, int, str], tuple[float, ...]]
    diverged: frozenset[tuple[Languages, int]]
    _seeds: dict[tuple[Languages, str], frozenset[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found: dict[tuple[Languages, str], set[int]] = {}
        for chosen, seed, code in self.cells:
            found.setdefault((chosen, code), set()).add(seed)
        # The record is frozen; this is made once, since every contrast asks for it.
        object.__setattr__(self, "_seeds", {key: frozenset(seeds) for key, seeds in found.items()})

    def seeds(self, chosen: Languages, code: str) -> frozenset[int]:
        """Return the seeds whose model of a training set was scored on a language."""
        return self._seeds.get((chosen, code), frozenset())


def from_models(languages: Languages, found: Iterable[tuple[Languages, int, Mapping[str, Any]]]) -> Losses:
    """Return losses from the results of finished models: training set, number of the seed, value."""
    cells: dict[tuple[Languages, int, str], Cell] = {}
    curves: dict[tuple[Languages, int, str], tuple[float, ...]] = {}
    diverged = set()
    for chosen, seed, value in found:
        if value["status"] == "diverged":
            diverged.add((chosen, seed))
        for code, row in value["losses"].items():
            cells[chosen, seed, code] = Cell(
                sums=np.array(row["nats"], dtype=np.float64),
                weights=np.array(row["masked"], dtype=np.float64),
                factor=float(row["tokens_per_byte"]),
            )
        for code, curve in value["curves"].items():
            curves[chosen, seed, code] = tuple(curve)
    return Losses(languages=languages, cells=cells, curves=curves, diverged=frozenset(diverged))


def from_table(table: LossTable) -> Losses:
    """Return losses that were measured elsewhere."""
    cells = {
        # A table has nats per byte as they are: weights turn its means back into sums.
        (key.languages, key.seed, key.lang): Cell(sums=cell.nats * cell.weights, weights=cell.weights, factor=1.0)
        for key, cell in table.rows.items()
    }
    return Losses(languages=table.languages, cells=cells, curves={}, diverged=frozenset())


def with_of(chosen: Languages, code: str) -> str:
    """Return the name of a training set beside one of its languages, as the key `with` has it.

    >>> with_of(("en",), "en"), with_of(("en", "fr"), "en"), with_of(("de", "en", "fr"), "en")
    ('en', 'fr', 'de+fr')
    """
    return "+".join(other for other in chosen if other != code) or code
