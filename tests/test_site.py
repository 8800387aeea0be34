"""Does the site of the pages build, and does it hold together: formulas, links, pictures, nothing from elsewhere?"""

import importlib
import os
import posixpath
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from pages import resize

from audits.core import registry

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
AUDITS = [entry.target.partition(":")[0].removeprefix("audits.") for entry in registry.AUDITS]
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Attributes that a browser follows by itself. What a reader clicks may lead elsewhere."""
HEADINGS = ("The question", "How it is measured", "How to read it", "What it cannot say", "References")
LARGEST = 80_000

_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\$\$.+?\$\$|\$(?!\s)[^$]+?(?<!\s)\$", re.DOTALL)
_FENCE = re.compile(r'^```\w+ title="(\w+\.\w+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass
class Page(HTMLParser):
    """What of a page is looked at."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    pictures: list[dict[str, str]] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    formulas: int = 0
    _quiet: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.formulas += tag == "math"
        self._quiet += tag in ("script", "style", "code", "pre", "annotation")
        self.fetched += [given[FETCHED[tag]]] if given.get(FETCHED.get(tag, ""), "") else []
        self.fetched += re.findall(r"url\(([^)]+)\)", given.get("style", ""))
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.pictures += [given] if tag == "img" else []

    def handle_endtag(self, tag: str) -> None:
        self._quiet -= tag in ("script", "style", "code", "pre", "annotation")

    def handle_data(self, data: str) -> None:
        self.prose += [] if self._quiet else [data]


