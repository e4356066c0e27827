"""Measure the clock of a source against sync servers, in the background.

    client = SyncClient("press-7", SyncSettings("sync-1:4123,sync-2:4123"))
    client.start()
    ...                                  # client.clock() stamps the events
    client.status().offset_ns
    client.close()

`SequencedProducer(sync=...)` does all this. A round measures the clock that stamps the events,
`clock`, so the producer must use that same clock. The servers publish the rounds, from which
stages correct timestamps. The source itself needs no result, and `status` is for people.

Each server has a daemon thread, which no fault ends, and no fault reaches the publisher. An absent
server, a name that cannot be resolved and a network that is down are counted. The thread tries
again later, and resolves the name again. If a name has several addresses (for example IPv6 and
IPv4), the next one is tried after one that is unreachable or silent. `close` waits for the threads
at most `timeout_s`.

The arrival time of an answer is the kernel's timestamp if there is one, converted to the source's
clock. The wall clock shows how long ago the kernel received the answer. This age is subtracted from
the source's current time, unless it exceeds `MAX_DELAY_NS`.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Self

from inorder.anchored_clock import AnchoredClock, ClockNs
from inorder.sync import stamps
from inorder.sync.conversation import Conversation
from inorder.sync.jumps import JumpWatch, read_steady_ns
from inorder.sync.keys import KeyRing
from inorder.sync.known import Interval
from inorder.sync.packet import SIZE, source_fault
from inorder.sync.reason import Reason
from inorder.sync.settings import SyncSettings

CLOSE_TIMEOUT_S: Final = 1.0
TICK_S: Final = 0.2
"""The interval at which a thread that waits for an answer checks whether it should end."""
WATCH_S: Final = 1.0
"""The maximum time between two checks of the clock for a jump."""
MAX_DELAY_NS: Final = 50_000_000

log = logging.getLogger("inorder.sync")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The measurement with one server.

    Attributes:
        server: HOST:PORT.
        offset_ns: The server's time minus the source's time, or None if it is unknown.
        error_ns: The maximum error of the offset, or None if it is unknown.
        rounds: The number of rounds that the server has accepted.
        failures: The number of failures by reason (`inorder.sync.reason`).
    """

    server: str
    offset_ns: int | None
    error_ns: int | None
    rounds: int
    failures: dict[str, int]


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The combined measurement with all servers: the intersection of their intervals.

    Attributes:
        offset_ns: The servers' time minus the source's time. A timestamp plus the offset is the
            servers' time. None: it is unknown (yet, or since a jump), or the servers disagree.
        error_ns: The maximum error of the offset in both directions, or None.
        disagree: Whether the intersection of the servers' intervals is empty.
        segment: The number of jumps of the source's clock since the start.
        rounds: The number of rounds that servers have accepted.
        failures: The number of failures by reason (`inorder.sync.reason`).
        servers: The measurement with each server.
    """

    offset_ns: int | None
    error_ns: int | None
    disagree: bool
    segment: int
    rounds: int
    failures: dict[str, int]
    servers: tuple[ServerStatus, ...]


class SyncClient:
    """A client that measures the clock of a source with sync servers, in the background.

    Args:
        source: The name of the source, 1 to 64 bytes.
        settings: The settings.
        clock: The clock that stamps the events, in ns since 1970. None: an `AnchoredClock`.
        running: A clock in ns that never steps, to detect jumps of `clock`.

    Attributes:
        source: The name of the source.
        clock: The clock that is measured. It must stamp the events.
    """

    def __init__(
        self,
        source: str,
        settings: SyncSettings,
        *,
        clock: ClockNs | None = None,
        running: ClockNs = read_steady_ns,
    ) -> None:
        """Prepare the client; call `start` to begin measuring.

        Raises:
            ValueError: The name is empty or too long, or the source has no key.
        """
        if fault := source_fault(source):
            raise ValueError(fault)
        self.source = source
        self.clock: ClockNs = clock or AnchoredClock()
        self._settings = settings
        self._key = (settings.keys or KeyRing.open_to_all()).of(source)
        self._watch = JumpWatch(self.clock, settings.max_skew_ppb, running)
        self._closing = threading.Event()
        self._talks: list[_Talk] = []
        self._not_started = 0

    def start(self, epoch: int = 0) -> None:
        """Start measuring in the background; a second call does nothing.

        Args:
            epoch: The source's epoch.
        """
        if self._talks or self._closing.is_set():
            return
        for host, port in self._settings.addresses():
            conversation = Conversation(
                self.source, epoch, self._key, self._settings, self.clock, self._watch
            )
            talk = _Talk(host, port, conversation, self.clock, self._closing)
            self._talks.append(talk)
            try:
                talk.thread.start()
            # Without a thread, this server is not measured, but the source continues.
            except RuntimeError as error:
                self._not_started += 1
                log.error("time sync with %s: %s", talk.server, error)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop measuring; a thread that hangs while it resolves a name is abandoned.

        Args:
            timeout_s: The maximum wait for the threads, in seconds.
        """
        self._closing.set()
        deadline_s = time.monotonic() + timeout_s
        for talk in self._talks:
            if talk.thread.ident is not None and talk.thread is not threading.current_thread():
                talk.thread.join(max(0.0, deadline_s - time.monotonic()))

    def status(self) -> SyncStatus:
        """Return the current measurement."""
        known = [talk.status() for talk in self._talks]
        intervals = [interval for _, interval in known if interval is not None]
        common: Interval | None = intervals[0] if intervals else None
        for interval in intervals[1:]:
            common = common and common.cut(interval)
        failures: Counter[str] = Counter()
        for status, _ in known:
            failures.update(status.failures)
        if self._not_started:
            failures[Reason.FAILED] += self._not_started
        return SyncStatus(
            offset_ns=common.offset_ns if common else None,
            error_ns=common.error_ns if common else None,
            disagree=bool(intervals) and common is None,
            segment=self._watch.segment,
            rounds=sum(status.rounds for status, _ in known),
            failures=dict(failures),
            servers=tuple(status for status, _ in known),
        )

    def __enter__(self) -> Self:
        """Start the client and return it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()


class _Talk:
    """The thread that talks to one server, and its socket."""

    def __init__(
        self,
        host: str,
        port: int,
        conversation: Conversation,
        clock: ClockNs,
        closing: threading.Event,
    ) -> None:
        self._host = host
        self._port = port
        self.server = f"{host}:{port}"
        self._conversation = conversation
        self._clock = clock
        self._closing = closing
        # This lock guards the conversation, and is never locked during a wait.
        self._guard = threading.Lock()
        self._begins_with = 0
        """The index of the address to try first, modulo the number of the name's addresses."""
        self.thread = threading.Thread(
            target=self._run, name=f"inorder-sync {self.server}", daemon=True
        )

    def status(self) -> tuple[ServerStatus, Interval | None]:
        with self._guard:
            conversation = self._conversation
            interval = conversation.interval()
            status = ServerStatus(
                self.server,
                interval.offset_ns if interval else None,
                interval.error_ns if interval else None,
                conversation.rounds,
                dict(conversation.failures),
            )
        return status, interval

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with self._connect() as endpoint:
                    try:
                        self._exchange_packets(endpoint)
                    finally:
                        self._begins_with += 1
            except OSError as error:
                log.debug("time sync with %s: %s", self.server, error)
                with self._guard:
                    self._conversation.on_failure(Reason.UNREACHABLE, time.monotonic())
            except Exception:
                log.exception("time sync with %s failed; it will be tried again", self.server)
                with self._guard:
                    self._conversation.on_failure(Reason.FAILED, time.monotonic())
            self._wait_until_due()

    def _connect(self) -> socket.socket:
        """Return a socket connected to the first address that works.

        Raises:
            OSError: No address works. The error is that of the last address.
        """
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        failure = OSError(f"{self._host} has no address")
        for _ in found:
            family, kind, protocol, _, address = found[self._begins_with % len(found)]
            try:
                return _open_socket(family, kind, protocol, address)
            except OSError as error:
                failure = error
                self._begins_with += 1
        raise failure

    def _exchange_packets(self, endpoint: socket.socket) -> None:
        """Exchange packets with the server until `close`, or until an address does not answer."""
        silences = self._conversation.silences
        while not self._closing.is_set() and self._conversation.silences <= silences:
            silences = self._conversation.silences
            with self._guard:
                packet = self._conversation.on_time(time.monotonic())
            if packet is not None:
                endpoint.send(packet)
            if self._conversation.is_waiting:
                self._receive(endpoint)
            else:
                self._closing.wait(self._until_due_s(WATCH_S))

    def _receive(self, endpoint: socket.socket) -> None:
        endpoint.settimeout(max(0.001, self._until_due_s(TICK_S)))
        try:
            raw, ancillary, _, _ = endpoint.recvmsg(SIZE + 1, stamps.ANCILLARY_SIZE)
        except TimeoutError:
            return
        t4_ns = self._arrival_ns(ancillary)
        with self._guard:
            packet = self._conversation.on_packet(raw, t4_ns, time.monotonic())
        if packet is not None:
            endpoint.send(packet)

    def _arrival_ns(self, ancillary: stamps.Ancillary) -> int:
        received_ns = stamps.received_ns(ancillary)
        wall_ns = time.time_ns()
        # The clock is read after the wall clock, so the arrival can be too late but not too early.
        now_ns = self._clock()
        if received_ns is None or not 0 <= wall_ns - received_ns <= MAX_DELAY_NS:
            return now_ns
        return now_ns - (wall_ns - received_ns)

    def _wait_until_due(self) -> None:
        """Wait until the conversation is due again."""
        while not self._closing.is_set() and self._until_due_s(WATCH_S) > 0:
            self._closing.wait(self._until_due_s(WATCH_S))

    def _until_due_s(self, longest_s: float) -> float:
        return max(0.0, min(longest_s, self._conversation.due_s - time.monotonic()))


def _open_socket(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    endpoint = socket.socket(family, kind, protocol)
    try:
        endpoint.connect(address)  # The kernel then drops datagrams from other senders.
        stamps.enable(endpoint)
    except OSError:
        endpoint.close()
        raise
    return endpoint
