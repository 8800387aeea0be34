"""Reader of the sealed list that `miles canaries` writes: which random texts were put into the training data."""

from dataclasses import dataclass
from pathlib import Path

from audits.membership.canary_making import COLUMNS, LIST, SEAL
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.files.tables import Table, read_table
from probes.files.text import read_text

_NEEDED = COLUMNS[:3]
_FLAGS = {"1": True, "0": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A canary, and whether its coin put it into the training data."""

    id: str
    text: str
    included: bool


@dataclass(frozen=True, slots=True)
class SealedList:
    """A list of canaries; `sha256` is that of the file, which may have been published before training."""

    path: Path
    sha256: str
    rows: tuple[SealedRow, ...]


def read_sealed_list(path: Path) -> SealedList:
    """Read a list of canaries: a table with the columns `id`, `text` and `included`.

    Raises
    ------
    InputError
        Where the file is no such list, or an id, a text or a flag is missing, wrong or repeated.
    """
    table = read_table(path)
    for name in _NEEDED:
        if name not in table.columns:
            hint = f"{table.suggest(name)} Give {LIST} of `miles canaries`.".strip()
            raise InputError(f"There is no column {name!r}.", where=str(path), hint=hint)
    table.check_flat(_NEEDED)
    rows: list[SealedRow] = []
    seen: dict[str, set[str]] = {"id": set(), "text": set()}
    for line, row in _cells(table):
        for name, before in seen.items():
            if row[name] in before:
                raise InputError(
                    f"The {name} {row[name][:80]!r} stands twice.",
                    where=f"{path}:{line}",
                    hint="Give the list as it was written.",
                )
            before.add(row[name])
        rows.append(SealedRow(row["id"], row["text"], _flag(row["included"], f"{path}:{line}")))
    sha256 = sha256_file(path)
    _check_commitment(path, sha256)
    return SealedList(path, sha256, tuple(rows))


def _check_commitment(path: Path, sha256: str) -> None:
    """Refuse a list beside a commitment that names it with another hash: a coin may have been turned since."""
    beside = path.with_name(SEAL)
    if not beside.is_file():
        return
    for line in read_text(beside, largest=2**16).splitlines():
        digest, _, name = line.partition("  ")
        if name.strip() == path.name and digest.strip().lower() != sha256:
            raise InputError(
                f"This is not the list that was sealed: its SHA-256 is {sha256[:12]}..., and not {digest[:12]}...",
                where=f"{path}, {beside.name}",
                hint="Give the list as it was written when its hash was published.",
            )


def _cells(table: Table) -> list[tuple[int, dict[str, str]]]:
    found = []
    for row in table.rows:
        cells = {name: (row.values.get(name) or "").strip() for name in _NEEDED}
        empty = next((name for name, cell in cells.items() if not cell), None)
        if empty is not None:
            raise InputError(
                f"The cell of {empty!r} is empty.", where=f"{table.path}:{row.line}", hint="Give the list as written."
            )
        found.append((row.line, cells))
    return found


def _flag(cell: str, where: str) -> bool:
    if cell.lower() not in _FLAGS:
        raise InputError(f"included is {cell[:40]!r}, neither 1 nor 0.", where=where, hint="Give the list as written.")
    return _FLAGS[cell.lower()]
