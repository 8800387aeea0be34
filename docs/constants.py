"""Write constants of the code into the pages: the number before `<!--= audits.spectra.LEAST -->` is that constant.

A format may follow a colon: `%` for percent (without its sign), `e` for powers of ten, or one of Python's.

>>> stamped("at least 99<!--= audits.spectra.LEAST --> points, 1<!--= audits.spectra.findings.ROUNDING:e --> apart")
'at least 3<!--= audits.spectra.LEAST --> points, 1e-5<!--= audits.spectra.findings.ROUNDING:e --> apart'
"""

import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
STAMP = re.compile(rf"{_NUMBER}(?P<mark><!--= (?P<name>[\w.]+)(?:\[(?P<index>-?\d+)\])?(?::(?P<form>\S+))? -->)")
"""A number and the mark behind it."""


def stamped(text: str) -> str:
    """Return a page with the number before each mark made anew.

    Raises
    ------
    AttributeError
        Where there is no such constant.
    """
    return STAMP.sub(lambda found: _shown(found) + found["mark"], text)


def written(value: Any, form: str | None) -> str:
    """Return a number as the pages write it.

    >>> written(1000, None), written(0.05, "%"), written(1e-7, "e"), written(0.2, ".2f")
    ('1,000', '5', '1e-7', '0.20')
    """
    if form == "%":
        return f"{100 * value:g}"
    if form == "e":
        return re.sub(r"e([+-])0*", lambda found: "e" + found[1].replace("+", ""), f"{value:.0e}")
    return format(value, form or ("," if isinstance(value, int) else "g"))


def _shown(found: re.Match[str]) -> str:
    value = constant(found["name"])
    return written(value if found["index"] is None else value[int(found["index"])], found["form"])


def constant(name: str) -> Any:
    """Return the constant of a module, or the default of a field of its options, by the dotted name."""
    parts = name.split(".")
    length = next(length for length in range(len(parts) - 1, 0, -1) if _is_module(".".join(parts[:length])))
    value: Any = import_module(".".join(parts[:length]))
    for part in parts[length:]:
        defaults = {field.name: field.default for field in fields(value)} if is_dataclass(value) else {}
        value = defaults[part] if part in defaults else getattr(value, part)
    return value


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def write(*, check: bool = False) -> list[Path]:
    """Write all pages anew, or with `check` none; return those that differ."""
    found = []
    for page in sorted(PAGES.rglob("*.md")):
        old = page.read_text(encoding="utf-8")
        if (new := stamped(old)) != old:
            found.append(page)
            if not check:
                page.write_text(new, encoding="utf-8")
    return found
