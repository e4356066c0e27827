"""Every operator in many settings, each with the streams it is run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any

from tests.laws.streams import MS, START, orderly, raw
from tests.laws.told import copies, copy_of
from topology.clock import Clock
from topology.clock.drift_table import DriftTable
from topology.clock.sample import Declared, Sample
from topology.config import parse
from topology.config.stream import ClockConfig, MergeConfig, ReorderConfig
from topology.flow.alignment import Alignment
from topology.flow.chain import Chain
from topology.flow.stage import Stage
from topology.merge.operator import Merge
from topology.model.event import BLOCKED, DATA, NO_EPOCH, PROGRESS, UNBLOCKED, Event
from topology.model.operator import Operator
from topology.query.quality import Quality
from topology.reorder.operator import Reorder
from topology.reorder.time_buffer import TimeBuffer
from topology.waiting import (
    AccuracyBudget,
    EventDriven,
    KSlack,
    MPKSlack,
    RiskSlack,
    SlackPolicy,
    TailSlack,
)
from topology.window import Output, WindowConfig, Windows
from topology.window.aggregates.built_in import BUILT_IN

PAUSE = 3_000 * MS
MAX_WAIT = "50ms"
NEVER_STAMPED = 99


@dataclass(frozen=True)
class Case:
    """`stamped_from`: the place in the chain from which a held event keeps what was
    found out about it. `replays`: a second hearing must give nothing new (not so where
    the table of sources is too small to remember them)."""

    name: str
    make: Callable[[], Operator]
    stream: Callable[[int], list[Event]]
    stamped_from: int = NEVER_STAMPED
    replays: bool = True
    max_held: int = 1 << 62
    max_held_per_source: int = 1 << 62
    max_sources: int = 1 << 62
    aligned: bool = False
    reorders: bool = True
    several_operators: bool = False

    def __repr__(self) -> str:
        return self.name


# -- the streams that reach MERGE and ALIGNMENT are what the operators before them let go ----------


def sequenced(seed: int) -> list[Event]:
    """A raw stream behind REORDER and CLOCK, numbered anew as in a topic."""
    chain = Chain([("reorder", _reorder()), ("clock", _clock())])
    events = raw(seed, n=120, sources=4)
    released: list[Event] = []
    for event in events:
        released += chain.on_batch([event], event.at_ns).released
    released += chain.on_end(events[-1].at_ns).released
    for offset, event in enumerate(released):
        event.offset = offset
        event.held_by = 0
    return copies(released)


def paused(seed: int) -> list[Event]:
    """The same with a pause of the whole log: what comes after it was kept, then all is as ever."""
    events = sequenced(seed)
    for place, event in enumerate(events):
        if 3 * place >= len(events):
            event.at_ns += PAUSE
            event.arrival_ns += PAUSE
        if 3 * place >= 2 * len(events) and event.kind != BLOCKED and event.kind != UNBLOCKED:
            event.ref_time_ns += PAUSE
    return events


@cache
def merged(seed: int) -> list[Event]:
    """What leaves the whole chain, with values, and errors of the clocks."""
    rng = Random(seed)
    chain = Chain([("reorder", _reorder()), ("clock", _clock()), ("merge", _merge())])
    events = raw(seed, n=64, sources=4)
    released: list[Event] = []
    for event in events:
        released += chain.on_batch([event], event.at_ns).released
    released += chain.on_end(events[-1].at_ns).released
    for offset, event in enumerate(released):
        event.offset = offset
        event.held_by = 0
    _fill(released, rng)
    return copies(released)


def _fill(events: list[Event], rng: Random) -> None:
    for event in events:
        if event.kind == DATA:
            key = rng.choice(("a", "b", "c", 7, None))
            event.value = {"key": key, "v": rng.choice((1, 2.5, -3, 1e300, "x", None))}
            event.error_ns = rng.choice((0, 0, 0, 0, MS, 3 * MS))


@cache
def accepted(seed: int) -> list[Event]:
    """The same before MERGE: each source in its order, no watermarks."""
    events = sequenced(seed)
    _fill(events, Random(seed))
    return events


def aligned(seed: int, lanes: int = 3) -> list[Event]:
    """The output of several partitions in one topic: each lane in its order, the lanes
    interleaved anyhow, with `progress` between."""
    rng = Random(seed)
    queues: list[list[Event]] = [[] for _ in range(lanes)]
    for event in sequenced(seed):
        event.lane = int(event.source[1:]) % lanes
        queues[event.lane].append(event)
    for lane, queue in enumerate(queues):
        for i in range(len(queue) - 1, -1, -1):
            if rng.random() < 0.3:
                queue.insert(i + 1, _progress(lane, queue[i].at_ns))
        last_ns = max((q[-1].at_ns for q in queues if q), default=START * MS)
        queue.append(_progress(lane, last_ns))
    events: list[Event] = []
    waiting = [queue for queue in queues if queue]
    while waiting:
        queue = rng.choice(waiting)
        taken = rng.choice((1, 1, 5, 20))
        events += queue[:taken]
        del queue[:taken]
        waiting = [queue for queue in queues if queue]
    for offset, event in enumerate(events):
        event.offset = offset
    return events


def _progress(lane: int, at_ns: int) -> Event:
    event = Event("default", "", 0, 0, 0, at_ns, kind=PROGRESS)
    event.lane = lane
    return event


def two_streams(seed: int) -> list[Event]:
    events = raw(seed, sources=4)
    for event in events:
        event.stream = "even" if event.source in ("s0", "s2") else "odd"
    return events


def headerless(seed: int) -> list[Event]:
    """No epochs, tame: what a small counter can carry."""
    events = orderly(seed, n=90)
    rng = Random(seed)
    kept = []
    for event in events:
        event.epoch = NO_EPOCH
        event.seq = (event.seq + 250) % 256
        if rng.random() > 0.03:
            kept.append(event)
        if rng.random() < 0.05:
            kept.append(copy_of(event))
        if rng.random() < 0.2 and len(kept) > 1 and kept[-1].source == kept[-2].source:
            kept[-1].arrival_ns, kept[-2].arrival_ns = kept[-2].arrival_ns, kept[-1].arrival_ns
    for event in kept:
        event.at_ns = event.arrival_ns
    kept.sort(key=lambda event: event.arrival_ns)
    for offset, event in enumerate(kept):
        event.offset = offset
    return kept


# -- the operators ---------------------------------------------------------------------------------


def _reorder(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(**{"max_wait": MAX_WAIT, "max_jump": 100, **settings}))


def _clock(max_sources: int = 100, max_ahead_ns: int = 3_600 * 1_000 * MS) -> Clock:
    return Clock(ClockConfig(max_ahead_ns=max_ahead_ns, unsynced="trust"), max_sources)


def _measured_clock(unsynced: Any, max_sources: int = 100, model: Any = "polygon") -> Clock:
    """Rounds for s0 (right, then set back), s1 (too few), s2 (a declared offset)."""
    table = DriftTable()
    for i in range(60):
        at = START + 5 * i
        for source in ("s0", "s1")[: 2 if i < 2 else 1]:
            behind = 3 if at < START + 150 else 43
            heard_ns, ended_ns = (at - 1) * MS, at * MS
            sent_ns = (at - 2 - behind) * MS
            answered_ns = ended_ns - behind * MS
            table.add(Sample(source, sent_ns, heard_ns, heard_ns, answered_ns, ended_ns, i))
    for i, offset in enumerate((4, None, -2)):
        at = START + 60 * i
        offset_ns = None if offset is None else offset * MS
        table.add(Declared("s2", at * MS, offset_ns, MS, at * MS, i))
    config = ClockConfig(
        unsynced=unsynced,
        model=model,
        activation_ns=20 * MS,
        jump_min_ns=30 * MS,
        broker_slack_ns=10 * MS,
    )
    return Clock(config, max_sources, table)


def _merge(late: str = "pass", max_sources: int = 100, **settings: Any) -> Merge:
    return Merge(
        "default",
        MergeConfig(**{"max_wait": MAX_WAIT, "idle_after": "150ms", **settings}),
        late=late,
        max_sources=max_sources,
        heartbeat_ns=20 * MS,
        correct_for_ns=100 * MS,
    )


def _chained_merge() -> Merge:
    return Merge("default", MergeConfig(max_wait_ns=50 * MS), position=3, heartbeat_ns=0)


def _topology(more: str = "") -> Any:
    text = f"""
