"""The pages of a run: report.md, report.html and the figures, made from the report alone."""

from pathlib import Path

from audits.core.records import Report


def write_pages(report: Report, folder: Path) -> None:
    """Write figures/*.svg and *.png, report.md and report.html into a run folder, each in one step.

    Equal reports give equal bytes.

    Raises
    ------
    InputError
        Where a figure's specification cannot be drawn.
    """
    from audits.report.pages.content import canonical
    from audits.report.pages.figures import draw
    from audits.report.pages.html import to_html
    from audits.report.pages.markdown import to_markdown
    from audits.report.report_file import write_bytes, write_text

    report = canonical(report)
    pictures = draw(report)
    if pictures:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    for stem, picture in pictures.items():
        write_text(folder / "figures" / f"{stem}.svg", picture.svg)
        write_bytes(folder / "figures" / f"{stem}.png", picture.png)
    write_text(folder / "report.md", to_markdown(report))
    write_text(folder / "report.html", to_html(report, {stem: picture.svg for stem, picture in pictures.items()}))
