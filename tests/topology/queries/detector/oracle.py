"""An oracle for detectors over events in order: sort, read, fire timers between. It is slow and
simple.

It also has detectors for the laws, each of another kind, all with few states, so that replays
converge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from topology.queries.detector.detector import Detector, Found, behaviour_of
from topology.queries.detector.item import Seen

Emitted = dict[tuple[Any, ...], dict[str, Any]]
"""The current results, by key and id, or by key, item and place for those without an id."""

ENDED = 1 << 70
TIMER, END = -1, -2


class Told(NamedTuple):
    """Results emitted together. `cause` is the number of an event in the log, TIMER or END."""

    found: list[Found]
    time_ns: int
    cause: int


def told_in_order(
    detector: Any, log: Sequence[Seen], until_ns: int, *, ended: bool
) -> Iterator[Told]:
    """Yield the results of one key's events up to that instant, and of timers before it.

    If `ended`, there are no more events: a timer that is due later fires once, and then comes the
    end.
    """
    rules = behaviour_of(detector)
    state = rules.initial()
    passed_ns = -(1 << 80)

    def fire(before_ns: int, *, once: bool = False) -> Iterator[Told]:
        nonlocal state, passed_ns
        while (due_ns := rules.deadline(state)) is not None:
            due_ns = max(due_ns, passed_ns)
            if due_ns >= before_ns and not once:
                return
            state, said = rules.tick(state, due_ns)
            yield Told(_found_in(said), due_ns, TIMER)
            if once:
                return
            passed_ns = due_ns + 1

    for number, each in enumerate(log):
        if each.time_ns > until_ns:
            break
        yield from fire(each.time_ns)
        passed_ns = each.time_ns
        state, said = rules.step(state, each)
        yield Told(_found_in(said), each.time_ns, number)
    yield from fire(until_ns)
    if ended:
        yield from fire(until_ns, once=True)
        yield Told(_found_in(rules.end(state)), passed_ns, END)


def _found_in(said: Any) -> list[Found]:
    many = [said] if isinstance(said, Found | Mapping) else list(said or ())
    return [each if isinstance(each, Found) else Found(each) for each in many]


def truth(
    detector: Any, events: Mapping[str, Iterable[Seen]], until_ns: int, *, ended: bool = False
) -> Emitted:
    """Return the current results of all keys."""
    emitted: Emitted = {}
    for key, seen in events.items():
        log = sorted(seen, key=lambda event: event.key)
        for told in told_in_order(detector, log, until_ns, ended=ended):
            if told.cause >= 0:
                each = log[told.cause]
                cause = (each.time_ns, 0, each.source, each.seq)
            else:
                cause = (ENDED if told.cause == END else told.time_ns, 1, "", 0)
            for place, found in enumerate(told.found):
                known = (key, *cause, place) if found.id is None else (key, found.id)
                emitted[known] = dict(found.values)
    return emitted


# -- detectors -------------------------------------------------------------------------------------


def _mod(state: int, event: Seen) -> tuple[int, Any]:
    state = (state + event.payload) % 3
    return state, {"sum": state} if state == 0 else None


def _follows(state: tuple[int, ...], event: Seen) -> tuple[tuple[int, ...], Any]:
    """Find an A, then a C within 8, with no B between."""
    if event.type == "A":
        return (event.time_ns,), None
    if event.type == "B":
        return (), None
    if state and event.time_ns - state[0] <= 8:
        return (), Found({"after": event.time_ns - state[0]}, start_ns=state[0])
    return state, None


def _pairs(state: tuple[Seen, ...], event: Seen) -> tuple[tuple[Seen, ...], Any]:
    """Find two events of one type in turn with a rising payload."""
    last = next((each for each in state if each.type == event.type), None)
    others = tuple(each for each in state if each.type != event.type)
    if last is None or last.payload >= event.payload:
        return (*others, event), None
    events = {"last": last, "this": event}
    return (*others, event), Found({"by": event.payload - last.payload}, events=events)


def _burst(state: Any, event: Seen) -> tuple[Any, Any]:
    count, _ = state or (0, 0)
    return (count + 1, event.time_ns), None


def _quiet(state: Any, time_ns: int) -> tuple[Any, Any]:
    return None, {"count": state[0], "at": time_ns}


def _largest(state: int, event: Seen) -> tuple[int, Any]:
    if event.payload <= state:
        return state, None
    top = event.payload
    return top, [Found({"largest": top}, id="top", last=top == 5), {"was": state}]


def _beat(state: tuple[int, int], event: Seen) -> tuple[tuple[int, int], Any]:
    """Start a timer every 5, at most three times after an event."""
    return (event.time_ns + 5, 3), None


def _beaten(state: tuple[int, int], time_ns: int) -> tuple[tuple[int, int], Any]:
    return (time_ns + 5, state[1] - 1), Found({"left": state[1]}, id=state[1])


class Counter:
    """A detector that changes its own attributes."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.due: list[int] = []

    def on_event(self, event: Seen) -> Any:
        self.seen[event.type] = (self.seen.get(event.type, 0) + 1) % 2
        if event.type == "B":
            self.due.append(event.time_ns + 4)
        if event.type == "C":
            yield {"seen": dict(self.seen)}

    def deadline(self) -> int | None:
        return self.due[0] if self.due else None

    def on_time(self, time_ns: int) -> Any:
        self.due.pop(0)
        if self.seen.get("A"):
            yield {"odd": time_ns}

    def on_end(self) -> Any:
        return {"left": len(self.due)}


@dataclass
class Track:
    n: int = 0


class Last:
    """A detector with slots, which keeps events in them."""

    __slots__ = ("events", "told")

    def __init__(self) -> None:
        self.events: dict[str, Seen] = {}
        self.told = 0

    def on_event(self, event: Seen) -> Any:
        last = self.events.get(event.source)
        self.events[event.source] = event
        if last is not None and last.type == event.type:
            self.told = (self.told + 1) % 2
            yield {"since": last.time_ns, "told": self.told}


class Tracks:
    classes = (Track,)

    def __init__(self) -> None:
        self.tracks = [Track(), Track()]

    def on_event(self, event: Seen) -> Any:
        track = self.tracks[event.payload % 2]
        track.n = (track.n + 1) % 3
        return {"n": [each.n for each in self.tracks]} if track.n == 0 else None


class Mode(Enum):
    IDLE = 0
    BUSY = 1


class Speed(IntEnum):
    SLOW = 0
    FAST = 1


class Machine:
    """A detector whose state has members of enumerations."""

    classes = (Mode, Speed)

    def __init__(self) -> None:
        self.mode, self.speed = Mode.IDLE, Speed.SLOW

    def on_event(self, event: Seen) -> Any:
        was, self.mode = self.mode, Mode(event.payload % 2)
        self.speed = Speed(event.type == "A")
        yield {"was": was.name, "is": self.mode.name, "speed": self.speed.name}


DETECTORS: dict[str, Any] = {
    "mod": Detector(_mod, 0),
    "follows": Detector(_follows, ()),
    "pairs": Detector(_pairs, ()),
    "burst": Detector(_burst, None, lambda state: state and state[1] + 6, _quiet),
    "largest": Detector(_largest, 0, end=lambda state: {"end": state}),
    "beat": Detector(_beat, (0, 0), lambda state: state[0] if state[1] > 0 else None, _beaten),
    "counter": Counter,
    "last": Last,
    "tracks": Tracks,
    "machine": Machine,
}
