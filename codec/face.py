"""The interface of both codecs: the types that pass between Kafka and the operators.

A codec has four names: `memory_records` for the fetcher, `EventReader` for inlets, `EventWriter`
for outlets, and `new_batch` for the outbox.

`memory_records` gives batches with aiokafka's interface and with `stretches`: lists of records and
of `Unreadable`, in the order of the log. Their offsets rise strictly and stay within the batch's
range, so a reader's position is never after the batch. Enough offsets remain for the later records
of the batch. A record with an offset outside these bounds is unreadable, at the next free offset.
If a batch's records cannot be separated, it is unreadable from there to its end. Only errors in
fields that brokers write raise an exception: the checksum, the length and the first offset of a
batch.

The general path is a function that is passed to a reader or a writer, and defines the result. A
codec may use a shorter path with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

from inorder.contract import STAMPED_NAMES, HeaderNames
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.records.reasons import fault_of

Record = Any
"""A record as aiokafka decodes it.

Its fields are offset, timestamp (ms) and its type, key, value, and headers, a sequence of (str,
bytes) pairs.
"""

MAX_HEADERS: Final = 1_000
"""Maximum number of headers of a record in an input topic; a record with more is a dead letter."""

MAX_HEADERS_READ: Final = MAX_HEADERS + len(STAMPED_NAMES) + 2
"""The maximum number of headers of any record, including those that a stage adds."""

MAX_BATCH_RECORDS: Final = 1_000_000
"""Maximum number of records of a batch, as in librdkafka; a larger batch becomes dead letters."""

STRETCH: Final = 4_096
"""The maximum number of records that are decoded at once."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The unreadable records of one batch, from offset `first` to `offset`.

    An object has the attributes of one empty record at `offset`.
    """

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
        fault = fault_of("record", "unreadable", place, shown=self.detail)
        return Malformed(arrival_ns, self.first, *fault, record=self)


# The faults of a record, for which both codecs use the same words.
NO_RECORD: Final = "the bytes are not a record"
NUMBERS: Final = "the record ends before its timestamp and offset are complete"
OFFSET: Final = "the record states an offset that it cannot have"
TIMESTAMP: Final = "the record's time does not fit into 64 bits"
PART: Final = "the length of the record's key or value is invalid"
HEADERS: Final = f"the record's number of headers is invalid, or above {MAX_HEADERS_READ}"
NAME: Final = "the name of one of the record's headers is missing, or not UTF-8"
HEADER: Final = "the length of one of the record's headers is invalid"
LENGTH: Final = "the record's length differs from the length that it states"
BEHIND: Final = "bytes are left after the last record of the batch"
COUNT: Final = (
    f"the batch's number of records does not fit its offsets, or is above {MAX_BATCH_RECORDS}"
)

Batch = Any
"""A record batch to write: aiokafka's `BatchBuilder`, or an object with its interface."""

Target = tuple[str, int]
Topic = Literal["raw", "sequenced", "ordered"]

RAW: Final = "raw"
SEQUENCED: Final = "sequenced"
ORDERED: Final = "ordered"


class MappedValues(NamedTuple):
    """The data that a codec's short path for foreign records needs.

    Attributes:
        pick: Returns the `fields` of a value in their order, as a msgspec structure or a sequence.
            If it raises any error, the general path finds the reason.
        ts_is_record: Whether the record's own timestamp is the time.
        source_is_key: Whether the key is the source.
        stream: The stream of all records.
        keys: The names of the `fields` on the first level of a JSON value, in their order; empty if
            values have another form.
    """

    pick: Callable[[bytes], Any]
    is_struct: bool
    fields: tuple[str, ...]
    ts_is_record: bool
    source_is_key: bool
    stream: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the records of a topic.

    `by_time` are the streams whose events have the record's offset as their sequence number. The
    general path reads raw records above `max_record_bytes`, and sequenced records with an upstream
    partition of `upstream_partitions` or higher.
    """

    topic: Topic
    names: HeaderNames
    unit_ns: int = 1
    by_time: frozenset[str] = frozenset()
    max_record_bytes: int = 0
    upstream_partitions: int = 0
    mapped: MappedValues | None = None
    """Mapping of foreign records, on a raw topic; `unit_ns` is the unit of their times."""


class Clock(Protocol):
    """The clock of arrival times, which `agents.stage.arrival` implements."""

    def arrive(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, records: int = 1
    ) -> int: ...


class Outbox(Protocol):
    """The outbox, which `agents.stage.outbox` implements."""

    def batch(self, target: Target) -> Batch:
        """Return the open batch of the target, or a new one."""

    def next_batch(self, target: Target) -> Batch:
        """Return a new batch for the target, whose open batch is full."""

    def count(self, records: int, payload_bytes: int) -> None:
        """Count records that were put into the batches without `add`."""


class EventReader(Protocol):
    def read(
        self,
        records: Sequence[Record],
        clock: Clock,
        read_at_ns: int,
        events: list[Event],
        aside: Callable[[Event | Malformed], None],
    ) -> None:
        """Read the records in order, and append plain events to `events`.

        `aside` is called with the general path's result for each other record, and appends the
        result itself if that is an event.
        """


class EventWriter(Protocol):
    def put_all(self, events: Sequence[Event], outbox: Outbox) -> None:
        """Write one record per event into the outbox, in order."""


General = Callable[[Record, int], Event | Malformed]
"""The general path; takes a record and its arrival time in ns (0 if a header has it)."""

GeneralPut = Callable[[Event, Any], None]
Targets = Mapping[str, Target]
