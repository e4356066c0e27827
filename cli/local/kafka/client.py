"""Sends the few requests that tests and benchmarks need to a broker, each with a time limit."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cli.local.poll import wait_until

ASK_TIMEOUT_S = 2.0
CREATE_TIMEOUT_S = 30.0
BROKERS_DEFAULT = -1
"""The value that leaves the number of replicas to the brokers' own setting."""

_silent = logging.getLogger("cli.local.kafka.client")
_silent.addHandler(logging.NullHandler())
# Failed connections to a broker that is still starting are expected, so they are not logged.
_silent.propagate = False


def is_answering(server: str, brokers: int) -> bool:
    """Return whether the server HOST:PORT itself answers, and knows at least `brokers` brokers.

    Each call has its own client, because a client that knows other brokers might ask them.
    """
    try:
        return len(_client(server).list_topics(timeout=ASK_TIMEOUT_S).brokers) >= brokers
    except KafkaException:
        return False


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    replication: int = BROKERS_DEFAULT,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic and wait until each of its partitions has a leader.

    The embedded broker never answers this request.
    """
    client = _client(bootstrap)
    topic = NewTopic(name, partitions, replication, config=dict(config or {}))
    client.create_topics([topic])[name].result(CREATE_TIMEOUT_S)
    wait_until(
        lambda: _count_leaders(client, name) == partitions,
        CREATE_TIMEOUT_S,
        f"the leaders of {name}",
    )


def _client(bootstrap: str) -> AdminClient:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }
    return AdminClient(settings, logger=_silent)


def _count_leaders(client: AdminClient, name: str) -> int:
    topic = client.list_topics(name, timeout=ASK_TIMEOUT_S).topics[name]
    return sum(partition.leader >= 0 for partition in topic.partitions.values())
