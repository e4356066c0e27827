"""Measure the effect of a clock's error on an average per window (thesis, tables 5.11 and 5.12).

Two sources send D3 with speeds (data/SYNTHETIC.md 1.7). The clock of the second is 5 ms ahead and
is synced. All events go through the whole stage into windows of 10 s and of 1 s. The latter have
ten times as many edges. Three estimators of the average speed use the same events:

* *plain*, `uncertainty: ignore`: the corrected timestamp decides which events are in a window;
* *three windows*, `thesis3`: the mean over the window and its two copies, moved by the largest
  error to either side;
* *expected*: each event is weighted by the share of its error interval that is in the window.

The truth is the average over the same windows by event times. *error* is the mean of |found - true|
over all windows and seeds, in um/s as in the thesis. The RMS is shown beside it. *outside* counts
windows with a true average outside the reported bounds. The clocks are:

* *no sync*: the clock is trusted, 5 ms off. Some 76 events of the second source are on the wrong
  side of an edge. Their error is taken as 0, so the three estimators are equal.
* *0.125 ms one way*, as in the thesis's run: the delay is added on the way to the server. The
  correction is off by half of it, and nothing in the rounds shows it.
* *both ways*: the same delay is added there and back, so that the rounds are symmetric.

The thesis's model has rounds every minute, and ours at the pauses of `inorder.sync`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import sqrt
from typing import Final, NamedTuple

from benchmarks.harness import Columns, Tables, make_table
from benchmarks.synced import (
    AS_CLIENT_DOES,
    THESIS,
    TRUST,
    Method,
    replicate_stream,
    run_events,
    span_of,
    stamp,
)
from benchmarks.tables import Table, count
from benchmarks.workloads import Recipe, soccer
from benchmarks.workloads.clocks import Dial, rounds
from benchmarks.workloads.laws import MS, PAYLOAD, US, S, generator
from benchmarks.workloads.rows import Row
from topology.answer.settings import Uncertainty
from topology.base.event import Event
from topology.base.outcome import Step
from topology.base.result import WindowResult
from topology.queries.window.operator import Windows
from topology.queries.window.settings import Aggregate, Window, WindowQuery

MEANS: Final = (144_123.87, 133_834.17, 138_424.12, 157_036.12, 154_401.79, 138_580.31, 443_901.59)
"""The means of the speeds in um/s, one for each 10 s (table 5.11)."""
MEANS_EVERY_NS: Final = 10 * S

AHEAD_NS: Final = 5 * MS
DELAY_NS: Final = 125 * US
SOURCES: Final = 2
SIZES_NS: Final = (10 * S, 1 * S)
MAX_EDGE_EVENTS: Final = 10_000
"""The largest number of events that may be within the error of an edge; 30 events occur per ms."""

PLAIN: Final = "ignore"
ESTIMATORS: Final[dict[Uncertainty, str]] = {
    PLAIN: "plain",
    "thesis3": "three windows",
    "expected": "expected",
}
THESIS_ERRORS: Final = {"plain": (0.70, 0.99), "three windows": (0.29, 0.36)}
"""The mean and the RMS of the error over seven windows in table 5.12."""


class Clocks(NamedTuple):
    """The clocks of a run; `ways_ns` are the delays added on the ways to the server and back."""

    name: str
    method: Method
    ways_ns: tuple[int, int] = (0, 0)


CLOCKS: Final = (
    Clocks("no sync", TRUST),
    Clocks("0.125 ms one way, thesis's model", THESIS, (DELAY_NS, 0)),
    Clocks("0.125 ms one way", AS_CLIENT_DOES, (DELAY_NS, 0)),
    Clocks("0.125 ms both ways", AS_CLIENT_DOES, (DELAY_NS, DELAY_NS)),
)


@dataclass(slots=True)
class Errors:
    """The errors of one estimator over the windows of all seeds, in um/s."""

    found: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    outside: int = 0

    @property
    def mean(self) -> float:
        return sum(map(abs, self.found)) / len(self.found)

    @property
    def rms(self) -> float:
        return sqrt(sum(each * each for each in self.found) / len(self.found))

    @property
    def width(self) -> float:
        """The mean width of the bounds."""
        return sum(self.widths) / len(self.widths)

    def against(self, other: Errors) -> str:
        return f"{self.mean / other.mean:.2f}" if other.mean else "-"


Measured = dict[tuple[str, int, str], Errors]
"""The errors by clocks, window size and estimator."""


class Speeds:
    """Events with their speeds, and the true averages of their windows."""

    def __init__(self, single: Sequence[Row], seed: int) -> None:
        self._single = single
        rng = generator(seed, PAYLOAD)
        first_ns = span_of(single).first_ns
        self._speeds: dict[tuple[str, int], int] = {}
        sums: dict[tuple[int, int], list[int]] = {}
        for row in replicate_stream(single, SOURCES):
            mean = MEANS[(row.ts_ns - first_ns) // MEANS_EVERY_NS % len(MEANS)]
            speed = round(mean * (0.5 + rng.random()))
            self._speeds[row.source, row.seq] = speed
            for size_ns in SIZES_NS:
                so_far = sums.setdefault((size_ns, row.ts_ns // size_ns * size_ns), [0, 0])
                so_far[0] += speed
                so_far[1] += 1
        self.truth = {window: total / number for window, (total, number) in sums.items()}

    def events(self, dials: dict[str, Dial]) -> Iterator[Event]:
        for event in stamp(replicate_stream(self._single, SOURCES), dials):
            event.value = {"v": self._speeds[event.source, event.seq]}
            yield event


class Estimates:
    """The windows of every size and estimator, which one stage fills."""

    def __init__(self, sizes_ns: Sequence[int]) -> None:
        self.windows = {
            (size_ns, name): Windows("default", _config(size_ns, name))
            for size_ns in sizes_ns
            for name in ESTIMATORS
        }
        self.averages: dict[tuple[int, str, int], tuple[float, float, float]] = {}

    def take_step(self, step: Step) -> None:
        for (size_ns, name), windows in self.windows.items():
            self._note(size_ns, name, windows.on_batch(step.released, step.now_ns))

    def end(self, now_ns: int) -> None:
        for (size_ns, name), windows in self.windows.items():
            self._note(size_ns, name, windows.on_end(now_ns))

    def _note(self, size_ns: int, name: str, step: Step) -> None:
        for result in step.results:
            if not isinstance(result, WindowResult):
                continue
            average, low, high = (each["v"] for each in (result.values, result.low, result.high))
            self.averages[size_ns, name, result.start_ns] = average, low, high


def _config(size_ns: int, uncertainty: Uncertainty) -> WindowQuery:
    return WindowQuery(
        name="speed",
        window=Window("tumbling", size_ns),
        aggregate={"v": Aggregate("avg", ("payload", "v"))},
        uncertainty=uncertainty,
        max_edge_events=MAX_EDGE_EVENTS,
        changes_for_ns=600 * S,
    )


def measure(recipe: Recipe, seeds: int, sizes_ns: Sequence[int] = SIZES_NS) -> Measured:
    measured: Measured = {}
    for seed in range(1, seeds + 1):
        single = soccer(recipe, seed).rows
        speeds = Speeds(single, seed)
        span = span_of(single, SOURCES)
        dials = {"0": Dial(), "1": Dial(AHEAD_NS)}
        for clocks in CLOCKS:
            estimates = Estimates(sizes_ns)
            samples = rounds(
                dials, *span, clocks.method.pauses_s, seed=seed, ways_ns=clocks.ways_ns
            )
            run_events(
                speeds.events(dials), tuple(dials), samples, clocks.method, estimates.take_step
            )
            estimates.end(span.last_ns + S)
            for (size_ns, name, start_ns), (average, low, high) in estimates.averages.items():
                true = speeds.truth.get((size_ns, start_ns))
                if true is None:
                    # By event times, the window has no events; it is just before or after the
                    # stream.
                    continue
                errors = measured.setdefault((clocks.name, size_ns, name), Errors())
                errors.found.append(average - true)
                errors.widths.append(high - low)
                errors.outside += not low <= true <= high
    return measured


COLUMNS: Final[Columns] = {
    "windows": lambda one, _: count(len(one.found)),
    "error um/s": lambda one, _: f"{one.mean:.3g}",
    "of plain": lambda one, plain: one.against(plain),
    "RMS um/s": lambda one, _: f"{one.rms:.3g}",
    "outside": lambda one, _: count(one.outside),
    "width um/s": lambda one, _: f"{one.width:.3g}",
}


def tables_of(recipe: Recipe, seeds: int, sizes_ns: Sequence[int] = SIZES_NS) -> Tables:
    """Yield a table for each kind of clocks and each window size."""
    measured = cache(partial(measure, recipe, seeds, sizes_ns))
    for clocks in CLOCKS:
        for size_ns in sizes_ns:
            name = f"aggregates (tables 5.11, 5.12): {clocks.name}, {size_ns // S} s"
            yield name, partial(_table, name, measured, clocks.name, size_ns)


def _table(name: str, measured: Callable[[], Measured], clocks: str, size_ns: int) -> Table:
    found = {title: measured()[clocks, size_ns, key] for key, title in ESTIMATORS.items()}
    return make_table(name, found, COLUMNS).print(("thesis: error", "RMS"), THESIS_ERRORS)
