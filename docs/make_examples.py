"""Put the pictures and the printed summaries of these pages anew, from finished runs of the demos.

`python docs/make_examples.py RUNS` looks for `RUNS/<command>/report.json` of each audit, such as `miles demo certify --out
RUNS/certify` leaves. It writes `docs/images/NAME-light.png` and `NAME-dark.png`, and on the tutorial what the terminal
shows, shortened, between `<!-- shown -->` and `<!-- /shown -->`. From `RUNS/audit-fairness/report.html` it takes the
first screen of the page for the README, where Chromium is installed. `miles render` makes a page of an earlier revision
anew. Last, it names the gates of the tutorials that do not end as the tutorial says.
"""

import base64
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vl_convert
from PIL import Image

from audits.core import gates, registry
from audits.core.records import Report
from audits.report.charts.theme import CONFIG
from audits.report.pages.figures import drawable, sized
from audits.report.pages.terminal import summarise
from audits.report.report_file import read_report

DOCS = Path(__file__).parent
FIGURES = {
    "audit-conditional": "ranks",
    "audit-fairness": "asr-layers",
    "audit-faithfulness": "trust",
    "audit-gradients": "cosine",
    "audit-groups": "pairs",
    "audit-phonemes": "errors",
    "audit-scaling": "growth",
    "audit-tracking": "accuracy",
    "certify": "certified-accuracy",
    "interference": "matrix",
    "lipschitz": "radii",
    "membership": "leakage",
    "precision-recall": "plane",
    "spectra": "errors",
}
"""The figure of each report that the pages show."""
WIDTH = 520
"""Width in pixels: letters stay legible in a card of the start page."""
INKS = {"light": "#1b1f24", "dark": "#e7eaee"}
GROUNDS = {"light": "#ffffff", "dark": "#14171b"}
"""Colours of text and of the page by scheme, as in docs/stylesheets/site.css: a picture has no edge that could be seen."""
COLOURS = 96
"""Colours of a picture: enough for charts, whose edges alone are smooth."""
SCREEN = (1200, 800)
"""Width and height of the picture of the page."""
FINDINGS, SENTENCES = 8, 2
"""How many findings, and how many sentences of each list, a tutorial shows."""

_PART = re.compile(r"(<!-- shown -->\n```text\n).*?(^```\n<!-- /shown -->)", re.MULTILINE | re.DOTALL)
_GATE = re.compile(r"^\| `([^`]+)` \| (pass|fail)(?:e?s) \|", re.MULTILINE)
_ENTRY = re.compile(r"^(?:[▲◆●○] |- )")


def chart(report: Path, figure: str, scheme: str) -> Image.Image:
    """Return a figure of a report in the colours of a scheme."""
    listed = json.loads(report.read_text(encoding="utf-8"))["figures"]
    spec = next(one["spec"] for one in listed if one["id"] == figure)
    inked = json.dumps([drawable(sized(spec, WIDTH)), {**CONFIG, "background": GROUNDS[scheme]}], sort_keys=True)
    ready, config = json.loads(inked.replace("currentColor", INKS[scheme]))
    png = vl_convert.vegalite_to_png(ready, config=config, scale=2, allowed_base_urls=[])
    return Image.open(io.BytesIO(png))


def save(drawn: Image.Image, name: str) -> None:
    """Write a picture with few colours."""
    drawn.convert("RGB").quantize(COLOURS).save(DOCS / "images" / f"{name}.png", optimize=True)


def shown(report: Path) -> str:
    """Return what the terminal shows of a run, from the answer on: the first findings, and of each list the first few."""
    from rich.console import Console

    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None, highlight=False)
    # The first part is the line with title and date.
    for part in summarise(read_report(report), folder=report.parent, width=80).renderables[1:]:
        console.print(part)
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    end = next(at for at, line in enumerate(lines) if line.startswith(("- Warning", "Report ")))
    return "\n".join(_shortened(lines[:end])).strip("\n") + "\n"


def _shortened(lines: list[str]) -> Iterator[str]:
    """Yield the lines without those of entries beyond the first few of their list."""
    count = 0
    for line in lines:
        if _ENTRY.match(line):
            count += 1
        elif not line.startswith(" "):
            count = 0
        most = SENTENCES if _listed(line, lines) else FINDINGS
        if count <= most:
            yield line
        elif count == most + 1 and _ENTRY.match(line):
            yield "[...]"


def _listed(line: str, lines: list[str]) -> bool:
    """Tell whether a line is of what may or may not be reported."""
    heads = [lines.index(head) for head in ("You may report", "Do not report") if head in lines]
    return bool(heads) and lines.index(line) > min(heads)


def wrong_gates(report: Path, tutorial: str) -> list[str]:
    """Return the gates of a tutorial that do not end on a report as its table says."""
    found = read_report(report)
    return [expression for expression, outcome in _GATE.findall(tutorial) if _outcome(expression, found) != outcome]


def _outcome(expression: str, report: Report) -> str:
    judged = gates.judge(gates.parse(expression), report.estimates, report.warnings, report.findings)
    return judged.outcome


def screens(page: Path) -> dict[str, Image.Image]:
    """Return the first screen of a page by scheme; none where there is no browser."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        return {}
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    opened: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        return {scheme: _screen(opened, page, scheme) for scheme in INKS}
    finally:
        opened.quit()


def _screen(opened: Any, page: Path, scheme: str) -> Image.Image:
    width, height = SCREEN
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    asked = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": asked})
    opened.get(page.resolve().as_uri())
    taken = opened.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return Image.open(io.BytesIO(base64.b64decode(taken["data"])))


def main() -> int:
    """Make what the folder has runs for, and say which are missing."""
    runs = Path(sys.argv[1])
    for entry in registry.AUDITS:
        report = runs / entry.name / "report.json"
        if not report.is_file():
            print(f"no {report}: its pictures and its tutorial stay", file=sys.stderr)
            continue
        name = entry.target.partition(":")[0].removeprefix("audits.")
        for scheme in INKS:
            save(chart(report, FIGURES[entry.name], scheme), f"{name}-{scheme}")
        tutorial = DOCS / "tutorials" / f"{name}.md"
        text = shown(report)
        old = tutorial.read_text(encoding="utf-8")
        new = _PART.sub(lambda found: found[1] + text + found[2], old)
        tutorial.write_text(new, encoding="utf-8")
        for gate in wrong_gates(report, new):
            print(f"{tutorial.name} is wrong about the gate {gate}", file=sys.stderr)
    page = runs / "audit-fairness" / "report.html"
    for scheme, screen in screens(page).items() if page.is_file() else ():
        save(screen, f"demo-{scheme}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
