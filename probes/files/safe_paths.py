"""Resolve the paths in untrusted files and folders, so that none leads out of its folder.

A relative path must stay below its root, also through `..` and symbolic links; an absolute one is the
writer's choice and is taken as it is. What a folder itself holds may not be a link out of it. Backslashes of Windows
separate folders as slashes do, unless a file has that very name.
"""

import os
from pathlib import Path

from probes.core.errors import InputError
from probes.files.foreign_paths import as_written_here, is_of_other_machine, with_slashes


class OutsideError(InputError):
    """A relative path leads out of its folder."""


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder or a link to one; a link that leads in a circle is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


_NOT_FOLLOWED = "Links out of a corpus are not followed: put what it leads to in its place, if it belongs there."


def check_link(path: Path, folder: Path, *, hint: str = _NOT_FOLLOWED) -> None:
    """Refuse a path in a folder that leads out of it by a link; the target is not opened.

    The hub's cache, which links from snapshots/<revision> to its own blobs, is one folder.

    Raises
    ------
    InputError
        Where the path, or a folder on the way to it, is such a link; the message names it and its target.
    """
    root, target = os.path.realpath(folder), os.path.realpath(path)
    if f"{target}{os.sep}".startswith(root.rstrip(os.sep) + os.sep):
        return
    if os.path.dirname(target) in _blobs(root):  # noqa: PTH120
        return
    # Name the first link on the way: it is the one to repair.
    links = [step for step in (path, *path.parents) if step.is_symlink() and folder in step.parents]
    link = links[-1] if links else path
    raise InputError(
        f"The link leads out of its folder, to {os.path.realpath(link)}.",
        where=str(link),
        hint=hint,
    )


def _blobs(root: str) -> frozenset[str]:
    """Return the folders of blobs that a folder in the hub's cache links to; empty for any other folder."""
    homes = (Path(root), *Path(root).parents)
    return frozenset(str(home.parent / "blobs") for home in homes if home.name == "snapshots")


def is_name_of_file(name: str) -> bool:
    """Tell whether a name may be that of a file, and not a URL, a path of another machine, or a folder."""
    return not _is_address(name) and os.path.normpath(with_slashes(name)) != "."


def _is_address(name: str) -> bool:
    return "://" in name or is_of_other_machine(name)


def check_name(name: str, where: str) -> None:
    """Refuse a name for which `is_name_of_file` is false.

    Raises
    ------
    InputError
        Where it is an address, or a folder.
    """
    if _is_address(name):
        raise InputError(
            f"{name!r} is an address, not a file.", where=where, hint="Fetch it first: nothing is downloaded here."
        )
    if not is_name_of_file(name):
        raise InputError(f"{name!r} is a folder, not a recording.", where=where, hint="Name the file of the recording.")


class RootedPaths:
    """Paths below one root; each folder is resolved once, since that costs many calls of the system."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError("There is no such folder.", where=f"--audio-root {root}", hint="Check the path.")
        self._root = os.path.realpath(root)
        self._blobs = _blobs(self._root)
        self._folders: dict[str, str] = {}

    def written_here(self, name: str) -> str:
        """Return a path as this system writes it."""
        return as_written_here(name, self._root)

    def resolve(self, name: str, where: str) -> Path:
        """Return the absolute path of a file, which need not exist.

        Raises
        ------
        InputError
            Where a relative path leaves the root, or the name is an address on the network.
        """
        check_name(name, where)
        name = as_written_here(name, self._root)
        # Strings, not Path objects: this runs once a clip, and a corpus may have a million.
        folder, base = os.path.split(os.path.join(self._root, name))  # noqa: PTH118
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder)
        target = f"{real.rstrip(os.sep)}{os.sep}{base}"
        if base in ("", ".", "..") or os.path.islink(target):  # noqa: PTH114
            target = os.path.realpath(target)
        inside = target.startswith(self._root.rstrip(os.sep) + os.sep)
        inside = inside or (bool(self._blobs) and os.path.dirname(target) in self._blobs)  # noqa: PTH120
        if not inside and not os.path.isabs(name):  # noqa: PTH117
            raise OutsideError(
                f"The path leads out of its folder, to {target}.",
                where=where,
                hint=f"Name with --audio-root the folder that holds all recordings (now {self._root}).",
            )
        return Path(target)
