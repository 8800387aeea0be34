"""`miles export RUN --to TARGET`: a report in the form of another tool."""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from audits.core.errors import InputError
from audits.core.records import Report
from audits.report import exports
from audits.report.records_file import NAMES as RECORDS
from audits.report.records_file import records_file
from audits.report.report_file import NAME, read_report
from miles_cli.writing import check_path, to_stdout, write

EXPERIMENT = "miles"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable by which GitHub Actions names the file of a step's summary."""
MOST_CARD = 2**24


# The arguments, apart from the function: their help is longer than what it does.
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or its report.json.")]
To = Annotated[str, typer.Option("--to", metavar="|".join(target.name for target in exports.TARGETS), help="The form.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Where to write it. Default: stdout; of github, the summary of the job.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="ESTIMATE",
        help="model-card, cyclonedx, every-eval-ever: estimates to show, as in a gate: 'gap\\[by=accent]'; repeatable.",
    ),
]
SectionOnly = Annotated[bool, typer.Option("--section-only", help="model-card: the section without the front matter.")]
Card = Annotated[Path | None, typer.Option("--card", metavar="FILE", help="model-card: put it into this card.")]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model-name",
        metavar="NAME",
        help="model-card, cyclonedx, every-eval-ever: the model's name. Default: as in the report.",
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="model-card, cyclonedx, every-eval-ever: the one of several systems that it is about.",
    ),
]
Evaluator = Annotated[
    str | None,
    typer.Option("--evaluator", metavar="NAME", help="every-eval-ever: the organization that ran the audit."),
]
Relationship = Annotated[
    str | None,
    typer.Option(
        "--relationship",
        metavar="|".join(exports.RELATIONSHIPS),
        help="every-eval-ever: what the evaluator is to the makers of the model.",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri", metavar="URI", help="mlflow: the store. Default: $MLFLOW_TRACKING_URI, or as MLflow."
    ),
]
Experiment = Annotated[
    str | None, typer.Option("--experiment", metavar="NAME", help=f"mlflow: the experiment. Default: {EXPERIMENT}.")
]
NoRecords = Annotated[bool, typer.Option("--no-records", help="mlflow: leave records.csv, or records.parquet, out.")]
Force = Annotated[bool, typer.Option("--force", help="mlflow: log a report that is there already again.")]
ProblemsOnly = Annotated[
    bool,
    typer.Option("--problems-only", help="sarif: without gates that passed and findings for information."),
]


def command(
    run: Run,
    to: To,
    out: Out = None,
    only: Only = None,
    section_only: SectionOnly = False,
    card: Card = None,
    model_name: ModelName = None,
    system: System = None,
    evaluator: Evaluator = None,
    relationship: Relationship = None,
    tracking_uri: TrackingUri = None,
    experiment: Experiment = None,
    no_records: NoRecords = False,
    force: Force = False,
    problems_only: ProblemsOnly = False,
) -> None:
    """Export a report to another tool, such as MLflow, a model card, JUnit, SARIF, CycloneDX or in-toto."""
    values = {
        "--out": out,
        "--only": only,
        "--section-only": section_only,
        "--card": card,
        "--model-name": model_name is not None,
        "--system": system is not None,
        "--evaluator": evaluator is not None,
        "--relationship": relationship is not None,
        "--tracking-uri": tracking_uri,
        "--experiment": experiment,
        "--no-records": no_records,
        "--force": force,
        "--problems-only": problems_only,
    }
    target = exports.find(to, tuple(name for name, value in values.items() if value))
    report = read_report(run)
    file = run / NAME if run.is_dir() else run
    for option, path in (("--out", out), ("--card", card)):
        if path is not None:
            check_path(path, option, [run])
            _check_inputs(path, option, report)
    if target.name == "mlflow":
        _to_mlflow(report, file, tracking_uri, experiment or EXPERIMENT, force=force, records=not no_records)
    elif target.name == "github":
        _to_github(report, run, out)
    elif card is not None:
        if out is not None or section_only:
            raise InputError(
                "--card changes a card: there is nothing else to write.",
                where="--card",
                hint="Leave out --out and --section-only.",
            )
        _into_card(report, card, only or [], _name(model_name), system)
    elif target.name == "model-card":
        _to_card(report, out, only or [], _name(model_name), section_only, system)
    elif target.name == "cyclonedx":
        _to_cyclonedx(report, file, out, only=only or [], system=system, name=_name(model_name))
    elif target.name == "every-eval-ever":
        by = (evaluator, relationship)
        _to_every_eval_ever(report, file, out, by, only=only or [], system=system, name=_name(model_name))
    else:
        _written(_text(target.name, report, file, problems_only), out)


