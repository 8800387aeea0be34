"""Read recordings with libsndfile (WAV, FLAC, OGG, MP3, NIST SPHERE, ...), as one channel of float32.

What libsndfile does not read, such as M4A, is decoded by ffmpeg first where that is installed (`probes.files.ffmpeg`).
Blocks are read one after the other: what a header promises is never allocated before it has been found. A recording
that is large, or whose header promises hours of sound, is read in a contained process.
"""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from probes.core.errors import InputError
from probes.files import ffmpeg
from probes.files.opening import read_head, unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE = 2**26
"""Bytes of a file from which on it is opened in a contained process only."""
LONG = 2**27
"""Frames that a header promises from which on a file is decoded in a contained process: 2.3 hours at 16 kHz."""
UNKNOWN_LENGTH = 2**62
"""Frames from which on the length is unknown: for such a stream libsndfile reports 2**63 - 1."""
MEMORY, _SECONDS = 2**28, 60
"""What a contained process may take: bytes beside the libraries, and seconds."""
_BLOCK = 2**18
_VALUES = 2**20
"""Samples of all channels that are read at a time: a file may have a thousand channels."""
_HEADER_BYTES = 64
_MOST_CHUNKS = 1000
_UNKNOWN_SIZE = 0x7FFF0000
"""From here on a WAV's size is what writers put there who stream and do not know it."""


_SPHERE = re.compile(rb"^(\w+)(?: -\w+ |\n\s*)(\S{1,60})$", re.MULTILINE)
"""The fields of a header of NIST SPHERE, and its first line with the size of the header below."""
_SPHERE_SIZES = (b"NIST_1A", b"sample_count", b"channel_count", b"sample_n_bytes")


@dataclass(frozen=True, slots=True)
class SoundHeader:
    """What the header of a recording says; `rate` is in Hz."""

    frames: int
    rate: int
    channels: int
    format: str
    subtype: str


