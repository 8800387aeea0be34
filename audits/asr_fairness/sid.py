"""Speaker identification: a softmax probe on the pooled vectors of every layer, and its errors clip by clip."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.layer_sets import LayerSet, workers_of
from audits.asr_fairness.recordings import Recording
from audits.asr_fairness.splits import within_speakers
from audits.core.context import Context
from audits.statistics import generator
from probes.core.executor import Workers, check_complete, run_jobs
from probes.core.progress import Advance
from probes.speech.softmax_probes import softmax_probe, standardise

KIND = "fairness-probes"
SHUFFLED = "shuffled-labels"
PENALTY = 1.0
MEMORY = 4e8
"""Bytes of pooled vectors that are held at once; more layers are taken in turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidSplit:
    """The enrolled speakers of speaker identification, and the split of their clips in one deal.

    `fold` is -1 for clips of speakers that take no part; `training` holds the training clips of each fold.
    """

    fold: NDArray[np.int64]
    training: tuple[NDArray[np.int64], ...]
    labels: NDArray[np.int64]
    classes: int
    number: int = 0

    @property
    def enrolled(self) -> tuple[int, int]:
        """Least and most training clips a speaker over the folds."""
        sizes = [len(clips) // self.classes for clips in self.training]
        return min(sizes), max(sizes)


def split_sid(recordings: Sequence[Recording], options: Options, context: Context) -> tuple[SidSplit, ...]:
    """Split the clips of every speaker with enough of them, in each deal by another random stream."""
    names = [item.speaker for item in recordings]
    found: list[SidSplit] = []
    for number in range(options.repeats):
        fold, training = within_speakers(
            names,
            [item.sha256 for item in recordings],
            folds=options.folds,
            least=options.min_utterances,
            # The first deal is the same however many there are.
            rng=generator(context.seed, "sid", "folds", *_numbered(number)),
        )
        known = sorted({name for name, part in zip(names, fold, strict=True) if part >= 0})
        number_of = {name: at for at, name in enumerate(known)}
        labels = np.array([number_of.get(name, -1) for name in names], dtype=np.int64)
        found.append(SidSplit(fold=fold, training=tuple(training), labels=labels, classes=len(known), number=number))
    return tuple(found)


def _numbered(deal: int) -> tuple[str, ...]:
    return (str(deal),) if deal else ()


def measure_sid(
    layer_sets: Sequence[LayerSet], deals: Sequence[SidSplit], options: Options, context: Context, *, control: str = ""
) -> TaskCounts:
    """Return the identification errors of every clip on every layer, as means over the deals.

    Under the control "shuffled-labels" the probes are trained on labels shuffled over the training clips.
    """
    # The same clips take part in every deal.
    clips = np.flatnonzero(deals[0].fold >= 0)
    workers = workers_of(options)
    if not workers.here:
        _fit_away(layer_sets, deals, workers, context, control)
    # Shape (deals, layers, clips).
    answers = np.concatenate([_answers(layer_set, deals, context, control) for layer_set in layer_sets], axis=1)
    wrong = deals[0].labels[clips] != answers
    wrong = wrong.transpose(0, 2, 1)
    errors = wrong.mean(axis=0)
    return TaskCounts(
        task="sid",
        metric="error",
        layers=tuple(layer for layer_set in layer_sets for layer in layer_set.layers),
        clips=clips,
        errors=errors,
        hits=1 - errors,
        sizes=np.ones(len(clips)),
        control=control,
        deals=wrong,
    )


def _answers(layer_set: LayerSet, deals: Sequence[SidSplit], context: Context, control: str) -> NDArray[np.int64]:
    """Return the speakers predicted by the probes of each deal, shape (deals, layers, clips), cached."""
    found = [context.cache.read(KIND, _key(layer_set, split, context, control)) for split in deals]
    missing = [index for index, entry in enumerate(found) if entry is None]
    turns = len(_turns(layer_set, len(deals[0].fold)))
    if missing:
        count = turns * sum(len(deals[index].training) for index in missing)
        with context.progress.phase("Speaker probes", count, "fits") as advance:
            for index in missing:
                found[index] = _keep(
                    layer_set, deals[index], _fit(layer_set, deals[index], context, control, advance), context, control
                )
    return np.stack([entry["answers"].numpy() for entry in found if entry is not None])


def _key(layer_set: LayerSet, split: SidSplit, context: Context, control: str) -> list[object]:
    key = ["sid", 2, layer_set.key, layer_set.positions, split.labels.tolist(), split.fold.tolist(), PENALTY]
    key += [[clips.tolist() for clips in split.training], context.seed, control == SHUFFLED]
    # Labels are shuffled anew in every deal.
    return [*key, split.number] if split.number and control == SHUFFLED else key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fold:
    """The probes of one fold: clips to train on, with their labels, and clips to test."""

    train: NDArray[np.int64]
    labels: NDArray[np.int64]
    tested: NDArray[np.int64]
    classes: int

    def answers(self, vectors: Tensor) -> Tensor:
        """Return the predictions of each layer's probe for each tested clip; vectors are (layers, clips, width)."""
        known, asked = standardise(vectors[:, self.train], vectors[:, self.tested])
        weights, biases = softmax_probe(known, torch.from_numpy(self.labels), self.classes, penalty=PENALTY)
        return (asked @ weights + biases[:, None]).argmax(-1)


def _folds(split: SidSplit, context: Context, control: str) -> list[_Fold]:
    rng = generator(context.seed, "sid", "shuffled-labels", *_numbered(split.number))
    return [
        _Fold(
            train=train,
            labels=rng.permutation(split.labels[train]) if control == SHUFFLED else split.labels[train],
            tested=np.flatnonzero(split.fold == number),
            classes=split.classes,
        )
        for number, train in enumerate(split.training)
    ]


def _fit(layer_set: LayerSet, split: SidSplit, context: Context, control: str, advance: Advance) -> Tensor:
    folds, answers = _folds(split, context, control), _unanswered(layer_set, split)
    for turn in _turns(layer_set, len(split.fold)):
        vectors = layer_set.embeddings.pooled(layer_set.positions[turn])
        for fold in folds:
            answers[turn, fold.tested] = fold.answers(vectors)
            advance(1)
    return answers


def _unanswered(layer_set: LayerSet, split: SidSplit) -> Tensor:
    return torch.full((len(layer_set.positions), len(split.fold)), -1, dtype=torch.long)


def _keep(layer_set: LayerSet, split: SidSplit, answers: Tensor, context: Context, control: str) -> dict[str, Tensor]:
    entry = {"answers": answers[:, np.flatnonzero(split.fold >= 0)]}
    context.cache.write(KIND, _key(layer_set, split, context, control), entry)
    return entry


def _fit_away(
    layer_sets: Sequence[LayerSet], deals: Sequence[SidSplit], workers: Workers, context: Context, control: str
) -> None:
    """Fit the probes that are not cached on workers, the folds of all turns and deals in parallel, and cache them."""
    missing = [
        (layer_set, split)
        for layer_set in layer_sets
        for split in deals
        if not context.cache.has(KIND, _key(layer_set, split, context, control))
    ]
    found = [_unanswered(layer_set, split) for layer_set, split in missing]
    jobs = [
        (number, turn, fold)
        for number, (layer_set, split) in enumerate(missing)
        for turn in _turns(layer_set, len(split.fold))
        for fold in _folds(split, context, control)
    ]
    with context.progress.phase("Speaker probes", len(jobs), "fits") as advance:

        def done(index: int, answers: NDArray[np.int64]) -> None:
            number, turn, fold = jobs[index]
            found[number][turn, fold.tested] = torch.from_numpy(answers)
            advance(1)

        shipped = {layer_set.key: layer_set.shipped() for layer_set, _ in missing}
        sent = [(shipped[missing[number][0].key], turn, fold) for number, turn, fold in jobs]
        check_complete(run_jobs(_answer, sent, workers, done=done), len(jobs), "fits of speaker probes")
    for (layer_set, split), answers in zip(missing, found, strict=True):
        _keep(layer_set, split, answers, context, control)


def _answer(job: tuple[LayerSet, slice, _Fold]) -> NDArray[np.int64]:
    layer_set, turn, fold = job
    answers: NDArray[np.int64] = fold.answers(layer_set.embeddings.pooled(layer_set.positions[turn])).numpy()
    return answers


def _turns(layer_set: LayerSet, clips: int) -> list[slice]:
    one = layer_set.embeddings.pooled_width() * clips * 4
    size = max(1, int(MEMORY // max(one, 1)))
    return [slice(start, start + size) for start in range(0, len(layer_set.positions), size)]
