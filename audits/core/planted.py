"""What a demo plants, and whether the report of its run shows it: the last lines of `miles demo`.

A demo says so in `planted(report, balanced=...)`, beside `prepare`. It reads the report and nothing else: where a
plant was missed, it says that.
"""

from dataclasses import dataclass

from audits.core.records import Coordinate, Estimate, Finding, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One thing that a demo planted, and what the report says of it.

    Parameters
    ----------
    what
        What was planted, as a sentence.
    found
        Whether the report shows an effect there.
    seen
        What it shows, with its number, as a sentence.
    real
        Whether there is an effect to be found; False for a control, such as a coin toss.

    Examples
    --------
    >>> coin = Planted(what="A coin, which means nothing.", found=False, seen="No gap is shown.", real=False)
    >>> coin.as_planted, coin.verdict
    (True, 'nothing, as it should be')
    """

    what: str
    found: bool
    seen: str
    real: bool = True

    @property
    def as_planted(self) -> bool:
        """Whether the report says what is true of the example."""
        return self.found == self.real

    @property
    def verdict(self) -> str:
        """The answer to "was it found?" in words."""
        if self.real:
            return "yes" if self.found else "no"
        return "something that is not there" if self.found else "nothing, as it should be"


def findings_of(report: Report, id: str, /, **where: Coordinate) -> list[Finding]:
    """Return the findings of an id at these coordinates, in the order of the report."""
    return [found for found in report.findings if found.id == id and where.items() <= found.where.items()]


def rows(report: Report, name: str, /, **where: Coordinate) -> list[Estimate]:
    """Return the estimates of a name that have these coordinates."""
    return [row for row in report.estimates if row.name == name and where.items() <= row.where.items()]


def row(report: Report, name: str, /, **where: Coordinate) -> Estimate | None:
    """Return the estimate of a name at these coordinates and no others; None where there is none."""
    return next((row for row in rows(report, name, **where) if row.where == where), None)


def first_headline(findings: list[Finding], otherwise: str) -> str:
    """Return the headline of the first finding, or what is said where there is none."""
    return findings[0].title if findings else otherwise
