"""`miles export RUN --to TARGET`: a report in the form of another tool."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from audits import exports
from audits.errors import InputError
from audits.records import Report
from audits.report_file import NAME, read_report
from miles_cli.writing import check_place, write

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
    tracking_uri: Annotated[
        str | None,
        typer.Option(
            "--tracking-uri", metavar="URI", help="mlflow: the store; default $MLFLOW_TRACKING_URI, ./mlruns."
        ),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help=f"mlflow: the experiment; default {EXPERIMENT}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="mlflow: log a report that is there already again.")] = False,
) -> None:
    """Put a report into a form of another tool: MLflow, a model card, JUnit or in-toto."""
    values = {
        "--out": out,
        "--only": only,
        "--section-only": section_only,
        "--card": card,
        "--tracking-uri": tracking_uri,
        "--experiment": experiment,
        "--force": force,
    }
    target = exports.find(to, tuple(name for name, value in values.items() if value))
    report = read_report(run)
    file = run / NAME if run.is_dir() else run
    for option, place in (("--out", out), ("--card", card)):
        if place is not None:
            check_place(place, option, [run])
    if target.name == "mlflow":
        _to_mlflow(report, file, tracking_uri, experiment or EXPERIMENT, force)
    elif card is not None:
        if out is not None or section_only:
            raise InputError(
                "--card changes a card: there is nothing else to write.",
                where="--card",
                hint="Leave out --out and --section-only.",
            )
        _into_card(report, card, only or [])
    else:
        _written(_text(target.name, report, file, only or [], section_only), out)


def _text(target: str, report: Report, file: Path, only: list[str], section_only: bool) -> str:
    if target == "junit":
        from audits.exports.junit import to_junit

        return to_junit(report)
    if target == "in-toto":
        import hashlib

        from audits.exports.in_toto import plain_hashes, to_in_toto

        return to_in_toto(report, hashlib.sha256(file.read_bytes()).hexdigest(), plain_hashes(report))
    from audits.exports import cards, model_card

    head = "" if section_only else cards.front_matter(report, model_card.result(report, only))
    return head + ("\n" if head else "") + model_card.section(report, only)


def _written(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    write(out, text)
    typer.echo(f"Written: {out}")


def _into_card(report: Report, card: Path, only: list[str]) -> None:
    from audits.exports import cards, model_card

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
    new = cards.merge(held, report, model_card.result(report, only), model_card.section(report, only))
    if new == held:
        typer.echo(f"Nothing changed: {card}")
        return
    write(card, new)
    typer.echo(f"Written: {card}")


def _to_mlflow(report: Report, file: Path, store: str | None, experiment: str, force: bool) -> None:
    # MLflow prints what it likes, and stdout is for our own line.
    with contextlib.redirect_stdout(sys.stderr):
        from audits.exports.mlflow import log

        logged = log(report, file, store=store, experiment=experiment, force=force)
    if not logged.is_new:
        typer.echo(f"It is there already: run {logged.run} in experiment {experiment}. --force logs it again.")
        return
    said = (
        f"Logged: run {logged.run} in experiment {experiment}: {len(report.estimates)} estimates as {logged.metrics} "
    )
    said += f"metrics, {logged.settings} settings, {logged.files} files."
    if logged.cut:
        said += f" Cut, since they are too long for MLflow: {', '.join(logged.cut)}."
    if logged.missing:
        said += f" Not in the run folder: {', '.join(logged.missing)}."
    typer.echo(said)
