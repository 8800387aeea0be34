"""Does the job for SLURM hold the whole command, each word of it safe from the shell, and write over no other file?"""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from audits.core import registry
from audits.core.context import Cache, Context
from audits.core.errors import InputError
from miles_cli.slurm_jobs import check, script, without
from probes.core.spreading import Machines, part_of

HOSTILE = 'it\'s $(touch broken); `touch broken` "x" * & | > broken'
STUB = '#!/bin/sh\nprintf "%s\\n" "$MILES_CACHE" "$OMP_NUM_THREADS" "$PWD" "$@" > recorded\n'


def made(
    *words: str, array: str = "1/4", workers: int = 0, audit: str = "interference", device: str = "cpu", kept: str = "k"
) -> str:
    context = Context(seed=7, cache=Cache(Path(kept)), device=device, machines=Machines(part=part_of(array)))
    command = ["miles", audit, *words, "--array", array, "--sbatch", "job.sh", "--dry-run"]
    return script(registry.find(audit), context, command, workers)


def task(text: str) -> list[str]:
    """Return the words of the one command that is run."""
    (line,) = [line for line in text.splitlines() if line.startswith("miles ")]
    return shlex.split(line)


def ran(folder: Path, text: str) -> list[str]:
    """Run a job as task 2, with a command that writes down what it is given, and return that."""
    (folder / "job.sh").write_text(text, encoding="utf-8")
    (folder / "miles").write_text(STUB, encoding="utf-8")
    (folder / "miles").chmod(0o755)
    before = sorted(folder.iterdir())
    variables = {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "2"}
    subprocess.run(["bash", folder / "job.sh"], env=variables, cwd="/", check=True)
    assert sorted({*folder.iterdir()} - {*before}) == [folder / "recorded"], "nothing but the command was run"
    return (folder / "recorded").read_text(encoding="utf-8").splitlines()


def test_all_parts_are_tasks_of_one_array() -> None:
    text = made("texts", "--seed", "7", array="3/12")
    assert text.startswith("#!/bin/bash\n#SBATCH --job-name=miles-interference\n#SBATCH --array=1-12\n")
    expected = ["--workers", "1", "--array", "$SLURM_ARRAY_TASK_ID/12", "texts", "--seed", "7"]
    assert task(text) == ["miles", "interference", *expected]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("a", "--array", "1/4", "--b", "2"), "a --b 2"),
        (("--array=1/4", "a", "--sbatch=x y", "--json"), "a"),
        (("--array", "1/4", "a", "--array", "2/4", "--sbatch", "x", "--sbatch", "y", "--quiet", "--quiet"), "a"),
        (("--arrays", "1/4", "--by", "x", "--", "--quiet", "--array"), "--arrays 1/4 --by x -- --quiet --array"),
        (("a", "--array"), "a"),
        (("a", "--detect", "0.1", "--array", "1/4", "--detect=2"), "a"),
    ],
)
def test_only_what_a_task_has_of_its_own_is_left_out(words: Sequence[str], kept: str) -> None:
    assert without(["miles", "audit", *words]) == ["miles", "audit", *kept.split()]


def test_cores_and_cards_are_asked_for() -> None:
    assert "#SBATCH --cpus-per-task=3\n" in (text := made("texts", "--workers", "3", workers=3))
    assert task(text).count("--workers") == 1
    assert "#SBATCH --cpus-per-task=1\n" in (text := made("texts")) and "gres" not in text
    assert "#SBATCH --gres=gpu:1\n" in made("texts", device="cuda")


def test_memory_is_asked_for_by_workers() -> None:
    assert "#SBATCH --mem=4G\n" in made("texts") and "#SBATCH --mem=4G\n" in made("texts", workers=1)
    assert "#SBATCH --mem=32G\n" in made("texts", workers=8)


@pytest.mark.parametrize("name", [HOSTILE, "two words", "-rf", "ünï/çødé", "$SLURM_ARRAY_TASK_ID", "#SBATCH --wrap=x"])
def test_words_are_safe_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    text = made(name, "--model", name, kept=name)
    cache, threads, folder, *words = ran(tmp_path, text)
    assert (cache, threads, folder) == (str(tmp_path / name), "1", str(tmp_path))
    assert words[words.index("--model") + 1] == name and words.count(name) == 2
    assert words[words.index("--array") + 1] == "2/4"
    # Above the commands, SLURM reads lines of its own.
    head = text[: text.index("set -eu")].splitlines()[1:]
    assert all(line.startswith("#SBATCH --") for line in head) and len(head) == 6


def test_the_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "it's here; $HOME"
    here.mkdir()
    monkeypatch.chdir(here)
    assert ran(here, made("texts"))[:3] == [str(here / "k"), "1", str(here)]


@pytest.mark.parametrize("name", ["a\nb", "a\rtouch broken", "a\u2028b", "\udc80", "a\x00b"])
@pytest.mark.parametrize("where", ["word", "cache"])
def test_line_breaks_are_refused(name: str, where: str) -> None:
    with pytest.raises(InputError, match="line break") as told:
        made(name if where == "word" else "texts", kept=name if where == "cache" else "k")
    assert told.value.where == "--sbatch"


def test_the_command_for_the_report_is_the_same_without_a_part(tmp_path: Path) -> None:
    text = made("my texts", "--steps", "50", kept=str(tmp_path / "my cache"))
    (line,) = [line for line in text.splitlines() if line.startswith("#   MILES_CACHE=")]
    words = shlex.split(line.removeprefix("#"))
    assert words == [f"MILES_CACHE={tmp_path}/my cache", "miles", "interference", "my texts", "--steps", "50"]


def test_stages_that_need_each_other_are_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "each needs all" not in made("texts")
    text = made("rows", audit="audit-faithfulness")
    first, second = registry.find("audit-faithfulness").spreads
    assert f"# It computes {first}, then {second}: each needs all of the one before." in text
    assert "j=$(sbatch --parsable FILE); j=$(sbatch --parsable -d afterany:$j FILE)\n" in text


def test_no_other_file_is_written_over(tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    check(job)
    job.write_text(made("texts"), encoding="utf-8")
    check(job)
    for path in (tmp_path, tmp_path / "nowhere" / "job.sh"):
        with pytest.raises(InputError, match="No file can be written"):
            check(path)
    for text in ("", "#!/bin/bash\necho mine\n", "mine"):
        job.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="no job of ours") as told:
            check(job)
        assert told.value.where == "--sbatch"


@pytest.mark.parametrize("name", ["array", "sbatch", "dry_run"])
def test_a_configuration_file_holds_nothing_of_one_task(tmp_path: Path, name: str) -> None:
    check(tmp_path / "job.sh", Path("my.toml"), {"seed": 1, "workers": 2})
    with pytest.raises(InputError, match="every task") as told:
        check(tmp_path / "job.sh", Path("my.toml"), {"seed": 1, name: "x"})
    assert told.value.where == f"my.toml, key {name}"
