"""How fast windows are alone, and what an open one costs.

One query (count, sum, avg and max of a field, by key) over one stream in order, for 1 to
1,000,000 keys; payloads are decoded already, as in a replay. `events/s` with all windows of
the stream told and forgotten on the way, `windows/s` while they are told; both of CPU time,
the better of `ROUNDS`, with the worker's settings of the garbage collector. `bytes` is what the
interpreter's allocator gives out per open window, all aggregates of the query and its share of the
tables included.

Then the kinds beside each other at 1 000 keys, and windows whose events are not sure; last the
whole stage beside Bytewax (`benchmarks.window_stage`; `--stage` for that alone).
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from agents.process.garbage import GC_THRESHOLDS
from benchmarks import window_stage
from benchmarks.tables import Page, Table, count, thousands
from topology.model.event import Event
from topology.window import Output, WindowConfig
from topology.window.operator import Windows

NS_PER_S: Final = 1_000_000_000
START_NS: Final = 1_700_000_000 * NS_PER_S
ROUNDS: Final = 2
BATCH: Final = 1_000
QUICK_EVENTS: Final = 40_000
FULL_EVENTS: Final = 400_000
QUICK_KEYS: Final = (1, 100, 20_000)
FULL_KEYS: Final = (1, 100, 10_000, 20_000, 100_000, 1_000_000)
RATE_HZ: Final = 10_000

OUTPUTS: Final = (
    Output("n", "count"),
    Output("sum", "sum", ("v",)),
    Output("avg", "avg", ("v",)),
    Output("max", "max", ("v",)),
)
KINDS: Final[dict[str, dict[str, Any]]] = {
    "tumbling 1s": {"kind": "tumbling", "size_ns": NS_PER_S, "every_ns": NS_PER_S},
    "sliding 1s every 500ms": {
        "kind": "sliding",
        "size_ns": NS_PER_S,
        "every_ns": NS_PER_S // 2,
    },
    "sliding 1s every 50ms": {"kind": "sliding", "size_ns": NS_PER_S, "every_ns": NS_PER_S // 20},
    "session 100ms": {"kind": "session", "size_ns": NS_PER_S // 10},
    "count 10": {"kind": "count", "events": 10},
}


def config_of(kind: str, **settings: Any) -> WindowConfig:
    return WindowConfig("speed", outputs=OUTPUTS, key=("k",), **{**KINDS[kind], **settings})


def stream(events: int, keys: int, error_ns: int = 0) -> list[Event]:
    """Round after round over the keys, `RATE_HZ` events a second of eight sources."""
    made = []
    for i in range(events):
        ref_ns = START_NS + i * NS_PER_S // RATE_HZ
        event = Event("default", f"s{i % 8}", 0, i // 8, ref_ns, ref_ns, i)
        event.value = {"k": (i * 7_919) % keys, "v": (i * 31 % 1_000) / 8}
        event.error_ns = error_ns
        made.append(event)
    return made


def emitted_per_second(config: WindowConfig, events: Sequence[Event]) -> tuple[float, float, int]:
    """Events per second, windows per second of telling at the end alone, results in all."""
    batches = [events[i : i + BATCH] for i in range(0, len(events), BATCH)]
    best, best_end, results = float("inf"), float("inf"), 0
    at_end = 0
    for _ in range(ROUNDS):
        windows = Windows("default", config)
        results = 0
        gc.collect()
        gc.freeze()  # the input is the benchmark's own
        begun = time.process_time()
        for batch in batches:
            results += len(windows.on_batch(batch, batch[-1].at_ns).results)
        middle = time.process_time()
        at_end = len(windows.on_end(events[-1].at_ns).results)
        ended = time.process_time()
        gc.unfreeze()
        best = min(best, ended - begun)
        best_end = min(best_end, ended - middle)
    return len(events) / best, at_end / max(best_end, 1e-9), results + at_end


def bytes_per_window(config: WindowConfig, keys: int) -> float:
    """With one window of each key open, of five events or as many as 200,000 allow."""
    events = stream(min(5 * keys, max(keys, 200_000)), keys)
    for event in events:
        event.ref_time_ns = event.at_ns = START_NS
    windows = Windows("default", config)
    gc.collect()
    tracemalloc.start()
    windows.on_batch(events, START_NS)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / keys


def by_keys(events: int, keys: Sequence[int]) -> Table:
    table = Table(
        f"tumbling 1s, {count(events)} events or as many as there are keys",
        ("keys", "events/s", "windows/s at the end", "results", "bytes"),
    )
    for number in keys:
        config = config_of("tumbling 1s")
        rate, ends, results = emitted_per_second(config, stream(max(events, number), number))
        used = bytes_per_window(config, number)
        table.add(count(number), thousands(rate), thousands(ends), count(results), count(used))
    return table


def by_kind(events: int) -> Table:
    table = Table(
        "kinds of windows, 1 000 keys, each source right within 0 or 5 ms",
        ("window", "events/s", "results", "events/s, 5 ms", "results"),
    )
    sure, unsure = stream(events, 1_000), stream(events, 1_000, 5_000_000)
    for kind in KINDS:
        rate, _, results = emitted_per_second(config_of(kind), sure)
        rate_unsure, _, results_unsure = emitted_per_second(config_of(kind), unsure)
        cells = thousands(rate), count(results), thousands(rate_unsure), count(results_unsure)
        table.add(kind, *cells)
    return table


@click.command("windows")
@click.option("--full", is_flag=True, help="Up to 1,000,000 keys, ten times the events.")
@click.option("--events", type=click.IntRange(1), help="So many events.")
@click.option("--stage", is_flag=True, help="The whole stage beside Bytewax, and nothing else.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(full: bool, events: int | None, stage: bool, markdown: Path | None) -> None:
    """Events and windows per second, and bytes per open window."""
    gc.set_threshold(*GC_THRESHOLDS)
    page = Page(markdown)
    number = events or (FULL_EVENTS if full else QUICK_EVENTS)
    if not stage:
        page.table(by_keys(number, FULL_KEYS if full else QUICK_KEYS))
        page.table(by_kind(number))
    page.table(window_stage.measured(page, number))
