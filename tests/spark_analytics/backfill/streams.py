"""Recordings with every kind of trouble, and topologies with queries of every kind, by seed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from spark_analytics.executors.setting import Setting

MS = 1_000_000
START = 1_700_000_000_000 * MS

QUALITY = "quality: {accuracy: 95%, max_wait: 300ms}"
QUERIES = {
    "fixed": "{stream: a, window: tumbling 1s, key: payload.k, aggregate: {n: count()}}",
    "sums": "{stream: b, window: sliding 2s every 500ms, aggregate: {s: sum(payload.v)}}",
    "spoken": "{stream: c, window: session 300ms, aggregate: {n: count()}, finals: true}",
    "counted": "{stream: b, window: count 5, aggregate: {m: max(payload.v)}}",
    "local": "{stream: c, window: tumbling 1s in Asia/Kolkata, key: [payload.k, source],"
    " aggregate: {n: count()}}",
    "filtered": "{stream: b, window: tumbling 1s, where: payload.v > 3 OR type = 'A',"
    " aggregate: {n: count(), low: max(payload.v) where payload.v < 10}}",
    "sure": f"{{stream: a, window: tumbling 2s, aggregate: {{n: count()}}, {QUALITY}}}",
    "near": "{join: interval 50ms, sides: {x: {stream: a}, y: {stream: b}}, outer: full}",
    "newest": "{join: as_of 80ms, sides: {x: {stream: b}, y: {stream: a}}, outer: left}",
    "cells": "{join: tumbling 200ms, sides: {x: {stream: c}, y: {stream: d}}, outer: left}",
    "pairs": '{stream: d, pattern: "PATTERN SEQ(A x, B y) WHERE [k] WITHIN 300 ms"}',
    "without": '{stream: c, pattern: "PATTERN SEQ(A x, !B n, C y) WITHIN 500 ms", finals: true}',
    "sets": '{stream: a, pattern: "PATTERN SEQ(A x, C y) WITHIN 200 ms'
    ' USING skip_till_any MATCHES ALL AS SETS"}',
}
CLOCKS = (
    "{unsynced: trust}",
    "{unsynced: estimate}",
    "{unsynced: reject}",
)
REORDERS = ("rule: fixed, max_wait: 400ms", "rule: fixed, max_wait: 2s, late: side", "late: drop")


def topology(rng: Random) -> str:
    names = "abcd"
    streams = []
    for name in names:
        reorder = rng.choice(REORDERS) if rng.random() < 0.8 else "rule: time"
        if name == "d":  # Source d1 has no sequence numbers (see `recording`).
            reorder = "without_seq: by_time"
        streams.append(f"  {name}: {{clock: {rng.choice(CLOCKS)}, reorder: {{{reorder}}}}}")
    asked = rng.sample(sorted(QUERIES), 4)
    queries = [f"  {name}: {QUERIES[name]}" for name in asked]
    return "\n".join(["streams:", *streams, "queries:", *queries, ""])


FUNCTIONS_PATH = "functions.py"
FUNCTIONS = """\
from inorder.engine import Detector


def step(state, event):
    count = state + 1
    return count, ([{"n": count, "v": event.payload["v"]}] if count % 3 == 0 else [])


