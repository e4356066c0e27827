"""Example tables for `fields`, `format` and `schema` of a stream: what is accepted, and what is
refused and why.
"""

from __future__ import annotations

import pytest
import yaml

from topology.config import FieldsConfig, StreamConfig, TopologyError, parse
from topology.config.change import reading_of
from topology.config.reference import fill
from topology.records.mapping import FIELD_PRESETS, Fields
from topology.records.where import Where

SOUND = """
streams:
  presses:
    input: telemetry
    fields: {source: payload.device, seq: payload.n, ts: payload.time}
    ts_unit: ms
    ts_zone: Europe/Berlin
"""

UNSIGNED_TIME = (
    "a.fields.ts (line 3): a record's own timestamp is not signed; write ts: header.NAME or"
    " ts: payload.PATH"
)


PLACES = "fields: {source: payload.d, seq: payload.n}"
MAPPED = f"input: t; {PLACES}"
REGISTRY = "registry: 'http://r:8081'"


def stream_of(text: str) -> str:
    return "streams:\n  a:\n    " + text.replace("; ", "\n    ")


def made(lines: str) -> StreamConfig:
    return parse(stream_of(f"{MAPPED}; {lines}")).streams["a"]


def test_places_become_a_mapping() -> None:
    topology = parse(SOUND)
    assert topology.streams["presses"].mapping() == Fields(
        Where("payload", ("device",)),
        Where("payload", ("n",)),
        Where("payload", ("time",)),
        ts_unit="ms",
        ts_zone="Europe/Berlin",
    )
    assert parse("streams: {a: }").streams["a"].mapping() is None


def test_preset_gives_missing_fields() -> None:
    mapping = FieldsConfig(preset="cloudevents", source="key").places()
    preset = FIELD_PRESETS["cloudevents"]
    assert (mapping.source, mapping.seq) == (Where("key"), preset.seq)
    assert mapping.ts_optional
    assert not FieldsConfig(preset="plain", ts="payload.t").places().ts_optional


def test_arrival_field_is_for_files_only() -> None:
    arriving = SOUND.replace("payload.time}", "payload.time, arrival: payload.`got at`}")
    with_it, without = (parse(each).streams["presses"] for each in (arriving, SOUND))
    assert with_it.fields is not None
    assert with_it.fields.arrival == "payload.`got at`"
    assert with_it.reading() == without.reading()
    assert reading_of(with_it) == reading_of(without)


def test_filled_mapping_means_the_same() -> None:
    whole = fill(yaml.safe_load(SOUND))
    assert parse(whole).streams["presses"].mapping() == parse(SOUND).streams["presses"].mapping()


