"""Speaker identification: a softmax probe on the pooled vectors of every layer, and its errors clip by clip."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.layer_sets import LayerSet
from audits.asr_fairness.recordings import Recording
from audits.asr_fairness.splits import within_speakers
from audits.core.context import Cache, Context
from audits.statistics import generator
from probes.core.executor import one_thread
from probes.core.hashing import sha256_json
from probes.speech.softmax_probes import softmax_probe, standardise

KIND = "fairness-probes"
PARTS = "fairness-probe-folds"
"""Answers of single folds, which come together in those of a deal."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class SidDeal:
    """All probes of one deal on one set of layers: its answers stand in one entry when all its folds are fitted."""

    layer_set: LayerSet
    split: SidSplit
    seed: int
    control: str

    @cached_property
    def _key(self) -> list[object]:
        layer_set, split = self.layer_set, self.split
        key = ["sid", 2, layer_set.key, layer_set.positions, split.labels.tolist(), split.fold.tolist(), PENALTY]
        key += [[clips.tolist() for clips in split.training], self.seed, self.control == SHUFFLED]
        # Labels are shuffled anew in every deal.
        return [*key, split.number] if split.number and self.control == SHUFFLED else key

    @cached_property
    def name(self) -> str:
        """Hash of all that its answers depend on."""
        return sha256_json(self._key)

    def fits(self) -> list["SidFit"]:
        """Return its fits, the folds of all layers."""
        turns, folds = _turns(self.layer_set, len(self.split.fold)), range(len(self.split.training))
        return [SidFit(deal=self, turn=turn, fold=fold) for turn in turns for fold in folds]

    def made(self, cache: Cache) -> bool:
        """Tell whether all its answers are there."""
        return cache.has(KIND, self._key)

    def answers(self, cache: Cache) -> NDArray[np.int64]:
        """Return the speakers that its probes name, shape (layers, clips that take part)."""
        found: NDArray[np.int64] = cache.memo(KIND, self._key, lambda: self._collected(cache))["answers"].numpy()
        return found

    def _collected(self, cache: Cache) -> dict[str, Tensor]:
        answers = torch.full((len(self.layer_set.positions), len(self.split.fold)), -1, dtype=torch.long)
        for fit in self.fits():
            answers[fit.turn, np.flatnonzero(self.split.fold == fit.fold)] = fit.answers(cache)
        return {"answers": answers[:, np.flatnonzero(self.split.fold >= 0)]}


Vectors = Callable[[LayerSet, slice], Tensor]
"""Gives the pooled vectors of some layers, shape (layers, clips, width)."""


def pooled(layer_set: LayerSet, turn: slice) -> Tensor:
    """Read the pooled vectors of some layers, shape (layers, clips, width)."""
    return layer_set.embeddings.pooled(layer_set.positions[turn])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SidFit:
    """The probes of one fold in one deal, of layers that are taken at once."""

    deal: SidDeal
    turn: slice
    fold: int

    def made(self, cache: Cache) -> bool:
        """Tell whether its answers are there."""
        return cache.has(PARTS, self._key())

    def write(self, cache: Cache, vectors: Vectors) -> None:
        """Fit the probes and write their answers to the cache."""
        cache.write(PARTS, self._key(), self._answered(vectors))

    def answers(self, cache: Cache) -> Tensor:
        """Return the speaker that each layer's probe names for each tested clip, fitted again where it is damaged."""
        return cache.memo(PARTS, self._key(), lambda: self._answered(pooled))["answers"]

    def _key(self) -> list[object]:
        return [self.deal.name, self.turn.start, min(self.turn.stop, len(self.deal.layer_set.positions)), self.fold]

    def _answered(self, vectors: Vectors) -> dict[str, Tensor]:
        with one_thread():
            fold = _folds(self.deal.split, self.deal.seed, self.deal.control)[self.fold]
            return {"answers": fold.answers(vectors(self.deal.layer_set, self.turn))}


def count_sid(deals: Sequence[Sequence[SidDeal]], cache: Cache) -> TaskCounts:
    """Return the identification errors of every clip on every layer, as means over the deals.

    Parameters
    ----------
    deals
        Of each set of layers, in order, one a deal: under one control.
    """
    first = deals[0][0].split
    # The same clips take part in every deal.
    clips = np.flatnonzero(first.fold >= 0)
    # Shape (deals, layers, clips).
    answers = np.concatenate([np.stack([deal.answers(cache) for deal in of_a_set]) for of_a_set in deals], axis=1)
    wrong = (first.labels[clips] != answers).transpose(0, 2, 1)
    errors = wrong.mean(axis=0)
    return TaskCounts(
        task="sid",
        metric="error",
        layers=tuple(layer for of_a_set in deals for layer in of_a_set[0].layer_set.layers),
        clips=clips,
        errors=errors,
        hits=1 - errors,
        sizes=np.ones(len(clips)),
        control=deals[0][0].control,
        deals=wrong,
    )


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


def _folds(split: SidSplit, seed: int, control: str) -> list[_Fold]:
    """Return the folds of a deal; under the control "shuffled-labels" with labels shuffled over the training clips."""
    rng = generator(seed, "sid", "shuffled-labels", *_numbered(split.number))
    return [
        _Fold(
            train=train,
            labels=rng.permutation(split.labels[train]) if control == SHUFFLED else split.labels[train],
            tested=np.flatnonzero(split.fold == number),
            classes=split.classes,
        )
        for number, train in enumerate(split.training)
    ]


def _turns(layer_set: LayerSet, clips: int) -> list[slice]:
    one = layer_set.embeddings.pooled_width() * clips * 4
    size = max(1, int(MEMORY // max(one, 1)))
    return [slice(start, start + size) for start in range(0, len(layer_set.positions), size)]
