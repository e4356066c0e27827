"""Examples: the test kit as it is used in a user's tests, and the laws that it checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inorder.engine import (
    Aggregate,
    ClockConfig,
    ClockOffset,
    Function,
    MergeConfig,
    PatternQuery,
    QueryConfig,
    ReorderConfig,
    StreamConfig,
    Topology,
    Window,
    WindowQuery,
    pattern,
    replay,
)
from inorder.testing import (
    Balance,
    DeadRecord,
    FunctionFailed,
    OrderedEvent,
    RawEvent,
    TopologyDriver,
    WindowRecord,
    check_laws,
    milliseconds,
    seconds,
    shuffled,
)

START_NS = seconds(1_700_000_000)


def topology(max_wait_s: float = 0.5) -> Topology:
    stream = StreamConfig(
        clock=ClockConfig(unsynced="trust"),
        reorder=ReorderConfig(rule="fixed", max_wait_ns=seconds(max_wait_s), start=0),
        merge=MergeConfig(idle_after_ns=seconds(2)),
    )
    count = {"n": Aggregate("count")}
    query = WindowQuery(window=Window("tumbling", seconds(1)), aggregate=count)
    return Topology(streams={"default": stream}, queries={"load": query})


def events(count: int = 60) -> list[RawEvent]:
    return [
        RawEvent(
            source=f"s{at % 3}",
            seq=at // 3,
            ts_ns=START_NS + at * milliseconds(100),
            payload={"x": at},
        )
        for at in range(count)
    ]


def test_window_is_corrected() -> None:
    driver = TopologyDriver(topology(), start_ns=START_NS)
    driver.send(*(RawEvent(source="s", seq=seq) for seq in range(3)))
    assert driver.read(WindowRecord) == []
    driver.advance(seconds(5))
    driver.send(RawEvent(source="s", seq=3))
    driver.advance(1)
    (window,) = driver.read(WindowRecord)
    assert window.values == {"n": 3}
    driver.send(RawEvent(source="t", seq=0, ts_ns=START_NS + 1))
    driver.end()
    assert [each.values for each in driver.current("load")] == [{"n": 4}, {"n": 1}]
    assert driver.balance().holds


def test_first_event_starts_time() -> None:
    """Timestamps may start at 0; no window is emitted before its end."""
    driver = TopologyDriver(topology())
    driver.send(RawEvent(source="s", seq=0, ts_ns=0), {"source": "s", "seq": 1, "ts": seconds(0.4)})
    assert driver.now_ns == seconds(0.4)
    assert driver.read(WindowRecord) == []
    driver.advance(seconds(0.5))
    assert driver.read(WindowRecord) == []
    driver.send(RawEvent(source="s", seq=2, ts_ns=seconds(9)))
    driver.advance(seconds(3))
    (window,) = driver.read(WindowRecord)
    assert (window.start_ns, window.values) == (0, {"n": 2})
    assert driver.balance() == Balance(sent=3, event=3, late=0, duplicate=0, dead=0, held=0)


def test_event_advances_time() -> None:
    driver = TopologyDriver(topology(), start_ns=START_NS)
    driver.send(*events())
    assert driver.now_ns == events()[-1].ts_ns
    arrives = RawEvent(source="t", seq=0, ts_ns=driver.now_ns + seconds(9), arrival_ns=START_NS)
    driver.send(arrives)
    assert driver.now_ns == events()[-1].ts_ns, "it has come before it happened"
    driver.end()
    assert driver.balance().holds


def test_durations_are_whole_ns() -> None:
    assert (milliseconds(1.5), seconds(0.5)) == (1_500_000, 500_000_000)


def test_time_does_not_go_back() -> None:
    driver = TopologyDriver(topology())
    driver.advance(seconds(1))
    with pytest.raises(ValueError, match="time cannot go back"):
        driver.advance_to(driver.now_ns - 1)
    with pytest.raises(TypeError, match="not a whole number of nanoseconds"):
        driver.advance(1e9)  # type: ignore[arg-type]
    driver.send(RawEvent(source="s", seq=0))


def test_driver_accepts_lines() -> None:
    driver = TopologyDriver("streams: {default: {}}")
    driver.send({"source": "s", "seq": 0}, {"source": 3}, {"source": "s", "seq": 1, "kind": "odd"})
    driver.send(RawEvent(source="s", seq=1, kind="heartbeat"))
    driver.end()
    assert driver.balance() == Balance(sent=3, event=1, late=0, duplicate=0, dead=2, held=0)
    driver.read()
    assert driver.read() == []


def test_shuffled_keeps_all_events() -> None:
    order = shuffled(events(), max_delay_ns=seconds(1), seed=3)
    assert order == shuffled(events(), max_delay_ns=seconds(1), seed=3)
    assert order != shuffled(events(), max_delay_ns=seconds(1), seed=4)
    assert {(each.source, each.seq) for each in order} == {(e.source, e.seq) for e in events()}
    delays = [(each.arrival_ns or 0) - (each.ts_ns or 0) for each in order]
    assert 0 <= min(delays) < max(delays) <= seconds(1)
    with pytest.raises(ValueError, match="neither ts_ns nor arrival_ns"):
        shuffled([RawEvent(source="s", seq=0)], max_delay_ns=1)


@pytest.mark.parametrize("begin_ns", [0, START_NS])
def test_laws_hold_for_window(begin_ns: int) -> None:
    given = [replace(event, ts_ns=(event.ts_ns or 0) - START_NS + begin_ns) for event in events()]
    report = check_laws(topology(), given, max_delay_ns=milliseconds(300), orders=5)
    assert report.compared == report.orders == 5
    late = check_laws(topology(max_wait_s=0.1), given, max_delay_ns=seconds(1), orders=5)
    assert late.late > 0
    assert late.compared == 5


def failing() -> Topology:
    """Return a topology with an aggregate that raises at 13 and a pattern that calls its own
    function.
    """
    near = pattern("PATTERN SEQ(A a, A b) WHERE near(a.x, b.x) WITHIN 1 s", functions=["near"])
    wide = {"odd": Aggregate("odd", ("payload", "x"))}
    stream = StreamConfig(clock=ClockConfig(unsynced="trust"))
    queries: dict[str, QueryConfig] = {
        "load": WindowQuery(window=Window("tumbling", seconds(1)), aggregate=wide),
        "pair": PatternQuery(pattern=near),
    }
    return Topology(streams={"default": stream}, queries=queries)


def add(state: int, value: int) -> int:
    if value == 13:
        raise ValueError("unlucky")
    return state + value


ODD = {"odd": Function(init=lambda: 0, add=add, combine=lambda one, other: one + other)}
RIGHT = {"near": lambda a, b: abs(a - b) < 3}
WRONG = {"near": lambda a: a < 3}


def test_function_error_is_raised() -> None:
    driver = TopologyDriver(failing(), functions=RIGHT, aggregates=ODD)
    driver.send(*(RawEvent(source="s", seq=at, payload={"x": 12 + at}) for at in range(2)))
    with pytest.raises(FunctionFailed, match=r"odd\.add\(12, 13\) raised ValueError") as failed:
        driver.end()
    assert isinstance(failed.value.__cause__, ValueError)
    driver.end()  # The error is raised once.
    with pytest.raises(FunctionFailed, match=r"near\(0, 1\) raised TypeError.*takes 1"):
        check_laws(failing(), typed(), max_delay_ns=0, functions=WRONG, aggregates=ODD)


def typed() -> list[RawEvent]:
    return [replace(event, type="A") for event in events(10)]


def test_function_errors_are_kept() -> None:
    """With `raise_failures=False` the driver keeps a function's errors; other results continue."""
    driver = TopologyDriver(failing(), functions=WRONG, aggregates=ODD, raise_failures=False)
    driver.send(*typed())
    driver.end()
    assert {str(each).partition("(")[0] for each in driver.failures} == {"near"}
    assert [each.values for each in driver.current()] == [{"odd": 45}]
    report = check_laws(
        failing().with_functions(WRONG, ODD),
        typed(),
        max_delay_ns=0,
        orders=1,
        raise_failures=False,
    )
    assert report.compared == 1