REFUSED = [
    ("fields: {seq: payload.n}", "streams.a.fields.source (line 3): is missing"),
    ("fields: {source: payload.d}", "streams.a.fields.seq (line 3): is missing"),
    ("fields: {source: device}", "write payload.device for a field of the value"),
    ("fields: {source: key.id, seq: payload.n}", "write key_format: json beside `fields`"),
    ("fields: {source: timestamp, seq: payload.n}", "a timestamp cannot be this field"),
    ("fields: {source: key, seq: payload.n, payload: key}", "`key` is not part of the value"),
    ("fields: {source: key, seq: payload.n, arrival: timestamp}", "is not part of the value"),
    ("fields: {source: key, seq: payload.n}; headers: {ts_unit: ms}", "leave `headers` out"),
    ("fields: {source: key, seq: payload.n}; signed: true", "fields.source (line 3): `key` i"),
    ("fields: {source: payload.d, seq: payload.n}; signed: true", "header.NAME, or signed"),
    ("fields: {source: header.d, seq: partition}; signed: true", "`partition` is not signed"),
    ("fields: {source: header.sig, seq: header.n}; signed: true", "already means `source`"),
    ("fields: {source: header.seqNum, seq: payload.n}; signed: true", "fields.source (line 3)"),
    ("fields: {source: header.d, seq: header.d}; signed: true", "`d` already means `source`"),
    ("fields: {source: header.d, seq: header.n}; signed: true", UNSIGNED_TIME),
    ("fields: {source: header.d, seq: header.n, ts: timestamp}; signed: true", UNSIGNED_TIME),
    ("fields: {preset: cloudevents, seq: header.n}; signed: true", UNSIGNED_TIME),
    ("signed: true; arrival: timestamp", "a.arrival (line 4): `timestamp` is not signed"),
    ("fields: {preset: other}", "write one of"),
    ("fields: {source: key, seq: payload.n, id: payload.u}", "leave it out, or write reorder: {r"),
    (
        "reorder: {rule: time}; signed: true; fields: {source: header.d, ts: header.t, id: key}",
        "`key` is not signed; write payload.PATH",
    ),
    ("fields: {source: key, id: topic}; reorder: {rule: time}", "`topic` is the same in many rec"),
    ("fields: {source: key, id: timestamp}; reorder: {rule: time}", "cannot be this field"),
    ("reorder: {rule: time, id_memory: 1h}", "reorder.id_memory (line 3): has no effect, because"),
    ("ts_format: syslog", "a.ts_format (line 3): is for a mapping, but there is no `fields`"),
    ("ts_unit: ms", "; add `fields`; for the header contract write headers: {ts_unit: ms}"),
    (
        "fields: {source: key, seq: payload.n, ts: payload.t}; ts_format: '%d.%m'",
        "a.ts_zone (line 2): is missing, but times in the form `%d.%m` have no zone; write ts_zone",
    ),
    (
        "fields: {source: key, seq: payload.n, ts: payload.t}; ts_format: dotnet; ts_unit: ms",
        "a.ts_unit (line 5): is for numbers, but `ts_format` gives times another form",
    ),
    (
        "fields: {source: key, seq: payload.n, ts: payload.t}; ts_format: iso",
        "a.ts_format (line 4): `iso` is not a form of times; write rfc2822, apache, syslog",
    ),
    (
        "fields: {source: key, seq: payload.n, ts: timestamp}; ts_format: dotnet",
        "a.ts_format (line 4): has no effect on the record's own timestamp",
    ),
    (
        "fields: {source: key, seq: payload.n}; ts_format: dotnet",
        "a.ts_format (line 4): is for a `ts` that is named",
    ),
    ("fields: {source: key, seq: payload.n}; decimal: ';'", "a.decimal (line 4): "),
    ("fields: {source: key, seq: payload.n}; ts_zone: Berlin", "write its name, like Europe/"),
    ("format: xml", "`xml` is not known here; write one of: json"),
    ("format: avro", "add `fields`"),
    (f"schema: {{{REGISTRY}}}", "add `fields`"),
]
SCHEMAS = [
    ("format: avro", "write schema: {registry: http://HOST:8081, subjects: [t-value]}"),
    ("key_format: protobuf", "streams.a.schema (line 2): is missing"),
    (f"format: avro; schema: {{{REGISTRY}}}", "streams.a.schema.subjects (line 6): is missing"),
    (f"format: avro; schema: {{{REGISTRY}}}", "write subjects: [t-value]"),
    ("format: avro; schema: {}", "write either registry: URL or file: PATH"),
    (
        f"format: avro; schema: {{{REGISTRY}, subjects: [t], file: a.avsc}}",
        "write either registry: URL or file: PATH",
    ),
    ("format: protobuf; schema: {file: a.desc}", "write the message, like plant.Telemetry"),
    ("format: avro; schema: {file: a.avsc, message: A}", "for Protobuf only; leave it out"),
    ("schema: {file: a.avsc}", "has no effect on JSON"),
    (
        "format: protobuf; schema: {file: a.desc, message: A, reader: a.avsc}",
        "is for Avro values, but they are protobuf; leave it out",
    ),
    (f"schema: {{{REGISTRY}, reader: a.avsc}}", "is for Avro values, but they are json"),
    ("format: avro; schema: {reader: a.avsc}", "write either registry: URL or file: PATH"),
    ("format: avro; key_format: avro; schema: {file: a.avsc}", "the file is for values only"),
    ("format: avro; schema: {registry: 'r:8081'}", "is not the URL of a schema registry"),
    (
        "format: avro; schema: {registry: 'http://me:secret@r'}",
        "USER and INORDER_REGISTRY_PASSWORD",
    ),
    (f"format: avro; schema: {{{REGISTRY}, subjects: t}}", "their names in the registry"),
    (f"format: bytes; schema: {{{REGISTRY}}}", "has no effect on bytes"),
]
"""The same for streams whose fields have places."""


