"""Examples: batches by target, in order, and what the outbox says it holds."""

from __future__ import annotations

import pytest

from agents.stage.outbox import Outbox
from tests.agents.records import FakeBatch, put_into

RAW, LATE = ("raw", 0), ("late", 3)


def test_records_lie_in_batches_by_target_in_their_order() -> None:
    outbox = Outbox(lambda: FakeBatch(room=2))
    for number in range(5):
        outbox.add(RAW, b"k", b"%d" % number, number, [("h", b"1")])
        if number == 1:
            outbox.add(LATE, None, None, None, [])
    assert (outbox.records, outbox.bytes) == (6, 5)
    batches = outbox.take()
    assert [len(batch.records) for batch in batches[RAW]] == [2, 2, 1]
    assert [batch.closed for batch in batches[RAW]] == [True, True, False]
    assert [put.value for put in put_into(batches[RAW])] == [b"0", b"1", b"2", b"3", b"4"]
    (late,) = put_into(batches[LATE])
    assert (late.key, late.value, late.timestamp, late.headers) == (None, None, None, [])
    assert (outbox.records, outbox.bytes, outbox.take()) == (0, 0, {})
    outbox.add(RAW, None, b"anew", 0, [])
    assert [put.value for put in put_into(outbox.take()[RAW])] == [b"anew"]
    assert len(put_into(batches[RAW])) == 5, "what was taken stays as it is"


def test_what_fits_into_no_batch_is_loud() -> None:
    with pytest.raises(ValueError, match="raw"):
        Outbox(lambda: FakeBatch(room=0)).add(RAW, None, b"", 0, [])
