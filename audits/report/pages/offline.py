"""Style, scripts and content policy that every page shares, so that it opens from disk and requests nothing.

One style, the switch between light and dark, and a content policy that admits the scripts of the page by their hashes.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def beside(package: str, name: str) -> str:
    """Return the text of a file of a package."""
    return (files(package) / name).read_text(encoding="utf-8")


def style() -> str:
    """Return the style sheet."""
    return beside("audits.report.pages", "page.css")


def script(package: str, name: str) -> str:
    """Return a page's own script, after that of the light and dark switch."""
    return beside("audits.report.pages", "theme.js") + beside(package, name)


@cache
def template(package: str, name: str) -> Any:
    """Return a template that escapes everything not marked as safe."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(beside(package, name))


def policy(*scripts: str, evaluated: bool = False) -> str:
    """Return a content security policy that allows these scripts by their hashes, and no request.

    Parameters
    ----------
    evaluated
        Whether scripts may compile others, as the charting library does with expressions inside a specification.
    """
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join([*(f"'sha256-{digest}'" for digest in hashes), *(["'unsafe-eval'"] if evaluated else [])])
    parts = ["default-src 'none'", f"script-src {allowed}", "style-src 'unsafe-inline'", "img-src data:"]
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])
