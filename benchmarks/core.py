"""How fast the core is alone: REORDER, MERGE, and the fused stage, no Kafka.

Events per second of CPU on `crowd` with no, 1 % and 12 % of the events delayed, told in
batches of 1, 10, 100 and 1000; the median of `ROUNDS` rounds. Events are made outside of
the clock. What the merge is given is what REORDER and CLOCK have let go. Memory is what
the interpreter's allocator gives out, per event that waits behind a hole and per source,
the events themselves apart.

Where a compiled build stands in build/compiled (`make compiled` makes it), or in the
folder named by `--compiled`, the same program runs there too, as a process of its own.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

import topology.model.event
from benchmarks.tables import Page, Table, thousands
from benchmarks.workloads import crowd, to_events
from benchmarks.workloads.rows import Row
from topology.config import Topology, parse
from topology.config.stages import MERGE, REORDER
from topology.flow.registry import CLOCK, chain_of
from topology.flow.stage import Stage
from topology.model.event import Event

ROOT: Final = Path(__file__).absolute().parents[1]
QUICK_EVENTS: Final = 50_000
FULL_EVENTS: Final = 300_000
ROUNDS: Final = 3
BATCHES: Final = (1, 10, 100, 1_000)
DELAYED: Final = (0.0, 0.01, 0.12)
MEMORY_COUNT: Final = 20_000
TIMEOUT_S: Final = 600
TOPOLOGY: Final = "streams: {default: {}}\nstages: [reorder+merge]\n"

Rates = dict[str, float]
"""Events per CPU second by `what/delayed/batch`; bytes by `memory/what`."""


def is_compiled() -> bool:
    return not topology.model.event.__file__.endswith(".py")


def measure(events: int, rounds: int) -> Rates:
    config = parse(TOPOLOGY)
    rates: Rates = {}
    for delayed in DELAYED:
        rows = crowd(events, delayed=delayed).rows
        for batch in BATCHES:
            for what, run in RUNS.items():
                each = [run(config, rows, batch) for _ in range(rounds)]
                rates[f"{what}/{delayed:.0%}/{batch}"] = len(rows) / median(each)
    rates.update(memory(config, min(events, MEMORY_COUNT)))
    return rates


def _stage(config: Topology, rows: Sequence[Row], batch: int) -> float:
    stage = Stage(config, [REORDER, MERGE])
    return _timed(stage.on_batch, cut(to_events(rows), batch))


def _reorder(config: Topology, rows: Sequence[Row], batch: int) -> float:
    operator = chain_of(config, "default", [REORDER]).operator(REORDER)
    return _timed(operator.on_batch, cut(to_events(rows), batch))


def _merge(config: Topology, rows: Sequence[Row], batch: int) -> float:
    chain = chain_of(config, "default", [REORDER, MERGE])
    reorder, clock, merge = (chain.operator(name) for name in (REORDER, CLOCK, MERGE))
    sequenced = []
    for events in cut(to_events(rows), batch):
        step = reorder.on_batch(events, events[-1].at_ns)
        sequenced.append((clock.on_batch(step.released, step.now_ns), step.now_ns))
    given = [(step.released, now_ns) for step, now_ns in sequenced]
    gc.collect()
    began = time.process_time()
    for released, now_ns in given:
        merge.on_batch(released, now_ns)
    return time.process_time() - began


RUNS: Final[dict[str, Callable[[Topology, Sequence[Row], int], float]]] = {
    "reorder": _reorder,
    "merge": _merge,
    "fused stage": _stage,
}


def cut(events: Sequence[Event], batch: int) -> list[Sequence[Event]]:
    return [events[begin : begin + batch] for begin in range(0, len(events), batch)]


def _timed(
    on_batch: Callable[[Sequence[Event], int], Any], cuts: Iterable[Sequence[Event]]
) -> float:
    gc.collect()
    began = time.process_time()
    for events in cuts:
        on_batch(events, events[-1].at_ns)
    return time.process_time() - began


def memory(config: Topology, every: int) -> Rates:
    """Bytes beside the events themselves."""
    first_ns = 1_700_000_000 * 1_000_000_000
    behind_hole = [Row(first_ns, "s", 0, first_ns)]
    behind_hole += [Row(first_ns + at, "s", at, first_ns + at) for at in range(2, every)]
    in_order = [Row(first_ns + at, f"s{at}", 0, first_ns + at) for at in range(every)]
    return {
        "memory/an event held": _grown(config, behind_hole) / every,
        "memory/a source": _grown(config, in_order) / every,
        "memory/an event itself": _of_events(in_order) / every,
    }


def _grown(config: Topology, rows: Sequence[Row]) -> int:
    stage = Stage(config, [REORDER, MERGE])
    events = to_events(rows)
    gc.collect()
    tracemalloc.start()
    for batch in cut(events, 1_000):
        stage.on_batch(batch, batch[-1].at_ns)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown


def _of_events(rows: Sequence[Row]) -> int:
    tracemalloc.start()
    events = to_events(rows)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return grown if events else 0


def elsewhere(folder: Path, events: int, rounds: int) -> Rates:
    """The same in another copy of the tree, compiled."""
    command = [sys.executable, "-m", "benchmarks", "core", "--json"]
    command += ["--events", str(events), "--rounds", str(rounds)]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    if not found["compiled"]:
        raise click.UsageError(f"{folder} holds no compiled build; run `make compiled`")
    rates: Rates = found["rates"]
    return rates


def tables(builds: dict[str, Rates]) -> list[Table]:
    speed = Table(
        "events per CPU second of the core alone",
        ("operator", "build", *(f"{d:.0%}, batch {b}" for d in DELAYED for b in BATCHES)),
    )
    for what in RUNS:
        for build, rates in builds.items():
            cells = (thousands(rates[f"{what}/{d:.0%}/{b}"]) for d in DELAYED for b in BATCHES)
            speed.add(what, build, *cells)
    weight = Table("memory beside the event, bytes", ("per", *builds))
    for name in builds["pure"]:
        if name.startswith("memory/"):
            cells = (f"{rates[name]:.0f}" for rates in builds.values())
            weight.add(name.removeprefix("memory/"), *cells)
    return [speed, weight]


@click.command("core")
@click.option("--full", is_flag=True, help=f"{FULL_EVENTS:,} events instead of fewer.")
@click.option("--events", type=click.IntRange(100))
@click.option("--rounds", type=click.IntRange(1), default=ROUNDS, show_default=True)
@click.option("--compiled", type=click.Path(path_type=Path), help="Default: build/compiled.")
@click.option("--json", "as_json", is_flag=True, help="Only this build, for a program.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the tables here.")
def command(
    full: bool,
    events: int | None,
    rounds: int,
    compiled: Path | None,
    as_json: bool,
    markdown: Path | None,
) -> None:
    """Events per CPU second of the core alone, pure and compiled."""
    length = events or (FULL_EVENTS if full else QUICK_EVENTS)
    if as_json:
        print(json.dumps({"compiled": is_compiled(), "rates": measure(length, rounds)}))
        return
    page = Page(markdown)
    builds = {"pure": measure(length, rounds)}
    place = compiled or ROOT / "build" / "compiled"
    if compiled is not None or any(place.glob("topology/*.so")):
        builds["compiled"] = elsewhere(place, length, rounds)
    else:
        page.say("no compiled build; `make compiled` makes one")
    for table in tables(builds):
        page.table(table)
