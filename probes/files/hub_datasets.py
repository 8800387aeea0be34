"""Data sets of the Hugging Face hub at a revision: `hf://datasets/OWNER/NAME@REVISION/SPLIT-or-FILE`.

The spelling is the hub's own (HfFileSystem). A revision is a commit, a branch or a tag, and has to be named: "the
newest" is another data set tomorrow; what a branch stands for is recorded as its commit. Files come from the hub's
cache; what is not there is fetched by huggingface_hub, unless HF_HUB_OFFLINE is set. Only files of data are fetched,
and no code is run.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from probes.core.errors import InputError
from probes.files.gzips import plain_suffix
from probes.files.safe_paths import check_link
from probes.files.saved_datasets import files_below, is_saved, parts_of_folder
from probes.files.shards import SUFFIXES, choose, splits_of

SCHEME = "hf://"
HINT = f"Write {SCHEME}datasets/OWNER/NAME@REVISION/SPLIT, such as {SCHEME}datasets/rajpurkar/squad@main/validation."
_NAME = r"[A-Za-z0-9_][\w.-]{0,95}"
_REVISION = r"refs/convert/[\w.-]+|refs/pr/\d+|[^/@:]+"
_ID = rf"{_NAME}(?:/{_NAME})?"
_FORM = re.compile(rf"hf:/{{1,2}}datasets/(?P<id>{_ID})(?:@(?P<at>{_REVISION})(?:/(?P<rest>.*))?)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_TEXT = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt"})
_DEFAULT = "main"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Address:
    """A data set of the hub, its revision, and the split or file that is meant; "" for all of it."""

    id: str
    revision: str
    rest: str

    def written(self, revision: str = "") -> str:
        """Return it as it is written, at another revision where one is given."""
        rest = f"/{self.rest}" if self.rest else ""
        return f"{SCHEME}datasets/{self.id}@{revision or self.revision}{rest}"


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of an address on this disk, and the commit that its revision stands for."""

    address: Address
    commit: str
    folder: Path
    files: tuple[Path, ...]


def is_address(text: str) -> bool:
    """Tell whether a name is that of a place on the hub; a path loses one of two slashes.

    >>> is_address("hf://datasets/a/b@main"), is_address("hf:/datasets/a/b@main"), is_address("a.csv")
    (True, True, False)
    """
    return text.startswith("hf:/")


def parse_address(text: str) -> Address:
    """Return the parts of an address.

    Raises
    ------
    InputError
        Where it is none, or names no revision.

    >>> parse_address("hf://datasets/a/b@refs/convert/parquet/default/train")
    Address(id='a/b', revision='refs/convert/parquet', rest='default/train')
    """
    found = _FORM.fullmatch(text.rstrip("/"))
    text = re.sub("^hf:/+", SCHEME, text)
    if found is None or ".." in text:
        raise InputError("This is no data set of the hub.", where=text[:200], hint=HINT)
    if found["at"] is None:
        hint = f"Write {SCHEME}datasets/{found['id']}@{_DEFAULT}/SPLIT; the commit that it stands for is recorded."
        raise InputError("No revision is named.", where=text, hint=hint)
    return Address(found["id"], found["at"], (found["rest"] or "").strip("/"))


def find_files(text: str) -> HubFiles:
    """Return the files of an address, from the hub's cache or from the hub; the same throughout a run.

    Raises
    ------
    InputError
        Where it is none, its files are not in the cache and cannot be fetched, or it is not said which split is meant.
    """
    from huggingface_hub import constants

    return _found(text, str(constants.HF_HUB_CACHE), _offline())


@lru_cache(maxsize=256)
def _found(text: str, cache: str, offline: bool) -> HubFiles:
    address = parse_address(text)
    held = _held(address, cache)
    # A commit never changes; of a branch only the hub knows what it stands for.
    if held is not None and (offline or _COMMIT.fullmatch(address.revision)):
        try:
            return _of_folder(address, held)
        except InputError:
            if offline:
                raise
    if offline:
        message = f"{address.id} is not in the hub's cache at {address.revision}, and HF_HUB_OFFLINE is set."
        raise InputError(message, where=address.written(), hint=_how(address))
    try:
        return _of_folder(address, _fetched(address, cache))
    except InputError as error:
        if held is not None:
            error.hint = f"{error.hint} The cache holds this revision as it once was: HF_HUB_OFFLINE=1 takes that."
        raise