@pytest.mark.parametrize(
    ("given", "max_delay_ns", "error", "says"),
    [
        ([{"source": "s"}], 1, TypeError, "an event is of type dict; pass RawEvents"),
        (events()[0], 1, TypeError, "events is of type RawEvent; pass a list of RawEvents"),
        (events(), -5, ValueError, "max_delay_ns is -5"),
        (events(), 0.5, TypeError, r"max_delay_ns is 0\.5"),
        ([RawEvent(source="s", ts_ns="x")], 0, TypeError, "the time of RawEvent.* not a whole"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_refused(
    given: Any, max_delay_ns: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        check_laws(topology(), given, max_delay_ns=max_delay_ns)
    with pytest.raises(TypeError, match="input 1 is of type list; pass RawEvent"):
        TopologyDriver(topology()).send(events())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="3 is not a topology"):
        TopologyDriver(3)  # type: ignore[arg-type]


def test_bad_arrival_is_dead_letter() -> None:
    driver = TopologyDriver("streams: {default: {clock: {unsynced: trust}}}")
    driver.advance(seconds(1))
    driver.send({"source": "s", "seq": 0, "arrival": "x"})
    driver.send(RawEvent(source="s", seq=1, arrival_ns=10**30), RawEvent(source="s", seq=2))
    driver.end()
    assert [(each.reason, each.at_ns) for each in driver.read(DeadRecord)] == [
        ("arrival_not_integer", driver.now_ns),
        ("arrival_huge", driver.now_ns),
    ]
    assert driver.balance() == Balance(sent=3, event=1, late=0, duplicate=0, dead=2, held=0)


@pytest.mark.parametrize("word_at", [0, 1, 2])
def test_offset_applies_to_instant(
    word_at: int,
) -> None:
    """A recording behaves alike: a clock line arrives with the line before it.

    The offset applies to all events of the instant, whatever their order.
    """
    sent = [RawEvent(source="s", seq=seq, ts_ns=START_NS, arrival_ns=START_NS) for seq in range(2)]
    word = ClockOffset(source="s", at_ns=START_NS, offset_ns=-7, error_ns=2)
    lines: list[RawEvent | ClockOffset] = [*sent[:word_at], word, *sent[word_at:]]
    driver = TopologyDriver(topology())
    driver.send(*lines)
    driver.end()
    told = driver.read(OrderedEvent)
    assert [(each.ref_time_ns - START_NS, each.error_ns) for each in told] == [(-7, 2), (-7, 2)]
    assert told == [each for each in replay(topology(), lines) if isinstance(each, OrderedEvent)]
