"""The page of a report of every audit, in a real browser, opened from disk.

To open it is most of the work, and it is opened once: every other one on a desktop in light colours, the others on a
phone in dark ones. Then it is given the width that a test asks for, where its charts are drawn anew by what drew them
first. No test leaves a page otherwise than another may find it.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pages import keep, keep_picture, media, open_page, press_tab, printed, requests, resize, widened
from small_world import LANGUAGES, ONE_EACH

SHOWN = {**ONE_EACH, "interference": LANGUAGES}
"""Runs that have every kind of chart: one of a few steps of training has none."""
PHONE, DESKTOP = 390, 1440


@pytest.fixture(scope="module", params=SHOWN)
def report(request: pytest.FixtureRequest, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the name of an audit, and the address of the page of its report, which stands alone in a folder."""
    page = prepared / "work" / SHOWN[request.param][-1] / "report.html"
    alone = Path(shutil.copy(page, tmp_path_factory.mktemp("alone") / "report.html"))
    return request.param, alone.as_uri()


@pytest.fixture
def page(browser: Any, report: tuple[str, str]) -> Any:
    widened(browser, report[1], DESKTOP)
    return browser


def test_it_opens_offline_without_a_word_in_the_console(browser: Any, report: tuple[str, str]) -> None:
    width, scheme = ((DESKTOP, "light"), (PHONE, "dark"))[[*SHOWN].index(report[0]) % 2]
    resize(browser, width)
    media(browser, scheme)
    browser.get_log("browser")
    requests(browser)
    open_page(browser, report[1])
    assert browser.get_log("browser") == []
    assert requests(browser) == [report[1]], "only the page itself"
    fits(browser, width, scheme)


def test_every_chart_is_drawn_and_told_in_words(page: Any) -> None:
    script = """
        return [...document.querySelectorAll('#figures figure')].map(f => {
          const chart = f.querySelector('.chart'), box = chart && chart.getBoundingClientRect();
          const marks = f.querySelectorAll('svg path, svg rect, svg image, svg circle').length;
          const words = ['h3', 'figcaption'].map(name => f.querySelector(name).innerText);
          return [...words, box ? box.height : 0, marks];
        })
    """
    figures = page.execute_script(script)
    assert figures
    for title, caption, height, marks in figures:
        assert title and caption
        assert height > 60 and marks > 3, title


PRESSED = """
    const table = document.getElementById('table-' + arguments[0]), found = [];
    const rows = () => [...table.querySelectorAll('tbody tr')].map(r => r.textContent);
    const before = rows(), heads = [...table.querySelectorAll('.sort')], typed = table.querySelector('input');
    for (const head of heads) {
      const said = [];
      for (const press of [1, 2]) { head.click(); said.push([head.parentNode.ariaSort, rows()]); }
      found.push(said);
    }
    const type = (text) => { typed.value = text; typed.dispatchEvent(new Event('input')); return rows(); };
    return [before, found, typed ? [type('no row has these words'), type('')] : null];
"""
"""Press every head of a table twice and type into its filter; return the rows before and after."""


def test_every_table_sorts_and_filters(page: Any) -> None:
    tables = page.execute_script("return document.querySelectorAll('.estimates').length")
    assert tables
    for table in range(tables):
        before, columns, filtered = page.execute_script(PRESSED, table)
        assert len(columns) >= 4
        for up, down in columns:
            assert (up[0], down[0]) == ("ascending", "descending")
            assert len(before) == 100 or sorted(up[1]) == sorted(down[1]) == sorted(before)
        assert any(up[1] != down[1] for up, down in columns) or len(before) == 1
        assert (filtered is None) == (len(before) <= 4)
        if filtered is not None:
            assert filtered[0] == [] and len(filtered[1]) == len(before)


def fits(browser: Any, most: int, scheme: str) -> None:
    """Fail unless the page fits the width and has the colours that the system asks for, now or when it was opened."""
    media(browser, scheme)
    wide, inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert inner == most >= wide
    colours = browser.execute_script(
        "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " ...[...document.querySelectorAll('.chart svg text')].map(t => getComputedStyle(t).fill)]"
    )
    ground, ink, *labels = colours
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light") and ground != ink
    assert labels and ink in labels, "the writing of charts has the colour of the page's"


def test_it_fits_a_desktop_in_both_themes(page: Any, report: tuple[str, str]) -> None:
    for scheme in ("dark", "light"):
        fits(page, DESKTOP, scheme)
    # A picture takes longer than the rest of a test: one of each width, each in other colours.
    keep_picture(page, f"{report[0]}-desktop-light.png")


def test_the_tab_key_reaches_everything_that_can_be_used(page: Any) -> None:
    seen = set()
    for _ in range(12):
        press_tab(page)
        at, style = page.execute_script(
            "const at = document.activeElement;"
            "return [[...document.querySelectorAll('*')].indexOf(at), getComputedStyle(at).outlineStyle]"
        )
        seen.add(at)
        assert style != "none", "it can be seen where one is"
    assert len(seen) == 12, "the key moves on, and is caught nowhere"
    reached = """
        const used = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')].filter(
          e => !e.disabled && e.tabIndex >= 0 && e.checkVisibility());
        return [used.length, used.filter(e => { e.focus(); return document.activeElement !== e; }).length,
                document.querySelectorAll('[tabindex]:not([tabindex="0"]):not([tabindex="-1"])').length,
                document.querySelectorAll('.chart [onclick], div[onclick], span[onclick]').length]
    """
    count, lost, jumps, mouse_only = page.execute_script(reached)
    assert count > 10
    assert (lost, jumps, mouse_only) == (0, 0, 0)


def test_it_prints(page: Any, report: tuple[str, str]) -> None:
    pdf = printed(page)
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    keep(f"{report[0]}.pdf", pdf)


def test_it_fits_a_phone_in_both_themes(browser: Any, report: tuple[str, str]) -> None:
    widened(browser, report[1], PHONE)
    for scheme in ("light", "dark"):
        fits(browser, PHONE, scheme)
    keep_picture(browser, f"{report[0]}-phone-dark.png")
