"""`inorder sync-server` measures the clocks of sources and publishes the measurements."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from pathlib import Path
from typing import Any, Final

import click

from agents.exits import Exit
from agents.kafka.brokers import BrokersUnavailable
from agents.watch.port.http import HttpUnavailable
from cli.kafka_options import Kafka, on_kafka
from cli.logs import log_option, quiet_option, set_up
from cli.serving import http_option, parse_listen_address, serve_http
from cli.topology_file import Refused, failing, load, refusing, topology_named
from inorder.sync.keys import BadKeys, KeyRing
from producers.sync_server.metrics import ServerCollector
from producers.sync_server.publishing import LinePublishing, Publishing, TopicPublishing
from producers.sync_server.server import BindFailed, ServerLimits, SyncServer, is_loopback
from topology.config import TopicsConfig

NO_BROKERS: Final = "none"
STUCK_S: Final = 5.0
"""The time in seconds without a turn of the server's loop after which it counts as stuck."""
MAX_NAME_CHARS: Final = 64
OTHERS_MAY_READ: Final = 0o077
DEFAULT_BIND: Final = "127.0.0.1:4123"

log = logging.getLogger("inorder.sync")


@click.command("sync-server")
@on_kafka()
@click.option("--bind", metavar="HOST:PORT", default=DEFAULT_BIND, help="Address for UDP.")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keys in TOML, one table each: [[key]] with id, secret (hex) and sources.",
)
@click.option(
    "--auth",
    type=click.Choice(["none"]),
    help="Whether sources need a key; `none` accepts everybody, on any address.",
)
@topology_named()
@click.option(
    "--server",
    metavar="NAME",
    help="Name of the server in the samples. Default: the name of the host.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=ServerLimits().rate_per_s,
    help="Packets a second from one address; a burst may have twice as many.",
)
@http_option
@log_option
@quiet_option
def command(
    kafka: Kafka,
    bind: str,
    keys: Path | None,
    auth: str | None,
    topology_path: str | None,
    server: str | None,
    rate: float,
    http: str,
    log_style: str,
    quiet: bool,
) -> None:
    """Answer time sync requests over UDP until SIGTERM.

    Samples go to the clock topic of the topology, by default clock.offsets. With `--brokers
    none` they go to standard output, as lines for `inorder replay`.
    """
    set_up("sync-server", quiet=quiet, style=log_style)
    host, port = parse_listen_address("--bind", bind)
    http_host, http_port = parse_listen_address("--http", http)
    ring = _read_keys(keys, auth, host, bind)
    publishing = _make_publishing(kafka, topology_path, _name(server))
    try:
        serving = SyncServer(
            host,
            port,
            ring,
            publishing.take,
            limits=ServerLimits(rate_per_s=rate, burst=int(2 * rate)),
            on_turn=publishing.update_counts,
        )
    except BindFailed as error:
        raise Refused(f"{error}; give --bind another HOST:PORT") from error
    try:
        with refusing(HttpUnavailable):
            asyncio.run(_serve(serving, publishing, http_host, http_port))
    except OSError as error:
        log.error("the server failed: %s", error)
        sys.exit(Exit.FAILED)


async def _serve(server: SyncServer, publishing: Publishing, host: str, port: int) -> None:
    async with serve_http(
        *(server, (host, port), ServerCollector(server, publishing), publishing.trouble),
        *(lambda: _explain(server, publishing), STUCK_S),
    ) as where:
        log.info("%s", where)
        try:
            await asyncio.to_thread(server.run)
        finally:
            await asyncio.to_thread(publishing.close)
    waiting = publishing.taken - publishing.delivered - publishing.lost
    fields = {"delivered": publishing.delivered, "lost": _count_lost(publishing)}
    words = "stopped; %(delivered)d samples delivered, %(lost)d lost"
    log.info(words, fields, extra={"fields": fields})
    if waiting:
        log.warning("%d samples not delivered", waiting)


def _explain(server: SyncServer, publishing: Publishing) -> dict[str, Any]:
    return {
        "address": "{}:{}".format(*server.address),
        "kernel_stamps": server.kernel_stamps,
        "packets": dict(server.counts),
        "delivered": publishing.delivered,
        "lost": _count_lost(publishing),
    }


def _count_lost(publishing: Publishing) -> int:
    return publishing.lost + publishing.refused


def _name(name: str | None) -> str:
    found = socket.gethostname() if name is None else name
    if not (1 <= len(found) <= MAX_NAME_CHARS and found.isprintable()):
        raise Refused(
            f"--server {found!r}: write a name of 1 to {MAX_NAME_CHARS} printable characters"
        )
    return found


def _read_keys(path: Path | None, auth: str | None, host: str, bind: str) -> KeyRing:
    if path is None:
        if auth is None and not is_loopback(host):
            raise Refused(f"--bind {bind} accepts other machines: give --keys FILE, or --auth none")
        log.warning("without keys, everybody may report for every source")
        return KeyRing.open_to_all()
    if auth is not None:
        raise Refused("--keys and --auth none contradict each other; leave one out")
    with refusing(BadKeys, at="--keys "):
        keys = KeyRing.read(path)
    if path.stat().st_mode & OTHERS_MAY_READ:
        log.warning("%s can be read by others; run: chmod 600 %s", path, path)
    log.info("%d key(s)", len(keys))
    return keys


def _make_publishing(kafka: Kafka, topology_path: str | None, name: str) -> Publishing:
    topics = load(topology_path).topics if topology_path is not None else TopicsConfig()
    if kafka.servers == NO_BROKERS:
        return LinePublishing(sys.stdout.buffer, name)
    with failing(BrokersUnavailable):
        found = kafka.brokers().count_partitions([topics.clock])
    if not found[topics.clock]:
        raise Refused(
            kafka.why_hidden(topics.clock)
            or f"{kafka.servers} has no topic {topics.clock}; run `inorder topics create`"
        )
    log.info("samples go to %s with the server's name %s", topics.clock, name)
    return TopicPublishing(kafka.servers, topics.clock, name, kafka.access.to_librdkafka())
