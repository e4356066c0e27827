"""Run the source's side of the protocol with one server.

It has no socket, thread or clock. The caller calls `on_time` when it is due, passes in
each packet that arrives, and sends the packets that are returned.

A *round* is REQ, RSP, REPORT, ACK. A *burst* is some rounds in a row.

| event                                        | reaction                                      |
|----------------------------------------------|-----------------------------------------------|
| no RSP within `timeout_s`                    | a new REQ (new nonce), `tries` in all         |
| no ACK within `timeout_s`                    | the same REPORT again, `tries` in all         |
| none of the tries is answered                | silence: wait 1, 2, 4 ... `resync_s` seconds, |
|                                              | each reduced by up to half at random          |
| a round is complete, or absurd               | the next one, `gap_s` +-25 % after its begin  |
| a burst is complete                          | a wait of 5, 10, 20 ... `resync_s` seconds    |
| the source's clock jumped                    | earlier rounds are dropped; a first burst, now|
| the source's clock cannot be used            | counted; the next burst, after the usual wait |
| the rounds contradict the earlier ones       | the waits start again at the shortest         |
| an unexpected or invalid answer              | counted and dropped                           |

The waits double for a reason. Two bursts that are `span` apart bound the rate of the clock to about
2 * error / span. While the span doubles, the error grows by about as much again, and a wait as long
as the span costs about twice the error. A longer wait makes the result too old, and a shorter one
is not worth its packets. `wanted_error_ns` uses the same estimate: each second the error grows by
the smaller of that rate and `max_skew`.

Bounds: one unanswered packet; `known.MAX_ROUNDS`; failures by reason.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from inorder.anchored_clock import ClockNs
from inorder.sync.jumps import JumpWatch
from inorder.sync.keys import Key
from inorder.sync.known import PPB, Interval, Known
from inorder.sync.packet import (
    ACK,
    MAX_INT64,
    MAX_UINT32,
    NO_ROOM,
    NO_SEAL,
    REPORT,
    REQ,
    RSP,
    TAKEN,
    Packet,
    encode_body,
    is_stamp,
    parse,
)
from inorder.sync.reason import Reason
from inorder.sync.settings import MIN_PAUSE_S, SyncSettings

NS_PER_S: Final = 1_000_000_000
MAX_TURNAROUND_NS: Final = NS_PER_S
SHORTEST_BACKOFF_S: Final = 1.0
GAP_JITTER: Final = 0.25
PAUSE_JITTER: Final = 0.25


class _Open(NamedTuple):
    """A packet that was sent and not yet answered; `awaited` is the kind of its answer."""

    packet: Packet
    raw: bytes
    awaited: int
    tries: int


class Conversation:
    """The conversation of a source with one server.

    All `now_s` must come from the same monotonic clock.

    Attributes:
        due_s: The time at which to call `on_time`.
        silences: How often in a row it gave up: no try was answered, or the network failed.
        rounds: The number of rounds that the server has accepted.
        failures: The number of failures by reason.
    """

    def __init__(
        self,
        source: str,
        epoch: int,
        key: Key,
        settings: SyncSettings,
        clock: ClockNs,
        watch: JumpWatch,
        *,
        dice: random.Random | None = None,
        nonce: Callable[[], int] = lambda: secrets.randbits(64),
    ) -> None:
        """Prepare a conversation whose first burst is due at once.

        Args:
            source: The name of the source.
            epoch: The source's epoch.
            key: The key that signs packets.
            settings: The settings.
            clock: The clock that is measured, in ns since 1970.
            watch: The check for jumps of that clock.
            dice: The random generator for the waits.
            nonce: A function that returns a new random number for each REQ.
        """
        self._source = source
        self._epoch = epoch
        self._key = key
        self._settings = settings
        self._clock = clock
        self._watch = watch
        self._dice = dice or random.Random()
        self._nonce = nonce
        self._known = Known(settings.max_skew_ppb)
        self._segment = watch.segment
        self._open: _Open | None = None
        self._left = settings.first_rounds
        self._pause_s = settings.first_resync_s
        self._begun_s = 0.0
        self._round = 0
        self.due_s = float("-inf")
        self.silences = 0
        self.rounds = 0
        self.failures: Counter[str] = Counter()

    @property
    def is_waiting(self) -> bool:
        """Whether the conversation waits for an answer."""
        return self._open is not None

    def interval(self) -> Interval | None:
        """Return the current interval of the offset; None if it is unknown since the last jump."""
        if self._watch.segment != self._segment:
            return None
        return self._known.interval(self._clock())

    def on_time(self, now_s: float) -> bytes | None:
        """Return the packet to send now, or None if nothing is due.

        Args:
            now_s: The current time.
        """
        if self._watch.check() != self._segment:
            self._begin_segment(now_s)
        if now_s < self.due_s:
            return None
        if self._open is None:
            return self._ask(now_s, tries=1)
        return self._try_again(self._open, now_s)

    def on_packet(self, raw: bytes, t4_ns: int, now_s: float) -> bytes | None:
        """Process a packet and return the packet to send at once, or None.

        Args:
            raw: The packet.
            t4_ns: The time at which the packet arrived, by the source's clock.
            now_s: The current time.
        """
        packet = parse(raw)
        if isinstance(packet, Reason):
            self.failures[packet] += 1
        elif packet.key_id != self._key.id or not self._key.has_signed(raw):
            self.failures[Reason.FORGED] += 1
        elif self._open is None or not _is_answer(packet, self._open):
            self.failures[Reason.UNEXPECTED] += 1
        elif packet.kind == RSP:
            return self._report(packet, t4_ns, now_s)
        else:
            self._complete_round(packet, now_s)
        return None

    def on_failure(self, reason: Reason, now_s: float) -> None:
        """Count a failure of the network; the conversation tries again later."""
        self.failures[reason] += 1
        self._give_up(now_s)

    def _ask(self, now_s: float, tries: int) -> bytes | None:
        if tries == 1:
            self._begun_s = now_s
            self._round = (self._round + 1) & MAX_UINT32
        nonce = self._nonce()
        mono_ns = self._watch.mono_ns
        # A delay between reading t1 and sending only makes the round trip appear longer.
        t1_ns = self._clock()
        if not is_stamp(t1_ns) or abs(mono_ns) > MAX_INT64:
            self._end_burst(now_s)
            return None
        packet = Packet(
            kind=REQ,
            status=TAKEN,
            key_id=self._key.id,
            round=self._round,
            epoch=self._epoch,
            segment=self._segment & MAX_UINT32,
            nonce=nonce,
            t1_ns=t1_ns,
            t2_ns=0,
            t3_ns=0,
            t4_ns=0,
            mono_ns=mono_ns,
            source=self._source,
        )
        return self._send(packet, RSP, tries, now_s)

    def _send(self, packet: Packet, awaited: int, tries: int, now_s: float) -> bytes:
        raw = self._key.sign(encode_body(packet))
        self._open = _Open(packet, raw, awaited, tries)
        self.due_s = now_s + self._settings.timeout_s
        return raw

    def _try_again(self, sent: _Open, now_s: float) -> bytes | None:
        is_last = sent.tries >= self._settings.tries
        if sent.awaited == RSP:
            self.failures[Reason.TIMEOUT] += 1
            if not is_last:
                return self._ask(now_s, sent.tries + 1)
        elif not is_last:
            return self._send(sent.packet, ACK, sent.tries + 1, now_s)
        else:
            self.failures[Reason.UNACKNOWLEDGED] += 1
        self._give_up(now_s)
        return None

    def _report(self, answer: Packet, t4_ns: int, now_s: float) -> bytes | None:
        if self._watch.check() != self._segment:
            self._begin_segment(now_s)
            return None
        if not is_stamp(t4_ns):
            self._end_burst(now_s)
            return None
        if self._is_absurd(answer, t4_ns):
            self.failures[Reason.ABSURD] += 1
            self._next(now_s)
            return None
        step_ns = self._settings.granularity_ns
        before = self._known.contradictions
        self._known.add(answer.t1_ns - step_ns, answer.t2_ns, answer.t3_ns - step_ns, t4_ns)
        if self._known.contradictions != before:
            self._pause_s = self._settings.first_resync_s
        report = answer._replace(kind=REPORT, t4_ns=t4_ns, signature=NO_SEAL)
        return self._send(report, ACK, 1, now_s)

    def _is_absurd(self, answer: Packet, t4_ns: int) -> bool:
        turnaround_ns = answer.t3_ns - answer.t2_ns
        round_trip_ns = t4_ns - answer.t1_ns - turnaround_ns
        return (
            not 0 <= turnaround_ns <= MAX_TURNAROUND_NS
            or t4_ns < answer.t1_ns
            or round_trip_ns < -2 * self._settings.granularity_ns
        )

    def _complete_round(self, acknowledged: Packet, now_s: float) -> None:
        if acknowledged.status == NO_ROOM:
            self.failures[Reason.FULL] += 1
        else:
            self.rounds += 1
        self.silences = 0
        self._next(now_s)

    def _next(self, now_s: float) -> None:
        self._open = None
        self._left -= 1
        if self._left > 0:
            gap_s = self._settings.gap_s * self._dice.uniform(1 - GAP_JITTER, 1 + GAP_JITTER)
            self.due_s = max(now_s, self._begun_s + gap_s)
        else:
            self._left = self._settings.rounds
            self.due_s = now_s + self._choose_pause_s() * self._dice.uniform(1 - PAUSE_JITTER, 1)

    def _end_burst(self, now_s: float) -> None:
        """Count the source's clock as unusable, and end the burst."""
        self.failures[Reason.SOURCE_CLOCK] += 1
        self._left = 1
        self._next(now_s)

    def _choose_pause_s(self) -> float:
        settings = self._settings
        wait_s = self._pause_s
        self._pause_s = min(2 * wait_s, settings.resync_s)
        known = self._known.interval(self._clock())
        if settings.wanted_error_ns is not None and known is not None:
            growth_ppb = settings.max_skew_ppb
            if self._known.span_ns:
                growth_ppb = min(growth_ppb, 2 * known.error_ns * PPB // self._known.span_ns)
            room_ns = max(0, settings.wanted_error_ns - known.error_ns)
            wait_s = min(wait_s, room_ns / max(1, growth_ppb))
        return max(wait_s, MIN_PAUSE_S)

    def _give_up(self, now_s: float) -> None:
        self._open = None
        longest_s = min(SHORTEST_BACKOFF_S * 2 ** min(self.silences, 30), self._settings.resync_s)
        self.silences += 1
        self.due_s = now_s + longest_s * self._dice.uniform(0.5, 1)

    def _begin_segment(self, now_s: float) -> None:
        self._segment = self._watch.segment
        self.failures[Reason.JUMP] += self._open is not None
        self._open = None
        self._known.clear()
        self._left = self._settings.first_rounds
        self._pause_s = self._settings.first_resync_s
        self.due_s = now_s


def _is_answer(packet: Packet, sent: _Open) -> bool:
    """Return whether a packet is the expected answer, with all copied fields unchanged."""
    if packet.kind != sent.awaited:
        return False
    if packet.kind == ACK:
        expected = sent.packet._replace(kind=ACK, status=packet.status, signature=packet.signature)
        return packet == expected
    return packet == sent.packet._replace(
        kind=RSP,
        t2_ns=packet.t2_ns,
        t3_ns=packet.t3_ns,
        cookie=packet.cookie,
        signature=packet.signature,
    )
