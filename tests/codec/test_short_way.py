"""Laws: the compiled codec reads mapped records as the general path does, and writes the same
bytes. Plain records skip the general path.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any
from zlib import crc32

import pytest

from agents.stage.inlet import InletBatch

pytest.importorskip("codec.native.events", reason="the compiled codec is not built")

from agents.stage.arrangement import make_input_inlet
from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import MappedInlet
from agents.stage.outbox import Outbox
from agents.stage.outlet import OrderedOutlet
from codec import plain
from codec.native import batches, records
from codec.values.mapped import field_reader, find_short_path
from tests.codec.logs import APPEND_TIME, FIRST, SEEDS, batch, record
from tests.codec.ways import dead_told, event_told
from topology.config import HeaderConfig, StreamConfig, Topology
from topology.order.reorder.recent import digest_of
from topology.records.header_reader import HeaderReader
from topology.records.header_writer import HeaderWriter

MAX_BYTES = 1_000
TARGETS = dict.fromkeys(("default", "presses"), ("ordered", 0))
PLACES: dict[str, list[str | None]] = {
    "source": ["payload.device", "payload.in.id", "payload.`a.b`", "key"],
    "seq": ["payload.n", "payload.in.n", "header.n"],
    "ts": ["payload.time", "timestamp", None],
    "type": ["payload.kind", None, '="t"'],
    "epoch": ["payload.boot", None],
}
WORDS: list[Any] = [
    "s1", "\xe4" * 40, "x" * 300, "", 7, 0, -1, 2**63 - 1, 2**63, 1.5, True, None, "007", "1e3",
    "1970-01-01T00:00:01.5Z", "1970-01-01T00:00:01", "2025-06-03T09:13:34+0300", "20250603T061334Z",
    "2016-12-31T23:59:60Z", "1000,25", 20240603061334, "20240603061334", "03.06.2025",
    {"id": "s2", "n": 4}, [1], 1_700_000_000_000,
]  # fmt: skip
NAMES = ("device", "n", "time", "kind", "boot", "a.b", "other", "in")
BYTES = [b"\xc3\xa4", b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", rb"\ud800"]
HEADERS = [
    (b"trace", b"x"), (b"n", b"12"), (b"", None), (b"sourceId", b"liar"), (b"kind", b"progress"),
    (b"refTs", b"1"), (b"sig", b"y"), (b"\xce\xbc", b"z" * 200),
]  # fmt: skip


def topology_of(dice: Random, name: str = "default") -> Topology:
    fields = {key: text for key, each in PLACES.items() if (text := dice.choice(each))}
    unit: dict[str, Any] = {"ts_unit": dice.choice(["ns", "ms", "s"])}
    if fields.get("ts", "").startswith("payload") and dice.random() < 0.3:
        form = dice.choice(["%Y%m%d%H%M%S", "%d.%m.%Y", "rfc2822"])
        unit = {"ts_zone": "Europe/Berlin", "ts_format": form}
    unit["decimal"] = dice.choice(".,")
    stream = StreamConfig.model_validate({"input": "t", "fields": fields, **unit})
    return Topology(streams={name: stream})


def value_of(dice: Random) -> bytes | None:
    if dice.random() < 0.1:
        return dice.choice([None, b"", b"{", b"[1]", b'{"device":"\xff"}', b'{"n":1,"n":2} x'])
    sound = {"device": "s1", "n": dice.randrange(99), "time": 10**12, "in": {"id": "s2", "n": 3}}
    value = {**sound, **{dice.choice(NAMES): dice.choice(WORDS) for _ in range(dice.randrange(4))}}
    text = json.dumps(value, ensure_ascii=dice.random() < 0.5).encode()
    if dice.random() < 0.8:
        return text
    at = dice.choice([n for n, each in enumerate(text) if each == ord('"')]) + 1
    return text[:at] + dice.choice(BYTES) + text[at:]


def log_of(dice: Random) -> bytes:
    given = []
    for at in range(12):
        headers = dice.sample(HEADERS, dice.choice([0, 0, 0, 1, 2]))
        key = dice.choice([None, b"s1", b"\xff"])
        given.append(record(key, value_of(dice), headers, offset_delta=at))
    return batch(given, attributes=dice.choice([0, APPEND_TIME]))


def read_of(topology: Topology, log: bytes, *, is_native: bool) -> tuple[InletBatch, list[object]]:
    """Return the records read, and their fields and ordered-topic bytes to compare."""
    reader: Any = field_reader(topology, "t")
    short = find_short_path(reader) if is_native else None
    inlet = MappedInlet(reader, HeaderReader(HeaderConfig()), MAX_BYTES, 3, (), short)
    make: Any = records.memory_records if is_native else plain.memory_records
    found = list(make(log).next_batch())
    read = inlet.read(found, ArrivalClock(0, arrival="timestamp"))
    told: list[object] = [event_told(event) for event in read.events]
    told += [dead_told(dead) for dead in read.dead]
    writer = HeaderWriter(HeaderConfig())
    # A law in test_writing.py shows that both writers write the same.
    outbox = Outbox(lambda: batches.new_batch(1 << 20, None, is_transactional=False))
    OrderedOutlet(writer, TARGETS).put_all([e for e in read.events if not e.kind], outbox)
    for filled in outbox.take().values():
        told += [bytes(each._build()) for each in filled]
    return read, told


@pytest.mark.parametrize("seed", [1_000, *range(FIRST, FIRST + SEEDS)])
def test_law_mapped_events_agree(seed: int) -> None:
    dice = Random(f"mapped {seed}")
    for _ in range(40):
        topology = topology_of(dice, dice.choice(["default", "presses"]))
        log = log_of(dice)
        native, general = (read_of(topology, log, is_native=each)[1] for each in (True, False))
        assert native == general, (topology.streams, log)


def plainly_read(
    monkeypatch: pytest.MonkeyPatch, given: bytes, name: str = "default", **settings: Any
) -> Any:
    """Read a record that must not go to the general path, and return its event."""
    stream = StreamConfig.model_validate({"input": "t", **settings})
    inlet = make_input_inlet(Topology(streams={name: stream}), "t")
    monkeypatch.setattr(
        "topology.records.field_reader.FieldReader.read", lambda *_: pytest.fail("it went there")
    )
    log = batch([given], attributes=APPEND_TIME)
    found = list(records.memory_records(log).next_batch() or ())
    (event,) = inlet.read(found, ArrivalClock(0)).events
    return event


def test_nested_fields_skip_general_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"source": "key", "seq": "payload.n", "ts": "timestamp"}
    event = plainly_read(monkeypatch, record(b"s1", b'{"n":7}', []), fields=fields)
    assert (event.source, event.seq) == ("s1", 7)
    fields = {"source": "payload.in.id", "seq": "payload.in.n", "type": "payload.kind"}
    value = b'{"kind":"A","in":{"n":7,"id":"s1"}}'
    event = plainly_read(monkeypatch, record(None, value, []), fields=fields)
    assert (event.source, event.seq, event.type) == ("s1", 7, "A")
    assert event.digest == digest_of(event) == crc32(value, crc32(b"A"))


def test_plain_record_skips_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a fast path the law would compare the general path with itself."""
    fields = {name: f"payload.{name}" for name in ("source", "seq", "ts", "type", "epoch")}
    value = b'{"source":"s1","seq":7,"ts":5,"type":"A","epoch":2,"more":[1]}'
    given = record(b"k", value, [(b"trace", b"x")])
    event = plainly_read(monkeypatch, given, "presses", fields=fields, ts_unit="ms")
    assert (event.stream, event.source, event.seq, event.epoch) == ("presses", "s1", 7, 2)
    assert (event.ts_ns, event.type) == (5_000_000, "A")
    assert event.record.headers == [
        ("sourceId", b"s1"), ("seqNum", b"7"), ("ts", b"5000000"), ("type", b"A"), ("epoch", b"2"),
        ("streamId", b"presses"), ("trace", b"x"),
    ]  # fmt: skip
    assert event.record.value == value
    assert event.digest == 0  # A source that writes epochs needs no digest.
