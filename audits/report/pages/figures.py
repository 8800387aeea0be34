"""The charts of a report as SVG and PNG, rendered from Vega-Lite with nothing fetched from anywhere.

The page draws the same specifications live under the same `CONFIG`, so that a figure looks alike in a paper.
"""

import json
import re
import textwrap
from dataclasses import dataclass
from typing import Any

from audits.core.records import Json, Report
from audits.report.charts.theme import CONFIG
from audits.report.pages.drawing import picture
from probes.core.errors import InputError

WIDTH = 640
"""Width in pixels of a figure in a file."""

BESIDE = 130
"""Pixels for labels and titles beside a chart whose inner width has to be given."""

LONGEST_UP = 22
"""Letters of a title along the y axis of a small panel, which stands beside others, or on a phone above them."""
MOST_PIXELS = 4000
"""Most pixels of a side, or of one step of it."""
MOST_VALUES = 100_000
"""Most values that a chart may contain or generate."""

PAPER = '<rect width="100%" height="100%" fill="white"/>'
"""Background of an SVG file; without one, a dark viewer shows black on black."""

_UNDRAWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that are invalid in XML: the rendering library aborts the process at one."""
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_IDENTIFIER = re.compile(r"""(\bid="|url\(#|href="#)([\w-]+)""")
_ASIDE = re.compile(r"""\s(?:aria-[a-z]+|role|class|xmlns(?::xlink)?|font-family|pointer-events)="[^"]*\"""")
_USUAL = re.compile(r"""\s(?:(?:stroke-)?opacity="1"|stroke-width="1"|[xy]2="0"|transform="translate\(0,0\)")""")
_EMPTY = re.compile(r"""<path d="(?:M0,0h0v0h0Z)?"(?: display="none")?/>""")


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure as an SVG for a file and a PNG of twice its size."""

    svg: str
    png: bytes


def draw(report: Report) -> dict[str, Picture]:
    """Draw every figure of a report; the keys are the stems of their files.

    Raises
    ------
    InputError
        Where a chart cannot be drawn, such as one that wants data from outside.
    """
    return {figure.file: picture_of(figure.spec, figure.id) for figure in report.figures}


def sized(spec: Json, width: int = WIDTH) -> Json:
    """Return a specification with its width in pixels, in all panels."""
    if "facet" in spec and isinstance(spec.get("spec"), dict):
        named = spec.get("columns")
        columns = named if isinstance(named, int) and named > 0 else 1
        panel = (width - BESIDE // 2) // columns - 24
        inner = spec["spec"]
        layers = [_short(one) for one in inner["layer"]] if isinstance(inner.get("layer"), list) else None
        shaped = {**spec, "spec": {**inner, "width": panel, **({} if layers is None else {"layer": layers})}}
        return _own_axes(shaped) if _unfilled(spec, columns) else shaped
    if isinstance(spec.get("vconcat"), list):
        return {**spec, "vconcat": [{**view, "width": width - BESIDE} for view in spec["vconcat"]]}
    if spec.get("width") == "container":
        return {**spec, "width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    return spec


def _unfilled(spec: Json, columns: int) -> bool:
    """Tell whether small multiples leave places of their last row empty."""
    steps = spec["facet"].get("sort") if isinstance(spec["facet"], dict) else None
    return isinstance(steps, list) and len(steps) > columns and len(steps) % columns > 0


def _own_axes(spec: Json) -> Json:
    """Return small multiples each with its own axis along x: a shared one would stand under the empty places too."""
    resolve = spec.get("resolve") or {}
    return {**spec, "resolve": {**resolve, "axis": {**resolve.get("axis", {}), "x": "independent"}}}


def _short(layer: Any) -> Any:
    """Return a layer of a small panel whose title along y is no longer than the panel is high, in lines."""
    encoding = _part(layer, "encoding")
    up = _part(encoding, "y")
    axis = _part(up, "axis")
    title = axis.get("title")
    if not isinstance(title, str) or len(title) <= LONGEST_UP:
        return layer
    lines = {**axis, "title": textwrap.wrap(title, LONGEST_UP)}
    return {**layer, "encoding": {**encoding, "y": {**up, "axis": lines}}}


def _part(holder: Any, name: str) -> Json:
    found = holder.get(name) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}


def for_page(svg: str) -> str:
    """Return an SVG for a page: no background, fonts or ARIA labels, nothing said that holds anyway, fewer digits."""
    bare = _EMPTY.sub("", _USUAL.sub("", _ASIDE.sub("", svg.replace(PAPER, ""))))
    return _NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), bare)


def picture_of(spec: Json, name: str) -> Picture:
    """Draw one chart.

    Raises
    ------
    InputError
        Where it cannot be drawn.
    """
    _check_size(spec, name)
    # Sorted, as in report.json: legends and scales depend on the order of keys, which a fresh report has otherwise.
    ordered = json.loads(json.dumps(drawable(sized(spec)), sort_keys=True))
    try:
        svg, png = picture(ordered, CONFIG)
    except ValueError as error:
        raise _refused(str(error), name) from error
    return Picture(_renamed(svg, name).replace(">", ">" + PAPER, 1), png)


def _refused(why: str, name: str) -> InputError:
    # Drop the library's stack trace, whose lines begin with "at".
    reason = " ".join(why.split("\n    at ", 1)[0].split())
    return InputError(
        f"The chart cannot be drawn: {reason[:200]}",
        where=f"figure {name}",
        hint="Its specification must be Vega-Lite with its data inside.",
    )


def _check_size(spec: Json, name: str) -> None:
    """Refuse a chart with too many pixels or values."""
    left: list[Any] = [spec]
    values = 0
    while left:
        part = left.pop()
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            if key in ("values", "datasets", "usermeta"):
                # Do not look for settings of the chart in its data.
                values += len(value) if key == "values" and isinstance(value, list | tuple) else 0
            elif isinstance(value, dict | list | tuple):
                left.append(value)
            values += _steps(value) if key == "sequence" and isinstance(value, dict) else 0
            if key in ("width", "height"):
                size = value.get("step") if isinstance(value, dict) else value
                if isinstance(size, int | float) and size > MOST_PIXELS:
                    raise _refused(f"its {key} is {size:,} pixels, at most {MOST_PIXELS:,} are drawn.", name)
    if values > MOST_VALUES:
        raise _refused(f"it holds {values:,} values, at most {MOST_VALUES:,} are drawn.", name)


def _steps(sequence: Json) -> int:
    """Return the number of values that a sequence generator makes."""
    start, stop, step = (sequence.get(key, usual) for key, usual in (("start", 0), ("stop", 0), ("step", 1)))
    if not all(isinstance(number, int | float) for number in (start, stop, step)) or not step:
        return 0
    try:
        return max(0, int((stop - start) / step))
    except OverflowError:
        return MOST_VALUES + 1


def drawable(value: Any) -> Any:
    """Return a specification without characters that no picture can hold."""
    if isinstance(value, str):
        return _UNDRAWABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {drawable(key): drawable(item) for key, item in value.items()}
    return [drawable(item) for item in value] if isinstance(value, list | tuple) else value


def _renamed(svg: str, name: str) -> str:
    """Renumber the names inside an SVG per figure, since the library counts on from one chart to the next."""
    names: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        return found[1] + names.setdefault(found[2], f"{name}-{len(names)}")

    return _IDENTIFIER.sub(rename, svg)
