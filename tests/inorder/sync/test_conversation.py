"""Laws and examples: a source and a server in a world of simulated time.

Main law: whatever the network does, the true offset at each published sample lies between t3 - t4
and t2 - t1. The source's own interval contains it too.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inorder.sync.keys import KeyRing
from inorder.sync.packet import ACK, KIND_AT, MAX_STAMP_NS, REPORT, RSP, Packet, encode_body, parse
from inorder.sync.reason import Reason
from inorder.sync.settings import SyncSettings
from producers.sync_server.answering import ANSWERED
from tests.inorder.sync.world import BEGIN_NS, NS_PER_S, Path, World

HOUR_NS = 3_600 * NS_PER_S
OPEN = KeyRing.open_to_all()


def test_pauses_between_bursts_grow() -> None:
    world = World(offset_ns=HOUR_NS).run(400)
    times_s = [(sample.t2_ns - world.server.taken[0].t2_ns) / 1e9 for sample in world.server.taken]
    bursts: list[list[float]] = []
    for at_s in times_s:
        if not bursts or at_s - bursts[-1][-1] > 0.5:
            bursts.append([])
        bursts[-1].append(at_s)
    assert [len(burst) for burst in bursts[:-1]] == [10] + [4] * (len(bursts) - 2)
    for burst in bursts:
        for before_s, after_s in pairwise(burst):
            assert 0.015 <= after_s - before_s <= 0.0251
    waits_s = [after[0] - before[-1] for before, after in pairwise(bursts)]
    for wait_s, wanted_s in zip(waits_s, [5, 10, 20, 40, 60, 60, 60, 60], strict=False):
        assert 0.75 * wanted_s - 0.1 <= wait_s <= wanted_s + 0.1
    assert not world.talk.failures
    assert world.talk.rounds == len(world.server.taken)


PATHS = st.builds(
    Path,
    least_s=st.floats(0, 0.2),
    jitter_s=st.sampled_from([0.0, 0.001, 0.02, 0.3]),
    lost=st.sampled_from([0.0, 0.05, 0.4]),
    doubled=st.sampled_from([0.0, 0.2]),
)


@settings(max_examples=150, deadline=None)
@given(
    PATHS,
    PATHS,
    st.integers(0, 2**32),
    st.integers(-200_000, 200_000),
    st.sampled_from([0, 1, -5_000_000, HOUR_NS, -HOUR_NS, 10**18]),
)
def test_samples_bound_true_offset(
    forward: Path, backward: Path, seed: int, skew_ppb: int, offset_ns: int
) -> None:
    """Packets are lost, late, duplicated and out of order; the clock is wrong by up to 200 ppm."""
    world = World(
        seed=seed, forward=forward, backward=backward, skew_ppb=skew_ppb, offset_ns=offset_ns
    )
    for _ in range(8):
        world.run(15)
        interval = world.talk.interval()
        if interval is not None:
            truth_ns = world.true_offset_ns(world.source_ns())
            assert interval.lower_ns - 2 <= truth_ns <= interval.upper_ns + 2
    for sample in world.server.taken:
        assert sample.t3_ns - sample.t4_ns <= world.true_offset_ns(sample.t4_ns) + 1
        assert world.true_offset_ns(sample.t1_ns) - 1 <= sample.t2_ns - sample.t1_ns
    rounds = [sample.nonce for sample in world.server.taken]
    assert len(set(rounds)) == len(rounds)
    assert world.watch.segment == 0
    usual = {Reason.TIMEOUT, Reason.UNACKNOWLEDGED, Reason.UNEXPECTED}
    assert set(world.talk.failures) <= usual


@pytest.mark.parametrize(("lost", "least"), [(0.0, 30), (0.1, 20), (0.3, 10)])
def test_lost_packets_are_tolerated(lost: float, least: int) -> None:
    path = Path(0.01, 0.005, lost=lost)
    world = World(seed=3, both=path).run(120)
    assert len(world.server.taken) >= least
    assert (world.talk.failures[Reason.TIMEOUT] > 0) is (lost > 0)


def test_silent_server_slows_requests() -> None:
    world = World()
    world.server.is_down = True
    world.run(600)
    assert world.talk.rounds == 0
    # Pauses of 1, 2, 4 ... 60 s, at most halved at random, after three tries of 1 s each.
    assert 3 * 9 <= world.talk.failures[Reason.TIMEOUT] <= 3 * 24
    world.server.is_down = False
    world.run(61)
    assert world.talk.rounds >= 10
    assert world.talk.silences == 0


def test_stopped_server_leaves_interval() -> None:
    world = World(offset_ns=HOUR_NS).run(0.1)
    before = world.talk.rounds
    assert 0 < before < 10
    world.server.is_down = True
    world.run(30)
    assert world.talk.rounds == before
    assert world.talk.interval() is not None  # The interval is still valid, but wider.
    world.server.is_down = False
    world.run(30)
    assert world.talk.rounds >= 10


def test_requests_after_outage_are_spread() -> None:
    """After a server's outage its sources do not all ask at once."""
    asked_s = set()
    for seed in range(20):
        world = World(seed=seed)
        world.server.is_down = True
        world.run(50)
        asked_s.add(round(world.talk.due_s, 3))
    assert len(asked_s) >= 18


