"""The options that every audit shares, declared the way an audit declares its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core.options import option, specs_of
from audits.core.settings_file import read_settings

DTYPES = ("float32", "bfloat16", "float16")
_RUN = "Run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options of every audit; see docs/reference.md."""

    out: Path | None = option("Run folder. Default: runs/<command>-<UTC time>-<4 hex>.", metavar="DIR", panel=_RUN)
    seed: int = option("Seed of every random choice.", 0, metavar="N", panel=_RUN, least=0, most=2**63 - 1)
    level: float = option("Confidence level of every interval.", 0.95, metavar="X", panel=_RUN, least=0.5, under=1)
    device: str = option(
        "Where the model runs: auto, cpu, cuda, cuda:N, or cuda:all (one worker a GPU).",
        "auto",
        metavar="DEVICE",
        panel=_RUN,
    )
    dtype: str = option("Number format in which the model runs.", "float32", choices=DTYPES, metavar="TYPE", panel=_RUN)
    fail_if: tuple[str, ...] = option(
        "Gate, repeatable: exit 1 if any selected estimate makes it true.",
        (),
        metavar="EXPR",
        panel=_RUN,
        listed=False,
    )
    registration: tuple[str, ...] = option(
        "Criteria that miles register wrote down: all are judged, and the report cites their digest.",
        (),
        metavar="FILE",
        panel=_RUN,
        listed=False,
    )
    config: Path | None = option(
        "The same options from a TOML file; the command line wins.", metavar="FILE", panel=_RUN
    )
    json: bool = option("Print report.json to stdout and nothing else there.", False, panel=_RUN)
    quiet: bool = option("Print nothing but errors and gates that failed.", False, panel=_RUN)
    verbose: bool = option("Add tracebacks to errors.", False, panel=_RUN)
    dry_run: bool = option("Check every input, print the plan and its cost, run nothing.", False, panel=_RUN)
    detect: float | None = option(
        "How many units, such as speakers, an effect of this size needs; printed by --dry-run.",
        metavar="X",
        panel=_RUN,
        above=0,
        only_with=("dry_run",),
    )
    force: bool = option("Overwrite a finished run folder.", False, panel=_RUN)


PRESENTATION = ("out", "registration", "config", "json", "quiet", "verbose", "dry_run", "detect", "force")
"""Options that change no number; they are left out of the report's settings."""


def read_config(path: Path, name: str, options: type) -> dict[str, Any]:
    """Read options of a command and those that all have from TOML."""
    return read_settings(path, name, {*specs_of(options), *specs_of(Common)} - {"config"})
