"""Defines the event that passes through the operators.

`Event` is a slotted class with a written-out initialiser and not a dataclass. It is built once for
every record, and this form is the fastest of those tried, interpreted and compiled alike.

All times are `int` nanoseconds since the Unix epoch:

* `ts_ns` is by the source's own clock. Without `is_stamped`, the event had no timestamp. It
  then has that of the record or the arrival, which is newer for a duplicate.
* `arrival_ns` is when the event reached the broker. It never changes.
* `at_ns` is when the event reached the operator that looks at it. At first that is the arrival,
  then the instant at which the operator before emitted it.
* `ref_time_ns` is `ts_ns` corrected by the offset of the source's clock. The event time is in
  [ref_time_ns - error_ns, ref_time_ns + error_ns].
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

# The kinds that producers write are defined in the contract.
from inorder.contract import BYE as BYE
from inorder.contract import DATA as DATA
from inorder.contract import HEARTBEAT as HEARTBEAT

BLOCKED: Final = "blocked"
"""From REORDER: events of this source are buffered there after a gap."""

UNBLOCKED: Final = "unblocked"
"""From REORDER: no event of this source is buffered there any more.

It is sent only if no event that REORDER emits carries the same information.
"""

PROGRESS: Final = "progress"
"""From a stage: its partition will send nothing with a time before `at_ns`."""

WATERMARK: Final = "watermark"
"""From MERGE: `ref_time_ns` is the watermark W, and `complete_ns` the completeness frontier C.

`error_ns` is the largest error of live sources, and `error_all_ns` that of all sources that may
still send.
"""

PASSED: Final = "passed"
"""A mark among the events that MERGE accepts: MERGE has emitted, in order, up to this time."""

REJECTED: Final = "rejected"
"""A mark among the events that MERGE accepts: MERGE does not emit this event."""

DEAD: Final = "dead"
"""A dead letter that keeps its place in the sequence.

So no operator waits for its number or declares it lost.
"""

LARGE: Final = 1 << 62
NO_EPOCH: Final = -1
"""The value of `Event.epoch` for a record without an epoch, until REORDER assigns one."""


class Event:
    """An event of a source; each operator adds the fields that it computes.

    `offset` is the place of the event in its input (Kafka offset or line number). `record` is the
    driver's own record of it. Operators use neither. `value` is the payload; operators compare it
    only to distinguish a duplicate from a conflict.

    `held_by` is the set of operators that hold the event at the moment. Each has a bit (its place,
    topology.flow.registry), and 0 means that none holds it. An operator changes only its own bit.
    It may change all bits if no operator before it can hold the event (alignment, REORDER).

    `lane` is the upstream partition from which the event came. `late` is the reason why the event
    is outside the order, or "" if it is inside.
    """

    __slots__ = (
        "arrival_ns",
        "at_ns",
        "complete_ns",
        "epoch",
        "error_all_ns",
        "error_ns",
        "held_by",
        "is_stamped",
        "kind",
        "lane",
        "late",
        "offset",
        "record",
        "ref_time_ns",
        "segment",
        "seq",
        "source",
        "stream",
        "ts_ns",
        "type",
        "value",
    )

    def __init__(
        self,
        stream: str,
        source: str,
        epoch: int,
        seq: int,
        ts_ns: int,
        arrival_ns: int,
        offset: int = 0,
        record: Any = None,
        value: Any = None,
        type: str = "",
        kind: str = DATA,
    ) -> None:
        self.stream = stream
        self.source = source
        self.epoch = epoch
        self.seq = seq
        self.ts_ns = ts_ns
        self.arrival_ns = arrival_ns
        self.at_ns = arrival_ns
        self.offset = offset
        self.record = record
        self.value = value
        self.type = type
        self.kind = kind
        self.ref_time_ns = ts_ns
        self.error_ns = 0
        self.segment = 0
        self.late = ""
        self.held_by = 0
        self.is_stamped = True
        self.lane = 0
        self.complete_ns = 0
        self.error_all_ns = 0

    def __repr__(self) -> str:
        kind = f" {self.kind}" if self.kind else ""
        late = f" late={self.late}" if self.late else ""
        return (
            f"<Event {self.stream}/{self.source}/{self.epoch:d}/{self.seq:d}{kind}"
            f" ts={self.ts_ns} at={self.at_ns} ref={self.ref_time_ns}{late}>"
        )


def twin(event: Event) -> Event:
    """Return a copy of the event with its current values."""
    other = Event(
        event.stream,
        event.source,
        event.epoch,
        event.seq,
        event.ts_ns,
        event.arrival_ns,
        event.offset,
        event.record,
        event.value,
        event.type,
        event.kind,
    )
    other.at_ns = event.at_ns
    other.ref_time_ns = event.ref_time_ns
    other.error_ns = event.error_ns
    other.segment = event.segment
    other.late = event.late
    other.held_by = event.held_by
    other.is_stamped = event.is_stamped
    other.lane = event.lane
    other.complete_ns = event.complete_ns
    other.error_all_ns = event.error_all_ns
    return other


def digits(number: int) -> bytes:
    """Return the decimal digits of a number, such as an epoch, of up to 64 bits.

    For numbers from 2^62 on, code compiled by mypyc 2.4 leaks the argument of `%d`, `str` and
    f-strings.
    """
    return b"%d" % number if -LARGE < number < LARGE else f"{number:d}".encode()


at_ns: Final = attrgetter("at_ns")
"""Returns the instant of an event, a report or a result; used as a sort key."""
offset_of: Final = attrgetter("offset")
