"""Commands made from the options record of an audit: flags, help, TOML values, and one call.

Built-in audits and those of other packages take the same way, so that neither can drift from the
other. A list option takes several values after one flag (`--by gender accent`), commas, or repeats.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, cast, get_args, get_origin

import typer
from typer.core import TyperCommand

from audits.core.errors import InputError
from audits.core.option_groups import GROUPS, WORKERS
from audits.core.options import METADATA, OptionSpec, build, flag_of, specs_of
from audits.core.registry import AuditSpec
from miles_cli.options import Common, read_config
from miles_cli.plain_help import PlainCommand

MOST_SHOWN = 120
"""Letters that a refusal shows of words that are too many."""
_FILE = re.compile(r"[/\\=]|\.[A-Za-z]\w*$")

_KINDS: dict[type, tuple[str, str]] = {
    int: ("a whole number", "5"),
    float: ("a number", "0.5"),
    bool: ("true or false", "true"),
    str: ("a text", '"name"'),
    Path: ("a path in quotation marks", '"folder/file"'),
}
"""How each type of option is called, and how a value of it is written in TOML."""


def command_for(spec: AuditSpec) -> TyperCommand:
    """Return the command of an audit."""

    def carry_out(**values: Any) -> None:
        from miles_cli.audit_run import carry_out

        given = given_of(values.pop("context"), values)
        merged = merge(spec.name, spec.options, given, values)
        with explained(spec.name, spec.options, given, merged):
            options, common = built(spec, merged, given)
            status = carry_out(spec, options, common, typed=given)
        raise typer.Exit(status)

    return make_command(spec.name, spec.question, (spec.options, Common), carry_out)


def make_command(name: str, help: str, records: tuple[type, ...], run: Callable[..., None]) -> TyperCommand:
    """Return a command whose parameters are the fields of the records and that calls `run` with them."""
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    listed: list[str] = []
    for record in records:
        for item in sorted(fields(record), key=_rank):
            spec: OptionSpec = item.metadata[METADATA]
            annotation, default = _annotation(item.name, item.type, spec, item.default)
            parameters.append(
                inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )
            if _is_list(item.type) and spec.listed and spec.several:
                listed.append("--" + item.name.replace("_", "-"))
    callback = _with_signature(run, parameters)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(
        name,
        cls=_command_class(
            tuple(listed),
            sum(spec.positional and spec.required for record in records for spec in specs_of(record).values()),
        ),
        help=help,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(callback)
    return cast(TyperCommand, typer.main.get_command(app))


def _rank(item: Field[Any]) -> int:
    """Return the place of an option's panel: inherited ones come first, and these are to be read last."""
    return {GROUPS: 1, WORKERS: 2}.get(item.metadata[METADATA].panel, 0)


