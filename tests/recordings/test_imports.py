"""Law: the readers of recordings import no Kafka client before a topic is read."""

from __future__ import annotations

import pkgutil
from typing import Final

import recordings
from tests.kit.programs import printed

KAFKA: Final = {"aiohttp", "aiokafka", "confluent_kafka", "faust", "mode", "rocksdict"}
SCRIPT: Final = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
print(*sys.modules)
"""


def test_readers_import_no_kafka_client() -> None:
    names = [each.name for each in pkgutil.walk_packages(recordings.__path__, "recordings.")]
    loaded = set(printed("-c", SCRIPT, *names).split())
    assert {"recordings.topic_dump", "recordings.values"} <= loaded
    assert loaded.isdisjoint(KAFKA)
