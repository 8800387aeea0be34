"""Pictures of charts that several processes of these tests want: each is drawn once, by the program's own drawing.

Finished runs are shown, judged and written again by many tests, and to draw their charts each time would be most of the
work. That drawing works, and gives the same twice, is for the tests of drawing, which get nothing from here.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _write(file: Path, content: bytes) -> None:
    """Write a file in one step, since other processes look for it."""
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(file)


@contextmanager
def drawn_once(folder: Path) -> Iterator[None]:
    """Keep what is drawn in this process in a folder, and take from it what was drawn from the same before."""
    from audits.report.pages import figures, live
    from probes.core.hashing import sha256_json

    plain, compiled = figures.picture, live.compiled

    def picture(spec: Any, config: Any) -> tuple[str, bytes]:
        # In their order, on which a picture depends.
        stem = sha256_json([repr(spec), repr(config)])
        svg, png = (folder / f"{stem}.{kind}" for kind in ("svg", "png"))
        if png.exists():
            return svg.read_text(encoding="utf-8"), png.read_bytes()
        drawn = plain(spec, config)
        for file, content in ((svg, drawn[0].encode()), (png, drawn[1])):
            _write(file, content)
        return drawn

    def chart(spec: Any, config: Any) -> Any:
        file = folder / f"{sha256_json([repr(spec), repr(config)])}.json"
        if not file.exists():
            _write(file, json.dumps(compiled(spec, config)).encode())
        return json.loads(file.read_text(encoding="utf-8"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "picture", picture)
        patch.setattr(live, "compiled", chart)
        yield
