"""Implements the server's side of the time-sync protocol, without a socket.

    REQ     -> RSP with t2, t3 and a cookie: the server's own seal on source, epoch,
               segment, round, nonce, t1, t2, t3 and mono. The server stores nothing.
    REPORT  -> ACK, and the round as a sample. The cookie proves that this server gave
               t2 and t3 for exactly this round, so a source can lie only about its own
               clock. A report is accepted once, if the answer is at most `MAX_AGE_S` old.

A report that was accepted before is acknowledged as such, and is not sampled again. So a source
whose ACK was lost may ask again. A report without space for its sample is answered with the status
NO_ROOM. Any other packet that is refused gets no answer; the caller gets the reason.

The secret of the seal is random and exists only in this process. The caller renews it (`renew`)
when the server's clock has stepped, because a round that spans a step has no valid offset.

Memory: `SeenTokens` with at most `max_reports` entries in each generation. Cost: at most three
HMACs for each packet.
"""

from __future__ import annotations

import hmac
import secrets
import struct
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from inorder.sync.keys import Key, KeyRing
from inorder.sync.packet import (
    ACK,
    BODY_SIZE,
    COOKIE_AT,
    KIND_AT,
    LENGTH_AT,
    MONO_AT,
    NO_ROOM,
    REPORT,
    REQ,
    RSP,
    T2_AT,
    T4_AT,
    TAKEN,
    TAKEN_BEFORE,
    UNKNOWN_MONO,
    Packet,
    parse,
)
from inorder.sync.reason import Reason
from producers.sync_server.seen import SeenTokens

NS_PER_S: Final = 1_000_000_000
MAX_AGE_S: Final = 5
"""Maximum age of an answer in seconds, from t3 to the report's arrival."""
MAX_TURNAROUND_NS: Final = NS_PER_S
"""Maximum time from t2 to t3."""
MAX_REPORTS: Final = 200_000

ANSWERED: Final = "answered"
REPORTED: Final = "taken"

_T2_T3_T4: Final = struct.Struct(">qqq")
_NO_TIME: Final = bytes(8)


class Answer(NamedTuple):
    """The server's response to a packet.

    `reply` is the packet to send back, and `sample` the reported round. `outcome` is `ANSWERED`,
    `REPORTED` or a `Reason`.
    """

    reply: bytes | None
    sample: Packet | None
    outcome: str


class Answerer:
    """The server's side of the protocol.

    `now_ns` is the server's wall clock, and `monotonic_s` a clock that never goes back. `take` gets
    each sample and returns whether there was space for it.
    """

    def __init__(
        self,
        keys: KeyRing,
        take: Callable[[Packet], bool],
        *,
        now_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
        max_reports: int = MAX_REPORTS,
    ) -> None:
        self._keys = keys
        self._take = take
        self._now_ns = now_ns
        self._monotonic_s = monotonic_s
        self._seen = SeenTokens(MAX_AGE_S, max_reports)
        self.renew()

    def renew(self, secret: bytes | None = None) -> None:
        """Renew the secret, so that reports of rounds that were answered before are refused."""
        self._own = Key(0, secret or secrets.token_bytes(32))

    def answer(self, raw: bytes, received_ns: int) -> Answer:
        """Return the response to a datagram that arrived at `received_ns` on the server's clock."""
        packet = parse(raw)
        if isinstance(packet, Reason):
            return Answer(None, None, packet)
        key = self._keys.key(packet.key_id)
        if key is None:
            return Answer(None, None, Reason.KEY_UNKNOWN)
        if not key.has_signed(raw):
            return Answer(None, None, Reason.FORGED)
        if not self._keys.admits(packet.key_id, packet.source):
            return Answer(None, None, Reason.KEY_OF_OTHERS)
        if packet.kind == REQ:
            return self._respond(raw, key, received_ns)
        if packet.kind == REPORT:
            return self._accept_report(raw, packet, key)
        return Answer(None, None, Reason.KIND)

    def _respond(self, raw: bytes, key: Key, t2_ns: int) -> Answer:
        # t3 is read as late as possible, because work after it counts as time on the way back.
        t3_ns = self._now_ns()
        if not 0 <= t3_ns - t2_ns <= MAX_TURNAROUND_NS:
            return Answer(None, None, Reason.SERVER_CLOCK)
        stamps = _T2_T3_T4.pack(t2_ns, t3_ns, 0)
        head = b"%b%c%b%b%b" % (
            raw[:KIND_AT],
            RSP,
            raw[KIND_AT + 1 : T2_AT],
            stamps,
            raw[MONO_AT:COOKIE_AT],
        )
        return Answer(key.sign(head + self._own.seal(head[LENGTH_AT:])), None, ANSWERED)

    def _accept_report(self, raw: bytes, packet: Packet, key: Key) -> Answer:
        if not hmac.compare_digest(self._make_cookie(raw), packet.cookie):
            return Answer(None, None, Reason.COOKIE)
        if abs(self._now_ns() - packet.t3_ns) > MAX_AGE_S * NS_PER_S:
            return Answer(None, None, Reason.OLD)
        if packet.t4_ns < packet.t1_ns:
            return Answer(None, None, Reason.ABSURD)
        if self._seen.has(packet.cookie, self._monotonic_s()):
            return Answer(_acknowledge(raw, key, TAKEN_BEFORE), None, Reason.REPEATED)
        if self._seen.is_full or not self._take(packet):
            return Answer(_acknowledge(raw, key, NO_ROOM), None, Reason.FULL)
        self._seen.add(packet.cookie)
        return Answer(_acknowledge(raw, key, TAKEN), packet, REPORTED)

    def _make_cookie(self, raw: bytes) -> bytes:
        """Compute the cookie that the server sent in this round's RSP, when t4 was still unset."""
        return self._own.seal(raw[LENGTH_AT:T4_AT] + _NO_TIME + raw[MONO_AT:COOKIE_AT])


def _acknowledge(raw: bytes, key: Key, status: int) -> bytes:
    return key.sign(b"%b%c%c%b" % (raw[:KIND_AT], ACK, status, raw[LENGTH_AT:BODY_SIZE]))


def sample_line(packet: Packet, server: str) -> dict[str, int | str]:
    """Return the value of the sample's `clock.offsets` record; the source is the record's key."""
    line: dict[str, int | str] = {
        "t1": packet.t1_ns,
        "t2": packet.t2_ns,
        "t3": packet.t3_ns,
        "t4": packet.t4_ns,
        "server": server,
        "segment": packet.segment,
    }
    if packet.mono_ns != UNKNOWN_MONO:
        line["mono"] = packet.mono_ns
    return line
