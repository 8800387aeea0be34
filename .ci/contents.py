"""What wheel and sdist hold: all of the code and what it reads, nothing of tests, data or documentation."""

import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

CODE = ("miles_cli", "audits", "probes")
PLAIN = (".css", ".html.jinja", ".js", ".json", ".py", ".txt", ".typed")
NEEDED = (
    *(f"{package}/py.typed" for package in CODE),
    "audits/report.schema.json",
    "audits/report/pages/page.css",
    "audits/report/pages/page.html.jinja",
    "audits/report/pages/page.js",
)
BESIDE = {".gitignore", "CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}


def main(wheel: Path, sdist: Path) -> None:
    """Fail where something is missing, or there that should not be."""
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        about = next(name.removesuffix("METADATA") for name in names if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(file.read(f"{about}METADATA"))
        entry = file.read(f"{about}entry_points.txt").decode()
    with tarfile.open(sdist) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    code = {name for name in names if not name.startswith(about)}
    tree = {str(path) for top in CODE for path in Path(top).rglob("*") if path.suffix and path.suffix != ".pyc"}
    assert code == tree, sorted(code ^ tree)[:20]
    assert packed == tree | BESIDE, sorted(packed ^ (tree | BESIDE))[:20]
    strange = [name for name in code if not name.endswith(PLAIN) or name.split("/")[0] not in CODE or "test_" in name]
    assert not strange, strange[:20]
    missing = [name for name in (*NEEDED, f"{about}licenses/LICENSE") if name not in names | {""}]
    assert not missing, missing
    assert "miles = miles_cli.main:main" in entry
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Requires-Python"] == ">=3.11"
    asked = [one for one in metadata.get_all("Requires-Dist", []) if one.split(">")[0].split("<")[0] == "torch"]
    core = [one for one in asked if "extra" not in one]
    assert core == ["torch>=2.10"], "whoever has a torch keeps it: only extras cap it"
    sizes = [f"{path.stat().st_size / 1e6:.1f} MB" for path in (wheel, sdist)]
    sys.stdout.write(f"{wheel.name}: {len(code)} files, {sizes[0]}; sdist {sizes[1]}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