def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built anew with every warning an error."""
    for name in ("mkdocs", "material", "latex2mathml"):
        pytest.importorskip(name, reason="the site is built with the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder


@pytest.fixture(scope="module")
def built(site: Path) -> dict[str, Page]:
    return {file.relative_to(site).as_posix(): read(file) for file in sorted(site.rglob("*.html"))}


def test_every_page_is_built_and_in_the_navigation(site: Path, built: dict[str, Page]) -> None:
    wanted = {page.removesuffix(".md") + ".html" for page in PAGES}
    assert set(built) == {*wanted, "404.html"}
    # Without the anchors, which are those of the page itself.
    start = (site / "index.html").read_text(encoding="utf-8")
    listed = set(re.findall(r'href="([^"#:]+)" class="md-nav__link', start))
    assert wanted - {"index.html"} - listed == set()


def test_no_page_asks_another_host_for_anything(site: Path, built: dict[str, Page]) -> None:
    for name, page in built.items():
        outside = [place for place in page.fetched if urlsplit(place).scheme or place.startswith("//")]
        assert page.fetched and outside == [], name
    for sheet in site.rglob("*.css"):
        places = re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')]+)", sheet.read_text(encoding="utf-8"))
        assert [place for place in places if urlsplit(place).scheme not in ("", "data")] == [], sheet
    assert (site / "search" / "search_index.js").is_file(), "the search needs its index beside the pages"


@pytest.mark.parametrize("page", PAGES)
def test_every_formula_became_mathml(page: str, built: dict[str, Page]) -> None:
    said = _CODE.sub("", (DOCS / page).read_text(encoding="utf-8"))
    made = built[page.removesuffix(".md") + ".html"]
    text = "".join(made.prose)
    assert made.formulas == len(_FORMULA.findall(said))
    assert re.findall(r"\\[a-zA-Z(\[]+|\$|<!", text) == [], "LaTeX or a mark was left on the page"


def test_every_link_and_anchor_leads_somewhere(site: Path, built: dict[str, Page]) -> None:
    for name, page in built.items():
        if name == "404.html":
            continue
        for link in page.links:
            path, anchor = urldefrag(unquote(link))
            if urlsplit(link).scheme:
                continue
            file = ((site / name).parent / path).resolve() if path else site / name
            assert file.is_file() and file.is_relative_to(site.resolve()), f"{name}: {link}"
            known = built.get(file.relative_to(site.resolve()).as_posix()) if path else page
            assert not anchor or known is None or anchor in known.ids, f"{name}: {link}"


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_has_a_page_a_tutorial_and_a_picture(audit: str, built: dict[str, Page]) -> None:
    page = (DOCS / "audits" / f"{audit}.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", page, flags=re.MULTILINE)
    assert [title for title in HEADINGS if title not in titles] == [] and titles[-1] == "References"
    cited = re.findall(r"^- (.+?)(?=^- |^$|\Z)", page.partition("\n## References\n")[2], re.MULTILINE | re.DOTALL)
    odd = [one for one in cited if not re.search(r"\w.* \((?:19|20)\d\d\)\. .+[.?] .+", one.replace("\n", " "))]
    assert cited and odd == [], "author, year, title, venue"
    assert built[f"audits/{audit}.html"].formulas
    tutorial = (DOCS / "tutorials" / f"{audit}.md").read_text(encoding="utf-8")
    assert 60 <= tutorial.count("\n") <= 135 and f"../audits/{audit}.md" in tutorial
    assert tutorial.count("<!-- shown -->\n```text\n") == tutorial.count("```\n<!-- /shown -->") == 1
    start = (DOCS / "index.md").read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        assert f"](../images/{audit}-{scheme}.png#gh-{scheme}-mode-only)" in tutorial
        assert f"](images/{audit}-{scheme}.png#gh-{scheme}-mode-only)" in start
        assert (DOCS / "images" / f"{audit}-{scheme}.png").stat().st_size < LARGEST
    assert f"-dark.png#gh-dark-mode-only)](tutorials/{audit}.md)" in start and f"](audits/{audit}.md)" in start


def test_every_picture_says_what_it_shows(built: dict[str, Page]) -> None:
    pictures = [picture for page in built.values() for picture in page.pictures]
    assert len(pictures) >= 2 * len(AUDITS)
    assert [picture for picture in pictures if len(picture.get("alt", "")) < 20] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_ground_of_their_scheme(scheme: str) -> None:
    from PIL import Image

    pictures = sorted((DOCS / "images").glob(f"*-{scheme}.png"))
    assert len(pictures) == len(AUDITS) + 1
    for picture in pictures:
        with Image.open(picture) as opened:
            corner = opened.convert("L").getpixel((1, 1))
        assert corner > 240 if scheme == "light" else corner < 40, picture.name


def test_every_page_of_an_audit_and_the_start_lead_to_the_glossary(built: dict[str, Page]) -> None:
    leading = {name for name, page in built.items() if any("glossary.html#" in link for link in page.links)}
    assert {"index.html", "report.html", *(f"audits/{audit}.html" for audit in AUDITS)} <= leading


def test_every_page_says_of_which_version_it_is(site: Path, built: dict[str, Page]) -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert [name for name in built if f"miles {version} · " not in (site / name).read_text(encoding="utf-8")] == []


ARTICLE = re.compile(r'<article class="md-content__inner md-typeset">.*?</article>', re.DOTALL)
"""What is the page's own; all around it is the same on every page."""
_PLACE = re.compile(r'(?<= src=")(?![a-z]+:)[^"#]+')
UNFOLDED = "for (const folded of document.querySelectorAll('details')) folded.open = true;"
CLIPPED = """
    return [...document.querySelectorAll("pre > code")].filter((code) => code.scrollWidth > code.clientWidth + 1)
        .map((code) => code.innerText.slice(0, 80))
"""
SIDEWAYS = """
    const wide = (one) => one.getBoundingClientRect().left + one.scrollWidth > innerWidth
    const found = [...document.querySelectorAll("article")].filter(wide).map((one) => one.innerText.slice(0, 80))
    return document.documentElement.scrollWidth > innerWidth ? [document.documentElement.scrollWidth, ...found] : found
"""
CHECKS = ((1440, CLIPPED), (390, SIDEWAYS))
"""Width of a screen, and what returns what is wrong at it: code is whole on a desktop, and a phone shows all."""


