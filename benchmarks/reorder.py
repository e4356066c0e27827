"""Measure the order that each timeout rule achieves, and its waiting.

Each set of rows goes through REORDER alone, in this process, once for every setting of every rule.
These are `miss` from 10^-4 to 5 * 10^-2, `fixed` over a grid, and the published rules `thesis` and
`rfc`. The latter run with the arrival clock and with the events' own. `benchmarks.holding` explains
the columns. All settings use the same rows and arrivals, so figures of one table can be compared.
If events travel for many seconds, as in the radio network, the cap and the grid are longer. Only
traces whose numbers really arrive out of order are used.

A rule is better if it leaves less disorder for the same hold, or as much for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from benchmarks import harness
from benchmarks.harness import Asked, Tables, compare_entries
from benchmarks.holding import COLUMNS, count_source_descents, make_event_factory, run
from benchmarks.published.reorder import PacedReorder
from benchmarks.tables import Table, count
from benchmarks.traces import TRACES
from benchmarks.workloads import D1, D2, D3, bursts, lose, loss_storm, rate_steps, regimes, soccer
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.rows import Row
from topology.base.event import NO_EPOCH
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder

MISS_PPM: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
QUICK_DIVISOR: Final = 40
PUBLISHED: Final = ("thesis", "rfc")
CLOCKS: Final = ("arrival", "event")


class Waits(NamedTuple):
    """The waits to try: `cap_ns` is `max_wait` of adaptive rules, `fixed_ms` a grid for `fixed`."""

    cap_ns: int
    fixed_ms: tuple[int, ...]


USUAL: Final = Waits(500 * MS, (1, 2, 5, 10, 20, 50, 100, 200, 500))
RADIO: Final = Waits(60 * S, (50, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000))
RECORDED: Final[Mapping[str, Waits]] = {
    "mesh_sensors/tdma_interference": RADIO,
    "mesh_sensors/shared_high_load": RADIO,
    **dict.fromkeys(("jr_umts/d1", "jr_umts/d2", "jr_umts/d4"), USUAL),
}


def worlds(divisor: int) -> dict[str, Callable[[], Sequence[Row]]]:
    """Return functions that make the rows of each world, by name.

    Synthetic streams are `divisor` times shorter, which changes their tails.
    """
    recipes = [recipe.shorten(divisor) for recipe in (D1, D2, D3)]
    found: dict[str, Callable[[], Sequence[Row]]] = {
        recipe.name: partial(lambda each: soccer(each).rows, recipe) for recipe in recipes
    }
    for name, share in (("D1 - 0.1 %", 0.001), ("D1 - 1 %", 0.01)):
        found[name] = partial(lambda lost: lose(soccer(recipes[0]), lost).rows, share)
    for changing in (regimes, bursts, rate_steps, loss_storm):
        found[changing.__name__] = partial(lambda make: make().rows, changing)
    for name in RECORDED:
        found[name] = partial(lambda trace: [row.row() for row in TRACES[trace]()], name)
    return found


def rules(waits: Waits, step: int = 1) -> Iterator[tuple[str, Callable[[], Reorder]]]:
    """Yield the settings to try with their names, using every `step`-th value of the grids."""
    for ppm in MISS_PPM[::step]:
        name = f"miss {ppm / 1e6:.0e}".replace("e-0", "e-")
        yield name, make_reorder_factory("miss", waits.cap_ns, ppm)
    for wait_ms in waits.fixed_ms[::-step][::-1]:
        yield f"fixed {count(wait_ms)} ms", make_reorder_factory("fixed", wait_ms * MS)
    for rule in PUBLISHED:
        for clock in CLOCKS:
            made = partial(
                PacedReorder,
                "default",
                ReorderConfig(max_wait_ns=waits.cap_ns),
                is_rfc=rule == "rfc",
                by_event_clock=clock == "event",
            )
            yield f"{rule}, {clock} clock", made


def make_reorder_factory(
    rule: Literal["miss", "fixed"], max_wait_ns: int, ppm: int = 1_000
) -> Callable[[], Reorder]:
    config = ReorderConfig(rule=rule, miss_target_ppm=ppm, max_wait_ns=max_wait_ns)
    return partial(Reorder, "default", config)


def measure(name: str, rows: Sequence[Row], step: int = 1) -> Table:
    epoch = NO_EPOCH if name in RECORDED else 0
    entries = {
        rule: partial(lambda made: run(made(), rows, make_event_factory(epoch)), made)
        for rule, made in rules(RECORDED.get(name, USUAL), step)
    }
    before = count_source_descents(rows)
    title = f"{name}: {count(len(rows))} events, {count(before)} descents injected"
    accuracy = {"accuracy %": lambda one, _: f"{100 * one.accuracy(before):.2f}"}
    return compare_entries(title, entries, {**accuracy, **COLUMNS})


def tables(asked: Asked) -> Tables:
    """Measure accuracy against hold for every timeout rule."""
    step = 1 if asked.full else 2
    for name, make in worlds(1 if asked.full else QUICK_DIVISOR).items():
        yield name, partial(lambda of, rows: measure(of, rows(), step), name, make)


command = harness.command(tables)
