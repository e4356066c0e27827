"""Examples: a stream in two partitions is told of once, with the remedy."""

from __future__ import annotations

import pytest

from agents.watch.streams_apart import StreamsApart

FIRST, SECOND = ("events.raw", 0), ("events.raw", 1)


def test_a_stream_in_two_partitions_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    apart = StreamsApart({"orders", "trades"})
    apart.look({FIRST: {"orders"}, SECOND: {"trades"}})
    assert not caplog.records
    apart.look({FIRST: {"orders"}, SECOND: {"trades", "orders"}})
    apart.look({FIRST: {"orders"}, SECOND: {"trades", "orders"}})
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("stream orders is in several partitions (events.raw/0, events.raw/1)")
    assert "start a new application with `keyed_by: source`" in told


def test_a_stream_that_may_lie_anywhere_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    StreamsApart(()).look({FIRST: {"orders"}, SECOND: {"orders"}})
    assert not caplog.records
