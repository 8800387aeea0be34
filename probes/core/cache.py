"""A cache of expensive results, each under the hash of everything that it depends on.

An entry is one safetensors file, written under a temporary name and renamed, so that a run killed at
any moment leaves either a whole entry or none. Two runs may share a cache: they write the same bytes. Each entry
carries hashes of its tensors, so that one which was damaged or is stored under another key is computed again. Who can
write the folder can make hashes too: it is trusted, so it has to be its user's own.
The JSON files of `probes.language_models.model_results`, and the manifests of parts of a run, may stand beside them;
they are counted and cleared here too.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probes.core.errors import IncompleteError, InputError
from probes.core.hashing import sha256_json
from probes.core.systems import REMOVES_OPEN_FILES

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
VARIABLE = "MILES_CACHE"
_PART = ".part-"
_STALE = 3600.0
"""Seconds after which an unfinished entry is one that a killed run left behind."""
EXAMPLES = "demo"
"""Subfolder of the examples that demos run on."""
_MADE = re.compile(r"[a-z]+-[0-9a-f]{12}|\.part-\w+")
FRAMES = "frames"
"""Subfolder of the tables that were handed over in memory, from Python."""
_FRAME = re.compile(r"[A-Za-z0-9-]{1,60}-[0-9a-f]{16}\.csv")
_HASHES = "sha256"
_OPENING = f'{{"__metadata__":{{"{_HASHES}":'.encode()
"""How the header of an entry begins, behind its length."""
_ENTRY = re.compile(r"[0-9a-f]{64}(\.\d{1,7}-of-\d{1,7})?\.(safetensors|json)")


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries; `kind` is a subfolder, `key` any JSON value that determines the content."""

    folder: Path

    @classmethod
    def default(cls) -> "Cache":
        """Return the user's cache: `$MILES_CACHE`, or `miles` in the cache folder of the platform.

        Raises
        ------
        InputError
            Where others may write into it: they could decide what a report says.
        """
        import platformdirs

        named = os.environ.get(VARIABLE)
        folder = Path(named or platformdirs.user_cache_path("miles"))
        _check_owner(folder, shared=bool(named))
        return cls(folder)

    def path(self, kind: str, key: object) -> Path:
        """Return the path of the entry of a key, whether it exists or not."""
        name = sha256_json(key)
        return self.folder / kind / name[:2] / f"{name}.safetensors"

    def has(self, kind: str, key: object) -> bool:
        """Tell whether there is a file that looks like a whole entry; only `read` checks all of it."""
        path = self.path(kind, key)
        try:
            if not _is_file(path):
                return False
            with path.open("rb") as file:
                return file.read(8 + len(_OPENING))[8:] == _OPENING
        except OSError:
            return False

    def read(self, kind: str, key: object) -> "dict[str, Tensor] | None":
        """Return an entry's tensors, or None where there is none; a damaged entry is removed."""
        return self._read(kind, key, "pt")

    def read_arrays(self, kind: str, key: object) -> dict[str, Array] | None:
        """Return an entry as arrays, without torch; otherwise as `read`."""
        return self._read(kind, key, "numpy")

    def _read(self, kind: str, key: object, framework: str) -> dict[str, Any] | None:
        from safetensors import SafetensorError, safe_open

        path = self.path(kind, key)
        try:
            if not _is_file(path):
                raise ValueError("no ordinary file")
            with safe_open(path, framework=framework) as entry:
                tensors: dict[str, Any] = {label: entry.get_tensor(label) for label in entry.keys()}  # noqa: SIM118
                if _hashes(path, tensors) != _written_hashes(entry):
                    raise ValueError("not what was written")
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError, ValueError, RecursionError):
            # If it cannot be removed, writing it again will fail and say so.
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        return tensors

    def read_one(self, kind: str, key: object, label: str) -> "Tensor | None":
        """Return one tensor of an entry without reading the others, or None where it cannot be read."""
        from safetensors import SafetensorError, safe_open

        path = self.path(kind, key)
        try:
            if not _is_file(path):
                return None
            with safe_open(path, framework="pt") as entry:
                tensor: Tensor = entry.get_tensor(label)
                written = _written_hashes(entry)
        except (SafetensorError, OSError, ValueError, RecursionError):
            return None
        return tensor if written.get(label) == _hash(path, sorted(written), label, tensor) else None

    def write(self, kind: str, key: object, tensors: "Mapping[str, Tensor] | Mapping[str, Array]") -> None:
        """Write an entry atomically; of equal tensors and arrays the bytes are the same.

        Raises
        ------
        IncompleteError
            Where the disk is full or the folder cannot be written.
        """
        path = self.path(kind, key)
        try:
            _make_private(self.folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PART)
            os.close(handle)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            # A single key, since safetensors writes several in any order.
            _save(tensors, name, {_HASHES: json.dumps(_hashes(path, tensors), sort_keys=True)})
            self._put(Path(name), path, kind, key)
        except Exception as error:
            # safetensors reports a full disk as an error class of its own.
            Path(name).unlink(missing_ok=True)
            raise _unwritable(self.folder, error) from error
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _put(self, made: Path, path: Path, kind: str, key: object) -> None:
        """Move a whole entry to its place."""
        try:
            made.replace(path)
        except PermissionError:
            # On Windows an entry that somebody has open stays, and has these bytes.
            if REMOVES_OPEN_FILES or not self.has(kind, key):
                raise
            made.unlink()

    def discard(self, kind: str, key: object) -> None:
        """Remove an entry that is needed no more; what cannot be removed stays."""
        with suppress(OSError):
            self.path(kind, key).unlink(missing_ok=True)

    def memo(self, kind: str, key: object, compute: "Callable[[], dict[str, Tensor]]") -> "dict[str, Tensor]":
        """Return an entry, or compute and write it where there is none.

        Raises
        ------
        IncompleteError
            As of `write`.
        """
        entry = self.read(kind, key)
        if entry is None:
            entry = compute()
            self.write(kind, key, entry)
        return entry

    def memo_arrays(self, kind: str, key: object, compute: Callable[[], dict[str, Array]]) -> dict[str, Array]:
        """Return an entry as arrays, or compute and write it where there is none; torch is not needed.

        Raises
        ------
        IncompleteError
            As of `write`.
        """
        entry = self.read_arrays(kind, key)
        if entry is None:
            entry = compute()
            self.write(kind, key, entry)
        return entry

    def make(self) -> None:
        """Make the folder, for its owner alone; one that is there is left as it is.

        Raises
        ------
        IncompleteError
            Where it cannot be made.
        """
        try:
            _make_private(self.folder)
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    def examples(self, name: str) -> Path:
        """Return the folder of a made example, corpus and model, that a demo runs on."""
        return self.folder / EXAMPLES / name

    @contextmanager
    def making(self, folder: Path) -> Iterator[Path]:
        """Yield an empty folder that is renamed to `folder` if nothing is raised and no other run was quicker.

        Raises
        ------
        IncompleteError
            Where the folder cannot be written.
        """
        try:
            _make_private(self.folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_PART))
        except OSError as error:
            raise IncompleteError(
                f"The example cannot be written: {error}",
                where=str(folder),
                hint=f"Point {VARIABLE} at another folder.",
            ) from error
        try:
            yield made
            # Where another run was quicker, its files are the same.
            if not folder.is_dir():
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def usage(self) -> dict[str, tuple[int, int]]:
        """Return entries and bytes of each kind."""
        found: dict[str, tuple[int, int]] = {}
        for kind, entry in [*self._entries(), *self._made()]:
            count, size = found.get(kind, (0, 0))
            found[kind] = (count + 1, size + _size(entry))
        return dict(sorted(found.items()))

    def clear(self) -> int:
        """Remove every entry, what killed runs left of some, and no other file; return the bytes freed."""
        freed = 0
        found = [*self._entries(), *self._made()]
        for entry in [*(entry for _, entry in found), *self._leftovers()]:
            freed += _size(entry)
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        return freed

    def frame_path(self, name: str, digest: str) -> Path:
        """Return the path of a table that was handed over in memory, in a folder of the user alone, which is made."""
        folder = self.folder / FRAMES
        _make_private(folder)
        stem = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[:60]
        return folder / f"{stem or 'table'}-{digest[:16]}.csv"

    def _made(self) -> Iterator[tuple[str, Path]]:
        yield from ((EXAMPLES, made) for made in self.folder.glob(f"{EXAMPLES}/*") if _MADE.fullmatch(made.name))
        yield from ((FRAMES, kept) for kept in self.folder.glob(f"{FRAMES}/*.csv") if _FRAME.fullmatch(kept.name))

    def _entries(self) -> Iterator[tuple[str, Path]]:
        # Only names that we write: the folder may be one that the user keeps other things in.
        for file in self.folder.glob("*/??/*"):
            if _ENTRY.fullmatch(file.name):
                yield file.parts[-3], file

    def _leftovers(self) -> Iterator[Path]:
        # An entry that is being written now belongs to a run at work.
        past = time.time() - _STALE
        yield from (file for file in self.folder.glob(f"*/??/{_PART}*") if file.stat().st_mtime < past)


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _check_owner(folder: Path, *, shared: bool) -> None:
    """Refuse a cache that others may write; one that the user named may be `shared` with some, but not with all."""
    try:
        held = folder.stat()
    except OSError:
        # The folder does not exist yet; or it cannot be reached, and writing will say why.
        return
    if not hasattr(os, "getuid"):
        # On Windows the rights of a folder are not in its mode, which lets everybody write; those of its place hold.
        return
    own = held.st_uid in (os.getuid(), 0)
    mode = stat.S_IMODE(held.st_mode)
    if mode & stat.S_IWOTH:
        why = "everybody on this machine may write it"
    elif not shared and not own:
        why = "it belongs to another user"
    elif not shared and mode & stat.S_IWGRP and not _close(folder):
        why = "its group may write it"
    else:
        return
    raise InputError(
        f"The cache cannot be trusted: {why}, and what stands there is believed.",
        where=str(folder),
        hint=f"Run chmod go-w {folder}, or name another folder in {VARIABLE}: there a group may share one on purpose.",
    )


