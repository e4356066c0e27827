"""Oracle: windows without events and means by time are those of the sorted full input."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Output, window_query
from tests.seeds import seeds_of_today
from tests.topology.window.oracle import (
    Found,
    agree,
    by_key,
    key_of,
    number,
    rendered,
    spans_of,
    values_of,
)
from tests.topology.window.streams import MS, START, disordered, seeded, sorted_events
from tests.topology.window.test_oracle import KINDS, run
from topology.model.event import DATA, Event
from topology.window.settings import EmptyConfig, WindowSettings

SEEDS = seeds_of_today(3)
SPANS = [kind for kind in KINDS if kind not in ("session", "count")]
FILLS = ("zero", "last", "null")
OUTPUTS = (
    Output("n", "count"),
    Output("mean", "time_avg", ("v",)),
    Output("sum", "sum", ("v",)),
    Output("last", "last", ("v",)),
    Output("whose", "max_by", ("key",), by=("v",)),
)
EMPTY = {"n": 0.0, "sum": None, "last": None, "whose": None}


def config_of(
    kind: str, fill: Any, *, keyed: bool = True, for_ms: int = 170, **settings: Any
) -> WindowSettings:
    key = ("key",) if keyed else None
    empty = EmptyConfig(value=fill, for_ns=for_ms * MS) if fill else None
    known = {"outputs": OUTPUTS, "new_source_allowance_ns": 0, "hold_ns": 70 * MS}
    return window_query("q", key=key, empty=empty, **{**known, **KINDS[kind], **settings})


def sparse(rng: Random, n: int) -> list[Event]:
    """As `sorted_events`, with longer silences."""
    events = sorted_events(rng, n)
    for each in events:
        each.ref_time_ns = each.ts_ns = START + 3 * (each.ref_time_ns - START)
    return events


def mean_of(events: Sequence[Event], start: int, end: int, hold_ns: int) -> float | None:
    """The mean of what holds at each ns, by definition."""
    found: list[tuple[int, Any]] = [(e.ref_time_ns, (e.value or {}).get("v")) for e in events]
    points = [(time, v) for time, v in found if number(v)]
    total, known = Fraction(0), 0
    for at, (time, v) in enumerate(points):
        until = min([time + hold_ns, end, *(each[0] for each in points[at + 1 : at + 2])])
        span = max(0, until - max(time, start))
        total, known = total + Fraction(v) * span, known + span
    return float(total / known) if known else None


def expected_of(events: Sequence[Event], config: WindowSettings, newest: int) -> Found:
    """`newest`: the last time that an event in order or one with a key has."""
    found: Found = {}
    size, every = config.windows.size_ns, config.windows.step_ns
    for key, own in by_key(events, config).items():
        told = {span: values_of(each) for span, each in spans_of(own, config).items()}
        starts = sorted({each.ref_time_ns // every * every for each in own})
        start = starts[0]
        while config.empty is not None and start + every <= newest:
            start += every
            last = starts[bisect_right(starts, start) - 1]
            if (start, start + size) in told or start - last - every >= config.empty.for_ns:
                continue
            told[start, start + size] = dict(EMPTY)
            if config.empty.value == "zero":
                told[start, start + size]["sum"] = 0
            if config.empty.value == "last":
                told[start, start + size] = {**told[last, last + size], "n": 0.0}
        for (start, end), values in told.items():
            mean = mean_of(own, start, end, config.hold_ns)
            found[key, start, end] = {
                name: {**values, "whose": values.get("max_by", values.get("whose")), "mean": mean}[
                    name
                ]
                for name in config.outputs
            }
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fill", [*FILLS, ""])
@pytest.mark.parametrize("kind", SPANS)
def test_they_are_those_of_the_oracle(kind: str, fill: str) -> None:
    corrected = empty = 0
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, fill, keyed=seed % 3 > 0, finals=seed % 2 == 0)
        events = sparse(rng, 40)
        for late in (0.0, 0.3, 0.6):
            stream = disordered(rng, copies(events), late=late)
            results = run(config, stream, rng)
            told = rendered(results, config)
            counted = [each for each in stream if not each.late or key_of(each, config)]
            newest = max(each.ref_time_ns for each in counted if each.kind == DATA)
            agree(told, expected_of(events, config, newest))
            corrected += sum(each.op == "update" for each in results)
            empty += sum(values["n"] == 0 for values in told.values())
    assert corrected
    assert empty or not fill
