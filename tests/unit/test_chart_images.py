"""Are fields shown as they are, inside the chart, and is nothing else ever fetched?"""

import base64
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from audits.core.records import Figure, Report
from audits.report.charts import Picture, images
from audits.report.charts.images import MOST, data_uri
from audits.report.pages.figures import draw
from probes.core.errors import InputError


def opened(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_the_least_value_is_dark_and_the_largest_bright_row_by_row() -> None:
    image = opened(data_uri(np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0]]), 0.0, 1.0)).convert("RGB")
    assert image.size == (3, 2)
    assert image.getpixel((0, 0)) == (0x44, 0x01, 0x54) == image.getpixel((1, 1))
    assert image.getpixel((1, 0)) == (0xFD, 0xE7, 0x25) == image.getpixel((0, 1))


def test_values_beyond_the_ends_take_their_colours_and_a_flat_field_has_one() -> None:
    image = opened(data_uri(np.array([[-5.0, 9.0]]), 0.0, 1.0)).convert("RGB")
    assert image.getpixel((0, 0)) == (0x44, 0x01, 0x54) and image.getpixel((1, 0)) == (0xFD, 0xE7, 0x25)
    assert len(opened(data_uri(np.ones((4, 4)), 1.0, 1.0)).convert("RGB").getcolors()) == 1


def test_a_fine_field_is_thinned() -> None:
    assert max(opened(data_uri(np.zeros((1000, 700)), 0.0, 1.0)).size) <= MOST


def test_titles_tell_the_ends_of_the_scale() -> None:
    spec = images([Picture("Input", np.array([[-1.0, 1.0]])), Picture("Error", np.zeros((2, 2)), (0.0, 0.25))])
    assert [panel["title"]["text"] for panel in spec["concat"]] == [["Input", "-1 to 1"], ["Error", "0 to 0.25"]]


def with_picture(report: Report, uri: str) -> Report:
    field = np.zeros((2, 2))
    text = json.dumps(images([Picture("Field", field)]))
    spec = json.loads(text.replace(data_uri(field, 0.0, 0.0), uri))
    assert uri in json.dumps(spec)
    figure = Figure(id="fields", title="t", caption="c", file="fields", spec=spec)
    return replace(report, figures=(figure,))


def test_a_picture_inside_the_chart_is_drawn(sample_report: Report) -> None:
    image = np.arange(16.0).reshape(4, 4)
    drawn = draw(with_picture(sample_report, data_uri(image, 0.0, 15.0)))["fields"]
    colours = Image.open(io.BytesIO(drawn.png)).convert("RGB").getcolors(2**20)
    assert colours is not None and len(colours) > 16


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """Serve on this machine and note every path that is asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


def test_a_picture_from_elsewhere_is_refused_and_not_asked_for(
    sample_report: Report, tmp_path: Path, asked: tuple[str, list[str]]
) -> None:
    address, paths = asked
    secret = tmp_path / "secret.png"
    Image.new("RGB", (4, 4), (255, 0, 0)).save(secret)
    for uri in (f"{address}/a.png", secret.as_uri(), str(secret), "data:image/svg+xml;base64,PHN2Zy8+"):
        with pytest.raises(InputError, match="cannot be drawn"):
            draw(with_picture(sample_report, uri))
    assert paths == []
