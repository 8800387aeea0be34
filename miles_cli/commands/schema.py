"""`miles schema`: the JSON Schema that every report.json keeps to."""

import json

import typer

from audits.report.report_file import schema


def command() -> None:
    """Print the JSON Schema of report.json."""
    typer.echo(json.dumps(schema(), indent=2))
