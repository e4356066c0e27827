"""What both codecs are to their callers: the shapes that pass between Kafka and the operators.

A codec has four names: `memory_records` for the fetcher, `EventReader` for inlets, `EventWriter`
for outlets, and `new_batch` for the outbox.

`memory_records` gives batches with the face of aiokafka's, and `stretches`: lists of records and of
`Unreadable`, in the order of the log. Whatever a sender wrote, their offsets rise strictly and lie
within the batch's own, so that a position is never beyond the batch. A record has its place there:
the i-th of n lies at or behind the one before it plus one, with room for those behind it; else it
is unreadable, at the place behind the one before it. A batch whose records cannot be made out is
unreadable from there to its end. An exception is raised for what only a broker writes: a checksum,
a batch's length and its first offset.

The general path of a reader or a writer is a function
that its owner gives, and is the definition; a codec may take a shorter way to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

from inorder.contract import STAMPED_NAMES, HeaderNames
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.reasons import fault_of

Record = Any
"""As aiokafka decodes it: offset, timestamp (ms) and its type, key, value, and headers, a
sequence of (str, bytes) pairs."""

MAX_HEADERS: Final = 1_000
"""A record of an input topic has no more. One that does is dead."""

MAX_HEADERS_READ: Final = MAX_HEADERS + len(STAMPED_NAMES) + 2
"""Any record: a stage adds its stamps, and a number and an epoch where there are none."""

MAX_BATCH_RECORDS: Final = 1_000_000
"""In one record batch, which is librdkafka's own bound. A batch with more is dead."""

STRETCH: Final = 4_096
"""Records of a batch that are decoded at one go."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """It takes the place of records that cannot be read: those from `first` to `offset`, which
    lie in one batch. To a client it looks like one record, at `offset`, with nothing in it."""

    first: int
    offset: int
    timestamp: int
    timestamp_type: int
    detail: str
    key: ClassVar[None] = None
    value: ClassVar[None] = None
    headers: ClassVar[tuple[()]] = ()
    checksum: ClassVar[None] = None

    def dead(self, arrival_ns: int) -> Malformed:
        many = self.first != self.offset
        place = f"offsets {self.first} to {self.offset}" if many else f"offset {self.offset}"
        fault = fault_of("record", "unreadable", place, told=self.detail)
        return Malformed(arrival_ns, self.first, *fault, record=self)


# What is wrong with a record; both codecs name it so.
NO_RECORD: Final = "the bytes are no record"
NUMBERS: Final = "the record ends amid its numbers"
OFFSET: Final = "the record claims another offset"
TIMESTAMP: Final = "the record's time does not fit into 64 bits"
PART: Final = "the length of the record's key or value is none"
HEADERS: Final = f"the record's number of headers is none, or above {MAX_HEADERS_READ}"
NAME: Final = "the name of one of the record's headers is missing, or no UTF-8"
HEADER: Final = "the length of one of the record's headers is none"
LENGTH: Final = "the record has another length than it claims"
BEHIND: Final = "bytes are left behind the last record of the batch"
COUNT: Final = (
    f"the batch's number of records does not fit its offsets, or is above {MAX_BATCH_RECORDS}"
)

Batch = Any
"""A record batch on its way out: aiokafka's `BatchBuilder`, or what looks like one."""

Target = tuple[str, int]
Topic = Literal["raw", "sequenced", "ordered"]

RAW: Final = "raw"
SEQUENCED: Final = "sequenced"
ORDERED: Final = "ordered"


class MappedValues(NamedTuple):
    """What a short way through records of others needs: `pick` gives the `fields` of a value, in
    their order, as a msgspec structure or a sequence; it may raise anything, and the general path
    then says why. `ts_is_record`: the record's own timestamp is the time. `source_is_key`: the key
    is the source. `stream`: of all of them."""

    pick: Callable[[bytes], Any]
    is_struct: bool
    fields: tuple[str, ...]
    ts_is_record: bool
    source_is_key: bool
    stream: str


@dataclass(frozen=True, slots=True)
class Form:
    """What the records of a topic look like.

    `by_time` are the streams whose number is the offset. A raw record above `max_record_bytes`
    and a sequenced one of an upstream partition from `upstream_partitions` on is for the general
    path to judge.
    """

    topic: Topic
    names: HeaderNames
    unit_ns: int = 1
    by_time: frozenset[str] = frozenset()
    max_record_bytes: int = 0
    upstream_partitions: int = 0
    mapped: MappedValues | None = None
    """Records of others, on a raw topic; `unit_ns` is that of their times."""


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
        """Read the records in their order: plain events go into `events`, and what the
        general path made of the others to `aside`, which puts its events there too."""


class EventWriter(Protocol):
    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None:
        """The events' records, in their order."""


General = Callable[[Record, int], Event | Malformed]
"""A record, and its arrival in ns (0 where the topic's own headers have it)."""

GeneralPut = Callable[[Event, Any], None]
Targets = Mapping[str, Target]
