"""Events that are pushed into a topology in this process: by a callback, a socket, or a consumer of
one's own. See `inorder.engine`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from inorder.contract import DATA, MAX_INT64
from inorder.given import Input, Reader, check_input, records_of, runnable
from inorder.records import EventPlace, Record
from topology.config import Topology
from topology.flow.registry import STATE_NUMBER
from topology.flow.replay import Replay
from topology.flow.replay_state import packed_replay, unpacked_replay
from topology.model.event import Event
from topology.model.outcome import Duplicate, Late, Malformed, Step
from topology.wire.line_reader import MAX_ARRIVAL_NS, Content
from topology.wire.marked import Form, StateUnreadable

Partition = int | str
"""Where an event comes from: a number, or a name that the caller chooses (`"events/3"`)."""

MAX_PARTITIONS: Final = 65_536
"""One `Ordering` knows so many."""

PLACES_UNUSED: Final = 1_024
"""Offsets that are kept beyond those of the events that wait, at the most; or as many as these."""

FORM: Final = Form(
    "inorder ordering",
    STATE_NUMBER,
    anew="begin with a fresh Ordering, and feed it from the safe offsets on",
    mended="give back the bytes as they were, or begin with a fresh Ordering",
)


class Balance(NamedTuple):
    """What became of all that was sent; heartbeats and byes are not counted."""

    sent: int
    event: int
    late: int
    duplicate: int
    dead: int
    held: int

    @property
    def holds(self) -> bool:
        """Every input ended as exactly one of these."""
        return self.sent == self.event + self.late + self.duplicate + self.dead + self.held


class Ordering:
    """The topology run on events that are pushed into it, in the order of their arrival. It does
    no I/O and asks no clock. Each call returns the records that follow from it, in their order.

    Time is the largest `arrival_ns` that an event has named and the largest `now_ns` of a `tick`;
    an earlier one counts as that. From the first tick on, an event without `arrival_ns` arrives at
    that time. Without ticks it arrives as in a `replay`, at the largest `ts_ns` so far: a machine
    whose clock is ahead would then take time along. What is decided when an instant is over comes
    with the next event or tick.

    What waits, in events and bytes, is bounded by the topology. Besides, each partition has its
    next offset (`MAX_PARTITIONS`), and each waiting event its own. One thread at a time may call.

    `topology` may be the text of a file. `events`: False where results and reports alone are of
    use: events in their place are counted (`balance`) and not returned, which saves a tenth of the
    CPU. Raises TopologyError for a topology that cannot run.
    """

    def __init__(self, topology: Topology | str, *, events: bool = True) -> None:
        self.topology = runnable(topology)
        self._events = events
        self._run = Replay(self.topology)
        self._reader = Reader(self.topology)
        self._is_ticked = False
        self._bears: bool | None = None
        """Whether events name their arrivals, by the first one; None: none has come."""
        self._is_closed = False
        self._next: dict[Partition, int] = {}
        self._places: dict[int, tuple[Partition, int]] = {}
        """By the number of the input: its partition and offset."""
        self._most_places = PLACES_UNUSED
        self._counts: Counter[str] = Counter()

    @property
    def now_ns(self) -> int | None:
        """The time that has been reached; None before the first event or tick."""
        return self._run.now_ns

    def feed(
        self, *events: Input, partition: Partition = 0, offset: int | None = None
    ) -> list[Record]:
        """These arrive, one after the other.

        `offset`: of the first in its partition, the others follow it by one each; None: the next
        one. What has been taken already, by its offset, is not taken again, so a consumer may go
        back. An event that cannot be used is a `DeadRecord`. TypeError and ValueError for arguments
        that are wrong; nothing is taken then. Ten events in one call cost half of what they cost in
        ten calls.
        """
        self._check_open()
        first = self._first_offset(partition, offset)
        for number, each in enumerate(events, self._reader.number + 1):
            check_input(each, number)
        if len(self._places) >= self._most_places:
            self._forget_places()
        known = max(self._next.get(partition, 0), first)
        contents: list[Content] = []
        for at, each in enumerate(events[known - first :], known):
            content = self._reader.read(each, self.now_ns if self._is_ticked else None)
            contents.append(content)
            self._note(content, partition, at)
        self._next[partition] = max(known, first + len(events))
        return self._out(self._run.on_inputs(contents))

    def tick(self, now_ns: int) -> list[Record]:
        """It is `now_ns` (ns since 1970), and nothing has come up to then that is not fed yet.

        Who has no events for a while ticks some times a second, so that what waits for a time
        leaves. TypeError and ValueError for what is no such time."""
        self._check_open()
        if type(now_ns) is not int:
            raise TypeError(f"now_ns is {now_ns!r}, no whole number of ns; give time.time_ns()")
        if not 0 <= now_ns <= MAX_ARRIVAL_NS:
            raise ValueError(f"now_ns is {now_ns}, no time from 1970 to 2100; give time.time_ns()")
        self._is_ticked = True
        return self._out(self._run.on_time(max(now_ns, self.now_ns or 0)))

    def close(self) -> list[Record]:
        """The input is over: what waits leaves in order. Nothing is taken any more."""
        if self._is_closed:
            return []
        self._is_closed = True
        return self._out(self._run.on_end())

    # -- what waits --------------------------------------------------------------------------------

    def safe_offset(self, partition: Partition = 0) -> int | None:
        """The offset from which on this partition has to be read again if all else were lost: every
        event before it has left, or has been reported. None: nothing of it has been fed.

        Commit it, and after a start feed from there. With the last `snapshot` restored, what
        follows is then what an unbroken run gives; commit what was safe when it was taken, not
        what is later. Without one no event is missing, some come twice, and windows, patterns and
        what is known of sources begin anew. O(events that wait).
        """
        if partition not in self._next:
            return None
        self._forget_places()
        waits = (at for where, at in self._places.values() if where == partition)
        return min(waits, default=self._next[partition])

    def held(self) -> list[EventPlace]:
        """The events that wait."""
        waiting = (event for event in self._run.held() if event.kind == DATA)
        return sorted(EventPlace(each.source, max(each.epoch, 0), each.seq) for each in waiting)

    def balance(self) -> Balance:
        """What became of all that was fed so far."""
        counts = self._counts
        kinds = (counts["event"], counts["late"], counts["duplicate"], counts["dead"])
        return Balance(counts["sent"], *kinds, len(self.held()))

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All that a fresh `Ordering` of this topology needs to go on from here. O(state and events
        that wait). ValueError where it holds what is no plain value (an object as a payload)."""
        self._check_open()
        self._forget_places()
        saved = self._run.saved()
        values = (
            self._setting(),
            (self._is_ticked, self._bears, self._reader.number),
            (self._next, self._places, dict(self._counts)),
            None if saved is None else packed_replay(saved),
        )
        try:
            return FORM.packed(values)
        except ValueError as wrong:
            remedy = "give payloads that are plain values: what JSON has, and bytes"
            raise ValueError(f"the state cannot be kept ({wrong}); {remedy}") from None

    def restore(self, snapshot: bytes) -> None:
        """Go on from there; for one that has taken nothing yet. StateUnreadable (a ValueError) for
        what is no snapshot, is damaged, or is of a topology with other streams or operators. Give
        it snapshots of your own alone: it is made for damage, not for attackers."""
        if not isinstance(snapshot, bytes):
            raise TypeError(f"a snapshot is bytes, not of type {type(snapshot).__name__}")
        self._check_open()
        if self._next or self._is_ticked:
            raise ValueError("events or ticks have been taken already; restore a fresh Ordering")
        fresh = FORM.read(snapshot, self._restored)
        self.__dict__.update(fresh.__dict__)

    def _restored(self, values: Any) -> Ordering:
        setting, (is_ticked, bears, number), (next_offsets, places, counts), packed = values
        if setting != self._setting():
            raise StateUnreadable(
                f"the snapshot is of a topology with {_setting_text(setting)}, this one has"
                f" {_setting_text(self._setting())}; give the topology it was taken of, or"
                f" {FORM.anew}"
            )
        fresh = Ordering(self.topology, events=self._events)
        fresh._is_ticked, fresh._bears = is_ticked, bears
        fresh._next, fresh._places, fresh._counts = next_offsets, places, Counter(counts)
        if bears is False:
            fresh._run = Replay(self.topology.without_arrivals())
        if packed is not None:
            fresh._run.restore(unpacked_replay(packed))
        fresh._reader = Reader(self.topology, number, fresh._run.now_ns)
        return fresh

    def _setting(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        # In their order in the chain: by it held events are given back.
        return (*self.topology.streams,), (*self.topology.operators,)

    # -- parts of a call ---------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the input is over (`close`); make another Ordering")

    def _first_offset(self, partition: Partition, offset: int | None) -> int:
        if type(partition) not in {int, str}:
            raise TypeError(f"partition {partition!r} is neither a whole number nor a text")
        if partition not in self._next and len(self._next) >= MAX_PARTITIONS:
            raise ValueError(f"partition {partition!r} is one more than {MAX_PARTITIONS}")
        if offset is None:
            return self._next.get(partition, 0)
        if type(offset) is not int:
            raise TypeError(f"offset {offset!r} is no whole number")
        if not 0 <= offset <= MAX_INT64:
            raise ValueError(f"offset {offset} is none of a log: these count from 0 in 64 bits")
        return offset

    def _note(self, content: Content, partition: Partition, offset: int) -> None:
        if not isinstance(content, (Event, Malformed)):
            return
        if self._bears is None and isinstance(content, Event):
            self._bears = self._is_ticked or content.record.get("arrival") is not None
            if not self._bears:
                saved, self._run = self._run.saved(), Replay(self.topology.without_arrivals())
                if saved is not None:
                    self._run.restore(saved)
        if isinstance(content, Malformed) or content.kind == DATA:
            self._counts["sent"] += 1
        self._places[content.offset] = partition, offset

    def _forget_places(self) -> None:
        """Keep those of events that wait."""
        waits = {event.offset for event in self._run.held()}
        self._places = {at: place for at, place in self._places.items() if at in waits}
        self._most_places = 2 * len(self._places) + PLACES_UNUSED

    def _out(self, step: Step | None) -> list[Record]:
        if step is None:
            return []
        counts = self._counts
        for event in step.released:
            if event.kind == DATA:
                counts["late" if event.late else "event"] += 1
        for report in step.reports:
            if isinstance(report, Late):
                counts["late"] += 1
            elif isinstance(report, Duplicate):
                counts["duplicate"] += 1
            elif isinstance(report, Malformed):
                counts["dead"] += 1
                counts["sent"] += report.kind != DATA  # a control event was not counted yet
        if not self._events:
            step = replace(step, released=[each for each in step.released if each.late])
        return records_of(step)


def _setting_text(setting: Sequence[Sequence[str]]) -> str:
    streams, operators = setting
    return f"the streams {', '.join(streams)} and the operators {', '.join(operators)}"
