r"""Paths that were written on the other kind of system: `clips\000.wav` on Linux.

A backslash may stand in a name here, so what is there by its very name goes first. Paths that begin at a drive or at
the root of one (`C:\data`, `\data`) mean nothing here, and are left as they are; those of other machines
(`\\server\share`) would be fetched from the network on Windows, and are addresses everywhere.
"""

import os
import re
from pathlib import PureWindowsPath

_DRIVE = re.compile(r"(?:^|[\\/])[A-Za-z]:[\\/]")
MOVED = (
    "A path of Windows with its drive: write paths below the folder of the file, or name that folder (--audio-root)."
)
"""What to do about a path that `has_drive`."""


def is_of_other_machine(name: str) -> bool:
    r"""Tell whether a path names another machine, or a device, as Windows writes them.

    >>> [is_of_other_machine(name) for name in (r"\\server\share\a.wav", r"\\?\C:\a.wav", r"\a.wav", "/a.wav")]
    [True, True, False, False]
    """
    # Windows takes either slash for either.
    return name.startswith("\\\\") or (os.sep == "\\" and name.replace("/", "\\").startswith("\\\\"))


def has_drive(name: str) -> bool:
    r"""Tell whether a path, or what is below another one in it, begins at a drive of Windows.

    >>> has_drive(r"C:\data\a.wav"), has_drive("/root/D:/a.wav"), has_drive("clips/a:b.wav")
    (True, True, False)
    """
    return _DRIVE.search(name) is not None


def with_slashes(name: str) -> str:
    r"""Return a relative path with slashes in the place of backslashes, and any other as it is.

    >>> with_slashes(r".\clips\a/0.wav"), with_slashes(r"C:\data\a.wav"), with_slashes(r"\data\a.wav")
    ('./clips/a/0.wav', 'C:\\data\\a.wav', '\\data\\a.wav')
    """
    if "\\" not in name or name.startswith("\\") or PureWindowsPath(name).drive:
        return name
    return name.replace("\\", "/")


def as_written_here(name: str, folder: str) -> str:
    """Return a path with slashes, which every system takes; unchanged where a file here has that very name."""
    if "\\" not in name or (os.sep == "/" and os.path.lexists(os.path.join(folder, name))):  # noqa: PTH118
        return name
    return with_slashes(name)
