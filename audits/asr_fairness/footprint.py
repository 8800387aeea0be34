"""What a run keeps on the disk and holds in memory: how it grows with the corpus, before it starts."""

from audits.asr_fairness import Options, asr, sid
from audits.asr_fairness.data_warnings import enrolled_speakers
from audits.asr_fairness.recordings import Inputs
from probes.speech.softmax_probes import LARGEST

MEL_WIDTH = 160
"""Numbers of a frame of log-mel energies, and of its pooled vector."""
FRAME, POOLED = 2, 4
"""Bytes of a number: frames are float16, pooled vectors float32."""
PROGRAM = 0.5e9
"""Bytes of Python, torch and transformers."""
OF_A_CLIP = 4e3
"""Bytes that are held of each clip besides its vectors: path, text, attributes, counts."""


def disk_of(inputs: Inputs, options: Options, frames: int, layers: int, width: int) -> tuple[float, float]:
    """Return bytes of frames and of pooled vectors in the cache, of the encoder and of log-mel energies.

    Parameters
    ----------
    frames
        Of all recordings, where all are kept.
    layers, width
        Of the encoder, as far as they are kept.
    """
    kept = 0 if "asr" not in options.tasks else frames if inputs.sample is None else inputs.sample.frames
    clips = len(inputs.recordings if "sid" in options.tasks else inputs.heard)
    numbers = layers * width + MEL_WIDTH * options.baseline
    return float(kept * numbers * FRAME), float(clips * numbers * POOLED)


def memory_of(inputs: Inputs, options: Options, layers: int, width: int, weights: float) -> float:
    """Return about how many bytes the command, or a worker that fits probes, holds at most.

    Pooled vectors of a layer stand in memory five times: as read, those of the training clips, these standardised, once
    more with a column of ones, and the tested ones.
    """
    held = PROGRAM + OF_A_CLIP * len(inputs.recordings)
    speakers = transcribed = 0.0
    if "sid" in options.tasks:
        one = len(inputs.recordings) * width * POOLED
        at_once = min(layers, max(1, int(sid.MEMORY // max(one, 1))))
        people = enrolled_speakers(inputs.recordings, options)
        scores = min(at_once * sum(people.values()) * len(people) * 4.0, LARGEST * 4.0)
        speakers = 5.0 * at_once * one + 4 * scores
    if "asr" in options.tasks:
        transcribed = 2 * min(asr.MEMORY, layers * (options.folds * 12 + 16.0) * width**2) + 0.2e9
    return held + max(weights, speakers, transcribed)
