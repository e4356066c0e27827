"""For tests of one's own topologies and functions: a topology in the process, with time in hand.

    from inorder.testing import TopologyDriver, check_laws

    driver = TopologyDriver(topology)
    driver.send(RawEvent(source="press-7", seq=0, payload={"force": 12.5}))
    driver.advance(seconds(10))
    assert [window.values["n"] for window in driver.read(WindowRecord)] == [1]

`TopologyDriver` runs what a worker runs, without Kafka: an event arrives when it is sent, and time
goes on when it is told to, so a test waits for nothing. An instant is over when time has gone on:
what is decided at its end comes with the next event or `advance`. `check_laws` sends the same
events in many orders and cuts, and checks what must hold of any topology. `shuffled` makes such an
order.

Needs the distribution `inorder-engine`. The engine's own tests of single operators are another
matter: they have slow references beside them.

Proved by: tests/inorder/test_testing.py
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar, overload

from inorder.contract import DATA
from inorder.engine import Input, Reader, records_of, replay
from inorder.records import (
    DeadRecord,
    DuplicateRecord,
    EventPlace,
    Found,
    GapRecord,
    JoinRecord,
    LateRecord,
    MatchRecord,
    MatchSetRecord,
    OrderedEvent,
    OverflowRecord,
    RawEvent,
    Record,
    WindowRecord,
    current,
)
from topology.config import Topology, parse
from topology.flow.replay import Replay
from topology.model.event import Event
from topology.model.outcome import Malformed, Step

__all__ = [
    "Balance",
    "BrokenLaw",
    "DeadRecord",
    "DuplicateRecord",
    "EventPlace",
    "GapRecord",
    "JoinRecord",
    "LateRecord",
    "LawsReport",
    "MatchRecord",
    "MatchSetRecord",
    "OrderedEvent",
    "OverflowRecord",
    "RawEvent",
    "TopologyDriver",
    "WindowRecord",
    "check_laws",
    "milliseconds",
    "seconds",
    "shuffled",
]

R = TypeVar("R", bound=Record)

FIRST_NS: Final = 1_700_000_000_000_000_000
"""A driver's time at the start, where the test names none."""
SHUFFLES: Final = 20


def seconds(amount: float) -> int:
    """As nanoseconds."""
    return round(amount * 1_000_000_000)


def milliseconds(amount: float) -> int:
    """As nanoseconds."""
    return round(amount * 1_000_000)


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


