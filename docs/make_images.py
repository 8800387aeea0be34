"""Draw the pictures of these pages from finished runs of the demos, once for light and once for dark pages.

`python docs/make_images.py RUNS` looks for `RUNS/<command>/report.json` of each audit, such as `miles demo certify --out
RUNS/certify` leaves (for `lipschitz`, a run on the classifier of that demo), and writes `docs/images/NAME-light.png` and
`NAME-dark.png`. From `RUNS/audit-fairness/report.html` the first screen of the page is taken for the README, where
Chromium is installed. `miles render` makes that page anew first, if it is of an earlier revision.
"""

import base64
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import vl_convert
from PIL import Image

from audits.core import registry
from audits.report.charts.theme import CONFIG
from audits.report.pages.figures import drawable, sized

IMAGES = Path(__file__).with_name("images")
FIGURES = {
    "audit-fairness": "asr-layers",
    "audit-groups": "pairs",
    "audit-phonemes": "errors",
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
    drawn.convert("RGB").quantize(COLOURS).save(IMAGES / f"{name}.png", optimize=True)


def screens(page: Path) -> dict[str, Image.Image]:
    """Return the first screen of a page by scheme; none where there is no browser."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        return {}
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu"):
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
    """Draw what the folder has runs for, and say which are missing."""
    runs = Path(sys.argv[1])
    for entry in registry.AUDITS:
        report = runs / entry.name / "report.json"
        if not report.is_file():
            print(f"no {report}: its pictures stay", file=sys.stderr)
            continue
        name = entry.target.partition(":")[0].removeprefix("audits.")
        for scheme in INKS:
            save(chart(report, FIGURES[entry.name], scheme), f"{name}-{scheme}")
    page = runs / "audit-fairness" / "report.html"
    for scheme, screen in screens(page).items() if page.is_file() else ():
        save(screen, f"demo-{scheme}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
