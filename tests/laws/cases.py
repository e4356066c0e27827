"""Each operator in many settings, with the streams on which it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from benchmarks.published.clock import RoundTripClock
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.merge import PacedMerge
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.reorder import PacedReorder
from tests.kit.chains import chained
from tests.kit.k_slack import KSlack, time_buffer
from tests.kit.queries import Output, quality_of, window_query
from tests.kit.topologies import in_code
from tests.laws.streams import MS, START, raw
from tests.laws.streams_between import (
    MAX_WAIT,
    aligned,
    clock_of,
    falling,
    headerless,
    marked,
    merge_of,
    merged,
    paused,
    reorder_of,
    sequenced,
    set_back,
    two_streams,
    written_again,
)
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.policy import SlackPolicy
from topology.answer.waiting.risk import RiskSlack
from topology.answer.waiting.tail import OwnTail
from topology.base.event import Event
from topology.base.operator import Operator
from topology.base.sample import Declared, Sample
from topology.config import ClockConfig, MergeConfig
from topology.order.clock.drift_table import DriftTable
from topology.order.clock.operator import Clock
from topology.order.merge.operator import Merge
from topology.queries.window.aggregates.built_in import BUILT_IN, RANKED, TIME_AVG
from topology.queries.window.operator import Windows
from topology.queries.window.settings import EmptyConfig
from topology.stage.alignment import Alignment
from topology.stage.chain import Chain
from topology.stage.lanes import lanes_of
from topology.stage.stage import Stage

NEVER_STAMPED = 99


@dataclass(frozen=True)
class Case:
    """An operator with its settings and its stream.

    `stamped_from` is the place in the chain from which a buffered event keeps its corrected
    timestamp. `retains`: the operator keeps events that it has passed on. `replays`: feeding the
    same input again gives nothing new. That is not so if the table of sources is too small to
    remember them, or if the operator remembers no events. `aligned`: the inputs are upstream
    partitions. `reorders`: the output has another order than the input. `several_operators`: the
    case is a chain. A filter after MERGE takes the stream `merged`, and neither replays nor
    reorders.
    """

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
    retains: bool = False

    def __repr__(self) -> str:
        return self.name


# -- the operators ---------------------------------------------------------------------------------


def measured_clock(
    unsynced: Any, max_sources: int = 100, made: Callable[..., Clock] = Clock
) -> Clock:
    """Return a clock with rounds for s0 (right, then set back), s1 (too few), s2 (a declared
    offset).
    """
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
        activation_ns=20 * MS,
        jump_min_ns=30 * MS,
        broker_slack_ns=10 * MS,
        max_sources=max_sources,
    )
    return made(config, table)


def _chain(max_sources: int) -> Chain:
    merge = Merge("default", MergeConfig(max_wait_ns=50 * MS, heartbeat_ns=0))
    return chained(("reorder", reorder_of()), ("clock", clock_of(max_sources)), ("merge", merge))


@cache
def _topology(more: str = "") -> Any:
    text = f"""
streams:
  even: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100}}, merge: {{max_wait: {MAX_WAIT}}}}}
  odd:
    reorder: {{max_wait: {MAX_WAIT}, max_jump: 100, late: side}}
    experimental: {{merge: thesis}}
  default: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100}}, merge: {{max_wait: {MAX_WAIT}}}}}
heartbeat: 20ms
{more}"""
    return in_code(text)


def _stage(*operators: str, more: str = "", streams: str = "default", **how: Any) -> Stage:
    return Stage(_topology(more), operators, streams=streams.split(), **how)


UNMERGED = """\
stages: [reorder, merge+window]
queries:
  q: {stream: default, window: tumbling 20ms, aggregate: {n: count()}, answer: speculate,
      quality: {accuracy: 70%, max_wait: 40ms}}
