"""Coordinates that have another name in the other run, such as a system that was renamed."""

from collections.abc import Iterable, Mapping, Sequence

from audits.core.records import Report
from probes.core.errors import InputError
from probes.files.names import suggest

NAMED = ("system", "candidate", "model", "target")
"""Coordinates whose values the user named, and may have named otherwise in a later run."""
FURTHER = (
    "group",
    "against",
    "reference",
    "by",
    "attribute",
    "level",
    "lang",
    "with",
    "source",
    "label",
    "layer",
    "tap",
    "task",
    "scorer",
    "filter",
)
"""Coordinates whose values come from the data, the model or another harness, and may have other names in other data."""
OPTION = "--match"

Renames = Mapping[str, str]
"""Old names by the new ones."""


def parse_matches(texts: Sequence[str], before: Report, later: Sequence[Report]) -> dict[str, str]:
    """Read options such as `old=new`; a name may hold `=` itself, as groups do.

    Raises
    ------
    InputError
        Where it names no value of the first run and of a later one, could be read in two ways, or names one twice.
    """
    old, new = _names([before]), _names(later)
    found: dict[str, str] = {}
    for text in texts:
        positions = [position for position, letter in enumerate(text) if letter == "="]
        splits = [(text[:position].strip(), text[position + 1 :].strip()) for position in positions]
        splits = [pair for pair in splits if pair[0] != pair[1]]
        if not splits:
            raise InputError(f"{text!r} is not OLD=NEW.", where=OPTION, hint="Such as --match asr-v1=asr-v2")
        fitting = [pair for pair in splits if pair[0] in old and pair[1] in new]
        if not fitting:
            known = [pair for pair in splits if pair[0] in old]
            run, name, names = ("a later", known[0][1], new) if known else ("the first", splits[0][0], old)
            turned = next((pair for pair in splits if pair[0] in new and pair[1] in old), None)
            raise InputError(
                f"No estimate of {run} run is of a {', '.join(NAMED)}, attribute, language, layer, class, task "
                f"or group named {name!r}.",
                where=OPTION,
                hint=f"{OPTION} {turned[1]}={turned[0]}" if turned else suggest(name, sorted(names)),
            )
        if len(fitting) > 1:
            raise InputError(f"{text!r} can be read in two ways.", where=OPTION, hint="Rename one of them in a run.")
        ((before_name, after_name),) = fitting
        # Runs may name one thing each in their own way, but none may hold two things that become one.
        twins = {after_name, *(name for name, old_name in found.items() if old_name == before_name)}
        if after_name in found or any(len(twins & _names([run])) > 1 for run in later):
            raise InputError(
                f"{text!r} names a value that is matched already.", where=OPTION, hint="Match each once in a run."
            )
        found[after_name] = before_name
    return found


def _names(reports: Iterable[Report]) -> set[str]:
    """Return the coordinates that users named; metrics, kinds and the like are our names, the same in every run.

    Of crossed groups and attributes the parts are names too, and so is the attribute of a group.
    """
    rows = (row for report in reports for row in report.estimates)
    values = {
        value
        for row in rows
        for key, value in row.where.items()
        if isinstance(value, str) and key in (*NAMED, *FURTHER)
    }
    parts = {part for value in values for part in value.split("&")}
    return values | parts | {part.partition("=")[0] for part in parts}


def translated(value: str, renames: Renames) -> str:
    """Return a value under its old name: as a whole, or of a crossed group or attribute part by part.

    >>> translated("accent=american&sex=f", {"accent=american": "accent=us", "sex": "gender"})
    'accent=us&gender=f'
    """
    if value in renames or not renames:
        return renames.get(value, value)
    parts = []
    for part in value.split("&"):
        attribute, equals, level = part.partition("=")
        parts.append(renames.get(part, f"{renames.get(attribute, attribute)}{equals}{level}"))
    # Attributes of a group stand in alphabetical order.
    found = "&".join(sorted(parts))
    return found if parts != value.split("&") else value


def other_names(before: Report, after: Report, renames: Renames) -> list[tuple[str, list[str], list[str]]]:
    """Return the user-named coordinates with values in each run that the other lacks, and these values."""
    found = []
    for key in NAMED:
        first = {str(row.where[key]) for row in before.estimates if key in row.where}
        second = {str(row.where[key]) for row in after.estimates if key in row.where}
        translated = {renames.get(name, name) for name in second}
        gone, come = sorted(first - translated), sorted(name for name in second if renames.get(name, name) not in first)
        if gone and come:
            found.append((key, gone, come))
    return found
