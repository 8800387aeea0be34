import subprocess
import sys
import warnings
from importlib import import_module, util
from pathlib import Path

import pytest

from probes.renamed import RENAMED, serve_old_names


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_imports_the_module_of_the_new_one_with_a_warning(old: str) -> None:
    for name in {old, *(one for one in RENAMED if old.startswith(f"{one}."))}:
        sys.modules.pop(name, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = import_module(old)
    assert f"{old} is now {RENAMED[old]}; the old name goes with release 0.3." in [str(one.message) for one in caught]
    assert found is import_module(RENAMED[old])


def test_what_a_plug_in_wrote_for_the_old_names_still_runs() -> None:
    code = (
        "from audits import registry\n"
        "from audits.context import Context, Draft, Plan\n"
        "from audits.comparison.parts import Parts, Ratio\n"
        "from probes.errors import InputError\n"
        "from probes.loading.hashing import sha256_file\n"
        "import audits.core.context, probes.core.errors\n"
        "assert Context is audits.core.context.Context and InputError is probes.core.errors.InputError\n"
    )
    subprocess.run([sys.executable, "-W", "error:x", "-c", code], check=True)
    told = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    ).stderr
    assert told.count("DeprecationWarning") == 7


def test_a_module_below_an_old_name_is_the_one_below_the_new_name() -> None:
    code = (
        "import audits.report.comparison.changes as new\n"
        "from audits.comparison.changes import Change\n"
        "assert Change is new.Change\n"
        "import audits.report.comparison\n"
        "assert audits.report.comparison.changes is new\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_another_package_of_the_same_name_keeps_its_own_modules(tmp_path: Path) -> None:
    folder = tmp_path / "audits"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "records.py").write_text("MINE = 1\n")
    code = f"import sys, probes; sys.path.insert(0, {str(tmp_path)!r}); from audits.records import MINE"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_no_module_stands_under_an_old_name_and_none_is_renamed_twice() -> None:
    serve_old_names()
    assert sum(type(finder).__name__ == "_Renamed" for finder in sys.meta_path) == 1
    assert not set(RENAMED) & set(RENAMED.values())
    assert all(util.find_spec(new) for new in RENAMED.values())
