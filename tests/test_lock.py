"""Does the lock file for CI hold what pyproject.toml asks for, every package of it with a version and hashes?"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PLACE = {
    "python_version": "3.11", "python_full_version": "3.11.9", "implementation_name": "cpython", "os_name": "posix",
    "platform_machine": "x86_64", "platform_python_implementation": "CPython", "platform_system": "Linux",
    "sys_platform": "linux",
}  # fmt: skip
"""Where the lock file holds."""


def locked() -> dict[str, str]:
    """Return the version of each package, after checking that each line of the file is one, with hashes."""
    text = (ROOT / "requirements" / "ci.txt").read_text(encoding="utf-8")
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = {}
    for entry in re.split(r"\n(?=\S)", plain.strip()):
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,.-]+\])?==([\w.+!]+)(?: \\\n    --hash=sha256:[0-9a-f]{64})+", entry)
        assert match, f"this is no package with a version and hashes: {entry[:200]}"
        assert match[1] not in found
        found[match[1]] = match[2]
    return found


def asked_for(extra: str) -> list[Requirement]:
    """Return what the package with an extra asks for, with the extras that this one names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts, wanted, seen = list(project["dependencies"]), [extra], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for text in project["optional-dependencies"][name]:
            requirement = Requirement(text)
            if canonicalize_name(requirement.name) == project["name"]:
                wanted += requirement.extras
            else:
                texts.append(text)
    return [one for one in map(Requirement, texts) if one.marker is None or one.marker.evaluate({**PLACE, "extra": ""})]


def test_the_lock_holds_what_the_package_asks_for() -> None:
    there = locked()
    asked = asked_for("dev")
    assert len(asked) > 30
    for one in asked:
        version = there.get(canonicalize_name(one.name))
        assert version is not None, f"{one.name} is not in requirements/ci.txt: run .ci/lock {one.name}"
        assert one.specifier.contains(version), f"{one} and {version} in requirements/ci.txt: run .ci/lock {one.name}"


def test_releases_with_known_flaws_are_not_asked_for() -> None:
    # Pillow before 11.3 writes beyond a buffer (CVE-2025-48379); ray before 2.52 runs what a web page sends
    # (CVE-2025-62593).
    least = {one.name: one.specifier for one in asked_for("dev")}
    assert not least["pillow"].contains("11.2.1") and not least["ray"].contains("2.51.2")
