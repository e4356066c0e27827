"""One private engine for all of these tests, with the base images and the project's own image."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest

from infra.containers import base_images, product_image
from infra.containers import engine as engines
from infra.containers.engine import Engine
from tests.services import require

SECONDS: dict[str, float] = {}
FIRST_TIMEOUT_S = 7200
"""Time limit of the first test, which waits for another run's engine and makes the images."""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    require(engines.missing() or base_images.missing())
    with Engine() as started:
        with measure("base images"):
            base_images.make_all(started)
        yield started


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """Build the product image, and return its name."""
    with measure("product image"):
        return product_image.build(engine)


@contextmanager
def measure(what: str) -> Iterator[None]:
    """Measure how many seconds the body takes, for the run's summary."""
    began_s = time.monotonic()
    yield
    SECONDS[what] = time.monotonic() - began_s


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, seconds in SECONDS.items():
        terminalreporter.write_line(f"{seconds:6.0f} s  {what}")


@pytest.hookimpl(trylast=True)  # The marker has selected the tests to be run by then.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the test that ends the engine after all others, and give the first one more time."""
    items.sort(key=lambda item: item.path.name == "test_machine.py")
    mine = (item for item in items if item.get_closest_marker("containers"))
    for first in islice(mine, 1):
        first.add_marker(pytest.mark.timeout(FIRST_TIMEOUT_S))