def _close(folder: Path) -> bool:
    """Take the rights of others from a folder, and tell whether its group can no longer write to it.

    Earlier versions made it by the umask, which on many machines lets a group of one user write.
    """
    with suppress(OSError):
        folder.chmod(0o700)
        return not folder.stat().st_mode & stat.S_IWGRP
    return False


def _is_file(path: Path) -> bool:
    """Tell whether a path is an ordinary file itself: a link may lead to what another wrote, a pipe has no end."""
    return stat.S_ISREG(path.lstat().st_mode)


def _hashes(path: Path, tensors: "Mapping[str, Tensor] | Mapping[str, Array]") -> dict[str, str]:
    labels = sorted(tensors)
    return {label: _hash(path, labels, label, tensors[label]) for label in labels}


def _hash(path: Path, labels: Sequence[str], label: str, tensor: "Tensor | Array") -> str:
    """Return the hash of a tensor or array, of its name, and of the entry that holds it."""
    kind, data = _bytes(tensor)
    about = json.dumps([path.stem, path.parts[-3], *labels, label, kind, list(tensor.shape)])
    digest = hashlib.sha256(about.encode())
    digest.update(data)
    return digest.hexdigest()


def _bytes(tensor: "Tensor | Array") -> tuple[str, memoryview]:
    """Return the kind of the numbers, as torch names it, and their bytes in a row."""
    if isinstance(tensor, np.ndarray):
        return f"torch.{tensor.dtype}", np.asarray(tensor, order="C").reshape(-1).view(np.uint8).data
    import torch

    return str(tensor.dtype), _in_a_row(tensor.detach().cpu()).view(torch.uint8).numpy().data


