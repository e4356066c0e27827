"""Examples: the server on real sockets: timestamps, floods, hostile packets, clock steps, close."""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inorder.sync import stamps
from inorder.sync.keys import KeyRing
from inorder.sync.packet import ACK, RSP, SIZE, TAKEN, Packet, parse
from inorder.sync.reason import Reason
from producers.sync_server.answering import ANSWERED, REPORTED
from producers.sync_server.server import BindFailed, ServerLimits, SyncServer, is_loopback
from tests.inorder.sync.key_file import key_table
from tests.inorder.sync.sockets import (
    LOOPBACK,
    OPEN,
    TIMEOUT_S,
    Running,
    asked,
    drained,
    endpoint,
    report,
    request,
    serving,
)
from tests.services import absent
from tests.waiting import wait_until

KEYS = KeyRing.parse(key_table(1, "ab" * 32, "s1") + key_table(2, "cd" * 32))
TRIES = 3


@contextmanager
def unserved() -> Iterator[SyncServer]:
    """Yield a server that is not started; the test calls its turns."""
    server = SyncServer(LOOPBACK, 0, OPEN, lambda _: True)
    try:
        yield server
    finally:
        server._socket.close()


def test_kernel_sets_receive_time() -> None:
    """A packet waits in the socket for a while before the server reads it."""
    with unserved() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        if not server.kernel_stamps:
            absent("the kernel stamps no datagrams here (SO_TIMESTAMPNS)")
        opened.connect((LOOPBACK, server.address[1]))
        opened.settimeout(TIMEOUT_S)
        # The kernel begins to set timestamps only a while after the first socket asks for them.
        for number in range(1, 20):
            opened.send(request(number))
            # A busy kernel can be slow to deliver.
            assert select.select([server._socket], [], [], TIMEOUT_S)[0]
            there_ns = time.time_ns()
            while time.time_ns() - there_ns < 50_000_000:
                pass
            server.run_once()
            response = parse(opened.recv(SIZE))
            if isinstance(response, Packet) and response.t2_ns <= there_ns:
                break
        assert isinstance(response, Packet)
        assert response.t2_ns <= there_ns
        assert response.t3_ns - response.t2_ns >= 50_000_000


@pytest.mark.parametrize(
    "ancillary",
    [
        [],
        [(socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS + 1, bytes(16))],
        [(socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS, bytes(8))],
        [(socket.SOL_SOCKET + 1, stamps.SO_TIMESTAMPNS, bytes(16))],
    ],
)
def test_other_ancillary_gives_no_time(ancillary: stamps.Ancillary) -> None:
    assert stamps.received_ns(ancillary) is None


def test_hostile_packets_get_no_answer() -> None:
    dice = random.Random(11)
    good = request(1, keys=KEYS)
    hostile = [dice.randbytes(dice.randrange(400)) for _ in range(200)]
    hostile += [good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :] for at in range(SIZE)]
    hostile += [good[:size] for size in range(SIZE)]
    hostile += [good + bytes(size) for size in (1, 100, 1_000, 60_000)]
    with serving(KEYS) as server:
        with endpoint(server) as attacker, endpoint(server) as honest:
            for number, raw in enumerate(hostile):
                attacker.send(raw)
                if number % 50 == 0:
                    assert asked(honest, request(1_000 + number, keys=KEYS)).kind == RSP
            asked(honest, request(2, keys=KEYS))  # All packets before this one have been handled.
            assert drained(attacker) == 0
        counts = server.server.counts
        assert counts.total() == len(hostile) + counts[ANSWERED]
        for reason in (Reason.TRUNCATED, Reason.OVERSIZED, Reason.MAGIC, Reason.FORGED):
            assert counts[reason] > 0
        assert counts[Reason.OVERSIZED] >= 4
        assert server.taken == []


def test_each_address_has_its_own_limit() -> None:
    limits = ServerLimits(rate_per_s=0.001, burst=5)
    with serving(limits=limits) as server:
        with endpoint(server, "127.0.0.2") as greedy, endpoint(server, "127.0.0.3") as modest:
            for nonce in range(50):
                greedy.send(request(nonce))
            server.wait_count(Reason.RATE, 45)
            assert drained(greedy) == 5
            assert asked(modest, request(99)).nonce == 99
        assert server.server.counts == {ANSWERED: 6, Reason.RATE: 45}
        assert server.server.addresses == 2


@pytest.mark.slow
def test_flood_spares_other_addresses() -> None:
    """A source at normal pace gets its answers while another sends as much as it can."""
    flooding = threading.Event()

    def flood(server: Running) -> None:
        with endpoint(server, "127.0.0.2") as opened:
            while not flooding.is_set():
                for nonce in range(200):
                    opened.send(request(nonce))
                flooding.wait(0.001)

    def answered(server: Running, count: int) -> int:
        found = 0
        with endpoint(server, "127.0.0.3") as opened:
            opened.settimeout(1.0)
            for nonce in range(count):
                opened.send(request(nonce))
                try:
                    found += len(opened.recv(SIZE)) == SIZE
                except TimeoutError:
                    pass  # A round is lost, and the source asks again.
        return found

    with serving(limits=ServerLimits(rate_per_s=100, burst=100)) as server:
        thread = threading.Thread(target=flood, args=(server,), daemon=True)
        thread.start()
        try:
            server.wait_count(Reason.RATE, 1_000)
            before = server.server.counts[Reason.RATE]
            # One of a few tries must succeed, because a busy machine loses packets too.
            assert any(answered(server, 100) >= 90 for _ in range(TRIES))
            assert server.server.counts[Reason.RATE] > before
        finally:
            flooding.set()
            thread.join(TIMEOUT_S)


def test_clock_step_voids_rounds() -> None:
    step_ns = 0
    with serving(now_ns=lambda: time.time_ns() + step_ns) as server, endpoint(server) as opened:
        server.server.turned_s = 0.0
        wait_until(lambda: server.server.turned_s > 0, "a turn, to know the clock")
        opened.send(request(1))
        across = report(opened.recv(SIZE))
        step_ns = 10_000_000
        wait_until(lambda: server.server.steps == 1, "the step to be seen")
        opened.send(across)
        server.wait_count(Reason.COOKIE, 1)
        assert server.taken == []
        opened.send(request(2))
        acknowledged = asked(opened, report(opened.recv(SIZE)))
        assert (acknowledged.kind, acknowledged.status) == (ACK, TAKEN)
        server.wait_taken(1)
        assert server.server.counts == {ANSWERED: 2, Reason.COOKIE: 1, REPORTED: 1}


def test_unsent_answer_is_counted() -> None:
    with unserved() as server:
        server._handle(request(1), [], (LOOPBACK, 0))  # Nothing can be sent to port 0.
        assert server.counts == {ANSWERED: 1, Reason.UNSENT: 1}


def test_used_port_is_named() -> None:
    says = f"cannot listen on {LOOPBACK}"
    with serving() as server, pytest.raises(BindFailed, match=f"{says}:{server.port}: "):
        SyncServer(LOOPBACK, server.port, OPEN, lambda _: True)


def test_loopback_is_recognised() -> None:
    hosts = ("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "192.0.2.1", "", "no such host")
    assert [host for host in hosts if is_loopback(host)] == [*hosts[:3]]
