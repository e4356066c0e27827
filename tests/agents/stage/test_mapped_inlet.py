"""Foreign records in the inlet of a stage: examples, the conformance table, and laws."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agents.stage.arrangement import make_input_inlet
from agents.stage.arrival import NS_PER_MS, ArrivalClock
from agents.stage.inlet import InletBatch
from agents.state.notes import Spilled
from inorder.contract import MAX_INT64, HeaderContract
from inorder.signing_keys import SigningKey, signing_key
from recordings.topic_lines import record_line
from recordings.values import FileMapping
from tests.agents.records import FakeRecord
from tests.kit.conformance import cases_of
from topology.base.event import DEAD, NO_EPOCH, Event
from topology.base.outcome import Duplicate
from topology.config import FieldsConfig, ReorderConfig, StreamConfig, Topology
from topology.order.reorder.operator import Reorder
from topology.records.checker import AS_WRITTEN, digest_of_id
from topology.records.line_reader import LineReader, Row
from topology.records.where import Where

STAMP_MS = 6_000
MASTER = bytes(range(32))
LIES = (("sourceId", b"liar"), ("kind", b"progress"))


def topology_of(mapping: dict[str, str], **stream: Any) -> Topology:
    """Return a topology with this mapping of fields and units of times."""
    units: dict[str, Any] = {
        name: mapping[name]
        for name in mapping.keys() & {"ts_unit", "ts_zone", "ts_format", "decimal"}
    }
    places: dict[str, Any] = {name: mapping[name] for name in mapping.keys() - units.keys()}
    stream |= {name: text for name, text in units.items() if text}
    config = StreamConfig(input="t", fields=FieldsConfig(**places), **stream)
    return Topology(streams={"default": config})


def read_of(topology: Topology, *records: FakeRecord, partition: int = 0) -> InletBatch:
    return make_input_inlet(topology, "t", (), partition).read(records, ArrivalClock(0))


@pytest.mark.parametrize(("case", "mapping", "value", "expected"), cases_of("json"))
def test_mapping_follows_conformance_table(
    case: str, mapping: dict[str, str], value: bytes | None, expected: Any
) -> None:
    record = FakeRecord(9, LIES, value, timestamp=STAMP_MS)
    read = read_of(topology_of(mapping), record)
    if isinstance(expected, str):
        assert [dead.reason for dead in read.dead] == [expected], case
        assert all(event.kind == DEAD for event in read.events)
        return
    (event,) = read.events
    epoch = NO_EPOCH if expected["epoch"] is None else expected["epoch"]
    assert (event.source, event.seq, event.ts_ns) == (
        expected["source"], expected["seq"], expected["ts_ns"],
    )  # fmt: skip
    assert (event.type, event.epoch, event.kind) == (expected["type"], epoch, "")
    assert event.record.value == value


@pytest.mark.parametrize("form", ["syslog", "%Y%m%d%H%M%S", "%d/%m/%Y %H:%M:%S"])
def test_law_replay_reads_the_same_time(form: str) -> None:
    """A record's arrival decides the year, and which of two equal hours is meant."""
    rng = random.Random(form)
    zone = "Europe/Berlin"
    where = {"source": "payload.s", "seq": "payload.n", "ts": "payload.t", "ts_format": form}
    topology = topology_of({**where, "ts_zone": zone})
    mapping = topology.streams["default"].mapping()
    assert mapping is not None
    rows = FileMapping(mapping, Where("payload", ("at",))).make_row_reader(AS_WRITTEN)
    times = set()
    for n in range(500):
        at_s = rng.choice(
            (rng.randrange(10**8, 1 << 31), 1_761_440_400 + rng.randrange(-7_200, 7_200))
        )
        local = datetime.fromtimestamp(at_s - rng.randrange(9), ZoneInfo(zone))
        text = local.strftime("%b %d %H:%M:%S" if form == "syslog" else form)
        value = json.dumps({"s": "a", "n": n, "t": text, "at": f"{at_s}000000000"}).encode()
        (event,) = read_of(topology, FakeRecord(n, (), value, timestamp=at_s * 1_000)).events
        assert rows.row(n, value).values["ts"] == event.ts_ns
        assert abs(event.ts_ns - at_s * 10**9) < 10 * 10**9
        times.add(event.ts_ns)
    assert len(times) > 400


