"""A topic of each test's own."""

from __future__ import annotations

import pytest

from cli.local.embedded import EmbeddedBroker
from tests.inorder.records import Topic


@pytest.fixture
def raw(embedded_broker: EmbeddedBroker, topic: str) -> Topic:
    """A topic of this test in the Kafka inside the process."""
    return Topic(embedded_broker.bootstrap, topic)
