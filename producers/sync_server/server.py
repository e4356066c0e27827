"""Runs the sync server: one UDP socket, one thread, one CPU core.

A turn waits for packets and takes up to `BATCH` of them, each with the kernel's receive timestamp
if there is one. The limiter checks a packet's address first. Then the protocol (`answering`)
processes the packet. Every packet without effect is counted by its reason.

Each turn that can compare the server's wall clock with the monotonic clock does so. A step of more
than `STEP_NS` renews the server's secret, so no round that spans the
step is accepted.

Replies come from the address that the socket is bound to. For a wildcard, the kernel chooses the
address; so on a machine with several addresses, bind to the one that the sources use.

Memory: the socket's buffer, the limiter's table, the tokens of accepted reports; each has a bound
in `ServerLimits`. The kernel drops packets that find the socket's buffer full, and only the kernel
counts them.
"""

from __future__ import annotations

import ipaddress
import logging
import select
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from inorder.sync import stamps
from inorder.sync.keys import KeyRing
from inorder.sync.packet import SIZE, Packet
from inorder.sync.reason import Reason
from producers.sync_server.answering import MAX_REPORTS, Answerer
from producers.sync_server.limiter import AddressLimiter

BATCH: Final = 256
TURN_S: Final = 0.2
"""Maximum wait of a turn in seconds.

The server checks for a stop or a clock step, and calls `on_turn`, at least this often.
"""
STEP_NS: Final = 1_000_000
HURRIED_NS: Final = 200_000
"""Maximum time between readings of two clocks that are compared."""
SO_RCVBUFFORCE: Final = 33
"""Linux's number of this socket option, which Python's `socket` module lacks."""

log = logging.getLogger("inorder.sync")


class BindFailed(Exception):
    """The server cannot listen at the given address."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The bounds of a server; `rate_per_s` and `burst` count packets of one address."""

    rate_per_s: float = 1_000.0
    burst: int = 2_000
    max_addresses: int = 100_000
    max_reports: int = MAX_REPORTS
    buffer_bytes: int = 8 << 20


class SyncServer:
    """A sync server, whose socket is bound when it is created; `run` serves until `stop`.

    `take` gets every sample, in the serving thread, and returns whether there was space. `on_turn`
    is called after each turn.
    """

    def __init__(
        self,
        host: str,
        port: int,
        keys: KeyRing,
        take: Callable[[Packet], bool],
        *,
        limits: ServerLimits | None = None,
        on_turn: Callable[[], object] = lambda: None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        limits = limits or ServerLimits()
        self._now_ns = now_ns
        self._on_turn = on_turn
        self._answerer = Answerer(keys, take, now_ns=now_ns, max_reports=limits.max_reports)
        self._limiter = AddressLimiter(limits.rate_per_s, limits.burst, limits.max_addresses)
        self._stopping = threading.Event()
        self._mono_ns: int | None = None
        self.counts: Counter[str] = Counter()
        """Number of packets by outcome: `answering.ANSWERED`, `REPORTED`, or a `Reason`."""
        self.steps = 0
        self.turned_s = time.monotonic()
        self._socket = _bind(host, port, limits.buffer_bytes)
        self._arrivals = select.poll()
        self._arrivals.register(self._socket, select.POLLIN)
        self.kernel_stamps = stamps.enable(self._socket)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    @property
    def addresses(self) -> int:
        """Number of addresses in the limiter."""
        return len(self._limiter)

    def run(self) -> None:
        """Serve until `stop`, then close the socket."""
        log.info(
            "sync server on %s port %d; receive timestamps are %s",
            *self.address,
            "the kernel's" if self.kernel_stamps else "taken by the program and less precise",
        )
        try:
            while not self._stopping.is_set():
                self.run_once()
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Make `run` return within `TURN_S`; may be called from any thread or a signal handler."""
        self._stopping.set()

    def run_once(self) -> None:
        """Wait for packets, at most `TURN_S`, and process those that have arrived."""
        self._arrivals.poll(TURN_S * 1000)
        self._watch_clock()
        self._drain()
        self._on_turn()
        self.turned_s = time.monotonic()

    def _drain(self) -> None:
        receive, handle = self._socket.recvmsg, self._handle
        for _ in range(BATCH):
            try:
                raw, ancillary, _, address = receive(SIZE + 1, stamps.ANCILLARY_SIZE)
            except BlockingIOError:
                return
            except OSError as error:  # This socket error reports a temporary fault of the network.
                log.debug("receiving: %s", error)
                return
            handle(raw, ancillary, address)

    def _handle(self, raw: bytes, ancillary: stamps.Ancillary, address: Any) -> None:
        if not self._limiter.take_token(address[0], time.monotonic()):
            self.counts[Reason.RATE] += 1
            return
        received_ns = stamps.received_ns(ancillary) if ancillary else None
        reply, _, outcome = self._answerer.answer(
            raw, self._now_ns() if received_ns is None else received_ns
        )
        self.counts[outcome] += 1
        if reply is None:
            return
        try:
            self._socket.sendto(reply, address)
        except OSError:  # There is no route, or no space to send; the source will ask again.
            self.counts[Reason.UNSENT] += 1

    def _watch_clock(self) -> None:
        before_ns = time.monotonic_ns()
        now_ns = self._now_ns()
        after_ns = time.monotonic_ns()
        if after_ns - before_ns > HURRIED_NS:
            return
        mono_ns = now_ns - after_ns
        if self._mono_ns is not None and abs(mono_ns - self._mono_ns) > STEP_NS:
            self.steps += 1
            self._answerer.renew()
            log.warning("the server's clock stepped by %d ns", mono_ns - self._mono_ns)
        self._mono_ns = mono_ns


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`, a name or an address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        return all(
            ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found
        )
    except (OSError, ValueError):
        return False


def _bind(host: str, port: int, buffer_bytes: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )[0]
        endpoint = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        endpoint.bind(address)
    except OSError as error:
        endpoint.close()
        raise BindFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    endpoint.setblocking(False)  # noqa: FBT003
    _widen(endpoint, buffer_bytes)
    return endpoint


def _widen(endpoint: socket.socket, buffer_bytes: int) -> None:
    """Make the receive buffer as large as allowed, for packets that arrive during a flood."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    if sys.platform == "linux":
        try:  # A privileged process may exceed the system's limit.
            endpoint.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer_bytes)
        except OSError:
            pass
