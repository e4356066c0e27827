"""The whole window stage on Bytewax: events as they come, windows of a second by key.

Count, sum, average and maximum of a field in tumbling windows, an event waited for `WAIT_S`; with
`in-order` the events of a window are folded in the order of their times, without it as they come.
Everything is in memory, there is no recovery; copies are not noticed.

    python -m benchmarks.peers.bytewax_stage FILE in-order|as-they-come

FILE has an event in each line, `ns key value`. The answer is one line of JSON: CPU seconds and the
number of results.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import bytewax.operators as op  # type: ignore[import-not-found, unused-ignore]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found, unused-ignore]
from bytewax.operators import windowing  # type: ignore[import-not-found, unused-ignore]
from bytewax.testing import (  # type: ignore[import-not-found, unused-ignore]
    TestingSink,
    TestingSource,
    run_main,
)

WAIT_S: Final = 0.5
BATCH: Final = 1_000

Reading = tuple[datetime, str, float]
Sums = list[float]
"""How many, their sum, the largest; the average follows at the end."""


def add(sums: Sums, reading: Reading) -> Sums:
    value = reading[2]
    sums[0] += 1
    sums[1] += value
    sums[2] = max(sums[2], value)
    return sums


def merged(one: Sums, other: Sums) -> Sums:
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def row_of(result: tuple[str, tuple[int, Sums]]) -> tuple[str, int, dict[str, float]]:
    key, (window, (count, total, most)) = result
    return key, window, {"n": count, "sum": total, "avg": total / count, "max": most}


def read(file: Path) -> list[Reading]:
    readings = []
    for line in file.read_text().splitlines():
        ns, key, value = line.split()
        readings.append((datetime.fromtimestamp(int(ns) / 1e9, UTC), key, float(value)))
    return readings


def flow_of(readings: list[Reading], results: list[Any], *, in_order: bool) -> Dataflow:
    flow = Dataflow("stage")
    events = op.input("events", flow, TestingSource(readings, batch_size=BATCH))
    keyed = op.key_on("key", events, lambda reading: reading[1])
    clock = windowing.EventClock(lambda reading: reading[0], timedelta(seconds=WAIT_S))
    windower = windowing.TumblingWindower(
        length=timedelta(seconds=1), align_to=datetime(2020, 1, 1, tzinfo=UTC)
    )
    windows = windowing.fold_window(
        "windows",
        keyed,
        clock,
        windower,
        lambda: [0, 0.0, float("-inf")],
        add,
        merged,
        ordered=in_order,
    )
    op.output("results", op.map("rows", windows.down, row_of), TestingSink(results))
    return flow


def main() -> None:
    readings = read(Path(sys.argv[1]))
    results: list[Any] = []
    flow = flow_of(readings, results, in_order=sys.argv[2] == "in-order")
    began_s = time.process_time()
    run_main(flow)
    print(json.dumps({"cpu_s": time.process_time() - began_s, "results": len(results)}))


if __name__ == "__main__":
    main()
