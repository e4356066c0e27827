"""How many exchanges a second the sync server answers on one core.

The server is a process of its own, bound to one core, with a key per source and the
rate limit in place but out of the way; the asking process has another core, where there
is one. Asked are `SOURCES` sources in turn, `WINDOW` packets under way. Two exchanges:

    REQ, RSP                  what a source's clock is measured by
    REQ, RSP, REPORT, ACK     a whole round, with its sample taken: counted only, or
                              published to a broker inside the asking process

Beside them a packet beyond its address's rate, which is dropped unread: so much a flood
costs.

Per second of the server's CPU: what one core does when it is kept busy. Per second of
wall: what came about here, where the asking process, in Python too, may be the slower
of the two. The same packets through the protocol without a socket stand beside.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from benchmarks.tables import Page, Table, thousands
from cli.local.embedded import EmbeddedBroker
from inorder.sync.keys import GivenKey, Key, KeyRing
from inorder.sync.packet import KIND_AT, NO_SEAL, REPORT, REQ, RSP, SIZE, Packet, body, parse
from inorder.sync.reason import Reason
from producers.sync_server.answering import ANSWERED, REPORTED, Answerer
from producers.sync_server.publishing import TopicPublishing
from producers.sync_server.server import ServerLimits, SyncServer

QUICK_EXCHANGES: Final = 40_000
FULL_EXCHANGES: Final = 400_000
SOURCES: Final = 100
WINDOW: Final = 128
TIMEOUT_S: Final = 10.0
UNLIMITED: Final = ServerLimits(rate_per_s=1e9, burst=1_000_000_000, max_reports=10_000_000)
CLOSED: Final = ServerLimits(rate_per_s=1e-6, burst=1)
TOPIC: Final = "clock.offsets"
LOOPBACK: Final = "127.0.0.1"
SECRETS: Final = [bytes([number]) * 32 for number in range(1, SOURCES + 1)]
RING: Final = KeyRing.holding(
    GivenKey(at, secret, [f"s{at}"]) for at, secret in enumerate(SECRETS, 1)
)
KEYS: Final = [Key(at, secret) for at, secret in enumerate(SECRETS, 1)]


class Figure(NamedTuple):
    exchanges: int
    cpu_s: float
    wall_s: float


def request(number: int) -> bytes:
    """The signed REQ of a round, each with a nonce of its own."""
    key = KEYS[number % SOURCES]
    packet = Packet(REQ, 0, key.id, number, 1, 0, number, 10, 0, 0, 0, 0, f"s{key.id}")
    return key.signed(body(packet))


def report(response: bytes) -> bytes:
    """The signed REPORT to a RSP."""
    packet = parse(response)
    assert isinstance(packet, Packet)
    report_packet = packet._replace(kind=REPORT, t4_ns=packet.t1_ns + 1, signature=NO_SEAL)
    return KEYS[packet.round % SOURCES].signed(body(report_packet))


def without_socket(exchanges: int, *, whole: bool) -> Figure:
    answerer = Answerer(RING, lambda _: True, max_reports=exchanges)
    asked = [request(number) for number in range(exchanges)]
    began_s = time.process_time()
    replies = [answerer.answer(raw, time.time_ns()).reply for raw in asked]
    cpu_s = time.process_time() - began_s
    if whole:
        reports = [report(reply) for reply in replies if reply is not None]
        began_s = time.process_time()
        outcomes = [answerer.answer(raw, 0).outcome for raw in reports]
        cpu_s += time.process_time() - began_s
        assert outcomes.count(REPORTED) == exchanges, set(outcomes)
    return Figure(exchanges, cpu_s, cpu_s)


def over_loopback(exchanges: int, *, whole: bool, brokers: str | None = None) -> Figure:
    """One run against a server of its own."""
    with served(UNLIMITED, brokers) as (endpoint, stop):
        asked = [request(number) for number in range(exchanges)]
        began_s = time.monotonic()
        converse(endpoint, asked, report if whole else None)
        wall_s = time.monotonic() - began_s
        cpu_s, counts = stop()
    assert counts[ANSWERED] == exchanges, counts
    assert counts.get(REPORTED, 0) == (exchanges if whole else 0), counts
    return Figure(exchanges, cpu_s, wall_s)


def beyond_the_rate(packets: int) -> Figure:
    """As many as the kernel lets through of so many; `exchanges` are packets here."""
    with served(CLOSED, None) as (endpoint, stop):
        raw = request(0)
        began_s = time.monotonic()
        for _ in range(packets):
            endpoint.send(raw)
        wall_s = time.monotonic() - began_s
        cpu_s, counts = stop()
    return Figure(counts[Reason.RATE], cpu_s, wall_s)


@contextmanager
def served(
    limits: ServerLimits, brokers: str | None
) -> Iterator[tuple[socket.socket, Callable[[], tuple[float, dict[str, int]]]]]:
    """A server's process: a socket to it, and what ends it and tells its CPU and counts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, limits, brokers), daemon=True)
    process.start()

    def stop() -> tuple[float, dict[str, int]]:
        ours.send("stop")
        cpu_s, counts = _received(ours)
        return cpu_s, counts

    try:
        port = _received(ours)
        _pin(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
            endpoint.connect((LOOPBACK, port))
            endpoint.settimeout(TIMEOUT_S)
            yield endpoint, stop
    finally:
        process.terminate()
        process.join(TIMEOUT_S)


def converse(
    endpoint: socket.socket, asked: Sequence[bytes], respond: Callable[[bytes], bytes] | None
) -> None:
    """Every exchange to its end. Half of `WINDOW` is sent at a time, so that both sides
    have work; on loopback none is lost."""
    begun = iter(asked)
    ready = list(islice(begun, WINDOW))
    done = 0
    while done < len(asked):
        for raw in ready:
            endpoint.send(raw)
        ready = []
        for _ in range(min(WINDOW // 2, len(asked) - done)):
            reply = endpoint.recv(SIZE)
            if respond is not None and reply[KIND_AT] == RSP:
                ready.append(respond(reply))
            else:
                done += 1
                ready += islice(begun, 1)


def serve(pipe: Connection, limits: ServerLimits, brokers: str | None) -> None:
    """The server's process: tells its port, then CPU and counts when told to stop."""
    _pin(0)
    publishing = TopicPublishing(brokers, TOPIC, "bench") if brokers else None
    take: Callable[[Packet], bool] = publishing.take if publishing else lambda _: True
    turn: Callable[[], object] = publishing.turn if publishing else lambda: None
    keys = RING
    server = SyncServer(LOOPBACK, 0, keys, take, limits=limits, on_turn=turn)
    pipe.send(server.address[1])
    began_s = time.process_time()
    worked_on = -1
    while worked_on != server.counts.total() or not pipe.poll():  # till none are left
        worked_on = server.counts.total()
        server.turn()
    cpu_s = time.process_time() - began_s
    if publishing:
        publishing.close()
        assert publishing.lost + publishing.refused == 0
    pipe.send((cpu_s, dict(server.counts)))


def _received(pipe: Connection) -> Any:
    if not pipe.poll(TIMEOUT_S * 3):
        raise TimeoutError("the server's process does not answer")
    return pipe.recv()


def _pin(core: int) -> None:
    """To one core of those that are allowed, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[core % len(allowed)]})


def measure(exchanges: int) -> Table:
    table = Table(
        "exchanges a second on one core",
        ("exchange", "server's CPU, us", "per CPU second", "per second of wall"),
    )

    def add(name: str, figure: Figure) -> None:
        each_us = figure.cpu_s / figure.exchanges * 1e6
        rate = thousands(figure.exchanges / figure.cpu_s)
        table.add(name, f"{each_us:.1f}", rate, thousands(figure.exchanges / figure.wall_s))

    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        add("REQ, RSP", over_loopback(exchanges, whole=False))
        add("REQ, RSP, REPORT, ACK", over_loopback(exchanges, whole=True))
        with EmbeddedBroker() as broker:
            broker.make_topic(TOPIC)
            figure = over_loopback(exchanges, whole=True, brokers=broker.bootstrap)
            add("the same, samples published", figure)
        add("a packet beyond the rate", beyond_the_rate(exchanges))
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)
    add("REQ, RSP without a socket", without_socket(exchanges, whole=False))
    add("REQ, RSP, REPORT, ACK without a socket", without_socket(exchanges, whole=True))
    return table


@click.command("sync")
@click.option("--full", is_flag=True, help=f"{FULL_EXCHANGES:,} exchanges instead of fewer.")
@click.option("--exchanges", type=click.IntRange(WINDOW))
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
def command(full: bool, exchanges: int | None, markdown: Path | None) -> None:
    """Exchanges a second of the sync server on one core."""
    count = exchanges or (FULL_EXCHANGES if full else QUICK_EXCHANGES)
    Page(markdown).table(measure(count))