def _text(target: str, report: Report, file: Path, problems_only: bool) -> str:
    if target == "junit":
        from audits.report.exports.junit import to_junit

        return to_junit(report)
    from audits.report.exports.in_toto import plain_hashes, to_in_toto

    digest, plain = _digest(file), plain_hashes(report)
    if target == "sarif":
        from audits.report.exports.sarif import to_sarif

        location, root = str(file.absolute()), str(Path.cwd())
        return to_sarif(report, digest, plain, file=location, root=root, problems_only=problems_only)
    return to_in_toto(report, digest, plain)


def _to_github(report: Report, run: Path, out: Path | None) -> None:
    """Write the summary where it was asked for, else to the job's own, else to stdout; then print the annotations."""
    from audits.report.exports.github import LEAST_BYTES, MOST_BYTES, annotations, summary

    named = os.environ.get(STEP_SUMMARY, "")
    if out is not None:
        _written(summary(report), out)
    elif named:
        step_summary = Path(named)
        check_path(step_summary, STEP_SUMMARY, [run])
        held = step_summary.stat().st_size if step_summary.exists() else 0
        if MOST_BYTES - held < LEAST_BYTES:
            typer.echo(f"The summary of this step holds {held:,} bytes: there is no room for another report.")
        else:
            with step_summary.open("a", encoding="utf-8", newline="\n") as file:
                file.write(("\n\n" if held else "") + summary(report, MOST_BYTES - held - 2))
    else:
        to_stdout(f"{summary(report)}\n")
    for command in annotations(report):
        to_stdout(f"{command}\n")


def _check_inputs(path: Path, option: str, report: Report) -> None:
    """Refuse to write over what the run was made of: its model, its data, its registration."""
    names = [one.path for one in (report.subject, *report.data) if one is not None]
    names += [report.registration.file] if report.registration is not None else []
    for name in names:
        # A name of another machine may be none of this one.
        with contextlib.suppress(OSError, ValueError):
            if path.samefile(name):
                raise InputError(
                    "The run was made of this file, and it would be lost.",
                    where=f"{option} {path}",
                    hint="Name another file.",
                )


def _digest(file: Path) -> str:
    import hashlib

    return hashlib.sha256(file.read_bytes()).hexdigest()


def _to_cyclonedx(
    report: Report, file: Path, out: Path | None, *, only: list[str], system: str | None, name: str | None
) -> None:
    from audits.report.exports.cyclonedx import to_cyclonedx
    from audits.report.exports.in_toto import plain_hashes

    made = to_cyclonedx(report, _digest(file), plain_hashes(report), only=only, system=system, name=name)
    data = "data alone, since the run names no model; --system or --model-name does"
    _written(made.text, out, f"; about {data if made.model is None else made.model}")


def _to_every_eval_ever(
    report: Report,
    file: Path,
    out: Path | None,
    by: tuple[str | None, str | None],
    *,
    only: list[str],
    system: str | None,
    name: str | None,
) -> None:
    from audits.core.numbers import counted
    from audits.report.exports.every_eval_ever import evaluator, to_every_eval_ever

    made = to_every_eval_ever(report, _digest(file), evaluator(*by), only=only, system=system, name=name)
    more = f"; {counted(made.results, 'results')} of {made.model}"
    if made.left_out:
        more += f"; {made.left_out} left out, since less of them is neither better nor worse"
    _written(made.text, out, more)


def _written(text: str, out: Path | None, more: str = "") -> None:
    if out is None:
        to_stdout(text)
        return
    write(out, text)
    typer.echo(f"Written: {out}{more}")


