"""Gives a task the state in which a backfill ended as its first state.

A backfill leaves the operators' snapshots, their buffered events, and the events of its last
instant (the latest arrival time), which it has not processed. For the streams of one task, these
together make a state like the one in a changelog. So the task restores it like any other, and
writes it in its first checkpoint. One transaction has the outputs of the events of the last
instant, the state, and the offsets of all lanes. A worker that is killed before this transaction
begins with the history again. One that is killed later finds a state that names its history.

If the chain is divided into stages, the tasks of every stage begin in this way. Each has its
share of the backfill operators' state (`topology.stage.share`). The last instant belongs to the
first stage. A topic between stages begins with the events that the first stage then emits. Its
upstream partitions have emitted everything before that instant. The history contains all older
events, so a topic that has older events is refused.

The events of a history have no offset in the log. Those of each lane are numbered from -1
downwards, in their order (`topology.stage.lanes`). So all of them precede the log, and none is ever
looked up there. The state contains buffered events completely, as records that are made from the
fields of a line. Their headers are those of the contract, as in the topic that the task reads, and
the payload is JSON. A history keeps no other headers. A payload that is not JSON is kept as
`{"base64": …}`, which is decoded to the bytes again. A producer's own payload of this form is also
decoded if its bytes are not JSON, because both look the same in a line.

Cost: one transaction of the whole state, within the bound of every commit
(`agents.stage.delivery`).
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import orjson
from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.kafka.stage_topics import ORDERED, RAW, SEQUENCED
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS
from agents.stage.inlet import InletBatch
from agents.stage.lane import Lane
from agents.stage.outlet import MADE_BY_STAGES
from agents.state import changelog
from agents.state.changelog import LaneProgress, Progress, StateRefused
from agents.state.held import offset_of, pages_of
from agents.state.notes import Spilled
from inorder import rfc3339
from inorder.contract import UNIT_NS
from inorder.header_writer import HeaderWriter
from topology.base.event import DATA, DEAD, NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.config import HeaderConfig, Topology
from topology.config.change import new_start_remedy
from topology.order.clock.drift_table import DriftTable
from topology.records.header_writer import HeaderWriter as StampWriter
from topology.records.header_writer import Written
from topology.stage.lanes import lane_of, number_of
from topology.stage.replay import SavedReplay

NO_TIME: Final = b"held"
"""Value of the time header of a dead letter that has a sequence number but no time."""

BASE64: Final = "base64"
"""The only key of a payload that is not JSON, as `inorder dump` writes it."""

WHERE: Final = {SEQUENCED: "`topics: {sequenced: …}`", ORDERED: "`output:` of its streams"}
"""The keys of the topology file that name the topics between stages."""


class History(NamedTuple):
    """The part of a backfill that belongs to one task.

    Attributes:
        saved: The task's share of each group of streams (`topology.stage.share`).
        waiting: The task's share of the events of the last instant, numbered with their lanes.
        next_offsets: Offset at which reading each input partition continues.
        now_ns: Arrival time of the last event of the whole backfill.
    """

    saved: Sequence[SavedReplay]
    waiting: Sequence[Event | Malformed]
    next_offsets: Mapping[TopicPartition, int]
    now_ns: int


class Histories(Protocol):
    """The histories of all tasks; `name` identifies their backfill."""

    name: str

    def of(self, arrangement: Arrangement, source: TopicPartition) -> History:
        """Return a task's history; raise StateRefused if the backfill does not fit it."""


class Origin(NamedTuple):
    """A history in the form of a task's first state.

    Attributes:
        entries: The state's entries, without its progress.
        records: The records in `entries`, by number.
        last: The events and dead letters of the last instant.
        progress: The state's progress.
    """

    entries: Mapping[bytes, bytes]
    records: Mapping[int, Spilled]
    last: Sequence[Event | Malformed]
    progress: Progress

    def read(self, lanes: Mapping[int, Lane]) -> InletBatch:
        """Return the events of the last instant as the lanes read them, and the dead letters."""
        read = InletBatch()
        for last in self.last:
            if isinstance(last, Malformed):
                read.add(last)
                continue
            for event in lanes[last.lane].read_again([self.records[last.offset]]):
                event.epoch, event.seq = last.epoch, last.seq
                event.arrival_ns, event.at_ns = last.arrival_ns, last.at_ns
                read.events.append(event)
        return read


async def begin(
    histories: Histories,
    arrangement: Arrangement,
    source: TopicPartition,
    logs: LogReader,
) -> Origin:
    """Return the task's first state, after a check that the history fits its topic.

    Raises StateRefused if a topic between stages has older events.
    """
    found = await asyncio.to_thread(make_origin, histories, arrangement, source)
    if arrangement.is_first:
        return found
    first = await logs.first_of(source)
    if first is not None:
        (event,) = arrangement.inlet(source).read_again([first]) or (None,)
        now_ns = found.progress.arrival[0]
        if event is not None and event.at_ns < now_ns:
            raise StateRefused(
                f"{source.topic}/{source.partition} contains events from before the end of the"
                " backfill (--from-backfill), which would be counted twice; name a new"
                " topic for them"
                f" ({WHERE[arrangement.reads]}), or delete this one and create it again"
            )
    return found


