"""Examples: the server answers, refuses or reports packets, hostile ones above all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.sync.keys import KeyRing
from inorder.sync.packet import (
    ACK,
    NO_ROOM,
    NO_SEAL,
    REPORT,
    REQ,
    RSP,
    SIZE,
    TAKEN,
    TAKEN_BEFORE,
    UNKNOWN_MONO,
    Packet,
    encode_body,
    parse,
)
from inorder.sync.reason import Reason
from producers.sync_server.answering import ANSWERED, MAX_AGE_S, REPORTED, Answerer, sample_line
from tests.inorder.sync.key_file import key_table

NS_PER_S = 1_000_000_000
RING = KeyRing.parse(
    key_table(1, "11" * 32, "s1") + key_table(2, "22" * 32, "s2") + key_table(9, "99" * 32)
)
NOW_NS = 1_700_000_000 * NS_PER_S
SOURCE_NS = NOW_NS - 3_600 * NS_PER_S
"""The source's clock is an hour behind."""


class Bench:
    """An answering server whose clocks are set by a test."""

    def __init__(self, keys: KeyRing = RING, max_reports: int = 100) -> None:
        self.keys = keys
        self.now_ns = NOW_NS
        self.run_s = 0.0
        self.has_room = True
        self.taken: list[Packet] = []
        self.answerer = Answerer(
            keys,
            self._take,
            now_ns=lambda: self.now_ns,
            monotonic_s=lambda: self.run_s,
            max_reports=max_reports,
        )

    def tell(self, raw: bytes, late_ns: int = 0) -> tuple[Packet | None, str]:
        """Return the parsed reply and the outcome; assert that it is as long as the request."""
        answer = self.answerer.answer(raw, self.now_ns - late_ns)
        if answer.reply is None:
            return None, answer.outcome
        assert len(answer.reply) == len(raw) == SIZE
        read = parse(answer.reply)
        assert isinstance(read, Packet)
        key = self.keys.key(read.key_id)
        assert key is not None
        assert key.has_signed(answer.reply)
        return read, answer.outcome

    def wait(self, seconds: float) -> None:
        self.now_ns += int(seconds * NS_PER_S)
        self.run_s += seconds

    def response(self, request: Packet | None = None) -> Packet:
        reply, outcome = self.tell(self.signed(request or asked()))
        assert outcome == ANSWERED
        assert reply is not None
        return reply

    def ask(self, packet: Packet) -> tuple[Packet | None, str]:
        """Return the reply to a packet that is signed with its key."""
        return self.tell(self.signed(packet))

    def signed(self, packet: Packet, key_id: int | None = None) -> bytes:
        key = self.keys.key(packet.key_id if key_id is None else key_id)
        assert key is not None
        return key.sign(encode_body(packet))

    def _take(self, sample: Packet) -> bool:
        if self.has_room:
            self.taken.append(sample)
        return self.has_room


def asked(source: str = "s1", key_id: int = 1, nonce: int = 77) -> Packet:
    return Packet(REQ, 0, key_id, 5, 6, 2, nonce, SOURCE_NS, 0, 0, 0, -9, source)


def told(response: Packet, t4_ns: int = SOURCE_NS + 1_000) -> Packet:
    return response._replace(kind=REPORT, t4_ns=t4_ns, signature=NO_SEAL)


def test_round_gives_a_sample() -> None:
    bench = Bench()
    reply, outcome = bench.tell(bench.signed(asked()), late_ns=250)
    assert outcome == ANSWERED
    assert reply is not None
    assert (reply.t2_ns, reply.t3_ns) == (NOW_NS - 250, NOW_NS)
    expected = asked()._replace(
        kind=RSP, t2_ns=NOW_NS - 250, t3_ns=NOW_NS, cookie=reply.cookie, signature=reply.signature
    )
    assert reply == expected
    assert bench.taken == []
    bench.wait(0.01)
    report = told(reply)
    acknowledged, outcome = bench.ask(report)
    assert outcome == REPORTED
    assert acknowledged == report._replace(
        kind=ACK, status=TAKEN, signature=acknowledged.signature if acknowledged else b""
    )
    (sample,) = bench.taken
    stamps = {"t1": SOURCE_NS, "t2": NOW_NS - 250, "t3": NOW_NS, "t4": SOURCE_NS + 1_000}
    line = {**stamps, "server": "here", "segment": 2}
    assert sample_line(sample, "here") == {**line, "mono": -9}
    assert sample_line(sample._replace(mono_ns=UNKNOWN_MONO), "here") == line


def test_reports_arrive_in_any_order() -> None:
    """Each of many requests is answered, and later each report is accepted."""
    bench = Bench()
    responses = [bench.response(asked(nonce=n)) for n in range(50)]
    for response in reversed(responses):
        assert bench.ask(told(response))[1] == REPORTED
    assert {sample.nonce for sample in bench.taken} == set(range(50))


Change = Callable[[Packet], Packet]

FORGED_FIELDS: dict[str, Change] = {
    "t1": lambda p: p._replace(t1_ns=p.t1_ns - 1),
    "t2": lambda p: p._replace(t2_ns=p.t2_ns + 1),
    "t3": lambda p: p._replace(t3_ns=p.t3_ns - 1),
    "nonce": lambda p: p._replace(nonce=p.nonce + 1),
    "round": lambda p: p._replace(round=p.round + 1),
    "epoch": lambda p: p._replace(epoch=p.epoch + 1),
    "segment": lambda p: p._replace(segment=p.segment + 1),
    "mono": lambda p: p._replace(mono_ns=p.mono_ns + 1),
    "cookie": lambda p: p._replace(cookie=bytes(16)),
    "source and key": lambda p: p._replace(source="s2", key_id=2),
}