class TopologyDriver:
    """`topology` may be the text of a file. `start_ns`: the time at which the test begins.

    Raises TopologyError for a topology that cannot run.
    """

    def __init__(self, topology: Topology | str, *, start_ns: int = FIRST_NS) -> None:
        self.topology = parse(topology) if isinstance(topology, str) else topology
        self.topology.check_functions()
        self._run = Replay(self.topology)
        self._reader = Reader(self.topology)
        self._now_ns = start_ns
        self._unread: list[Record] = []
        self._found: list[Record] = []
        self._counts: Counter[str] = Counter()

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def send(self, *inputs: Input) -> None:
        """These arrive, one after the other: now, or at an arrival of their own that is not
        before now. Without `ts_ns` an event happened when it arrived."""
        for each in inputs:
            (content,) = self._reader.contents([self._arriving(each)])
            if isinstance(content, Event | Malformed):
                self._now_ns = content.at_ns
                self._counts["sent"] += isinstance(content, Malformed) or content.kind == DATA
            step = self._run.on_inputs([content])
            if step is not None:
                self._take(step)

    def advance(self, by_ns: int) -> None:
        """Time goes on, and nothing comes. What is due on the way happens at its instant."""
        self.advance_to(self._now_ns + by_ns)

    def advance_to(self, now_ns: int) -> None:
        """As `advance`. ValueError for a time that is over."""
        if now_ns < self._now_ns:
            raise ValueError(f"time cannot go back: it is {self._now_ns} ns, not {now_ns} ns")
        self._now_ns = now_ns
        self._take(self._run.on_time(now_ns))

    def end(self) -> None:
        """The input is over: what is held leaves in order."""
        step = self._run.on_end()
        if step is not None:
            self._take(step)

    @overload
    def read(self) -> list[Record]: ...
    @overload
    def read(self, kind: type[R]) -> list[R]: ...
    def read(self, kind: type[Any] | None = None) -> list[Any]:
        """What came out since it was last read: all of it, or the records of one kind."""
        unread, self._unread = self._unread, []
        if kind is None:
            return unread
        self._unread = [each for each in unread if not isinstance(each, kind)]
        return [each for each in unread if isinstance(each, kind)]

    def current(self, query: str | None = None) -> list[Found]:
        """The results that stand after all corrections so far, by their beginning."""
        found = current(self._found).values()
        wanted = [each for each in found if query is None or each.query == query]
        return sorted(wanted, key=lambda each: (each.start_ns, each.end_ns, each.id))

    def held(self) -> list[EventPlace]:
        """The events that wait."""
        waiting = (event for event in self._run.held() if event.kind == DATA)
        return sorted(EventPlace(each.source, max(each.epoch, 0), each.seq) for each in waiting)

    def balance(self) -> Balance:
        """What became of all that was sent so far."""
        told = self._counts
        kinds = (told["event"], told["late"], told["duplicate"], told["dead"])
        return Balance(told["sent"], *kinds, len(self.held()))

    def _arriving(self, each: Input) -> Mapping[str, Any] | Input:
        if isinstance(each, Mapping):
            arrival_ns = each.get("arrival")
            known = isinstance(arrival_ns, int) and arrival_ns >= self._now_ns
            return each if known else {**each, "arrival": self._now_ns}
        if each.arrival_ns is not None and each.arrival_ns >= self._now_ns:
            return each
        return replace(each, arrival_ns=self._now_ns)

    def _take(self, step: Step) -> None:
        for record in records_of(step):
            self._unread.append(record)
            match record:
                case OrderedEvent():
                    self._counts["late" if record.late else "event"] += 1
                case LateRecord():
                    self._counts["late"] += 1
                case DuplicateRecord():
                    self._counts["duplicate"] += 1
                case WindowRecord() | MatchRecord() | MatchSetRecord() | JoinRecord():
                    self._found.append(record)
        for report in step.reports:
            if isinstance(report, Malformed):
                self._counts["dead"] += 1
                self._counts["sent"] += report.kind != DATA  # it has not been counted yet


# -- laws ------------------------------------------------------------------------------------------


class BrokenLaw(AssertionError):
    """A law does not hold; the text says which, in which order of arrival, and what was seen."""


@dataclass(frozen=True, slots=True)
class LawsReport:
    """`orders` were tried, of which `compared` emitted the same events with the same times, so
    that their results could be held against each other. `late`: events that came too late, over
    all orders; where many are, give `max_delay_ns` below what the topology waits."""

    orders: int
    compared: int
    late: int


def shuffled(events: Iterable[RawEvent], *, max_delay_ns: int, seed: int = 0) -> list[RawEvent]:
    """The same events, each up to `max_delay_ns` later on its way, in the order in which they
    arrive then. Every event needs a `ts_ns` or an `arrival_ns`."""
    dice = random.Random(seed)
    delayed = []
    for event in events:
        sent_ns = event.ts_ns if event.arrival_ns is None else event.arrival_ns
        if sent_ns is None:
            raise ValueError(f"{event} has neither ts_ns nor arrival_ns; give one")
        delayed.append(replace(event, arrival_ns=sent_ns + dice.randint(0, max_delay_ns)))
    return sorted(delayed, key=lambda event: event.arrival_ns or 0)


def check_laws(
    topology: Topology | str,
    events: Sequence[RawEvent],
    *,
    max_delay_ns: int,
    orders: int = SHUFFLES,
    seed: int = 0,
) -> LawsReport:
    """Check what must hold of any topology, for the events as they are and in shuffled orders.

    * every event ends as exactly one of emitted, late, duplicate, dead, held;
    * each source is in sequence, and its stream in the order of time, but for late events;
    * it does not matter in which pieces the events are handed in;
    * where the same events were emitted with the same times, the results that stand after the
      last correction are the same, whatever the order of arrival.

    Raises BrokenLaw. The last law finds an aggregate or a function that depends on the order.
    Clocks that are `unsynced: estimate` are known by arrivals: times differ then, and nothing is
    compared.
    """
    topology = parse(topology) if isinstance(topology, str) else topology
    plain = _Run(topology, list(_with_arrivals(events)), "as given")
    compared, late = 0, plain.balance.late
    for number in range(orders):
        order = shuffled(events, max_delay_ns=max_delay_ns, seed=seed + number)
        run = _Run(topology, order, f"shuffled with seed {seed + number}")
        late += run.balance.late
        if run.emitted == plain.emitted:
            compared += 1
            run.must_find(plain)
    return LawsReport(orders, compared, late)


