"""Do the layers keep apart, and does the code keep the promises that one can read off its syntax?"""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("probes", "audits", "miles_cli")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
STANDARD = set(sys.stdlib_module_names)
LIGHT = (
    "audits/__init__.py",
    *(
        f"audits/core/{stem}.py"
        for stem in (
            *(
                "records",
                "plain_values",
                "registration",
                "registry",
                "options",
                "errors",
                "measures",
                "intervals",
                "summary",
            ),
            "missing_packages",
        )
    ),
)
# What may not even be looked at by a layer, wherever in its code.
FORBIDDEN = {
    "probes": {"audits", "miles_cli", "typer", "click", "rich"},
    "audits": {"miles_cli", "typer", "click"},
    "miles_cli": {"probes"},
}
PLAIN_PARTS = {"core", "group_rates", "report", "statistics"}
"""Packages below audits that are no audits: every audit may import them."""


@lru_cache(maxsize=1)
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree; of one tree several rules ask for them in a row."""
    return tuple(ast.walk(tree))


def modules(tree: ast.AST) -> Iterator[str]:
    """Yield the names of all modules that a tree imports, also inside functions and as text of a registry."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


def at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, but not those for type checkers only."""
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from node.orelse
        else:
            yield node


def source(node: ast.AST) -> str:
    """Return what `ast.unparse` does, sooner for dotted names, which most are."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{source(node.value)}.{node.attr}"
    return ast.unparse(node)


def calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            yield source(node.func), node.lineno


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def layer_breaches(path: str, tree: ast.AST) -> list[str]:
    package = path.split("/")[0]
    return [module for module in modules(tree) if module.split(".")[0] in FORBIDDEN[package]]


def cross_imports(path: str, tree: ast.AST) -> list[str]:
    """Return imports of one audit by another part of audits."""
    parts = path.split("/")
    own = parts[1] if len(parts) > 2 and parts[0] == "audits" else ""
    folders = {item.name for item in (ROOT / "audits").iterdir() if (item / "__init__.py").is_file()} - PLAIN_PARTS
    found = []
    for module in modules(tree):
        below = module.split(".")
        if below[0] == "audits" and len(below) > 1 and below[1] in folders - {own}:
            found.append(module)
    return found


def noise(tree: ast.AST) -> list[str]:
    """Return calls that write to the terminal."""
    streams = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")
    found = [
        f"{called} on line {line}" for called, line in calls(tree) if called in ("print", "pprint", "warnings.warn")
    ]
    found += [
        f"{ast.unparse(node)} on line {node.lineno}"
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr.strip("_") in ("stdout", "stderr")
        if ast.unparse(node) in streams
    ]
    return found


def global_seeds(tree: ast.AST) -> list[str]:
    """Return changes of a random state that the whole process shares, unless `fork_rng` puts it back."""
    forked: set[ast.AST] = set()
    keepers = {"fork_rng"} | {
        node.name
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef)
        and any("contextmanager" in ast.unparse(item) for item in node.decorator_list)
        and "with torch.random.fork_rng" in ast.unparse(node)
    }
    for node in nodes(tree):
        opened = [ast.unparse(item.context_expr) for item in node.items] if isinstance(node, ast.With) else []
        if any(call.split("(")[0].split(".")[-1] in keepers for call in opened):
            forked |= set(ast.walk(node))
    found = []
    for node in nodes(tree):
        if not isinstance(node, ast.Call) or node in forked:
            continue
        called = source(node.func)
        legacy = called.startswith(("np.random.", "numpy.random.")) and not called.endswith(
            ("default_rng", "Generator", "SeedSequence", "PCG64", "Philox")
        )
        shared = called in ("torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all")
        if legacy or shared or called.startswith(("torch.default_generator.", "random.")):
            found.append(f"{called} on line {node.lineno}")
    return found


def heavy(tree: ast.Module) -> list[str]:
    """Return what a light module imports at its top besides the standard library, other light ones and the errors."""
    light = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in LIGHT}
    allowed = light | {"probes", "probes.core.errors", "probes.core.installed"}
    found = []
    for node in at_import(tree):
        names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{item.name}" for item in node.names]
            names = [
                one if (ROOT / one.replace(".", "/")).with_suffix(".py").exists() else str(node.module) for one in whole
            ]
        found += [one for one in names if one.split(".")[0] not in STANDARD and one not in allowed]
    return found


