"""Clips of a manifest: one channel of float32 samples at the rate that a model expects.

Damaged or doubtful files are refused with the line of the manifest that lists them, because a clip that is silently
cut or padded would be counted against its group.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from probes.core import library_imports as libraries
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.opening import unreadable
from probes.files.safe_paths import check_name
from probes.files.sound import LARGE, UNKNOWN_LENGTH, Sound, SoundHeader, check_sound, opened_sound
from probes.speech.manifests import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE = 16_000
MAX_FRAMES = 2**28
"""Longest clip that is taken whole: 4.6 hours at 16 kHz, 1 GiB of memory."""
_MP3_SHARE = 0.9
_MAX_KERNEL = 2**25
_END_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipInfo:
    """Facts of a clip's header: `frames` and `seconds` of the clip, `rate` in Hz and `channels` of its file."""

    frames: int
    rate: int
    channels: int
    seconds: float
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waveform:
    """Mono samples, float32 of shape (n,), at `rate` Hz; `original_rate` and `channels` are those of the file.

    `decoder` is what decoded it with its version, where that is not libsndfile.
    """

    samples: "NDArray[np.float32]"
    rate: int
    original_rate: int
    channels: int
    decoder: str = ""

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedClip:
    """A clip's waveform and the SHA-256 of the bytes of its whole file."""

    waveform: Waveform
    sha256: str


def inspect_clip(clip: Clip) -> ClipInfo:
    """Read a clip's header only; nothing is decoded.

    Raises
    ------
    InputError
        Where the file is missing, an address, unreadable, not audio, empty, or too short for the clip's part of it.
    """
    _check_row(clip)
    size = check_sound(clip.path, clip.where).st_size
    with opened_sound(clip.path, clip.where, size=size) as sound:
        header = sound.header
    first, last = _span(header, clip.start, clip.end, clip.where)
    return ClipInfo(
        frames=last - first,
        rate=header.rate,
        channels=header.channels,
        seconds=(last - first) / header.rate,
        format=f"{header.format} {header.subtype}",
    )


def load_clip(clip: Clip, *, rate: int = RATE) -> LoadedClip:
    """Read a clip and the hash of its file; a whole file is read from the disk once, for both.

    Channels are averaged. Another rate is brought to `rate` by band-limited interpolation (Hann-windowed sinc of
    six zero crossings, as in torchaudio).

    Raises
    ------
    InputError
        Where there is no usable sound; `where` names the line of the manifest.
    """
    _check_row(clip)
    status = check_sound(clip.path, clip.where)
    size, data = status.st_size, None
    if clip.start is None and clip.end is None and size < LARGE:
        try:
            data = clip.path.read_bytes()
        except OSError as error:
            raise unreadable(clip.path, error, clip.where) from error
    with opened_sound(clip.path, clip.where, size=size, data=data) as sound:
        waveform = _decode(sound, clip.start, clip.end, rate, clip.where)
    known = _hash_once(clip.path, size, status.st_mtime_ns) if data is None else sha256(data).hexdigest()
    return LoadedClip(waveform=waveform, sha256=known)


def _check_row(clip: Clip) -> None:
    """Refuse a clip whose row names nothing that may be opened."""
    if clip.fault is not None:
        raise clip.fault
    check_name(clip.name, clip.where)


@lru_cache(maxsize=1024)
def _hash_once(path: Path, size: int, changed: int) -> str:
    """Hash a long recording once for all of its parts; a new size or modification time invalidates the hash."""
    return sha256_file(path)


def _span(header: SoundHeader, start: float | None, end: float | None, where: str) -> tuple[int, int]:
    """Return the first frame of a clip and the frame after its last."""
    total, rate = header.frames, header.rate
    if total == 0:
        raise InputError("The recording has no samples.", where=where, hint="Export it again, or drop the row.")
    length = total / rate
    first = 0 if start is None else round(start * rate)
    last = total if end is None else round(end * rate)
    if end is not None and end > length + _END_TOLERANCE:
        raise InputError(
            f"The part from {start or 0:g} s to {end:g} s goes beyond the end of the recording ({length:.2f} s).",
            where=where,
            hint="Check that the times are seconds and belong to this recording.",
        )
    last = min(last, total)
    if not 0 <= first < last:
        raise InputError(f"The part from {start or 0:g} s holds no sample.", where=where, hint="Check its times.")
    if last - first > MAX_FRAMES and total < UNKNOWN_LENGTH:
        raise InputError(
            f"The header promises {(last - first) / rate / 3600:.1f} hours of sound in one clip.",
            where=where,
            hint="If that is false, the file is damaged; if it is true, cut it into utterances.",
        )
    return first, last


def _decode(sound: Sound, start: float | None, end: float | None, rate: int, where: str) -> Waveform:
    import numpy as np

    header = sound.header
    first, last = _span(header, start, end, where)
    samples = sound.samples(first, last, most=MAX_FRAMES)
    expected = last - first
    # The length of an MP3 may be an estimate, and a stream may not know its own.
    share = _MP3_SHARE if header.format == "MP3" else 1.0
    if len(samples) == 0 or (len(samples) < share * expected and expected < UNKNOWN_LENGTH):
        raise InputError(
            f"The header promises {expected} samples, the file holds {len(samples)}.",
            where=where,
            hint="The file was cut off: fetch or export it again.",
        )
    if not np.isfinite(samples).all():
        bad = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise InputError(
            f"The sample at {(first + bad) / header.rate:.3f} s is not a finite number.",
            where=where,
            hint="Export the file again, or drop the row.",
        )
    return Waveform(
        samples=_resample(samples, header.rate, rate, where),
        rate=rate,
        original_rate=header.rate,
        channels=header.channels,
        decoder=sound.decoder,
    )


def _resample(samples: "NDArray[np.float32]", rate: int, target: int, where: str) -> "NDArray[np.float32]":
    if rate == target:
        return samples
    import torch

    common = math.gcd(rate, target)
    up, down = target // common, rate // common
    # The filter bank has `up` rows of about `down` + 12 max(down / up, 1) taps; a rate such as 16001 Hz explodes it.
    if up * (down + 12 * max(down // up, 1)) > _MAX_KERNEL or len(samples) * up // down > MAX_FRAMES:
        raise InputError(
            f"A sample rate of {rate} Hz cannot be brought to {target} Hz here.",
            where=where,
            hint="Check the header; if the rate is right, convert the file to 16 kHz first.",
        )
    functional = libraries.torchaudio().functional
    result: NDArray[np.float32] = functional.resample(torch.from_numpy(samples), rate, target).numpy()
    return result
