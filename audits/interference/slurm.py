"""A SLURM array job that trains a matrix: each task a part of the models, all into one folder of results."""

import shlex
from dataclasses import fields, replace
from pathlib import Path

from audits.core.context import Context
from audits.core.options import flag_of, specs_of
from audits.interference import Options
from audits.interference.settings import Part
from probes.core.errors import InputError

_LEFT_OUT = ("array", "sbatch")
_HEAD = "#!/bin/bash\n#SBATCH --job-name=miles-interference\n"


def check(path: Path) -> None:
    """Refuse a path for the job that would overwrite something else, or cannot be written.

    Raises
    ------
    InputError
        With what to do about it.
    """
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"No file can be written at {path}.", where="--sbatch", hint="Name a file in a folder.")
    # A job of ours may be made anew; no other file is written over.
    own = path.is_file() and path.read_bytes()[: len(_HEAD)] == _HEAD.encode()
    if path.exists() and not own:
        raise InputError(f"{path} is there already, and no job of ours.", where="--sbatch", hint="Name another file.")


def script(options: Options, part: Part, context: Context) -> str:
    """Return the text of an sbatch file, with the command that makes the report of all parts."""
    # The cache of one machine is not that of the next: tasks need a folder that all of them see.
    shared = options if options.results else replace(options, results=Path("results"))
    command = [*_words(shared), "--seed", str(context.seed), "--level", str(context.level)]
    command += ["--device", context.device, "--dtype", context.dtype]
    task = [*command, "--workers", "1"] if not options.workers else command
    # A line break in a name would begin a line of the job, which the shell would run.
    broken = [word for word in (*command, str(Path.cwd())) if not word.isprintable()]
    if broken:
        raise InputError(
            f"{broken[0]!r} cannot stand in a job: it has a line break or the like.",
            where="--sbatch",
            hint="Rename the file or folder.",
        )
    lines = [
        *_HEAD.splitlines(),
        f"#SBATCH --array=1-{part.of}",
        f"#SBATCH --cpus-per-task={max(options.workers, 1)}",
        "#SBATCH --mem=4G",
        "#SBATCH --time=04:00:00",
        "#SBATCH --requeue",
        "set -eu",
        "# All tasks see this folder: the corpus, and the results, a small file each finished model.",
        f"cd {shlex.quote(str(Path.cwd()))}",
        "export OMP_NUM_THREADS=1",
        f'{shlex.join(task)} --array "$SLURM_ARRAY_TASK_ID/{part.of}" '
        f'--out "runs/part-$SLURM_ARRAY_TASK_ID-of-{part.of}" --quiet',
        "",
        "# When all tasks have ended, once and anywhere that sees the same folder, for the report:",
        f"#   {shlex.join(command)}",
        "# The same sbatch again trains only what is missing.",
    ]
    return "\n".join(lines) + "\n"


def _words(options: Options) -> list[str]:
    """Return the command line of the options that differ from their defaults."""
    defaults = Options()
    words, flags = ["miles", "interference"], []
    for item, spec in zip(fields(options), specs_of(Options).values(), strict=True):
        value = getattr(options, item.name)
        if item.name in _LEFT_OUT or value == getattr(defaults, item.name):
            continue
        if spec.positional:
            words.append(str(value))
        elif isinstance(value, tuple) and spec.listed:
            flags += [flag_of(item.name, spec), ",".join(value)]
        else:
            for one in value if isinstance(value, tuple) else (value,):
                flags += [flag_of(item.name, spec), str(one)]
    return [*words, *flags]
