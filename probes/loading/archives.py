"""Is a file a zip in the eyes of torch, and which sizes do its entries have?"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

_START = b"PK\x03\x04"


def is_archive(path: Path) -> bool:
    """Tell whether torch takes a file for a zip: by its beginning, whatever stands at its end."""
    with path.open("rb") as file:
        return file.read(4) == _START


def sizes_of(entries: Sequence[zipfile.ZipInfo]) -> dict[str, int] | None:
    """Return the bytes of each entry by its name in lower case; None where two entries share one.

    The reader of torch finds its entries whatever the case of their letters.
    """
    sizes = {entry.filename.lower(): entry.file_size for entry in entries}
    return sizes if len(sizes) == len(entries) else None
