"""Summaries: the matrix on top of a page, which an audit declares beside its measures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from audits.core.records import Report

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The declaration of a matrix: the estimates of one measure, by the values of a key downwards and of one across.

    Parameters
    ----------
    measure
        Name of the estimates.
    title
        Heading of the matrix.
    row, column
        Keys of `where`; without the second the matrix has one column.
    where
        Further coordinates that an estimate must have.
    chosen
        Keys whose value must be that of the option of the same name.
    remarks
        What a cell says in the place of "shown", by the id of the finding that rests on it.
    leading
        Whether a finding speaks of the first estimate of its evidence alone; else of all of them.
    crossed
        Whether rows and columns of several attributes crossed (`age&gender`) are shown too.
    words
        What is said for a value, with `{}` in its place: by its key (`layer`), or its key and value (`layer=-1`).
    detail
        Further words of a cell, given the report and the index of the estimate: such as which groups were compared.

    Examples
    --------
    >>> gaps = Summary(measure="gap", title="Gaps", row="by", column="system", where={"kind": "absolute"})
    >>> gaps.takes("gap", {"by": "age", "system": "a", "kind": "absolute"}, {}), gaps.takes("gap", {"by": "age"}, {})
    (True, False)
    """

    measure: str
    title: str
    row: str
    column: str = ""
    where: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    chosen: tuple[str, ...] = ()
    remarks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    leading: bool = True
    crossed: bool = False
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    detail: Callable[[Report, int], str] | None = None

    def said(self, key: str, text: str) -> str:
        """Return the words for a value of a row or a column, which is given as text.

        Examples
        --------
        >>> errors = Summary(measure="e", title="E", row="layer", words={"layer": "layer {}", "layer=-1": "log-mel"})
        >>> errors.said("layer", "3"), errors.said("layer", "-1"), errors.said("by", "age")
        ('layer 3', 'log-mel', 'age')
        """
        return self.words.get(f"{key}={text}", self.words.get(key, "{}")).replace("{}", text)

    def takes(self, name: str, where: Mapping[str, Value], settings: Mapping[str, object]) -> bool:
        """Tell whether an estimate belongs into the matrix."""
        return (
            name == self.measure
            and self.row in where
            and self.where.items() <= where.items()
            and all(where.get(key) == settings.get(key) for key in self.chosen)
            and (self.crossed or not any("&" in str(where.get(key, "")) for key in (self.row, self.column)))
        )