@pytest.fixture
def every_article(site: Path, built: dict[str, Page]) -> Iterator[str]:
    """Return a page with the articles of all, since to open one takes longer than to look at it."""
    articles = []
    for name in built:
        (article,) = ARTICLE.findall((site / name).read_text(encoding="utf-8"))
        folder = posixpath.dirname(name)
        articles.append(_PLACE.sub(lambda found, folder=folder: posixpath.normpath(f"{folder}/{found[0]}"), article))
    around = ARTICLE.split((site / "glossary.html").read_text(encoding="utf-8"))
    file = site / "every-article.html"
    file.write_text("".join(articles).join(around), encoding="utf-8")
    yield file.name
    file.unlink()


def test_pages_fit_the_screen(site: Path, built: dict[str, Page], every_article: str, browser: Any) -> None:
    found = {}
    # Every page would read the index of the search, which takes longer than all the rest of it.
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*search_index*"]})
    # Of what stands around the articles, one page of each folder has all.
    shells = {posixpath.dirname(name): name for name in built}
    for number, name in enumerate((every_article, "index.html", "404.html", *shells.values())):
        # Every other one is opened on a phone, and then made wider.
        for place, (width, script) in enumerate(CHECKS if number % 2 else CHECKS[::-1]):
            resize(browser, width)
            if not place:
                browser.get((site / name).as_uri())
            found[name, width] = browser.execute_script(UNFOLDED + script)
        if name == every_article:
            assert browser.execute_script("return document.querySelectorAll('article').length") == len(built)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    assert {where: texts for where, texts in found.items() if texts} == {}


def test_the_pipelines_on_the_page_can_be_read_and_call_what_there_is() -> None:
    yaml = pytest.importorskip("yaml", reason="comes with mkdocs")
    from miles_cli.main import _real

    files = dict(_FENCE.findall((DOCS / "ci.md").read_text(encoding="utf-8")))
    steps = [step for job in yaml.safe_load(files["audit.yml"])["jobs"].values() for step in job["steps"]]
    assert subprocess.run(["sh", "-n"], input=files["audit.sh"], text=True, capture_output=True).returncode == 0
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    lines += files["audit.sh"].replace("\\\n", " ").replace("|| status=$?", "").splitlines()
    calls = [shlex.split(line)[1:] for line in map(str.strip, lines) if line.startswith("miles ")]
    assert {words[0] for words in calls} == {"audit-fairness", "export", "show"}
    for words in calls:
        known = {name for item in _real(words[0]).params for name in (*item.opts, *item.secondary_opts)}
        assert [word for word in words if word.startswith("-") and word not in known] == [], words
    assert any("MILES_CACHE" in job.get("env", {}) for job in yaml.safe_load(files["audit.yml"])["jobs"].values())
    used = {step.get("uses", "").partition("@")[0] for step in steps}
    assert {"actions/cache/restore", "actions/cache/save", "actions/upload-artifact"} <= used


def test_the_search_finds_a_word_in_a_page_opened_from_a_folder(site: Path, browser: Any) -> None:
    wait = importlib.import_module("selenium.webdriver.support.ui").WebDriverWait(browser, 30)
    # What the browser asked for before is its own affair.
    browser.get_log("performance")
    browser.get((site / "index.html").as_uri() + "?q=Lipschitz")
    found = "return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.getAttribute('href'))"
    links = wait.until(lambda driver: driver.execute_script(found))
    assert any("audits/lipschitz.html" in link for link in links)
    logged = [entry["message"] for entry in browser.get_log("performance") if "requestWillBeSent" in entry["message"]]
    asked = {address for message in logged for address in re.findall(r'"url":"(\w+:[^"]*)"', message)}
    assert {urlsplit(address).scheme for address in asked} <= {"file", "data", "about", "blob"}, asked
