"""Chromium, headless, for the page's tests and its pictures."""

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


@contextmanager
def chromium(profile: Path, width: int = 1400, height: int = 1400) -> Iterator[Chrome]:
    """Its profile lies in that folder."""
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