MAPPING = {"source": "payload.device", "seq": "header.n", "epoch": "partition", "type": "key"}


def test_event_gets_contract_headers() -> None:
    record = FakeRecord(9, (("n", b"007"), ("ts", b"x")), b'{"device":"s1"}', b"A", STAMP_MS)
    (event,) = read_of(topology_of(MAPPING), record, partition=3).events
    assert event.record.headers == [
        ("sourceId", b"s1"), ("seqNum", b"7"), ("ts", b"6000000000"), ("type", b"A"),
        ("epoch", b"3"), ("n", b"007"),
    ]  # fmt: skip
    assert (event.record.key, event.record.value) == (record.key, record.value)


def spilled(event: Event) -> Spilled:
    """Return the event's record as the state stores it."""
    kept = event.record
    return Spilled(event.offset, STAMP_MS, 1, kept.key, kept.value, kept.headers)


def test_law_spill_is_not_remapped() -> None:
    topology = topology_of({"source": "header.seqNum", "seq": "header.sourceId"})
    record = FakeRecord(9, (("sourceId", b"7"), ("seqNum", b"press")), b"x", timestamp=STAMP_MS)
    (event,) = read_of(topology, record).events
    assert (event.source, event.seq) == ("press", 7)
    for each in (record, spilled(event)):
        (again,) = make_input_inlet(topology, "t").read_again([each])
        assert (again.source, again.seq, again.ts_ns) == ("press", 7, event.ts_ns)


@pytest.mark.parametrize("place", ["payload.u", "header.u", "key", "key.u"])
def test_id_survives_state_and_dumps(place: str) -> None:
    settings: dict[str, Any] = {"reorder": ReorderConfig(rule="time")}
    settings |= {"key_format": "json"} if place == "key.u" else {}
    topology = topology_of({"source": "payload.device", "id": place}, **settings)
    key = b'{"u": 7}' if place == "key.u" else b"7"
    record = FakeRecord(9, (("u", b"7"),), b'{"device": "a", "u": 7}', key, STAMP_MS)
    (event,) = read_of(topology, record).events
    (again,) = make_input_inlet(topology, "t").read_again([spilled(event)])
    assert event.digest == again.digest == digest_of_id("a", "7")
    line = record_line(make_input_inlet(topology, "t"), 1, record, ArrivalClock(0))
    assert line["id"] == "7"
    read: Any = LineReader(topology.reading()).read(Row(1, json.loads(json.dumps(line))))
    assert read.digest == event.digest


@pytest.mark.parametrize("preset", ["plain", "cloudevents"])
def test_signature_covers_mapped_headers(preset: Any) -> None:
    """A source that renames headers signs the renamed ones. A spilled record stays translated."""
    mapping = {"preset": preset, "source": "header.device", "seq": "header.n", "ts": "header.t"}
    topology = topology_of(mapping, signed=True)
    names = HeaderContract(preset=preset, source="device", seq="n", ts="t").names()
    key = SigningKey.parse(signing_key(MASTER, "source", "press-7"))
    headers: list[tuple[str, bytes | None]] = [("device", b"press-7"), ("n", b"007"), ("t", b"5")]
    signed = [*headers, (names.sig, key.signature(names, headers, b"{}"))]
    other = [("device", b"press-7"), ("n", b"008"), ("t", b"5"), signed[-1]]
    twice = [("n", b"007"), *signed]
    inlet = make_input_inlet(topology, "t", (MASTER,))
    records = [
        FakeRecord(at, tuple(each), b"{}", timestamp=STAMP_MS)
        for at, each in enumerate((signed, headers, other, twice))
    ]
    read = inlet.read(records, ArrivalClock(0))
    assert [(dead.reason, dead.source, dead.seq) for dead in read.dead] == [
        ("unsigned", "press-7", None), ("forged", "press-7", None), ("forged", "press-7", None),
    ]  # fmt: skip
    (event,) = read.events
    assert (event.source, event.seq) == ("press-7", 7)
    (again,) = inlet.read_again([spilled(event)])
    assert (again.source, again.seq) == ("press-7", 7)


