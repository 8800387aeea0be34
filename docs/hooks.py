"""How do formulas reach a page without a script? Each becomes MathML when the site is built."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?:\\\(|\\\[)(?P<latex>.*?)(?:\\\)|\\\])</(?P=tag)>', re.DOTALL
)


def _mathml(found: re.Match[str]) -> str:
    latex = html.unescape(found["latex"]).strip()
    if found["tag"] == "span":
        return str(convert(latex))
    return f'<div class="formula">{convert(latex, display="block")}</div>'


def on_page_content(content: str, **_: Any) -> str:
    """Return a page's HTML with the formulas that arithmatex marked written in MathML."""
    return _FORMULA.sub(_mathml, content)
