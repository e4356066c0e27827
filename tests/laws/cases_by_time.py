"""REORDER by time in many settings, alone and in the stage, for the laws of all operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any

from benchmarks.published.mp_k_slack import MPKSlack
from tests.kit.k_slack import KSlack
from tests.kit.topologies import in_code
from tests.laws.cases import UNMERGED, Case, stage_case
from tests.laws.streams import MS, raw
from tests.laws.streams_between import MAX_WAIT, two_streams
from topology.answer.waiting.policy import SlackPolicy
from topology.base.event import DEAD, Event
from topology.config import ReorderConfig
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.mixed import MixedReorder
from topology.order.reorder.operator import Reorder
from topology.records.checker import digest_of_id
from topology.stage.stage import Stage


def fixed(wait_ms: int) -> Callable[[], SlackPolicy]:
    """Return a factory of waits of a given length."""
    return partial(KSlack, wait_ms * MS, idle_ns=0)


def _sources_case(
    name: str,
    max_ahead_ns: int | None = None,
    policy: Callable[[], SlackPolicy] | None = None,
    events: Callable[[int], list[Event]] = raw,
    **settings: Any,
) -> Case:
    config = ReorderConfig(**{"rule": "time", "max_wait": MAX_WAIT, **settings})
    return Case(
        f"sources by time, {name}",
        lambda: ReorderByTime("default", config, policy, max_ahead_ns),
        events,
        replays="max_sources" not in settings,
        max_held=settings.get("max_held_total", 1 << 62),
        max_held_per_source=settings.get("max_held", 1 << 62),
        max_sources=settings.get("max_sources", 1 << 62),
    )


def with_ids(seed: int) -> list[Event]:
    """Return the events of `raw`, but most of them have an id, and some share one."""
    rng = Random(seed)
    events = raw(seed)
    for event in events:
        if rng.random() < 0.9:
            event.digest = digest_of_id(event.source, f"{event.seq % 40}")
    return events


def mixed(seed: int, sources: int = 4) -> list[Event]:
    """Return the events of `raw`, but some sources have no numbers.

    A few events differ from the others of their source in that. An event without a number has a
    `seq` below 0.
    """
    rng = Random(seed)
    events = raw(seed, sources=sources)
    for event in events:
        without_seq = (int(event.source[1:]) % 2 == 1) != (rng.random() < 0.03)
        if without_seq and event.kind != DEAD:
            event.seq = ~event.offset
    return events


def mixed_reorder(policy: Callable[[], SlackPolicy] | None = None, **settings: Any) -> MixedReorder:
    config = ReorderConfig(
        **{"without_seq": "by_time", "max_wait": MAX_WAIT, "max_jump": 100, **settings}
    )
    timed = ReorderByTime("default", config, policy)
    return MixedReorder(Reorder("default", config), timed)


def _mixed_case(
    name: str, policy: Callable[[], SlackPolicy] | None = None, **settings: Any
) -> Case:
    return Case(
        f"sources with numbers and without, {name}",
        lambda: mixed_reorder(policy, **settings),
        mixed,
        replays="max_sources" not in settings,
        max_held=2 * settings.get("max_held_total", 1 << 61),
        max_held_per_source=settings.get("max_held", 1 << 62),
        max_sources=2 * settings.get("max_sources", 1 << 61),
    )


@cache
def _topology(reorder: str, experimental: str, more: str) -> Any:
    """Return a topology with the streams `default` and `odd` by time, and one with numbers."""
    timed = (
        f"{{reorder: {{rule: time, max_wait: {MAX_WAIT}{reorder}}},"
        f" merge: {{max_wait: {MAX_WAIT}}}, experimental: {{{experimental}}}}}"
    )
    text = f"""
streams:
  even: {{reorder: {{max_wait: {MAX_WAIT}, max_jump: 100}}, merge: {{max_wait: {MAX_WAIT}}}}}
  odd: {timed}
  default: {timed}
heartbeat: 20ms
{more}"""
    return in_code(text)


_MIXED = in_code(
    f"streams: {{default: {{reorder: {{without_seq: by_time, max_wait: {MAX_WAIT}}},"
    f" merge: {{max_wait: {MAX_WAIT}}}}}}}\nheartbeat: 20ms\n"
)


def _stage(
    *operators: str,
    reorder: str = "",
    experimental: str = "",
    more: str = "",
    streams: str = "default",
) -> Stage:
    return Stage(_topology(reorder, experimental, more), operators, streams=streams.split())


CASES = [
    _sources_case("tail", miss_target="20%"),
    _sources_case("tail, strict", late="side", max_ahead_ns=5 * MS),
    _sources_case("fixed", policy=fixed(20), late="drop"),
    _sources_case("no wait", policy=fixed(0)),
    _sources_case("largest lateness", policy=partial(MPKSlack, measure="arrival", idle_ns=0)),
    _sources_case("few held", max_held=3, max_held_total=5),
    _sources_case("two held in all", max_held_total=2),
    _sources_case("one source known", policy=fixed(3), max_sources=1),
    _sources_case("ids", events=with_ids, id_memory="80ms"),
    _sources_case("few ids", policy=fixed(20), events=with_ids, max_ids=9),
    _mixed_case("tail", miss_target="20%"),
    _mixed_case("fixed", fixed(20), late="drop"),
    _mixed_case("few held", max_held=3, max_held_total=5),
    _mixed_case("one of each known", fixed(3), max_sources=1),
    stage_case(
        "stage, fused, sources with numbers and without",
        lambda: Stage(_MIXED, ("reorder", "merge"), streams=["default"]),
        mixed,
    ),
    stage_case(
        "stage, fused, by time", lambda: _stage("reorder", "merge", reorder=", miss_target: 20%")
    ),
    stage_case(
        "stage, by time, windows before the merge",
        lambda: _stage("reorder", "merge", "window", more=UNMERGED),
    ),
    stage_case(
        "stage, one stream by number, one by time",
        lambda: _stage(
            "reorder",
            "merge",
            reorder=", late: side",
            experimental="reorder: mp",
            streams="even odd",
        ),
        two_streams,
    ),
    stage_case(
        "stage, reorder alone, by time", lambda: _stage("reorder", reorder=", miss_target: 10%")
    ),
]