COPIED_AFTER_MS = (0, 1, 60_000, 86_400_000)
MAPPED = {"source": "header.device", "seq": "payload.n"}


@pytest.mark.parametrize(
    "mapping",
    [None, MAPPED | {"ts": "payload.t"}, MAPPED | {"ts": "header.t"}],
    ids=["the header contract", "a time in the value", "a time in a header"],
)
def test_law_copy_begins_no_epoch(mapping: Any) -> None:
    """A copy with any timestamp is a duplicate of its source's record."""
    topology = (
        topology_of(mapping, signed=True)
        if mapping
        else Topology(streams={"default": StreamConfig(input="t", signed=True)})
    )
    names = topology.streams["default"].signed_headers()
    key = SigningKey.parse(signing_key(MASTER, "source", "press-7"))
    sent = []
    for seq in range(5):
        time = b"%d" % (STAMP_MS * NS_PER_MS + seq)
        value = b'{"n": %d, "t": %s}' % (seq, time)
        headers = [(names.source, b"press-7"), (names.seq, b"%d" % seq), (names.ts, time)]
        headers.append((names.sig, key.signature(names, headers, value)))
        sent.append(FakeRecord(seq, tuple(headers), value, timestamp=STAMP_MS))
    copies = [
        replace(record, offset=5 + at, timestamp=STAMP_MS + after_ms)
        for at, (after_ms, record) in enumerate(product(COPIED_AFTER_MS, sent))
    ]
    read = make_input_inlet(topology, "t", (MASTER,)).read([*sent, *copies], ArrivalClock(0))
    assert not read.dead
    reorder = Reorder("default", topology.streams["default"].reorder)
    steps = [reorder.on_batch([event], event.at_ns) for event in read.events]
    steps.append(reorder.on_time(MAX_INT64))
    released = [(event.epoch, event.seq) for step in steps for event in step.released]
    assert released == [(0, seq) for seq in range(5)]
    reports = [report for step in steps for report in step.reports]
    assert [type(report) for report in reports] == [Duplicate] * len(copies)


def test_time_rule_numbers_by_offset() -> None:
    topology = topology_of({"source": "key"}, reorder={"rule": "time"})
    read = read_of(topology, FakeRecord(9, (), None))
    assert [(event.source, event.seq) for event in read.events] == [("s1", 9)]
    read = read_of(topology, FakeRecord(9, (), None, None))
    assert [(dead.reason, dead.seq) for dead in read.dead] == [("source_missing", 9)]


def test_unnumbered_seq_is_negative() -> None:
    mapping = {"source": "key", "seq": "payload.n"}
    topology = topology_of(mapping, reorder={"without_seq": "by_time"})
    for value, seq in ((b'{"n": 3}', 3), (b'{"n": null}', ~9), (b"{}", ~9)):
        (event,) = read_of(topology, FakeRecord(9, (), value)).events
        assert (event.source, event.seq) == ("s1", seq)
        for each in (FakeRecord(9, (), value), spilled(event)):
            (again,) = make_input_inlet(topology, "t").read_again([each])
            assert again.seq == seq
    read = read_of(topology, FakeRecord(9, (), b'{"n": "x"}'))
    assert [(dead.reason, dead.seq) for dead in read.dead] == [("seq_not_integer", None)]
    (dead,) = read_of(topology_of(mapping), FakeRecord(9, (), b"{}")).dead
    assert "without_seq: by_time" in dead.detail