@pytest.mark.parametrize("jump_ns", [2_000_000, -2_000_000, HOUR_NS, -HOUR_NS])
def test_clock_jump_begins_segment(jump_ns: int) -> None:
    world = World(both=Path(0.01)).run(30)
    before = len(world.server.taken)
    world.jumped_ns = jump_ns
    world.talk.on_time(world.now_s + 1)  # The client's thread does this every second.
    assert world.talk.interval() is None
    world.run(4)
    after = world.server.taken[before:]
    assert len(after) >= 10
    assert {(sample.segment, sample.mono_ns) for sample in after} == {(1, jump_ns)}
    interval = world.known()
    assert interval.lower_ns <= -jump_ns <= interval.upper_ns


def test_jump_discards_open_round() -> None:
    world = World(both=Path(0.1)).run(0.15)
    world.jumped_ns = NS_PER_S // 2  # The RSP is in transit.
    world.run(2)
    assert world.talk.failures[Reason.JUMP] == 1
    assert world.server.taken
    assert {sample.segment for sample in world.server.taken} == {1}


@pytest.mark.parametrize("far_ns", [MAX_STAMP_NS, 2**63, 2**64, 2**70])
@pytest.mark.parametrize("sign", [1, -1])
def test_implausible_clock_is_retried(sign: int, far_ns: int) -> None:
    """Nothing is sent and nothing raised; requests resume when the clock is plausible."""
    world = World(offset_ns=BEGIN_NS - sign * (far_ns + 3_600 * NS_PER_S)).run(300)
    assert set(world.talk.failures) == {Reason.SOURCE_CLOCK}
    # Once a burst: now, after 5, 10, 20, 40, 60 ... s, each shortened by at most a quarter.
    assert 8 <= world.talk.failures[Reason.SOURCE_CLOCK] <= 12
    assert (world.server.answers, world.talk.interval()) == ([], None)
    world.jumped_ns = -sign * far_ns
    world.run(2)
    assert world.talk.rounds == 10
    assert world.talk.interval() is not None


@pytest.mark.parametrize("far_ns", [MAX_STAMP_NS, 2**64])
def test_clock_turning_absurd_ends_round(far_ns: int) -> None:
    world = World().run(0.0015)  # The REQ is answered.
    assert world.talk._open is not None
    raw = world.answerer.answer(world.talk._open.raw, world.now_ns).reply
    assert raw is not None
    assert world.talk.on_packet(raw, far_ns, world.now_s) is None
    assert world.talk.failures == {Reason.SOURCE_CLOCK: 1}
    assert not world.talk.is_waiting
    assert world.talk.interval() is None


@pytest.mark.parametrize("mono_ns", [2**63, -(2**63), -(2**64)])
def test_mono_beyond_range_is_counted(mono_ns: int) -> None:
    """A value of -2^63 means that the source has no running clock; larger distances do not fit."""
    world = World()
    world.watch.mono_ns = mono_ns
    world.run(1)
    assert world.talk.failures == {Reason.SOURCE_CLOCK: 1}
    assert world.server.answers == []


def test_small_wanted_error_cuts_pauses() -> None:
    path = Path(0.001, 0.001)

    def rounds(wanted_error_ns: int | None) -> int:
        wish = SyncSettings("server:1", wanted_error_ns=wanted_error_ns)
        return World(seed=1, both=path, settings=wish).run(600).talk.rounds

    plain, eager, greedy = rounds(None), rounds(1_100_000), rounds(1)
    assert plain < eager <= greedy
    assert greedy <= 10 + 4 * 600 / 0.75  # MIN_PAUSE_S limits the number of rounds.


