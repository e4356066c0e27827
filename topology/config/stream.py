"""Defines the settings of one stream: its input, its order, and its output.

In the file the key of a field is its alias (`max_wait`). Its Python name has the unit
(`max_wait_ns`). Code may use either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from inorder.contract import PRESETS, HeaderNames, Preset, TimeUnit, find_clashes
from topology.config.fields import Arrival, FieldsConfig, Format, KeyFormat, TimeFormText, ZoneName
from topology.config.schema import OF_A_SCHEMA, SchemaConfig
from topology.order.clock.settings import ClockConfig, Unsynced
from topology.order.merge.settings import MergeConfig
from topology.order.reorder.settings import OF_IDS, ReorderConfig
from topology.records.mapping import PLACES, DecimalSign, Fields
from topology.records.time_forms import make_time_form
from topology.records.where import TIMESTAMP
from topology.spelling.problem import Fault
from topology.spelling.section import Section, Unspelled, key_of
from topology.spelling.values import Flag, TopicName, one_of, or_nothing, text

_Name = Annotated[
    str,
    text(
        r"[!-~]{1,256}",
        "a header name",
        "use 1 to 256 printable ASCII characters without spaces",
    ),
]


TAKEN_IF_SIGNED: Final = {"source": ("header",), "id": ("payload",)}
"""The places that a signature covers, for each field with fewer of them than the others."""

KeyedBy = Literal["source", "stream"]


class HeaderConfig(Section):
    """The header contract: the names of a preset, and of the signature."""

    preset: Annotated[Preset, one_of(Preset)] = "plain"
    """The names of the headers. Use `fields` for other names."""
    ts_unit: Annotated[TimeUnit, one_of(TimeUnit)] = "ns"
    """The unit of `ts` in headers and in the lines of `replay` and `produce`."""
    sig: _Name | None = None
    """The header of the signature (`sig`), in streams that are `signed`."""

    def names(self) -> HeaderNames:
        """Return the names of the headers, as they appear in records."""
        names = PRESETS[self.preset]
        return names._replace(sig=self.sig or names.sig)

    def contract(self) -> tuple[HeaderNames, str]:
        """Return the header settings that must be equal if two streams share a topic."""
        return self.names(), self.ts_unit

    def faults(self) -> Iterator[Fault]:
        for field, name, taken in find_clashes(self.names()):
            message = f"the header `{name}` already means {taken}"
            yield Fault((field,), message, "give it another name")


class StreamConfig(Section):
    """One stream; every part may be left out."""

    input: TopicName = "events.raw"
    """The topic that producers write to."""
    output: TopicName = "events.ordered"
    """The topic of events in order."""
    keyed_by: Annotated[KeyedBy, one_of(KeyedBy)] = "source"
    """The key of the input's records. Under `stream` each stream is in one partition, and each
    partition is a task."""
    signed: Flag = False
    """Whether each record must carry a signature of its source (`INORDER_MASTER_KEYS_FILE`). Other
    records are dead letters, reason `unsigned` or `forged`. A record without its own time is one
    too (`ts_missing`), because no signature covers its timestamp."""
    headers: Annotated[HeaderConfig, or_nothing(HeaderConfig)] = HeaderConfig.make_default()
    """The names of the record headers, and the unit of `ts`."""
    arrival: Annotated[Arrival, one_of(Arrival)] | None = None
    """The arrival time of a record: the broker's LogAppendTime (`append`), its own timestamp
    (`timestamp`), or the time of reading (`read`). The largest `timestamp` so far counts. By
    default it is `append`; a topic with `fields` must then use LogAppendTime. Under the other two
    `unsynced` is `trust`."""
    fields: Annotated[FieldsConfig | None, or_nothing(FieldsConfig)] = None
    """The places of source, sequence number and time in the records of a topic that others write.
    Streams of one input share them."""
    format: Annotated[Format, one_of(Format)] = "json"
    """The format of record values."""
    value_schema: Annotated[SchemaConfig | None, or_nothing(SchemaConfig)] = Field(
        default=None, validation_alias="schema"
    )
    """The schema of Avro or Protobuf values, and of keys. JSON needs none."""
    key_format: Annotated[KeyFormat, one_of(KeyFormat)] | None = None
    """The format of keys, if `fields` names parts of the key. By default a key is text."""
    ts_unit: Annotated[TimeUnit, one_of(TimeUnit)] | None = None
    """The unit of a numeric `ts` that `fields` names. By default it is ns."""
    ts_zone: ZoneName | None = None
    """The time zone for a `ts` of `fields` that names none. Without it such a record is a dead
    letter. If a time occurs twice, the instant nearer to the arrival counts."""
    ts_format: TimeFormText | None = None
    """The form of a `ts` of `fields` that is neither a number nor ISO 8601. `dotnet` is
    `/Date(…)/`. Times of other forms are dead letters. A pattern of digits alone reads integers,
    too. A missing year comes from the arrival."""
    decimal: Annotated[DecimalSign, one_of(DecimalSign)] | None = None
    """The decimal sign of numbers that are text: of the `ts` of `fields`, and in the payload of a
    CSV file. By default it is a point."""
    reorder: Annotated[ReorderConfig, or_nothing(ReorderConfig)] = ReorderConfig.make_default()
    """The order within each source."""
    clock: Annotated[ClockConfig, or_nothing(ClockConfig)] = ClockConfig.make_default()
    """How clocks are measured, and how far they are trusted."""
    merge: Annotated[MergeConfig, or_nothing(MergeConfig)] = MergeConfig.make_default()
    """The order across the sources of the stream."""
    built_by: Annotated[Mapping[str, Any], Unspelled(), Field(repr=False)] = {}
    """Functions that build operators in place of the default ones, by the operator's name."""

    def faults(self) -> Iterator[Fault]:
        yield from _mapping_faults(self)
        if self.signed and self.arrival == "timestamp":
            message = "`timestamp` is not signed, so every writer to the topic can move the clock"
            yield Fault(("arrival",), message, "write append or read, or signed: false")
        yield from _schema_faults(self)
        if self.unsynced != self.clock.unsynced and "unsynced" in self.clock.model_fields_set:
            message = f"clocks are estimated by true arrivals, but {self.arrival} gives none"
            yield Fault(("clock", "unsynced"), message, "write trust or reject")

    @property
    def has_ids(self) -> bool:
        """Whether records without a sequence number have ids, by which copies are found."""
        return self.fields is not None and self.fields.id is not None

    @property
    def unsynced(self) -> Unsynced:
        """`clock.unsynced`, but `trust` if there are no true arrival times to estimate clocks."""
        has_arrivals = self.arrival not in ("timestamp", "read")
        policy = self.clock.unsynced
        return policy if has_arrivals or policy != "estimate" else "trust"

    def with_schema_from(self, folder: str) -> StreamConfig:
        """Return the stream with the paths of its schema files, if any, relative to `folder`."""
        schema = self.value_schema
        located = None if schema is None else schema.locate(folder)
        if located is schema:
            return self
        return self.model_copy(update={"value_schema": located})

    def with_reader(self, reader: str) -> StreamConfig:
        """Return the stream with the text of its reader's schema in place of the file's path.

        So a stream that is compared with an earlier one has the content of the file.
        """
        assert self.value_schema is not None
        read = self.value_schema.model_copy(update={"reader": reader})
        return self.model_copy(update={"value_schema": read})

    def mapping(self) -> Fields | None:
        """Return the place of each field in records, or None for the header contract."""
        if self.fields is None:
            return None
        return self.fields.places(
            ts_unit=self.ts_unit or "ns",
            ts_zone=self.ts_zone or "",
            ts_format=self.ts_format or "",
            decimal=self.decimal or ".",
        )

    def signed_headers(self) -> HeaderNames:
        """Return the names of the headers that a signature covers."""
        if self.fields is None:
            return self.headers.names()
        preset = self.fields.preset
        names = PRESETS["cloudevents" if preset == "cloudevents" else "plain"]
        places = self.fields.places()
        found = [(field, getattr(places, field)) for field in names._fields[:-1]]
        named = {name: where.path[0] for name, where in found if where and where.place == "header"}
        return names._replace(**named, sig=self.headers.sig or names.sig)

    def reading(self) -> tuple[object, ...]:
        """Return the reading settings that must be equal if two streams share an input topic."""
        return self.mapping(), self.format, self.key_format, self.value_schema, self.arrival


