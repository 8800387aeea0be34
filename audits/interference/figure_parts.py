"""Parts shared by the charts of the matrix: names of languages, the unit, and how many points are drawn."""

from collections.abc import Mapping

from audits.interference.matrix import Judged
from audits.interference.settings import Inputs
from audits.report.charts.matrix import Look

STATES: Mapping[str, tuple[str, Look]] = {
    "h": ("interference", "colour"),
    "s": ("synergy", "colour"),
    "i": ("indistinguishable", "hatch"),
    "u": ("untested", "hatch"),
    "x": ("not converged", "cross"),
    "m": ("not measured", "empty"),
    "d": ("", "diagonal"),
}
"""What a cell of the matrix is, in words, and how it looks, by its letter; `d` is the diagonal."""
DECIDED, OPEN = ("h", "s"), ("i", "u")
LETTERS: Mapping[str, str] = {verdict: letter for letter, (verdict, _) in STATES.items()}
UNIT = "nats per byte"
MOST_POINTS, FIRST_POINTS, MOST_LABELS = 120, 40, 4
"""Points that are all drawn with their intervals; where there are more, so many of them are; and labels."""
LONGEST = 40
"""Letters of a name that are shown."""


def is_open(judged: Judged, level: float) -> bool:
    """Tell whether a contrast is not significant, and drawn faint."""
    return LETTERS[judged.verdict(level)] in OPEN


def names_of(inputs: Inputs) -> dict[str, str]:
    """Return the tooltip name of each language: the code, or the name in a table, and its script."""
    called = {name.lower(): column for name, column in inputs.attributes.columns.items()}
    names = {}
    for code in inputs.languages:
        own, script = (called.get(key, {}).get(code, "") for key in ("name", "script"))
        more = [part[:LONGEST] for part in (own and code, script) if part]
        names[code] = f"{(own or code)[:LONGEST]} ({', '.join(more)})" if more else code
    return names
