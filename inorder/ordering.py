"""Run a topology in this process on events that are pushed into it.

The events come from a callback, a socket, or your own consumer. See `inorder.engine`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from inorder.contract import DATA, MAX_INT64
from inorder.given import (
    Input,
    Reader,
    are_dicts,
    check_input,
    check_iterable,
    records_of,
    to_runnable,
)
from inorder.records import EventPlace, Record
from topology.base.event import Event
from topology.base.outcome import Malformed, Step
from topology.config import StreamConfig, Topology
from topology.records.line_reader import MAX_ARRIVAL_NS, Content, LineContents
from topology.records.marked import Form, StateUnreadable
from topology.records.places import Places
from topology.stage.replay import Replay
from topology.stage.replay_state import REPLAY_NUMBER, pack_replay, unpack_replay
from topology.stage.tally import count_outcomes

Partition = int | str
"""The origin of an event: a number, or a name that the caller chooses (`"events/3"`)."""

MAX_PARTITIONS: Final = 65_536
"""The maximum number of partitions that one `Ordering` accepts."""

BY_TIME: Final = " (rule: time)"
MIXED: Final = " (without_seq: by_time)"

_ROWS: Final = {tuple, list}

_Setting = tuple[tuple[str, ...], tuple[str, ...]]
"""The streams and the operators of a topology, as a snapshot and messages have them."""

FORM: Final = Form(
    "inorder ordering",
    REPLAY_NUMBER,
    anew="begin with a fresh Ordering, and feed it from the safe offsets on",
    mended="give back the bytes as they were, or begin with a fresh Ordering",
)


class Balance(NamedTuple):
    """The number of inputs with each outcome.

    Heartbeats, end-of-stream markers and clock readings do not count.

    Attributes:
        sent: The number of inputs.
        event: The number of emitted events that were not late.
        late: The number of late events.
        duplicate: The number of duplicates.
        dead: The number of inputs that cannot be used.
        held: The number of buffered events.
    """

    sent: int
    event: int
    late: int
    duplicate: int
    dead: int
    held: int

    @property
    def holds(self) -> bool:
        """Whether every input has exactly one of these outcomes."""
        return self.sent == self.event + self.late + self.duplicate + self.dead + self.held


class Ordering:
    """A topology that runs on pushed events, in the order of their arrival.

    It does no I/O and reads no clock. Each call returns the records that follow from it, in order.
    Only one thread at a time may call its methods.

    The current time is the largest `arrival_ns` of an event, or `now_ns` of a `tick`, that was
    given. An earlier value counts as the current time. After the first tick, an event without
    `arrival_ns` arrives at the current time. Without ticks it arrives as in a `replay`, at the
    largest `ts_ns` that was given. So a source whose clock is ahead moves the time ahead. A step by
    more than `clock.max_ahead` counts only if the next event confirms it. If an outcome is decided
    by the passing of time, it is returned with the next event or tick.

    The topology bounds the events and bytes that are buffered. In addition, the object stores the
    next offset of each partition (`MAX_PARTITIONS`), and the offsets of buffered events.

    Args:
        topology: A topology, or the text of its file.
        events: Whether events that are not late are returned. If False, they are only counted
            (`balance`), which saves a tenth of the CPU time.
    """

    def __init__(self, topology: Topology | str, *, events: bool = True) -> None:
        """Prepare the topology.

        Raises:
            TopologyError: The topology cannot run.
        """
        self.topology = to_runnable(topology)
        self._events = events
        self._run = Replay(self.topology)
        self._reader = Reader(self.topology)
        self._is_ticked = False
        self._has_arrivals: bool | None = None
        """Whether the first event has its own arrival time; None before the first event."""
        self._is_closed = False
        self._next: dict[Partition, int] = {}
        self._places = Places()
        self._columns: tuple[str, ...] = ()
        """The names of the last rows, which have been checked."""
        self._counts: Counter[str] = Counter()

    @property
    def now_ns(self) -> int | None:
        """The current time, or None before the first event or tick."""
        return self._run.now_ns

    def feed(
        self, *events: Input, partition: Partition = 0, offset: int | None = None
    ) -> list[Record]:
        """Process events that arrive one after the other.

        An event with an offset that was already processed is skipped, so a consumer may go back.
        Ten events in one call cost half as much as in ten calls.

        Args:
            events: The inputs, in the order of their arrival.
            partition: The partition from which the inputs come.
            offset: The offset of the first input; the others follow one by one. None: the next
                offset.

        Returns:
            The records that follow from the events. An event that cannot be used becomes a
            `DeadRecord`.

        Raises:
            TypeError: An argument has a wrong type. No event was processed.
            ValueError: An argument is out of range, or the input has ended. No event was processed.
        """
        self._check_open()
        first = self._first_offset(partition, offset)
        if not are_dicts(events):
            for number, each in enumerate(events, self._reader.number + 1):
                check_input(each, number)
        inputs = events[self._find_first_new(partition, first) - first :]
        read = self._reader.read_many(inputs, self._reading_ns())
        return self._process(read, partition, first, len(events))

    def feed_rows(
        self,
        names: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        partition: Partition = 0,
        offset: int | None = None,
    ) -> list[Record]:
        """Process events that are given as rows, with their values by position.

        It returns what `feed` returns for the mappings of the names to the values of each row. It
        is cheaper, because no mapping is built and searched for each event.

            order.feed_rows(("source", "seq", "ts"), [("press-7", 0, 5), ("press-7", 1, 9)])

        Args:
            names: The keys of a line, one for each position: `source`, `seq`, `ts`, `arrival` and
                so on. Times are in ns, except that `ts` is in the stream's `headers.ts_unit`.
            rows: Tuples or lists with a value for each name, in the order of their arrival. None
                is the same as absent.
            partition: The partition from which the rows come.
            offset: The offset of the first row, as for `feed`.

        Returns:
            The records that follow from the rows. A row that cannot be used becomes a `DeadRecord`.

        Raises:
            TypeError: An argument has a wrong type. No row was processed.
            ValueError: A name occurs twice, or a row has not one value for each name. Or an
                argument is out of range, or the input has ended. No row was processed.
        """
        self._check_open()
        first = self._first_offset(partition, offset)
        self._check_names(names)
        check_iterable("rows", rows, "tuples or lists")
        given = list(rows)
        _check_rows(self._columns, given, self._reader.number + 1)
        inputs = given[self._find_first_new(partition, first) - first :]
        read = self._reader.read_columns(self._columns, inputs, self._reading_ns())
        return self._process(read, partition, first, len(given))

    def tick(self, now_ns: int) -> list[Record]:
        """Advance the time to `now_ns`; the caller has fed all events that arrived before it.

        A caller without events for a while ticks several times a second, so that events that wait
        for a time are emitted.

        Args:
            now_ns: The time in ns since 1970, at most in 2100.

        Returns:
            The records that follow from the new time.

        Raises:
            TypeError: `now_ns` is not an integer.
            ValueError: `now_ns` is out of range, or the input has ended.
        """
        self._check_open()
        if type(now_ns) is not int:
            raise TypeError(
                f"now_ns is {now_ns!r}, which is not a whole number of nanoseconds; pass"
                f" time.time_ns()"
            )
        if not 0 <= now_ns <= MAX_ARRIVAL_NS:
            raise ValueError(
                f"now_ns is {now_ns}, which is not a time from 1970 to 2100; pass time.time_ns()"
            )
        self._is_ticked = True
        return self._to_records(self._run.on_time(max(now_ns, self.now_ns or 0)))

    def close(self) -> list[Record]:
        """End the input and return the buffered events in order; no more events are accepted."""
        if self._is_closed:
            return []
        self._is_closed = True
        return self._to_records(self._run.on_end())

    # -- buffered events ---------------------------------------------------------------------------

    def safe_offset(self, partition: Partition = 0) -> int | None:
        """Return the offset from which a restart would have to read this partition.

        Every event before it has been emitted or reported. Commit this offset, and after a start
        feed events from it. If the last `snapshot` is restored, the records then equal those of an
        unbroken run. In that case commit the offset that was safe at the snapshot, not a later one.
        Without a snapshot no event is missing, but some are emitted twice. Windows, patterns and
        the state of the sources start empty.

        The cost is O(buffered events).

        Args:
            partition: The partition.

        Returns:
            The offset, or None if no event of the partition has been fed.
        """
        if partition not in self._next:
            return None
        self._forget_places()
        least = self._places.least(partition)
        return self._next[partition] if least is None else least

    def held(self) -> list[EventPlace]:
        """Return the identities of the buffered events."""
        waiting = (event for event in self._run.iter_held() if event.kind == DATA)
        return sorted(EventPlace(each.source, max(each.epoch, 0), each.seq) for each in waiting)

    def balance(self) -> Balance:
        """Return the counts of the outcomes of all inputs."""
        counts = self._counts
        kinds = (counts["event"], counts["late"], counts["duplicate"], counts["dead"])
        return Balance(counts["sent"], *kinds, len(self.held()))

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the whole state, from which a new `Ordering` of this topology can continue.

        The cost is O(state and buffered events).

        Raises:
            ValueError: The state contains a value that is not plain, such as an object as a
                payload.
        """
        self._check_open()
        self._forget_places()
        saved = self._run.save()
        values = (
            self._setting(),
            (self._is_ticked, self._has_arrivals, self._reader.save()),
            (self._next, self._places.as_mapping(), dict(self._counts)),
            None if saved is None else pack_replay(saved),
        )
        try:
            return FORM.pack(values)
        except ValueError as wrong:
            remedy = "use payloads of plain values: JSON values and bytes"
            raise ValueError(f"the state cannot be stored ({wrong}); {remedy}") from None

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; the `Ordering` must not have processed events or ticks.

        Restore only your own snapshots. Damage is detected, but an attack is not.

        Args:
            snapshot: The bytes that `snapshot` returned.

        Raises:
            StateUnreadable: The bytes are not a snapshot, are damaged, or belong to a topology with
                other streams or operators, or with streams in another order (`rule: time`). It is a
                ValueError.
            TypeError: `snapshot` is not bytes.
            ValueError: Events or ticks have already been processed.
        """
        if not isinstance(snapshot, bytes):
            raise TypeError(
                f"the snapshot is of type {type(snapshot).__name__}; pass the bytes of `snapshot()`"
            )
        self._check_open()
        if self._next or self._is_ticked:
            raise ValueError(
                "events or ticks have already been processed; restore into a new Ordering"
            )
        fresh = FORM.read(snapshot, self._restore)
        self.__dict__.update(fresh.__dict__)

    def _restore(self, values: Any) -> Ordering:
        setting, (is_ticked, has_arrivals, reader), (next_offsets, places, counts), packed = values
        if not _is_compatible(setting, self._setting()):
            raise StateUnreadable(
                f"the snapshot is of a topology with {_setting_text(setting)}, but this one has"
                f" {_setting_text(self._setting())}; use the topology of the snapshot, or"
                f" {FORM.anew}"
            )
        fresh = Ordering(self.topology, events=self._events)
        fresh._is_ticked, fresh._has_arrivals = is_ticked, has_arrivals
        fresh._next, fresh._places, fresh._counts = next_offsets, Places(places), Counter(counts)
        if has_arrivals is False:
            fresh._run = Replay(self.topology.without_arrivals())
        if packed is not None:
            fresh._run.restore(unpack_replay(packed))
        fresh._reader.restore(reader, fresh._run.now_ns)
        return fresh

    def _setting(self) -> _Setting:
        # The order of operators matters, because the restored events depend on it.
        streams = [_stream_text(*each) for each in self.topology.streams.items()]
        return (*streams,), (*self.topology.operators,)

    # -- helpers of the calls ----------------------------------------------------------------------

    def _check_names(self, names: Sequence[str]) -> None:
        if names == self._columns:
            return
        check_iterable("names", names, "the keys of a line")
        columns = (*names,)
        for name in columns:
            if type(name) is not str:
                raise TypeError(f"names has {name!r}, which is not a text; pass the keys of a line")
            if columns.count(name) > 1:
                raise ValueError(f"names has `{name}` twice; give each name once")
        self._columns = columns

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("the input has ended (`close`); create another Ordering")

    def _first_offset(self, partition: Partition, offset: int | None) -> int:
        if type(partition) not in {int, str}:
            raise TypeError(f"partition {partition!r} is neither an integer nor a string")
        if partition not in self._next and len(self._next) >= MAX_PARTITIONS:
            raise ValueError(
                f"partition {partition!r} exceeds the maximum of {MAX_PARTITIONS} partitions"
            )
        if offset is None:
            return self._next.get(partition, 0)
        if type(offset) is not int:
            raise TypeError(f"offset {offset!r} is not an integer")
        if not 0 <= offset <= MAX_INT64:
            raise ValueError(f"offset {offset} is not valid; offsets are from 0 to {MAX_INT64}")
        return offset

    def _find_first_new(self, partition: Partition, first: int) -> int:
        """Return the offset of the first input that is not known yet, if `first` is the first."""
        return max(self._next.get(partition, 0), first)

    def _reading_ns(self) -> int | None:
        """Return the time at which inputs are read, or None if they are read as in a replay."""
        return self.now_ns if self._is_ticked else None

    def _begin(self, event: Event) -> None:
        """Note whether the first event has its own arrival time."""
        line = event.record
        if not isinstance(line, Mapping):
            line = dict(zip(self._columns, line, strict=True))
        self._has_arrivals = self._is_ticked or line.get("arrival") is not None
        if not self._has_arrivals:
            saved, self._run = self._run.save(), Replay(self.topology.without_arrivals())
            if saved is not None:
                self._run.restore(saved)

    def _process(
        self, read: LineContents, partition: Partition, first: int, count: int
    ) -> list[Record]:
        """Return the records of inputs that have been read.

        They are the last of `count` inputs, the first of which has the offset `first`.
        """
        known = self._find_first_new(partition, first)
        contents = read.contents
        if self._has_arrivals is None:
            first_event = next((each for each in contents if isinstance(each, Event)), None)
            if first_event is not None:
                self._begin(first_event)
        if self._places.is_full:
            self._forget_places()
        self._places.add(self._reader.number - len(contents) + 1, len(contents), partition, known)
        self._counts["sent"] += len(contents) - sum(map(_is_uncounted, read.others))
        self._next[partition] = max(known, first + count)
        return self._to_records(self._run.on_inputs(contents))

    def _forget_places(self) -> None:
        """Drop the stored places of events that are no longer buffered."""
        self._places.keep(event.offset for event in self._run.iter_held())

    def _to_records(self, step: Step | None) -> list[Record]:
        if step is None:
            return []
        counts, found = self._counts, count_outcomes(step)
        counts["event"] += found.event
        counts["late"] += found.late
        counts["duplicate"] += found.duplicate
        counts["dead"] += found.dead
        # Unlike ordinary events, control events were not counted when they were read.
        counts["sent"] += found.dead_control
        if not self._events:
            step.released = [each for each in step.released if each.late] if found.late else []
        is_empty = not (step.released or step.reports or step.results)
        return [] if is_empty else records_of(step)


def _is_uncounted(content: Content) -> bool:
    """Return whether a content is no ordinary event: a control event, or a clock reading."""
    return not isinstance(content, Malformed | Event) or (
        isinstance(content, Event) and content.kind != DATA
    )


def _check_rows(names: Sequence[str], rows: Sequence[Any], number: int) -> None:
    """Check that each row has a value for each name; the first one is input `number`."""
    if {*map(type, rows)} <= _ROWS and {*map(len, rows)} <= {len(names)}:
        return
    for at, row in enumerate(rows, number):
        if not isinstance(row, tuple | list):
            raise TypeError(f"input {at} is of type {type(row).__name__}; pass tuples or lists")
        if len(row) != len(names):
            raise ValueError(
                f"input {at} has {len(row)} values for {len(names)} names; give one for each name"
            )


def _stream_text(name: str, stream: StreamConfig) -> str:
    """Return the stream's name, and the setting that gives REORDER's state another form."""
    if not stream.reorder.numbered:
        return name + BY_TIME
    return name + MIXED if stream.reorder.is_mixed else name


def _is_compatible(was: _Setting, now: _Setting) -> bool:
    """Return whether a state of this setting can go on; `without_seq: by_time` may be added."""
    streams = (name + MIXED if name + MIXED in now[0] else name for name in was[0])
    return ((*streams,), was[1]) == now


def _setting_text(setting: Sequence[Sequence[str]]) -> str:
    streams, operators = setting
    return f"the streams {', '.join(streams)} and the operators {', '.join(operators)}"
