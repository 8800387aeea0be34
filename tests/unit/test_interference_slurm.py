"""Does the job for SLURM hold the whole command, each word of it safe from the shell?"""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from audits.core.context import Cache, Context
from audits.interference import Options
from audits.interference.settings import Part
from audits.interference.slurm import script

CONTEXT = Context(seed=7, cache=Cache(Path("kept")))
HOSTILE = 'it\'s $(touch broken); `touch broken` "x" * & | > broken'


def made(number: int = 1, of: int = 4, **options: Any) -> str:
    return script(Options(**options), Part(number=number, of=of), CONTEXT)


def task(text: str) -> list[str]:
    """Return the words of the one command that is run."""
    (line,) = [line for line in text.splitlines() if line.startswith("miles ")]
    return shlex.split(line)


def test_all_parts_are_tasks_of_one_array() -> None:
    text = made(number=3, of=12, corpus=Path("texts"))
    assert text.startswith("#!/bin/bash\n") and "#SBATCH --array=1-12\n" in text
    words = task(text)
    assert words[words.index("--array") + 1] == "$SLURM_ARRAY_TASK_ID/12"
    assert words[words.index("--seed") + 1] == "7"


def test_only_what_differs_from_its_default_is_written() -> None:
    words = task(made(corpus=Path("texts")))
    flags = [word for word in words if word.startswith("--")]
    assert words[:3] == ["miles", "interference", "texts"]
    shared = {"--seed", "--level", "--device", "--dtype"}
    assert {"--array", "--out", "--quiet", "--results", "--workers"} <= {*flags}
    assert {*flags} <= {"--array", "--out", "--quiet", "--results", "--workers"} | shared
    assert len(set(flags)) == len(flags)


def test_options_keep_their_form() -> None:
    words = task(
        made(corpus=Path("texts"), langs=("en", "fr"), pairs=("en-fr",), similarity=("a.csv", "b.csv"), rate=0.004,
             array="3/4", sbatch=Path("job.sh"), workers=2, results=Path("kept"))
    )  # fmt: skip
    text = " ".join(words)
    assert "--langs en,fr --pairs en-fr" in text and "--similarity a.csv --similarity b.csv" in text
    assert "--rate 0.004" in text and "--workers 2" in text and "--results kept" in text
    assert words.count("--array") == 1 and "--sbatch" not in words and words.count("--workers") == 1


def test_cores_are_asked_for_as_many_as_there_are_workers() -> None:
    assert "#SBATCH --cpus-per-task=3\n" in made(corpus=Path("texts"), workers=3)
    assert "#SBATCH --cpus-per-task=1\n" in made(corpus=Path("texts"))


@pytest.mark.parametrize("name", [HOSTILE, "two words", "-rf", "ünï/çødé", "$SLURM_ARRAY_TASK_ID"])
def test_words_are_safe_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(made(corpus=Path(name), model=name, merge=(name,)), encoding="utf-8")
    stub = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done > "$RECORDED"\n'
    (tmp_path / "miles").write_text(stub, encoding="utf-8")
    (tmp_path / "miles").chmod(0o755)
    before = sorted(tmp_path.iterdir())
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RECORDED": "/dev/stdout", "SLURM_ARRAY_TASK_ID": "2"}
    done = subprocess.run(["bash", tmp_path / "job.sh"], env=variables, capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()
    assert words[1] == name and words[words.index("--model") + 1] == words[words.index("--merge") + 1] == name
    assert words[words.index("--array") + 1] == "2/4"
    assert sorted(tmp_path.iterdir()) == before, "nothing but the command was run"


def test_the_command_for_the_report_is_the_same_without_a_part() -> None:
    text = made(corpus=Path("my texts"), steps=50)
    (line,) = [line for line in text.splitlines() if line.startswith("#   miles")]
    words = shlex.split(line.removeprefix("#"))
    assert "my texts" in words and "--array" not in words and "--out" not in words
    shared = ("--steps", "--results", "--seed")
    assert all(words[words.index(flag) + 1] == (own := task(text))[own.index(flag) + 1] for flag in shared)