def _mapping_faults(stream: StreamConfig) -> Iterator[Fault]:
    """Yield a fault for each setting of a stream that does not fit its field mapping."""
    fields = stream.fields
    for name in OF_IDS if not stream.has_ids else ():
        if name in stream.reorder.model_fields_set:
            message = "has no effect, because `fields` names no id"
            yield Fault(("reorder", key_of(name)), message, "write id: payload.NAME in `fields`")
    if fields is None:
        for key in ("ts_unit", "ts_zone", "ts_format", "decimal", "key_format"):
            if getattr(stream, key) is not None:
                remedy = "add `fields`; for the header contract write headers: {ts_unit: ms}"
                yield Fault((key,), "is for a mapping, but there is no `fields`", remedy)
        return
    if stream.headers.model_fields_set - {"sig"}:
        message = "names places of fields, and `fields` does too"
        yield Fault(("headers",), message, "leave `headers` out; write header.NAME in `fields`")
    places = fields.places()
    yield from _form_faults(stream, fields)
    if stream.signed:
        yield from _unsigned_place_faults(stream, places)
    if places.seq is None and stream.reorder.numbered:
        remedy = "write seq: payload.NAME, or reorder: {rule: time} if sources have no numbers"
        yield Fault(("fields", "seq"), "is missing", remedy)
    if places.id is not None and stream.reorder.numbered and not stream.reorder.is_mixed:
        message = "is for records without sequence numbers, by which copies are found already"
        yield Fault(("fields", "id"), message, "leave it out, or write reorder: {rule: time}")
    for name in PLACES:
        where = getattr(places, name)
        if where is not None and where.place == "key" and where.path and stream.key_format is None:
            message = f"`{where}` is a field of the key, whose format is missing"
            yield Fault(("fields", name), message, "write key_format: json beside `fields`")


