"""Speech recognition: a CTC probe on the frames of every layer, speakers kept apart, and its errors clip by clip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.layer_sets import LayerSet
from audits.asr_fairness.recordings import Recording
from audits.asr_fairness.splits import across_speakers
from audits.core.context import Cache, Context
from audits.statistics import generator
from probes.core.executor import one_thread
from probes.speech.ctc import Alphabet, Utterances, fit_ctc
from probes.speech.normalisers import Normaliser
from probes.speech.vocabularies import Vocabulary
from probes.speech.word_errors import count_characters, count_words

KIND = "fairness-probes"
ALIGNMENTS = 4
STEP_FRAMES = 8000
"""Frames of one step, about, for an alphabet of up to 64 symbols."""
MEMORY = 6e8
"""Bytes of covariances that are held at once; more layers are taken in turns."""

Hypotheses = dict[int | str, list[str]]
Weighed = tuple[NDArray[np.int64], Mapping[str, NDArray[np.float64]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsrSplit:
    """The fold that tests each clip, and the clips that each fold keeps for early stopping."""

    fold: NDArray[np.int64]
    dev: NDArray[np.bool_]


def split_asr(recordings: Sequence[Recording], options: Options, context: Context) -> AsrSplit:
    """Split the speakers over the folds."""
    names = [item.speaker for item in recordings]
    fold, dev = across_speakers(names, folds=options.folds, rng=generator(context.seed, "asr", "folds"))
    return AsrSplit(fold=fold, dev=dev)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed:
    """What the transcription probes are trained and judged on: texts of the clips, and how these are split.

    Parameters
    ----------
    texts
        In the order of the clips heard.
    epochs
        Most gradient passes.
    """

    texts: list[str]
    split: AsrSplit
    epochs: int
    seed: int

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.split.dev)

    @property
    def alphabet(self) -> Alphabet:
        """The characters of all texts."""
        return Alphabet.of(self.texts)

    def shown(self, control: str) -> list[str]:
        """Return the texts for training; under the control "shuffled-labels" they are shuffled over the clips."""
        if control != "shuffled-labels":
            return self.texts
        return [self.texts[at] for at in generator(self.seed, "asr", control).permutation(len(self.texts))]


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcFit:
    """Probes that are fitted together: layers of one set, on the same transcripts."""

    layer_set: LayerSet
    turn: slice
    spoken: Transcribed
    control: str

    def key(self) -> list[object]:
        """Return the cache key: everything that the fit depends on."""
        layer_set, spoken = self.layer_set, self.spoken
        key = ["ctc", 2, _clips_at_once(layer_set, len(spoken.alphabet)), layer_set.key]
        key += [list(layer_set.positions[self.turn]), spoken.shown(self.control)]
        key += [spoken.folds, spoken.epochs, spoken.seed]
        return [*key, spoken.split.fold.tolist(), spoken.split.dev.tolist()]

    def made(self, cache: Cache) -> bool:
        """Tell whether what the probes heard is there."""
        return cache.has(KIND, self.key())

    def write(self, cache: Cache) -> None:
        """Fit the probes and write what they heard to the cache."""
        cache.write(KIND, self.key(), self._heard())

    def paths(self, cache: Cache) -> list[list[Tensor]]:
        """Return what the probe of each layer heard of every clip, fitted again where the entry is damaged."""
        entry = cache.memo(KIND, self.key(), self._heard)
        counts = entry["counts"].tolist()
        return [list(row.split(count)) for row, count in zip(_rows(entry), counts, strict=True)]

    def _heard(self) -> dict[str, Tensor]:
        with one_thread():
            alphabet = self.spoken.alphabet
            targets = [alphabet.encode(text) for text in self.spoken.shown(self.control)]
            positions = self.layer_set.positions[self.turn]
            return _fit(_Clips(self.layer_set, positions, targets, self.spoken.split, len(alphabet)), self.spoken)


def ctc_fits(layer_set: LayerSet, spoken: Transcribed, control: str) -> list[CtcFit]:
    """Return the fits of all layers of a set, as many layers at once as memory allows."""
    size = _layers_at_once(layer_set, spoken.folds)
    starts = range(0, len(layer_set.positions), size)
    return [
        CtcFit(layer_set=layer_set, turn=slice(start, start + size), spoken=spoken, control=control) for start in starts
    ]


def transcripts_of(fits: Sequence[CtcFit], cache: Cache) -> Hypotheses:
    """Return the transcripts of every clip by the probes of every layer."""
    found: Hypotheses = {}
    for fit in fits:
        alphabet = fit.spoken.alphabet
        for layer, paths in zip(fit.layer_set.layers[fit.turn], fit.paths(cache), strict=True):
            found[layer] = [alphabet.decode(path) for path in paths]
    return found


class _Clips:
    """The recordings of a layer set as the CTC probes read them."""

    def __init__(
        self, layer_set: LayerSet, indices: Sequence[int], targets: list[Tensor], split: AsrSplit, symbols: int
    ) -> None:
        self._layer_set, self._positions, self._targets = layer_set, list(indices), targets
        self.folds, self.symbols = split.dev.shape[0], symbols
        self.step = _clips_at_once(layer_set, symbols)
        self.fold, self.dev = torch.from_numpy(split.fold), torch.from_numpy(split.dev)
        self.order = [batch.items for batch in layer_set.embeddings.frame_batches]
        self._stored = {clip: batch for batch in layer_set.embeddings.frame_batches for clip in batch.items}

    def read(self, clips: Sequence[int]) -> Utterances:
        """Read the frames of these clips, those stored together at once."""
        found: dict[int, Tensor] = {}
        for batch in {self._stored[clip].items: self._stored[clip] for clip in clips}.values():
            frames, counts = self._layer_set.embeddings.frames(batch)
            # One layer less to copy where all are wanted, which is the usual case.
            part = frames if len(self._positions) == len(frames) else frames[self._positions]
            found |= zip(batch.items, part.split(counts, dim=1), strict=True)
        chosen = list(clips)
        return Utterances(
            frames=torch.cat([found[clip] for clip in chosen], dim=1).float(),
            counts=[found[clip].shape[1] for clip in chosen],
            targets=[self._targets[clip] for clip in chosen],
            fold=self.fold[chosen],
            dev=self.dev[:, chosen],
        )


def _clips_at_once(layer_set: LayerSet, symbols: int) -> int:
    """Return the batch size in clips: smaller where clips are long or the alphabet is large."""
    frames = STEP_FRAMES * min(1.0, 64 / symbols)
    # Encoders give about 50 frames a second.
    return int(min(32, max(1, frames // layer_set.embeddings.mean_seconds() / 50)))


def _layers_at_once(layer_set: LayerSet, folds: int) -> int:
    width = layer_set.embeddings.frame_width()
    # Sums in float64, the maps in float32, and one factorisation.
    return max(1, int(MEMORY // ((folds * 12 + 16) * width**2)))


def _rows(entry: Mapping[str, Tensor]) -> list[Tensor]:
    return list(entry["symbols"].split(entry["counts"].sum(1).tolist()))


def _fit(source: _Clips, spoken: Transcribed) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(int(generator(spoken.seed, "asr", "order").integers(2**62)))
    probes = fit_ctc(source, generator=rng, alignments=ALIGNMENTS, epochs=spoken.epochs)
    paths_of: dict[int, list[Tensor]] = {}
    for clips in source.order:
        batch = source.read(clips)
        for clip, path in zip(clips, probes.best_paths(batch), strict=True):
            paths_of[clip] = [torch.unique_consecutive(row) for row in path]
    layers = [[paths_of[clip][layer] for clip in range(len(paths_of))] for layer in range(len(probes.weights[0]))]
    return {
        "symbols": torch.cat([path for row in layers for path in row]),
        "counts": torch.tensor([[len(path) for path in row] for row in layers]),
    }


def head_transcripts(layer_set: LayerSet, vocabulary: Vocabulary, normaliser: Normaliser) -> list[str]:
    """Return the transcripts of the checkpoint's own CTC head, by greedy decoding; empty where it has none."""
    paths = layer_set.embeddings.heads()
    paths = [paths[clip] for clip in layer_set.embeddings.framed] if paths else []
    return normaliser.all([vocabulary.decode(torch.unique_consecutive(path).tolist()) for path in paths])


def count_transcripts(
    transcripts: Hypotheses,
    texts: Sequence[str],
    control: str = "",
    *,
    compounds: bool = False,
    weighed: Weighed | None = None,
) -> list[TaskCounts]:
    """Return word and character errors of every clip on every layer; `compounds` as in `count_edits`.

    `weighed` are the numbers of the clips among all, and their weights by metric, where they are a sample.
    """
    layers = tuple(transcripts)
    counted = []
    for metric, count in (("wer", count_words), ("cer", count_characters)):
        rows = [
            [count(text, transcripts[layer][clip], compounds=compounds) for layer in layers]
            for clip, text in enumerate(texts)
        ]
        found = TaskCounts(
            task="asr",
            metric=metric,
            layers=layers,
            clips=np.arange(len(texts)),
            errors=np.array([[cell.errors for cell in row] for row in rows], dtype=np.float64),
            hits=np.array([[cell.hits for cell in row] for row in rows], dtype=np.float64),
            sizes=np.array([row[0].length for row in rows], dtype=np.float64),
            control=control,
        )
        counted.append(found if weighed is None else found.weighted(weighed[0], weighed[1][metric]))
    return counted
