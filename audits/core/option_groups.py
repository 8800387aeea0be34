"""Options that several audits share: an options class inherits the groups that it needs and may redefine a field."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core.options import option

DATA, GROUPS, WORKERS = "Data", "Groups and statistics", "Workers"
"""Headings of the help."""
BACKENDS = ("loky", "dask", "ray")


def decimal_mark(panel: str = DATA, *, later: bool = True, **spec: Any) -> Any:
    """Declare `--decimal` of an audit that reads tables of numbers."""
    return option(
        "Decimal mark of the numbers in a CSV or TSV. Default: a point, and between semicolons also a comma where that "
        "is clear.",
        choices=(",", "."),
        metavar=",|.",
        panel=panel,
        later=later,
        **spec,
    )


def class_map(**spec: Any) -> Any:
    """Declare `--class-map` of an audit that reads folders of images by class."""
    return option(
        "File that says which class folder is which output: JSON, a list of WordNet ids, CSV (folder, index).",
        metavar="FILE",
        panel=DATA,
        later=True,
        **spec,
    )


def resize(**spec: Any) -> Any:
    """Declare `--resize` of an audit that reads folders of images."""
    return option(
        "Resize pictures of folders: as the model's processor does, or the shorter side to N pixels.",
        metavar="processor|N",
        panel=DATA,
        later=True,
        **spec,
    )


def crop() -> Any:
    """Declare `--crop`, which goes with `--resize`."""
    return option(
        "After --resize N: side of the centre that is kept. Default: the network's.",
        metavar="M",
        panel=DATA,
        least=1,
        only_with=("resize",),
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Options of a manifest of recordings: its columns, and what its attributes mean."""

    preset: str | None = option("Layout of a published corpus; see docs/formats.md.", metavar="NAME", panel=DATA)
    path_col: str | None = option("Column of the recording.", metavar="COLUMN", panel=DATA)
    text_col: str | None = option("Column of the transcript.", metavar="COLUMN", panel=DATA)
    speaker_col: str | None = option("Column of the speaker.", metavar="COLUMN", panel=DATA)
    values: Path | None = option(
        "Map of attribute values: CSV (columns column, from, to) or TOML.", metavar="FILE", panel=DATA
    )
    bin: tuple[str, ...] = option(
        "Bins of a numeric column, such as age=0,13,18,30,50; repeatable.",
        (),
        listed=False,
        metavar="COLUMN=N,...",
        panel=DATA,
    )
    decimal: str | None = decimal_mark(not_with=("preset",))


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Options of the groups of speakers that are compared, and of the resampling."""

    by: tuple[str, ...] = option("Columns whose levels are compared.", (), required=True, metavar="COLUMN...")
    max_order: int = option("Largest number of attributes crossed.", 2, metavar="N", panel=GROUPS, least=1, most=20)
    min_speakers: int = option(
        "Speakers that a group needs to be compared.", 10, metavar="N", panel=GROUPS, least=5, most=10**6
    )
    bootstrap: int = option("Bootstrap samples of speakers.", 2000, metavar="N", panel=GROUPS, least=200, most=10**5)
    permutations: int = option(
        "Permutations of labels over speakers.", 2000, metavar="N", panel=GROUPS, least=100, most=10**5
    )


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Options of who does the dear work: worker processes, a cluster, or the tasks of an array.

    They change no number: the settings of a report do not hold them (`MACHINES`).
    """

    workers: int = option(
        "Processes that do the dear work; 0: this one, or one for each core where that saves time.",
        0,
        metavar="N",
        panel=WORKERS,
        least=0,
        most=100_000,
    )
    backend: str = option(
        "What runs these processes: loky (this machine), dask or ray (this machine or a cluster).",
        "loky",
        choices=BACKENDS,
        metavar="|".join(BACKENDS),
        panel=WORKERS,
    )
    scheduler: str | None = option(
        "Scheduler of a running Dask cluster, or head of a running Ray cluster.", metavar="ADDRESS", panel=WORKERS
    )
    array: str | None = option(
        "Compute only the I-th of N parts, into the cache, and stop: one task of an array. Then the same command "
        "without it finds them all, and makes the report.",
        metavar="I/N",
        panel=WORKERS,
    )
    sbatch: Path | None = option(
        "Write the SLURM job of all N parts of --array here; with --dry-run nothing else happens.",
        metavar="FILE",
        panel=WORKERS,
        only_with=("array",),
    )


MACHINES = ("workers", "backend", "scheduler", "array", "sbatch")
"""The options of `Workers`: they say who computes, and change no number."""
