"""What is made when the site is built: formulas as MathML, tables of calibration and replications, the version below."""

import html
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))
from calibration_tables import with_calibration  # noqa: E402
from replication_tables import with_replications  # noqa: E402

_NAME = re.compile(r"<code>(?=[^<\n]{1,26}</code>)")
"""Begin of code that is short enough to stand on one line of a phone."""
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?:\\\(|\\\[)(?P<latex>.*?)(?:\\\)|\\\])</(?P=tag)>', re.DOTALL
)


def _mathml(found: re.Match[str]) -> str:
    # A number in a formula may carry the mark of a constant, which is a comment in text only.
    latex = re.sub("<!--.*?-->", "", html.unescape(found["latex"])).strip()
    if found["tag"] == "span":
        return str(convert(latex))
    return f'<div class="formula">{convert(latex, display="block")}</div>'


def on_config(config: Any) -> Any:
    """Put the version at the foot of every page; the project's own file has it, so that nothing need be installed."""
    described = Path(config.config_file_path).with_name("pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(described)["project"]
    config.copyright = f"miles {project['version']} · {project['license']}"
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Return a page's HTML with the formulas that arithmatex marked written in MathML, and short names unbroken."""
    return _NAME.sub('<code class="name">', _FORMULA.sub(_mathml, content))


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page's Markdown with the tables of calibration and of replications where they are asked for."""
    stem = Path(page.file.src_uri).stem
    return with_replications(with_calibration(markdown, stem), stem)