def _save(tensors: "Mapping[str, Tensor] | Mapping[str, Array]", name: str, about: dict[str, str]) -> None:
    arrays = {label: np.asarray(one, order="C") for label, one in tensors.items() if isinstance(one, np.ndarray)}
    if len(arrays) == len(tensors):
        from safetensors.numpy import save_file

        save_file(arrays, name, about)
    else:
        from safetensors.torch import save_file as save_tensors

        whole: Any = tensors
        save_tensors({label: tensor.contiguous() for label, tensor in whole.items()}, name, about)


def _in_a_row(tensor: "Tensor") -> "Tensor":
    """Return the numbers of a tensor contiguously, also of a single number, whose stride may be anything."""
    flat = tensor.reshape(-1)
    return flat if flat.stride(0) == 1 else flat.new_empty(flat.shape).copy_(flat)


def _written_hashes(entry: Any) -> dict[str, str]:
    found = json.loads((entry.metadata() or {}).get(_HASHES, "{}"))
    if not isinstance(found, dict):
        raise ValueError("no hashes")
    return found


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else (entry,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _unwritable(folder: Path, error: Exception) -> IncompleteError:
    return IncompleteError(
        f"The cache cannot be written: {error}",
        where=str(folder),
        hint=f"Make room or point {VARIABLE} at another folder, then run the same command again: it resumes.",
    )
