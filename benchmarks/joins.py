"""How fast joins are alone, and what an event that waits for a partner costs.

Two streams in order, `RATE_HZ` events a second together, joined by key with one value of each
side; payloads are decoded already, as in a replay, and a watermark of each stream comes every
10 ms. `events/s` of CPU time, the better of `ROUNDS`. `bytes` is what the interpreter's allocator
gives out for an event that is kept, the event itself not included.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import click

from benchmarks.tables import Page, Table, count, thousands
from topology.join.config import FULL, INNER, LEFT, Field, JoinConfig, Side
from topology.join.operator import Join
from topology.join.queries import JoinQueries
from topology.model.event import WATERMARK, Event

MS: Final = 1_000_000
NS_PER_S: Final = 1_000 * MS
START_NS: Final = 1_700_000_000 * NS_PER_S
ROUNDS: Final = 2
BATCH: Final = 1_000
RATE_HZ: Final = 10_000
WATERMARK_EVERY: Final = 100
"""Events: 10 ms."""
QUICK_EVENTS: Final = 20_000
FULL_EVENTS: Final = 100_000
KEYS: Final = (100, 1_000, 10_000)
KEPT: Final = 20_000

SIDES: Final = (Side("a", "here", key=("k",)), Side("b", "there", key=("k",)))
FIELDS: Final = (Field("x", 0, ("v",)), Field("y", 1, ("v",)))
KINDS: Final[dict[str, dict[str, Any]]] = {
    "interval 0s to 100ms": {"kind": "interval", "low_ns": 0, "high_ns": 100 * MS},
    "tumbling 100ms": {"kind": "tumbling", "size_ns": 100 * MS, "every_ns": 100 * MS},
    "sliding 100ms every 20ms": {"kind": "sliding", "size_ns": 100 * MS, "every_ns": 20 * MS},
}


def config_of(kind: str, **settings: Any) -> JoinConfig:
    return JoinConfig("near", SIDES, fields=FIELDS, **{**KINDS[kind], **settings})


def stream(events: int, keys: int, error_ns: int = 0) -> list[Event]:
    """The two streams in turn, keys at random."""
    rng = Random(1)
    made: list[Event] = []
    for i in range(events):
        ref_ns = START_NS + i * NS_PER_S // RATE_HZ
        event = Event(("here", "there")[i % 2], f"s{i % 8}", 0, i // 8, ref_ns, ref_ns, i)
        event.value = {"k": rng.randrange(keys), "v": (i * 31 % 1_000) / 8}
        event.error_ns = error_ns
        made.append(event)
        if i % WATERMARK_EVERY == WATERMARK_EVERY - 1:
            made += [_watermark(name, ref_ns, error_ns) for name in ("here", "there")]
    return made


def _watermark(name: str, ref_ns: int, error_ns: int) -> Event:
    said = Event(name, "", 0, 0, ref_ns, ref_ns, kind=WATERMARK)
    said.complete_ns, said.error_ns = ref_ns, error_ns
    return said


def joined_per_second(config: JoinConfig, events: Sequence[Event]) -> tuple[float, int]:
    """Events per second, and rows in all."""
    best, rows = float("inf"), 0
    for _ in range(ROUNDS):
        operator = JoinQueries([Join(config)], 1)
        rows = 0
        for event in events:
            event.held_by = 0
        gc.collect()
        begun = time.process_time()
        for first in range(0, len(events), BATCH):
            batch = events[first : first + BATCH]
            rows += len(operator.on_batch(batch, batch[-1].at_ns).results)
        rows += len(operator.on_end(events[-1].at_ns).results)
        best = min(best, time.process_time() - begun)
    return len(events) / best, rows


def bytes_per_event(config: JoinConfig) -> float:
    """Memory of events that no watermark lets go, with as many keys as there are events."""
    events = [each for each in stream(KEPT, KEPT) if each.kind != WATERMARK]
    operator = JoinQueries([Join(replace(config, high_ns=3_600 * NS_PER_S))], 1)
    gc.collect()
    tracemalloc.start()
    operator.on_batch(events, events[-1].at_ns)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(list(operator.held()))


def by_outer(events: int) -> Table:
    table = Table(
        f"interval 0s to 100ms, {count(events)} events",
        ("keys", *(f"{outer}: events/s, rows" for outer in (INNER, LEFT, FULL))),
    )
    for keys in KEYS:
        made = stream(events, keys)
        cells = []
        for outer in (INNER, LEFT, FULL):
            rate, rows = joined_per_second(config_of("interval 0s to 100ms", outer=outer), made)
            cells.append(f"{thousands(rate)}, {count(rows)}")
        table.add(count(keys), *cells)
    return table


def by_kind(events: int) -> Table:
    table = Table(
        "left, 1 000 keys; all times sure, or right within 2 ms",
        ("join", "events/s", "rows", "events/s, 2 ms", "rows", "bytes kept an event"),
    )
    sure, unsure = stream(events, 1_000), stream(events, 1_000, 2 * MS)
    for kind in KINDS:
        config = config_of(kind, outer=LEFT)
        rate, rows = joined_per_second(config, sure)
        rate_unsure, rows_unsure = joined_per_second(config, unsure)
        kept = count(bytes_per_event(config)) if config.kind == "interval" else ""
        cells = thousands(rate), count(rows), thousands(rate_unsure), count(rows_unsure)
        table.add(kind, *cells, kept)
    return table


@click.command("joins")
@click.option("--full", is_flag=True, help="Five times the events.")
@click.option("--events", type=click.IntRange(1), help="So many events.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(full: bool, events: int | None, markdown: Path | None) -> None:
    """Events per second through joins, and bytes per event that waits."""
    page = Page(markdown)
    number = events or (FULL_EVENTS if full else QUICK_EVENTS)
    page.table(by_outer(number))
    page.table(by_kind(number))
