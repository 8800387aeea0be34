"""Speech recognition: a CTC probe on the frames of every layer, speakers kept apart, and its errors clip by clip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.asr_fairness import Options
from audits.asr_fairness.counts import TaskCounts
from audits.asr_fairness.layer_sets import LayerSet, workers_of
from audits.asr_fairness.recordings import Recording
from audits.asr_fairness.splits import across_speakers
from audits.core.context import Context
from audits.statistics import generator
from probes.core.executor import Workers, check_complete, run_jobs
from probes.core.progress import Silent
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


def transcribe(
    layer_sets: Sequence[LayerSet],
    texts: Sequence[str],
    split: AsrSplit,
    options: Options,
    context: Context,
    control: str = "",
) -> Hypotheses:
    """Return the transcripts of every clip by the probes of every layer.

    Under the control "shuffled-labels" the transcripts are shuffled over the clips before training.
    """
    shown = list(texts)
    if control == "shuffled-labels":
        shown = [texts[index] for index in generator(context.seed, "asr", control).permutation(len(texts))]
    alphabet = Alphabet.of(texts)
    fits = [
        _Fit(layer_set=layer_set, turn=slice(start, start + size), texts=shown, alphabet=alphabet, split=split)
        for layer_set in layer_sets
        for size in [_layers_at_once(layer_set, options)]
        for start in range(0, len(layer_set.positions), size)
    ]
    workers = workers_of(options)
    if not workers.here:
        _fit_away(fits, workers, options, context)
    transcripts: Hypotheses = {}
    for fit in fits:
        for layer, paths in zip(fit.layer_set.layers[fit.turn], _paths(fit, options, context), strict=True):
            transcripts[layer] = [alphabet.decode(path) for path in paths]
    return transcripts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Probes that are fitted together: layers of one set, on the same transcripts."""

    layer_set: LayerSet
    turn: slice
    texts: list[str]
    alphabet: Alphabet
    split: AsrSplit

    def clips(self) -> "_Clips":
        """Return the recordings as these probes read them."""
        targets = [self.alphabet.encode(text) for text in self.texts]
        return _Clips(self.layer_set, self.layer_set.positions[self.turn], targets, self.split, len(self.alphabet))

    def key(self, options: Options, context: Context) -> list[object]:
        """Return the cache key: everything that the fit depends on."""
        layer_set, split = self.layer_set, self.split
        key = [
            "ctc",
            2,
            _clips_at_once(layer_set, len(self.alphabet)),
            layer_set.key,
            list(layer_set.positions[self.turn]),
        ]
        key += [self.texts, options.folds, options.probe_epochs, context.seed]
        return [*key, split.fold.tolist(), split.dev.tolist()]


def _fit_away(fits: Sequence[_Fit], workers: Workers, options: Options, context: Context) -> None:
    """Fit the probes that are not cached on workers, and cache them."""
    silent = replace(context, progress=Silent())
    jobs = [
        (replace(fit, layer_set=fit.layer_set.shipped()), options, silent)
        for fit in fits
        if not context.cache.has(KIND, fit.key(options, context))
    ]
    with context.progress.phase("Transcription probes", len(jobs), "fits") as advance:
        lost = run_jobs(_fit_and_keep, jobs, workers, done=lambda *_: advance(1))
    check_complete(lost, len(jobs), "fits of transcription probes")


def _fit_and_keep(job: tuple[_Fit, Options, Context]) -> None:
    fit, options, context = job
    context.cache.write(KIND, fit.key(options, context), _fit(fit.clips(), options, context))


class _Clips:
    """The recordings of a layer set as the CTC probes read them."""

    def __init__(
        self, layer_set: LayerSet, indices: Sequence[int], targets: list[Tensor], split: AsrSplit, symbols: int
    ) -> None:
        self._layer_set, self._positions, self._targets = layer_set, list(indices), targets
        self.folds, self.symbols = split.dev.shape[0], symbols
        self.step = _clips_at_once(layer_set, symbols)
        self.fold, self.dev = torch.from_numpy(split.fold), torch.from_numpy(split.dev)
        self.order = [batch.items for batch in layer_set.embeddings.batches]
        self._stored = {clip: batch for batch in layer_set.embeddings.batches for clip in batch.items}

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


def _layers_at_once(layer_set: LayerSet, options: Options) -> int:
    width = layer_set.embeddings.frame_width()
    # Sums in float64, the maps in float32, and one factorisation.
    return max(1, int(MEMORY // ((options.folds * 12 + 16) * width**2)))


def _paths(fit: _Fit, options: Options, context: Context) -> list[list[Tensor]]:
    entry = context.cache.memo(KIND, fit.key(options, context), lambda: _fit(fit.clips(), options, context))
    counts = entry["counts"].tolist()
    return [list(row.split(count)) for row, count in zip(_rows(entry), counts, strict=True)]


def _rows(entry: Mapping[str, Tensor]) -> list[Tensor]:
    return list(entry["symbols"].split(entry["counts"].sum(1).tolist()))


def _fit(source: _Clips, options: Options, context: Context) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(int(generator(context.seed, "asr", "order").integers(2**62)))
    passes = 2 + ALIGNMENTS + options.probe_epochs
    with context.progress.phase("Transcription probes", passes, "passes over the clips") as advance:
        probes = fit_ctc(
            source,
            generator=rng,
            alignments=ALIGNMENTS,
            epochs=options.probe_epochs,
            advance=advance,
        )
        paths_of: dict[int, list[Tensor]] = {}
        for clips in source.order:
            batch = source.read(clips)
            for clip, path in zip(clips, probes.best_paths(batch), strict=True):
                paths_of[clip] = [torch.unique_consecutive(row) for row in path]
        advance(1)
    layers = [[paths_of[clip][layer] for clip in range(len(paths_of))] for layer in range(len(probes.weights[0]))]
    return {
        "symbols": torch.cat([path for row in layers for path in row]),
        "counts": torch.tensor([[len(path) for path in row] for row in layers]),
    }


def head_transcripts(layer_set: LayerSet, vocabulary: Vocabulary, normaliser: Normaliser) -> list[str]:
    """Return the transcripts of the checkpoint's own CTC head, by greedy decoding; empty where it has none."""
    paths = layer_set.embeddings.heads()
    return normaliser.all([vocabulary.decode(torch.unique_consecutive(path).tolist()) for path in paths])


def count_transcripts(
    transcripts: Hypotheses, texts: Sequence[str], control: str = "", *, compounds: bool = False
) -> list[TaskCounts]:
    """Return word and character errors of every clip on every layer; `compounds` as in `count_edits`."""
    layers = tuple(transcripts)
    counted = []
    for metric, count in (("wer", count_words), ("cer", count_characters)):
        rows = [
            [count(text, transcripts[layer][clip], compounds=compounds) for layer in layers]
            for clip, text in enumerate(texts)
        ]
        counted.append(
            TaskCounts(
                task="asr",
                metric=metric,
                layers=layers,
                clips=np.arange(len(texts)),
                errors=np.array([[cell.errors for cell in row] for row in rows], dtype=np.float64),
                hits=np.array([[cell.hits for cell in row] for row in rows], dtype=np.float64),
                sizes=np.array([row[0].length for row in rows], dtype=np.float64),
                control=control,
            )
        )
    return counted
