"""`inorder dev` runs a broker, topics and a worker in one command until Ctrl-C, for trials.

The broker is librdkafka's (`--broker embedded`: no Java; `cli.local.embedded` has its limits). With
`--broker kafka` it is a real Kafka from Maven jars (Java 17). Both are at 127.0.0.1:9092 if that is
free. Broker and worker begin without any data or state, and nothing is kept at the end. The worker
is that of `inorder worker`, with all stages. Without a file, the topology is `TOPOLOGY`.

Topics have one replica and, on the embedded broker, one partition, whatever the file says. With one
partition, a worker learns waits from all sources, as a replay does. So a recording that is played
back (`inorder produce --as-now`) has the answers of a replay.

The embedded broker is a process beside the worker, which also tells when the worker is ready. The
worker then has a single thread, so it can fork its stages instead of importing their modules once
for each (`agents.process.child_process`). That is most of the time of a start.

The output is at most ten lines unless problems are logged. With --verbose, the worker logs all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final, NoReturn

import click

from agents.kafka.brokers import BrokersUnavailable
from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from agents.process.child_process import announce, end_with_parent, fork
from cli.http_token import fetch
from cli.kafka_options import forget_security
from cli.local import front_door, kafka
from cli.local.embedded import EmbeddedBroker
from cli.local.kafka import KafkaBroker
from cli.local.maven import JarsUnavailable
from cli.local.ports import LOOPBACK, free_ports, is_free
from cli.local.process import NotReady
from cli.logs import verbose_option
from cli.run import worker
from cli.serving import http_option, parse_listen_address
from cli.topology_file import EMBEDDED, Refused, failing, load, topology_named
from topology.config import Topology

TOPOLOGY: Final = """\
# One stream, from events.raw, in order in events.ordered.
streams: {default: {}}
topics: {partitions: 4}
"""
KAFKA: Final = "kafka"
USUAL_PORT: Final = 9092
PARTITIONS: Final = 1
"""The number of partitions of each topic of the embedded broker."""

MAX_INPUTS: Final = 3
"""The maximum number of topics for which a command is printed."""

FORMS: Final = (".csv", ".jsonl", ".csv.gz", ".jsonl.gz", ".parquet")
ASK_S: Final = 0.2


@click.command("dev")
@topology_named()
@click.option(
    "--broker",
    type=click.Choice([EMBEDDED, KAFKA]),
    default=EMBEDDED,
    help="An embedded broker, or a real Kafka, which needs Java 17.",
)
@http_option
@verbose_option
def command(topology_path: str | None, broker: str, http: str, verbose: bool) -> None:
    """Run a broker, topics and a worker until Ctrl-C; nothing is kept.

    The default topology is one plain stream. The lines that it prints include the next commands.
    """
    began_s = time.monotonic()
    host, port = parse_listen_address("--http", http)
    address = f"{host}:{port or free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="inorder-dev-") as name:
        folder = Path(name)
        given = topology_path
        if topology_path is None:
            topology_path = str(folder / "topology.yaml")
            Path(topology_path).write_text(TOPOLOGY)
        topology = load(topology_path)

        def print_next_lines(servers: str) -> None:
            _await_ready(address)
            seconds = time.monotonic() - began_s
            lines = next_lines(topology, given, servers, address, broker, seconds)
            click.echo("\n".join(lines), err=True)

        with _run_broker(broker, folder, topology, print_next_lines) as servers:
            _run_worker(
                *("--topology", topology_path, "--brokers", servers, "--http", address),
                *("--state-dir", str(folder / "state")),
                "--verbose" if verbose else "--quiet",
            )


def _run_worker(*arguments: str) -> None:
    """Run the worker in this process, which ends with SystemExit.

    Security settings are removed from the environment, because this broker uses PLAINTEXT.
    """
    forget_security()
    worker.command.main(list(arguments), standalone_mode=False)


Told = Callable[[str], None]
"""A function that waits until the worker is ready and prints the next commands."""


@contextlib.contextmanager
def _run_broker(kind: str, folder: Path, topology: Topology, told: Told) -> Iterator[str]:
    """Run a broker with the topology's topics during the body, and yield its bootstrap servers."""
    if kind == EMBEDDED:
        with _embed(topology, told) as servers:
            yield servers
        return
    if missing := kafka.missing():
        raise Refused(f"--broker {KAFKA}: {missing}; or leave --broker out to use the embedded one")
    click.echo("starting Kafka; the first time, its jars (55 MB) are downloaded", err=True)
    with (
        failing(JarsUnavailable, NotReady, BrokersUnavailable),
        KafkaBroker(folder, ports=[choose_kafka_port(USUAL_PORT)]) as real,
    ):
        ensure_topics(list_needed_topics(topology), real.bootstrap, replication=1)
        threading.Thread(target=told, args=(real.bootstrap,), daemon=True).start()
        yield real.bootstrap


