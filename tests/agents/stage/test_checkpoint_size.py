"""Examples: the size of a checkpoint adapts to the time of the last cuts and commits."""

from __future__ import annotations

import gc

import pytest

from agents.stage.checkpoint_size import (
    CUT_S,
    FEWEST,
    FEWEST_SENT,
    FIRST_BYTES,
    LEAST_BYTES,
    MAX_BATCH,
    MOST_BYTES,
    PIECE,
    PIECE_S,
    CheckpointSize,
)
from agents.stage.delivery import COMMIT_TIMEOUT_S
from tests.agents.records import FakeRecord

TIMEOUT_NS = 10_000_000_000
LIMIT_S = 2.5
"""A quarter of the timeout."""

MIB = 1 << 20


def quick() -> CheckpointSize:
    """Return the size of a partition whose commits are quick."""
    size = CheckpointSize(TIMEOUT_NS)
    while size.records < MAX_BATCH:
        size.note_commit(0.01, size.records, 0)
    return size


@pytest.mark.parametrize(
    ("seconds", "records", "then"),
    [
        pytest.param(0.6, 20_000, 3_333, id="too long: as many as fit"),
        pytest.param(5.0, 20_000, FEWEST, id="never fewer than that"),
        pytest.param(CUT_S, 20_000, 20_000, id="just in time"),
        pytest.param(0.001, 20_000, 20_000, id="never more than the setting"),
        pytest.param(2.0, 0, 20_000, id="a tick alone says nothing of records"),
    ],
)
def test_cut_time_limits_records(seconds: float, records: int, then: int) -> None:
    size = quick()
    size._cut.adapt(seconds, records)
    assert size.records == then


def test_quick_cuts_raise_the_limit() -> None:
    size = quick()
    size._cut.adapt(0.6, 20_000)
    seen = []
    for _ in range(4):
        size._cut.adapt(0.01, size.records)
        seen.append(size.records)
    assert seen == [6_666, 13_332, 20_000, 20_000]
    size._cut.adapt(0.05, 20_000)  # neither long nor quick
    assert size.records == 20_000


def test_size_begins_small_and_grows() -> None:
    size = CheckpointSize(TIMEOUT_NS)
    seen = [(size.records, size.bytes)]
    for records, payload_bytes in [(10, 100), (1_000, 100), (2_000, MIB), (4_000, 2 * MIB)]:
        size.note_commit(0.02, records, payload_bytes)
        seen.append((size.records, size.bytes // MIB))
    assert seen == [
        (FEWEST, FIRST_BYTES),
        (1_000, 1),
        (2_000, 1),
        (4_000, 2),
        (8_000, 4),
    ]


def test_slow_link_stays_in_limit() -> None:
    """A link of 4 MB/s gets as much as it transfers in a quarter of the timeout."""
    size = CheckpointSize(TIMEOUT_NS)
    seen = []
    for _ in range(12):
        sent = size.bytes
        size.note_commit(0.02 + sent / 4e6, sent // 200, sent)
        seen.append(0.02 + sent / 4e6)
    assert seen == sorted(seen[:5]) + seen[5:]
    assert max(seen) < 2 * LIMIT_S
    assert max(seen[6:]) < LIMIT_S + 0.3
    assert min(seen[6:]) > LIMIT_S / 4


@pytest.mark.parametrize(
    ("seconds", "records", "payload_bytes", "then"),
    [
        pytest.param(5.25, 20_000, 8 * MIB, (10_000, 4 * MIB), id="too long: as much as fits"),
        pytest.param(2.7, 20_000, 8 * MIB, (20_000, 64 * MIB), id="just in time"),
        pytest.param(
            300.0,
            900,
            MIB,
            (FEWEST_SENT, LEAST_BYTES),
            id="never less than that",
        ),
        pytest.param(0.3, 20_000, 64 * MIB, (20_000, MOST_BYTES), id="never more than that"),
    ],
)
def test_commit_time_sets_the_size(
    seconds: float, records: int, payload_bytes: int, then: tuple[int, int]
) -> None:
    size = quick()
    while size.bytes < MOST_BYTES:
        size.note_commit(0.25, 0, size.bytes)
    size._quickest_s = 0.25
    size.note_commit(seconds, records, payload_bytes)
    assert (size.records, size.bytes) == then


def test_fixed_commit_cost_is_ignored() -> None:
    """Brokers that need two seconds for any transaction also need them for smaller ones."""
    size = CheckpointSize(TIMEOUT_NS)
    for _ in range(5):
        size.note_commit(2.0, size.records, size.bytes)
    assert (size.records, size.bytes) == (MAX_BATCH, 32 * MIB)
    slow = CheckpointSize(TIMEOUT_NS)
    slow.note_commit(10.0, slow.records, slow.bytes)
    assert (slow.records, slow.bytes) == (333, MIB // 3)


def test_failed_commit_halves_size() -> None:
    size = quick()
    size.note_failure()
    assert (size.records, size.bytes) == (
        MAX_BATCH // 2,
        FIRST_BYTES // 2,
    )
    for _ in range(20):
        size.note_failure()
    assert (size.records, size.bytes) == (FEWEST_SENT, LEAST_BYTES)


def test_long_timeout_still_limits_size() -> None:
    size = CheckpointSize(15 * 60 * 1_000_000_000)
    size.note_commit(0.1, 10, 10)
    before = size.bytes
    size.note_commit(COMMIT_TIMEOUT_S / 2, size.records, before)
    assert size.bytes < before


def pieces_of(size: CheckpointSize, cost_s: float, count: int) -> list[int]:
    """Return the lengths of the pieces of a batch whose records take `cost_s` each."""
    lengths = []
    for piece in size.pieces([FakeRecord(offset) for offset in range(count)]):
        size.note_work(cost_s * len(piece), len(piece))
        lengths.append(len(piece))
    assert sum(lengths) == count
    return lengths


def test_cheap_records_fill_pieces() -> None:
    size = quick()
    assert pieces_of(size, 1e-5, 1_500) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 489]
    assert pieces_of(size, 1e-5, 1_000) == [PIECE, PIECE]


@pytest.mark.parametrize("cost_s", [0.002, 0.122, 0.6, 3.0])
def test_costly_records_split_pieces(cost_s: float) -> None:
    lengths = pieces_of(quick(), cost_s, 600)
    assert max(lengths) == 1 or max(lengths) * cost_s <= 2 * PIECE_S
    assert max(lengths) == 1 or sum(lengths) / len(lengths) * cost_s >= PIECE_S / 8


def test_pieces_follow_a_changing_cost() -> None:
    size = quick()
    pieces_of(size, 1e-5, 2_000)
    assert pieces_of(size, 0.01, 600) == [500, 50, 50]
    assert pieces_of(size, 0.1, 60) == [50, 5, 5]
    assert pieces_of(size, 1e-5, 630) == [5, 10, 20, 40, 80, 160, 315]


def test_cut_suspends_collection() -> None:
    assert gc.isenabled()
    with quick().measure_cut(1):
        assert not gc.isenabled()
    with pytest.raises(OverflowError), quick().measure_cut(1):
        raise OverflowError
    assert gc.isenabled()
    gc.disable()
    try:
        with quick().measure_cut(1):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
