"""The plan of the audit: targets, lengths, claims and measurements made elsewhere, checked before anything runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.context import Context, Plan
from audits.core.records import Source, Subject
from audits.scaling import QUANTITIES, Options
from audits.scaling.growth_claims import read_claims
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.table_sources import reported_path, sha256_table

if TYPE_CHECKING:
    from audits.scaling.growth_claims import Law
    from audits.scaling.growth_tables import GrowthTable
    from probes.scaling.workloads import Target, TargetSpec

LONGEST = 2**40
MOST_LENGTHS = 64
_NAMED = re.compile(r"([\w.-]{1,40})=([\w.]+:[\w.]+)")
_NUMBER = re.compile(r"\d{1,13}", re.ASCII)
_SECONDS_PER_COUNT = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    lengths, further
        Those asked for, and those beyond them that are counted alone.
    claims
        By target and quantity.
    """

    targets: "Mapping[str, Target]"
    specs: "tuple[TargetSpec, ...]"
    table: "GrowthTable | None" = None
    lengths: tuple[int, ...] = ()
    further: tuple[int, ...] = ()
    claims: "Mapping[tuple[str, str], Law]"


def check(options: Options, context: Context) -> Plan:
    """Check options, targets, claims and the table; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    if options.from_csv is not None:
        return _of_table(options, options.from_csv)
    if not options.targets:
        hint = "Give a built-in module such as attention, NAME=module:callable, a model folder, or --from-csv FILE."
        raise InputError("There is nothing to audit.", where="TARGET", hint=hint)
    from audits.scaling.counting import try_first
    from probes.scaling.targets import open_target

    specs = _specs(options)
    names = [spec.name for spec in specs]
    lengths = _lengths(options.lengths)
    claims = _claims(options.claim, names)
    targets = {}
    for spec in specs:
        try:
            targets[spec.name] = open_target(spec, allow_code=options.allow_code)
        except InputError as error:
            if spec.kind == "built-in":
                error.hint = f"{error.hint} A folder is given by its path, such as ./{spec.source}."
            raise
    for name, target in targets.items():
        try_first(name, target, options, context.dtype, lengths[0])
    inputs = Inputs(
        targets=targets,
        specs=specs,
        lengths=lengths,
        further=_further(lengths[-1], options.count_to),
        claims=claims,
    )
    return Plan(
        inputs=inputs,
        subject=Subject(
            path=", ".join(names),
            family=", ".join(dict.fromkeys(spec.kind for spec in specs)),
            sha256=sha256_json([[spec.kind, spec.source, spec.submodule] for spec in specs]),
            parameters=0,
        ),
        data=(),
        cost=_cost(options, inputs),
        measure=partial(_counted, options, inputs, context),
        notes=_notes(specs),
    )


def _of_table(options: Options, path: Path) -> Plan:
    from audits.scaling.growth_tables import read_growth

    table = read_growth(path)
    lengths = sorted({n for curve in table.curves.values() for n in curve.lengths})
    inputs = Inputs(
        targets={},
        specs=(),
        table=table,
        lengths=tuple(lengths),
        claims=_claims(options.claim, table.targets),
    )
    return Plan(
        inputs=inputs,
        subject=None,
        data=(
            Source(role="measurements", path=reported_path(path), sha256=sha256_table(path), items=len(table.cells)),
        ),
        cost=(("cells", f"{len(table.cells):,} of {len(table.targets)} targets"), ("time", "seconds")),
        notes=table.notes,
    )


def _specs(options: Options) -> "tuple[TargetSpec, ...]":
    """Return the targets in words, each with a name of its own."""
    from probes.scaling.reference_modules import NAMES
    from probes.scaling.workloads import TargetSpec

    found: list[TargetSpec] = []
    for text in options.targets:
        folder = Path(text).expanduser()
        if named := _NAMED.fullmatch(text):
            found.append(TargetSpec(name=named[1], kind="factory", source=named[2]))
        elif ":" in text and not folder.exists():
            hint = "Write NAME=module:callable, such as mixer=my_module:make, with --allow-code."
            raise InputError(f"{text!r} has no name.", where="TARGET", hint=hint)
        elif folder.exists() or "/" in text:
            name = folder.resolve().name + (f" {options.submodule}" if options.submodule else "")
            found.append(TargetSpec(name=name, kind="folder", source=text, submodule=options.submodule or ""))
        else:
            found.append(TargetSpec(name=text, kind="built-in", source=text))
    names = [spec.name for spec in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two targets are named {twice}.", where="TARGET", hint="Name each target once.")
    if options.submodule and not any(spec.kind == "folder" for spec in found):
        hint = f"Give a folder of a Hugging Face model, or leave it out. Built-in modules: {', '.join(NAMES)}."
        raise InputError("No target has submodules.", where="--submodule", hint=hint)
    return tuple(found)


def _lengths(texts: Sequence[str]) -> tuple[int, ...]:
    """Return lengths, rising.

    >>> _lengths(["256:2048"]), _lengths(["100", "300"]), _lengths(["100:300"])
    ((256, 512, 1024, 2048), (100, 300), (100, 200))
    """
    found: set[int] = set()
    for text in texts:
        ends = [_length(part) for part in text.split(":")]
        if len(ends) > 2 or ends[0] > ends[-1]:
            hint = "Write FIRST:LAST, such as 256:65536, or lengths with commas."
            raise InputError(f"{text!r} is no range of lengths.", where="--lengths", hint=hint)
        at = ends[0]
        while at <= ends[-1]:
            found.add(at)
            at *= 2
    if not 2 <= len(found) <= MOST_LENGTHS:
        hint = f"Give 2 to {MOST_LENGTHS}; a claim needs a range of 16 times."
        raise InputError(f"There {_are(len(found))}.", where="--lengths", hint=hint)
    return tuple(sorted(found))


def _are(count: int) -> str:
    return "is 1 length" if count == 1 else f"are {count} lengths"


def _length(text: str) -> int:
    if not _NUMBER.fullmatch(text.strip()) or not 1 <= int(text) <= LONGEST:
        hint = f"Write whole numbers from 1 to {LONGEST:,}."
        raise InputError(f"{text.strip()[:40]!r} is no length.", where="--lengths", hint=hint)
    return int(text)


def _further(last: int, end: int) -> tuple[int, ...]:
    """Return the lengths beyond the last, each twice the one before.

    >>> _further(1000, 5000)
    (2000, 4000)
    """
    return tuple(last * 2**i for i in range(1, max(end // last, 1).bit_length()))


def _claims(texts: Sequence[str], targets: Sequence[str]) -> "dict[tuple[str, str], Law]":
    """Return the law that is claimed of each target and quantity; what names a target goes before what does not."""
    found: dict[tuple[str, str], Law] = {}
    own: dict[tuple[str, str], Law] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        if colon and name.strip() not in targets:
            hint = f"The targets are {', '.join(targets)}."
            raise InputError(f"{name.strip()!r} is no target.", where="--claim", hint=hint)
        laws = read_claims(rest if colon else text)
        for target in [name.strip()] if colon else targets:
            for quantity, law in laws.items():
                table = own if colon else found
                if (target, quantity) in table:
                    message = f"The growth of {quantity} of {target} is claimed twice."
                    raise InputError(message, where="--claim", hint="Claim each quantity once.")
                table[target, quantity] = law
    assert all(quantity in QUANTITIES for _, quantity in found)
    return found | own


def _notes(specs: "Sequence[TargetSpec]") -> tuple[str, ...]:
    folders = [spec.name for spec in specs if spec.kind == "folder"]
    if not folders:
        return ()
    return (f"Weights of {', '.join(folders)} are drawn at random from config.json; no weight file is read.",)


def _cost(options: Options, inputs: Inputs) -> tuple[tuple[str, str], ...]:
    count = len(inputs.targets) * (len(inputs.lengths) + len(inputs.further))
    timed = len(inputs.targets) * len(inputs.lengths) * options.rounds
    seconds = count * _SECONDS_PER_COUNT + (options.budget_seconds if timed else 0)
    return (
        (
            "counts",
            f"{count:,} lengths of {len(inputs.targets)} targets, to {(inputs.further or inputs.lengths)[-1]:,}",
        ),
        ("timings", f"{timed:,} cells in {options.rounds} rounds"),
        ("time", f"at most about {seconds / 60:.1f} minutes" if timed else "seconds"),
        ("disk", "below 1 MB"),
    )


def _counted(options: Options, inputs: Inputs, context: Context) -> tuple[tuple[str, str], ...]:
    """Return what counting alone says, for `--dry-run`."""
    from audits.scaling.counting import count_all
    from audits.scaling.growth_fits import local_exponents

    counted = count_all(options, inputs.targets, inputs.lengths, inputs.further, context)
    exponents = tuple(
        (
            f"{target}, {quantity}",
            f"exponent {local_exponents(curve.n, curve.values[0])[-1]:.2f} at {curve.lengths[-1]:,} (counted)",
        )
        for (target, quantity, variable), curve in counted.curves.items()
        if variable == "length"
    )
    reasons = dict.fromkeys((one.target, one.reason) for one in counted.skipped_lengths)
    return (*exponents, *((f"{target}, left out", reason) for target, reason in reasons))
