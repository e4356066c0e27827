"""Examples: recordings published again, on the embedded broker and a clock of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cli.local.embedded import EmbeddedBroker
from inorder.channel import ChannelLimits
from inorder.failure import DeliveryFailed, QueueFull
from producers.recorded import Malformed
from producers.replayer import FULL_SPEED, Published, Replayer, ReplayPace
from tests.inorder.records import headers_of, read_events, read_messages
from topology.config import HeaderConfig

SECOND_NS = 1_000_000_000


class Clock:
    """Stands still but for what is waited; `taken_s` is the time at each row read."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.taken_s: list[float] = []

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def rows(self, rows: list[Any]) -> Iterator[Any]:
        for row in rows:
            self.taken_s.append(self.now_s - 100.0)
            yield row
        self.taken_s.append(self.now_s - 100.0)


def row(seq: int, source: str = "s1", **said: Any) -> dict[str, Any]:
    return {"source": source, "seq": seq, "payload": {"n": seq}, **said}


@pytest.mark.parametrize("preset", ["plain", "cloudevents"])
def test_rows_without_a_number_have_no_such_header(
    embedded_broker: EmbeddedBroker, topic: str, preset: Any
) -> None:
    config = HeaderConfig(preset=preset)
    told: list[Malformed] = []
    replayer = Replayer(
        embedded_broker.bootstrap,
        topic,
        headers=config,
        unnumbered={"default"},
        on_malformed=told.append,
    )
    rows: list[Any] = [{"source": "s1", "ts": 7}, row(3, ts=8), {"source": "s1", "stream": "p"}]
    count = replayer.publish(rows)
    assert (count.sent, count.delivered, count.malformed) == (2, 2, 1)
    assert [(one.row, one.reason) for one in told] == [(3, "seq")]
    first, second = (
        dict(headers_of(message)) for message in read_messages(embedded_broker.bootstrap, topic, 2)
    )
    names = config.names()
    assert names.seq not in first
    assert second[names.seq] == b"3"
    if preset == "cloudevents":
        assert first["ce_id"].startswith(b"s1/")
        assert second["ce_id"] == b"s1/0/3"


def test_rows_in_file_order_with_what_they_say(embedded_broker: EmbeddedBroker, topic: str) -> None:
    order = [5, 3, 4, 3, 9, 0]
    rows = [row(seq, ts=seq * 10, type="A", epoch=2, stream="p") for seq in order]
    count = Replayer(embedded_broker.bootstrap, topic).publish(rows)
    assert (count.rows, count.sent, count.delivered) == (6, 6, 6)
    events = read_events(embedded_broker.bootstrap, topic, 6)
    assert [e.seq for e in events] == order
    assert {(e.source, e.stream, e.epoch, e.type) for e in events} == {("s1", "p", 2, "A")}
    assert [e.ts_ns for e in events] == [seq * 10 for seq in order]
    assert events[0].value == b'{"n":5}'


