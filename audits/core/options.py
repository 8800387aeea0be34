"""The options of an audit: one frozen dataclass, from which the command line is built.

A field made by `option` or `argument` carries its help, and what the command line needs to know beyond
its type. Types are str, int, float, bool, Path, each of them optional, and tuples of str for options
that may be given several times or take a list.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from probes.core.errors import InputError

METADATA = "miles"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """Specification of one option beyond its name, type and default.

    Parameters
    ----------
    listed, several
        For tuples: whether commas separate values, and whether several may follow one flag.
    least, most, above, under
        Bounds of a number; the first two are allowed themselves.
    only_with, not_with
        Names of options without which, or beside which, this one has no meaning.
    later
        Older versions do not know it. At its default it does not count in the fingerprint of a run, so that theirs,
        whose reports have no such setting, are still found finished, or resumed.
    """

    help: str
    positional: bool = False
    required: bool = False
    flag: str | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    listed: bool = True
    several: bool = True
    least: float | None = None
    most: float | None = None
    above: float | None = None
    under: float | None = None
    only_with: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()
    later: bool = False

    @property
    def bounds(self) -> str:
        """Bounds in words, for help; empty where there are none.

        Examples
        --------
        >>> OptionSpec(help="", least=1).bounds, OptionSpec(help="", above=0, under=1).bounds
        ('1 or more', 'above 0 and below 1')
        """
        if self.least is not None and self.most is not None:
            return f"{_short(self.least)} to {_short(self.most)}"
        ends = [
            words.format(_short(end))
            for end, words in (
                (self.least, "{} or more"),
                (self.above, "above {}"),
                (self.most, "{} or less" if self.least is None and self.above is None else "at most {}"),
                (self.under, "below {}"),
            )
            if end is not None
        ]
        return " and ".join(ends)

    def allows(self, value: float) -> bool:
        """Tell whether a number is finite and lies within the bounds."""
        return (
            -math.inf < value < math.inf
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.under is None or value < self.under)
        )


def _short(number: float) -> str:
    if number == 2**63 - 1:
        return "2^63 - 1"
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def option(help: str, default: Any = None, **spec: Any) -> Any:
    """Declare a named option; `flag` overrides the name, `choices`, `least` and `most` limit the values."""
    return field(default=default, metadata={METADATA: OptionSpec(help=help, **spec)})


def argument(help: str, **spec: Any) -> Any:
    """Declare a positional argument, which must be given unless `required=False`."""
    settings = {"required": True, **spec}
    return field(default=None, metadata={METADATA: OptionSpec(help=help, positional=True, **settings)})


def specs_of(options: type) -> dict[str, OptionSpec]:
    """Return the option specs of an options dataclass by field name."""
    return {item.name: item.metadata[METADATA] for item in fields(options)}


def later_defaults(options: type) -> dict[str, Any]:
    """Return the defaults, as a report holds them, of the options that older versions do not know."""
    specs = specs_of(options)
    return {item.name: as_json(item.default) for item in fields(options) if specs[item.name].later}


def as_json(value: Any) -> Any:
    """Return a value of an option as a report holds it.

    >>> as_json(Path("a.csv")), as_json(Path("hf://datasets/a/b@main"))
    ('a.csv', 'hf://datasets/a/b@main')
    """
    if isinstance(value, Path):
        # A path keeps one slash of an address on the hub.
        text = value.as_posix()
        return text.replace("hf:/", "hf://", 1) if text.startswith("hf:/datasets/") else text
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {item.name: as_json(getattr(value, item.name)) for item in fields(value)}
    return value


def check_names(options: type) -> None:
    """Check that every option that a spec names exists.

    Raises
    ------
    ValueError
        Where `only_with` or `not_with` names no option of the record.
    """
    specs = specs_of(options)
    for name, spec in specs.items():
        unknown = {*spec.only_with, *spec.not_with} - specs.keys()
        if unknown:
            raise ValueError(f"the option {name} names {', '.join(sorted(unknown))}, which is no option")


def flag_of(name: str, spec: OptionSpec) -> str:
    """Return the name of an option on the command line: `--by`, or the metavar of a positional argument."""
    if spec.positional:
        return spec.metavar or name.upper()
    return spec.flag or "--" + name.replace("_", "-")


def build(options: type, values: Mapping[str, Any], typed: Collection[str] = ()) -> Any:
    """Build the options record from the values, after checking them against the specs.

    Parameters
    ----------
    typed
        The options that stand on the command line, some perhaps at their defaults. A call from Python has none: it may
        repeat all settings of a report.

    Raises
    ------
    InputError
        Where a required option is missing, a value is not one of the choices or out of bounds, or an option is given
        that has no meaning without or beside another.
    """
    defaults = {item.name: None if item.default is MISSING else item.default for item in fields(options)}
    record = options(**{name: values.get(name, default) for name, default in defaults.items()})
    check_record(record, typed)
    return record


def check_record(record: Any, typed: Collection[str] = ()) -> None:
    """Check every value of an options record against its spec, however the record was made; `typed` as for `build`.

    Raises
    ------
    InputError
        As `build` does.
    """
    for item in fields(record):
        spec: OptionSpec = item.metadata[METADATA]
        value = getattr(record, item.name)
        flag = flag_of(item.name, spec)
        if spec.required and value in (None, ()):
            raise InputError(f"{flag} is missing.", where=flag, hint=f"{flag}: {spec.help}")
        if value == () and item.default:
            raise InputError(f"{flag} is empty.", where=flag, hint="Leave it out for its default.")
        for one in value if isinstance(value, tuple) else (value,):
            if spec.choices and one is not None and one not in spec.choices:
                raise InputError(
                    f"{one!r} is not a choice of {flag}.",
                    where=flag,
                    hint=f"Choose from {', '.join(spec.choices)}.",
                )
            if isinstance(one, int | float) and not spec.allows(one):
                _refuse(flag, one, spec)
    _check_company(record, typed)


def _refuse(flag: str, value: float, spec: OptionSpec) -> None:
    ends = (-math.inf if spec.least is None else spec.least, spec.above)
    small = any(end is not None and not value >= end for end in ends) or value in (spec.above, -math.inf)
    bounds = spec.bounds if spec.bounds[:1].isdigit() or spec.bounds[:1] == "-" else f"a number {spec.bounds}".rstrip()
    raise InputError(f"{value} is too {'small' if small else 'large'}.", where=flag, hint=f"Give {bounds}.")


def _check_company(record: Any, typed: Collection[str]) -> None:
    """Refuse an option that lacks another it needs, or stands beside one it excludes.

    What was typed at its default counts too: it would be ignored as well. 0 and false ask for nothing.
    """
    specs = specs_of(type(record))
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    there = {
        item.name
        for item in fields(record)
        if values[item.name] not in (None, (), item.default) or (item.name in typed and values[item.name])
    }
    for name in sorted(there):
        flag = flag_of(name, specs[name])
        needed, shunned = specs[name].only_with, [other for other in specs[name].not_with if other in there]
        if needed and not there & set(needed):
            others = " or ".join(flag_of(other, specs[other]) for other in needed)
            hint = f"Give {others} too, or leave it out."
            if "allow_code" in needed:
                hint = f"Give {others} too, where you trust what it names: its code will be run. Or leave it out."
            raise InputError(f"{flag} is only for {others}.", where=flag, hint=hint)
        if shunned:
            other = flag_of(shunned[0], specs[shunned[0]])
            raise InputError(f"{flag} and {other} exclude each other.", where=flag, hint="Leave one of them out.")


def check_distinct(lists: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Check that no name occurs twice in lists of names, each given as its flag and its values.

    Raises
    ------
    InputError
        Where one does.
    """
    for flag, values in lists:
        if len(set(values)) < len(values):
            raise InputError(f"{', '.join(values)} names one thing twice.", where=flag, hint="Name each thing once.")


def numbers(flag: str, texts: tuple[str, ...], *, example: str = "0.5,0.5,0.5") -> tuple[float, ...]:
    """Return the values of a list option as numbers.

    Raises
    ------
    InputError
        Where one cannot be read.

    Examples
    --------
    >>> numbers("--std", ("0.5", "1"))
    (0.5, 1.0)
    """
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise InputError(
            f"{','.join(texts)!r} cannot be read as numbers.", where=flag, hint=f"Such as {flag} {example}"
        ) from None
