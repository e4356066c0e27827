"""Runs Chromium without a window for the tests and the pictures of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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


WIDE, NARROW = 1_280, 390
"""Widths in pixels at which the page is looked at."""


@contextmanager
def chromium(profile: Path, width: int = 1400, height: int = 1400) -> Iterator[Chrome]:
    """Run Chromium with a profile in that folder."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in (*OPTIONS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(option)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "")
    driver = webdriver.Chrome(options, service)
    try:
        yield driver
    finally:
        driver.quit()


def show_at(driver: Chrome, width: int, height: int) -> None:
    """Show the page in that many pixels. A narrow one has no scroll bar, as on a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < WIDE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
