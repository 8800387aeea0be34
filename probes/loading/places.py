"""Where does a path written in somebody else's file lead, and may it lead there?

A relative path must stay below its root, also through `..` and symbolic links; an absolute one is the writer's
own word and is taken as it stands.
"""

import os
from pathlib import Path

from probes.errors import InputError


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder or a link to one; a link that leads in a circle is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


class Places:
    """Paths below one root; each folder is resolved once, since that costs many calls of the system."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError("There is no such folder.", where=f"--audio-root {root}", hint="Check the path.")
        self._root = os.path.realpath(root)
        self._folders: dict[str, str] = {}

    def resolve(self, name: str, where: str) -> Path:
        """Return the absolute path of a file, which need not exist.

        Raises
        ------
        InputError
            Where a relative path leaves the root, or the name is an address on the network.
        """
        if "://" in name:
            raise InputError(
                f"{name!r} is an address, not a file.", where=where, hint="Fetch it first: nothing is downloaded here."
            )
        if os.path.normpath(name) == ".":
            raise InputError(
                f"{name!r} is a folder, not a recording.", where=where, hint="Name the file of the recording."
            )
        # Strings, not Path objects: this runs once a clip, and a corpus may have a million.
        folder, base = os.path.split(os.path.join(self._root, name))  # noqa: PTH118
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        target = f"{real.rstrip(os.sep)}{os.sep}{base}"
        if base in ("", ".", "..") or os.path.islink(target):  # noqa: PTH114
            target = os.path.realpath(target)
        inside = target.startswith(self._root.rstrip(os.sep) + os.sep)
        if not inside and not os.path.isabs(name):  # noqa: PTH117
            raise InputError(
                f"The path leads out of its folder, to {target}.",
                where=where,
                hint=f"Name with --audio-root the folder that holds all recordings (now {self._root}).",
            )
        return Path(target)
