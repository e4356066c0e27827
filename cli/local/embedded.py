"""Runs a Kafka inside this process: librdkafka's mock cluster, without Java or a container.

Produce, fetch, headers, consumer groups and transactions work. Nothing is stored on disk. The mock
cluster has these limits:

* `make_topic` sets the number of a topic's partitions, which cannot change. A topic that was not
  created is created with `PARTITIONS` when its metadata is requested.
* It does not answer CreateTopics requests (`AdminClient.create_topics`), so never send one.
* It keeps about 5 MB of each partition, and older records vanish. Limit the amount that you send
  before it is read.
* Timestamps are the producer's (CreateTime), and topics have no settings.
* The cluster lives as long as the `EmbeddedBroker`, so keep a reference to it.

The cluster is made by librdkafka's own functions (rdkafka.h, rdkafka_mock.h), which the Python
client includes. No client setting removes the three seconds that every group waits before its first
rebalance.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Final, Self

from confluent_kafka import KafkaError, Producer, cimpl

from agents.kafka.declared import list_needed_topics
from topology.config import Topology

PARTITIONS = 4
ASK_TIMEOUT_S = 10.0


class EmbeddedBroker:
    """An embedded broker, which runs from construction to `close` or the end of its `with`."""

    def __init__(self) -> None:
        host = _new_host()
        self.close = weakref.finalize(self, _DESTROY, host)
        """Stops the broker and discards all its records."""

        self._cluster = _CLUSTER_OF(host)
        _FIRST_REBALANCE_AFTER_MS(self._cluster, 0)
        self.bootstrap: str = _SERVERS_OF(self._cluster).decode()
        self._asking = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self._asking.list_topics(timeout=ASK_TIMEOUT_S)

    def make_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        """Create the topic; an existing one stays as it is."""
        if not self.close.alive:
            raise RuntimeError("the embedded broker has been closed")
        error = _MAKE_TOPIC(self._cluster, name.encode(), partitions, 1)
        if error not in (KafkaError.NO_ERROR, KafkaError.TOPIC_ALREADY_EXISTS):
            raise RuntimeError(f"topic {name}: {KafkaError(error).str()}")
        self._asking.list_topics(name, timeout=ASK_TIMEOUT_S)

    def make_topics(self, topology: Topology, partitions: int | None = None) -> None:
        """Create the topics of the topology, with its partitions but without settings.

        `partitions` replaces the number that the topology sets.
        """
        for spec in list_needed_topics(topology):
            self.make_topic(spec.name, partitions or spec.partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_LIBRARY: Final = ctypes.CDLL(cimpl.__file__)
_POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_PRODUCER: Final = 0
_OK: Final = 0
_LONGEST_REASON: Final = 512


def _bind_function(name: str, returns: Any, *takes: Any) -> Any:
    function = getattr(_LIBRARY, f"rd_kafka_{name}")
    function.restype, function.argtypes = returns, takes
    return function


_SETTINGS: Final = _bind_function("conf_new", _POINTER)
_SET: Final = _bind_function("conf_set", ctypes.c_int, _POINTER, _TEXT, _TEXT, _TEXT, _SIZE)
_NEW: Final = _bind_function("new", _POINTER, ctypes.c_int, _POINTER, _TEXT, _SIZE)
_DESTROY: Final = _bind_function("destroy", None, _POINTER)
_CLUSTER_OF: Final = _bind_function("handle_mock_cluster", _POINTER, _POINTER)
_SERVERS_OF: Final = _bind_function("mock_cluster_bootstraps", _TEXT, _POINTER)
_FIRST_REBALANCE_AFTER_MS: Final = _bind_function(
    "mock_group_initial_rebalance_delay_ms", None, _POINTER, ctypes.c_int32
)
_MAKE_TOPIC: Final = _bind_function(
    "mock_topic_create", ctypes.c_int, _POINTER, _TEXT, ctypes.c_int, ctypes.c_int
)


def _new_host() -> int:
    """Return a librdkafka client that only hosts the mock cluster."""
    settings, reason = _SETTINGS(), ctypes.create_string_buffer(_LONGEST_REASON)
    for name, value in {
        "bootstrap.servers": "embedded",  # The mock cluster replaces it with its own servers.
        "test.mock.num.brokers": "1",
        "test.mock.broker.rtt": "0",
        "log_level": "3",  # This suppresses the warning that the cluster is a mock.
    }.items():
        if _SET(settings, name.encode(), value.encode(), reason, len(reason)) != _OK:
            raise RuntimeError(reason.value.decode())
    host: int | None = _NEW(_PRODUCER, settings, reason, len(reason))
    if host is None:
        raise RuntimeError(reason.value.decode())
    return host