def choose_kafka_port(usual: int) -> int:
    """Return the usual port; if another process listens there, say so and return a free one."""
    if is_free(usual):
        return usual
    (other,) = free_ports(1)
    taken = f"{LOOPBACK}:{usual} is taken: another program listens there, perhaps another Kafka"
    click.echo(f"{taken}; write {LOOPBACK}:{other} in its place", err=True)
    return other


@contextlib.contextmanager
def _embed(topology: Topology, told: Told) -> Iterator[str]:
    """Run the embedded broker in a process beside this one, which has no other thread then."""
    with socket.create_server((LOOPBACK, choose_kafka_port(USUAL_PORT))) as door:
        servers = f"{LOOPBACK}:{door.getsockname()[1]}"
        begin = partial(_run_broker_process, door, topology, partial(told, servers), os.getpid())
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        with fork({"broker": []}, begin) as children:
            # The worker blocks signals itself until its event loop handles them.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            door.close()
            with children["broker"].pipe as pipe:
                if not pipe.readline():
                    raise click.ClickException("the embedded broker did not start")
            yield servers


def _run_broker_process(
    door: socket.socket,
    topology: Topology,
    told: Callable[[], None],
    parent: int,
    command: Sequence[str],
) -> None:
    """Run the broker until the parent ends; Ctrl-C is meant for the worker, which ends first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if end_with_parent(parent):
        with EmbeddedBroker() as broker:
            broker.make_topics(topology, PARTITIONS)
            announce(int(command[-1]), broker.bootstrap)
            asyncio.run(_serve(door, broker.bootstrap, told, parent))


async def _serve(
    door: socket.socket, broker: str, told: Callable[[], None], parent: int
) -> NoReturn:
    ended = asyncio.Event()

    def end_if_orphaned() -> None:
        if os.getppid() != parent:
            ended.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end_if_orphaned)
    threading.Thread(target=told, daemon=True).start()
    async with await front_door.relay_connections(door, broker):
        await ended.wait()
    os._exit(0)


# -- what to type next -----------------------------------------------------------------------------


def next_lines(
    topology: Topology, path: str | None, servers: str, address: str, kind: str, seconds: float
) -> list[str]:
    """Return the addresses and the next commands, as lines to print when the worker is ready.

    `path` is the topology file, if one was given. A recording whose name begins like that of the
    file stands in the command that publishes it.
    """
    inorder = program_name()
    streams = list(topology.streams.values())
    inputs = list(dict.fromkeys(stream.input for stream in streams))
    by = f" --topology {shlex.quote(path)}" if path else ""
    return [
        f"ready: {kind} broker at {servers}, worker at http://{address}/ready ({seconds:.0f} s)",
        *(
            f"  publish  {inorder} produce --brokers {servers} --topic {topic}{by} --as-now"
            f" {shlex.quote(recording_beside(path, topic))}"
            for topic in inputs[:MAX_INPUTS]
        ),
        f"  read     {inorder} read --brokers {servers} --topic {streams[0].output} --follow",
        *(
            f"  results  {inorder} read --brokers {servers} --topic {topic} --follow"
            for topic in list(topology.result_topics.values())[:1]
        ),
        f"  look     http://{address}/ in a browser",
        f"  ask why  {inorder} explain {address}",
        "  stop     Ctrl-C; nothing is kept",
    ]


def program_name() -> str:
    """Return the command as it was typed, if it can be typed so again."""
    typed = Path(sys.argv[0])
    found = shutil.which("inorder")
    if typed.name != "inorder" or (found and typed.exists() and typed.samefile(found)):
        return "inorder"
    return shlex.quote(str(typed))


def recording_beside(path: str | None, topic: str) -> str:
    """Return the recording beside the topology file: NAME.csv or NAME_TOPIC.csv, or any form."""
    if path is not None:
        stem = Path(path).with_suffix("")
        for name in (f"{stem}_{topic}", f"{stem}"):
            for form in FORMS:
                if Path(name + form).is_file():
                    return name + form
    return "EVENTS.csv"


def _await_ready(address: str) -> None:
    while not _is_ready(address):
        time.sleep(ASK_S)


def _is_ready(address: str) -> bool:
    with contextlib.suppress(OSError):
        return fetch(address, "/ready", ASK_S)[0] == HTTPStatus.OK
    return False
