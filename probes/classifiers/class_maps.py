"""Maps from folders of images to the outputs of a classifier, read from a file.

Data by WordNet ids (n01440764) hold no indices, and a subset of the folders no order either. The usual files do:
`imagenet_class_index.json`, `LOC_synset_mapping.txt`, a list of ids a line each, or a table folder,index.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.json_values import parse_json
from probes.files.tables import Table, read_table
from probes.files.text import read_text

FLAG = "--class-map"
WORDNET = re.compile(r"n\d{8}", re.ASCII)
"""An id of WordNet, as folders of ImageNet are named."""
STANDARD = 1000
"""Folders of ImageNet's usual classes: sorted by id they are in the order of the outputs."""
MOST_CLASSES, _LARGEST, _BYTES = 100_000, 2**20, 2**24
_HINT = (
    'Known are JSON ({"0": ["n01440764", "tench"]} or {"n01440764": 0}), a list of ids, one a line with or without its '
    "name behind it, and CSV with the columns folder and index."
)
_FOLDERS, _INDICES = ("folder", "synset", "wnid", "id"), ("index", "label", "class", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMap:
    """The output of each folder, and names of outputs where the file has any."""

    path: Path
    sha256: str
    indices: Mapping[str, int]
    names: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.indices)

    def labels(self, folders: Iterable[str], where: str) -> dict[str, int]:
        """Return the output of each folder.

        Raises
        ------
        InputError
            Where the file lacks some.
        """
        named = sorted(set(folders))
        lacking = [name for name in named if name not in self.indices]
        if lacking:
            shown = ", ".join(lacking[:8]) + (", ..." if len(lacking) > 8 else "")
            raise InputError(
                f"{len(lacking)} of {len(named)} class folders are not in {self.path.name}: {shown}.",
                where=f"{where}, {FLAG} {self.path}",
                hint="Add them to the file, with their outputs, or take them out of the folder.",
            )
        return {name: self.indices[name] for name in named}

    def no_output(self, output: int, outputs: int) -> InputError:
        """Return the refusal of an output that the classifier does not have, with the folders that stand for it."""
        folders = sorted(name for name, index in self.indices.items() if index == output)
        named = f"folder{'s' * (len(folders) > 1)} {', '.join(folders[:3])}"
        return InputError(
            f"The file gives the {named} the output {output}; the classifier has {outputs}, 0 to {outputs - 1}.",
            where=f"{FLAG} {self.path}",
            hint="Mend the number, counted from 0, or give the file that belongs to this classifier.",
        )

    def named(self, indices: Iterable[int], folders: Mapping[str, int]) -> tuple[str, ...]:
        """Return a name for each output up to the largest: that of the file, else of its folder, or its number."""
        own = {index: name for name, index in folders.items()}
        return tuple(self.names.get(index) or own.get(index, str(index)) for index in range(max(indices) + 1))


def read_class_map(path: Path) -> ClassMap:
    """Read which output each folder stands for.

    Raises
    ------
    InputError
        Where the file is none of the known forms, or contradicts itself; line or key are named.
    """
    if path.suffix.lower() in (".csv", ".tsv"):
        found = _from_table(read_table(path, most_rows=MOST_CLASSES))
    else:
        text = read_text(path, hint=_HINT, largest=_BYTES)
        found = _from_json(text, str(path)) if text.lstrip()[:1] in ("{", "[") else _from_lines(text, str(path))
    if not found:
        raise InputError("The file names no class.", where=str(path), hint=_HINT)
    indices: dict[str, int] = {}
    names: dict[int, str] = {}
    for folder, index, name, where in found:
        if indices.setdefault(folder, index) != index:
            hint = "Keep the one that is right."
            raise InputError(f"{folder[:60]!r} has the outputs {indices[folder]} and {index}.", where=where, hint=hint)
        if name:
            names.setdefault(index, name)
    return ClassMap(path=path, sha256=sha256_file(path), indices=indices, names=names)


Entry = tuple[str, int, str, str]
"""Folder, output, name or "", and where it stands."""


def _from_table(table: Table) -> list[Entry]:
    columns = [next((name for name in known if name in table.columns), "") for known in (_FOLDERS, _INDICES)]
    if "" in columns:
        missing = "folder" if not columns[0] else "index"
        raise InputError(f"The table has no column {missing}.", where=str(table.path), hint=_HINT)
    table.check_flat(columns)
    found = []
    for row in table.rows:
        where = f"{table.path}:{row.line}"
        folder, index = ((row.values.get(column) or "").strip() for column in columns)
        found.append((_folder(folder, where), _index(index, where), (row.values.get("name") or "").strip(), where))
    return found


def _from_json(text: str, where: str) -> list[Entry]:
    content = parse_json(text, where, once=True)
    if isinstance(content, list):
        content = {str(index): one for index, one in enumerate(content)}
    if not isinstance(content, dict) or len(content) > MOST_CLASSES:
        raise InputError("The file is no object of classes.", where=where, hint=_HINT)
    found: list[Entry] = []
    for key, value in content.items():
        spot = f"{where}, key {key[:40]}"
        parts = value if isinstance(value, list) else [value]
        if not parts or not all(type(part) in (str, int) for part in parts) or len(parts) > 2:
            raise InputError(f"{str(value)[:60]!r} is no class.", where=spot, hint=_HINT)
        if type(parts[0]) is int:
            found.append((_folder(key, spot), _index(str(parts[0]), spot), "", spot))
        else:
            name = str(parts[1]) if len(parts) == 2 else ""
            found.append((_folder(str(parts[0]), spot), _index(key, spot), name, spot))
    return found


def _from_lines(text: str, where: str) -> list[Entry]:
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    filled = [(number, line) for number, line in lines if line]
    if len(filled) > MOST_CLASSES:
        raise InputError(f"The file names more than {MOST_CLASSES} classes.", where=where, hint=_HINT)
    # Names of folders may hold spaces; ids of WordNet do not.
    split = all(WORDNET.fullmatch(line.split(maxsplit=1)[0]) for _, line in filled)
    found = []
    for index, (number, line) in enumerate(filled):
        spot = f"{where}:{number}"
        folder, name = ([*line.split(maxsplit=1), ""][:2]) if split else (line, "")
        found.append((_folder(folder, spot), index, name.partition(",")[0].strip(), spot))
    return found


def _folder(text: str, where: str) -> str:
    if not text or not text.isprintable() or len(text) > 255:
        raise InputError(f"{text[:60]!r} is no name of a folder.", where=where, hint=_HINT)
    return text


def _index(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _LARGEST:
        raise InputError(f"{text[:60]!r} is no number of an output.", where=where, hint="Outputs count from 0.")
    return int(text)


def standard_order(folders: Sequence[str]) -> bool:
    """Tell whether folders are the thousand of ImageNet, whose sorted order is that of the outputs, by their names.

    >>> standard_order([f"n{number:08d}" for number in range(1000)]), standard_order(["n01440764", "n01443537"])
    (True, False)
    """
    return len(folders) == STANDARD and all(WORDNET.fullmatch(name) for name in folders)
