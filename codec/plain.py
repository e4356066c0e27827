"""The codec in Python: `codec.batches`, and the general path for every record.

`codec.native` must give the same results as this module (`tests/codec`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiokafka.producer.message_accumulator import BatchBuilder

from codec.batches import Batches
from codec.compression import BY_NAME
from codec.face import RAW, Clock, Form, General, GeneralPut, Outbox, Record, Targets, Unreadable
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.base.payload import MakeScan

__all__ = ["EventReader", "EventWriter", "make_scan", "memory_records", "new_batch"]

memory_records: Callable[[bytes], Any] = Batches
make_scan: MakeScan | None = None
"""Nothing: without the native codec, payloads are decoded whole (`topology.base.payload`)."""


class EventReader:
    """The plain implementation of `codec.face.EventReader`."""

    def __init__(self, form: Form, general: General) -> None:
        self._is_raw = form.topic == RAW
        self._general = general

    def read(
        self,
        records: Sequence[Record],
        clock: Clock,
        read_at_ns: int,
        events: list[Event],
        aside: Callable[[Event | Malformed], None],
    ) -> None:
        general = self._general
        arrival_ns = 0
        for record in records:
            if self._is_raw:
                arrival_ns = clock.arrive(record.timestamp, record.timestamp_type, read_at_ns)
            if isinstance(record, Unreadable):
                aside(record.dead(arrival_ns))
                continue
            item = general(record, arrival_ns)
            if isinstance(item, Event):
                events.append(item)
            else:
                aside(item)


class EventWriter:
    """The plain implementation of `codec.face.EventWriter`."""

    def __init__(
        self, form: Form, targets: Targets, general: GeneralPut, partition: int = 0
    ) -> None:
        self._general = general

    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None:
        put = self._general
        for event in events:
            put(event, outbox)


def new_batch(limit: int, compression: str | None, *, is_transactional: bool) -> Any:
    """Return aiokafka's builder of a batch of `limit` bytes, before compression."""
    number = 0 if compression is None else BY_NAME[compression]
    return BatchBuilder(limit, number, is_transactional=is_transactional)