def given_of(context: typer.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that were given on the command line, without the defaults."""
    return {key: value for key, value in values.items() if _was_given(context, key)}


def merge(
    name: str, options: type, given: Mapping[str, Any], defaults: Mapping[str, Any], *, call: str = ""
) -> dict[str, Any]:
    """Lay what was given over the configuration file over the defaults.

    Parameters
    ----------
    call
        What gave the values, for errors, where it was not the command line, which checks types itself.

    Raises
    ------
    InputError
        Where the file cannot be read, or a value is not of the type of its option.
    """
    config = given.get("config")
    stored = read_config(Path(config), name, options) if config else {}
    merged = {**defaults, **stored, **given}
    known = {item.name: item for record in (options, Common) for item in fields(record)}
    return {
        key: _converted(known[key], value, call if key in given and call else f"{config}, key {_written(key)}")
        for key, value in merged.items()
    }


def built(spec: AuditSpec, values: Mapping[str, Any], typed: Collection[str] = ()) -> tuple[Any, Common]:
    """Return the options of an audit and those that all audits have, checked; `typed` as for `build`.

    Raises
    ------
    InputError
        Where values are out of bounds or contradict each other.
    """
    records = (spec.options, Common)
    own, common = (
        build(one, {item.name: values[item.name] for item in fields(one) if item.name in values}, typed)
        for one in records
    )
    return own, common


@contextmanager
def explained(name: str, options: type, given: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Add to an error about an option the file that sets it, and a remedy where it has none."""
    try:
        yield
    except InputError as error:
        for key, spec in {**specs_of(options), **specs_of(Common)}.items():
            flag = flag_of(key, spec)
            if error.where != flag:
                continue
            value = values.get(key)
            repeated = isinstance(value, tuple) and len(set(value)) < len(value)
            error.hint = error.hint or ("Give each value once." if repeated else f"{flag}: {spec.help}")
            config = values.get("config")
            if config and key not in given and key in read_config(config, name, options):
                error.where = f"{config}, key {_written(key)}"
        raise


def _was_given(context: typer.Context, key: str) -> bool:
    source = context.get_parameter_source(key)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _base(kind: Any) -> Any:
    if get_origin(kind) is UnionType:
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _is_list(kind: Any) -> bool:
    return get_origin(_base(kind)) is tuple


def _annotation(name: str, kind: Any, spec: OptionSpec, default: Any) -> tuple[Any, Any]:
    base = _base(kind)
    # Mostly what stands for the value names them already, with commas where several may be given.
    choices = "|".join(spec.choices)
    named = spec.metavar in (choices, ",".join(spec.choices))
    shown = f"{spec.help} ({choices})" if choices and not named else spec.help
    shown = f"{shown} ({spec.bounds})" if spec.bounds else shown
    shown = f"{shown} (required)" if spec.required else shown
    if spec.positional:
        taken = list[str] if _is_list(kind) else base
        return Annotated[taken | None, typer.Argument(metavar=spec.metavar, help=shown)], None
    flag = spec.flag or "--" + name.replace("_", "-")
    if base is bool:
        declared = f"{flag}/--no-{flag[2:]}" if default else flag
        return Annotated[bool, typer.Option(declared, help=shown, rich_help_panel=spec.panel)], default
    info = typer.Option(flag, help=shown, metavar=spec.metavar, rich_help_panel=spec.panel)
    if _is_list(kind):
        return Annotated[list[str] | None, info], list(default or ()) or None
    return Annotated[base | None, info], default


def _converted(item: Field[Any], value: Any, where: str) -> Any:
    """Return a value as the type of its option; only those of the file may be of another."""
    base = _base(item.type)
    if _is_list(item.type):
        return _as_tuple(item.metadata[METADATA], value)
    if value is None or (isinstance(value, base) and not (base is int and isinstance(value, bool))):
        return value
    try:
        if base is bool or isinstance(value, bool) or (base is int and not float(value).is_integer()):
            raise ValueError
        return base(value)
    except (TypeError, ValueError, OverflowError):
        name = _written(item.name)
        wanted, example = _KINDS[base]
        shown = example if item.default is None else _as_toml(item.default)
        raise InputError(
            f"{name} must be {wanted}, not {_shown(value)}.", where=where, hint=f"Write {name} = {shown}."
        ) from None


def _written(key: str) -> str:
    return key.replace("_", "-")


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _shown(value: Any) -> str:
    # From Python it can be anything, such as a whole table.
    text = " ".join(_as_toml(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _as_tuple(spec: OptionSpec, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    parts = list(value) if isinstance(value, list | tuple) else [value]
    if not spec.listed:
        return tuple(str(part) for part in parts)
    return tuple(piece.strip() for part in parts for piece in str(part).split(",") if piece.strip())


def _with_signature(run: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    def callback(**values: Any) -> None:
        run(**values)

    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return callback


def _command_class(listed: tuple[str, ...], positionals: int) -> type[TyperCommand]:
    class AuditCommand(PlainCommand):
        """A command whose list options take several values after one flag."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            # Words too many are refused here, where it can be said before which flag they may belong.
            ctx.allow_extra_args = True
            left = super().parse_args(ctx, spread(args, listed, positionals, _flags_without_value(self)))
            if left and not ctx.resilient_parsing:
                _refuse_words(self, left)
            return left

        def get_params(self, ctx: Any) -> list[Any]:
            *params, help = super().get_params(ctx)
            # Alone it would have a panel of its own.
            help.rich_help_panel = params[-1].rich_help_panel
            return [*params, help]

    return AuditCommand


def _refuse_words(command: Any, words: list[str]) -> None:
    """Refuse words that belong to no option and no argument; of files, with the flags that take some."""
    flags = [
        f"{item.opts[0]} {item.metavar}"
        for item in command.params
        if getattr(item, "multiple", False) and "FILE" in (item.metavar or "") and item.name != "registration"
    ]
    hint = "Join several values of one option by commas, or leave the words out; miles COMMAND -h lists the options."
    if flags and all(_FILE.search(word) for word in words):
        hint = f"Write the flag before each file, such as {' or '.join(flags)}; or leave the words out."
    shown = " ".join(words)
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
    raise InputError(
        f"Got unexpected words, which belong to no option: {shown!r}.", where=f"miles {command.name}", hint=hint
    )


def _flags_without_value(command: Any) -> frozenset[str]:
    names = [
        name
        for item in command.params
        if getattr(item, "is_flag", False)
        for name in (*item.opts, *item.secondary_opts)
    ]
    return frozenset((*names, "--help", "-h"))


def spread(args: list[str], listed: tuple[str, ...], positionals: int, flags: frozenset[str]) -> list[str]:
    """Turn `--by a b` into `--by a --by b`, leaving enough words for the positional arguments.

    Examples
    --------
    >>> spread(["model", "--by", "a", "b", "--seed", "1"], ("--by",), 1, frozenset())
    ['model', '--by', 'a', '--by', 'b', '--seed', '1']
    >>> spread(["--by", "a", "model"], ("--by",), 1, frozenset())
    ['--by', 'a', 'model']
    """
    runs: list[tuple[str, list[str]]] = []
    free = 0
    position = 0
    while position < len(args):
        word = args[position]
        position += 1
        if word == "--":
            free += len(args) - position
            runs.append(("", args[position - 1 :]))
            break
        if word in listed:
            values: list[str] = []
            while position < len(args) and not args[position].startswith("-"):
                values.append(args[position])
                position += 1
            runs.append((word, values))
        elif word.startswith("-") and word not in flags and "=" not in word and position < len(args):
            runs.append(("", [word, args[position]]))
            position += 1
        else:
            free += not word.startswith("-")
            runs.append(("", [word]))
    return _given_back(runs, positionals - free)


def _given_back(runs: list[tuple[str, list[str]]], missing: int) -> list[str]:
    words: list[str] = []
    for flag, values in reversed(runs):
        if not flag:
            words[:0] = values
            continue
        kept = max(1, len(values) - max(missing, 0))
        missing -= len(values[kept:])
        words[:0] = [*(word for value in values[:kept] for word in (flag, value)), *values[kept:]]
        if not values:
            words[:0] = [flag]
    return words
