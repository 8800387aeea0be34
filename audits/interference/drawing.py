"""What do all charts of the matrix have in common? The results, what languages are called, and the unit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Draft
from audits.interference.estimating import Entry
from audits.interference.heat_map import OPEN, VERDICTS
from audits.records import Estimate, Figure, Json

if TYPE_CHECKING:
    from audits.interference.report import Results

LETTERS: Mapping[str, str] = {verdict: letter for letter, verdict in VERDICTS.items()}
UNIT = "nats per byte"
MOST_POINTS, FIRST_POINTS, MOST_LABELS = 120, 40, 4
"""Points that are all drawn with their intervals; where there are more, so many of them are; and labels."""
LONGEST = 40
"""Letters of a name that are told."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What all figures are drawn from; `names` is what a language is called when pointed at."""

    draft: Draft
    results: "Results"
    names: Mapping[str, str]

    @property
    def level(self) -> float:
        """Confidence level of all intervals."""
        return self.results.matrix.level

    def at(self, place: int) -> Estimate:
        """Return an estimate by its place in the report."""
        return self.draft.estimates[place]

    def open(self, entry: Entry) -> bool:
        """Tell whether a contrast cannot be told from 0."""
        return LETTERS[entry.judged.verdict(self.level)] in OPEN


def names_of(results: "Results") -> dict[str, str]:
    """Return the code, or the name where a table gives one, and the script."""
    columns = results.inputs.attributes.columns
    called = {name.lower(): column for name, column in columns.items()}
    names = {}
    for code in results.inputs.languages:
        own, script = (called.get(key, {}).get(code, "") for key in ("name", "script"))
        told = [part[:LONGEST] for part in (own and code, script) if part]
        names[code] = f"{(own or code)[:LONGEST]} ({', '.join(told)})" if told else code
    return names


def figure_of(name: str, title: str, caption: str, spec: Json) -> Figure:
    """Return a figure whose file has its name."""
    return Figure(id=name, title=title, caption=caption, file=name, spec=spec)


def value_of(entry: Entry) -> float:
    """Return the number of a contrast."""
    return entry.judged.crossed.value


def ends_of(key: str, row: Estimate) -> Json:
    """Return a number with its interval as a chart of points takes them."""
    return {key: row.value, f"{key}_low": row.low, f"{key}_high": row.high}