def _offline() -> bool:
    from huggingface_hub import constants

    # The library takes it when it is imported.
    return bool(constants.HF_HUB_OFFLINE) or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _how(address: Address) -> str:
    return (
        f"Where the network is, run: hf download {address.id} --repo-type dataset --revision {address.revision}; "
        "HF_HOME or HF_HUB_CACHE names the cache."
    )


def _held(address: Address, cache: str) -> Path | None:
    """Return the folder of a revision in the cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        found = snapshot_download(
            address.id, repo_type="dataset", revision=address.revision, cache_dir=cache, local_files_only=True
        )
    except (OSError, ValueError, HFValidationError):
        return None
    # What a branch stands for is read from a file, which could hold a path that leads anywhere.
    return Path(found) if _COMMIT.fullmatch(Path(found).name) and ".." not in Path(found).parts else None


def _of_folder(address: Address, folder: Path) -> HubFiles:
    """Return the files of an address in the folder of its commit."""
    there = files_below(folder)
    names = _chosen(address, there, folder)
    if names is None:
        parts = parts_of_folder(folder, address.rest) if is_saved(folder) else parts_of_folder(folder / address.rest)
    else:
        parts = tuple(folder / name for name in names)
    for part in parts:
        check_link(part, folder)
        if not part.is_file():
            message = f"{part.relative_to(folder)} is a link to nothing in the hub's cache."
            raise InputError(message, where=address.written(), hint=_how(address))
    return HubFiles(address, folder.name, folder, parts)


def _chosen(address: Address, there: list[str], folder: Path | None = None) -> list[str] | None:
    """Return the names of the files that are meant; None where a folder holds what `save_to_disk` wrote."""
    if address.rest in there:
        return [address.rest]
    if folder is not None and (is_saved(folder) or is_saved(folder / address.rest)):
        return None
    splits = splits_of(there)
    below = {name: files for name, files in splits.items() if name.startswith(f"{address.rest}/")}
    where = f"{SCHEME}datasets/{address.id}@{address.revision}"
    if not splits or (address.rest and Path(address.rest).suffix and address.rest not in splits):
        tables = [name for name in there if plain_suffix(Path(name)) in _TEXT | SUFFIXES]
        missing = f"There is no {address.rest!r}" if address.rest else "There is no Parquet file"
        shown = f"There are: {', '.join(tables[:8])}. " if tables else ""
        raise InputError(
            f"{missing} among its files{' in the hub cache' if folder else ''}.",
            where=address.written(),
            hint=shown + _how(address),
        )
    if address.rest and address.rest not in splits and len(below) == 1:
        (files,) = below.values()
        return files
    return choose(below if len(below) > 1 else splits, "" if len(below) > 1 else address.rest, where, "/")


def _fetched(address: Address, cache: str) -> Path:
    """Fetch the files of an address, and return the folder of its commit in the cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    info = _asked(address, lambda: HfApi().dataset_info(address.id, revision=address.revision, timeout=20))
    commit, there = str(info.sha), [file.rfilename for file in info.siblings or ()]
    if not _COMMIT.fullmatch(commit):
        raise InputError("The hub names no commit of it.", where=address.written(), hint=_how(address))
    # Names are patterns to it.
    patterns = [name.replace("[", "[[]") for name in _chosen(address, there) or ()]
    fetch = _asked(
        address,
        lambda: snapshot_download(
            address.id, repo_type="dataset", revision=commit, cache_dir=cache, allow_patterns=patterns, etag_timeout=5
        ),
    )
    return Path(fetch)


def _asked(address: Address, call: Callable[[], _Value]) -> _Value:
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    # Which library speaks HTTP differs between versions of the hub's; its errors are above this one.
    http = tuple(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))
    try:
        return call()
    except (OSError, ValueError, HFValidationError, *http) as error:
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise InputError(
            f"The hub gave no data set: {reason[:300]}",
            where=address.written(),
            hint=f"Check the name. {_how(address)}",
        ) from None
