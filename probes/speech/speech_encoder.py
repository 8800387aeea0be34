"""A small speech encoder, trained on a spoken corpus whose flaw is known, in an ordinary model folder.

It is a stand-in for a real wav2vec2 checkpoint whose training clips lacked one accent. Sounds and spelling are
learned together: a cross-entropy on the phoneme of each frame, whose times the synthesiser gave, and CTC on the
characters or, where phones are asked for, on the phonemes in their order. Only the CTC head is saved, so that the
folder loads like any other.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

from probes.core import library_imports as libraries
from probes.core.executor import one_thread
from probes.core.progress import Progress, Silent
from probes.speech.spoken_clips import SAMPLE_RATE, Clip
from probes.speech.synthetic_speech import SpokenCorpus

KERNELS, STRIDES = (400, 3), (160, 2)
"""Convolutions of the front end, samples and frames of 10 ms."""
STRIDE, FIELD = 320, 720
"""Frame i of the encoder covers the samples from 320 i up to 320 i + 720."""

BATCH = 8
PASSES = 3
PEAK_RATE = 3e-3
WARM_UP = 60
"""Small batches and few passes: from the same minutes of computing, more steps beat more clips a step."""

CTC_WEIGHT = 0.5
"""Share of the CTC loss beside the phoneme loss."""

Units = Literal["letters", "phones"]
"""What the CTC head writes: characters, or espeak-ng's names of phonemes."""

_SPECIAL = ("<pad>", "<unk>")
_SILENCE, _IGNORED = 0, -100


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSummary:
    """Summary of a training: steps, mean losses of the last pass (nats) and wall time."""

    steps: int
    phoneme_loss: float
    symbol_loss: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Example:
    """A clip prepared for training: normalised signal, phoneme of each frame, symbols of the transcript."""

    signal: torch.Tensor
    frames: torch.Tensor
    symbols: torch.Tensor


