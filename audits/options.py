"""How an audit says which options it takes: one frozen dataclass, from which the command line is built.

A field made by `option` or `argument` carries its help, and what the command line needs to know beyond
its type. Types are str, int, float, bool, Path, each of them optional, and tuples of str for options
that may be given several times or take a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from probes.errors import InputError

METADATA = "miles"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """What the command line knows of one option beyond its name, type and default.

    `listed` is for tuples: whether commas separate values; `several`: whether several may follow one flag.
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


def option(help: str, default: Any = None, **spec: Any) -> Any:
    """Declare a named option; `flag` overrides the name, `choices` limits the values."""
    return field(default=default, metadata={METADATA: OptionSpec(help=help, **spec)})


def argument(help: str, **spec: Any) -> Any:
    """Declare a positional argument, which must be given unless `required=False`."""
    said = {"required": True, **spec}
    return field(default=None, metadata={METADATA: OptionSpec(help=help, positional=True, **said)})


def specs_of(options: type) -> dict[str, OptionSpec]:
    """Return the option specs of an options dataclass by field name."""
    return {item.name: item.metadata[METADATA] for item in fields(options)}


def flag_of(name: str, spec: OptionSpec) -> str:
    """Return how the user names an option: `--by`, or the metavar of a positional argument."""
    if spec.positional:
        return spec.metavar or name.upper()
    return spec.flag or "--" + name.replace("_", "-")


def build(options: type, values: Mapping[str, Any]) -> Any:
    """Make the options record from the values given, after checking what every option promises.

    Raises
    ------
    InputError
        Where a required option is missing or a value is not one of the choices.
    """
    checked: dict[str, Any] = {}
    for item in fields(options):
        spec: OptionSpec = item.metadata[METADATA]
        value = values.get(item.name, None if item.default is MISSING else item.default)
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
        checked[item.name] = value
    return options(**checked)


def check_least(limits: Iterable[tuple[str, float | None, float]]) -> None:
    """Check that numbers are large enough, each given as its flag, its value (None: not given) and the least.

    Raises
    ------
    InputError
        Where one is smaller.
    """
    for flag, value, least in limits:
        if value is not None and value < least:
            raise InputError(f"{value} is too small.", where=flag, hint=f"Give {least:g} or more.")


def check_distinct(lists: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Check that lists of names, each given as its flag and its values, name nothing twice.

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
