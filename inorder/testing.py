"""Test your own topologies and functions in this process, with time under the test's control.

    from inorder.testing import TopologyDriver, check_laws

    driver = TopologyDriver(topology)
    driver.send(RawEvent(source="press-7", seq=0, payload={"force": 12.5}))
    driver.advance(seconds(10))
    assert [window.values["n"] for window in driver.read(WindowRecord)] == [1]

`TopologyDriver` runs the code of a worker without Kafka. An event arrives when it is sent. Time
moves only by the calls of the test, so a test never waits. Outcomes that are decided when a point
in time has passed come with the next event or `advance`.

`check_laws` sends the same events in many orders and pieces, and checks the laws that every
topology must keep. `shuffled` makes such an order. `check_detector` checks a detector by itself.

If your function raises in a worker, the worker continues: the value is left out, or NULL. Here the
error is raised as `FunctionFailed`, which names the function and its arguments, and has the error
as its cause.

The module needs the distribution `inorder-engine`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise
from typing import Any, Final, TypeVar, overload

from inorder.engine import Balance, Function, Input, Ordering, Topology, replay
from inorder.given import Reader, check_iterable, to_runnable
from inorder.records import (
    ClockOffset,
    ClockSample,
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
from inorder.trial import BadDetector as BadDetector
from inorder.trial import DetectorReport as DetectorReport
from inorder.trial import check_detector as check_detector
from topology.base.event import Event
from topology.queries.detector.detector import Detector
from topology.records.line_reader import MAX_ARRIVAL_NS

__all__ = [
    "Balance",
    "BrokenLaw",
    "DeadRecord",
    "DuplicateRecord",
    "EventPlace",
    "FunctionFailed",
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

FIRST_NS: Final = 1_700_000_000 * 10**9
"""The time at which a driver starts if neither the test nor the first event sets one."""
SHUFFLES: Final = 20
FAILURES_KEPT: Final = 100


def seconds(amount: float) -> int:
    """Return an amount of seconds as nanoseconds."""
    return round(amount * 1_000_000_000)


def milliseconds(amount: float) -> int:
    """Return an amount of milliseconds as nanoseconds."""
    return round(amount * 1_000_000)


def _check_ns(name: str, given: Any) -> int:
    if type(given) is not int:
        raise TypeError(
            f"{name} is {given!r}, which is not a whole number of nanoseconds; pass"
            f" milliseconds(500)"
        )
    return given


class BrokenLaw(AssertionError):
    """A law is broken; the message has the order of arrival and the contradiction."""


class FunctionFailed(BrokenLaw):
    """A user's function raised; the function's own error is the cause."""


class TopologyDriver:
    """A topology that runs in this process, and whose time a test controls.

    Args:
        topology: A topology, or the text of its file.
        functions: Your own functions, by name. If any of the three kinds is given, the given ones
            replace all of the topology's own.
        aggregates: Your own aggregates, by name.
        detectors: Your own detectors, by name.
        start_ns: The time at which the test begins, in ns since 1970. None: the time of the first
            event, if it is sent before the test advances the time; otherwise a time in 2023.
        raise_failures: Whether an error of a function is raised as FunctionFailed, by the call that
            ran the function. If False, the topology continues as in a worker.

    Attributes:
        topology: The topology that runs.
        failures: The first `FAILURES_KEPT` errors of functions.
    """

    def __init__(
        self,
        topology: Topology | str,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        aggregates: Mapping[str, Function] | None = None,
        detectors: Mapping[str, Any] | None = None,
        start_ns: int | None = None,
        raise_failures: bool = True,
    ) -> None:
        """Prepare the topology.

        Raises:
            TopologyError: The topology cannot run.
            TypeError: `start_ns` is not an integer.
        """
        self.topology = to_runnable(topology, functions, aggregates, detectors)
        self.failures: list[FunctionFailed] = []
        self._raises = raise_failures
        self._raised = 0
        self._order = Ordering(_watch(self.topology, self.failures))
        self._begun = start_ns is not None
        self._now_ns = FIRST_NS if start_ns is None else _check_ns("start_ns", start_ns)
        self._unread: list[Record] = []
        self._found: list[Record] = []

    @property
    def now_ns(self) -> int:
        """The current time, in ns since 1970."""
        return self._now_ns

    def send(self, *inputs: Input) -> None:
        """Send inputs, which arrive one after the other.

        An input arrives now, or at its own arrival time if that is later. An event without `ts_ns`
        gets its arrival time as its timestamp. If an event has no arrival time and its `ts_ns` is
        later than now, time advances to that `ts_ns`. A clock reading applies to all events that
        arrive at the same time.

        Args:
            inputs: The inputs.

        Raises:
            FunctionFailed: A function raised, and `raise_failures` is set.
        """
        self._take(self._order.feed(*[self._with_arrival(each) for each in inputs]))

    def advance(self, by_ns: int) -> None:
        """Advance the time by `by_ns` without input; everything that becomes due happens in order.

        Args:
            by_ns: The duration in ns, not negative.

        Raises:
            FunctionFailed: A function raised, and `raise_failures` is set.
            TypeError: `by_ns` is not an integer.
            ValueError: `by_ns` is negative.
        """
        self.advance_to(self._now_ns + _check_ns("by_ns", by_ns))

    def advance_to(self, now_ns: int) -> None:
        """Advance the time to `now_ns` without input; everything that becomes due happens in order.

        Args:
            now_ns: The new time, in ns since 1970.

        Raises:
            FunctionFailed: A function raised, and `raise_failures` is set.
            TypeError: `now_ns` is not an integer.
            ValueError: `now_ns` is before the current time.
        """
        if _check_ns("now_ns", now_ns) < self._now_ns:
            raise ValueError(f"time cannot go back from {self._now_ns} ns to {now_ns} ns")
        self._begun = True
        self._now_ns = now_ns
        self._take(self._order.tick(now_ns))

    def end(self) -> None:
        """End the input; buffered events are emitted in order."""
        self._take(self._order.close())

    @overload
    def read(self) -> list[Record]: ...
    @overload
    def read(self, kind: type[R]) -> list[R]: ...
    def read(self, kind: type[Any] | None = None) -> list[Any]:
        """Return the records since the last read; each record is returned only once.

        Args:
            kind: The type of records to return; others remain for a later read. None: all records.
        """
        unread, self._unread = self._unread, []
        if kind is None:
            return unread
        self._unread = [each for each in unread if not isinstance(each, kind)]
        return [each for each in unread if isinstance(each, kind)]

    def current(self, query: str | None = None) -> list[Found]:
        """Return the current results, with all corrections, sorted by their beginning.

        Args:
            query: The query of the results. None: all queries.
        """
        found = current(self._found).values()
        wanted = [each for each in found if query is None or each.query == query]
        return sorted(wanted, key=lambda each: (each.start_ns, each.end_ns, each.id))

    def held(self) -> list[EventPlace]:
        """Return the identities of the buffered events."""
        return self._order.held()

    def balance(self) -> Balance:
        """Return the counts of the outcomes of all inputs."""
        return self._order.balance()

    def _with_arrival(self, each: Any) -> Any:
        """Return the input with an arrival time; an invalid arrival time is not changed."""
        is_line = isinstance(each, Mapping)
        if not is_line and not isinstance(each, RawEvent | ClockSample | ClockOffset):
            return each
        own_ns = each.get("arrival") if is_line else each.arrival_ns
        if own_ns is None:
            self._advance_to_event(
                each, each.get("ts") if is_line else getattr(each, "ts_ns", None)
            )
        elif type(own_ns) is not int or own_ns > MAX_ARRIVAL_NS:
            if self._order.now_ns is None:
                self._order.tick(self._now_ns)
            return each
        at_ns = max(self._now_ns, own_ns or 0)
        if isinstance(each, RawEvent) or (is_line and each.get("clock") is None):
            self._now_ns = at_ns
        return {**each, "arrival": at_ns} if is_line else replace(each, arrival_ns=at_ns)

    def _advance_to_event(self, each: Input, ts: Any) -> None:
        """Advance the time to the event's timestamp, so that no event arrives before it happens.

        The first event sets the time if the test has not.
        """
        if ts is not None:
            (content,) = Reader(self.topology).contents([each])
            if isinstance(content, Event) and (not self._begun or content.ts_ns > self._now_ns):
                self._now_ns = content.ts_ns
        self._begun = True

    def _take(self, records: Sequence[Record]) -> None:
        self._unread += records
        kinds = WindowRecord | MatchRecord | MatchSetRecord | JoinRecord
        self._found += [record for record in records if isinstance(record, kinds)]
        fresh = self.failures[self._raised :]
        self._raised = len(self.failures)
        if fresh and self._raises:
            raise fresh[0]


# -- user functions --------------------------------------------------------------------------------


def _watch(topology: Topology, failures: list[FunctionFailed]) -> Topology:
    """Return the same topology, with functions that add their errors to `failures`."""

    def watch(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def call_watched(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except Exception as raised:
                if len(failures) < FAILURES_KEPT:
                    given = ", ".join(map(repr, arguments))
                    failed = FunctionFailed(f"{name}({given}) raised {raised!r}")
                    failed.__cause__ = raised
                    failures.append(failed)
                raise

        return call_watched

    def watch_aggregate(name: str, own: Function) -> Function:
        parts = own._asdict()
        return Function(**{part: watch(f"{name}.{part}", call) for part, call in parts.items()})

    def watch_detector(name: str, own: Any) -> Any:
        is_value = isinstance(own, Detector)
        parts = ("step", "tick", "end") if is_value else ("on_event", "on_time", "on_end")
        calls = {part: getattr(own, part, None) for part in (*parts, "deadline")}
        hooks: Any = {part: watch(f"{name}.{part}", call) for part, call in calls.items() if call}
        return replace(own, **hooks) if is_value else type(own.__name__, (own,), hooks)

    own = topology.user_functions
    return topology.with_functions(
        {name: watch(name, call) for name, call in own.functions.items()},
        {name: watch_aggregate(name, each) for name, each in own.aggregates.items()},
        {name: watch_detector(name, each) for name, each in own.detectors.items()},
    )


# -- laws ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LawsReport:
    """Figures on a topology that kept the laws.

    Attributes:
        orders: The number of shuffled orders.
        compared: The number of these orders that emitted the same events with the same times, so
            that their results could be compared.
        late: The number of late events over all orders. If it is large, choose a `max_delay_ns`
            below the wait time of the topology.
    """

    orders: int
    compared: int
    late: int


def shuffled(events: Iterable[RawEvent], *, max_delay_ns: int, seed: int = 0) -> list[RawEvent]:
    """Return the events in the order in which they arrive after random delays.

    Args:
        events: The events. Each has a `ts_ns` or an `arrival_ns`.
        max_delay_ns: The maximum delay that is added to an event, in ns.
        seed: The seed of the delays.

    Raises:
        ValueError: An event has no time, or `max_delay_ns` is negative.
        TypeError: A value is not a RawEvent, or a time is not an integer.
    """
    if _check_ns("max_delay_ns", max_delay_ns) < 0:
        raise ValueError(f"max_delay_ns is {max_delay_ns}; a delay cannot be negative")
    dice = random.Random(seed)
    delayed = [
        replace(event, arrival_ns=_sent_ns(event) + dice.randint(0, max_delay_ns))
        for event in events
    ]
    return sorted(delayed, key=lambda event: event.arrival_ns or 0)


def _sent_ns(event: RawEvent) -> int:
    if not isinstance(event, RawEvent):
        raise TypeError(f"an event is of type {type(event).__name__}; pass RawEvents")
    sent_ns = event.ts_ns if event.arrival_ns is None else event.arrival_ns
    if sent_ns is None:
        raise ValueError(f"{event} has neither ts_ns nor arrival_ns; set one of them")
    return _check_ns(f"the time of {event}", sent_ns)


def check_laws(
    topology: Topology | str,
    events: Iterable[RawEvent],
    *,
    max_delay_ns: int,
    orders: int = SHUFFLES,
    seed: int = 0,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Function] | None = None,
    detectors: Mapping[str, Any] | None = None,
    raise_failures: bool = True,
) -> LawsReport:
    """Check the laws of every topology, for the events in the given order and in shuffled orders.

    * Each event ends as exactly one of emitted, late, duplicate, dead or buffered.
    * Each source is in sequence, and its stream in the order of time, except for late events.
    * The results do not depend on the pieces in which the events are sent.
    * If the same events were emitted with the same times, the current results after the last
      correction are the same, whatever the order of arrival.
    * No user function raises (`raise_failures`).

    The fourth law finds an aggregate, a function or a detector that depends on the order. If
    `unsynced: estimate` estimates clocks from arrival times, times differ, and nothing is compared.

    Args:
        topology: A topology, or the text of its file.
        events: The events. Each has a `ts_ns` or an `arrival_ns`.
        max_delay_ns: The maximum delay of an event in a shuffled order, in ns.
        orders: The number of shuffled orders.
        seed: The seed of the first order.
        functions: Your own functions, as for TopologyDriver.
        aggregates: Your own aggregates, as for TopologyDriver.
        detectors: Your own detectors, as for TopologyDriver.
        raise_failures: Whether a user function that raises breaks a law.

    Returns:
        Figures on the orders that were checked.

    Raises:
        BrokenLaw: A law is broken.
        TopologyError: The topology cannot run.
    """
    check_iterable("events", events, "RawEvents")
    whole, given = to_runnable(topology, functions, aggregates, detectors), list(events)
    plain = _Run(whole, list(_with_arrivals(given)), "as given", raise_failures)
    compared, late = 0, plain.balance.late
    for number in range(orders):
        order = shuffled(given, max_delay_ns=max_delay_ns, seed=seed + number)
        run = _Run(whole, order, f"shuffled with seed {seed + number}", raise_failures)
        late += run.balance.late
        if run.emitted == plain.emitted:
            compared += 1
            run.require_same_results(plain)
    return LawsReport(orders, compared, late)


class _Run:
    """A run of one order of arrival, which sends the events one at a time and checks the laws."""

    def __init__(
        self, topology: Topology, events: Sequence[RawEvent], name: str, raise_failures: bool
    ) -> None:
        self._name = name
        start_ns = events[0].arrival_ns if events else None
        driver = TopologyDriver(topology, start_ns=start_ns, raise_failures=raise_failures)
        for event in events:
            driver.send(event)
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

    def require_same_results(self, other: _Run) -> None:
        """Raise BrokenLaw unless the results equal those of another order."""
        for id_ in sorted({*self._found, *other._found}):
            here, there = self._found.get(id_), other._found.get(id_)
            if here is None or there is None or _comparable_part(here) != _comparable_part(there):
                self._fail(f"found {_render(here)}\n{other._name}: found {_render(there)}")

    def _check_order(self) -> None:
        in_time: dict[str, list[OrderedEvent]] = {}
        for each in self._records:
            if isinstance(each, OrderedEvent) and not each.late:
                in_time.setdefault(each.stream, []).append(each)
        for ordered in in_time.values():
            for before, after in pairwise(ordered):
                if after.ref_time_ns < before.ref_time_ns:
                    self._fail(f"{after} was emitted after {before}")
            seen: dict[str, EventPlace] = {}
            for each in ordered:
                last = seen.get(each.source)
                if last is not None and each.place <= last:
                    self._fail(f"{each} was emitted after {last}")
                seen[each.source] = each.place

    def _check_pieces(self, topology: Topology, events: Sequence[RawEvent]) -> None:
        in_large_ones = sorted(map(repr, replay(topology, events)))
        if in_large_ones != sorted(map(repr, self._records)):
            self._fail(
                "the events give other records if they are sent one at a time instead of together"
            )

    def _fail(self, what: str) -> None:
        raise BrokenLaw(f"{self._name}: {what}")


def _with_arrivals(events: Iterable[RawEvent]) -> Iterator[RawEvent]:
    """Yield each event with an arrival time: its own, or else its timestamp; it never decreases."""
    newest_ns = None
    for event in events:
        at_ns = _sent_ns(event)
        newest_ns = at_ns if newest_ns is None else max(newest_ns, at_ns)
        yield replace(event, arrival_ns=newest_ns)


def _render(found: Found | None) -> str:
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


def _comparable_part(found: Found) -> tuple[Any, ...]:
    head = (found.query, found.key, found.start_ns, found.end_ns, dict(found.values))
    if isinstance(found, WindowRecord):
        return (*head, dict(found.low), dict(found.high))
    if isinstance(found, MatchSetRecord):
        return (*head, found.count, found.ranges)
    return (*head, found.events)
