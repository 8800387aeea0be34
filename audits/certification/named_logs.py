"""The logs of one call: their names and noise, and the images that all of them have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audits.certification import Options
from audits.certification.certificates import Verdict
from audits.certification.logs import Log, read_log
from audits.certification.rules import Rule, grid, rule_of
from probes.core.errors import InputError
from probes.files.names import suggest

FLAG, NOISE = "--from-log", "--log-sigma"
MOST_LOGS, MOST_LETTERS = 12, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLog:
    """A log with its name, and the settings that it is held against; of predictions there are none."""

    name: str
    path: Path
    log: Log
    rule: Rule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs of one call, all of certificates or all of predictions; the first is what others are held against.

    Parameters
    ----------
    verdicts
        Of each log by its name: one for every image that all logs have, in the order of the first.
    radii
        At which certified accuracy is compared; empty for predictions.
    given
        How many different images the logs have together.
    """

    logs: tuple[NamedLog, ...]
    verdicts: Mapping[str, tuple[Verdict, ...]]
    radii: tuple[float, ...]
    given: int

    @property
    def certified(self) -> bool:
        """Whether the logs hold certificates."""
        return self.logs[0].log.certified

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the logs."""
        return tuple(one.name for one in self.logs)

    @property
    def used(self) -> int:
        """How many images all logs have."""
        return len(self.verdicts[self.logs[0].name])


def named(texts: Sequence[str]) -> list[tuple[str, Path]]:
    """Return name and path of each log; without a name that of its file, without its suffix.

    Raises
    ------
    InputError
        Where a name is none, or stands twice.

    Examples
    --------
    >>> [(name, str(path)) for name, path in named(["a=one.tsv", "two.tsv"])]
    [('a', 'one.tsv'), ('two', 'two.tsv')]
    """
    found: dict[str, Path] = {}
    for text in texts:
        name, separator, file = text.partition("=")
        # A path may hold the sign, too.
        if not separator or Path(text).expanduser().exists():
            name, file = Path(text).stem, text
        name = name.strip()
        if not name or not file or not name.isprintable() or len(name) > (MOST_LETTERS if separator else 255):
            hint = (
                f"Such as {FLAG} base=base.tsv {FLAG} smooth=smooth.tsv, with names of at most {MOST_LETTERS} letters."
            )
            raise InputError(f"{text[:80]!r} is not NAME=FILE.", where=FLAG, hint=hint)
        if name in found:
            hint = f"Give each log a name of its own, such as {FLAG} first={file}."
            raise InputError(f"Two logs have the name {name!r}.", where=FLAG, hint=hint)
        found[name] = Path(file).expanduser()
    if len(found) > MOST_LOGS:
        hint = "Compare fewer at a time: every further one widens what counts as shown."
        raise InputError(f"There are {len(found)} logs, more than {MOST_LOGS}.", where=FLAG, hint=hint)
    return list(found.items())


def read_logs(options: Options) -> tuple[NamedLog, ...]:
    """Read all logs that were named, with the rule of each where they hold certificates.

    Raises
    ------
    InputError
        Where one cannot be read, kinds are mixed, or a sigma is missing or wrong.
    """
    read = [(name, path, read_log(path)) for name, path in named(options.from_log)]
    kinds = {log.certified for _, _, log in read}
    if len(kinds) > 1:
        lacking = next(path for _, path, log in read if not log.certified)
        raise InputError(
            "It holds predictions, and another log certificates: an image that is abstained from is another in each.",
            where=f"{FLAG} {lacking}",
            hint="Compare logs of one kind, in two runs.",
        )
    sigmas = _sigmas(options, [name for name, _, _ in read])
    if kinds == {False}:
        return tuple(NamedLog(name=name, path=path, log=log) for name, path, log in read)
    return tuple(
        NamedLog(
            name=name,
            path=path,
            log=log,
            rule=rule_of(replace(options, sigma=sigmas.get(name, options.sigma)), images=len(log.verdicts)),
        )
        for name, path, log in read
    )


def _sigmas(options: Options, names: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in options.log_sigma:
        name, separator, number = text.rpartition("=")
        try:
            sigma = float(number)
        except ValueError:
            sigma = math.nan
        if not separator or not 0 < sigma < math.inf:
            raise InputError(f"{text[:80]!r} is not NAME=S.", where=NOISE, hint=f"Such as {NOISE} {names[-1]}=0.5.")
        if name not in names:
            raise InputError(f"No log has the name {name!r}.", where=NOISE, hint=suggest(name, tuple(names)))
        found[name] = sigma
    return found


def together(logs: Sequence[NamedLog]) -> Logs:
    """Return the logs with what each says of the images that all of them have.

    Raises
    ------
    InputError
        Where no image is in all of them, or an image has two labels.
    """
    by_index = {one.name: {row.index: row for row in one.log.verdicts} for one in logs}
    first, *others = logs
    common = [row.index for row in first.log.verdicts if all(row.index in by_index[one.name] for one in others)]
    for one in others:
        for index in common:
            labels = by_index[first.name][index].label, by_index[one.name][index].label
            if labels[0] != labels[1]:
                raise InputError(
                    f"The image {index} has the label {labels[1]} here and {labels[0]} in {first.path}.",
                    where=f"{one.path}, idx {index}",
                    hint="Give logs of the same images: rows are paired by idx.",
                )
    if not common:
        raise InputError(
            "No image is in all of the logs.",
            where=FLAG,
            hint="Rows are paired by idx: give logs of the same images, or each log in a run of its own.",
        )
    rules = [one.rule for one in logs if one.rule is not None]
    asked = rules[0].radii if rules and rules[0].asked else ()
    return Logs(
        logs=tuple(logs),
        verdicts={name: tuple(rows[index] for index in common) for name, rows in by_index.items()},
        radii=asked or (grid(max(rule.ceiling for rule in rules)) if rules else ()),
        given=len(set().union(*by_index.values())),
    )
