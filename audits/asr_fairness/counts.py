"""Errors, hits and trials: the sufficient statistics of every number of the audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.statistics import SpeakerSums, sum_by_speaker

Floats = NDArray[np.float64]
Layer = int | str
"""A layer by its number, or `HEAD`."""
HEAD = "head"
"""The checkpoint's own CTC head; its estimates are named `head_...` and have no layer."""
BASELINE = -1
"""The layer number of log-mel energies."""
METRICS = {"sid": ("error",), "asr": ("wer", "cer")}
"""What is counted for each task; groups are compared and findings made by the first."""
TEST = "gap"
CORRECTIONS = ("none", "holm")
CONTROLS = ("shuffled-labels", "random-init")
TASK_WORDS = {"sid": "speaker identification", "asr": "transcription"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskCounts:
    """Counts of one metric of one task on every clip that took part.

    Parameters
    ----------
    layers
        Names of the columns: numbers, or `head`.
    clips
        Index of each row's recording, shape (rows,).
    errors, hits, sizes
        Shape (rows, layers), (rows, layers), (rows,). For SID a clip is one trial; for WER and CER the
        trials are the words or characters of the reference, and insertions can make errors exceed them.
    deals
        Where clips are dealt anew several times: the errors of each deal, shape (deals, rows, layers), of which
        `errors` is the mean. None where nothing is dealt.
    weights
        Where clips were drawn: by what errors, hits and sizes were multiplied, shape (rows,). None where all were used.
    """

    task: str
    metric: str
    layers: tuple[Layer, ...]
    clips: NDArray[np.int64]
    errors: Floats
    hits: Floats
    sizes: Floats
    control: str = ""
    deals: NDArray[np.bool_] | None = None
    weights: Floats | None = None

    def weighted(self, clips: NDArray[np.int64], weights: Floats) -> "TaskCounts":
        """Return the counts as those of clips that were drawn, times their weights, shape (rows,)."""
        return replace(
            self,
            clips=clips,
            errors=self.errors * weights[:, None],
            hits=self.hits * weights[:, None],
            sizes=self.sizes * weights,
            weights=weights,
        )

    @property
    def where(self) -> dict[str, Any]:
        """The coordinates that all numbers of this metric share."""
        shared: dict[str, Any] = {"task": self.task, "metric": self.metric}
        return {"control": self.control, **shared} if self.control else shared

    @property
    def compared(self) -> bool:
        """Whether groups are tested and findings made by this metric: the first of its task."""
        return self.metric == METRICS[self.task][0]

    def at(self, layer: Layer) -> dict[str, Any]:
        """Return the coordinates of a layer: those shared, and its number unless it is the head."""
        return self.where if layer == HEAD else {**self.where, "layer": layer}

    def columns(self, layers: Sequence[Layer]) -> list[int]:
        """Return the columns of some layers."""
        return [self.layers.index(layer) for layer in layers]

    @property
    def encoder_layers(self) -> list[int]:
        """The encoder's own layers: neither baseline nor head."""
        return [layer for layer in self.layers if isinstance(layer, int) and layer >= 0]

    @property
    def best(self) -> int:
        """The encoder's layer with the least overall error; the first of equals."""
        return self.encoder_layers[int(np.argmin(self.overall(self.encoder_layers)))]

    @property
    def judged(self) -> tuple[Layer, ...]:
        """Layers on which groups are tested: the best one, and the checkpoint's own head where there is one."""
        return (self.best, HEAD) if HEAD in self.layers else (self.best,)

    def overall(self, layers: Sequence[Layer]) -> Floats:
        """Return the errors of all clips on some layers, rounded so that equal sums of means over deals tie."""
        total: Floats = self.errors[:, self.columns(layers)].sum(0).round(6)
        return total


def named(name: str, layer: Layer) -> str:
    """Return the name of an estimate of a layer, or of the head."""
    return f"head_{name}" if layer == HEAD else name


def sums_of(task: TaskCounts, speakers: NDArray[np.int64], member: NDArray[np.bool_]) -> SpeakerSums:
    """Sum a metric over the clips of every speaker in every group.

    `speakers` is the speaker number of each recording, `member` who is in which group, shape (groups, recordings).
    """
    return sum_by_speaker(task.errors, task.hits, task.sizes, speakers[task.clips], member[:, task.clips])