def _form_faults(stream: StreamConfig, fields: FieldsConfig) -> Iterator[Fault]:
    """Yield a fault for each setting that does not fit the form of times."""
    if stream.ts_format is None:
        return
    if fields.ts is None:
        message = "is for a `ts` that is named, but none is"
        yield Fault(("ts_format",), message, "write ts: payload.NAME in `fields`")
        return
    if fields.ts == str(TIMESTAMP):
        message = "has no effect on the record's own timestamp"
        yield Fault(("ts_format",), message, "leave it out")
        return
    if stream.ts_unit is not None:
        message = "is for numbers, but `ts_format` gives times another form"
        yield Fault(("ts_unit",), message, "leave it out")
    if stream.ts_zone is None and not make_time_form(stream.ts_format).has_zone:
        message = f"is missing, but times in the form `{stream.ts_format}` have no zone"
        yield Fault(("ts_zone",), message, "write ts_zone: Europe/Berlin")


def _unsigned_place_faults(stream: StreamConfig, places: Fields) -> Iterator[Fault]:
    """Yield a fault for each place that a signature does not cover: neither header nor value."""
    named = {"sig"}
    for name in PLACES:
        where = getattr(places, name)
        if where is not None and where.place == "header":
            named.add(name)
        taken = TAKEN_IF_SIGNED.get(name, ("header", "payload", "text"))
        if name == "ts" and (places.ts_optional or where == TIMESTAMP):
            message = "a record's own timestamp is not signed"
            yield Fault(("fields", name), message, "write ts: header.NAME or ts: payload.PATH")
        elif where is not None and where.place not in taken:
            message = f"`{where}` is not signed"
            place = "payload.PATH" if name == "id" else "header.NAME"
            yield Fault(("fields", name), message, f"write {place}, or signed: false")
    for field, name, taken_by in find_clashes(stream.signed_headers()):
        if field not in named:
            # The name of this header is a default, so the name of the other must be changed.
            field, taken_by = taken_by.strip("`"), f"`{field}`"
        message = f"the header `{name}` already means {taken_by}"
        yield Fault(("fields" if field != "sig" else "headers", field), message, "name another")


def _schema_faults(stream: StreamConfig) -> Iterator[Fault]:
    """Yield a fault for each setting of a stream that does not fit its schema."""
    schema, formats = stream.value_schema, {stream.format, stream.key_format}
    is_needed = bool(formats & OF_A_SCHEMA)
    if stream.fields is None:
        if schema is not None or stream.format != "json":
            key = "schema" if schema is not None else "format"
            remedy = "add `fields`; under the header contract values are not read"
            yield Fault((key,), "is for a mapping, but there is no `fields`", remedy)
    elif schema is not None:
        if (schema.registry is None) == (schema.file is None):
            remedy = "write either registry: URL or file: PATH"
            yield Fault(("schema",), "must name one place", remedy)
        elif schema.file is not None:
            yield from _file_faults(stream, schema)
        elif is_needed and not schema.subjects:
            message = "is missing: a sender could name any schema"
            remedy = f"write subjects: [{stream.input}-value], or its name in the registry"
            yield Fault(("schema", "subjects"), message, remedy)
        if schema.reader is not None and stream.format != "avro":
            message = f"is for Avro values, but they are {stream.format}"
            yield Fault(("schema", "reader"), message, "leave it out")
        if "bytes" in formats and not is_needed:
            yield Fault(("schema",), "has no effect on bytes", "leave it out")
    elif is_needed:
        subject = f"[{stream.input or 'TOPIC'}-value]"
        remedy = f"write schema: {{registry: http://HOST:8081, subjects: {subject}}}, or a file"
        yield Fault(("schema",), f"is missing, but values are {stream.format}", remedy)


def _file_faults(stream: StreamConfig, schema: SchemaConfig) -> Iterator[Fault]:
    if stream.format == "json":
        yield Fault(("schema", "file"), "has no effect on JSON", "leave it out")
    if stream.key_format in OF_A_SCHEMA:
        remedy = "write key_format: json or int64, or a registry"
        yield Fault(("key_format",), "needs a registry: the file is for values only", remedy)
    if stream.format == "protobuf" and schema.message is None:
        yield Fault(("schema", "message"), "is missing", "write the message, like plant.Telemetry")
    if stream.format == "avro" and schema.message is not None:
        yield Fault(("schema", "message"), "is for Protobuf only", "leave it out")
