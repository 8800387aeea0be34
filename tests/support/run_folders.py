"""What stands in the folder of a finished run: its report, its records, its files."""

import csv
import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]

WITHOUT_PAGES = """
from audits.report import pages
from miles_cli.main import main

pages.write_pages = lambda report, folder: None
main()
"""
"""The command without the pages of its report, which come from the report alone and take longer than a small run."""


def strict(text: str) -> Any:
    """Read JSON that holds no NaN and no infinity, which the encoder of JSON would write."""

    def refuse(name: str) -> None:
        raise AssertionError(f"the report holds {name}")

    return json.loads(text, parse_constant=refuse)


def read(folder: Path) -> Row:
    """Return report.json."""
    report: Row = strict((folder / "report.json").read_text(encoding="utf-8"))
    return report


def stripped(folder: Path, *without: str) -> str:
    """Return report.json, letter by letter, without the parts in which equal runs may differ."""
    left_out = ("created", "provenance", *without)
    return json.dumps({key: value for key, value in read(folder).items() if key not in left_out})


def estimates(folder: Path, name: str, **where: object) -> list[Row]:
    """Return the estimates of a name that have these coordinates."""
    return [
        row
        for row in read(folder)["estimates"]
        if row["name"] == name and all(row["where"].get(key) == value for key, value in where.items())
    ]


def records(folder: Path) -> list[dict[str, str]]:
    """Return the rows of records.csv."""
    with (folder / "records.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> set[str]:
    """Return the names of all files."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def pictures_of(report: Any, folder: Path) -> dict[str, Any]:
    """Return the pictures that a run has already: drawing them once more takes most of the time of a page."""
    from audits.report.pages.figures import Picture

    places = {figure.file: folder / "figures" / figure.file for figure in report.figures}
    return {
        stem: Picture(path.with_suffix(".svg").read_text(encoding="utf-8"), path.with_suffix(".png").read_bytes())
        for stem, path in places.items()
    }


def estimate(folder: Path, name: str, **where: object) -> Row:
    """Return the one estimate of a name that has these coordinates."""
    (row,) = estimates(folder, name, **where)
    return row


def value(folder: Path, name: str, **where: object) -> float:
    """Return the value of the one estimate of a name that has these coordinates."""
    return float(estimate(folder, name, **where)["value"])


def found(folder: Path) -> dict[str, list[Row]]:
    """Return the findings by their ids."""
    kinds: dict[str, list[Row]] = {}
    for finding in read(folder)["findings"]:
        kinds.setdefault(finding["id"], []).append(finding)
    return kinds


def warned(folder: Path) -> dict[str, str]:
    """Return the messages of the warnings by their ids."""
    return {warning["id"]: warning["message"] for warning in read(folder)["warnings"]}
