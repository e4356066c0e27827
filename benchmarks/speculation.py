"""Speculation: how early a result stands, what is withdrawn, and what that costs.

The published hierarchy in small (level 5: a player hits the ball; level 6: a pass), on a stream of
its kind: who is near the ball, when it is hit, when it is out. Sources lag by some ten
milliseconds; in `stalls` one of them falls silent for 690 ms of every 5 s, in `jitter` all lag by
a log-normal time. Both levels are units (topology.detector.unit); what level 5 tells, and takes
back, are events of level 6.

* `K`: each level waits by a K of its own, fitted to what was late; ALPHA of it (1 is pure
  buffering). `tcp` sets ALPHA by the published control.
* `frontier`: each source tells how far it is; level 6 goes by what level 5 can still say.
  `budget` reads ahead of that for the processor that is granted; the levels share it, as queries
  of a stage do.

*Settled*: from the pass until it is told and stays. The processor is modelled, as the published
load is: the items, read once, take 60 % of one and slowly more, in bursts 22 % more; an item that
is read again takes its part of the 60 %. `busy`: the mean, the largest of any two seconds, and
how many two seconds are beyond the published zone (90 %).

*In full*: results behind an event that came late, which the published full retraction takes back,
of both levels; *differences*: those that were told otherwise. *State*: what a checkpoint of both
levels holds besides the events, mean, in bytes.

Every run is held to one result: that of `K` with ALPHA 1, but for what `K` calls late.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import click
import orjson

from benchmarks import _speculation_auto, _speculation_soccer
from benchmarks.baselines.alpha import Fixed, Policy, Tcp
from benchmarks.plots import Axes, Curve, draw, shown
from benchmarks.tables import Page, Table, count
from benchmarks.traces import TraceAbsent
from topology.answer.budget import Budget, share
from topology.answer.spending import WHOLE, Load, Processor
from topology.detector.detector import Detector, Found, behaviour_of
from topology.detector.item import LogEntry, Seen, before, behind
from topology.detector.unit import LATE, Unit
from topology.model.result import EMIT, RETRACT

MS = 1_000_000
SECOND = 1_000 * MS
POLL = 10 * MS
ZONE = 0.9
TRANSIT = 2 * MS
SPAN = 500 * MS
PLAYERS = 36
SOURCES = ("near0", "near1", "near2", "peak", "out")
FULL_SECONDS = 2_700
SHOWN = range(52, 100, 2)
"""Half seconds of the load step."""
BURSTS = ((8, 11), (24, 26), (40, 43), (55, 56.5))


class Arrival(NamedTuple):
    """None for an event: a heartbeat."""

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


def _hit(state: State, event: Seen) -> tuple[State, None]:
    """Who came near last, and did not leave, hits the ball at a peak; it takes a while to be
    sure."""
    near, pending = state
    if event.type == "near":
        near = (*(each for each in near if each != event.payload), event.payload)
    elif event.type == "far":
        near = tuple(each for each in near if each != event.payload)
    elif event.type == "peak" and near:
        due_ns = event.time_ns + _uniform(event.time_ns, 100, 300)
        pending = tuple(sorted((*pending, (due_ns, event.time_ns, near[-1]))))
    return (near, pending), None


def _pass(state: State, event: Seen) -> tuple[State, None]:
    """From one player to another, and not out between."""
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


HIT = Detector(_hit, ((), ()), _due, _publish)
PASS = Detector(_pass, (None, ()), _due, _publish)


# -- a run -----------------------------------------------------------------------------------------


class Level:
    """A unit, and how far it may read. `k_ns`: None for a frontier."""

    def __init__(self, detector: Detector, policy: Policy, k_ns: int | None) -> None:
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
        if self.unit.put("", LogEntry(seen), replaces=True) == LATE:
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
        records = self.unit.advance(behind(read_ns), before(final_ns + 1))
        if isinstance(self.policy, Budget):
            self.policy.spending.spend((self.unit.counts.replayed - begun) * step_ns)
        self.changed += sum(record.op != EMIT for record in records)
        return records

    @property
    def hold_ns(self) -> int:
        """No output to come is stamped before."""
        confirmed_ns = self.unit.confirmed[0] - 1
        log = self.unit.logs.get("")
        if log is None:
            return confirmed_ns
        state = log.live.state if not isinstance(log.base.state, tuple) else log.base.state
        stamps: list[int] = [stamp_ns - 1 for _, stamp_ns, _ in state[1]]
        return min(confirmed_ns, *stamps) if stamps else confirmed_ns

    def span(self) -> tuple[int, int]:
        """A span is over: what was read in it for the first time, and again."""
        counts = self.unit.counts
        items, again = counts.first - self._seen[0], counts.replayed - self._seen[1]
        self._seen = counts.first, counts.replayed
        self.state_bytes.append(len(orjson.dumps(self.unit.snapshot())))
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
    cpu_s: float


def run(
    arrivals: Sequence[Arrival],
    levels: list[Level],
    base: Callable[[float], float],
    step_ns: int,
    *,
    alone: bool,
) -> Output:
    """`step_ns`: what an item takes that is read again. `base`: how busy the processor is without
    anything read again, at a second. `alone`: each event is a call of its own, as published; else
    all of a poll are one."""
    five, six = levels
    heard = dict.fromkeys(SOURCES, 0)
    output = Output({}, {}, {}, 0, 0, [], [], levels, 0.0)
    published = changed = 0
    span_ns = SPAN
    budgets = [each.policy for each in levels if isinstance(each.policy, Budget)]
    if budgets:
        Processor([each.spending for each in budgets])
    begun = time.process_time()
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
            ahead = clock_ns - frontier_ns
            ahead_ns = [ahead if level.k_ns is None else level.k_ns for level in levels]
            again_ns = _weigh(levels, ahead_ns, first_ns, step_ns)
            output.busy_ppm.append((first_ns + again_ns) * WHOLE // SPAN)
            output.wait_ns.append(five.policy.wait_ns(ahead_ns[0]))
            span_ns += SPAN
    cpu_s = time.process_time() - begun
    return output._replace(published=published, changed=changed, cpu_s=cpu_s)


def _weigh(levels: Sequence[Level], ahead_ns: Sequence[int], first_ns: int, step_ns: int) -> int:
    """A span is over, which took `first_ns` besides what was read again; that, in ns."""
    spans = [level.span() for level in levels]
    again_ns = sum(again for _, again in spans) * step_ns
    others_ns = first_ns - sum(items for items, _ in spans) * step_ns
    budgets = []
    for level, each_ns, (items, again) in zip(levels, ahead_ns, spans, strict=True):
        if isinstance(level.policy, Budget):
            level.policy.others_ppm = others_ns * WHOLE // SPAN
            load = Load(items * step_ns, again * step_ns, SPAN)
            level.policy.weigh(load, each_ns, items, again)
            budgets.append(level.policy)
        else:
            level.policy.observe(Load(first_ns, again * step_ns, SPAN), each_ns)
    if budgets:
        share(budgets, budgets[0].others_ppm)
        budgets[0].spending.processor.reckon()
    return again_ns


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


COLUMNS = (
    *("run", "first", "settled", "p99", "cut", "withdrawn", "again", "busy", "2 s", "beyond"),
    *("in full", "diff", "state"),
)


def fitted(arrivals: Sequence[Arrival]) -> tuple[int, int, int]:
    """The K of each level, by which nothing is late, and what an item takes if all of them, read
    once, are 60 % of the processor."""
    levels = [Level(HIT, Fixed(WHOLE), 60 * SECOND), Level(PASS, Fixed(WHOLE), 60 * SECOND)]
    run(arrivals, levels, load_of(step=False), 0, alone=False)
    k_ns = levels[0].worst_ns
    levels = [Level(HIT, Fixed(WHOLE), k_ns), Level(PASS, Fixed(WHOLE), 60 * SECOND)]
    run(arrivals, levels, load_of(step=False), 0, alone=False)
    items = sum(level.unit.counts.first for level in levels)
    return k_ns, levels[1].worst_ns, 6 * arrivals[-1].at_ns // (10 * items)


def _mean_ms(values: Sequence[int]) -> float:
    return sum(values) / max(len(values), 1) / MS


def table(kind: str, seconds: int, seed: int) -> Table:
    """Times in ms."""
    arrivals = stream(seconds, kind, seed)
    *k, step_ns = fitted(arrivals)
    found = Table(
        f"{kind}: {seconds} s, K {k[0] // MS} and {k[1] // MS} ms, an item {step_ns / MS:.1f} ms",
        COLUMNS,
    )
    runs: list[tuple[str, Callable[[], Policy], bool, bool]] = [
        ("K, alpha 1: pure buffering", lambda: Fixed(WHOLE), True, False),
        ("K, tcp as published, one by one", Tcp, True, True),
        ("K, tcp as published", Tcp, True, False),
        ("K, alpha 0", lambda: Fixed(0), True, False),
        ("frontier, no speculation", lambda: Fixed(WHOLE), False, False),
        ("frontier, budget of 50 %: ours", lambda: Budget(250_000, span_ns=SPAN), False, False),
        ("frontier, budget of 5 %", lambda: Budget(25_000, span_ns=SPAN), False, False),
        ("frontier, wait 0, one by one", lambda: Fixed(0), False, True),
        ("frontier, wait 0", lambda: Fixed(0), False, False),
    ]
    pure: Output | None = None
    for name, policy, is_k, alone in runs:
        shared = policy()  # one for both levels, as one processor has them
        levels = [
            Level(HIT, shared, k[0] if is_k else None),
            Level(PASS, policy() if isinstance(shared, Budget) else shared, k[1] if is_k else None),
        ]
        output = run(arrivals, levels, load_of(step=False), step_ns, alone=alone)
        pure = pure or output
        unlike = _unlike(pure, output, arrivals[-1].at_ns)
        settled = sorted(output.settled_ns[id_] for id_ in output.current)
        cut = 1 - _mean_ms(settled) / _mean_ms(sorted(pure.settled_ns.values()))
        again = sum(level.unit.counts.replayed for level in levels)
        first = sum(level.unit.counts.first for level in levels)
        busy = output.busy_ppm
        mean = sum(busy) / len(busy) / WHOLE
        moments = [sum(busy[at : at + 4]) / 4 / WHOLE for at in range(len(busy) - 3)]
        beyond = sum(each > ZONE for each in moments) / len(moments)
        late = levels[0].late + levels[1].late
        notes = (f", {unlike} UNLIKE" if unlike else "") + (f", late {late}" if late else "")
        found.add(
            f"{name}{notes}",
            f"{_mean_ms(list(output.first_ns.values())):.0f}",
            f"{_mean_ms(settled):.0f}",
            f"{settled[len(settled) * 99 // 100] / MS:.0f}",
            f"{cut:.0%}",
            f"{output.changed} of {output.published}",
            f"{again / first:.3f}",
            f"{mean:.0%}",
            f"{max(moments):.0%}",
            f"{beyond:.1%}",
            count(sum(level.affected for level in levels)),
            count(sum(level.changed for level in levels)),
            count(sum(sum(each.state_bytes) // len(each.state_bytes) for each in levels)),
        )
    return found


def _unlike(one: Output, other: Output, end_ns: int) -> int:
    """Passes that stand in one run and not in the other, but for the last ones, which may wait."""
    until_ns = end_ns - 5 * SECOND
    some, others = (
        {id_: output for id_, output in each.current.items() if output[0] < until_ns}
        for each in (one, other)
    )
    return sum(some.get(id_) != others.get(id_) for id_ in some.keys() | others.keys())


PICTURE = Axes(
    "A load step: how busy the processor is, and how long is waited",
    "s of stream (nine tenths taken from 30 to 45 s)",
    "per cent, and hundredths of a second",
    plain=True,
)


def step_response() -> tuple[Table, list[Curve]]:
    """The processor is half taken, for 15 s nine tenths, and half again."""
    curves: list[Curve] = []
    columns: list[list[int]] = []
    arrivals = stream(70, "stalls", 3)
    step_ns = fitted(arrivals)[2]
    for name, policy in (("tcp", Tcp()), ("budget", Budget(200_000, span_ns=SPAN))):
        k_ns = 800 * MS if name == "tcp" else None
        other = Budget(200_000, span_ns=SPAN) if isinstance(policy, Budget) else policy
        levels = [Level(HIT, policy, k_ns), Level(PASS, other, k_ns)]
        output = run(arrivals, levels, load_of(step=True), step_ns, alone=False)
        columns.append([max(output.busy_ppm[at : at + 2]) // 10_000 for at in SHOWN])
        columns.append([output.wait_ns[at + 1] // MS for at in SHOWN])
        at_s = [(at + 1) * SPAN / SECOND for at in range(40, 130)]
        style = "--" if name == "tcp" else "-"
        loads = [each / 10_000 for each in output.busy_ppm[40:130]]
        waits = [each / (10 * MS) for each in output.wait_ns[40:130]]
        what = "the published control" if name == "tcp" else "budget"
        curves.append(_curve(f"busy, {what} (%)", at_s, loads, style))
        curves.append(_curve(f"wait, {what} (10 ms)", at_s, waits, style))
    found = Table(
        "a load step at 30 s, back at 45 s: busy at most, and wait",
        ("second", "tcp, %", "tcp, ms", "budget, %", "budget, ms"),
    )
    for at, *cells in zip(SHOWN, *columns, strict=True):
        found.add(str(at // 2), *map(str, cells))
    return found, curves


def _curve(name: str, xs: Sequence[float], ys: Sequence[float], style: str) -> Curve:
    return Curve(name, [(x, y, "") for x, y in zip(xs, ys, strict=False)], style)


@click.command("speculation")
@click.option("--full", is_flag=True, help="45 minutes of stream.")
@click.option(
    "--seconds", type=click.IntRange(10), default=180, show_default=True, help="The stream."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False))
def command(full: bool, seconds: int, seed: int, markdown: Path | None, plots: Path | None) -> None:
    """How early a result stands, what is withdrawn, and what that costs."""
    page = Page(markdown)
    for kind in ("stalls", "jitter"):
        page.table(table(kind, FULL_SECONDS if full else seconds, seed))
    try:
        page.table(_speculation_soccer.table())
    except TraceAbsent as absent:
        page.say(f"soccer_tagging: left out: {absent}")
    found, curves = step_response()
    page.table(found)
    chosen = _speculation_auto.runs() if seconds >= _speculation_auto.SECONDS else None
    if chosen is not None:
        page.table(_speculation_auto.table(chosen))
        page.table(_speculation_auto.changes(chosen["auto"]))
    if plots is None:
        return
    shown(page, plots, partial(draw, PICTURE, curves, plots / "speculation_load.png"))
    if chosen is not None:
        shown(page, plots, partial(_speculation_auto.draw, chosen, plots / "speculation_auto.png"))
