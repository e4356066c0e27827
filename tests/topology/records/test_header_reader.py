"""Headers: example tables of the contract, and laws over arbitrary bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder import rfc3339
from inorder.contract import MAX_INT64, Contract, HeaderContract
from tests.kit.events import fields, place, place_of
from topology.base.event import (
    BLOCKED,
    BYE,
    DATA,
    HEARTBEAT,
    NO_EPOCH,
    PROGRESS,
    UNBLOCKED,
    WATERMARK,
    Event,
)
from topology.base.outcome import Malformed
from topology.config import HeaderConfig
from topology.records.checker import Reading
from topology.records.header_reader import HeaderReader, Headers
from topology.records.header_writer import HeaderWriter
from topology.records.reasons import REASONS

TIMESTAMP_NS = 1_700_000_000_000_000_000
ARRIVAL_NS = 1_700_000_000_500_000_000
PLAIN = HeaderConfig()
CLOUD = HeaderConfig(preset="cloudevents")

Value = bytes | None


def headers(**changes: Value) -> list[tuple[str, Value]]:
    """Return the headers of a good record with the given changes."""
    base: dict[str, Value] = {"sourceId": b"s1", "seqNum": b"17"}
    return list((base | changes).items())


def read(given_headers: Headers, config: Contract = PLAIN) -> Any:
    return HeaderReader(config).read(
        given_headers, TIMESTAMP_NS, ARRIVAL_NS, 4, "the record", b"the value"
    )


def good(given_headers: Headers, config: Contract = PLAIN) -> Event:
    event = read(given_headers, config)
    assert isinstance(event, Event), event
    return event


def sequenced(written: Headers, config: Contract = PLAIN) -> Any:
    """Return the event or dead letter read from a record of the sequenced topic."""
    return HeaderReader(config).read_sequenced(written, TIMESTAMP_NS, 4, None, None)


def told(event: Any) -> dict[str, Any]:
    """Return the fields of an event that headers carry: all except `is_stamped`."""
    return fields(event, "is_stamped")


def test_missing_header_has_default() -> None:
    event = good(headers())
    expected = Event(
        "default", "s1", NO_EPOCH, 17, TIMESTAMP_NS, ARRIVAL_NS, 4, "the record", b"the value"
    )
    assert told(event) == told(expected)


def test_both_presets_read_all_headers() -> None:
    values = [b"s1", b"17", b"5", b"A", b"3", b"pitch", b"bye", b"signature"]
    for config in (PLAIN, CLOUD):
        event = good(list(zip(config.names(), values, strict=True)), config)
        assert (event.source, event.seq, event.ts_ns, event.type) == ("s1", 17, 5, "A")
        assert (event.epoch, event.stream, event.kind) == (3, "pitch", BYE)


def test_header_names_can_be_set() -> None:
    """Foreign headers are ignored."""
    config = HeaderContract(preset="cloudevents", seq="n")
    event = good([("ce_source", b"s"), ("n", b"1"), ("ce_sequence", b"x"), ("x", None)], config)
    assert (event.source, event.seq) == ("s", 1)
    assert good([*headers(), ("x", b"1"), ("x", b"2")]).seq == 17


TIMES = [
    ("ns", b"-9223372036854775807", -(2**63) + 1),
    ("ns", b"0000000000000000000000000000000000000000000000001", 1),
    ("us", b"1700000000123456", 1_700_000_000_123_456_000),
    ("ms", b"1700000000123", 1_700_000_000_123_000_000),
    ("s", b"-1", -1_000_000_000),
    ("s", b"1970-01-01T00:00:00Z", 0),
    ("ns", b"1970-01-01t00:00:00.000000001z", 1),
    ("ns", b"1969-12-31T23:59:59.999999999Z", -1),
    ("ns", b"2023-11-14T22:13:20.1Z", 1_700_000_000_100_000_000),
    ("ns", b"2023-11-15T03:43:20+05:30", 1_700_000_000_000_000_000),
    ("ns", b"2023-11-14T14:13:20-08:00", 1_700_000_000_000_000_000),
    ("ns", b"2262-04-11T23:47:16.854775807Z", 2**63 - 1),
    ("ns", b"1677-09-21T00:12:43.145224193Z", -(2**63) + 1),
]


@pytest.mark.parametrize(("unit", "text", "ts_ns"), TIMES)
def test_timestamp_is_read_in_its_unit(unit: Any, text: bytes, ts_ns: int) -> None:
    assert good(headers(ts=text), HeaderConfig(ts_unit=unit)).ts_ns == ts_ns


def test_years_1_to_9999_are_read() -> None:
    day_ns = 86_400 * 10**9
    assert rfc3339.parse_ns(b"0001-01-01T00:00:00Z") == -719_162 * day_ns
    assert rfc3339.parse_ns(b"9999-12-31T23:59:59.999999999Z") == 2_932_897 * day_ns - 1


def without(name: str) -> list[tuple[str, Value]]:
    return [header for header in headers() if header[0] != name]


NO_DIGITS = [b"\xff\x00", b" 1", b"1 ", *"+1 1_0 1.0 0x10 ١ --1 -".encode().split()]
NO_TIMES = b"""
    yesterday 1.5 +1 2023-01-01T00:00:00 2023-01-01T00:00:00+24:00 2023-01-01T00:00:00.1234567891Z
    2023-01-01T00:00:00.Z 2023-02-29T00:00:00Z 2023-13-01T00:00:00Z 0000-01-01T00:00:00Z
    2023-01-01T24:00:00Z