def test_what_a_row_does_not_say_is_not_written(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    Replayer(embedded_broker.bootstrap, topic).publish([row(0)])
    (message,) = read_messages(embedded_broker.bootstrap, topic, 1)
    assert dict(headers_of(message)) == {"sourceId": b"s1", "seqNum": b"0"}


@pytest.mark.parametrize(("key_by", "key"), [("source", b"s1"), ("stream", b"default")])
def test_keys(embedded_broker: EmbeddedBroker, topic: str, key_by: Any, key: bytes) -> None:
    Replayer(embedded_broker.bootstrap, topic, key_by=key_by).publish([row(0)])
    (message,) = read_messages(embedded_broker.bootstrap, topic, 1)
    assert message.key() == key


def test_malformed_and_clock_rows_are_told_counted_and_skipped(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    told: list[Malformed] = []
    rows: list[Any] = [row(0), b"{", {"clock": "s1"}, {"source": "s1"}, row(1)]
    count = Replayer(embedded_broker.bootstrap, topic, on_malformed=told.append).publish(rows)
    assert (count.rows, count.sent, count.malformed, count.clock) == (5, 2, 2, 1)
    assert [(bad.row, bad.reason) for bad in told] == [(2, "json"), (4, "seq")]
    assert len(read_messages(embedded_broker.bootstrap, topic, 2)) == 2


@pytest.mark.parametrize(
    ("pace", "expected_s"),
    [
        pytest.param(FULL_SPEED, [0, 0, 0, 0, 0, 0], id="full speed"),
        pytest.param(ReplayPace(rate_per_s=10), [0, 0, 0.1, 0.2, 0.3, 0.4], id="10 a second"),
        pytest.param(ReplayPace(speed=1), [0, 0, 2, 2, 2, 8], id="as recorded"),
        pytest.param(ReplayPace(speed=4), [0, 0, 0.5, 0.5, 0.5, 2], id="four times"),
    ],
)
def test_paces(
    embedded_broker: EmbeddedBroker, topic: str, pace: ReplayPace, expected_s: list[float]
) -> None:
    """The time each row is asked for: once the row before it has been sent."""
    clock = Clock()
    arrivals = [7, 9, 8, None, 15]  # 8 goes back, None has no time of its own
    rows = [
        row(seq) if at is None else row(seq, arrival=at * SECOND_NS)
        for seq, at in enumerate(arrivals)
    ]
    replayer = Replayer(
        embedded_broker.bootstrap,
        topic,
        pace=pace,
        now_s=lambda: clock.now_s,
        wait_s=clock.wait,
    )
    count = replayer.publish(clock.rows(rows))
    assert clock.taken_s == pytest.approx(expected_s, abs=0.002)
    assert count.seconds == pytest.approx(expected_s[-1], abs=0.002)
    assert count.behind_s == pytest.approx(0, abs=0.002)


def test_an_arrival_that_goes_back_is_no_lag(embedded_broker: EmbeddedBroker, topic: str) -> None:
    clock = Clock()
    replayer = Replayer(
        embedded_broker.bootstrap,
        topic,
        pace=ReplayPace(speed=1),
        now_s=lambda: clock.now_s,
        wait_s=clock.wait,
    )
    rows = [row(seq, arrival=at * SECOND_NS) for seq, at in enumerate((7, 9, 8))]
    assert replayer.publish(rows).behind_s == pytest.approx(0, abs=0.002)


def test_how_far_it_lags_is_told(embedded_broker: EmbeddedBroker, topic: str) -> None:
    clock = Clock()

    def slow_rows() -> Iterator[Any]:
        for seq in range(3):
            clock.now_s += 2.0
            yield row(seq)

    replayer = Replayer(
        embedded_broker.bootstrap, topic, pace=ReplayPace(rate_per_s=1), now_s=lambda: clock.now_s
    )
    assert replayer.publish(slow_rows()).behind_s == pytest.approx(4.0)


def test_progress_is_told_now_and_then_and_at_the_end(
    embedded_broker: EmbeddedBroker, topic: str
) -> None:
    clock = Clock()
    told: list[tuple[int, float]] = []

    def tell(count: Published) -> None:
        told.append((count.sent, round(count.seconds, 1)))

    replayer = Replayer(
        embedded_broker.bootstrap,
        topic,
        pace=ReplayPace(rate_per_s=10),
        on_progress=tell,
        now_s=lambda: clock.now_s,
        wait_s=clock.wait,
    )
    replayer.publish(row(seq) for seq in range(10))
    assert told[-1] == (10, 0.9)
    assert 4 <= len(told) <= 6
    assert told == sorted(told)


def test_a_broker_that_is_away_stops_the_run() -> None:
    short = ChannelLimits(queue_records=10, queue_wait_s=0.2, delivery_timeout_s=60)
    with pytest.raises(QueueFull):
        Replayer("127.0.0.1:1", "raw", limits=short).publish(row(seq) for seq in range(100))
    failing = ChannelLimits(queue_records=10, queue_wait_s=5, delivery_timeout_s=0.2)
    with pytest.raises(DeliveryFailed):
        Replayer("127.0.0.1:1", "raw", limits=failing).publish(row(seq) for seq in range(100))


@pytest.mark.parametrize("pace", [{"rate_per_s": 0}, {"speed": -1}, {"rate_per_s": 1, "speed": 1}])
def test_paces_that_make_no_sense_are_refused(pace: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="speed"):
        ReplayPace(**pace)