def make_origin(histories: Histories, arrangement: Arrangement, source: TopicPartition) -> Origin:
    """Return the first state of the task of this name, made from its history."""
    history = histories.of(arrangement, source)
    stage = arrangement.operators(source, DriftTable())
    state: dict[str, Any] = {}
    held: dict[Event, int] = {}
    for saved in history.saved:
        state |= saved.state
        held |= saved.held
    if state:
        stage.ledger.add(held)
        stage.restore(state, held)
    if stage.alignment is not None:
        stage.alignment.begin_at(history.now_ns)
    kept = sorted(stage.iter_held(), key=offset_of) if state else []
    last = sorted(history.waiting, key=offset_of)
    numbers = _number_events(kept, last)
    record_of = RecordWriter(arrangement, source)
    entries: dict[str, Any] = {}
    if state or stage.alignment is not None:
        stage.renumber(numbers)
        entries |= {f"{changelog.STATE}{key}": value for key, value in stage.snapshot().items()}
    entries |= pages_of({event: stage.ledger.places_of(event) for event in kept})
    read = InletBatch()
    for each in last:
        # A dead letter with a sequence number also adds an event, which a restart reads again.
        read.add(each)
    records = {event.offset: record_of(event) for event in [*kept, *read.events]}
    entries |= {f"{changelog.RECORD}{offset}": record for offset, record in records.items()}
    encoded = changelog.encode_changes(entries)
    written = {key: value for key, value in encoded.items() if value is not None}
    progress = arrangement.progress(source)
    begin_ns = [history.now_ns, 0, 0]
    progress.next_offset, progress.arrival = history.next_offsets[source], begin_ns
    progress.lanes = [
        LaneProgress(lane.topic, lane.partition, history.next_offsets[lane], begin_ns)
        for lane in arrangement.group_of(source).lanes
        if lane != source
    ]
    progress.history = histories.name
    return Origin(written, records, last, progress)


def _number_events(kept: list[Event], last: list[Event | Malformed]) -> dict[int, int]:
    """Give the events of each lane numbers from -1 downwards, and sort them by these.

    `last` are those of the last instant. Returns the new number of each event in `kept`.
    """
    numbers: dict[int, int] = {}
    counts = Counter[int]()
    for letter in reversed(last):
        lane = lane_of(letter.offset)
        counts[lane] += 1
        letter.offset = number_of(lane, -counts[lane])
    for event in reversed(kept):
        counts[event.lane] += 1
        number = number_of(event.lane, -counts[event.lane])
        numbers[event.offset] = number
        event.offset = number
    kept.sort(key=offset_of)
    last.sort(key=offset_of)
    return numbers


class RecordWriter:
    """The writer of events as records in the form of the topic that the task reads."""

    def __init__(self, arrangement: Arrangement, source: TopicPartition) -> None:
        streams = arrangement.streams_of(source.topic)
        self._reads = arrangement.reads
        self._contract: HeaderConfig = next(iter(streams.values())).headers
        self._names = self._contract.names()
        self._sent = HeaderWriter(self._contract)
        self._stamped = StampWriter(self._contract)

    def __call__(self, event: Event) -> Spilled:
        key = event.source.encode()
        value = _value_of(event) if event.kind == DATA else None
        stamp_ms = event.arrival_ns // NS_PER_MS
        if self._reads == ORDERED:
            stamp_ms = max(event.ref_time_ns // NS_PER_MS, 0)
        headers = self._make_headers(event)
        return Spilled(event.offset, stamp_ms, LOG_APPEND_TIME, key, value, headers)

    def _make_headers(self, event: Event) -> Written:
        if self._reads == RAW:
            return self._make_sent_headers(event)
        if self._reads == ORDERED:
            return self._stamped.write_ordered(event, self._make_sent_headers(event))
        if event.kind in MADE_BY_STAGES:
            return self._stamped.write_control(event, event.lane)
        return self._stamped.stamp(event, self._make_sent_headers(event), event.lane)

    def _make_sent_headers(self, event: Event) -> Written:
        """Return the headers that a producer would have written for the event."""
        written = self._sent.write(
            event.source,
            event.seq if event.seq >= 0 else ~event.seq,
            ts_ns=event.ts_ns,
            epoch=None if event.epoch == NO_EPOCH else event.epoch,
            stream=event.stream,
            type=event.type,
            kind="" if event.kind in (DATA, DEAD) else event.kind,
        )
        headers = {
            name: content.encode() if isinstance(content, str) else content
            for name, content in written
        }
        if event.kind == DEAD:
            headers[self._names.ts] = NO_TIME
        elif event.ts_ns % UNIT_NS[self._contract.ts_unit]:
            headers[self._names.ts] = rfc3339.format_ns(event.ts_ns).encode()
        return [*headers.items()]


def _value_of(event: Event) -> bytes | None:
    payload: Any = event.value
    if payload is None:
        return None
    is_wrapped = isinstance(payload, dict) and payload.keys() == {BASE64}
    content = _bytes_of(payload[BASE64]) if is_wrapped else None
    return orjson.dumps(payload) if content is None else content


def _bytes_of(text: Any) -> bytes | None:
    """Return the bytes that `inorder dump` writes as this text.

    None means that `inorder dump` would not write it, so it is part of a producer's own payload.
    """
    try:
        content = base64.b64decode(text, validate=True)
        if base64.b64encode(content).decode() == text:
            orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    except (TypeError, ValueError):
        return None
    return None


def refuse_other_history(
    found: Progress, expected: Histories | None, source: TopicPartition, topology: Topology
) -> None:
    """Raise StateRefused if a task's existing state did not begin with this history."""
    if expected is None or found.history == expected.name:
        return
    raise StateRefused(
        f"there is a state of {source.topic}/{source.partition} already, and it did not begin with"
        " this backfill (--from-backfill): leave the option out to continue with that state, or,"
        f" before the backfill, {new_start_remedy(topology)}"
    )
