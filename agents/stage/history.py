"""A partition that begins where a backfill ended, instead of with nothing.

A backfill leaves the operators' snapshots, the events that they hold, and the lines of its last
instant. Put together here for the streams of one partition, that is a state like the one a
changelog holds, so the partition restores it as it restores any, and writes it in its first
checkpoint: outputs of the last instant, state and offset become visible in one transaction, or not
at all. A worker that is killed before begins with the history again, one that is killed after finds
a state that names the history it began with.

Where the chain is cut into stages, the partitions of each begin so: every one with its share of
what the backfill's operators kept (topology.flow.share). The last instant is the first stage's. A
topic between begins with what that one emits then; its upstream partitions have emitted all before
that instant, and it is refused where it holds anything older, which the history has seen.

What a history holds has no offset in the log. It is numbered from -1 downwards, in its order: so
all of it precedes the log, and nothing of it is ever looked for there. Held events are in
the state whole, as records made of the fields of a line, stamped as in the topic that they would
have come by: the headers of the contract, and the payload as JSON. Further headers of theirs a
history does not have. A payload that was no JSON is written in a history as `{"base64": …}`, and it
becomes the bytes again; so does one that a producer sent in this very form, if it decodes to bytes
that are no JSON: the line is the same.

What it costs: one transaction of the whole state, within the bound of every commit
(agents.stage.delivery).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

import orjson
from aiokafka.structs import TopicPartition

from agents.kafka.log_reader import LogReader
from agents.kafka.stage_topics import ORDERED, RAW, SEQUENCED
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS
from agents.stage.inlet import Inlet, Read
from agents.stage.outlet import MADE_BY_STAGES
from agents.state import changelog
from agents.state.changelog import Progress, StateRefused
from agents.state.held import PAGE_BITS, Spilled, notes_of, offset_of
from inorder import rfc3339
from inorder.contract import UNIT_NS
from inorder.header_writer import HeaderWriter
from topology.clock.drift_table import DriftTable
from topology.config import HeaderConfig, Topology
from topology.config.change import begin_anew
from topology.flow.replay import SavedReplay
from topology.flow.share import renumbered
from topology.model.event import DATA, DEAD, NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.wire.header_writer import HeaderWriter as StampWriter
from topology.wire.header_writer import Written

NO_TIME: Final = b"held"
"""In place of a time: the record is dead, and holds its place in the sequence, as before."""

BASE64: Final = "base64"
"""The one key of a payload that was no JSON, as `inorder dump` writes it."""

WHERE: Final = {SEQUENCED: "`topics: {sequenced: …}`", ORDERED: "`output:` of its streams"}
"""In the topology file the topics between stages are named."""


class History(NamedTuple):
    """What a backfill left for one partition: `saved` is its share of each group of streams
    (topology.flow.share), `waiting` of the last instant; `now_ns` is the last arrival of all; the
    log goes on at `next_offset`."""

    saved: Sequence[SavedReplay]
    waiting: Sequence[Event | Malformed]
    next_offset: int
    now_ns: int


class Histories(Protocol):
    """The histories of all partitions; `name` identifies their backfill."""

    name: str

    def of(self, arrangement: Arrangement, source: TopicPartition) -> History:
        """StateRefused where what is there is not that of a partition."""


class Origin(NamedTuple):
    """A history as a partition begins with it: `entries` of a state, without its progress, and
    the inputs of the last instant. `records`, by offset, are in `entries`, too."""

    entries: Mapping[bytes, bytes]
    records: Mapping[int, Spilled]
    last: Sequence[Event | Malformed]
    progress: Progress

    def read(self, inlet: Inlet) -> Read:
        """The inputs of the last instant, as the inlet would have read them."""
        read = Read()
        for last in self.last:
            if isinstance(last, Malformed):
                read.add(last)
                continue
            for event in inlet.read_again([self.records[last.offset]]):
                event.epoch, event.seq = last.epoch, last.seq
                event.arrival_ns, event.at_ns = last.arrival_ns, last.at_ns
                read.events.append(event)
        return read


async def begun(
    histories: Histories,
    arrangement: Arrangement,
    source: TopicPartition,
    logs: LogReader,
) -> Origin:
    """As `origin`. StateRefused where a topic between holds what is older than the history."""
    found = await asyncio.to_thread(origin, histories, arrangement, source)
    if arrangement.is_first:
        return found
    first = await logs.first_of(source)
    if first is not None:
        (event,) = arrangement.inlet(source).read_again([first]) or (None,)
        now_ns = found.progress.arrival[0]
        if event is not None and event.at_ns < now_ns:
            raise StateRefused(
                f"{source.topic}/{source.partition} holds events from before the end of the"
                " backfill (--from-backfill), which would be taken twice; name a new topic for them"
                f" ({WHERE[arrangement.reads]}), or delete this one and create it anew"
            )
    return found


def origin(histories: Histories, arrangement: Arrangement, source: TopicPartition) -> Origin:
    """What this partition begins with."""
    history = histories.of(arrangement, source)
    stage = arrangement.operators(source, DriftTable())
    state: dict[str, Any] = {}
    held: list[Event] = []
    for saved in history.saved:
        state |= saved.state
        held += saved.held
    if state:
        stage.restore(state, held)
    if stage.alignment is not None:
        stage.alignment.begin_at(history.now_ns)
    kept = sorted(stage.held(), key=offset_of) if state else []
    last = sorted(history.waiting, key=offset_of)
    numbers: dict[int, int] = {}
    for number, each in enumerate([*kept, *last], start=-len(kept) - len(last)):
        numbers[each.offset] = number
        each.offset = number
    record_of = RecordWriter(arrangement, source)
    entries: dict[str, Any] = {}
    if state or stage.alignment is not None:
        kept_by = renumbered(stage.snapshot(), numbers)
        entries |= {f"{changelog.STATE}{key}": value for key, value in kept_by.items()}
    for page, events in groupby(kept, lambda event: event.offset >> PAGE_BITS):
        entries[f"{changelog.PAGE}{page}"] = notes_of([*events])
    read = Read()
    for each in last:
        read.add(each)  # a dead letter may hold a place, and be looked for in a restart
    records = {event.offset: record_of(event) for event in [*kept, *read.events]}
    entries |= {f"{changelog.RECORD}{offset}": record for offset, record in records.items()}
    encoded = changelog.encoded(entries)
    written = {key: value for key, value in encoded.items() if value is not None}
    progress = arrangement.progress(source)
    progress.next_offset, progress.arrival = history.next_offset, [history.now_ns, 0, 0]
    progress.history = histories.name
    return Origin(written, records, last, progress)


class RecordWriter:
    """Makes the record of an event, as it would be in the topic that the partition reads."""

    def __init__(self, arrangement: Arrangement, source: TopicPartition) -> None:
        streams = arrangement.streams_of(source.topic)
        self._reads = arrangement.reads
        self._contract: HeaderConfig = next(iter(streams.values())).headers
        self._names = self._contract.names()
        self._sent = HeaderWriter(self._contract)
        self._stamped = StampWriter(self._contract)

    def __call__(self, event: Event) -> Spilled:
        key = event.source.encode()
        value = _value(event) if event.kind == DATA else None
        stamp_ms = event.arrival_ns // NS_PER_MS
        if self._reads == ORDERED:
            stamp_ms = max(event.ref_time_ns // NS_PER_MS, 0)
        headers = self._headers(event)
        return Spilled(event.offset, stamp_ms, LOG_APPEND_TIME, key, value, headers)

    def _headers(self, event: Event) -> Written:
        if self._reads == RAW:
            return self._as_sent(event)
        if self._reads == ORDERED:
            return self._stamped.ordered(event, self._as_sent(event))
        if event.kind in MADE_BY_STAGES:
            return self._stamped.control(event, event.lane)
        return self._stamped.stamp(event, self._as_sent(event), event.lane)

    def _as_sent(self, event: Event) -> Written:
        """As a producer would have written them."""
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
            headers[self._names.ts] = rfc3339.spelled(event.ts_ns).encode()
        return [*headers.items()]


def _value(event: Event) -> bytes | None:
    payload: Any = event.value
    if payload is None:
        return None
    is_wrapped = isinstance(payload, dict) and payload.keys() == {BASE64}
    content = _bytes_of(payload[BASE64]) if is_wrapped else None
    return orjson.dumps(payload) if content is None else content


def _bytes_of(text: Any) -> bytes | None:
    """Return the bytes that `inorder dump` writes so. None: it writes none so, and a producer sent
    the text."""
    try:
        content = base64.b64decode(text, validate=True)
        if base64.b64encode(content).decode() == text:
            orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    except (TypeError, ValueError):
        return None
    return None


def refuse_other(
    found: Progress, wanted: Histories | None, source: TopicPartition, topology: Topology
) -> None:
    """StateRefused where a state is there already that did not begin with this history."""
    if wanted is None or found.history == wanted.name:
        return
    raise StateRefused(
        f"there is a state of {source.topic}/{source.partition} already, and it did not begin with"
        " this backfill (--from-backfill): leave the option out to go on with that state, or,"
        f" before the backfill, {begin_anew(topology)}"
    )