def _name(given: str | None) -> str | None:
    from audits.report.exports.wording import line

    if given is not None and not line(given):
        raise InputError("This is no name.", where="--model-name", hint="Give the name of the model.")
    return None if given is None else line(given)


def _under(report: Report, owner: str | None, only: list[str], system: str | None) -> str:
    from audits.report.exports.subjects import listed, systems
    from audits.report.exports.wording import chosen

    if owner is None:
        return "; no results: none carries a finding or a gate"
    held = systems(report, chosen(report, only)) if system is None else []
    several = f", those of {len(held)} systems ({listed(held)}); --system takes one alone" if len(held) > 1 else ""
    return f"; results under the name {owner}{several}"


def _to_card(
    report: Report, out: Path | None, only: list[str], name: str | None, section_only: bool, system: str | None
) -> None:
    from audits.report.exports import cards, model_card

    if section_only:
        if name is not None:
            raise InputError(
                "A section alone holds no results that could stand under a name.",
                where="--model-name",
                hint="Leave out --model-name, or --section-only.",
            )
        _written(model_card.section(report, only, system), out)
        return
    head, owner = cards.front_matter(report, model_card.result(report, only, system), _named_by(name, system))
    section = model_card.section(report, only, system)
    _written(head + ("\n" if head else "") + section, out, _under(report, owner, only, system))


def _named_by(name: str | None, system: str | None) -> str | None:
    """Return the name that was given, or else the system that was asked for."""
    return name if name is not None or system is None else _name(system)


def _into_card(report: Report, card: Path, only: list[str], name: str | None, system: str | None) -> None:
    from audits.report.exports import cards, model_card

    if not card.is_file():
        raise InputError("There is no card here.", where=f"--card {card}", hint="Write one: --out instead of --card.")
    if card.stat().st_size > MOST_CARD:
        raise InputError(
            f"A card of more than {MOST_CARD >> 20} MiB is none.",
            where=f"--card {card}",
            hint="Name the README.md of the model.",
        )
    try:
        with card.open(encoding="utf-8", newline="") as text:
            held = text.read()
    except UnicodeDecodeError as error:
        raise InputError("The card is no UTF-8.", where=f"--card {card}", hint="Save it as UTF-8.") from error
    section = model_card.section(report, only, system)
    results = model_card.result(report, only, system)
    new, owner = cards.merge(held, report, results, section, _named_by(name, system))
    under = _under(report, owner, only, system)
    if new == held:
        typer.echo(f"Nothing changed: {card}{under}")
        return
    _written(new, card, under)


def _to_mlflow(report: Report, file: Path, store: str | None, experiment: str, *, force: bool, records: bool) -> None:
    # MLflow prints what it likes, and stdout is for our own line.
    with contextlib.redirect_stdout(sys.stderr):
        from audits.report.exports.mlflow import log

        logged = log(report, file, store=store, experiment=experiment, force=force, records=records)
    if not logged.is_new:
        held = records_file(file.parent).name
        kept = "" if records else f" Its files stay as they are, {held} too where it holds it."
        typer.echo(f"It is there already: run {logged.run} in experiment {experiment}. --force logs it again.{kept}")
        return
    message = (
        f"Logged: run {logged.run} in experiment {experiment}: {len(report.estimates)} estimates as {logged.metrics} "
    )
    message += f"metrics, {logged.settings} settings, {len(logged.files)} files: {_named(logged.files)}."
    for name in set(RECORDS) & set(logged.files):
        message += f" {name} holds rows about people or items; --no-records leaves it out."
    if logged.beside:
        message += f" They are in {logged.beside}."
    if logged.cut:
        message += f" Cut, since they are too long for MLflow: {', '.join(logged.cut)}."
    if logged.missing:
        message += f" Not in the run folder: {', '.join(logged.missing)}."
    typer.echo(message)


def _named(files: Sequence[str]) -> str:
    pages = [name for name in files if "/" not in name]
    pictures = len(files) - len(pages)
    return ", ".join([*pages, *([f"{pictures} in figures/"] if pictures else [])])