def train_encoder(
    corpus: SpokenCorpus,
    folder: Path,
    *,
    seed: int,
    units: Units = "letters",
    passes: int = PASSES,
    max_steps: int | None = None,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train on the corpus' training clips and save a Hugging Face folder for CTC recognition.

    Deterministic for a seed on one machine; the process's own random state is left as it was.

    Parameters
    ----------
    units
        What the CTC head learns to write.
    passes, max_steps
        Number of passes over the clips; and of steps, after which training ends in any case.
    """
    started = time.monotonic()
    vocabulary = _vocabulary(corpus, units)
    clips = corpus.part("training")
    names = sorted({phone.name for clip in clips for phone in clip.phones})
    numbers = {name: 1 + at for at, name in enumerate(names)}
    examples = [prepare(clip, numbers, vocabulary, units) for clip in clips]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = _build(len(vocabulary))
        sounds = torch.nn.Linear(model.config.hidden_size, 1 + len(names))
        batches = [
            batch
            for turn in range(passes)
            for batch in _batches(examples, torch.Generator().manual_seed(seed * 1_000 + turn))
        ][:max_steps]
        losses = _fit(model, sounds, batches, progress or Silent())
    _save(model, vocabulary, folder, units)
    tail = losses[-max(1, len(losses) // passes) :]
    return TrainingSummary(
        steps=len(batches),
        phoneme_loss=sum(pair[0] for pair in tail) / len(tail),
        symbol_loss=sum(pair[1] for pair in tail) / len(tail),
        seconds=time.monotonic() - started,
    )


def frame_labels(clip: Clip, frames: int, numbers: dict[str, int]) -> torch.Tensor:
    """Return the number of the phoneme at the centre of each frame, int64 (frames,), 0 where nothing is spoken."""
    centres = (STRIDE * np.arange(frames) + FIELD // 2) / SAMPLE_RATE
    labels = np.full(frames, _SILENCE)
    for phone in clip.phones:
        labels[(centres >= phone.start) & (centres < phone.end)] = numbers.get(phone.name, _SILENCE)
    return torch.from_numpy(labels)


def _written(clip: Clip, units: Units) -> list[str]:
    """Return the target text of the CTC head for a clip; the space between words is `|`."""
    return list(clip.text.replace(" ", "|")) if units == "letters" else [phone.name for phone in clip.spoken]


def _vocabulary(corpus: SpokenCorpus, units: Units) -> dict[str, int]:
    """Number the symbols: the blank (and padding) is 0, the space, of letters only, is `|`."""
    special = (*_SPECIAL, "|") if units == "letters" else _SPECIAL
    symbols = {symbol for clip in corpus.clips for symbol in _written(clip, units)}
    return {token: number for number, token in enumerate((*special, *sorted(symbols.difference(special))))}


def prepare(clip: Clip, numbers: dict[str, int], vocabulary: dict[str, int], units: Units) -> Example:
    """Read a clip and normalise it as the saved feature extractor will: zero mean, unit variance."""
    import soundfile

    signal, _ = soundfile.read(clip.path, dtype="float32")
    signal = (signal - signal.mean()) / np.sqrt(signal.var() + 1e-7)
    frames = (len(signal) - FIELD) // STRIDE + 1
    return Example(
        signal=torch.from_numpy(signal),
        frames=frame_labels(clip, frames, numbers),
        symbols=torch.tensor([vocabulary[symbol] for symbol in _written(clip, units)]),
    )


def _build(tokens: int) -> Any:
    """Make the untrained network: wav2vec2 with a filterbank in front and four narrow layers, no dropout.

    Seven convolutions of 5 to 320 samples, as published checkpoints have them, would take two thirds of the time here.
    """
    transformers = libraries.transformers()
    config = transformers.Wav2Vec2Config(
        vocab_size=tokens,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
        conv_dim=(128, 128),
        conv_kernel=KERNELS,
        conv_stride=STRIDES,
        # A norm over groups would run over the padding of a batch, and make a clip's states depend on its neighbours.
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=16,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
        mask_feature_prob=0.0,
        apply_spec_augment=False,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
    )
    model = transformers.Wav2Vec2ForCTC(config)
    with torch.no_grad():
        first = model.wav2vec2.feature_extractor.conv_layers[0].conv
        first.weight.copy_(mel_waves(first.out_channels, KERNELS[0])[:, None])
    return model


def mel_waves(filters: int, length: int) -> torch.Tensor:
    """Return short waves of unit norm, evenly spaced in mel from 80 to 7600 Hz, four phases each.

    A first layer that starts from them need not find out what hearing is, and is trained on like any other
    (Zeghidour et al. 2018, Learning filterbanks from raw speech, arXiv 1711.01161).

    Parameters
    ----------
    filters
        A multiple of four.
    length
        Samples of a wave, under a Hann window.

    Returns
    -------
    Tensor
        Shape (filters, length), float32; phases 0, 90, 180 and 270 degrees of a frequency stand side by side.

    Examples
    --------
    Opposite phases cancel:

    >>> waves = mel_waves(8, 400)
    >>> tuple(waves.shape), bool((waves[0] + waves[2]).abs().max() < 1e-6)
    ((8, 400), True)
    """
    low, high = (2595 * math.log10(1 + hertz / 700) for hertz in (80.0, 7600.0))
    mel = torch.linspace(low, high, filters // 4, dtype=torch.float64)
    hertz = 700 * (10 ** (mel / 2595) - 1)
    angles = 2 * math.pi * torch.arange(length) / SAMPLE_RATE * hertz[:, None, None]
    phases = torch.arange(4)[:, None] * math.pi / 2
    waves = (torch.hann_window(length, periodic=False) * torch.cos(angles + phases)).flatten(0, 1)
    unit: torch.Tensor = (waves / waves.norm(dim=1, keepdim=True)).float()
    return unit


def _batches(examples: Sequence[Example], generator: torch.Generator) -> Iterator[list[Example]]:
    """Deal the examples into batches of similar length, in random order."""
    noise = torch.rand(len(examples), generator=generator).tolist()
    # A tenth of the length at random keeps neighbours alike without making every pass the same.
    order = sorted(range(len(examples)), key=lambda at: len(examples[at].signal) * (1 + 0.1 * noise[at]))
    groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    for group in torch.randperm(len(groups), generator=generator).tolist():
        yield [examples[at] for at in groups[group]]


def _fit(
    model: Any, sounds: torch.nn.Module, batches: Sequence[list[Example]], progress: Progress
) -> list[tuple[float, float]]:
    """Run AdamW over the batches; return both losses of each step."""
    weights = [*model.parameters(), *sounds.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    total = len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / WARM_UP, (total - step) / max(1, total - WARM_UP))
    )
    losses = []
    with one_thread(), progress.phase("Training the encoder of the example", total, "steps") as advance:
        for batch in batches:
            sound, spelling = _losses(model, sounds, batch)
            optimiser.zero_grad(set_to_none=True)
            (sound + CTC_WEIGHT * spelling).backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            schedule.step()
            losses.append((sound.item(), spelling.item()))
            advance(1)
    return losses


def _losses(model: Any, sounds: torch.nn.Module, batch: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the frame cross-entropy and the CTC loss (per symbol) of one batch."""
    pad = torch.nn.utils.rnn.pad_sequence
    signals = pad([example.signal for example in batch], batch_first=True)
    lengths = torch.tensor([len(example.signal) for example in batch])
    mask = (torch.arange(signals.shape[1]) < lengths[:, None]).long()
    hidden = model.wav2vec2(signals, attention_mask=mask).last_hidden_state
    labels = pad([example.frames for example in batch], batch_first=True, padding_value=_IGNORED)
    sound = functional.cross_entropy(
        sounds(hidden[:, : labels.shape[1]]).transpose(1, 2), labels, ignore_index=_IGNORED
    )
    logs = model.lm_head(hidden).log_softmax(-1).transpose(0, 1)
    spelling = functional.ctc_loss(
        logs,
        torch.cat([example.symbols for example in batch]),
        torch.tensor([len(example.frames) for example in batch]),
        torch.tensor([len(example.symbols) for example in batch]),
        blank=0,
        zero_infinity=True,
    )
    return sound, spelling


def _save(model: Any, vocabulary: dict[str, int], folder: Path, units: Units) -> None:
    """Write the folder: weights, configuration, feature extractor and the head's vocabulary."""
    transformers = libraries.transformers()
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(
        feature_size=1, sampling_rate=SAMPLE_RATE, padding_value=0.0, do_normalize=True, return_attention_mask=True
    ).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, indent=1) + "\n", encoding="utf-8")
    settings = json.dumps(_tokeniser(units), indent=1) + "\n"
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")


def _tokeniser(units: Units) -> dict[str, object]:
    """Return the tokenizer's settings: phones have names of several letters, divided by spaces."""
    common = {"pad_token": "<pad>", "unk_token": "<unk>"}
    ends = {"bos_token": None, "eos_token": None}
    if units == "letters":
        letters = {"tokenizer_class": "Wav2Vec2CTCTokenizer", **common, "word_delimiter_token": "|"}
        return {**letters, **ends, "do_lower_case": False}
    delimiters = {"phone_delimiter_token": " ", "word_delimiter_token": None}
    return {"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer", **common, **delimiters, **ends, "do_phonemize": False}
