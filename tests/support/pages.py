"""A headless browser for tests of pages, and what they do with it: open, resize, choose a theme, take a picture."""

import base64
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
KEPT = os.environ.get("MILES_SCREENSHOTS")
"""Folder in which pictures and prints of the pages are kept."""


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a driver of Chromium that logs its console and every request; skips where there is none."""
    if not (BROWSER and DRIVER):
        pytest.skip("chromium and chromedriver are not installed")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    # Without a window nothing has the focus, and what waits for it would hear of no key.
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    yield driver
    driver.quit()


def open_page(browser: Any, address: str) -> None:
    """Open a page and wait until its charts are drawn."""
    browser.get(address)
    drawn(browser)
    browser.execute_script("for (const table of document.querySelectorAll('details.estimates')) table.open = true")


def drawn(browser: Any) -> None:
    """Wait until the charts of the page are drawn."""
    deadline = time.monotonic() + 30
    while browser.execute_script("return document.documentElement.dataset.charts") != "drawn":
        assert time.monotonic() < deadline, "the charts were not drawn in time"
        time.sleep(0.05)


def widened(browser: Any, address: str, width: int) -> None:
    """Have a page at a width in light colours; one that is shown is not opened anew, but its charts are drawn anew."""
    media(browser, "light")
    place, now = browser.execute_script("return [location.href, innerWidth]")
    if place != address:
        resize(browser, width)
        open_page(browser, address)
    elif now != width:
        browser.execute_script("delete document.documentElement.dataset.charts")
        resize(browser, width)
        drawn(browser)


TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}


def press_tab(browser: Any) -> None:
    """Press the key as the system would: to send it to an element takes about twice as long."""
    for kind in ("rawKeyDown", "keyUp"):
        browser.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, **TAB})


def shown(browser: Any, address: str, width: int) -> None:
    """Have a page at a width in light colours; it is opened only where another was shown, or this one otherwise."""
    if browser.execute_script("return [location.href, innerWidth]") != [address, width]:
        resize(browser, width)
        media(browser, "light")
        open_page(browser, address)
    media(browser, "light")


def requests(browser: Any) -> list[str]:
    """Return the addresses that the browser asked for since this was last called; pictures inside a page are none."""
    told = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [one["params"]["request"]["url"] for one in told if one["method"] == "Network.requestWillBeSent"]
    return [address for address in sent if not address.startswith("data:")]


def resize(browser: Any, width: int, height: int = 900) -> None:
    """Give the page another width."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def media(browser: Any, scheme: str, kind: str = "") -> None:
    """Have the system ask for light or dark, or the page be printed."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def printed(browser: Any) -> bytes:
    """Return the page as a PDF."""
    found = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    return base64.b64decode(found["data"])


def keep(name: str, content: bytes) -> None:
    """Write a picture or a print into the folder of those kept, where there is one."""
    if KEPT:
        Path(KEPT).mkdir(parents=True, exist_ok=True)
        (Path(KEPT) / name).write_bytes(content)


def keep_picture(browser: Any, name: str) -> None:
    """Keep a picture of the whole page."""
    if KEPT:
        wanted = {"format": "png", "captureBeyondViewport": True, "optimizeForSpeed": True}
        found = browser.execute_cdp_cmd("Page.captureScreenshot", wanted)
        keep(name, base64.b64decode(found["data"]))
