"""Checks of a clip's sound before the encoder is loaded: its hash, its samples, and whether the encoder can take it."""

from dataclasses import dataclass

from probes.models.checkpoints import ModelFolder
from probes.speech.audio import load_clip
from probes.speech.frames import RATE, WHISPER_SECONDS, frame_count
from probes.speech.manifests import Clip

SHORTEST = 400
"""Samples of one window of log-mel energies, 25 ms."""
TOO_SHORT = "shorter than one frame of the encoder"
TOO_LONG = "longer than the 30 s that whisper takes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A clip that an encoder can take: hash of its file, samples at 16 kHz, rate and channels of the file.

    `silent`: all of its samples are equal. `decoder`: what decoded it, with its version, where not libsndfile.
    """

    sha256: str
    samples: int
    rate: int
    channels: int
    silent: bool
    decoder: str = ""


def measure_sound(clip: Clip, folder: ModelFolder | None) -> Sound | str:
    """Read and check a clip; return its sound, or the reason why the encoder cannot take it.

    Parameters
    ----------
    folder
        An encoder that `check_config` accepts: what is wrong with it is not the fault of a clip. None where nothing
        is encoded.

    Raises
    ------
    InputError
        Where there is no usable sound; `where` names the line of the manifest.
    """
    loaded = load_clip(clip)
    wave = loaded.waveform
    samples = len(wave.samples)
    if folder is not None and folder.family == "whisper" and samples > WHISPER_SECONDS * RATE:
        return TOO_LONG
    if samples < SHORTEST or (folder is not None and frame_count(folder, samples) < 1):
        return TOO_SHORT
    return Sound(
        sha256=loaded.sha256,
        samples=samples,
        rate=wave.original_rate,
        channels=wave.channels,
        silent=bool((wave.samples == wave.samples[0]).all()),
        decoder=wave.decoder,
    )
