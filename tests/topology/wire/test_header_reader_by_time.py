"""The header contract of streams by time: examples of records that bear no number, or a bad one."""

from __future__ import annotations

from typing import Any

import pytest

from topology.config import HeaderConfig
from topology.model.event import HEARTBEAT, Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.header_reader import HeaderReader, Headers
from topology.wire.header_writer import HeaderWriter
from topology.wire.reasons import REASONS

TIMESTAMP_NS, ARRIVAL_NS, OFFSET = 5_000, 9_000, 42
PLAIN = HeaderConfig()
CLOUD = HeaderConfig(preset="cloudevents")


def read(
    headers: Headers, by_time: tuple[str, ...] = ("default", "spår"), config: HeaderConfig = PLAIN
) -> Event | Malformed:
    reader = HeaderReader(config, Reading(frozenset(by_time)))
    return reader.read(headers, TIMESTAMP_NS, ARRIVAL_NS, OFFSET, "record", b"value")


SOURCE = ("sourceId", b"s1")


@pytest.mark.parametrize(
    "number",
    [
        [],
        [("seqNum", b"17")],
        [("seqNum", b"-3")],
        [("seqNum", b"")],
        [("seqNum", None)],
        [("seqNum", b"9" * 40)],
        [("seqNum", b"1"), ("seqNum", b"2")],
    ],
)
def test_the_offset_is_the_number_whatever_the_record_says(number: Any) -> None:
    for stream in ([], [("streamId", "spår".encode())]):
        event = read([SOURCE, *number, *stream])
        assert isinstance(event, Event), event
        assert (event.source, event.seq, event.ts_ns) == ("s1", OFFSET, TIMESTAMP_NS)
        assert (event.offset, event.arrival_ns, event.value) == (OFFSET, ARRIVAL_NS, b"value")


def test_all_else_of_the_contract_holds() -> None:
    headers = [SOURCE, ("ts", b"7"), ("type", b"A"), ("kind", b"heartbeat"), ("epoch", b"3")]
    event = read(headers)
    assert isinstance(event, Event)
    assert (event.ts_ns, event.type, event.kind, event.epoch) == (7, "A", HEARTBEAT, 3)
    for bad, reason in (
        ([], "source_missing"),
        ([SOURCE, SOURCE], "source_repeated"),
        ([SOURCE, ("ts", b"soon")], "ts_unreadable"),
        ([SOURCE, ("kind", b"what")], "kind_unknown"),
    ):
        dead = read(bad)
        assert isinstance(dead, Malformed)
        assert (dead.reason, dead.seq) == (reason, OFFSET)
        assert "seqNum" not in dead.detail


def test_a_stream_that_numbers_needs_its_numbers_on_the_same_topic() -> None:
    numbered = [SOURCE, ("streamId", b"pitch")]
    dead = read(numbered)
    assert isinstance(dead, Malformed)
    assert (dead.reason, dead.stream, dead.seq) == ("seq_missing", "pitch", None)
    assert dead.detail.endswith("no number is needed in stream `default`, `spår`")
    event = read([*numbered, ("seqNum", b"3")])
    assert isinstance(event, Event)
    assert event.seq == 3


def test_without_such_streams_nothing_is_said_of_them() -> None:
    dead = read([SOURCE], by_time=())
    assert isinstance(dead, Malformed)
    assert dead.detail == "header `seqNum` is missing; " + REASONS["seq_missing"].remedy


@pytest.mark.parametrize("config", [PLAIN, CLOUD])
@pytest.mark.parametrize("numbers", [[], [b"5"], [b"5", b"5"], [b"x", b""]])
def test_the_number_that_reorder_gave_is_on_the_derived_topics(
    config: HeaderConfig, numbers: list[bytes]
) -> None:
    names = config.names()
    original = [(names.source, b"s1"), *((names.seq, number) for number in numbers), ("x", b"y")]
    event = read(original, config=config)
    assert isinstance(event, Event)
    event.seq, event.epoch = 1_234, 0
    writer = HeaderWriter(config)
    sequenced = writer.stamp(event, original, 1)
    assert [value for name, value in sequenced if name == names.seq] == [b"1234"]
    assert ("x", b"y") in sequenced
    again = HeaderReader(config).read_sequenced(sequenced, TIMESTAMP_NS, 9, "record", b"value")
    assert isinstance(again, Event)
    assert (again.seq, again.epoch) == (1_234, 0)
    assert writer.ordered(again, sequenced) == writer.ordered(event, original)
    ordered = HeaderReader(config).read_ordered(
        writer.ordered(event, original), TIMESTAMP_NS, 9, "record", b"value"
    )
    assert isinstance(ordered, Event)
    assert ordered.seq == 1_234


def test_where_some_sources_number_nothing_a_record_without_a_number_says_so() -> None:
    reader = HeaderReader(PLAIN, Reading(mixed=frozenset({"default", "spår"})))

    def seq_of(*headers: tuple[str, bytes]) -> tuple[str, int | None]:
        item = reader.read((SOURCE, *headers), TIMESTAMP_NS, ARRIVAL_NS, OFFSET, "record", b"value")
        return ("" if isinstance(item, Event) else item.reason), item.seq

    spar = ("streamId", "spår".encode())
    assert seq_of() == seq_of(spar) == seq_of(("kind", b"heartbeat")) == ("", ~OFFSET)
    assert seq_of(("seqNum", b"17")) == ("", 17)
    assert seq_of(("seqNum", b"")) == ("seq_empty", None)
    assert seq_of(("ts", b"soon")) == ("ts_unreadable", None)
    assert seq_of(("streamId", b"other")) == ("seq_missing", None)


def test_a_number_that_is_missing_names_the_key_that_helps() -> None:
    found = HeaderReader(PLAIN).read((SOURCE,), TIMESTAMP_NS, ARRIVAL_NS, OFFSET, None, None)
    assert isinstance(found, Malformed)
    assert "reorder: {without_seq: by_time}" in found.detail
    assert "reorder: {rule: time}" in found.detail
