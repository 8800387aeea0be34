"""What does a recording hold? One channel of float32 samples at the rate that a model expects.

Files are read with libsndfile (WAV, FLAC, OGG, MP3, NIST SPHERE, ...) block by block: what a header promises is
never allocated before it has been found. Damaged or doubtful files are refused with the line of the manifest that
lists them, because a clip that is silently cut or padded would be counted against its group.
"""

import errno
import io
import math
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.errors import InputError
from probes.files.names import nearest_name
from probes.files.sniffing import impostor, missing_bytes
from probes.loading import guarded
from probes.loading.hashing import sha256_file
from probes.loading.manifests import Clip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE = 16_000
MAX_FRAMES = 2**28
"""Longest clip that is taken whole: 4.6 hours at 16 kHz, 1 GiB of memory."""
_BLOCK = 2**18
_MAX_BYTES = 2**30
_HEADER_BYTES = 64
_MP3_SHARE = 0.9
# libsndfile gives a stream that does not tell its length 2**63 - 1 frames.
_UNKNOWN_LENGTH = 2**62
_MAX_KERNEL = 2**25
_END_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipInfo:
    """What the header says: `frames` and `seconds` of the clip itself, `rate` in Hz and channels of its file."""

    frames: int
    rate: int
    channels: int
    seconds: float
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waveform:
    """Samples, float32 of shape (n,), at `rate` Hz; `original_rate` and `channels` are those of the file."""

    samples: "NDArray[np.float32]"
    rate: int
    original_rate: int
    channels: int

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
        Where the file is missing, unreadable, not audio, empty, or too short for the clip's part of it.
    """
    _check_file(clip.path, clip.where)
    with _open(clip.path, clip.where) as file:
        first, last = _span(file, clip.start, clip.end, clip.where)
        return ClipInfo(
            frames=last - first,
            rate=file.samplerate,
            channels=file.channels,
            seconds=(last - first) / file.samplerate,
            format=f"{file.format} {file.subtype}",
        )


def read_clip(path: Path, *, start: float | None = None, end: float | None = None, rate: int = RATE) -> Waveform:
    """Read a recording, or its part from `start` to `end` (seconds), as one channel at `rate` Hz.

    Channels are averaged. Another rate is brought to `rate` by band-limited interpolation (Hann-windowed sinc of
    six zero crossings, as in torchaudio).

    Raises
    ------
    InputError
        Where there is no usable sound; `where` is the path.
    """
    where = str(path)
    _check_file(path, where)
    with _open(path, where) as file:
        return _decode(file, start, end, rate, where)


def load_clip(clip: Clip, *, rate: int = RATE) -> LoadedClip:
    """Read a clip and the hash of its file; a whole file is read from the disk once, for both.

    Raises
    ------
    InputError
        Where there is no usable sound; `where` names the line of the manifest.
    """
    size, changed = _check_file(clip.path, clip.where)
    if clip.start is None and clip.end is None and size <= _MAX_BYTES:
        try:
            data = clip.path.read_bytes()
        except OSError as error:
            raise _unreadable(error, clip.where) from error
        with _open(io.BytesIO(data), clip.where) as file:
            return LoadedClip(waveform=_decode(file, None, None, rate, clip.where), sha256=sha256(data).hexdigest())
    with _open(clip.path, clip.where) as file:
        waveform = _decode(file, clip.start, clip.end, rate, clip.where)
    return LoadedClip(waveform=waveform, sha256=_hash_once(clip.path, size, changed))


@lru_cache(maxsize=1024)
def _hash_once(path: Path, size: int, changed: int) -> str:
    """Hash a long recording once for all of its parts; size and time of change tell whether it still stands."""
    return sha256_file(path)


def _check_file(path: Path, where: str) -> tuple[int, int]:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError("This is a folder, not a recording.", where=where, hint="Name a file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError("This is not an ordinary file.", where=where, hint="Name a file of sound.")
        with path.open("rb") as file:
            head = file.read(512)
            file.seek(0)
            missing = missing_bytes(file, status.st_size)
    except FileNotFoundError:
        near = nearest_name(path)
        folder = "" if path.parent.is_dir() else f" Its folder {path.parent} is missing too; is --audio-root right?"
        raise InputError(
            f"There is no file {path}.",
            where=where,
            hint=f"Did you mean {near}?" if near else f"Check the path.{folder}",
        ) from None
    except OSError as error:
        raise _unreadable(error, where) from error
    disguise = impostor(head)
    if disguise:
        raise InputError(f"The file is {disguise.what}, not a recording.", where=where, hint=disguise.hint)
    if not head:
        raise InputError("The file is empty.", where=where, hint="Export it again, or drop the row.")
    # Many writers count the header as sound, which is no loss.
    if missing > _HEADER_BYTES:
        raise InputError(
            f"The header promises {missing} bytes of sound more than the file holds.",
            where=where,
            hint="The file was cut off: fetch or export it again.",
        )
    return status.st_size, status.st_mtime_ns


def _unreadable(error: OSError, where: str) -> InputError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return InputError("You may not read this file.", where=where, hint="Ask for, or give, the right to read it.")
    met = f"The file cannot be read: {error.strerror or error}."
    return InputError(met, where=where, hint="Check the path and its disk, or drop the row.")


def _open(source: Path | io.BytesIO, where: str) -> Any:
    import soundfile

    try:
        return soundfile.SoundFile(source)
    except soundfile.LibsndfileError as error:
        raise InputError(
            f"The file cannot be read as sound: {error.error_string}",
            where=where,
            hint="Give WAV, FLAC, OGG, MP3 or NIST SPHERE; convert others first.",
        ) from None
    except TypeError:
        # What soundfile raises for a suffix that means samples without a header.
        raise InputError(
            "The file has no header that says rate and channels.", where=where, hint="Convert it to WAV."
        ) from None


def _span(file: Any, start: float | None, end: float | None, where: str) -> tuple[int, int]:
    """Return first frame and last (exclusive) of a clip."""
    total = int(file.frames)
    if total == 0:
        raise InputError("The recording has no samples.", where=where, hint="Export it again, or drop the row.")
    rate = file.samplerate
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
    if last - first > MAX_FRAMES and total < _UNKNOWN_LENGTH:
        raise InputError(
            f"The header promises {(last - first) / rate / 3600:.1f} hours of sound in one clip.",
            where=where,
            hint="If that is false, the file is damaged; if it is true, cut it into utterances.",
        )
    return first, last


def _decode(file: Any, start: float | None, end: float | None, rate: int, where: str) -> Waveform:
    import numpy as np

    first, last = _span(file, start, end, where)
    blocks = list(_blocks(file, first, last, where))
    samples = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.float32)
    expected = last - first
    # The length of an MP3 may be an estimate, and a stream may not know its own.
    share = _MP3_SHARE if file.format == "MP3" else 1.0
    if len(samples) == 0 or (len(samples) < share * expected and expected < _UNKNOWN_LENGTH):
        raise InputError(
            f"The header promises {expected} samples, the file holds {len(samples)}.",
            where=where,
            hint="The file was cut off: fetch or export it again.",
        )
    if not np.isfinite(samples).all():
        bad = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise InputError(
            f"The sample at {(first + bad) / file.samplerate:.3f} s is not a finite number.",
            where=where,
            hint="Export the file again, or drop the row.",
        )
    return Waveform(
        samples=_resample(samples, file.samplerate, rate, where),
        rate=rate,
        original_rate=file.samplerate,
        channels=file.channels,
    )


def _blocks(file: Any, first: int, last: int, where: str) -> "Iterator[NDArray[np.float32]]":
    import soundfile

    left = last - first
    found = 0
    try:
        if first:
            file.seek(first)
        while left > 0:
            block = file.read(min(_BLOCK, left), dtype="float32", always_2d=True)
            if len(block) == 0:
                return
            left -= len(block)
            found += len(block)
            if found > MAX_FRAMES:
                raise InputError("The clip is longer than 4 hours.", where=where, hint="Cut it into utterances.")
            yield block[:, 0].copy() if block.shape[1] == 1 else block.mean(axis=1, dtype="float32")
    except soundfile.LibsndfileError as error:
        raise InputError(
            f"The sound cannot be decoded: {error.error_string}",
            where=where,
            hint="The file is damaged: fetch or export it again.",
        ) from None


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
    functional = guarded.torchaudio().functional
    result: NDArray[np.float32] = functional.resample(torch.from_numpy(samples), rate, target).numpy()
    return result