detectors = {"third": Detector(step, 0)}
"""
ANSWERS = ("final", "early")
DETECTORS_ANSWER = (
    *ANSWERS,
    "speculate",
    "speculate, speculate: {share: 1%}",
)


def answering(text: str, rng: Random) -> str:
    """Return the topology with detectors, a pattern and a window, of every kind of `answer`.

    Each stream has a detector, and one detector reads the results of another. It uses FUNCTIONS.
    """
    queries = {
        f"found_{name}": f"{{stream: {name}, detector: third, key: payload.k,"
        f" answer: {rng.choice(DETECTORS_ANSWER)}}}"
        for name in "abcd"
    }
    queries["above"] = (
        f"{{stream: d, detector: third, reads: [found_d], answer: {rng.choice(DETECTORS_ANSWER)}}}"
    )
    queries["told"] = (
        '{stream: b, pattern: "PATTERN SEQ(A x, B y) WITHIN 300 ms",'
        f" answer: {rng.choice(ANSWERS)}}}"
    )
    queries["filled"] = (
        "{stream: c, window: tumbling 1s, aggregate: {n: count()},"
        f" answer: {rng.choice(ANSWERS)}}}"
    )
    more = "".join(f"  {name}: {asked}\n" for name, asked in queries.items())
    return f"functions: {FUNCTIONS_PATH}\n{text}{more}"


def some(seed: int, rng: Random, folder: Path) -> Setting:
    """Write a topology by the seed to `t.yaml`; every other one has detectors and answers."""
    text = topology(rng)
    found = Setting(text)
    if seed % 2:
        found = Setting(answering(text, Random(f"answers {seed}")), FUNCTIONS)
        (folder / FUNCTIONS_PATH).write_text(FUNCTIONS)
    (folder / "t.yaml").write_text(found.topology)
    return found


def recording(rng: Random, path: Path, lines: int = 250) -> Path:
    """Write a recording of four streams of two sources, with every kind of trouble.

    Lines are late, lost, duplicate, malformed or blank. There are clock reports, idle sources,
    missing times, and unknown streams.
    """
    seqs: dict[str, int] = {}
    quiet_ms: dict[str, int] = {}
    found: list[tuple[int, str]] = []
    ms = 0
    for _ in range(lines):
        ms += rng.choice((1, 3, 20, 20, 90, 400, 3_000 if rng.random() < 0.1 else 5))
        if rng.random() < 0.02:
            quiet_ms[rng.choice("abcd")] = ms + rng.choice((5_000, 60_000))
        stream = rng.choice([name for name in "abcd" if quiet_ms.get(name, 0) <= ms] or ["a"])
        source = f"{stream}{rng.randrange(2)}"
        seqs[source] = seqs.get(source, -1) + 1
        if rng.random() < 0.03:
            continue
        late_ms = rng.randrange(1_500) if rng.random() < 0.1 else rng.randrange(4)
        line = event(rng, stream, source, seqs[source], ms, late_ms)
        if source == "d1":
            del line["seq"]
        found.append((ms + late_ms, spoil_sometimes(rng, line)))
        if rng.random() < 0.04:
            found.append((ms + late_ms + 3, json.dumps(line)))
        if rng.random() < 0.1:
            found.append((ms, json.dumps(clock(rng, source, ms))))
    found.sort(key=lambda each: each[0])
    path.write_text("\n".join(text for _, text in found) + "\n")
    return path


def event(rng: Random, stream: str, source: str, seq: int, ms: int, late_ms: int) -> dict[str, Any]:
    line: dict[str, Any] = {
        "stream": stream,
        "source": source,
        "seq": seq,
        "ts": START + ms * MS,
        "arrival": START + (ms + late_ms) * MS,
        "type": rng.choice("ABC"),
        "payload": {"v": rng.randint(-9, 9), "k": rng.choice("xy")},
    }
    for key in ("ts", "arrival"):
        if rng.random() < 0.05:
            del line[key]
    return line


def spoil_sometimes(rng: Random, line: dict[str, Any]) -> str:
    """Return the line, or sometimes one that cannot be used."""
    if rng.random() > 0.04:
        return json.dumps(line)
    harm: dict[str, Any] = rng.choice(
        [{"seq": -1}, {"source": 5}, {"stream": "strange"}, {"stream": 7}, {"arrival": "noon"}]
    )
    return rng.choice([json.dumps({**line, **harm}), '{"source":', "", "[1, 2]"])


def clock(rng: Random, source: str, ms: int) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {
            "clock": source,
            "at": START + ms * MS,
            "offset": rng.randrange(9 * MS),
            "error": MS,
        }
    sent = START + ms * MS
    heard = sent + rng.randrange(3 * MS) + MS
    return {"clock": source, "t1": sent, "t2": heard, "t3": heard, "t4": sent + 2 * MS}
