"""The page of two runs compared, in a real browser, opened from disk."""

from pathlib import Path
from typing import Any

import pytest
from pages import keep, keep_picture, media, printed, requests, resize
from small_world import call

ROWS = "return [...document.querySelectorAll('table.changes tbody tr')].filter(r => !r.hidden).map(r => r.textContent)"


@pytest.fixture(scope="module")
def address(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("compared") / "changes.html"
    outcome = call(["compare", "runs/first", "runs/second", "--all", "--html", str(file)], prepared / "work")
    assert outcome.code == 0, outcome.out
    return file.as_uri()


@pytest.fixture(autouse=True)
def on_screen(browser: Any) -> None:
    """Other tests leave the browser in the middle of a print."""
    media(browser, "light")


def test_it_opens_offline_without_a_word_in_the_console(browser: Any, address: str) -> None:
    browser.get_log("browser")
    requests(browser)
    browser.get(address)
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert browser.get_log("browser") == []
    assert requests(browser) == [address]


def test_the_table_of_changes_sorts_and_filters(browser: Any, address: str) -> None:
    resize(browser, 1440)
    browser.get(address)
    before = browser.execute_script(ROWS)
    assert len(before) > 10
    press = "document.querySelectorAll('table.changes .sort')[arguments[0]].click()"
    for column in range(browser.execute_script("return document.querySelectorAll('table.changes .sort').length")):
        browser.execute_script(press, column)
        up = browser.execute_script(ROWS)
        browser.execute_script(press, column)
        assert sorted(up) == sorted(browser.execute_script(ROWS)) == sorted(before)
    typed = browser.find_element("css selector", ".controls input")
    typed.send_keys("gap")
    kept = browser.execute_script(ROWS)
    assert kept == [row for row in browser.execute_script(ROWS) if "gap" in row] and 0 < len(kept) < len(before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_phone_and_desktop_in_both_themes(browser: Any, address: str, width: int, scheme: str) -> None:
    resize(browser, width)
    media(browser, scheme)
    browser.get(address)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    keep_picture(browser, f"compare-{width}-{scheme}.png")


def test_it_prints(browser: Any, address: str) -> None:
    media(browser, "light")
    browser.get(address)
    pdf = printed(browser)
    assert pdf.startswith(b"%PDF") and len(pdf) > 10_000
    keep("compare.pdf", pdf)
