"""Convert records of input topics to lines of `inorder replay`, with their arrival times.

A payload is JSON if the value is, and otherwise `{"base64": …}`. A replay treats the latter like
the bytes, because payloads are only compared.

A record that a stage would refuse becomes a line that a replay refuses, at the same position among
the lines of its source. The `type` of this line is invalid: an object with the reason. `ts` is in
the unit of the header, as a replay with the same topology reads it. A time that is not a whole
number of units is written as RFC 3339.

The readers of `agents` are imported on first use, because they need a Kafka client.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import orjson

from agents.stage.arrival import ArrivalClock
from inorder import rfc3339
from inorder.contract import UNIT_NS
from topology.base.encoded import Encoded
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.base.payload import UNREADABLE, read_payload
from topology.base.sample import Declared
from topology.config import Topology
from topology.records.json_lines import JsonObject

if TYPE_CHECKING:
    from agents.stage.inlet import Inlet


class TopicLines:
    """A converter of the records of some input topics.

    Args:
        topology: The topology that reads the topics.
        topics: The input topics.
        masters: The master keys of signed streams.

    Raises:
        ArrangementError: The master keys are missing.
    """

    def __init__(
        self, topology: Topology, topics: Iterable[str], masters: tuple[bytes, ...]
    ) -> None:
        from agents.registry.feed import SchemaFeed

        self._clock_topic = topology.topics.clock
        self._topology = topology
        self._masters = masters
        self._inlets: dict[tuple[str, int], Inlet] = {}
        self._units_ns = {topic: UNIT_NS[topology.headers_of(topic).ts_unit] for topic in topics}
        for topic in self._units_ns:
            self._inlet_for(topic, 0)
        self._schemas = SchemaFeed()
        streams = topology.streams.values()
        self._activation_ns = min(stream.clock.activation_ns for stream in streams)

    async def await_schemas(self, records: Iterable[Any]) -> None:
        """Wait until the registry has sent the schemas of these records; call it before `line`.

        Raises:
            RegistryRefuses: The registry refuses to send a schema.
        """
        for record in records:
            if record.topic != self._clock_topic:
                inlet = self._inlet_for(record.topic, record.partition)
                await self._schemas.resolve_records(inlet.registered, [record])

    def line(self, record: Any, clock: ArrivalClock) -> JsonObject | None:
        """Return the line of a record, or None if a clock record contains no measurement.

        `clock` is the arrival clock of the record's partition.
        """
        if record.topic == self._clock_topic:
            return clock_line(self._activation_ns, record, clock)
        inlet = self._inlet_for(record.topic, record.partition)
        return record_line(inlet, self._units_ns[record.topic], record, clock)

    def _inlet_for(self, topic: str, partition: int) -> Inlet:
        found = self._inlets.get((topic, partition))
        if found is None:
            from agents.stage.arrangement import make_input_inlet

            found = make_input_inlet(self._topology, topic, self._masters, partition)
            self._inlets[topic, partition] = found
        return found


def clock_line(activation_ns: int, record: Any, clock: ArrivalClock) -> JsonObject | None:
    from agents.stage.clock_feed import read_clock_record

    word = read_clock_record(record, clock)
    if isinstance(word, str):
        return None  # A worker also skips a record without a measurement of a clock.
    if isinstance(word, Declared):
        word.arrival_ns += activation_ns  # A worker delays a declared offset by the same time.
    return {**orjson.loads(record.value), "clock": word.source, "arrival": word.arrival_ns}


def record_line(inlet: Inlet, unit_ns: int, record: Any, clock: ArrivalClock) -> JsonObject:
    read = inlet.read([record], clock)
    if read.dead:
        return _dead_line(read.dead[0], clock.now_ns)
    line = _event_line(read.events[0], unit_ns)
    id_ = inlet.id_in(record)
    return line if id_ is None else line | {"id": id_}


def _event_line(event: Event, unit_ns: int) -> JsonObject:
    amount, below_ns = divmod(event.ts_ns, unit_ns)
    line: JsonObject = {
        "source": event.source,
        "seq": event.seq if event.seq >= 0 else None,
        "ts": rfc3339.format_ns(event.ts_ns) if below_ns else amount,
        "arrival": event.arrival_ns,
        "stream": event.stream,
        "epoch": None if event.epoch == NO_EPOCH else event.epoch,
        "type": event.type,
        "payload": decode_payload(event.value),
        "offset": event.offset,
    }
    if event.kind != DATA:
        line["kind"] = event.kind
    return line


def _dead_line(dead: Malformed, arrival_ns: int) -> JsonObject:
    return {
        "source": dead.source,
        "seq": dead.seq,
        "arrival": arrival_ns,
        "stream": dead.stream,
        "epoch": dead.epoch if dead.epoch is not None and dead.epoch >= 0 else None,
        "type": {"dead": dead.reason, "detail": dead.detail},
        "offset": dead.offset,
    }


def decode_payload(value: bytes | None) -> Any:
    """Return the payload that a line has for a record's value."""
    if value is None:
        return None
    if isinstance(value, Encoded) and (found := read_payload(value)) is not UNREADABLE:
        return found
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return {"base64": base64.b64encode(value).decode()}
