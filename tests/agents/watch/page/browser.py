"""Run headless Chromium for the tests and the pictures of the page."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.watch.page.view import View
from tests.agents.watch.page.many import up
from tests.services import require
from tests.waiting import wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def missing() -> str | None:
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} not found; run infra/ensure.sh or install it"
    return None


DRAWN = "return Number(document.body.dataset.drawn || 0)"
SHOWN = """
    return [...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent)
        .map(e => e.innerText)"""

WIDE, NARROW = 1_280, 390
"""Widths of the window in pixels."""


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Run Chromium with a profile in that folder."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in (*OPTIONS, "--window-size=1400,1400", f"--user-data-dir={profile}"):
        options.add_argument(option)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "")
    driver = webdriver.Chrome(options, service)
    try:
        yield driver
    finally:
        driver.quit()


def show_at(driver: Chrome, width: int, height: int) -> None:
    """Show the page in this size in pixels; a narrow one has no scroll bar, as on a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < WIDE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


class Page:
    """A page in Chromium, drawn at least once."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.wait_drawn(1)

    def wait_drawn(self, views: int) -> None:
        self.wait(lambda: self.run(DRAWN) >= views, f"{views} views")

    def wait(self, true: Callable[[], bool], what: str) -> None:
        wait_until(true, what)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Return the shown texts in one step, as the page is redrawn each second."""
        return [str(found) for found in self.run(SHOWN, selector)]

    def text(self, selector: str) -> str:
        self.wait(lambda: bool(self.texts(selector)), selector)
        return self.texts(selector)[0]

    def words(self, selector: str) -> list[str]:
        return [" ".join(found.split()) for found in self.texts(selector)]

    def click(self, selector: str) -> None:
        from selenium.common.exceptions import StaleElementReferenceException

        def is_clicked() -> bool:
            try:
                self.driver.find_element("css selector", selector).click()
            except StaleElementReferenceException:  # The page was redrawn in between.
                return False
            return True

        self.wait(is_clicked, selector)


@contextmanager
def opened(look: Callable[[], Awaitable[View]], profile: Path) -> Iterator[Page]:
    require(missing())
    with up(look) as address, chromium(profile) as driver:
        driver.get(f"http://{address}/")
        yield Page(driver)