"""


def _reorder_case(name: str, stream: Callable[[int], list[Event]] = raw, **settings: Any) -> Case:
    return Case(
        f"reorder, {name}",
        lambda: reorder_of(**settings),
        stream,
        replays="max_sources" not in settings and "gap_ranges" not in settings,
        max_held=settings.get("max_held_total", 1 << 62),
        max_held_per_source=settings.get("max_held", 1 << 62),
        max_sources=settings.get("max_sources", 1 << 62),
    )


def _clock_case(name: str, make: Callable[[], Clock], **more: Any) -> Case:
    return Case(name, make, sequenced, replays=False, reorders=False, **more)


def _behind_lanes(name: str, make: Callable[[], Operator], **more: Any) -> Case:
    return Case(name, make, aligned, replays=False, aligned=True, reorders=False, **more)


def stage_case(
    name: str,
    make: Callable[[], Operator],
    stream: Callable[[int], list[Event]] = raw,
    **more: Any,
) -> Case:
    """Return the case of several operators, of which the first reads a topic."""
    return Case(name, make, stream, stamped_from=4, several_operators=True, **more)


def _merge_case(
    name: str, stream: Callable[[int], list[Event]] = sequenced, **settings: Any
) -> Case:
    return Case(
        f"merge, {name}",
        lambda: merge_of(**settings),
        stream,
        stamped_from=1,
        replays="max_sources" not in settings,
        max_held=settings.get("max_queued", 1 << 62),
        reorders=False,
    )


def _by_time_case(name: str, policy: Callable[[], SlackPolicy], **settings: Any) -> Case:
    return Case(
        f"reorder by time, {name}",
        lambda: time_buffer(policy(), **settings),
        raw,
        max_held=settings.get("max_held", 1 << 62),
        reorders=False,
    )


_OUTPUTS = tuple(
    Output(
        function,
        function,
        ("v",) if function != "count" else (),
        500_000,
        ("v",) if function in RANKED else (),
    )
    for function in sorted(BUILT_IN)
    if function != TIME_AVG
)
_FILLED: dict[str, Any] = {
    "outputs": (*_OUTPUTS[:2], Output("mean", TIME_AVG, ("v",)), Output("last", "last", ("v",))),
    "hold_ns": 25 * MS,
}


_PROMISE: dict[str, Any] = {"quality": quality_of(700_000, 40 * MS, idle_ns=90 * MS)}


def _window_case(
    name: str, kind: str, ms: int = 0, every_ms: int = 0, ordered: bool = True, **settings: Any
) -> Case:
    config = window_query(
        "q",
        kind,
        settings.pop("outputs", _OUTPUTS),
        size_ns=ms * MS,
        every_ns=(every_ms or ms) * MS,
        **{
            "key": ("key",),
            "changes_for_ns": 100 * MS,
            "new_source_allowance_ns": 30 * MS,
            **settings,
        },
    )
    return Case(
        f"window, {name}",
        lambda: Windows("default", config, ordered=ordered),
        merged if ordered else marked,
        replays=False,
        reorders=False,
    )


CASES = [
    _reorder_case("default"),
    _reorder_case("fixed", rule="fixed"),
    _reorder_case("thesis", made=PacedReorder),
    _reorder_case("rfc", made=partial(PacedReorder, is_rfc=True, by_event_clock=True)),
    _reorder_case("start zero", start="zero", late="drop"),
    _reorder_case("start at 5", start=5, late="side"),
    _reorder_case("epochs ignored", infer_restart=True),
    _reorder_case("no restart inferred", infer_restart=False),
    _reorder_case("small counter", lambda seed: raw(seed, modulus=256), seq_bits=8),
    _reorder_case("small counter, tame", headerless, seq_bits=8),
    _reorder_case(
        "counter that skips 0",
        lambda seed: raw(seed, modulus=255, first=1),
        seq_range="1 to 255",
    ),
    _reorder_case(
        "decimal counter", lambda seed: raw(seed, modulus=100, first=900), seq_range="900 to 999"
    ),
    _reorder_case("few held", max_held=3, max_held_total=5),
    _reorder_case("two held in all", max_held=3, max_held_total=2),
    _reorder_case("one source known", max_sources=1),
    _reorder_case("short memory", gap_ranges=1, gap_memory="20ms"),
    _reorder_case("no wait", max_wait="0ms", infer_restart=False),
    _clock_case("clock", clock_of),
    _clock_case("clock, two sources known", lambda: clock_of(2, 30 * MS), max_sources=2),
    *(
        _clock_case(f"clock, {unsynced}", partial(measured_clock, unsynced))
        for unsynced in ("trust", "estimate", "reject")
    ),
    _clock_case(
        "clock, estimate, two sources known", lambda: measured_clock("estimate", 2), max_sources=2
    ),
    _clock_case("clock, thesis", lambda: measured_clock("estimate", made=RoundTripClock)),
    Case(
        "clock, estimate, set back",
        partial(measured_clock, "estimate"),
        set_back,
        replays=False,
        reorders=False,
    ),
    _merge_case("default"),
    _merge_case("thesis", made=PacedMerge),
    _merge_case("thesis without patience", made=PacedMerge, max_wait="0ms"),
    _merge_case("late dropped", late="drop"),
    _merge_case("no wait", max_wait="0ms"),
    _merge_case("two queued", max_queued=2),
    _merge_case("expected sources", expected_sources=["s1", "zz"]),
    _merge_case("two sources known", max_sources=2, expected_sources=["yy", "zz"]),
    _merge_case("written again", written_again),
    _merge_case("written again, few sources", written_again, max_sources=2),
    _merge_case("written again, few queued", written_again, max_queued=4),
    _merge_case("after a pause", paused),
    _merge_case("after a pause, impatient", paused, outage_wait="15ms"),
    _merge_case("after a pause, few queued", paused, max_queued=4),
    _merge_case("misses much", miss_target="10%", idle_after="30ms"),
    _merge_case("set back", set_back),
    _merge_case("set back, declared", set_back, max_set_back_ns=40 * MS),
    _merge_case("set back, two queued", set_back, max_queued=2, late="drop"),
    _by_time_case("fixed", lambda: KSlack(20 * MS, idle_ns=100 * MS)),
    _by_time_case("largest delay", MPKSlack, late="side"),
    _by_time_case("event-driven", lambda: EventDriven(idle_ns=50 * MS), ahead=5 * MS),
    _by_time_case("tail", lambda: OwnTail(50_000, max_wait_ns=50 * MS), max_wait_ns=60 * MS),
    _by_time_case("risk", lambda: RiskSlack(AccuracyBudget(0.1)), max_held=3),
    _window_case("tumbling, early and finals", "tumbling", 20, early_ns=7 * MS, finals=True),
    _window_case("tumbling, all keys", "tumbling", 50, key=None, uncertainty="ignore"),
    _window_case(
        "tumbling, thesis", "tumbling", 20, uncertainty="thesis3", clock={"max_error_ns": 2 * MS}
    ),
    _window_case("few windows", "tumbling", 10, max_windows=3, finals=True),
    _window_case("few unsure", "sliding", 20, 5, max_edge_events=2, max_windows=30),
    _window_case("sliding, uneven", "sliding", 25, 10, early_ns=9 * MS),
    _window_case("local", "tumbling", 20, zone="Europe/Berlin", early_ns=7 * MS, finals=True),
    _window_case("local, sliding", "sliding", 20, 5, zone="Asia/Kolkata", max_windows=30),
    _window_case("local, promised", "tumbling", 20, zone="Europe/Berlin", **_PROMISE),
    _window_case("filled", "tumbling", 10, finals=True, empty=EmptyConfig(), **_FILLED),
    _window_case(
        "filled, few",
        "sliding",
        15,
        10,
        empty=EmptyConfig(value="last", for_ns=60 * MS),
        max_windows=4,
        max_recount=2,
        early_ns=7 * MS,
        **_FILLED,
    ),
    _window_case(
        "filled, promised, unmerged",
        "tumbling",
        10,
        ordered=False,
        empty=EmptyConfig(value="null"),
        **_FILLED,
        **_PROMISE,
    ),
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
        "promised, patient",
        "tumbling",
        20,
        quality=quality_of(700_000, 40 * MS, idle_ns=30 * MS),
    ),
    _behind_lanes("alignment", lambda: Alignment(lanes_of("raw", 3), 1_000)),
    _behind_lanes("alignment, four queued", lambda: Alignment(lanes_of("raw", 3), 4), max_held=4),
    stage_case("chain", lambda: _chain(100)),
    stage_case("chain, clocks forgotten", lambda: _chain(1), replays=False),
    stage_case("stage, fused", lambda: _stage("reorder", "merge")),
    stage_case(
        "stage, fused, windows before the merge",
        lambda: _stage("reorder", "merge", "window", more=UNMERGED),
    ),
    _behind_lanes(
        "stage, windows before the merge, behind three lanes",
        lambda: _stage("merge", "window", more=UNMERGED, lanes=lanes_of("raw", 3)),
        stamped_from=1,
        several_operators=True,
    ),
    stage_case(
        "stage, two streams", lambda: _stage("reorder", "merge", streams="even odd"), two_streams
    ),
    stage_case("stage, set back", lambda: _stage("reorder", "merge"), falling, reorders=False),
    stage_case("stage, reorder alone", lambda: _stage("reorder")),
    _behind_lanes(
        "stage, merge behind three lanes",
        lambda: _stage("merge", lanes=lanes_of("raw", 3)),
        stamped_from=1,
        several_operators=True,
    ),
]