class Recording:
    """A recording that is open in this process; `where` names it in refusals."""

    def __init__(self, source: str | io.BytesIO, where: str) -> None:
        import soundfile

        self._where = where
        try:
            self._file = soundfile.SoundFile(source)
        except soundfile.LibsndfileError as error:
            raise InputError(
                f"The file cannot be read as sound: {error.error_string}",
                where=where,
                hint="Give WAV, FLAC, OGG, MP3 or NIST SPHERE, or M4A, AAC, WebM or WMA where ffmpeg is installed; "
                "convert others first.",
            ) from None
        except TypeError:
            # soundfile raises it for a suffix that means samples without a header.
            raise InputError(
                "The file has no header that says rate and channels.", where=where, hint="Convert it to WAV."
            ) from None

    def header(self) -> tuple[Any, ...]:
        """Return the fields of the `SoundHeader`."""
        file = self._file
        return astuple(SoundHeader(int(file.frames), file.samplerate, file.channels, file.format, file.subtype))

    def seek(self, frame: int) -> None:
        """Continue reading at a frame."""
        self._decoded(lambda: self._file.seek(frame))

    def block(self, most: int) -> "NDArray[np.float32]":
        """Return the next frames, the mean of all channels; none at the end."""
        size = min(_BLOCK, max(1, _VALUES // self._file.channels), most)
        block = self._decoded(lambda: self._file.read(size, dtype="float32", always_2d=True))
        mean: NDArray[np.float32] = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype="float32")
        return mean

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _decoded(self, read: Callable[[], Any]) -> Any:
        import soundfile

        try:
            return read()
        except soundfile.LibsndfileError as error:
            raise InputError(
                f"The sound cannot be decoded: {error.error_string}",
                where=self._where,
                hint="The file is damaged: fetch or export it again.",
            ) from None


class Sound:
    """A recording that is open here or in a contained process, to which `ask` hands methods of `Recording`.

    `decoder` is what else decoded it, with its version: other versions may give other samples. Empty for libsndfile.
    """

    def __init__(self, ask: Callable[..., Any], where: str, decoder: str = "") -> None:
        self._ask, self._where, self.decoder = ask, where, decoder
        self.header = SoundHeader(*ask("header"))

    def samples(self, first: int, last: int, *, most: int) -> "NDArray[np.float32]":
        """Return the frames from `first` to `last` (exclusive), or fewer where the file ends before.

        Raises
        ------
        InputError
            Where they cannot be decoded, or are more than `most`.
        """
        import numpy as np

        if first:
            self._ask("seek", first)
        # It grows by what is found; joined blocks would take twice the memory of a long recording.
        found = bytearray()
        left = last - first
        while left > 0:
            block = np.ascontiguousarray(self._ask("block", left), dtype=np.float32)
            if len(block) == 0:
                break
            left -= len(block)
            found += block.data.cast("B")
            if len(found) > 4 * most:
                raise InputError("The clip is longer than 4 hours.", where=self._where, hint="Cut it into utterances.")
        return np.frombuffer(found, dtype=np.float32)


def check_sound(path: Path, where: str) -> os.stat_result:
    """Refuse what is no ordinary file, holds nothing, is something else by its first bytes, or was cut off.

    Raises
    ------
    InputError
        With `where`, such as a line of a manifest.
    """
    try:
        hint = "Name a file of sound, or drop the row."
        head = read_head(path, wanted="a recording", hint=hint, size=2**10, where=where)
    except InputError as error:
        # For a path without permission os.path says that it is no folder.
        if os.path.isdir(path.parent):  # noqa: PTH112
            raise
        folder = f"Its folder {path.parent} is missing too; is --audio-root right?"
        raise InputError(error.message, where=where, hint=f"{error.hint} {folder}") from None
    try:
        status = path.stat()
        if chunks := _CHUNKS.get(head[:4]):
            with path.open("rb") as file:
                _check_chunks(file, status.st_size, where, chunks)
        elif (missing := _promised(head) - status.st_size) > _HEADER_BYTES:
            raise _cut_off(missing, where)
    except OSError as error:
        raise unreadable(path, error, where) from error
    return status


@dataclass(frozen=True, slots=True)
class _Chunks:
    """A container of chunks: the order of the bytes of a size, its kinds, its chunk of sound, and the largest size.

    What lies above is what writers put there who stream and do not know it; of AIFF, sox rounds it down.
    """

    order: Literal["little", "big"]
    kinds: tuple[bytes, ...]
    sound: bytes
    most: int = _UNKNOWN_SIZE


_CHUNKS = {
    b"RIFF": _Chunks("little", (b"WAVE",), b"data"),
    b"RIFX": _Chunks("big", (b"WAVE",), b"data"),
    b"RF64": _Chunks("little", (b"WAVE",), b"data"),
    b"FORM": _Chunks("big", (b"AIFF", b"AIFC"), b"SSND", 0x7EFF0000),
}


def _check_chunks(file: BinaryIO, size: int, where: str, chunks: _Chunks) -> None:
    """Refuse a file with less sound than its chunk promises, which libsndfile reads without an error."""
    head = file.read(36)
    if head[8:12] not in chunks.kinds:
        return
    begin = 12
    for _ in range(_MOST_CHUNKS):
        if begin + 8 > size:
            return
        file.seek(begin)
        chunk = file.read(8)
        length = int.from_bytes(chunk[4:], chunks.order)
        if chunk[:4] == chunks.sound:
            known = length < chunks.most
            if head[:4] == b"RF64" and length == 2**32 - 1 and head[12:16] == b"ds64":
                length = int.from_bytes(head[28:36], "little")
                known = length < UNKNOWN_LENGTH
            missing = begin + 8 + length - size
            # Many writers count the header as sound, which is no loss.
            if known and missing > _HEADER_BYTES:
                raise _cut_off(missing, where)
            return
        # Chunks begin at even offsets.
        begin += 8 + length + length % 2
    raise InputError(
        f"The file has more than {_MOST_CHUNKS} chunks before its sound.", where=where, hint="Export it again as WAV."
    )


def _cut_off(missing: int, where: str) -> InputError:
    message = f"The header promises {missing} bytes of sound more than the file holds."
    return InputError(message, where=where, hint="The file was cut off: fetch or export it again.")


def _promised(head: bytes) -> int:
    """Return the bytes of the whole file that a header of AU, W64 or NIST SPHERE promises, 0 where it says nothing.

    libsndfile reads such files short without an error.
    """
    if head[:4] in (b".snd", b"dns."):
        order: Literal["little", "big"] = "big" if head[:4] == b".snd" else "little"
        begin, length = (int.from_bytes(head[at : at + 4], order) for at in (4, 8))
        return begin + length if length < _UNKNOWN_SIZE else 0
    if head[:4] == b"riff" and head[24:28] == b"wave":
        length = int.from_bytes(head[16:24], "little")
        return length if length < UNKNOWN_LENGTH else 0
    if head[:7] == b"NIST_1A":
        fields = dict(_SPHERE.findall(head.replace(b"\r\n", b"\n")))
        texts = [fields.get(name, b"") for name in _SPHERE_SIZES]
        begin, *sizes = (int(text) if text.isdigit() and len(text) < 16 else 0 for text in texts)
        # Where the sound is compressed, its bytes cannot be told from its samples.
        plain = fields.get(b"sample_coding", b"pcm") in (b"pcm", b"ulaw", b"mu-law", b"alaw")
        return begin + prod(sizes) if plain else 0
    return 0


@contextmanager
def opened_sound(
    path: Path,
    where: str,
    *,
    size: int,
    data: bytes | None = None,
    large: int = LARGE,
    long: int = LONG,
    memory: int = MEMORY,
) -> Iterator[Sound]:
    """Open a recording that was checked: a small and short one here, any other in a contained process.

    Parameters
    ----------
    size
        Bytes of the file.
    data
        All of them, where they have been read already.
    large, long
        Bytes of a file and frames that its header promises from which on it is opened in a contained process.
    memory
        Bytes that this process may take.

    Raises
    ------
    InputError
        Where it cannot be read as sound, or not within the limits.
    """
    form = ffmpeg.form_of(_begin(path, where) if data is None else data[: ffmpeg.HEAD])
    if form is not None and not form.ours:
        with _decoded(path, form, where) as sound:
            yield sound
        return
    if size < large:
        try:
            recording = Recording(str(path) if data is None else io.BytesIO(data), where)
        except InputError as error:
            if form is None or not ffmpeg.decoder():
                raise
            with _decoded(path, form, where, otherwise=error) as sound:
                yield sound
            return
        try:
            sound = Sound(lambda method, *args: getattr(recording, method)(*args), where)
            if sound.header.frames < long:
                yield sound
                return
        finally:
            recording.close()
    yield Sound(_contained(path, where, memory), where)


def _begin(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(ffmpeg.HEAD)
    except OSError as error:
        raise unreadable(path, error, where) from error


@contextmanager
def _decoded(path: Path, form: ffmpeg.Form, where: str, otherwise: InputError | None = None) -> Iterator[Sound]:
    """Open what ffmpeg makes of a recording; where it fails, raise what was wrong `otherwise`."""
    try:
        found = ffmpeg.decoded(path, form, where)
    except InputError as error:
        raise otherwise or error from None
    recording = Recording(io.BytesIO(found), where)
    try:
        sound = Sound(lambda method, *args: getattr(recording, method)(*args), where, ffmpeg.decoder())
        sound.header = replace(sound.header, format=form.words, subtype=f"by {sound.decoder}")
        yield sound
    finally:
        recording.close()


def _contained(path: Path, where: str, memory: int) -> Callable[..., Any]:
    """Return a function that calls methods of a recording in a contained process."""
    from probes.contained import LimitError, Limits, Session

    limits = Limits(memory=memory, seconds=_SECONDS)
    session: Session | None = None

    def ask(method: str, *args: Any) -> Any:
        nonlocal session
        try:
            session = session or Session(
                Recording, str(path), where, reads=[path], limits=limits, loads=("numpy", "soundfile")
            )
            return session.ask(method, *args)
        except LimitError as error:
            raise InputError(
                f"The recording cannot be decoded within the limits for strangers' files: {error.text}.",
                where=where,
                hint="Convert it to WAV or FLAC, and cut it into utterances.",
            ) from error

    return ask
