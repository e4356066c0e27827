"""One private engine for all of these tests, with the base images and the project's own image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.containers import base_images, product_image
from infra.containers import engine as engines
from infra.containers.engine import Engine
from tests.services import require


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    require(engines.missing() or base_images.missing())
    with Engine() as started:
        base_images.make_all(started)
        yield started


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The image's name."""
    return product_image.build(engine)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the test that ends the engine behind all others."""
    items.sort(key=lambda item: item.path.name == "test_machine.py")