streams:
  even: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100}}, merge: {{max_wait: {MAX_WAIT}}}}}
  odd: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100, late: side}}, merge: {{wait: thesis}}}}
  default: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100}}, merge: {{max_wait: {MAX_WAIT}}}}}
heartbeat: 20ms
{more}"""
    return parse(text)


UNMERGED = """\
stages: [reorder, merge, window]
windows_read: sequenced
queries:
  q: {stream: default, window: tumbling 20ms, aggregate: {n: count()},
      quality: {accuracy: 70%, max_wait: 40ms}}
"""


def _reorder_case(name: str, stream: Callable[[int], list[Event]] = raw, **settings: Any) -> Case:
    return Case(
        f"reorder, {name}",
        lambda: _reorder(**settings),
        stream,
        replays="max_sources" not in settings and "gap_ranges" not in settings,
        max_held=settings.get("max_held_total", 1 << 62),
        max_held_per_source=settings.get("max_held", 1 << 62),
        max_sources=settings.get("max_sources", 1 << 62),
    )


def _merge_case(
    name: str, stream: Callable[[int], list[Event]] = sequenced, **settings: Any
) -> Case:
    return Case(
        f"merge, {name}",
        lambda: _merge(**settings),
        stream,
        stamped_from=1,
        replays="max_sources" not in settings,
        max_held=settings.get("max_queued", 1 << 62),
        reorders=False,
    )


def _by_time_case(name: str, policy: Callable[[], SlackPolicy], **settings: Any) -> Case:
    return Case(
        f"reorder by time, {name}",
        lambda: TimeBuffer(policy(), **settings),
        raw,
        max_held=settings.get("max_held", 1 << 62),
        reorders=False,
    )


_OUTPUTS = tuple(
    Output(function, function, ("v",) if function != "count" else (), 500_000)
    for function in sorted(BUILT_IN)
)


_PROMISE: dict[str, Any] = {"quality": Quality(700_000, 40 * MS, idle_ns=90 * MS)}


def _window_case(
    name: str, kind: str, ms: int = 0, every_ms: int = 0, ordered: bool = True, **settings: Any
) -> Case:
    config = WindowConfig(
        query="q",
        kind=kind,
        outputs=_OUTPUTS,
        size_ns=ms * MS,
        every_ns=(every_ms or ms) * MS,
        **{"key": ("key",), "correct_for_ns": 100 * MS, "newcomers_ns": 30 * MS, **settings},
    )
    return Case(
        f"window, {name}",
        lambda: Windows("default", config, ordered=ordered),
        merged if ordered else lambda seed: copies(accepted(seed)),
        replays=False,
        reorders=False,
    )


CASES = [
    _reorder_case("default"),
    _reorder_case("fixed", rule="fixed"),
    _reorder_case("thesis", rule="thesis"),
    _reorder_case("rfc", rule="rfc", estimator_clock="event"),
    _reorder_case("start zero", start="zero", late="drop"),
    _reorder_case("start at 5", start=5, late="side"),
    _reorder_case("epochs ignored", infer_restart=True),
    _reorder_case("no restart inferred", infer_restart=False),
    _reorder_case("small counter", lambda seed: raw(seed, modulus=256), seq_bits=8),
    _reorder_case("small counter, tame", headerless, seq_bits=8),
    _reorder_case("few held", max_held=3, max_held_total=5),
    _reorder_case("two held in all", max_held=3, max_held_total=2),
    _reorder_case("one source known", max_sources=1),
    _reorder_case("short memory", gap_ranges=1, gap_memory="20ms"),
    _reorder_case("no wait", max_wait="0ms", infer_restart=False),
    Case("clock", _clock, sequenced, replays=False, reorders=False),
    Case(
        "clock, two sources known",
        lambda: _clock(2, 30 * MS),
        sequenced,
        replays=False,
        max_sources=2,
        reorders=False,
    ),
    *(
        Case(
            f"clock, {unsynced}",
            partial(_measured_clock, unsynced),
            sequenced,
            replays=False,
            reorders=False,
        )
        for unsynced in ("trust", "estimate", "reject")
    ),
    Case(
        "clock, estimate, two sources known",
        lambda: _measured_clock("estimate", 2),
        sequenced,
        replays=False,
        max_sources=2,
        reorders=False,
    ),
    Case(
        "clock, thesis",
        lambda: _measured_clock("estimate", model="thesis"),
        sequenced,
        replays=False,
        reorders=False,
    ),
    _merge_case("default"),
    _merge_case("thesis", wait="thesis"),
    _merge_case("thesis without patience", wait="thesis", max_wait="0ms"),
    _merge_case("late dropped", late="drop"),
    _merge_case("no wait", max_wait="0ms"),
    _merge_case("two queued", max_queued=2),
    _merge_case("expected sources", expected_sources=["s1", "zz"]),
    _merge_case("two sources known", max_sources=2, expected_sources=["yy", "zz"]),
    _merge_case("after a pause", paused),
    _merge_case("after a pause, impatient", paused, outage_wait="15ms"),
    _merge_case("after a pause, few queued", paused, max_queued=4),
    _merge_case("misses much", miss_target="10%", idle_after="30ms"),
    _by_time_case("fixed", lambda: KSlack(20 * MS, idle_ns=100 * MS)),
    _by_time_case("largest delay", MPKSlack, late="side"),
    _by_time_case("event-driven", lambda: EventDriven(idle_ns=50 * MS), max_ahead_ns=5 * MS),
    _by_time_case("tail", lambda: TailSlack(0.05, max_wait_ns=50 * MS), cap_ns=60 * MS),
    _by_time_case("risk", lambda: RiskSlack(AccuracyBudget(0.1), unit="event"), max_held=3),
    _window_case("tumbling, early and finals", "tumbling", 20, early_ns=7 * MS, finals=True),
    _window_case("tumbling, all keys", "tumbling", 50, key=None, uncertainty="ignore"),
    _window_case("tumbling, thesis", "tumbling", 20, uncertainty="thesis3", max_error_ns=2 * MS),
    _window_case("few windows", "tumbling", 10, max_windows=3, finals=True),
    _window_case("few unsure", "sliding", 20, 5, max_edge_events=2, max_windows=30),
    _window_case("sliding, uneven", "sliding", 25, 10, early_ns=9 * MS),
    _window_case("session", "session", 6, early_ns=5 * MS, finals=True),
    _window_case("session, few", "session", 1, max_windows=4, max_edge_events=2, finals=True),
    _window_case("count", "count", events=3, finals=True),
    _window_case("count, few kept", "count", events=5, max_recount=4, max_windows=2),
    _window_case("promised", "tumbling", 20, finals=True, early_ns=15 * MS, **_PROMISE),
    _window_case("promised, unmerged", "tumbling", 10, ordered=False, finals=True, **_PROMISE),
    _window_case("promised, sliding, unmerged", "sliding", 25, 10, ordered=False, **_PROMISE),
    _window_case("promised, session, unmerged", "session", 6, ordered=False, **_PROMISE),
    _window_case("promised, count", "count", events=3, **_PROMISE),
    _window_case(
        "promised, patient", "tumbling", 20, quality=Quality(700_000, 40 * MS, idle_ns=30 * MS)
    ),
    Case(
        "alignment",
        lambda: Alignment(3, 1_000),
        aligned,
        replays=False,
        aligned=True,
        reorders=False,
    ),
    Case(
        "alignment, four queued",
        lambda: Alignment(3, 4),
        aligned,
        replays=False,
        max_held=4,
        aligned=True,
        reorders=False,
    ),
    Case(
        "chain",
        lambda: Chain(
            [
                ("reorder", _reorder()),
                ("clock", _clock()),
                ("merge", _chained_merge()),
            ]
        ),
        raw,
        stamped_from=3,
        several_operators=True,
    ),
    Case(
        "chain, clocks forgotten",
        lambda: Chain([("reorder", _reorder()), ("clock", _clock(1)), ("merge", _chained_merge())]),
        raw,
        stamped_from=3,
        replays=False,
        several_operators=True,
    ),
    Case(
        "stage, fused",
        lambda: Stage(_topology(), ("reorder", "merge"), streams=["default"]),
        raw,
        stamped_from=4,
        several_operators=True,
    ),
    Case(
        "stage, fused, windows before the merge",
        lambda: Stage(_topology(UNMERGED), ("reorder", "merge", "window"), streams=["default"]),
        raw,
        stamped_from=4,
        several_operators=True,
    ),
    Case(
        "stage, windows behind three lanes",
        lambda: Stage(_topology(UNMERGED), ("window",), lanes=3, streams=["default"]),
        aligned,
        stamped_from=1,
        replays=False,
        aligned=True,
        reorders=False,
        several_operators=True,
    ),
    Case(
        "stage, two streams",
        lambda: Stage(_topology(), ("reorder", "merge"), streams=["even", "odd"]),
        two_streams,
        stamped_from=4,
        several_operators=True,
    ),
    Case(
        "stage, reorder alone",
        lambda: Stage(_topology(), ("reorder",), streams=["default"]),
        raw,
        stamped_from=4,
        several_operators=True,
    ),
    Case(
        "stage, merge behind three lanes",
        lambda: Stage(_topology(), ("merge",), lanes=3, streams=["default"]),
        aligned,
        stamped_from=1,
        replays=False,
        aligned=True,
        reorders=False,
        several_operators=True,
    ),
]
