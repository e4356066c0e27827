"""One private engine for all of these tests, with the base images and the project's own image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.containers import base_images
from infra.containers import engine as engines
from infra.containers.engine import Engine
from tests import ROOT
from tests.services import require

BUILD_TIMEOUT_S = 3000.0
IMAGE = "inorder"


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    require(engines.missing() or base_images.missing())
    with Engine() as started:
        base_images.make_all(started)
        yield started


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The image's name. The engine's cache has the layers that did not change."""
    build = ("build", "--network", "host", "--tag", IMAGE, str(ROOT))
    engine.docker(*build, timeout_s=BUILD_TIMEOUT_S)
    return IMAGE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the test that ends the engine behind all others."""
    items.sort(key=lambda item: item.path.name == "test_machine.py")