def test_server_step_shortens_pauses() -> None:
    world = World().run(300)
    before = world.talk.rounds
    world.server.lie_ns = NS_PER_S
    world.run(70)  # The next burst detects it; from then on pauses are 5, 10, 20 s.
    settled = world.talk.rounds
    assert settled - before >= 8
    interval = world.known()
    assert interval.lower_ns <= NS_PER_S <= interval.upper_ns


def flip_bit(raw: bytes, kind: int, at: int) -> bytes:
    """Flip one bit of byte `at` in packets of this kind; return others unchanged."""
    if raw[KIND_AT] != kind:
        return raw
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize("kind", [RSP, ACK])
@pytest.mark.parametrize("at", [4, 12, 32, 45, 50, 60, 150, 170])
def test_forged_answer_is_rejected(kind: int, at: int) -> None:
    world = World(intercept=lambda raw: flip_bit(raw, kind, at)).run(20)
    assert world.talk.rounds == 0
    assert sum(world.talk.failures[each] for each in (Reason.FORGED, Reason.VERSION)) > 0
    assert (world.talk.interval() is None) is (kind == RSP)


def test_answer_must_match_nonce() -> None:
    world = World(keys=OPEN, intercept=lambda raw: flip_bit(raw, RSP, 39)).run(20)  # the nonce
    assert world.talk.failures[Reason.UNEXPECTED] > 0
    assert world.talk.rounds == 0


def test_answer_counts_once() -> None:
    path = Path(0.001, doubled=1.0)
    world = World(both=path).run(3)
    assert world.talk.rounds == len(world.server.taken) == 10
    outcomes = [answer.outcome for answer in world.server.answers]
    assert outcomes.count(Reason.REPEATED) >= 10
    assert outcomes.count(ANSWERED) == 20
    assert world.talk.failures[Reason.UNEXPECTED] > 0


def test_refusal_by_full_server_is_counted() -> None:
    world = World()
    world.server.has_room = False
    world.run(3)
    assert world.talk.failures[Reason.FULL] == 10
    assert world.talk.interval() is not None


def test_backward_answer_is_no_round() -> None:
    """A changed byte makes the server's clock go back while it answers."""
    # One byte of t3 changes, so that it is 2^56 ns before t2.
    world = World(keys=OPEN, intercept=lambda raw: flip_bit(raw, RSP, 56)).run(3)
    assert world.talk.failures[Reason.ABSURD] == 10
    assert world.server.taken == []


@pytest.mark.parametrize(("granularity_ns", "absurd"), [(0, 10), (1_000_000, 10), (2_000_000, 0)])
def test_coarse_clock_needs_granularity(granularity_ns: int, absurd: int) -> None:
    """Each way takes 1 ms, but the server reports that it took 6 ms to answer."""

    def slow_server(raw: bytes) -> bytes:
        packet = parse(raw)
        if not isinstance(packet, Packet) or packet.kind != RSP:
            return raw
        return OPEN.of("s1").sign(encode_body(packet._replace(t3_ns=packet.t2_ns + 6_000_000)))

    wish = SyncSettings("server:1", granularity_ns=granularity_ns)
    world = World(settings=wish, keys=OPEN, intercept=slow_server).run(3)
    assert world.talk.failures[Reason.ABSURD] == absurd
    interval = world.talk.interval()
    assert (interval is None) is bool(absurd)
    assert interval is None or interval.lower_ns <= interval.upper_ns


def test_garbage_is_ignored() -> None:
    dice = random.Random(5)
    world = World().run(0.0005)  # The REQ is in transit.
    for size in [0, 1, 175, 177, 400, *[176] * 50]:
        assert world.talk.on_packet(dice.randbytes(size), world.source_ns(), world.now_s) is None
    assert sum(world.talk.failures.values()) == 55
    world.run(1)
    assert world.talk.rounds == 10


def test_lost_report_is_repeated() -> None:
    """Each REPORT is lost once."""
    seen: set[bytes] = set()

    def lose_first(raw: bytes) -> bytes:
        if raw[KIND_AT] != REPORT or raw in seen:
            return raw
        seen.add(raw)
        return b""

    world = World(intercept=lose_first).run(30)
    assert world.talk.rounds >= 10
    assert world.talk.failures[Reason.UNACKNOWLEDGED] == 0
