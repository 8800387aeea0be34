"""Old names of modules that the documentation once named: they still import, with a warning, for one release.

A module found under its old name is the very one that lies under the new name, so that `isinstance` holds across both.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

RENAMED = {
    "audits.charts": "audits.report.charts",
    "audits.comparison": "audits.report.comparison",
    "audits.comparison.parts": "audits.report.comparison.parts",
    "audits.context": "audits.core.context",
    "audits.intervals": "audits.core.intervals",
    "audits.measures": "audits.core.measures",
    "audits.option_groups": "audits.core.option_groups",
    "audits.options": "audits.core.options",
    "audits.records": "audits.core.records",
    "audits.registry": "audits.core.registry",
    "audits.report_file": "audits.report.report_file",
    "audits.testing": "audits.core.testing",
    "probes.classifier_networks": "probes.classifiers.classifier_networks",
    "probes.errors": "probes.core.errors",
    "probes.loading": "probes.core",
    "probes.loading.hashing": "probes.core.hashing",
}
"""New names of modules by the old ones; the table and this file go with release 0.3."""

OURS = tuple(Path(__file__).resolve().parents[1] / name for name in ("audits", "probes"))
"""Where the packages lie: another package that is called like one of them has names of its own."""


def new_name(old: str) -> str:
    """Return the new name of a module, by that of the package it lay in where it is not listed itself; or nothing.

    >>> new_name("audits.comparison.changes"), new_name("audits.core.context")
    ('audits.report.comparison.changes', '')
    """
    above = old
    while above and above not in RENAMED:
        above = above.rpartition(".")[0]
    return RENAMED[above] + old[len(above) :] if above else ""


class _Renamed(MetaPathFinder, Loader):
    """Finds modules by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how an old name of this package is imported, or None for any other."""
        # Names come first: paths of every import of the process would take longer than all the rest of this.
        if not new_name(fullname):
            return None
        ours = any(Path(folder).is_relative_to(one) for folder in path or () for one in OURS)
        return ModuleSpec(fullname, self) if ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave the making of the empty module to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of the old one, and warn."""
        old, new = module.__name__, new_name(module.__name__)
        warnings.warn(f"{old} is now {new}; the old name goes with release 0.3.", DeprecationWarning, stacklevel=2)
        # The import system hands out what stands here in the end.
        sys.modules[old] = import_module(new)


def serve_old_names() -> None:
    """Let old names be imported too; a second call changes nothing."""
    if not any(isinstance(finder, _Renamed) for finder in sys.meta_path):
        # First: a package under an old name has the path of the new one, by which its modules would load a second time.
        sys.meta_path.insert(0, _Renamed())
