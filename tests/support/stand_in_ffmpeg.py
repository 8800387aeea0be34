"""A stand-in of ffmpeg for tests, and recordings for it: what it decodes is what follows their first 64 bytes."""

from pathlib import Path

HEAD = b"\0\0\0\x40ftypM4A ".ljust(64, b"\0")
"""How an M4A begins."""
DECODING = 'tail -c +65 "$path"'
_PROGRAM = """#!/bin/sh
case "$*" in *-version*) echo "ffmpeg version {version} Copyright"; exit 0;; esac
for word in "$@"; do case "$word" in file:*) path="${{word#file:}}";; esac; done
{code}
"""


def stand_in(folder: Path, code: str = DECODING, version: str = "9.9") -> Path:
    """Write the program into a folder, which is made where it is not there, and return the program."""
    folder.mkdir(exist_ok=True)
    program = folder / "ffmpeg"
    program.write_text(_PROGRAM.format(code=code, version=version), encoding="ascii")
    program.chmod(0o755)
    return program


def as_m4a(recording: Path, target: Path) -> Path:
    """Write a recording as the stand-in decodes it."""
    target.write_bytes(HEAD + recording.read_bytes())
    return target