@pytest.mark.parametrize(
    ("text", "said"), [*REFUSED, *((f"{MAPPED}; {lines}", said) for lines, said in SCHEMAS)]
)
def test_bad_mapping_is_refused(text: str, said: str) -> None:
    with pytest.raises(TopologyError) as refused:
        parse(stream_of(text))
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "lines",
    [
        "format: json",
        "format: bytes",
        f"format: json; schema: {{{REGISTRY}}}",
        f"format: avro; schema: {{{REGISTRY}, subjects: [t-value]}}",
        "format: avro; schema: {file: press.avsc}",
        "format: protobuf; schema: {file: plant.desc, message: plant.Telemetry}",
        f"key_format: avro; schema: {{{REGISTRY}, subjects: [t-key]}}",
        "key_format: int64; format: avro; schema: {file: press.avsc}",
    ],
)
def test_good_mapping_is_accepted(lines: str) -> None:
    assert made(lines).mapping() is not None


def test_streams_of_a_topic_share_mapping() -> None:
    one = "{input: t, fields: {source: key, seq: payload.n, stream: payload.s}}"
    parse(f"streams:\n  a: {one}\n  b: {one}\n")
    with pytest.raises(TopologyError, match="with another mapping or format than stream `a`"):
        parse(f"streams:\n  a: {one}\n  b: {{input: t}}\n")
    nameless = "{input: t, fields: {source: key, seq: payload.n}}"
    with pytest.raises(TopologyError, match="no field names the stream"):
        parse(f"streams:\n  a: {nameless}\n  b: {nameless}\n")
    avro = f"{one[:-1]}, format: avro, schema: {{file: A}}}}"
    with pytest.raises(TopologyError, match="reads `t` with another mapping or format"):
        parse(f"streams: {{a: {avro}, b: {avro.replace('A', 'B')}}}")


def test_clock_is_trusted_without_arrivals() -> None:
    by_stamp = parse("streams: {a: {arrival: timestamp}}")
    assert by_stamp.streams["a"].unsynced == "trust"
    assert parse(fill({"streams": {"a": {"arrival": "read"}}})).streams["a"].arrival == "read"
    assert parse("streams: {a: {arrival: append}}").streams["a"].unsynced == "estimate"
    with pytest.raises(TopologyError, match="clocks are estimated by true arrivals"):
        parse("streams: {a: {arrival: read, clock: {unsynced: estimate}}}")


def test_schema_file_is_beside_topology() -> None:
    stream = made("format: avro; schema: {file: press.avsc}")
    located = stream.with_schema_from("/etc/inorder").value_schema
    assert located
    assert located.file == "/etc/inorder/press.avsc"
    absolute = made("format: avro; schema: {file: /press.avsc}")
    assert absolute.with_schema_from("/etc") is absolute
    reader = made(f"format: avro; schema: {{{REGISTRY}, subjects: [t], reader: press.avsc}}")
    located = reader.with_schema_from("/etc/inorder").value_schema
    assert located
    assert located.reader_file == "/etc/inorder/press.avsc"
    assert reader.with_reader("{}").with_schema_from("/etc") == reader.with_reader("{}")