class _Run:
    """The events in one order of arrival, sent one at a time, to the end; its laws are checked."""

    def __init__(self, topology: Topology, events: Sequence[RawEvent], name: str) -> None:
        self._name = name
        first_ns = events[0].arrival_ns if events else None
        driver = TopologyDriver(topology, start_ns=FIRST_NS if first_ns is None else first_ns)
        driver.send(*events)
        driver.end()
        self.balance = driver.balance()
        self._records = driver.read()
        self.emitted = {
            (each.stream, each.place): (each.ref_time_ns, each.error_ns)
            for each in self._records
            if isinstance(each, OrderedEvent)
        }
        self._found = {each.id: each for each in driver.current()}
        if not self.balance.holds:
            self._fail(f"an input got lost or was counted twice: {self.balance}")
        self._check_order()
        self._check_pieces(topology, events)

    def must_find(self, other: _Run) -> None:
        """The same results as in another order."""
        for id_ in sorted({*self._found, *other._found}):
            here, there = self._found.get(id_), other._found.get(id_)
            if here is None or there is None or _content(here) != _content(there):
                self._fail(f"found {_told(here)}\n{other._name}: found {_told(there)}")

    def _check_order(self) -> None:
        in_time: dict[str, list[OrderedEvent]] = {}
        for each in self._records:
            if isinstance(each, OrderedEvent) and not each.late:
                in_time.setdefault(each.stream, []).append(each)
        for ordered in in_time.values():
            for before, after in pairwise(ordered):
                if after.ref_time_ns < before.ref_time_ns:
                    self._fail(f"{after} comes behind {before}")
            seen: dict[str, EventPlace] = {}
            for each in ordered:
                last = seen.get(each.source)
                if last is not None and each.place <= last:
                    self._fail(f"{each} comes behind {last}")
                seen[each.source] = each.place

    def _check_pieces(self, topology: Topology, events: Sequence[RawEvent]) -> None:
        in_large_ones = sorted(map(repr, replay(topology, events)))
        if in_large_ones != sorted(map(repr, self._records)):
            self._fail("sent one at a time the events give other records than all together")

    def _fail(self, what: str) -> None:
        raise BrokenLaw(f"{self._name}: {what}")


def _with_arrivals(events: Iterable[RawEvent]) -> Iterator[RawEvent]:
    """Each arrives at its arrival or its time, but not before the one before it."""
    newest_ns = None
    for event in events:
        at_ns = event.ts_ns if event.arrival_ns is None else event.arrival_ns
        if at_ns is None:
            raise ValueError(f"{event} has neither ts_ns nor arrival_ns; give one")
        newest_ns = at_ns if newest_ns is None else max(newest_ns, at_ns)
        yield replace(event, arrival_ns=newest_ns)


def _told(found: Found | None) -> str:
    if found is None:
        return "nothing there"
    key = "" if found.key is None else f" of {found.key!r}"
    what = f"{found.query!r}{key} from {found.start_ns} to {found.end_ns} ns: {found.values}"
    if isinstance(found, WindowRecord):
        is_sure = found.low == found.high == found.values
        return what if is_sure else f"{what}, between {found.low} and {found.high}"
    if isinstance(found, MatchSetRecord):
        sizes = ", ".join(f"{each.size} for {each.alias}" for each in found.ranges)
        return f"{what}, {found.count} matches out of {sizes}"
    return f"{what}, of {', '.join(f'{each.source}/{each.seq}' for each in found.events)}"


def _content(found: Found) -> tuple[Any, ...]:
    head = (found.query, found.key, found.start_ns, found.end_ns, dict(found.values))
    if isinstance(found, WindowRecord):
        return (*head, dict(found.low), dict(found.high))
    if isinstance(found, MatchSetRecord):
        return (*head, found.count, found.ranges)
    return (*head, found.events)
