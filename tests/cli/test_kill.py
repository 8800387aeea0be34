"""Does a run that was killed while it wrote its files end, once repeated, in the report of a run that was not?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import files, stripped

# Each step that writes, cut short.
STEPS = ("report.json", "figure", "last")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_run_cut_short_at_a_file_leaves_no_report_and_resumes(
    world: Any,
    finished_run: tuple[Path, Any],
    copied_run: Path,
    call_miles: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    from audits.report import report_file
    from miles_cli import folders

    class Killed(BaseException):
        """Stands for a kill: nothing that tidies up after errors may notice it."""

    plain = report_file.write_bytes

    def write(path: Path, data: bytes) -> None:
        if path.name == step or (step == "figure" and path.suffix == ".png"):
            (path.parent / ".part-cut").write_bytes(data[: len(data) // 2])
            raise Killed
        plain(path, data)

    monkeypatch.setattr(report_file, "write_bytes", write)
    if step == "last":

        def remove(*_: Any, **__: Any) -> None:
            raise Killed

        monkeypatch.setattr(folders.shutil, "rmtree", remove)
        (copied_run / "report.json").unlink()
        (copied_run / "figures").rename(copied_run.parent / "figures")
    words = world.command("--out", copied_run, "--quiet", "--force")
    with pytest.raises(Killed):
        call_miles(*words)
    monkeypatch.undo()
    assert (copied_run / "report.json").exists() == (step == "last")
    assert (copied_run / "state").is_dir()
    assert call_miles(*words[:-1]).code == 0
    assert stripped(copied_run) == stripped(finished_run[0])
    assert files(copied_run) == files(finished_run[0])
