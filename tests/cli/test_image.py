"""Is what the Dockerfile asks of pip a wheel with its extras, or without any?"""

import re
import subprocess
from pathlib import Path

import pytest

DOCKERFILE = (Path(__file__).resolve().parents[2] / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("extras", "wanted"), [("demo,tables", "m.whl[demo,tables]"), ("", "m.whl")])
def test_the_wheel_that_the_image_installs(tmp_path: Path, extras: str, wanted: str) -> None:
    """pip takes the brackets of no extras for part of a name."""
    (tmp_path / "m.whl").touch()
    (asked,) = re.findall(r'"\$\(echo /dist/\*\.whl\).*"', DOCKERFILE)
    script = f"cd {tmp_path}; EXTRAS={extras}; printf %s {asked.replace('/dist/', '')}"
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout == wanted
