"""Builds the settings of a small broker, which are the same for jars and containers.

The settings suit tests and benchmarks on one machine. The broker starts quickly, with few internal
partitions and no wait before a group's first rebalance. It needs little memory. It aborts the
transactions of dead producers within a second of their time-out. Topics are never created by
accident. Each topic chooses its timestamps by `message.timestamp.type`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cli.local.ports import LOOPBACK

INTERNAL_PARTITIONS = 8
MAX_NODES = 3
PLAIN: Final = "PLAINTEXT"
"""Name of the listener that brokers, tests and benchmarks use."""


def shared_settings(nodes: int, protocols: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings that all nodes of a cluster of `nodes` share.

    `protocols` maps the listeners in addition to the plain one to their security protocols.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise ValueError(f"nodes={nodes}: a local cluster has 1 to {MAX_NODES} nodes")
    in_sync = str(min(nodes, 2))
    copies = str(nodes)
    by_name = {"CONTROLLER": PLAIN, PLAIN: PLAIN, **(protocols or {})}.items()
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{n}:{spoken}" for n, spoken in by_name),
        "auto.create.topics.enable": "false",
        "num.partitions": "4",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.max.timeout.ms": "60000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "log.index.size.max.bytes": str(1 << 20),
    }


def settings_of_node(
    node: int,
    ports: Mapping[str, Sequence[int]],
    controller_ports: Sequence[int],
    advertised: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, str]:
    """Return the settings of node `node` (from 0): its id, ports by listener, and the quorum.

    Listeners in `advertised` announce another port to clients.
    """
    voters = (f"{number + 1}@{LOOPBACK}:{at}" for number, at in enumerate(controller_ports))
    return {
        "node.id": str(node + 1),
        "controller.quorum.voters": ",".join(voters),
        "listeners": _format_urls(node, {**ports, "CONTROLLER": controller_ports}),
        "advertised.listeners": _format_urls(node, {**ports, **(advertised or {})}),
    }


def _format_urls(node: int, ports: Mapping[str, Sequence[int]]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{each[node]}" for name, each in ports.items())


def as_properties(settings: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def as_environment(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings as environment variables for the container image of Apache Kafka."""
    return {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in settings.items()}
