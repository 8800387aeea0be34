"""Dear results, kept by the hash of everything that they depend on.

An entry is one safetensors file, written beside its place and renamed into it, so that a run killed at
any moment leaves either a whole entry or none. Two runs may share a cache: they write the same bytes.
The JSON files of `probes.model_results` may stand beside them; they are counted and cleared here too.
"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from probes.errors import IncompleteError
from probes.loading.hashing import sha256_json

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "MILES_CACHE"
_PART = ".part-"
_STALE = 3600.0
"""Seconds after which an unfinished entry is one that a killed run left behind."""
EXAMPLES = "demo"
"""Subfolder of the examples that demos run on."""
_MADE = re.compile(r"[a-z]+-[0-9a-f]{12}|\.part-\w+")
_ENTRY = re.compile(r"[0-9a-f]{64}\.(safetensors|json)")


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries; `kind` is a subfolder, `key` any JSON value that determines the content."""

    folder: Path

    @classmethod
    def default(cls) -> "Cache":
        """Return the user's cache: `$MILES_CACHE`, or `miles` in the cache folder of the platform."""
        import platformdirs

        return cls(Path(os.environ.get(VARIABLE) or platformdirs.user_cache_path("miles")))

    def path(self, kind: str, key: object) -> Path:
        """Return where the entry of a key stands, whether it is there or not."""
        name = sha256_json(key)
        return self.folder / kind / name[:2] / f"{name}.safetensors"

    def has(self, kind: str, key: object) -> bool:
        """Tell whether there is a whole entry."""
        return self.path(kind, key).is_file()

    def read(self, kind: str, key: object) -> "dict[str, Tensor] | None":
        """Return an entry's tensors, or None where there is none or it is damaged (then it is removed)."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.path(kind, key)
        try:
            tensors: dict[str, Tensor] = load_file(path)
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError):
            # Where it cannot be removed, the one who writes it again is told so.
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        return tensors

    def read_one(self, kind: str, key: object, label: str) -> "Tensor | None":
        """Return one tensor of an entry without reading the others, or None where it cannot be had."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path(kind, key), framework="pt") as entry:
                tensor: Tensor = entry.get_tensor(label)
        except (SafetensorError, OSError):
            return None
        return tensor

    def write(self, kind: str, key: object, tensors: "Mapping[str, Tensor]") -> None:
        """Write an entry whole or not at all.

        Raises
        ------
        IncompleteError
            Where the disk is full or the folder cannot be written.
        """
        from safetensors.torch import save_file

        path = self.path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PART)
            os.close(handle)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            save_file({label: tensor.contiguous() for label, tensor in tensors.items()}, name)
            Path(name).replace(path)
        except Exception as error:
            # safetensors reports a full disk as an error class of its own.
            Path(name).unlink(missing_ok=True)
            raise _unwritable(self.folder, error) from error
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def examples(self, name: str) -> Path:
        """Return the folder of a made example, corpus and model, that a demo runs on."""
        return self.folder / EXAMPLES / name

    @contextmanager
    def making(self, folder: Path) -> Iterator[Path]:
        """Yield an empty folder that becomes the place of an example, if nothing is raised and nobody was quicker.

        Raises
        ------
        IncompleteError
            Where the folder cannot be written.
        """
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            place = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_PART))
        except OSError as error:
            raise IncompleteError(
                f"The example cannot be written: {error}",
                where=str(folder),
                hint=f"Point {VARIABLE} at another folder.",
            ) from error
        try:
            yield place
            # Where another run was quicker, its files are the same.
            if not folder.is_dir():
                place.rename(folder)
        finally:
            shutil.rmtree(place, ignore_errors=True)

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
        kept = [*self._entries(), *self._made()]
        for entry in [*(entry for _, entry in kept), *self._leftovers()]:
            freed += _size(entry)
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        return freed

    def _made(self) -> Iterator[tuple[str, Path]]:
        yield from ((EXAMPLES, made) for made in self.folder.glob(f"{EXAMPLES}/*") if _MADE.fullmatch(made.name))

    def _entries(self) -> Iterator[tuple[str, Path]]:
        # Only names that we write: the folder may be one that the user keeps other things in.
        for file in self.folder.glob("*/??/*"):
            if _ENTRY.fullmatch(file.name):
                yield file.parts[-3], file

    def _leftovers(self) -> Iterator[Path]:
        # An entry that is being written now belongs to a run at work.
        past = time.time() - _STALE
        yield from (file for file in self.folder.glob(f"*/??/{_PART}*") if file.stat().st_mtime < past)


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else (entry,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _unwritable(folder: Path, error: Exception) -> IncompleteError:
    return IncompleteError(
        f"The cache cannot be written: {error}",
        where=str(folder),
        hint=f"Make room or point {VARIABLE} at another folder, then run the same command again: it resumes.",
    )
