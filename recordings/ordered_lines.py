"""Convert records of an ordered topic to the lines that `inorder replay` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agents.stage.arrival import ArrivalClock
from recordings.topic_lines import decode_payload
from topology.base.event import DATA
from topology.config import Topology
from topology.records.json_lines import JsonObject, make_event_line


class NoOrderedRecord(ValueError):
    """The error of a record that no stage wrote; the message names its topic and offset."""


class OrderedLines:
    """A converter of one ordered topic's records to lines.

    A conversion costs a pass over the headers, and parses the payload.
    """

    def __init__(self, topology: Topology, topic: str) -> None:
        from agents.registry.feed import SchemaFeed
        from agents.stage.arrangement import make_ordered_inlet

        self._topic = topic
        self._inlet = make_ordered_inlet(topology, topic)
        self._schemas = SchemaFeed()

    async def lines(self, records: Sequence[Any]) -> Iterator[tuple[int, JsonObject]]:
        """Return the offset and the line of each event; watermarks are left out.

        Raises:
            NoOrderedRecord: No stage wrote the record.
            RegistryRefuses: The registry does not give a schema.
        """
        await self._schemas.resolve_records(self._inlet.registered, records)
        read = self._inlet.read(records, ArrivalClock(0))
        for dead in read.dead:
            raise NoOrderedRecord(
                f"{self._topic}, offset {dead.offset}: {dead.reason}, {dead.detail}; only workers"
                " may write there. The job `events` puts such records into its table `bad`"
            )
        return self._lines(read.events)

    def _lines(self, events: Sequence[Any]) -> Iterator[tuple[int, JsonObject]]:
        for event in events:
            if event.kind == DATA:
                event.value = decode_payload(event.value)
                yield event.offset, make_event_line(event)