""".split()
FAR_TIMES = b"""
    9223372036854775808 -9223372036854775809 -9223372036854775808 1677-09-21T00:12:43.145224192Z
    0001-01-01T00:00:00Z
""".split()

MALFORMED: list[tuple[str, list[tuple[str, Value]], str, str, str]] = [
    ("no headers", [], "source_missing", "write it", "source seq"),
    ("no source", without("sourceId"), "source_missing", "sourceId", "source"),
    ("no seq", without("seqNum"), "seq_missing", "seqNum", "seq"),
    ("empty source", headers(sourceId=b""), "source_empty", "", "source"),
    ("null source", headers(sourceId=None), "source_empty", "", "source"),
    (
        "long source",
        headers(sourceId=b"s" * 257),
        "source_huge",
        "(257 bytes); write at most 256",
        "source",
    ),
    ("Latin-1", headers(sourceId=b"\xe9"), "source_undecodable", "`\\xe9`; write UTF-8", "source"),
    *(
        (f"seq {text!r}", headers(seqNum=text), f"seq_{fault}", hint, "seq")
        for text, fault, hint in [
            (b"", "empty", "write an integer"),
            (None, "empty", "write an integer"),
            (b"abc", "not_integer", "`abc`"),
            *((text, "not_integer", "in plain digits") for text in NO_DIGITS),
            (b"-1", "negative", "`-1`"),
            (b"9223372036854775808", "huge", "0 to 9223372036854775807"),
            (b"9" * 100_000, "huge", "(100000 bytes)"),
        ]
    ),
    ("seq twice", [*headers(), ("seqNum", b"17")], "seq_repeated", "more than once", ""),
    ("seq unlike", [*headers(), ("seqNum", b"18")], "seq_repeated", "more than once", "seq"),
    ("sources", [*headers(), ("sourceId", b"s2")], "source_repeated", "more than once", "source"),
    ("ts twice", [*headers(ts=b"1"), ("ts", b"2")], "ts_repeated", "more than once", ""),
    ("type twice", [*headers(type=b"A"), ("type", b"A")], "type_repeated", "", ""),
    ("kind twice", [*headers(kind=b"bye"), ("kind", b"bye")], "kind_repeated", "", ""),
    ("epoch null", headers(epoch=None), "epoch_empty", "", "epoch"),
    ("epoch word", headers(epoch=b"one"), "epoch_not_integer", "", "epoch"),
    ("epoch below", headers(epoch=b"-1"), "epoch_negative", "", "epoch"),
    ("epoch beyond", headers(epoch=b"%d" % 2**63), "epoch_huge", "", "epoch"),
    ("stream empty", headers(streamId=b""), "stream_empty", "", "stream"),
    ("stream null", headers(streamId=None), "stream_empty", "", "stream"),
    ("stream bytes", headers(streamId=b"\xff"), "stream_undecodable", "", "stream"),
    ("stream long", headers(streamId=b"x" * 250), "stream_huge", "at most 249", "stream"),
    *(
        (f"ts {text!r}", headers(ts=text), f"ts_{fault}", hint, "")
        for text, fault, hint in [
            (b"", "empty", "write an integer"),
            (None, "empty", "write an integer"),
            *((text, "unreadable", "RFC 3339") for text in NO_TIMES),
            (b"2023-01-01T00:00:00Z\n", "unreadable", "RFC 3339"),
            (b"2016-12-31T23:59:60Z", "unreadable", "without leap seconds"),
            *((text, "huge", "between 1678 and 2261") for text in FAR_TIMES),
            (b"9" * 5_000, "huge", "(5000 bytes)"),
        ]
    ),
    ("type bytes", headers(type=b"\xff"), "type_undecodable", "UTF-8", ""),
    ("kind of a stage", headers(kind=b"blocked"), "kind_unknown", "heartbeat, bye", ""),
    ("kind empty", headers(kind=b""), "kind_unknown", "heartbeat, bye", ""),
    ("kind of bytes", headers(kind=b"\xff"), "kind_unknown", "heartbeat, bye", ""),
]


@pytest.mark.parametrize(
    ("given_headers", "reason", "hint", "lost"),
    [case[1:] for case in MALFORMED],
    ids=[case[0] for case in MALFORMED],
)
def test_malformed_headers_are_dead(
    given_headers: Headers, reason: str, hint: str, lost: str
) -> None:
    dead = read(given_headers)
    assert (dead.reason, place_of(dead)) == (reason, place("s1", 17, lost))
    assert hint in dead.detail
    assert (dead.at_ns, dead.offset, dead.record) == (ARRIVAL_NS, 4, "the record")


def test_all_faults_are_reported() -> None:
    dead = read(headers(seqNum=b"x", ts=b"y", kind=b"z"))
    assert dead.reason == "seq_not_integer"
    assert dead.detail.count(";") == 5  # Three faults, each with its remedy.


NAMES = list(PLAIN.names())
ANY_VALUE = st.none() | st.binary(max_size=24) | st.from_regex(rb"-?[0-9]{1,22}", fullmatch=True)
ANY_HEADERS = st.lists(st.tuples(st.sampled_from([*NAMES, "foreign"]), ANY_VALUE), max_size=9)
MOSTLY_GOOD = ANY_HEADERS.map(lambda more: list((dict(headers()) | dict(more)).items()))


@pytest.mark.slow
@given(ANY_HEADERS | MOSTLY_GOOD)
def test_law_plain_path_matches_slow_path(
    given_headers: Headers,
) -> None:
    """No bytes raise an error."""
    reader = HeaderReader(PLAIN)
    quick = reader.read(given_headers, TIMESTAMP_NS, ARRIVAL_NS, 4, None, None)
    look = reader._look(given_headers)
    close = look.event(reader._reading, 4, TIMESTAMP_NS, ARRIVAL_NS, 4, None, None)
    if isinstance(quick, Event):
        assert told(quick) == told(close)
    else:
        assert quick == close
        assert quick.detail


@given(st.integers(0, MAX_INT64), st.integers(0, 2**63 - 1), st.integers(-MAX_INT64, MAX_INT64))
def test_law_digits_round_trip(seq: int, epoch: int, ts_ns: int) -> None:
    event = good(headers(seqNum=b"%d" % seq, epoch=b"%d" % epoch, ts=b"%d" % ts_ns))
    assert (event.seq, event.epoch, event.ts_ns) == (seq, epoch, ts_ns)


@given(st.datetimes(), st.integers(0, 999_999_999))
def test_law_rfc3339_matches_the_calendar(moment: Any, fraction_ns: int) -> None:
    whole = moment.replace(microsecond=0)
    text = f"{whole.isoformat()}.{fraction_ns:09d}Z".encode()
    since = whole - type(moment)(1970, 1, 1)
    seconds = since.days * 86_400 + since.seconds
    assert rfc3339.parse_ns(text) == seconds * 10**9 + fraction_ns


INT64 = st.integers(-(2**63), MAX_INT64)
NATURAL = st.integers(0, MAX_INT64)
NAME = st.text(min_size=1, max_size=20)


def settled(event: Event, draw: Any) -> Event:
    """Fill in the fields that REORDER and CLOCK set, and return the event."""
    event.epoch = max(event.epoch, 0)
    event.ref_time_ns, event.at_ns = draw(INT64), draw(INT64)
    event.error_ns, event.segment, event.lane = draw(NATURAL), draw(NATURAL), draw(NATURAL)
    event.late = draw(st.sampled_from(["", "gap", "merge_wait"]))
    return event


@pytest.mark.slow
@given(st.data(), MOSTLY_GOOD, st.sampled_from([PLAIN, HeaderConfig(ts_unit="ms")]))
def test_law_stamped_headers_round_trip(data: Any, original: Headers, config: HeaderConfig) -> None:
    reader, writer = HeaderReader(config), HeaderWriter(config)
    event = reader.read(original, TIMESTAMP_NS, data.draw(INT64), 4, None, None)
    if isinstance(event, Malformed):
        return
    settled(event, data.draw)
    event.seq = data.draw(st.sampled_from([event.seq, data.draw(NATURAL)]))
    event.epoch = data.draw(st.sampled_from([event.epoch, event.epoch // 2, 7]))
    written = writer.stamp(event, original, event.lane)
    again = sequenced(written, config)
    assert told(again) == told(event)
    # The ordered record is the same whether it passes a second stage or not.
    assert writer.write_ordered(again, written) == writer.write_ordered(event, original)


@given(st.data(), st.sampled_from([BLOCKED, UNBLOCKED, PROGRESS]), st.sampled_from([PLAIN, CLOUD]))
def test_law_control_records_round_trip(data: Any, kind: str, config: HeaderConfig) -> None:
    draw = data.draw
    source, epoch, seq = draw(NAME), draw(st.integers(-1, 2**63 - 1)), draw(NATURAL)
    if kind == PROGRESS:
        source, epoch, seq = "", NO_EPOCH, 0
    event = Event(draw(NAME), source, epoch, seq, 0, draw(INT64), 4, kind=kind)
    event.ts_ns = event.ref_time_ns = draw(INT64)
    event.at_ns, event.lane = draw(INT64), draw(NATURAL)
    written = HeaderWriter(config).write_control(event, event.lane)
    assert told(sequenced(written, config)) == told(event)


def test_heartbeat_is_stamped_like_events() -> None:
    original = headers(kind=b"heartbeat", ts=b"9")
    event = good(original)
    again = sequenced(HeaderWriter(PLAIN).stamp(event, original, 2))
    assert (again.kind, again.seq, again.ts_ns, again.lane) == (HEARTBEAT, 17, 9, 2)
    assert again.epoch == 0


STAMPS: list[tuple[str, Value]] = [
    ("refTs", b"1700000000000000000"),
    ("err", b"0"),
    ("segment", b"0"),
    ("arrival", b"1700000000500000000"),
    ("at", b"1700000000500000000"),
    ("lane", b"3"),
]
NO_LANE = [stamp for stamp in STAMPS if stamp[0] not in ("arrival", "lane")]


def test_stamps_follow_original_headers() -> None:
    original = [*headers(), ("trace", b"t"), ("nothing", None)]
    event = good(original)
    writer = HeaderWriter(PLAIN)
    assert writer.stamp(event, original, 3) == original + STAMPS
    assert writer.write_ordered(event, original + STAMPS) == original + NO_LANE
    event.late = "gap"
    assert writer.write_ordered(event, original)[-1] == ("late", b"gap")


SETTLED: dict[str, tuple[dict[str, Value], int, int, dict[str, Value]]] = {
    "the same": ({}, 17, 0, {}),
    "leading zeros say the same": ({"seqNum": b"0017", "epoch": b"00"}, 17, 0, {}),
    "wrapped": ({}, 273, 0, {"seqNum": b"273"}),
    "a restart seen": ({}, 17, 1, {"epoch": b"1"}),
    "an epoch overruled": ({"epoch": b"0"}, 17, 2, {"epoch": b"2"}),
    "an epoch back to none": ({"epoch": b"4"}, 17, 0, {"epoch": b"0"}),
}


@pytest.mark.parametrize(("changes", "seq", "epoch", "rewritten"), SETTLED.values(), ids=SETTLED)
def test_only_changed_fields_are_rewritten(
    changes: dict[str, Value], seq: int, epoch: int, rewritten: dict[str, Value]
) -> None:
    original = headers(**changes)
    event = good(original)
    event.seq, event.epoch = seq, epoch
    written = HeaderWriter(PLAIN).stamp(event, original, 3)
    assert written == headers(**(changes | rewritten)) + STAMPS


def test_producer_stamp_is_replaced() -> None:
    original = [("late", b"never"), *headers(), ("at", b"noon")]
    assert HeaderWriter(PLAIN).stamp(good(original), original, 3) == headers() + STAMPS


def test_watermark_is_written_as_headers() -> None:
    event = Event("pitch", "", NO_EPOCH, 0, 9, 10, kind=WATERMARK)
    event.complete_ns = 8
    event.error_ns = 7
    stamps = [("refTs", b"9"), ("at", b"10"), ("err", b"7"), ("complete", b"8")]
    written = HeaderWriter(PLAIN).write_control(event, 0)
    assert written == [("kind", b"watermark"), ("streamId", b"pitch"), *stamps]


@pytest.mark.parametrize("name", ["sourceId", "seqNum", "epoch"])
def test_watermark_reads_only_the_stream(name: str) -> None:
    event = Event("pitch", "", NO_EPOCH, 0, 9, 10, kind=WATERMARK)
    written = [*HeaderWriter(PLAIN).write_control(event, 0), (name, b"\xff")]
    found: Any = HeaderReader(PLAIN).read_ordered(written, 0, 4, None, None)
    assert (found.kind, found.stream) == (WATERMARK, "pitch")
    assert (found.source, found.seq, found.epoch) == ("", 0, 0)


@pytest.mark.parametrize("name", [name for name, _ in STAMPS])
@pytest.mark.parametrize("value", [None, b"", b"x", b"9" * 30, b"9" * 5_000])
def test_foreign_stamps_are_dead(name: str, value: Value) -> None:
    written = [*headers(), *((n, value if n == name else v) for n, v in STAMPS)]
    assert sequenced(written).reason == "stamp_unreadable"


def test_unstamped_sequenced_record_is_dead() -> None:
    """A record with bad headers is also dead."""
    assert sequenced(headers()).reason == "stamp_missing"
    stamps = dict(STAMPS) | {"at": b"1700000000600000000"}
    dead = sequenced([*headers(seqNum=b"x"), *stamps.items()])
    assert (dead.reason, dead.at_ns) == ("seq_not_integer", 1_700_000_000_600_000_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seqNum", b"x"), ("seqNum", b"9" * 30), ("epoch", b"-2"), ("streamId", b"\xff")],
)
def test_foreign_control_record_is_dead(name: str, value: Value) -> None:
    written = [*headers(kind=b"blocked", **{name: value}), *STAMPS]
    assert sequenced(written).reason == "stamp_unreadable"


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from([*NAMES, *dict(STAMPS)]), ANY_VALUE), max_size=14))
def test_law_no_bytes_raise_when_sequenced(extra: list[tuple[str, Value]]) -> None:
    stamped = list((dict(headers()) | dict(STAMPS) | dict(extra)).items())
    kinds = [("kind", b"blocked"), ("kind", b"progress")]
    for given_headers in (extra, stamped, [*stamped, kinds[0]], [*stamped, kinds[1]]):
        event = sequenced(given_headers)
        kinds_read = (DATA, HEARTBEAT, BYE, BLOCKED, UNBLOCKED, PROGRESS)
        assert isinstance(event, Malformed) or event.kind in kinds_read


# -- streams by time -------------------------------------------------------------------------------


SOURCE = ("sourceId", b"s1")


def by_time(
    given_headers: Headers,
    streams: tuple[str, ...] = ("default", "spår"),
    config: HeaderConfig = PLAIN,
) -> Any:
    reader = HeaderReader(config, Reading(frozenset(streams)))
    return reader.read(given_headers, TIMESTAMP_NS, ARRIVAL_NS, 4, "the record", b"the value")


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
def test_offset_replaces_the_number(number: Any) -> None:
    for stream in ([], [("streamId", "spår".encode())]):
        event = by_time([SOURCE, *number, *stream])
        assert (event.source, event.seq, event.ts_ns) == ("s1", 4, TIMESTAMP_NS)
        assert (event.offset, event.arrival_ns, event.value) == (4, ARRIVAL_NS, b"the value")


def test_other_headers_are_still_checked() -> None:
    event = by_time(headers(ts=b"7", type=b"A", kind=b"heartbeat", epoch=b"3"))
    assert (event.ts_ns, event.type, event.kind, event.epoch) == (7, "A", HEARTBEAT, 3)
    for bad, reason in (
        ([], "source_missing"),
        ([SOURCE, SOURCE], "source_repeated"),
        ([SOURCE, ("ts", b"soon")], "ts_unreadable"),
        ([SOURCE, ("kind", b"what")], "kind_unknown"),
    ):
        dead = by_time(bad)
        assert (dead.reason, dead.seq) == (reason, 4)
        assert "seqNum" not in dead.detail


def test_numbered_stream_needs_numbers() -> None:
    """A numbered stream can share the topic with streams by time."""
    numbered = [SOURCE, ("streamId", b"pitch")]
    dead = by_time(numbered)
    assert (dead.reason, dead.stream, dead.seq) == ("seq_missing", "pitch", None)
    assert dead.detail.endswith("no number is needed in stream `default`, `spår`")
    assert by_time([*numbered, ("seqNum", b"3")]).seq == 3


def test_missing_number_has_remedy() -> None:
    dead = by_time([SOURCE], streams=())
    assert dead.detail == "header `seqNum` is missing; " + REASONS["seq_missing"].remedy
    assert "reorder: {without_seq: by_time}" in dead.detail
    assert "reorder: {rule: time}" in dead.detail


@pytest.mark.parametrize("config", [PLAIN, CLOUD])
@pytest.mark.parametrize("numbers", [[], [b"5"], [b"5", b"5"], [b"x", b""]])
def test_derived_topics_carry_new_number(config: HeaderConfig, numbers: list[bytes]) -> None:
    names = config.names()
    original = [(names.source, b"s1"), *((names.seq, number) for number in numbers), ("x", b"y")]
    event = by_time(original, config=config)
    event.seq, event.epoch = 1_234, 0
    writer = HeaderWriter(config)
    written = writer.stamp(event, original, 1)
    assert [value for name, value in written if name == names.seq] == [b"1234"]
    assert ("x", b"y") in written
    again = sequenced(written, config)
    assert (again.seq, again.epoch) == (1_234, 0)
    ordered = writer.write_ordered(event, original)
    assert writer.write_ordered(again, written) == ordered
    found: Any = HeaderReader(config).read_ordered(ordered, TIMESTAMP_NS, 9, "record", b"value")
    assert found.seq == 1_234


def test_mixed_record_shows_missing_number() -> None:
    reader = HeaderReader(PLAIN, Reading(mixed=frozenset({"default", "spår"})))

    def seq_of(*headers: tuple[str, bytes]) -> tuple[str, int | None]:
        item = reader.read((SOURCE, *headers), TIMESTAMP_NS, ARRIVAL_NS, 4, "record", b"value")
        return ("" if isinstance(item, Event) else item.reason), item.seq

    spar = ("streamId", "spår".encode())
    assert seq_of() == seq_of(spar) == seq_of(("kind", b"heartbeat")) == ("", ~4)
    assert seq_of(("seqNum", b"17")) == ("", 17)
    assert seq_of(("seqNum", b"")) == ("seq_empty", None)
    assert seq_of(("ts", b"soon")) == ("ts_unreadable", None)
    assert seq_of(("streamId", b"other")) == ("seq_missing", None)
