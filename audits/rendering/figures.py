"""How do the charts of a report become pictures? Vega-Lite to SVG and PNG, with nothing fetched from anywhere.

The page draws the same specifications live under the same `CONFIG`, so that a figure looks alike in a paper.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from audits.records import Json, Report
from probes.errors import InputError

WIDTH = 640
"""Width in pixels of a figure in a file."""

BESIDE = 130
"""Pixels that labels and titles take beside a chart whose inner width must be named."""

CONFIG: Json = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    },
    "axisX": {"labelFlush": False},
    "header": {"labelColor": "currentColor", "labelFontSize": 12, "labelFontWeight": 600},
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "titleLimit": 0,
    },
    "text": {"color": "currentColor"},
    "title": {"color": "currentColor", "fontSize": 13, "fontWeight": 600},
    "view": {"stroke": None},
}
"""Looks without a colour of their own: text and lines take the colour of the page around them."""

PAPER = '<rect width="100%" height="100%" fill="white"/>'
"""The ground of an SVG file, without which a dark viewer shows black on black."""

_UNDRAWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that no XML may hold: the library that draws ends the whole process at one."""
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_IDENTIFIER = re.compile(r"""(\bid="|url\(#|href="#)([\w-]+)""")
_ASIDE = re.compile(r"""\s(?:aria-[a-z]+|role|class|xmlns(?::xlink)?)="[^"]*\"""")


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure as a file-ready SVG and a PNG of twice its size."""

    svg: str
    png: bytes


INSIDE = "data:image/png;base64,"
"""How the address of a picture begins that travels inside the chart."""
_ADDRESS = re.compile(r"""(?:xlink:)?href\s*=\s*["']([^"']*)["']""")


def draw(report: Report) -> dict[str, Picture]:
    """Draw every figure of a report; the keys are the stems of their files.

    Raises
    ------
    InputError
        Where a chart cannot be drawn, such as one that wants data from outside.
    """
    return {figure.file: _picture(figure.spec, figure.id) for figure in report.figures}


def sized(spec: Json, width: int = WIDTH) -> Json:
    """Return a specification whose width is named in pixels, in all its panels."""
    if "facet" in spec and isinstance(spec.get("spec"), dict):
        named = spec.get("columns")
        columns = named if isinstance(named, int) and named > 0 else 1
        panel = (width - BESIDE // 2) // columns - 24
        return {**spec, "spec": {**spec["spec"], "width": panel}}
    if isinstance(spec.get("vconcat"), list):
        return {**spec, "vconcat": [{**view, "width": width - BESIDE} for view in spec["vconcat"]]}
    if spec.get("width") == "container":
        return {**spec, "width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    return spec


def for_page(svg: str) -> str:
    """Return an SVG to put into a page: no ground of its own, no spoken labels, coordinates to the hundredth."""
    bare = _ASIDE.sub("", svg.replace(PAPER, ""))
    return _NUMBER.sub(lambda met: f"{float(met[0]):.2f}".rstrip("0").rstrip("."), bare)


def _picture(spec: Json, name: str) -> Picture:
    import vl_convert

    # One order of keys: legends and scales follow it, and report.json sorts while a fresh report does not.
    ordered = json.loads(json.dumps(_drawable(sized(spec)), sort_keys=True))
    # An empty list of addresses: a specification from elsewhere must not make this machine fetch anything. It does not
    # hold for images, whose addresses stand in the SVG before anything follows them.
    shared: dict[str, Any] = {"allowed_base_urls": []}
    try:
        svg = vl_convert.vegalite_to_svg(ordered, config=CONFIG, **shared)
        if any(not address.startswith(INSIDE) for address in _ADDRESS.findall(svg)):
            raise ValueError("it shows an image from outside")
        png = vl_convert.vegalite_to_png(ordered, config={**CONFIG, "background": "white"}, scale=2, **shared)
    except ValueError as error:
        raise InputError(
            f"The chart cannot be drawn: {' '.join(str(error).split())[:200]}",
            where=f"figure {name}",
            hint="Its specification must be Vega-Lite with its data inside.",
        ) from error
    return Picture(_renamed(svg, name).replace(">", ">" + PAPER, 1), png)


def _drawable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNDRAWABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_drawable(key): _drawable(item) for key, item in value.items()}
    return [_drawable(item) for item in value] if isinstance(value, list | tuple) else value


def _renamed(svg: str, name: str) -> str:
    """Number the names inside an SVG from its figure: the library counts on from one chart to the next."""
    met: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        return found[1] + met.setdefault(found[2], f"{name}-{len(met)}")

    return _IDENTIFIER.sub(rename, svg)
