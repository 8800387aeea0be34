"""The options that every audit shares, declared the way an audit declares its own."""

from dataclasses import dataclass
from pathlib import Path

from audits.core.options import option

DTYPES = ("float32", "bfloat16", "float16")
_RUN = "Run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Options of every audit; see docs/reference.md."""

    out: Path | None = option("Run folder; default runs/<command>-<UTC time>-<4 hex>.", metavar="DIR", panel=_RUN)
    seed: int = option("Seed of every random choice.", 0, panel=_RUN)
    level: float = option("Confidence level of every interval.", 0.95, panel=_RUN)
    device: str = option("Where the model runs: auto, cpu, cuda or cuda:N.", "auto", panel=_RUN)
    dtype: str = option("Number format in which the model runs.", "float32", choices=DTYPES, panel=_RUN)
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
        "With --dry-run: print the units that an effect of this size needs.", metavar="X", panel=_RUN
    )
    force: bool = option("Overwrite a finished run folder.", False, panel=_RUN)


PRESENTATION = ("out", "registration", "config", "json", "quiet", "verbose", "dry_run", "detect", "force")
"""Options that change no number; they are left out of the report's settings."""
