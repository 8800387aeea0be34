"""The value map as a source in the report, so that a changed map is detected."""

from pathlib import Path

from audits.core.records import Source
from probes.core.hashing import sha256_json
from probes.files.levels import read_value_map


def value_map_sources(path: Path | None) -> tuple[Source, ...]:
    """Return the value map as a source of the audit; empty where there is none.

    Raises
    ------
    InputError
        Where the file is no value map.
    """
    if path is None:
        return ()
    found = read_value_map(path)
    pairs = sum(map(len, found.values()))
    # Hash the rows, not the bytes: a CSV and a TOML file with the same rows are one map.
    return (Source(role="value map", path=str(path), sha256=sha256_json(found), items=pairs),)
