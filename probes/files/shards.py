"""Splits of a data set and their files, by the names that the hub and `datasets` give them.

`data/train-00000-of-00002.parquet`, `plain_text/test-00000-of-00001.parquet`, `default/train/0000.parquet` (as the hub
converts them), `train.parquet`, and `part-00000-of-....parquet` as clusters write them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from probes.core.errors import InputError
from probes.files.arrow import ARROW, PARQUET

SUFFIXES = PARQUET | ARROW
_OF = re.compile(r"(?P<split>.+?)-(?P<number>\d{5})-of-(?P<total>\d{5})(?:-[0-9a-f]{8,40})?", re.ASCII)
_NUMBERED = re.compile(r"(?:part-)?\d+(?:-.*)?", re.ASCII)
_FOLDER = "data"


def splits_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of Parquet and Arrow files by their split, in order; other files are left out.

    A split of a configuration is called by both, and that of files without a name for it by "".

    >>> splits_of(["data/train-00001-of-00002.parquet", "README.md", "data/train-00000-of-00002.parquet"])
    {'train': ['data/train-00000-of-00002.parquet', 'data/train-00001-of-00002.parquet']}
    >>> splits_of(["en/test.parquet", "de/train/0000.parquet"])
    {'de/train': ['de/train/0000.parquet'], 'en/test': ['en/test.parquet']}
    """
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        path = PurePosixPath(name)
        # `.cache`, `_temporary`, `._name`: what tools keep for themselves.
        if path.suffix.lower() in SUFFIXES and not any(part.startswith((".", "_")) for part in path.parts):
            found[_split(path)].append(name)
    return dict(found)


def _split(path: PurePosixPath) -> str:
    folders = [part for part in path.parts[:-1] if part != _FOLDER]
    part = _OF.fullmatch(path.stem)
    stem = part["split"] if part else path.stem
    # `data-00000-of-00002.arrow` is what `save_to_disk` writes.
    unnamed = stem in ("part", "data") if part else bool(_NUMBERED.fullmatch(stem))
    named = [] if unnamed else [stem]
    return "/".join([*folders, *named])


def check_whole(names: Iterable[str], where: str) -> None:
    """Refuse parts that say how many there are, where one is lacking or there are two sets of them.

    Raises
    ------
    InputError
        Where parts are lacking.
    """
    found = [match for name in names if (match := _OF.fullmatch(PurePosixPath(name).stem))]
    totals = sorted({int(match["total"]) for match in found})
    numbers = [int(match["number"]) for match in found]
    if len(totals) > 1 or len(set(numbers)) < len(numbers):
        message = f"There are parts of several sets: {', '.join(match[0] for match in found[:6])}."
        raise InputError(message, where=where, hint="Keep those of one set.")
    if totals and len(numbers) < totals[0]:
        lacking = next(number for number in range(totals[0]) if number not in numbers)
        message = f"There are {len(numbers)} of {totals[0]} parts: {lacking:05}-of-{totals[0]:05} is lacking."
        raise InputError(message, where=where, hint="Fetch the other parts too.")


def choose(splits: Mapping[str, list[str]], split: str, where: str, mark: str) -> list[str]:
    """Return the files of a split; without a name, of the only one.

    Parameters
    ----------
    where, mark
        How the data set is named, and what stands between that and the split.

    Raises
    ------
    InputError
        Where there are several or none of the name; the splits are listed.
    """
    if split in splits:
        files = splits[split]
    elif not split and len(splits) == 1:
        (files,) = splits.values()
    else:
        raise no_split(list(splits), split, where, mark)
    check_whole(files, f"{where}{mark}{split}" if split else where)
    return files


def no_split(there: list[str], split: str, where: str, mark: str) -> InputError:
    """Return the refusal of a data set whose split is not named, or not there; the splits are listed."""
    shown = ", ".join(there[:12]) + f" and {len(there) - 12} more" * (len(there) > 12)
    message = f"There is no split {split!r}; there are: {shown}." if split else f"There are several splits: {shown}."
    first = "train" if "train" in there else there[0]
    return InputError(message, where=where, hint=f"Name one of them, such as {where}{mark}{first}.")
