"""Measure how early windows close at a given accuracy target, on ProbSlack's streams.

The streams are those of `benchmarks.workloads.windows`, 100 000 events each, with tumbling windows
of f ms. `benchmarks.closing` explains the columns. Waits are means over the seeds. Error, worst
prefix and worst stretch are the largest values of all seeds. All strategies use the same streams.

* `kinds`: every kind at f = 30, delta = 0.1. Windows close as early as the target allows (as in the
  paper, with waits below 0), or never before their end (as in the service).
* `delta` (figure 8) and `frequency` (figure 7): the kind BB over delta and over f, the latter in
  both ways.
* `all`: every kind and f together, by delta (figure 6 has 0.3).

With ten seeds, `all` takes four hours and the rest an hour.

Decisions are made at instants and include all arrivals of the instant. BL-AD closes at the mean
delay to the ns, so up to 1 ms before a strategy with whole ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, NamedTuple

from benchmarks import harness
from benchmarks.closing import (
    EVENT_DRIVEN,
    HEEDLESS,
    ORACLE,
    STRATEGIES,
    Closed,
    judge,
    judge_oracle,
    run,
)
from benchmarks.harness import Asked, Columns, Tables, make_table, mean
from benchmarks.tables import Table, format_ms, format_share
from benchmarks.workloads.laws import MS
from benchmarks.workloads.windows import CHANGING, STATIC, Stream, stream

DELTAS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPARSE_DELTAS: Final = (0.1, 0.3, 0.5, 0.9)
FREQUENCIES_MS: Final = (5, 10, 15, 20, 25, 30, 35, 40)
NO_WAIT_NS: Final = 1_000
KEPT_STREAMS: Final = 16
KEPT_RUNS: Final = 64
"""The number of cached runs of strategies that do not depend on delta; one serves every delta."""

Runs = list[Closed]


class World(NamedTuple):
    """Streams of one kind, with windows of `f_ms`, which may close before their end if `early`."""

    kind: str
    events: int
    seeds: int
    f_ms: int = 30
    delta: float = 0.1
    early: bool = True


@lru_cache(KEPT_STREAMS)
def draw(kind: str, seed: int, events: int) -> Stream:
    return stream(kind, seed, events)


@lru_cache(KEPT_RUNS)
def find_closings(name: str, world: World, seed: int) -> dict[int, int]:
    made = STRATEGIES[name](world.delta)
    arrivals = draw(world.kind, seed, world.events)
    return run(arrivals, made, world.f_ms * MS, early=world.early)


def measure(name: str, world: World) -> Runs:
    """Return the runs of a strategy, one for each seed."""
    is_heedless = name in HEEDLESS
    about = world._replace(delta=0.0, seeds=0) if is_heedless else world
    take = find_closings if is_heedless else find_closings.__wrapped__
    return [
        judge(
            draw(world.kind, seed, world.events),
            take(name, about, seed),
            world.f_ms * MS,
            world.delta,
        )
        for seed in range(1, world.seeds + 1)
    ]


def compare(world: World) -> dict[str, Runs]:
    """Return the runs of all strategies and the Oracle, with `way` set."""
    found = {name: measure(name, world) for name in STRATEGIES}
    every_ns = world.f_ms * MS
    found[ORACLE] = [
        judge_oracle(
            draw(world.kind, seed, world.events),
            every_ns,
            world.delta,
            one.windows,
            early=world.early,
        )
        for seed, one in enumerate(found[EVENT_DRIVEN], start=1)
    ]
    return {
        name: [
            replace(one, way=(ed.wait_ns - one.wait_ns) / (ed.wait_ns - top.wait_ns))
            for one, ed, top in zip(runs, found[EVENT_DRIVEN], found[ORACLE], strict=True)
        ]
        for name, runs in found.items()
    }


def _wait_ns(runs: Runs) -> float:
    return mean(one.wait_ns for one in runs)


def _ratio(runs: Runs, event_driven: Runs) -> str:
    """Return the mean wait as a fraction of event-driven's; `none` if it is about 0 or below."""
    waited_ns = _wait_ns(runs)
    return "none" if waited_ns < NO_WAIT_NS else f"1/{_wait_ns(event_driven) / waited_ns:.1f}"


COLUMNS: Final[Columns] = {
    "mean error %": lambda runs, _: f"{100 * mean(one.error for one in runs):.1f}",
    "error %": lambda runs, _: format_share(max(one.error for one in runs), 1),
    "worst prefix - delta, %": lambda runs, _: f"{100 * max(one.worst for one in runs):+.2f}",
    "broken": lambda runs, _: f"{sum(one.settled > 0 for one in runs)} of {len(runs)}",
    "worst 1000 %": lambda runs, _: f"{100 * max(one.worst_stretch for one in runs):.1f}",
    "wait ms": lambda runs, _: format_ms(_wait_ns(runs)),
    "least": lambda runs, _: format_ms(min(one.wait_ns for one in runs)),
    "most": lambda runs, _: format_ms(max(one.wait_ns for one in runs)),
    "of event-driven": _ratio,
    "way to Oracle %": lambda runs, _: f"{100 * mean(one.way for one in runs):.1f}",
}


def table(worlds: Sequence[World]) -> Table:
    """Return the table of one world, or of several together."""
    found: dict[str, Runs] = {}
    for world in worlds:
        for name, runs in compare(world).items():
            found.setdefault(name, []).extend(runs)
    return make_table(title(worlds), found, COLUMNS)


def title(worlds: Sequence[World]) -> str:
    kinds, fs = (
        _join_distinct(one.kind for one in worlds),
        _join_distinct(f"{one.f_ms}" for one in worlds),
    )
    of = worlds[0]
    early = "" if of.early else ", never early"
    size = f"{of.events} events, {of.seeds} seed{'s' * (of.seeds > 1)}"
    return f"{kinds}: f = {fs} ms, delta = {of.delta:g}{early}, {size}"


def _join_distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def tables(asked: Asked) -> Tables:
    """Measure error and wait of closing windows by every waiting strategy."""
    size = (100_000, 10) if asked.full else (10_000, 1)
    bb = World("BB", *size)
    for kind in (*STATIC, *CHANGING):
        for early in (True, False)[: 2 if asked.full else 1]:
            yield f"kinds: {kind}", partial(table, [World(kind, *size, early=early)])
    if not asked.full:
        return
    for delta in DELTAS:
        yield "delta", partial(table, [bb._replace(delta=delta)])
    for early in (True, False):
        for f_ms in FREQUENCIES_MS:
            yield "frequency", partial(table, [bb._replace(f_ms=f_ms, early=early)])
    for delta in SPARSE_DELTAS:
        every = [
            World(kind, *size, f_ms=f_ms, delta=delta) for kind in STATIC for f_ms in FREQUENCIES_MS
        ]
        yield "all", partial(table, every)


command = harness.command(tables)
