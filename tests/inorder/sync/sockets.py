"""A server in a thread, and plain sockets that send to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from inorder.sync.keys import KeyRing
from inorder.sync.packet import REPORT, REQ, SIZE, UNKNOWN_MONO, Packet, encode_body, parse
from producers.sync_server.server import ServerLimits, SyncServer
from tests.waiting import wait_until

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 10.0
JOIN_S = 10.0
OPEN = KeyRing.open_to_all()


class Running:
    """A running server, and the samples that it has taken."""

    def __init__(
        self,
        keys: KeyRing = OPEN,
        *,
        port: int = 0,
        limits: ServerLimits | None = None,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.taken: list[Packet] = []
        clock = {} if now_ns is None else {"now_ns": now_ns}
        self.server = SyncServer(LOOPBACK, port, keys, self._take, limits=limits, **clock)
        self.port = self.server.address[1]
        self.name = f"{LOOPBACK}:{self.port}"
        self._thread = threading.Thread(target=self.server.run, name="sync server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive()
        assert self.server._socket.fileno() == -1, "it is closed"

    def wait_taken(self, count: int) -> None:
        wait_until(lambda: len(self.taken) >= count, f"{count} samples")

    def wait_count(self, outcome: str, count: int) -> None:
        wait_until(lambda: self.server.counts[outcome] >= count, f"{count} times {outcome}")

    def _take(self, sample: Packet) -> bool:
        self.taken.append(sample)
        return True


@contextmanager
def serving(keys: KeyRing = OPEN, **options: object) -> Iterator[Running]:
    running = Running(keys, **options)  # type: ignore[arg-type]
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def endpoint(server: Running, host: str = LOOPBACK) -> Iterator[socket.socket]:
    """Yield a socket that sends from `host`, an address of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((host, 0))
        opened.connect((LOOPBACK, server.port))
        opened.settimeout(TIMEOUT_S)
        yield opened


def request(nonce: int, source: str = "s1", keys: KeyRing = OPEN) -> bytes:
    key = keys.of(source)
    packet = Packet(REQ, 0, key.id, 1, 0, 0, nonce, 1_000, 0, 0, 0, UNKNOWN_MONO, source)
    return key.sign(encode_body(packet))


def report(response: bytes, keys: KeyRing = OPEN) -> bytes:
    packet = parse(response)
    assert isinstance(packet, Packet)
    told = packet._replace(kind=REPORT, t4_ns=packet.t1_ns + 1)
    return keys.of(packet.source).sign(encode_body(told))


def asked(opened: socket.socket, raw: bytes) -> Packet:
    """Send the datagram, and return the answer."""
    opened.send(raw)
    answer = parse(opened.recv(SIZE + 1))
    assert isinstance(answer, Packet)
    return answer


def drained(opened: socket.socket) -> int:
    """Discard the datagrams that are waiting, and return their number."""
    count = 0
    opened.setblocking(False)  # noqa: FBT003
    with suppress(BlockingIOError):
        while opened.recv(SIZE + 1):
            count += 1
    return count
