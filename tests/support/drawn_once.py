"""Pictures of one kind of chart are drawn once: most of the time of a small run goes into drawing what nobody looks at.

Two charts are of one kind if they differ in nothing but the numbers and words of their data, so each kind of every
audit is still drawn, and refused where it cannot be. Tests that look at pictures are marked `drawn`.
"""

import json
from typing import Any

from audits.rendering import drawing

_KEPT: dict[str, tuple[str, bytes]] = {}


def kind(value: Any) -> Any:
    """Return a specification whose rows say no more than which columns they have, and of what."""
    if isinstance(value, dict):
        return {key: rows(part) if key == "values" else kind(part) for key, part in sorted(value.items())}
    return [kind(part) for part in value] if isinstance(value, list) else value


def rows(values: Any) -> Any:
    """Return the columns of data and the types in them; what is no table of rows as it stands."""
    if not isinstance(values, list) or not all(isinstance(row, dict) for row in values):
        return values
    return sorted({f"{key}: {type(cell).__name__}" for row in values for key, cell in row.items()})


def picture(spec: Any, config: Any) -> tuple[str, bytes]:
    """Return what the first chart of this kind looks like."""
    key = json.dumps([kind(spec), config], sort_keys=True)
    if key not in _KEPT:
        _KEPT[key] = drawing.picture(spec, config)
    return _KEPT[key]