def dotted(path: Path) -> str:
    """Return the name of a module as it is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def circles(imports: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another in a circle; a package's own parts are no circle with it.

    Tarjan's strongly connected components, each with more than one module.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(imports.get(module, ())):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            at = stack.index(module)
            part = stack[at:]
            del stack[at:]
            if len(part) > 1:
                found.append(sorted(part))

    for module in sorted(imports):
        if module not in order:
            visit(module)
    return found


def imported_modules(paths: Sequence[Path]) -> dict[str, set[str]]:
    """Return what each module imports of ours, wherever in its code: in functions and for type checkers too."""
    known = {dotted(path) for path in paths}
    found: dict[str, set[str]] = {}
    for path in paths:
        own = dotted(path)
        named = read(path).modules & known
        # `from package import part` names the package too, but needs only the part.
        named = {one for one in named if not any(other.startswith(one + ".") for other in named)}
        found[own] = named - {own}
    return found


@dataclass(frozen=True)
class Read:
    """What of a file of the code the rules are about: what it imports, and what each rule found."""

    modules: frozenset[str]
    breaches: tuple[str, ...]
    crossing: tuple[str, ...]
    noise: tuple[str, ...]
    seeds: tuple[str, ...]


@cache
def read(path: Path) -> Read:
    """Parse a file and hold all rules against it at once; its tree is not kept."""
    tree, at = parse(path), name(path)
    rules = layer_breaches(at, tree), cross_imports(at, tree), noise(tree), global_seeds(tree)
    return Read(frozenset(modules(tree)), *map(tuple, rules))


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert circles(imported_modules(FILES)) == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def broken(rule: str, files: Iterable[Path] = FILES) -> dict[str, tuple[str, ...]]:
    """Return what breaks a rule, by file: a test for each file would take longer than to read all of them."""
    return {name(path): getattr(read(path), rule) for path in files if getattr(read(path), rule)}


def test_no_layer_looks_up() -> None:
    assert broken("breaches") == {}


def test_no_audit_imports_another() -> None:
    assert broken("crossing", [path for path in FILES if "audits" in path.parts]) == {}


@pytest.mark.parametrize("path", LIGHT)
def test_what_the_command_line_reads_first_is_light(path: str) -> None:
    assert heavy(parse(ROOT / path)) == []


# What imports an old name is warned, once and by Python itself.
SILENT = [path for path in FILES if "miles_cli" not in path.parts and path.stem != "renamed"]


def test_engines_do_not_print() -> None:
    assert broken("noise", SILENT) == {}


def test_no_shared_random_state_is_touched() -> None:
    assert broken("seeds") == {}


def test_comparing_runs_loads_no_heavy_package() -> None:
    """What an audit tells of its records is imported by `miles compare`, which runs no model."""
    packages = sorted(path.parent.name for path in (ROOT / "audits").glob("*/measure.py"))
    code = (
        f"import importlib, sys; [importlib.import_module(f'audits.{{name}}.records') for name in {packages!r}]; "
        "assert not {'torch', 'sklearn', 'transformers'} & set(sys.modules)"
    )
    assert len(packages) >= 9
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_rules_see_what_they_are_to_see() -> None:
    tree = ast.parse(
        "import typer\n"
        "from audits.asr_fairness import findings\n"
        "def f():\n    import rich.console\n    print(1)\n    sys.stderr.write('x')\n"
        "np.random.seed(1)\ntorch.manual_seed(1)\nrandom.shuffle(x)\n"
        "with torch.random.fork_rng(devices=[]):\n    torch.manual_seed(2)\n"
        "rng = np.random.default_rng(1)\n"
    )
    assert layer_breaches("probes/x.py", tree)[:2] == ["typer", "audits.asr_fairness"]
    assert "rich.console" in layer_breaches("probes/x.py", tree)
    assert cross_imports("audits/other/x.py", tree)[0] == "audits.asr_fairness"
    assert cross_imports("audits/asr_fairness/x.py", tree) == []
    assert noise(tree) == ["print on line 5", "sys.stderr on line 6"]
    assert [line.split(" ")[0] for line in global_seeds(tree)] == [
        "np.random.seed",
        "torch.manual_seed",
        "random.shuffle",
    ]
    assert sorted(heavy(tree)) == ["audits.asr_fairness.findings", "typer"]
