"""The whole stage with a window, held against Bytewax on the same events.

`crowd` as it arrives (with nothing delayed, and with 12 %), 1 and 20,000 keys, one query: count,
sum, average and maximum of a field in tumbling windows of a second. Ours is REORDER, MERGE and
WINDOW in one stage, exact when all has come; Bytewax folds in its windows, in the order of times or
as events come, and waits half a second. Payloads are decoded already for both, and nothing goes
through a broker. Events per second of CPU; Bytewax in a process of its own, its start-up not
counted. Where it cannot be had it is left out with a line.
"""

from __future__ import annotations

import gc
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.core import cut
from benchmarks.peers.bring import PeerUnavailable, python
from benchmarks.race import ROOT
from benchmarks.tables import Page, Table, count, thousands
from benchmarks.workloads import crowd, to_events
from topology.config import parse
from topology.config.stages import MERGE, REORDER, WINDOW
from topology.flow.stage import Stage
from topology.model.event import Event

BATCH: Final = 1_000
KEYS: Final = (1, 20_000)
DELAYED: Final = (0.0, 0.12)
ROUNDS: Final = 3
TIMEOUT_S: Final = 300.0
OURS: Final = "reorder+merge+window"
BYTEWAX: Final = {"in-order": "Bytewax, in order", "as-they-come": "Bytewax, as they come"}
TOPOLOGY: Final = """\
streams: {default: {}}
stages: [reorder+merge+window]
queries:
  sums:
    window: tumbling 1s
    key: payload.k
    aggregate: {n: count(), sum: sum(payload.v), avg: avg(payload.v), max: max(payload.v)}
"""

Rate = tuple[float, int]
"""Events per CPU second, and results."""


def events_of(number: int, keys: int, delayed: float) -> list[Event]:
    events = to_events(crowd(number, delayed=delayed).rows)
    for i, event in enumerate(events):
        event.value = {"k": (i * 7_919) % keys, "v": (i * 31 % 1_000) / 8}
    return events


def ours(number: int, keys: int, delayed: float) -> Rate:
    stage = Stage(parse(TOPOLOGY), [REORDER, MERGE, WINDOW])
    events = events_of(number, keys, delayed)
    cuts = cut(events, BATCH)
    results = 0
    gc.collect()
    gc.freeze()  # the input is the benchmark's own
    began_s = time.process_time()
    for batch in cuts:
        results += len(stage.on_batch(batch, batch[-1].at_ns).results)
    results += len(stage.on_end(events[-1].at_ns).results)
    spent_s = time.process_time() - began_s
    gc.unfreeze()
    return len(events) / spent_s, results


def write(file: Path, events: Sequence[Event]) -> None:
    lines = (f"{event.ref_time_ns} {event.value['k']} {event.value['v']}\n" for event in events)
    file.write_text("".join(lines))


def bytewax(interpreter: Path, file: Path, way: str, number: int) -> Rate:
    command = [str(interpreter), "-m", "benchmarks.peers.bytewax_stage", str(file), way]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, env=environment
    )
    report = json.loads(done.stdout.splitlines()[-1])
    return number / report["cpu_s"], report["results"]


def measured(page: Page, number: int) -> Table:
    """All in turn, the median of `ROUNDS`."""
    try:
        interpreter = python()
    except PeerUnavailable as absence:
        page.say(f"Bytewax: left out: {absence}")
        interpreter = None
    table = Table(
        f"the whole stage with a window, {count(number)} events of twenty sources, events/s of CPU",
        ("keys", "delayed", "program", "events/s", "of ours", "results"),
    )
    with tempfile.TemporaryDirectory() as folder:
        for keys in KEYS:
            for delayed in DELAYED:
                rounds = in_turn(interpreter, Path(folder), number, keys, delayed)
                own = middle(rounds[OURS])[0]
                for name, each in rounds.items():
                    rate, results = middle(each)
                    cells = thousands(rate), f"{rate / own:.2f}", count(results)
                    table.add(count(keys), f"{delayed:.0%}", name, *cells)
    return table


def in_turn(
    interpreter: Path | None, folder: Path, number: int, keys: int, delayed: float
) -> dict[str, list[Rate]]:
    file = folder / f"{keys}-{delayed}"
    events = events_of(number, keys, delayed)
    write(file, events)
    rounds: dict[str, list[Rate]] = {}
    for _ in range(ROUNDS):
        rounds.setdefault(OURS, []).append(ours(number, keys, delayed))
        if interpreter is None:
            continue
        for way, name in BYTEWAX.items():
            rounds.setdefault(name, []).append(bytewax(interpreter, file, way, len(events)))
    return rounds


def middle(rounds: list[Rate]) -> Rate:
    return sorted(rounds)[len(rounds) // 2]
