"""Fields as images inside a chart, each with its own scale, small enough for a page."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Json
from audits.report.charts.marks import layer
from audits.report.charts.theme import COLUMNS, SCHEMA

SIDE = 150
"""Side of a picture in pixels of the page; with their titles three stand side by side on a desktop."""
MOST = 160
"""Points on a side that are drawn; of a finer field every so many-th."""
_VIRIDIS = (
    "440154",
    "482475",
    "414487",
    "355f8d",
    "2a788e",
    "21908d",
    "22a884",
    "42be71",
    "7ad151",
    "bddf26",
    "fde725",
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A field of shape (rows, columns) with its title; `ends` are the values of the first and the last colour.

    Without ends, the least and the largest value.
    """

    title: str
    values: NDArray[np.float64]
    ends: tuple[float, float] | None = None


def images(shown: Sequence[Picture]) -> Json:
    """Draw fields side by side, the first axis downwards; under each title the values of darkest and brightest."""
    panels = []
    for picture in shown:
        low, high = picture.ends or (float(picture.values.min()), float(picture.values.max()))
        row = {"x": 0, "y": 0, "picture": data_uri(picture.values, low, high)}
        title = {"text": [picture.title, f"{low:.3g} to {high:.3g}"], "anchor": "start", "fontSize": 12}
        middle = {"type": "quantitative", "axis": None, "scale": {"domain": [-1, 1]}}
        url = {"field": "picture", "type": "nominal"}
        encoding = {"x": {"field": "x", **middle}, "y": {"field": "y", **middle}, "url": url}
        image = layer("image", encoding, rows=[row], width=SIDE, height=SIDE)
        panels.append({**image, "width": SIDE, "height": SIDE, "title": title})
    return {"$schema": SCHEMA, "concat": panels, "columns": COLUMNS}


def data_uri(values: NDArray[np.float64], low: float, high: float) -> str:
    """Return a field as a PNG in the colours of viridis, inside a URI.

    Examples
    --------
    >>> data_uri(np.zeros((2, 2)), 0.0, 1.0)[:22]
    'data:image/png;base64,'
    """
    from PIL import Image

    step = -(-max(values.shape) // MOST)
    spread = (values[::step, ::step] - low) / ((high - low) or 1.0)
    levels = np.round(np.clip(spread, 0.0, 1.0) * 255).astype(np.uint8)
    anchors = np.array([[int(code[start : start + 2], 16) for start in (0, 2, 4)] for code in _VIRIDIS], dtype=float)
    steps = np.linspace(0, len(anchors) - 1, 256)
    colours = np.stack([np.interp(steps, range(len(anchors)), anchors[:, band]) for band in range(3)], axis=1)
    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    image.putpalette(np.round(colours).astype(np.uint8).tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
