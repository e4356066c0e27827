"""States as versions write them: for each case what a worker's changelog holds after half of a log,
and a digest of what the version that wrote it says of the other half.

`python -m tests.agents.state.written_states` writes `states/format_<n>.msgpack` with the version at
hand; whoever raises `STATE_FORMAT` and reads the one before keeps the file of that, so that it is
read for as long as it is said to be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from agents.state import changelog
from agents.state.held import HeldPages
from topology.config import parse
from topology.flow.stage import Stage
from topology.model.event import Event
from topology.model.outcome import Step
from topology.wire.json_lines import event_line, report_line, result_line

MS: Final = 1_000_000
START_NS: Final = 1_700_000_000_000 * MS
BATCH: Final = 7
STAMPED_FROM: Final = 3
"""REORDER's and CLOCK's places come before."""

SPILL_AFTER_NS: Final = 400 * MS
FOLDER: Final = Path(__file__).with_name("states")

WINDOWS: Final = """
  counted: {stream: a, window: tumbling 1s, key: payload.k,
            aggregate: {n: count(), m: avg(payload.v), q: "quantile(payload.v, 0.5)"}}
  spoken: {stream: b, window: session 200ms, key: payload.k, aggregate: {x: max(payload.v)}}
  gliding: {stream: b, window: sliding 1s every 250ms, aggregate: {d: distinct(payload.v)},
            quality: {accuracy: 90%, max_wait: 300ms}}
"""
PATTERNS: Final = """
  climbs: {stream: a, pattern: "PATTERN SEQ(A x, B+ y[], C z) WHERE [k] WITHIN 500 ms"}
  alone: {stream: b, pattern: "PATTERN SEQ(A x, !B y, C z) WHERE x.v < z.v WITHIN 300 ms"}
"""
JOINS: Final = """
  near: {join: interval 40ms, sides: {x: {stream: a}, y: {stream: b}}, key: payload.k, outer: full}
  same: {join: tumbling 500ms, sides: {x: {stream: a}, y: {stream: b}}, outer: left}
"""
STREAMS: Final = "streams: {a: {%s clock: {unsynced: %s}}, b: {%s clock: {unsynced: %s}}}\n"

CASES: Final = {
    "windows": (WINDOWS, "", "trust", ("reorder", "merge", "window")),
    "unsure windows": (WINDOWS, "", "estimate", ("reorder", "merge", "window")),
    "patterns": (PATTERNS, "", "estimate", ("reorder", "merge", "pattern")),
    "joins": (JOINS, "", "trust", ("reorder", "merge", "join")),
    "by time": (WINDOWS, "reorder: {rule: time},", "trust", ("reorder", "merge", "window")),
    "as the thesis": ("", "reorder: {rule: thesis}, merge: {wait: thesis},", "trust", None),
    "reorder alone": ("", "", "trust", ("reorder",)),
}


class Record(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes | None]]


def stage_of(case: str) -> Stage:
    queries, order, unsynced, operators = CASES[case]
    streams = STREAMS % (order, unsynced, order, unsynced)
    topology = parse(streams + (f"queries:\n{queries}" if queries else ""))
    return Stage(topology, list(operators or ("reorder", "merge")))


def events() -> list[Event]:
    """Four sources of two streams: delayed, lost, doubled, up to 1.5 s late."""
    rng = Random(13)
    sent: list[tuple[int, str, str, int, int, str, bytes]] = []
    for number in range(4):
        ts_ns = START_NS
        for seq in range(100):
            ts_ns += rng.randint(1, 60) * MS
            if rng.random() < 0.03:
                continue
            delay_ns = rng.randint(0, 1500 if rng.random() < 0.2 else 80) * MS
            value = json.dumps({"k": rng.randint(0, 2), "v": rng.randint(0, 50)}).encode()
            stream, source = "ab"[number % 2], f"s{number}"
            one = (ts_ns + delay_ns, stream, source, seq, ts_ns, rng.choice("ABC"), value)
            sent.append(one)
            if rng.random() < 0.03:
                sent.append((one[0] + 5 * MS, *one[1:]))
    sent.sort(key=lambda one: one[0])
    return [
        Event(stream, source, -1, seq, ts_ns, at_ns, offset, record_of(offset, at_ns, value),
              value, kind)
        for offset, (at_ns, stream, source, seq, ts_ns, kind, value) in enumerate(sent)
    ]  # fmt: skip


def record_of(offset: int, at_ns: int, value: bytes) -> Record:
    return Record(offset, at_ns // MS, 1, None, value, [])


def halves() -> tuple[list[Event], list[Event]]:
    log = events()
    cut = len(log) // 2 // BATCH * BATCH
    return log[:cut], log[cut:]


def batches(log: list[Event]) -> Iterator[list[Event]]:
    for first in range(0, len(log), BATCH):
        yield log[first : first + BATCH]


def told(step: Step) -> list[str]:
    lines = [event_line(event) for event in step.released]
    lines += [report_line(report, replayed=True) for report in step.reports]
    lines += [result_line(finding) for finding in step.results]
    return [json.dumps(line, sort_keys=True, default=str) for line in lines]


def goes_on(stage: Stage, log: list[Event]) -> str:
    """The digest of what the stage says of the rest of the log, to its end."""
    said: list[str] = []
    for batch in batches(log):
        said += told(stage.on_batch(batch, batch[-1].at_ns))
    now_ns = log[-1].at_ns
    for _ in range(10):
        now_ns += 5_000 * MS
        said += told(stage.on_time(now_ns))
    said += told(stage.on_end(now_ns + 1_000_000 * MS))
    return hashlib.blake2b("\n".join(sorted(said)).encode(), digest_size=8).hexdigest()


def state_of(case: str) -> tuple[dict[bytes, bytes], str]:
    """The changelog after the first half, and the digest of the second."""
    stage = stage_of(case)
    held = HeldPages(SPILL_AFTER_NS, STAMPED_FROM)
    first, second = halves()
    stage.keep_moved()
    state: dict[bytes, bytes] = {}
    for number, batch in enumerate(batches(first)):
        step = stage.on_batch(batch, batch[-1].at_ns)
        held.took(batch)
        held.let_go(step.released, step.reports)
        held.let_go(stage.take_moved())
        if number % 5 == 4:
            cut(stage, held, batch[-1].at_ns, state)
    cut(stage, held, first[-1].at_ns, state)
    return state, goes_on(stage, second)


def cut(stage: Stage, held: HeldPages, now_ns: int, state: dict[bytes, bytes]) -> None:
    changes: dict[str, Any] = {changelog.STATE + k: v for k, v in stage.changes().items()}
    changes.update(held.changes(now_ns))
    for key, value in changelog.encoded(changes).items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"format_{changelog.STATE_FORMAT}.msgpack"
    path.write_bytes(changelog.encode({case: state_of(case) for case in CASES}))
    print(path, path.stat().st_size, "bytes")
