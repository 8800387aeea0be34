"""`miles export RUN --to TARGET`: a report in the form of another tool."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from audits.core.errors import InputError
from audits.core.records import Report
from audits.report import exports
from audits.report.report_file import NAME, read_report
from miles_cli.writing import check_path, to_stdout, write

EXPERIMENT = "miles"
MOST_CARD = 2**24


def command(
    run: Annotated[Path, typer.Argument(help="Run folder, or its report.json.")],
    to: Annotated[
        str, typer.Option("--to", metavar="|".join(target.name for target in exports.TARGETS), help="The form.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write it; without, it goes to stdout.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="model-card: estimates to show, as in a gate: 'gap\\[by=accent]'."),
    ] = None,
    section_only: Annotated[
        bool, typer.Option("--section-only", help="model-card: the section without the front matter.")
    ] = False,
    card: Annotated[
        Path | None, typer.Option("--card", metavar="FILE", help="model-card: put it into this card.")
    ] = None,
    model_name: Annotated[
        str | None,
        typer.Option("--model-name", metavar="NAME", help="model-card: the model's name; default as in the report."),
    ] = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(
            "--tracking-uri", metavar="URI", help="mlflow: the store; default $MLFLOW_TRACKING_URI, ./mlruns."
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help=f"mlflow: the experiment; default {EXPERIMENT}.")
    ] = None,
    no_records: Annotated[bool, typer.Option("--no-records", help="mlflow: leave records.csv out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="mlflow: log a report that is there already again.")] = False,
) -> None:
    """Export a report to another tool: MLflow, a model card, JUnit or in-toto."""
    values = {
        "--out": out,
        "--only": only,
        "--section-only": section_only,
        "--card": card,
        "--model-name": model_name is not None,
        "--tracking-uri": tracking_uri,
        "--experiment": experiment,
        "--no-records": no_records,
        "--force": force,
    }
    target = exports.find(to, tuple(name for name, value in values.items() if value))
    report = read_report(run)
    file = run / NAME if run.is_dir() else run
    for option, path in (("--out", out), ("--card", card)):
        if path is not None:
            check_path(path, option, [run])
    if target.name == "mlflow":
        _to_mlflow(report, file, tracking_uri, experiment or EXPERIMENT, force=force, records=not no_records)
    elif card is not None:
        if out is not None or section_only:
            raise InputError(
                "--card changes a card: there is nothing else to write.",
                where="--card",
                hint="Leave out --out and --section-only.",
            )
        _into_card(report, card, only or [], _name(model_name))
    elif target.name == "model-card":
        _to_card(report, out, only or [], _name(model_name), section_only)
    else:
        _written(_text(target.name, report, file), out)


def _text(target: str, report: Report, file: Path) -> str:
    if target == "junit":
        from audits.report.exports.junit import to_junit

        return to_junit(report)
    import hashlib

    from audits.report.exports.in_toto import plain_hashes, to_in_toto

    return to_in_toto(report, hashlib.sha256(file.read_bytes()).hexdigest(), plain_hashes(report))


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


def _under(owner: str | None) -> str:
    return "; no results: none carries a finding or a gate" if owner is None else f"; results under the name {owner}"


def _to_card(report: Report, out: Path | None, only: list[str], name: str | None, section_only: bool) -> None:
    from audits.report.exports import cards, model_card

    if section_only:
        if name is not None:
            raise InputError(
                "A section alone holds no results that could stand under a name.",
                where="--model-name",
                hint="Leave out --model-name, or --section-only.",
            )
        _written(model_card.section(report, only), out)
        return
    head, owner = cards.front_matter(report, model_card.result(report, only), name)
    _written(head + ("\n" if head else "") + model_card.section(report, only), out, _under(owner))


def _into_card(report: Report, card: Path, only: list[str], name: str | None) -> None:
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
    section = model_card.section(report, only)
    new, owner = cards.merge(held, report, model_card.result(report, only), section, name)
    if new == held:
        typer.echo(f"Nothing changed: {card}{_under(owner)}")
        return
    _written(new, card, _under(owner))


def _to_mlflow(report: Report, file: Path, store: str | None, experiment: str, *, force: bool, records: bool) -> None:
    # MLflow prints what it likes, and stdout is for our own line.
    with contextlib.redirect_stdout(sys.stderr):
        from audits.report.exports.mlflow import RECORDS, log

        logged = log(report, file, store=store, experiment=experiment, force=force, records=records)
    if not logged.is_new:
        kept = "" if records else f" Its files stay as they are, {RECORDS} too where it holds it."
        typer.echo(f"It is there already: run {logged.run} in experiment {experiment}. --force logs it again.{kept}")
        return
    message = (
        f"Logged: run {logged.run} in experiment {experiment}: {len(report.estimates)} estimates as {logged.metrics} "
    )
    message += f"metrics, {logged.settings} settings, {len(logged.files)} files: {_named(logged.files)}."
    if RECORDS in logged.files:
        message += f" {RECORDS} holds rows about people or items; --no-records leaves it out."
    if logged.cut:
        message += f" Cut, since they are too long for MLflow: {', '.join(logged.cut)}."
    if logged.missing:
        message += f" Not in the run folder: {', '.join(logged.missing)}."
    typer.echo(message)


def _named(files: Sequence[str]) -> str:
    pages = [name for name in files if "/" not in name]
    pictures = len(files) - len(pages)
    return ", ".join([*pages, *([f"{pictures} in figures/"] if pictures else [])])
