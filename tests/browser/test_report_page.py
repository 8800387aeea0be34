"""The page in a real browser, opened from disk: it draws, sorts, filters, prints, and asks nobody for anything."""

import time
from dataclasses import replace

import pytest
from pages import media, open_page, printed, requests, resize, shown

from audits.report.charts import Axis, lines
from audits.report.pages import write_pages


@pytest.fixture(scope="module")
def address(sample_report, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("run")
    write_pages(sample_report, folder)
    return (folder / "report.html").as_uri()


@pytest.fixture
def seen(browser, address):  # noqa: ANN201
    """The page for tests that change nothing of it, which share it."""
    shown(browser, address, 1000)
    return browser


@pytest.fixture
def page(browser, address):  # noqa: ANN201
    """The page opened anew."""
    resize(browser, 1024)
    media(browser, "light")
    open_page(browser, address)
    return browser


def _cells(browser, table, column) -> list[str]:
    script = (
        f"return [...document.querySelectorAll('#table-{table} tbody td:nth-child({column})')].map(c => c.innerText)"
    )
    return browser.execute_script(script)


def test_opens_without_an_error_or_a_request(browser, address) -> None:
    resize(browser, 1000)
    media(browser, "light")
    browser.get_log("browser")
    requests(browser)
    open_page(browser, address)
    assert browser.get_log("browser") == []
    assert requests(browser) == [address], "only the page itself"


def test_every_chart_is_drawn(seen, sample_report) -> None:
    marks = seen.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('svg path').length)"
    )
    assert len(marks) == len(sample_report.figures)
    assert min(marks) > 5


def test_a_table_sorts_by_keyboard(page) -> None:
    script = "document.querySelectorAll('#table-0 .sort')[4].focus()"
    page.execute_script(script)
    active = page.switch_to.active_element
    active.send_keys("\n")
    values = [float(text.rstrip("†")) for text in _cells(page, 0, 5)]
    assert values == sorted(values)
    head = "return document.querySelectorAll('#table-0 thead th')[4].getAttribute('aria-sort')"
    assert page.execute_script(head) == "ascending"
    active.send_keys("\n")
    values = [float(text.rstrip("†")) for text in _cells(page, 0, 5)]
    assert values == sorted(values, reverse=True)
    assert page.execute_script(head) == "descending"


