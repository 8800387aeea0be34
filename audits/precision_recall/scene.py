"""What is judged, where do its numbers stand, and which differences are shown?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from audits.context import Draft
from audits.precision_recall.estimating import At, Found
from audits.precision_recall.inputs import CEILING, REFERENCE, RELABELLED
from audits.records import Estimate

if TYPE_CHECKING:
    from audits.precision_recall.report import Results

GROUPED = 0.01
"""Share of points whose balls jump in width in halves of a draw, from which no difference is told."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is judged, and where its numbers stand."""

    draft: Draft
    results: "Results"
    alpha: float

    @property
    def found(self) -> Found:
        """Return the places of the estimates."""
        return self.results.found

    @property
    def k(self) -> int:
        """Return the k that leads."""
        return self.results.inputs.settings.k[0]

    @property
    def benchmark(self) -> str:
        """Return what shortfalls are from: the ceiling, or relabelled texts where there is none."""
        return CEILING if self.results.inputs.control else RELABELLED

    @property
    def names(self) -> tuple[str, ...]:
        """Return the candidates in their order."""
        return tuple(one.name for one in self.results.inputs.candidates)

    @property
    def grouped(self) -> frozenset[str]:
        """Return the sets whose texts stand in groups hardly larger than k, of which no difference is told."""
        shares = {name: one.grouped[self.k] for name, one in self.results.measured.main.items()}
        found = {name for name, (_, own) in shares.items() if own > GROUPED}
        return frozenset(found | ({REFERENCE} if any(theirs > GROUPED for theirs, _ in shares.values()) else set()))

    def at(self, metric: str, name: str, against: str = "") -> Estimate | None:
        """Return an estimate at the leading k, if there is one."""
        place = self.place(metric, name, against)
        return None if place is None else self.draft.estimates[place]

    def place(self, metric: str, name: str, against: str = "") -> int | None:
        """Return where an estimate stands."""
        k = 0 if metric in ("duplicates", "copied", "self_bleu") else self.k
        return self.found.places.get(At(metric, name, k, against))

    def shown(self, metric: str, name: str, against: str) -> int:
        """Return 1 or -1 where a difference is shown to be above or below nothing, after correction, else 0."""
        row = self.at(metric, name, against)
        if row is None or row.low is None or row.high is None or {name, against, REFERENCE} & self.grouped:
            return 0
        if self.found.adjusted[At(metric, name, self.k, against)] >= self.alpha:
            return 0
        return 1 if row.low > 0 else -1 if row.high < 0 else 0

    def of_one_source(self, metric: str, name: str) -> int | None:
        """Return where it stands what a candidate would score if all texts were of one source."""
        return self.found.places.get(At(metric, RELABELLED, self.k, name))

    def would_be(self, metric: str, name: str) -> float:
        """Return what a score would be without its difference to the benchmark."""
        place = self.of_one_source(metric, name)
        row = self.at(metric, CEILING) if self.benchmark == CEILING else None
        row = self.draft.estimates[place] if row is None and place is not None else row
        return 0.0 if row is None else row.value

    def apart(self, metric: str, first: str, second: str) -> int:
        """Return 1 or -1 where the first candidate's score is shown to be above or below the second's, else 0."""
        if self.place(metric, first, second) is not None:
            return self.shown(metric, first, second)
        return -self.shown(metric, second, first)
