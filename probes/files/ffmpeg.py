"""Decode recordings that libsndfile does not read (AAC, WMA, and more) with ffmpeg, where it is installed.

What a file is follows from its first bytes, and ffmpeg is told so: it guesses nothing, so that no file can be a
playlist or a script of ffmpeg that names other files. It runs as `probes.contained.programs` says, may open the one
file and nothing else, and its samples come back as a WAV of the rate and the channels that the file has. What it calls
an error refuses the file.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from probes.contained.limits import LimitError, Limits
from probes.contained.programs import installed, run_program
from probes.core.errors import InputError

LIMITS = Limits(memory=2**30, seconds=120)
"""What ffmpeg may take for one recording."""
MOST = 2**30
"""Bytes of float32 samples of all channels that it may hand back: 93 minutes of one channel at 48 kHz."""
_KEPT = 2**28
"""Bytes of decoded samples that are kept until another file is decoded."""
HEAD = 64
"""First bytes that tell the form."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of recordings: ffmpeg's name of it, and its name in words.

    `ours`: libsndfile reads some of these; ffmpeg is asked for the others.
    """

    demuxer: str
    words: str
    ours: bool = False


_STARTS = {
    b"\x1a\x45\xdf\xa3": Form("matroska", "WebM or Matroska"),
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11": Form("asf", "WMA"),
    b"#!AMR": Form("amr", "AMR"),
    b"FLV\x01": Form("flv", "FLV"),
    b"wvpk": Form("wv", "WavPack"),
    b"MAC ": Form("ape", "Monkey's Audio"),
    b"TTA1": Form("tta", "True Audio"),
    b"\x0b\x77": Form("ac3", "AC-3"),
    b"OggS": Form("ogg", "Ogg", ours=True),
    b"caff": Form("caf", "CAF", ours=True),
}
_MP4 = (b"ftyp", b"moov", b"mdat", b"wide")
_VERSION = re.compile(r"ffmpeg version (\S{1,80})")
_LAST: dict[tuple[object, ...], bytes] = {}


def form_of(head: bytes) -> Form | None:
    """Return the form that ffmpeg reads by the first bytes of a file; None where it is none of them.

    >>> form_of(bytes(4) + b"ftypM4A ").demuxer, form_of(b"#EXTM3U"), form_of(b"RIFF....WAVE")
    ('mov', None, None)
    """
    if head[4:8] in _MP4:
        return Form("mov", "MP4 (M4A)")
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return Form("avi", "AVI")
    # The layer of MPEG audio is 1 to 3, and 0 in AAC without a container.
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return Form("aac", "AAC")
    return next((form for start, form in _STARTS.items() if head.startswith(start)), None)


def decoder() -> str:
    """Return the name and version of the ffmpeg that is installed; empty without one."""
    program = installed("ffmpeg")
    return _named(program, program.stat().st_mtime_ns) if program else ""


@lru_cache(maxsize=8)
def _named(program: Path, changed: int) -> str:
    try:
        ended = run_program(program, ["-hide_banner", "-version"], limits=LIMITS, most=2**20)
    except LimitError:
        return "ffmpeg"
    found = _VERSION.match(ended.output.decode("utf-8", "replace"))
    return f"ffmpeg {found[1]}" if found else "ffmpeg"


def decoded(path: Path, form: Form, where: str) -> bytes:
    """Return the first stream of sound of a file as a WAV of float32, by ffmpeg.

    Raises
    ------
    InputError
        Where there is no ffmpeg, it finds an error, or it would take more than it may.
    """
    program = installed("ffmpeg")
    if program is None:
        raise InputError(
            f"The recording is {form.words}, which only ffmpeg reads, and it is not installed.",
            where=where,
            hint="Install ffmpeg (apt install ffmpeg, conda install ffmpeg), or convert the recording elsewhere: "
            "ffmpeg -i NAME NAME.flac",
        )
    status = path.stat()
    key = (path, status.st_size, status.st_mtime_ns, form, program)
    if key not in _LAST:
        found = _decode(program, path, form, where)
        # A clip is asked for its header, and then for its samples.
        _LAST.clear()
        if len(found) > _KEPT:
            return found
        _LAST[key] = found
    return _LAST[key]


def _decode(program: Path, path: Path, form: Form, where: str) -> bytes:
    words = [
        *("-nostdin", "-hide_banner", "-v", "error", "-xerror", "-protocol_whitelist", "file", "-threads", "1"),
        # With its protocol before it, no path is read as an option or as an address.
        *("-f", form.demuxer, "-i", f"file:{path.absolute()}", "-map", "0:a:0", "-vn", "-sn", "-dn"),
        *("-map_metadata", "-1", "-threads", "1", "-flags", "bitexact", "-fflags", "bitexact"),
        *("-c:a", "pcm_f32le", "-f", "wav", "pipe:1"),
    ]
    try:
        ended = run_program(program, words, reads=[path], limits=LIMITS, most=MOST)
    except LimitError as error:
        raise InputError(
            f"ffmpeg cannot decode the {form.words} within the limits for strangers' files: {error.text}.",
            where=where,
            hint="Convert it to WAV or FLAC, and cut it into utterances.",
        ) from None
    said = [line for line in ended.said.replace(str(path.absolute()), path.name).splitlines() if line.strip()]
    if ended.status or said or not ended.output:
        why = " ".join((said or [f"status {ended.status}"])[0].split())[:200]
        raise InputError(
            f"ffmpeg cannot decode the {form.words} without errors: {why}",
            where=where,
            hint="The file is damaged, was cut off, or has no sound: fetch or export it again.",
        )
    return ended.output
