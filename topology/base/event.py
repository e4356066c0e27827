"""Defines the event that passes through the operators.

`Event` is a slotted class with an explicit initializer rather than a dataclass. One is built for
every record, and this form is the fastest of those tried, interpreted and compiled alike.

All times are `int` nanoseconds since the Unix epoch:

* `ts_ns` is the reported timestamp, by the source's own clock. If `is_stamped` is False, the event
  has none, and `ts_ns` is the record's timestamp or the arrival time. A duplicate then has a later
  `ts_ns` than the first event.
* `arrival_ns` is when the event reached the broker. It never changes.
* `at_ns` is when the event reached the current operator. At first that is the arrival time, then
  the time at which the previous operator emitted it.
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
from topology.base.native import mypyc_attr

BLOCKED: Final = "blocked"
"""From REORDER: events of this source are buffered there because of a gap."""

UNBLOCKED: Final = "unblocked"
"""From REORDER: events of this source are no longer buffered there.

It is sent only if no event that REORDER emits carries the same information.
"""

PROGRESS: Final = "progress"
"""From a stage: its partition will send no event with an `at_ns` before this one."""

WATERMARK: Final = "watermark"
"""From MERGE: `ref_time_ns` is the watermark, and `complete_ns` the completeness frontier.

`error_ns` is the largest error of live sources, and `error_all_ns` that of all sources that may
still send.
"""

PASSED: Final = "passed"
"""The kind of a mark among accepted events: MERGE has emitted all events up to this time."""

REJECTED: Final = "rejected"
"""The kind of a mark among accepted events: MERGE does not emit this event."""

DEAD: Final = "dead"
"""A dead letter that takes its place in its source's sequence.

So no operator waits for its sequence number or declares it missing.
"""

LARGE: Final = 1 << 62
NO_EPOCH: Final = -1
"""The value of `Event.epoch` for a record without an epoch, until REORDER assigns one."""


@mypyc_attr(acyclic=True)
class Event:
    """An event of a source. Each operator sets the fields that it computes.

    `offset` is the position of the event in its input, a Kafka offset or a line number. `record` is
    the driver's own object for the input record. Operators use neither. `value` is the payload;
    operators compare it only to distinguish a duplicate from a conflict.

    `digest` is the checksum of type and payload (`order.reorder.recent.digest_of`), or 0 if it
    is not computed. The codec computes it while it reads. Code that changes the content of an event
    before REORDER sets it to 0. The event of a record with an id instead of a number has the digest
    of that id.

    `lane` is the upstream partition from which the event came. `late` is the reason why the event
    is out of order, or "" if it is in order.
    """

    __slots__ = (
        "arrival_ns",
        "at_ns",
        "complete_ns",
        "digest",
        "epoch",
        "error_all_ns",
        "error_ns",
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
        self.is_stamped = True
        self.lane = 0
        self.complete_ns = 0
        self.error_all_ns = 0
        self.digest = 0

    def __repr__(self) -> str:
        kind = f" {self.kind}" if self.kind else ""
        late = f" late={self.late}" if self.late else ""
        return (
            f"<Event {self.stream}/{self.source}/{self.epoch:d}/{self.seq:d}{kind}"
            f" ts={self.ts_ns} at={self.at_ns} ref={self.ref_time_ns}{late}>"
        )


def copy_event(event: Event) -> Event:
    """Return a copy of the event with all its current values."""
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
    other.is_stamped = event.is_stamped
    other.lane = event.lane
    other.complete_ns = event.complete_ns
    other.error_all_ns = event.error_all_ns
    other.digest = event.digest
    return other


def digits(number: int) -> bytes:
    """Return the decimal digits of an integer of up to 64 bits, such as an epoch.

    For integers from 2^62 on it avoids `%d`, `str` and plain f-strings. Code compiled by mypyc 2.4
    leaks their argument.
    """
    return b"%d" % number if -LARGE < number < LARGE else f"{number:d}".encode()


at_ns: Final = attrgetter("at_ns")
"""A function that returns the instant of an event, report or result; used as a sort key."""
offset_of: Final = attrgetter("offset")
