"""Does every error that a user meets say how to mend it, and where? Read off the calls that make the errors."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for package in ("probes", "audits", "miles_cli") for path in (ROOT / package).rglob("*.py"))
PANELS = {"MilesError", "InputError", "IncompleteError"}
# Here the option or the file is known; an engine may know no more than its argument.
KNOWS_WHERE = ("audits/", "miles_cli/")


def lacking(path: str, source: str) -> Iterator[str]:
    """Yield file, line and what is missing for each error without a mend or, where it is known, without a place."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in PANELS:
            continue
        given = {
            part.arg for part in node.keywords if not (isinstance(part.value, ast.Constant) and not part.value.value)
        }
        # What **name brings cannot be read here.
        if None in given:
            continue
        # A run may end unfinished, out of memory say, for no one file or option.
        place = path.startswith(KNOWS_WHERE) and ast.unparse(node.func).endswith("InputError")
        missing = sorted(({"hint", "where"} if place else {"hint"}) - given)
        if missing:
            yield f"{path}:{node.lineno} has no {' and no '.join(missing)}"


def test_errors_without_a_mend_or_a_place_are_found() -> None:
    bare = "def f():\n    raise InputError('Bad.')\n"
    assert list(lacking("audits/a.py", bare)) == ["audits/a.py:2 has no hint and no where"]
    assert list(lacking("probes/a.py", bare)) == ["probes/a.py:2 has no hint"]
    assert list(lacking("audits/a.py", "e = errors.InputError('Bad.', hint='Mend it.', where='')"))
    assert list(lacking("miles_cli/a.py", "IncompleteError('Lost.', where='--workers')"))
    assert not list(lacking("probes/a.py", "InputError('Bad.', hint='Mend it.')"))
    assert not list(lacking("audits/a.py", "InputError('Bad.', hint=hint, where=where)\nInputError(said, **told)"))


def test_every_error_tells_the_mend_and_the_place() -> None:
    found = [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in FILES]
    # Moved packages must not pass as packages without errors.
    assert sum("InputError(" in source for _, source in found) > 50
    assert [line for path, source in found for line in lacking(path, source)] == []
