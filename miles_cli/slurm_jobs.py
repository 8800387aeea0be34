"""The SLURM job of a run: an array of tasks, each a part of the work, which share one cache."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from audits.core.context import Context
from audits.core.errors import InputError
from audits.core.registry import AuditSpec

_HEAD = "#!/bin/bash\n#SBATCH --job-name=miles-"
_OF_ONE_CALL = ("array", "sbatch", "dry_run")
"""Options that no job may take from a configuration file: all its tasks would have them, and the report too."""
# --detect is asked of dry runs alone.
_VALUED, _FLAGS = ("--array", "--sbatch", "--detect"), ("--dry-run", "--quiet", "--json")


def check(path: Path, config: Path | None = None, configured: Collection[str] = ()) -> None:
    """Refuse a path for the job that would overwrite something else, or cannot be written, and what no job can repeat.

    Parameters
    ----------
    config, configured
        The configuration file of the command, and the options that it sets.

    Raises
    ------
    InputError
        With what to do about it.
    """
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"No file can be written at {path}.", where="--sbatch", hint="Name a file in a folder.")
    # A job of ours may be made anew; no other file is written over.
    if path.exists() and not (path.is_file() and _opening(path) == _HEAD.encode()):
        raise InputError(f"{path} is there already, and no job of ours.", where="--sbatch", hint="Name another file.")
    for name in _OF_ONE_CALL:
        if name in configured:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                "The job repeats the command, and every task would take this from the file, and the report too.",
                where=f"{config}, key {name}",
                hint=f"Take it out of the file, and give {flag} on the command line.",
            )


def _opening(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_HEAD))


def without(command: Sequence[str], valued: Iterable[str] = _VALUED, flags: Iterable[str] = _FLAGS) -> list[str]:
    """Return the words of a command without some options, `valued` with their values; what is behind "--" stays.

    >>> without(["miles", "certify", "m", "--array", "1/4", "--sbatch=job", "--quiet", "--n", "9"])
    ['miles', 'certify', 'm', '--n', '9']
    """
    kept: list[str] = []
    words = iter(command)
    for word in words:
        name, given, _ = word.partition("=")
        if word == "--":
            kept += [word, *words]
        elif name in valued:
            if not given:
                next(words, None)
        elif word not in flags:
            kept.append(word)
    return kept


def script(spec: AuditSpec, context: Context, command: Sequence[str], workers: int) -> str:
    """Return the text of an sbatch file, with the command that makes the report of all parts.

    Parameters
    ----------
    command
        The words of the call that asked for it.
    workers
        How many processes a task has; 0: one.

    Raises
    ------
    InputError
        Where a name cannot stand in such a file.
    """
    part = context.machines.part
    assert part is not None
    plain = without(command)
    # Before all that the user wrote, which may end with a list of values, or with words behind a "--".
    called, rest = plain[:2], plain[2:]
    alone = [] if workers else ["--workers", "1"]
    cache = str(context.cache.folder.absolute())
    # A line break in a name would begin a line of the job, which the shell would run.
    broken = [word for word in (*plain, str(Path.cwd()), cache) if not word.isprintable()]
    if broken:
        raise InputError(
            f"{broken[0]!r} cannot stand in a job: it has a line break or the like.",
            where="--sbatch",
            hint="Rename the file or folder.",
        )
    card = ["#SBATCH --gres=gpu:1"] if context.device != "cpu" else []
    lines = [
        f"{_HEAD}{spec.name}",
        f"#SBATCH --array=1-{part.of}",
        f"#SBATCH --cpus-per-task={max(workers, 1)}",
        *card,
        f"#SBATCH --mem={4 * max(workers, 1)}G",
        "#SBATCH --time=04:00:00",
        "#SBATCH --requeue",
        "set -eu",
        "# All tasks see these two folders: the one with the inputs, and the cache, where the parts meet.",
        f"cd {shlex.quote(str(Path.cwd()))}",
        f"export MILES_CACHE={shlex.quote(cache)}",
        "export OMP_NUM_THREADS=1",
        f'{shlex.join([*called, *alone])} --array "$SLURM_ARRAY_TASK_ID/{part.of}" {shlex.join(rest)}'.rstrip(),
        "",
        *_rounds(spec),
        "# When all parts are done, once and anywhere that sees the same folders, for the report:",
        f"#   MILES_CACHE={shlex.quote(cache)} {shlex.join(plain)}",
        "# The same sbatch again computes only what is missing.",
    ]
    return "\n".join(lines) + "\n"


def _rounds(spec: AuditSpec) -> list[str]:
    """Return what the file says of an audit whose later jobs need what all parts made before."""
    if len(spec.spreads) < 2:
        return []
    stages = ", then ".join(spec.spreads)
    again = "; ".join("j=$(sbatch --parsable -d afterany:$j FILE)" for _ in spec.spreads[1:])
    return [
        f"# It computes {stages}: each needs all of the one before. Submit it once for each:",
        f"#   j=$(sbatch --parsable FILE); {again}",
    ]
