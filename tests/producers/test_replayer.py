"""Examples: recordings are published again, on the embedded broker and with a test clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inorder.channel import ChannelLimits
from inorder.failure import DeliveryFailed, QueueFull
from producers.recorded import Malformed
from producers.replayer import FULL_SPEED, Published, Replayer, ReplayPace
from tests.inorder.records import Topic, headers_of
from topology.config import HeaderConfig

SECOND_NS = 1_000_000_000
ARRIVALS = [7, 9, 8, None, 15]
"""Arrival times in seconds: one goes back, and one is missing."""


class Clock:
    """A clock that advances only by waits; `taken_s` has the time at which each row is read."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.taken_s: list[float] = []

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def replayer(self, raw: Topic, **options: Any) -> Replayer:
        return Replayer(*raw, now_s=lambda: self.now_s, wait_s=self.wait, **options)

    def rows(self, rows: list[Any]) -> Iterator[Any]:
        for row in rows:
            self.taken_s.append(self.now_s - 100.0)
            yield row
        self.taken_s.append(self.now_s - 100.0)


def row(seq: int, source: str = "s1", **said: Any) -> dict[str, Any]:
    return {"source": source, "seq": seq, "payload": {"n": seq}, **said}


@pytest.mark.parametrize("preset", ["plain", "cloudevents"])
def test_row_without_seq_has_no_seq_header(raw: Topic, preset: Any) -> None:
    config = HeaderConfig(preset=preset)
    told: list[Malformed] = []
    replayer = Replayer(*raw, headers=config, unnumbered={"default"}, on_malformed=told.append)
    rows: list[Any] = [{"source": "s1", "ts": 7}, row(3, ts=8), {"source": "s1", "stream": "p"}]
    count = replayer.publish(rows)
    assert (count.sent, count.delivered, count.malformed) == (2, 2, 1)
    assert [(one.row, one.reason) for one in told] == [(3, "seq")]
    first, second = (dict(headers_of(message)) for message in raw.messages(2))
    names = config.names()
    assert names.seq not in first
    assert second[names.seq] == b"3"
    if preset == "cloudevents":
        assert first["ce_id"].startswith(b"s1/")
        assert second["ce_id"] == b"s1/0/3"


def test_rows_keep_file_order(raw: Topic) -> None:
    order = [5, 3, 4, 3, 9, 0]
    rows = [row(seq, ts=seq * 10, type="A", epoch=2, stream="p") for seq in order]
    count = Replayer(*raw).publish(rows)
    assert (count.rows, count.sent, count.delivered) == (6, 6, 6)
    events = raw.events(6)
    assert [e.seq for e in events] == order
    assert {(e.source, e.stream, e.epoch, e.type) for e in events} == {("s1", "p", 2, "A")}
    assert [e.ts_ns for e in events] == [seq * 10 for seq in order]
    assert events[0].value == b'{"n":5}'


@pytest.mark.parametrize(("key_by", "key"), [("source", b"s1"), ("stream", b"default")])
def test_row_gives_key_and_headers(raw: Topic, key_by: Any, key: bytes) -> None:
    Replayer(*raw, key_by=key_by).publish([row(0)])
    (message,) = raw.messages(1)
    assert message.key() == key
    assert dict(headers_of(message)) == {"sourceId": b"s1", "seqNum": b"0"}


def test_bad_rows_are_skipped(raw: Topic) -> None:
    told: list[Malformed] = []
    rows: list[Any] = [row(0), b"{", {"clock": "s1"}, {"source": "s1"}, row(1)]
    count = Replayer(*raw, on_malformed=told.append).publish(rows)
    assert (count.rows, count.sent, count.malformed, count.clock) == (5, 2, 2, 1)
    assert [(bad.row, bad.reason) for bad in told] == [(2, "json"), (4, "seq")]
    assert len(raw.messages(2)) == 2


@pytest.mark.parametrize(
    ("pace", "arrivals", "expected_s"),
    [
        pytest.param(FULL_SPEED, ARRIVALS, [0, 0, 0, 0, 0, 0], id="full speed"),
        pytest.param(
            ReplayPace(rate_per_s=10), ARRIVALS, [0, 0, 0.1, 0.2, 0.3, 0.4], id="10 a second"
        ),
        pytest.param(ReplayPace(speed=1), ARRIVALS, [0, 0, 2, 2, 2, 8], id="as recorded"),
        pytest.param(ReplayPace(speed=1), ARRIVALS[:3], [0, 0, 2, 2], id="back at the end"),
        pytest.param(ReplayPace(speed=4), ARRIVALS, [0, 0, 0.5, 0.5, 0.5, 2], id="four times"),
    ],
)
def test_pace_sets_time_of_each_row(
    raw: Topic, pace: ReplayPace, arrivals: list[int | None], expected_s: list[float]
) -> None:
    """Each row is read after the row before it has been sent."""
    clock = Clock()
    rows = [
        row(seq) if at is None else row(seq, arrival=at * SECOND_NS)
        for seq, at in enumerate(arrivals)
    ]
    count = clock.replayer(raw, pace=pace).publish(clock.rows(rows))
    assert clock.taken_s == pytest.approx(expected_s, abs=0.002)
    assert count.seconds == pytest.approx(expected_s[-1], abs=0.002)
    assert count.behind_s == pytest.approx(0, abs=0.002)


def test_lag_is_reported(raw: Topic) -> None:
    clock = Clock()

    def slow_rows() -> Iterator[Any]:
        for seq in range(3):
            clock.now_s += 2.0
            yield row(seq)

    replayer = clock.replayer(raw, pace=ReplayPace(rate_per_s=1))
    assert replayer.publish(slow_rows()).behind_s == pytest.approx(4.0)


def test_progress_is_reported(raw: Topic) -> None:
    told: list[tuple[int, float]] = []

    def tell(count: Published) -> None:
        told.append((count.sent, round(count.seconds, 1)))

    replayer = Clock().replayer(raw, pace=ReplayPace(rate_per_s=10), on_progress=tell)
    replayer.publish(row(seq) for seq in range(10))
    assert told[-1] == (10, 0.9)
    assert 4 <= len(told) <= 6
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("queue_wait_s", "delivery_timeout_s", "error"),
    [(0.2, 60.0, QueueFull), (5.0, 0.2, DeliveryFailed)],
)
def test_unreachable_broker_stops_the_run(
    queue_wait_s: float, delivery_timeout_s: float, error: type[Exception]
) -> None:
    limits = ChannelLimits(10, 64 << 20, queue_wait_s, delivery_timeout_s)
    with pytest.raises(error):
        Replayer("127.0.0.1:1", "raw", limits=limits).publish(row(seq) for seq in range(100))


@pytest.mark.parametrize("pace", [{"rate_per_s": 0}, {"speed": -1}, {"rate_per_s": 1, "speed": 1}])
def test_bad_pace_is_refused(pace: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="speed"):
        ReplayPace(**pace)
