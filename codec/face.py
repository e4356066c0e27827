"""What both codecs are to their callers: the shapes that pass between Kafka and the operators.

A codec has four names: `memory_records` for the fetcher, `EventReader` for inlets, `EventWriter`
for outlets, and `new_batch` for the outbox. The general path of a reader or a writer is a function
that its owner gives, and is the definition; a codec may take a shorter way to the same.

Proved by: tests/codec/test_events.py, tests/codec/test_writing.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from inorder.contract import HeaderNames
from topology.model.event import Event
from topology.model.outcome import Malformed

Record = Any
"""As aiokafka decodes it: offset, timestamp (ms) and its type, key, value, and headers, a
sequence of (str, bytes) pairs."""

Batch = Any
"""A record batch on its way out: aiokafka's `BatchBuilder`, or what looks like one."""

Target = tuple[str, int]
Topic = Literal["raw", "sequenced", "ordered"]

RAW: Final = "raw"
SEQUENCED: Final = "sequenced"
ORDERED: Final = "ordered"


@dataclass(frozen=True, slots=True)
class Form:
    """What the records of a topic look like.

    `by_time` are the streams whose number is the offset. A raw record above `max_record_bytes`
    and a sequenced one of a lane from `lanes` on is for the general path to judge.
    """

    topic: Topic
    names: HeaderNames
    unit_ns: int = 1
    by_time: frozenset[str] = frozenset()
    max_record_bytes: int = 0
    lanes: int = 0


class Clock(Protocol):
    """The clock of arrival, as `agents.stage.arrival` has it."""

    def arrive(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, records: int = 1
    ) -> int: ...


class Outbox(Protocol):
    """As `agents.stage.outbox` has it."""

    def batch(self, target: Target) -> Batch:
        """The open one, or a new one."""

    def next_batch(self, target: Target) -> Batch:
        """A new one, behind the one that is full."""

    def count(self, records: int, payload_bytes: int) -> None:
        """What was put into the batches past `add`."""


class EventReader(Protocol):
    def read(
        self,
        records: Sequence[Record],
        clock: Clock,
        read_at_ns: int,
        events: list[Event],
        aside: Callable[[Event | Malformed], None],
    ) -> None:
        """What the records say, in their order: plain events go into `events`, and what the
        general path made of the others to `aside`, which puts its events there too."""


class EventWriter(Protocol):
    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None:
        """The events' records, in their order."""


General = Callable[[Record, int], Event | Malformed]
"""A record, and its arrival in ns (0 where the topic's own headers say it)."""

GeneralPut = Callable[[Event, Any], None]
Targets = Mapping[str, Target]
