"""Answers of stages with any number of sources, and a server of their views."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from random import Random
from threading import Event, Thread
from typing import Any, Final

from prometheus_client import CollectorRegistry

from agents.watch.location import explain_event
from agents.watch.page.serving import Page
from agents.watch.page.view import View, build_view
from agents.watch.port.http import Health, HttpServer
from agents.watch.port.question import Question
from agents.watch.unhealthy import EXPLAINED, UnhealthySources
from topology.base.outcome import Gap
from topology.order.clock.operator import MAX_LISTED

LATE: Final = 3
"""Number of late events of a source."""

S = 1_000_000_000
NOW_NS = 1_700_000_000 * S
MERGE = {"sources": 0, "idle": 0, "catching_up": 0, "blocked": 0, "queued": 0, "waits_for": []}
METRICS = """\
# TYPE inorder_records_in_total counter
inorder_records_in_total{{stage="reorder",stream="default",partition="0"}} {read}
# TYPE inorder_records_late_total counter
inorder_records_late_total{{stage="reorder",stream="default",partition="0",reason="passed"}} 3.0
inorder_records_late_total{{stage="reorder",stream="default",partition="1",reason="passed"}} 4.0
# TYPE inorder_results_total counter
inorder_results_total{{stage="window",query="counts",op="emit",final="true"}} 10.0
inorder_results_total{{stage="window",query="counts",op="emit",final="false"}} 5.0
inorder_results_total{{stage="window",query="counts",op="update",final="true"}} 2.0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.0
"""


def partitions(sources: int, waiting: int) -> list[dict[str, Any]]:
    """Return one partition of each stage.

    Each of the first `waiting` sources has a gap, and the first source has had its gap for longest.
    All sources are late (`troubles`), in REORDER and in MERGE.
    """
    names = names_of(sources)
    hole = {"epoch": 0, "held": 2, "reason": "hole", "missing": [7, 8], "deadline": NOW_NS + S}
    holes = [
        {**hole, "source": name, "since": NOW_NS - S + number}
        for number, name in enumerate(names[:waiting])
    ]
    clocks = [
        {"source": name, "state": "synced", "offset_ns": 5, "error_ns": number, "skew_ppb": None}
        for number, name in enumerate(names)
    ][-MAX_LISTED:]
    states = {"synced": sources, "stale": 0, "unsynced": 0, "suspect": 0, "broken": 0}
    reorder = {"sources": sources, "waiting": holes}
    kept = {"target_ppm": 990_000, "achieved_ppm": 970_000, "wait_mean_ns": 2 * S}
    operators: dict[str, dict[str, Any]] = {
        "reorder": {"reorder": reorder, "clock": {**states, "clocks": clocks}},
        "merge": {"merge": {**MERGE, "sources": sources, "blocked": waiting, "watermark_ns": 7}},
        "window": {"window": {"counts": kept}},
    }
    return [
        {
            "stage": stage,
            "topic": f"before-{stage}",
            "partition": 0,
            "now": NOW_NS,
            "next_offset": 9,
            "high_watermark": 9,
            "held": 0,
            "late": [],
            "unmet": {},
            "deaths": {"read": 0, "reasons": {}},
            "unhealthy": [] if stage == "window" else troubles(sources),
            "streams": {"default": operators[stage]},
        }
        for stage in operators
    ]


@cache
def troubles(sources: int) -> list[dict[str, Any]]:
    """Return the table of sources that are late `LATE` times, each with as many gaps of one number.

    A worst source, if there is one, is late ten times as often, and its gaps are long.
    """
    worst = worst_of(sources)
    late = [name for name in names_of(sources) for _ in range(LATE * (10 if name == worst else 1))]
    Random(sources).shuffle(late)
    unhealthy = UnhealthySources("")
    unhealthy.note_late(("default", name) for name in late)
    unhealthy.note_reports(
        [Gap(9, "default", name, 0, 1, 1, "timeout", 1) for name in late if name != worst]
        + [Gap(9, "default", worst, 0, 1, LATE * 10, "timeout", 1)] * bool(worst)
    )
    return unhealthy.explain(EXPLAINED)


def names_of(sources: int) -> list[str]:
    return [f"press-{number}" for number in range(sources)]


def worst_of(sources: int) -> str:
    """Return the worst source; there is none among fewer than three."""
    return f"press-{sources - 2}" if sources > 2 else ""


LATE_ONE: Final = {
    "stream": "default",
    "source": "press-5",
    "epoch": 2,
    "first": 17,
    "last": 17,
    "what": "late",
    "reason": "gap",
    "at_ns": 10**18,
    "by_ns": 80_000_000,
}
LINE: Final = {
    "at_ns": 10**18,
    "level": "error",
    "text": "events.raw/0: the broker is silent",
}
DEAD: Final = """\
# TYPE inorder_records_dead_total counter
inorder_records_dead_total{stage="reorder",stream="",partition="0",reason="source_missing"} 3.0
"""


def looked(
    sources: int, waiting: int, deaths: Mapping[str, Any] | None = None, *metrics: str
) -> Callable[[], Awaitable[View]]:
    """Return a look that finds 300 more events each time, unless there are no sources."""
    parts = partitions(sources, waiting)
    parts[0]["late"] = [LATE_ONE] * bool(sources)
    parts[0]["deaths"] = deaths or parts[0]["deaths"]
    read = 0

    async def look() -> View:
        nonlocal read
        read += 300 * bool(sources)
        return build_view(
            healthy(), parts, [METRICS.format(read=read), *metrics], {"reorder": [LINE]}
        )

    return look


def healthy() -> dict[str, Any]:
    return {path: {"ok": True, "reasons": []} for path in ("live", "ready")}


async def located(asked: Question) -> Any:
    """Answer for a partition with REORDER alone about an event that has not arrived."""
    fact = {
        "stage": "reorder",
        "topic": "before-reorder",
        "partition": 0,
        "now": NOW_NS,
        "operators": ["reorder", "clock"],
        "lag": 0,
        "alignment": None,
        "decided": [],
        "streams": {"default": {"reorder": {"where": "not_come", "epoch": 0, "highest": 3}}},
    }
    return explain_event(asked, [fact])


def server(look: Callable[[], Awaitable[View]], token: str | None = None) -> HttpServer:
    fine = Health(ok=True)
    return HttpServer(
        registry=CollectorRegistry(),
        live=lambda: fine,
        ready=lambda: fine,
        explain=dict,
        page=Page(look, lambda: "streams: {}\n"),
        token=token,
        event=located,
    )


@contextmanager
def up(look: Callable[[], Awaitable[View]], token: str | None = None) -> Iterator[str]:
    """Run a server in its own thread, and yield its address."""
    told: list[str] = []
    known, ended = Event(), Event()

    async def serve() -> None:
        serves = server(look, token)
        told.append("{}:{}".format(*await serves.start()))
        known.set()
        await asyncio.to_thread(ended.wait)
        await serves.stop()

    thread = Thread(target=lambda: asyncio.run(serve()), name="page", daemon=True)
    thread.start()
    assert known.wait(10)
    try:
        yield told[0]
    finally:
        ended.set()
        thread.join(10)
