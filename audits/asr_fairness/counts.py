"""Errors, hits and trials: the sufficient statistics from which every number of the audit is made."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.statistics import Kind, SpeakerSums, sum_by_speaker

Floats = NDArray[np.float64]
HEAD = "head"
"""The column of the checkpoint's own CTC head; its estimates are named `head_...` and have no layer."""
BASELINE = -1
"""The layer number of log-mel energies."""
METRICS = {"sid": ("error",), "asr": ("wer", "cer")}
"""What is counted for each task; groups are compared and findings made by the first."""
KINDS: tuple[Kind, ...] = ("absolute", "relative", "log_odds")
"""Kinds of gap."""
TEST = "gap"
CORRECTIONS = ("none", "holm")
CONTROLS = ("shuffled-labels", "random-init")
TASK_WORDS = {"sid": "speaker identification", "asr": "transcription"}
METRIC_WORDS = {"error": "error rate", "wer": "word error rate", "cer": "character error rate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """What one metric of one task counted on every clip that took part.

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
    """

    task: str
    metric: str
    layers: tuple[int | str, ...]
    clips: NDArray[np.int64]
    errors: Floats
    hits: Floats
    sizes: Floats
    control: str = ""
    deals: NDArray[np.bool_] | None = None

    @property
    def where(self) -> dict[str, Any]:
        """The coordinates that all numbers of this metric share."""
        shared: dict[str, Any] = {"task": self.task, "metric": self.metric}
        return {"control": self.control, **shared} if self.control else shared

    def place(self, column: int) -> dict[str, Any]:
        """Return the coordinates of a column: those shared, and the layer unless it is the head."""
        layer = self.layers[column]
        return self.where if layer == HEAD else {**self.where, "layer": layer}

    def named(self, name: str, column: int | None) -> str:
        """Return the name of an estimate of a column."""
        return f"head_{name}" if column is not None and self.layers[column] == HEAD else name

    def numbered(self) -> list[int]:
        """Return the columns of the encoder's own layers: neither baseline nor head."""
        return [place for place, layer in enumerate(self.layers) if isinstance(layer, int) and layer >= 0]

    def best(self) -> int:
        """Return the column of the encoder's layer with the least overall error; the first of equals."""
        columns = self.numbered()
        return columns[int(np.argmin(self.overall(columns)))]

    def overall(self, columns: list[int]) -> Floats:
        """Return the errors of all clips in some columns; rounded, so that equal sums of means over deals tie."""
        total: Floats = self.errors[:, columns].sum(0).round(6)
        return total


def sums_of(counts: TaskCounts, speakers: NDArray[np.int64], member: NDArray[np.bool_]) -> SpeakerSums:
    """Sum a metric over the clips of every speaker in every group.

    `speakers` is the speaker number of each recording, `member` who is in which group, shape (groups, recordings).
    """
    return sum_by_speaker(counts.errors, counts.hits, counts.sizes, speakers[counts.clips], member[:, counts.clips])
