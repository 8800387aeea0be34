"""Frames that a speech encoder makes of a clip: how many, and which time each of them is centred on.

All of it follows from the configuration; nothing is loaded. The configuration is not trusted.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import InputError
from probes.models.checkpoints import ModelFolder

RATE, WHISPER_SECONDS = 16000, 30.0
KERNELS, STRIDES = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
WHISPER_FRAMES = 1500
_DEPTHS = "num_hidden_layers encoder_layers decoder_layers num_conv_pos_embeddings"
_ADAPTER = "num_adapter_layers adapter_kernel_size adapter_stride"
_WIDTHS = "hidden_size d_model intermediate_size output_hidden_size vocab_size num_attention_heads num_mel_bins"
LIMITS = (
    dict.fromkeys(_DEPTHS.split(), 1000) | dict.fromkeys(_ADAPTER.split(), 64) | dict.fromkeys(_WIDTHS.split(), 2**20)
)
"""Largest values of a configuration that are believed before the weights have been seen."""
_ADAPTER_LAYERS = {"wav2vec2": 3, "wavlm": 3, "data2vec-audio": 3, "wav2vec2-bert": 1}
"""Layers of the adapter where the configuration does not say, of the families that can have one."""


def check_config(folder: ModelFolder) -> None:
    """Check the numbers of a configuration that decide memory, time and frame count.

    Raises
    ------
    InputError
        Where one is no whole number, or larger than any encoder's; `where` names the key.
    """
    config = folder.config
    for key, most in LIMITS.items():
        if config.get(key) is not None and not _is_count(config[key], most):
            raise _implausible(folder, key, f"is not a whole number from 1 to {most}")
    kernels = config.get("conv_kernel", KERNELS)
    for key, values in (("conv_kernel", kernels), ("conv_stride", config.get("conv_stride", STRIDES))):
        if not isinstance(values, list | tuple) or not all(_is_count(value, 10**4) for value in values):
            raise _implausible(folder, key, "is not a list of whole numbers from 1 to 10000")
        if not 0 < len(values) == len(kernels) <= 64:
            raise _implausible(folder, key, f"and conv_kernel have {len(values)} and {len(kernels)} entries")
    if folder.family == "whisper" and config.get("max_source_positions", WHISPER_FRAMES) != WHISPER_FRAMES:
        raise _implausible(folder, "max_source_positions", f"is not {WHISPER_FRAMES}, the 30 s of Whisper")
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _implausible(folder, "architectures", "is not a list of names")


def frame_count(folder: ModelFolder, samples: int) -> int:
    """Return the number of frames of `samples` at 16 kHz; 0 or less where the clip is too short.

    Convolutional front ends: n -> floor((n - k) / s) + 1 over the kernels k and strides s of the
    configuration. Whisper: ceil(n / 320), at most 1500. wav2vec2-bert: Kaldi frames of 25 ms each 10 ms,
    in pairs.

    Raises
    ------
    InputError
        Where the configuration makes no sense.
    """
    check_config(folder)
    if folder.family == "whisper":
        return min(math.ceil(samples / 320), WHISPER_FRAMES) if samples >= 400 else 0
    if folder.family == "wav2vec2-bert":
        return (1 + (samples - 400) // 160) // 2 if samples >= 400 else 0
    count = samples
    for kernel, stride in zip(*_front_end(folder), strict=True):
        count = (count - kernel) // stride + 1 if count >= kernel else 0
    return int(count)


def frame_centres(folder: ModelFolder, samples: int) -> NDArray[np.float64]:
    """Return the centre of each frame's receptive field before the attention, seconds, shape (frames,).

    Convolutional front ends: frame i covers the F samples from S i, where S is the product of the strides and
    F = 1 + sum_j (k_j - 1) prod_(i < j) s_i; usually 320 i + 200 samples.

    Whisper: the spectrum is centred and padded, so that mel frame m has its middle at 160 m samples. The first
    convolution (kernel 3, padding 1) keeps the middles; the second has stride 2, and its output i has the inputs
    2 i - 1, 2 i and 2 i + 1. So frame i has its middle at 320 i samples, and the first one at 0.

    wav2vec2-bert: a frame is a pair of Kaldi frames without padding, the 400 samples from 320 i and from
    320 i + 160, with the middle at 320 i + 280 samples.

    Raises
    ------
    InputError
        Where the configuration makes no sense.
    """
    first, step = _first_and_step(folder)
    return (first + step * np.arange(max(frame_count(folder, samples), 0))) / RATE


def head_centres(folder: ModelFolder, samples: int) -> NDArray[np.float64]:
    """Return the centre of the receptive field of each frame of the CTC head, seconds, shape (frames of the head,).

    Without an adapter these are the frames of the encoder. A layer of an adapter is a convolution over n frames with
    kernel k, stride s and padding p on both sides: it leaves floor((n + 2p - k) / s) + 1 frames, and the middle of
    output j is input s j + (k - 1)/2 - p. Usually that is 2 j, and three layers leave every eighth frame. wav2vec2
    and its kin pad by 1, wav2vec2-bert by floor(s / 2).

    Raises
    ------
    InputError
        Where the configuration makes no sense.
    """
    count = max(frame_count(folder, samples), 0)
    first, step = _first_and_step(folder)
    config = folder.config
    if folder.family in _ADAPTER_LAYERS and config.get("add_adapter"):
        kernel, stride = config.get("adapter_kernel_size") or 3, config.get("adapter_stride") or 2
        padding = stride // 2 if folder.family == "wav2vec2-bert" else 1
        for _ in range(config.get("num_adapter_layers") or _ADAPTER_LAYERS[folder.family]):
            count = (count + 2 * padding - kernel) // stride + 1 if count + 2 * padding >= kernel else 0
            first, step = first + step * ((kernel - 1) / 2 - padding), step * stride
    return (first + step * np.arange(count)) / RATE


def _first_and_step(folder: ModelFolder) -> tuple[float, float]:
    """Return the centre of the first frame and the distance between frames, in samples."""
    check_config(folder)
    if folder.family == "whisper":
        return 0.0, 320.0
    if folder.family == "wav2vec2-bert":
        return 280.0, 320.0
    kernels, strides = _front_end(folder)
    steps = list(accumulate(strides, mul, initial=1))
    field = 1 + sum((kernel - 1) * step for kernel, step in zip(kernels, steps, strict=False))
    return field / 2, float(steps[-1])


def _front_end(folder: ModelFolder) -> tuple[Sequence[int], Sequence[int]]:
    """Return the kernels and strides of the front end's convolutions."""
    return folder.config.get("conv_kernel", KERNELS), folder.config.get("conv_stride", STRIDES)


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _implausible(folder: ModelFolder, key: str, what: str) -> InputError:
    return InputError(
        f"{key} = {str(folder.config.get(key))[:80]} {what}.",
        where=f"{folder.path / 'config.json'}, key {key}",
        hint="Fetch the configuration again, or save the model again with save_pretrained.",
    )
