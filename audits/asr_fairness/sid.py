"""Who is speaking? A softmax probe on the pooled vectors of every layer, and its errors clip by clip."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.inputs import Recording
from audits.asr_fairness.splits import within_speakers
from audits.asr_fairness.stacks import Stack
from audits.context import Context
from audits.statistics import generator
from probes.linear import softmax_probe, standardise

PENALTY = 1.0
MEMORY = 4e8
"""Bytes of pooled vectors that are held at once; more layers are taken in turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidSplit:
    """Who takes part in speaker identification, and how the clips are split.

    `fold` is -1 for clips of speakers that take no part; `training` holds the training clips of each fold.
    """

    fold: NDArray[np.int64]
    training: tuple[NDArray[np.int64], ...]
    labels: NDArray[np.int64]
    classes: int

    @property
    def enrolled(self) -> tuple[int, int]:
        """Least and most training clips a speaker over the folds."""
        sizes = [len(clips) // self.classes for clips in self.training]
        return min(sizes), max(sizes)


def split_sid(recordings: Sequence[Recording], options: Options, context: Context) -> SidSplit:
    """Split the clips of every speaker with enough of them."""
    names = [item.speaker for item in recordings]
    fold, training = within_speakers(
        names,
        [item.sha256 for item in recordings],
        folds=options.folds,
        least=options.min_utterances,
        rng=generator(context.seed, "sid", "folds"),
    )
    known = sorted({name for name, part in zip(names, fold, strict=True) if part >= 0})
    place = {name: number for number, name in enumerate(known)}
    labels = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    return SidSplit(fold=fold, training=tuple(training), labels=labels, classes=len(known))


def measure_sid(
    stacks: Sequence[Stack], split: SidSplit, options: Options, context: Context, *, control: str = ""
) -> TaskCounts:
    """Return the identification errors of every clip on every layer.

    Under the control "shuffled-labels" the probes are trained on labels shuffled over the training clips.
    """
    clips = np.flatnonzero(split.fold >= 0)
    columns = [_answers(stack, split, clips, options, context, control) for stack in stacks]
    wrong = split.labels[clips][:, None] != np.concatenate(columns, axis=0).T
    return TaskCounts(
        task="sid",
        metric="error",
        layers=tuple(layer for stack in stacks for layer in stack.layers),
        clips=clips,
        errors=wrong.astype(np.float64),
        hits=(~wrong).astype(np.float64),
        sizes=np.ones(len(clips)),
        control=control,
    )


def _answers(
    stack: Stack, split: SidSplit, clips: NDArray[np.int64], options: Options, context: Context, control: str
) -> NDArray[np.int64]:
    shuffled = control == "shuffled-labels"
    key = ["sid", 2, stack.key, stack.places, split.labels.tolist(), split.fold.tolist(), PENALTY]
    key += [[clips.tolist() for clips in split.training], context.seed, shuffled]
    entry = context.cache.read("fairness-probes", key)
    if entry is None:
        entry = {"answers": _fit(stack, split, clips, context, shuffled)}
        context.cache.write("fairness-probes", key, entry)
    answers: NDArray[np.int64] = entry["answers"].numpy()
    return answers


def _fit(stack: Stack, split: SidSplit, clips: NDArray[np.int64], context: Context, shuffled: bool) -> Tensor:
    rng = generator(context.seed, "sid", "shuffled-labels")
    labels = [rng.permutation(split.labels[train]) if shuffled else split.labels[train] for train in split.training]
    parts = []
    turns = _turns(stack, len(split.fold))
    with context.progress.phase("Speaker probes", len(turns) * len(split.training), "fits") as advance:
        for places in turns:
            vectors = stack.embeddings.pooled(places)
            answers = torch.full((len(places), len(split.fold)), -1, dtype=torch.long)
            for number, train in enumerate(split.training):
                tested = np.flatnonzero(split.fold == number)
                known, asked = standardise(vectors[:, train], vectors[:, tested])
                weights, biases = softmax_probe(known, torch.from_numpy(labels[number]), split.classes, penalty=PENALTY)
                answers[:, tested] = (asked @ weights + biases[:, None]).argmax(-1)
                advance(1)
            parts.append(answers[:, clips])
    return torch.cat(parts)


def _turns(stack: Stack, clips: int) -> list[tuple[int, ...]]:
    one = stack.embeddings.pooled_width() * clips * 4
    size = max(1, int(MEMORY // max(one, 1)))
    return [stack.places[start : start + size] for start in range(0, len(stack.places), size)]
