"""The page of two runs compared, in a real browser, opened from disk."""

import json
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


@pytest.fixture(scope="module")
def several(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of seven runs, with changes in either direction and names of crossed groups."""
    folder = tmp_path_factory.mktemp("several")
    report = json.loads((prepared / "work" / "runs" / "groups" / "report.json").read_text(encoding="utf-8"))
    rows = [{key: row[key] for key in ("value", "low", "high")} for row in report["estimates"]]
    for night, times in enumerate((1, 1, 3, 1, 0.2, 1, 3)):
        for row, own in zip(report["estimates"], rows, strict=True):
            row.update({key: value and value * times for key, value in own.items()})
        report["settings"]["seed"] = night
        (folder / f"night-{night}").mkdir()
        (folder / f"night-{night}" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    names = [str(folder / f"night-{night}") for night in range(7)]
    outcome = call(["compare", *names, "--html", str(folder / "changes.html")], prepared / "work")
    assert outcome.code == 0, outcome.out
    return (folder / "changes.html").as_uri()


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


@pytest.mark.parametrize("page", ["address", "several"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_phone_and_desktop_in_both_themes(
    browser: Any, request: pytest.FixtureRequest, page: str, width: int, scheme: str
) -> None:
    resize(browser, width)
    media(browser, scheme)
    browser.get(request.getfixturevalue(page))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    keep_picture(browser, f"compare-{page}-{width}-{scheme}.png")


@pytest.mark.parametrize("width", [390, 1440])
def test_no_name_is_broken_within_a_word(browser: Any, several: str, width: int) -> None:
    resize(browser, width)
    browser.get(several)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    broken = browser.execute_script(
        "return [...document.querySelectorAll('.piece')].filter(e => e.getClientRects().length"
        " && e.getBoundingClientRect().height > 1.8 * parseFloat(getComputedStyle(e).lineHeight))"
        ".map(e => e.textContent)"
    )
    assert [name for name in broken if len(name) < 40] == []


def test_runs_stand_side_by_side_and_a_phone_keeps_the_ends_and_what_changed(browser: Any, several: str) -> None:
    resize(browser, 1440)
    browser.get(several)
    cells = "[...document.querySelector('table.sides tbody tr:not(.block)').cells]"
    assert browser.execute_script(f"return {cells}.filter(e => e.offsetHeight).length") == 1 + 7 + 1
    assert browser.execute_script("return document.querySelectorAll('svg.trend').length") > 0
    assert browser.execute_script("return document.querySelectorAll('section[id^=run-] details[open]').length") == 0
    resize(browser, 390)
    middle = (
        "[...document.querySelectorAll('table.sides td.mid')].filter(e => !e.closest('details') && !e.offsetHeight)"
    )
    assert browser.execute_script(f"return {middle}.length") > 0
    assert browser.execute_script(f"return {middle}.every(e => e.classList.contains('still'))")


def test_it_prints(browser: Any, address: str) -> None:
    media(browser, "light")
    browser.get(address)
    pdf = printed(browser)
    assert pdf.startswith(b"%PDF") and len(pdf) > 10_000
    keep("compare.pdf", pdf)
