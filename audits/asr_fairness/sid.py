"""Who is speaking? A softmax probe on the pooled vectors of every layer, and its errors clip by clip."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.inputs import Recording, workers_of
from audits.asr_fairness.splits import within_speakers
from audits.asr_fairness.stacks import Stack
from audits.context import Context
from audits.statistics import generator
from probes.executor import Workers, check_complete, run_jobs
from probes.linear import softmax_probe, standardise

KIND = "fairness-probes"
SHUFFLED = "shuffled-labels"
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
    workers = workers_of(options)
    if not workers.here:
        _fit_away(stacks, split, clips, workers, context, control)
    columns = [_answers(stack, split, clips, context, control) for stack in stacks]
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
    stack: Stack, split: SidSplit, clips: NDArray[np.int64], context: Context, control: str
) -> NDArray[np.int64]:
    key = _key(stack, split, context, control)
    entry = context.cache.read(KIND, key)
    if entry is None:
        entry = {"answers": _fit(stack, split, clips, context, control)}
        context.cache.write(KIND, key, entry)
    answers: NDArray[np.int64] = entry["answers"].numpy()
    return answers


def _key(stack: Stack, split: SidSplit, context: Context, control: str) -> list[object]:
    key = ["sid", 2, stack.key, stack.places, split.labels.tolist(), split.fold.tolist(), PENALTY]
    return [*key, [clips.tolist() for clips in split.training], context.seed, control == SHUFFLED]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fold:
    """The probes of one fold: clips to train on, with their labels, and clips to test."""

    train: NDArray[np.int64]
    labels: NDArray[np.int64]
    tested: NDArray[np.int64]
    classes: int

    def answers(self, vectors: Tensor) -> Tensor:
        """Return what the probe of each layer takes each tested clip for; vectors are (layers, clips, width)."""
        known, asked = standardise(vectors[:, self.train], vectors[:, self.tested])
        weights, biases = softmax_probe(known, torch.from_numpy(self.labels), self.classes, penalty=PENALTY)
        return (asked @ weights + biases[:, None]).argmax(-1)


def _folds(split: SidSplit, context: Context, control: str) -> list[_Fold]:
    rng = generator(context.seed, "sid", "shuffled-labels")
    return [
        _Fold(
            train=train,
            labels=rng.permutation(split.labels[train]) if control == SHUFFLED else split.labels[train],
            tested=np.flatnonzero(split.fold == number),
            classes=split.classes,
        )
        for number, train in enumerate(split.training)
    ]


def _fit(stack: Stack, split: SidSplit, clips: NDArray[np.int64], context: Context, control: str) -> Tensor:
    folds, turns = _folds(split, context, control), _turns(stack, len(split.fold))
    answers = torch.full((len(stack.places), len(split.fold)), -1, dtype=torch.long)
    with context.progress.phase("Speaker probes", len(turns) * len(folds), "fits") as advance:
        for turn in turns:
            vectors = stack.embeddings.pooled(stack.places[turn])
            for fold in folds:
                answers[turn, fold.tested] = fold.answers(vectors)
                advance(1)
    return answers[:, clips]


def _fit_away(
    stacks: Sequence[Stack],
    split: SidSplit,
    clips: NDArray[np.int64],
    workers: Workers,
    context: Context,
    control: str,
) -> None:
    """Let workers fit what the cache has not, the folds of every turn side by side, and put it there."""
    missing = [stack for stack in stacks if not context.cache.has(KIND, _key(stack, split, context, control))]
    folds = _folds(split, context, control)
    found = [torch.full((len(stack.places), len(split.fold)), -1, dtype=torch.long) for stack in missing]
    jobs = [
        (number, turn, fold)
        for number, stack in enumerate(missing)
        for turn in _turns(stack, len(split.fold))
        for fold in folds
    ]
    with context.progress.phase("Speaker probes", len(jobs), "fits") as advance:

        def done(index: int, answers: NDArray[np.int64]) -> None:
            number, turn, fold = jobs[index]
            found[number][turn, fold.tested] = torch.from_numpy(answers)
            advance(1)

        shipped = [stack.shipped() for stack in missing]
        sent = [(shipped[number], turn, fold) for number, turn, fold in jobs]
        check_complete(run_jobs(_answer, sent, workers, done=done), len(jobs), "fits of speaker probes")
    for stack, answers in zip(missing, found, strict=True):
        context.cache.write(KIND, _key(stack, split, context, control), {"answers": answers[:, clips]})


def _answer(job: tuple[Stack, slice, _Fold]) -> NDArray[np.int64]:
    stack, turn, fold = job
    answers: NDArray[np.int64] = fold.answers(stack.embeddings.pooled(stack.places[turn])).numpy()
    return answers


def _turns(stack: Stack, clips: int) -> list[slice]:
    one = stack.embeddings.pooled_width() * clips * 4
    size = max(1, int(MEMORY // max(one, 1)))
    return [slice(start, start + size) for start in range(0, len(stack.places), size)]
