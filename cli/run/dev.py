"""`inorder dev` runs a broker, topics and a worker in one command until Ctrl-C, for trials.

The broker is librdkafka's in this process (`--broker embedded`: no Java; `cli.local.embedded` has
its limits). With `--broker kafka` it is a real Kafka from Maven jars (Java 17), on 127.0.0.1:9092
if that is free. Broker and worker begin without any data or state, and nothing is kept at the end.
The worker is that of `inorder worker`, with all stages. Without a file, the topology is `TOPOLOGY`.
Topics have one replica, whatever the file says.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

import click

from agents.kafka.brokers import BrokersUnavailable
from agents.kafka.declared import declared
from agents.kafka.topics import create
from cli.http_token import answered
from cli.kafka_options import forget_security
from cli.local import kafka
from cli.local.embedded import EmbeddedBroker
from cli.local.kafka import KafkaBroker
from cli.local.maven import JarsUnavailable
from cli.local.ports import LOOPBACK, free_ports, is_free
from cli.local.process import NotReady
from cli.run import worker
from cli.serving import http_option, listening
from cli.topology_file import EMBEDDED, Refused, failing, load, topology_named
from topology.config import Topology

TOPOLOGY: Final = """\
# One stream, from events.raw, in order in events.ordered.
streams: {default: {}}
topics: {partitions: 4}
"""
KAFKA: Final = "kafka"
USUAL_PORT: Final = 9092
ASK_S: Final = 0.2


@click.command("dev")
@topology_named()
@click.option(
    "--broker",
    type=click.Choice([EMBEDDED, KAFKA]),
    default=EMBEDDED,
    help="A broker in the process, or a real Kafka, which needs Java 17.",
)
@http_option
def command(topology_path: str | None, broker: str, http: str) -> None:
    """Run a broker, topics and a worker until Ctrl-C; nothing is kept.

    The default topology is one plain stream.
    """
    host, port = listening("--http", http)
    address = f"{host}:{port or free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="inorder-dev-") as name:
        folder = Path(name)
        if topology_path is None:
            topology_path = str(folder / "topology.yaml")
            Path(topology_path).write_text(TOPOLOGY)
        topology = load(topology_path)
        with _broker(broker, folder, topology) as servers:
            thread = threading.Thread(
                target=_tell_when_ready, args=(topology, servers, address, broker), daemon=True
            )
            thread.start()
            _work(
                *("--topology", topology_path, "--brokers", servers, "--http", address),
                *("--state-dir", str(folder / "state")),
            )


def _work(*arguments: str) -> None:
    """Run the worker in this process, which ends with SystemExit.

    Security settings are removed from the environment, because this broker uses PLAINTEXT.
    """
    forget_security()
    worker.command.main(list(arguments), standalone_mode=False)


@contextlib.contextmanager
def _broker(kind: str, folder: Path, topology: Topology) -> Iterator[str]:
    """Run a broker with the topology's topics during the body, and yield its bootstrap servers."""
    if kind == EMBEDDED:
        with EmbeddedBroker() as embedded:
            embedded.make_topics(topology)
            yield embedded.bootstrap
        return
    if missing := kafka.missing():
        raise Refused(
            f"--broker {KAFKA}: {missing}; or leave --broker out to use one inside the process"
        )
    click.echo("starting Kafka; the first time, its jars (55 MB) are downloaded", err=True)
    with (
        failing(JarsUnavailable, NotReady, BrokersUnavailable),
        KafkaBroker(folder, ports=[kafka_port(USUAL_PORT)]) as real,
    ):
        create(declared(topology), real.bootstrap, replication=1)
        yield real.bootstrap


def kafka_port(usual: int) -> int:
    """Return the usual port; if another process listens there, say so and return a free one."""
    if is_free(usual):
        return usual
    (other,) = free_ports(1)
    taken = f"{LOOPBACK}:{usual} is taken: another program listens there, perhaps another Kafka"
    click.echo(f"{taken}; write {LOOPBACK}:{other} in its place", err=True)
    return other


def _tell_when_ready(topology: Topology, servers: str, address: str, kind: str) -> None:
    """Print the addresses and the next commands, once the worker is ready."""
    while not _is_ready(address):
        time.sleep(ASK_S)
    stream = next(iter(topology.streams.values()))
    lines = (
        f"ready: {kind} broker at {servers}, worker at http://{address}/ready",
        f"  publish  inorder produce --brokers {servers} --topic {stream.input} EVENTS.jsonl",
        f"  read     inorder read --brokers {servers} --topic {stream.output} --follow",
        f"  look     http://{address}/ in a browser",
        f"  ask why  inorder explain {address}",
        "  stop     Ctrl-C; nothing is kept",
    )
    click.echo("\n".join(lines), err=True)


def _is_ready(address: str) -> bool:
    with contextlib.suppress(OSError):
        return answered(address, "/ready", ASK_S)[0] == HTTPStatus.OK
    return False
