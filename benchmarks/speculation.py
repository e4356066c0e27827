"""Measure speculation: how early a result is final, how much is retracted, and the cost.

This is a small version of the published hierarchy: at level 5 a player hits the ball, and level 6
detects a pass. A synthetic stream reports who is near the ball, when it is hit, and when it is out.
Sources lag by some ten milliseconds. In `stalls` one of them sends nothing for 690 ms of every 5 s,
in `jitter` all lag by a log-normal time. Both levels are units (topology.queries.detector.unit).
The results of level 5, and their retractions, are events of level 6.

* `K`: each level waits by its own K, fitted so that no event is late. It waits for a share ALPHA of
  K; 1 is pure buffering. `tcp` sets ALPHA by the published control.
* `frontier`: each source reports its progress, and level 6 takes into account the results that
  level 5 can still emit. `budget` reads beyond the frontier as far as the available processor time
  allows. Both levels share one budget, as the detectors of a stream do.

*Settled* is the time from the pass until its last emission. The processor is modelled, as the
published load is. Reading the items once takes 60 % of it, slowly increasing, and 22 % more in
bursts. Each item that is read again costs as much as it did at first. `busy` has the mean, the
largest of any two seconds, and the number of two-second spans above the published zone (90 %).

*In full* counts the results of both levels after a late event, all of which the published method
retracts. *differences* counts those that are really emitted differently. *State* is the mean size
in bytes of a checkpoint of both levels, without the events.

Every run must have the same result as `K` with ALPHA 1, except for events that `K` calls late.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

import orjson

from benchmarks import harness
from benchmarks.baselines.alpha import Fixed, Load, Policy, Tcp
from benchmarks.harness import Asked, Columns, Tables, make_table, mean, quantile
from benchmarks.tables import Table, count
from topology.answer.budget import Budget
from topology.answer.spending import WHOLE
from topology.base.result import EMIT, RETRACT
from topology.queries.detector.detector import Detector, Found, behaviour_of
from topology.queries.detector.item import LogEntry, Seen, behind, key_before_all_at
from topology.queries.detector.unit import EXPIRED, Unit

MS = 1_000_000
SECOND = 1_000 * MS
POLL = 10 * MS
ZONE = 0.9
TRANSIT = 2 * MS
SPAN = 500 * MS
PLAYERS = 36
SOURCES = ("near0", "near1", "near2", "peak", "out")
SHOWN = range(52, 100, 2)
"""The half seconds of the load step that are shown in the table."""
BURSTS = ((8, 11), (24, 26), (40, 43), (55, 56.5))


class Arrival(NamedTuple):
    """The arrival of an event, or of a heartbeat if `event` is None."""

    at_ns: int
    source: str
    ts_ns: int
    event: Seen | None


def _uniform(stamp_ns: int, low_ms: int, high_ms: int) -> int:
    return (low_ms + stamp_ns * 2_654_435_761 % 1_000_003 * (high_ms - low_ms) // 1_000_003) * MS


# -- the stream ------------------------------------------------------------------------------------


def stream(seconds: int, kind: str, seed: int) -> list[Arrival]:
    dice = Random(seed)
    sent: dict[str, list[tuple[int, Seen | None]]] = {name: [] for name in SOURCES}
    for type_, rate in (("near", 10), ("peak", 2), ("out", 0.4)):
        time_ns = 0.0
        while (time_ns := time_ns + dice.expovariate(rate) * SECOND) < seconds * SECOND:
            player = dice.randrange(PLAYERS)
            source = f"near{player % 3}" if type_ == "near" else type_
            word = dice.choice(("near", "near", "far")) if type_ == "near" else type_
            seen = Seen(word, int(time_ns), player, source, 0, len(sent[source]) + 1)
            sent[source].append((int(time_ns), seen))
    arrivals: list[Arrival] = []
    for source, events in sent.items():
        beats: list[tuple[int, Seen | None]] = [(n * POLL, None) for n in range(seconds * 100)]
        last_ns = 0
        for ts_ns, event in heapq.merge(events, beats, key=lambda each: each[0]):
            last_ns = max(last_ns, ts_ns + TRANSIT + _lag(dice, kind, source))
            if kind == "stalls" and source == "near2" and last_ns % (5 * SECOND) < 690 * MS:
                last_ns += 690 * MS - last_ns % (5 * SECOND)
            arrivals.append(Arrival(last_ns, source, ts_ns, event))
    arrivals.sort(key=lambda each: (each.at_ns, each.ts_ns, each.source))
    return arrivals


def _lag(dice: Random, kind: str, source: str) -> int:
    if kind == "jitter":
        return int(min(600.0, 5.0 * math.exp(1.2 * dice.gauss(0, 1))) * MS)
    low, high = (
        (20, 60) if source.startswith("near") else (30, 80) if source == "peak" else (40, 41)
    )
    return dice.randrange(low, high) * MS


# -- the detectors ---------------------------------------------------------------------------------

State = tuple[Any, tuple[tuple[int, int, int], ...]]


def _detect_hit(state: State, event: Seen) -> tuple[State, None]:
    """Detect a hit: the last player who came near, and did not leave, hits the ball at a peak.

    It is emitted 100 to 300 ms later, as if it took that long to be certain.
    """
    near, pending = state
    if event.type == "near":
        near = (*(each for each in near if each != event.payload), event.payload)
    elif event.type == "far":
        near = tuple(each for each in near if each != event.payload)
    elif event.type == "peak" and near:
        due_ns = event.time_ns + _uniform(event.time_ns, 100, 300)
        pending = tuple(sorted((*pending, (due_ns, event.time_ns, near[-1]))))
    return (near, pending), None


def _detect_pass(state: State, event: Seen) -> tuple[State, None]:
    """Detect a pass from one player to another, unless the ball was out in between."""
    last, pending = state
    if event.type == "out":
        return (None, pending), None
    if last is not None and last != event.payload:
        due_ns = event.time_ns + _uniform(event.time_ns, 100, 250)
        pending = tuple(sorted((*pending, (due_ns, event.time_ns, last * 100 + event.payload))))
    return (event.payload, pending), None


def _due(state: State) -> int | None:
    return state[1][0][0] if state[1] else None


def _publish(state: State, _: int) -> tuple[State, Found]:
    (_, stamp_ns, what), *rest = state[1]
    found = Found({"what": what}, id=f"{stamp_ns}/{what}", last=True, start_ns=stamp_ns)
    return (state[0], tuple(rest)), found


HIT = Detector(_detect_hit, ((), ()), _due, _publish)
PASS = Detector(_detect_pass, (None, ()), _due, _publish)


# -- a run -----------------------------------------------------------------------------------------


class Level:
    """A unit, and how far it may read. `k_ns` is its K, or None if it uses the frontier."""

    def __init__(self, detector: Detector, policy: Policy | Budget, k_ns: int | None) -> None:
        self.unit = Unit(behaviour_of(detector), b"")
        self.policy = policy
        self.k_ns = k_ns
        self.late = 0
        self.worst_ns = 0
        self.affected = 0
        self.changed = 0
        self.state_bytes: list[int] = []
        self._seen = (0, 0)

    def put(self, seen: Seen, clock_ns: int) -> None:
        self.worst_ns = max(self.worst_ns, clock_ns - seen.time_ns)
        if self.unit.put("", LogEntry(seen), replaces=True) == EXPIRED:
            self.late += 1
        if isinstance(self.policy, Budget):
            self.policy.note_late(clock_ns - seen.time_ns)

    def advance(self, clock_ns: int, frontier_ns: int, step_ns: int) -> list[Any]:
        final_ns = frontier_ns if self.k_ns is None else clock_ns - self.k_ns
        read_ns = max(final_ns, clock_ns - self.policy.wait_ns(clock_ns - final_ns))
        log = self.unit.logs.get("")
        if log is not None and log.dirty:
            since = min(log.dirty)
            self.affected += sum(each.cause >= since for each in log.outs)
        begun = self.unit.counts.replayed
        records = self.unit.advance(behind(read_ns), key_before_all_at(final_ns + 1))
        if isinstance(self.policy, Budget):
            self.policy.spending.spend((self.unit.counts.replayed - begun) * step_ns)
        self.changed += sum(record.op != EMIT for record in records)
        return records

    @property
    def hold_ns(self) -> int:
        """The time before which no further output of this level can be stamped."""
        confirmed_ns = self.unit.confirmed[0] - 1
        log = self.unit.logs.get("")
        if log is None:
            return confirmed_ns
        state = (log.base or log.live).state
        stamps: list[int] = [stamp_ns - 1 for _, stamp_ns, _ in state[1]]
        return min(confirmed_ns, *stamps) if stamps else confirmed_ns

    def span(self) -> tuple[int, int]:
        """End a span, and return how many items were read in it for the first time, and again."""
        counts = self.unit.counts
        items, again = counts.processed - self._seen[0], counts.replayed - self._seen[1]
        self._seen = counts.processed, counts.replayed
        self.state_bytes.append(len(orjson.dumps(self.unit.table.snapshot())))
        return items, again


class Output(NamedTuple):
    first_ns: dict[str, int]
    settled_ns: dict[str, int]
    current: dict[str, Any]
    published: int
    changed: int
    busy_ppm: list[int]
    wait_ns: list[int]
    levels: list[Level]
    end_ns: int

    @property
    def waits_ns(self) -> list[int]:
        """The waits of the results that are current at the end, ascending."""
        return sorted(self.settled_ns[id_] for id_ in self.current)

    @property
    def moments(self) -> list[float]:
        """The shares of the processor used in each two consecutive seconds."""
        busy = self.busy_ppm
        return [sum(busy[at : at + 4]) / 4 / WHOLE for at in range(len(busy) - 3)]

    def total(self, part: Callable[[Level], int]) -> int:
        return sum(map(part, self.levels))


def run(
    arrivals: Sequence[Arrival],
    policy: Policy | Budget,
    ks_ns: Sequence[int | None],
    base: Callable[[float], float],
    step_ns: int,
    *,
    alone: bool = False,
) -> Output:
    """Run both levels over the arrivals.

    `step_ns` is the cost of an item that is read again. `base` takes a second, and returns the
    share of the processor that is used without such items. With `alone` each event is a separate
    call, as published; otherwise all events of a poll are one call.
    """
    levels = five, six = [
        Level(each, policy, k) for each, k in zip((HIT, PASS), ks_ns, strict=True)
    ]
    heard = dict.fromkeys(SOURCES, 0)
    output = Output({}, {}, {}, 0, 0, [], [], levels, arrivals[-1].at_ns)
    published = changed = 0
    span_ns = SPAN
    for now_ns, batch in _polls(arrivals, alone=alone):
        clock_ns = now_ns - TRANSIT
        for each in batch:
            heard[each.source] = each.ts_ns
            if each.event is not None:
                (six if each.event.type == "out" else five).put(each.event, clock_ns)
        frontier_ns = min(heard.values()) - 1
        for record in five.advance(clock_ns, frontier_ns, step_ns):
            hit = record.output
            seen = Seen("hit", hit.start_ns, hit.values["what"], "hit")
            if record.op == RETRACT:
                six.unit.remove("", seen.key)
            else:
                six.put(seen, clock_ns)
        for record in six.advance(clock_ns, min(frontier_ns, five.hold_ns), step_ns):
            id_ = record.output.id
            published += record.op == EMIT
            changed += record.op != EMIT
            if record.op == RETRACT:
                output.current.pop(id_)
            else:
                output.current[id_] = (record.output.start_ns, record.output.values)
                output.settled_ns[id_] = now_ns - record.output.start_ns
                output.first_ns.setdefault(id_, now_ns - record.output.start_ns)
        if now_ns >= span_ns:
            first_ns = int(base(span_ns / SECOND) * SPAN)
            ahead_ns = clock_ns - frontier_ns if ks_ns[0] is None else ks_ns[0]
            items, again = map(sum, zip(*(level.span() for level in levels), strict=True))
            weigh(policy, ahead_ns, first_ns, items, again, step_ns)
            output.busy_ppm.append((first_ns + again * step_ns) * WHOLE // SPAN)
            output.wait_ns.append(policy.wait_ns(ahead_ns))
            span_ns += SPAN
    return output._replace(published=published, changed=changed)


def weigh(
    policy: Policy | Budget, ahead_ns: int, first_ns: int, items: int, again: int, step_ns: int
) -> None:
    """End a span of the policy, which took `first_ns` without the items that were read again."""
    if isinstance(policy, Budget):
        policy.others_ppm = (first_ns - items * step_ns) * WHOLE // SPAN
        policy.end_span(SPAN, items * step_ns, ahead_ns, items, again)
    else:
        policy.observe(Load(first_ns, again * step_ns, SPAN), ahead_ns)


def _polls(arrivals: Sequence[Arrival], *, alone: bool) -> Iterator[tuple[int, list[Arrival]]]:
    at = 0
    for now_ns in range(POLL, arrivals[-1].at_ns + POLL, POLL):
        batch = []
        while at < len(arrivals) and arrivals[at].at_ns <= now_ns:
            batch.append(arrivals[at])
            at += 1
            if alone and batch[-1].event is not None:
                yield now_ns, batch
                batch = []
        yield now_ns, batch


def load_of(step: bool) -> Callable[[float], float]:
    def base(second: float) -> float:
        if step:
            return 0.9 if 30 <= second < 45 else 0.5
        burst = any(low <= second % 65 < high for low, high in BURSTS)
        return (0.60 + 0.0009 * (second % 65)) * (1.22 if burst else 1.0)

    return base


# -- the table -------------------------------------------------------------------------------------


def fit(arrivals: Sequence[Arrival]) -> tuple[tuple[int, int], int]:
    """Return the K of each level by which nothing is late, and the cost of reading an item.

    At that cost, reading all items once takes 60 % of the processor.
    """
    ks_ns = [60 * SECOND, 60 * SECOND]
    for level in range(2):
        output = run(arrivals, Fixed(WHOLE), ks_ns, load_of(step=False), 0)
        ks_ns[level] = output.levels[level].worst_ns
    items = output.total(lambda level: level.unit.counts.processed)
    return (ks_ns[0], ks_ns[1]), 6 * arrivals[-1].at_ns // (10 * items)


COLUMNS: Columns = {
    "unlike": lambda one, pure: count(count_differences(pure, one)),
    "late": lambda one, _: count(one.total(lambda level: level.late)),
    "first": lambda one, _: f"{mean(one.first_ns.values()) / MS:.0f}",
    "settled": lambda one, _: f"{mean(one.waits_ns) / MS:.0f}",
    "p99": lambda one, _: f"{quantile(one.waits_ns, 0.99) / MS:.0f}",
    "cut": lambda one, pure: f"{1 - mean(one.waits_ns) / mean(pure.waits_ns):.0%}",
    "withdrawn": lambda one, _: f"{one.changed} of {one.published}",
    "busy": lambda one, _: f"{mean(one.busy_ppm) / WHOLE:.0%}",
    "2 s": lambda one, _: f"{max(one.moments):.0%}",
    "beyond": lambda one, _: f"{mean(each > ZONE for each in one.moments):.1%}",
    "in full": lambda one, _: count(one.total(lambda level: level.affected)),
    "diff": lambda one, _: count(one.total(lambda level: level.changed)),
    "state": lambda one, _: count(one.total(lambda level: int(mean(level.state_bytes)))),
}
RUNS: dict[str, tuple[Callable[[], Policy | Budget], bool, bool]] = {
    "K, alpha 1: pure buffering": (lambda: Fixed(WHOLE), True, False),
    "K, tcp as published, one by one": (Tcp, True, True),
    "K, tcp as published": (Tcp, True, False),
    "K, alpha 0": (lambda: Fixed(0), True, False),
    "frontier, no speculation": (lambda: Fixed(WHOLE), False, False),
    "frontier, budget of 50 %: ours": (lambda: Budget(500_000, span_ns=SPAN), False, False),
    "frontier, budget of 5 %": (lambda: Budget(50_000, span_ns=SPAN), False, False),
    "frontier, wait 0, one by one": (lambda: Fixed(0), False, True),
    "frontier, wait 0": (lambda: Fixed(0), False, False),
}
"""The runs by name: the policy, whether it uses a K, and whether each event is a separate call."""


def run_all(arrivals: Sequence[Arrival]) -> dict[str, Output]:
    ks_ns, step_ns = fit(arrivals)
    return {
        name: run(
            arrivals,
            policy(),
            ks_ns if is_k else (None, None),
            load_of(step=False),
            step_ns,
            alone=alone,
        )
        for name, (policy, is_k, alone) in RUNS.items()
    }


def count_differences(one: Output, other: Output) -> int:
    """Count the passes in which two runs differ, without the last ones, which may be pending."""
    until_ns = one.end_ns - 5 * SECOND
    some, others = (
        {id_: output for id_, output in each.current.items() if output[0] < until_ns}
        for each in (one, other)
    )
    return sum(some.get(id_) != others.get(id_) for id_ in some.keys() | others.keys())


def measure_load_step() -> Table:
    """Measure a step of the processor's load: half, then nine tenths for 15 s, then half again."""
    found = Table("a load step at 30 s, back at 45 s", ("", *(str(at // 2) for at in SHOWN)))
    arrivals = stream(70, "stalls", 3)
    step_ns = fit(arrivals)[1]
    policies: dict[str, Policy | Budget] = {"tcp": Tcp(), "budget": Budget(400_000, span_ns=SPAN)}
    for name, policy in policies.items():
        k_ns = 800 * MS if name == "tcp" else None
        output = run(arrivals, policy, (k_ns, k_ns), load_of(step=True), step_ns)
        busy = [max(output.busy_ppm[at : at + 2]) // 10_000 for at in SHOWN]
        found.add(f"{name}: busy at most, %", *map(str, busy))
        found.add(f"{name}: wait, ms", *(str(output.wait_ns[at + 1] // MS) for at in SHOWN))
    return found


def tables(asked: Asked) -> Tables:
    """Measure how early a result is settled, how much is retracted, and the cost."""
    seconds = 900 if asked.full else 60

    def table(kind: str) -> Table:
        return make_table(f"{kind}: {seconds} s, ms", run_all(stream(seconds, kind, 1)), COLUMNS)

    for kind in ("stalls", "jitter"):
        yield kind, partial(table, kind)
    yield "load step", measure_load_step


command = harness.command(tables)