@pytest.mark.parametrize("field", FORGED_FIELDS)
def test_changed_report_is_refused(field: str) -> None:
    """A source has its key, but it can choose only t4."""
    bench = Bench()
    report = FORGED_FIELDS[field](told(bench.response()))
    assert bench.ask(report) == (None, Reason.COOKIE)
    assert bench.taken == []


@pytest.mark.parametrize(
    ("source", "claimed", "signed_by", "reason"),
    [
        ("s1", 1, 2, Reason.FORGED),
        ("s1", 2, 2, Reason.KEY_OF_OTHERS),
        ("s1", 9, 9, Reason.KEY_OF_OTHERS),  # This is a group key, but the source has its own.
        ("s1", 3, 1, Reason.KEY_UNKNOWN),
        ("s1", 0, 1, Reason.KEY_UNKNOWN),
        ("s3", 9, 9, ANSWERED),
        ("s3", 1, 1, Reason.KEY_OF_OTHERS),
    ],
)
def test_key_must_belong_to_source(source: str, claimed: int, signed_by: int, reason: str) -> None:
    bench = Bench()
    raw = bench.signed(asked(source, claimed), signed_by)
    assert bench.answerer.answer(raw, NOW_NS).outcome == reason


@given(st.integers(0, SIZE * 8 - 1), st.booleans())
def test_flipped_bit_is_refused(bit: int, of_report: bool) -> None:
    bench = Bench()
    raw = bytearray(bench.signed(told(bench.response()) if of_report else asked()))
    raw[bit // 8] ^= 1 << bit % 8
    reply, outcome = bench.tell(bytes(raw))
    assert reply is None
    assert outcome in set(Reason)
    assert bench.taken == []


@given(st.binary(max_size=2 * SIZE))
def test_random_bytes_get_no_answer(raw: bytes) -> None:
    assert Bench().tell(raw)[0] is None


@pytest.mark.parametrize("kind", [RSP, ACK])
def test_server_packet_is_no_request(kind: int) -> None:
    bench = Bench()
    packet = bench.response()._replace(kind=kind, signature=NO_SEAL)
    assert bench.ask(packet) == (None, Reason.KIND)


def test_repeated_report_counts_once() -> None:
    """A report with another t4 is the same report."""
    bench = Bench()
    response = bench.response()
    reports = (told(response), told(response), told(response, SOURCE_NS + 5_000))
    outcomes = [bench.ask(each) for each in reports]
    assert [outcome for _, outcome in outcomes] == [REPORTED, Reason.REPEATED, Reason.REPEATED]
    assert [reply.status for reply, _ in outcomes if reply] == [TAKEN, TAKEN_BEFORE, TAKEN_BEFORE]
    assert len(bench.taken) == 1


def test_old_report_is_refused() -> None:
    bench = Bench()
    early, late = bench.response(asked(nonce=1)), bench.response(asked(nonce=2))
    bench.wait(MAX_AGE_S)
    assert bench.ask(told(early))[1] == REPORTED
    bench.wait(0.001)
    assert bench.ask(told(late)) == (None, Reason.OLD)


def test_replayed_report_is_not_taken() -> None:
    bench = Bench()
    raw = bench.signed(told(bench.response()))
    assert bench.tell(raw)[1] == REPORTED
    for _ in range(40):
        bench.wait(0.5)
        assert bench.tell(raw)[1] in (Reason.REPEATED, Reason.OLD)
    assert len(bench.taken) == 1


def test_renewal_voids_old_reports() -> None:
    """A restart or a step of the server's clock causes a renewal."""
    bench = Bench()
    raw = bench.signed(told(bench.response()))
    bench.answerer.renew()
    assert bench.tell(raw) == (None, Reason.COOKIE)
    assert bench.ask(told(bench.response()))[1] == REPORTED


def test_answer_before_request_is_absurd() -> None:
    bench = Bench()
    report = told(bench.response(), SOURCE_NS - 1)
    assert bench.ask(report) == (None, Reason.ABSURD)


@pytest.mark.parametrize("late_ns", [-1, NS_PER_S + 1])
def test_bad_receive_time_is_refused(late_ns: int) -> None:
    """A clock was stepped meanwhile, or the packet waited too long."""
    bench = Bench()
    assert bench.tell(bench.signed(asked()), late_ns) == (None, Reason.SERVER_CLOCK)


def test_retry_after_full_is_accepted() -> None:
    bench = Bench()
    raw = bench.signed(told(bench.response()))
    bench.has_room = False
    reply, outcome = bench.tell(raw)
    assert (outcome, reply and reply.status) == (Reason.FULL, NO_ROOM)
    bench.has_room = True
    assert bench.tell(raw)[1] == REPORTED


def test_full_memory_refuses_reports() -> None:
    bench = Bench(max_reports=2)
    raws = [bench.signed(told(bench.response(asked(nonce=n)))) for n in range(3)]
    assert [bench.tell(raw)[1] for raw in raws] == [REPORTED, REPORTED, Reason.FULL]
    assert len(bench.taken) == 2


def test_cookie_works_without_keys() -> None:
    bench = Bench(KeyRing.open_to_all())
    response = bench.response(asked("anybody", 0))
    assert response.signature == NO_SEAL
    forged = told(response)._replace(t2_ns=0)
    assert bench.ask(forged) == (None, Reason.COOKIE)
    assert bench.ask(told(response))[1] == REPORTED
    signed = asked("anybody", 1)
    assert bench.tell(encode_body(signed) + b"x" * 16) == (None, Reason.KEY_UNKNOWN)
    assert bench.tell(encode_body(asked("anybody", 0)) + b"x" * 16) == (None, Reason.FORGED)
