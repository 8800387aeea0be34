"""Charts rendered in a contained child process, since the library runs whatever a specification asks it to.

The child is started with the first chart and draws those that follow, so that its start is paid once.
"""

import os
import re
import threading
from pathlib import Path
from typing import Any

from audits.core.records import Json
from probes.contained import ContainedError, LimitError, Limits, Session

INSIDE = "data:image/png;base64,"
"""Prefix of the address of an image embedded in the chart."""
LIMITS = Limits(memory=2**30, seconds=20)
"""Limits for rendering one chart as SVG and PNG, or compiling it."""
FONTS = ("/usr/share/fonts", "/usr/local/share/fonts", "/etc/fonts", "/usr/share/fontconfig")
"""Font folders that the library reads."""
_ADDRESS = re.compile(r"""(?:xlink:)?href\s*=\s*["']([^"']*)["']""")
_OPENED = re.compile(r'<svg [^>]*?\bwidth="([^"]*)" height="([^"]*)"[^>]*>')
_ERROR = re.compile(r"^ERROR\s+(.+)$", re.MULTILINE)
_MOST_LOG = 2**16
_MARK, _PATIENCE = b"\0end of the log\0", 10.0
"""What is written to find the end of the log, and the seconds that it may take to come back."""


def picture(spec: Json, config: Json) -> tuple[str, bytes]:
    """Return a Vega-Lite chart as SVG and as a PNG of twice its size.

    Raises
    ------
    ValueError
        Where it cannot be drawn, or not within `LIMITS`.
    """
    svg, png = _asked("picture", spec, config)
    return svg, png


def compiled(spec: Json, config: Json) -> Json:
    """Return a Vega-Lite chart as Vega, with its style under `config`.

    Raises
    ------
    ValueError
        Where it cannot be compiled, or not within `LIMITS`.
    """
    chart: Json = _asked("compiled", spec, config)
    return chart


def _asked(what: str, spec: Json, config: Json) -> Any:
    try:
        try:
            return _drawer().ask(what, spec, config)
        except LimitError as error:
            if error.what == "time":
                raise
            # The worker may have reached its limits through earlier charts: try once with a fresh one.
            _end()
            return _drawer().ask(what, spec, config)
    except LimitError as error:
        _end()
        slow = f"it takes more than {LIMITS.seconds} seconds of computing"
        large = f"it takes more than {LIMITS.memory >> 20} MiB of memory, or ends the program that draws"
        raise ValueError(slow if error.what == "time" else large) from None
    except ContainedError as error:
        raise ValueError(error.text) from None


_OPEN: list[Session] = []


def _drawer() -> Session:
    if not _OPEN:
        _OPEN.append(Session(Drawer, reads=[Path(folder) for folder in FONTS], limits=LIMITS, loads=["vl_convert"]))
    return _OPEN[0]


def _end() -> None:
    while _OPEN:
        _OPEN.pop().close()


def _on_white(svg: str) -> str:
    """Return a drawing that has no ground on a white one, as the library draws it.

    >>> _on_white('<svg width="2" height="1"><g/></svg>')
    '<svg width="2" height="1"><rect width="2" height="1" fill="white"/><g/></svg>'
    """
    opened = _OPENED.match(svg)
    if opened is None:
        raise ValueError("the drawing has no size")
    ground = f'<rect width="{opened[1]}" height="{opened[2]}" fill="white"/>'
    return svg[: opened.end()] + ground + svg[opened.end() :]


class Drawer:
    """The rendering library in the child; its errors inside a chart reach stderr alone, so that is read."""

    def __init__(self) -> None:
        self._log = _Pipe() if hasattr(os, "set_blocking") else _Drained()
        os.dup2(self._log.end, 2)

    def picture(self, spec: Json, config: Json) -> list[Any]:
        """Return SVG and PNG, or raise ValueError."""
        import vl_convert

        # Discard what earlier charts logged.
        self._log.taken()
        # An empty list of addresses: a specification from elsewhere must not make this machine fetch anything. It does
        # not hold for images, whose addresses stand in the SVG before anything follows them.
        shared: dict[str, Any] = {"allowed_base_urls": []}
        svg = vl_convert.vegalite_to_svg(spec, config=config, **shared)
        if any(not address.startswith(INSIDE) for address in _ADDRESS.findall(svg)):
            raise ValueError("it shows an image from outside")
        wrong = _ERROR.search(self._log.taken())
        if wrong:
            raise ValueError(wrong[1])
        if "background" in spec or "config" in spec:
            # It may say what its ground is.
            return [svg, vl_convert.vegalite_to_png(spec, config={**config, "background": "white"}, scale=2, **shared)]
        # From the SVG: to draw the chart once more would take as long again, for the same bytes.
        return [svg, vl_convert.svg_to_png(_on_white(svg), scale=2)]

    def compiled(self, spec: Json, config: Json) -> Json:
        """Return the chart as Vega, or raise ValueError."""
        import vl_convert

        self._log.taken()
        chart: Json = vl_convert.vegalite_to_vega(spec, config=config)
        return chart


class _Pipe:
    """What the library logs, in a pipe that takes no more than it holds, so that it cannot block."""

    def __init__(self) -> None:
        self._read, self.end = os.pipe()
        for handle in (self._read, self.end):
            os.set_blocking(handle, False)

    def taken(self) -> str:
        """Return what was written since the last call."""
        try:
            return os.read(self._read, _MOST_LOG).decode(errors="replace")
        except BlockingIOError:
            return ""


class _Drained:
    """The same where a pipe always blocks, as on Windows before Python 3.12: a thread reads all the time."""

    def __init__(self) -> None:
        self._read, self.end = os.pipe()
        self._text, self._more = bytearray(), threading.Condition()
        threading.Thread(target=self._drain, daemon=True).start()

    def taken(self) -> str:
        """Return what was written since the last call."""
        with self._more:
            # What comes before the mark was written before this call.
            os.write(self.end, _MARK)
            self._more.wait_for(lambda: _MARK in self._text, timeout=_PATIENCE)
            before, _, rest = bytes(self._text).partition(_MARK)
            self._text[:] = rest
            return before[:_MOST_LOG].decode(errors="replace")

    def _drain(self) -> None:
        while piece := os.read(self._read, _MOST_LOG):
            with self._more:
                self._text += piece
                self._more.notify()