def test_a_table_filters_by_text_and_by_choice_and_turns_pages(page) -> None:
    state = "return document.querySelector('#table-0 [role=status]').innerText"
    assert page.execute_script(state) == "1 to 100 of 630 rows"
    page.execute_script("document.querySelectorAll('#table-0 .pager button')[1].click()")
    assert page.execute_script(state) == "101 to 200 of 630 rows"
    page.find_element("css selector", "#table-0 input").send_keys("indian wer")
    assert page.execute_script(state) == "42 rows"
    assert all("accent=indian" in text for text in _cells(page, 0, 4))
    page.execute_script(
        "const s = document.querySelectorAll('#table-0 select')[2];"
        "s.value = 'head'; s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert page.execute_script(state) == "6 rows"
    assert set(_cells(page, 0, 3)) == {"head"}


def test_small_groups_are_faint_and_warned_about(seen) -> None:
    faint = seen.execute_script("return [...document.querySelectorAll('#table-0 tr.faint')].map(r => r.innerText)")
    assert faint
    assert all("†" in text for text in faint)
    seen.execute_script("document.querySelector('#table-0 .dagger').focus()")
    assert "fewer than 20" in seen.execute_script("return document.getElementById('hint').innerText")


def test_the_switch_and_the_system_change_the_theme_of_page_and_charts(page) -> None:
    colours = (
        "return [getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('.chart svg text')).fill, getComputedStyle(document.body).color]"
    )
    light = page.execute_script(colours)
    page.find_element("id", "theme").click()
    dark = page.execute_script(colours)
    assert light[0] == "rgb(255, 255, 255)" != dark[0]
    assert light[1] == light[2]
    assert dark[1] == dark[2] != light[1]
    page.find_element("id", "theme").click()
    assert page.execute_script(colours) == light
    page.execute_script("delete document.documentElement.dataset.theme")
    media(page, "dark")
    assert page.execute_script(colours) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_aa(seen, scheme) -> None:
    media(seen, scheme)
    names = ["paper", "ink", "quiet", "accent", "alert", "warn"]
    style = "return arguments[0].map(n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim())"
    paper, *texts = [_luminance(colour) for colour in seen.execute_script(style, names)]
    for text in texts:
        bright, deep = max(paper, text), min(paper, text)
        assert (bright + 0.05) / (deep + 0.05) >= 4.5


def _luminance(colour) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_page_never_scrolls_sideways(browser, address, width) -> None:
    resize(browser, width)
    open_page(browser, address)
    wide, shown = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert shown == width
    assert wide <= width


def test_a_row_on_a_phone_shows_its_number_and_interval_and_little_blank(browser, address) -> None:
    resize(browser, 390)
    open_page(browser, address)
    shape = """
        const row = document.querySelectorAll('#table-0 tbody tr')[arguments[0]], scroll = row.closest('.scroll');
        const [value, interval] = ['.value', '.interval'].map((n) => row.querySelector(n).getBoundingClientRect());
        return [value.top - interval.top, value.left, interval.right, row.offsetHeight,
                scroll.scrollWidth - scroll.clientWidth, getComputedStyle(row.querySelector('.method')).display]
    """
    for row in (0, 20):
        off, left, right, height, sideways, method = browser.execute_script(shape, row)
        assert abs(off) < 4
        assert 0 <= left < right <= 390
        assert height <= 110
        assert sideways <= 0
        assert method == "none"
    resize(browser, 1440)
    assert browser.execute_script(shape, 0)[5] == "table-cell"


def test_the_first_stop_of_the_tab_key_skips_to_the_findings(page) -> None:
    page.find_element("tag name", "body").send_keys("\t")
    assert page.switch_to.active_element.get_attribute("href").endswith("#main")


def test_it_prints_in_light_colours_with_everything_open(page) -> None:
    page.find_element("id", "theme").click()
    folded = "window.folded = document.querySelectorAll('details:not([open])').length"
    page.execute_script(f"addEventListener('beforeprint', () => {{ {folded} }})")
    assert printed(page).startswith(b"%PDF")
    assert page.execute_script("return window.folded") == 0
    media(page, "dark", "print")
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.execute_script("return getComputedStyle(document.querySelector('.signature')).display") == "grid"


def test_charts_and_their_small_multiples_follow_the_width_of_the_page(browser, sample_report, tmp_path) -> None:
    rows = [{"x": x, "y": x, "low": x - 1, "high": x + 1, "name": name} for x in range(4) for name in "abcdef"]
    axes = {"x": Axis("x", "x"), "y": Axis("y", "y"), "low": "low", "high": "high"}
    many = replace(sample_report.figures[0], file="many", spec=lines(rows, **axes, series="name", series_title=""))
    write_pages(replace(sample_report, figures=(sample_report.figures[0], many)), tmp_path)
    sizes = """
        return [...document.querySelectorAll('.chart svg')].map(
          s => [s.width.baseVal.value, s.height.baseVal.value, s.closest('.chart').clientWidth])
    """
    resize(browser, 1440)
    open_page(browser, (tmp_path / "report.html").as_uri())
    wide = browser.execute_script(sizes)
    resize(browser, 390)
    for _ in range(100):
        narrow = browser.execute_script(sizes)
        if len(narrow) == len(wide) and all(width < 480 for width, _, _ in narrow):
            break
        time.sleep(0.1)
    for (before, _, _), (after, _, room) in zip(wide, narrow, strict=True):
        assert before > 500 and 0.7 * room < after <= room
    assert narrow[0][1] == wide[0][1] and narrow[1][1] > 2 * wide[1][1], "panels stand below each other on a phone"


def test_a_mark_that_is_pointed_at_says_what_it_is(page) -> None:
    from selenium.webdriver import ActionChains

    mark = page.find_element("css selector", ".chart svg .mark-symbol path")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(page).move_to_element(mark).perform()
    said = "return [document.getElementById('hint').hidden, document.getElementById('hint').innerText]"
    for _ in range(50):
        hidden, words = page.execute_script(said)
        if not hidden:
            break
        time.sleep(0.1)
    assert not hidden and any(letter.isdigit() for letter in words)
    ActionChains(page).move_to_element(page.find_element("tag name", "h1")).perform()
    for _ in range(50):
        if page.execute_script(said)[0]:
            break
        time.sleep(0.1)
    assert page.execute_script(said)[0], "and no more once it is left"
